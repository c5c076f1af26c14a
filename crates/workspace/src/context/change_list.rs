//! Writes the list of the files that a run changed in context paths, for runs that changed many.

use althing_disk::files::{Durability, replace};
use althing_disk::{Disk, DiskError, RealDisk};
use althing_protocol::{FileChange, FileWrite, MAX_NAMED_FILES, WRITES_FILE};
use althing_text::{count, quoted_name};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn split_deleted(writes: &[FileWrite]) -> (Vec<&FileWrite>, Vec<&FileWrite>) {
    writes.iter().partition(|write| write.change != FileChange::Deleted)
}

fn row(write: &FileWrite) -> String {
    FileWrite { path: quoted_name(&write.path).into_owned(), ..write.clone() }.to_string()
}

/// Writes the list to [`WRITES_FILE`] and returns its path. Writes nothing if at most [`MAX_NAMED_FILES`] files were
/// written and at most that many deleted: then the answer itself names them all.
pub fn write_change_list(writes: &[FileWrite], log_dir: &Path) -> Result<Option<PathBuf>, DiskError> {
    let (written, deleted) = split_deleted(writes);
    if written.len() <= MAX_NAMED_FILES && deleted.len() <= MAX_NAMED_FILES {
        return Ok(None);
    }
    let mut text = format!("{} written to context paths\n", count(written.len() as u64, "file"));
    for write in writes.iter().filter(|write| write.change != FileChange::Deleted) {
        let sign = if write.change == FileChange::New { '+' } else { '~' };
        let _ = writeln!(text, "{sign} {}", row(write));
    }
    if !deleted.is_empty() {
        let _ = writeln!(text, "\n{} deleted from context paths", count(deleted.len() as u64, "file"));
        for write in deleted {
            let _ = writeln!(text, "- {}", row(write));
        }
    }
    replace(&RealDisk as &dyn Disk, log_dir, WRITES_FILE, text.as_bytes(), Durability::Unsynced)?;
    Ok(Some(log_dir.join(WRITES_FILE)))
}
