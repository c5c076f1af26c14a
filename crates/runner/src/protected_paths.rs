//! Finds the paths inside writable context paths that commands must not write to: repositories and the other
//! protected rows of `RUNS_CODE`, `SEALED_NAMES`, and files with hard links elsewhere.
//!
//! A directory that cannot be read, or whose path is too long, is protected as a whole. A context path with too many
//! entries or protected paths is refused.

use crate::listing::MAX_ENTRIES;
use crate::policy::{ContextMount, PolicyError, SandboxPaths};
use crate::repositories::{git_dirs_of, is_git_dir};
use althing_protocol::{GIT_DIR, PACKAGE_DIRS, RUNS_CODE, RunsCode, SEALED_NAMES, is_name, package_dir};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::FileType;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const MAX_PROTECTED: usize = 1_000;
/// The longest path that is searched, in bytes. The kernel accepts 4,096, and a name has up to 255.
const MAX_PATH: usize = 3_500;
/// If a directory has more files with hard links elsewhere, the whole directory is protected.
const MAX_LINKED_FILES: usize = 8;

/// `sandbox_paths` must come from [`SandboxPaths::checked`]. The protected paths that the config names
/// ([`ContextMount::protected`]) are not added to the result.
pub(crate) fn find_protected(sandbox_paths: &SandboxPaths) -> Result<Vec<PathBuf>, PolicyError> {
    find_within(sandbox_paths, MAX_ENTRIES, MAX_PROTECTED)
}

fn find_within(
    sandbox_paths: &SandboxPaths,
    max_entries: usize,
    max_protected: usize,
) -> Result<Vec<PathBuf>, PolicyError> {
    let mut walk = ProtectedWalk {
        sandbox_paths,
        found: Vec::new(),
        linked: HashMap::new(),
        entries: 0,
        max_entries,
        max_protected,
    };
    let writable = || sandbox_paths.context.iter().filter(|mount| mount.writable);
    for mount in writable() {
        if mount.path.is_dir() {
            walk.root(&mount.path)?;
        } else {
            walk.add_links(&mount.path);
        }
    }
    let linked = walk.linked_elsewhere();
    walk.found.extend(linked);
    walk.found.sort();
    walk.found.dedup();
    match writable().next() {
        Some(mount) if walk.found.len() > max_protected => {
            Err(PolicyError::TooManyProtected { path: mount.path.clone(), limit: max_protected })
        }
        _ => Ok(walk.found),
    }
}

struct LinkedFile {
    links: u64,
    paths: Vec<PathBuf>,
}

struct ProtectedWalk<'a> {
    sandbox_paths: &'a SandboxPaths,
    found: Vec<PathBuf>,
    linked: HashMap<(u64, u64), LinkedFile>,
    entries: usize,
    max_entries: usize,
    max_protected: usize,
}

impl ProtectedWalk<'_> {
    fn root(&mut self, root: &Path) -> Result<(), PolicyError> {
        let mut dirs = vec![root.to_owned()];
        while let Some(dir) = dirs.pop() {
            let Some(names) = self.list(root, &dir)? else {
                // If the user owns the directory, a command could make it readable.
                self.found.push(dir);
                continue;
            };
            if is_git_dir(&names) {
                self.found.push(dir);
                continue;
            }
            let below = dir.strip_prefix(root).unwrap_or(Path::new(""));
            let in_packages = package_dir(below).is_some();
            for (name, kind) in names {
                let path = dir.join(&name);
                let is_repository = is_repository(&path);
                if is_repository || is_protected(&dir, &name, in_packages) {
                    if is_repository && kind.is_file() {
                        let mut targets = git_dirs_of(&path);
                        targets.retain(|target| self.is_writable(target));
                        self.found.append(&mut targets);
                    }
                    self.add_found(root, path, kind.is_symlink());
                    if self.found.len() > self.max_protected {
                        let (path, limit) = (root.to_owned(), self.max_protected);
                        return Err(PolicyError::TooManyProtected { path, limit });
                    }
                } else if kind.is_dir() && path.as_os_str().len() > MAX_PATH {
                    self.found.push(path);
                } else if kind.is_dir() && self.is_walked(&path) {
                    dirs.push(path);
                } else if kind.is_file() {
                    self.add_links(&path);
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, root: &Path, dir: &Path) -> Result<Option<Vec<(OsString, FileType)>>, PolicyError> {
        let Ok(entries) = std::fs::read_dir(dir) else { return Ok(None) };
        let unusable =
            |source| PolicyError::Unusable { what: "a context path", path: dir.to_owned(), source };
        let mut names = Vec::new();
        for entry in entries {
            self.entries += 1;
            if self.entries > self.max_entries {
                return Err(PolicyError::TooLarge { path: root.to_owned(), limit: self.max_entries });
            }
            let entry = entry.map_err(unusable)?;
            let kind = entry.file_type().map_err(|source| PolicyError::Unusable {
                what: "a context path",
                path: entry.path(),
                source,
            })?;
            names.push((entry.file_name(), kind));
        }
        Ok(Some(names))
    }

    fn is_walked(&self, path: &Path) -> bool {
        let is = |other: &PathBuf| other == path;
        !self.sandbox_paths.state_dir.as_ref().is_some_and(is) && !is(&self.sandbox_paths.workspace)
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.sandbox_paths.context.iter().any(|mount| mount.writable && path.starts_with(&mount.path))
    }

    fn add_found(&mut self, root: &Path, path: PathBuf, is_link: bool) {
        let is_repository = is_repository(&path);
        // What the user named as a writable context path of its own stays writable, unless it is a `.git`. Paths inside
        // it are left to its own walk.
        let deeper =
            |mount: &&ContextMount| mount.writable && mount.path != root && mount.path.starts_with(root);
        let named =
            self.sandbox_paths.context.iter().filter(deeper).any(|mount| path.starts_with(&mount.path));
        // A symlink cannot be mounted over, and making its parent read-only would block a whole project because of
        // one `.envrc`. So a symlink is protected only if it is a `.git`.
        if is_repository || !(named || is_link) {
            self.found.push(path);
        }
    }

    fn add_links(&mut self, path: &Path) {
        let Ok(data) = path.symlink_metadata() else { return };
        if data.is_file() && data.nlink() > 1 {
            let known = self.linked.entry((data.dev(), data.ino()));
            let known = known.or_insert_with(|| LinkedFile { links: data.nlink(), paths: Vec::new() });
            // Nested context paths are walked twice, so the path may be known already.
            if !known.paths.iter().any(|other| other == path) {
                known.paths.push(path.to_owned());
            }
        }
    }

    /// Whether commands can write to this name of a file: no configured protected path contains it, and the deepest
    /// context path that contains it is writable.
    fn is_open(&self, name: &Path) -> bool {
        let mounts = || self.sandbox_paths.context.iter().filter(|mount| name.starts_with(&mount.path));
        let is_protected = mounts().any(|mount| mount.protected.iter().any(|path| name.starts_with(path)));
        let deepest = mounts().max_by_key(|mount| mount.path.as_os_str().len());
        !is_protected && deepest.is_some_and(|mount| mount.writable)
    }

    /// Files with more hard links than names to which commands can write: a write would also change a file elsewhere.
    /// Such a file is protected alone. But a directory of packages that contains such a file (package managers link the
    /// whole directory), and a directory with more than [`MAX_LINKED_FILES`] such files, are protected as a whole.
    fn linked_elsewhere(&self) -> Vec<PathBuf> {
        let open = |file: &&LinkedFile| file.paths.iter().filter(|path| self.is_open(path)).count() as u64;
        let outside = self.linked.values().filter(|file| open(file) < file.links);
        let mut by_dir: BTreeMap<PathBuf, Vec<PathBuf>> = BTreeMap::new();
        for path in outside.flat_map(|file| &file.paths) {
            let root = self.sandbox_paths.context.iter().map(|mount| &mount.path);
            let root = root.filter(|root| path.starts_with(root)).max_by_key(|root| root.as_os_str().len());
            let below = root.and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path);
            let packages = package_dir(below.parent().unwrap_or(below));
            let dir = match (root, packages) {
                (Some(root), _) if root == path => path.clone(),
                (Some(root), Some(packages)) => root.join(packages),
                _ => path.parent().unwrap_or(path).to_owned(),
            };
            by_dir.entry(dir).or_default().push(path.clone());
        }
        let is_packages =
            |dir: &Path| dir.file_name().is_some_and(|name| PACKAGE_DIRS.iter().any(|known| name == *known));
        let protect = |(dir, files): (PathBuf, Vec<PathBuf>)| {
            let whole = is_packages(&dir) || files.len() > MAX_LINKED_FILES;
            if whole { vec![dir] } else { files }
        };
        by_dir.into_iter().flat_map(protect).collect()
    }
}

/// Case is ignored, because some file systems ignore it.
pub(crate) fn is_repository(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(GIT_DIR))
}

/// Inside directories of packages and caches, only the rows that contain the name of such a directory count
/// (`.cache/opencode`), because packages contain many unused settings of editors.
fn is_protected(dir: &Path, name: &OsStr, in_packages: bool) -> bool {
    let sealed = || SEALED_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    let of_packages = |row: &RunsCode| row.names.iter().any(|name| PACKAGE_DIRS.contains(name));
    let row = || matching_row(dir, name).filter(|row| row.protected);
    if in_packages { row().is_some_and(of_packages) } else { sealed() || row().is_some() }
}

/// The rows of `RUNS_CODE`, in their order: a search compares every entry with them.
struct ByLastName {
    /// By last name in lower case, each with all rows whose last name is a pattern.
    rows: HashMap<Vec<u8>, Vec<&'static RunsCode>>,
    patterns: Vec<&'static RunsCode>,
}

static BY_LAST_NAME: LazyLock<ByLastName> = LazyLock::new(|| {
    let last = |row: &RunsCode| row.names.last().copied().unwrap_or_default();
    let is_pattern = |row: &RunsCode| last(row).starts_with('*');
    let names = RUNS_CODE.iter().filter(|row| !is_pattern(row)).map(|row| last(row).to_ascii_lowercase());
    let rows_of = |name: String| {
        let may_match = |row: &&RunsCode| is_pattern(row) || last(row).eq_ignore_ascii_case(&name);
        let rows = RUNS_CODE.iter().filter(may_match).collect();
        (name.into_bytes(), rows)
    };
    ByLastName {
        rows: names.map(rows_of).collect(),
        patterns: RUNS_CODE.iter().filter(|row| is_pattern(row)).collect(),
    }
});

/// The first row of `RUNS_CODE` whose last name is `name` and whose other names are the last ones of the path `dir`.
/// These may belong to the context path itself or to directories above it: in the context path `~/.config`, `fish` is
/// protected.
pub(crate) fn matching_row(dir: &Path, name: &OsStr) -> Option<&'static RunsCode> {
    let name_in_lower_case = name.as_bytes().to_ascii_lowercase();
    let rows = BY_LAST_NAME.rows.get(&name_in_lower_case).unwrap_or(&BY_LAST_NAME.patterns);
    rows.iter().copied().find(|row| {
        let mut above = row.names.iter().rev();
        let mut parents = dir.iter().rev();
        above.next().is_some_and(|last| is_name(name, last))
            && above.all(|known| parents.next().is_some_and(|name| is_name(name, known)))
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
            "p/node_modules/x/.vscode/tasks.json",
            "p/.env",
            "p/sub/.althing/config.yaml",
            "p/.claude/settings.json",
            "p/src/main.rs",
        ];
        let sandbox_paths = sandbox_paths(&root, &files, &["p", "p/.envrc"]);
        let found = find_protected(&sandbox_paths).unwrap();
        let expected = [
            ".claude",
            ".env",
            ".git",
            "a/.vscode/tasks.json",
            "module/.git",
            "node_modules/x/.git",
            "sub/.althing",
            "sub/deep/.git",
        ];
        assert_eq!(found, expected.map(|path| root.join("p").join(path)), "`.envrc` was named by the user");
    }

    #[test]
    fn every_protected_row_of_the_table_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let rows: Vec<String> =
            RUNS_CODE.iter().filter(|row| row.protected).map(|row| row.names.join("/")).collect();
        assert!(rows.iter().all(|row| !row.contains('*')));
        let files: Vec<String> = rows.iter().map(|path| format!("p/sub/{path}")).collect();
        let sandbox_paths =
            sandbox_paths(&root, &files.iter().map(String::as_str).collect::<Vec<_>>(), &["p"]);
        let mut expected: Vec<PathBuf> = files.iter().map(|path| root.join(path)).collect();
        expected.sort();
        assert_eq!(find_protected(&sandbox_paths).unwrap(), expected);
    }

    #[test]
    fn the_name_of_the_context_path_itself_counts_for_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let files = [".config/fish/config.fish", ".config/x", ".vscode/tasks.json", ".vscode/sub/tasks.json"];
        let sandbox_paths = sandbox_paths(&root, &files, &[".config", ".vscode"]);
        let expected = [".config/fish", ".vscode/tasks.json"].map(|path| root.join(path));
        assert_eq!(find_protected(&sandbox_paths).unwrap(), expected);
    }

    #[test]
    fn repositories_without_the_usual_name_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let bare = |name: &str| {
            ["HEAD", "objects/x", "refs/x", "worktrees/tree/HEAD"].map(|file| format!("{name}/{file}"))
        };
        let files: Vec<String> = bare("p/store.git")
            .into_iter()
            .chain(bare("p/.bare"))
            .chain(["p/tree/file".to_owned()])
            .collect();
        let sandbox_paths =
            sandbox_paths(&root, &files.iter().map(String::as_str).collect::<Vec<_>>(), &["p"]);
        std::fs::write(root.join("p/tree/.git"), "gitdir: ../split\n").unwrap();
        std::fs::create_dir(root.join("p/split")).unwrap();
        std::fs::write(root.join("p/split/commondir"), "../shared\n").unwrap();
        std::fs::create_dir(root.join("p/shared")).unwrap();
        let found = find_protected(&sandbox_paths).unwrap();
        let expected = [".bare", "shared", "split", "store.git", "tree/.git"];
        assert_eq!(found, expected.map(|path| root.join("p").join(path)));
    }

    #[test]
    fn files_with_hard_links_elsewhere_are_found_and_packages_are_protected_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let sandbox_paths = sandbox_paths(
            &root,
            &["p/own", "p/sub/plain", "p/web/node_modules/a/index.js", "p/many/x", "single", "out/one"],
            &["p", "single"],
        );
        let link = |from: &str, to: &str| std::fs::hard_link(root.join(from), root.join(to)).unwrap();
        link("p/own", "p/sub/own-again");
        link("out/one", "p/sub/one");
        link("out/one", "p/web/node_modules/a/one.js");
        link("single", "out/single");
        for n in 0..=MAX_LINKED_FILES {
            std::fs::write(root.join(format!("out/{n}")), "").unwrap();
            link(&format!("out/{n}"), &format!("p/many/{n}"));
        }
        let found = find_protected(&sandbox_paths).unwrap();
        let expected = ["p/many", "p/sub/one", "p/web/node_modules", "single"];
        assert_eq!(found, expected.map(|path| root.join(path)));
    }

    #[test]
    fn a_second_name_of_a_file_that_commands_may_not_write_to_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut sandbox_paths =
            sandbox_paths(&root, &["p/vendor/locked/x", "p/docs/d", "p/plain"], &["p", "p/docs"]);
        sandbox_paths.context[0].protected = vec![root.join("p/vendor/locked")];
        sandbox_paths.context[1].writable = false;
        for (from, to) in [("p/vendor/locked/x", "p/x"), ("p/docs/d", "p/d"), ("p/plain", "p/plain-again")] {
            std::fs::hard_link(root.join(from), root.join(to)).unwrap();
        }
        let found = find_protected(&sandbox_paths).unwrap();
        for name in ["p/x", "p/d"] {
            assert!(found.contains(&root.join(name)), "{name}: {found:?}");
        }
        assert!(!found.contains(&root.join("p/plain")), "{found:?}");
    }

    #[test]
    fn a_directory_that_is_nested_too_deeply_for_a_mount_is_protected_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let sandbox_paths = sandbox_paths(&root, &["p/file"], &["p"]);
        let mut at =
            rustix::fs::open(root.join("p"), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
                .unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
                .unwrap();
        }
        let started = std::time::Instant::now();
        let found = find_protected(&sandbox_paths).unwrap();
        assert!(started.elapsed() < std::time::Duration::from_secs(90), "{:?}", started.elapsed());
        assert_eq!(found.len(), 1);
        let length = found[0].as_os_str().len();
        assert!((MAX_PATH..MAX_PATH + 256).contains(&length), "{length}");
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
