//! Placeholders: empty directories and files on the real disk at protected paths that do not exist. A sandbox mounts
//! something read-only over each of them, so that no command in the sandbox can create the path.
//!
//! Removing a placeholder would detach these mounts in every sandbox, so it stays as long as any process uses it:
//! uses in this process are counted, and each process holds a shared lock (`flock`) on the placeholder. The next use
//! removes one that a crash left behind. Placeholders are recognized by their mode.

use crate::kernel;
use althing_protocol::{PLACEHOLDER_FILE_MODE, PLACEHOLDER_MODE};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MAX_ATTEMPTS: usize = 100;

static USED: Mutex<BTreeMap<PathBuf, UsedPlaceholder>> = Mutex::new(BTreeMap::new());

struct UsedPlaceholder {
    uses: usize,
    lock: Option<File>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MissingPath {
    pub(crate) path: PathBuf,
    /// True for a missing config file of git: git could not read a directory in its place, so the placeholder is a
    /// file. All other placeholders are directories.
    pub(crate) is_file: bool,
}

pub(crate) fn is_placeholder(path: &Path) -> bool {
    let Ok(data) = path.symlink_metadata() else { return false };
    let mode = data.permissions().mode() & 0o7777;
    if data.is_dir() {
        let is_empty = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        return mode == PLACEHOLDER_MODE && is_empty();
    }
    data.is_file() && mode == PLACEHOLDER_FILE_MODE && data.len() == 0
}

pub(crate) fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err() || is_placeholder(path)
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PlaceholderUse(Vec<MissingPath>);

impl PlaceholderUse {
    pub(crate) fn new(missing: &[MissingPath]) -> Self {
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        for missing in missing {
            let placeholder = used
                .entry(missing.path.clone())
                .or_insert_with(|| UsedPlaceholder { uses: 0, lock: create_and_lock(missing) });
            placeholder.uses += 1;
        }
        Self(missing.to_vec())
    }

    pub(crate) fn missing(&self) -> &[MissingPath] {
        &self.0
    }
}

impl Drop for PlaceholderUse {
    fn drop(&mut self) {
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        for MissingPath { path, .. } in &self.0 {
            let Some(placeholder) = used.get_mut(path) else { continue };
            placeholder.uses = placeholder.uses.saturating_sub(1);
            if placeholder.uses == 0
                && let Some(UsedPlaceholder { lock: Some(lock), .. }) = used.remove(path)
            {
                remove_unless_used(path, &lock);
            }
        }
    }
}

fn create_and_lock(missing: &MissingPath) -> Option<File> {
    let MissingPath { path, is_file } = missing;
    let mode = if *is_file { PLACEHOLDER_FILE_MODE } else { PLACEHOLDER_MODE };
    for _ in 0..MAX_ATTEMPTS {
        let created = if *is_file {
            OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map(drop)
        } else {
            DirBuilder::new().mode(mode).create(path)
        };
        let is_new = match created {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(_) => return None,
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(opened) => File::from(opened),
            Err(rustix::io::Errno::NOENT) => continue,
            Err(_) => return None,
        };
        if is_new {
            // The umask may have removed bits.
            let _ = opened.set_permissions(Permissions::from_mode(mode));
        } else if !is_placeholder(path) && is_at(path, &opened) {
            return None;
        }
        // A process that holds an exclusive lock is about to remove the placeholder.
        let is_locked = rustix::fs::flock(&opened, FlockOperation::NonBlockingLockShared).is_ok();
        if is_locked && is_at(path, &opened) {
            return Some(opened);
        }
        std::thread::yield_now();
    }
    None
}

fn remove_unless_used(path: &Path, lock: &File) {
    // Unlock first: if two processes end their uses at the same time, one of them must get the exclusive lock.
    let _ = rustix::fs::flock(lock, FlockOperation::Unlock);
    let is_used = rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive)
        .is_err_and(|error| error == rustix::io::Errno::WOULDBLOCK);
    if is_used {
        return;
    }
    // A command may have made the directory around the placeholder inaccessible.
    kernel::with_accessible_parent(lock, || {
        if is_at(path, lock) && is_placeholder(path) {
            let is_dir = lock.metadata().is_ok_and(|data| data.is_dir());
            let _ = if is_dir { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        }
    });
}

fn is_at(path: &Path, opened: &File) -> bool {
    let Ok(opened) = opened.metadata() else { return false };
    path.symlink_metadata().is_ok_and(|found| (found.ino(), found.dev()) == (opened.ino(), opened.dev()))
}

/// The placeholders of the calls of one host (a `CommandHost` or another value that starts programs). A call that was
/// not cancelled gives up its placeholders when it ends. The sandbox of a cancelled call may still be ending, so its
/// placeholders are kept until a call that was not cancelled ends while no other call is running, or until this value
/// is dropped.
#[derive(Debug, Default)]
pub(crate) struct Placeholders(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    running: usize,
    cancelled: Vec<PlaceholderUse>,
}

impl Placeholders {
    pub(crate) fn lease(&self, missing: &[MissingPath]) -> PlaceholderLease<'_> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).running += 1;
        PlaceholderLease { host: self, used: Some(PlaceholderUse::new(missing)), is_released: false }
    }
}

pub(crate) struct PlaceholderLease<'a> {
    host: &'a Placeholders,
    used: Option<PlaceholderUse>,
    is_released: bool,
}

impl PlaceholderLease<'_> {
    pub(crate) fn release(mut self) {
        self.is_released = true;
    }
}

impl Drop for PlaceholderLease<'_> {
    fn drop(&mut self) {
        let mut calls = self.host.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.running -= 1;
        if !self.is_released {
            calls.cancelled.extend(self.used.take());
        } else if calls.running == 0 {
            calls.cancelled.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(dir: &Path, name: &str, is_file: bool) -> [MissingPath; 1] {
        [MissingPath { path: dir.join(name), is_file }]
    }

    #[test]
    fn a_placeholder_is_removed_when_its_last_use_ends() {
        let dir = tempfile::tempdir().unwrap();
        for is_file in [false, true] {
            let paths = missing(dir.path(), "missing", is_file);
            let path = &paths[0].path;
            let (first, second) = (PlaceholderUse::new(&paths), PlaceholderUse::new(&paths));
            assert!(is_placeholder(path) && is_missing(path) && path.is_file() == is_file);
            drop(first);
            assert!(path.exists(), "the second use");
            drop(second);
            assert!(!path.exists() && is_missing(path));
            let (host, other) = (Placeholders::default(), Placeholders::default());
            drop(host.lease(&paths));
            assert!(path.exists(), "the call was cancelled");
            other.lease(&paths).release();
            assert!(path.exists(), "the other host's call says nothing about the cancelled one");
            host.lease(&paths).release();
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_placeholder_in_a_directory_that_became_inaccessible_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir(&root).unwrap();
        let used = PlaceholderUse::new(&missing(&root, ".git", false));
        assert!(root.join(".git").exists());
        std::fs::set_permissions(&root, Permissions::from_mode(0o000)).unwrap();
        drop(used);
        assert_eq!(root.metadata().unwrap().permissions().mode() & 0o7777, 0, "the mode stays");
        std::fs::set_permissions(&root, Permissions::from_mode(0o700)).unwrap();
        assert!(!root.join(".git").exists());
    }

    #[test]
    fn a_placeholder_that_another_process_uses_stays_and_one_of_a_crash_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let paths = missing(dir.path(), ".git", false);
        let path = &paths[0].path;
        // A file that is opened twice has two locks, so this one acts like the lock of another process.
        let other = create_and_lock(&paths[0]).unwrap();
        drop(PlaceholderUse::new(&paths));
        assert!(path.exists(), "the other process uses it");
        drop(other);
        assert!(path.exists(), "the other process crashed");
        drop(PlaceholderUse::new(&paths));
        assert!(!path.exists());
    }

    #[test]
    fn files_and_directories_of_the_user_are_no_placeholders() {
        let dir = tempfile::tempdir().unwrap();
        let [empty, filled, file] = ["empty", "filled", "file"].map(|name| dir.path().join(name));
        std::fs::create_dir(&empty).unwrap();
        std::fs::create_dir(&filled).unwrap();
        std::fs::write(filled.join("file"), "").unwrap();
        std::fs::set_permissions(&filled, Permissions::from_mode(PLACEHOLDER_MODE)).unwrap();
        std::fs::write(&file, "text").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(PLACEHOLDER_FILE_MODE)).unwrap();
        for (name, is_file) in [("empty", false), ("filled", false), ("file", true), ("none/below", false)] {
            drop(PlaceholderUse::new(&missing(dir.path(), name, is_file)));
        }
        assert!(empty.exists() && filled.join("file").exists() && file.exists());
        assert!([&empty, &filled, &file].into_iter().all(|path| !is_missing(path)));
    }
}
