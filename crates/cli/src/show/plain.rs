//! Progress as plain lines on stderr, for logs and pipes.

use super::write_notice;
use althing_protocol::FeedItem;
use althing_view::{ProgressLines, SessionView};

#[derive(Default)]
pub struct PlainProgress {
    lines: ProgressLines,
}

impl PlainProgress {
    pub fn session(&self) -> &SessionView {
        self.lines.session()
    }

    pub fn follow(&mut self, item: &FeedItem) {
        self.lines.follow(item);
    }

    pub fn take(&mut self, item: &FeedItem) {
        if let Some(line) = self.lines.line(item) {
            write_notice(&line);
        }
    }
}
