//! Ends every process below this one.
//!
//! For the main thread of a guard only. On Linux a guard is a child subreaper: orphans become its own children, so they
//! cannot escape with `setsid` or a double fork. Since Linux 5.3, no signal ever reaches a process that is not below
//! the caller, not even one that got the id of a process that has just ended.

use crate::kernel;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use std::time::{Duration, Instant};

/// Processes that survive this long cannot be killed (they belong to another user or hang in the kernel);
/// waiting longer would only keep the guard alive.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to poll without sleeping, if processes may fork faster than they are killed.
const SPIN_FOR: Duration = Duration::from_secs(1);

/// The maximum number of children that are reaped at once.
const MOST_REAPED: usize = 200;

/// What holds the processes below this one together, so that none of them escapes by forking while the others are
/// killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enclosure {
    /// A pid namespace (bubblewrap's): the kernel kills all its processes together with the first one.
    PidNamespace,
    /// Signals of this process reach only the processes below it (Landlock), so that one system call kills all of them.
    SignalScope,
    /// Nothing: the processes are found and killed one by one.
    None,
}

/// What is left after reaping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// No children at all.
    Nothing,
    /// Children that run.
    Running,
    /// Children, of which more have probably ended: the limit was reached.
    Ended,
}

/// Reaps finished children, but not too many at once: there may be more and more of them. Calls `on_reaped` for each.
pub(crate) fn reap_some(mut on_reaped: impl FnMut(Pid, WaitStatus)) -> Left {
    for _ in 0..MOST_REAPED {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => on_reaped(pid, status),
            Ok(None) => return Left::Running,
            Err(_no_children) => return Left::Nothing,
        }
    }
    Left::Ended
}

/// Sends a signal to every process below this one except `exempt`, which is a child of this process.
pub(crate) fn signal_below(enclosure: Enclosure, signal: Signal, exempt: Option<Pid>) {
    match enclosure {
        Enclosure::SignalScope if exempt.is_none() => kernel::signal_whole_scope(signal),
        _ => kernel::signal_tree(signal, exempt),
    }
}

/// Kills every process below this one and waits until they are gone, but not longer than [`KILL_TIMEOUT`].
/// `on_reaped` is called for each finished child.
pub(crate) fn kill_below(enclosure: Enclosure, mut on_reaped: impl FnMut(Pid, WaitStatus)) {
    let start = Instant::now();
    for round in 0_u32.. {
        match enclosure {
            Enclosure::SignalScope => kernel::signal_whole_scope(Signal::KILL),
            Enclosure::None if round % 64 == 0 => kernel::kill_tree(),
            Enclosure::None | Enclosure::PidNamespace => kill_children(),
        }
        let left = reap_some(&mut on_reaped);
        if left == Left::Nothing || start.elapsed() > KILL_TIMEOUT {
            return;
        }
        // Without an enclosure, do not sleep at first, to outpace processes that keep forking. Processes that are left
        // later are only slow to die.
        let may_fork = enclosure == Enclosure::None && start.elapsed() < SPIN_FOR;
        if left == Left::Running && !may_fork {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Kills our direct children. Every other process below becomes a direct child when its parent dies, and
/// listing direct children is fast enough to catch a process that changes its pid by forking all the time.
fn kill_children() {
    for pid in kernel::children() {
        // A child keeps its id until this thread reaps it, so the id cannot belong to another process.
        let _ = kill_process(pid, Signal::KILL);
    }
}
