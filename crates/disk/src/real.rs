//! [`Disk`] on the real file system. Writing and locking fail if the last component of the path is a symbolic link or
//! a file with a second hard link, because a state directory may come with a project that somebody else wrote.

use crate::at::At;
use crate::disk::{Disk, DiskFile, DiskLock, EntryKind, Lock, OpenMode};
use crate::owner::Owners;
use rustix::fs::{AtFlags, CWD};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// The file system of this computer.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

pub(crate) struct RealFile(pub File);

pub(crate) struct RealLock(pub File);

impl DiskLock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Otherwise the next error message could name a process that has released the lock.
        let _ = self.0.set_len(0);
    }
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

/// A disk of which every operation is an operation of [`At`].
pub(crate) trait Below: Send + Sync {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a>;
}

impl Below for RealDisk {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        At { dir: CWD, path, owners: Owners::Anybody }
    }
}

impl<T: Below> Disk for T {
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        self.at(path).kind()
    }

    fn foreign_owner(&self, path: &Path) -> io::Result<Option<u32>> {
        self.at(path).foreign_owner()
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.at(path).list()
    }

    fn list_dirs(&self, path: &Path) -> io::Result<Vec<String>> {
        self.at(path).list_dirs()
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        self.at(path).modified()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.at(path).read()
    }

    fn read_range(&self, path: &Path, from: u64, len: u64) -> io::Result<Vec<u8>> {
        self.at(path).read_range(from, len)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.at(path).open(mode)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.at(path).create_dir()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at(from).rename(self.at(to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.at(path).remove(AtFlags::empty())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.at(path).remove(AtFlags::REMOVEDIR)
    }

    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        self.at(path).remove_tree()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.at(path).sync_dir()
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.at(path).lock()
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        self.at(path).is_locked()
    }
}
