//! Systems other than Linux: no sandbox is available, so commands that need one are refused.

use crate::guard_protocol::Restrictions;
use rustix::process::{Pid, getpid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;

pub(crate) fn own_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("althing"))
}

/// Does nothing: this system has no child subreapers, so orphans become children of init.
#[expect(clippy::unnecessary_wraps, reason = "it can fail on Linux")]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// This system has no pidfd, so the caller has to poll.
pub(crate) fn pidfd(_: Pid) -> Option<OwnedFd> {
    None
}

/// This system cannot set the size of a pipe; the size is only an optimization.
pub(crate) fn set_pipe_size(_: impl AsFd, _: usize) {}

/// This system has no parent-death signal; the guard ends what it started.
#[expect(clippy::unnecessary_wraps, reason = "it can fail on Linux")]
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(())
}

pub(crate) fn confine(_: &Restrictions) -> io::Result<()> {
    Err(io::Error::other("commands can be confined only on Linux"))
}

pub(crate) fn landlock_abi() -> Option<u8> {
    None
}

/// The pid of each process with that of its parent.
///
/// Runs inside the guard, which waits for `ps` to end, so `ps` needs no guard.
pub(crate) fn parents() -> Vec<(i32, i32)> {
    let listed = Command::new("/bin/ps").args(["-A", "-o", "pid=,ppid="]).env_clear().output();
    let text = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let both = text.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    both.collect()
}

pub(crate) fn children() -> Vec<Pid> {
    let me = getpid().as_raw_nonzero().get();
    let ours = parents().into_iter().filter(|(_, parent)| *parent == me);
    ours.filter_map(|(pid, _)| Pid::from_raw(pid)).collect()
}
