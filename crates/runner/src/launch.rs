//! What a guard is told to start, what it reports, and how both travel over its one socket.
//!
//! Everything goes over the socket, nothing over arguments or environment, because those can be read by others on the
//! machine.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;

/// A byte to the guard: end the command politely (TERM, then KILL). The socket's end means: kill everything now.
pub(crate) const TERMINATE: u8 = b'T';

/// More than any policy needs; a bound, so that a confused peer cannot make a guard allocate without end.
const MAX_FRAME: u32 = 16 * 1024 * 1024;

/// A program to start, and the walls around it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// What to execute.
    pub(crate) program: PathBuf,
    /// Its arguments, without its name.
    pub(crate) args: Vec<String>,
    /// Its whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Where it starts.
    pub(crate) cwd: PathBuf,
    /// Where its input comes from.
    pub(crate) input: Input,
    /// What it gives up before it starts; `None` only for a command that runs with the user's own rights.
    pub(crate) restrictions: Option<Restrictions>,
    /// Whether the program itself is not asked to end when the command is: a sandbox that would take everything inside
    /// with it at once, and ends by itself when the command has.
    pub(crate) exempt_from_term: bool,
    /// From TERM to KILL.
    pub(crate) grace_ms: u64,
}

/// Where a command's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Input {
    /// There is none.
    Nothing,
    /// From the file that was passed along.
    Passed,
    /// From the terminal that its output goes to, which it is to control.
    Terminal,
}

/// What a process gives up for good before it becomes the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Restrictions {
    /// Landlock, seccomp and no capabilities: the whole wall.
    Landlock {
        /// What stays allowed.
        landlock_rules: Vec<LandlockRule>,
        /// Whether it may use the network.
        network: bool,
    },
    /// What bubblewrap itself does not close; bubblewrap does the rest.
    BeforeBubblewrap {
        /// Whether it may use the network.
        network: bool,
    },
}

/// One path that stays reachable under Landlock, with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LandlockRule {
    /// The file or directory.
    pub(crate) path: PathBuf,
    /// What may be done there.
    pub(crate) allow: LandlockAccess,
}

/// What may be done below a granted path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LandlockAccess {
    /// List directories, nothing else.
    List,
    /// Read and execute.
    Read,
    /// Read and write, but not execute, create or delete: a device such as `/dev/null`.
    Device,
    /// Everything but making devices.
    Write,
}

/// What a guard says, one JSON object per line.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs.
    Started,
    /// The command could not be started; nothing of it ran.
    Failed {
        /// Why, for people.
        message: String,
        /// Whether there is no such program (or no interpreter for it, or no such directory to start it in).
        missing: bool,
    },
    /// The command ended.
    Exited {
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}

/// Names and values of text as a launch holds them.
pub(crate) fn environment(pairs: impl IntoIterator<Item = (String, String)>) -> Vec<(OsString, OsString)> {
    pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// A message with its length in front.
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
