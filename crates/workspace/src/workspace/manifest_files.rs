//! The files next to a snapshot: a manifest with the stamp of every file, and a summary with one fingerprint. They
//! show the next snapshot what changed, and whether anything changed.

use crate::confine::{ConfinedDir, FileKind, Stamp, by_bytes};
use crate::manifest::{ManifestEntry, seal, unseal};
use althing_protocol::AnswerLabel;
use althing_text::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotSummary {
    /// `None` if a file may have changed without a new stamp.
    #[serde(rename = "print")]
    pub fingerprint: Option<String>,
    pub files: u64,
    /// How many bytes of data were copied for this snapshot.
    #[serde(default)]
    pub data: u64,
}

pub(crate) fn manifest_file_names(label: AnswerLabel) -> [OsString; 2] {
    [format!("{label}.manifest").into(), format!("{label}.summary").into()]
}

pub(crate) fn write_manifest_files(
    snapshots: &ConfinedDir,
    label: AnswerLabel,
    mut entries: Vec<ManifestEntry>,
    data: u64,
) -> io::Result<()> {
    entries.sort_unstable_by(|a, b| by_bytes(&a.path, &b.path));
    let files = entries.iter().filter(|entry| entry.kind != FileKind::Dir).count() as u64;
    let certain = entries.iter().all(|entry| !entry.fresh);
    let summary = SnapshotSummary {
        fingerprint: certain
            .then(|| fingerprint(entries.iter().map(|e| (e.path.as_path(), e.kind, e.mode, e.stamp)))),
        files,
        data,
    };
    let [manifest, summary_name] = manifest_file_names(label);
    snapshots.replace(&manifest, &seal(&entries).map_err(io::Error::other)?, Some(0o600))?;
    snapshots.replace(&summary_name, &seal(&summary).map_err(io::Error::other)?, Some(0o600))
}

pub(crate) fn read_sealed<T: for<'de> Deserialize<'de>>(snapshots: &ConfinedDir, name: &OsStr) -> Option<T> {
    let (mut file, _) = snapshots.open_file(name).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    unseal(&bytes)
}

/// Of a directory, only the path and type are included; the entries below it show whether its content changed.
pub(crate) fn fingerprint<'e>(names: impl Iterator<Item = (&'e Path, FileKind, u32, Stamp)>) -> String {
    let mut hash = Sha256::new();
    // Hashing many small pieces would cost more than the digest itself.
    let mut bytes = Vec::with_capacity(64 << 10);
    for (path, kind, mode, stamp) in names {
        let path = path.as_os_str().as_bytes();
        bytes.extend_from_slice(&path.len().to_le_bytes());
        bytes.extend_from_slice(path);
        bytes.push(kind as u8);
        if kind != FileKind::Dir {
            bytes.extend_from_slice(&mode.to_le_bytes());
            let times = [stamp.mtime.cast_unsigned(), stamp.ctime.cast_unsigned()];
            for number in [stamp.size, stamp.ino, stamp.dev].into_iter().chain(times) {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        if bytes.len() > 60 << 10 {
            hash.update(&bytes);
            bytes.clear();
        }
    }
    hash.update(&bytes);
    hex(&hash.finalize())
}
