//! A program under a guard, such as an MCP server, whose stdin, stdout and stderr are pipes that the caller holds. It
//! has the user's own rights except for what its [`WriteProtection`] makes read-only.

use crate::adapter::find_program;
use crate::guard_protocol::{GuardedCommand, Input, WrittenPaths};
use crate::guarded::{GuardLauncher, Guarded, input_pipe, output_pipe};
use crate::write_protection::WriteProtection;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::unix::pipe;

/// The program to start.
pub struct PipedProgram {
    /// The executable, looked up in the `PATH` of `env` unless it contains a `/`.
    pub program: String,
    /// The arguments, without the program's name.
    pub args: Vec<String>,
    /// The complete environment; nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The time from [`PipedProcess::terminate`] until the program is killed.
    pub grace: Duration,
    /// What the program must not write to. With `None` the program has all the rights of the user.
    pub protection: Option<WriteProtection>,
}

impl fmt::Debug for PipedProgram {
    /// Leaves out the arguments and the environment, which may contain keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipedProgram")
            .field("program", &self.program)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// A running program and its pipes.
#[derive(Debug)]
pub struct PipedChild {
    /// Writes to the program's stdin. Dropping this value closes the stdin.
    pub stdin: pipe::Sender,
    /// Reads the program's stdout.
    pub stdout: pipe::Receiver,
    /// Reads the program's stderr.
    pub stderr: pipe::Receiver,
    /// The handle of the program. Dropping the handle ends the program.
    pub process: PipedProcess,
}

type Exit = (Option<i32>, Option<i32>);

/// A handle to the program and everything it started. Dropping the handle kills them all.
pub struct PipedProcess {
    guarded: Guarded,
    exit: Option<Exit>,
    /// Kept because dropping the last copy of the protection removes the placeholders that protect missing paths.
    _protection: Option<WriteProtection>,
}

impl fmt::Debug for PipedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipedProcess")
            .field("guard", &self.guarded.id())
            .field("exit", &self.exit)
            .finish_non_exhaustive()
    }
}

impl GuardLauncher {
    /// Starts a program under a guard. [`io::ErrorKind::NotFound`] means that the program, its interpreter or its
    /// working directory does not exist.
    pub async fn start_piped(&self, program: PipedProgram) -> io::Result<PipedChild> {
        let in_bubblewrap = program.protection.is_some();
        let (executable, args, cwd, expected_mounts) = match &program.protection {
            None => {
                let args = program.args.into_iter().map(OsString::from).collect();
                (PathBuf::from(program.program), args, program.cwd, Vec::new())
            }
            Some(protection) => {
                let expected_mounts = protection.expected_mounts()?;
                let (executable, args) = protected(protection, &program)?;
                (executable, args, PathBuf::from("/"), expected_mounts)
            }
        };
        let guarded_command = GuardedCommand {
            program: executable,
            args,
            env: program.env,
            cwd,
            input: Input::Passed,
            restrictions: None,
            expected_mounts,
            in_bubblewrap,
            grace_ms: u64::try_from(program.grace.as_millis()).unwrap_or(u64::MAX),
            // The program is not confined to a few directories, so what it writes is not measured.
            limited: Some(WrittenPaths::default()),
        };
        let (stdout, stdout_end) = output_pipe()?;
        let (stderr, stderr_end) = output_pipe()?;
        let (stdin, stdin_end) = input_pipe()?;
        let mut guarded = self.guard(&guarded_command, stdout_end, stderr_end, Some(stdin_end)).await?;
        guarded.started().await?;
        Ok(PipedChild {
            stdin,
            stdout,
            stderr,
            process: PipedProcess { guarded, exit: None, _protection: program.protection },
        })
    }
}

fn protected(protection: &WriteProtection, program: &PipedProgram) -> io::Result<(PathBuf, Vec<OsString>)> {
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
    Ok(protection.command(&program.cwd, &argv))
}

impl PipedProcess {
    /// Waits for the program's end: its exit code, or the signal that ended it. Cancel-safe, and may be called again.
    pub async fn exited(&mut self) -> io::Result<(Option<i32>, Option<i32>)> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let exit = self.guarded.exited().await?;
        self.exit = Some(exit);
        Ok(exit)
    }

    /// The limit that the program was ended for, if any; known once [`Self::exited`] has returned.
    pub fn reached_limit(&self) -> Option<String> {
        self.guarded.limit().filter(|limit| limit.is_fatal()).map(|limit| limit.to_string())
    }

    /// Asks the program and everything it started to end; what is left after the grace period is killed.
    pub fn terminate(&self) {
        self.guarded.ask_to_end();
    }

    /// Kills the program and everything it started. Has no effect after the program's end.
    pub fn kill(&self) {
        self.guarded.kill();
    }
}
