//! Whole files and directories: replacing a file so that nobody ever sees half of it, making and deleting directories.
//!
//! Must never leave a name on disk that points at unfinished content.

use crate::disk::{Disk, DiskFile, EntryKind, OpenMode};
use crate::error::DiskError;
use std::io;
use std::path::{Path, PathBuf};

/// Whether a file must survive a power cut once it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It must.
    Synced,
    /// The system writes it when it likes.
    Unsynced,
}

/// Writes a file under another name and puts it in place when it is whole.
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
        // It is invisible to people and overwritten next time; the space may be needed sooner.
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
        Durability::Synced => file.sync_data().map_err(DiskError::io("make durable", path)),
        Durability::Unsynced => Ok(()),
    }
}

/// Writes all of it, however little the disk takes at a time.
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
    disk.sync_dir(dir).map_err(DiskError::io("make durable", dir))
}

/// Makes a directory, and those above it that are missing. One that is there already is fine.
pub fn create_dirs(disk: &dyn Disk, dir: &Path, durability: Durability) -> Result<(), DiskError> {
    if disk.kind(dir).map_err(DiskError::io("look at", dir))? == Some(EntryKind::Dir) {
        return Ok(());
    }
    let parent = parent(dir);
    match disk.create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && parent != dir => {
            create_dirs(disk, &parent, durability)?;
            disk.create_dir(dir).map_err(DiskError::io("make the directory", dir))?;
        }
        // A link to a directory, or a second process that was faster: what matters is that it can be listed.
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
        made => made.map_err(DiskError::io("make the directory", dir))?,
    }
    match durability {
        Durability::Synced => sync_dir(disk, &parent),
        Durability::Unsynced => Ok(()),
    }
}

/// The directory above; `.` for a bare relative name.
pub fn parent(dir: &Path) -> PathBuf {
    match dir.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => dir.to_owned(),
    }
}

/// Deletes a directory and everything in it. Links are deleted, not followed; what is gone already is fine.
pub fn remove_tree(disk: &dyn Disk, dir: &Path) -> Result<(), DiskError> {
    let gone = |done: io::Result<()>| match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    let names = match disk.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(DiskError::io("list", dir))?,
    };
    for name in names {
        let path = dir.join(name);
        match disk.kind(&path).map_err(DiskError::io("look at", &path))? {
            Some(EntryKind::Dir) => remove_tree(disk, &path)?,
            Some(EntryKind::File { .. } | EntryKind::Other) => {
                gone(disk.remove_file(&path)).map_err(DiskError::io("delete", &path))?;
            }
            None => {}
        }
    }
    gone(disk.remove_dir(dir)).map_err(DiskError::io("delete", dir))
}
