//! The list of sessions, which stays cheap even when logs are long: a checkpoint is trusted if it matches the last
//! event of its log; otherwise the log is read. A session with damage is still listed.

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

/// A larger log is not read for a list, because somebody else may have written it.
pub const MAX_LISTED_LOG: u64 = 256_000_000;

/// How many sessions, the newest by creation, are sorted by the time of their last change: asking for the times of very
/// many files takes too long.
pub(crate) const TIMED: usize = 10_000;

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
        let mut list: Vec<_> = self.all_ids()?.into_iter().map(|id| self.summarize(id)).collect();
        list.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
        Ok(list)
    }

    /// The ids of all sessions, newest first: the newest [`TIMED`] by the time at which their logs were last written,
    /// the others by their creation. No session is read, except on a disk that does not record times.
    pub fn ids(&self) -> Result<Vec<SessionId>, SessionError> {
        let mut newest = self.all_ids()?;
        newest.sort_unstable_by(|a, b| b.cmp(a));
        let older = newest.split_off(newest.len().min(TIMED));
        let mut ids = Vec::with_capacity(newest.len());
        for id in newest {
            match self.disk.modified(&self.session_dir(&id).join(LOG)) {
                Ok(time) => ids.push((Some(time), id)),
                Err(e) if e.kind() == std::io::ErrorKind::Unsupported => {
                    return Ok(self.list()?.into_iter().map(|session| session.id).collect());
                }
                // A session without a log counts as the oldest.
                Err(_) => ids.push((None, id)),
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids.into_iter().map(|(_, id)| id).chain(older).collect())
    }

    /// The summary of a session; `None` if there is no such session.
    pub fn summary(&self, id: &SessionId) -> Result<Option<SessionSummary>, SessionError> {
        match self.found(id) {
            Ok(_) => Ok(Some(self.summarize(id.clone()))),
            Err(SessionError::NotFound { .. } | SessionError::InvalidId { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn all_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        let dir = self.sessions_dir();
        match self.disk.list_dirs(&dir) {
            Ok(names) => {
                Ok(names.into_iter().map(SessionId::new).filter(|id| check_id(id).is_ok()).collect())
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(SessionError::io("list", &dir)(e)),
        }
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

    pub(crate) fn is_owned(&self, id: &SessionId) -> bool {
        // If the lock cannot be checked, it counts as free; opening the session then reports the error.
        self.disk.is_locked(&self.session_dir(id).join(LOCK)).unwrap_or(false)
    }

    fn summarize(&self, id: SessionId) -> SessionSummary {
        let dir = self.session_dir(&id);
        if let Err(error) = self.refuse_foreign(&dir) {
            return unreadable(id, &error);
        }
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
            stored if size > MAX_LISTED_LOG => (
                stored,
                Some(format!(
                    "its log is larger than {} MB, so it is not read for a list",
                    MAX_LISTED_LOG / 1_000_000
                )),
            ),
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
        let title = self.title(&id);
        SessionSummary { id, checkpoint, title, size, is_owned, damage, updated_at }
    }

    /// The position of a log's last line; `None` if that line is bad, too long or cannot be read.
    fn last_line(&self, log: &Path, size: u64) -> Option<LinePosition> {
        let mut want = TAIL;
        while want <= MAX_LISTED_LOG {
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
        None
    }
}

fn unreadable(id: SessionId, error: &SessionError) -> SessionSummary {
    let updated_at = creation_time(&id).unwrap_or_default();
    let damage = Some(error.to_string());
    SessionSummary { id, checkpoint: None, title: None, size: 0, is_owned: false, damage, updated_at }
}
