//! Starts servers for these tests as plain child processes, each in its own process group. The product starts them
//! under a guard.

use althing_mcp::{ServerProcess, SpawnRequest, SpawnedProcess, Spawner};
use althing_protocol::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use tokio::process::{Child, Command};

#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSpawner;

impl Spawner for LocalSpawner {
    fn spawn<'a>(&'a self, request: &'a SpawnRequest) -> BoxFuture<'a, io::Result<SpawnedProcess>> {
        Box::pin(async move {
            let mut command = Command::new(&request.program);
            command
                .args(&request.args)
                .env_clear()
                .envs(request.env.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .process_group(0)
                .kill_on_drop(true);
            if let Some(cwd) = &request.cwd {
                command.current_dir(cwd);
            }
            let mut child = command.spawn()?;
            let piped = || io::Error::other("the child has no pipes");
            Ok(SpawnedProcess {
                stdin: Box::new(child.stdin.take().ok_or_else(piped)?),
                stdout: Box::new(child.stdout.take().ok_or_else(piped)?),
                stderr: Box::new(child.stderr.take().ok_or_else(piped)?),
                process: Box::new(LocalProcess { group: group_of(&child), child }),
            })
        })
    }
}

fn group_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

struct LocalProcess {
    child: Child,
    /// The child leads its own group; None once the group has been killed.
    group: Option<Pid>,
}

impl LocalProcess {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // The only possible error is that the group is empty.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl ServerProcess for LocalProcess {
    fn wait(&mut self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            match self.child.wait().await {
                Ok(status) => describe(status),
                Err(error) => format!("ended in an unknown way ({error})"),
            }
        })
    }

    fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// The group id is not reused while a member lives, but may be later, so the group is signaled only once.
    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.group = None;
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
