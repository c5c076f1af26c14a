//! Many runs of the offline model with workspaces at once, a fifth of them interrupted at a random moment: no agent is
//! lost, and nothing is left behind.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_testkit::process::{Signal, newest_session, read_events};
use althing_testkit::{Althing, scale};
use serde_json::json;

use super::support::{LIMIT, althing};

const AT_ONCE: usize = 16;
/// The longest time from the start of a run to its interruption, in milliseconds: longer than most runs take.
const LONGEST_WAIT: u64 = 1_500;

fn everything(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            found.extend(everything(&path));
        }
        found.push(path);
    }
    found
}

fn one_run(althing: &Althing, number: usize) {
    let state = althing.work_dir().join(format!("state-{number}"));
    let scratch = althing.work_dir().join(format!("scratch-{number}"));
    std::fs::create_dir(&scratch).unwrap();
    let state_dir = state.display().to_string();
    let args =
        ["--config", "team.yaml", "--automation", "--state-dir", &state_dir, "Compare two ways to sort"];
    let running = althing.new_command().env("TMPDIR", &scratch).args(args).spawn();
    let is_interrupted = number.is_multiple_of(5);
    if is_interrupted {
        std::thread::sleep(Duration::from_millis(fastrand::u64(0..LONGEST_WAIT)));
        running.signal(Signal::INT);
    }
    let output = running.wait(LIMIT);
    let code = output.code;
    // An interrupted run may have ended before the signal, or before it could handle signals.
    let is_expected = code == Some(0) || (is_interrupted && (code == Some(4) || code.is_none()));
    assert!(is_expected, "run {number} ended with {code:?}: {}", output.stderr);
    // A run that is interrupted very early has no session yet.
    let has_begun = !is_interrupted || newest_session(&state).is_some();
    let events = if has_begun { read_events(&state) } else { Vec::new() };
    for event in events.iter().filter(|event| event["type"] == "attempt_ended") {
        assert_ne!(event["data"]["outcome"], "failed", "run {number} lost an agent: {event:#}");
    }
    if code == Some(0) {
        let answers = events.iter().filter(|event| event["data"]["item"]["kind"] == "answer");
        let tasks: std::collections::BTreeSet<_> =
            answers.filter_map(|event| event["task"].as_str()).collect();
        assert_eq!(tasks.len(), 3, "run {number}: every agent has answered: {tasks:?}");
    }
    let is_temporary = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(".tmp") || path.extension().is_some_and(|end| end == "tmp")
    };
    let left: Vec<_> =
        everything(&state).into_iter().filter(is_temporary).chain(everything(&scratch)).collect();
    assert!(left.is_empty(), "run {number} left files behind: {left:?}\n{}", output.stderr);
    if state.exists() {
        std::fs::remove_dir_all(&state).unwrap();
    }
}

#[test]
fn of_many_runs_at_once_no_agent_is_lost_and_nothing_is_left_behind() {
    let althing = althing();
    let agent = |id: &str| json!({"id": id, "backend": {"type": "offline", "model": format!("offline-{id}"), "cwd": "w"}});
    althing.file("team.yaml", json!({"agents": [agent("a"), agent("b"), agent("c")]}).to_string());
    let (next, all) = (AtomicUsize::new(0), scale(24, 1_000));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= all {
                        return;
                    }
                    one_run(&althing, number);
                }
            });
        }
    });
}
