//! Files of the machine that bubblewrap shows to a command although they are in none of its mounts: bubblewrap itself
//! (`/proc/1/exe`), devices, and descriptors that were opened before. A command could change the mode and the times of
//! those that belong to its user, which for root are all of them.

use crate::bubblewrap::DEVICES;
use rustix::fs::{
    AtFlags, CWD, StatVfsMountFlags, Timespec, Timestamps, UTIME_OMIT, major, stat, statvfs, utimensat,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;
use std::fs::{metadata, read_dir, write};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The major numbers of the devices of pseudo-terminals.
const PSEUDO_TERMINALS: std::ops::RangeInclusive<u32> = 136..=143;

/// The flags of a mount that stay as they are. In the mounts of another user namespace none of them may be removed.
const KEPT_FLAGS: [(StatVfsMountFlags, MountFlags); 6] = [
    (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
    (StatVfsMountFlags::NODEV, MountFlags::NODEV),
    (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
    (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
    (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
];

/// Mounts `bubblewrap` and the devices read-only for this process and the programs that it executes, if they belong
/// to its user. A device on a read-only mount can still be read and written.
pub(crate) fn protect_own_files(bubblewrap: &Path) -> io::Result<()> {
    let user = geteuid().as_raw();
    let files = [bubblewrap].into_iter().chain(DEVICES.into_iter().map(Path::new));
    let own: Vec<&Path> = files.filter(|path| stat(*path).is_ok_and(|stat| stat.st_uid == user)).collect();
    if own.is_empty() {
        return Ok(());
    }
    enter_own_mounts().map_err(|error| failed("enter a mount namespace", &error))?;
    for path in own {
        mount_read_only(path)
            .map_err(|error| failed(&format!("mount {} read-only", path.display()), &error.into()))?;
    }
    Ok(())
}

fn failed(what: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("the sandbox could not {what}: {error}"))
}

fn enter_own_mounts() -> io::Result<()> {
    // The function that replaces this one is unsafe because of `UnshareFlags::FILES`, which is not used here.
    #[expect(deprecated, reason = "the other function is unsafe")]
    let unshare = rustix::thread::unshare;
    match unshare(UnshareFlags::NEWNS) {
        // Without the privilege to mount (an ordinary user, root in a container), the process gets it in a user
        // namespace in which it is the same user.
        Err(Errno::PERM) => {
            let (user, group) = (geteuid().as_raw(), getegid().as_raw());
            unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
            write("/proc/self/setgroups", "deny")?;
            write("/proc/self/uid_map", format!("{user} {user} 1"))?;
            write("/proc/self/gid_map", format!("{group} {group} 1"))?;
        }
        entered => entered?,
    }
    // What is mounted here must not appear on the machine.
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

fn mount_read_only(path: &Path) -> rustix::io::Result<()> {
    mount_bind(path, path)?;
    let now = statvfs(path)?.f_flag;
    let kept = KEPT_FLAGS.into_iter().filter(|(flag, _)| now.contains(*flag)).map(|(_, flag)| flag);
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |flags, flag| flags | flag);
    mount_remount(path, flags, "")
}

/// Fails if a command that this process executes inside bubblewrap could change the mode and times of a file that
/// [`protect_own_files`] should have protected. Tries it: sets the time of the last access to what it is.
pub(crate) fn check_own_files() -> io::Result<()> {
    let descriptors = [0, 1, 2].map(|number| PathBuf::from(format!("/proc/self/fd/{number}")));
    for path in [PathBuf::from("/proc/1/exe")].into_iter().chain(descriptors) {
        check(&path)?;
    }
    for entry in read_dir("/dev")? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if !kind.is_symlink() && !kind.is_dir() {
            check(&entry.path())?;
        }
    }
    Ok(())
}

fn check(path: &Path) -> io::Result<()> {
    let found = match metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        found => found?,
    };
    let kind = found.file_type();
    // Pipes, sockets and the terminal of a command belong to no other program.
    let is_terminal = kind.is_char_device() && PSEUDO_TERMINALS.contains(&major(found.rdev()));
    if kind.is_fifo() || kind.is_socket() || is_terminal {
        return Ok(());
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: found.atime(), tv_nsec: found.atime_nsec() },
        last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    match utimensat(CWD, path, &times, AtFlags::empty()) {
        Err(Errno::ROFS | Errno::PERM | Errno::ACCESS) => Ok(()),
        Ok(()) => Err(io::Error::other(format!(
            "the sandbox was not entered: a command in it could change the mode of the machine's file {}",
            path.display()
        ))),
        Err(error) => Err(error.into()),
    }
}
