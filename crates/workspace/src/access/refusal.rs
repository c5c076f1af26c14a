//! Why a call of an agent's file tools or task list tools failed.

use althing_text::quoted_name;
use std::io;

/// Why a call was refused. Nothing was changed, except possibly after `Io`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The string cannot be a path.
    #[error("{} is not a usable path: {why}", quoted_name(path))]
    BadPath {
        /// The agent's input, truncated.
        path: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The path is outside all roots of the agent.
    #[error("{} is outside what you may use. You may use: {allowed}", quoted_name(path))]
    Outside {
        /// The agent's input.
        path: String,
        /// The agent's roots, for the message.
        allowed: String,
    },
    /// The path is in Althing's state directory, outside of the agent's workspace and views.
    #[error("{} belongs to Althing's own state, which agents cannot access", quoted_name(path))]
    State {
        /// The agent's input.
        path: String,
    },
    /// The path may be read but not written.
    #[error("{} is read-only: {why}", quoted_name(path))]
    ReadOnly {
        /// The path.
        path: String,
        /// The rule that forbids the write.
        why: ReadOnlyReason,
    },
    /// One of the file's hard links may be outside the agent's roots.
    #[error(
        "{} has {links} hard links, one of which may be outside the paths you may use; {instead}",
        quoted_name(path)
    )]
    HardLinked {
        /// The path.
        path: String,
        /// The number of hard links.
        links: u64,
        /// What to do instead.
        instead: &'static str,
    },
    /// The path is a pipe, socket or device.
    #[error("{} is not a regular file", quoted_name(path))]
    Special {
        /// The path.
        path: String,
    },
    /// The file, or a line that is read from it, is too large.
    #[error("{} has {size} bytes; the limit is {limit}", quoted_name(path))]
    TooLarge {
        /// The path of the file, after `a line of` if a line is too large.
        path: String,
        /// The actual or future size of the file, or how many bytes of the line were read.
        size: u64,
        /// The maximum size in bytes.
        limit: u64,
    },
    /// The check itself failed, so access is denied.
    #[error("{} could not be checked ({why}), so access is denied", quoted_name(path))]
    CheckFailed {
        /// The path.
        path: String,
        /// Why the check failed.
        why: String,
    },
    /// The file does not exist.
    #[error("{} does not exist", quoted_name(path))]
    NotFound {
        /// The path.
        path: String,
    },
    /// What is at the path does not fit this tool: a directory, text in another encoding, an existing file.
    #[error("{} is {what}", quoted_name(path))]
    WrongKind {
        /// The path.
        path: String,
        /// What is at the path, sometimes followed by what to do instead.
        what: &'static str,
    },
    /// A file operation failed.
    #[error("cannot {doing} {}: {why}", quoted_name(path))]
    Io {
        /// A verb such as `read`.
        doing: &'static str,
        /// The path.
        path: String,
        /// The error of the operating system.
        why: String,
    },
    /// An argument is invalid.
    #[error("argument `{argument}`: {why}")]
    Argument {
        /// The name of the argument.
        argument: String,
        /// What is wrong.
        why: String,
    },
    /// The call was cancelled.
    #[error("the call was cancelled; nothing was changed")]
    Cancelled,
}

/// The rule that makes a path read-only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadOnlyReason {
    /// The path shows the work of other agents.
    #[error("it is a snapshot of another agent's work. Copy what you need into your workspace")]
    View,
    /// The context path was given for reading only.
    #[error("this context path was given for reading only. Write to your workspace")]
    Context,
    /// The context path is writable, but not now.
    #[error(
        "context paths are read-only while agents work; the agent that presents the final answer may write there"
    )]
    NotNow,
    /// The agent only plans.
    #[error("you are planning: nothing may be written until the plan is executed")]
    Planning,
    /// The context path was never opened for writing, or was closed again.
    #[error("the context paths are not open for writing now")]
    NotOpen,
    /// The configuration protects the path.
    #[error("it is protected by the configuration")]
    Protected,
    /// A program runs the content of the file later, for example a shell or an IDE.
    #[error("it runs code when {0}; it is writable only if the user names it as a writable context path")]
    RunsCode(&'static str),
    /// The path is inside a git directory that is not called `.git`, or writing it would complete such a directory.
    #[error("it belongs to a git repository, and git runs the programs that are named there")]
    Repository,
    /// A component of the path has a name that is never writable in context paths.
    #[error("`{0}` is never writable in context paths")]
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
