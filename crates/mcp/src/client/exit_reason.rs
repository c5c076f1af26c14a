//! Why a connection ended. The first reason is kept; later ones are its consequences.

use std::sync::{Mutex, PoisonError};

/// The reason why one connection ended, once known.
#[derive(Debug, Default)]
pub(crate) struct ExitReason {
    how: Mutex<Option<String>>,
}

impl ExitReason {
    /// Sets the reason, unless one is already set.
    pub(crate) fn set(&self, how: impl Into<String>) {
        let mut known = self.how.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| how.into());
    }

    /// Takes and clears the reason, for a connection that stays open.
    pub(crate) fn take(&self) -> Option<String> {
        self.how.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The reason, if one is set.
    pub(crate) fn get(&self) -> Option<String> {
        self.how.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
