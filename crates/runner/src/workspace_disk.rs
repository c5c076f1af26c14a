//! The size of one agent's workspace, measured between its commands.
//!
//! A guard measures the workspace while a command runs. That misses many short commands that each write a little, so
//! the size is also checked after each command. While the workspace is too large, commands under a guard may delete
//! files but not write any.

use crate::disk_usage::{free_space, measure};
use crate::limits::ReachedLimit;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The workspace of one agent.
#[derive(Debug)]
pub(crate) struct WorkspaceDisk {
    workspace: PathBuf,
    limit: u64,
    is_full: AtomicBool,
    last: Arc<Mutex<LastSize>>,
}

/// The workspace's size, and the free space on its disk at that time.
#[derive(Clone, Copy, Debug)]
struct LastSize {
    bytes: u64,
    free: u64,
}

impl WorkspaceDisk {
    pub(crate) fn new(workspace: PathBuf, limit: u64) -> Self {
        // The workspace is not measured until the disk's free space has shrunk by more than the limit; until then the
        // size of the workspace counts as zero.
        let last = LastSize { bytes: 0, free: free_space([&workspace].into_iter()) };
        Self { workspace, limit, is_full: AtomicBool::new(false), last: Arc::new(Mutex::new(last)) }
    }

    /// Whether the workspace was too large when it was last measured.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Measures the workspace if it may be too large. If it is too large, returns what the agent must be told.
    pub(crate) async fn check(&self) -> Option<String> {
        let (workspace, limit) = (self.workspace.clone(), self.limit);
        let (last, was_full) = (self.last.clone(), self.is_full());
        let measured = move || {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            let free = free_space([&workspace].into_iter());
            let may_be_full = last.bytes.saturating_add(last.free.saturating_sub(free)) > limit;
            if !may_be_full && !was_full {
                return last.bytes;
            }
            let bytes = measure(&workspace, None, &[]).bytes;
            *last = LastSize { bytes, free };
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
