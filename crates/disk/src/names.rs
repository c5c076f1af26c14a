//! Names in a state directory, and the rule for which strings may be used as names. Ids and names can come from a
//! command line, a model or another program; none of them may lead out of its directory.

use althing_protocol::{SessionId, TaskId, Timestamp};
use std::path::{Path, PathBuf};

/// The directory of all sessions, below a state directory.
pub const SESSIONS: &str = "sessions";
/// The directory of all tasks, below a session's directory.
pub const TASKS: &str = "tasks";

/// A new session id, such as `20261115-095612-7f3a`. Ids sort by the second of their creation; `entropy` makes two
/// ids of the same second likely to differ.
pub fn new_session_id(now: Timestamp, entropy: u64) -> SessionId {
    let text = now.to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).take(14).collect();
    let (day, time) = digits.split_at_checked(8).unwrap_or((&digits, ""));
    let folded = entropy ^ (entropy >> 32);
    let tag = (folded ^ (folded >> 16)) & 0xffff;
    SessionId::new(format!("{day}-{time}-{tag:04x}"))
}

/// Whether a string is one plain file name: 1 to 128 ASCII letters, digits, `.`, `-` and `_`, not starting with `.`.
pub fn is_plain_name(name: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(fine)
}

/// The directory of a session.
pub fn session_dir(state: &Path, id: &SessionId) -> PathBuf {
    state.join(SESSIONS).join(id.as_str())
}

/// The directory of a task.
pub fn task_dir(session: &Path, task: &TaskId) -> PathBuf {
    session.join(TASKS).join(task.as_str())
}
