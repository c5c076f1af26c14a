//! Landlock: kernel access rules for files, signals, abstract sockets and TCP. They are the sandbox on systems
//! without bubblewrap ([`enforce`]), and a part of them is added to bubblewrap ([`scope`]). Rules are enforced
//! completely or not at all.

use super::mounts::open_exactly;
use crate::guard_protocol::{LandlockAccess, LandlockRule};
use crate::mount_table::ETC;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};
use std::io;
use std::path::Path;

/// The ABI whose file access rights are used; they include truncation, moving and device control (Linux 6.10).
const FILES: ABI = ABI::V5;
/// The ABI whose scopes are used: signals and abstract sockets (Linux 6.12).
const SCOPES: ABI = ABI::V6;

/// Drops every access that is granted neither by these rules nor by the rules for [`SYSTEM`] and [`ETC`].
pub(super) fn enforce(landlock_rules: &[LandlockRule], network: bool) -> io::Result<()> {
    let why = match restrict_self(landlock_rules, network) {
        Ok(RulesetStatus::FullyEnforced) => return Ok(()),
        Ok(RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced) => {
            "the kernel supports only a part of the rules".to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(io::Error::other(format!("Landlock cannot be enforced here (Linux 6.12 or later is needed): {why}")))
}

fn restrict_self(landlock_rules: &[LandlockRule], network: bool) -> Result<RulesetStatus, RulesetError> {
    let mut rules = hard().handle_access(AccessFs::from_all(FILES))?.scope(Scope::from_all(SCOPES))?;
    if !network {
        rules = rules.handle_access(AccessNet::from_all(FILES))?;
    }
    let mut rules = rules.create()?;
    for (path, allow) in SYSTEM.into_iter().chain(ETC.map(|path| (path, LandlockAccess::Read))) {
        if let Ok(path_fd) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(path_fd, allowed(allow, Path::new(path).is_dir())))?;
        }
    }
    for rule in landlock_rules {
        if let Ok(path_fd) = open_exactly(&rule.path)
            && let Ok(stat) = fstat(&path_fd)
        {
            let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            rules = rules.add_rule(PathBeneath::new(path_fd, allowed(rule.allow, is_dir)))?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}

fn hard() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

fn allowed(allow: LandlockAccess, is_dir: bool) -> BitFlags<AccessFs> {
    let all = match allow {
        LandlockAccess::List => AccessFs::ReadDir.into(),
        LandlockAccess::Read => AccessFs::from_read(FILES),
        LandlockAccess::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
        LandlockAccess::Write => {
            AccessFs::from_all(FILES) & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev)
        }
    };
    if is_dir { all } else { all & AccessFs::from_file(FILES) }
}

/// Restricts signals and abstract sockets to the sandbox; false if the kernel does not support that. There are no
/// file rules, because a process with Landlock file rules may not mount, and bubblewrap must.
pub(super) fn scope() -> bool {
    let scoped = hard().scope(Scope::from_all(SCOPES)).and_then(Ruleset::create);
    let status = scoped.and_then(landlock::RulesetCreated::restrict_self);
    status.is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced)
}

/// Puts this process, and the programs that it executes, into a Landlock domain of their own: they cannot trace the
/// processes outside, nor use what these have open, nor signal them. Has no effect if the kernel does not support
/// that. On a kernel without scopes, a domain needs rules for files, under which no process may mount; such a domain is
/// therefore created only if `confined` is true.
pub(crate) fn enter_own_domain(confined: bool) {
    let scoped = hard().scope(Scope::Signal).and_then(Ruleset::create);
    let entered = scoped.and_then(landlock::RulesetCreated::restrict_self);
    if entered.is_err() && confined {
        enter_domain_of_files();
    }
}

/// A domain must restrict something. This one grants what it restricts: moving files between directories, which every
/// domain with rules for files forbids otherwise. (Landlock before ABI 2 cannot grant it; there, this has no effect.)
fn enter_domain_of_files() {
    let rules = hard().handle_access(AccessFs::Refer).and_then(Ruleset::create);
    if let (Ok(rules), Ok(root)) = (rules, PathFd::new("/")) {
        let rules = rules.add_rule(PathBeneath::new(root, AccessFs::Refer));
        let _ = rules.and_then(landlock::RulesetCreated::restrict_self);
    }
}

/// The newest Landlock ABI that this kernel supports, as far as the supported rights show it.
pub(crate) fn abi() -> Option<u8> {
    let files = [(1, ABI::V1), (2, ABI::V2), (3, ABI::V3), (5, ABI::V5), (9, ABI::V9)];
    let known = |access| hard().handle_access(access).and_then(Ruleset::create).is_ok();
    let by_files =
        files.into_iter().filter(|(_, abi)| known(AccessFs::from_all(*abi))).map(|(number, _)| number);
    let by_scope = hard().scope(Scope::from_all(SCOPES)).and_then(Ruleset::create).is_ok().then_some(6);
    by_files.chain(by_scope).max()
}

const SYSTEM: [(&str, LandlockAccess); 15] = [
    ("/usr", LandlockAccess::Read),
    ("/bin", LandlockAccess::Read),
    ("/sbin", LandlockAccess::Read),
    ("/lib", LandlockAccess::Read),
    ("/lib32", LandlockAccess::Read),
    ("/lib64", LandlockAccess::Read),
    ("/libx32", LandlockAccess::Read),
    ("/nix/store", LandlockAccess::Read),
    ("/proc", LandlockAccess::Read),
    ("/dev/null", LandlockAccess::Device),
    ("/dev/zero", LandlockAccess::Device),
    ("/dev/full", LandlockAccess::Device),
    ("/dev/random", LandlockAccess::Read),
    ("/dev/urandom", LandlockAccess::Read),
    ("/sys/devices/system/cpu", LandlockAccess::Read),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn may_look_at(child: &Child) -> bool {
        std::fs::read_link(format!("/proc/{}/exe", child.id())).is_ok()
    }

    #[test]
    fn a_process_in_its_own_domain_can_look_only_at_processes_in_it() {
        if abi() < Some(2) {
            return;
        }
        let mut outside = sleeper();
        let dir = tempfile::tempdir().unwrap();
        for name in ["from", "to"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("from/file"), "").unwrap();
        for enter in [|| enter_own_domain(true), enter_domain_of_files] {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    assert!(may_look_at(&outside));
                    enter();
                    let mut inside = sleeper();
                    assert!(!may_look_at(&outside) && may_look_at(&inside));
                    inside.kill().unwrap();
                    inside.wait().unwrap();
                    let (from, to) = (dir.path().join("from/file"), dir.path().join("to/file"));
                    std::fs::rename(&from, &to).unwrap();
                    std::fs::hard_link(&to, &from).unwrap();
                    std::fs::remove_file(&to).unwrap();
                });
            });
        }
        outside.kill().unwrap();
        outside.wait().unwrap();
    }
}
