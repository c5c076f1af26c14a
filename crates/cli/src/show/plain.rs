//! Progress as plain lines on stderr, for logs and pipes.

use super::write_notice;
use althing_protocol::FeedItem;
use althing_view::{ProgressLines, SessionView};

/// Prints progress line by line.
#[derive(Default)]
pub struct PlainProgress {
    lines: ProgressLines,
}

impl PlainProgress {
    /// The session as folded so far.
    pub fn session(&self) -> &SessionView {
        self.lines.session()
    }

    /// Folds an item into the session's view without printing the item.
    pub fn follow(&mut self, item: &FeedItem) {
        self.lines.follow(item);
    }

    /// Folds an item into the session's view and prints the item's line, if the item has one.
    pub fn take(&mut self, item: &FeedItem) {
        if let Some(line) = self.lines.line(item) {
            write_notice(&line);
        }
    }
}
