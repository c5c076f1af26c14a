//! Lists directories for the searches for code that runs later. A search must know about a directory that it cannot
//! list: files in the directory can be opened by name if its mode allows that, for example 0111.

use std::ffi::OsString;
use std::fs::FileType;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// The maximum number of files and directories that a search reads: more than in any project that people edit by hand.
pub(crate) const MAX_ENTRIES: usize = 2_000_000;

/// After this time, the search stops, because it delays the start of a CLI agent.
const MAX_TIME: Duration = Duration::from_secs(60);
/// The maximum number of files that run code later.
const MAX_FILES: usize = 100_000;

/// Where a search stops. A search that stopped is incomplete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchLimits {
    /// The maximum number of directory entries that each step of a search reads. The steps are: the settings in working
    /// directories; all directories except those of packages and builds; those of packages and builds; the code to which
    /// git, links and settings lead.
    pub(crate) entries: usize,
    pub(crate) files: usize,
    pub(crate) time: Duration,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { entries: MAX_ENTRIES, files: MAX_FILES, time: MAX_TIME }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// At most the requested number of entries.
    pub(crate) names: Vec<(OsString, FileType)>,
    /// Whether the directory could not be listed completely, although programs of this user may use files in it.
    pub(crate) is_hidden: bool,
}

pub(crate) fn list(dir: &Path, max_entries: usize) -> Listing {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return Listing { names: Vec::new(), is_hidden: hides_files(dir, &error) },
    };
    let mut listing = Listing::default();
    for entry in entries.take(max_entries) {
        match entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?))) {
            Ok(entry) => listing.names.push(entry),
            Err(error) => listing.is_hidden |= hides_files(dir, &error),
        }
    }
    listing
}

/// Whether programs of this user may use files in a directory that could not be listed. Not for a directory of root or,
/// if another user owns it, one that this user may not enter. If this user is root, only the kernel itself refuses a
/// listing (in /proc), never the mode of a directory.
fn hides_files(dir: &Path, error: &io::Error) -> bool {
    let user = rustix::process::geteuid();
    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) || user.is_root() {
        return false;
    }
    let owner = dir.symlink_metadata().map(|data| data.uid()).ok();
    let is_usable = || rustix::fs::access(dir, rustix::fs::Access::EXEC_OK).is_ok();
    owner == Some(user.as_raw()) || (owner != Some(0) && is_usable())
}
