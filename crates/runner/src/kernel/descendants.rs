//! Lists the processes below this one, and sends signals to them.
//!
//! For the main thread of a guard only: the id of a child stays valid because no other thread reaps the child. The id
//! of a deeper process may be reused at any time, so that process is signaled by a descriptor, and only if its parent
//! is still the expected one after the descriptor was opened.

use super::landlock_ruleset;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, test_kill_process,
};
use rustix::thread::set_no_new_privs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// The depth to which a tree of processes is walked; each level needs a descriptor. Deeper processes come closer when
/// those above them end.
const MAX_DEPTH: usize = 24;

/// Restricts this process to signals to itself and to the processes that it starts from now on; false if the kernel
/// does not support that. Programs that are started later cannot gain privileges (as with `sudo`).
pub(crate) fn scope_signals() -> bool {
    // A signal to our parent, which is outside, must be refused now.
    let is_outside_refused = || getppid().is_none_or(|parent| test_kill_process(parent).is_err());
    set_no_new_privs(true).is_ok() && landlock_ruleset::scope() && is_outside_refused()
}

/// Sends a signal to all processes below this one with one system call, during which none of them can fork. Call it
/// only after [`scope_signals`] has returned true: otherwise the signal would reach all processes of the user.
pub(crate) fn signal_whole_scope(signal: Signal) {
    // The group of process 1 stands for every process that this one may signal, except this one.
    let _ = kill_process_group(Pid::INIT, signal);
}

pub(crate) fn signal_tree(signal: Signal, exempt: Option<Pid>) {
    for child in children().into_iter().filter_map(Process::child) {
        child.walk(None, signal, exempt, MAX_DEPTH);
    }
}

/// Each process is stopped before its children are looked for, so that it cannot fork meanwhile.
pub(crate) fn kill_tree() {
    for child in children().into_iter().filter_map(Process::child) {
        child.walk(Some(Signal::STOP), Signal::KILL, None, MAX_DEPTH);
    }
}

struct Process {
    pid: Pid,
    /// A descriptor of the process (pidfd), valid even if the id is used again; `None` before Linux 5.3, which has
    /// none.
    descriptor: Option<OwnedFd>,
}

impl Process {
    /// The id must belong to a child of the calling process that was not reaped yet; for any other process, the
    /// caller has to check the parent afterwards.
    fn child(pid: Pid) -> Option<Self> {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Some(Self { pid, descriptor: Some(descriptor) }),
            Err(rustix::io::Errno::NOSYS) => Some(Self { pid, descriptor: None }),
            Err(_) => None,
        }
    }

    fn child_of(&self, pid: Pid) -> Option<Self> {
        let child = Self::child(pid)?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let is_child = parent_of(&stat) == Some(self.pid.as_raw_nonzero().get());
        // While `self` lives, its id belongs to it.
        (is_child && !self.has_ended()).then_some(child)
    }

    fn has_ended(&self) -> bool {
        let Some(descriptor) = &self.descriptor else { return false };
        let mut fds = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
        let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polled.is_err() || fds.iter().any(|fd| !fd.revents().is_empty())
    }

    fn signal(&self, signal: Signal) {
        let _ = match &self.descriptor {
            Some(descriptor) => pidfd_send_signal(descriptor, signal),
            None => kill_process(self.pid, signal),
        };
    }

    /// Each process gets `first` (if given) before its children are listed, and `last` after its children got theirs.
    /// Only `exempt` does not get `last`.
    fn walk(&self, first: Option<Signal>, last: Signal, exempt: Option<Pid>, depth: usize) {
        if let Some(first) = first {
            self.signal(first);
        }
        if depth > 0 {
            for pid in children_of(self.pid.as_raw_nonzero().get()) {
                let child = Pid::from_raw(pid).and_then(|pid| self.child_of(pid));
                if let Some(child) = child {
                    child.walk(first, last, exempt, depth - 1);
                }
            }
        }
        if Some(self.pid) != exempt {
            self.signal(last);
        }
    }
}

/// The children that all threads of a process started. Empty without `CONFIG_PROC_CHILDREN`.
fn children_of(pid: i32) -> Vec<i32> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let listed = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(listed.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    children
}

/// The files that the processes below `pid` hold open. Incomplete without `CONFIG_PROC_CHILDREN`, and for processes
/// that this user may not look at.
pub(crate) fn open_files_below(pid: u32) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut level = i32::try_from(pid).map(children_of).unwrap_or_default();
    for _ in 0..MAX_DEPTH {
        for pid in &level {
            let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files.extend(entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()));
        }
        level = level.into_iter().flat_map(children_of).collect();
    }
    files
}

/// The kernel's own list of children is a hundred times faster than scanning every process.
pub(crate) fn children() -> Vec<Pid> {
    match std::fs::read_to_string("/proc/thread-self/children") {
        Ok(children) => {
            children.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
        }
        Err(_) => children_among(&parents()),
    }
}

fn children_among(parents: &[(i32, i32)]) -> Vec<Pid> {
    let me = getpid().as_raw_nonzero().get();
    let ours = parents.iter().filter(|(_, parent)| *parent == me);
    ours.filter_map(|(pid, _)| Pid::from_raw(*pid)).collect()
}

fn parents() -> Vec<(i32, i32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let both = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, parent_of(&std::fs::read_to_string(entry.path().join("stat")).ok()?)?))
    });
    both.collect()
}

/// The parent's pid is the fourth field of `/proc/PID/stat`. The second field is a name in parentheses that may
/// itself contain parentheses and spaces.
fn parent_of(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_name_with_parentheses_and_spaces_does_not_hide_the_parent_pid() {
        assert_eq!(parent_of("17 (a) b (c) S 4 17 17 0 -1"), Some(4));
        assert_eq!(parent_of("nonsense"), None);
    }

    #[test]
    fn only_a_child_of_a_living_process_is_taken_for_its_child() {
        let pid = |child: &std::process::Child| Pid::from_raw(child.id().cast_signed()).unwrap();
        let mut child = Command::new("sh").args(["-c", "sleep 1000 & echo; wait"]).spawn().unwrap();
        let mut stranger = Command::new("sleep").arg("1000").spawn().unwrap();
        let parent = Process::child(pid(&child)).unwrap();
        let grandchild = loop {
            if let Some(pid) = children_of(child.id().cast_signed()).first() {
                break Pid::from_raw(*pid).unwrap();
            }
            std::thread::yield_now();
        };
        let grandchild_process = parent.child_of(grandchild).unwrap();
        assert!(parent.child_of(pid(&stranger)).is_none(), "its parent is another process");
        parent.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(parent.has_ended() && parent.child_of(grandchild).is_none(), "its parent has ended");
        // A signal to a process that is gone does not reach the process that has its id now.
        parent.signal(Signal::KILL);
        grandchild_process.signal(Signal::KILL);
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
