//! The event log: appending with durability, and reading back.

use crate::verdict::say;
use althing_protocol::{
    Answer, AnswerLabel, Event, Fact, Item, Journal, LOG_SCHEMA, Revision, Seq, SessionKind, SessionOpened,
    Timestamp,
};
use std::sync::Arc;
use std::time::Instant;

/// Events in the log that is read back.
const EVENTS: u64 = 1_000_000;
/// Events that a batch holds when many agents speak at once.
const BATCH: usize = 32;
/// Events appended with one sync per batch.
const APPENDED: u64 = 20_000;

fn event(seq: u64) -> Arc<Event> {
    let label = AnswerLabel { agent: 1, nth: seq as u32 };
    let content = "Use a shared cache with validation; keep private responses out of it.".to_owned();
    let answer = Answer { agent: "gem".into(), label, revision: Revision(seq as u32), content };
    let fact = Fact::ItemAdded { attempt: 1, item: Item::Answer(answer) };
    Arc::new(Event {
        seq: Seq(seq),
        at: Timestamp(1_794_736_572_000 + seq),
        task: Some("r1.a1".into()),
        cause: Some(Seq(1)),
        fact,
    })
}

fn opening() -> Arc<Event> {
    let opened = SessionOpened {
        schema: LOG_SCHEMA,
        session: "20261115-095612-7f3a".into(),
        kind: SessionKind::Run,
        goal: "bench".into(),
        cwd: "/".into(),
        version: "0".into(),
        config_source: String::new(),
        config_text: String::new(),
        config_digest: String::new(),
        op: None,
        project: None,
    };
    Arc::new(Event {
        seq: Seq(1),
        at: Timestamp(1_794_736_572_000),
        task: None,
        cause: None,
        fact: Fact::SessionOpened(Box::new(opened)),
    })
}

pub fn append_and_replay() {
    let dir = tempfile::TempDir::new().unwrap();
    let state = althing_storage::open_state(dir.path()).unwrap();
    let id = "20261115-095612-7f3a".into();
    let mut writer = state.create(&id).unwrap();
    writer.append(&[opening()]).unwrap();
    let events: Vec<_> = (2..=APPENDED + 1).map(event).collect();
    let began = Instant::now();
    for batch in events.chunks(BATCH) {
        writer.append(batch).unwrap();
    }
    let rate = APPENDED as f64 / began.elapsed().as_secs_f64();
    say(
        &format!("log append, {BATCH} to a sync"),
        format!("{rate:.0} events/s"),
        "at least 20000",
        rate >= 2e4,
    );
    for first in (APPENDED + 2..=EVENTS).step_by(10_000) {
        let batch: Vec<_> = (first..(first + 10_000).min(EVENTS + 1)).map(event).collect();
        writer.append(&batch).unwrap();
    }
    drop(writer);
    let began = Instant::now();
    let read = state.read(&id).unwrap();
    let took = began.elapsed().as_secs_f64();
    assert_eq!(read.events.len() as u64, EVENTS);
    say(&format!("log replay, {EVENTS} events"), format!("{took:.2} s"), "at most 1 s", took <= 1.0);
}
