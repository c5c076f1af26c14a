//! Disk errors, with the path they concern and a hint for the user.

use crate::owner::{described_user, me};
use crate::real_path::ReplacedPath;
use std::io;
use std::path::{Path, PathBuf};

/// A failed disk operation.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The operating system returned an error.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb for the message: `write`, `open` …
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
    /// A directory or a session's log in the state directory is a symbolic link. It is not followed, because it may
    /// have come with a project that somebody else wrote.
    #[error("{} is a symbolic link, which is not followed", path.display())]
    Link {
        /// The path of the link.
        path: PathBuf,
    },
    /// A directory or file was expected in the state directory, but the path is something else.
    #[error("{} is {what}", path.display())]
    Special {
        /// The path.
        path: PathBuf,
        /// What it is, with an article.
        what: &'static str,
    },
    /// A state directory that the user did not name, or something in it, belongs to another user.
    #[error("{} belongs to another user ({}), not to you ({})", path.display(), described_user(*uid), described_user(me()))]
    Foreign {
        /// What belongs to the other user.
        path: PathBuf,
        /// The other user.
        uid: u32,
    },
    /// A granted path was replaced by a symbolic link, which is not followed.
    #[error(transparent)]
    Replaced(#[from] ReplacedPath),
}

/// The cause of a disk error, as far as the user can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// The disk is full, or the user's quota is used up.
    Full,
    /// The file would be larger than the process's limit on file sizes allows (`ulimit -f`).
    TooLarge,
    /// The process, or the whole system, has too many open files (`ulimit -n`).
    TooManyFiles,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The user lacks the permission.
    Denied,
    /// The device reported an I/O error.
    Hardware,
    /// Anything else.
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
            io::ErrorKind::FileTooLarge => DiskErrorKind::TooLarge,
            io::ErrorKind::ReadOnlyFilesystem => DiskErrorKind::ReadOnly,
            io::ErrorKind::PermissionDenied => DiskErrorKind::Denied,
            _ => match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::IO) => DiskErrorKind::Hardware,
                Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => DiskErrorKind::TooManyFiles,
                _ => DiskErrorKind::Other,
            },
        }
    }

    /// What the user can do about the problem; `None` if nothing is known to help.
    pub fn hint(&self) -> Option<String> {
        let path = match self {
            Self::NotADirectory { .. } => return Some("name a directory with --state-dir".to_owned()),
            Self::Link { path } | Self::Special { path, .. } => {
                let path = path.display();
                return Some(format!(
                    "replace {path} with a directory, or name another state directory with --state-dir"
                ));
            }
            Self::Foreign { path, .. } => {
                return Some(format!(
                    "that user could read or replace what is stored there, so it is not used: delete {}, or, if you trust that user, \
                     name the state directory with --state-dir",
                    path.display()
                ));
            }
            Self::Replaced(_) => {
                return Some("put the file or directory back, or grant access to the other path".to_owned());
            }
            Self::Io { path, .. } => path,
        };
        Some(match self.kind() {
            DiskErrorKind::Full => "free some space, then try again".to_owned(),
            DiskErrorKind::TooLarge => {
                "the limit on file sizes is reached; raise it (`ulimit -f`), then try again".to_owned()
            }
            DiskErrorKind::TooManyFiles => {
                "too many files are open; close some programs or raise the limit (`ulimit -n`), then try again"
                    .to_owned()
            }
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

    /// Whether the same operation may succeed later, by itself or after the user has acted: false for
    /// [`DiskErrorKind::Other`].
    pub fn retryable(&self) -> bool {
        self.kind() != DiskErrorKind::Other
    }
}
