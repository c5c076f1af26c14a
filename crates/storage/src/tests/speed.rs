//! How fast the log is. Not a test of behaviour: run it with
//! `cargo test --release -p althing-storage -- --ignored --nocapture speed`.

use super::{event, id, opened, some_fact};
use crate::{line, open_state, scan};
use althing_protocol::{Event, Fact, Item, Journal, Purpose, Seq};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs something and says how long it took, and how much processor time of all threads.
fn timed<T>(what: &str, act: impl FnOnce() -> T) -> (T, Duration) {
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split_whitespace().skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum::<u64>()
    };
    let (before, begin) = (ticks(), Instant::now());
    let done = act();
    let took = begin.elapsed();
    println!("{what}: {took:.1?} ({} ms of processor time)", (ticks() - before) * 10);
    (done, took)
}

fn small_events(count: u64) -> Vec<Arc<Event>> {
    let one = |seq| match seq {
        1 => event(1, None, opened()),
        _ if seq % 3 == 0 => {
            let text = "The agent said something of ordinary length here.".to_owned();
            let item = Item::ToolResult { call: "c1".into(), content: text, is_error: false };
            event(seq, Some("r1.a1"), Fact::ItemAdded { attempt: 1, item })
        }
        _ if seq % 3 == 1 => {
            let fact = Fact::AttemptStarted { attempt: 1, purpose: Purpose::Answer, continues: None };
            event(seq, Some("r1.a1"), fact)
        }
        _ => event(seq, Some("r1"), Fact::TimerFired(althing_protocol::Timer::Orchestrator)),
    };
    (1..=count).map(one).collect()
}

#[test]
#[ignore = "a measurement"]
fn speed_of_the_log() {
    let home = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let sessions = open_state(home.path()).unwrap();
    let count = 1_000_000;
    let events = small_events(count);

    let (mut writer, _) = timed("create", || sessions.create(&id()).unwrap());
    for batch in [1usize, 16, 256] {
        let from = writer.last_seq().0 as usize;
        let some = &events[from..from + 200 * batch];
        let ((), took) = timed(&format!("200 appends of {batch}"), || {
            for batch in some.chunks(batch) {
                writer.append(batch).unwrap();
            }
        });
        println!("  {:.0} events/s", some.len() as f64 / took.as_secs_f64());
    }
    let from = writer.last_seq().0 as usize;
    timed("the rest of a million in appends of 10,000", || {
        for batch in events[from..].chunks(10_000) {
            writer.append(batch).unwrap();
        }
    });
    drop(writer);

    let log = sessions.session_dir(&id()).join("events.jsonl");
    let (bytes, _) = timed("read the file", || std::fs::read(&log).unwrap());
    println!("  {} MB, an event takes {} bytes in memory", bytes.len() >> 20, size_of::<Event>());
    let lines = || bytes.split(|b| *b == b'\n').filter(|text| !text.is_empty());
    timed("checksums alone", || lines().fold(0u64, |sum, text| sum + u64::from(crc32c::crc32c(text))));
    timed("check and parse, one thread, dropped at once", || {
        lines().filter(|text| line::decode(text).is_ok()).count()
    });
    let (found, _) = timed("check and parse, all threads, kept", || scan::scan(&bytes, Seq(0)).unwrap());
    timed("fold into a checkpoint", || crate::rebuild_checkpoint(&found.events).unwrap());
    drop((found, bytes));
    timed("replay of a million events from disk", || sessions.read(&id()).unwrap());

    let mut rng = fastrand::Rng::with_seed(1);
    let masker = crate::Masker::new((0..20).map(|n| format!("sk-canary-{n:016}")));
    let facts: Vec<_> = (4..100_004).map(|seq| event(seq, Some("r1"), some_fact(seq, &mut rng))).collect();
    timed("mask 100,000 events", || facts.iter().map(|e| masker.mask_event((**e).clone()).seq.0).max());
}
