//! A program under a guard whose three streams are pipes in the caller's hands: an MCP server, for example.
//!
//! It has the user's own rights, but for what its [`WriteProtection`] closes. When its process is dropped, and when we are killed, the guard kills the program and
//! everything that it started.

use crate::adapter::find_program;
use crate::guarded::{Guarded, Launcher, input_pipe, output_pipe};
use crate::launch::{Input, Launch};
use crate::write_protection::WriteProtection;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::unix::pipe;

/// A program to start.
pub struct PipedProgram {
    /// What to execute; without a `/` it is looked up in the `PATH` of `env`.
    pub program: String,
    /// Its arguments, without its name.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// How long after [`PipedProcess::terminate`] it is killed.
    pub grace: Duration,
    /// What it may not write to; with None it has all the rights of the user.
    pub protection: Option<WriteProtection>,
}

impl fmt::Debug for PipedProgram {
    /// Leaves arguments and environment out: they may hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipedProgram")
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// A program that runs.
#[derive(Debug)]
pub struct PipedChild {
    /// Its stdin; dropping it closes it.
    pub stdin: pipe::Sender,
    /// Its stdout.
    pub stdout: pipe::Receiver,
    /// Its stderr.
    pub stderr: pipe::Receiver,
    /// The hold on it.
    pub process: PipedProcess,
}

/// How a program ended: its exit code, or the signal that ended it.
type Exit = (Option<i32>, Option<i32>);

/// The hold on a program and everything that it started. Dropping it kills them all.
pub struct PipedProcess {
    guarded: Guarded,
    exit: Option<Exit>,
}

impl fmt::Debug for PipedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipedProcess").field("guard", &self.guarded.id()).field("exit", &self.exit).finish()
    }
}

impl Launcher {
    /// Starts a program under a guard. [`io::ErrorKind::NotFound`] means that there is no
    /// such program, or no such directory to start it in.
    pub async fn start_piped(&self, program: PipedProgram) -> io::Result<PipedChild> {
        let exempt_from_term = program.protection.is_some();
        let (executable, args, cwd) = match &program.protection {
            None => (PathBuf::from(program.program), program.args, program.cwd),
            Some(protection) => protected(protection, &program)?,
        };
        let launch = Launch {
            program: executable,
            args,
            env: program.env,
            cwd,
            input: Input::Passed,
            restrictions: None,
            exempt_from_term,
            grace_ms: u64::try_from(program.grace.as_millis()).unwrap_or(u64::MAX),
        };
        let (stdout, stdout_end) = output_pipe()?;
        let (stderr, stderr_end) = output_pipe()?;
        let (stdin, stdin_end) = input_pipe()?;
        let mut guarded = self.guard(&launch, stdout_end, stderr_end, Some(stdin_end)).await?;
        guarded.started().await?;
        Ok(PipedChild { stdin, stdout, stderr, process: PipedProcess { guarded, exit: None } })
    }
}

/// The program inside its protection: what to execute, with which arguments, where.
fn protected(
    protection: &WriteProtection,
    program: &PipedProgram,
) -> io::Result<(PathBuf, Vec<String>, PathBuf)> {
    let search =
        program.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.to_string_lossy());
    let named = if program.program.contains('/') {
        program.cwd.join(&program.program).to_string_lossy().into_owned()
    } else {
        program.program.clone()
    };
    let found = find_program(&named, search.as_deref().unwrap_or_default());
    let found = found.filter(|_| program.cwd.is_dir()).ok_or(io::ErrorKind::NotFound)?;
    let found = found.to_string_lossy();
    let argv: Vec<&str> = [&*found].into_iter().chain(program.args.iter().map(String::as_str)).collect();
    let (bubblewrap, args) = protection.command(&program.cwd, &argv);
    Ok((bubblewrap, args, PathBuf::from("/")))
}

impl PipedProcess {
    /// Waits for its end: its exit code, or the signal that ended it. May be dropped and asked again.
    pub async fn exited(&mut self) -> io::Result<(Option<i32>, Option<i32>)> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let exit = self.guarded.exited().await?;
        self.exit = Some(exit);
        Ok(exit)
    }

    /// Asks it and everything that it started to end; what is left after the grace is killed.
    pub fn terminate(&self) {
        self.guarded.ask_to_end();
    }

    /// Kills it and everything that it started. Harmless after its end.
    pub fn kill(&self) {
        self.guarded.kill();
    }
}
