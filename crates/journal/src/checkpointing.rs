//! A session writer that also queues a new checkpoint after facts that change the state of the session.

use crate::checkpoint::CheckpointFold;
use crate::writer::SessionWriter;
use althing_protocol::{Event, Fact, Journal, JournalError, TaskId};
use std::sync::Arc;

pub struct CheckpointingJournal {
    writer: SessionWriter,
    fold: CheckpointFold,
}

impl CheckpointingJournal {
    /// Continues after the events that are already in the log.
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

/// Whether a new checkpoint is queued after this fact. All other facts get into the next checkpoint.
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
