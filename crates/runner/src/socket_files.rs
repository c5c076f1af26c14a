//! Finds files inside the mounts of a sandbox through which a command could reach other processes: sockets whose
//! owner still listens, and named pipes in read-only mounts.
//!
//! Neither a read-only mount nor a separate network namespace prevents connecting to a socket or writing to a pipe,
//! so bubblewrap and Docker must cover these files. Files that appear after the search are not covered.

use crate::mount_table::{MountMode, MountRule, MountTable};
use std::collections::HashSet;
use std::fs::FileType;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The maximum number of entries that are searched before a command in bubblewrap.
const MAX_ENTRIES: usize = 500_000;
pub(crate) const MAX_ENTRIES_OF_A_CONTAINER: usize = 2_000_000;
/// The maximum number of files that can be covered, each of which needs its own mount.
const MAX_FOUND: usize = 500;

/// The sockets and pipes to cover. `None` if not all of them can be found or covered: too many entries or files, a
/// directory that can be entered but not listed, a path that is not UTF-8, or a file to cover in a writable mount.
/// The caller must then deny the command Unix sockets. The read-only mounts `installed`, which contain installed
/// programs, are not searched.
pub(crate) fn find_live_sockets(mounts: &MountTable, installed: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let found = find_within(mounts, installed, MAX_ENTRIES)?;
    // Another command could replace a directory above the socket with a symlink, which bubblewrap would follow. So
    // only sockets where nothing can be written are covered.
    let is_fixed = |path: &PathBuf| mounts.mode(path) != Some(MountMode::Writable);
    found.iter().all(is_fixed).then_some(found)
}

/// For a container: sockets in writable mounts are covered, too, installed programs are searched, too, and more
/// entries are allowed. With `None`, the container must not be created, because it cannot be denied Unix sockets.
pub(crate) fn find_all_live_sockets(mounts: &MountTable) -> Option<Vec<PathBuf>> {
    find_within(mounts, &[], MAX_ENTRIES_OF_A_CONTAINER)
}

fn find_within(mounts: &MountTable, installed: &[PathBuf], max_entries: usize) -> Option<Vec<PathBuf>> {
    let roots: HashSet<&Path> = mounts.rules().iter().map(|rule| rule.path.as_path()).collect();
    let is_searched = |rule: &&MountRule| match rule.mode {
        MountMode::Hidden => false,
        MountMode::ReadOnly => !installed.contains(&rule.path),
        MountMode::Writable => true,
    };
    let mut dirs = Vec::new();
    let mut found = Vec::new();
    let mut entries = 0;
    for rule in mounts.rules().iter().filter(is_searched) {
        match rule.path.symlink_metadata() {
            Ok(data) if data.is_dir() => dirs.push((rule.path.clone(), rule.mode)),
            Ok(data) if reaches_others(data.file_type(), rule.mode, &rule.path) => {
                found.push(rule.path.clone())
            }
            _ => {}
        }
    }
    while let Some((dir, mode)) = dirs.pop() {
        // If we cannot list a directory, neither can the command, which has no more rights. But if it can enter the
        // directory, it could reach a socket whose name it knows or guesses.
        let Ok(listed) = std::fs::read_dir(&dir) else {
            if rustix::fs::access(&dir, rustix::fs::Access::EXEC_OK).is_ok() {
                return None;
            }
            continue;
        };
        for entry in listed.flatten() {
            entries += 1;
            if entries > max_entries {
                return None;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_file() || kind.is_symlink() {
                continue;
            }
            let path = entry.path();
            if kind.is_dir() {
                dirs.extend((!roots.contains(path.as_path())).then_some((path, mode)));
            } else if reaches_others(kind, mode, &path) {
                found.push(path);
            }
        }
    }
    (found.len() <= MAX_FOUND && found.iter().all(|path| path.to_str().is_some())).then_some(found)
}

/// Whether a command could reach other processes through this file. A named pipe in a read-only mount can be written
/// to nevertheless.
fn reaches_others(kind: FileType, mode: MountMode, path: &Path) -> bool {
    (kind.is_socket() && could_answer(path)) || (kind.is_fifo() && mode == MountMode::ReadOnly)
}

/// Whether a process may hold the socket; `ConnectionRefused` means that none does. Connecting from a datagram socket
/// does not disturb the owner: a socket of another type fails with another error, and to a datagram socket nothing is
/// sent.
fn could_answer(path: &Path) -> bool {
    let connected = UnixDatagram::unbound().and_then(|probe| probe.connect(path));
    !connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::find_within;
    use crate::mount_table::MountTable;
    use crate::policy::{ContextMount, SandboxPaths};
    use althing_protocol::ContextAccess;
    use std::os::unix::net::{UnixDatagram, UnixListener};

    #[test]
    fn live_sockets_and_pipes_in_read_only_mounts_are_found_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["ws", "p/a/b", "q", "p/state/s"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let stream = UnixListener::bind(root.join("p/a/b/stream")).unwrap();
        stream.set_nonblocking(true).unwrap();
        let _datagram = UnixDatagram::bind(root.join("p/datagram")).unwrap();
        let _hidden = UnixListener::bind(root.join("p/state/hidden")).unwrap();
        let pipes = ["p/a/pipe", "ws/pipe"].map(|path| root.join(path));
        assert!(std::process::Command::new("mkfifo").args(pipes).status().unwrap().success());
        let _elsewhere = UnixListener::bind(root.join("q/socket")).unwrap();
        drop(UnixListener::bind(root.join("p/dead")).unwrap());
        let mut sandbox_paths = SandboxPaths::new(root.join("ws"), root.join("out"));
        sandbox_paths.context =
            vec![ContextMount { path: root.join("p"), writable: true, protected: Vec::new() }];
        sandbox_paths.state_dir = Some(root.join("p/state"));
        let mounts = MountTable::new(&sandbox_paths.checked().unwrap(), ContextAccess::ReadOnly, &[]);
        let mut found = find_within(&mounts, &[], 100).unwrap();
        found.sort();
        assert_eq!(found, ["p/a/b/stream", "p/a/pipe", "p/datagram"].map(|path| root.join(path)));
        assert!(stream.accept().is_err(), "the search must not connect to a listener");
        assert_eq!(find_within(&mounts, &[root.join("p")], 100), Some(Vec::new()), "installed programs");
        assert_eq!(find_within(&mounts, &[], 3), None, "more entries than are searched");
    }
}
