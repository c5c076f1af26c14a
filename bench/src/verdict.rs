//! Prints measurements with their targets, and stores them for the table at the end.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Clone, Debug)]
pub struct ResultLine {
    pub group: &'static str,
    pub what: String,
    pub got: String,
    /// The target and whether it is met. `None` for measurements without a target.
    pub promise: Option<(String, bool)>,
}

/// Groups run one after the other, but a measurement may come from any thread.
struct Results {
    group: &'static str,
    lines: Vec<ResultLine>,
    table: bool,
}

static RESULTS: Mutex<Results> = Mutex::new(Results { group: "", lines: Vec::new(), table: false });

fn results() -> MutexGuard<'static, Results> {
    RESULTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends lines to standard error from now on, because standard output is for the table.
pub fn keep_stdout_for_the_table() {
    results().table = true;
}

pub fn print_line(text: &str) {
    if results().table {
        eprintln!("{text}");
    } else {
        println!("{text}");
    }
}

pub fn begin(group: &'static str) {
    print_line(&format!("\n{group}"));
    results().group = group;
}

pub fn lines() -> Vec<ResultLine> {
    results().lines.clone()
}

fn add(what: &str, got: String, promise: Option<(String, bool)>) {
    let verdict = match &promise {
        Some((wanted, met)) => format!("wanted {wanted:22} {}", if *met { "met" } else { "MISSED" }),
        None => String::new(),
    };
    print_line(format!("  {what:52} {got:48} {verdict}").trim_end());
    let mut results = results();
    let group = results.group;
    results.lines.push(ResultLine { group, what: what.to_owned(), got, promise });
}

pub fn report(what: &str, got: impl Display, wanted: &str, met: bool) {
    add(what, got.to_string(), Some((wanted.to_owned(), met)));
}

pub fn report_value(what: &str, got: impl Display) {
    add(what, got.to_string(), None);
}

/// Compares speeds, given the times for the same work: ours must be at least `at_least` times the baseline's speed.
pub fn speed(what: &str, ours: f64, floor: f64, at_least: f64) {
    let ratio = floor / ours;
    let got = format!("{ratio:.2} ({:.1} ms, floor {:.1} ms)", ours * 1e3, floor * 1e3);
    report(what, got, &format!("at least {at_least}"), ratio >= at_least);
}

/// Compares times: ours may be at most `at_most` times the baseline.
pub fn times(what: &str, ours: f64, floor: f64, at_most: f64) {
    let ratio = ours / floor;
    let got = format!("{ratio:.2} ({:.1} ms, floor {:.1} ms)", ours * 1e3, floor * 1e3);
    report(what, got, &format!("at most {at_most}"), ratio <= at_most);
}

pub fn below_ms(what: &str, ours: f64, limit_ms: f64) {
    report(what, format!("{:.2} ms", ours * 1e3), &format!("under {limit_ms} ms"), ours * 1e3 < limit_ms);
}

pub fn below_mb(what: &str, ours: f64, limit_mb: f64) {
    report(what, format!("{ours:.1} MB"), &format!("under {limit_mb} MB"), ours < limit_mb);
}

pub fn exactly(what: &str, got: usize, wanted: usize) {
    report(what, got, &wanted.to_string(), got == wanted);
}
