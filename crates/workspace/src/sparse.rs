//! Copies sparse files without reading or writing their holes, and limits the size of a copy: a file with a hole of
//! 4 TiB costs an agent nothing to create.

use crate::exclusive::{self, Cancellation};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyLimits {
    /// The maximum number of bytes to read and write.
    pub data: u64,
    /// The maximum total size of all files in bytes, including holes.
    pub size: u64,
    /// The maximum number of files, directories and links.
    pub entries: usize,
}

impl Default for CopyLimits {
    fn default() -> Self {
        Self { data: 8 << 30, size: 8 << 40, entries: 2_000_000 }
    }
}

/// Files up to this size in bytes are copied in one pass; larger files are copied extent by extent.
const SMALL: u64 = 256 << 10;
/// How many bytes are copied between two checks for cancellation.
const PART: u64 = 32 << 20;
/// The length in bytes of the test hole that shows whether holes take space on a file system.
const PROBE: u64 = 1 << 20;

pub(crate) fn limit_error(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, what)
}

pub(crate) fn is_over_limit(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::FileTooLarge
}

pub(crate) fn size_text(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut bytes, mut unit) = (bytes, 0);
    while bytes >= 1 << 10 && unit + 1 < units.len() {
        bytes >>= 10;
        unit += 1;
    }
    format!("{bytes} {}", units.get(unit).unwrap_or(&""))
}

impl CopyLimits {
    /// Also sets the limit on the size including holes, to 1,024 times `data`.
    pub(crate) fn with_data(self, data: u64) -> Self {
        Self { data, size: data.saturating_mul(1024), ..self }
    }

    pub(crate) fn check(&self, entries: usize, size: u64) -> io::Result<()> {
        if entries > self.entries {
            return Err(limit_error(format!(
                "there are more than {} files and directories, which is the limit",
                self.entries
            )));
        }
        if size > self.size {
            let (is, limit) = (size_text(size), size_text(self.size));
            return Err(limit_error(format!("the files have a total size of {is}; the limit is {limit}")));
        }
        Ok(())
    }
}

/// How many bytes may still be copied or hashed; shared by the threads that copy one directory. Holes count only where
/// they take space.
#[derive(Debug)]
pub(crate) struct CopyBudget {
    remaining: AtomicU64,
    limit: u64,
    cancellation: Cancellation,
}

impl CopyBudget {
    pub(crate) fn new(limits: CopyLimits) -> Self {
        let remaining = AtomicU64::new(limits.data);
        Self { remaining, limit: limits.data, cancellation: exclusive::cancellation() }
    }

    #[cfg(test)]
    pub(crate) fn cancelled() -> Self {
        Self { cancellation: Cancellation::set(), ..Self::default() }
    }

    pub(crate) fn spent(&self) -> u64 {
        self.limit.saturating_sub(self.remaining())
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.remaining.load(Ordering::Relaxed)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_set()
    }

    pub(crate) fn spend(&self, bytes: u64) -> io::Result<()> {
        let spent = self
            .remaining
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| remaining.checked_sub(bytes));
        let refused = |_| {
            limit_error(format!(
                "the files contain more than {} of data, which is the limit",
                size_text(self.limit)
            ))
        };
        spent.map(drop).map_err(refused)
    }

    fn copy_bytes(&self, from: &File, to: &mut File, length: u64) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            if self.is_cancelled() {
                return Err(exclusive::cancelled_error());
            }
            let part = left.min(PART);
            io::copy(&mut from.take(part), to)?;
            left -= part;
        }
        Ok(())
    }
}

impl Default for CopyBudget {
    fn default() -> Self {
        Self::new(CopyLimits::default())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HoleDetection {
    /// Holes are found with `SEEK_DATA` and `SEEK_HOLE`.
    #[default]
    Seek,
    /// As on a file system without hole detection: everything counts as data.
    #[cfg(test)]
    Unsupported,
}

impl HoleDetection {
    pub(crate) fn next_data(self, file: &File, at: u64, size: u64) -> io::Result<Option<(u64, u64)>> {
        if at >= size {
            return Ok(None);
        }
        let start = match self.seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.max(at),
            Err(Errno::NXIO) => return Ok(None),
            Err(error) if is_unknown(error) => at,
            Err(error) => return Err(error.into()),
        };
        let end = match self.seek(file, SeekFrom::Hole(start)) {
            Ok(end) if end > start => end.min(size),
            Ok(_) | Err(_) => size,
        };
        Ok((start < end).then_some((start, end)))
    }

    fn seek(self, file: &File, to: SeekFrom) -> rustix::io::Result<u64> {
        match self {
            Self::Seek => rustix::fs::seek(file, to),
            #[cfg(test)]
            Self::Unsupported => Err(Errno::INVAL),
        }
    }

    /// `to` must be empty.
    pub(crate) fn copy(
        self,
        from: &mut File,
        to: &mut File,
        size: u64,
        buffer: &mut Vec<u8>,
        budget: &CopyBudget,
    ) -> io::Result<()> {
        if size <= SMALL {
            return copy_small(from, to, size, buffer, budget);
        }
        let mut part = self.next_data(from, 0, size)?;
        let holes_cost = part != Some((0, size)) && !holes_are_free(to)?;
        let mut copied_to = 0;
        while let Some((start, end)) = part {
            budget.spend(end - start)?;
            if holes_cost {
                budget.spend(start - copied_to)?;
            }
            from.seek(io::SeekFrom::Start(start))?;
            to.seek(io::SeekFrom::Start(start))?;
            budget.copy_bytes(from, to, end - start)?;
            copied_to = end;
            part = self.next_data(from, end, size)?;
        }
        if holes_cost {
            budget.spend(size - copied_to)?;
        }
        to.set_len(size)
    }
}

fn is_unknown(error: Errno) -> bool {
    [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS, Errno::NOTTY].contains(&error)
}

fn copy_small(
    from: &mut File,
    to: &mut File,
    size: u64,
    buffer: &mut Vec<u8>,
    budget: &CopyBudget,
) -> io::Result<()> {
    buffer.resize(SMALL as usize, 0);
    let mut copied = 0;
    loop {
        let read = from.read(buffer)?;
        budget.spend(read as u64)?;
        to.write_all(buffer.get(..read).unwrap_or_default())?;
        copied += read as u64;
        // Stopping at the known size saves one read per file. A file of size 0 is read to its end, because files in
        // /proc report size 0.
        if read == 0 || (size > 0 && copied >= size) {
            return Ok(());
        }
    }
}

/// The file must be empty.
fn holes_are_free(file: &File) -> io::Result<bool> {
    file.set_len(PROBE)?;
    let blocks = rustix::fs::fstat(file)?.st_blocks;
    file.set_len(0)?;
    Ok(u64::try_from(blocks).unwrap_or(u64::MAX).saturating_mul(512) < PROBE)
}
