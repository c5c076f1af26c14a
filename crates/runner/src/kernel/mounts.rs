//! Examines files and mounts without following symlinks: what is at a path, and whether it is the expected mount of a
//! sandbox.

use crate::mount_check::{ExpectedMount, FileId, MountContent};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, Statx, StatxAttributes,
    StatxFlags, fstat, fstatfs, fstatvfs, makedev, openat, openat2, statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::CStr;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

const TMPFS: i64 = 0x0102_1994;
/// proc, sysfs, cgroup (1 and 2), devpts, debugfs, tracefs, securityfs and autofs.
const SYSTEM_MOUNTS: [i64; 9] =
    [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x1cd1, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0x0187];

/// Opens exactly this path and follows no symlink, which an agent could have created a moment ago.
pub(super) fn open_exactly(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags, Mode::empty(), resolve) {
        // The sandbox's seccomp filter, under which the mounts are checked, does not permit `openat2`.
        Err(Errno::NOSYS) => open_by_parts(path, flags),
        opened => opened,
    }
}

fn open_by_parts(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut at = openat(CWD, if path.is_absolute() { "/" } else { "." }, flags, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => {
                at = openat(&at, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
                // With `NOFOLLOW` and `PATH`, a symlink itself is opened.
                if FileType::from_raw_mode(fstat(&at)?.st_mode) == FileType::Symlink {
                    return Err(Errno::LOOP);
                }
            }
            Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
        }
    }
    Ok(at)
}

pub(crate) fn file_id(path: &Path) -> io::Result<FileId> {
    let stat = fstat(open_exactly(path)?)?;
    Ok(FileId { device: stat.st_dev, inode: stat.st_ino })
}

/// Runs `act` while the directory that contains `dir` is accessible for its owner, if that is this user. Uses no
/// path, so no symlink is followed.
pub(crate) fn with_accessible_parent(dir: &File, act: impl FnOnce()) {
    let parent = openat(dir, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let (Ok(parent), Ok(Ok(stat))) = (&parent, parent.as_ref().map(fstat)) else { return act() };
    let mode = stat.st_mode & 0o7777;
    let set = |mode: u32| {
        let path = format!("/proc/self/fd/{}", parent.as_raw_fd());
        std::fs::set_permissions(path, Permissions::from_mode(mode))
    };
    let is_changed = mode & 0o700 != 0o700 && stat.st_uid == geteuid().as_raw() && set(mode | 0o700).is_ok();
    act();
    if is_changed {
        let _ = set(mode);
    }
}

/// Whether an entry of a directory is on a file system that shows data of the kernel, such as `/proc`, and stores no
/// files. Does not mount anything: an entry may be a place where the kernel mounts a file system when it is used.
pub(crate) fn is_in_system_mount(dir: BorrowedFd<'_>, name: &CStr) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let system = openat(dir, name, flags, Mode::empty()).and_then(fstatfs);
    system.is_ok_and(|system| SYSTEM_MOUNTS.contains(&system.f_type))
}

/// Checks that the expected thing is mounted at a path of this sandbox. The placeholder of a file may be missing.
pub(crate) fn check_mount(expected: &ExpectedMount) -> io::Result<()> {
    let opened = match open_in_sandbox(&expected.path) {
        Err(Errno::NOENT) if expected.content == MountContent::EmptyFile => return Ok(()),
        opened => opened?,
    };
    check_opened(&opened, expected)
}

pub(super) fn check_opened(opened: &OwnedFd, expected: &ExpectedMount) -> io::Result<()> {
    let found = statx(opened, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    // The command could rename a path that is not itself a mount point, or write to it although it should be
    // read-only. Kernels before 5.8 do not report mount points; there, this check is skipped.
    if found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
        && !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
    {
        return Err(io::Error::other("nothing is mounted there"));
    }
    let is_read_only = || fstatvfs(opened).map(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY));
    let kind = FileType::from_raw_mode(found.stx_mode.into());
    let is_expected = match expected.content {
        MountContent::Same { id, read_only } => id == id_of(&found) && (!read_only || is_read_only()?),
        MountContent::EmptyDir => {
            kind == FileType::Directory && fstatfs(opened)?.f_type == TMPFS && is_read_only()?
        }
        MountContent::EmptyFile => kind == FileType::RegularFile && found.stx_size == 0 && is_read_only()?,
        MountContent::NullDevice => {
            kind == FileType::CharacterDevice && (found.stx_rdev_major, found.stx_rdev_minor) == (1, 3)
        }
    };
    if is_expected { Ok(()) } else { Err(io::Error::other("what is mounted there is not what was expected")) }
}

fn open_in_sandbox(path: &Path) -> rustix::io::Result<OwnedFd> {
    match (open_exactly(path), path.strip_prefix("/var/tmp")) {
        (Err(Errno::LOOP), Ok(rest)) => open_exactly(&PathBuf::from("/tmp").join(rest)),
        (opened, _) => opened,
    }
}

fn id_of(found: &Statx) -> FileId {
    FileId { device: makedev(found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino }
}
