//! The lists that go with a snapshot: every name with its stamp, by which the next one knows what changed; and the same in
//! brief, by which it knows that nothing did.

use crate::confine::{ConfinedDir, Kind, by_bytes};
use crate::manifest::{Entry, hex, seal, unseal};
use althing_protocol::AnswerLabel;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

/// A snapshot in brief.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// A digest of every name and stamp; None if one of them may have changed unseen.
    pub print: Option<String>,
    pub files: u64,
}

/// The two lists that belong to a snapshot: what is in it, and that in brief.
pub(crate) fn list_names(label: AnswerLabel) -> [OsString; 2] {
    [format!("{label}.manifest").into(), format!("{label}.summary").into()]
}

pub(crate) fn write_lists(
    snapshots: &ConfinedDir,
    label: AnswerLabel,
    mut entries: Vec<Entry>,
) -> io::Result<()> {
    entries.sort_unstable_by(|a, b| by_bytes(&a.path, &b.path));
    let files = entries.iter().filter(|entry| entry.kind != Kind::Dir).count() as u64;
    let certain = entries.iter().all(|entry| !entry.fresh);
    let summary = Summary { print: certain.then(|| print(entries.iter().cloned())), files };
    let [manifest, brief] = list_names(label);
    snapshots.replace(&manifest, &seal(&entries).map_err(io::Error::other)?, Some(0o600))?;
    snapshots.replace(&brief, &seal(&summary).map_err(io::Error::other)?, Some(0o600))
}

pub(crate) fn read_list<T: for<'de> Deserialize<'de>>(snapshots: &ConfinedDir, name: &OsStr) -> Option<T> {
    let (mut file, _) = snapshots.open_file(name).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    unseal(&bytes)
}

/// A digest of what a tree looks like. A directory's own times say nothing: its names are all there one by one.
pub(crate) fn print(entries: impl Iterator<Item = Entry>) -> String {
    let mut hash = Sha256::new();
    for entry in entries {
        let path = entry.path.as_os_str().as_bytes();
        hash.update(path.len().to_le_bytes());
        hash.update(path);
        hash.update([entry.kind as u8]);
        if entry.kind != Kind::Dir {
            hash.update(entry.mode.to_le_bytes());
            let stamp = entry.stamp;
            for number in
                [stamp.size, stamp.mtime.cast_unsigned(), stamp.ctime.cast_unsigned(), stamp.ino, stamp.dev]
            {
                hash.update(number.to_le_bytes());
            }
        }
    }
    hex(&hash.finalize())
}
