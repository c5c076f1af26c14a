//! Finds the files outside of git directories from which git takes code (hooks, programs in configs), so that agents
//! cannot write to them.
//!
//! Git is never asked, because it runs code while it answers; its config files are read instead. Where it is
//! uncertain what git would run, too much is protected rather than too little.

mod command;
mod command_code;
mod config;
mod config_syntax;
mod directories;
mod overrides;
mod places;
mod repository;
mod settings;
mod startup;
#[cfg(test)]
mod tests;
mod unnamed;

pub(crate) use command_code::{CommandCode, command_code};
pub(crate) use overrides::{GitOverrides, UnknownCode};
pub(crate) use places::places;
pub(crate) use repository::inner_git_dirs;
pub use startup::startup_code;

use crate::listing::MAX_ENTRIES;
use crate::repositories::{MAX_BYTES, try_read_file};
use althing_protocol::GIT_DIR;
use command_code::{Listing, Which};
use config::{Config, ConfigFile, UserConfig, expanded};
use repository::{Repository, around, is_in_git_dir, repositories, repositories_near_the_top};
use settings::{HOOKS, Named};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The maximum number of entries that are searched in the directories `elsewhere` of [`git_code`].
const MAX_ENTRIES_ELSEWHERE: usize = 100_000;
const MAX_HOOKS: usize = 200;
/// The maximum size of all commands in the configs of one repository.
const MAX_COMMAND_BYTES: usize = 256 << 10;

/// What git runs in directories of the user. The paths are canonical or symlinks, and need not exist: git would use a
/// path as soon as it exists.
#[derive(Debug, Default)]
pub struct GitCode {
    /// The paths inside the writable directories from which git takes code, or that lead git to code: directories of
    /// hooks, included config files, programs that configs name, and git directories under other names than `.git`.
    pub paths: Vec<PathBuf>,
    /// Those of the paths that are config files.
    pub config_files: Vec<PathBuf>,
    /// The writable directories (canonical) of which git could run any file: directories in or around which a
    /// repository's config cannot be read, is too large or names too much, and directories inside git directories.
    pub unknown: Vec<PathBuf>,
}

/// Finds what git runs in the `writable` directories of the user. Git may also run code from the writable directories
/// for repositories in the directories `others`, which are read-only, and in the directories `elsewhere`, in which
/// other agents and the user work. In the directories `elsewhere`, only repositories near the top are found.
pub fn git_code(writable: &[PathBuf], others: &[PathBuf], elsewhere: &[PathBuf]) -> GitCode {
    code_within(writable, others, elsewhere, MAX_ENTRIES, &UserConfig::read())
}

/// What a search for written code needs, for three kinds of repositories: those around the `roots`, those whose `.git`
/// or git directory is in `found`, and those in and around the directories `elsewhere`. Unlike [`git_code`], this also
/// finds files that commands name only by patterns for directories; to protect them would make too much read-only.
pub(crate) fn git_code_of(roots: &[PathBuf], found: &[PathBuf], elsewhere: &[PathBuf]) -> GitCode {
    let roots = canonical(roots);
    let real = |path: &PathBuf| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
    let found = found.iter().filter_map(real).flat_map(|path| Repository::all_at(&path));
    let around = roots.iter().flat_map(|root| around(root));
    let all = around.chain(found).chain(repositories_elsewhere(elsewhere, &roots));
    let paths = CodePaths { is_for_search: true, ..CodePaths::new(&roots, None) };
    code_in(paths, all, &UserConfig::read())
}

fn repositories_elsewhere(dirs: &[PathBuf], searched: &[PathBuf]) -> Vec<Repository> {
    let dirs: BTreeSet<PathBuf> = canonical(dirs).into_iter().collect();
    let mut found: Vec<Repository> = dirs.iter().flat_map(|dir| around(dir)).collect();
    found.extend(repositories_near_the_top(&dirs, searched, MAX_ENTRIES_ELSEWHERE));
    found
}

fn code_within(
    writable: &[PathBuf],
    others: &[PathBuf],
    elsewhere: &[PathBuf],
    max_entries: usize,
    user: &UserConfig,
) -> GitCode {
    let writable = canonical(writable);
    if writable.is_empty() {
        return GitCode::default();
    }
    let all: Vec<PathBuf> = canonical(others).into_iter().chain(writable.iter().cloned()).collect();
    let is_inside =
        |root: &Path| root.ancestors().skip(1).any(|above| all.iter().any(|other| other == above));
    let outermost: BTreeSet<&PathBuf> = all.iter().filter(|root| !is_inside(root)).collect();
    let mut entries = 0;
    let inside: Vec<Repository> =
        outermost.iter().flat_map(|root| repositories(root, &mut entries, max_entries).all).collect();
    let around = outermost.iter().flat_map(|root| around(root));
    let elsewhere = repositories_elsewhere(elsewhere, &all);
    let paths = CodePaths::new(&writable, None);
    let mut code = code_in(paths, around.chain(inside).chain(elsewhere), user);
    code.unknown.extend(writable.into_iter().filter(|root| is_in_git_dir(root)));
    code
}

/// The path itself, the symlinks on the way with their targets and, if the path is a directory, the symlinks directly
/// in it with their targets.
pub fn own_places(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().take(MAX_HOOKS);
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let paths = [path.to_owned()].into_iter().chain(links.map(|entry| entry.path()));
    paths.flat_map(|path| places(Path::new("/"), &path)).collect()
}

fn canonical(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
}

fn code_in<'a>(
    paths: CodePaths<'a>,
    repositories: impl Iterator<Item = Repository>,
    user: &'a UserConfig,
) -> GitCode {
    let mut paths = CodePaths { home: user.home.as_deref(), ..paths };
    let roots = paths.roots;
    for file in &user.config.files {
        paths.add_config(file);
    }
    // Settings of the user can name files in a directory that contains no repository.
    let nowhere = Repository { top: PathBuf::from("/"), tree: None, git_dirs: Vec::new(), leads: Vec::new() };
    for repository in repositories.chain([nowhere]) {
        paths.add_repository(&repository, user);
    }
    let CodePaths { found, config_files, git_dirs, unknown, .. } = paths;
    // A `.git` may lead to a root or to a directory outside the roots, which are not protected. Any other git
    // directory is protected as a whole, so the paths in it are left out.
    let git_dirs: Vec<PathBuf> =
        git_dirs.into_iter().filter(|dir| !roots.contains(dir) && found.contains(dir)).collect();
    let is_in_repository = |path: &PathBuf| {
        let is_named =
            |above: &&Path| above.file_name().is_some_and(|name| name.eq_ignore_ascii_case(GIT_DIR));
        path.ancestors().filter(is_named).any(|above| above.symlink_metadata().is_ok())
            || git_dirs.iter().any(|dir| path != dir && path.starts_with(dir))
    };
    let paths: Vec<PathBuf> = found.into_iter().filter(|path| !is_in_repository(path)).collect();
    GitCode {
        config_files: config_files.into_iter().filter(|path| paths.contains(path)).collect(),
        paths,
        unknown: unknown.into_iter().collect(),
    }
}

struct CodePaths<'a> {
    roots: &'a [PathBuf],
    home: Option<&'a Path>,
    found: BTreeSet<PathBuf>,
    config_files: BTreeSet<PathBuf>,
    git_dirs: Vec<PathBuf>,
    unknown: BTreeSet<PathBuf>,
    listings: BTreeMap<PathBuf, Listing>,
    lookups: usize,
    is_for_search: bool,
}

impl<'a> CodePaths<'a> {
    fn new(roots: &'a [PathBuf], home: Option<&'a Path>) -> Self {
        Self {
            roots,
            home,
            found: BTreeSet::new(),
            config_files: BTreeSet::new(),
            git_dirs: Vec::new(),
            unknown: BTreeSet::new(),
            listings: BTreeMap::new(),
            lookups: 0,
            is_for_search: false,
        }
    }

    fn add_repository(&mut self, repository: &Repository, user: &UserConfig) {
        let mut own = Config::default();
        for dir in &repository.git_dirs {
            self.add(Path::new("/"), dir);
            self.git_dirs.push(dir.clone());
            for name in ["config", "config.worktree"] {
                own.add_file(&ConfigFile::new(dir, name), self.home, 0);
            }
            self.add_hooks(dir, Path::new("hooks"), &repository.top);
        }
        self.keep(repository.leads.clone());
        for file in &own.files {
            self.add_config(file);
        }
        // Git runs most code in the top directory, but the hooks of a received push (such as `pre-receive`) in the git
        // directory.
        let mut tops: Vec<PathBuf> = [&repository.top].into_iter().chain(&repository.tree).cloned().collect();
        for setting in &own.settings {
            if let Some(Named::WorkTree(path)) = settings::named(setting) {
                let path = expanded(&path, self.home);
                for dir in &repository.git_dirs {
                    self.keep_links(&places(dir, &path));
                    tops.extend(dir.join(&path).canonicalize());
                }
            }
        }
        self.lookups = 0;
        let (mut bytes, mut is_known) = (0, !own.is_incomplete);
        let of_user = user.config.settings.iter().map(|setting| (setting, false));
        for (setting, is_own) in of_user.chain(own.settings.iter().map(|setting| (setting, true))) {
            let bases = || tops.iter().chain(&repository.git_dirs);
            match settings::named(setting) {
                Some(Named::Hooks(path)) => {
                    let path = expanded(&path, self.home);
                    for base in bases() {
                        self.add_hooks(base, &path, &repository.top);
                    }
                }
                Some(Named::Template(path)) => {
                    let path = expanded(&path, self.home);
                    for base in bases() {
                        self.add_unless_around(base, &path, &repository.top);
                        self.add_hooks(base, &path.join("hooks"), &repository.top);
                    }
                }
                Some(Named::Command(text)) => {
                    bytes += text.len();
                    is_known &= bytes <= MAX_COMMAND_BYTES
                        && self.add_command(&text, Which::AlsoMissing, &tops, repository);
                    // What the user's own config runs in every repository may not make every file suspicious.
                    if self.is_for_search {
                        let is_resolved = self.add_command(&text, Which::AlsoPatterns, &tops, repository);
                        is_known &= is_resolved || !is_own;
                    }
                }
                Some(Named::Arguments(text)) => {
                    bytes += text.len();
                    is_known &= bytes <= MAX_COMMAND_BYTES
                        && self.add_command(&text, Which::Existing, &tops, repository);
                }
                Some(Named::Unknown(text)) => {
                    bytes += text.len();
                    is_known &= bytes <= MAX_COMMAND_BYTES
                        && self.add_command(&text, Which::Executable, &tops, repository);
                }
                Some(Named::Config(_) | Named::WorkTree(_)) | None => {}
            }
        }
        if !is_known {
            let is_near = |root: &&PathBuf| {
                tops.iter()
                    .any(|top| top.parent().is_some() && (top.starts_with(root) || root.starts_with(top)))
            };
            self.unknown.extend(self.roots.iter().filter(is_near).cloned());
        }
    }

    fn add_hooks(&mut self, base: &Path, dir: &Path, top: &Path) {
        if self.add_unless_around(base, dir, top) {
            // A hook may be a symlink to a file elsewhere.
            let entries = std::fs::read_dir(base.join(dir)).into_iter().flatten().flatten();
            for entry in entries.take(MAX_HOOKS) {
                if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    self.add(base, &dir.join(entry.file_name()));
                }
            }
        } else {
            for name in HOOKS {
                self.add(base, &dir.join(name));
            }
        }
    }

    /// Adds a directory, unless it is or contains the working tree; symlinks on the way to it are added in any case.
    /// Returns whether the directory itself was added.
    fn add_unless_around(&mut self, base: &Path, dir: &Path, top: &Path) -> bool {
        let mut places = places(base, dir);
        let is_free = !places.last().is_some_and(|last| top.starts_with(last));
        if !is_free {
            places.pop();
        }
        self.keep(places);
        is_free
    }

    fn add_config(&mut self, file: &ConfigFile) {
        let places = places(&file.base, &file.path);
        self.config_files.extend(places.last().filter(|path| self.is_inside(path)).cloned());
        self.keep(places);
    }

    fn add(&mut self, base: &Path, path: &Path) {
        self.keep(places(base, path));
    }

    fn keep(&mut self, places: Vec<PathBuf>) {
        let inside: Vec<PathBuf> = places.into_iter().filter(|path| self.is_inside(path)).collect();
        self.found.extend(inside);
    }

    fn keep_links(&mut self, places: &[PathBuf]) {
        self.keep(places.split_last().map(|(_, links)| links.to_vec()).unwrap_or_default());
    }

    fn is_inside(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path != root && path.starts_with(root))
    }
}

/// A number that changes with the settings of a config file with which git runs code; `None` if the file cannot be
/// read or is too large.
pub(crate) fn settings_digest(file: &Path) -> Option<u64> {
    let bytes = try_read_file(file, MAX_BYTES).ok()?.unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    for setting in config_syntax::settings(&bytes) {
        // Unknown settings do not count: git itself and other programs change them.
        let is_code = settings::named(&setting).is_some_and(|named| !matches!(named, Named::Unknown(_)));
        if is_code || setting.name == "extensions.worktreeconfig" {
            (setting.name, setting.subsection, setting.value).hash(&mut hasher);
        }
    }
    Some(hasher.finish())
}
