//! Why a connection to an MCP server ended. The first reason is kept; later ones are its consequences.

use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct ExitReason {
    how: Mutex<Option<String>>,
}

impl ExitReason {
    pub(crate) fn set(&self, how: impl Into<String>) {
        let mut known = self.how.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| how.into());
    }

    pub(crate) fn take(&self) -> Option<String> {
        self.how.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn get(&self) -> Option<String> {
        self.how.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
