//! Recognizes git repositories that are not called `.git`: bare ones, and those that a `.git` file points to.

use crate::policy::without_dots;
use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// Whether the `.git` of a directory, or of one above it, leads elsewhere, as in a linked worktree. Programs may then
/// read settings of the main repository, wherever that is.
pub(crate) fn is_in_linked_worktree(dir: &Path) -> bool {
    let leads_elsewhere = |git: &Path| match git.symlink_metadata() {
        Ok(entry) if entry.is_dir() => git.join("commondir").symlink_metadata().is_ok(),
        Ok(_) => true,
        Err(_) => false,
    };
    dir.ancestors().any(|dir| leads_elsewhere(&dir.join(".git")))
}

/// Whether a directory with these entries is what git calls a git directory: git runs the hooks in it and the
/// programs that its config names.
pub(crate) fn is_git_dir(names: &[(OsString, FileType)]) -> bool {
    althing_protocol::is_git_dir(|name| names.iter().any(|(found, _)| found == name))
}

/// The git directories to which `path` (a `.git` of any kind, or a git directory) leads: its own, and the one that it
/// shares with other worktrees, if any. They need not exist.
pub(crate) fn git_dirs_of(path: &Path) -> Vec<PathBuf> {
    leads_of(path).iter().map(|(base, path)| canonical(&base.join(path))).collect()
}

/// Like [`git_dirs_of`], but as (base, path): a relative path is relative to the base, a canonical directory.
pub(crate) fn leads_of(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    let base = path.parent().map(canonical).unwrap_or_default();
    let own = if path.is_dir() { Some(path.to_owned()) } else { one_path(path, b"gitdir: ") };
    let own = own.map(|own| (base, own));
    let dir = own.as_ref().map(|(base, own)| canonical(&base.join(own)));
    let shared = dir.and_then(|dir| Some((dir.clone(), one_path(&dir.join("commondir"), b"")?)));
    own.into_iter().chain(shared).collect()
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| without_dots(path))
}

pub(crate) fn one_path(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let text = try_read_file(file, MAX_BYTES).ok().flatten()?;
    let text = text.strip_prefix(prefix)?;
    let end = text.iter().rposition(|byte| ![b'\n', b'\r'].contains(byte))? + 1;
    let path = text.get(..end)?.split(|byte| *byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// Reads a regular file; `None` if there is no such file. Fails if this user may not read the file, if reading fails,
/// or if the file is larger than `max_bytes`.
pub(crate) fn try_read_file(file: &Path, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_regular(file)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(Some(bytes))
}

/// Opens a regular file for reading; `None` if there is no such file. Fails if this user may not read the file.
pub(crate) fn open_regular(file: &Path) -> io::Result<Option<File>> {
    // Opening a FIFO without this flag would block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(file) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(_) => return Ok(None),
    };
    Ok(file.metadata()?.is_file().then_some(file))
}
