//! What the disk can refuse, with the file it is about and advice for the user.
//!
//! Every error says whether waiting can help; none may lose the reason that the system gave.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The disk refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried: `write`, `open` …
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The name of a directory belongs to something else.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The name.
        path: PathBuf,
    },
}

/// What the system's answer means for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// The disk is full, or the user's quota is used up.
    Full,
    /// The file system cannot be written to.
    ReadOnly,
    /// The user has no right to do this.
    Denied,
    /// The device reports an error.
    Hardware,
    /// Anything else: trying again does not help.
    Other,
}

impl DiskError {
    /// Makes an error of the system's answer: `.map_err(DiskError::io("open", path))`.
    pub fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// What kind of trouble the disk is in.
    pub fn kind(&self) -> DiskErrorKind {
        let Self::Io { source, .. } = self else { return DiskErrorKind::Other };
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DiskErrorKind::Full,
            io::ErrorKind::ReadOnlyFilesystem => DiskErrorKind::ReadOnly,
            io::ErrorKind::PermissionDenied => DiskErrorKind::Denied,
            _ if source.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                DiskErrorKind::Hardware
            }
            _ => DiskErrorKind::Other,
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        let path = match self {
            Self::NotADirectory { .. } => return Some("name a directory with --state-dir".to_owned()),
            Self::Io { path, .. } => path,
        };
        Some(match self.kind() {
            DiskErrorKind::Full => "free some space, then try again".to_owned(),
            DiskErrorKind::ReadOnly => "the file system is read-only; use another --state-dir".to_owned(),
            DiskErrorKind::Denied => {
                format!("make {} writable for you, or use another --state-dir", path.display())
            }
            DiskErrorKind::Hardware => "the disk reports an error; check it (dmesg), keep a copy".to_owned(),
            DiskErrorKind::Other => return None,
        })
    }

    /// Whether it may go away by itself or by a person's help, so that trying the same again makes sense.
    pub fn retryable(&self) -> bool {
        self.kind() != DiskErrorKind::Other
    }
}
