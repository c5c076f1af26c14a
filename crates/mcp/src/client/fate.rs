//! Why a connection ended, as whoever saw it first tells it. Later reasons are consequences and are not kept.

use std::sync::{Mutex, PoisonError};

/// The end of one connection, once it has one.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    how: Mutex<Option<String>>,
}

impl Fate {
    /// Says how it ended, unless that is known.
    pub(crate) fn say(&self, how: impl Into<String>) {
        let mut known = self.how.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| how.into());
    }

    /// What was said, forgotten thereby: for a connection that goes on.
    pub(crate) fn take(&self) -> Option<String> {
        self.how.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// How it ended, as far as anyone has said.
    pub(crate) fn known(&self) -> Option<String> {
        self.how.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
