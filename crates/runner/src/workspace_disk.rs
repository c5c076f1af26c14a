//! Measures the disk usage of one agent's workspace after each command, because a guard misses many short commands
//! that each write a little. While the workspace is too large, commands under a guard may delete files but not write
//! any.

use crate::disk_usage::{cpu_time, free_space, measure};
use crate::limits::ReachedLimit;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct WorkspaceDisk {
    workspace: PathBuf,
    limit: u64,
    free_at_start: u64,
    is_full: AtomicBool,
    last: Arc<Mutex<LastSize>>,
}

#[derive(Clone, Copy, Debug)]
struct LastSize {
    bytes: u64,
    free: u64,
    at: Instant,
    took: Duration,
}

/// The time between two measurements is at least this many times as long as a measurement, unless the workspace was
/// or may be too large.
const PAUSE_FACTOR: u32 = 20;

impl WorkspaceDisk {
    pub(crate) fn new(workspace: PathBuf, limit: u64) -> Self {
        let free = free_space([&workspace].into_iter());
        let last = LastSize { bytes: 0, free, at: Instant::now(), took: Duration::ZERO };
        let is_full = AtomicBool::new(false);
        Self { workspace, limit, free_at_start: free, is_full, last: Arc::new(Mutex::new(last)) }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Measures the workspace if it may be too large; returns what the agent must be told if it is.
    pub(crate) async fn check(&self) -> Option<String> {
        let (workspace, limit) = (self.workspace.clone(), self.limit);
        let (last, was_full, free_at_start) = (self.last.clone(), self.is_full(), self.free_at_start);
        let measured = move || {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            let free = free_space([&workspace].into_iter());
            let may_be_full = last.bytes.saturating_add(last.free.saturating_sub(free)) > limit;
            // Other programs may have freed as much space as the commands have used.
            let is_due = last.at.elapsed() >= last.took * PAUSE_FACTOR;
            if !may_be_full && !was_full && !is_due {
                return last.bytes;
            }
            let start = cpu_time();
            let usage = measure(&workspace, None, &[]);
            // What cannot be measured, for example because it is nested too deeply, may be as large as what the disk
            // lost.
            let lost = if usage.incomplete { free_at_start.saturating_sub(free) } else { 0 };
            let bytes = usage.bytes.max(lost);
            let took = cpu_time().saturating_sub(start);
            *last = LastSize { bytes, free, at: Instant::now(), took };
            bytes
        };
        let bytes = tokio::task::spawn_blocking(measured).await.ok()?;
        self.is_full.store(bytes > self.limit, Ordering::Relaxed);
        (bytes > self.limit).then(|| {
            let mebibytes = bytes >> 20;
            let limit = ReachedLimit::Disk(self.limit);
            format!(
                "Your workspace holds {mebibytes} MiB: {limit}. Until you have deleted enough, commands can delete \
                 files but not write any."
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, WorkspaceDisk};

    #[tokio::test]
    async fn deeply_nested_files_count_although_they_cannot_be_measured() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = WorkspaceDisk::new(dir.path().to_owned(), 1 << 26);
        disk.free_at_start = u64::MAX;
        assert_eq!(disk.check().await, None, "everything was measured");
        let deep = dir.path().join(vec!["d"; 300].join("/"));
        std::fs::create_dir_all(deep).unwrap();
        disk.last.lock().unwrap().took = Duration::ZERO;
        assert!(disk.check().await.is_some_and(|told| told.contains("delete")) && disk.is_full());
        std::fs::remove_dir_all(dir.path().join("d")).unwrap();
        assert_eq!(disk.check().await, None);
    }
}
