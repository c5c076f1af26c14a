//! The title that the user gives a session: a small file beside the log.
//!
//! The title is no part of the log, because it says nothing about what happened, and because the user may change it
//! while another process owns the session.

use crate::error::SessionError;
use crate::sessions::SessionManager;
use althing_disk::EntryKind;
use althing_disk::files::{Durability, replace};
use althing_protocol::SessionId;

const TITLE: &str = "title";

/// The maximum length of a title, in characters.
const MAX_CHARS: usize = 200;

/// The maximum size of a title in bytes: UTF-8 has at most four bytes per character.
const MAX_BYTES: u64 = 4 * MAX_CHARS as u64;

impl SessionManager {
    /// Stores the title of a session, replacing an earlier one; an empty title removes it. Only the first line counts.
    pub fn rename(&self, id: &SessionId, title: &str) -> Result<(), SessionError> {
        let dir = self.existing(id)?;
        let title = one_line(title);
        Ok(replace(&*self.disk, &dir, TITLE, title.as_bytes(), Durability::Synced)?)
    }

    /// The title that the user gave a session; `None` if there is none, or if it cannot be read.
    pub(crate) fn title(&self, id: &SessionId) -> Option<String> {
        let path = self.session_dir(id).join(TITLE);
        let Ok(Some(EntryKind::File { len })) = self.disk.kind(&path) else { return None };
        let bytes = self.disk.read_range(&path, 0, len.min(MAX_BYTES)).ok()?;
        Some(one_line(&String::from_utf8_lossy(&bytes))).filter(|title| !title.is_empty())
    }
}

/// The first line of a title, without spaces at its ends, up to the maximum length.
fn one_line(title: &str) -> String {
    let line = title.trim().lines().next().unwrap_or_default().trim();
    line.chars().take(MAX_CHARS).collect()
}
