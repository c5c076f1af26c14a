//! Front ends use sessions through one service: they launch, follow, submit and wait, and know nothing of journals.

use althing_app::choice::Choice;
use althing_app::{
    AppContext, ChatRequest, Consent, Environment, LocalSessions, RunRequest, SessionRequest, SessionService,
    Settings, Stopped, team,
};
use althing_protocol::{
    EventStream, Fact, FeedItem, Interest, JournalErrorKind, LaunchRun, ModeChoice, Op, Origin, Seq,
    SessionId, Submission,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(30);

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
    let choice = Choice::without_task(app, sessions.team().expect("a team")).expect("a choice");
    let chat = ChatRequest { choice, goal: "talk".to_owned(), attended: false };
    sessions.launch(SessionRequest::Chat(chat)).await.expect("a conversation")
}

fn message(text: &str, id: &str) -> Submission {
    let op = Op::SendMessage { text: text.to_owned(), modes: ModeChoice::default(), grants: Vec::new() };
    Submission { op, by: Origin::User, id: Some(id.into()) }
}

/// Reads on until a fact is as wanted; false where the stream ends before.
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
    let run = RunRequest { launch, context_paths: Vec::new(), plan: None, consent: Consent::Person };
    let id = sessions.launch(SessionRequest::Run(Box::new(run))).await.expect("a run");
    let mut events = sessions.follow(&id, Seq(0), Interest::Facts).await.expect("events");
    assert!(until(&mut *events, |fact| matches!(fact, Fact::SessionClosed {})).await);
    assert_eq!(sessions.ended(&id).await.expect("its end"), Stopped::Finished);
    let listed = sessions.list().await.expect("a list");
    assert!(listed.iter().any(|session| session.id == id));
    sessions.close().await;
    let refused = sessions.submit(&id, message("too late", "m1")).expect_err("it is over");
    assert!(refused.message.contains("does not run here"), "{}", refused.message);
}

#[tokio::test]
async fn a_session_that_somebody_else_runs_is_followed_but_neither_asked_nor_opened() {
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
async fn a_message_that_is_sent_again_to_a_resumed_conversation_is_accepted_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let app = app(dir.path());
    let first = sessions(&app);
    let id = start_chat(&first, &app).await;
    let mut events = first.follow(&id, Seq(0), Interest::Facts).await.expect("events");
    first.submit(&id, message("Good morning", "m1")).expect("it takes messages");
    assert!(until(&mut *events, |fact| is_accepted(fact, "m1")).await);
    first.close().await;

    let second = LocalSessions::new(app.clone());
    second.launch(SessionRequest::Resume(id.clone())).await.expect("it is resumed");
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
