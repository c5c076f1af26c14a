//! Finds the installed CLI agents and their versions.

use super::Adapters;
use crate::guarded::GuardLauncher;
use crate::probe::version;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program that an adapter runs, and where it is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInstallation {
    /// The adapter's name.
    pub name: String,
    /// The executable that was searched for.
    pub program: String,
    /// The path of the executable; `None` if the program is not installed.
    pub path: Option<PathBuf>,
    /// The version in the npm package of the program, or else the first non-blank line that `--version` prints. `None`
    /// if the program is not installed, or if `--version` could not be run, printed nothing or took too long.
    pub version: Option<String>,
}

/// Looks up the executable of every adapter that has one (see [`find_program`]) and finds out the version of each
/// program that was found, all in parallel: from its npm package, or else by running it with `--version`. A program
/// that does not answer within `limit` is ended and reported without a version.
pub async fn find_agents(
    adapters: &Adapters,
    launcher: &GuardLauncher,
    search: &str,
    limit: Duration,
) -> Vec<AgentInstallation> {
    let looks = adapters.all().filter_map(|adapter| {
        let program = adapter.executable()?.to_owned();
        let path = find_program(&program, search);
        Some(async move {
            let version = match &path {
                Some(path) => match npm_version(path, &program) {
                    Some(found) => Some(found),
                    None => version(launcher, path, limit).await,
                },
                None => None,
            };
            AgentInstallation { name: adapter.name().to_owned(), program, path, version }
        })
    });
    futures_util::future::join_all(looks).await
}

/// The version in the npm package that contains this program. It is read from a file because some CLI agents take many
/// seconds to print their version.
fn npm_version(path: &Path, program: &str) -> Option<String> {
    let real = path.canonicalize().ok()?;
    let is_package = |dir: &&Path| {
        let mut above = dir.ancestors().skip(1).take(2);
        above.any(|above| above.ends_with("node_modules")) && dir.join("package.json").exists()
    };
    let package = real.ancestors().skip(1).take(5).find(is_package)?;
    let text = std::fs::read_to_string(package.join("package.json")).ok()?;
    let package: serde_json::Value = serde_json::from_str(&text).ok()?;
    package.pointer("/bin")?.get(program)?;
    let version = crate::clean(package.get("version")?.as_str()?);
    Some(version).filter(|version| !version.is_empty())
}

/// The path of a program: given as a path, or found in one of the directories of `search`. `None` if there is
/// no executable file at that path or of that name.
pub fn find_program(program: &str, search: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    // Only absolute entries are searched. Empty and relative entries would mean the current directory and directories
    // inside it, as in a shell; they are ignored.
    let dirs = search.split(':').filter(|dir| dir.starts_with('/'));
    dirs.map(|dir| Path::new(dir).join(program)).find(|path| is_program(path))
}
