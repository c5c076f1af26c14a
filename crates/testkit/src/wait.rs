//! Polls with a deadline for conditions that nothing signals (a file appears, a process is gone). If something can
//! signal the change, wait on that instead.

use std::time::{Duration, Instant};

/// How long a test waits for something that must happen. Only a defect takes so long, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(20);

/// Returns false if `limit` passes before `condition` holds.
#[must_use]
pub fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    let mut pause = SHORTEST;
    loop {
        if condition() {
            return true;
        }
        let now = Instant::now();
        if now >= end {
            return false;
        }
        std::thread::sleep(pause.min(end - now));
        pause = (pause * 2).min(LONGEST);
    }
}

/// Panics at the caller if `limit` passes before `condition` holds.
#[track_caller]
pub fn until(limit: Duration, condition: impl FnMut() -> bool) {
    assert!(holds_within(limit, condition), "the condition did not hold within {limit:?}");
}

/// Panics at the caller if `limit` passes before `find` returns a value.
#[track_caller]
pub fn until_some<T>(limit: Duration, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(limit, || {
        found = find();
        found.is_some()
    });
    found.expect("until() returned, so it was found")
}

/// As [`until`], but other tasks of the runtime run between two checks.
pub async fn until_async(limit: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    let mut pause = SHORTEST;
    while !condition() {
        assert!(Instant::now() < end, "the condition did not hold within {limit:?}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}
