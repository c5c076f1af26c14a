//! Failpoints: panics that a test requests, in debug builds only, to check what a panic does to the terminal and to the
//! log of the real program. Release builds contain none.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU32, Ordering};

/// How often the requested failpoint was reached.
#[cfg(debug_assertions)]
static REACHED: AtomicU32 = AtomicU32::new(0);

/// Panics if `ALTHING_TEST_PANIC` names this failpoint: `NAME`, or `NAME:N` for the Nth time that it is reached. Text
/// after another colon becomes part of the panic message.
#[cfg(debug_assertions)]
pub fn may_happen(place: &str) {
    let Ok(asked) = std::env::var("ALTHING_TEST_PANIC") else { return };
    let (name, rest) = asked.split_once(':').unwrap_or((&asked, "1"));
    let (nth, words) = rest.split_once(':').unwrap_or((rest, ""));
    if name == place {
        let reached = REACHED.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(nth.parse() != Ok(reached), "failpoint {place} reached {words}");
    }
}

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
pub fn may_happen(_place: &str) {}

/// Reaches the failpoint on a separate thread.
#[cfg(debug_assertions)]
pub fn may_happen_elsewhere(place: &'static str) {
    // The panic is intended; the panic hook reports it.
    let _ = std::thread::spawn(move || may_happen(place)).join();
}

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
pub fn may_happen_elsewhere(_place: &'static str) {}
