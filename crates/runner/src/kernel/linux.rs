//! Linux: Landlock, seccomp, capabilities, child subreapers, `/proc`.

use super::{landlock_ruleset, seccomp};
use crate::guard_protocol::Restrictions;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, pidfd_open, set_child_subreaper, set_parent_process_death_signal,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
    set_capabilities_secure_bits, set_no_new_privs,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

pub(crate) use super::landlock_ruleset::abi as landlock_abi;

/// The running executable, even if its file was replaced meanwhile.
pub(crate) fn own_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// Makes this process a child subreaper: orphans among its descendants become its own children.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// A descriptor that becomes readable when the process ends, if the kernel supports it.
pub(crate) fn pidfd(pid: Pid) -> Option<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Sets a pipe's capacity. An optimization that may fail: an unprivileged user may have used up the quota for
/// pipes.
pub(crate) fn set_pipe_size(pipe: impl AsFd, bytes: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, bytes);
}

/// Makes the kernel kill this process when the thread that started it ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Drops rights permanently. One of the last steps before the sandbox process executes the command.
pub(crate) fn confine(restrictions: &Restrictions) -> io::Result<()> {
    set_no_new_privs(true)?;
    match restrictions {
        Restrictions::BeforeBubblewrap { network } => {
            let scoped = landlock_ruleset::scope();
            seccomp::apply(&seccomp::Filter::beside_bubblewrap(*network, scoped))
        }
        Restrictions::Landlock { landlock_rules, network } => {
            drop_capabilities()?;
            landlock_ruleset::enforce(landlock_rules, *network)?;
            seccomp::apply(&seccomp::Filter::beside_landlock(*network))
        }
    }
}

/// Drops all capabilities. Landlock restricts files, not privileges: root with capabilities could load a kernel
/// module or set the clock.
fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    // Fails without the necessary privilege; then there is nothing to drop, which the next calls verify.
    let _ = set_capabilities_secure_bits(
        CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED,
    );
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// The pid of each process with that of its parent.
pub(crate) fn parents() -> Vec<(i32, i32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let both = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, parent_of(&std::fs::read_to_string(entry.path().join("stat")).ok()?)?))
    });
    both.collect()
}

/// The parent's pid, which is the fourth field of `/proc/PID/stat`. The second field is a name in parentheses
/// that may itself contain parentheses and spaces.
fn parent_of(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The direct children of this process. They are taken from the kernel's own list if there is one, which is a
/// hundred times faster than scanning every process.
pub(crate) fn children() -> Vec<Pid> {
    match std::fs::read_to_string("/proc/thread-self/children") {
        Ok(children) => {
            children.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
        }
        // A kernel without CONFIG_PROC_CHILDREN.
        Err(_) => children_among(&parents()),
    }
}

fn children_among(parents: &[(i32, i32)]) -> Vec<Pid> {
    let me = getpid().as_raw_nonzero().get();
    let ours = parents.iter().filter(|(_, parent)| *parent == me);
    ours.filter_map(|(pid, _)| Pid::from_raw(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::parent_of;

    #[test]
    fn a_process_name_with_parentheses_and_spaces_does_not_hide_the_parent_pid() {
        assert_eq!(parent_of("17 (a) b (c) S 4 17 17 0 -1"), Some(4));
        assert_eq!(parent_of("nonsense"), None);
    }
}
