//! Finds repositories: those in a directory, those around it, and those that a git directory contains.

use super::places::places;
use crate::repositories::{git_dirs_of, is_git_dir, leads_of, one_path};
use althing_protocol::{GIT_DIR, PACKAGE_DIRS};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
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

pub(super) fn repositories(root: &Path, entries: &mut usize, max_entries: usize) -> Vec<Repository> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        let Ok(list) = std::fs::read_dir(&dir) else { continue };
        let mut names: Vec<(OsString, std::fs::FileType)> = Vec::new();
        for entry in list.flatten() {
            *entries += 1;
            if *entries > max_entries {
                return found;
            }
            names.extend(entry.file_type().ok().map(|kind| (entry.file_name(), kind)));
        }
        if is_git_dir(&names) {
            found.extend(Repository::all_at(&dir));
            continue;
        }
        for (name, kind) in names {
            let path = dir.join(&name);
            if name.eq_ignore_ascii_case(GIT_DIR) {
                found.extend(Repository::all_at(&path));
            } else if kind.is_dir() && path.as_os_str().len() <= MAX_PATH {
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
        let list = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let named = list.filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?)));
        let names: Vec<_> = named.take(max_entries).collect();
        entries += names.len();
        if is_git_dir(&names) {
            found.extend(Repository::all_at(&dir));
            continue;
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
        let Ok(list) = std::fs::read_dir(&dir) else { continue };
        let listed = list.flatten().filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?)));
        let names: Vec<_> = listed.take(MAX_INNER_ENTRIES).collect();
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
