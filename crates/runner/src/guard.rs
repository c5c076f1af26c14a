//! The guard: a small process between us and a command. When we are gone, the guard kills all its descendants.
//!
//! The guard never outlives its socket (file descriptor 0): when the socket closes, for any reason, the guard
//! kills everything below itself and exits. It must never outlive its command and never hold the command's
//! output open. It does not rely on parent-death signals, which follow threads rather than processes and are not
//! inherited by the command's own children.

use crate::guard_protocol::{GuardReport, GuardedCommand, TERMINATE, read_frame};
use crate::process_tree::{kill_below, reap, signal_below};
use crate::{fd_passing, kernel, sandbox_exec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitStatus, setsid};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often finished orphans are reaped while nothing else happens.
const REAP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// How often finished children are reaped on a kernel without pidfds, where only reaping shows that the command
/// ended.
const REAP_INTERVAL_WITHOUT_PIDFD: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

pub(crate) fn guard_main() -> ExitCode {
    // Descriptors inherited from our parent must not reach the command.
    close_fds::set_fds_cloexec(3, &[]);
    // A new session: no controlling terminal that a command could type into, and no signals meant for the
    // foreground group. `setsid` fails only if this process already leads a group, which protects it from
    // terminal signals as well.
    let _ = setsid();
    let start = kernel::adopt_orphans()
        .and_then(|()| fd_passing::receive_fd(rustix::stdio::stdin()))
        .and_then(|input| Ok((input, read_frame::<GuardedCommand>(&mut Control)?)))
        .and_then(|(input, guarded_command)| {
            // The launch message stays readable after its sender is gone; a command must not be started for a
            // dead parent.
            if is_abandoned() {
                return Err(io::Error::other("the process that requested the command is gone"));
            }
            Ok((sandbox_exec::start(&guarded_command, input)?, guarded_command))
        });
    match start {
        Ok((child, guarded_command)) => {
            release_output();
            let exempt = guarded_command.exempt_from_term.then_some(child);
            CommandWatch {
                child,
                exempt,
                grace: Duration::from_millis(guarded_command.grace_ms),
                kill_at: None,
            }
            .run();
            ExitCode::SUCCESS
        }
        Err(error) => {
            let missing = error.kind() == io::ErrorKind::NotFound;
            send_report(&GuardReport::Failed { message: error.to_string(), missing });
            kill_below(|_, _| ());
            ExitCode::FAILURE
        }
    }
}

/// Whether the other end of our socket is closed.
fn is_abandoned() -> bool {
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::RDHUP)];
    let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::RDHUP))
}

/// The socket to the process that started this guard.
struct Control;

impl io::Read for Control {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut *buffer))?)
    }
}

impl io::Write for Control {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stdin(), bytes))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends a report to the process that started this guard. Errors are ignored: a closed socket is detected by
/// the main loop.
fn send_report(report: &GuardReport) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = io::Write::write_all(&mut Control, &line);
    }
}

/// Closes the guard's own copies of the command's stdout and stderr, so that readers see the end of the output
/// when the command's processes exit.
fn release_output() {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// A running command and the state of its shutdown.
struct CommandWatch {
    child: Pid,
    exempt: Option<Pid>,
    grace: Duration,
    /// When the command is killed; set once the command was asked to end.
    kill_at: Option<Instant>,
}

impl CommandWatch {
    fn run(mut self) {
        send_report(&GuardReport::Started);
        let child_pidfd = kernel::pidfd(self.child);
        loop {
            if self.reap_children() {
                return kill_below(|_, _| ());
            }
            if self.kill_at.is_some_and(|at| Instant::now() >= at) {
                return self.kill();
            }
            match self.wait_for_control(child_pidfd.as_ref()) {
                ControlMessage::None => {}
                ControlMessage::Terminate => {
                    signal_below(Signal::TERM, self.exempt);
                    // A stopped process handles TERM only after CONT.
                    signal_below(Signal::CONT, None);
                    self.kill_at.get_or_insert(Instant::now() + self.grace);
                }
                ControlMessage::Closed => return self.kill(),
            }
        }
    }

    /// Waits for a control message, the command's end or the next reap.
    fn wait_for_control(&self, child_pidfd: Option<&OwnedFd>) -> ControlMessage {
        let mut fds = vec![PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
        fds.extend(child_pidfd.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        let mut timeout = if child_pidfd.is_some() { REAP_INTERVAL } else { REAP_INTERVAL_WITHOUT_PIDFD };
        if let Some(left) = self.kill_at.map(|at| at.saturating_duration_since(Instant::now()))
            && left < Duration::from_millis(500)
        {
            timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        }
        if poll(&mut fds, Some(&timeout)).is_err() || fds.first().is_none_or(|fd| fd.revents().is_empty()) {
            return ControlMessage::None;
        }
        let mut byte = [0];
        match io::Read::read(&mut Control, &mut byte) {
            Ok(1) if byte == [TERMINATE] => ControlMessage::Terminate,
            Ok(1..) => ControlMessage::None,
            // An error on this socket means that the other end is gone.
            Ok(0) | Err(_) => ControlMessage::Closed,
        }
    }

    /// Reaps finished children. Returns true once the command itself has ended, after reporting it.
    fn reap_children(&self) -> bool {
        while let Ok(Some((pid, status))) = reap() {
            if pid == self.child {
                send_report(&exited(status));
                return true;
            }
        }
        false
    }

    fn kill(&self) {
        kill_below(|pid, status| {
            if pid == self.child {
                send_report(&exited(status));
            }
        });
    }
}

enum ControlMessage {
    None,
    Terminate,
    /// Our parent is gone, or closed the socket to have everything killed.
    Closed,
}

fn exited(status: WaitStatus) -> GuardReport {
    GuardReport::Exited { code: status.exit_status(), signal: status.terminating_signal() }
}
