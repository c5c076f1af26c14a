//! Why a request failed: the message, hints for the user, and the kind of failure.

use althing_config::ConfigReport;
use althing_protocol::JournalError;

/// The kind of a failure, which decides the exit status of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Bad usage, config or input file, or stored state that cannot be read or written.
    Usage,
    /// No answer was produced, through no fault of the user.
    NoAnswer,
    /// A time or cost limit was reached.
    Limit,
    /// A signal or the user interrupted the work.
    Interrupted,
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What failed, and why.
    pub message: String,
    /// What the user can do.
    pub hints: Vec<String>,
    /// The kind of failure.
    pub kind: FailureKind,
    /// All problems of the config, if the config is the reason.
    pub report: Option<Box<ConfigReport>>,
    /// Whether the message states what the user has to accept. Then values from a `.env` in the working directory are
    /// not masked in it, so that the author of that file cannot hide a part of the message.
    pub is_question: bool,
}

impl Failure {
    /// Makes a failure of the kind [`FailureKind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hints: Vec::new(),
            kind: FailureKind::Usage,
            report: None,
            is_question: false,
        }
    }

    /// Makes a failure of the kind [`FailureKind::NoAnswer`].
    pub fn no_answer(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::NoAnswer, ..Self::usage(message) }
    }

    /// Makes a failure from the error of a session that could not be created, opened or read.
    pub fn stored(error: JournalError) -> Self {
        Self::usage(error.message).maybe_hint(error.hint)
    }

    /// Sets the kind.
    pub fn kind(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint, unless it is None.
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
