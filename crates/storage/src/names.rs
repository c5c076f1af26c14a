//! Which texts may become names on disk.
//!
//! Ids and names can come from a command line, a model or another program: none may lead out of its directory.

use crate::error::StorageError;
use althing_protocol::{SessionId, TaskId, Timestamp};
use std::path::{Path, PathBuf};

/// Below a state directory: its sessions.
pub(crate) const SESSIONS: &str = "sessions";
/// Below a session's directory: its tasks.
pub(crate) const TASKS: &str = "tasks";

/// A new session's id: `20261115-095612-7f3a`. Ids of later sessions sort behind those of earlier ones.
///
/// `entropy` tells sessions of the same second apart; a collision shows as [`StorageError::Exists`].
pub fn new_session_id(now: Timestamp, entropy: u64) -> SessionId {
    let text = now.to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).take(14).collect();
    let (day, time) = digits.split_at_checked(8).unwrap_or((&digits, ""));
    let folded = entropy ^ (entropy >> 32);
    let tag = (folded ^ (folded >> 16)) & 0xffff;
    SessionId::new(format!("{day}-{time}-{tag:04x}"))
}

/// When a session of this id was made, if it is one of our own ids.
pub(crate) fn made_at(id: &SessionId) -> Option<Timestamp> {
    let digits: String = id.as_str().chars().take(15).filter(char::is_ascii_digit).collect();
    let part = |from: usize, to: usize| digits.get(from..to);
    let text = format!(
        "{}-{}-{}T{}:{}:{}.000Z",
        part(0, 4)?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?
    );
    text.parse().ok()
}

/// One plain name: no separator, not hidden, nothing a shell or a terminal stumbles over.
pub(crate) fn is_plain(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(fine)
}

pub(crate) fn check_id(id: &SessionId) -> Result<(), StorageError> {
    if is_plain(id.as_str()) { Ok(()) } else { Err(StorageError::InvalidId { id: id.to_string() }) }
}

/// Where a session's files are, below its state directory.
pub fn session_dir(state: &Path, id: &SessionId) -> PathBuf {
    state.join(SESSIONS).join(id.as_str())
}

/// Where a task's files are, below its session's directory.
pub fn task_dir(session: &Path, task: &TaskId) -> PathBuf {
    session.join(TASKS).join(task.as_str())
}

/// Where a file of a task goes, split into its directory and its name. The name may carry one subdirectory.
pub(crate) fn task_file(dir: &Path, task: &TaskId, name: &str) -> Result<(PathBuf, String), StorageError> {
    let invalid = || StorageError::InvalidName { name: format!("{task}/{name}") };
    let (below, file) = match name.split_once('/') {
        Some((below, file)) => (Some(below), file),
        None => (None, name),
    };
    if !is_plain(task.as_str()) || !is_plain(file) || !below.is_none_or(is_plain) {
        return Err(invalid());
    }
    let mut dir = task_dir(dir, task);
    dir.extend(below);
    Ok((dir, file.to_owned()))
}
