//! D4: any operation fails because the disk is full, broken or read-only, once or for longer. Nothing is acknowledged
//! that is not durable, and no partial file is ever visible.

use super::{STATE, batches, event, id, log_path, manager, opened, session};
use crate::{
    CheckpointFold, Owners, SessionError, SessionManager, SessionWriter, open_state, rebuild_checkpoint,
};
use althing_disk::Disk;
use althing_disk::sim::FaultDuration::{Once, UntilHealed};
use althing_disk::sim::FaultKind::{Full, Io, ReadOnly};
use althing_disk::sim::{FaultDuration, FaultKind, SimDisk};
use althing_protocol::{Event, Fact, Journal, JournalError, JournalErrorKind, Notice, NoticeLevel};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const TASK_FILE: &str = "An answer that people may read at any time.\n";

fn start(disk: &SimDisk) -> Result<SessionWriter, SessionError> {
    SessionManager::on_disk(Arc::new(disk.clone()), Path::new(STATE))?.create(&id())
}

/// Creates the parent of the state directory durably, as if it had existed long before the session.
fn create_home(disk: &SimDisk) {
    disk.create_dir(Path::new("/home")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
}

/// Retries a failed call, which must succeed once the fault is gone. While a lasting fault is not healed, the call must
/// fail again.
fn retry<T, E: std::fmt::Display>(
    disk: &SimDisk,
    triggered: &mut bool,
    duration: FaultDuration,
    case: &str,
    mut act: impl FnMut() -> Result<T, E>,
) -> T {
    if let Ok(done) = act() {
        return done;
    }
    if duration == UntilHealed {
        assert!(act().is_err(), "{case}: it worked although the disk does not");
        *triggered |= disk.heal();
    }
    act().unwrap_or_else(|e| panic!("{case}: still failing when the fault is gone: {e}"))
}

/// Runs a session with one fault; returns whether the fault was triggered.
fn run_with_fault(events: &[Arc<Event>], n: u64, kind: FaultKind, duration: FaultDuration) -> bool {
    let case = format!("operation {n} fails, {kind:?}, {duration:?}");
    let disk = SimDisk::new(n);
    create_home(&disk);
    disk.fail_at(n, kind, duration);
    let mut triggered = false;
    let mut writer = retry(&disk, &mut triggered, duration, &case, || start(&disk));
    let mut fold = CheckpointFold::default();
    for batch in batches(events) {
        retry(&disk, &mut triggered, duration, &case, || writer.append(batch));
        for event in batch {
            fold.apply(event);
        }
        writer.checkpoint(fold.checkpoint().unwrap());
        retry(&disk, &mut triggered, duration, &case, || {
            writer.write_file(&"r1".into(), "answers/agent1.1.md", TASK_FILE)
        });
        whole_files_only(&disk, &case);
    }
    triggered |= disk.heal();
    writer.close().unwrap();
    disk.reboot();
    let sessions = manager(&disk);
    let read = sessions.read(&id()).unwrap();
    assert_eq!((read.events.as_slice(), read.damage), (events, None), "{case}");
    assert_eq!(sessions.checkpoint(&id()), rebuild_checkpoint(events), "{case}");
    triggered
}

fn whole_files_only(disk: &SimDisk, case: &str) {
    // `peek` bypasses the fault.
    let dir = log_path().with_file_name("");
    if let Ok(bytes) = disk.peek(&dir.join("session.json")) {
        assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok(), "{case}: half a checkpoint");
    }
    if let Ok(bytes) = disk.peek(&dir.join("tasks/r1/answers/agent1.1.md")) {
        assert_eq!(bytes, TASK_FILE.as_bytes(), "{case}: half a file");
    }
}

#[test]
fn whichever_operation_fails_the_session_goes_on_when_the_fault_is_gone() {
    let events = session(24);
    for kind in [Full, Io, ReadOnly] {
        for duration in [Once, UntilHealed] {
            let triggered = (1..10_000).take_while(|n| run_with_fault(&events, *n, kind, duration)).count();
            assert!(triggered > 50, "only {triggered} faults were triggered");
        }
    }
}

#[test]
fn what_was_acknowledged_before_or_during_a_fault_survives_a_power_cut_in_it() {
    let events = session(24);
    for (kind, duration) in [(Full, Once), (Io, Once), (Full, UntilHealed), (Io, UntilHealed)] {
        for n in 1..200 {
            let case = format!("operation {n} fails, {kind:?}, {duration:?}, then the power goes");
            let disk = SimDisk::new(n);
            create_home(&disk);
            disk.fail_at(n, kind, duration);
            let Ok(mut writer) = start(&disk).or_else(|_| start(&disk)) else { continue };
            let (mut acknowledged, mut tried) = (0, 0);
            for batch in batches(&events) {
                tried += batch.len();
                if writer.append(batch).or_else(|_| writer.append(batch)).is_err() {
                    break;
                }
                acknowledged = tried;
            }
            disk.heal();
            disk.reboot();
            if acknowledged == 0 {
                continue;
            }
            let found = manager(&disk).open(&id()).unwrap_or_else(|e| panic!("{case}: {e}")).events;
            assert!(
                (acknowledged..=tried).contains(&found.len()),
                "{case}: {} of {acknowledged}",
                found.len()
            );
            assert_eq!(found, events[..found.len()], "{case}");
        }
    }
}

#[test]
fn a_disk_error_names_the_file_and_has_a_hint_and_is_retryable() {
    let full = "free some space; a session that is still running then continues by itself";
    for (kind, hint) in [(Full, full), (Io, "dmesg"), (ReadOnly, "writable")] {
        let disk = SimDisk::new(0);
        let mut writer = start(&disk).unwrap();
        disk.fail_at(1, kind, UntilHealed);
        let error: JournalError = writer.append(&session(1)).unwrap_err();
        assert!(error.message.contains("events.jsonl") && error.is_retryable(), "{error:?}");
        assert!(error.hint.as_deref().unwrap().contains(hint), "{error:?}");
    }
}

#[test]
fn events_out_of_order_and_logs_changed_by_others_are_refused() {
    let events = session(6);
    let disk = SimDisk::new(0);
    let mut writer = start(&disk).unwrap();
    assert!(writer.append(&events[1..3]).unwrap_err().message.contains("cannot follow"));
    assert!(
        writer.append(&[event(1, None, Fact::SessionClosed {})]).is_err(),
        "the first event must be `session_opened`"
    );
    writer.append(&events[..3]).unwrap();
    for wrong in
        [&events[..1], &events[2..4], &events[4..], &[Arc::clone(&events[3]), Arc::clone(&events[3])]]
    {
        let error = writer.append(wrong).unwrap_err();
        assert!(!error.is_retryable(), "{error:?}");
    }
    writer.append(&events[3..4]).unwrap();
    let log = disk.read(&log_path()).unwrap();

    let mut other = disk.open(&log_path(), althing_disk::OpenMode::Existing).unwrap();
    other.write(b"more").unwrap();
    let error = writer.append(&events[4..5]).unwrap_err();
    assert!(
        error.message.contains("changed by another process")
            && error.kind == JournalErrorKind::OwnedElsewhere,
        "{error:?}"
    );
    other.truncate(log.len() as u64 - 1).unwrap();
    assert!(writer.append(&events[4..5]).is_err(), "appended to a log that was truncated");
    disk.remove_file(&log_path()).unwrap();
    assert!(writer.append(&events[4..5]).unwrap_err().message.contains("deleted"));
}

/// Unmounts when the test ends, even after a failure.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_real_full_disk_stops_nothing_for_good() {
    let home = tempfile::tempdir().unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(home.path()).output();
    if !mount.is_ok_and(|out| out.status.success()) {
        althing_testkit::skip_unless_ci("mounting a tmpfs is not permitted here");
        return;
    }
    let mounted = Mounted(home.path().to_owned());
    std::fs::write(home.path().join("filler"), vec![1; 300 << 10]).unwrap();
    let sessions = open_state(&home.path().join("state"), Owners::Me).unwrap();
    let mut writer = sessions.create(&id()).unwrap();
    let mut events = vec![event(1, None, opened())];
    writer.append(&events).unwrap();
    let error = loop {
        let text = "x".repeat(30_000);
        let fact = Fact::Notice(Notice { level: NoticeLevel::Info, text, hint: None });
        let next = event(events.len() as u64 + 1, None, fact);
        events.push(Arc::clone(&next));
        match writer.append(&[next]) {
            Ok(()) => writer.checkpoint(rebuild_checkpoint(&events).unwrap()),
            Err(e) => break e,
        }
        assert!(events.len() < 100, "the disk never got full");
    };
    assert!(error.is_retryable(), "{error:?}");
    let last = &events[events.len() - 1..];
    assert!(writer.append(last).is_err(), "still full");
    let before = sessions.read(&id()).unwrap();
    assert_eq!((before.events.len(), before.damage), (events.len() - 1, None), "half a line stayed");
    std::fs::remove_file(home.path().join("filler")).unwrap();
    writer.append(last).unwrap();
    writer.close().unwrap();
    assert_eq!(sessions.open(&id()).unwrap().events, events);
    drop(mounted);
}
