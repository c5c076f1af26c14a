//! Writes the event log: one write and one sync per batch. A batch is acknowledged only when it is durable, no partial
//! line precedes a good one, and nothing is appended to a file that another process deleted or whose length it changed.

use crate::error::SessionError;
use crate::line;
use crate::reader::LogIndex;
use althing_disk::files::{sync_dir, write_all};
use althing_disk::{Disk, DiskFile, OpenMode};
use althing_protocol::{Event, Fact, Seq};
use std::path::PathBuf;
use std::sync::Arc;

/// A larger buffer is freed after use, so that one huge reply does not occupy memory forever.
const MAX_IDLE_BUFFER: usize = 1 << 20;

pub(crate) struct Log {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    good: u64,
    last: Seq,
    /// The number of bytes that a failed append may have left after `good`. They are truncated before the next write.
    debris: u64,
    buffer: Vec<u8>,
    index: Arc<LogIndex>,
    disk: Arc<dyn Disk>,
    /// Directories on the path to the log that may not be durable yet. They are synced with the first append.
    unsynced_dirs: Vec<PathBuf>,
}

impl Log {
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        mode: OpenMode,
        index: Arc<LogIndex>,
        unsynced_dirs: Vec<PathBuf>,
    ) -> Result<Self, SessionError> {
        let path = index.path().to_owned();
        let file = disk.open(&path, mode).map_err(SessionError::io("open", &path))?;
        let (good, last) = index.end();
        Ok(Self {
            file,
            path,
            good,
            last,
            debris: 0,
            buffer: Vec::new(),
            index,
            disk: Arc::clone(disk),
            unsynced_dirs,
        })
    }

    pub(crate) fn last(&self) -> Seq {
        self.last
    }

    /// After `Ok`, all events are durable; after an error, none of them counts as appended.
    pub(crate) fn append(&mut self, events: &[Arc<Event>]) -> Result<(), SessionError> {
        let Some(first) = events.first().map(|e| e.seq) else { return Ok(()) };
        self.check(events)?;
        self.restore_length()?;
        let marks = self.encode(events, first)?;
        if let Err(e) = self.write_durably() {
            // If this fails, `restore_length` truncates before the next append.
            let _ = self.cut_debris();
            return Err(e);
        }
        self.good += self.buffer.len() as u64;
        self.last = events.last().map_or(self.last, |e| e.seq);
        self.index.record_append(&marks, self.good, self.last);
        if self.buffer.capacity() > MAX_IDLE_BUFFER {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn check(&self, events: &[Arc<Event>]) -> Result<(), SessionError> {
        let mut last = self.last;
        for event in events {
            if event.seq != last.next() {
                return Err(SessionError::OutOfOrder { path: self.path.clone(), last, found: event.seq });
            }
            last = event.seq;
        }
        match events.first().map(|e| (e.seq, &e.fact)) {
            Some((seq @ Seq(1), fact)) if !matches!(fact, Fact::SessionOpened(_)) => {
                Err(self.not_writable(seq, "a log begins with `session_opened`"))
            }
            _ => Ok(()),
        }
    }

    fn not_writable(&self, seq: Seq, why: impl Into<String>) -> SessionError {
        SessionError::NotWritable { path: self.path.clone(), seq, why: why.into() }
    }

    /// Fails if another process deleted the file or changed its length; removes what a failed append left behind.
    fn restore_length(&mut self) -> Result<(), SessionError> {
        let len = self.file.size().map_err(SessionError::io("access", &self.path))?;
        let changed = |what| SessionError::Changed { path: self.path.clone(), what };
        match len {
            None => Err(changed("it was deleted".to_owned())),
            Some(len) if len < self.good || len > self.good + self.debris => {
                Err(changed(format!("it is {len} bytes long, not {}", self.good)))
            }
            Some(_) => self.cut_debris(),
        }
    }

    fn cut_debris(&mut self) -> Result<(), SessionError> {
        if self.debris > 0 {
            self.file.truncate(self.good).map_err(SessionError::io("truncate", &self.path))?;
            self.debris = 0;
        }
        Ok(())
    }

    /// Returns the offsets of the events that the index records.
    fn encode(&mut self, events: &[Arc<Event>], first: Seq) -> Result<Vec<u64>, SessionError> {
        self.buffer.clear();
        let mut marks = Vec::new();
        for event in events {
            if event.seq.0 % crate::scan::STRIDE == 1 {
                marks.push(self.good + self.buffer.len() as u64);
            }
            if let Err(error) = line::encode(event, first, self.index.mapping(), &mut self.buffer) {
                return Err(self.not_writable(event.seq, format!("it cannot be serialized: {error}")));
            }
        }
        Ok(marks)
    }

    fn write_durably(&mut self) -> Result<(), SessionError> {
        // After a failed sync the kernel may consider the pages clean although they never reached the disk, so a second
        // sync proves nothing: the bytes are truncated and written again.
        self.debris = self.buffer.len() as u64;
        write_all(&mut *self.file, &self.buffer).map_err(SessionError::io("write to", &self.path))?;
        self.file.sync_data().map_err(SessionError::io("sync", &self.path))?;
        for dir in &self.unsynced_dirs {
            sync_dir(&*self.disk, dir)?;
        }
        self.unsynced_dirs.clear();
        self.debris = 0;
        Ok(())
    }
}
