//! Finds out whether an agent or a program that may write in a directory of the user wrote files that run code later, by
//! searching the directory before and after.
//!
//! Sandboxes make most existing files of this kind read-only, but a program can create new ones, and some CLI agents
//! run without a sandbox. The user gets a notice about what changed.

use crate::agent_processes::after_end;
use crate::code_stamp::{Stamp, Stamps};
use crate::git_code::{GitCode, git_code_of, inner_git_dirs, settings_digest};
use crate::linked_code::linked_code_within;
use crate::listing::{Listing, SearchLimits, list};
use crate::placeholders::is_placeholder;
use crate::protected_paths::{is_repository, matching_row};
use crate::repositories::is_git_dir;
use crate::settings_code::{SettingsCode, UNNAMED_OF_GIT, matching_paths, settings_code, unnamed_rows};
use althing_protocol::{
    GIT_DIR, Grant, GrantRoot, Notice, NoticeLevel, PACKAGE_DIRS, RUNS_CODE, RootKind, RunsCode,
    SEALED_NAMES, git_dir_row, runs_code_in,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The maximum size of the paths of all directories that are still to be searched.
const MAX_WAITING_BYTES: usize = 256 << 20;
/// The directory for the output of builds, which can be very large.
const BUILD_DIR: &str = "target";
/// The largest directory of a repository.
const OBJECTS: &str = "objects";
const MAX_PATH: usize = 3_500;
pub(crate) const MAX_NAMED: usize = 10;

static UNSEARCHED: RunsCode = RunsCode {
    names: &[],
    protected: true,
    ordinary: false,
    when: "a file in it does: the directory cannot be searched",
};

/// A file that a command names, for example in `test -e tools/safe || sh fix/x.sh`. Its name is no name of a file.
pub(crate) static DELETED: RunsCode = RunsCode {
    names: &["deleted", "file"],
    protected: true,
    ordinary: false,
    when: "a command that names it does not find it: it was deleted",
};

#[derive(Clone, Debug, Default)]
pub(crate) struct CodeWatch {
    pub(crate) roots: Vec<PathBuf>,
    /// Directories to which the program has no write access. Git may take code for repositories in them from the
    /// roots.
    pub(crate) elsewhere: Vec<PathBuf>,
    pub(crate) before: Found,
    pub(crate) limits: SearchLimits,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: BTreeMap<PathBuf, (Stamp, &'static RunsCode)>,
    /// Whether the search stopped at a limit.
    pub(crate) is_incomplete: bool,
    pub(crate) are_packages_incomplete: bool,
    pub(crate) are_settings_incomplete: bool,
    /// Whether there are too many entries in directories where any file counts, because settings there cannot be
    /// understood.
    pub(crate) are_unknown_incomplete: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct WrittenCode {
    pub(crate) files: Vec<(PathBuf, &'static RunsCode)>,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) is_incomplete: bool,
}

impl WrittenCode {
    pub(crate) fn notice(&self) -> Notice {
        let text = if self.files.is_empty() {
            "there are so many files that not all of them were searched for code that the agent wrote and that runs later"
                .to_owned()
        } else {
            let rest = if self.is_incomplete { "; not all files were searched" } else { "" };
            format!("the agent wrote files that run code later: {}{rest}", name_files(&self.files))
        };
        let hint = Some("look at them before you use the directory".to_owned());
        Notice { level: NoticeLevel::Warning, text, hint }
    }
}

pub(crate) fn name_files(files: &[(PathBuf, &'static RunsCode)]) -> String {
    let named = files.iter().take(MAX_NAMED);
    let named: Vec<String> =
        named.map(|(path, row)| format!("{} ({})", path.display(), row.note())).collect();
    let more = files.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

impl CodeWatch {
    pub(crate) async fn start(grant: &Grant) -> Self {
        let unsearched = Self::of(grant);
        let searched = unsearched.clone();
        match tokio::task::spawn_blocking(move || searched.searched()).await {
            Ok(searched) => searched,
            // Everything that is there afterwards counts as new.
            Err(_) => unsearched,
        }
    }

    pub(crate) fn start_now(grant: &Grant) -> Self {
        Self::of(grant).searched()
    }

    fn searched(self) -> Self {
        let before = search(&self.roots, &self.elsewhere, self.limits);
        Self { before, ..self }
    }

    fn of(grant: &Grant) -> Self {
        let is_writable = |root: &&GrantRoot| root.writable && !grant.planning;
        let (writable, others): (Vec<&GrantRoot>, Vec<&GrantRoot>) =
            grant.roots(RootKind::Context).partition(is_writable);
        let roots: Vec<PathBuf> = writable.into_iter().map(|root| root.path.clone()).collect();
        let others = others.into_iter().map(|root| root.path.clone());
        let elsewhere: Vec<PathBuf> = others.chain(grant.other_dirs.iter().cloned()).collect();
        Self { roots, elsewhere, ..Self::default() }
    }

    /// `None` if no file that runs code later was created or changed, no file that a command names was deleted, and the
    /// search is complete. Misses what a process of the program that is still running writes later.
    pub(crate) async fn written(self) -> Option<WrittenCode> {
        let roots = self.roots.clone();
        match tokio::task::spawn_blocking(move || self.written_now()).await {
            Ok(written) => written,
            Err(_) => Some(WrittenCode { files: Vec::new(), roots, is_incomplete: true }),
        }
    }

    pub(crate) fn written_now(self) -> Option<WrittenCode> {
        let now = search(&self.roots, &self.elsewhere, self.limits);
        let is_new = |path: &Path| {
            let found = now.files.get(path);
            found.is_some_and(|(stamp, _)| {
                self.before.files.get(path).is_none_or(|(before, _)| before != stamp)
            })
        };
        let files: Vec<(PathBuf, &'static RunsCode)> = now
            .files
            .iter()
            // A new repository stands for everything in it.
            .filter(|(path, _)| is_new(path) && !path.ancestors().skip(1).any(is_new))
            .map(|(path, (_, row))| (path.clone(), *row))
            .chain(self.deleted())
            .collect();
        // Also if the first search was incomplete, too: the two may have left out different files.
        let is_incomplete = now.is_incomplete
            || now.are_packages_incomplete
            || now.are_settings_incomplete
            || now.are_unknown_incomplete;
        (is_incomplete || !files.is_empty()).then_some(WrittenCode {
            files,
            roots: self.roots,
            is_incomplete,
        })
    }

    /// The deleted files that commands named. Deleting a file that runs code because of its own name, or one of a git
    /// directory, starts nothing.
    fn deleted(&self) -> impl Iterator<Item = (PathBuf, &'static RunsCode)> {
        let is_named_by_command = |path: &Path, row: &RunsCode| {
            let mut roots = self.roots.iter().filter_map(|root| Some((root, path.strip_prefix(root).ok()?)));
            let is_of_git_dir = |path: &Path| {
                self.before.files.get(path).is_some_and(|(stamp, _)| matches!(stamp, (_, 0, 0, 0)))
            };
            row.protected
                && unnamed_rows().chain([&UNSEARCHED]).all(|other| other != row)
                && roots.all(|(root, below)| runs_code_in(root, below).is_none())
                && !path.ancestors().any(is_of_git_dir)
        };
        let is_missing = |path: &Path| {
            path.symlink_metadata().is_err_and(|error| {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            })
        };
        let named = self
            .before
            .files
            .iter()
            .filter(move |(path, (_, row))| is_missing(path) && is_named_by_command(path, row));
        named.map(|(path, _)| (path.clone(), &DELETED))
    }
}

pub(crate) struct WatchedProgram<'a> {
    watch: Option<CodeWatch>,
    owner: &'a Path,
    /// Called only if this value is dropped before `finish` is done; then after every process of the owner has ended.
    receive: Arc<dyn Fn(Option<WrittenCode>) + Send + Sync>,
}

impl<'a> WatchedProgram<'a> {
    pub(crate) fn new(
        watch: Option<CodeWatch>,
        owner: &'a Path,
        receive: impl Fn(Option<WrittenCode>) + Send + Sync + 'static,
    ) -> Self {
        Self { watch, owner, receive: Arc::new(receive) }
    }

    pub(crate) async fn finish(mut self) -> Option<WrittenCode> {
        // The watch is removed only after the search: if this future is dropped during the search, `drop` needs the
        // watch.
        let watch = self.watch.as_ref()?.clone();
        let written = watch.written().await;
        self.watch = None;
        written
    }
}

impl Drop for WatchedProgram<'_> {
    fn drop(&mut self) {
        let Some(watch) = self.watch.take() else { return };
        let receive = Arc::clone(&self.receive);
        after_end(self.owner, async move {
            receive(watch.written().await);
        });
    }
}

struct SearchedDir {
    path: PathBuf,
    row: Option<&'static RunsCode>,
}

fn search(roots: &[PathBuf], elsewhere: &[PathBuf], limits: SearchLimits) -> Found {
    let mut search = Search::new(limits);
    if roots.is_empty() {
        return search.found;
    }
    // Code directly in working directories, and in the directories above them, comes first, so that it is found even if
    // there are too many other files.
    let inside = |dir: &&Path| roots.iter().any(|root| dir.starts_with(root));
    let used = roots.iter().chain(elsewhere).flat_map(|dir| dir.ancestors().take_while(inside));
    for dir in used.collect::<BTreeSet<&Path>>() {
        search.add_settings(dir);
    }
    search.found.are_settings_incomplete = !search.run(&mut { limits.entries });
    for root in roots {
        search.add_root(root);
    }
    search.found.is_incomplete = !search.run(&mut { limits.entries });
    let mut left = limits.entries;
    while !search.packages.is_empty() && !search.found.are_packages_incomplete {
        // Packages can contain packages.
        search.dirs = std::mem::take(&mut search.packages);
        search.found.are_packages_incomplete = !search.run(&mut left);
    }
    let repositories: Vec<PathBuf> = std::mem::take(&mut search.repositories).into_iter().collect();
    let GitCode { paths, unknown: unknown_of_git, .. } = git_code_of(roots, &repositories, elsewhere);
    for path in paths {
        search.add_code_of_git(path);
    }
    // The links are in directories of both kinds.
    for code in linked_code_within(roots, limits.entries.saturating_mul(2)) {
        if let Some(row) = code.row {
            search.add_code(code.path, row);
        }
    }
    let work_dirs: Vec<PathBuf> = roots.iter().chain(elsewhere).cloned().collect();
    let SettingsCode { files, unknown } = settings_code(search.found.files.keys(), &work_dirs, roots);
    for (path, row) in files {
        search.add_code(path, row);
    }
    search.found.is_incomplete |= !search.run(&mut { limits.entries });
    search.packages.clear();
    let of_git = unknown_of_git.into_iter().map(|path| (path, &UNNAMED_OF_GIT));
    for (path, row) in unknown.into_iter().chain(of_git) {
        search.add_code(path, row);
    }
    search.found.are_unknown_incomplete = !search.run(&mut { limits.entries });
    search.found
}

struct Search {
    limits: SearchLimits,
    started: Instant,
    found: Found,
    stamps: Stamps,
    dirs: VecDeque<SearchedDir>,
    packages: VecDeque<SearchedDir>,
    repositories: BTreeSet<PathBuf>,
    waiting_bytes: usize,
    /// Whether there were too many files that run code later, or too many directories at once.
    is_full: bool,
}

impl Search {
    fn new(limits: SearchLimits) -> Self {
        Self {
            limits,
            started: Instant::now(),
            found: Found::default(),
            stamps: Stamps::default(),
            dirs: VecDeque::new(),
            packages: VecDeque::new(),
            repositories: BTreeSet::new(),
            waiting_bytes: 0,
            is_full: false,
        }
    }

    /// Searches the directories; `left` is the number of entries that it may read. Returns whether it read all.
    fn run(&mut self, left: &mut usize) -> bool {
        while let Some(dir) = self.dirs.pop_front() {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(dir.path.as_os_str().len());
            let Listing { names, is_hidden } = list(&dir.path, *left + 1);
            if is_hidden {
                self.add_file(dir.path.clone(), &UNSEARCHED);
            }
            let is_complete = names.len() <= *left;
            *left = left.saturating_sub(names.len());
            let is_git_dir = is_git_dir(&names);
            if is_git_dir {
                self.add_repository(&dir.path);
            }
            for (name, kind) in names {
                if is_git_dir && name == OBJECTS && kind.is_dir() {
                    self.packages.push_back(SearchedDir { path: dir.path.join(name), row: dir.row });
                } else {
                    self.add_entry(&dir, &name, kind);
                }
            }
            if !is_complete || self.is_full || self.started.elapsed() > self.limits.time {
                self.dirs.clear();
                return false;
            }
        }
        !self.is_full
    }

    /// If the root is itself settings, or directly in a directory of settings, everything in it counts.
    fn add_root(&mut self, root: &Path) {
        let names = root.ancestors().take(2).filter_map(|path| Some((path.parent()?, path.file_name()?)));
        let row = names.filter_map(|(dir, name)| matching_row(dir, name)).find(|row| !row.ordinary);
        match row {
            Some(row) if !root.is_dir() => self.add_code(root.to_owned(), row),
            row => self.dirs.push_back(SearchedDir { path: root.to_owned(), row }),
        }
    }

    fn add_entry(&mut self, dir: &SearchedDir, name: &std::ffi::OsStr, kind: std::fs::FileType) {
        let path = dir.path.join(name);
        let row = dir.row.or_else(|| matching_row(&dir.path, name).filter(|row| !row.ordinary));
        if is_repository(&path) && kind.is_dir() {
            self.add_repository(&path);
            return;
        }
        if is_repository(&path) {
            self.repositories.insert(path.clone());
        }
        let is_unnamed = |row: &&RunsCode| unnamed_rows().any(|known| known == *row);
        let is_sealed = || SEALED_NAMES.iter().any(|known| name == *known);
        if let Some(row) = dir.row.filter(|row| kind.is_dir() && is_sealed() && is_unnamed(row)) {
            // Of a directory such as `.althing`, only the creation is noted: Althing itself writes in it, and
            // programs in a sandbox cannot.
            self.add_inode(&path, row);
            return;
        }
        if kind.is_dir() && path.as_os_str().len() > MAX_PATH {
            self.add_file(path, &UNSEARCHED);
        } else if kind.is_dir() {
            let is_packages = name == BUILD_DIR || PACKAGE_DIRS.iter().any(|known| name == *known);
            self.waiting_bytes += path.as_os_str().len();
            self.is_full |= self.waiting_bytes > MAX_WAITING_BYTES;
            let queue = if is_packages { &mut self.packages } else { &mut self.dirs };
            queue.push_back(SearchedDir { path, row });
        } else if let Some(row) = row.filter(|_| !kind.is_dir()) {
            self.add_file(path, row);
        }
    }

    /// Adds what runs code in a directory itself, without those below it.
    fn add_settings(&mut self, dir: &Path) {
        for row in RUNS_CODE.iter().filter(|row| !row.ordinary) {
            for path in matching_paths(dir, row.names) {
                if is_repository(&path) && path.is_dir() {
                    self.add_repository(&path);
                } else {
                    self.add_code(path, row);
                }
            }
        }
        let git_dir = dir.join(GIT_DIR);
        if git_dir.symlink_metadata().is_ok() {
            self.repositories.insert(git_dir);
        }
        if althing_protocol::is_git_dir(|name| dir.join(name).symlink_metadata().is_ok()) {
            self.add_repository(dir);
        }
    }

    fn add_file(&mut self, path: PathBuf, row: &'static RunsCode) {
        if is_placeholder(&path) {
            return;
        }
        let Ok(data) = path.symlink_metadata() else { return };
        if self.found.files.len() >= self.limits.files && !self.found.files.contains_key(&path) {
            self.is_full = true;
            return;
        }
        let stamp = self.stamps.of(&path, &data);
        let known = self.found.files.entry(path).or_insert((stamp, row));
        if row.protected && !known.1.protected {
            known.1 = row;
        }
    }

    /// Adds a git directory and the git directories inside it (of submodules and worktrees). Git commands change
    /// their content all the time, so only a new git directory, and changes of configs, `commondir` and hooks, are
    /// reported.
    fn add_repository(&mut self, path: &Path) {
        let Some(row) = git_dir_row() else { return };
        self.repositories.insert(path.to_owned());
        for dir in inner_git_dirs(path).into_iter().chain([path.to_owned()]) {
            if !self.add_inode(&dir, row) {
                continue;
            }
            for name in ["config", "config.worktree"] {
                self.add_config(dir.join(name), row);
            }
            // Git never changes the `commondir` of a worktree, so any change of it is reported.
            self.add_file(dir.join("commondir"), row);
            self.add_code_of_git(dir.join("hooks"));
        }
    }

    /// Adds a directory of which only the creation is reported. Returns whether it exists.
    fn add_inode(&mut self, dir: &Path, row: &'static RunsCode) -> bool {
        let data = dir.symlink_metadata().ok().filter(|_| !is_placeholder(dir));
        let stamp = data.map(|data| (data.ino(), 0, 0, 0));
        stamp.map(|stamp| self.found.files.entry(dir.to_owned()).or_insert((stamp, row))).is_some()
    }

    /// A config of git is reported if settings with which git runs code change or, if the config cannot be read, if
    /// the file changes at all.
    fn add_config(&mut self, path: PathBuf, row: &'static RunsCode) {
        match settings_digest(&path) {
            Some(settings) => {
                self.found.files.entry(path).or_insert(((settings, 0, 0, 0), row));
            }
            None => self.add_file(path, row),
        }
    }

    fn add_code_of_git(&mut self, path: PathBuf) {
        let Some(row) = git_dir_row() else { return };
        self.add_code(path, row);
    }

    fn add_code(&mut self, path: PathBuf, row: &'static RunsCode) {
        match path.symlink_metadata() {
            Ok(data) if data.is_dir() => {
                self.dirs.push_front(SearchedDir { path, row: Some(row) });
            }
            Ok(_) => self.add_file(path, row),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
#[path = "code_watch_tests.rs"]
mod tests;
