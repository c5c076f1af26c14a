//! Why something that a user asked for was not done: what is wrong, what to do about it, and what kind of failure it is.

use althing_config::Report;
use althing_protocol::JournalError;

/// What kind of failure it is. The command line turns it into an exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Bad usage, config or input file.
    Usage,
    /// There is no answer, through no fault of the user.
    NoAnswer,
    /// A limit passed.
    Limit,
    /// A signal or the user interrupted it.
    Interrupted,
}

/// Why something was not done.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// Everything that is wrong with a config, where that is the reason.
    pub report: Option<Box<Report>>,
}

impl Failure {
    /// Bad usage, config or input.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), kind: FailureKind::Usage, report: None }
    }

    /// There is no answer, through no fault of the user.
    pub fn no_answer(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::NoAnswer, ..Self::usage(message) }
    }

    /// A session could not be made, opened or read.
    pub fn stored(error: JournalError) -> Self {
        Self::usage(error.message).maybe_hint(error.hint)
    }

    /// With another kind.
    pub fn kind(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }

    /// With advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With advice, if there is any.
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }
}

impl From<althing_disk::DiskError> for Failure {
    fn from(error: althing_disk::DiskError) -> Self {
        Self::usage(error.to_string()).maybe_hint(error.hint())
    }
}

impl From<althing_journal::SessionError> for Failure {
    fn from(error: althing_journal::SessionError) -> Self {
        Self::usage(error.to_string()).maybe_hint(error.hint())
    }
}

impl From<althing_llm::BuildError> for Failure {
    fn from(error: althing_llm::BuildError) -> Self {
        Self::usage(error.to_string()).maybe_hint(error.hint())
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::no_answer(error.message).maybe_hint(error.hint)
    }
}
