//! The messages between us and a guard: what to start, what happened, and their framing on the guard's socket.
//!
//! Commands are sent over the socket, not in the guard's arguments or environment, which other processes could
//! read.

use crate::limits::{MachineLimits, ReachedLimit};
use crate::mount_check::ExpectedMount;
use crate::mount_table::{MountMode, MountTable};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;

/// The byte that tells the guard to end the command with TERM, then KILL. Closing the socket tells the guard
/// to kill everything at once.
pub(crate) const TERMINATE: u8 = b'T';

/// The maximum size of a message. It is larger than any launch message, and bounds what a broken peer can
/// make a guard allocate.
const MAX_FRAME: u32 = 16 * 1024 * 1024;

/// A program to start, and the restrictions it runs under.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GuardedCommand {
    pub(crate) program: PathBuf,
    /// The arguments, without the program's name (`argv[0]`).
    #[serde(with = "crate::os_text::list")]
    pub(crate) args: Vec<OsString>,
    /// The complete environment; nothing is inherited.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    pub(crate) input: Input,
    /// The restrictions; `None` only for a command that runs with the user's own rights.
    pub(crate) restrictions: Option<Restrictions>,
    /// The mounts that are checked inside bubblewrap before the command is executed; empty if `program` is not
    /// bubblewrap.
    pub(crate) expected_mounts: Vec<ExpectedMount>,
    /// Whether TERM is sent only to the processes below the program and not to the program itself. True for
    /// bubblewrap, which would kill everything inside at once on TERM, and which ends by itself when the command has
    /// ended. The command then runs in a pid namespace of its own, which ends with bubblewrap.
    pub(crate) exempt_from_term: bool,
    /// The time between TERM and KILL.
    pub(crate) grace_ms: u64,
    /// Where the command can write, if its use of the machine is limited; `None` for the user's own commands without a
    /// sandbox, which have no limits.
    pub(crate) limited: Option<WrittenPaths>,
}

/// What a guard is asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardRequest<C> {
    /// The command: a [`GuardedCommand`], or a reference to it in the process that sends the request.
    pub(crate) command: C,
    pub(crate) limits: MachineLimits,
}

/// The paths whose size is limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrittenPaths {
    /// The agent's own directories, which count as a whole.
    #[serde(with = "crate::os_text::list")]
    pub(crate) own: Vec<PathBuf>,
    /// The user's directories, of which only the files count that change while the command runs.
    #[serde(with = "crate::os_text::list")]
    pub(crate) shared: Vec<PathBuf>,
    /// Whether the limit was reached before, so that the command may delete files but not write any.
    pub(crate) full: bool,
}

impl WrittenPaths {
    /// The paths that a command can write to with these mounts. The workspace and the agent's other directories count
    /// with everything in them; of the other writable paths, only files that change while the command runs count.
    pub(crate) fn of_mounts<'a>(
        mounts: &MountTable,
        workspace: &'a PathBuf,
        others: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Self {
        let shared = mounts.rules().iter().filter(|rule| rule.mode == MountMode::Writable);
        let shared = shared.filter(|rule| !rule.path.starts_with(workspace));
        Self {
            own: [workspace].into_iter().chain(others).cloned().collect(),
            shared: shared.map(|rule| rule.path.clone()).collect(),
            full: false,
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.own.iter().chain(&self.shared)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.shared.is_empty()
    }
}

/// Where a command's stdin comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Input {
    /// No input: `/dev/null`.
    Nothing,
    /// The descriptor that was passed to the guard.
    Passed,
    /// The terminal that the output goes to, which becomes the command's controlling terminal.
    Terminal,
}

/// Rights that the sandbox process drops permanently before it executes the command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Restrictions {
    /// Landlock, seccomp and no capabilities: a complete sandbox.
    Landlock { landlock_rules: Vec<LandlockRule>, network: bool },
    /// The sandbox process drops only the rights that bubblewrap does not restrict; bubblewrap restricts the rest.
    /// `unix_sockets` says whether every socket file that could answer is hidden. If not, the command may use no Unix
    /// sockets except connected pairs. If so, it may use all kinds if abstract sockets are out of reach, too (see
    /// `seccomp::Filter::beside_bubblewrap`).
    BeforeBubblewrap { network: bool, unix_sockets: bool },
}

/// Access to one path and everything below it under Landlock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LandlockRule {
    #[serde(with = "crate::os_text")]
    pub(crate) path: PathBuf,
    pub(crate) allow: LandlockAccess,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LandlockAccess {
    /// List directories, nothing else.
    List,
    /// Read and execute.
    Read,
    /// Read and write, but not execute, create or delete: a device such as `/dev/null`.
    Device,
    /// Everything except creating devices and controlling them (`ioctl`).
    Write,
}

/// What a guard reports, as one JSON object per line.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) enum GuardReport {
    /// The command runs.
    Started,
    /// The command could not be started, or was killed right after its start because it could not be watched.
    Failed {
        message: String,
        /// Whether the program, its interpreter or its working directory does not exist. Always false if the sandbox
        /// process was to execute the command, because that process reports errors only as text.
        missing: bool,
    },
    /// The command reached a limit. If the limit is fatal, the command is being killed.
    Limit(ReachedLimit),
    /// The command ended.
    Exited {
        /// The exit code; `None` if a signal ended the command.
        code: Option<i32>,
        signal: Option<i32>,
    },
}

/// Converts an environment of strings into the form of [`GuardedCommand::env`].
pub(crate) fn environment(pairs: impl IntoIterator<Item = (String, String)>) -> Vec<(OsString, OsString)> {
    pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// A message prefixed with its length.
pub(crate) fn frame<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len())
        .ok()
        .filter(|length| *length <= MAX_FRAME)
        .ok_or(io::ErrorKind::FileTooLarge)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(&body);
    Ok(framed)
}

/// Reads exactly one framed message and not a byte more.
pub(crate) fn read_frame<T: for<'a> Deserialize<'a>>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_FRAME {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
