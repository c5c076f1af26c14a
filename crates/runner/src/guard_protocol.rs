//! The messages between Althing and a guard: what to start, what happened, and their framing on the guard's socket.
//! Commands are sent over the socket, not in the guard's arguments or environment, which other processes could read.

use crate::limits::{MachineLimits, ReachedLimit};
use crate::mount_check::ExpectedMount;
use crate::mount_table::{MountMode, MountTable};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;

/// Tells the guard to end the command with TERM, then KILL. Closing the socket tells the guard to kill everything at
/// once.
pub(crate) const TERMINATE: u8 = b'T';

/// The maximum size of a message in bytes, which bounds what a broken peer can make a guard allocate.
const MAX_FRAME: u32 = 16 * 1024 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GuardedCommand {
    pub(crate) program: PathBuf,
    #[serde(with = "crate::os_text::list")]
    pub(crate) args: Vec<OsString>,
    /// The complete environment; nothing is inherited.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
    pub(crate) input: Input,
    /// The restrictions; `None` only for a command that runs with the user's own rights.
    pub(crate) restrictions: Option<Restrictions>,
    /// The mounts that are checked inside bubblewrap before the command is executed.
    pub(crate) expected_mounts: Vec<ExpectedMount>,
    /// Whether `program` is bubblewrap. TERM is then sent only to the processes below `program` and not to `program`
    /// itself, which on TERM would kill everything inside at once, and which ends by itself when the command has
    /// ended.
    pub(crate) in_bubblewrap: bool,
    /// The time between TERM and KILL.
    pub(crate) grace_ms: u64,
    /// The paths whose size is limited; `None` for a workflow's own command without a sandbox, which has no limits.
    pub(crate) limited: Option<WrittenPaths>,
}

impl GuardedCommand {
    /// The value of a variable of the command as a path; `None` if it is empty or not set.
    pub(crate) fn variable(&self, name: &str) -> Option<PathBuf> {
        let found = self.env.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| PathBuf::from(value))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardRequest<C> {
    pub(crate) command: C,
    pub(crate) limits: MachineLimits,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrittenPaths {
    #[serde(with = "crate::os_text::list")]
    pub(crate) own: Vec<PathBuf>,
    /// Other writable directories; only files that change while the command runs count.
    #[serde(with = "crate::os_text::list")]
    pub(crate) shared: Vec<PathBuf>,
    /// Whether the disk limit was reached before; then the command may delete files but not write any.
    pub(crate) full: bool,
}

impl WrittenPaths {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Input {
    /// The command reads `/dev/null`.
    Nothing,
    /// The command reads the descriptor that was passed to the guard.
    Passed,
    /// The command reads the terminal that its output goes to, which becomes its controlling terminal.
    Terminal,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Restrictions {
    /// A complete sandbox: Landlock, seccomp and no capabilities.
    Landlock { landlock_rules: Vec<LandlockRule>, network: bool },
    /// Drops only the rights that bubblewrap does not restrict. `unix_sockets` says whether every socket file that
    /// could answer is hidden; if not, the command may use no Unix sockets except connected pairs.
    BeforeBubblewrap { network: bool, unix_sockets: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LandlockRule {
    #[serde(with = "crate::os_text")]
    pub(crate) path: PathBuf,
    pub(crate) allow: LandlockAccess,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LandlockAccess {
    List,
    Read,
    /// Allows reading and writing, but not executing, creating or deleting; for devices such as `/dev/null`.
    Device,
    /// Allows everything except creating devices and controlling them (`ioctl`).
    Write,
}

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) enum GuardReport {
    Started,
    /// The command could not be started, or was killed right after its start because it could not be watched.
    Failed {
        message: String,
        /// Whether the program, its interpreter or its working directory does not exist. Always false if the sandbox
        /// process was to execute the command, because that process reports errors only as text.
        missing: bool,
    },
    Limit(ReachedLimit),
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
}

pub(crate) fn environment(pairs: impl IntoIterator<Item = (String, String)>) -> Vec<(OsString, OsString)> {
    pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

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
