//! Stores, in the directory of a task, what is known about the code that its agents and its program write, so that
//! nothing that they planted is forgotten when Althing is killed and the session is resumed. No agent can write there.

use crate::code_stamp::Stamp;
use crate::code_watch::{CodeWatch, DELETED, Found, WrittenCode};
use crate::listing::SearchLimits;
use crate::settings_code::unnamed_rows;
use althing_disk::files::{Durability, create_dirs, replace};
use althing_disk::{DiskError, RealDisk, read_regular};
use althing_protocol::{RUNS_CODE, RunsCode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const NAME: &str = "written_code.json";
const MAX_BYTES: u64 = 256 << 20;

static UNKNOWN: RunsCode = RunsCode { names: &[], protected: true, ordinary: false, when: "it is used" };

#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) files: BTreeSet<PathBuf>,
    pub(super) is_incomplete: bool,
}

#[derive(Debug, Default)]
pub(super) struct TaskCode {
    /// The states from before everything that may be writing now, or that was interrupted.
    pub(super) before: Vec<CodeWatch>,
    /// What was written until the writer ended, and what the user was told about it.
    pub(super) written: Vec<(WrittenCode, Told)>,
}

pub(super) fn store(dir: &Path, code: &TaskCode) -> Result<(), DiskError> {
    let before = code.before.iter().map(|watch| StoredWatch {
        roots: stored_paths(&watch.roots),
        elsewhere: stored_paths(&watch.elsewhere),
        files: watch.before.files.iter().map(|(path, (stamp, _))| (path.into(), *stamp)).collect(),
        incomplete: [
            watch.before.is_incomplete,
            watch.before.are_packages_incomplete,
            watch.before.are_settings_incomplete,
        ],
    });
    let written = code.written.iter().map(|(written, told)| StoredFinding {
        files: written.files.iter().map(|(path, row)| (path.into(), row.names.join("/"))).collect(),
        roots: stored_paths(&written.roots),
        is_incomplete: written.is_incomplete,
        told_files: stored_paths(&told.files),
        told_incomplete: told.is_incomplete,
    });
    let stored = StoredCode { before: before.collect(), written: written.collect() };
    let path = dir.join(NAME);
    let text =
        serde_json::to_vec(&stored).map_err(io::Error::other).map_err(DiskError::io("write", &path))?;
    create_dirs(&RealDisk, dir, Durability::Synced)?;
    replace(&RealDisk, dir, NAME, &text, Durability::Synced)
}

/// What is stored about a task; `None` if nothing is. If it cannot be read, the task counts as having written anything
/// anywhere.
pub(super) fn load(dir: &Path) -> Option<TaskCode> {
    let read = match read_regular(&dir.join(NAME), MAX_BYTES) {
        Ok(bytes) => serde_json::from_slice::<StoredCode>(&bytes).map_err(|error| error.to_string()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return None;
        }
        Err(error) => Err(error.to_string()),
    };
    Some(match read {
        Ok(stored) => stored.into(),
        Err(error) => {
            tracing::warn!(dir = %dir.display(), error, "what a task wrote is not known");
            let anything =
                WrittenCode { files: Vec::new(), roots: vec![PathBuf::from("/")], is_incomplete: true };
            TaskCode { before: Vec::new(), written: vec![(anything, Told::default())] }
        }
    })
}

#[derive(Serialize, Deserialize)]
struct StoredCode {
    before: Vec<StoredWatch>,
    written: Vec<StoredFinding>,
}

#[derive(Serialize, Deserialize)]
struct StoredWatch {
    roots: Vec<StoredPath>,
    elsewhere: Vec<StoredPath>,
    files: Vec<(StoredPath, Stamp)>,
    incomplete: [bool; 3],
}

#[derive(Serialize, Deserialize)]
struct StoredFinding {
    files: Vec<(StoredPath, String)>,
    roots: Vec<StoredPath>,
    is_incomplete: bool,
    told_files: Vec<StoredPath>,
    told_incomplete: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredPath {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&PathBuf> for StoredPath {
    fn from(path: &PathBuf) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }
}

impl From<StoredPath> for PathBuf {
    fn from(path: StoredPath) -> Self {
        match path {
            StoredPath::Text(text) => text.into(),
            StoredPath::Bytes(bytes) => OsString::from_vec(bytes).into(),
        }
    }
}

fn stored_paths<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<StoredPath> {
    paths.into_iter().map(StoredPath::from).collect()
}

fn loaded_paths<T: FromIterator<PathBuf>>(paths: Vec<StoredPath>) -> T {
    paths.into_iter().map(PathBuf::from).collect()
}

impl From<StoredCode> for TaskCode {
    fn from(stored: StoredCode) -> Self {
        let before = stored.before.into_iter().map(|watch| {
            let [is_incomplete, are_packages_incomplete, are_settings_incomplete] = watch.incomplete;
            let files = watch.files.into_iter().map(|(path, stamp)| (path.into(), (stamp, &UNKNOWN)));
            let before = Found {
                files: files.collect(),
                is_incomplete,
                are_packages_incomplete,
                are_settings_incomplete,
                are_unknown_incomplete: false,
            };
            let (roots, elsewhere) = (loaded_paths(watch.roots), loaded_paths(watch.elsewhere));
            CodeWatch { roots, elsewhere, before, limits: SearchLimits::default() }
        });
        let row = |names: &str| {
            RUNS_CODE
                .iter()
                .chain(unnamed_rows())
                .chain([&DELETED])
                .find(|row| row.names.join("/") == names)
                .unwrap_or(&UNKNOWN)
        };
        let written = stored.written.into_iter().map(|finding| {
            let files = finding.files.into_iter().map(|(path, names)| (path.into(), row(&names)));
            let written = WrittenCode {
                files: files.collect(),
                roots: loaded_paths(finding.roots),
                is_incomplete: finding.is_incomplete,
            };
            let told =
                Told { files: loaded_paths(finding.told_files), is_incomplete: finding.told_incomplete };
            (written, told)
        });
        Self { before: before.collect(), written: written.collect() }
    }
}
