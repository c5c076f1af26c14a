//! The session store: the port that a storage crate implements, and its types.

use crate::{Checkpoint, Event, Journal, JournalError, JournalReader, Notice, Seq, SessionId, Timestamp};
use std::sync::Arc;

/// A store of sessions. Methods may block. Every session has at most one owner, and only the owner writes.
pub trait SessionStore: Send + Sync {
    /// Creates a session. The caller becomes its owner.
    fn create(&self, id: &SessionId) -> Result<OwnedSession, JournalError>;

    /// Takes ownership of an existing session, to resume it. Fails with
    /// [`OwnedElsewhere`](crate::JournalErrorKind::OwnedElsewhere) while another process owns it.
    fn open(&self, id: &SessionId) -> Result<OwnedSession, JournalError>;

    /// Reads a session's events after `after`, without taking ownership or changing anything.
    fn read(&self, id: &SessionId, after: Seq) -> Result<StoredSession, JournalError>;

    /// Summaries of all sessions, the most recently changed first.
    fn list(&self) -> Result<Vec<SessionSummary>, JournalError>;

    /// The ids of all sessions, the most recently changed first. With very many sessions, a store may sort old ones by
    /// their creation instead.
    fn ids(&self) -> Result<Vec<SessionId>, JournalError> {
        Ok(self.list()?.into_iter().map(|session| session.id).collect())
    }

    /// The summary of a session; None if there is no such session.
    fn summary(&self, id: &SessionId) -> Result<Option<SessionSummary>, JournalError> {
        Ok(self.list()?.into_iter().find(|session| session.id == *id))
    }

    /// Summaries of the newest `most` sessions that `is_wanted` accepts, the most recently changed first.
    fn newest(
        &self,
        most: usize,
        is_wanted: &dyn Fn(&SessionSummary) -> bool,
    ) -> Result<Vec<SessionSummary>, JournalError> {
        let mut newest = Vec::new();
        for id in self.ids()? {
            if newest.len() >= most {
                break;
            }
            newest.extend(self.summary(&id)?.filter(is_wanted));
        }
        newest.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
        Ok(newest)
    }

    /// Stores the title that the user gives a session; an empty title removes it. Possible while a process owns the
    /// session, because the title is not part of the log.
    fn rename(&self, id: &SessionId, title: &str) -> Result<(), JournalError>;

    /// Deletes a session. Fails while a process owns it.
    fn remove(&self, id: &SessionId) -> Result<(), JournalError>;
}

/// The number of a session's ownership (a fencing token): the store rejects writes of earlier owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// A session that the holder owns. Dropping the journal releases ownership.
pub struct OwnedSession {
    /// The epoch of this ownership.
    pub epoch: Epoch,
    /// Writes the session's log and files.
    pub journal: Box<dyn Journal>,
    /// Reads the log while it is being written, from any thread.
    pub reader: Arc<dyn JournalReader>,
    /// Everything recorded so far; empty for a new session.
    pub events: Vec<Arc<Event>>,
    /// Messages to people about repairs of a damaged log that were made when the session was opened.
    pub notices: Vec<Notice>,
}

/// A session as read without ownership.
#[derive(Clone, Debug, Default)]
pub struct StoredSession {
    /// The recorded events, up to the first damaged one.
    pub events: Vec<Arc<Event>>,
    /// A description of the damage, if any. While the owner writes, the last event may appear truncated.
    pub damage: Option<String>,
    /// Whether a process owns the session now, so that more events may follow.
    pub is_owned: bool,
}

/// A summary of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// The id of the session.
    pub id: SessionId,
    /// Kind, state, goal, tasks, times; None if they cannot be read.
    pub checkpoint: Option<Checkpoint>,
    /// The title that the user gave the session, if any.
    pub title: Option<String>,
    /// The size of the log in bytes.
    pub size: u64,
    /// Whether a live process owns the session.
    pub is_owned: bool,
    /// A description of damage, as far as it can be detected without reading the whole log.
    pub damage: Option<String>,
    /// The best estimate of the time of the last change.
    pub updated_at: Timestamp,
}
