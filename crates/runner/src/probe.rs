//! Asks a program for its version, under a guard.

use crate::guard_protocol::{GuardedCommand, Input, WrittenPaths};
use crate::guarded::{GuardLauncher, output_pipe};
use althing_protocol::is_passed_to_programs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::AsyncReadExt;

const MOST_BYTES: u64 = 64 * 1024;

/// The first non-blank line that `program --version` prints; `None` if the program prints nothing, cannot be run, or
/// takes longer than `limit`.
pub(crate) async fn version(
    launcher: &GuardLauncher,
    program: &Path,
    search: Option<&str>,
    limit: Duration,
) -> Option<String> {
    let printed = tokio::time::timeout(limit, ask(launcher, program, search)).await.ok()?;
    let printed = match printed {
        Ok(printed) => printed,
        Err(error) => {
            tracing::warn!(program = %program.display(), %error, "could not get a program's version");
            return None;
        }
    };
    let line = printed.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(crate::clean(line))
}

async fn ask(launcher: &GuardLauncher, program: &Path, search: Option<&str>) -> io::Result<String> {
    let env = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_passed_to_programs));
    let env = env.filter(|(name, _)| search.is_none() || name != "PATH");
    let env = env.chain(search.map(|search| ("PATH".into(), search.into())));
    let guarded_command = GuardedCommand {
        program: std::path::absolute(program)?,
        args: vec!["--version".into()],
        env: env.collect(),
        // In a project directory, the files there could influence the program.
        cwd: PathBuf::from("/"),
        input: Input::Nothing,
        restrictions: None,
        expected_mounts: Vec::new(),
        in_bubblewrap: false,
        grace_ms: 0,
        limited: Some(WrittenPaths::default()),
    };
    let (from, to) = output_pipe()?;
    let errors = OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null")?);
    let guarded = launcher.guard(&guarded_command, to, errors, None).await?;
    let mut printed = Vec::new();
    from.take(MOST_BYTES).read_to_end(&mut printed).await?;
    guarded.finish().await;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}
