//! The list of sessions, which stays cheap even when logs are long.
//!
//! A checkpoint is trusted only if it matches the last event of its log; otherwise the log is read. A session
//! with damage is still listed.

use crate::checkpoint::rebuild_checkpoint;
use crate::error::SessionError;
use crate::line::{self, LinePosition};
use crate::names::{check_id, creation_time};
use crate::sessions::{LOCK, LOG, SessionManager};
use althing_disk::EntryKind;
use althing_protocol::{SessionId, SessionSummary, Timestamp};
use std::path::Path;

/// How many bytes at the end of a log are read first; more are read only if the last line is longer.
const TAIL: u64 = 16 << 10;

/// The result of `prune`.
#[derive(Debug, Default)]
pub struct Pruned {
    /// The deleted sessions.
    pub removed: Vec<SessionId>,
    /// Sessions that were old enough but could not be deleted, with the reason.
    pub kept: Vec<(SessionId, SessionError)>,
}

impl SessionManager {
    /// All sessions, most recently changed first.
    pub fn list(&self) -> Result<Vec<SessionSummary>, SessionError> {
        let dir = self.sessions_dir();
        let names = match self.disk.list(&dir) {
            Ok(names) => names,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(SessionError::io("list", &dir)(e)),
        };
        let mut list: Vec<_> = names
            .into_iter()
            .map(SessionId::new)
            .filter(|id| check_id(id).is_ok() && self.existing(id).is_ok())
            .map(|id| self.summary(id))
            .collect();
        list.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
        Ok(list)
    }

    /// The session that changed last.
    pub fn newest(&self) -> Result<Option<SessionSummary>, SessionError> {
        Ok(self.list()?.into_iter().next())
    }

    /// Deletes the sessions that have not changed since `before`, except those in use and those of unknown age.
    pub fn prune(&self, before: Timestamp) -> Result<Pruned, SessionError> {
        self.sweep();
        let mut pruned = Pruned::default();
        for summary in self.list()? {
            // A session of unknown age is never pruned.
            let known = summary.checkpoint.is_some() || creation_time(&summary.id).is_some();
            if !known || summary.updated_at >= before || summary.is_owned {
                continue;
            }
            match self.remove(&summary.id) {
                Ok(()) => pruned.removed.push(summary.id),
                Err(e) => pruned.kept.push((summary.id, e)),
            }
        }
        Ok(pruned)
    }

    /// Whether a running process owns a session.
    pub(crate) fn is_owned(&self, id: &SessionId) -> bool {
        // If the lock cannot be checked, it counts as free; opening the session then reports the error.
        self.disk.is_locked(&self.session_dir(id).join(LOCK)).unwrap_or(false)
    }

    /// The summary of one session.
    fn summary(&self, id: SessionId) -> SessionSummary {
        let dir = self.session_dir(&id);
        let log = dir.join(LOG);
        let size = match self.disk.kind(&log) {
            Ok(Some(EntryKind::File { len })) => len,
            _ => 0,
        };
        let is_owned = self.is_owned(&id);
        let stored = self.checkpoint(&id);
        let end = self.last_line(&log, size);
        let (checkpoint, damage) = match stored {
            Some(stored) if end.is_some_and(|end| end.seq == stored.seq) => (Some(stored), None),
            stored => match self.scan(&id, stored.as_ref()) {
                Ok((_, _, found)) => {
                    // An owned log may end in a partial line that its owner is still writing.
                    let damage = found.damage.filter(|_| !is_owned);
                    (rebuild_checkpoint(&found.events), damage.map(|d| d.to_string()))
                }
                // If the log cannot be read at all, the checkpoint is all that is left.
                Err(e) => (stored, Some(e.to_string())),
            },
        };
        let known = checkpoint.as_ref().map(|c| c.updated_at);
        let updated_at = known.or_else(|| creation_time(&id)).unwrap_or_default();
        SessionSummary { id, checkpoint, size, is_owned, damage, updated_at }
    }

    /// The position of a log's last line; `None` if that line is bad or cannot be read.
    fn last_line(&self, log: &Path, size: u64) -> Option<LinePosition> {
        let mut want = TAIL;
        loop {
            let from = size.saturating_sub(want);
            let bytes = self.disk.read_range(log, from, size - from).ok()?;
            let lines = bytes.strip_suffix(b"\n")?;
            if let Some(before) = memchr::memrchr(b'\n', lines) {
                return line::position(lines.get(before + 1..)?);
            }
            if from == 0 {
                return line::position(lines);
            }
            want = want.saturating_mul(8);
        }
    }
}
