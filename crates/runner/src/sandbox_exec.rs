//! Spawns a command, CLI agent or MCP server in its sandbox; this is the process between fork and exec: drops rights permanently and then executes the command. Any failing
//! step ends the process before the command is executed, and the guard is told why.

use crate::guard_protocol::{GuardedCommand, Input, frame, read_frame};
use crate::mount_check::check_args;
use crate::reexec::SANDBOX;
use crate::{fd_passing, kernel};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::FdFlags;
use rustix::process::{Pid, ioctl_tiocsctty, setsid};
use std::ffi::OsString;
use std::io::{self, PipeReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

pub(crate) fn start(guarded_command: &GuardedCommand, input: Option<OwnedFd>) -> io::Result<Pid> {
    // A sandbox process does what must happen between fork and exec: it drops rights, acquires a controlling terminal
    // (possible only from within the new session), and prepares bubblewrap.
    let is_prepared = guarded_command.restrictions.is_some()
        || guarded_command.input == Input::Terminal
        || guarded_command.in_bubblewrap;
    let child = if is_prepared {
        start_via_sandbox(guarded_command, input)?
    } else {
        build_command(guarded_command, input)?.process_group(0).spawn()?.id()
    };
    i32::try_from(child)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the command has no process id"))
}

fn start_via_sandbox(guarded_command: &GuardedCommand, input: Option<OwnedFd>) -> io::Result<u32> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(kernel::own_executable());
    command.arg0("althing").arg(SANDBOX).env_clear().stdin(Stdio::from(OwnedFd::from(theirs)));
    let child = command.spawn()?;
    // `command` owns the sandbox's end of the socket, which must be open only in the sandbox.
    drop(command);
    let (errors, errors_end) = io::pipe()?;
    fd_passing::send_fd(&ours, input.as_ref().map(AsFd::as_fd))?;
    fd_passing::send_fd(&ours, Some(errors_end.as_fd()))?;
    drop((input, errors_end));
    ours.write_all(&frame(guarded_command)?)?;
    ours.shutdown(Shutdown::Write)?;
    // The sandbox's end is close-on-exec, so the read ends when the command or bubblewrap is executed. Anything sent
    // before that is an error.
    let mut failure = String::new();
    ours.read_to_string(&mut failure)?;
    // The pipe closes when the sandbox was checked and the command is executed, or when that has failed. Without
    // bubblewrap, it is closed already.
    read_unless_abandoned(errors, &mut failure)?;
    if failure.is_empty() { Ok(child.id()) } else { Err(io::Error::other(failure)) }
}

/// Reads to the end, but gives up if the process that asked for the command is gone: bubblewrap may take long if a
/// file system does not answer.
fn read_unless_abandoned(mut errors: PipeReader, failure: &mut String) -> io::Result<()> {
    let stdin = rustix::stdio::stdin();
    loop {
        let mut fds = [PollFd::new(&stdin, PollFlags::RDHUP), PollFd::new(&errors, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [control, pipe] = fds;
        if !control.revents().is_empty() {
            return Err(io::Error::other("the process that requested the command is gone"));
        }
        if !pipe.revents().is_empty() {
            // The process that writes an error ends at once, so this does not block.
            errors.read_to_string(failure)?;
            return Ok(());
        }
    }
}

fn build_command(guarded_command: &GuardedCommand, input: Option<OwnedFd>) -> io::Result<Command> {
    let stdin = match guarded_command.input {
        Input::Nothing => Stdio::null(),
        Input::Passed => Stdio::from(
            input.ok_or_else(|| io::Error::other("no input descriptor was passed for the command"))?,
        ),
        Input::Terminal => Stdio::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?),
    };
    let mut command = Command::new(&guarded_command.program);
    command
        .args(&guarded_command.args)
        .env_clear()
        .envs(guarded_command.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&guarded_command.cwd)
        .stdin(stdin)
        // The guard's own stdout and stderr become those of the command.
        .stdout(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?)
        .stderr(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?);
    Ok(command)
}

pub(crate) fn sandbox_main() -> ExitCode {
    // The descriptor is close-on-exec, so that the guard sees the socket close exactly when the command starts.
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
    let errors = fd_passing::receive_fd(&*socket)?;
    let mut guarded_command: GuardedCommand = read_frame(socket)?;
    // These descriptors must stay open until the command is executed.
    let _inherited = check_first(&mut guarded_command, errors)?;
    let mut command = build_command(&guarded_command, input)?;
    if guarded_command.in_bubblewrap && guarded_command.restrictions.is_some() {
        // `/dev/null`, if it is the input, is opened only when bubblewrap is executed, and so on a protected mount.
        kernel::protect_own_files(&guarded_command.program)?;
    }
    // Only a session leader can acquire a terminal. The kernel may also schedule sessions rather than processes, so
    // the command must not share a session with its guard.
    setsid()?;
    if guarded_command.input == Input::Terminal {
        ioctl_tiocsctty(rustix::stdio::stdout())?;
    }
    // Needed if the guard is killed. The thread that started this process is the guard's main thread, so the death
    // signal comes only when the guard ends.
    kernel::die_with_parent()?;
    match &guarded_command.restrictions {
        Some(restrictions) => kernel::confine(restrictions)?,
        None if guarded_command.input == Input::Terminal || guarded_command.in_bubblewrap => {}
        None => return Err(io::Error::other("the sandbox process got no restrictions")),
    }
    Err(io::Error::other(exec_error(&guarded_command, &command.exec())))
}

/// Makes bubblewrap execute our own executable, which checks the sandbox and then executes the command. Returns the
/// descriptors that bubblewrap must inherit; `None` without bubblewrap.
fn check_first(
    guarded_command: &mut GuardedCommand,
    errors: Option<OwnedFd>,
) -> io::Result<Option<[OwnedFd; 2]>> {
    if !guarded_command.in_bubblewrap {
        return Ok(None);
    }
    let errors = errors.ok_or_else(|| io::Error::other("the sandbox process got no pipe for errors"))?;
    let executable = OwnedFd::from(std::fs::File::open(kernel::own_executable())?);
    for inherited in [&errors, &executable] {
        rustix::io::fcntl_setfd(inherited, FdFlags::empty())?;
    }
    let at = guarded_command.args.iter().position(|arg| arg == "--");
    let at = at.ok_or_else(|| io::Error::other("the arguments of bubblewrap name no command"))? + 1;
    let mut check = vec![format!("/proc/self/fd/{}", executable.as_raw_fd())];
    let is_confined = guarded_command.restrictions.is_some();
    check.extend(check_args(&guarded_command.expected_mounts, is_confined, errors.as_raw_fd())?);
    guarded_command.args.splice(at..at, check.into_iter().map(OsString::from));
    Ok(Some([errors, executable]))
}

fn exec_error(guarded_command: &GuardedCommand, error: &io::Error) -> String {
    format!(
        "cannot execute {} in {}: {error}",
        guarded_command.program.display(),
        guarded_command.cwd.display()
    )
}
