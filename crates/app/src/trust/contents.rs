//! A digest of everything in the directory of a session or plan.

use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A found session or plan with more entries or bytes is refused; see `refuse_links` in `trust.rs`. One that was made by this user
/// can become larger, and is not searched.
const MAX_ENTRIES: usize = 100_000;
const MAX_BYTES: u64 = 256 << 20;

/// A digest of the names, kinds and contents of everything below a directory, except the id of the process that uses a
/// session. Links are not followed; outside the
/// directories of agents, a link is an error of the kind `InvalidInput`.
pub(super) fn contents_digest(dir: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let (mut entries, mut bytes) = (0, 0);
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        let mut listed = std::fs::read_dir(&next)?.collect::<io::Result<Vec<_>>>()?;
        listed.sort_by_key(std::fs::DirEntry::file_name);
        for entry in listed {
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = path.strip_prefix(dir).unwrap_or(&path).as_os_str().as_bytes();
            hash.update(name.len().to_le_bytes());
            hash.update(name);
            if kind.is_dir() {
                hash.update(b"d");
                dirs.push(path);
            } else if kind.is_symlink() {
                let target = std::fs::read_link(&path)?;
                if !is_agents_file(path.strip_prefix(dir).unwrap_or(&path)) {
                    let message = format!("{} leads to {}", path.display(), target.display());
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
                hash.update(b"l");
                hash.update(target.as_os_str().len().to_le_bytes());
                hash.update(target.as_os_str().as_bytes());
            } else if kind.is_file() {
                let is_lock =
                    path.parent() == Some(dir) && entry.file_name() == althing_journal::SESSION_LOCK;
                let content =
                    if is_lock { Vec::new() } else { althing_disk::read_regular(&path, MAX_BYTES - bytes)? };
                bytes += content.len() as u64;
                hash.update(b"f");
                hash.update(content.len().to_le_bytes());
                hash.update(content);
            } else {
                hash.update(b"o");
            }
        }
    }
    Ok(althing_text::hex(&hash.finalize()))
}

/// Links are permitted in the directories of agents, such as `tasks/RUN/workspaces/AGENT`.
fn is_agents_file(path: &Path) -> bool {
    let mut parts = path.iter();
    let is_task = parts.next().is_some_and(|part| part == "tasks") && parts.next().is_some();
    let kind = parts.next().and_then(|part| part.to_str());
    is_task
        && kind.is_some_and(|kind| ["workspaces", "snapshots", "views"].contains(&kind))
        && parts.count() > 1
}
