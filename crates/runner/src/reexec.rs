//! The hidden modes in which our executable starts itself: as a guard, as a sandbox, and as the
//! first program inside bubblewrap.
//!
//! They are not part of the command-line interface and may change at any time. The sandbox mode exists because unsafe
//! code is forbidden in all our crates: the steps between fork and exec run in a small process of their own instead
//! of a `pre_exec` hook.

use crate::{guard, mount_check, sandbox_exec};
use std::ffi::OsString;
use std::process::ExitCode;

/// The argument that starts the guard.
pub(crate) const GUARD: &str = "__guard";
/// The argument that starts the sandbox process, which then executes the command.
pub(crate) const SANDBOX: &str = "__sandbox";

/// The argument that starts the check of the mounts inside bubblewrap.
pub(crate) const MOUNTS: &str = "__mounts";

/// Runs a hidden mode if these arguments (including the program's name) ask for one.
///
/// Call it first in `main`, before any thread or runtime exists.
pub fn reexec_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter();
    let mode = args.nth(1)?;
    match mode.to_str()? {
        GUARD => Some(guard::guard_main()),
        SANDBOX => Some(sandbox_exec::sandbox_main()),
        MOUNTS => Some(mount_check::mounts_main(args)),
        _ => None,
    }
}
