//! Why an agent's file access was refused, in words that name the path and what is allowed instead.

use std::io;

/// A refusal. Nothing was read or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A text that cannot be a path.
    #[error("{path} is not a usable path: {why}")]
    BadPath {
        /// As it was given, cut.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It leads outside everything that the agent was given.
    #[error("{path} is outside what you may use. You may use: {allowed}")]
    Outside {
        /// As it was given.
        path: String,
        /// The roots.
        allowed: String,
    },
    /// It is in Althing's own files.
    #[error("{path} belongs to Althing's own state, which is closed to agents")]
    State {
        /// As it was given.
        path: String,
    },
    /// It may be read, not written.
    #[error("{path} is read-only: {why}")]
    ReadOnly {
        /// Where.
        path: String,
        /// Which rule says so.
        why: ReadOnlyReason,
    },
    /// The file has further names, and one may lie outside.
    #[error("{path} has {links} hard links, one of which may lie outside; {instead}")]
    HardLinked {
        /// Which.
        path: String,
        /// How many names it has.
        links: u64,
        /// What to do.
        instead: &'static str,
    },
    /// A pipe, socket or device.
    #[error("{path} is not a regular file")]
    Special {
        /// Which.
        path: String,
    },
    /// Too large to take in.
    #[error("{path} has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// Which.
        path: String,
        /// How large it is, or would be.
        size: u64,
        /// How large it may be.
        limit: u64,
    },
    /// What the check itself needed could not be had; so the answer is no.
    #[error("{path} could not be checked ({why}), so it is refused")]
    CheckFailed {
        /// Which.
        path: String,
        /// What happened.
        why: String,
    },
    /// There is nothing there.
    #[error("there is no {path}")]
    NotFound {
        /// What was asked for.
        path: String,
    },
    /// It is something else than the tool needs.
    #[error("{path} is {what}")]
    WrongKind {
        /// Which.
        path: String,
        /// What it is, and what would do.
        what: &'static str,
    },
    /// The disk refused.
    #[error("cannot {doing} {path}: {why}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: String,
        /// What the system said.
        why: String,
    },
    /// The arguments are wrong.
    #[error("argument `{argument}`: {why}")]
    Argument {
        /// Which.
        argument: String,
        /// What is wrong with it.
        why: String,
    },
    /// The call was given up.
    #[error("the call was cancelled; nothing was changed")]
    Cancelled,
}

/// Which rule makes a path read-only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadOnlyReason {
    /// It shows others' work.
    #[error("it shows the kept work of others. Copy what you need into your workspace")]
    View,
    /// The context path is given for reading only.
    #[error("this context path was given for reading only. Write to your workspace")]
    Context,
    /// The context path will be writable, not now.
    #[error(
        "context paths are read-only while agents work; whoever presents the final answer may write there"
    )]
    NotNow,
    /// The agent only plans.
    #[error("you are planning: nothing is written until the plan is carried out")]
    Planning,
    /// The context path was not opened for writing.
    #[error("the context paths have not been opened for writing")]
    NotOpen,
    /// Protected by the configuration.
    #[error("it is protected by the configuration")]
    Protected,
    /// It runs code later.
    #[error("it runs code when {0}, so that only a user who names it as a writable context path opens it")]
    RunsCode(&'static str),
    /// A name that nobody may write in context paths.
    #[error("`{0}` is never written in context paths")]
    Excluded(String),
}

impl Refusal {
    pub(crate) fn io(doing: &'static str, path: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path: path.to_owned() },
            _ => Self::Io { doing, path: path.to_owned(), why: error.to_string() },
        }
    }

    pub(crate) fn check(path: &str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::CheckFailed { path: path.to_owned(), why: error.to_string() }
    }
}
