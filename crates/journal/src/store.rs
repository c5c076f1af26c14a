//! Implements the `SessionStore` port for a state directory.

use crate::checkpointing::CheckpointingJournal;
use crate::error::SessionError;
use crate::sessions::{OpenedSession, SessionManager};
use crate::writer::SessionWriter;
use althing_protocol::{
    Epoch, Event, JournalError, Notice, OwnedSession, Seq, SessionId, SessionStore, SessionSummary,
    StoredSession,
};
use std::sync::Arc;

impl SessionStore for SessionManager {
    fn create(&self, id: &SessionId) -> Result<OwnedSession, JournalError> {
        let writer = self.create(id)?;
        Ok(owned(writer, Vec::new(), Vec::new()))
    }

    fn open(&self, id: &SessionId) -> Result<OwnedSession, JournalError> {
        let OpenedSession { writer, events, notices } = self.open(id)?;
        Ok(owned(writer, events, notices))
    }

    fn read(&self, id: &SessionId, after: Seq) -> Result<StoredSession, JournalError> {
        // Ownership is checked before the log is read: an owner that ends in between has written everything by then.
        let is_owned = self.is_owned(id);
        let read = match self.read(id) {
            // The owner has just created the session and will soon record its first events.
            Err(SessionError::Blank { .. }) if is_owned => {
                return Ok(StoredSession { is_owned, ..StoredSession::default() });
            }
            read => read?,
        };
        let known = read.events.partition_point(|event| event.seq <= after);
        let events = read.events.get(known..).unwrap_or_default().to_vec();
        Ok(StoredSession { events, damage: read.damage.map(|damage| damage.to_string()), is_owned })
    }

    fn list(&self) -> Result<Vec<SessionSummary>, JournalError> {
        Ok(self.list()?)
    }

    fn ids(&self) -> Result<Vec<SessionId>, JournalError> {
        Ok(self.ids()?)
    }

    fn summary(&self, id: &SessionId) -> Result<Option<SessionSummary>, JournalError> {
        Ok(self.summary(id)?)
    }

    fn rename(&self, id: &SessionId, title: &str) -> Result<(), JournalError> {
        Ok(self.rename(id, title)?)
    }

    fn remove(&self, id: &SessionId) -> Result<(), JournalError> {
        Ok(self.remove(id)?)
    }
}

/// The epoch is the number of the first event that this owner may write. An owner whose log was extended by somebody
/// else can no longer append.
fn owned(writer: SessionWriter, events: Vec<Arc<Event>>, notices: Vec<Notice>) -> OwnedSession {
    let epoch = Epoch(events.last().map_or(Seq(0), |event| event.seq).next().0);
    let reader = writer.reader();
    OwnedSession {
        epoch,
        reader,
        journal: Box::new(CheckpointingJournal::new(writer, &events)),
        events,
        notices,
    }
}
