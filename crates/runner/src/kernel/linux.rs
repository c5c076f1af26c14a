//! Linux kernel calls for guards and sandboxes: Landlock, seccomp, capabilities, child subreapers.

use super::{landlock_ruleset, seccomp};
use crate::guard_protocol::Restrictions;
use rustix::process::{
    Signal, getpid, set_child_subreaper, set_parent_process_death_signal, setpriority_process,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs,
};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

pub(crate) use super::landlock_ruleset::{abi as landlock_abi, enter_own_domain};

/// With this priority, a guard gets about ten times the CPU share of an ordinary program.
const GUARD_PRIORITY: i32 = -10;

pub(crate) fn own_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// Makes this process a child subreaper: orphans among its descendants become its own children.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Sets a pipe's capacity; a failure is ignored, because an unprivileged user may have used up the quota for pipes.
pub(crate) fn set_pipe_size(pipe: impl AsFd, bytes: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes);
}

/// Gives this thread, and those that it starts from now on, precedence over other programs, if the user may do that
/// (as root): a command with hundreds of busy processes must not keep its guard from running. Some kernels schedule
/// sessions rather than threads, so the session of this process gets the same precedence.
pub(crate) fn raise_priority() {
    let _ = setpriority_process(None, GUARD_PRIORITY);
    let _ = std::fs::write("/proc/self/autogroup", GUARD_PRIORITY.to_string());
}

/// Makes the kernel kill this process when the thread that started it ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Drops rights permanently. The sandbox process calls this just before it executes the command.
pub(crate) fn confine(restrictions: &Restrictions) -> io::Result<()> {
    set_no_new_privs(true)?;
    match restrictions {
        Restrictions::BeforeBubblewrap { network, unix_sockets } => {
            let scoped = landlock_ruleset::scope();
            seccomp::apply(&seccomp::Filter::beside_bubblewrap(*network, *unix_sockets, scoped))
        }
        Restrictions::Landlock { landlock_rules, network } => {
            drop_capabilities()?;
            landlock_ruleset::enforce(landlock_rules, *network)?;
            seccomp::apply(&seccomp::Filter::beside_landlock(*network))
        }
    }
}

/// Drops all capabilities: Landlock restricts files, not privileges, so root with capabilities could load a kernel
/// module or set the clock.
fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    // Fails without the necessary privilege; then there is nothing to drop.
    let _ = set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED,
    );
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
