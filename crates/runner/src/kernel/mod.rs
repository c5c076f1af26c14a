//! Kernel features for the runner: sandboxing a process, adopting orphans, signals to a tree of processes, and the
//! resources that a tree uses. Other systems than Linux have no sandbox, so confined commands are refused there, and
//! an orphaned process may outlive its guard.

#[cfg(target_os = "linux")]
mod container_mounts;
#[cfg(target_os = "linux")]
mod descendants;
#[cfg(target_os = "linux")]
mod hidden;
#[cfg(target_os = "linux")]
mod landlock_ruleset;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod own_files;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod terminal_reads;
#[cfg(target_os = "linux")]
mod usage;

#[cfg(target_os = "linux")]
pub(crate) use container_mounts::{ContainerRoot, mount_points};
#[cfg(target_os = "linux")]
pub(crate) use descendants::*;
#[cfg(target_os = "linux")]
pub(crate) use hidden::*;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "linux")]
pub(crate) use mounts::{check_mount, file_id, is_in_system_mount, with_accessible_parent};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;
#[cfg(target_os = "linux")]
pub(crate) use own_files::*;
#[cfg(target_os = "linux")]
pub(crate) use terminal_reads::{terminal_id, terminal_read};
#[cfg(target_os = "linux")]
pub(crate) use usage::*;

#[derive(Debug, Default)]
pub(crate) struct TreeUsage {
    /// The processes, without the calling one.
    pub(crate) pids: Vec<i32>,
    /// The number of processes and threads, including processes that ended and were not reaped.
    pub(crate) tasks: usize,
    /// Memory that is not backed by a file on disk, and page tables, in bytes. Pages that several processes share
    /// count for each.
    pub(crate) memory: u64,
    pub(crate) most_files: u64,
}

/// The memory of one or more processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResidentMemory {
    pub(crate) private: u64,
    /// Shared memory: files in tmpfs, memfds and shared anonymous memory.
    pub(crate) in_files: u64,
}

impl ResidentMemory {
    pub(crate) fn total(self) -> u64 {
        self.private.saturating_add(self.in_files)
    }
}

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    /// The memory that can still be used without swapping out, and the free swap space.
    pub(crate) available: u64,
    pub(crate) private: u64,
    pub(crate) in_files: u64,
}

/// Files that processes hold open and that have no name; `memory` and `disk` are their sizes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnnamedFiles {
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    /// Whether there were too many open files to look at all of them, or a process forbids a look at its files.
    pub(crate) incomplete: bool,
    pub(crate) sockets: u64,
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "other systems do not tell who reads"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TerminalRead {
    By(TerminalReader),
    None,
    Unseen,
}

#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "other systems do not tell who reads"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TerminalReader {
    pub(crate) program: String,
    pub(crate) thread: i32,
    /// How often the thread has gone to sleep so far. If this has not changed, the thread has slept all the time.
    pub(crate) sleeps: u64,
    /// Whether the thread waits for nothing but the terminal: it is in a `read`, not in a `poll`.
    pub(crate) blocks: bool,
}
