//! Digests that identify the content of a file. A digest is computed without reading holes, and only as long as a
//! budget of bytes lasts; beyond the budget, a file is identified by its stamp. This file alone knows the formats:
//!
//! - `blocks-…`: SHA-256 of the size and of every block that is not all zeros, with its offset;
//! - `stamp-…`: size, times and inode, of a file whose data exceeded the budget;
//! - without a prefix: SHA-256 of the content, which older versions recorded for files up to 1 GiB.

use crate::confine::FileStat;
use crate::exclusive::cancelled_error;
use crate::sparse::{CopyBudget, HoleDetection, is_over_limit};
use althing_text::hex;
use sha2::{Digest, Sha256};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{self, Read, Seek};

const BLOCK: u64 = 64 << 10;
const BLOCKS: &str = "blocks-";
const STAMP: &str = "stamp-";

/// Two files with the same content have the same digest, wherever their holes are, unless their data exceeds the
/// budget. Each byte that is read is spent. Fails if the budget's operation was cancelled.
pub(crate) fn digest(file: &File, budget: &CopyBudget) -> io::Result<String> {
    let stat = rustix::fs::fstat(file)?;
    let size = stat.st_size.cast_unsigned();
    let on_disk = u64::try_from(stat.st_blocks).unwrap_or(u64::MAX).saturating_mul(512);
    if on_disk.min(size) > budget.remaining() {
        return Ok(stamp(&FileStat::from_stat(&stat)));
    }
    match block_digest(file, size, budget) {
        Err(error) if is_over_limit(&error) => Ok(stamp(&FileStat::from_stat(&stat))),
        digest => digest,
    }
}

/// Whether a digest only says that the file is the same one, not what it contains.
pub(crate) fn is_stamp(digest: &str) -> bool {
    digest.starts_with(STAMP)
}

fn stamp(found: &FileStat) -> String {
    let stamp = found.stamp;
    format!("{STAMP}{}-{}-{}-{}", stamp.size, stamp.mtime, stamp.ctime, stamp.ino)
}

fn block_digest(file: &File, size: u64, budget: &CopyBudget) -> io::Result<String> {
    let (mut at, mut buffer, mut hash) = (0, Vec::new(), Sha256::new());
    hash.update(size.to_le_bytes());
    while let Some((start, end)) = HoleDetection::Seek.next_data(file, at, size)? {
        // Blocks start at fixed offsets, so that the digest does not depend on where the holes are.
        at = at.max(start / BLOCK * BLOCK);
        while at < end {
            read_block(file, at, &mut buffer, budget)?;
            if buffer.iter().any(|byte| *byte != 0) {
                hash.update(at.to_le_bytes());
                hash.update(&buffer);
            }
            at += BLOCK;
        }
    }
    Ok(format!("{BLOCKS}{}", hex(&hash.finalize())))
}

fn read_block(mut file: &File, at: u64, buffer: &mut Vec<u8>, budget: &CopyBudget) -> io::Result<()> {
    if budget.is_cancelled() {
        return Err(cancelled_error());
    }
    file.seek(io::SeekFrom::Start(at))?;
    buffer.clear();
    file.take(BLOCK).read_to_end(buffer)?;
    budget.spend(buffer.len() as u64)
}

/// The format of older versions. What is not read of a hole is spent as well, because it is hashed.
fn plain_digest(file: &File, size: u64, budget: &CopyBudget) -> io::Result<String> {
    let (mut at, mut buffer, mut hash) = (0, Vec::new(), Sha256::new());
    while let Some((start, end)) = HoleDetection::Seek.next_data(file, at, size)? {
        hash_zeros(start - at, &mut hash, budget)?;
        at = start;
        while at < end {
            read_block(file, at, &mut buffer, budget)?;
            let read = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            if read == 0 {
                // The file became shorter.
                return Ok(hex(&hash.finalize()));
            }
            hash.update(buffer.get(..read).unwrap_or_default());
            at += read as u64;
        }
    }
    hash_zeros(size - at, &mut hash, budget)?;
    Ok(hex(&hash.finalize()))
}

fn hash_zeros(length: u64, hash: &mut Sha256, budget: &CopyBudget) -> io::Result<()> {
    let zeros = vec![0; BLOCK as usize];
    let mut left = length;
    while left > 0 {
        if budget.is_cancelled() {
            return Err(cancelled_error());
        }
        let part = left.min(BLOCK);
        budget.spend(part)?;
        hash.update(zeros.get(..part as usize).unwrap_or_default());
        left -= part;
    }
    Ok(())
}

/// An open file that is compared with recorded digests.
#[derive(Debug)]
pub(crate) struct ComparedFile {
    file: File,
    found: FileStat,
    blocks: OnceCell<Option<String>>,
    plain: OnceCell<Option<String>>,
}

impl ComparedFile {
    pub(crate) fn new((file, found): (File, FileStat)) -> Self {
        Self { file, found, blocks: OnceCell::new(), plain: OnceCell::new() }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn mode(&self) -> u32 {
        self.found.mode
    }

    /// Whether the file still is what `recorded` identifies. A file for whose comparison the budget does not suffice
    /// counts as another one.
    pub(crate) fn is(&self, recorded: &str, budget: &CopyBudget) -> io::Result<bool> {
        if recorded.starts_with(STAMP) {
            return Ok(stamp(&self.found) == recorded);
        }
        let size = self.found.stamp.size;
        let now = if recorded.starts_with(BLOCKS) {
            once(&self.blocks, || block_digest(&self.file, size, budget))?
        } else {
            once(&self.plain, || plain_digest(&self.file, size, budget))?
        };
        Ok(now == Some(recorded))
    }
}

fn once(
    known: &OnceCell<Option<String>>,
    compute: impl FnOnce() -> io::Result<String>,
) -> io::Result<Option<&str>> {
    if known.get().is_none() {
        let computed = match compute() {
            Err(error) if is_over_limit(&error) => None,
            computed => Some(computed?),
        };
        let _ = known.set(computed);
    }
    Ok(known.get().and_then(Option::as_deref))
}
