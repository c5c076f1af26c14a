//! Measures the disk usage below some directories, without following links and within fixed bounds, because the
//! programs that wrote there may be hostile.

use crate::kernel;
use rustix::fs::{AtFlags, CWD, Dev, Dir, FileType, Mode, OFlags, Stat, openat, statat, statvfs};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::ffi::CStr;
use std::iter::Sum;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The deepest level of directories that is measured; each level needs an open file descriptor.
const MAX_DEPTH: usize = 256;
const MAX_ENTRIES: usize = 4_000_000;
const NANOS: i128 = 1_000_000_000;
/// The unit of `st_blocks`, in bytes.
const BLOCK: u64 = 512;
/// The least size that an entry counts with, in bytes: an empty file has no blocks, but uses up an inode.
const ENTRY: u64 = 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskUsage {
    pub(crate) bytes: u64,
    /// Whether some part could not be read, was too deep, or was beyond the maximum number of entries.
    pub(crate) incomplete: bool,
}

impl Sum for DiskUsage {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |all, part| Self {
            bytes: all.bytes.saturating_add(part.bytes),
            incomplete: all.incomplete || part.incomplete,
        })
    }
}

/// Counts everything below `root`, or only what changed at or after `since`. Leaves out the directories in `without`,
/// and file systems of the kernel itself, such as `/proc`.
pub(crate) fn measure(root: &Path, since: Option<SystemTime>, without: &[PathBuf]) -> DiskUsage {
    let since = since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    let since = since.map(|since| i128::from(since.as_secs()) * NANOS + i128::from(since.subsec_nanos()));
    let without = without.iter().filter_map(|path| rustix::fs::stat(path).ok());
    let without = without.map(|stat| (stat.st_dev, stat.st_ino)).collect();
    let mut measurement = Measurement { since, without, ..Measurement::default() };
    measurement.tree(root);
    measurement.usage
}

/// The directories, and the file systems mounted below them.
pub(crate) fn file_systems<'a>(dirs: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let dirs: Vec<PathBuf> = dirs.filter_map(|dir| dir.canonicalize().ok()).collect();
    let mut mounts = kernel::mount_points();
    mounts.retain(|mount| dirs.iter().any(|dir| mount.starts_with(dir)));
    dirs.into_iter().chain(mounts).collect()
}

pub(crate) fn free_space<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> u64 {
    let mut systems = HashSet::new();
    let mut free = 0_u64;
    for path in paths {
        let (Ok(stat), Ok(system)) = (rustix::fs::stat(path), statvfs(path)) else { continue };
        if systems.insert(stat.st_dev) {
            free = free.saturating_add(system.f_bavail.saturating_mul(system.f_frsize));
        }
    }
    free
}

/// The CPU time of this thread: unlike elapsed time, it does not depend on how busy the machine is.
pub(crate) fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[derive(Default)]
struct Measurement {
    /// Files whose ctime is before this time, in nanoseconds since the epoch, do not count.
    since: Option<i128>,
    without: HashSet<(Dev, u64)>,
    usage: DiskUsage,
    entries: usize,
    linked: HashSet<(Dev, u64)>,
}

impl Measurement {
    fn tree(&mut self, root: &Path) {
        let Ok(stat) = statat(CWD, root, AtFlags::SYMLINK_NOFOLLOW) else { return };
        self.count(&stat);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return;
        }
        let mut levels = Vec::new();
        match openat(CWD, root, open_flags(), Mode::empty()).and_then(Dir::new) {
            Ok(dir) => levels.push((dir, stat.st_dev)),
            Err(_) => self.usage.incomplete = true,
        }
        loop {
            let depth = levels.len();
            let Some((dir, device)) = levels.last_mut() else { return };
            let Some(entry) = dir.read() else {
                levels.pop();
                continue;
            };
            let Ok(entry) = entry else {
                self.usage.incomplete = true;
                levels.pop();
                continue;
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                self.usage.incomplete = true;
                return;
            }
            let inner = self.entry(dir, name, *device, depth);
            levels.extend(inner);
        }
    }

    /// Counts an entry, unless it is left out. Returns a counted directory opened, if it can be measured, and its
    /// device. `device` is that of the directory that contains the entry.
    fn entry(&mut self, dir: &Dir, name: &CStr, device: Dev, depth: usize) -> Option<(Dir, Dev)> {
        let at = dir.fd().ok()?;
        let stat = statat(at, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if self.without.contains(&(stat.st_dev, stat.st_ino)) {
            return None;
        }
        if stat.st_dev != device && kernel::is_in_system_mount(at, name) {
            return None;
        }
        self.count(&stat);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return None;
        }
        let inner = if depth < MAX_DEPTH {
            openat(at, name, open_flags(), Mode::empty()).and_then(Dir::new).ok()
        } else {
            None
        };
        self.usage.incomplete |= inner.is_none();
        Some((inner?, stat.st_dev))
    }

    fn count(&mut self, stat: &Stat) {
        let changed = i128::from(stat.st_ctime) * NANOS + i128::from(stat.st_ctime_nsec);
        if self.since.is_some_and(|since| changed < since) {
            return;
        }
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !is_directory && stat.st_nlink > 1 && !self.linked.insert((stat.st_dev, stat.st_ino)) {
            return;
        }
        let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
        let bytes = blocks.saturating_mul(BLOCK).max(ENTRY);
        self.usage.bytes = self.usage.bytes.saturating_add(bytes);
    }
}

fn open_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn stored_blocks_count_once_and_holes_and_links_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(root.join("a/b/file"), root.join("same")).unwrap();
        fs::File::create(root.join("hole")).unwrap().set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink("/usr", root.join("link")).unwrap();
        let all = measure(root, None, &[]);
        assert!(!all.incomplete && (1 << 20..1 << 21).contains(&all.bytes), "{all:?}");
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(measure(root, Some(later), &[]), DiskUsage::default());
        assert!(measure(root, Some(UNIX_EPOCH), &[]).bytes >= 1 << 20);
        fs::remove_file(root.join("same")).unwrap();
        assert!(measure(root, None, &[root.join("a")]).bytes < 1 << 20, "left out");
    }

    #[test]
    fn entries_without_content_count_because_they_use_up_inodes() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..100 {
            std::os::unix::fs::symlink("x", dir.path().join(n.to_string())).unwrap();
        }
        assert!(measure(dir.path(), None, &[]).bytes >= 100 * ENTRY);
    }

    #[test]
    fn files_on_file_systems_mounted_below_a_directory_count_but_not_those_of_the_kernel() {
        let began = SystemTime::now() - Duration::from_millis(100);
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(dir.path().join("file"), vec![1; 1 << 20]).unwrap();
        let all = measure(Path::new("/dev"), Some(began), &[]);
        assert!(all.bytes >= 1 << 20, "{all:?}");
        let device =
            |path: &str| fs::metadata(path).map(|data| std::os::unix::fs::MetadataExt::dev(&data)).ok();
        if device("/dev/shm") != device("/dev") {
            let systems = file_systems([PathBuf::from("/dev")].iter());
            assert!(systems.contains(&PathBuf::from("/dev/shm")), "{systems:?}");
            let alone = free_space([PathBuf::from("/dev/shm")].iter());
            assert!(alone > 0 && free_space(systems.iter()) >= alone);
        }
        let at = fs::File::open("/").unwrap();
        assert!(kernel::is_in_system_mount(std::os::fd::AsFd::as_fd(&at), c"proc"));
        assert!(!kernel::is_in_system_mount(std::os::fd::AsFd::as_fd(&at), c"tmp"));
    }

    #[test]
    fn a_tree_that_is_too_deep_is_reported_as_incomplete() {
        let dir = tempfile::tempdir().unwrap();
        let mut deep = dir.path().to_owned();
        for _ in 0..=MAX_DEPTH {
            deep.push("d");
        }
        fs::create_dir_all(&deep).unwrap();
        assert!(measure(dir.path(), None, &[]).incomplete);
    }
}
