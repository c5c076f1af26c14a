//! The places inside writable context paths that run code later, found where they are: repositories and the other
//! protected rows of `RUNS_CODE`.
//!
//! A sandbox can only protect what it can name, so the writable context paths are walked once before they are opened. The
//! walk is bounded. What it cannot look at is protected as a whole or refused, never left open.

use crate::policy::{ContextMount, PolicyError, SandboxPaths};
use althing_protocol::{GIT_DIR, RUNS_CODE};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// More entries than any project that people work in by hand.
const MAX_ENTRIES: usize = 2_000_000;
/// Each place is a mount of its own.
const MAX_PROTECTED: usize = 1_000;
/// Directories of installed packages: large, and remade by their tools. File tools never write there.
const SKIPPED: [&str; 6] = ["node_modules", "__pycache__", ".venv", "venv", ".tox", ".cache"];

/// The protected places that exist in the writable context paths of a checked reach.
pub(crate) fn find_protected(sandbox_paths: &SandboxPaths) -> Result<Vec<PathBuf>, PolicyError> {
    find_within(sandbox_paths, MAX_ENTRIES, MAX_PROTECTED)
}

fn find_within(
    sandbox_paths: &SandboxPaths,
    max_entries: usize,
    max_protected: usize,
) -> Result<Vec<PathBuf>, PolicyError> {
    let mut walk = ProtectedWalk { sandbox_paths, found: Vec::new(), entries: 0, max_entries, max_protected };
    for mount in sandbox_paths.context.iter().filter(|mount| mount.writable && mount.path.is_dir()) {
        walk.root(&mount.path)?;
    }
    walk.found.sort();
    walk.found.dedup();
    Ok(walk.found)
}

struct ProtectedWalk<'a> {
    sandbox_paths: &'a SandboxPaths,
    found: Vec<PathBuf>,
    entries: usize,
    max_entries: usize,
    max_protected: usize,
}

impl ProtectedWalk<'_> {
    fn root(&mut self, root: &Path) -> Result<(), PolicyError> {
        let mut dirs = vec![root.to_owned()];
        while let Some(dir) = dirs.pop() {
            let Ok(entries) = std::fs::read_dir(&dir) else {
                // Its owner could open it again from inside.
                self.found.push(dir);
                continue;
            };
            let below = dir.strip_prefix(root).unwrap_or(Path::new("")).to_owned();
            for entry in entries {
                self.entries += 1;
                if self.entries > self.max_entries {
                    return Err(PolicyError::TooLarge { path: root.to_owned(), limit: self.max_entries });
                }
                let entry = entry.map_err(|source| PolicyError::Unusable {
                    what: "a context path",
                    path: dir.clone(),
                    source,
                })?;
                let (name, path) = (entry.file_name(), dir.join(entry.file_name()));
                let kind = entry.file_type().map_err(|source| PolicyError::Unusable {
                    what: "a context path",
                    path: path.clone(),
                    source,
                })?;
                if is_protected(&below, &name) {
                    self.add_found(root, path, kind.is_symlink());
                    if self.found.len() > self.max_protected {
                        let (path, limit) = (root.to_owned(), self.max_protected);
                        return Err(PolicyError::TooManyProtected { path, limit });
                    }
                } else if kind.is_dir() && self.is_walked(&path, &name) {
                    dirs.push(path);
                }
            }
        }
        Ok(())
    }

    fn is_walked(&self, path: &Path, name: &OsStr) -> bool {
        let is = |other: &PathBuf| other == path;
        !SKIPPED.iter().any(|known| name == *known)
            && !self.sandbox_paths.state_dir.as_ref().is_some_and(is)
            && !is(&self.sandbox_paths.workspace)
    }

    fn add_found(&mut self, root: &Path, path: PathBuf, is_link: bool) {
        let is_repository = is_repository(&path);
        // A deeper context path decides: the user named it, and its own walk judges what is in it.
        let deeper =
            |mount: &&ContextMount| mount.writable && mount.path != root && mount.path.starts_with(root);
        let named =
            self.sandbox_paths.context.iter().filter(deeper).any(|mount| path.starts_with(&mount.path));
        // A link cannot be covered, and closing the directory around it would close a whole project for an `.envrc`.
        if is_repository || !(named || is_link) {
            self.found.push(path);
        }
    }
}

/// Whether a path is a repository's own directory or file.
pub(crate) fn is_repository(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(GIT_DIR))
}

/// Whether an entry of the directory `below` a context path is the last name of a protected row.
fn is_protected(below: &Path, name: &OsStr) -> bool {
    RUNS_CODE.iter().filter(|row| row.protected).any(|row| {
        let mut above = row.names.iter().rev();
        let mut parents = below.iter().rev();
        above.next().is_some_and(|last| name.eq_ignore_ascii_case(last))
            && above.all(|known| parents.next().is_some_and(|name| name.eq_ignore_ascii_case(known)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox_paths(root: &Path, files: &[&str], context: &[&str]) -> SandboxPaths {
        for file in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::create_dir_all(root.join("ws")).unwrap();
        let mount =
            |path: &&str| ContextMount { path: root.join(path), writable: true, protected: Vec::new() };
        let mut sandbox_paths = SandboxPaths::new(root.join("ws"), root.join("out"));
        sandbox_paths.context = context.iter().map(mount).collect();
        sandbox_paths.checked().unwrap()
    }

    #[test]
    fn repositories_and_files_that_run_code_are_found_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let files = [
            "p/.git/config",
            "p/sub/deep/.git/hooks/pre-commit",
            "p/module/.git",
            "p/.envrc",
            "p/a/.vscode/tasks.json",
            "p/a/.vscode/extensions.json",
            "p/tasks.json",
            "p/node_modules/x/.git/config",
            "p/.claude/settings.json",
            "p/src/main.rs",
        ];
        let sandbox_paths = sandbox_paths(&root, &files, &["p", "p/.envrc"]);
        let found = find_protected(&sandbox_paths).unwrap();
        let expected = [".claude", ".git", "a/.vscode/tasks.json", "module/.git", "sub/deep/.git"];
        assert_eq!(found, expected.map(|path| root.join("p").join(path)), "`.envrc` was named by the user");
    }

    #[test]
    fn a_context_path_that_is_too_large_to_search_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let sandbox_paths = sandbox_paths(&root, &["p/a", "p/b", "p/x/.git", "p/y/.git"], &["p"]);
        assert!(matches!(find_within(&sandbox_paths, 3, 10), Err(PolicyError::TooLarge { .. })));
        assert!(matches!(find_within(&sandbox_paths, 10, 1), Err(PolicyError::TooManyProtected { .. })));
        assert!(find_within(&sandbox_paths, 10, 10).is_ok());
    }
}
