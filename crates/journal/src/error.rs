//! Errors of stored sessions, most of them with a hint for the user.

use crate::scan::{Damage, DamageKind};
use althing_disk::{DiskError, DiskErrorKind};
use althing_protocol::{JournalError, JournalErrorKind, LOG_SCHEMA, Seq};
use std::io;
use std::path::{Path, PathBuf};

/// A session could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A disk operation failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The string is not a valid session id.
    #[error("`{id}` is not a session id")]
    InvalidId {
        /// The invalid string.
        id: String,
    },
    /// The task's id or the file's name could lead out of the task's directory.
    #[error("`{name}` is not a valid name for a file of a task")]
    InvalidName {
        /// The task's id and the file's name, as `task/name`.
        name: String,
    },
    /// There is no such session.
    #[error("there is no session `{id}` in {}", state.display())]
    NotFound {
        /// The requested id.
        id: String,
        /// The state directory.
        state: PathBuf,
    },
    /// A session with this id already has a log that is not empty.
    #[error("session `{id}` already exists")]
    Exists {
        /// The id of the session.
        id: String,
    },
    /// The session is already open for writing, usually in another process.
    #[error("session `{id}` is in use by another process{}", pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    Locked {
        /// The id of the session.
        id: String,
        /// The process id of the owner, if it is known.
        pid: Option<u32>,
    },
    /// The log contains no readable session.
    #[error("{} contains no readable session ({what}); the file is left unchanged", path.display())]
    Blank {
        /// The log.
        path: PathBuf,
        /// Why the log's beginning cannot be read.
        what: String,
    },
    /// The log is damaged before its end, or has an intact line that this version does not understand.
    #[error("{} is damaged: {damage}", path.display())]
    Damaged {
        /// The log.
        path: PathBuf,
        /// Where and how the log is damaged.
        damage: Damage,
    },
    /// The log was written by a newer version of Althing.
    #[error("{} has log schema {found}; this Althing reads up to {LOG_SCHEMA}", path.display())]
    NewerSchema {
        /// The log.
        path: PathBuf,
        /// The schema version of the log.
        found: u32,
    },
    /// The events to be appended are out of order: a bug in the caller.
    #[error("event {found} cannot follow event {} in {}", last.0, path.display())]
    OutOfOrder {
        /// The log.
        path: PathBuf,
        /// The number of the event before the refused one.
        last: Seq,
        /// The number of the event that was to be appended.
        found: Seq,
    },
    /// The event cannot start a log, or has no JSON form: a bug in the caller.
    #[error("event {seq} cannot be written to {}: {why}", path.display())]
    NotWritable {
        /// The log.
        path: PathBuf,
        /// The number of the event.
        seq: Seq,
        /// Why the event cannot be written.
        why: String,
    },
    /// Another process changed or deleted the log although this process holds the session's lock.
    #[error("{} was changed by another process: {what}", path.display())]
    Changed {
        /// The log.
        path: PathBuf,
        /// How the file differs from what this process wrote.
        what: String,
    },
}

impl SessionError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk(DiskError::io(doing, path)(source))
    }

    /// What the user can do about the problem.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Disk(error) => return error.hint(),
            Self::InvalidId { .. } | Self::NotFound { .. } => {
                "`althing sessions` lists all sessions".to_owned()
            }
            Self::InvalidName { .. }
            | Self::Exists { .. }
            | Self::OutOfOrder { .. }
            | Self::NotWritable { .. } => {
                return None;
            }
            Self::Locked { pid, .. } => match pid {
                Some(pid) => format!("wait for process {pid}, or end it"),
                None => "wait for the other Althing process, or end it".to_owned(),
            },
            Self::Blank { .. } => {
                "nothing was recorded that could be resumed; `althing sessions remove` deletes the session".to_owned()
            }
            Self::Damaged { damage, .. } => match damage.kind {
                DamageKind::NotUnderstood => {
                    "the log may come from a newer Althing: update, then try again".to_owned()
                }
                DamageKind::Tail | DamageKind::Middle => {
                    "the log can be read up to that line; `althing sessions repair` keeps that part, so that the \
                     session can continue"
                        .to_owned()
                }
            },
            Self::NewerSchema { .. } => "update Althing; the session is unchanged".to_owned(),
            Self::Changed { .. } => {
                "the session stops here; resume it to continue from what is in the file".to_owned()
            }
        };
        Some(hint)
    }

    /// The kind of failure, for callers that use the ports.
    pub fn kind(&self) -> JournalErrorKind {
        match self {
            Self::Disk(error) if error.retryable() => JournalErrorKind::Unavailable,
            Self::InvalidId { .. } | Self::NotFound { .. } => JournalErrorKind::NotFound,
            Self::Exists { .. } => JournalErrorKind::Exists,
            Self::Locked { .. } | Self::Changed { .. } => JournalErrorKind::OwnedElsewhere,
            Self::Blank { .. } => JournalErrorKind::Blank,
            Self::Damaged { .. } | Self::NewerSchema { .. } => JournalErrorKind::Unreadable,
            Self::Disk(_) | Self::InvalidName { .. } | Self::OutOfOrder { .. } | Self::NotWritable { .. } => {
                JournalErrorKind::Failed
            }
        }
    }
}

impl From<SessionError> for JournalError {
    fn from(error: SessionError) -> Self {
        let hint = match &error {
            SessionError::Disk(error) if error.kind() == DiskErrorKind::Full => {
                Some("free some space; a session that is still running then continues by itself".to_owned())
            }
            SessionError::Disk(error) if error.kind() == DiskErrorKind::ReadOnly => {
                Some(
                    "make the file system writable again; a session that is still running then continues by itself"
                        .to_owned(),
                )
            }
            _ => error.hint(),
        };
        Self { kind: error.kind(), message: error.to_string(), hint }
    }
}
