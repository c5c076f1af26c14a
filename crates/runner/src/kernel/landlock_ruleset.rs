//! Landlock: the kernel's own wall around files, signals and TCP, for machines without bubblewrap.
//!
//! Enforced whole or refused: a kernel that knows only part of what we ask for is told to be too old, never used as
//! far as it goes.

use crate::launch::{LandlockAccess, LandlockRule};
use crate::mount_table::ETC;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode as FileMode, OFlags, ResolveFlags, fstat, openat2};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Reading, writing, truncating, moving and device control: all that files need (Linux 6.10).
const FILES: ABI = ABI::V5;
/// Signals and abstract sockets (Linux 6.12).
const SCOPES: ABI = ABI::V6;

/// Gives up everything but these grants. For the sandbox process, as one of its last acts.
pub(super) fn enforce(landlock_rules: &[LandlockRule], network: bool) -> io::Result<()> {
    let why = match restrict_self(landlock_rules, network) {
        Ok(RulesetStatus::FullyEnforced) => return Ok(()),
        Ok(RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced) => "only in part".to_owned(),
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
    // What is not on this machine, or vanished since, grants nothing.
    for (path, allow) in SYSTEM.into_iter().chain(ETC.map(|path| (path, LandlockAccess::Read))) {
        if let Ok(place) = PathFd::new(path) {
            rules = rules.add_rule(PathBeneath::new(place, allowed(allow, Path::new(path).is_dir())))?;
        }
    }
    for grant in landlock_rules {
        if let Ok((place, is_dir)) = open_exactly(&grant.path) {
            rules = rules.add_rule(PathBeneath::new(place, allowed(grant.allow, is_dir)))?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}

fn hard() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

/// The place itself, never one that a link leads to: an agent could have put the link there a moment ago.
fn open_exactly(path: &Path) -> rustix::io::Result<(OwnedFd, bool)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = openat2(
        CWD,
        path,
        flags,
        FileMode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )?;
    let is_dir = FileType::from_raw_mode(fstat(&place)?.st_mode) == FileType::Directory;
    Ok((place, is_dir))
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

/// Keeps signals and abstract sockets inside, and nothing else; says whether the kernel can do that.
///
/// Files are left alone on purpose: a process that Landlock binds in its files may no longer mount, and bubblewrap must.
pub(super) fn scope() -> bool {
    let scoped = hard().scope(Scope::from_all(SCOPES)).and_then(Ruleset::create);
    let status = scoped.and_then(landlock::RulesetCreated::restrict_self);
    status.is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced)
}

/// The newest generation of Landlock whose rights this kernel knows, as far as rights tell them apart.
pub(crate) fn abi() -> Option<u8> {
    let files = [(1, ABI::V1), (2, ABI::V2), (3, ABI::V3), (5, ABI::V5), (9, ABI::V9)];
    let known = |access| hard().handle_access(access).and_then(Ruleset::create).is_ok();
    let by_files =
        files.into_iter().filter(|(_, abi)| known(AccessFs::from_all(*abi))).map(|(number, _)| number);
    let by_scope = hard().scope(Scope::from_all(SCOPES)).and_then(Ruleset::create).is_ok().then_some(6);
    by_files.chain(by_scope).max()
}

/// What of this machine a command needs beside its own view.
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
