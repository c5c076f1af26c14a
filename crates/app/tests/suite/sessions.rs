//! Sessions as front ends use them, through `SessionService`: launch, follow, submit, wait.

use althing_app::agent_selection::AgentSelection;
use althing_app::{
    AppContext, ChatRequest, Consent, Environment, LocalSessions, RunRequest, SessionEnd, SessionRequest,
    SessionService, Settings, SingleAgent, prepare, team,
};
use althing_protocol::{
    EventStream, Fact, FeedItem, Interest, JournalErrorKind, LaunchRun, ModeChoice, Op, Origin, Seq,
    SessionId, Submission, TaskSpec,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = althing_testkit::wait::PATIENCE;

fn app(dir: &Path) -> AppContext {
    let settings = Settings { offline: true, state_dir: Some(dir.join("state")), ..Settings::default() };
    let mut environment = Environment::read().expect("an environment");
    dir.clone_into(&mut environment.cwd);
    AppContext::new(settings, environment, Arc::new(|_: &str| {}))
}

fn sessions(app: &AppContext) -> LocalSessions {
    let team = team::assemble(app).expect("the offline team");
    LocalSessions::with_team(app.clone(), Arc::new(team), None)
}

async fn start_chat(sessions: &LocalSessions, app: &AppContext) -> SessionId {
    let selection = AgentSelection::without_task(app, sessions.team().expect("a team")).expect("a choice");
    let chat = ChatRequest {
        selection,
        goal: "talk".to_owned(),
        attended: false,
        can_ask: false,
        history: Vec::new(),
        branch_of: None,
    };
    sessions.launch(SessionRequest::Chat(chat)).await.expect("a conversation")
}

fn message(text: &str, id: &str) -> Submission {
    let op = Op::SendMessage { text: text.to_owned(), modes: ModeChoice::default(), grants: Vec::new() };
    Submission { op, by: Origin::User, id: Some(id.into()) }
}

async fn until(events: &mut dyn EventStream, wanted: impl Fn(&Fact) -> bool) -> bool {
    let reading = async {
        while let Some(item) = events.next().await {
            if let FeedItem::Event(event) = item.expect("a readable log")
                && wanted(&event.fact)
            {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(LIMIT, reading).await.expect("an event in time")
}

fn is_accepted(fact: &Fact, id: &str) -> bool {
    matches!(fact, Fact::OpAccepted { id: Some(accepted), .. } if *accepted == id.into())
}

#[tokio::test]
async fn a_run_is_launched_followed_to_its_end_and_listed() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = app(dir.path());
    let sessions = sessions(&app);
    let launch = LaunchRun { task: "Compare two sorts".to_owned(), ..LaunchRun::default() };
    let run = RunRequest {
        session: None,
        launch,
        context_paths: Vec::new(),
        plan: None,
        history: Vec::new(),
        consent: Consent::Person,
        cost_micro_usd: None,
    };
    let id = sessions.launch(SessionRequest::Run(Box::new(run))).await.expect("a run");
    let mut events = sessions.follow(&id, Seq(0), Interest::Facts).await.expect("events");
    assert!(until(&mut *events, |fact| matches!(fact, Fact::SessionClosed {})).await);
    assert_eq!(sessions.ended(&id).await.expect("its end"), SessionEnd::Finished);
    let listed = sessions.list().await.expect("a list");
    assert!(listed.iter().any(|session| session.id == id));
    sessions.close().await;
    let refused = sessions.submit(&id, message("too late", "m1")).expect_err("it is over");
    assert!(refused.message.contains("does not run in this process"), "{}", refused.message);
}

#[tokio::test]
async fn a_run_prepared_from_settings_applies_them() {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["notes", "typed"] {
        std::fs::write(dir.path().join(name), "text").expect("a file");
    }
    let mut app = app(dir.path());
    let all = team::assemble(&app).expect("the offline team").config.agents;
    let last = all.last().expect("an agent").id.to_string();
    app.settings.single_agent = Some(SingleAgent::Named(last.clone()));
    app.settings.context_path = vec!["notes".to_owned()];
    (app.settings.quick, app.settings.plan) = (true, true);
    let (sessions, request) = prepare::run(&app, "Sum up @typed").expect("a run");
    let id = sessions.launch(SessionRequest::Run(Box::new(request))).await.expect("it starts");
    let mut events = sessions.follow(&id, Seq(0), Interest::Facts).await.expect("events");
    assert!(until(&mut *events, |fact| matches!(fact, Fact::TaskCreated { .. })).await);
    let stored = sessions.read(&id).await.expect("what is recorded");
    let spec = stored.events.iter().find_map(|event| match &event.fact {
        Fact::TaskCreated { spec: TaskSpec::Run(spec), .. } => Some(spec.clone()),
        _ => None,
    });
    let spec = spec.expect("the run");
    let members: Vec<&str> = spec.members.iter().map(|member| member.id.as_str()).collect();
    assert_eq!(members, [last.as_str()]);
    assert!(!spec.modes.refinement && spec.modes.planning, "{:?}", spec.modes);
    let real = dir.path().canonicalize().expect("a directory");
    for name in ["notes", "typed"] {
        let path = real.join(name).display().to_string();
        assert!(spec.context_paths.iter().any(|known| known.path == path), "{:?}", spec.context_paths);
    }
    sessions.close().await;

    app.settings.agents = vec!["nobody".to_owned()];
    let refused = prepare::run(&app, "Sum up").err().expect("no such agent");
    assert_eq!(refused.message, "there is no agent `nobody`");
}

#[tokio::test]
async fn a_task_that_no_person_typed_grants_no_paths() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("typed"), "text").expect("a file");
    let app = app(dir.path());
    let mut draft = prepare::RunDraft::of(&app, Some("-".to_owned())).expect("a run");
    draft.set_untyped_task("Sum up @typed".to_owned());
    let (_, request) = draft.finish().expect("a run");
    assert_eq!((request.launch.task.as_str(), request.context_paths.len()), ("Sum up @typed", 0));
}

#[tokio::test]
async fn listing_sessions_creates_no_state_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let sessions = LocalSessions::new(app(dir.path()));
    let id = SessionId::new("s1");
    assert_eq!(sessions.list().await.expect("an empty list").len(), 0);
    let read = sessions.read(&id).await.expect_err("there is no such session");
    let followed = sessions.follow(&id, Seq(0), Interest::Facts).await.err().expect("nor one to follow");
    for refused in [read, followed] {
        assert!(refused.message.contains("there is no session `s1`"), "{}", refused.message);
    }
    sessions.close().await;
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}

#[tokio::test]
async fn a_session_of_another_process_can_be_followed_but_not_submitted_to_or_opened() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = app(dir.path());
    let (owner, guest) = (sessions(&app), LocalSessions::new(app.clone()));
    let id = start_chat(&owner, &app).await;
    let mut events = guest.follow(&id, Seq(0), Interest::Facts).await.expect("events");
    assert!(until(&mut *events, |fact| matches!(fact, Fact::TaskCreated { .. })).await, "what was before");
    owner.submit(&id, message("Good morning", "m1")).expect("it takes messages");
    assert!(until(&mut *events, |fact| is_accepted(fact, "m1")).await, "what happens now");

    guest.submit(&id, message("Good evening", "m2")).expect_err("only its owner asks it");
    let store = app.store().expect("a store");
    let refused = store.open(&id).err().expect("it is owned");
    assert_eq!(refused.kind, JournalErrorKind::OwnedElsewhere);

    owner.close().await;
    assert!(!until(&mut *events, |_| false).await, "the stream ends with its owner");
    let before = store.read(&id, Seq(0)).expect("what is stored").events.len() as u64;
    let owned = store.open(&id).expect("it is free now");
    assert_eq!(owned.epoch.0, before + 1, "a later owner has a later epoch");
}

#[tokio::test]
async fn a_message_with_a_repeated_id_is_accepted_once_by_a_resumed_conversation() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = app(dir.path());
    let first = sessions(&app);
    let id = start_chat(&first, &app).await;
    let mut events = first.follow(&id, Seq(0), Interest::Facts).await.expect("events");
    first.submit(&id, message("Good morning", "m1")).expect("it takes messages");
    assert!(until(&mut *events, |fact| is_accepted(fact, "m1")).await);
    first.close().await;

    let second = LocalSessions::new(app.clone());
    second.launch(SessionRequest::Resume { id: id.clone(), can_ask: false }).await.expect("it is resumed");
    let mut events = second.follow(&id, Seq(0), Interest::Facts).await.expect("events");
    for again in ["m1", "m2"] {
        second.submit(&id, message("Good morning", again)).expect("it takes messages");
    }
    assert!(until(&mut *events, |fact| is_accepted(fact, "m2")).await);
    second.close().await;
    let events = second.read(&id).await.expect("what is stored").events;
    assert_eq!(events.iter().filter(|event| is_accepted(&event.fact, "m1")).count(), 1);
}

#[tokio::test]
async fn a_session_ends_when_the_service_that_runs_it_is_dropped() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = app(dir.path());
    let owner = sessions(&app);
    let id = start_chat(&owner, &app).await;
    let guest = LocalSessions::new(app.clone());
    let mut events = guest.follow(&id, Seq(0), Interest::Facts).await.expect("events");
    drop(owner);
    assert!(!until(&mut *events, |_| false).await, "nobody owns it any more");
}
