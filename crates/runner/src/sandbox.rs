//! The step between fork and exec: a process of ours that gives up rights for good and then becomes the command.
//!
//! It must never become the command with a right that it was told to give up: any step that fails ends it, and its
//! parent hears why. A process of its own because the workspace has no unsafe code to run in a forked child.

use crate::hidden::SANDBOX;
use crate::launch::{Input, Launch, frame, read_frame};
use crate::{fd_passing, kernel};
use rustix::process::{Pid, ioctl_tiocsctty, setsid};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

/// Starts the command, inside its walls if it has any; returns once it really runs. For the guard.
pub(crate) fn start(launch: &Launch, input: Option<OwnedFd>) -> io::Result<Pid> {
    // To take a terminal over, a process must first be inside its own session: also a step between fork and exec.
    let child = if launch.restrictions.is_some() || launch.input == Input::Terminal {
        start_via_sandbox(launch, input)?
    } else {
        build_command(launch, input)?.spawn()?.id()
    };
    i32::try_from(child)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the command has no process id"))
}

fn start_via_sandbox(launch: &Launch, input: Option<OwnedFd>) -> io::Result<u32> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(kernel::own_executable());
    command.arg0("althing").arg(SANDBOX).env_clear().stdin(Stdio::from(OwnedFd::from(theirs)));
    if launch.input != Input::Terminal {
        // The leader of a group could not begin a session any more.
        command.process_group(0);
    }
    let child = command.spawn()?;
    // It keeps their end of the socket, which only the sandbox may hold.
    drop(command);
    fd_passing::send_fd(&ours, input.as_ref().map(AsFd::as_fd))?;
    drop(input);
    ours.write_all(&frame(launch)?)?;
    ours.shutdown(Shutdown::Write)?;
    // The other end closes by itself when the command is executed; whatever comes before that is why it was not.
    let mut failure = String::new();
    ours.read_to_string(&mut failure)?;
    if failure.is_empty() { Ok(child.id()) } else { Err(io::Error::other(failure)) }
}

/// The command as it will run, without its walls.
fn build_command(launch: &Launch, input: Option<OwnedFd>) -> io::Result<Command> {
    let stdin = match launch.input {
        Input::Nothing => Stdio::null(),
        Input::Passed => {
            Stdio::from(input.ok_or_else(|| io::Error::other("the command's input was not passed along"))?)
        }
        Input::Terminal => Stdio::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?),
    };
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&launch.cwd)
        .stdin(stdin)
        // The guard's own output is the command's.
        .stdout(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?)
        .stderr(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?);
    if launch.input != Input::Terminal {
        command.process_group(0);
    }
    Ok(command)
}

/// Becomes the command, or says why not.
pub(crate) fn sandbox_main() -> ExitCode {
    // Close-on-exec, so that the guard sees it close exactly when the command starts.
    let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3) else {
        return ExitCode::FAILURE;
    };
    let mut socket = UnixStream::from(socket);
    let Err(error) = become_command(&mut socket);
    let _ = socket.write_all(error.to_string().as_bytes());
    ExitCode::FAILURE
}

fn become_command(socket: &mut UnixStream) -> io::Result<std::convert::Infallible> {
    let input = fd_passing::receive_fd(&*socket)?;
    let launch: Launch = read_frame(socket)?;
    let mut command = build_command(&launch, input)?;
    if launch.input == Input::Terminal {
        setsid()?;
        ioctl_tiocsctty(rustix::stdio::stdout())?;
    }
    // Our parent is the guard's only thread, so here the signal is safe; it covers a guard that is killed itself.
    kernel::die_with_parent()?;
    match &launch.restrictions {
        Some(restrictions) => kernel::confine(restrictions)?,
        None if launch.input == Input::Terminal => {}
        None => return Err(io::Error::other("a sandbox was started without walls")),
    }
    // As the last thing, because it closes the way to complain about anything but the exec itself.
    Err(io::Error::other(exec_error(&launch, &command.exec())))
}

fn exec_error(launch: &Launch, error: &io::Error) -> String {
    format!("cannot execute {} in {}: {error}", launch.program.display(), launch.cwd.display())
}
