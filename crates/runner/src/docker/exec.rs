//! Starts a command inside a Docker container, reads its output and ends it.
//!
//! The API cannot end an `exec`, and its stream stays open as long as any process holds it. So each command gets a
//! marker variable, by which a second `exec` finds and ends the command and its children, and the command's state is
//! polled.

use super::DockerError;
use super::container::Container;
use super::create::user;
use super::limits;
use crate::guard_protocol::WrittenPaths;
use crate::guarded::{CommandEnd, CommandTimes};
use crate::limits::ReachedLimit;
use crate::output::OutputCollector;
use bollard::Docker;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use futures_util::StreamExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

const POLL_INTERVAL: Duration = Duration::from_millis(200);
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

const MARK: &str = "ALTHING_CALL";

const WRITE_NOTHING: &str = "ulimit -f 0 || exit 1; ";

/// Models write bash, so bash is used if the image contains it.
const SHELL: &str = r#"if command -v bash >/dev/null 2>&1; then exec bash -c "$0"; else exec sh -c "$0"; fi"#;

/// Sends a signal to every process in the container with the marker; if the image does not contain grep, to every
/// process in the container. Before processes with the marker are killed, they are stopped, so that none starts
/// another one or reports the end of its child meanwhile.
const SIGNAL_MARKED: &str = r#"
command -v grep >/dev/null 2>&1 || { kill -"$1" -1; exit; }
send() {
  found=
  for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    [ "$pid" = 1 ] || [ "$pid" = $$ ] && continue
    grep -q "$mark" "$dir/environ" 2>/dev/null && kill -"$1" "$pid" 2>/dev/null && found=1
  done
}
mark=$0
if [ "$1" = KILL ]; then
  send STOP
  for round in 1 2 3 4 5; do
    send KILL
    [ "$found" = 1 ] || break
  done
else
  send "$1"
fi
"#;

/// Kills every process in the container except the first one, which keeps the container alive.
const KILL_ALL: &str = "kill -KILL -1; echo killed";
const KILLED: &str = "killed";

pub(crate) struct Exec<'a> {
    pub(crate) command: &'a str,
    pub(crate) cwd: &'a Path,
    pub(crate) home: &'a Path,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) time: CommandTimes,
    /// Whether the workspace is full, so that the command may delete files but not write any.
    pub(crate) is_full: bool,
}

struct EndOnDrop {
    container: Option<Arc<Container>>,
    id: String,
    mark: String,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let Some(container) = self.container.take() else { return };
        let (id, mark) = (std::mem::take(&mut self.id), std::mem::take(&mut self.mark));
        // Without a runtime the daemon cannot be called; removing the container then ends the command.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                signal(&container.docker, &id, &mark, "KILL").await;
                kill_leftovers(&container).await;
            });
        }
    }
}

pub(super) async fn run(
    container: &Arc<Container>,
    id: &str,
    written: &WrittenPaths,
    command: &Exec<'_>,
    output: &mut OutputCollector,
) -> Result<CommandEnd, DockerError> {
    let mark = format!("{MARK}={}", crate::command::unique());
    let exec = create(&container.docker, id, command, &mark).await?;
    let mut end_on_drop =
        EndOnDrop { container: Some(Arc::clone(container)), id: id.to_owned(), mark: mark.clone() };
    let reached = limits::reached(container, id, written.clone());
    let mut end = stream_output(container, id, &exec, &mark, command.time, reached, output).await;
    if let Ok(end) = &mut end {
        end_on_drop.container = None;
        if end.limit.is_none() && end.code != Some(0) {
            end.limit = limits::reached_by_failure(container, id).await;
        }
    }
    end
}

async fn create(docker: &Docker, id: &str, command: &Exec<'_>, mark: &str) -> Result<String, DockerError> {
    let home = format!("HOME={}", command.home.display());
    let set = command.env.iter().map(|(name, value)| format!("{name}={value}"));
    let shell = if command.is_full { format!("{WRITE_NOTHING}{SHELL}") } else { SHELL.to_owned() };
    let config = ExecConfig {
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        env: Some([home].into_iter().chain(set).chain([mark.to_owned()]).collect()),
        cmd: Some(["/bin/sh", "-c", &shell, command.command].map(str::to_owned).to_vec()),
        user: Some(user()),
        working_dir: Some(command.cwd.to_string_lossy().into_owned()),
        ..ExecConfig::default()
    };
    Ok(docker.create_exec(id, config).await?.id)
}

async fn stream_output(
    container: &Container,
    id: &str,
    exec: &str,
    mark: &str,
    time: CommandTimes,
    reached: impl Future<Output = ReachedLimit>,
    output: &mut OutputCollector,
) -> Result<CommandEnd, DockerError> {
    let docker = &container.docker;
    let StartExecResults::Attached { output: mut stream, .. } = docker.start_exec(exec, None).await? else {
        return Err(DockerError::Closed);
    };
    let mut deadline = Instant::now() + time.limit;
    let mut poll = interval(POLL_INTERVAL);
    let mut open = true;
    let mut timed_out = false;
    let mut killed = false;
    let mut code: Option<Option<i64>> = None;
    let mut limit: Option<ReachedLimit> = None;
    let mut reached = pin!(reached);
    loop {
        if let Some(code) = code
            && !open
        {
            return Ok(CommandEnd { code, signal: None, timed_out, limit });
        }
        tokio::select! {
            biased;
            () = sleep_until(deadline) => match (code, timed_out, killed) {
                (Some(code), _, _) => return Ok(CommandEnd { code, signal: None, timed_out, limit }),
                (None, false, _) => {
                    timed_out = true;
                    deadline = Instant::now() + time.grace;
                    signal(docker, id, mark, "TERM").await;
                }
                (None, true, false) => {
                    killed = true;
                    deadline = Instant::now() + KILL_TIMEOUT;
                    signal(docker, id, mark, "KILL").await;
                }
                (None, true, true) => return Ok(CommandEnd { code: None, signal: None, timed_out, limit }),
            },
            reached = &mut reached, if limit.is_none() && code.is_none() => {
                limit = Some(reached);
                if matches!(reached, ReachedLimit::Processes(_)) {
                    // The command has used up the process limit, so no process can be started in the container to end
                    // the command: the caller has to replace the container.
                    return Ok(CommandEnd { code: None, signal: None, timed_out, limit });
                }
                deadline = Instant::now();
            }
            _ = poll.tick(), if code.is_none() => code = ended(docker, exec).await?,
            chunk = stream.next(), if open => if let Some(chunk) = chunk {
                output.push(&chunk?.into_bytes());
            } else {
                open = false;
                poll.reset_immediately();
            },
        }
        if code.is_some() && open {
            deadline = deadline.min(Instant::now() + time.drain);
        }
    }
}

async fn ended(docker: &Docker, exec: &str) -> Result<Option<Option<i64>>, DockerError> {
    let now = docker.inspect_exec(exec).await?;
    Ok((now.running == Some(false)).then_some(now.exit_code))
}

async fn signal(docker: &Docker, id: &str, mark: &str, signal: &str) {
    let _ = exec_internal(docker, id, &["/bin/sh", "-c", SIGNAL_MARKED, mark, signal]).await;
}

/// If no command is running, kills the processes that earlier commands left behind, even those without the marker.
///
/// It does not search for them, because a process that keeps forking and ending is in no list of processes. One
/// system call kills them all.
pub(super) async fn kill_leftovers(container: &Container) {
    // The write lock keeps new commands from starting and being mistaken for leftovers.
    let Ok(mut state) = container.state.try_write() else { return };
    let Some(id) = state.id.clone() else { return };
    let killed = exec_internal(&container.docker, &id, &["/bin/sh", "-c", KILL_ALL]).await;
    if killed.contains(KILLED) {
        // A process that was just killed may still be listed.
        for _ in 0..5 {
            if is_quiet(&container.docker, &id).await {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    }
    // The leftovers may use up the process limit, so that no `kill` can be started. Replacing the container ends
    // them; if that fails, the next command fails with the reason.
    let _ = container.replace(&mut state).await;
}

async fn is_quiet(docker: &Docker, id: &str) -> bool {
    let top = docker.top_processes(id, None).await;
    top.is_ok_and(|top| top.processes.is_some_and(|list| list.len() <= 2))
}

const MAX_INTERNAL_OUTPUT: usize = 16 * 1024;

pub(super) async fn exec_internal(docker: &Docker, id: &str, argv: &[&str]) -> String {
    let config = ExecConfig {
        attach_stdout: Some(true),
        cmd: Some(argv.iter().map(|part| (*part).to_owned()).collect()),
        user: Some(user()),
        ..ExecConfig::default()
    };
    let mut text = String::new();
    let work = async {
        let exec = docker.create_exec(id, config).await?.id;
        let options = StartExecOptions { detach: false, ..StartExecOptions::default() };
        if let StartExecResults::Attached { mut output, .. } = docker.start_exec(&exec, Some(options)).await?
        {
            while let Some(Ok(chunk)) = output.next().await {
                if text.len() < MAX_INTERNAL_OUTPUT {
                    text.push_str(&String::from_utf8_lossy(&chunk.into_bytes()));
                }
            }
        }
        Ok::<(), bollard::errors::Error>(())
    };
    let _ = timeout(KILL_TIMEOUT, work).await;
    text
}
