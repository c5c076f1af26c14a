//! Truncated, overwritten or forged logs: every complete line before the damage is kept, no byte is lost, and a
//! repaired log is not repaired again.
//!
//! If the first byte is `g`, the rest of the input says how a valid log is damaged, four bytes per change. Any other
//! input is itself the log.

use crate::cut::choice;
use althing_disk::Disk;
use althing_disk::sim::SimDisk;
use althing_journal::{OpenedSession, SessionError, SessionManager};
use althing_protocol::{
    Event, Fact, Item, Journal, LOG_SCHEMA, Notice, NoticeLevel, Seq, SessionId, SessionKind, SessionOpened,
    TaskId, TaskStatus, Timestamp,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

const STATE: &str = "/home/state";

static GOOD: LazyLock<(Vec<Arc<Event>>, Vec<u8>)> = LazyLock::new(|| {
    let events: Vec<Arc<Event>> = (1..=40).map(|seq| Arc::new(event(seq))).collect();
    let disk = SimDisk::new(1);
    let mut writer = manager(&disk).create(&id()).expect("a new session");
    for batch in events.chunks(3) {
        writer.append(batch).expect("room");
    }
    drop(writer);
    let bytes = disk.peek(&path("events.jsonl")).expect("a log");
    (events, bytes)
});

pub(crate) fn check(bytes: &[u8]) {
    let (mode, rest) = choice(bytes);
    if mode != b'g' {
        return check_log(bytes, 0);
    }
    let mut log = GOOD.1.clone();
    let mut whole = log.len();
    for blow in rest.chunks_exact(4).take(16) {
        if log.is_empty() {
            break;
        }
        let at = usize::from(u16::from_le_bytes([blow[0], blow[1]])) % log.len();
        whole = whole.min(at);
        match blow[2] % 6 {
            0 => log[at] ^= blow[3].max(1),
            1 => log.truncate(at),
            2 => drop(log.drain(at..(at + usize::from(blow[3])).min(log.len()))),
            3 => log.insert(at, blow[3]),
            4 => {
                let again = log[at..(at + 8 * usize::from(blow[3])).min(log.len())].to_vec();
                log.splice(at..at, again);
            }
            _ => log[at..].iter_mut().take(blow[3].into()).for_each(|byte| *byte = 0),
        }
    }
    let lines = whole_lines(&GOOD.1[..whole]);
    check_log(&log, lines);
}

/// Checks a log whose first `lines` lines are known to be undamaged.
fn check_log(log: &[u8], lines: usize) {
    let disk = SimDisk::new(3);
    drop(manager(&disk).create(&id()).expect("a new session"));
    disk.put(&path("events.jsonl"), log).expect("room");
    let before = all_files(&disk);

    let read = manager(&disk).read(&id());
    assert_eq!(all_files(&disk), before, "reading changed something");
    let (events, good) = match &read {
        Ok(read) => {
            let good = read.damage.as_ref().map_or(log.len(), |damage| damage.offset as usize);
            assert_eq!(whole_lines(&log[..good]), read.events.len());
            (read.events.clone(), good)
        }
        Err(error) => {
            assert!(
                matches!(error, SessionError::Blank { .. } | SessionError::NewerSchema { .. }),
                "{error}"
            );
            (Vec::new(), 0)
        }
    };
    assert!(events.iter().zip(1..).all(|(event, n)| event.seq == Seq(n)), "a gap or a repeat");
    assert!(events.len() >= lines, "{} of {lines} whole lines are kept", events.len());
    assert_eq!(events[..lines], GOOD.0[..lines]);

    if let Ok(opened) = manager(&disk).open(&id()) {
        return check_opened(&disk, log, good, &events, opened);
    }
    assert_eq!(all_files(&disk), before, "a log that is refused was changed");
    // An explicit repair may succeed where opening refuses, because it may cut more of the log.
    if let Ok(opened) = manager(&disk).repair(&id()) {
        return check_opened(&disk, log, good, &events, opened);
    }
    assert_eq!(all_files(&disk), before, "a log that cannot be repaired was changed");
}

fn whole_lines(log: &[u8]) -> usize {
    log.split(|byte| *byte == b'\n').count() - 1
}

/// An opened session contains what was valid, stores the rest aside, and accepts the next event.
fn check_opened(disk: &SimDisk, log: &[u8], good: usize, events: &[Arc<Event>], opened: OpenedSession) {
    assert_eq!(opened.events, events, "opening and reading disagree");
    assert_eq!(opened.notices.len(), usize::from(good < log.len()), "damage must be reported once");
    drop(opened);
    let kept = disk.peek(&path("events.jsonl")).expect("a log");
    let aside = disk.peek(&path("events.jsonl.damaged-1")).unwrap_or_default();
    assert_eq!([kept, aside].concat(), log, "bytes are lost");

    let mut again = manager(disk).open(&id()).expect("what was repaired opens");
    assert_eq!((again.events.as_slice(), again.notices.len()), (events, 0), "repaired twice");
    let next = Arc::new(event(events.len() as u64 + 1));
    again.writer.append(std::slice::from_ref(&next)).expect("it goes on");
    drop(again);
    let read = manager(disk).read(&id()).expect("it reads");
    assert_eq!((read.events.last(), read.events.len()), (Some(&next), events.len() + 1));
    assert_eq!(read.damage, None);
}

fn all_files(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let mut names = disk.list(&path("")).expect("a session");
    names.sort();
    names.retain(|name| name != "lock");
    names.into_iter().map(|name| (name.clone(), disk.peek(&path(&name)).unwrap_or_default())).collect()
}

fn manager(disk: &SimDisk) -> SessionManager {
    SessionManager::on_disk(Arc::new(disk.clone()), Path::new(STATE)).expect("a state directory")
}

fn id() -> SessionId {
    SessionId::from("20261115-095612-7f3a")
}

fn path(name: &str) -> PathBuf {
    Path::new(STATE).join("sessions").join(id().as_str()).join(name)
}

fn event(seq: u64) -> Event {
    let fact = match seq {
        1 => Fact::SessionOpened(Box::new(SessionOpened {
            schema: LOG_SCHEMA,
            session: id(),
            kind: SessionKind::Run,
            goal: "Compare \"HTTP\" caches — ünïcode\n".into(),
            cwd: "/home/me".into(),
            version: "0.1.0".into(),
            config_source: "team.yaml".into(),
            config_text: "agents: []\n".into(),
            config_digest: "00".into(),
            state_dir: None,
            project: None,
            op: None,
        })),
        seq if seq % 3 == 0 => Fact::ItemAdded {
            attempt: 1,
            item: Item::Said { text: format!("{seq}: äöü \u{0} \"quoted\" \\") },
        },
        seq if seq % 3 == 1 => Fact::StatusChanged { status: TaskStatus::Running, why: None },
        _ => Fact::Notice(Notice { level: NoticeLevel::Info, text: "a notice".into(), hint: None }),
    };
    let at = Timestamp(1_794_736_572_000 + seq * 10);
    let task = (seq > 1).then(|| TaskId::from("r1"));
    Event { seq: Seq(seq), at, task, cause: (seq > 1).then(|| Seq(seq - 1)), fact }
}
