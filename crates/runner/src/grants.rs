//! What a command may touch, path by path: a view as Landlock takes it.
//!
//! Landlock can only allow, never except: a writable directory with a protected place inside is granted entry by entry, and
//! nothing can be created or deleted directly beside the protected place.

use crate::launch::{Allow, Grant};
use crate::view::{Mode, View};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Directly beside a protected place this many entries are granted one by one; a directory with more is refused
/// rather than half granted.
const MAX_GRANTS: usize = 10_000;

/// Turns a view into grants. Fails when a writable directory with a protected place inside is too large.
pub(crate) fn grants(view: &View, scratch: &Path) -> io::Result<Vec<Grant>> {
    let mut grants = Vec::new();
    let mut modes: BTreeMap<&Path, Mode> =
        view.rules().iter().map(|rule| (rule.path.as_path(), rule.mode)).collect();
    modes.extend(view.missing().iter().map(|place| (place.as_path(), Mode::ReadOnly)));
    for (path, mode) in &modes {
        below(path, *mode, &modes, &mut grants)?;
    }
    grants.push(Grant { path: scratch.to_owned(), allow: Allow::Write });
    Ok(grants)
}

/// Grants `path` in `mode`, leaving out what lies below it in a stricter one.
fn below(path: &Path, mode: Mode, modes: &BTreeMap<&Path, Mode>, grants: &mut Vec<Grant>) -> io::Result<()> {
    let allow = match mode {
        Mode::Hidden => return Ok(()),
        Mode::ReadOnly => Allow::Read,
        Mode::Writable => Allow::Write,
    };
    let stricter =
        |(other, theirs): (&&Path, &Mode)| *other != path && other.starts_with(path) && *theirs < mode;
    if !modes.iter().any(stricter) {
        grants.push(Grant { path: path.to_owned(), allow });
        return Ok(());
    }
    // Listing is inherited too, so names in a hidden place can be seen; what is in its files cannot.
    grants.push(Grant { path: path.to_owned(), allow: Allow::List });
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if grants.len() >= MAX_GRANTS {
            return Err(io::Error::other(format!(
                "{} holds too many entries beside a protected one for Landlock; bubblewrap can do it",
                path.display()
            )));
        }
        // A link grants what it points to, which may be anywhere; what it points to inside has its own grant.
        if entry.file_type()?.is_symlink() || modes.contains_key(entry.path().as_path()) {
            continue;
        }
        below(&entry.path(), mode, modes, grants)?;
    }
    Ok(())
}
