//! Which of the programs are on this machine, and in which version.

use super::Adapters;
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// A program that an adapter drives, and whether it is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFound {
    /// The adapter's name.
    pub name: String,
    /// What is executed.
    pub program: String,
    /// Where it is, if it is.
    pub path: Option<PathBuf>,
    /// Its version, as it says itself.
    pub version: Option<String>,
}

/// Looks for every program that an adapter drives in the directories of `search`, and asks all of them at once for
/// their versions. One that does not answer within `limit` is ended; it is here all the same.
pub async fn find_agents(adapters: &Adapters, search: &str, limit: Duration) -> Vec<AgentFound> {
    let looks = adapters.all().filter_map(|adapter| {
        let program = adapter.executable()?.to_owned();
        let path = find_program(&program, search);
        Some(async move {
            let version = match &path {
                Some(path) => version(path, limit).await,
                None => None,
            };
            AgentFound { name: adapter.name().to_owned(), program, path, version }
        })
    });
    futures_util::future::join_all(looks).await
}

/// Where a program is: by its path, or in one of the directories of `search`.
pub fn find_program(program: &str, search: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    // An empty entry means the current directory to a shell; never to us.
    let dirs = search.split(':').filter(|dir| dir.starts_with('/'));
    dirs.map(|dir| Path::new(dir).join(program)).find(|path| is_program(path))
}

async fn version(program: &Path, limit: Duration) -> Option<String> {
    let child = tokio::process::Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Of its own, so that whatever it starts ends with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let Ok(output) = tokio::time::timeout(limit, child.wait_with_output()).await else {
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        return None;
    };
    let output = output.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(crate::clean(line))
}
