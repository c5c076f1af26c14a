//! Stores a program's raw output, with secrets masked, in one file of bounded size: the beginning, a note how much is
//! missing, and the end. A failing disk never stops the program.

use althing_protocol::{MaskStream, OutputMasking};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HEAD: u64 = 15 * 1024 * 1024;
/// How many bytes of the end are stored if the beginning is not everything. With the note in between, the file stays
/// below 16 MiB.
const TAIL: usize = 1024 * 1024 - 4096;

#[derive(Debug)]
pub(crate) struct RawOutputFile {
    path: PathBuf,
    /// The file, created on the first write; `None` again after an error.
    file: Option<File>,
    failed: bool,
    total: u64,
    /// A ring buffer of the last bytes beyond the head; its oldest byte is at `oldest`.
    tail: Vec<u8>,
    oldest: usize,
    mask: Option<Box<dyn MaskStream>>,
}

impl RawOutputFile {
    /// Removes the file that an earlier attempt left at `path`; the new file is created on the first write.
    pub(crate) fn new(path: PathBuf, output_masking: Option<&Arc<dyn OutputMasking>>) -> Self {
        let _ = std::fs::remove_file(&path);
        let mask = output_masking.map(|output_masking| output_masking.stream());
        Self { path, file: None, failed: false, total: 0, tail: Vec::new(), oldest: 0, mask }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut mask = self.mask.take();
        self.keep(mask.as_mut().map_or(bytes, |mask| mask.push(bytes)));
        self.mask = mask;
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = usize::try_from(HEAD.saturating_sub(self.total)).unwrap_or(usize::MAX);
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(room));
        if !head.is_empty() {
            self.write(head);
        }
        self.keep_last(rest);
    }

    fn keep_last(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or_default();
        let grow = bytes.len().min(TAIL - self.tail.len());
        let (first, rest) = bytes.split_at(grow);
        self.tail.extend_from_slice(first);
        let (fits, wraps) = rest.split_at(rest.len().min(self.tail.len() - self.oldest));
        self.overwrite(fits);
        self.overwrite(wraps);
    }

    fn overwrite(&mut self, bytes: &[u8]) {
        if let Some(slot) = self.tail.get_mut(self.oldest..self.oldest + bytes.len()) {
            slot.copy_from_slice(bytes);
        }
        self.oldest += bytes.len();
        if self.oldest >= self.tail.len() {
            self.oldest = 0;
        }
    }

    pub(crate) fn finish(&mut self) -> bool {
        if let Some(mut mask) = self.mask.take() {
            self.keep(mask.finish());
        }
        let left_out = self.total.saturating_sub(HEAD).saturating_sub(self.tail.len() as u64);
        let tail = std::mem::take(&mut self.tail);
        if left_out > 0 {
            self.write(format!("\n[… {left_out} of {} bytes left out here …]\n", self.total).as_bytes());
        }
        let (newest, oldest) = tail.split_at(self.oldest.min(tail.len()));
        self.write(oldest);
        self.write(newest);
        self.file.take().is_some()
    }

    fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() || self.failed {
            return;
        }
        if let Err(error) = self.open().and_then(|file| file.write_all(bytes)) {
            tracing::warn!(path = %self.path.display(), %error, "could not write a program's raw output; the rest is not stored");
            self.failed = true;
            self.file = None;
        }
    }

    fn open(&mut self) -> io::Result<&mut File> {
        let file = if let Some(file) = self.file.take() {
            file
        } else {
            // The file is removed and created anew, so that nothing is written through a symlink.
            let _ = std::fs::remove_file(&self.path);
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?
        };
        Ok(self.file.insert(file))
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD, RawOutputFile, TAIL};

    fn kept(pieces: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.raw");
        let mut file = RawOutputFile::new(path.clone(), None);
        for piece in pieces {
            file.push(&piece);
        }
        assert!(file.finish());
        std::fs::read(path).unwrap()
    }

    #[test]
    fn output_that_fits_is_stored_unchanged() {
        let pieces = || (0..40_u8).map(|n| vec![n; 400_000]);
        assert_eq!(kept(pieces()), pieces().flatten().collect::<Vec<_>>());
    }

    #[test]
    fn a_flood_is_stored_as_its_beginning_and_end_with_a_note() {
        let line = |n: u32| format!("{n:09}\n").into_bytes();
        for size in [1_u32, 7, 30_000, 200_000] {
            let all: Vec<u8> = (0..4_000_000).flat_map(line).collect();
            let kept = kept(all.chunks(size as usize * 10).map(<[u8]>::to_vec));
            let mark =
                format!("\n[… {} of 40000000 bytes left out here …]\n", 40_000_000 - HEAD - TAIL as u64);
            assert!(kept.len() <= 16 * 1024 * 1024, "{}", kept.len());
            assert_eq!(kept[..HEAD as usize], all[..HEAD as usize]);
            assert!(kept[HEAD as usize..].starts_with(mark.as_bytes()));
            assert_eq!(kept[kept.len() - TAIL..], all[all.len() - TAIL..], "in pieces of {size}");
        }
    }
}
