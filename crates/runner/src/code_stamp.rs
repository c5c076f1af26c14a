//! What shows whether a file changed: its inode, size and change time or, on a file system where a file can change
//! without a new change time, its content.

use crate::repositories::{MAX_BYTES, open_regular};
use althing_disk::has_reliable_stamps;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The inode, size and ctime of a file, or its inode, size and the start of a digest of its content. For a git
/// directory, only the inode; for a git config that can be read, a digest of the settings that run code.
pub(crate) type Stamp = (u64, u64, i64, i64);

#[derive(Debug, Default)]
pub(crate) struct Stamps {
    /// By device.
    are_reliable: HashMap<u64, bool>,
}

impl Stamps {
    pub(crate) fn of(&mut self, path: &Path, data: &Metadata) -> Stamp {
        let content = if data.is_file() { self.content(path, data.dev()) } else { None };
        let (seconds, nanoseconds) = content.unwrap_or((data.ctime(), data.ctime_nsec()));
        (data.ino(), data.size(), seconds, nanoseconds)
    }

    fn content(&mut self, path: &Path, device: u64) -> Option<(i64, i64)> {
        if self.are_reliable.get(&device) == Some(&true) {
            return None;
        }
        let file = open_regular(path).ok()??;
        let is_reliable = *self.are_reliable.entry(device).or_insert_with(|| has_reliable_stamps(&file));
        if is_reliable { None } else { digest(file) }
    }
}

fn digest(file: File) -> Option<(i64, i64)> {
    let (mut hash, mut buffer, mut file) = (Sha256::new(), vec![0; 64 << 10], file.take(MAX_BYTES));
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            read => hash.update(buffer.get(..read)?),
        }
    }
    let hash = hash.finalize();
    let (first, rest) = hash.split_first_chunk::<8>()?;
    Some((i64::from_le_bytes(*first), i64::from_le_bytes(*rest.first_chunk::<8>()?)))
}
