//! Progress as plain lines on stderr, for logs and pipes.

use super::put;
use althing_protocol::FeedItem;
use althing_view::{ProgressLines, SessionView};

/// Prints what happens, line by line.
#[derive(Default)]
pub struct Plain {
    lines: ProgressLines,
}

impl Plain {
    /// The session as far as it was folded.
    pub fn session(&self) -> &SessionView {
        self.lines.session()
    }

    /// Takes note of an item without printing it.
    pub fn follow(&mut self, item: &FeedItem) {
        self.lines.follow(item);
    }

    /// Prints an item that is worth a line.
    pub fn take(&mut self, item: &FeedItem) {
        if let Some(line) = self.lines.line(item) {
            put(&line);
        }
    }
}
