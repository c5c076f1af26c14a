//! What only the kernel can do for us: walls around a process, orphans that come to us, word of a process's end.
//!
//! Linux can do all of it. Elsewhere there are no walls, so that whoever asks for them is refused, and what leaves a process
//! group is not found again.

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
