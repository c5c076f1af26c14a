//! Remembers the versions that programs printed, because some programs take many seconds to print theirs.

use althing_disk::files::{Durability, create_dirs, replace};
use althing_disk::{RealDisk, read_regular};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FILE: &str = "cli-versions.json";
const MAX_BYTES: u64 = 1 << 20;
const MAX_ENTRIES: usize = 100;
/// How long a stored version counts. The time is short because a change may not show: if a program only starts another
/// one, its own file stays the same when the other one is updated.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct CachedVersion {
    /// Without symbolic links.
    path: PathBuf,
    size: u64,
    modified: (i64, i64),
    /// Seconds since 1970.
    asked_at: u64,
    version: String,
}

impl CachedVersion {
    fn new(program: &Path, version: &str, now: SystemTime) -> Option<Self> {
        let path = program.canonicalize().ok()?;
        let data = path.metadata().ok()?;
        let (size, modified) = (data.size(), (data.mtime(), data.mtime_nsec()));
        let asked_at = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
        Some(Self { path, size, modified, asked_at, version: version.to_owned() })
    }
}

fn stored(dir: &Path) -> Vec<CachedVersion> {
    let file = dir.join(FILE);
    if file.is_symlink() {
        return Vec::new();
    }
    serde_json::from_slice(&read_regular(&file, MAX_BYTES).unwrap_or_default()).unwrap_or_default()
}

/// What this program printed at most a day ago, if its file has not changed since.
pub(super) fn get(dir: &Path, program: &Path, now: SystemTime) -> Option<String> {
    let wanted = CachedVersion::new(program, "", now)?;
    let is_same = |entry: &CachedVersion| {
        let age = wanted.asked_at.checked_sub(entry.asked_at);
        let is_recent = age.is_some_and(|age| age <= MAX_AGE.as_secs());
        is_recent && (&entry.path, entry.size, entry.modified) == (&wanted.path, wanted.size, wanted.modified)
    };
    stored(dir).into_iter().find(is_same).map(|entry| entry.version)
}

/// Stores what these programs printed. Ignores a failure, after which the programs are asked again.
pub(super) fn put(dir: &Path, printed: &[(PathBuf, String)], now: SystemTime) {
    let new: Vec<CachedVersion> =
        printed.iter().filter_map(|(program, version)| CachedVersion::new(program, version, now)).collect();
    if new.is_empty() {
        return;
    }
    let mut entries = stored(dir);
    entries.retain(|old| !new.iter().any(|new| new.path == old.path));
    entries.extend(new);
    let newest = entries.split_off(entries.len().saturating_sub(MAX_ENTRIES));
    if let Ok(text) = serde_json::to_vec(&newest)
        && create_dirs(&RealDisk, dir, Durability::Unsynced).is_ok()
    {
        let _ = replace(&RealDisk, dir, FILE, &text, Durability::Unsynced);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_known_until_the_program_changes_or_a_day_has_passed() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, program) = (dir.path(), dir.path().join("program"));
        std::fs::write(&program, "one").unwrap();
        let now = SystemTime::now();
        assert_eq!(get(dir, &program, now), None);
        put(dir, &[(program.clone(), "1.0".to_owned())], now);
        assert_eq!(get(dir, &program, now).as_deref(), Some("1.0"));
        assert_eq!(get(dir, &program, now + MAX_AGE + Duration::from_secs(1)), None);
        assert_eq!(get(dir, &program, now - Duration::from_secs(2)), None, "from the future");
        std::fs::write(&program, "three").unwrap();
        assert_eq!(get(dir, &program, now), None, "another size");
        put(dir, &[(program.clone(), "3.0".to_owned())], now);
        assert_eq!(get(dir, &program, now).as_deref(), Some("3.0"));
        let file = std::fs::File::options().append(true).open(&program).unwrap();
        file.set_modified(now - Duration::from_secs(60)).unwrap();
        assert_eq!(get(dir, &program, now), None, "another time");
    }

    #[test]
    fn a_link_in_place_of_the_file_is_neither_read_nor_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, program, other) = (dir.path(), dir.path().join("program"), dir.path().join("other"));
        std::fs::write(&program, "one").unwrap();
        let now = SystemTime::now();
        put(dir, &[(program.clone(), "planted".to_owned())], now);
        std::fs::rename(dir.join(FILE), &other).unwrap();
        let planted = std::fs::read(&other).unwrap();
        std::os::unix::fs::symlink(&other, dir.join(FILE)).unwrap();
        assert_eq!(get(dir, &program, now), None);
        put(dir, &[(program.clone(), "1.0".to_owned())], now);
        assert_eq!(get(dir, &program, now).as_deref(), Some("1.0"));
        assert_eq!(std::fs::read(&other).unwrap(), planted);
    }
}
