//! Removes the private copies of settings, which can contain credentials, that killed processes left behind.

use super::{clean, remove_empty};
use crate::adapter::{Adapters, OwnDir};
use crate::dir_lock::DirLock;
use std::path::Path;

/// The length of the name of a copy, which is a hash.
const NAME_LENGTH: usize = 16;

/// Removes the copies in this directory that no process uses, except for conversations. A copy that cannot be removed
/// stays for the next time.
///
/// Does nothing if there is a symbolic link in the path, because a foreign project may contain a state directory.
pub fn clean_left_settings(all: &Path) {
    if althing_disk::real_path(all) != all {
        return;
    }
    let own: Vec<OwnDir> =
        Adapters::default().all().flat_map(|adapter| adapter.own_dirs()).copied().collect();
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let is_copy = entry.file_name().to_str().is_some_and(|name| {
            name.len() == NAME_LENGTH && name.chars().all(|digit| digit.is_ascii_hexdigit())
        });
        let Some(lock) = is_copy.then(|| DirLock::left_behind(&entry.path())).flatten() else { continue };
        if let Err(error) = clean(&entry.path(), &own) {
            let dir = entry.path();
            tracing::warn!(dir = %dir.display(), %error, "a private copy of settings was left behind and remains");
        }
        remove_empty(&entry.path(), &own);
        drop(lock);
    }
}
