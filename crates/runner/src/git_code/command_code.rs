//! The one place that works out which files a command could run: a command in a config of git, or one in the settings
//! of a CLI agent or an editor.

use super::command::{ENTRY_FILES, EXTENSIONS, Mentions};
use super::config::{UserConfig, expanded};
use super::repository::Repository;
use super::unnamed::{files_of_package_runners, reads_directories, runs_everything};
use super::{CodePaths, canonical};
use crate::policy::without_dots;
use althing_protocol::package_dir;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::FileType;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const MAX_DEPTH: usize = 8;
const MAX_LOOKUPS: usize = 5_000_000;

/// What commands may run. The paths are canonical or symlinks.
#[derive(Debug, Default)]
pub(crate) struct CommandCode {
    /// The files and directories that the commands name.
    pub(crate) named: BTreeSet<PathBuf>,
    /// What the commands also run, without naming it: the scripts of `npm run`, the files in a directory.
    pub(crate) unnamed: BTreeSet<PathBuf>,
    /// Whether the commands could run any file.
    pub(crate) is_unknown: bool,
}

/// What existing files inside the directories `roots` the commands may run in any of the directories `tops`.
pub(crate) fn command_code(roots: &[PathBuf], tops: &[PathBuf], commands: &[Vec<u8>]) -> CommandCode {
    let (roots, tops, home) = (canonical(roots), canonical(tops), UserConfig::home());
    let Some(top) = tops.first().cloned() else { return CommandCode::default() };
    let place = Repository { top, tree: None, git_dirs: Vec::new(), leads: Vec::new() };
    let (mut code, mut found) = (CommandCode::default(), Vec::new());
    for which in [Which::Existing, Which::AlsoUnnamed] {
        let mut paths = CodePaths::new(&roots, home.as_deref());
        for command in commands {
            code.is_unknown |= !paths.add_command(command, which, &tops, &place);
        }
        found.push(paths.found);
    }
    code.unnamed = found.pop().unwrap_or_default();
    code.named = found.pop().unwrap_or_default();
    code.unnamed.retain(|path| !code.named.contains(path));
    code
}

pub(super) type Listing = Rc<HashMap<Vec<u8>, Vec<(OsString, FileType)>>>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Existing files, and paths that do not exist.
    AlsoMissing,
    Existing,
    /// Existing files, and those that patterns and variables may stand for.
    AlsoPatterns,
    /// Existing files, and what the command runs without naming it.
    AlsoUnnamed,
    Executable,
}

impl Which {
    fn has_patterns(self) -> bool {
        matches!(self, Self::AlsoPatterns | Self::AlsoUnnamed)
    }
}

impl CodePaths<'_> {
    /// Returns false if it is unknown what the command runs.
    pub(super) fn add_command(
        &mut self,
        command: &[u8],
        which: Which,
        tops: &[PathBuf],
        repository: &Repository,
    ) -> bool {
        let Some(mentions) = Mentions::of(command) else { return false };
        if (which == Which::AlsoUnnamed && runs_everything(&mentions))
            || (which.has_patterns() && !self.add_run(&mentions, tops, repository))
        {
            return false;
        }
        let reads_directories = reads_directories(&mentions, which == Which::AlsoUnnamed);
        // The value 1 stands for a directory that the command names, 0 for one in which it runs.
        let mut dirs: BTreeMap<PathBuf, usize> = tops.iter().map(|top| (top.clone(), 0)).collect();
        for (n, word) in mentions.words.iter().enumerate() {
            for base in tops.iter().chain(&repository.git_dirs) {
                let Some(path) = word.path(base, self.home) else { continue };
                match path.metadata() {
                    Ok(data) if data.is_dir() => drop(dirs.insert(path, 1)),
                    Ok(_) => self.add_file(&path, which),
                    Err(_) if which == Which::AlsoMissing && tops.contains(base) => {
                        self.add_missing(&path, n == 0, mentions.has_interpreter);
                    }
                    Err(_) => {}
                }
            }
        }
        if let Some(path) = hooks_in(command) {
            let path = expanded(path, self.home);
            for base in tops {
                self.add_hooks(base, &path, &repository.top);
            }
        }
        let mut searched = BTreeSet::new();
        let mut dirs: Vec<(PathBuf, usize)> = dirs.into_iter().collect();
        while let Some((dir, depth)) = dirs.pop() {
            if depth > MAX_DEPTH || !searched.insert(dir.clone()) {
                continue;
            }
            self.lookups += mentions.names.len();
            if self.lookups > MAX_LOOKUPS {
                return false;
            }
            let name = dir.file_name().map(|name| name.as_bytes().to_ascii_lowercase()).unwrap_or_default();
            let may_run = || mentions.run_directories.iter().any(|dir| dir.name().as_ref() == Some(&name));
            if mentions.searched_dirs.contains(&name) || (which.has_patterns() && may_run()) {
                self.add_unless_around(Path::new("/"), &dir, &repository.top);
            }
            if which.has_patterns() {
                self.add_unnamed(&dir, &mentions, which);
            }
            let is_dir =
                |(path, kind): &(PathBuf, FileType)| kind.is_dir() || (kind.is_symlink() && path.is_dir());
            let (inner, files): (Vec<_>, Vec<_>) =
                self.mentioned_in(&dir, &mentions, depth).into_iter().partition(is_dir);
            if reads_directories && depth > 0 && inner.is_empty() {
                self.add_unless_around(Path::new("/"), &dir, &repository.top);
            }
            dirs.extend(inner.into_iter().map(|(path, _)| (path, depth + 1)));
            for (path, _) in files {
                self.add_file(&path, which);
            }
        }
        true
    }

    /// Adds the directories of which the command may run any file. Returns false if one of them is or contains a top
    /// directory or a root.
    fn add_run(&mut self, mentions: &Mentions, tops: &[PathBuf], repository: &Repository) -> bool {
        for run in &mentions.run_directories {
            for top in tops {
                let named = run.dir.place(top, self.home);
                let Some(path) = named.canonicalize().ok().filter(|path| path.is_dir()) else { continue };
                if tops.contains(&path) && !run.is_whole() {
                    // The pattern is compared with the names of the files in it.
                    continue;
                }
                if tops.iter().chain(self.roots).any(|dir| run.leads_to(&path, dir)) {
                    return false;
                }
                self.add_unless_around(Path::new("/"), &named, &repository.top);
            }
        }
        true
    }

    fn add_unnamed(&mut self, dir: &Path, mentions: &Mentions, which: Which) {
        for name in files_of_package_runners(mentions).filter(|_| which == Which::AlsoUnnamed) {
            let path = dir.join(name);
            if path.symlink_metadata().is_ok() {
                self.add(Path::new("/"), &path);
            }
        }
        let listing = self.listing(dir);
        for (name, files) in &*listing {
            if mentions.patterns.iter().any(|pattern| pattern.matches(name)) {
                for (name, _) in files {
                    self.add(Path::new("/"), &dir.join(name));
                }
            }
        }
    }

    fn mentioned_in(&mut self, dir: &Path, mentions: &Mentions, depth: usize) -> Vec<(PathBuf, FileType)> {
        let listing = self.listing(dir);
        let entries = |name: &[u8]| listing.get(name).into_iter().flatten();
        let mut found: Vec<&(OsString, FileType)> =
            mentions.names.iter().flat_map(|name| entries(name)).collect();
        if mentions.has_interpreter {
            let is_script = |entry: &&(OsString, FileType)| {
                let name = entry.0.as_bytes().to_ascii_lowercase();
                EXTENSIONS.iter().any(|extension| {
                    name.strip_suffix(extension.as_bytes()).is_some_and(|stem| mentions.names.contains(stem))
                })
            };
            found.extend(listing.values().flatten().filter(is_script));
            // The depth is 0 only in a directory in which the command runs.
            if depth > 0 {
                found.extend(ENTRY_FILES.iter().flat_map(|name| entries(name.as_bytes())));
            }
        }
        found.into_iter().map(|(name, kind)| (dir.join(name), *kind)).collect()
    }

    fn listing(&mut self, dir: &Path) -> Listing {
        let list = || {
            let mut names: HashMap<Vec<u8>, Vec<(OsString, FileType)>> = HashMap::new();
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let (name, kind) = (entry.file_name(), entry.file_type());
                let known = names.entry(name.as_bytes().to_ascii_lowercase()).or_default();
                known.extend(kind.ok().map(|kind| (name, kind)));
            }
            Rc::new(names)
        };
        Rc::clone(self.listings.entry(dir.to_owned()).or_insert_with(list))
    }

    fn add_file(&mut self, path: &Path, which: Which) {
        let is_executable = || path.metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
        if which != Which::Executable || is_executable() {
            self.add(Path::new("/"), path);
        }
    }

    /// Adds a path that does not exist, unless it is a pattern. The program may be anywhere, but other paths must be
    /// in an existing directory: not everything with a slash is a path.
    fn add_missing(&mut self, path: &Path, is_program: bool, has_interpreter: bool) {
        let path = without_dots(path);
        let is_pattern = path.as_os_str().as_bytes().iter().any(|byte| b"*?[".contains(byte));
        if is_pattern || (!is_program && !path.parent().is_some_and(Path::is_dir)) {
            return;
        }
        // The program of a package appears when the packages are installed, so its path must stay writable.
        let is_package =
            |root: &PathBuf| path.strip_prefix(root).is_ok_and(|path| package_dir(path).is_some());
        if self.roots.iter().any(is_package) {
            return;
        }
        self.add(Path::new("/"), &path);
        if has_interpreter && !is_program {
            for extension in EXTENSIONS.iter().take(3) {
                let mut name = path.clone().into_os_string();
                name.push(extension);
                self.add(Path::new("/"), Path::new(&name));
            }
        }
    }
}

/// The directory of hooks that a command such as `git -c core.hooksPath=tools/hooks commit` names.
fn hooks_in(command: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"core.hookspath";
    let at = command.windows(NAME.len()).position(|part| part.eq_ignore_ascii_case(NAME))?;
    let is_between = |byte: &u8| b"= \t'\"\\".contains(byte);
    let rest = command.get(at + NAME.len()..)?;
    let start = rest.iter().position(|byte| !is_between(byte))?;
    let path = rest.get(start..)?;
    path.split(|byte| is_between(byte) || *byte == b';').next().filter(|path| !path.is_empty())
}
