//! Our side of a guard: starts it, takes in the command's output, and ends it all by letting go.
//!
//! Dropping the future closes the guard's socket, and the guard kills everything; the same happens when we are killed.
//! Never waits without a limit: not for a held pipe, not for a guard that stopped answering.

use crate::hidden::GUARD;
use crate::launch::{Launch, Report, TERMINATE, frame};
use crate::output::Collector;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};

/// One read's worth; the pipe is made as large, so that a flood costs few system calls.
const CHUNK: usize = 256 * 1024;
/// Beyond the grace for TERM, what a guard may take to kill and report.
const GUARD_SLACK: Duration = Duration::from_secs(8);

/// How our own program is started again in its hidden modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    program: PathBuf,
}

impl Default for Launcher {
    /// This very program, even if its file was replaced meanwhile.
    fn default() -> Self {
        Self { program: PathBuf::from("/proc/self/exe") }
    }
}

impl Launcher {
    /// Another program whose `main` calls [`crate::hidden_main`]; for tests, whose own `main` does not.
    pub fn of(program: PathBuf) -> Self {
        Self { program }
    }

    /// Runs a command to its end, its output going to `output`.
    pub(crate) async fn run(&self, launch: &Launch, time: Time, output: &mut Collector) -> io::Result<End> {
        let mut watch = self.start(launch).await?;
        let end = watch.until_end(time, output).await;
        // The guard ends by itself now; waiting for it keeps zombies away. It kills leftovers first.
        drop(watch.control);
        let _ = tokio::time::timeout(GUARD_SLACK, watch.guard.wait()).await;
        end
    }

    async fn start(&self, launch: &Launch) -> io::Result<Watch> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // Only a matter of speed; an unprivileged user may be over its budget for pipes.
        let _ = rustix::pipe::fcntl_setpipe_size(&to, CHUNK);
        let child = Command::new(&self.program)
            .arg0("althing")
            .arg(GUARD)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(to.try_clone()?))
            .stderr(Stdio::from(to))
            .spawn()?;
        let guard = Guard(Some(child));
        rustix::io::ioctl_fionbio(&from, true)?;
        let output = pipe::Receiver::from_owned_fd(from)?;
        let (read, mut control) = UnixStream::from_std(ours)?.into_split();
        control.write_all(&frame(launch)?).await?;
        Ok(Watch { guard, control, reports: BufReader::new(read).lines(), output })
    }
}

/// How long a command may run, and how long its output may linger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) limit: Duration,
    pub(crate) grace: Duration,
    pub(crate) drain: Duration,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Its exit code, unless a signal ended it.
    pub(crate) code: Option<i64>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// Whether its time was up.
    pub(crate) timed_out: bool,
}

/// A guard that is always waited for, also when nobody does so any more: a child dropped at the wrong moment would stay a
/// zombie until the next one ends.
struct Guard(Option<tokio::process::Child>);

impl Guard {
    async fn wait(&mut self) {
        if let Some(child) = &mut self.0 {
            // However it ended: it is no zombie now.
            let _ = child.wait().await;
        }
        self.0 = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and its children's remains with it.
        if let (Some(mut child), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { child.wait().await });
        }
    }
}

struct Watch {
    guard: Guard,
    /// Closing it is what ends everything.
    control: OwnedWriteHalf,
    reports: Lines<BufReader<OwnedReadHalf>>,
    output: pipe::Receiver,
}

impl Watch {
    async fn until_end(&mut self, time: Time, output: &mut Collector) -> io::Result<End> {
        let mut buffer = vec![0; CHUNK];
        let mut deadline = Instant::now() + time.limit;
        let mut timed_out = false;
        let mut end: Option<End> = None;
        let mut open = true;
        loop {
            if let Some(end) = end
                && !open
            {
                return Ok(end);
            }
            tokio::select! {
                biased;
                () = sleep_until(deadline) => {
                    if let Some(end) = end {
                        return Ok(end);
                    }
                    if timed_out {
                        return Err(io::Error::other("the guard did not end the command in time"));
                    }
                    timed_out = true;
                    deadline = Instant::now() + time.grace + GUARD_SLACK;
                    self.control.write_all(&[TERMINATE]).await?;
                }
                line = self.reports.next_line(), if end.is_none() => {
                    if let Some((code, signal)) = exited(line?)? {
                        end = Some(End { code, signal, timed_out });
                        deadline = Instant::now() + time.drain;
                    }
                }
                read = self.output.read(&mut buffer), if open => match read? {
                    0 => open = false,
                    length => output.push(buffer.get(..length).unwrap_or_default()),
                },
            }
        }
    }
}

/// Reads a report; `Some` if it is the last one.
fn exited(line: Option<String>) -> io::Result<Option<(Option<i64>, Option<i32>)>> {
    let line = line.ok_or_else(|| io::Error::other("the guard ended without a word"))?;
    match serde_json::from_str(&line)? {
        Report::Started => Ok(None),
        Report::Failed { message } => Err(io::Error::other(message)),
        Report::Exited { code, signal } => Ok(Some((code.map(i64::from), signal))),
    }
}
