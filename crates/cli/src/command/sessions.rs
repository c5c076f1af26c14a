//! `althing sessions`: lists, shows, renames, repairs and deletes sessions.

use super::session_cost;
use super::session_prompt::{self, PromptRequest};
use super::session_report::{self, Form};
use crate::args::{Options, SessionsAction};
use crate::exit::Exit;
use crate::show::{self, print, print_json};
use althing_app::{AppContext, Failure, SystemClock, programs, stored_sessions, trust};
use althing_journal::SessionManager;
use althing_protocol::{Clock, SessionId, SessionStore, SessionSummary, Timestamp};
use althing_text::count;
use althing_text::sanitize;
use althing_view::{labels, session_list};
use serde_json::{Value, json};

/// The maximum number of characters of a session's title that its line shows.
const TITLE_CHARS: usize = 60;
const DAY_MS: u64 = 86_400_000;

const LATEST: &str = "latest";

const LISTED: usize = 50;

pub fn run(
    options: &Options,
    limit: Option<usize>,
    action: Option<SessionsAction>,
    app: &AppContext,
) -> Result<Exit, Failure> {
    let dir = app.state_dir();
    let Some(state) = app.existing_sessions()? else {
        return match action {
            None => {
                print(if options.json { "[]" } else { "no sessions" });
                Ok(Exit::Answered)
            }
            Some(SessionsAction::Cost { since, by }) => session_cost::run(since, by, options.json, None, app),
            Some(_) => Err(Failure::usage(format!("there are no sessions in {}", dir.display()))
                .hint("--state-dir chooses another state directory")),
        };
    };
    match action {
        None => list(&state, limit, options.json),
        Some(SessionsAction::Show { id, markdown }) => {
            let form = match (options.json, markdown) {
                (true, _) => Form::Json,
                (false, true) => Form::Markdown,
                (false, false) => Form::Text,
            };
            session_report::run(&id, form, &state, app)
        }
        Some(SessionsAction::Prompt { run, agent, step }) => {
            let request = PromptRequest { run: &run, agent: &agent, step };
            session_prompt::run(&request, options.json, &state, app)
        }
        Some(SessionsAction::Cost { since, by }) => {
            session_cost::run(since, by, options.json, Some(&state), app)
        }
        Some(SessionsAction::Remove { ids }) => {
            for id in ids {
                stored_sessions::remove(&SessionId::new(id.as_str()), app)?;
                print(&format!("removed {id}"));
            }
            Ok(Exit::Answered)
        }
        Some(SessionsAction::Rename { id, title }) => {
            let id = find(&id, &state)?.session;
            let title = stored_sessions::rename(&id, &title, app)?;
            print(&format!("{id}  {}", sanitize::line(&title)));
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
                format!("repaired {id}; resume with `althing resume {id}{}`", app.settings.state_dir_option())
            });
            Ok(Exit::Answered)
        }
        Some(SessionsAction::Prune { older_than }) => prune(&state, older_than, app),
    }
}

/// Lists the newest sessions and reads only these, so that the time does not grow with the number of old sessions. A
/// limit of 0 means all. Without a limit, a table has `LISTED` sessions and JSON has all.
fn list(store: &dyn SessionStore, limit: Option<usize>, as_json: bool) -> Result<Exit, Failure> {
    let most = match limit {
        Some(0) => usize::MAX,
        Some(limit) => limit,
        None if as_json => usize::MAX,
        None => LISTED,
    };
    let ids = store.ids().map_err(Failure::stored)?;
    let mut sessions = Vec::new();
    for id in ids.iter().take(most) {
        sessions.extend(store.summary(id).map_err(Failure::stored)?);
    }
    sessions.sort_by(|a, b| (b.updated_at, &b.id).cmp(&(a.updated_at, &a.id)));
    if as_json {
        let all: Vec<Value> = sessions.iter().map(brief).collect();
        print_json(&Value::Array(all).to_string());
        return Ok(Exit::Answered);
    }
    if sessions.is_empty() {
        print("no sessions");
    }
    for session in &sessions {
        let title = session_list::title(session);
        let title: String = sanitize::line(&title).chars().take(TITLE_CHARS).collect();
        let damage = if session.damage.is_some() { "  damaged" } else { "" };
        print(&format!("{}  {:11}  {title}{damage}", session.id, word(session)));
    }
    let older = ids.len().saturating_sub(most);
    if older > 0 {
        let older = count(older as u64, "older session");
        show::notice(&format!("and {older}; `althing sessions --limit 0` lists all"));
    }
    Ok(Exit::Answered)
}

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
        "title": session_list::title(session),
        "goal": checkpoint.map(|checkpoint| &checkpoint.goal),
        "created_at": checkpoint.map(|checkpoint| checkpoint.created_at),
        "updated_at": session.updated_at,
        "log_bytes": session.size,
        "damage": session.damage,
    })
}

pub struct SessionName {
    pub session: SessionId,
    /// The part after the dot in `<session>.<task>`.
    pub task: Option<String>,
}

/// Finds the session by its id, by the id of one of its tasks (`<session>.<task>`), or as `latest`.
pub fn find(name: &str, store: &dyn SessionStore) -> Result<SessionName, Failure> {
    let (session, task) = name.split_once('.').map_or((name, None), |(session, task)| (session, Some(task)));
    let session = match session {
        LATEST => {
            let newest = store.newest(1, &|_| true).map_err(Failure::stored)?.into_iter().next();
            newest.map(|session| session.id).ok_or_else(|| Failure::usage("there are no sessions"))?
        }
        id => SessionId::new(id),
    };
    Ok(SessionName { session, task: task.map(str::to_owned) })
}

fn prune(state: &SessionManager, days: u64, app: &AppContext) -> Result<Exit, Failure> {
    let before = Timestamp(SystemClock.now().0.saturating_sub(days.saturating_mul(DAY_MS)));
    let sessions = trust::remembered_path(state.state_dir());
    let pruned = state.prune(before)?;
    programs::clean_left_settings(app);
    for id in &pruned.removed {
        trust::forget(&althing_journal::session_dir(&sessions, id), &app.environment);
    }
    for (id, error) in &pruned.kept {
        show::notice(&format!("{id} was not removed: {error}"));
    }
    print(&format!("removed {}", count(pruned.removed.len() as u64, "session")));
    Ok(if pruned.kept.is_empty() { Exit::Answered } else { Exit::Usage })
}
