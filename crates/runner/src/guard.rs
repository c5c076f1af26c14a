//! The guard: a small process between Althing and a command. When its control socket (file descriptor 0) closes, for
//! any reason, or when the command has ended, the guard kills everything below itself and exits.
//!
//! It does not rely on parent-death signals, which follow threads rather than processes and are not inherited by the
//! command's own children.

use crate::guard_protocol::{
    GuardReport, GuardRequest, GuardedCommand, Restrictions, TERMINATE, WrittenPaths, read_frame,
};
use crate::limit_watch::{DiskWatch, LimitWatch};
use crate::limits::{MachineLimits, ReachedLimit};
use crate::process_tree::{Enclosure, Left, kill_below, reap_some, signal_below};
use crate::{fd_passing, kernel, sandbox_exec};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitStatus, getrlimit, setrlimit, setsid, waitid,
};
use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const LONGEST_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Room in the limit on the user's processes (`RLIMIT_NPROC`) for other programs that start while the command runs.
const SPARE_TASKS: u64 = 4096;

pub(crate) fn guard_main() -> ExitCode {
    // Descriptors inherited from our parent must not reach the command.
    close_fds::set_fds_cloexec(3, &[]);
    // Without a controlling terminal, a command cannot type into it, and no signals for the terminal's foreground
    // group arrive. `setsid` fails only if this process already leads a process group.
    let _ = setsid();
    let start = kernel::adopt_orphans()
        .and_then(|()| fd_passing::receive_fd(rustix::stdio::stdin()))
        .and_then(|input| Ok((input, read_frame::<GuardRequest<GuardedCommand>>(&mut Control)?)))
        .and_then(|(input, GuardRequest { command: guarded_command, limits })| {
            // The launch message stays readable after its sender is gone, but a command must not be started for a
            // dead parent.
            if is_abandoned() {
                return Err(io::Error::other("the process that requested the command is gone"));
            }
            if let Some(paths) = &guarded_command.limited {
                limit_files(limits, paths)?;
            }
            let paths = guarded_command.limited.clone();
            let disk = paths.map(|paths| DiskWatch::new(paths, limits.disk));
            let enclosure = enclosure(&guarded_command);
            let child = sandbox_exec::start(&guarded_command, input)?;
            Ok((child, guarded_command, enclosure, disk.map(|disk| (limits, disk))))
        });
    match start {
        Ok((child, guarded_command, enclosure, limited)) => {
            release_output();
            if guarded_command.restrictions.is_some() {
                // The priority is raised only after the start of the command, which would inherit it.
                kernel::raise_priority();
            }
            let limit_watch = limited.map(|(limits, disk)| LimitWatch::start(limits, disk));
            let (Ok(limit_watch), Ok(child_watch)) = (limit_watch.transpose(), ChildWatch::start()) else {
                let message = "the guard could not watch the command".to_owned();
                send_report(&GuardReport::Failed { message, missing: false });
                kill_below(enclosure, |_, _| ());
                return ExitCode::FAILURE;
            };
            let exempt = guarded_command.in_bubblewrap.then_some(child);
            CommandWatch {
                child,
                enclosure,
                exempt,
                grace: Duration::from_millis(guarded_command.grace_ms),
                kill_at: None,
                limit_watch,
                child_watch,
                is_behind: false,
            }
            .run();
            ExitCode::SUCCESS
        }
        Err(error) => {
            let missing = error.kind() == io::ErrorKind::NotFound;
            send_report(&GuardReport::Failed { message: error.to_string(), missing });
            kill_below(Enclosure::None, |_, _| ());
            ExitCode::FAILURE
        }
    }
}

/// The result says what will hold the command's processes together. For [`Enclosure::SignalScope`], this process
/// enters the scope, so that the command inherits it.
fn enclosure(guarded_command: &GuardedCommand) -> Enclosure {
    match &guarded_command.restrictions {
        _ if guarded_command.in_bubblewrap => Enclosure::PidNamespace,
        Some(Restrictions::Landlock { .. }) if kernel::scope_signals() => Enclosure::SignalScope,
        _ => Enclosure::None,
    }
}

/// Sets limits of this process that the command inherits. If the workspace is full already, the file size limit is
/// zero, so that the command can delete files but not write any.
fn limit_files(limits: MachineLimits, paths: &WrittenPaths) -> io::Result<()> {
    lower_limit(Resource::Nofile, limits.open_files.into())?;
    if let Some(tasks) = kernel::tasks_of_machine() {
        // The kernel counts all processes and threads of the user, so the limit is far more than the command may
        // have. It protects the machine from processes that fork faster than the guard counts them. Root is exempt.
        let most = tasks.saturating_add(limits.processes.into()).saturating_add(SPARE_TASKS);
        lower_limit(Resource::Nproc, most)?;
    }
    if paths.full {
        lower_limit(Resource::Fsize, 0)?;
    }
    Ok(())
}

fn lower_limit(resource: Resource, most: u64) -> io::Result<()> {
    let now = getrlimit(resource);
    let lower = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    Ok(setrlimit(resource, Rlimit { current: lower(now.current), maximum: lower(now.maximum) })?)
}

fn is_abandoned() -> bool {
    let stdin = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::RDHUP)];
    let polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::RDHUP))
}

struct Control;

impl io::Read for Control {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut *buffer))?)
    }
}

impl Write for Control {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stdin(), bytes))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn send_report(report: &GuardReport) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = Control.write_all(&line);
    }
}

/// Closes the guard's copies of stdout and stderr: otherwise readers would not see the end of the output when the
/// command's processes exit.
fn release_output() {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Wakes the guard at once when a child has ended. Otherwise a command that keeps forking short-lived processes would
/// fill the process table with zombies.
struct ChildWatch {
    woken: PipeReader,
    reaped: Sender<()>,
}

impl ChildWatch {
    fn start() -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
        rustix::io::ioctl_fionbio(&woken, true)?;
        let (reaped, was_reaped) = channel();
        let watch = move || Self::watch(wake, &was_reaped);
        std::thread::Builder::new().name("children".to_owned()).spawn(watch)?;
        Ok(Self { woken, reaped })
    }

    /// Waits for the end of children without reaping them. Only the main thread reaps, because it relies on the ids
    /// of children that were not reaped.
    fn watch(mut wake: PipeWriter, was_reaped: &Receiver<()>) {
        loop {
            match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            }
            if wake.write_all(&[0]).is_err() || was_reaped.recv().is_err() {
                return;
            }
        }
    }

    fn was_asked(&self) -> bool {
        matches!(rustix::io::read(&self.woken, &mut [0; 8]), Ok(1..))
    }

    fn answer(&self) {
        let _ = self.reaped.send(());
    }
}

struct CommandWatch {
    child: Pid,
    enclosure: Enclosure,
    exempt: Option<Pid>,
    grace: Duration,
    /// When the command is killed; set once the command was asked to end.
    kill_at: Option<Instant>,
    limit_watch: Option<LimitWatch>,
    child_watch: ChildWatch,
    is_behind: bool,
}

impl CommandWatch {
    fn run(mut self) {
        send_report(&GuardReport::Started);
        loop {
            let was_asked = self.child_watch.was_asked();
            let is_over = self.reap_children();
            if was_asked {
                self.child_watch.answer();
            }
            if is_over {
                return kill_below(self.enclosure, |_, _| ());
            }
            if self.kill_at.is_some_and(|at| Instant::now() >= at) {
                return self.kill();
            }
            if let Some(reached) = self.reached_limit() {
                send_report(&GuardReport::Limit(reached));
                if reached.is_fatal() {
                    return self.kill();
                }
            }
            match self.wait_for_control() {
                ControlMessage::None => {}
                ControlMessage::Terminate => {
                    signal_below(self.enclosure, Signal::TERM, self.exempt);
                    // A stopped process handles TERM only after CONT.
                    signal_below(self.enclosure, Signal::CONT, None);
                    self.kill_at.get_or_insert(Instant::now() + self.grace);
                }
                ControlMessage::Closed => return self.kill(),
            }
        }
    }

    fn wait_for_control(&self) -> ControlMessage {
        let mut fds = vec![
            PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.child_watch.woken.as_fd(), PollFlags::IN),
        ];
        let limits = self.limit_watch.as_ref().map(|watch| watch.woken.as_fd());
        fds.extend(limits.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let mut timeout = LONGEST_WAIT;
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
            Ok(0) | Err(_) => ControlMessage::Closed,
        }
    }

    fn reap_children(&mut self) -> bool {
        let mut is_over = false;
        let left = reap_some(|pid, status| {
            if pid == self.child {
                send_report(&exited(status));
                is_over = true;
            }
        });
        self.is_behind = left == Left::Ended;
        is_over
    }

    /// While ended children are left to reap, this function counts the children itself, because the limit watch is
    /// slow when the list of children changes while it reads it.
    fn reached_limit(&self) -> Option<ReachedLimit> {
        let watch = self.limit_watch.as_ref()?;
        let too_many = || self.is_behind && kernel::children().len() > watch.processes as usize;
        watch.reached().or_else(|| too_many().then_some(ReachedLimit::Processes(watch.processes)))
    }

    fn kill(&self) {
        kill_below(self.enclosure, |pid, status| {
            if pid == self.child {
                send_report(&exited(status));
            }
        });
    }
}

enum ControlMessage {
    None,
    Terminate,
    /// Our parent is gone, or shut the socket down to have everything killed.
    Closed,
}

fn exited(status: WaitStatus) -> GuardReport {
    GuardReport::Exited { code: status.exit_status(), signal: status.terminating_signal() }
}
