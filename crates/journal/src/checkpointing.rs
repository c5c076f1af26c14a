//! A session's writer that keeps its checkpoint current by itself: who appends facts need not think of it.

use crate::checkpoint::CheckpointFold;
use crate::writer::SessionWriter;
use althing_protocol::{Event, Fact, Journal, JournalError, TaskId};
use std::sync::Arc;

/// The journal of a session: its log, and a checkpoint that follows it.
pub struct CheckpointingJournal {
    writer: SessionWriter,
    fold: CheckpointFold,
}

impl CheckpointingJournal {
    /// Goes on behind the events that the log holds already.
    pub fn new(writer: SessionWriter, events: &[Arc<Event>]) -> Self {
        let mut fold = CheckpointFold::default();
        for event in events {
            fold.apply(event);
        }
        Self { writer, fold }
    }
}

impl Journal for CheckpointingJournal {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), JournalError> {
        self.writer.append(events)?;
        for event in events {
            self.fold.apply(event);
        }
        if events.iter().any(|event| changes_state(&event.fact))
            && let Some(checkpoint) = self.fold.checkpoint()
        {
            self.writer.checkpoint(checkpoint);
        }
        Ok(())
    }

    fn write_file(&mut self, task: &TaskId, name: &str, text: &str) -> Result<(), JournalError> {
        self.writer.write_file(task, name, text)
    }
}

/// Whether a fact changes where a session or one of its tasks stands. Content does not, and there is a lot of it.
fn changes_state(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::SessionOpened(_)
            | Fact::SessionClosed {}
            | Fact::TaskCreated { .. }
            | Fact::StatusChanged { .. }
            | Fact::Decided(_)
            | Fact::InteractionOpened(_)
            | Fact::InteractionClosed { .. }
    )
}
