//! Which strings may be session ids and names of task files. They can come from a command line, a model or another
//! program, so none may lead out of its directory.

use crate::error::SessionError;
use althing_disk::names::{is_plain_name, task_dir};
use althing_protocol::{SessionId, TaskId, Timestamp};
use std::path::{Path, PathBuf};

/// When a session was created, according to its id; `None` if the id does not begin with a time.
pub(crate) fn creation_time(id: &SessionId) -> Option<Timestamp> {
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

pub(crate) fn check_id(id: &SessionId) -> Result<(), SessionError> {
    if is_plain_name(id.as_str()) { Ok(()) } else { Err(SessionError::InvalidId { id: id.to_string() }) }
}

/// The directory and the name of a task's file. The name may contain one subdirectory.
pub(crate) fn task_file(dir: &Path, task: &TaskId, name: &str) -> Result<(PathBuf, String), SessionError> {
    let invalid = || SessionError::InvalidName { name: format!("{task}/{name}") };
    let (below, file) = match name.split_once('/') {
        Some((below, file)) => (Some(below), file),
        None => (None, name),
    };
    if !is_plain_name(task.as_str()) || !is_plain_name(file) || !below.is_none_or(is_plain_name) {
        return Err(invalid());
    }
    let mut dir = task_dir(dir, task);
    dir.extend(below);
    Ok((dir, file.to_owned()))
}
