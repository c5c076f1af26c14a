//! Finds repositories: those in a directory, those around it, and those that a git directory contains.

use super::places::places;
use crate::listing::{Listing, list};
use crate::repositories::{git_dirs_of, is_git_dir, leads_of, one_path};
use althing_protocol::{GIT_DIR, PACKAGE_DIRS};
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

const MAX_PATH: usize = 3_500;
const MAX_INNER_ENTRIES: usize = 20_000;

pub(super) struct Repository {
    /// Where git runs code: the directory that contains the `.git` or, for a git directory with another name, that
    /// directory itself.
    pub(super) top: PathBuf,
    pub(super) tree: Option<PathBuf>,
    pub(super) git_dirs: Vec<PathBuf>,
    pub(super) leads: Vec<PathBuf>,
}

impl Repository {
    fn at(path: &Path) -> Option<Self> {
        let is_named = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(GIT_DIR));
        let top = if is_named { path.parent()? } else { path };
        let git_dirs = git_dirs_of(path);
        let leads = leads_of(path).iter().flat_map(|(base, path)| places(base, path)).collect();
        // A git directory of a worktree contains the path of the worktree's `.git`.
        let tree = git_dirs.first().and_then(|dir| one_path(&dir.join("gitdir"), b""));
        let tree = tree.and_then(|file| file.parent()?.canonicalize().ok());
        (!git_dirs.is_empty()).then(|| Self { top: top.to_owned(), tree, git_dirs, leads })
    }

    pub(super) fn all_at(path: &Path) -> Vec<Self> {
        let Some(repository) = Self::at(path) else { return Vec::new() };
        let inner = repository.git_dirs.iter().flat_map(|dir| inner_git_dirs(dir));
        let mut all: Vec<Self> = inner.filter_map(|dir| Self::at(&dir)).collect();
        all.push(repository);
        all
    }
}

/// Whether a directory is, or is inside, a git directory. A working tree inside a git directory does not count.
pub(super) fn is_in_git_dir(dir: &Path) -> bool {
    for above in dir.ancestors() {
        let is_named = above.file_name().is_some_and(|name| name.eq_ignore_ascii_case(GIT_DIR));
        if is_named || althing_protocol::is_git_dir(|name| above.join(name).symlink_metadata().is_ok()) {
            return true;
        }
        if above.join(GIT_DIR).symlink_metadata().is_ok() {
            return false;
        }
    }
    false
}

/// The repositories whose `.git` is in a directory above `root`, with the repositories inside their git directories.
pub(super) fn around(root: &Path) -> impl Iterator<Item = Repository> {
    root.ancestors().skip(1).flat_map(|dir| Repository::all_at(&dir.join(GIT_DIR)))
}

/// Whether a directory contains no files of anybody.
fn is_made_by_the_kernel(dir: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|known| dir == Path::new(known))
}

#[derive(Default)]
pub(super) struct FoundRepositories {
    pub(super) all: Vec<Repository>,
    /// A directory that could not be searched, if any.
    pub(super) unsearched: Option<PathBuf>,
}

/// Finds repositories, also inside directories that look like git directories. Counts the entries, and gives up after
/// `max_entries`.
pub(super) fn repositories(root: &Path, entries: &mut usize, max_entries: usize) -> FoundRepositories {
    let mut found = FoundRepositories::default();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        let Listing { names, is_hidden } = list(&dir, max_entries.saturating_sub(*entries) + 1);
        *entries += names.len();
        if *entries > max_entries || is_hidden || dir.as_os_str().len() > MAX_PATH {
            found.unsearched.get_or_insert(dir.clone());
        }
        if *entries > max_entries {
            return found;
        }
        if is_git_dir(&names) {
            found.all.extend(Repository::all_at(&dir));
        }
        for (name, kind) in names {
            let path = dir.join(&name);
            if name.eq_ignore_ascii_case(GIT_DIR) {
                found.all.extend(Repository::all_at(&path));
            } else if kind.is_dir() && dir.as_os_str().len() <= MAX_PATH && !is_made_by_the_kernel(&path) {
                dirs.push(path);
            }
        }
    }
    found
}

/// Finds repositories except in the `searched` directories and in packages. Searches the directories near the top
/// first, and gives up after `max_entries`.
pub(super) fn repositories_near_the_top(
    roots: &BTreeSet<PathBuf>,
    searched: &[PathBuf],
    max_entries: usize,
) -> Vec<Repository> {
    let (mut found, mut entries) = (Vec::new(), 0);
    let is_searched = |dir: &PathBuf| searched.iter().any(|root| dir.starts_with(root));
    let mut dirs: VecDeque<PathBuf> = roots.iter().cloned().collect();
    let mut seen = BTreeSet::new();
    while let Some(dir) = dirs.pop_front().filter(|_| entries <= max_entries) {
        if is_searched(&dir) || (roots.contains(&dir) && !seen.insert(dir.clone())) {
            continue;
        }
        let Listing { names, .. } = list(&dir, max_entries);
        entries += names.len();
        if is_git_dir(&names) {
            found.extend(Repository::all_at(&dir));
        }
        for (name, kind) in names {
            let path = dir.join(&name);
            if name.eq_ignore_ascii_case(GIT_DIR) {
                found.extend(Repository::all_at(&path));
            } else if kind.is_dir()
                && path.as_os_str().len() <= MAX_PATH
                && !PACKAGE_DIRS.iter().any(|known| name == *known)
            {
                dirs.push_back(path);
            }
        }
    }
    found
}

pub(crate) fn inner_git_dirs(git_dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut entries) = (Vec::new(), 0);
    let mut dirs = vec![git_dir.join("modules"), git_dir.join("worktrees")];
    while let Some(dir) = dirs.pop() {
        let Listing { names, .. } = list(&dir, MAX_INNER_ENTRIES + 1);
        entries += names.len();
        if entries > MAX_INNER_ENTRIES || dir.as_os_str().len() > MAX_PATH {
            break;
        }
        if is_git_dir(&names) {
            dirs.extend([dir.join("modules"), dir.join("worktrees")]);
            found.push(dir);
        } else {
            dirs.extend(names.into_iter().filter(|(_, kind)| kind.is_dir()).map(|(name, _)| dir.join(name)));
        }
    }
    found
}
