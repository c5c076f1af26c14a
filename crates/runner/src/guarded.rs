//! The client side of a guard, which spawns the process of a command, CLI agent or MCP server: starts the guard, and ends
//! it and everything below it by closing its socket. Dropping a [`Guarded`] closes the socket, and so does the end of our
//! own process.

use crate::adapter::Stream;
use crate::agent_processes::OwnedGuard;
use crate::fd_passing;
use crate::guard_protocol::{GuardReport, GuardRequest, GuardedCommand, TERMINATE, frame};
use crate::kernel;
use crate::limits::{MachineLimits, ReachedLimit};
use crate::output::OutputCollector;
use crate::pipe_loop::{OutputPipes, PipeHandler, ProcessEnd, StopTimeouts, read_until_end};
use crate::reexec::GUARD;
use althing_protocol::ProcessLimits;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::Instant;

/// The size of one read and of an output pipe, in bytes.
pub(crate) const CHUNK: usize = 256 * 1024;
/// How long a guard may take, beyond the grace period after TERM, to kill and report.
pub(crate) const GUARD_SLACK: Duration = Duration::from_secs(8);

/// Starts guards: our own executable in a hidden mode (see [`crate::reexec_main`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardLauncher {
    program: PathBuf,
    limits: ProcessLimits,
    owner: Option<PathBuf>,
}

impl Default for GuardLauncher {
    fn default() -> Self {
        Self::of(kernel::own_executable())
    }
}

impl GuardLauncher {
    /// Uses another executable whose `main` calls [`crate::reexec_main`]; for tests, whose own `main` does not.
    pub fn of(program: PathBuf) -> Self {
        Self { program, limits: ProcessLimits::default(), owner: None }
    }

    /// Sets the limits of each program that is started. Only a workflow's own `command` that runs without a sandbox
    /// has no limits.
    #[must_use]
    pub fn with_limits(self, limits: ProcessLimits) -> Self {
        Self { limits, ..self }
    }

    /// A launcher for the programs of one agent or task, whose end [`crate::processes_ended`] awaits.
    #[must_use]
    pub fn owned_by(self, owner: &Path) -> Self {
        Self { owner: Some(owner.to_owned()), ..self }
    }

    pub(crate) fn limits(&self) -> MachineLimits {
        self.limits.into()
    }

    pub(crate) async fn run(
        &self,
        guarded_command: &GuardedCommand,
        time: CommandTimes,
        output: &mut OutputCollector,
    ) -> io::Result<CommandEnd> {
        let (from, to) = output_pipe()?;
        let mut guarded = self.guard(guarded_command, to.try_clone()?, to, None).await?;
        let pipes = OutputPipes { out: Some(from), err: None };
        let timeouts = StopTimeouts { grace: time.grace, drain: time.drain };
        let mut handler = TimeLimit { deadline: Instant::now() + time.limit, output };
        let ended = read_until_end(&mut guarded, pipes, timeouts, &mut handler).await;
        guarded.finish().await;
        let ProcessEnd { code, signal, asked_at, limit } = ended?;
        Ok(CommandEnd { code: code.map(i64::from), signal, timed_out: asked_at.is_some(), limit })
    }

    /// Spawns the process through a guard. CLI agents come here from `program::pipes` (headless) and from `terminal`.
    /// `input` is the descriptor for [`crate::guard_protocol::Input::Passed`].
    pub(crate) async fn guard(
        &self,
        guarded_command: &GuardedCommand,
        output: OwnedFd,
        errors: OwnedFd,
        input: Option<OwnedFd>,
    ) -> io::Result<Guarded> {
        // The guard is counted before it starts, so that a caller who sees no guard can be sure that none is about to
        // run.
        let running = RunningGuard::new(self.owner.clone());
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = Command::new(&self.program)
            .arg0("althing")
            .arg(GUARD)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(output))
            .stderr(Stdio::from(errors))
            .spawn()?;
        let guard = GuardProcess(Some((child, running)));
        tracing::info!(
            guard = guard.id(),
            program = %guarded_command.program.display(),
            command = sandboxed_command(guarded_command),
            cwd = %guarded_command.cwd.display(),
            sandboxed = guarded_command.restrictions.is_some(),
            "program started"
        );
        // The socket is still empty, so this cannot block.
        fd_passing::send_fd(&ours, input.as_ref().map(AsFd::as_fd))?;
        drop(input);
        let (read, mut control) = UnixStream::from_std(ours)?.into_split();
        let request = GuardRequest { command: guarded_command, limits: self.limits() };
        control.write_all(&frame(&request)?).await?;
        // A small buffer is enough: reports are short, and there may be hundreds of guards.
        let reports = BufReader::with_capacity(512, read).lines();
        Ok(Guarded { guard, control, reports, limit: None })
    }
}

/// The program inside bubblewrap, for the log. Its arguments are left out because they may contain prompts.
fn sandboxed_command(guarded_command: &GuardedCommand) -> Option<&str> {
    let args = guarded_command.in_bubblewrap.then_some(&guarded_command.args)?;
    let at = args.iter().position(|arg| arg == "--")?;
    args.get(at + 1)?.to_str()
}

pub(crate) fn output_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (from, to) = io::pipe()?;
    kernel::set_pipe_size(&to, CHUNK);
    rustix::io::ioctl_fionbio(&from, true)?;
    Ok((pipe::Receiver::from_owned_fd(from.into())?, to.into()))
}

pub(crate) fn input_pipe() -> io::Result<(pipe::Sender, OwnedFd)> {
    let (from, to) = io::pipe()?;
    rustix::io::ioctl_fionbio(&to, true)?;
    Ok((pipe::Sender::from_owned_fd(to.into())?, from.into()))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandTimes {
    pub(crate) limit: Duration,
    pub(crate) grace: Duration,
    pub(crate) drain: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommandEnd {
    pub(crate) code: Option<i64>,
    pub(crate) signal: Option<i32>,
    /// Whether the command was stopped at its time limit or, in a container, at the disk limit.
    pub(crate) timed_out: bool,
    pub(crate) limit: Option<ReachedLimit>,
}

static RUNNING_GUARDS: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

struct RunningGuard {
    _owned: Option<OwnedGuard>,
}

impl RunningGuard {
    fn new(owner: Option<PathBuf>) -> Self {
        RUNNING_GUARDS.send_modify(|running| *running += 1);
        Self { _owned: owner.map(OwnedGuard::new) }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        RUNNING_GUARDS.send_modify(|running| *running = running.saturating_sub(1));
    }
}

/// Waits until all guards have ended. Otherwise a guard that is told to end during its start could still start its
/// program, and kill it, after our own process has exited.
pub async fn all_guards_ended() {
    let _ = RUNNING_GUARDS.subscribe().wait_for(|running| *running == 0).await;
}

/// Reaps the guard process even if this value is dropped, so that it does not stay a zombie.
struct GuardProcess(Option<(tokio::process::Child, RunningGuard)>);

impl GuardProcess {
    fn id(&self) -> Option<u32> {
        self.0.as_ref().and_then(|(child, _)| child.id())
    }

    async fn wait(&mut self) {
        if let Some((child, _)) = &mut self.0 {
            let _ = child.wait().await;
        }
        self.0 = None;
    }
}

impl Drop for GuardProcess {
    fn drop(&mut self) {
        if let Some(guard) = self.id() {
            tracing::info!(guard, "guard's socket closed; the guard kills the program if still running");
        }
        // Without a runtime, our own process is ending, and init reaps the guard.
        if let (Some((mut child, running)), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move {
                let _ = child.wait().await;
                drop(running);
            });
        }
    }
}

/// Dropping this value ends the guard, the command and everything the command started.
pub(crate) struct Guarded {
    guard: GuardProcess,
    /// Closing this socket makes the guard kill everything.
    control: OwnedWriteHalf,
    reports: Lines<BufReader<OwnedReadHalf>>,
    limit: Option<ReachedLimit>,
}

impl Guarded {
    /// Waits until the command runs, or returns why it could not be started. Call it once, before [`Self::exited`].
    pub(crate) async fn started(&mut self) -> io::Result<()> {
        match self.report().await? {
            GuardReport::Started => Ok(()),
            GuardReport::Failed { message, missing } => Err(self.failed(message, missing)),
            GuardReport::Exited { .. } | GuardReport::Limit(_) => {
                Err(io::Error::other("the guard reported something about the program before its start"))
            }
        }
    }

    /// Waits for the command's exit code, or the signal that ended it. Cancel-safe.
    pub(crate) async fn exited(&mut self) -> io::Result<(Option<i32>, Option<i32>)> {
        loop {
            match self.report().await? {
                GuardReport::Started => {}
                GuardReport::Failed { message, missing } => return Err(self.failed(message, missing)),
                GuardReport::Limit(limit) => {
                    tracing::warn!(guard = self.guard.id(), %limit, "program reached a limit");
                    self.limit = Some(limit);
                }
                GuardReport::Exited { code, signal } => {
                    tracing::info!(guard = self.guard.id(), code, signal, "program ended");
                    return Ok((code, signal));
                }
            }
        }
    }

    async fn report(&mut self) -> io::Result<GuardReport> {
        let line = self.reports.next_line().await?;
        let line = line.ok_or_else(|| io::Error::other("the guard ended without a report"))?;
        Ok(serde_json::from_str(&line)?)
    }

    fn failed(&self, message: String, missing: bool) -> io::Error {
        tracing::warn!(guard = self.guard.id(), why = message, "program could not be started");
        let kind = if missing { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
        io::Error::new(kind, message)
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.guard.id()
    }

    pub(crate) fn limit(&self) -> Option<ReachedLimit> {
        self.limit
    }

    /// Asks the guard to end the command, without waiting. A failed write means that the guard is gone or was already
    /// asked.
    pub(crate) fn ask_to_end(&self) {
        let _ = self.control.try_write(&[TERMINATE]);
    }

    /// Makes the guard kill the command and everything below it. The guard still reports the command's end.
    pub(crate) fn kill(&self) {
        // Fails only if the guard is already gone.
        let _ = rustix::net::shutdown(self.control.as_ref(), rustix::net::Shutdown::Write);
    }

    /// Asks the guard to end the command; what is left after the command's grace period is killed.
    pub(crate) async fn terminate(&mut self) -> io::Result<()> {
        self.control.write_all(&[TERMINATE]).await
    }

    /// Kills what is left, and waits up to [`GUARD_SLACK`] until the guard is reaped.
    pub(crate) async fn finish(self) {
        let Self { mut guard, control, reports, .. } = self;
        drop((control, reports));
        let _ = tokio::time::timeout(GUARD_SLACK, guard.wait()).await;
    }
}

struct TimeLimit<'a> {
    deadline: Instant,
    output: &'a mut OutputCollector,
}

impl PipeHandler for TimeLimit<'_> {
    fn output(&mut self, _: Stream, bytes: &[u8]) {
        self.output.push(bytes);
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }
}
