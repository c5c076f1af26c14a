//! [`Disk`] below one directory that is opened once. If another directory takes its place, it is not used.

use crate::at::At;
use crate::error::DiskError;
use crate::owner::{OpenToOthers, Owners, close_to_others, me};
use crate::real::Below;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The file system of this computer, as [`RealDisk`](crate::RealDisk), with paths below a directory relative to an open
/// handle of that directory.
#[derive(Debug)]
pub struct DirDisk {
    dir: OwnedFd,
    path: PathBuf,
    owners: Owners,
}

impl DirDisk {
    /// Opens a directory. If only this user's own files are to be used, a link is not followed, and the directory of
    /// another user is an error.
    pub fn open(path: &Path, owners: Owners) -> Result<Self, DiskError> {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if owners == Owners::Me {
            flags |= OFlags::NOFOLLOW;
        }
        let failed = |error: Errno| match error {
            Errno::LOOP | Errno::NOTDIR if path.is_symlink() && owners == Owners::Me => {
                DiskError::Link { path: path.to_owned() }
            }
            Errno::NOTDIR => DiskError::NotADirectory { path: path.to_owned() },
            error => DiskError::io("open the directory", path)(error.into()),
        };
        let dir = rustix::fs::openat(CWD, path, flags, Mode::empty());
        // Others may have made their own directory inaccessible.
        if let (Err(Errno::ACCESS), Owners::Me) = (&dir, owners)
            && let Ok(found) = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
            && found.st_uid != me()
        {
            return Err(DiskError::Foreign { path: path.to_owned(), uid: found.st_uid });
        }
        let dir = dir.map_err(failed)?;
        let uid =
            rustix::fs::fstat(&dir).map_err(|error| DiskError::io("access", path)(error.into()))?.st_uid;
        if owners == Owners::Me && uid != me() {
            return Err(DiskError::Foreign { path: path.to_owned(), uid });
        }
        Ok(Self { dir, path: path.to_owned(), owners })
    }

    /// If only this user's own files are to be used: fails if an entry of the directory belongs to another user, and
    /// makes the directory and the directories in it private if other users may write to them. Returns these
    /// directories.
    pub fn close_to_others(&self) -> Result<Vec<OpenToOthers>, DiskError> {
        match self.owners {
            Owners::Anybody => Ok(Vec::new()),
            Owners::Me => close_to_others(&self.dir, &self.path),
        }
    }
}

impl Below for DirDisk {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        match path.strip_prefix(&self.path) {
            Ok(below) if below.as_os_str().is_empty() => {
                At { dir: self.dir.as_fd(), path: Path::new("."), owners: self.owners }
            }
            Ok(below) => At { dir: self.dir.as_fd(), path: below, owners: self.owners },
            Err(_) => At { dir: CWD, path, owners: Owners::Anybody },
        }
    }
}
