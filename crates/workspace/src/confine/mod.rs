//! A directory handle that no path can leave: every file of an agent is accessed through one. The kernel never
//! follows a link; if a directory is swapped for a link between two steps, the operation fails instead of leading
//! elsewhere.

mod file_stat;
mod read_path;
mod tree;

pub use read_path::{PathContents, read_confined_path};

pub(crate) use file_stat::{CLOCK_TICK, FileKind, FileStat, Stamp};
pub(crate) use tree::{
    MAX_PATH, TreeNode, TreeWalk, WalkStep, by_bytes, is_concurrent_change, is_denied, worker_count,
};

use althing_disk::{refuse_replaced, remove_tree_at};
use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum length of a file name on common file systems, in bytes.
const NAME_MAX: usize = 255;

fn temporary_start(pid: u32) -> String {
    format!(".althing-{pid}-")
}

const TEMPORARY_END: &str = ".tmp";

static TEMPORARY: AtomicU64 = AtomicU64::new(0);

/// An open directory that no path can leave.
#[derive(Debug)]
pub struct ConfinedDir {
    dir: Dir,
}

fn plain_name(name: &OsStr) -> io::Result<&Path> {
    let path = Path::new(name);
    let bytes = name.as_bytes();
    let mut parts = path.components();
    let one = matches!((parts.next(), parts.next()), (Some(Component::Normal(only)), None) if only == name);
    if one && bytes.len() <= NAME_MAX && !bytes.contains(&0) {
        Ok(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain name"))
    }
}

/// Some systems store permission bits in fewer than 32 bits.
fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode as rustix::fs::RawMode)
}

/// The umask may have removed bits from the mode.
fn ensure_mode(file: &File, mode: u32) -> io::Result<()> {
    if FileStat::from_stat(&rustix::fs::fstat(file)?).mode == mode {
        return Ok(());
    }
    Ok(rustix::fs::fchmod(file, permissions(mode))?)
}

/// Works for a handle opened with `O_PATH`, which needs no permission on the file itself. The kernel accepts such a
/// handle only as a path in /proc, so this fails on systems without /proc.
fn set_mode_of(handle: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), permissions(mode))?)
}

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

impl ConfinedDir {
    /// Opens a directory that the user or Althing itself named. Links in the path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(path, cap_std::ambient_authority()).map(|dir| Self { dir })
    }

    /// Opens an absolute path that was stored without links. Fails if the path contains a link now.
    pub fn open_real(path: &Path) -> io::Result<Self> {
        let below = path.strip_prefix("/").map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let opened = Self::open(Path::new("/"))?.open_dir_path(below);
        opened.map_err(|error| refuse_replaced(path).err().map_or(error, io::Error::from))
    }

    /// Opens a subdirectory.
    pub fn open_dir(&self, name: &OsStr) -> io::Result<Self> {
        let dir = self.dir.open_dir_nofollow(plain_name(name)?)?;
        Ok(Self { dir })
    }

    /// Opens a directory below this one. No component may be `..` or a link.
    pub fn open_dir_path(&self, below: &Path) -> io::Result<Self> {
        if below.as_os_str().is_empty() {
            return self.try_clone();
        }
        // One system call for the whole path: component by component, a walk of a deep tree would take quadratic
        // time.
        #[cfg(target_os = "linux")]
        if below.components().all(|part| matches!(part, Component::Normal(_))) {
            use rustix::fs::ResolveFlags;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(&self.dir, below, flags, Mode::empty(), resolve) {
                Ok(dir) => return Ok(Self { dir: Dir::from_std_file(File::from(dir)) }),
                // The kernel or a seccomp filter does not know the call, the path is too long for one call, or
                // something was renamed meanwhile.
                Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG | Errno::AGAIN | Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut at = self.try_clone()?;
        for part in below.components() {
            at = at.open_dir(part.as_os_str())?;
        }
        Ok(at)
    }

    /// A second handle of the same directory.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.dir.try_clone().map(|dir| Self { dir })
    }

    pub(crate) fn stat(&self, name: &OsStr) -> io::Result<Option<FileStat>> {
        match rustix::fs::statat(&self.dir, plain_name(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileStat::from_stat(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) fn stat_self(&self) -> io::Result<FileStat> {
        Ok(FileStat::from_stat(&rustix::fs::fstat(&self.dir)?))
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        let text = rustix::fs::readlinkat(&self.dir, plain_name(name)?, Vec::new())?;
        Ok(OsStr::from_bytes(text.as_bytes()).to_owned())
    }

    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(self.reopen_readable()?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Fails for anything but a regular file, so that opening a pipe cannot block.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<(File, FileStat)> {
        self.open_regular(name, OpenOptions::new().read(true))
    }

    pub(crate) fn open_in_place(&self, name: &OsStr) -> io::Result<(File, FileStat)> {
        self.open_regular(name, OpenOptions::new().read(true).write(true))
    }

    /// For a name that a walk has just listed: the type is checked only after the open.
    pub(crate) fn open_listed(&self, name: &OsStr) -> io::Result<(File, FileStat)> {
        self.open_checked(name, OpenOptions::new().read(true))
    }

    fn open_regular(&self, name: &OsStr, options: &mut OpenOptions) -> io::Result<(File, FileStat)> {
        // Opening a device can have side effects, so the type is checked before the open, and again on the open file.
        match self.stat(name)? {
            Some(found) if found.kind == FileKind::File => {}
            Some(_) => return Err(not_a_file()),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        self.open_checked(name, options)
    }

    fn open_checked(&self, name: &OsStr, options: &mut OpenOptions) -> io::Result<(File, FileStat)> {
        let nonblock = OFlags::NONBLOCK.bits().cast_signed();
        let options = options.follow(FollowSymlinks::No).custom_flags(nonblock);
        let file = self.dir.open_with(plain_name(name)?, options)?.into_std();
        let found = FileStat::from_stat(&rustix::fs::fstat(&file)?);
        if found.kind == FileKind::File { Ok((file, found)) } else { Err(not_a_file()) }
    }

    pub(crate) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No).mode(mode);
        self.dir.open_with(plain_name(name)?, &options).map(cap_std::fs::File::into_std)
    }

    /// Atomic. If `mode` is given, it is set exactly; otherwise the umask applies.
    pub(crate) fn replace(&self, name: &OsStr, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
        plain_name(name)?;
        let temporary = self.stage(bytes, mode)?;
        let placed = self.rename(&temporary, name);
        if placed.is_err() {
            let _ = self.remove_file(&temporary);
        }
        placed
    }

    /// Returns the name of a temporary file, which the caller renames when everything else is ready.
    pub(crate) fn stage(&self, bytes: &[u8], mode: Option<u32>) -> io::Result<OsString> {
        self.stage_with(mode, |file| file.write_all(bytes))
    }

    pub(crate) fn temporary_files(&self, pids: &[u32]) -> io::Result<Vec<OsString>> {
        let is_theirs = |name: &str| {
            let number = |pid: &u32| name.strip_prefix(&temporary_start(*pid))?.strip_suffix(TEMPORARY_END);
            let mut numbers = pids.iter().filter_map(number);
            numbers.any(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let names = self.names()?.into_iter();
        Ok(names.filter(|name| name.to_str().is_some_and(is_theirs)).collect())
    }

    pub(crate) fn stage_with(
        &self,
        mode: Option<u32>,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<OsString> {
        let n = TEMPORARY.fetch_add(1, Ordering::Relaxed);
        let temporary = OsString::from(format!("{}{n}{TEMPORARY_END}", temporary_start(std::process::id())));
        let asked = mode.unwrap_or(0o666);
        let made = self.create(&temporary, asked).or_else(|_| {
            // A killed process with the same id may have left the file behind.
            let _ = self.remove_file(&temporary);
            self.create(&temporary, asked)
        });
        let written = made.and_then(|mut file| {
            write(&mut file)?;
            mode.map_or(Ok(()), |mode| ensure_mode(&file, mode & 0o7777))
        });
        match written {
            Ok(()) => Ok(temporary),
            Err(e) => {
                let _ = self.remove_file(&temporary);
                Err(e)
            }
        }
    }

    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.dir, plain_name(from)?, &self.dir, plain_name(to)?)?)
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.dir, plain_name(name)?, AtFlags::empty())?)
    }

    pub(crate) fn remove_dir(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.dir, plain_name(name)?, AtFlags::REMOVEDIR)?)
    }

    /// An existing directory is not an error.
    pub(crate) fn make_dir(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.dir, plain_name(name)?, permissions(mode)) {
            Ok(()) | Err(Errno::EXIST) => self.open_dir(name),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) fn symlink(&self, text: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(text, &self.dir, plain_name(name)?)?)
    }

    /// Only for files that are never written again.
    pub(crate) fn hard_link(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.dir, plain_name(name)?, &to.dir, plain_name(new)?, AtFlags::empty())?)
    }

    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        // The handle is opened with O_PATH, which fchmod does not accept.
        Ok(rustix::fs::chmodat(&self.dir, ".", permissions(mode), AtFlags::empty())?)
    }

    /// Lets the owner list and change this directory, whatever its mode is.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        self.unlock_to(self.stat_self()?.mode | 0o700)
    }

    /// Works even if the current mode does not let this user enter the directory.
    pub(crate) fn unlock_to(&self, mode: u32) -> io::Result<()> {
        set_mode_of(self.as_fd(), mode)
    }

    /// Lets the owner read and write a regular file, whatever its mode is.
    pub(crate) fn unlock_file(&self, name: &OsStr) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.dir, plain_name(name)?, flags, Mode::empty())?;
        let found = FileStat::from_stat(&rustix::fs::fstat(&handle)?);
        if found.kind != FileKind::File {
            return Err(not_a_file());
        }
        set_mode_of(handle.as_fd(), found.mode | 0o600)
    }

    /// Unlike this handle, the returned one can be read and synced.
    pub(crate) fn reopen_readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.dir, ".", flags, Mode::empty())?)
    }

    /// Links are deleted, not followed. A missing entry is not an error.
    pub(crate) fn remove_tree(&self, name: &OsStr) -> io::Result<()> {
        remove_tree_at(self.as_fd(), plain_name(name)?.as_os_str())
    }
}

impl AsFd for ConfinedDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}
