//! `althing sessions`: lists, shows, repairs and deletes sessions.

use crate::args::{Options, SessionsAction};
use crate::exit::Exit;
use crate::show::{self, print, print_json};
use althing_app::Failure;
use althing_app::{AppContext, SystemClock};
use althing_journal::SessionManager;
use althing_protocol::{Clock, Seq, SessionId, SessionStore, SessionSummary, StoredSession, Timestamp};
use althing_text::count;
use althing_text::sanitize;
use althing_view::labels;
use serde_json::{Value, json};

/// The maximum number of characters of a session's goal that its line shows.
const GOAL_CHARS: usize = 60;
const DAY_MS: u64 = 86_400_000;

pub fn run(options: &Options, action: Option<SessionsAction>, app: &AppContext) -> Result<Exit, Failure> {
    let dir = app.state_dir();
    let Some(state) = althing_journal::open_existing_state(&dir)? else {
        return match action {
            None => {
                print(if options.json { "[]" } else { "no sessions" });
                Ok(Exit::Answered)
            }
            Some(_) => Err(Failure::usage(format!("there are no sessions in {}", dir.display()))
                .hint("--state-dir chooses another state directory")),
        };
    };
    match action {
        None => list(&state, options.json),
        Some(SessionsAction::Show { id }) => show(&state, &SessionId::new(id), options.json, app),
        Some(SessionsAction::Remove { ids }) => {
            for id in ids {
                state.remove(&SessionId::new(id.as_str()))?;
                print(&format!("removed {id}"));
            }
            Ok(Exit::Answered)
        }
        Some(SessionsAction::Repair { id }) => {
            let opened = state.repair(&SessionId::new(id.as_str()))?;
            for notice in &opened.notices {
                show::notice(&notice.text);
            }
            print(&if opened.notices.is_empty() {
                format!("{id} is not damaged")
            } else {
                format!("repaired {id}; resume with `althing resume {id}`")
            });
            Ok(Exit::Answered)
        }
        Some(SessionsAction::Prune { older_than }) => prune(&state, older_than),
    }
}

fn list(store: &dyn SessionStore, as_json: bool) -> Result<Exit, Failure> {
    let sessions = store.list().map_err(Failure::stored)?;
    if as_json {
        let all: Vec<Value> = sessions.iter().map(brief).collect();
        print_json(&Value::Array(all).to_string());
        return Ok(Exit::Answered);
    }
    if sessions.is_empty() {
        print("no sessions");
    }
    for session in &sessions {
        let goal = session.checkpoint.as_ref().map(|checkpoint| checkpoint.goal.as_str()).unwrap_or_default();
        let goal: String = sanitize::line(goal).chars().take(GOAL_CHARS).collect();
        let damage = if session.damage.is_some() { "  damaged" } else { "" };
        print(&format!("{}  {:11}  {goal}{damage}", session.id, word(session)));
    }
    Ok(Exit::Answered)
}

/// The status of a session in one word.
fn word(session: &SessionSummary) -> &'static str {
    match session.checkpoint.as_ref().map(|checkpoint| checkpoint.state) {
        _ if session.is_owned => "running",
        None => "unreadable",
        Some(state) => labels::session_state(state),
    }
}

fn brief(session: &SessionSummary) -> Value {
    let checkpoint = session.checkpoint.as_ref();
    json!({
        "id": session.id,
        "status": word(session),
        "kind": checkpoint.map(|checkpoint| checkpoint.kind),
        "state": checkpoint.map(|checkpoint| checkpoint.state),
        "goal": checkpoint.map(|checkpoint| &checkpoint.goal),
        "created_at": checkpoint.map(|checkpoint| checkpoint.created_at),
        "updated_at": session.updated_at,
        "log_bytes": session.size,
        "damage": session.damage,
    })
}

fn show(store: &dyn SessionStore, id: &SessionId, as_json: bool, app: &AppContext) -> Result<Exit, Failure> {
    let StoredSession { events, damage, .. } = store.read(id, Seq(0)).map_err(Failure::stored)?;
    let checkpoint = althing_journal::rebuild_checkpoint(&events);
    if as_json {
        let whole = serde_json::to_value(&checkpoint);
        let mut whole =
            whole.map_err(|error| Failure::no_answer(format!("the session cannot be shown: {error}")))?;
        if let Value::Object(fields) = &mut whole {
            fields.insert("damage".into(), json!(damage));
        }
        print_json(&whole.to_string());
        return Ok(Exit::Answered);
    }
    if let Some(checkpoint) = &checkpoint {
        print(&format!("session  {id}\ngoal     {}", sanitize::line(&checkpoint.goal)));
        print(&format!("from     {}\nto       {}", checkpoint.created_at, checkpoint.updated_at));
        for task in checkpoint.stages.iter().flat_map(|stage| &stage.tasks) {
            let error =
                task.error.as_ref().map(|error| format!("  {}", sanitize::line(error))).unwrap_or_default();
            print(&format!("task     {}  {:?}{error}", task.id, task.status));
        }
    }
    print(&format!("events   {}\nfiles    {}", events.len(), app.session_dir(id).display()));
    if let Some(damage) = damage {
        show::notice(&format!("the log is damaged: {damage}"));
    }
    Ok(Exit::Answered)
}

fn prune(state: &SessionManager, days: u64) -> Result<Exit, Failure> {
    let before = Timestamp(SystemClock.now().0.saturating_sub(days.saturating_mul(DAY_MS)));
    let pruned = state.prune(before)?;
    for (id, error) in &pruned.kept {
        show::notice(&format!("{id} was not removed: {error}"));
    }
    print(&format!("removed {}", count(pruned.removed.len() as u64, "session")));
    Ok(if pruned.kept.is_empty() { Exit::Answered } else { Exit::Usage })
}
