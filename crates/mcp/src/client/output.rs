//! Shortens a tool result to what a model should see, and stores the full result in a new file if a directory is
//! configured.

use super::limits;
use althing_protocol::OutputMasking;
use althing_text::head_and_tail;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt;

const TRIES: u32 = 1000;

#[derive(Debug)]
pub(crate) struct ResultStore {
    dir: Option<PathBuf>,
    output_masking: Option<Arc<dyn OutputMasking>>,
    next: AtomicU64,
}

impl ResultStore {
    pub(crate) fn new(dir: Option<PathBuf>, output_masking: Option<Arc<dyn OutputMasking>>) -> Self {
        Self { dir, output_masking, next: AtomicU64::new(1) }
    }

    /// `tool` becomes part of the file name of the full text, so it must contain only characters that are safe there.
    pub(crate) async fn shorten(&self, text: String, tool: &str) -> String {
        if text.len() <= limits::RESULT {
            return text;
        }
        let mut note = format!(" of {} bytes are left out here", text.len());
        match self.store(&text, tool).await {
            Some(Ok(path)) => {
                let _ = write!(note, "; the whole result is in {}", path.display());
            }
            Some(Err(error)) => {
                let _ = write!(note, "; the whole result could not be saved: {error}");
            }
            None => {}
        }
        cut(&text, &note)
    }

    async fn store(&self, text: &str, tool: &str) -> Option<io::Result<PathBuf>> {
        let dir = self.dir.as_ref()?;
        let bytes = self.masked(text);
        for _ in 0..TRIES {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!("{tool}-{number}.txt"));
            match write_new(&path, &bytes).await {
                Ok(()) => return Some(Ok(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Err(io::ErrorKind::AlreadyExists.into()))
    }

    fn masked<'a>(&self, text: &'a str) -> Cow<'a, [u8]> {
        let Some(output_masking) = &self.output_masking else { return Cow::Borrowed(text.as_bytes()) };
        let mut stream = output_masking.stream();
        let mut masked = stream.push(text.as_bytes()).to_vec();
        masked.extend_from_slice(stream.finish());
        Cow::Owned(masked)
    }
}

async fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).await?;
    file.write_all(bytes).await?;
    file.flush().await
}

fn cut(text: &str, note: &str) -> String {
    let head = limits::RESULT - limits::RESULT_TAIL;
    head_and_tail(text, head, limits::RESULT_TAIL, |missing| format!("\n[… {missing}{note} …]\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_short_result_is_left_alone() {
        let text = "x".repeat(limits::RESULT);
        assert_eq!(ResultStore::new(None, None).shorten(text.clone(), "t").await, text);
    }

    #[tokio::test]
    async fn a_long_result_keeps_its_head_and_tail_and_says_what_is_missing() {
        let text = format!("begin{}end", "ä".repeat(limits::RESULT));
        let cut = ResultStore::new(None, None).shorten(text, "t").await;
        assert!(cut.len() < limits::RESULT + 200);
        assert!(cut.starts_with("begin") && cut.ends_with("end"));
        assert!(cut.contains("bytes are left out here …]"));
    }

    #[tokio::test]
    async fn the_whole_of_a_long_result_is_kept_in_a_new_file_that_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("t-1.txt");
        tokio::fs::write(&other, "mine").await.unwrap();
        let text = "y".repeat(limits::RESULT + 1);
        let cut = ResultStore::new(Some(dir.path().to_owned()), None).shorten(text.clone(), "t").await;
        let kept = dir.path().join("t-2.txt");
        assert!(cut.contains(&format!("the whole result is in {}", kept.display())), "{cut}");
        assert_eq!(tokio::fs::read_to_string(kept).await.unwrap(), text);
        assert_eq!(tokio::fs::read_to_string(other).await.unwrap(), "mine");
    }
}
