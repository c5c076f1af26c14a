//! D1: a power cut at every single change of the disk. Whatever unsynced data survives, no acknowledged event is lost
//! and none is repeated.

use super::{STATE, batches, id, manager, scale, session};
use crate::{CheckpointFold, SessionError, SessionManager, rebuild_checkpoint};
use althing_disk::sim::SimDisk;
use althing_protocol::{Event, Journal, Seq};
use std::path::Path;
use std::sync::Arc;

#[derive(Default)]
struct Progress {
    acknowledged: usize,
    submitted: usize,
}

fn run_session(disk: &SimDisk, events: &[Arc<Event>]) -> Progress {
    let mut progress = Progress::default();
    let made = SessionManager::on_disk(Arc::new(disk.clone()), Path::new(STATE));
    let Ok(mut writer) = made.and_then(|manager| manager.create(&id())) else { return progress };
    let mut fold = CheckpointFold::default();
    for batch in batches(events) {
        progress.submitted += batch.len();
        if writer.append(batch).is_err() {
            return progress;
        }
        progress.acknowledged = progress.submitted;
        for event in batch {
            fold.apply(event);
        }
        writer.checkpoint(fold.checkpoint().unwrap());
        if progress.acknowledged % 5 == 0 {
            let _ = writer.write_file(&"r1".into(), "answers/agent1.1.md", "an answer");
        }
    }
    progress
}

fn check(disk: &SimDisk, events: &[Arc<Event>], progress: &Progress, case: &str) {
    disk.reboot();
    let sessions = manager(disk);
    let stored = sessions.checkpoint(&id());
    let visible = disk.peek(&super::log_path().with_file_name("session.json")).is_ok();
    assert_eq!(visible, stored.is_some(), "{case}: half a checkpoint");
    let opened = match sessions.open(&id()) {
        Ok(opened) => opened,
        Err(SessionError::Blank { .. } | SessionError::NotFound { .. }) if progress.acknowledged == 0 => {
            sessions.create(&id()).map_or_else(
                // The remains of an append that was never acknowledged stay, and are not taken for a new session.
                |e| assert!(matches!(e, SessionError::Exists { .. }), "{case}: {e}"),
                |_| (),
            );
            return;
        }
        Err(e) => panic!("{case}: {e}"),
    };
    let found = opened.events.len();
    assert!(
        (progress.acknowledged..=progress.submitted).contains(&found),
        "{case}: {found} of {}",
        progress.acknowledged
    );
    assert_eq!(opened.events, events[..found], "{case}");
    if let Some(stored) = stored {
        assert!(stored.seq <= Seq(found as u64), "{case}: checkpoint ahead of the log");
        assert_eq!(Some(&stored), rebuild_checkpoint(&events[..stored.seq.0 as usize]).as_ref(), "{case}");
    }
    let mut writer = opened.writer;
    if found < events.len() {
        writer.append(&events[found..]).unwrap();
    }
    writer.close().unwrap();
    disk.reboot();
    let read = manager(disk).read(&id()).unwrap();
    assert_eq!((read.events.as_slice(), read.damage), (events, None), "{case}");
}

#[test]
fn a_crash_at_any_disk_step_loses_no_acknowledged_fact_and_repeats_none() {
    let events = session(200);
    let whole = SimDisk::new(0);
    assert_eq!(run_session(&whole, &events).acknowledged, 200);
    let steps = whole.changes();
    let seeds = scale(1_000, 100_000).div_ceil(steps);
    let crash = |step: u64, seed: u64| {
        let disk = SimDisk::new(step * 1_000_003 + seed);
        disk.crash_at(step);
        let progress = run_session(&disk, &events);
        assert!(disk.crashed(), "step {step} was never reached");
        check(&disk, &events, &progress, &format!("crash at step {step}, seed {seed}"));
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let steps = (1..=steps).skip(thread).step_by(threads);
            scope.spawn(|| steps.for_each(|step| (0..seeds).for_each(|seed| crash(step, seed))));
        }
    });
    println!("{} crash points: {steps} steps, {seeds} seeds each", steps * seeds);
}

#[test]
fn a_crash_during_repair_is_repaired_as_well() {
    let events = session(40);
    for seed in 0..scale(150, 5_000) {
        let disk = SimDisk::new(seed);
        let (_, bytes) = super::stored(&events, &batches(&events));
        assert_eq!(run_session(&disk, &events).acknowledged, 40);
        // Tear the last line, then cut the power at one of the first nine steps of opening and repair.
        disk.put(&super::log_path(), &bytes[..bytes.len() - 9]).unwrap();
        disk.crash_at(disk.changes() + 1 + seed % 9);
        if let Ok(opened) = manager_if_up(&disk).and_then(|sessions| sessions.open(&id())) {
            assert_eq!(opened.events, events[..39], "seed {seed}");
        }
        disk.reboot();
        let opened = manager(&disk).open(&id()).unwrap();
        assert_eq!(opened.events, events[..39], "seed {seed}");
    }
}

fn manager_if_up(disk: &SimDisk) -> Result<SessionManager, SessionError> {
    SessionManager::on_disk(Arc::new(disk.clone()), Path::new(STATE))
}
