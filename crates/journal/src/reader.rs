//! Reads ranges of a log while its writer appends, without blocking the writer. Events that are not durable yet are
//! never returned.

use crate::error::SessionError;
use crate::line;
use crate::scan::{Damage, DamageKind, STRIDE};
use crate::state_dir_mapping::StateDirMapping;
use althing_disk::Disk;
use althing_protocol::{BoxFuture, Event, JournalError, JournalErrorKind, JournalReader, Seq};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The index of a log: the number of durable bytes, the last event, and the offset of every `STRIDE`th event.
pub(crate) struct LogIndex {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    mapping: StateDirMapping,
    state: Mutex<IndexState>,
}

struct IndexState {
    marks: Vec<u64>,
    good: u64,
    last: Seq,
}

impl LogIndex {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        path: PathBuf,
        mapping: StateDirMapping,
        marks: Vec<u64>,
        good: u64,
        last: Seq,
    ) -> Arc<Self> {
        Arc::new(Self { disk, path, mapping, state: Mutex::new(IndexState { marks, good, last }) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn mapping(&self) -> &StateDirMapping {
        &self.mapping
    }

    /// The number of durable bytes, and the number of the last event in them.
    pub(crate) fn end(&self) -> (u64, Seq) {
        let state = self.state();
        (state.good, state.last)
    }

    pub(crate) fn record_append(&self, marks: &[u64], good: u64, last: Seq) {
        let mut state = self.state();
        state.marks.extend_from_slice(marks);
        state.good = good;
        state.last = last;
    }

    fn state(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A byte range that contains the events after `after` up to `up_to` (but at most the last durable event), and
    /// perhaps a few others. The third value is the last wanted event. `None` if there is no wanted event.
    fn range(&self, after: Seq, up_to: Seq) -> Option<(u64, u64, Seq)> {
        let state = self.state();
        let up_to = up_to.min(state.last);
        if up_to <= after {
            return None;
        }
        let mark = |n: u64| usize::try_from(n).ok().and_then(|n| state.marks.get(n)).copied();
        let from = mark(after.0 / STRIDE)?;
        let to = mark((up_to.0 - 1) / STRIDE + 1).unwrap_or(state.good);
        Some((from, to, up_to))
    }
}

struct LogRange {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    mapping: StateDirMapping,
    after: Seq,
    up_to: Seq,
    from: u64,
    to: u64,
}

impl LogRange {
    fn read(&self) -> Result<Vec<Arc<Event>>, SessionError> {
        let bytes = self
            .disk
            .read_range(&self.path, self.from, self.to.saturating_sub(self.from))
            .map_err(SessionError::io("read", &self.path))?;
        let skip = self.after.0 % STRIDE;
        let mut wanted = self.after.next();
        let mut events = Vec::new();
        let mut offset = self.from;
        for (n, text) in (0..).zip(bytes.split(|b| *b == b'\n')) {
            if n >= skip && wanted <= self.up_to {
                let event = line::decode(text, &self.mapping).ok().filter(|event| event.seq == wanted);
                events.push(Arc::new(event.ok_or_else(|| self.damaged(wanted, offset))?));
                wanted = wanted.next();
            }
            offset += text.len() as u64 + 1;
        }
        if wanted <= self.up_to { Err(self.damaged(wanted, offset)) } else { Ok(events) }
    }

    fn damaged(&self, wanted: Seq, offset: u64) -> SessionError {
        let what = "it is not the event that was written there".to_owned();
        let damage = Damage { kind: DamageKind::Middle, line: wanted.0, offset, what };
        SessionError::Damaged { path: self.path.clone(), damage }
    }
}

impl JournalReader for LogIndex {
    /// The result may end before `up_to`, because events that are not durable yet are left out.
    fn read(&self, after: Seq, up_to: Seq) -> BoxFuture<'_, Result<Vec<Arc<Event>>, JournalError>> {
        Box::pin(async move {
            let Some((from, to, up_to)) = self.range(after, up_to) else { return Ok(Vec::new()) };
            let (disk, path, mapping) = (Arc::clone(&self.disk), self.path.clone(), self.mapping.clone());
            let range = LogRange { disk, path, mapping, after, up_to, from, to };
            // The read may block, so inside an async runtime it runs on a blocking thread.
            let read = match tokio::runtime::Handle::try_current() {
                Ok(runtime) => runtime.spawn_blocking(move || range.read()).await,
                Err(_) => Ok(range.read()),
            };
            match read {
                Ok(events) => events.map_err(JournalError::from),
                Err(error) => Err(JournalError {
                    kind: JournalErrorKind::Failed,
                    message: format!("{} could not be read: {error}", self.path.display()),
                    hint: None,
                }),
            }
        })
    }
}
