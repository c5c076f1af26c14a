//! The two ways to show the progress of a session on stderr.

use super::{LiveProgress, PlainProgress};
use althing_protocol::FeedItem;
use althing_view::SessionView;

pub enum Display {
    Plain(Box<PlainProgress>),
    Live(Box<LiveProgress>),
}

impl Display {
    pub fn take(&mut self, item: &FeedItem) {
        match self {
            Self::Plain(plain) => plain.take(item),
            Self::Live(live) => live.take(item),
        }
    }

    pub fn follow(&mut self, item: &FeedItem) {
        match self {
            Self::Plain(plain) => plain.follow(item),
            Self::Live(live) => live.follow(item),
        }
    }

    pub fn session(&self) -> &SessionView {
        match self {
            Self::Plain(plain) => plain.session(),
            Self::Live(live) => live.session(),
        }
    }

    pub fn note(&mut self, text: &str) {
        match self {
            Self::Plain(_) => super::notice(text),
            Self::Live(live) => live.note(text),
        }
    }
}
