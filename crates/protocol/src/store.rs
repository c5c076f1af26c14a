//! Where sessions are kept: the port that a storage crate fills, and what passes through it.

use crate::{Checkpoint, Event, Journal, JournalError, JournalReader, Notice, Seq, SessionId, Timestamp};
use std::sync::Arc;

/// The sessions of one place: a state directory, or a database that several machines share.
///
/// Calls may block on the storage: inside async code they belong on a blocking thread. Every session has at most one owner,
/// and only the owner writes.
pub trait SessionStore: Send + Sync {
    /// Makes a new session. The caller owns it.
    fn create(&self, id: &SessionId) -> Result<OwnedSession, JournalError>;

    /// Takes ownership of a session that exists, to continue it; refused with
    /// [`OwnedElsewhere`](crate::JournalErrorKind::OwnedElsewhere) while somebody else owns it.
    fn open(&self, id: &SessionId) -> Result<OwnedSession, JournalError>;

    /// Reads what a session recorded after `after`, without owning it and without changing anything.
    fn read(&self, id: &SessionId, after: Seq) -> Result<StoredSession, JournalError>;

    /// All sessions in brief, newest first.
    fn list(&self) -> Result<Vec<SessionSummary>, JournalError>;

    /// Deletes a session; refused while somebody owns it.
    fn remove(&self, id: &SessionId) -> Result<(), JournalError>;
}

/// Which ownership of a session it is. A later owner that finds anything new has a larger epoch, and the store refuses
/// whatever an earlier owner still tries to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// A session that the holder owns. Dropping the journal gives the ownership up.
pub struct OwnedSession {
    /// Which ownership it is.
    pub epoch: Epoch,
    /// Writes the session.
    pub journal: Box<dyn Journal>,
    /// Reads the session while it is written, from any thread.
    pub reader: Arc<dyn JournalReader>,
    /// Everything recorded so far; empty for a new session.
    pub events: Vec<Arc<Event>>,
    /// What people should know: what was repaired.
    pub notices: Vec<Notice>,
}

/// A session as somebody reads it who does not own it.
#[derive(Clone, Debug, Default)]
pub struct StoredSession {
    /// What was recorded, up to the first damage.
    pub events: Vec<Arc<Event>>,
    /// What is wrong with the rest, in words, if anything. While the owner writes, its last event may look cut off.
    pub damage: Option<String>,
    /// Whether somebody owns the session now, so that more may be recorded at any time.
    pub is_owned: bool,
}

/// A session in brief.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// Which.
    pub id: SessionId,
    /// Kind, state, goal, tasks, times; None if nothing of it can be read.
    pub checkpoint: Option<Checkpoint>,
    /// How long its log is, in bytes.
    pub size: u64,
    /// Whether somebody owns it now: a living process works on it.
    pub is_owned: bool,
    /// What is wrong with it, in words; None as far as can be seen without reading all of it.
    pub damage: Option<String>,
    /// When it last changed, as well as that can be told.
    pub updated_at: Timestamp,
}
