//! What can go wrong with stored sessions, said so that a person knows which file it is about and what to do.
//!
//! Every error says whether waiting can help; none may lose the reason the disk gave.

use crate::scan::{Damage, DamageKind};
use althing_disk::{DiskError, DiskErrorKind};
use althing_protocol::{JournalError, JournalErrorKind, LOG_SCHEMA, Seq};
use std::io;
use std::path::{Path, PathBuf};

/// A failure to keep or read a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A text that cannot be a session's id.
    #[error("`{id}` is not a session id")]
    InvalidId {
        /// The text.
        id: String,
    },
    /// A name that would leave the task's directory.
    #[error("`{name}` is not a name for a file of a task")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// There is no such session.
    #[error("there is no session `{id}` in {}", state.display())]
    NotFound {
        /// Which was wanted.
        id: String,
        /// The state directory.
        state: PathBuf,
    },
    /// A session of that id has facts in it already.
    #[error("session `{id}` exists already")]
    Exists {
        /// Which.
        id: String,
    },
    /// Another process works on the session.
    #[error("session `{id}` is in use by another process{}", pid.map(|p| format!(" (pid {p})")).unwrap_or_default())]
    Locked {
        /// Which.
        id: String,
        /// By whom, if it said so.
        pid: Option<u32>,
    },
    /// The log holds nothing that could be a session.
    #[error("{} holds no readable session ({what}); it is kept as it is", path.display())]
    Blank {
        /// The log.
        path: PathBuf,
        /// Empty, or what is wrong with its beginning.
        what: String,
    },
    /// The log is damaged before its end.
    #[error("{} is damaged: {damage}", path.display())]
    Damaged {
        /// The log.
        path: PathBuf,
        /// Where and how.
        damage: Damage,
    },
    /// The log was written by a newer Althing.
    #[error("{} has log schema {found}; this Althing reads up to {LOG_SCHEMA}", path.display())]
    NewerSchema {
        /// The log.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// Events out of order were to be written: a bug, not the disk.
    #[error("event {found} cannot follow event {} in {}", last.0, path.display())]
    OutOfOrder {
        /// The log.
        path: PathBuf,
        /// The last event in it.
        last: Seq,
        /// The one that was to follow.
        found: Seq,
    },
    /// A log must begin with `SessionOpened`, and an event must be a JSON object: a bug, not the disk.
    #[error("event {seq} cannot be written to {}: {why}", path.display())]
    NotWritable {
        /// The log.
        path: PathBuf,
        /// Which event.
        seq: Seq,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody else wrote to the log, or deleted it, while we held its lock.
    #[error("{} was changed by somebody else: {what}", path.display())]
    Changed {
        /// The log.
        path: PathBuf,
        /// How it differs from what we left.
        what: String,
    },
}

impl SessionError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Disk(DiskError::io(doing, path)(source))
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Disk(error) => return error.hint(),
            Self::InvalidId { .. } | Self::NotFound { .. } => {
                "`althing sessions` lists what there is".to_owned()
            }
            Self::InvalidName { .. }
            | Self::Exists { .. }
            | Self::OutOfOrder { .. }
            | Self::NotWritable { .. } => {
                return None;
            }
            Self::Locked { pid, .. } => match pid {
                Some(pid) => format!("wait for process {pid}, or end it"),
                None => "wait for the other Althing, or end it".to_owned(),
            },
            Self::Blank { .. } => {
                "nothing was recorded that could be resumed; `althing sessions remove` deletes it".to_owned()
            }
            Self::Damaged { damage, .. } => match damage.kind {
                DamageKind::NotUnderstood => {
                    "it may come from a newer Althing: update, then try again".to_owned()
                }
                DamageKind::Tail | DamageKind::Middle => {
                    "it can be read up to there; `althing sessions repair` keeps that part and goes on"
                        .to_owned()
                }
            },
            Self::NewerSchema { .. } => "update Althing; the session is unchanged".to_owned(),
            Self::Changed { .. } => {
                "the session stops here; resume it to go on from what is in the file".to_owned()
            }
        };
        Some(hint)
    }

    /// What kind of failure it is for those who use sessions through their ports.
    pub fn kind(&self) -> JournalErrorKind {
        match self {
            Self::Disk(error) if error.retryable() => JournalErrorKind::Unavailable,
            Self::InvalidId { .. } | Self::NotFound { .. } => JournalErrorKind::NotFound,
            Self::Exists { .. } => JournalErrorKind::Exists,
            Self::Locked { .. } | Self::Changed { .. } => JournalErrorKind::OwnedElsewhere,
            Self::Blank { .. } | Self::Damaged { .. } | Self::NewerSchema { .. } => {
                JournalErrorKind::Unreadable
            }
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
                Some("free some space; Althing goes on by itself".to_owned())
            }
            SessionError::Disk(error) if error.kind() == DiskErrorKind::ReadOnly => {
                Some("make the file system writable again; Althing goes on by itself".to_owned())
            }
            _ => error.hint(),
        };
        Self { kind: error.kind(), message: error.to_string(), hint }
    }
}
