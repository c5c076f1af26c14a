//! The writer of a session: its log, its checkpoint and its tasks' files, under the session's lock. The lock is
//! released only after everything has been written.

use crate::error::SessionError;
use crate::log::Log;
use crate::names::task_file;
use crate::reader::LogIndex;
use crate::saver::CheckpointSaver;
use althing_disk::files::{Durability, create_dirs, replace};
use althing_disk::names::task_dir;
use althing_disk::{Disk, DiskLock};
use althing_protocol::{Checkpoint, Event, Journal, JournalError, JournalReader, TaskId};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The writer of one session. A session has only one writer at a time, across all processes.
pub struct SessionWriter {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    log: Log,
    index: Arc<LogIndex>,
    // Fields are dropped from top to bottom, so the last checkpoint is written under the lock.
    saver: CheckpointSaver,
    _lock: Box<dyn DiskLock>,
}

impl SessionWriter {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        log: Log,
        index: Arc<LogIndex>,
        lock: Box<dyn DiskLock>,
    ) -> Self {
        let saver = CheckpointSaver::new(Arc::clone(&disk), dir.clone());
        Self { disk, dir, log, index, saver, _lock: lock }
    }

    /// A reader of the log that works on any thread while this writer appends, and after the writer is gone.
    pub fn reader(&self) -> Arc<dyn JournalReader> {
        Arc::clone(&self.index) as Arc<dyn JournalReader>
    }

    /// The session's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory of a task's files.
    pub fn task_dir(&self, task: &TaskId) -> PathBuf {
        task_dir(&self.dir, task)
    }

    /// Writes the last checkpoint and releases the lock. Dropping the writer does the same but ignores errors.
    pub fn close(mut self) -> Result<(), SessionError> {
        self.saver.close()
    }

    /// Queues a checkpoint to be written soon. A checkpoint that is ahead of the durable log is ignored.
    pub fn checkpoint(&mut self, checkpoint: Checkpoint) {
        if checkpoint.seq <= self.log.last() {
            self.saver.save(checkpoint);
        }
    }

    fn store_file(&self, task: &TaskId, name: &str, text: &str) -> Result<(), SessionError> {
        let (dir, file) = task_file(&self.dir, task, name)?;
        create_dirs(&*self.disk, &dir, Durability::Unsynced)?;
        Ok(replace(&*self.disk, &dir, &file, text.as_bytes(), Durability::Unsynced)?)
    }
}

impl Journal for SessionWriter {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), JournalError> {
        self.log.append(events).map_err(JournalError::from)
    }

    fn write_file(&mut self, task: &TaskId, name: &str, text: &str) -> Result<(), JournalError> {
        self.store_file(task, name, text).map_err(JournalError::from)
    }
}
