//! Exit statuses: the only code that assigns the numbers.

use althing_app::FailureKind;
use althing_protocol::RunEnd;
use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// An answer was produced, or the command succeeded.
    Answered = 0,
    /// Bad usage, config or input file, or stored state that cannot be read or written.
    Usage = 1,
    /// There is no answer, or the command failed for a reason that no other status covers.
    NoAnswer = 2,
    /// A time or cost limit was reached.
    Limit = 3,
    /// The run was cancelled, or a signal stopped the command.
    Interrupted = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<RunEnd> for Exit {
    fn from(end: RunEnd) -> Self {
        match end {
            RunEnd::Answered => Self::Answered,
            RunEnd::NoAnswer => Self::NoAnswer,
            RunEnd::Limit => Self::Limit,
            RunEnd::Cancelled => Self::Interrupted,
        }
    }
}

impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Usage => Self::Usage,
            FailureKind::NoAnswer => Self::NoAnswer,
            FailureKind::Limit => Self::Limit,
            FailureKind::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Exit> for FailureKind {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Usage => Self::Usage,
            Exit::Answered | Exit::NoAnswer => Self::NoAnswer,
            Exit::Limit => Self::Limit,
            Exit::Interrupted => Self::Interrupted,
        }
    }
}
