//! The footer below a final answer: the files that the run wrote to context paths.

use althing_disk::files::{Durability, replace};
use althing_disk::{Disk, DiskError, RealDisk};
use althing_protocol::{FileChange, FileWrite};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The file with the complete list of written and deleted files, in the run's directory.
pub const WRITES_FILE: &str = "context_path_writes.txt";
/// The footer names up to this many files individually.
const MAX_LISTED: usize = 5;

fn split_deleted(writes: &[FileWrite]) -> (Vec<&FileWrite>, Vec<&FileWrite>) {
    writes.iter().partition(|write| write.change != FileChange::Deleted)
}

fn lines<'a>(head: &str, writes: impl IntoIterator<Item = &'a FileWrite>) -> String {
    writes.into_iter().fold(head.to_owned(), |text, write| format!("{text}\n  {write}"))
}

/// The footer; `None` if nothing was written or deleted. Deleted files are listed separately and do not count
/// as written.
pub fn footer(writes: &[FileWrite], log_dir: &Path) -> Option<String> {
    let (written, deleted) = split_deleted(writes);
    let list = log_dir.join(WRITES_FILE);
    let mut parts = Vec::new();
    if written.len() > MAX_LISTED {
        let count = written.len();
        let head = format!("{count} files written to context paths\n  Details: {}", list.display());
        // Files that run code later are listed even if the others are only counted.
        let noted = written.into_iter().filter(|write| write.note.is_some()).take(MAX_LISTED);
        parts.push(lines(&head, noted));
    } else if !written.is_empty() {
        parts.push(lines("Files written to context paths:", written));
    }
    if deleted.len() > MAX_LISTED {
        let count = deleted.len();
        parts.push(format!("{count} files deleted from context paths\n  Details: {}", list.display()));
    } else if !deleted.is_empty() {
        parts.push(lines("Files deleted from context paths:", deleted));
    }
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// Writes the complete list to [`WRITES_FILE`] and returns its path. If [`footer`] names all files itself,
/// nothing is written and `None` is returned.
pub fn write_change_list(writes: &[FileWrite], log_dir: &Path) -> Result<Option<PathBuf>, DiskError> {
    let (written, deleted) = split_deleted(writes);
    if written.len() <= MAX_LISTED && deleted.len() <= MAX_LISTED {
        return Ok(None);
    }
    let mut text = format!("{} files written to context paths\n", written.len());
    for write in writes.iter().filter(|write| write.change != FileChange::Deleted) {
        let sign = if write.change == FileChange::New { '+' } else { '~' };
        let _ = writeln!(text, "{sign} {write}");
    }
    if !deleted.is_empty() {
        let _ = writeln!(text, "\n{} files deleted from context paths", deleted.len());
        for write in deleted {
            let _ = writeln!(text, "- {write}");
        }
    }
    replace(&RealDisk as &dyn Disk, log_dir, WRITES_FILE, text.as_bytes(), Durability::Unsynced)?;
    Ok(Some(log_dir.join(WRITES_FILE)))
}
