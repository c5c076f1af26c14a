//! Helpers for whole files and directories: atomic replacement of a file, recursive creation and deletion of
//! directories.

use crate::disk::{Disk, DiskFile, EntryKind, OpenMode};
use crate::error::DiskError;
use std::io;
use std::path::{Path, PathBuf};

/// Whether a file must survive a power cut once it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The file and its name are synced before the call returns.
    Synced,
    /// Nothing is synced; the operating system writes the data back when it chooses.
    Unsynced,
}

/// Replaces a file atomically: writes a temporary file, then renames it.
pub fn replace(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), DiskError> {
    let (path, temporary) = (dir.join(name), dir.join(format!(".{name}.tmp")));
    let written = write_new(disk, &temporary, bytes, durability)
        .and_then(|()| disk.rename(&temporary, &path).map_err(DiskError::io("replace", &path)));
    if let Err(e) = written {
        let _ = disk.remove_file(&temporary);
        return Err(e);
    }
    match durability {
        Durability::Synced => sync_dir(disk, dir),
        Durability::Unsynced => Ok(()),
    }
}

fn write_new(disk: &dyn Disk, path: &Path, bytes: &[u8], durability: Durability) -> Result<(), DiskError> {
    let mut file = disk.open(path, OpenMode::Truncate).map_err(DiskError::io("open", path))?;
    write_all(&mut *file, bytes).map_err(DiskError::io("write", path))?;
    match durability {
        Durability::Synced => file.sync_data().map_err(DiskError::io("sync", path)),
        Durability::Unsynced => Ok(()),
    }
}

/// Writes all bytes, in as many calls as the file needs.
pub fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub fn sync_dir(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    disk.sync_dir(dir).map_err(DiskError::io("sync", dir))
}

/// Creates a directory and its missing parents. An existing directory, or a link to one, is not an error.
pub fn create_dirs(disk: &dyn Disk, dir: &Path, durability: Durability) -> Result<(), DiskError> {
    if disk.kind(dir).map_err(DiskError::io("access", dir))? == Some(EntryKind::Dir) {
        return Ok(());
    }
    let parent = parent(dir);
    match disk.create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && parent != dir => {
            create_dirs(disk, &parent, durability)?;
            disk.create_dir(dir).map_err(DiskError::io("create the directory", dir))?;
        }
        // A symbolic link to a directory, or a directory that another process has just created.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            if let Err(e) = disk.list(dir) {
                return Err(if e.kind() == io::ErrorKind::NotADirectory {
                    DiskError::NotADirectory { path: dir.to_owned() }
                } else {
                    DiskError::io("open the directory", dir)(e)
                });
            }
            return Ok(());
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(DiskError::NotADirectory { path: parent });
        }
        made => made.map_err(DiskError::io("create the directory", dir))?,
    }
    match durability {
        Durability::Synced => sync_dir(disk, &parent),
        Durability::Unsynced => Ok(()),
    }
}

/// The parent of a path: `.` for a relative path of one component, and `/` for `/`.
pub fn parent(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => dir.to_owned(),
    }
}

/// Deletes a directory recursively. Symbolic links in it are deleted, not followed; a missing directory or entry is
/// not an error.
pub fn remove_tree(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    disk.remove_tree(dir).map_err(DiskError::io("delete", dir))
}
