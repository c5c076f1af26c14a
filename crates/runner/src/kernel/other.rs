//! Kernel features on systems other than Linux: no sandbox is available, so commands that need one are refused.

use super::{Memory, ResidentMemory, TerminalRead, TreeUsage, UnnamedFiles};
use crate::guard_protocol::Restrictions;
use crate::mount_check::{ExpectedMount, FileId};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn own_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("althing"))
}

pub(crate) fn mount_points() -> Vec<PathBuf> {
    Vec::new()
}

pub(crate) fn is_in_system_mount(_: std::os::fd::BorrowedFd<'_>, _: &std::ffi::CStr) -> bool {
    false
}

pub(crate) fn open_files_below(_: u32) -> Vec<PathBuf> {
    Vec::new()
}

/// This system has no child subreapers, so orphans become children of init.
#[expect(clippy::unnecessary_wraps, reason = "it can fail on Linux")]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

pub(crate) fn set_pipe_size(_: impl AsFd, _: usize) {}

/// This system has no parent-death signal; the guard ends what it started.
#[expect(clippy::unnecessary_wraps, reason = "it can fail on Linux")]
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(())
}

pub(crate) fn confine(_: &Restrictions) -> io::Result<()> {
    Err(io::Error::other("commands can be confined only on Linux"))
}

pub(crate) fn protect_own_files(_: &Path) -> io::Result<()> {
    Err(io::Error::other("Althing cannot check this on this operating system"))
}

pub(crate) fn check_own_files() -> io::Result<()> {
    Err(io::Error::other("Althing cannot check this on this operating system"))
}

pub(crate) fn enter_own_domain(_: bool) {}

pub(crate) fn file_id(_: &Path) -> io::Result<FileId> {
    Err(io::Error::other("Althing cannot check this on this operating system"))
}

pub(crate) fn with_accessible_parent(_: &std::fs::File, act: impl FnOnce()) {
    act();
}

pub(crate) fn check_mount(_: &ExpectedMount) -> io::Result<()> {
    Err(io::Error::other("Althing cannot check this on this operating system"))
}

pub(crate) struct ContainerRoot(std::convert::Infallible);

impl ContainerRoot {
    pub(crate) fn open(_: i64, _: &str) -> io::Result<Self> {
        Err(io::Error::other("containers run in a virtual machine on this system"))
    }

    pub(crate) fn check(&self, _: &[ExpectedMount]) -> io::Result<()> {
        match self.0 {}
    }
}

pub(crate) fn landlock_abi() -> Option<u8> {
    None
}

/// `ps` runs inside the guard, which waits for its end, so `ps` needs no guard of its own.
fn parents() -> Vec<(i32, i32)> {
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

pub(crate) fn scope_signals() -> bool {
    false
}

pub(crate) fn signal_whole_scope(_: Signal) {}

pub(crate) fn signal_tree(signal: Signal, exempt: Option<Pid>) {
    for pid in below(getpid()).into_iter().filter(|pid| Some(*pid) != exempt) {
        let _ = kill_process(pid, signal);
    }
}

/// Stops every process before killing any, so that a process that forks quickly cannot outrun the kills.
pub(crate) fn kill_tree() {
    let me = getpid();
    let mut frozen = HashSet::new();
    for _ in 0..100 {
        let fresh: Vec<Pid> = below(me).into_iter().filter(|pid| frozen.insert(*pid)).collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            let _ = kill_process(pid, Signal::STOP);
        }
    }
    for pid in frozen {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// All descendants of `root`, except orphans: a process whose parent has ended is not found.
fn below(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in parents() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![root.as_raw_nonzero().get()];
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).into_iter().flatten() {
            next.push(child);
            found.extend(Pid::from_raw(child));
        }
    }
    found
}

pub(crate) fn raise_priority() {}

pub(crate) fn tasks_of_machine() -> Option<u64> {
    None
}

/// Processes and memory are not measured on this system, so only the limits on open files and on disk space apply.
pub(crate) fn tree_usage(_: usize) -> TreeUsage {
    TreeUsage::default()
}

pub(crate) fn resident_memory(_: &[i32]) -> ResidentMemory {
    ResidentMemory::default()
}

pub(crate) fn memory() -> Option<Memory> {
    None
}

pub(crate) fn unnamed_files(_: &[i32]) -> UnnamedFiles {
    UnnamedFiles::default()
}

pub(crate) fn sandbox_files_in_memory(_: &[i32]) -> u64 {
    0
}

pub(crate) fn has_files_in_transit(_: &[i32]) -> bool {
    false
}

pub(crate) fn maps_unnamed_files(_: &[i32]) -> bool {
    false
}

pub(crate) fn written_bytes(_: &[i32]) -> u64 {
    0
}

pub(crate) fn socket_capacity() -> u64 {
    0
}

pub(crate) fn terminal_id(_: &Path) -> Option<(u64, u64)> {
    None
}

pub(crate) fn terminal_read(_: Pid, _: (u64, u64)) -> TerminalRead {
    TerminalRead::Unseen
}
