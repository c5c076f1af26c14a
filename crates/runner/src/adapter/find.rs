//! Which of the programs are on this machine, and in which version.

use super::Adapters;
use crate::guarded::Launcher;
use crate::probe::version;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program that an adapter drives, and whether it is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInstallation {
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
pub async fn find_agents(
    adapters: &Adapters,
    launcher: &Launcher,
    search: &str,
    limit: Duration,
) -> Vec<AgentInstallation> {
    let looks = adapters.all().filter_map(|adapter| {
        let program = adapter.executable()?.to_owned();
        let path = find_program(&program, search);
        Some(async move {
            let version = match &path {
                Some(path) => version(launcher, path, limit).await,
                None => None,
            };
            AgentInstallation { name: adapter.name().to_owned(), program, path, version }
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
