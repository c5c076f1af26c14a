//! `althing replay FILE`: shows a recorded log at a chosen speed, on the same screen as a running session.

use crate::exit::Exit;
use crate::host::LocalHost;
use crate::show;
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::session;
use althing_protocol::{Event, Fact, SessionKind};
use althing_tui::{Replay, TuiExit};
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// The maximum size of a recording. In memory its events take a multiple of that.
const MAX_BYTES: u64 = 256 << 20;

pub fn run(file: &Path, speed: f64, app: &AppContext) -> Result<Exit, Failure> {
    if !app.environment.stdout_is_terminal {
        return Err(Failure::usage("a recording can only be shown in a terminal")
            .hint("the log has one JSON object per line and can be read directly"));
    }
    let path = app.environment.cwd.join(file);
    let path = if path.is_dir() { path.join("events.jsonl") } else { path };
    // Reading a FIFO or a device would never end.
    if path.exists() && !path.is_file() {
        return Err(Failure::usage(format!("{} is not a regular file", path.display())));
    }
    let unreadable =
        |error: &dyn Display| Failure::usage(format!("{} cannot be read: {error}", path.display()));
    let text = althing_app::read_text(&path, MAX_BYTES).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => unreadable(&format!("it is larger than {} MiB", MAX_BYTES >> 20)),
        _ => unreadable(&error),
    })?;
    let mut events: Vec<Event> = Vec::new();
    let mut notes = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let read = serde_json::from_str(line).map_err(|error| format!("not a valid event: {error}"));
        match read {
            Ok(event) => events.push(event),
            Err(error) if events.is_empty() => {
                return Err(Failure::usage(format!("{}:{number}: {error}", path.display()))
                    .hint("a session's log is `events.jsonl` in `<state directory>/sessions/<id>`"));
            }
            Err(error) => {
                notes.push(format!("{}:{number}: {error}; the rest is not shown", path.display()));
                break;
            }
        }
    }
    let opened = events.iter().find_map(|event| match &event.fact {
        Fact::SessionOpened(opened) => Some(opened),
        _ => None,
    });
    let workflow = opened.is_some_and(|opened| opened.kind == SessionKind::Workflow);
    let host = LocalHost::of_recording(app.clone());
    let mut options = super::tui::screen_options(None, app);
    (options.replay, options.workflow, options.notes) = (true, workflow, notes);
    let runtime = session::runtime()?;
    let held = show::hold_notices();
    let left =
        runtime.block_on(althing_tui::run(Arc::new(Replay::new(events, speed)), options, Arc::new(host)));
    drop(held);
    match left.map_err(|error| Failure::usage(format!("the screen failed: {error}")))? {
        TuiExit::Stopped => Ok(Exit::Interrupted),
        _ => Ok(Exit::Answered),
    }
}
