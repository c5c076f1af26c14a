//! Tests that the checkpoint and the session list match the log even if `session.json` is missing, damaged or outdated.

use super::{batches, event, id, log_path, manager, opened, run_spec, session, stored};
use crate::{SessionError, rebuild_checkpoint};
use althing_disk::Disk;
use althing_disk::sim::{FaultDuration, FaultKind, SimDisk};
use althing_protocol::{
    AgentId, AttemptOutcome, ChatState, Event, Fact, Interaction, InteractionKind, Journal, Phase, Purpose,
    SessionId, SessionKind, SessionOpened, SessionState, TaskSpec, TaskStatus, Timestamp, Usage,
};
use std::sync::Arc;

fn history() -> Vec<Arc<Event>> {
    let created = |id: &str, parent: Option<&str>, spec| Fact::TaskCreated {
        id: id.into(),
        parent: parent.map(Into::into),
        spec,
    };
    let status = |status, why: Option<&str>| Fact::StatusChanged { status, why: why.map(str::to_owned) };
    let kind = InteractionKind::WinnerOverride { winner: AgentId::from("alice"), candidates: Vec::new() };
    let outcome = AttemptOutcome::Failed { error: "500".into(), hint: None, kind: None };
    let facts = [
        (None, opened()),
        (None, created("r1", None, run_spec("compare"))),
        (Some("r1"), status(TaskStatus::Running, None)),
        (None, created("r1.a1", Some("r1"), TaskSpec::Work { agent: "alice".into() })),
        (Some("r1.a1"), Fact::AttemptStarted { attempt: 2, purpose: Purpose::Answer, continues: None }),
        (Some("r1.a1"), Fact::AttemptEnded { attempt: 2, outcome, usage: Usage::default(), call: None }),
        (Some("r1.a1"), status(TaskStatus::Failed, None)),
        (Some("r1"), Fact::InteractionOpened(Interaction { id: "i1".into(), kind, countdown: None })),
        (
            Some("r1"),
            Fact::InteractionClosed { id: "i1".into(), decision: althing_protocol::Decision::Continue },
        ),
        (Some("r1"), status(TaskStatus::Done, None)),
        (None, Fact::SessionClosed {}),
    ];
    (1..).zip(facts).map(|(n, (task, fact))| event(n, task, fact)).collect()
}

// spec: core/centralized-workflow-management/state-tracking
#[test]
fn the_checkpoint_is_derived_from_facts_alone() {
    use SessionState::{AwaitingInteraction, Done, Idle, Running};
    let events = history();
    assert_eq!(rebuild_checkpoint(&[]), None);
    let states: Vec<_> =
        (1..=events.len()).map(|n| rebuild_checkpoint(&events[..n]).unwrap().state).collect();
    let r = Running;
    assert_eq!(states, [Idle, r, r, r, r, r, r, AwaitingInteraction, r, Done, Done]);
    let whole = rebuild_checkpoint(&events).unwrap();
    assert_eq!(
        (whole.seq, whole.created_at, whole.updated_at),
        (events[10].seq, events[0].at, events[10].at)
    );
    let tasks: Vec<_> = whole.stages[0]
        .tasks
        .iter()
        .map(|t| (t.id.as_str(), t.status, t.attempts, t.error.as_deref()))
        .collect();
    let expected = [("r1", TaskStatus::Done, 0, None), ("r1.a1", TaskStatus::Failed, 2, Some("500"))];
    assert_eq!(tasks, expected);
}

// spec: core/centralized-workflow-management/state-tracking
#[test]
fn a_conversation_whose_run_waits_for_a_person_awaits_interaction() {
    let Fact::SessionOpened(mut head) = opened() else { panic!("not the first fact of a session") };
    head.kind = SessionKind::Chat;
    let status = |status| Fact::StatusChanged { status, why: None };
    let facts = [
        (None, Fact::SessionOpened(head)),
        (None, Fact::PhaseChanged { phase: Phase::Chat(ChatState::Running) }),
        (None, Fact::TaskCreated { id: "r1".into(), parent: None, spec: run_spec("compare") }),
        (Some("r1"), status(TaskStatus::Running)),
        (Some("r1"), status(TaskStatus::WaitingForUser)),
        (Some("r1"), status(TaskStatus::Running)),
    ];
    let events: Vec<_> = (1..).zip(facts).map(|(n, (task, fact))| event(n, task, fact)).collect();
    let states: Vec<_> = (1..=6).map(|n| rebuild_checkpoint(&events[..n]).unwrap().state).collect();
    let (idle, running) = (SessionState::Idle, SessionState::Running);
    assert_eq!(states, [idle, running, running, running, SessionState::AwaitingInteraction, running]);
}

#[test]
fn the_list_is_correct_with_a_missing_damaged_or_outdated_checkpoint() {
    let events = session(50);
    let path = log_path().with_file_name("session.json");
    let right = rebuild_checkpoint(&events).unwrap();
    let behind = serde_json::to_vec(&rebuild_checkpoint(&events[..20]).unwrap()).unwrap();
    for state in [None, Some(&b"{\"id\":"[..]), Some(b""), Some(&behind)] {
        let (disk, bytes) = stored(&events, &batches(&events));
        match state {
            Some(state) => disk.put(&path, state).unwrap(),
            None => disk.remove_file(&path).unwrap(),
        }
        let list = manager(&disk).list().unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!((&list[0].id, &list[0].checkpoint), (&id(), &Some(right.clone())), "{state:?}");
        assert_eq!((list[0].size, &list[0].damage), (bytes.len() as u64, &None));
        assert_eq!(manager(&disk).newest().unwrap().as_ref(), list.first());
    }
}

#[test]
fn a_checkpoint_that_matches_the_log_end_is_used_without_reading_the_log() {
    let events = session(50);
    let (disk, _) = stored(&events, &batches(&events));
    let path = log_path().with_file_name("session.json");
    let mut told = rebuild_checkpoint(&events).unwrap();
    told.goal = "only the checkpoint says so".into();
    disk.put(&path, &serde_json::to_vec(&told).unwrap()).unwrap();
    assert_eq!(manager(&disk).list().unwrap()[0].checkpoint, Some(told));
}

#[test]
fn an_unreadable_session_is_still_listed() {
    let events = session(10);
    let (disk, bytes) = stored(&events, &batches(&events));
    disk.put(&log_path(), &bytes[..bytes.len() - 3]).unwrap();
    let list = manager(&disk).list().unwrap();
    assert!(list[0].damage.as_deref().unwrap().contains("line 10"), "{list:?}");
    assert_eq!(list[0].checkpoint, rebuild_checkpoint(&events[..9]));
    disk.put(&log_path(), b"").unwrap();
    assert!(manager(&disk).list().unwrap()[0].damage.is_some());
}

#[test]
fn a_failed_checkpoint_is_retried_and_never_stops_the_session() {
    let events = session(9);
    let disk = SimDisk::new(0);
    let mut writer = manager(&disk).create(&id()).unwrap();
    writer.append(&events[..3]).unwrap();
    disk.fail_at(1, FaultKind::Full, FaultDuration::UntilHealed);
    writer.checkpoint(rebuild_checkpoint(&events[..3]).unwrap());
    disk.heal();
    assert_eq!(manager(&disk).checkpoint(&id()), None);
    writer.append(&events[3..]).unwrap();
    writer.checkpoint(rebuild_checkpoint(&session(20)).unwrap());
    assert_eq!(manager(&disk).checkpoint(&id()), None, "a checkpoint ahead of the log was written");
    writer.close().unwrap();
    assert_eq!(manager(&disk).checkpoint(&id()), rebuild_checkpoint(&events[..3]), "the queued checkpoint");
}

fn make(disk: &SimDisk, name: &str, at: u64) -> SessionId {
    let id = SessionId::from(name);
    let mut head = opened();
    if let Fact::SessionOpened(head) = &mut head {
        **head = SessionOpened { session: id.clone(), ..(**head).clone() };
    }
    let mut first = (*event(1, None, head)).clone();
    first.at = Timestamp(at);
    manager(disk).create(&id).unwrap().append(&[Arc::new(first)]).unwrap();
    id
}

#[test]
fn sessions_are_listed_removed_and_pruned_but_not_while_in_use() {
    let disk = SimDisk::new(0);
    let sessions = manager(&disk);
    let (old, new, mid) = (make(&disk, "a", 1000), make(&disk, "b", 3000), make(&disk, "c", 2000));
    let ids = || sessions.list().unwrap().into_iter().map(|s| s.id).collect::<Vec<_>>();
    assert_eq!(ids(), [new.clone(), mid.clone(), old.clone()]);

    let held = sessions.open(&old).unwrap();
    assert!(sessions.list().unwrap()[2].is_owned);
    assert!(matches!(sessions.remove(&old), Err(SessionError::Locked { .. })));
    assert!(matches!(sessions.open(&old), Err(SessionError::Locked { .. })));
    let pruned = sessions.prune(Timestamp(2500)).unwrap();
    assert_eq!((pruned.removed, pruned.kept.len()), (vec![mid], 0));
    drop(held);
    sessions.remove(&old).unwrap();
    assert_eq!(ids(), std::slice::from_ref(&new));
    assert!(matches!(sessions.remove(&old), Err(SessionError::NotFound { .. })));
    disk.reboot();
    assert_eq!(ids(), [new]);
}

#[test]
fn a_title_is_stored_while_the_session_is_in_use_and_goes_with_the_session() {
    let disk = SimDisk::new(0);
    let sessions = manager(&disk);
    let id = make(&disk, "a", 1000);
    let title = || sessions.summary(&id).unwrap().unwrap().title;
    assert_eq!(title(), None);
    let held = sessions.open(&id).unwrap();
    sessions.rename(&id, "  Caching\nand more  ").unwrap();
    drop(held);
    disk.reboot();
    assert_eq!(title().as_deref(), Some("Caching"), "one line, and it survives a power cut");
    sessions.rename(&id, &"é".repeat(5000)).unwrap();
    assert_eq!(title().unwrap().chars().count(), 200);
    sessions.rename(&id, " ").unwrap();
    assert_eq!(title(), None, "an empty title removes it");
    sessions.remove(&id).unwrap();
    assert!(matches!(sessions.rename(&id, "gone"), Err(SessionError::NotFound { .. })));
}
