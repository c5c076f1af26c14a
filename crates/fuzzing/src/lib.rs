//! Properties that must hold for any untrusted bytes: one check per entry point, which panics if a property is
//! violated. The tests check every seed, every earlier crash and simple mutations of the seeds; `scripts/fuzz`
//! searches for new crashes with libFuzzer. This crate is not part of the product.
#![expect(clippy::disallowed_methods, reason = "the file tools are tried in a directory of their own")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a check fails by panicking"
)]

mod ansi;
mod config;
mod cut;
mod files;
mod log;
mod mcp;
mod screen;
mod terminal;
mod wires;

// Scripted sessions, and the check of what may reach a terminal, are shared with the tests of the screen.
#[path = "../../tui/tests/foreign/mod.rs"]
mod foreign;
#[path = "../../tui/tests/script/mod.rs"]
#[allow(
    missing_docs,
    missing_debug_implementations,
    clippy::needless_pass_by_value,
    reason = "a script of tests"
)]
mod script;

/// An entry point for untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the entry point and of its corpus.
    pub name: &'static str,
    /// Panics if a property does not hold for these bytes.
    pub check: fn(&[u8]),
}

/// All entry points.
pub const TARGETS: &[Target] = &[
    Target { name: "ansi", check: ansi::check },
    Target { name: "config", check: config::check },
    Target { name: "files", check: files::check },
    Target { name: "log", check: log::check },
    Target { name: "mcp", check: mcp::check },
    Target { name: "screen", check: screen::check },
    Target { name: "terminal", check: terminal::check },
    Target { name: "wires", check: wires::check },
];

/// Panics if a property of the entry point `name` does not hold for these bytes.
pub fn check(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("there is no target {name}")).check)(bytes);
}
