//! Listing the newest of very many sessions.

use crate::measure::{Programs, measure, medians};
use crate::verdict::below_ms;
use std::path::Path;
use tempfile::TempDir;

/// How many sessions there are, and within how many milliseconds the newest 50 must be listed.
const TARGETS: [(usize, f64); 2] = [(10_000, 100.0), (100_000, 200.0)];

pub fn all(programs: &Programs, rounds: usize) {
    for (sessions, limit) in TARGETS {
        let dir = TempDir::new().unwrap();
        let state = dir.path().join("state");
        let state_dir = state.display().to_string();
        measure(
            &programs.althing,
            &["--offline", "--automation", "--state-dir", &state_dir, "task"],
            dir.path(),
        );
        fill(&state.join("sessions"), sessions);
        let list = || measure(&programs.althing, &["sessions", "--state-dir", &state_dir], dir.path());
        let taken = medians(&(0..rounds.clamp(3, 11)).map(|_| list()).collect::<Vec<_>>());
        below_ms(&format!("listing the newest 50 of {sessions} sessions"), taken.wall_ms / 1e3, limit);
    }
}

fn fill(dir: &Path, sessions: usize) {
    let first = std::fs::read_dir(dir).unwrap().next().unwrap().unwrap();
    let id = first.file_name().into_string().unwrap();
    let log = std::fs::read(first.path().join("events.jsonl")).unwrap();
    let checkpoint = std::fs::read_to_string(first.path().join("session.json")).unwrap();
    for number in 1..sessions {
        let (day, second) = (number / 86_400, number % 86_400);
        let time = format!("{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60);
        let copy = format!("202001{:02}-{time}-{:04x}", day + 1, number % 65_536);
        let to = dir.join(&copy);
        std::fs::create_dir(&to).unwrap();
        std::fs::write(to.join("events.jsonl"), &log).unwrap();
        std::fs::write(to.join("session.json"), checkpoint.replace(&id, &copy)).unwrap();
    }
}
