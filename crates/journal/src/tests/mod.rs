//! The guarantees of this crate, tested on the simulated disk, on real files and with real processes. Labels such as
//! `D1` are rows of the tables in `docs/reliability.md`.

mod checkpoints;
mod crashes;
mod damage;
mod faults;
mod format;
mod free_text;
mod long_secrets;
mod masking;
mod processes;
mod real_files;

use crate::{CheckpointFold, SessionManager, SessionWriter};
use althing_disk::sim::SimDisk;
use althing_protocol::{
    Answer, AnswerLabel, Event, Fact, Item, Journal, JournalError, JournalReader, Modes, Notice, NoticeLevel,
    Purpose, Reply, Revision, RunRules, RunSpec, Seq, SessionId, SessionKind, SessionOpened, TaskId,
    TaskSpec, TaskStatus, Timestamp,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const STATE: &str = "/home/state";

/// The size of a test: `pr`, unless `ALTHING_TEST_SCALE=nightly`.
pub(super) fn scale(pr: u64, nightly: u64) -> u64 {
    althing_testkit::scale(pr as usize, nightly as usize) as u64
}

pub(super) fn id() -> SessionId {
    SessionId::from("20261115-095612-7f3a")
}

pub(super) fn log_path() -> PathBuf {
    Path::new(STATE).join("sessions").join(id().as_str()).join("events.jsonl")
}

/// Reads a range of a log as a front end does, inside an async runtime.
pub(super) fn read(
    reader: &dyn JournalReader,
    after: Seq,
    up_to: Seq,
) -> Result<Vec<Arc<Event>>, JournalError> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(reader.read(after, up_to))
}

pub(super) fn opened() -> Fact {
    Fact::SessionOpened(Box::new(SessionOpened {
        schema: althing_protocol::LOG_SCHEMA,
        session: id(),
        kind: SessionKind::Run,
        goal: "Compare three ways to cache \"HTTP\" responses — ünïcode\n".into(),
        cwd: "/home/me".into(),
        version: "0.1.0".into(),
        config_source: "team.yaml".into(),
        config_text: "agents: []\n".into(),
        config_digest: "00".into(),

        state_dir: None,
        project: None,
        op: None,
    }))
}

pub(super) fn run_spec(task: &str) -> TaskSpec {
    TaskSpec::Run(Box::new(RunSpec {
        task: task.into(),
        context: None,
        history: Vec::new(),
        members: Vec::new(),
        context_paths: Vec::new(),
        modes: Modes::default(),
        rules: RunRules::default(),
        subagent_of: None,
        plan: None,
        execution: None,
        unapproved_paths: Vec::new(),
        tie_break_seed: 7,
    }))
}

pub(super) fn event(seq: u64, task: Option<&str>, fact: Fact) -> Arc<Event> {
    let at = Timestamp(1_794_736_572_000 + seq * 10);
    let cause = (seq > 1).then(|| Seq(seq - 1));
    Arc::new(Event { seq: Seq(seq), at, task: task.map(TaskId::from), cause, fact })
}

/// A deterministic session with events of various kinds and sizes.
pub(super) fn session(len: u64) -> Vec<Arc<Event>> {
    let mut rng = fastrand::Rng::with_seed(42);
    (1..=len)
        .map(|seq| match seq {
            1 => event(1, None, opened()),
            2 => {
                let fact = Fact::TaskCreated { id: "r1".into(), parent: None, spec: run_spec("compare") };
                event(2, None, fact)
            }
            3 => event(3, Some("r1"), Fact::StatusChanged { status: TaskStatus::Running, why: None }),
            _ => event(seq, Some("r1"), some_fact(seq, &mut rng)),
        })
        .collect()
}

fn some_fact(seq: u64, rng: &mut fastrand::Rng) -> Fact {
    let attempt = 1;
    let words = "Zwölf Boxkämpfer \u{1f980} \"quoted\" \\ \u{0} end. ";
    match seq % 7 {
        0 => Fact::AttemptStarted { attempt, purpose: Purpose::Answer, continues: None },
        1 | 2 => {
            let text = words.repeat(rng.usize(..3));
            Fact::ItemAdded {
                attempt,
                item: Item::ToolResult { call: "c1".into(), content: text, is_error: false },
            }
        }
        // Occasionally a reply that spans several pages.
        3 => {
            let times = if rng.u8(..8) == 0 { 300 } else { rng.usize(..8) };
            let reply = Reply { text: words.repeat(times), ..Reply::default() };
            Fact::ItemAdded { attempt, item: Item::Reply(reply) }
        }
        4 => {
            let answer = Answer {
                agent: "alice".into(),
                label: AnswerLabel { agent: 1, nth: seq as u32 },
                revision: Revision(seq as u32),
                content: words.into(),
                conclusion: None,
            };
            Fact::ItemAdded { attempt, item: Item::Answer(answer) }
        }
        5 => Fact::Notice(Notice { level: NoticeLevel::Info, text: words.into(), hint: None }),
        _ => Fact::TimerFired(althing_protocol::Timer::Orchestrator),
    }
}

/// The session split into appends of 1 to 6 events; deterministic.
pub(super) fn batches(events: &[Arc<Event>]) -> Vec<&[Arc<Event>]> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut rest = events;
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(rng.usize(1..=6).min(rest.len()));
        batches.push(batch);
        rest = after;
    }
    batches
}

pub(super) fn manager(disk: &SimDisk) -> SessionManager {
    SessionManager::on_disk(Arc::new(disk.clone()), Path::new(STATE)).unwrap()
}

pub(super) fn write(writer: &mut SessionWriter, fold: &mut CheckpointFold, batch: &[Arc<Event>]) {
    writer.append(batch).unwrap();
    for event in batch {
        fold.apply(event);
    }
    writer.checkpoint(fold.checkpoint().unwrap());
}

pub(super) fn stored(events: &[Arc<Event>], batches: &[&[Arc<Event>]]) -> (SimDisk, Vec<u8>) {
    assert_eq!(batches.iter().map(|b| b.len()).sum::<usize>(), events.len());
    let disk = SimDisk::new(1);
    let mut writer = manager(&disk).create(&id()).unwrap();
    let mut fold = CheckpointFold::default();
    for batch in batches {
        write(&mut writer, &mut fold, batch);
    }
    writer.close().unwrap();
    let bytes = althing_disk::Disk::read(&disk, &log_path()).unwrap();
    (disk, bytes)
}
