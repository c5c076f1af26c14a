//! [`Disk`] on the real file system. Writing and locking fail if the last component of the path is a symbolic link or
//! a file with a second hard link, because a state directory may come with a project that somebody else wrote.

use crate::disk::{Disk, DiskFile, DiskLock, EntryKind, Lock, OpenMode};
use crate::read::{not_regular, only_own, open_regular, read_regular};
use crate::remove::remove_tree;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How many times a busy lock is tried before it counts as held. `is_locked`, or a killed process that the kernel is
/// still cleaning up, holds a lock only for an instant.
const LOCK_TRIES: u32 = 10;
/// The maximum size of a file that is read as a whole, in bytes. A session with a larger log cannot be opened.
const MAX_WHOLE_FILE: u64 = 1_000_000_000;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The file system of this computer.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile(File);

struct RealLock(File);

impl DiskLock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Otherwise the next error message could name a process that has released the lock.
        let _ = self.0.set_len(0);
    }
}

/// These flags prevent following a link as the last component of a path, and waiting at a FIFO.
fn careful_flags() -> i32 {
    use rustix::fs::OFlags;
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

fn only_regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(careful_flags());
    options
}

impl DiskFile for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn size(&self) -> io::Result<Option<u64>> {
        let meta = self.0.metadata()?;
        Ok((meta.nlink() > 0).then_some(meta.len()))
    }
}

/// Makes the parent directory of `path` writable if `error` (from deleting `path`) is a lack of permission, because
/// the directories of snapshots are read-only. Returns any other `error`.
fn make_parent_writable(path: &Path, error: io::Error) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags, fchmod, open};
    match path.parent() {
        Some(above) if error.kind() == io::ErrorKind::PermissionDenied => {
            let dir = open(above, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            Ok(fchmod(dir, Mode::RWXU)?)
        }
        Some(_) | None => Err(error),
    }
}

fn special_kind(file_type: fs::FileType) -> &'static str {
    if file_type.is_fifo() {
        "a named pipe"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

impl Disk for RealDisk {
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(Some(EntryKind::Dir)),
            Ok(meta) if meta.is_file() => Ok(Some(EntryKind::File { len: meta.len() })),
            Ok(meta) if meta.is_symlink() => Ok(Some(EntryKind::Link)),
            Ok(meta) => Ok(Some(EntryKind::Special(special_kind(meta.file_type())))),
            // A path below a regular file does not exist either.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            // Althing creates only UTF-8 names, so any other name belongs to another program.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn list_dirs(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        fs::symlink_metadata(path)?.modified()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        read_regular(path, MAX_WHOLE_FILE)
    }

    fn read_range(&self, path: &Path, from: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut file = open_regular(path)?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        file.take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let mut options = private_options();
        let file = match mode {
            OpenMode::New => options.append(true).create_new(true).open(path)?,
            OpenMode::Existing => options.append(true).open(path)?,
            OpenMode::Truncate => options.write(true).create(true).truncate(false).open(path)?,
        };
        let file = only_own(file)?;
        if matches!(mode, OpenMode::Truncate) {
            file.set_len(0)?;
        }
        Ok(Box::new(RealFile(file)))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path).or_else(|e| {
            make_parent_writable(path, e)?;
            fs::remove_file(path)
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path).or_else(|e| {
            make_parent_writable(path, e)?;
            fs::remove_dir(path)
        })
    }

    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        remove_tree(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        for tried in 1.. {
            let mut file =
                private_options().read(true).write(true).create(true).truncate(false).open(path)?;
            file = only_own(file)?;
            match file.try_lock() {
                // The lock file may have been deleted between open and lock. Then the locked file is not the one at
                // `path`, so try again.
                Ok(()) if !is_same_file(&file, path)? => {}
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

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        let file = match OpenOptions::new().read(true).custom_flags(careful_flags()).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        let file = only_regular(file)?;
        // A shared lock, so that two concurrent `is_locked` calls do not take each other for the holder.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}

fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(there.ino() == ours.ino() && there.dev() == ours.dev()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}
