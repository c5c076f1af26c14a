//! Agents' files: file tools compared to bare calls, snapshots compared to `cp -a`.

use crate::measure::{median, timed};
use crate::verdict::{below_ms, report, times};
use althing_protocol::{AnswerLabel, ContextAccess, ContextPath, ToolCall, ToolHost};
use althing_workspace::{ContextSnapshot, FileHost, FilePolicy, ToolSet, Workspace};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const CALLS: usize = 3000;
const FILES: usize = 10_000;
const TRACKED: usize = 100_000;

pub fn all(rounds: usize) {
    tools();
    snapshots(rounds.min(5));
    tracking(rounds.min(5));
}

fn tools() {
    let dir = TempDir::new().unwrap();
    let place = std::fs::canonicalize(dir.path()).unwrap();
    std::fs::create_dir_all(place.join("a/b/c")).unwrap();
    std::fs::write(place.join("a/b/c/d.txt"), "text\n").unwrap();
    let policy = FilePolicy {
        workspace: place.clone(),
        start: None,
        views: Vec::new(),
        context: Vec::new(),
        protected: Vec::new(),
        state_dir: None,
        planning: false,
    };
    let host = FileHost::open(&policy, ToolSet::All).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let tool = |name: &str, arguments: Value| {
        let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string() };
        let outcome = runtime.block_on(host.call(&call, ContextAccess::ReadOnly));
        assert!(!outcome.is_error, "{outcome:?}");
    };
    let read = place.join("a/b/c/d.txt");
    let (written, beside) = (place.join("a/b/c/e.txt"), place.join("a/b/c/e.tmp"));
    added(
        "read_file adds to the bare call",
        || drop(std::fs::read(&read).unwrap()),
        || tool("read_file", json!({"path": "a/b/c/d.txt"})),
    );
    added(
        "write_file adds to the bare calls",
        || {
            std::fs::write(&beside, "text\n").unwrap();
            std::fs::rename(&beside, &written).unwrap();
        },
        || tool("write_file", json!({"path": "a/b/c/e.txt", "content": "text\n"})),
    );
    added(
        "list_directory adds to the bare call",
        || assert!(std::fs::read_dir(place.join("a/b/c")).unwrap().count() > 0),
        || tool("list_directory", json!({"path": "a/b/c"})),
    );
}

fn added(what: &str, bare: impl Fn(), ours: impl Fn()) {
    let (mut floor, mut all) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        floor.push(timed(&bare).0);
        all.push(timed(&ours).0);
    }
    let (ours, floor) = (median(all) * 1e6, median(floor) * 1e6);
    let got = format!("{:.0} µs ({ours:.0}, bare {floor:.0})", ours - floor);
    report(what, got, "under 100 µs", ours - floor < 100.0);
}

fn fill(base: &Path, files: usize) {
    for n in 0..files {
        let dir = base.join(format!("d{}/e{}", n % 10, n % 100));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("{n}.txt")), format!("{n}\n").repeat(200)).unwrap();
    }
}

fn snapshots(rounds: usize) {
    let dir = TempDir::new().unwrap();
    let run = dir.path().join("run");
    let place = Workspace::open(&run, &run.join("workspaces/me")).unwrap();
    fill(place.path(), FILES);
    // A snapshot never treats a recently modified file as unchanged, so the files have to become old enough.
    std::thread::sleep(std::time::Duration::from_secs(3));
    rustix::fs::sync();
    let label = |agent, nth| AnswerLabel { agent, nth };
    let (mut copied, mut kept, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for n in 1..=u32::try_from(rounds).unwrap() {
        let copy = dir.path().join(format!("copy{n}"));
        copied.push(
            timed(|| {
                assert!(Command::new("cp").arg("-a").arg(place.path()).arg(&copy).status().unwrap().success())
            })
            .0,
        );
        kept.push(timed(|| place.take_snapshot(label(n, 1)).unwrap()).0);
        again.push(timed(|| place.take_snapshot(label(n, 2)).unwrap()).0);
    }
    let (copied, kept, again) = (median(copied), median(kept), median(again));
    times("a snapshot of 10,000 files, beside `cp -a`", kept, copied, 1.5);
    times("a snapshot of 10,000 unchanged files, beside `cp -a`", again, copied, 0.1);
    // Snapshots are read-only. They are made writable, so that the temporary directory can be removed.
    let _ = Command::new("chmod").args(["-R", "u+w"]).arg(dir.path()).status();
}

fn tracking(rounds: usize) {
    let dir = TempDir::new().unwrap();
    fill(dir.path(), TRACKED);
    let path = ContextPath { path: dir.path().display().to_string(), writable: true, protected: Vec::new() };
    let (mut walked, mut taken, mut compared) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let find = || Command::new("find").arg(dir.path()).args(["-newer", "/"]).output().unwrap();
        walked.push(timed(|| assert!(find().status.success())).0);
        let (time, snapshot) = timed(|| ContextSnapshot::take(std::slice::from_ref(&path), None).unwrap());
        taken.push(time);
        compared.push(timed(|| assert!(snapshot.compare().unwrap().is_empty())).0);
    }
    let floor = median(walked) * 1e3;
    below_ms(
        &format!("recording the state of 100,000 files (`find -newer`: {floor:.0} ms)"),
        median(taken),
        1000.0,
    );
    below_ms("comparing 100,000 files with the recorded state", median(compared), 1000.0);
}
