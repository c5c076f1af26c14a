//! Whole files and directories: replacing a file so that nobody ever sees half of it, making and deleting directories.
//!
//! Must never leave a name on disk that points at unfinished content.

use crate::disk::{Disk, Kind, OpenMode};
use crate::error::StorageError;
use crate::log::write_all;
use std::io;
use std::path::{Path, PathBuf};

/// Whether a file must survive a power cut once it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    Synced,
    Whenever,
}

/// Writes a file under another name and puts it in place when it is whole.
pub(crate) fn replace(
    disk: &dyn Disk,
    dir: &Path,
    name: &str,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), StorageError> {
    let (path, temporary) = (dir.join(name), dir.join(format!(".{name}.tmp")));
    let written = write_new(disk, &temporary, bytes, durability)
        .and_then(|()| disk.rename(&temporary, &path).map_err(StorageError::io("replace", &path)));
    if let Err(e) = written {
        // It is invisible to people and overwritten next time; the space may be needed sooner.
        let _ = disk.remove_file(&temporary);
        return Err(e);
    }
    match durability {
        Durability::Synced => sync_dir(disk, dir),
        Durability::Whenever => Ok(()),
    }
}

fn write_new(disk: &dyn Disk, path: &Path, bytes: &[u8], durability: Durability) -> Result<(), StorageError> {
    let mut file = disk.open(path, OpenMode::Emptied).map_err(StorageError::io("open", path))?;
    write_all(&mut *file, bytes).map_err(StorageError::io("write", path))?;
    match durability {
        Durability::Synced => file.sync_data().map_err(StorageError::io("make durable", path)),
        Durability::Whenever => Ok(()),
    }
}

pub(crate) fn sync_dir(disk: &dyn Disk, dir: &Path) -> Result<(), StorageError> {
    disk.sync_dir(dir).map_err(StorageError::io("make durable", dir))
}

/// Makes a directory, and those above it that are missing. One that is there already is fine.
pub(crate) fn create_dirs(disk: &dyn Disk, dir: &Path, durability: Durability) -> Result<(), StorageError> {
    if disk.kind(dir).map_err(StorageError::io("look at", dir))? == Some(Kind::Dir) {
        return Ok(());
    }
    let parent = parent(dir);
    match disk.create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && parent != dir => {
            create_dirs(disk, &parent, durability)?;
            disk.create_dir(dir).map_err(StorageError::io("make the directory", dir))?;
        }
        // A link to a directory, or a second process that was faster: what matters is that it can be listed.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            if let Err(e) = disk.list(dir) {
                return Err(if e.kind() == io::ErrorKind::NotADirectory {
                    StorageError::NotADirectory { path: dir.to_owned() }
                } else {
                    StorageError::io("open the directory", dir)(e)
                });
            }
            return Ok(());
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(StorageError::NotADirectory { path: parent });
        }
        made => made.map_err(StorageError::io("make the directory", dir))?,
    }
    match durability {
        Durability::Synced => sync_dir(disk, &parent),
        Durability::Whenever => Ok(()),
    }
}

/// The directory above; `.` for a bare relative name.
pub(crate) fn parent(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => dir.to_owned(),
    }
}

/// Deletes a directory and everything in it. Links are deleted, not followed; what is gone already is fine.
pub(crate) fn remove_tree(disk: &dyn Disk, dir: &Path) -> Result<(), StorageError> {
    let gone = |done: io::Result<()>| match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    let names = match disk.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(StorageError::io("list", dir))?,
    };
    for name in names {
        let path = dir.join(name);
        match disk.kind(&path).map_err(StorageError::io("look at", &path))? {
            Some(Kind::Dir) => remove_tree(disk, &path)?,
            Some(Kind::File { .. } | Kind::Other) => {
                gone(disk.remove_file(&path)).map_err(StorageError::io("delete", &path))?;
            }
            None => {}
        }
    }
    gone(disk.remove_dir(dir)).map_err(StorageError::io("delete", dir))
}
