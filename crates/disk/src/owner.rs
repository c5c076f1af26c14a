//! Whose files and directories are used. A state directory that was found in a working directory may have been made, or
//! filled, by another user of the machine, who could then read or replace what Althing stores there.

use crate::error::DiskError;
use crate::read::{open_regular, read_regular, read_up_to};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whose files and directories are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Everybody's: the user named the state directory, and so decided to trust it.
    Anybody,
    /// Only those of the user that this process runs as.
    Me,
}

/// A directory that other users could write to.
#[derive(Debug)]
pub struct OpenToOthers {
    /// The directory.
    pub path: PathBuf,
    /// Whether other users can still write to it, because its mode cannot be changed. Some file systems have no modes.
    pub still: bool,
}

const MAX_USERS: u64 = 10_000_000;

pub(crate) fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A user, for messages: `alice, user id 1000`.
pub(crate) fn described_user(uid: u32) -> String {
    let users = read_regular(Path::new("/etc/passwd"), MAX_USERS).unwrap_or_default();
    let users = String::from_utf8_lossy(&users).into_owned();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id.parse() == Ok(uid)).then_some(name)
    });
    // Not all users are in /etc/passwd: some can be listed in a directory service.
    name.map_or_else(|| format!("user id {uid}"), |name| format!("{name}, user id {uid}"))
}

/// Fails if a file or directory belongs to another user, for example because `sudo` keeps the home directory of the
/// user who calls it. What does not exist belongs to nobody.
pub fn refuse_foreign(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.uid() == me() => Ok(()),
        Ok(found) => Err(foreign(found.uid())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn foreign(uid: u32) -> io::Error {
    io::Error::other(format!("it belongs to another user ({})", described_user(uid)))
}

/// Reads a whole regular file of at most `limit` bytes. Fails if the file or its directory belongs to another user.
pub fn read_own(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    refuse_foreign(path.parent().unwrap_or(path))?;
    let file = open_regular(path)?;
    refuse_foreign_file(&file, Owners::Me)?;
    read_up_to(file, limit)
}

pub(crate) fn refuse_foreign_file(file: &File, owners: Owners) -> io::Result<()> {
    if owners == Owners::Anybody {
        return Ok(());
    }
    match rustix::fs::fstat(file)?.st_uid {
        uid if uid == me() => Ok(()),
        uid => Err(foreign(uid)),
    }
}

/// Fails if an open directory, or an entry of it, belongs to another user. The directory and the directories in it that
/// other users may write to become private.
pub(crate) fn close_to_others(dir: &OwnedFd, path: &Path) -> Result<Vec<OpenToOthers>, DiskError> {
    let mut open = Vec::new();
    // The directory itself is first, so that no other user can add anything meanwhile.
    open.extend(make_private(dir, path)?);
    let failed = |error: rustix::io::Errno| DiskError::io("list", path)(error.into());
    for entry in Dir::read_from(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let below = path.join(name.to_string_lossy().as_ref());
        let found = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Another process has deleted it.
            Err(rustix::io::Errno::NOENT) => continue,
            found => found.map_err(|error| DiskError::io("access", &below)(error.into()))?,
        };
        if found.st_uid != me() {
            return Err(DiskError::Foreign { path: below, uid: found.st_uid });
        }
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory && is_open(found.st_mode) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(dir, name, flags, Mode::empty());
            let opened = opened.map_err(|error| DiskError::io("open the directory", &below)(error.into()))?;
            open.extend(make_private(&opened, &below)?);
        }
    }
    Ok(open)
}

fn is_open(mode: rustix::fs::RawMode) -> bool {
    Mode::from_raw_mode(mode).intersects(Mode::WGRP | Mode::WOTH)
}

fn make_private(dir: &OwnedFd, path: &Path) -> Result<Option<OpenToOthers>, DiskError> {
    let stat = || rustix::fs::fstat(dir).map_err(|error| DiskError::io("access", path)(error.into()));
    let found = stat()?;
    if found.st_uid != me() {
        return Err(DiskError::Foreign { path: path.to_owned(), uid: found.st_uid });
    }
    if !is_open(found.st_mode) {
        return Ok(None);
    }
    // Some file systems report that the mode was changed although it was not.
    let is_done = rustix::fs::fchmod(dir.as_fd(), Mode::RWXU).is_ok() && !is_open(stat()?.st_mode);
    Ok(Some(OpenToOthers { path: path.to_owned(), still: !is_done }))
}
