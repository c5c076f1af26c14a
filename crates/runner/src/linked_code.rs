//! Finds the targets of symlinks that have protected names: if `.envrc` is a symlink to `conf/env.sh`, then writing
//! to `conf/env.sh` changes code that a shell runs.

use crate::git_code::places;
use crate::listing::MAX_ENTRIES;
use crate::protected_paths::{is_repository, matching_row};
use althing_protocol::{PACKAGE_DIRS, RUNS_CODE, RunsCode, SEALED_NAMES, is_name};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const MAX_PATH: usize = 3_500;

/// A path to which a symlink with a protected name leads, or a path on the way there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedCode {
    /// The canonical path, which need not exist, or the path of a symlink on the way.
    pub path: PathBuf,
    /// The row of `RUNS_CODE` of the protected name; `None` if the name is one of `SEALED_NAMES`.
    pub row: Option<&'static RunsCode>,
}

/// The paths inside the `writable` directories to which symlinks lead that have a protected name, or that are inside a
/// protected directory. Repositories are left to [`crate::git_code()`].
pub fn linked_code(writable: &[PathBuf]) -> Vec<LinkedCode> {
    linked_code_within(writable, MAX_ENTRIES)
}

pub(crate) fn linked_code_within(writable: &[PathBuf], max_entries: usize) -> Vec<LinkedCode> {
    let mut roots: Vec<PathBuf> = writable.iter().filter_map(|path| path.canonicalize().ok()).collect();
    roots.sort();
    roots.dedup();
    let mut search = Search { roots: &roots, found: Vec::new(), left: max_entries };
    for root in &roots {
        search.dir(root);
    }
    let mut found = search.found;
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    found
}

struct Search<'a> {
    roots: &'a [PathBuf],
    found: Vec<LinkedCode>,
    left: usize,
}

#[derive(Clone, Copy)]
enum Inside {
    Ordinary,
    Protected(Option<&'static RunsCode>),
}

impl Search<'_> {
    fn dir(&mut self, root: &Path) {
        let mut dirs = VecDeque::from([(root.to_owned(), Inside::Ordinary)]);
        while let Some((dir, inside)) = dirs.pop_front() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let Some(left) = self.left.checked_sub(1) else { return };
                self.left = left;
                let (name, path) = (entry.file_name(), entry.path());
                let Ok(kind) = entry.file_type() else { continue };
                if !(kind.is_dir() || kind.is_symlink()) || is_repository(&path) {
                    continue;
                }
                let within = match inside {
                    Inside::Protected(_) => inside,
                    Inside::Ordinary => protection(&dir, &name),
                };
                if kind.is_symlink() {
                    match within {
                        Inside::Protected(row) => self.add(&path, &path, row),
                        Inside::Ordinary => self.add_rows_below(&dir, &name),
                    }
                    continue;
                }
                let is_left_out = match within {
                    Inside::Protected(None) => true,
                    // A directory that the user named is left out here, because it is searched as a root of its own.
                    Inside::Protected(_) => self.roots.contains(&path),
                    Inside::Ordinary => PACKAGE_DIRS.iter().any(|known| name == *known),
                };
                if !is_left_out && path.as_os_str().len() <= MAX_PATH {
                    dirs.push_back((path, within));
                }
            }
        }
    }

    fn add(&mut self, link: &Path, path: &Path, row: Option<&'static RunsCode>) {
        for path in places(Path::new("/"), path) {
            let is_inside = self.roots.iter().any(|root| path != *root && path.starts_with(root));
            // A directory that the user named is not protected, nor is a directory that contains one.
            let is_around = self.roots.iter().any(|root| root.starts_with(&path));
            if path != link && is_inside && !is_around {
                self.found.push(LinkedCode { path, row });
            }
        }
    }

    /// Adds the files below a symlink that rows of `RUNS_CODE` name: if `.vscode` is a symlink, `.vscode/tasks.json`.
    fn add_rows_below(&mut self, dir: &Path, name: &OsStr) {
        let link = dir.join(name);
        for row in RUNS_CODE.iter().filter(|row| row.protected) {
            for at in 0..row.names.len().saturating_sub(1) {
                let (above, below) = row.names.split_at(at + 1);
                let path = dir.iter().chain([name]).rev();
                let is_here =
                    above.iter().rev().zip(path).filter(|(known, name)| is_name(name, known)).count();
                if is_here == above.len() {
                    let path = below.iter().fold(link.clone(), |path, name| path.join(name));
                    self.add(&link, &path, Some(row));
                }
            }
        }
    }
}

fn protection(dir: &Path, name: &OsStr) -> Inside {
    if SEALED_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Inside::Protected(None);
    }
    let row = matching_row(dir, name).filter(|row| row.protected);
    row.map_or(Inside::Ordinary, |row| Inside::Protected(Some(row)))
}

#[cfg(test)]
mod tests {
    use super::linked_code;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_protected_names_lead_to_is_found_even_if_it_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["p/conf/vscode", "p/scripts", "p/.claude/hooks", "p/named", "p/node_modules/x", "out"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::fs::write(root.join("p/scripts/env.sh"), "").unwrap();
        for (target, link) in [
            ("step", "p/.envrc"),
            ("scripts/env.sh", "p/step"),
            ("conf/vscode", "p/.vscode"),
            ("../../scripts/hook.sh", "p/.claude/hooks/hook.sh"),
            ("conf/secrets", "p/.env"),
            ("named", "p/.cursor"),
            (".", "p/.roo"),
            ("../out", "p/.kiro"),
            ("scripts", "p/plain"),
            ("../../scripts/env.sh", "p/node_modules/x/.envrc"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let found = linked_code(&[root.join("p"), root.join("p/named")]);
        let paths: Vec<_> = found.iter().map(|code| code.path.strip_prefix(&root).unwrap()).collect();
        let vscode = ["extensions", "launch.json", "mcp.json", "settings.json", "tasks.json"];
        let mut expected: Vec<String> = vscode.map(|name| format!("p/conf/vscode/{name}")).to_vec();
        expected
            .extend(["p/conf/secrets", "p/scripts/env.sh", "p/scripts/hook.sh", "p/step"].map(str::to_owned));
        expected.sort();
        assert_eq!(paths, expected.iter().map(std::path::Path::new).collect::<Vec<_>>());
        let row = |name: &str| found.iter().find(|code| code.path.ends_with(name)).unwrap().row;
        assert!(row("env.sh").unwrap().when.contains("direnv") && row("secrets").is_none());
    }
}
