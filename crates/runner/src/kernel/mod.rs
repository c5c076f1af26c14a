//! Kernel features: sandboxing a process, adopting orphans, waiting for the end of a process.
//!
//! Linux supports all of them. Other systems have no sandbox, so confined commands are refused there, and a process
//! whose parent has ended is not found again, so it may outlive its guard.

#[cfg(target_os = "linux")]
mod landlock_ruleset;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod seccomp;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::*;
