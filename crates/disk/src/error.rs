//! Disk errors, with the file they concern and a hint for the user.
//!
//! Every error says whether retrying can help, and an error of the operating system keeps the reason that the system
//! gave.

use std::io;
use std::path::{Path, PathBuf};

/// A failed disk operation.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The operating system returned an error.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The operation that failed: `write`, `open` …
        doing: &'static str,
        /// The path that the operation was applied to.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
    /// A directory was expected, but the path is something else.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path that is not a directory.
        path: PathBuf,
    },
}

/// The cause of a disk error, as far as the user can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// The disk is full, or the user's quota is used up.
    Full,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The user lacks the permission.
    Denied,
    /// The device reported an I/O error.
    Hardware,
    /// Anything else: retrying does not help.
    Other,
}

impl DiskError {
    /// Wraps an `io::Error`: `.map_err(DiskError::io("open", path))`.
    pub fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }

    /// The cause of this error.
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

    /// What the user can do about the problem.
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
            DiskErrorKind::Hardware => {
                "the disk reported an error; check the disk (dmesg) and back up your data".to_owned()
            }
            DiskErrorKind::Other => return None,
        })
    }

    /// Whether the same operation may succeed later, by itself or after the user has acted.
    pub fn retryable(&self) -> bool {
        self.kind() != DiskErrorKind::Other
    }
}
