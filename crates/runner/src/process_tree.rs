//! Kills every process below this one, also grandchildren. For the main thread of a guard only: on Linux a guard is a
//! child subreaper, so orphans become its own children and cannot escape with `setsid` (which `killpg` would miss) or a
//! double fork.

use crate::kernel;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, wait};
use std::time::{Duration, Instant};

/// Processes that survive this long cannot be killed: they belong to another user or hang in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const SPIN_FOR: Duration = Duration::from_secs(1);

const MOST_REAPED: usize = 200;

/// What prevents processes from escaping by forking while the others are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enclosure {
    /// Bubblewrap's pid namespace: the kernel kills all its processes together with the first one.
    PidNamespace,
    /// Landlock: signals of this process reach only the processes below it, so one system call kills all of them.
    SignalScope,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    Running,
    /// More children have probably ended, because the maximum number was reaped.
    Ended,
}

/// Reaps at most [`MOST_REAPED`] children, because new ones may end all the time.
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

pub(crate) fn signal_below(enclosure: Enclosure, signal: Signal, exempt: Option<Pid>) {
    match enclosure {
        Enclosure::SignalScope if exempt.is_none() => kernel::signal_whole_scope(signal),
        _ => kernel::signal_tree(signal, exempt),
    }
}

/// Kills everything below this process and waits until it is gone, but not longer than [`KILL_TIMEOUT`].
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
        // Processes that are still left after `SPIN_FOR` do not escape by forking but are slow to die, so the loop may
        // sleep.
        let may_fork = enclosure == Enclosure::None && start.elapsed() < SPIN_FOR;
        if left == Left::Running && !may_fork {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Kills the direct children. Every other process below becomes a direct child when its parent dies, and listing only
/// direct children is fast enough to catch a process that changes its pid by forking all the time.
fn kill_children() {
    for pid in kernel::children() {
        // A child keeps its id until this thread reaps it, so the id cannot belong to another process.
        let _ = kill_process(pid, Signal::KILL);
    }
}
