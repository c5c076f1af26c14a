//! A started process: threads collect its output and its exit status, and tests wait on the collected data.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use tempfile::TempDir;

use crate::signal::Signal as Waitable;

/// Dropping this value kills the process and its process group.
#[derive(Debug)]
pub struct RunningProcess {
    name: String,
    pid: Pid,
    output: Arc<Waitable<ProcessOutput>>,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    started: Instant,
    _root: Arc<TempDir>,
}

#[derive(Debug, Default)]
struct ProcessOutput {
    stdout: CapturedStream,
    stderr: CapturedStream,
    ended: Option<(ExitStatus, Instant)>,
}

#[derive(Debug, Default)]
struct CapturedStream {
    bytes: Vec<u8>,
    lines: Vec<String>,
    closed: bool,
}

#[derive(Debug, Clone)]
pub struct Output {
    /// `None` if a signal ended the process.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub elapsed: Duration,
}

impl Output {
    /// Panics with both outputs unless the exit code is `code`.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "wrong exit code (signal {:?})\n--- stdout\n{}\n--- stderr\n{}",
            self.signal,
            self.stdout,
            self.stderr
        );
        self
    }
}

impl RunningProcess {
    pub(super) fn start(mut command: Command, name: &str, root: Arc<TempDir>) -> Self {
        // A process group of its own, so that descendants can be killed with the process.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start `{name}`: {error}"));
        let pid = Pid::from_child(&child);
        let output: Arc<Waitable<ProcessOutput>> = Arc::default();
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        collect(stdout, Arc::clone(&output), |output| &mut output.stdout);
        collect(stderr, Arc::clone(&output), |output| &mut output.stderr);
        let stdin = Arc::new(Mutex::new(child.stdin.take()));
        reap(child, pid, Arc::clone(&output));
        Self { name: name.to_owned(), pid, output, stdin, started, _root: root }
    }

    pub fn id(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    /// Waits for a matching line of stdout. Panics with both outputs after `limit`, or if stdout ends first.
    #[track_caller]
    pub fn wait_for_stdout(&self, matches: impl Fn(&str) -> bool, limit: Duration) -> String {
        self.wait_for_line("stdout", |output| &output.stdout, matches, limit)
    }

    /// As `wait_for_stdout`, for stderr.
    #[track_caller]
    pub fn wait_for_stderr(&self, matches: impl Fn(&str) -> bool, limit: Duration) -> String {
        self.wait_for_line("stderr", |output| &output.stderr, matches, limit)
    }

    #[track_caller]
    fn wait_for_line(
        &self,
        what: &str,
        stream: impl Fn(&ProcessOutput) -> &CapturedStream,
        matches: impl Fn(&str) -> bool,
        limit: Duration,
    ) -> String {
        let mut checked = 0;
        let found = self.output.wait_for_blocking(limit, |output| {
            let stream = stream(output);
            let line = stream.lines[checked..].iter().find(|line| matches(line));
            checked = stream.lines.len();
            match line {
                Some(line) => Some(Some(line.clone())),
                None => stream.closed.then_some(None),
            }
        });
        match found {
            Some(Some(line)) => line,
            Some(None) => self.fail(&format!("{what} ended without the line")),
            None => self.fail(&format!("no such line on {what} within {limit:?}")),
        }
    }

    /// Sends a signal to the process itself. Does nothing if it has ended.
    pub fn signal(&self, signal: Signal) {
        // Sent under the lock that `reap` takes, so that the process id cannot have been reused.
        self.output.read(|output| {
            if output.ended.is_none() {
                let _ = kill_process(self.pid, signal);
            }
        });
    }

    pub fn is_running(&self) -> bool {
        self.output.read(|output| output.ended.is_none())
    }

    pub fn stdout(&self) -> String {
        self.output.read(|output| text(&output.stdout))
    }

    pub fn stderr(&self) -> String {
        self.output.read(|output| text(&output.stderr))
    }

    pub fn write_stdin(&self, text: impl AsRef<[u8]>) {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let pipe = stdin.as_mut().expect("stdin is not open");
        pipe.write_all(text.as_ref()).expect("writing to stdin");
    }

    pub fn close_stdin(&self) {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Writes and closes stdin on a thread, so that a process that does not read cannot block the test.
    pub(super) fn feed_stdin(&self, text: Vec<u8>) {
        let stdin = Arc::clone(&self.stdin);
        thread::spawn(move || {
            let pipe = stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut pipe) = pipe {
                let _ = pipe.write_all(&text);
            }
        });
    }

    /// Waits until the process exits and its output ends. Panics with both outputs after `limit`.
    ///
    /// Descendants of the process live until `self` is dropped, so that a test can look for orphans.
    #[track_caller]
    pub fn wait(&self, limit: Duration) -> Output {
        let ended = self.output.wait_for_blocking(limit, |output| {
            let drained = output.stdout.closed && output.stderr.closed;
            output.ended.filter(|_| drained)
        });
        let Some((status, at)) = ended else {
            let why = if self.is_running() {
                "is still running"
            } else {
                "has ended, but something it started still holds its output open"
            };
            self.fail(&format!("it {why} after {limit:?}"));
        };
        Output {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout(),
            stderr: self.stderr(),
            elapsed: at - self.started,
        }
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        panic!("`{}`: {why}\n--- stdout\n{}\n--- stderr\n{}", self.name, self.stdout(), self.stderr());
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // The group is killed even if its leader has ended: a group may outlive its leader, and the id of a living
        // group is not reused.
        let _ = kill_process_group(self.pid, Signal::KILL);
        self.close_stdin();
        self.output.wait_for_blocking(Duration::from_secs(5), |output| output.ended);
    }
}

fn collect(
    pipe: impl Read + Send + 'static,
    output: Arc<Waitable<ProcessOutput>>,
    stream: impl Fn(&mut ProcessOutput) -> &mut CapturedStream + Send + 'static,
) {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            output.update(|output| {
                let stream = stream(output);
                stream.bytes.extend_from_slice(&line);
                let text = String::from_utf8_lossy(&line);
                stream.lines.push(text.trim_end_matches(['\r', '\n']).to_owned());
            });
            line.clear();
        }
        output.update(|output| stream(output).closed = true);
    });
}

/// Waits for the exit without reaping, then reaps under the lock that `signal` takes.
fn reap(mut child: Child, pid: Pid, output: Arc<Waitable<ProcessOutput>>) {
    thread::spawn(move || {
        let wait = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), wait) {}
        let at = Instant::now();
        output.update(|output| {
            let status = child.wait().expect("our own child can be waited for");
            output.ended = Some((status, at));
        });
    });
}

fn text(stream: &CapturedStream) -> String {
    String::from_utf8_lossy(&stream.bytes).into_owned()
}
