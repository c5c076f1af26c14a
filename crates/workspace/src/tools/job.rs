//! The context of one tool call: its access rules, its cancellation flag and the observer of its changes.

use crate::access::{LastLink, Refusal, ResolvedPath, RootRole, RootSet};
use crate::confine::{FileKind, FileStat};
use althing_protocol::ContextAccess;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

/// The maximum size of a file that is edited or written, in bytes.
pub(crate) const FILE_CAP: u64 = 8 << 20;

/// Notified before and after a file in a context path is changed, so that the change can be undone.
pub(crate) trait ChangeObserver: Send + Sync {
    /// An error prevents the change.
    fn before_change(&self, resolved: &ResolvedPath<'_>) -> Result<(), Refusal>;

    /// An error is reported, but the change stays.
    fn after_change(&self, resolved: &ResolvedPath<'_>) -> Result<(), Refusal> {
        let _ = resolved;
        Ok(())
    }
}

pub(crate) struct Job<'a> {
    pub root_set: &'a RootSet,
    pub access: ContextAccess,
    pub cancelled: &'a AtomicBool,
    pub observer: Option<&'a dyn ChangeObserver>,
}

/// Fails if the path is the directory of a root itself, which has no name.
pub(crate) fn file_name<'s>(resolved: &'s ResolvedPath<'_>) -> Result<&'s OsStr, Refusal> {
    let what = "a directory, not a file";
    resolved.name.as_deref().ok_or_else(|| Refusal::WrongKind { path: resolved.shown.clone(), what })
}

impl<'a> Job<'a> {
    pub(crate) fn check_cancelled(&self) -> Result<(), Refusal> {
        if self.cancelled.load(Ordering::Relaxed) { Err(Refusal::Cancelled) } else { Ok(()) }
    }

    pub(crate) fn resolve(&self, path: &str) -> Result<ResolvedPath<'a>, Refusal> {
        self.root_set.resolve(path, LastLink::Follow)
    }

    pub(crate) fn directory(&self, path: &str) -> Result<ResolvedPath<'a>, Refusal> {
        let resolved = self.resolve(path)?;
        match resolved.found.map(|found| found.kind) {
            Some(FileKind::Dir) => Ok(resolved),
            Some(FileKind::File | FileKind::Link | FileKind::Special) => {
                Err(Refusal::WrongKind { path: resolved.shown, what: "not a directory" })
            }
            None => Err(Refusal::NotFound { path: resolved.shown }),
        }
    }

    pub(crate) fn open(resolved: &ResolvedPath<'_>) -> Result<(File, FileStat), Refusal> {
        match resolved.found.map(|found| found.kind) {
            Some(FileKind::File) => {}
            Some(FileKind::Dir) => {
                let what = "a directory, not a file; list_directory shows it";
                return Err(Refusal::WrongKind { path: resolved.shown.clone(), what });
            }
            Some(FileKind::Link | FileKind::Special) => {
                return Err(Refusal::Special { path: resolved.shown.clone() });
            }
            None => return Err(Refusal::NotFound { path: resolved.shown.clone() }),
        }
        let opened =
            resolved.dir.open_file(file_name(resolved)?).map_err(Refusal::io("open", &resolved.shown))?;
        check_readable(resolved.root.role, opened.1, &resolved.shown)?;
        Ok(opened)
    }

    pub(crate) fn read_whole(resolved: &ResolvedPath<'_>) -> Result<(Vec<u8>, FileStat), Refusal> {
        let (file, found) = Self::open(resolved)?;
        check_size(found.stamp.size, &resolved.shown)?;
        let mut bytes = Vec::new();
        // The file may have grown since the check.
        file.take(FILE_CAP + 1).read_to_end(&mut bytes).map_err(Refusal::io("read", &resolved.shown))?;
        check_size(bytes.len() as u64, &resolved.shown)?;
        Ok((bytes, found))
    }

    /// Resolves a path for writing, changing or deleting a file, and checks that this is allowed.
    pub(crate) fn writable(&self, path: &str, last: LastLink) -> Result<ResolvedPath<'a>, Refusal> {
        let resolved = self.root_set.resolve(path, last)?;
        self.root_set.may_write(resolved.root, &resolved.real, &resolved.shown, self.access)?;
        match resolved.found {
            Some(found) if found.kind == FileKind::Dir => Err(Refusal::WrongKind {
                path: resolved.shown,
                what: "a directory; only files can be changed",
            }),
            Some(found) if found.kind == FileKind::Special => Err(Refusal::Special { path: resolved.shown }),
            Some(found) if found.kind == FileKind::File && found.links > 1 => Err(Refusal::HardLinked {
                path: resolved.shown,
                links: found.links,
                instead: "write a file of another name",
            }),
            Some(_) | None => Ok(resolved),
        }
    }

    pub(crate) fn before_change(&self, resolved: &ResolvedPath<'_>) -> Result<(), Refusal> {
        self.observer_for(resolved).map_or(Ok(()), |observer| observer.before_change(resolved))
    }

    pub(crate) fn after_change(&self, resolved: &ResolvedPath<'_>) -> Result<(), Refusal> {
        self.observer_for(resolved).map_or(Ok(()), |observer| observer.after_change(resolved))
    }

    fn observer_for(&self, resolved: &ResolvedPath<'_>) -> Option<&'a dyn ChangeObserver> {
        self.observer.filter(|_| matches!(resolved.root.role, RootRole::Context(_)))
    }
}

pub(crate) fn check_size(size: u64, path: &str) -> Result<(), Refusal> {
    if size > FILE_CAP {
        return Err(Refusal::TooLarge { path: path.to_owned(), size, limit: FILE_CAP });
    }
    Ok(())
}

/// A file in the workspace that has several hard links may belong to somebody else. In context paths and views such
/// files are readable.
pub(crate) fn check_readable(role: RootRole, found: FileStat, path: &str) -> Result<(), Refusal> {
    if role == RootRole::Workspace && found.links > 1 {
        let instead = "copy it with a command, if you can run commands";
        return Err(Refusal::HardLinked { path: path.to_owned(), links: found.links, instead });
    }
    Ok(())
}
