//! Panics where a test asks for one, in debug builds only: what a panic leaves of the terminal is seen with the real
//! program. A release has nothing of it.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU32, Ordering};

/// How often the place that was asked for was reached.
#[cfg(debug_assertions)]
static REACHED: AtomicU32 = AtomicU32::new(0);

/// Panics if `ALTHING_TEST_PANIC` names this place: `PLACE`, or `PLACE:N` for the Nth time that it is reached; what follows
/// after another colon is said in it.
#[cfg(debug_assertions)]
pub fn may_happen(place: &str) {
    let Ok(asked) = std::env::var("ALTHING_TEST_PANIC") else { return };
    let (name, rest) = asked.split_once(':').unwrap_or((&asked, "1"));
    let (nth, words) = rest.split_once(':').unwrap_or((rest, ""));
    if name == place {
        let reached = REACHED.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(nth.parse() != Ok(reached), "a mishap in the {place}, as it was asked for {words}");
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub fn may_happen(_place: &str) {}

/// The same on a thread of nobody's.
#[cfg(debug_assertions)]
pub fn may_happen_elsewhere(place: &'static str) {
    // A panic there is what is asked for; it is told by the hook.
    let _ = std::thread::spawn(move || may_happen(place)).join();
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub fn may_happen_elsewhere(_place: &'static str) {}
