//! Writes checkpoints in the background; only the newest is written. The log can always replace a checkpoint, so a
//! failure here never stops a session.

use crate::error::SessionError;
use althing_disk::files::{Durability, replace};
use althing_disk::{Disk, DiskError};
use althing_protocol::Checkpoint;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const NAME: &str = "session.json";

/// How long writing a checkpoint is delayed: each write costs two syncs, which delay the log's own syncs.
const DEBOUNCE: Duration = Duration::from_millis(100);

struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    state: Mutex<SaverState>,
    wakeup: Condvar,
}

#[derive(Default)]
struct SaverState {
    /// The checkpoint to write next; boxed, because it is moved while the lock is held.
    waiting: Option<Box<Checkpoint>>,
    closing: bool,
}

pub(crate) struct CheckpointSaver {
    shared: Arc<Shared>,
    /// The thread that writes checkpoints. `None` if the caller's thread writes them, and after `close`.
    worker: Option<JoinHandle<()>>,
}

impl CheckpointSaver {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        let single_threaded = disk.single_threaded();
        let shared = Arc::new(Shared { disk, dir, state: Mutex::default(), wakeup: Condvar::new() });
        // If no thread can be started, `save` writes checkpoints on the caller's thread.
        let worker = if single_threaded {
            None
        } else {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("checkpoint".to_owned()).spawn(move || shared.work()).ok()
        };
        Self { shared, worker }
    }

    /// Queues a checkpoint, which replaces one that is still waiting. Without a worker, it is written at once.
    pub(crate) fn save(&self, checkpoint: Checkpoint) {
        self.shared.state().waiting = Some(Box::new(checkpoint));
        if self.worker.is_some() {
            self.shared.wakeup.notify_one();
        } else {
            let _ = self.shared.write_waiting();
        }
    }

    /// Writes the waiting checkpoint; returns the error if that fails.
    pub(crate) fn close(&mut self) -> Result<(), SessionError> {
        self.shared.state().closing = true;
        self.shared.wakeup.notify_one();
        if let Some(worker) = self.worker.take() {
            // A panicked worker may have lost its checkpoint; the log is complete either way.
            let _ = worker.join();
        }
        self.shared.write_waiting()
    }
}

impl Drop for CheckpointSaver {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, SaverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut failed = false;
        loop {
            let mut state = self.state();
            // After a failure the same checkpoint stays queued. It is tried again when a newer one arrives or the saver
            // closes.
            while !state.closing && (state.waiting.is_none() || failed) {
                failed = false;
                state = self.wakeup.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closing {
                return;
            }
            // A burst of changes costs one checkpoint, and a short session writes only its last one.
            let debounce = self.wakeup.wait_timeout_while(state, DEBOUNCE, |state| !state.closing);
            drop(debounce.unwrap_or_else(PoisonError::into_inner));
            failed = self.write_waiting().is_err();
        }
    }

    fn write_waiting(&self) -> Result<(), SessionError> {
        let Some(checkpoint) = self.state().waiting.take() else { return Ok(()) };
        let bytes = serde_json::to_vec_pretty(&checkpoint).map_err(std::io::Error::from);
        let written = bytes
            .map_err(DiskError::io("write", &self.dir.join(NAME)))
            .and_then(|bytes| replace(&*self.disk, &self.dir, NAME, &bytes, Durability::Synced));
        if written.is_err() {
            self.state().waiting.get_or_insert(checkpoint);
        }
        Ok(written?)
    }
}
