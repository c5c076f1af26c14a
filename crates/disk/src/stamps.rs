//! Which file systems give a file a new time stamp whenever its content changes.

use std::os::fd::AsFd;

/// Whether every change of a file on this file system gives the file a new change time (ctime). On other file systems
/// (tmpfs, FUSE, network and FAT file systems), contents must be compared: on tmpfs, a write through a shared mapping
/// of the file changes no time stamp.
#[cfg(target_os = "linux")]
pub fn has_reliable_stamps(file: impl AsFd) -> bool {
    use rustix::fs::FsWord;
    const EXT: FsWord = 0xEF53;
    const XFS: FsWord = 0x5846_5342;
    const BTRFS: FsWord = 0x9123_683E;
    const F2FS: FsWord = 0xF2F5_2010;
    const ZFS: FsWord = 0x2FC1_2FC1;
    const OVERLAY: FsWord = 0x794C_7630;
    let found = rustix::fs::fstatfs(file);
    found.is_ok_and(|system| [EXT, XFS, BTRFS, F2FS, ZFS, OVERLAY].contains(&system.f_type))
}

/// On this system, the kinds of file systems are not known.
#[cfg(not(target_os = "linux"))]
pub fn has_reliable_stamps(_file: impl AsFd) -> bool {
    false
}
