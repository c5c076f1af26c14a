//! The operations of the port on a path below an open directory. A directory that takes the place of the open one
//! afterwards is not used. A file is refused if its owner is not the expected one.

use crate::disk::{EntryKind, Lock, OpenMode};
use crate::files::parent;
use crate::owner::{Owners, me, refuse_foreign_file};
use crate::read::{not_regular, only_own, read_up_to};
use crate::real::{RealFile, RealLock};
use crate::remove::{entries, remove_tree};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many times a busy lock is tried before it counts as held. `is_locked`, or a killed process that the kernel is
/// still cleaning up, holds a lock only for an instant.
const LOCK_TRIES: u32 = 10;
/// The maximum size of a file that is read as a whole, in bytes. A session with a larger log cannot be opened.
const MAX_WHOLE_FILE: u64 = 1_000_000_000;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A path below an open directory, or below the working directory of the process.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub dir: BorrowedFd<'a>,
    pub path: &'a Path,
    /// Whose files are opened.
    pub owners: Owners,
}

impl At<'_> {
    fn stat(self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self.dir, self.path, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn open_with(self, flags: OFlags) -> io::Result<OwnedFd> {
        let open = || rustix::fs::openat(self.dir, self.path, flags | OFlags::CLOEXEC, PRIVATE_FILE);
        Ok(retry_on_intr(open)?)
    }

    fn open_dir(self) -> io::Result<OwnedFd> {
        self.open_with(OFlags::RDONLY | OFlags::DIRECTORY)
    }

    fn above(self, work: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
        let above = parent(self.path);
        let dir =
            At { path: &above, ..self }.open_with(OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
        work(dir.as_fd())
    }

    pub fn kind(self) -> io::Result<Option<EntryKind>> {
        let stat = match self.stat() {
            // A path below a regular file does not exist either.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            stat => stat?,
        };
        Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => EntryKind::Dir,
            FileType::RegularFile => EntryKind::File { len: u64::try_from(stat.st_size).unwrap_or(0) },
            FileType::Symlink => EntryKind::Link,
            FileType::Fifo => EntryKind::Special("a named pipe"),
            FileType::Socket => EntryKind::Special("a socket"),
            _ => EntryKind::Special("a device"),
        }))
    }

    pub fn foreign_owner(self) -> io::Result<Option<u32>> {
        match self.owners {
            Owners::Anybody => Ok(None),
            Owners::Me => Ok(Some(self.stat()?.st_uid).filter(|uid| *uid != me())),
        }
    }

    pub fn list(self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.open_dir()?)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                // Althing creates only UTF-8 names, so any other name belongs to another program.
                names.extend(name.to_str().ok().map(str::to_owned));
            }
        }
        Ok(names)
    }

    pub fn list_dirs(self) -> io::Result<Vec<String>> {
        let all = entries(&self.open_dir()?)?;
        let dirs = all.into_iter().filter(|(_, is_dir)| *is_dir);
        Ok(dirs.filter_map(|(name, _)| name.into_string().ok()).collect())
    }

    pub fn modified(self) -> io::Result<SystemTime> {
        let stat = self.stat()?;
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        UNIX_EPOCH
            .checked_add(Duration::new(seconds, nanoseconds))
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn open_for_reading(self) -> io::Result<File> {
        // Without `NONBLOCK`, opening a FIFO waits until a process opens it for writing.
        let file = File::from(self.open_with(OFlags::RDONLY | OFlags::NONBLOCK)?);
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !kind.is_file() {
            return Err(not_regular());
        }
        refuse_foreign_file(&file, self.owners)?;
        Ok(file)
    }

    pub fn read(self) -> io::Result<Vec<u8>> {
        read_up_to(self.open_for_reading()?, MAX_WHOLE_FILE)
    }

    pub fn read_range(self, from: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut file = self.open_for_reading()?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn open_own(self, flags: OFlags) -> io::Result<File> {
        // These flags prevent following a link as the last component of a path, and waiting at a FIFO.
        let file = self.open_with(flags | OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
        let file = only_own(File::from(file))?;
        refuse_foreign_file(&file, self.owners)?;
        Ok(file)
    }

    pub fn open(self, mode: OpenMode) -> io::Result<RealFile> {
        let file = match mode {
            OpenMode::New => {
                self.open_own(OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL)?
            }
            OpenMode::Existing => self.open_own(OFlags::WRONLY | OFlags::APPEND)?,
            OpenMode::Truncate => {
                let file = self.open_own(OFlags::WRONLY | OFlags::CREATE)?;
                file.set_len(0)?;
                file
            }
        };
        Ok(RealFile(file))
    }

    pub fn create_dir(self) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(self.dir, self.path, Mode::RWXU)?)
    }

    pub fn rename(self, to: At<'_>) -> io::Result<()> {
        Ok(rustix::fs::renameat(self.dir, self.path, to.dir, to.path)?)
    }

    /// Deletes a file or an empty directory. If the permission is lacking, the directory above is made writable first,
    /// because the directories of snapshots are read-only.
    pub fn remove(self, flags: AtFlags) -> io::Result<()> {
        match rustix::fs::unlinkat(self.dir, self.path, flags) {
            Err(Errno::ACCESS | Errno::PERM) => {
                self.above(|dir| Ok(rustix::fs::fchmod(dir, Mode::RWXU)?))?;
                Ok(rustix::fs::unlinkat(self.dir, self.path, flags)?)
            }
            done => Ok(done?),
        }
    }

    pub fn remove_tree(self) -> io::Result<()> {
        remove_tree(self.dir, self.path)
    }

    pub fn sync_dir(self) -> io::Result<()> {
        File::from(self.open_with(OFlags::RDONLY)?).sync_all()
    }

    pub fn lock(self) -> io::Result<Lock> {
        for tried in 1.. {
            let mut file = self.open_own(OFlags::RDWR | OFlags::CREATE)?;
            match file.try_lock() {
                // The lock file may have been deleted between open and lock. Then the locked file is not the one at
                // the path, so try again.
                Ok(()) if !self.is_same_file(&file)? => {}
                Ok(()) => {
                    // The process id only serves error messages, so a full disk must not prevent locking.
                    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                    return Ok(Lock::Taken(Box::new(RealLock(file))));
                }
                Err(TryLockError::WouldBlock) if tried >= LOCK_TRIES => {
                    let mut text = String::new();
                    let _ = file.read_to_string(&mut text);
                    return Ok(Lock::Held { pid: text.trim().parse().ok() });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(e)) => return Err(e),
            }
        }
        Ok(Lock::Held { pid: None })
    }

    pub fn is_locked(self) -> io::Result<bool> {
        let file = match self.open_with(OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK) {
            Ok(file) => File::from(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        if !file.metadata()?.is_file() {
            return Err(not_regular());
        }
        // A shared lock, so that two concurrent `is_locked` calls do not take each other for the holder.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn is_same_file(self, file: &File) -> io::Result<bool> {
        let ours = rustix::fs::fstat(file)?;
        match self.stat() {
            Ok(there) => Ok(there.st_ino == ours.st_ino && there.st_dev == ours.st_dev),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}
