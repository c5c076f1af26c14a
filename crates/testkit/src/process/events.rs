//! Reads a session's log without the product's code, because a checker must not share code with what it checks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::wait;

/// The directory of the session whose log was written last.
pub fn newest_session(state_dir: &Path) -> Option<PathBuf> {
    let sessions = std::fs::read_dir(state_dir.join("sessions")).ok()?;
    sessions
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let written = path.join("events.jsonl").metadata().ok()?.modified().ok()?;
            Some((written, path))
        })
        .max()
        .map(|(_, path)| path)
}

/// The events of the newest session. An unterminated last line is still being written and is skipped; any other invalid
/// line panics.
#[track_caller]
pub fn read_events(state_dir: &Path) -> Vec<Value> {
    let Some(session) = newest_session(state_dir) else {
        panic!("no session with a log in {}", state_dir.display());
    };
    parse(&session.join("events.jsonl"))
}

/// Waits until the newest session's log has an event that `matches`. Panics after `limit`.
#[track_caller]
pub fn wait_for_event(state_dir: &Path, limit: Duration, matches: impl Fn(&Value) -> bool) -> Value {
    wait::until_some(limit, || {
        let session = newest_session(state_dir)?;
        parse(&session.join("events.jsonl")).into_iter().find(&matches)
    })
}

#[track_caller]
fn parse(log: &Path) -> Vec<Value> {
    let bytes = std::fs::read(log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    let complete = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    bytes[..complete]
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .enumerate()
        .map(|(number, line)| {
            serde_json::from_slice(line)
                .unwrap_or_else(|error| panic!("{}:{}: {error}", log.display(), number + 1))
        })
        .collect()
}
