//! What a command may touch, path by path: a view as Landlock takes it.
//!
//! Landlock can only allow, never except: a writable directory with a protected place inside is granted entry by entry, and
//! nothing can be created or deleted directly beside the protected place.

use crate::launch::{LandlockAccess, LandlockRule};
use crate::mount_table::{MountMode, MountTable};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Directly beside a protected place this many entries are granted one by one; a directory with more is refused
/// rather than half granted.
const MAX_RULES: usize = 10_000;

/// Turns a view into grants. Fails when a writable directory with a protected place inside is too large.
pub(crate) fn landlock_rules(mounts: &MountTable, scratch: &Path) -> io::Result<Vec<LandlockRule>> {
    let mut rules = Vec::new();
    let mut modes: BTreeMap<&Path, MountMode> =
        mounts.rules().iter().map(|rule| (rule.path.as_path(), rule.mode)).collect();
    modes.extend(mounts.missing().iter().map(|path| (path.as_path(), MountMode::ReadOnly)));
    for (path, mode) in &modes {
        add_rules(path, *mode, &modes, &mut rules)?;
    }
    rules.push(LandlockRule { path: scratch.to_owned(), allow: LandlockAccess::Write });
    Ok(rules)
}

/// Grants `path` in `mode`, leaving out what lies below it in a stricter one.
fn add_rules(
    path: &Path,
    mode: MountMode,
    modes: &BTreeMap<&Path, MountMode>,
    rules: &mut Vec<LandlockRule>,
) -> io::Result<()> {
    let allow = match mode {
        MountMode::Hidden => return Ok(()),
        MountMode::ReadOnly => LandlockAccess::Read,
        MountMode::Writable => LandlockAccess::Write,
    };
    let stricter =
        |(other, theirs): (&&Path, &MountMode)| *other != path && other.starts_with(path) && *theirs < mode;
    if !modes.iter().any(stricter) {
        rules.push(LandlockRule { path: path.to_owned(), allow });
        return Ok(());
    }
    // Listing is inherited too, so names in a hidden place can be seen; what is in its files cannot.
    rules.push(LandlockRule { path: path.to_owned(), allow: LandlockAccess::List });
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if rules.len() >= MAX_RULES {
            return Err(io::Error::other(format!(
                "{} holds too many entries beside a protected one for Landlock; bubblewrap can do it",
                path.display()
            )));
        }
        // A link grants what it points to, which may be anywhere; what it points to inside has its own grant.
        if entry.file_type()?.is_symlink() || modes.contains_key(entry.path().as_path()) {
            continue;
        }
        add_rules(&entry.path(), mode, modes, rules)?;
    }
    Ok(())
}
