//! The two ways to show the progress of a session on stderr.

use super::{LiveProgress, PlainProgress};
use althing_protocol::FeedItem;
use althing_view::SessionView;

/// How the progress of a session is shown.
pub enum Display {
    /// As plain lines.
    Plain(Box<PlainProgress>),
    /// As a block of lines that is redrawn in place.
    Live(Box<LiveProgress>),
}

impl Display {
    /// Folds an item into the session's view and shows the item.
    pub fn take(&mut self, item: &FeedItem) {
        match self {
            Self::Plain(plain) => plain.take(item),
            Self::Live(live) => live.take(item),
        }
    }

    /// Folds an item into the session's view without showing the item.
    pub fn follow(&mut self, item: &FeedItem) {
        match self {
            Self::Plain(plain) => plain.follow(item),
            Self::Live(live) => live.follow(item),
        }
    }

    /// The session as folded so far.
    pub fn session(&self) -> &SessionView {
        match self {
            Self::Plain(plain) => plain.session(),
            Self::Live(live) => live.session(),
        }
    }

    /// Prints one line in addition to the progress.
    pub fn note(&mut self, text: &str) {
        match self {
            Self::Plain(_) => super::notice(text),
            Self::Live(live) => live.note(text),
        }
    }
}
