//! Collects a command's output within fixed bounds of memory and disk: the beginning and the end for the model in
//! memory and, if that is not everything, the beginning up to a larger limit in a file.

use althing_protocol::{MaskStream, OutputMasking};
use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const FULL: &str =
    "all stored outputs of your commands together reach the limit, `orchestrator.limits.disk` in the config";

#[derive(Debug)]
pub(crate) struct OutputCollector {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    half: usize,
    total: u64,
    overflow: OverflowFile,
    mask: Option<Box<dyn MaskStream>>,
}

/// How many bytes of output may still be stored for an agent, all its commands together.
#[derive(Clone, Debug)]
pub(crate) struct StoredOutputs(Arc<AtomicU64>);

impl StoredOutputs {
    /// The outputs that are already in `dir`, from before a restart, count.
    pub(crate) fn new(limit: u64, dir: &Path) -> Self {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| entry.metadata().ok()).filter(Metadata::is_file);
        let stored = files.map(|file| file.len()).fold(0, u64::saturating_add);
        Self(Arc::new(AtomicU64::new(limit.saturating_sub(stored))))
    }

    fn take(&self, wanted: u64) -> u64 {
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(wanted)));
        wanted.min(before.unwrap_or_else(|left| left))
    }
}

#[derive(Debug)]
struct OverflowFile {
    path: PathBuf,
    left: u64,
    stored: Option<StoredOutputs>,
    is_full: bool,
    file: Option<File>,
    failed: Option<String>,
}

impl OutputCollector {
    /// Keeps `shown` bytes in memory (rounded up to an even number). If there is more, at most `kept` bytes from the
    /// beginning of the output are also written to a new file at `path`.
    pub(crate) fn new(shown: usize, kept: u64, path: PathBuf) -> Self {
        let overflow =
            OverflowFile { path, left: kept, stored: None, is_full: false, file: None, failed: None };
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            half: shown.div_ceil(2),
            total: 0,
            overflow,
            mask: None,
        }
    }

    pub(crate) fn masked(self, output_masking: Option<&Arc<dyn OutputMasking>>) -> Self {
        Self { mask: output_masking.map(|output_masking| output_masking.stream()), ..self }
    }

    pub(crate) fn within(mut self, stored: &StoredOutputs) -> Self {
        self.overflow.stored = Some(stored.clone());
        self
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut mask = self.mask.take();
        self.append(mask.as_mut().map_or(bytes, |mask| mask.push(bytes)));
        self.mask = mask;
    }

    fn append(&mut self, bytes: &[u8]) {
        let before = self.total;
        let shown = 2 * self.half as u64;
        self.total += bytes.len() as u64;
        if self.total > shown {
            if before <= shown {
                self.overflow.write(&self.head);
                let (front, back) = self.tail.as_slices();
                self.overflow.write(front);
                self.overflow.write(back);
            }
            self.overflow.write(bytes);
        }
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.half)..).unwrap_or_default();
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    pub(crate) fn finish(mut self) -> String {
        if let Some(mut mask) = self.mask.take() {
            self.append(mask.finish());
        }
        let left_out = self.total - self.head.len() as u64 - self.tail.len() as u64;
        let tail = &*self.tail.make_contiguous();
        if left_out == 0 {
            self.head.extend_from_slice(tail);
            String::from_utf8_lossy(&self.head).into_owned()
        } else {
            let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(tail));
            let note = self.overflow.note(self.total);
            format!("{head}\n[… {left_out} of {} bytes left out here{note} …]\n{tail}", self.total)
        }
    }
}

impl OverflowFile {
    fn write(&mut self, bytes: &[u8]) {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        if length == 0 || self.is_full || self.failed.is_some() {
            return;
        }
        let granted = self.stored.as_ref().map_or(length as u64, |stored| stored.take(length as u64));
        let granted = usize::try_from(granted).unwrap_or(length);
        self.is_full = granted < length;
        let length = granted;
        let (bytes, _) = bytes.split_at(length);
        if bytes.is_empty() {
            return;
        }
        match self.open().and_then(|file| file.write_all(bytes)) {
            Ok(()) => self.left -= length as u64,
            Err(error) => self.failed = Some(error.to_string()),
        }
    }

    fn open(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            // `create_new` fails if a file or symlink exists at the path: a program could have planted it there.
            None => OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?,
        };
        Ok(self.file.insert(file))
    }

    fn note(&self, total: u64) -> String {
        match (&self.failed, &self.file) {
            (Some(error), _) => format!("; they could not be stored: {error}"),
            (None, None) if self.is_full => format!("; they were not stored: {FULL}"),
            (None, None) => String::new(),
            (None, Some(file)) => {
                let kept = file.metadata().map_or(0, |data| data.len());
                let what = if kept < total {
                    format!("the first {kept} bytes are")
                } else {
                    "the complete output is".to_owned()
                };
                let why = if self.is_full { format!(" ({FULL})") } else { String::new() };
                format!("; {what} in {}{why}", self.path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OutputCollector;

    fn collect(shown: usize, kept: u64, chunks: &[&str]) -> (String, Option<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut collector = OutputCollector::new(shown, kept, path.clone());
        for chunk in chunks {
            collector.push(chunk.as_bytes());
        }
        let text = collector.finish().replace(path.to_str().unwrap(), "FILE");
        (text, std::fs::read_to_string(path).ok())
    }

    #[test]
    fn output_that_fits_is_shown_completely_without_a_file() {
        assert_eq!(collect(8, 100, &["abc", "defgh"]), ("abcdefgh".to_owned(), None));
    }

    #[test]
    fn longer_output_is_shown_in_part_and_stored_completely() {
        let (text, file) = collect(8, 100, &["abcd", "efgh", "ij", "klmnopqrstuvwxyz"]);
        assert_eq!(text, "abcd\n[… 18 of 26 bytes left out here; the complete output is in FILE …]\nwxyz");
        assert_eq!(file.as_deref(), Some("abcdefghijklmnopqrstuvwxyz"));
    }

    #[test]
    fn the_file_is_bounded_and_the_note_says_so() {
        let (text, file) = collect(8, 10, &["abcdefghijklmnopqrstuvwxyz"]);
        assert_eq!(text, "abcd\n[… 18 of 26 bytes left out here; the first 10 bytes are in FILE …]\nwxyz");
        assert_eq!(file.as_deref(), Some("abcdefghij"));
    }
}
