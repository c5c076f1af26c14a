//! The hidden modes in which Althing starts its own executable: as a guard, as a sandbox process, and as the mount
//! check inside bubblewrap. The sandbox process performs the steps between fork and exec, because a `pre_exec` hook
//! would be unsafe code.

use crate::{guard, mount_check, sandbox_exec};
use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) const GUARD: &str = "__guard";
pub(crate) const SANDBOX: &str = "__sandbox";

pub(crate) const MOUNTS: &str = "__mounts";

/// Runs a hidden mode if these arguments (including the program's name) ask for one. Call it first in `main`, before
/// any thread or runtime exists.
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
