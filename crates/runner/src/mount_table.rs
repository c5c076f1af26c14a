//! What a command can see and change in its sandbox: a list of paths with modes (hidden, read-only, writable), of which
//! the deepest one that contains a path decides. It is made from the agent's grant (`policy.rs`). Bubblewrap, Landlock and Docker translate the same table, so they agree about what an
//! agent may access.

use crate::placeholders::{MissingPath, is_missing, is_placeholder};
use crate::policy::SandboxPaths;
use crate::protected_paths::is_repository;
use althing_protocol::ContextAccess;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The parts of `/etc` that programs need, without secrets and without the machine id.
pub(crate) const ETC: [&str; 24] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];

const MAX_BESIDE_LINK: usize = 200;

/// The modes are ordered from the strictest to the most permissive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MountMode {
    /// An empty directory (bubblewrap, Docker), or files that cannot be accessed (Landlock), except for deeper
    /// mounts.
    Hidden,
    ReadOnly,
    Writable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountRule {
    pub(crate) path: PathBuf,
    pub(crate) mode: MountMode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountTable {
    rules: Vec<MountRule>,
    /// For each protected path that is inside a writable path and does not exist, its outermost missing part. No
    /// command may create this part.
    missing: Vec<MissingPath>,
}

impl MountTable {
    /// `protected_found` lists the protected paths that were found in the writable context paths; those that no
    /// longer exist are ignored.
    pub(crate) fn new(
        sandbox_paths: &SandboxPaths,
        access: ContextAccess,
        protected_found: &[PathBuf],
    ) -> Self {
        let mut modes: BTreeMap<PathBuf, MountMode> = BTreeMap::new();
        for path in &sandbox_paths.readable {
            modes.insert(path.clone(), MountMode::ReadOnly);
        }
        let protected: BTreeSet<&PathBuf> =
            sandbox_paths.context.iter().flat_map(|mount| &mount.protected).collect();
        for mount in &sandbox_paths.context {
            let repositories = protected_found.iter().filter(|path| is_repository(path));
            let in_protected = is_repository(&mount.path)
                || protected.iter().copied().chain(repositories).any(|path| mount.path.starts_with(path));
            let mode =
                if mount.open(access) && !in_protected { MountMode::Writable } else { MountMode::ReadOnly };
            let known = modes.get(&mount.path).copied().unwrap_or(mode);
            // A path that is configured twice as a context path gets the stricter mode. An entry in `readable` does
            // not restrict a context path.
            let twice = sandbox_paths.context.iter().filter(|other| other.path == mount.path).count() > 1;
            modes.insert(mount.path.clone(), if twice { mode.min(known) } else { mode });
        }
        let mut missing = Vec::new();
        for path in protected {
            if mode_at(&modes, path) != Some(MountMode::Writable) {
                continue;
            }
            // A command may have put a symlink in the place of a missing parent. What lies behind it is not the
            // protected path and must not be mounted.
            if let Some(link) = linked_parent(&modes, path) {
                make_link_read_only(&mut modes, &link);
                continue;
            }
            match path.symlink_metadata() {
                Ok(_) if is_placeholder(path) => missing.push(missing_path(sandbox_paths, path)),
                // A command that can change files around a `.git` symlink can change what git does there.
                Ok(data) if data.is_symlink() && is_repository(path) => {
                    make_parent_read_only(&mut modes, path)
                }
                Ok(data) if data.is_symlink() => make_link_read_only(&mut modes, path),
                Ok(_) => make_read_only(&mut modes, path),
                Err(_) => missing.push(missing_path(sandbox_paths, path)),
            }
        }
        let is_link = |path: &&PathBuf| path.symlink_metadata().is_ok_and(|data| data.is_symlink());
        let (links, plain): (Vec<&PathBuf>, Vec<&PathBuf>) = protected_found.iter().partition(is_link);
        // A symlink cannot be mounted over, so its parent directory becomes read-only.
        let around = links.into_iter().filter_map(|link| link.parent());
        for path in around.chain(plain.into_iter().map(PathBuf::as_path)) {
            if mode_at(&modes, path) == Some(MountMode::Writable) && path.exists() && !is_placeholder(path) {
                make_read_only(&mut modes, path);
            }
        }
        missing.sort();
        missing.dedup_by(|next, path| next.path == path.path);
        missing.retain(|missing| mode_at(&modes, &missing.path) == Some(MountMode::Writable));
        if let Some(state) = &sandbox_paths.state_dir
            && mode_at(&modes, state).is_some()
        {
            modes.insert(state.clone(), MountMode::Hidden);
        }
        let own = if sandbox_paths.planning { MountMode::ReadOnly } else { MountMode::Writable };
        modes.insert(sandbox_paths.workspace.clone(), own);
        modes.insert(sandbox_paths.output_dir.clone(), MountMode::ReadOnly);
        let inside = modes.keys().chain(missing.iter().map(|missing| &missing.path));
        let inside: Vec<PathBuf> = inside.cloned().collect();
        for path in inside {
            pin_parents(&mut modes, &path);
        }
        Self { rules: in_order_of_depth(modes), missing }
    }

    /// Makes these paths writable, without searching them for protected paths. Deeper mounts keep their modes.
    pub(crate) fn with_writable(self, paths: impl Iterator<Item = PathBuf>) -> Self {
        let mut modes: BTreeMap<PathBuf, MountMode> =
            self.rules.into_iter().map(|rule| (rule.path, rule.mode)).collect();
        for path in paths {
            modes.insert(path.clone(), MountMode::Writable);
            pin_parents(&mut modes, &path);
        }
        Self { rules: in_order_of_depth(modes), missing: self.missing }
    }

    /// Leaves out paths that are not UTF-8, which some sandboxes cannot name. Unless such a path is writable, the
    /// deepest directory above it that can be named becomes read-only.
    pub(crate) fn with_text_paths(mut self) -> Self {
        let is_text = |path: &Path| path.to_str().is_some();
        let rules = self.rules.iter().filter(|rule| rule.mode != MountMode::Writable).map(|rule| &rule.path);
        let others =
            rules.chain(self.missing.iter().map(|missing| &missing.path)).filter(|path| !is_text(path));
        let above = |path: &PathBuf| path.ancestors().find(|above| is_text(above)).map(Path::to_owned);
        let closed: Vec<PathBuf> = others.filter_map(above).collect();
        self.missing.retain(|missing| is_text(&missing.path) && !closed.contains(&missing.path));
        self.rules.retain(|rule| is_text(&rule.path));
        let mut modes: BTreeMap<PathBuf, MountMode> =
            self.rules.into_iter().map(|rule| (rule.path, rule.mode)).collect();
        for path in &closed {
            make_read_only(&mut modes, path);
        }
        Self { rules: in_order_of_depth(modes), missing: self.missing }
    }

    pub(crate) fn rules(&self) -> &[MountRule] {
        &self.rules
    }

    pub(crate) fn missing(&self) -> &[MissingPath] {
        &self.missing
    }

    pub(crate) fn hidden(&self) -> impl Iterator<Item = &PathBuf> {
        self.rules.iter().filter(|rule| rule.mode == MountMode::Hidden).map(|rule| &rule.path)
    }

    pub(crate) fn mode(&self, path: &Path) -> Option<MountMode> {
        self.rules.iter().rev().find(|rule| path.starts_with(&rule.path)).map(|rule| rule.mode)
    }
}

fn in_order_of_depth(modes: BTreeMap<PathBuf, MountMode>) -> Vec<MountRule> {
    let mut rules: Vec<MountRule> = modes.into_iter().map(|(path, mode)| MountRule { path, mode }).collect();
    rules.sort_by_key(|rule| rule.path.components().count());
    rules
}

fn make_read_only(modes: &mut BTreeMap<PathBuf, MountMode>, path: &Path) {
    modes.insert(path.to_owned(), MountMode::ReadOnly);
}

/// Adds a mount for each directory between a writable mount and a `path` inside it. A mount point cannot be renamed,
/// so no command can move the path away from its rule by renaming a parent, or put a symlink in the parent's place.
fn pin_parents(modes: &mut BTreeMap<PathBuf, MountMode>, path: &Path) {
    let on_the_way: Vec<PathBuf> = path
        .ancestors()
        .skip(1)
        .take_while(|above| !modes.contains_key(*above) && mode_at(modes, above) == Some(MountMode::Writable))
        .filter(|above| above.symlink_metadata().is_ok_and(|data| data.is_dir()))
        .map(Path::to_owned)
        .collect();
    modes.extend(on_the_way.into_iter().map(|above| (above, MountMode::Writable)));
}

fn linked_parent(modes: &BTreeMap<PathBuf, MountMode>, path: &Path) -> Option<PathBuf> {
    let parents = path.ancestors().skip(1).take_while(|above| !modes.contains_key(*above));
    parents.filter(|above| above.is_symlink()).last().map(Path::to_owned)
}

/// The outermost missing directory above `path`, or `path` itself if its parent exists. If only a deeper part were
/// mounted over, a command could rename the directories above it, or put symlinks in their place.
fn missing_path(sandbox_paths: &SandboxPaths, path: &Path) -> MissingPath {
    let missing = path.ancestors().take_while(|above| is_missing(above));
    let outermost = missing.last().unwrap_or(path);
    let is_file = outermost == path && sandbox_paths.protected_files.iter().any(|file| file == path);
    MissingPath { path: outermost.to_owned(), is_file }
}

fn make_parent_read_only(modes: &mut BTreeMap<PathBuf, MountMode>, path: &Path) {
    let around = path.ancestors().skip(1).find(|above| modes.contains_key(*above)).map(Path::to_owned);
    modes.extend(around.map(|above| (above, MountMode::ReadOnly)));
}

/// Makes the directory of a symlink read-only, because a symlink cannot be mounted over and a command could replace
/// it in a writable directory. The other files and directories there stay writable, unless they have a mode of their
/// own or there are more than [`MAX_BESIDE_LINK`] of them.
fn make_link_read_only(modes: &mut BTreeMap<PathBuf, MountMode>, link: &Path) {
    let Some(dir) = link.parent() else { return };
    make_read_only(modes, dir);
    let entries: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_file()))
        .map(|entry| entry.path())
        .take(MAX_BESIDE_LINK + 1)
        .collect();
    if entries.len() <= MAX_BESIDE_LINK {
        for entry in entries {
            modes.entry(entry).or_insert(MountMode::Writable);
        }
    }
}

fn mode_at(modes: &BTreeMap<PathBuf, MountMode>, path: &Path) -> Option<MountMode> {
    path.ancestors().find_map(|above| modes.get(above).copied())
}

#[cfg(test)]
mod tests {
    use super::{MissingPath, MountMode, MountTable};
    use crate::policy::{ContextMount, SandboxPaths};
    use crate::protected_paths::find_protected;
    use althing_protocol::ContextAccess;
    use std::path::{Path, PathBuf};

    fn mount(path: &Path, writable: bool, protected: &[&str]) -> ContextMount {
        ContextMount {
            path: path.to_owned(),
            writable,
            protected: protected.iter().map(PathBuf::from).collect(),
        }
    }

    fn mounts(access: ContextAccess, check: impl Fn(&dyn Fn(&str) -> Option<MountMode>, &MountTable, &Path)) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in [
            "p/.git",
            "p/a/b/locked",
            "p/.state/ws",
            "p/.state/out",
            "p/.state/peers",
            "fresh",
            "p/a/b/locked/in",
        ] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let sandbox_paths = SandboxPaths {
            workspace: root.join("p/.state/ws"),
            readable: vec![root.join("p/.state/peers"), root.join("none")],
            context: vec![
                mount(&root.join("p"), true, &["a/b/../b/locked", "/etc"]),
                mount(&root.join("fresh"), true, &[]),
                mount(&root.join("p/a/b/locked/in"), true, &[]),
                mount(&root.join("none"), true, &[]),
            ],
            state_dir: Some(root.join("p/.state")),
            output_dir: root.join("p/.state/out"),
            planning: false,
            protected_files: Vec::new(),
        };
        let sandbox_paths = sandbox_paths.checked().unwrap();
        let mounts = MountTable::new(&sandbox_paths, access, &find_protected(&sandbox_paths).unwrap());
        check(&|path| mounts.mode(&root.join(path)), &mounts, &root);
    }

    #[test]
    fn the_deepest_mount_decides() {
        mounts(ContextAccess::Writable, |mode, mounts, root| {
            assert_eq!(mode("p/x"), Some(MountMode::Writable));
            assert_eq!(mode("p/a/b/x"), Some(MountMode::Writable));
            assert_eq!(mode("p/.git/hooks/x"), Some(MountMode::ReadOnly));
            assert_eq!(mode("p/a/b/locked/x"), Some(MountMode::ReadOnly));
            assert_eq!(
                mode("p/a/b/locked/in/x"),
                Some(MountMode::ReadOnly),
                "a context path inside a protected path"
            );
            assert_eq!(mode("p/.state/log"), Some(MountMode::Hidden));
            assert_eq!(mode("p/.state/ws/x"), Some(MountMode::Writable));
            assert_eq!(mode("p/.state/peers/x"), Some(MountMode::ReadOnly));
            assert_eq!(mode("p/.state/out/x"), Some(MountMode::ReadOnly));
            assert_eq!(mode("pp/x"), None, "a path with the same prefix");
            assert_eq!(mode("none"), None);
            assert_eq!(mounts.missing(), [MissingPath { path: root.join("fresh/.git"), is_file: false }]);
            let pinned = ["p/a", "p/a/b"].map(|path| root.join(path));
            assert!(
                pinned.iter().all(|path| mounts.rules().iter().any(|rule| rule.path == *path)),
                "{mounts:?}"
            );
        });
    }

    #[test]
    fn parents_of_a_mount_inside_a_writable_one_cannot_be_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["p/s/.state/ws", "p/s/.state/out", "p/n/m/docs", "p/new"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let sandbox_paths = SandboxPaths {
            workspace: root.join("p/s/.state/ws"),
            readable: Vec::new(),
            context: vec![
                mount(&root.join("p"), true, &["new/er/est"]),
                mount(&root.join("p/n/m/docs"), false, &[]),
            ],
            state_dir: Some(root.join("p/s/.state")),
            output_dir: root.join("p/s/.state/out"),
            planning: false,
            protected_files: Vec::new(),
        };
        let sandbox_paths = sandbox_paths.checked().unwrap();
        let mounts = MountTable::new(
            &sandbox_paths,
            ContextAccess::Writable,
            &find_protected(&sandbox_paths).unwrap(),
        );
        for pinned in ["p/s", "p/n", "p/n/m", "p/new"] {
            let rule = mounts.rules().iter().find(|rule| rule.path == root.join(pinned));
            assert_eq!(rule.map(|rule| rule.mode), Some(MountMode::Writable), "{pinned} in {mounts:?}");
        }
        assert_eq!(mounts.mode(&root.join("p/s/.state/log")), Some(MountMode::Hidden));
        assert_eq!(mounts.mode(&root.join("p/n/m/docs/x")), Some(MountMode::ReadOnly));
    }

    #[test]
    fn a_missing_protected_path_is_covered_from_its_first_missing_part_and_never_followed_through_a_symlink()
    {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("p")).unwrap();
        std::fs::create_dir_all(root.join("ws")).unwrap();
        std::fs::write(root.join(".env"), "SECRET").unwrap();
        let mut sandbox_paths = SandboxPaths::new(root.join("ws"), root.join("out"));
        sandbox_paths.context = vec![mount(&root.join("p"), true, &["conf/deep/.env"])];
        let sandbox_paths = sandbox_paths.checked().unwrap();
        let table = || MountTable::new(&sandbox_paths, ContextAccess::Writable, &[]);
        let missing = MissingPath { path: root.join("p/conf"), is_file: false };
        assert!(table().missing().contains(&missing), "{:?}", table());
        // A command has replaced the missing directory with a symlink that leads out.
        std::fs::create_dir(root.join("deep")).unwrap();
        std::fs::rename(root.join(".env"), root.join("deep/.env")).unwrap();
        std::os::unix::fs::symlink("..", root.join("p/conf")).unwrap();
        let table = table();
        assert!(table.rules().iter().all(|rule| !rule.path.ends_with(".env")), "{table:?}");
        assert_eq!(
            table.mode(&root.join("p/conf")),
            Some(MountMode::ReadOnly),
            "the link cannot be replaced"
        );
    }

    #[test]
    fn nothing_on_the_way_to_an_added_place_inside_a_writable_one_can_be_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["p/own/settings", "p/locked", "ws"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let mut sandbox_paths = SandboxPaths::new(root.join("ws"), root.join("out"));
        sandbox_paths.context = vec![mount(&root.join("p"), true, &["locked"])];
        let sandbox_paths = sandbox_paths.checked().unwrap();
        let found = find_protected(&sandbox_paths).unwrap();
        let mounts = MountTable::new(&sandbox_paths, ContextAccess::Writable, &found);
        let mounts = mounts.with_writable([root.join("p/own/settings"), root.join("else/where")].into_iter());
        let rules = |path: &str| mounts.rules().iter().filter(|rule| rule.path == root.join(path)).count();
        assert_eq!(["p", "p/own", "p/own/settings", "else/where", "else"].map(rules), [1, 1, 1, 1, 0]);
        assert_eq!(mounts.mode(&root.join("p/locked/x")), Some(MountMode::ReadOnly));
        let depths: Vec<usize> = mounts.rules().iter().map(|rule| rule.path.components().count()).collect();
        assert!(depths.is_sorted(), "{mounts:?}");
    }

    #[test]
    fn read_only_access_leaves_only_the_workspace_writable() {
        mounts(ContextAccess::ReadOnly, |mode, mounts, root| {
            let writable: Vec<_> =
                mounts.rules().iter().filter(|rule| rule.mode == MountMode::Writable).collect();
            assert_eq!(
                writable.iter().map(|rule| &rule.path).collect::<Vec<_>>(),
                [&root.join("p/.state/ws")]
            );
            assert_eq!(mode("p/x"), Some(MountMode::ReadOnly));
            assert!(mounts.missing().is_empty());
        });
    }

    #[test]
    fn a_protected_symlink_cannot_be_replaced_and_its_target_is_read_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["p/real", "p/sub", "p/other", "outside", "ws"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::fs::write(root.join("p/file"), "").unwrap();
        std::os::unix::fs::symlink("real", root.join("p/inner")).unwrap();
        std::os::unix::fs::symlink(root.join("outside"), root.join("p/sub/outer")).unwrap();
        let mut sandbox_paths = SandboxPaths::new(root.join("ws"), root.join("out"));
        sandbox_paths.context = vec![mount(&root.join("p"), true, &["inner", "sub/outer"])];
        let sandbox_paths = sandbox_paths.checked().unwrap();
        let mounts = MountTable::new(&sandbox_paths, ContextAccess::Writable, &[]);
        let mode = |path: &str| mounts.mode(&root.join(path));
        for read_only in ["p/inner", "p/new", "p/real/x", "p/sub/outer", "p/sub/new"] {
            assert_eq!(mode(read_only), Some(MountMode::ReadOnly), "{read_only}");
        }
        for writable in ["p/file", "p/other/x"] {
            assert_eq!(mode(writable), Some(MountMode::Writable), "{writable}");
        }
        assert_eq!(mode("outside"), None);
    }

    #[test]
    fn a_repository_is_read_only_even_as_a_symlink_or_a_context_path() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["p/sub/.git/hooks", "p/linked", "elsewhere", "other/.git", "ws"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("elsewhere"), root.join("p/linked/.git")).unwrap();
        let mut sandbox_paths = SandboxPaths::new(root.join("ws"), root.join("out"));
        let paths = ["p", "p/sub/.git/hooks", "other/.git"];
        sandbox_paths.context = paths.map(|path| mount(&root.join(path), true, &[])).to_vec();
        let sandbox_paths = sandbox_paths.checked().unwrap();
        let mounts = MountTable::new(
            &sandbox_paths,
            ContextAccess::Writable,
            &find_protected(&sandbox_paths).unwrap(),
        );
        let mode = |path: &str| mounts.mode(&root.join(path));
        assert_eq!(mode("p/linked/x"), Some(MountMode::ReadOnly), "the symlink could be replaced");
        assert_eq!(mode("p/sub/x"), Some(MountMode::Writable));
        assert_eq!(mode("p/sub/.git/config"), Some(MountMode::ReadOnly));
        assert_eq!(mode("p/sub/.git/hooks/x"), Some(MountMode::ReadOnly));
        assert_eq!(mode("other/.git/config"), Some(MountMode::ReadOnly));
    }
}
