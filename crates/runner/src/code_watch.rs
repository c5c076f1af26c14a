//! Finds out whether a program that works in a directory of the user wrote files that run code later, by searching
//! the directory before and after the program.
//!
//! Sandboxes make most existing files of this kind read-only, but a program can create new ones, and some CLI agents
//! run without a sandbox. The user gets a notice about what changed.

use crate::agent_processes::after_end;
use crate::code_stamp::{Stamp, Stamps};
use crate::git_code::{git_code_of, inner_git_dirs, settings_digest};
use crate::linked_code::linked_code_within;
use crate::listing::{Listing, list};
use crate::placeholders::is_placeholder;
use crate::protected_paths::{is_repository, matching_row};
use crate::repositories::is_git_dir;
use crate::settings_code::{SettingsCode, settings_code, unnamed_rows};
use althing_protocol::{
    GIT_DIR, Grant, GrantRoot, Notice, NoticeLevel, PACKAGE_DIRS, RUNS_CODE, RootKind, RunsCode,
    SEALED_NAMES, git_dir_row,
};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of directory entries that each step of a search reads, because the search delays the start of a
/// CLI agent. The steps are: the settings in working directories; all directories except those of packages and
/// builds; those of packages and builds; the code to which git, links and settings lead.
const MAX_ENTRIES: usize = 20_000;
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

#[derive(Clone, Debug, Default)]
pub(crate) struct CodeWatch {
    pub(crate) roots: Vec<PathBuf>,
    /// Directories to which the program has no write access. Git may take code for repositories in them from the
    /// roots.
    pub(crate) elsewhere: Vec<PathBuf>,
    pub(crate) before: Found,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: BTreeMap<PathBuf, (Stamp, &'static RunsCode)>,
    /// Whether there were too many entries to search all of them.
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
            "the agent wrote so many files that not all of them were searched for code that runs later"
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
        let is_writable = |root: &&GrantRoot| root.writable && !grant.planning;
        let (writable, others): (Vec<&GrantRoot>, Vec<&GrantRoot>) =
            grant.roots(RootKind::Context).partition(is_writable);
        let roots: Vec<PathBuf> = writable.into_iter().map(|root| root.path.clone()).collect();
        let others = others.into_iter().map(|root| root.path.clone());
        let elsewhere: Vec<PathBuf> = others.chain(grant.other_dirs.iter().cloned()).collect();
        let searched = (roots.clone(), elsewhere.clone());
        let before = tokio::task::spawn_blocking(move || search(&searched.0, &searched.1)).await;
        Self { roots, elsewhere, before: before.unwrap_or_default() }
    }

    /// `None` if no file that runs code later was created or changed, the search was as complete as the first one, and
    /// the directories where any file counts were searched completely. Misses what a process of the program that is
    /// still running writes later.
    pub(crate) async fn written(self) -> Option<WrittenCode> {
        let (roots, elsewhere) = (self.roots.clone(), self.elsewhere);
        let Ok(now) = tokio::task::spawn_blocking(move || search(&roots, &elsewhere)).await else {
            return Some(WrittenCode { files: Vec::new(), roots: self.roots, is_incomplete: true });
        };
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
            .collect();
        let before = &self.before;
        let is_incomplete = (now.is_incomplete && !before.is_incomplete)
            || (now.are_packages_incomplete && !before.are_packages_incomplete)
            || (now.are_settings_incomplete && !before.are_settings_incomplete)
            || now.are_unknown_incomplete;
        (is_incomplete || !files.is_empty()).then_some(WrittenCode {
            files,
            roots: self.roots,
            is_incomplete,
        })
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

fn search(roots: &[PathBuf], elsewhere: &[PathBuf]) -> Found {
    let mut search = Search::default();
    if roots.is_empty() {
        return search.found;
    }
    // Settings files directly in working directories come first, so that they are found even if there are too many
    // other files.
    let used = elsewhere.iter().filter(|dir| roots.iter().any(|root| dir.starts_with(root)));
    for dir in roots.iter().chain(used) {
        search.add_settings(dir);
    }
    search.found.are_settings_incomplete = !search.run(&mut { MAX_ENTRIES });
    for root in roots {
        search.dirs.push_back(SearchedDir { path: root.clone(), row: None });
    }
    search.found.is_incomplete = !search.run(&mut { MAX_ENTRIES });
    let mut left = MAX_ENTRIES;
    while !search.packages.is_empty() && !search.found.are_packages_incomplete {
        // Packages can contain packages.
        search.dirs = std::mem::take(&mut search.packages);
        search.found.are_packages_incomplete = !search.run(&mut left);
    }
    let repositories = std::mem::take(&mut search.repositories);
    for path in git_code_of(roots, &repositories, elsewhere) {
        search.add_code_of_git(path);
    }
    for code in linked_code_within(roots, MAX_ENTRIES) {
        if let Some(row) = code.row {
            search.add_code(code.path, row);
        }
    }
    let work_dirs: Vec<PathBuf> = roots.iter().chain(elsewhere).cloned().collect();
    let SettingsCode { files, unknown } = settings_code(search.found.files.keys(), &work_dirs, roots);
    for (path, row) in files {
        search.add_code(path, row);
    }
    search.found.is_incomplete |= !search.run(&mut { MAX_ENTRIES });
    search.packages.clear();
    for (path, row) in unknown {
        search.add_code(path, row);
    }
    search.found.are_unknown_incomplete = !search.run(&mut { MAX_ENTRIES });
    search.found
}

#[derive(Default)]
struct Search {
    found: Found,
    stamps: Stamps,
    dirs: VecDeque<SearchedDir>,
    packages: VecDeque<SearchedDir>,
    repositories: Vec<PathBuf>,
}

impl Search {
    /// Searches the directories; `left` is the number of entries that it may read. Returns whether it read all.
    fn run(&mut self, left: &mut usize) -> bool {
        while let Some(dir) = self.dirs.pop_front() {
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
            if !is_complete {
                self.dirs.clear();
                return false;
            }
        }
        true
    }

    fn add_entry(&mut self, dir: &SearchedDir, name: &std::ffi::OsStr, kind: std::fs::FileType) {
        let path = dir.path.join(name);
        let row = dir.row.or_else(|| matching_row(&dir.path, name).filter(|row| !row.ordinary));
        if is_repository(&path) && kind.is_dir() {
            self.add_repository(&path);
            return;
        }
        if is_repository(&path) {
            self.repositories.push(path.clone());
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
            let queue = if is_packages { &mut self.packages } else { &mut self.dirs };
            queue.push_back(SearchedDir { path, row });
        } else if let Some(row) = row.filter(|_| !kind.is_dir()) {
            self.add_file(path, row);
        }
    }

    fn add_settings(&mut self, dir: &Path) {
        let is_exact =
            |row: &&RunsCode| !row.names.iter().any(|name| *name == GIT_DIR || name.starts_with('*'));
        for row in RUNS_CODE.iter().filter(|row| row.protected).filter(is_exact) {
            self.add_code(row.names.iter().fold(dir.to_owned(), |path, name| path.join(name)), row);
        }
    }

    fn add_file(&mut self, path: PathBuf, row: &'static RunsCode) {
        if is_placeholder(&path) {
            return;
        }
        let Ok(data) = path.symlink_metadata() else { return };
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
        self.repositories.push(path.to_owned());
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
mod tests {
    use super::*;
    use std::path::Path;

    fn put(root: &Path, path: &str, text: &str) {
        std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        std::fs::write(root.join(path), text).unwrap();
    }

    #[tokio::test]
    async fn so_many_new_files_that_not_all_are_searched_are_pointed_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        put(root, "src/main.rs", "before");
        let watch = CodeWatch::start(&Grant::project(root.to_owned())).await;
        for n in 0..=MAX_ENTRIES {
            std::fs::File::create(root.join(format!("{n}"))).unwrap();
        }
        put(root, "src/hidden/.envrc", "planted");
        let notice = watch.written().await.unwrap().notice();
        assert!(notice.text.contains("not all of them were searched"), "{}", notice.text);
    }

    #[tokio::test]
    async fn code_for_git_is_named_whatever_the_name_of_its_directory_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        put(&root, ".git/config", "[core]\nhooksPath = tools/hooks\n");
        for path in
            [".git/hooks/pre-push", "tools/hooks/pre-commit", "old/HEAD", "old/objects/x", "old/refs/x"]
        {
            put(&root, path, "before");
        }
        let grant = Grant::project(root.clone());
        let watch = CodeWatch::start(&grant).await;
        put(&root, "old/objects/y", "after");
        put(&root, ".git/config", "[core]\nhooksPath = tools/hooks\n[user]\nname = x\n");
        assert!(watch.written().await.is_none());
        let watch = CodeWatch::start(&grant).await;
        for path in ["target/bare/HEAD", "target/bare/objects/x", "target/bare/refs/x", "target/bare/config"]
        {
            put(&root, path, "after");
        }
        put(&root, "node_modules/x/HEAD", "after");
        put(&root, "node_modules/x/commondir", "after");
        put(&root, ".git/hooks/pre-push", "after");
        put(&root, "tools/hooks/post-commit", "after");
        put(&root, "old/config", "[core]\nfsmonitor = touch x\n");
        let notice = watch.written().await.unwrap().notice().text;
        let expected =
            [".git/hooks/pre-push", "node_modules/x", "old/config", "target/bare", "tools/hooks/post-commit"];
        let named = expected.map(|path| format!("{} (runs code when git", root.join(path).display()));
        assert!(named.iter().all(|named| notice.contains(named)), "{notice}");
        assert_eq!(notice.matches("(runs code").count(), expected.len(), "{notice}");
    }

    #[tokio::test]
    async fn new_and_changed_files_that_run_code_later_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for path in [".envrc", ".vscode/tasks.json", ".git/config", "src/main.rs", ".claude/settings.json"] {
            put(root, path, "before");
        }
        let grant = Grant::project(root.to_owned());
        assert!(CodeWatch::start(&grant).await.written().await.is_none());
        let watch = CodeWatch::start(&grant).await;
        let written =
            [".mcp.json", ".vscode/tasks.json", "althing.yaml", "sub/.git/config", ".claude/agents/x.md"];
        for path in written.iter().chain(&[".git/index", "src/main.rs", "Makefile", "package.json"]) {
            put(root, path, "after");
        }
        let notice = watch.written().await.unwrap().notice();
        for path in [".mcp.json", ".vscode/tasks.json", "althing.yaml", "sub/.git", ".claude/agents/x.md"] {
            assert!(
                notice.text.contains(&format!("{} (runs code when ", root.join(path).display())),
                "{notice:?}"
            );
        }
        for path in [".git/index", "main.rs", "Makefile", "package.json", ".envrc"] {
            assert!(!notice.text.contains(path), "{path}: {notice:?}");
        }
        let planning = Grant { planning: true, ..grant };
        assert!(CodeWatch::start(&planning).await.roots.is_empty());
    }

    #[tokio::test]
    async fn every_file_of_an_existing_repository_that_leads_git_to_code_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let bare = |name: &str| {
            for file in ["HEAD", "objects/x", "refs/x"] {
                put(&root, &format!("{name}/{file}"), "");
            }
        };
        for name in
            ["a/.git", "b/.git", "c/.git", "d/.git", "d/.git/modules/sub", "e/.git", "e/.git/worktrees/w"]
        {
            bare(name);
            put(&root, &format!("{name}/config"), "[core]\nbare = false\n");
        }
        let grant = Grant::project(root.clone());
        assert!(CodeWatch::start(&grant).await.written().await.is_none());
        let watch = CodeWatch::start(&grant).await;
        let padding = format!("# {}\n", "x".repeat(2 << 20));
        put(&root, "a/.git/config", &format!("{padding}[core]\nfsmonitor = touch x\n"));
        std::fs::File::create(root.join("b/.git/config")).unwrap().set_len(65 << 20).unwrap();
        put(&root, "c/.git/commondir", "../../common\n");
        put(&root, "d/.git/modules/sub/hooks/pre-commit", "after");
        put(&root, "d/.git/config", "[extensions]\nworktreeConfig = true\n");
        put(&root, "e/.git/worktrees/w/config.worktree", "[core]\nfsmonitor = touch x\n");
        put(&root, "e/.git/config", "[core]\nworktree = ../../a\n");
        put(&root, "e/.git/modules/new/config", "x");
        let notice = watch.written().await.unwrap().notice().text;
        let expected = [
            "a/.git/config",
            "b/.git/config",
            "c/.git/commondir",
            "d/.git/config",
            "d/.git/modules/sub/hooks/pre-commit",
            "e/.git/config",
            "e/.git/worktrees/w/config.worktree",
        ];
        for path in expected {
            assert!(
                notice.contains(&format!("{} (runs code when git", root.join(path).display())),
                "{notice}"
            );
        }
        assert_eq!(notice.matches("(runs code").count(), expected.len(), "{notice}");
    }
}
