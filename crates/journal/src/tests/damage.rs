//! D3: logs that were truncated or overwritten, or have flipped bits, duplicate, swapped or missing lines. No panic, no
//! session that looks empty, and no damaged byte is thrown away.

use super::{batches, event, id, log_path, manager, opened, scale, session, stored};
use crate::{Damage, DamageKind, SessionError, rebuild_checkpoint};
use althing_disk::Disk;
use althing_disk::sim::SimDisk;
use althing_protocol::{Event, Fact, Journal, JournalErrorKind, NoticeLevel, SessionOpened};
use std::sync::Arc;

struct Good {
    events: Vec<Arc<Event>>,
    bytes: Vec<u8>,
    /// The offset of each line, and the end of the log.
    starts: Vec<usize>,
    /// For each line, the sequence number of the first event in the batch that it was written with.
    batch: Vec<usize>,
}

impl Good {
    fn new(len: u64) -> Self {
        let events = session(len);
        let batches = batches(&events);
        let (_, bytes) = stored(&events, &batches);
        let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
        let starts: Vec<_> = std::iter::once(0).chain(ends).collect();
        assert_eq!(starts.len(), events.len() + 1);
        let batch = batches.iter().flat_map(|b| vec![b[0].seq.0 as usize; b.len()]).collect();
        Self { events, bytes, starts, batch }
    }

    fn line_of(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    fn line(&self, n: usize) -> &[u8] {
        &self.bytes[self.starts[n]..self.starts[n + 1]]
    }
}

fn disk_with(log: &[u8]) -> SimDisk {
    let disk = SimDisk::new(3);
    drop(manager(&disk).create(&id()).unwrap());
    disk.put(&log_path(), log).unwrap();
    disk
}

fn damaged_bytes(disk: &SimDisk) -> Option<Vec<u8>> {
    disk.read(&log_path().with_file_name("events.jsonl.damaged-1")).ok()
}

fn expect_tail(good: &Good, log: &[u8], kept: usize, case: &str) {
    let disk = disk_with(log);
    let read = manager(&disk).read(&id()).unwrap();
    assert_eq!(read.events, good.events[..kept], "{case}");
    let end = good.starts[kept];
    let damage = read.damage.map(|d| (d.kind, d.line, d.offset));
    assert_eq!(damage, Some((DamageKind::Tail, kept as u64 + 1, end as u64)), "{case}");
    assert_eq!(disk.read(&log_path()).unwrap(), log, "{case}: reading changed the log");

    let mut opened = manager(&disk).open(&id()).unwrap();
    assert_eq!(opened.events, good.events[..kept], "{case}");
    assert_eq!(opened.notices.len(), 1, "{case}");
    assert_eq!(opened.notices[0].level, NoticeLevel::Warning);
    assert_eq!(damaged_bytes(&disk).unwrap(), log[end..], "{case}: the damaged bytes were not saved");
    opened.writer.append(&good.events[kept..]).unwrap();
    drop(opened);
    let read = manager(&disk).read(&id()).unwrap();
    assert_eq!((read.events.as_slice(), read.damage), (good.events.as_slice(), None), "{case}");
}

fn expect_refused(good: &Good, disk: &SimDisk, log: &[u8], kept: usize, case: &str) {
    let error = manager(disk).open(&id()).err().unwrap_or_else(|| panic!("{case}: opened"));
    assert!(error.kind() != JournalErrorKind::Unavailable && error.hint().is_some(), "{case}: {error}");
    match error {
        SessionError::Blank { .. } => assert_eq!(kept, 0, "{case}"),
        SessionError::Damaged { damage: Damage { kind, line, offset, .. }, .. } => {
            let expected = (DamageKind::Middle, kept as u64 + 1, good.starts[kept] as u64);
            assert_eq!((kind, line, offset), expected, "{case}");
            let read = manager(disk).read(&id()).unwrap();
            assert_eq!(read.events, good.events[..kept], "{case}");
            assert_eq!(read.damage.map(|d| d.line), Some(line), "{case}");
        }
        other => panic!("{case}: {other}"),
    }
    assert_eq!(disk.read(&log_path()).unwrap(), log, "{case}: the log was changed");
    assert_eq!(damaged_bytes(disk), None, "{case}");
}

#[test]
fn a_log_cut_at_any_byte_keeps_every_whole_line() {
    let good = Good::new(24);
    for cut in 0..good.bytes.len() {
        let (log, case) = (&good.bytes[..cut], format!("cut at {cut}"));
        let kept = good.line_of(cut);
        if kept == 0 {
            expect_refused(&good, &disk_with(log), log, 0, &case);
        } else if cut == good.starts[kept] {
            let opened = manager(&disk_with(log)).open(&id()).unwrap();
            assert_eq!((opened.events.as_slice(), opened.notices.len()), (&good.events[..kept], 0), "{case}");
        } else {
            expect_tail(&good, log, kept, &case);
        }
    }
}

#[test]
fn nuls_at_the_end_cost_only_the_lines_they_cover() {
    let good = Good::new(24);
    let len = good.bytes.len();
    assert!(len > 4096 + good.starts[1], "{len}");
    for nuls in 1..=4096 {
        let mut log = good.bytes.clone();
        log[len - nuls..].fill(0);
        expect_tail(&good, &log, good.line_of(len - nuls), &format!("{nuls} NULs over the end"));
        let mut longer = good.bytes.clone();
        longer.resize(len + nuls, 0);
        if nuls % 64 == 1 {
            expect_tail(&good, &longer, good.events.len(), &format!("{nuls} NULs behind the end"));
        }
    }
}

#[test]
fn a_flipped_bit_is_always_found_and_never_costs_a_line_before_it() {
    let good = Good::new(30);
    let mut rng = fastrand::Rng::with_seed(99);
    let (mut tails, mut middles) = (0, 0);
    for _ in 0..scale(10_000, 200_000) {
        let (at, bit) = (rng.usize(..good.bytes.len()), rng.u8(..8));
        let mut log = good.bytes.clone();
        log[at] ^= 1 << bit;
        let case = format!("bit {bit} of byte {at}");
        let kept = good.line_of(at);
        // Without its line end, the line and the next one become one bad line.
        let next = if good.bytes[at] == b'\n' { kept + 2 } else { kept + 1 };
        let proof = (next..good.events.len()).any(|n| good.batch[n] == n + 1 || good.batch[n] > kept + 1);
        if kept == 0 || proof {
            middles += 1;
            expect_refused(&good, &disk_with(&log), &log, kept, &case);
        } else {
            tails += 1;
            expect_tail(&good, &log, kept, &case);
        }
    }
    assert!(tails > 100 && middles > 1000, "{tails} tails, {middles} middles");
}

#[test]
fn doubled_swapped_and_missing_lines_are_found_wherever_they_are() {
    let good = Good::new(40);
    let last = good.events.len() - 1;
    for n in 1..=last {
        let lines = |order: &[usize]| order.iter().flat_map(|n| good.line(*n)).copied().collect::<Vec<u8>>();
        let all: Vec<usize> = (0..=last).collect();
        let mut doubled = all.clone();
        doubled.insert(n, n);
        check_order(&good, &lines(&doubled), &doubled, &format!("line {n} doubled"));
        let mut missing = all.clone();
        missing.remove(n);
        if n < last {
            check_order(&good, &lines(&missing), &missing, &format!("line {n} missing"));
            let mut swapped = all.clone();
            swapped.swap(n, n + 1);
            check_order(&good, &lines(&swapped), &swapped, &format!("line {n} swapped"));
        }
    }
}

/// States the rule of the scan differently: do the lines from the first wrong one on prove that the expected line was
/// once durable?
fn check_order(good: &Good, log: &[u8], order: &[usize], case: &str) {
    let kept = (0..order.len()).find(|n| order[*n] != *n).unwrap();
    let proof = (kept..order.len()).any(|place| {
        let batch = good.batch[order[place]];
        (place > kept && batch == order[place] + 1) || batch > kept + 1
    });
    if proof {
        expect_refused(good, &disk_with(log), log, kept, case);
    } else {
        expect_tail(good, log, kept, case);
    }
}

#[test]
fn a_checkpoint_can_prove_that_a_bad_line_was_durable() {
    // A single append, so that the log alone cannot distinguish a torn end from a flipped bit.
    let mut good = Good::new(12);
    let (disk, bytes) = stored(&good.events, &[&good.events]);
    let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1);
    good.starts = std::iter::once(0).chain(ends).collect();
    let mut log = bytes;
    log[good.starts[5] + 20] ^= 1;
    expect_tail(&good, &log, 5, "without a checkpoint");
    disk.put(&log_path(), &log).unwrap();
    expect_refused(&good, &disk, &log, 5, "with a checkpoint");
    let mut repaired = manager(&disk).repair(&id()).unwrap();
    assert_eq!((repaired.events.as_slice(), repaired.notices.len()), (&good.events[..5], 1));
    assert_eq!(damaged_bytes(&disk).unwrap(), log[good.starts[5]..]);
    repaired.writer.append(&good.events[5..]).unwrap();
}

#[test]
fn an_empty_log_or_one_of_garbage_is_no_blank_session() {
    let good = Good::new(3);
    let garbage = b"not a log\n".repeat(20);
    let second_line_first = good.line(1).to_vec();
    for log in [&b""[..], b"\n", b"{}\n", &[0; 5000], &garbage, &second_line_first] {
        expect_refused(&good, &disk_with(log), log, 0, &format!("{:?}", String::from_utf8_lossy(log)));
    }
    let disk = disk_with(b"");
    disk.remove_file(&log_path()).unwrap();
    assert!(matches!(manager(&disk).open(&id()), Err(SessionError::Blank { .. })));
}

#[test]
fn a_log_of_a_newer_schema_is_refused_and_left_unchanged() {
    let mut head = opened();
    if let Fact::SessionOpened(head) = &mut head {
        **head = SessionOpened { schema: 2, ..(**head).clone() };
    }
    let (disk, bytes) = {
        let events = [event(1, None, head)];
        let mut log = Vec::new();
        let mapping = crate::state_dir_mapping::StateDirMapping::default();
        crate::line::encode(&events[0], events[0].seq, &mapping, &mut log).unwrap();
        // A newer version has facts that this one does not know.
        log.extend_from_slice(b"{\"seq\":2,\"type\":\"news\"}\n");
        (disk_with(&log), log)
    };
    let error = manager(&disk).open(&id()).err().unwrap();
    assert!(matches!(error, SessionError::NewerSchema { found: 2, .. }), "{error}");
    assert!(error.hint().unwrap().contains("update"));
    assert_eq!(disk.read(&log_path()).unwrap(), bytes);
}

#[test]
fn an_intact_line_that_is_not_understood_is_never_truncated() {
    let good = Good::new(6);
    let mut line = b"{\"seq\":7,\"at\":\"2026-11-15T09:56:12.123Z\",\"type\":\"news\",\"data\":{}".to_vec();
    let crc = crc32c::crc32c(&line);
    line.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
    let log = [good.bytes.clone(), line].concat();
    let disk = disk_with(&log);
    match manager(&disk).open(&id()) {
        Err(SessionError::Damaged { damage, .. }) => {
            assert_eq!((damage.kind, damage.line), (DamageKind::NotUnderstood, 7));
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened"),
    }
    assert_eq!(disk.read(&log_path()).unwrap(), log);
    assert_eq!(manager(&disk).read(&id()).unwrap().events, good.events);
}

#[test]
fn a_damaged_or_future_checkpoint_changes_nothing_about_the_session() {
    let good = Good::new(20);
    let right = rebuild_checkpoint(&good.events).unwrap();
    let path = log_path().with_file_name("session.json");
    let mut future = right.clone();
    future.seq.0 = 5000;
    let future = serde_json::to_vec(&future).unwrap();
    for checkpoint in [&b""[..], b"{", &[0; 300], b"[1,2]", &future] {
        let (disk, _) = stored(&good.events, &batches(&good.events));
        disk.put(&path, checkpoint).unwrap();
        assert_eq!(manager(&disk).list().unwrap()[0].checkpoint, Some(right.clone()));
        let opened = manager(&disk).open(&id()).unwrap();
        assert_eq!((opened.events.as_slice(), opened.notices.len()), (good.events.as_slice(), 0));
        drop(opened);
        assert_eq!(manager(&disk).checkpoint(&id()), Some(right.clone()), "not corrected");
    }
}
