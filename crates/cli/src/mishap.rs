//! Panics where a test asks for one, in debug builds only: what a panic leaves of the terminal is seen with the real
//! program. A release has nothing of it.

/// Panics if `ALTHING_TEST_PANIC` names this place.
#[cfg(debug_assertions)]
pub fn may_happen(place: &str) {
    let asked = std::env::var("ALTHING_TEST_PANIC");
    assert!(asked.as_deref() != Ok(place), "a mishap in the {place}, as it was asked for");
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub fn may_happen(_place: &str) {}
