//! Finds and ends every process below this one.
//!
//! Only for a guard: a child subreaper, so that whoever loses its parent becomes the guard's own child and cannot get
//! away by `setsid` or a double fork. Never signals a process that is not below the caller.

use crate::kernel;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// After this long the rest cannot be killed (it belongs to someone else or hangs in the kernel); waiting on would
/// only keep the guard from ending.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// For this long no time is lost by sleeping.
const SPIN_FOR: Duration = Duration::from_secs(1);

/// Collects one ended child, if there is one. `Err` when no child is left at all.
pub(crate) fn reap() -> Result<Option<(Pid, WaitStatus)>, rustix::io::Errno> {
    wait(WaitOptions::NOHANG)
}

/// Sends a signal to everything below but `exempt`.
pub(crate) fn signal_below(signal: Signal, exempt: Option<Pid>) {
    for pid in below(getpid()).into_iter().filter(|pid| Some(*pid) != exempt) {
        // It may have ended since; then there is nothing left to do.
        let _ = kill_process(pid, signal);
    }
}

/// Kills everything below and waits until it is gone. `on_reaped` sees who ended and how.
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
        // Quick at first, because of what runs from us; then patient, because of what is slow to die.
        if start.elapsed() > SPIN_FOR {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Stops everything, then kills it: something that forks faster than we kill cannot stay ahead of being stopped.
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

/// Kills our direct children. Everything below becomes one when its parent dies, and asking for them is quick enough for
/// one that changes its number by forking all the time.
fn kill_children() {
    for pid in kernel::children() {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Everyone whose line of parents leads to `root`.
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
