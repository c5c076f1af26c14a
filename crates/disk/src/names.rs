//! Which texts may become names on disk.
//!
//! Ids and names can come from a command line, a model or another program: none may lead out of its directory.

use althing_protocol::{SessionId, TaskId, Timestamp};
use std::path::{Path, PathBuf};

/// Below a state directory: its sessions.
pub const SESSIONS: &str = "sessions";
/// Below a session's directory: its tasks.
pub const TASKS: &str = "tasks";

/// A new session's id: `20261115-095612-7f3a`. Ids of later sessions sort behind those of earlier ones.
///
/// `entropy` tells sessions of the same second apart; a collision shows when the second session is made.
pub fn new_session_id(now: Timestamp, entropy: u64) -> SessionId {
    let text = now.to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).take(14).collect();
    let (day, time) = digits.split_at_checked(8).unwrap_or((&digits, ""));
    let folded = entropy ^ (entropy >> 32);
    let tag = (folded ^ (folded >> 16)) & 0xffff;
    SessionId::new(format!("{day}-{time}-{tag:04x}"))
}

/// One plain name: no separator, not hidden, nothing a shell or a terminal stumbles over.
pub fn is_plain_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(fine)
}

/// Where a session's files are, below its state directory.
pub fn session_dir(state: &Path, id: &SessionId) -> PathBuf {
    state.join(SESSIONS).join(id.as_str())
}

/// Where a task's files are, below its session's directory.
pub fn task_dir(session: &Path, task: &TaskId) -> PathBuf {
    session.join(TASKS).join(task.as_str())
}
