//! Exit statuses and the failures that end the program before a run does. One place says what each number means.

use althing_protocol::{JournalError, RunEnd};
use std::process::ExitCode;

/// What the exit status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// An answer was produced, or the command did what it should.
    Answered = 0,
    /// Bad usage, config or input file.
    Usage = 1,
    /// No answer.
    NoAnswer = 2,
    /// A limit passed.
    Limit = 3,
    /// Interrupted.
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

/// Why the program ends without having done what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hints: Vec<String>,
    /// The status to end with.
    pub exit: Exit,
}

impl Failure {
    /// Bad usage, config or input.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), exit: Exit::Usage }
    }

    /// There is no answer, through no fault of whoever asked.
    pub fn no_answer(message: impl Into<String>) -> Self {
        Self::usage(message).exit(Exit::NoAnswer)
    }

    /// With another status.
    pub fn exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
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

impl From<althing_storage::StorageError> for Failure {
    fn from(error: althing_storage::StorageError) -> Self {
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
