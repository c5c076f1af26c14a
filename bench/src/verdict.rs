//! Says a number beside what it should be.

use std::fmt::Display;

/// Prints a number, what was wanted of it, and whether it is so.
pub fn say(what: &str, got: impl Display, wanted: &str, met: bool) {
    let verdict = if met { "met" } else { "MISSED" };
    println!("  {what:48} {:44} wanted {wanted:22} {verdict}", got.to_string());
}

/// Speed beside a floor's: both took so long for the same work.
pub fn speed(what: &str, ours: f64, floor: f64, at_least: f64) {
    let ratio = floor / ours;
    let got = format!("{ratio:.2} ({:.1} ms, floor {:.1} ms)", ours * 1e3, floor * 1e3);
    say(what, got, &format!("at least {at_least}"), ratio >= at_least);
}

/// Time beside a floor's that it may not pass by much.
pub fn times(what: &str, ours: f64, floor: f64, at_most: f64) {
    let ratio = ours / floor;
    let got = format!("{ratio:.2} ({:.1} ms, floor {:.1} ms)", ours * 1e3, floor * 1e3);
    say(what, got, &format!("at most {at_most}"), ratio <= at_most);
}

/// A time that must stay below a number of milliseconds.
pub fn below_ms(what: &str, ours: f64, limit_ms: f64) {
    say(what, format!("{:.2} ms", ours * 1e3), &format!("under {limit_ms} ms"), ours * 1e3 < limit_ms);
}
