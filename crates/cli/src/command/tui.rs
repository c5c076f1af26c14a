//! `althing` in a terminal: shows conversations on the screen, one session after another, until the user quits; also
//! shows a workflow until the user leaves the screen (in plain mode, until the workflow ends).

use crate::args::Options;
use crate::exit::Exit;
use crate::follow::Follower;
use crate::host::{LocalHost, shown_path};
use crate::show::{self, HeldNotices};
use althing_app::{AppContext, Failure, LocalSessions, SessionEnd, SessionRequest, SessionService};
use althing_app::{continuation, detect_backends, prepare, secrets, session, trust};
use althing_protocol::{
    ChatSpec, Event, Fact, FeedItem, Interest, Member, ModeChoice, Op, Origin, Seq, SessionId, Submission,
    TaskSpec,
};
use althing_tui::{NotificationForm, Notifications, Theme, TuiExit, TuiOptions, Welcome};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;

pub fn is_wanted(options: &Options, app: &AppContext) -> bool {
    let script = options.automation
        || options.json
        || options.stream_events.is_some()
        || options.take_ops
        || options.output_file.is_some()
        || options.plan_and_execute
        || options.execute_plan.is_some();
    !script && app.environment.stdin_is_terminal && app.environment.stdout_is_terminal
}

pub fn run(task: Option<String>, app: &AppContext) -> Result<Exit, Failure> {
    let runtime = session::runtime()?;
    let mut app = app.clone();
    let mut first_message = task;
    let mut next = continuation::conversation_to_resume(&app)?.map_or(Next::New, Next::Resume);
    // The previous conversation and its settings. It is opened again if the next conversation cannot be opened.
    let mut before = None;
    loop {
        let next_now = std::mem::replace(&mut next, Next::New);
        let opened = LaunchedConversation::open(next_now, first_message.take(), &mut app, &runtime);
        let launched = match (opened, before.take()) {
            (Err(failure), Some((id, settings))) => {
                app.settings = settings;
                let mut launched = LaunchedConversation::open(Next::Resume(id), None, &mut app, &runtime)?;
                let reasons = failure.message.lines().chain(failure.hints.iter().map(String::as_str));
                let masked = reasons.map(|reason| secrets::mask_own(reason).into_owned());
                launched.screen.notes.extend(masked);
                launched
            }
            (opened, _) => opened?,
        };
        let LaunchedConversation { sessions, id, screen, held } = launched;
        let (left, _) = show_screen(&sessions, &id, screen, held, &app, &runtime)?;
        if matches!(left, TuiExit::Quit | TuiExit::Stopped) && has_messages(&sessions, &id, &runtime) {
            show::notice(&format!("resume with `althing --session {id}{}`", app.settings.state_dir_option()));
        }
        // The conversation has changed, so the trust in it is recorded for its new contents.
        drop(sessions);
        trust::remember_again(&app.session_dir(&id), &app);
        // These options apply only to the first session. `--trust` must not accept another session, or what the config
        // contains by then.
        (app.settings.session, app.settings.continue_newest, app.settings.trust) = (None, false, false);
        before = Some((id.clone(), app.settings.clone()));
        match left {
            TuiExit::Quit | TuiExit::Ended => return Ok(Exit::Answered),
            TuiExit::Stopped => return Ok(Exit::Interrupted),
            TuiExit::OpenSession(id) => next = Next::Resume(id),
            TuiExit::Branch { before, text } => {
                (next, first_message) = (Next::Branch { origin: id, before }, Some(text));
            }
            TuiExit::OpenProject(path) => app.settings.project = Some(PathBuf::from(path)),
            // Only a workflow has tasks to retry; a conversation has none.
            TuiExit::NewSession | TuiExit::Reload | TuiExit::Retry(_) => {}
            TuiExit::UseOffline => {
                (app.settings.config, app.settings.model) = (None, Vec::new());
                app.settings.offline = true;
            }
        }
    }
}

/// Whether the conversation has a message of the user, or continues a session with messages: then it is worth resuming.
/// Also true if the session cannot be read.
fn has_messages(sessions: &LocalSessions, id: &SessionId, runtime: &Runtime) -> bool {
    let says = |event: &Arc<Event>| match &event.fact {
        Fact::OpAccepted { op: Op::SendMessage { .. }, .. } => true,
        _ => chat_spec(event).is_some_and(|spec| !spec.history.is_empty()),
    };
    runtime.block_on(sessions.read(id)).map_or(true, |stored| stored.events.iter().any(says))
}

/// Shows a workflow until the user leaves the screen, then prints the outcome in the same way as without a screen.
pub fn watch(
    sessions: &LocalSessions,
    id: &SessionId,
    held: HeldNotices,
    follower: Follower<'_>,
    app: &AppContext,
    runtime: &Runtime,
) -> Result<Exit, Failure> {
    let workflow_screen = |held: &HeldNotices| {
        let mut screen = screen_options(None, app);
        (screen.workflow, screen.notes) = (true, held.take());
        screen
    };
    let mut facts = runtime.block_on(sessions.follow(id, Seq(0), Interest::Facts))?;
    let screen = workflow_screen(&held);
    let (mut left, mut stopped) = show_screen(sessions, id, screen, held, app, runtime)?;
    while let TuiExit::Retry(task) = left {
        let held = show::hold_notices();
        let again = LocalSessions::new(app.clone());
        runtime.block_on(again.launch(SessionRequest::Retry(id.clone(), task)))?;
        facts = runtime.block_on(again.follow(id, Seq(0), Interest::Facts))?;
        let screen = workflow_screen(&held);
        (left, stopped) = show_screen(&again, id, screen, held, app, runtime)?;
    }
    follower.report_end(facts, stopped, runtime)
}

/// Which conversation is shown next.
enum Next {
    New,
    Resume(SessionId),
    /// A new conversation that continues `origin` from just before its message `before`.
    Branch {
        origin: SessionId,
        before: Seq,
    },
}

/// A conversation that was launched, and the options of its screen.
struct LaunchedConversation {
    sessions: LocalSessions,
    id: SessionId,
    screen: TuiOptions,
    /// Holds back messages on stderr until it is dropped, when the screen is closed.
    held: HeldNotices,
}

impl LaunchedConversation {
    fn open(
        next: Next,
        first_message: Option<String>,
        app: &mut AppContext,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let held = show::hold_notices();
        if let Next::Resume(id) = next {
            let sessions = LocalSessions::new(app.clone());
            runtime.block_on(sessions.launch(SessionRequest::Resume { id: id.clone(), can_ask: true }))?;
            let recorded = sessions.take_recorded(&id);
            let mut screen = screen_options(recorded.iter().find_map(|event| chat_spec(event)).as_ref(), app);
            (screen.first_message, screen.notes) = (first_message, held.take());
            return Ok(Self { sessions, id, screen, held });
        }
        let (sessions, chat) = match next {
            Next::Branch { origin, before } => prepare::branch(app, &origin, before, first_message)?,
            Next::Resume(_) | Next::New => prepare::conversation(app, first_message, true)?,
        };
        // If the word after `--single-agent` was the first message, it must not be used again in the next session.
        app.settings.single_agent.clone_from(&chat.selection.single);
        let (first_message, team) = (chat.selection.task.clone(), sessions.team()?);
        let (problems, notes) = (team.problems.clone(), team.notes.clone());
        let welcome = detect_backends::overview(team, app).map(|(found, missing)| Welcome { found, missing });
        let id = runtime.block_on(sessions.launch(SessionRequest::Chat(chat)))?;
        let mut screen = screen_options(runtime.block_on(started_chat(&sessions, &id))?.as_ref(), app);
        (screen.first_message, screen.problems, screen.notes) = (first_message, problems, notes);
        screen.welcome = welcome;
        screen.notes.extend(held.take());
        Ok(Self { sessions, id, screen, held })
    }
}

/// Shows a session until the user leaves the screen, then shuts the session down so that it can be resumed. Returns
/// how the user left the screen, and how the session ended.
fn show_screen(
    sessions: &LocalSessions,
    id: &SessionId,
    screen: TuiOptions,
    held: HeldNotices,
    app: &AppContext,
    runtime: &Runtime,
) -> Result<(TuiExit, SessionEnd), Failure> {
    let engine = sessions.engine(id).ok_or_else(|| Failure::no_answer("the session ended unexpectedly"))?;
    let host = Arc::new(LocalHost::new(id.clone(), app.clone()));
    let left = runtime.block_on(althing_tui::run(engine.clone(), screen, host));
    drop(held);
    engine.submit(Submission::new(Op::Shutdown, Origin::User));
    drop(engine);
    let stopped = runtime.block_on(sessions.ended(id));
    runtime.block_on(sessions.close());
    let left = left.map_err(|error| Failure::usage(format!("the screen failed: {error}")))?;
    Ok((left, stopped?))
}

async fn started_chat(sessions: &LocalSessions, id: &SessionId) -> Result<Option<ChatSpec>, Failure> {
    let mut events = sessions.follow(id, Seq(0), Interest::Facts).await?;
    while let Some(Ok(FeedItem::Event(event))) = events.next().await {
        if let Some(spec) = chat_spec(&event) {
            return Ok(Some(spec));
        }
    }
    Ok(None)
}

fn chat_spec(event: &Event) -> Option<ChatSpec> {
    match &event.fact {
        Fact::TaskCreated { spec: TaskSpec::Chat(spec), .. } => Some((**spec).clone()),
        _ => None,
    }
}

fn notifications(app: &AppContext) -> Option<Notifications> {
    let variable = |name: &str| app.environment.variable(name);
    let term = variable("TERM").unwrap_or_default();
    let form = if term.contains("kitty") {
        NotificationForm::Osc99
    } else if term.contains("rxvt") || variable("VTE_VERSION").is_some() {
        NotificationForm::Osc777
    } else {
        NotificationForm::Osc9
    };
    let wanted = variable("ALTHING_NOTIFY").is_none_or(|value| value != "0");
    wanted.then(|| Notifications { form, in_tmux: variable("TMUX").is_some() })
}

/// The options of the screen, from the environment and the conversation's spec.
pub fn screen_options(spec: Option<&ChatSpec>, app: &AppContext) -> TuiOptions {
    let set = |name: &str| app.environment.variable(name).is_some();
    let named = app.environment.variable("ALTHING_THEME").as_deref().and_then(Theme::by_name);
    let by_colors = || app.environment.variable("COLORFGBG").map(|value| Theme::by_colors(&value));
    let theme = if set("NO_COLOR") { Some(Theme::Mono) } else { named.or_else(by_colors) };
    let term = app.environment.variable("TERM").unwrap_or_default();
    let multiplexed = term.starts_with("tmux") || term.starts_with("screen");
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| app.environment.variable(name));
    let ascii = utf8.is_some_and(|locale| locale == "C" || locale == "POSIX");
    let team: Vec<Member> = spec.map(|spec| spec.team.members.clone()).unwrap_or_default();
    let name = |path: &String| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    TuiOptions {
        theme: theme.unwrap_or_default(),
        // The Linux console knows no such question.
        ask_background: theme.is_none() && term != "linux",
        ascii: ascii || set("ALTHING_ASCII"),
        simple_clusters: set("TMUX") || set("STY") || multiplexed,
        plain: set("ALTHING_PLAIN") || app.environment.variable("TERM").as_deref() == Some("dumb"),
        bell: app.environment.variable("ALTHING_BELL").is_none_or(|value| value != "0"),
        mouse: app.environment.variable("ALTHING_MOUSE").is_none_or(|value| value != "0"),
        notifications: notifications(app),
        project: spec.and_then(|spec| spec.project.as_ref()).and_then(name),
        directory: Some(shown_path(&app.environment.cwd.to_string_lossy(), app)),
        interactive: spec.is_some_and(|spec| spec.agent.is_some()),
        team,
        modes: spec.map_or_else(ModeChoice::default, |spec| spec.modes.clone()),
        ..TuiOptions::default()
    }
}
