//! Translates a mount table into Landlock rules.
//!
//! Landlock rules can only grant access, never revoke it below a granted directory. A directory that contains, at any
//! depth, a path with a stricter mode is therefore granted entry by entry, and nothing can be created or deleted
//! directly in it.

use crate::guard_protocol::{LandlockAccess, LandlockRule};
use crate::mount_table::{MountMode, MountTable};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The maximum number of rules. A mount table that needs more is refused rather than granted in part.
const MAX_RULES: usize = 10_000;

pub(crate) fn landlock_rules(mounts: &MountTable, scratch: &Path) -> io::Result<Vec<LandlockRule>> {
    let mut rules = Vec::new();
    let mut modes: BTreeMap<&Path, MountMode> =
        mounts.rules().iter().map(|rule| (rule.path.as_path(), rule.mode)).collect();
    modes.extend(mounts.missing().iter().map(|missing| (missing.path.as_path(), MountMode::ReadOnly)));
    for (path, mode) in &modes {
        add_rules(path, *mode, &modes, &mut rules)?;
    }
    rules.push(LandlockRule { path: scratch.to_owned(), allow: LandlockAccess::Write });
    Ok(rules)
}

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
    // Listing applies to everything below, so the names inside a hidden directory are visible, but not the contents
    // of its files.
    rules.push(LandlockRule { path: path.to_owned(), allow: LandlockAccess::List });
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if rules.len() >= MAX_RULES {
            return Err(io::Error::other(format!(
                "Landlock would need more than {MAX_RULES} rules to protect the paths in the granted directories (reached \
                 in {}); install bubblewrap",
                path.display()
            )));
        }
        // A rule for a symlink would grant its target, which may be anywhere.
        if entry.file_type()?.is_symlink() || modes.contains_key(entry.path().as_path()) {
            continue;
        }
        add_rules(&entry.path(), mode, modes, rules)?;
    }
    Ok(())
}
