//! The event log: durable appends, and reading back.

use crate::measure::{median, timed};
use crate::verdict::report;
use althing_protocol::{
    Answer, AnswerLabel, Event, Fact, Item, Journal, LOG_SCHEMA, Revision, Seq, SessionKind, SessionOpened,
    Timestamp,
};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

const SESSION: &str = "20261115-095612-7f3a";

const EVENTS: u64 = 1_000_000;
/// The number of events per batch, as when many agents work at once.
const BATCH: usize = 32;
const APPENDED: u64 = 20_000;

fn event(seq: u64) -> Arc<Event> {
    let label = AnswerLabel { agent: 1, nth: seq as u32 };
    let content = "Use a shared cache with validation; keep private responses out of it.".to_owned();
    let answer =
        Answer { agent: "gem".into(), label, revision: Revision(seq as u32), content, conclusion: None };
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
        session: SESSION.into(),
        kind: SessionKind::Run,
        goal: "bench".into(),
        cwd: "/".into(),
        version: "0".into(),
        config_source: String::new(),
        config_text: String::new(),
        config_digest: String::new(),

        state_dir: None,
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

/// Compared to writing and reading the same bytes without parsing them.
pub fn all(rounds: usize) {
    append(rounds.min(5));
    let log = LogOnDisk::with(EVENTS);
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds.min(5) {
        floor.push(timed(|| std::fs::read_to_string(log.file()).unwrap().lines().count()).0);
        ours.push(log.replay());
    }
    let (ours, floor) = (median(ours), median(floor));
    let got = format!("{ours:.2} s (reading it as text, line by line: {floor:.2} s)");
    report(&format!("log replay, {EVENTS} events"), got, "at most 1 s", ours <= 1.0);
}

fn append(rounds: usize) {
    let events: Vec<_> = (2..=APPENDED + 1).map(event).collect();
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut log = LogOnDisk::with(1);
        let writer = log.writer.as_mut().unwrap();
        let began = Instant::now();
        for batch in events.chunks(BATCH) {
            writer.append(batch).unwrap();
        }
        ours.push(APPENDED as f64 / began.elapsed().as_secs_f64());
        // The baseline writes the same number of bytes with the same number of syncs.
        let bytes = std::fs::read(log.file()).unwrap();
        let mut bare = std::fs::File::create(log.dir.path().join("bare")).unwrap();
        let batches = events.len() / BATCH;
        let began = Instant::now();
        for batch in bytes.chunks(bytes.len() / batches) {
            bare.write_all(batch).unwrap();
            bare.sync_data().unwrap();
        }
        floor.push(APPENDED as f64 / began.elapsed().as_secs_f64());
    }
    let (ours, floor) = (median(ours), median(floor));
    let got = format!("{ours:.0} events/s (the bare bytes: {floor:.0})");
    report(&format!("log append, {BATCH} per sync"), got, "at least 20000", ours >= 2e4);
}

pub struct LogOnDisk {
    dir: tempfile::TempDir,
    state: althing_journal::SessionManager,
    writer: Option<althing_journal::SessionWriter>,
    events: u64,
}

impl LogOnDisk {
    pub fn with(events: u64) -> Self {
        let dir = tempfile::TempDir::new().unwrap();
        let state = althing_journal::open_state(dir.path(), althing_journal::Owners::Anybody).unwrap();
        let mut writer = state.create(&SESSION.into()).unwrap();
        writer.append(&[opening()]).unwrap();
        for first in (2..=events).step_by(10_000) {
            let batch: Vec<_> = (first..(first + 10_000).min(events + 1)).map(event).collect();
            writer.append(&batch).unwrap();
        }
        Self { dir, state, writer: Some(writer), events }
    }

    fn file(&self) -> std::path::PathBuf {
        self.dir.path().join("sessions").join(SESSION).join("events.jsonl")
    }

    pub fn replay(&self) -> f64 {
        let (took, read) = timed(|| self.state.read(&SESSION.into()).unwrap());
        assert_eq!(read.events.len() as u64, self.events);
        took
    }
}
