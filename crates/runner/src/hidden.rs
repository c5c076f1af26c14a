//! The modes in which our own program is started by itself: as a guard and as a sandbox.
//!
//! Never reached by a person: the words are private and change freely. They exist because the workspace forbids unsafe
//! code, so what must happen between fork and exec happens in a small program of its own: this one.

use crate::{guard, sandbox};
use std::ffi::OsString;
use std::process::ExitCode;

/// The first argument that makes our program a guard.
pub(crate) const GUARD: &str = "__guard";
/// The first argument that makes our program a sandbox that becomes the command.
pub(crate) const SANDBOX: &str = "__sandbox";

/// Runs a hidden mode if these arguments (the program's name included) ask for one.
///
/// To be called first thing in `main`, before any thread or runtime exists.
pub fn hidden_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mode = args.into_iter().nth(1)?;
    match mode.to_str()? {
        GUARD => Some(guard::guard_main()),
        SANDBOX => Some(sandbox::sandbox_main()),
        _ => None,
    }
}
