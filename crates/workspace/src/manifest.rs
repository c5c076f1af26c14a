//! Lists of files with their metadata, stored on disk with a checksum: the manifest of a snapshot, and the state of
//! context paths before a run. A snapshot treats a damaged list as missing; an undo fails.

use crate::confine::{FileKind, Stamp, TreeNode};
use althing_text::hex;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ManifestRow", into = "ManifestRow")]
pub(crate) struct ManifestEntry {
    pub path: PathBuf,
    pub kind: FileKind,
    pub stamp: Stamp,
    pub mode: u32,
    /// Whether the last change was so recent that a further change might leave the same stamp.
    pub fresh: bool,
    /// The SHA-256 of the content, in the state of context paths: only for a file that can change without a new stamp.
    pub digest: Option<String>,
}

/// A JSON array is shorter than an object.
#[derive(Serialize, Deserialize)]
struct ManifestRow(
    String,
    FileKind,
    Stamp,
    u32,
    bool,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<String>,
);

impl ManifestEntry {
    pub(crate) fn of(node: &TreeNode, fresh: bool) -> Self {
        Self {
            path: node.path.clone(),
            kind: node.found.kind,
            stamp: node.found.stamp,
            mode: node.found.mode,
            fresh,
            digest: None,
        }
    }

    pub(crate) fn is_like(&self, node: &TreeNode) -> bool {
        (self.kind, self.mode, self.stamp) == (node.found.kind, node.found.mode, node.found.stamp)
    }
}

/// A path that is not UTF-8 becomes NUL followed by hexadecimal digits; no path contains a NUL.
pub(crate) fn path_to_text(path: &Path) -> String {
    path.to_str().map_or_else(|| format!("\0{}", hex(path.as_os_str().as_bytes())), str::to_owned)
}

pub(crate) fn path_from_text(text: &str) -> PathBuf {
    let Some(digits) = text.strip_prefix('\0') else { return PathBuf::from(text) };
    let pair =
        |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    PathBuf::from(OsString::from_vec(digits.as_bytes().chunks(2).filter_map(pair).collect()))
}

impl From<ManifestRow> for ManifestEntry {
    fn from(ManifestRow(path, kind, stamp, mode, fresh, digest): ManifestRow) -> Self {
        Self { path: path_from_text(&path), kind, stamp, mode, fresh, digest }
    }
}

impl From<ManifestEntry> for ManifestRow {
    fn from(entry: ManifestEntry) -> Self {
        Self(path_to_text(&entry.path), entry.kind, entry.stamp, entry.mode, entry.fresh, entry.digest)
    }
}

/// The sealed form is JSON, followed by a line with its checksum.
pub(crate) fn seal<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    let sum = format!("\n{:08x}\n", crc32c::crc32c(&bytes));
    bytes.extend_from_slice(sum.as_bytes());
    Ok(bytes)
}

pub(crate) fn unseal<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Option<T> {
    let at = bytes.len().checked_sub(10)?;
    let (body, sum) = bytes.split_at_checked(at)?;
    let sum = std::str::from_utf8(sum).ok()?.strip_prefix('\n')?.strip_suffix('\n')?;
    let fits = u32::from_str_radix(sum, 16).ok()? == crc32c::crc32c(body);
    fits.then(|| serde_json::from_slice(body).ok())?
}
