//! Failpoints: panics that a test requests, in debug builds only, to check what a panic does to the terminal and to
//! the log. Release builds contain none.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(debug_assertions)]
static REACHED: AtomicU32 = AtomicU32::new(0);

/// Panics if `ALTHING_TEST_PANIC` is `NAME[:N[:TEXT]]`, and this is the Nth time (default: the first) that the
/// failpoint `NAME` is reached.
#[cfg(debug_assertions)]
pub fn hit(name: &str) {
    let Ok(requested) = std::env::var("ALTHING_TEST_PANIC") else { return };
    let (requested_name, rest) = requested.split_once(':').unwrap_or((&requested, "1"));
    let (nth, text) = rest.split_once(':').unwrap_or((rest, ""));
    if requested_name == name {
        let reached = REACHED.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(nth.parse() != Ok(reached), "failpoint {name} reached {text}");
    }
}

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
pub fn hit(_name: &str) {}

/// Reaches the failpoint on a separate thread.
#[cfg(debug_assertions)]
pub fn hit_on_thread(name: &'static str) {
    // The panic is intended; the panic hook reports it.
    let _ = std::thread::spawn(move || hit(name)).join();
}

/// Does nothing in release builds.
#[cfg(not(debug_assertions))]
pub fn hit_on_thread(_name: &'static str) {}
