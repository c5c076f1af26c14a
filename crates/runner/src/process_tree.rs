//! Finds and ends every process below this one.
//!
//! For guards only. On Linux a guard is a child subreaper: orphans become its own children, so they cannot escape
//! with `setsid` or a double fork. Never signals a process that is not below the caller.

use crate::kernel;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Processes that survive this long cannot be killed (they belong to another user or hang in the kernel);
/// waiting longer would only keep the guard alive.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to poll without sleeping.
const SPIN_FOR: Duration = Duration::from_secs(1);

/// Reaps one finished child, if there is one. `Err` means that no children are left.
pub(crate) fn reap() -> Result<Option<(Pid, WaitStatus)>, rustix::io::Errno> {
    wait(WaitOptions::NOHANG)
}

/// Sends a signal to every process below this one except `exempt`.
pub(crate) fn signal_below(signal: Signal, exempt: Option<Pid>) {
    for pid in below(getpid()).into_iter().filter(|pid| Some(*pid) != exempt) {
        // The process may have ended already.
        let _ = kill_process(pid, signal);
    }
}

/// Kills every process below this one and waits until they are gone, but not longer than [`KILL_TIMEOUT`].
/// `on_reaped` is called for each finished child.
pub(crate) fn kill_below(mut on_reaped: impl FnMut(Pid, WaitStatus)) {
    let start = Instant::now();
    for round in 0_u32.. {
        loop {
            match reap() {
                Ok(Some((pid, status))) => on_reaped(pid, status),
                Ok(None) => break,
                Err(_no_children_left) => return,
            }
        }
        if start.elapsed() > KILL_TIMEOUT {
            return;
        }
        if round % 64 == 0 {
            kill_tree();
        } else {
            kill_children();
        }
        // No sleep at first, to outpace processes that keep forking; processes that are left later are only
        // slow to die.
        if start.elapsed() > SPIN_FOR {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Stops every process before killing any, so that a process that forks quickly cannot outrun the kills.
fn kill_tree() {
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

/// Kills our direct children. Every other process below becomes a direct child when its parent dies, and
/// listing direct children is fast enough to catch a process that changes its pid by forking all the time.
fn kill_children() {
    for pid in kernel::children() {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// All descendants of `root`.
fn below(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in kernel::parents() {
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
