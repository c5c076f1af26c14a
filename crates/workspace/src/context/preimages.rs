//! Pre-images: the content of files in context paths before a run changed them, so that the run can be undone. The
//! pre-image of a file is durable before a file tool changes the file; a file that a command changes has a pre-image
//! only if it was stored in advance.

use super::snapshot::ContextSnapshot;
use crate::confine::{ConfinedDir, FileKind, TreeNode};
use crate::manifest::{ManifestEntry, seal, unseal};
use crate::workspace::{Copier, fill_dir, split_path};
use althing_disk::files::{Durability, create_dirs, replace};
use althing_disk::{Disk, DiskError, RealDisk};
use althing_protocol::package_dir;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Which changes an undo must cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoCoverage {
    /// Only Althing's file tools write: each file's pre-image is stored just before the file is changed.
    ToolWrites,
    /// Commands, MCP servers or CLI agents can write, too: all files are stored in advance, as far as the limits
    /// allow.
    Everything,
}

/// What is stored in advance. If all files together exceed a limit, directories of installed packages (such as
/// `node_modules`) are left out. If the other files exceed a limit as well, nothing is stored in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoLimits {
    /// The maximum total size of the files, in bytes.
    pub bytes: u64,
    /// The maximum number of files.
    pub files: u64,
}

impl Default for UndoLimits {
    fn default() -> Self {
        Self { bytes: 512 << 20, files: 50_000 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Coverage {
    Everything,
    ToolWrites,
    /// Directories of installed packages are left out, because with them a limit is exceeded.
    WithoutPackages {
        bytes: u64,
        files: u64,
    },
    /// The files exceed the limits even without packages: only changes by file tools are covered.
    TooLarge {
        bytes: u64,
        files: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Preimages {
    pub dir: PathBuf,
}

impl Preimages {
    pub(crate) fn of(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("preimages") }
    }

    fn io(&self, doing: &'static str) -> impl FnOnce(io::Error) -> DiskError {
        DiskError::io(doing, &self.dir)
    }

    pub(crate) fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<(), DiskError> {
        let bytes = seal(value).map_err(io::Error::from).map_err(self.io("write to"))?;
        replace(&RealDisk, &self.dir, name, &bytes, Durability::Synced)
    }

    /// `None` if the record does not exist. Damage is an error: a guess could undo the wrong change.
    pub(crate) fn read<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<Option<T>, DiskError> {
        let path = self.dir.join(name);
        match RealDisk.read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(DiskError::io("read", &path)(e)),
            Ok(bytes) => {
                let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
                unseal(&bytes).map(Some).ok_or_else(damaged).map_err(DiskError::io("read", &path))
            }
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.dir.join(name).exists()
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        let here = ConfinedDir::open(&self.dir)?;
        for name in names.iter().filter(|name| self.has(name)) {
            here.remove_file(OsStr::new(name))?;
            rustix::fs::fsync(here.reopen_readable()?)?;
        }
        Ok(())
    }

    /// Continues after an interruption: the first recorded state is the one that counts.
    pub(crate) fn begin(
        &self,
        take: impl FnOnce() -> Result<ContextSnapshot, DiskError>,
        coverage: UndoCoverage,
        limits: UndoLimits,
    ) -> Result<(ContextSnapshot, Coverage), DiskError> {
        create_dirs(&RealDisk, &self.dir, Durability::Synced)?;
        // If the run writes again, what was listed and undone earlier is not everything any more.
        self.remove(&["after", "undone", "undo"]).map_err(self.io("clear"))?;
        let before = if let Some(before) = self.read::<ContextSnapshot>("before")? {
            before
        } else {
            let before = take()?;
            self.write("before", &before)?;
            before
        };
        if let Some(cover) = self.read::<Coverage>("cover")? {
            return Ok((before, cover));
        }
        // No agent could write yet, so the tree contains at most the start of an interrupted copy.
        let here = ConfinedDir::open(&self.dir).map_err(self.io("open the directory"))?;
        here.remove_tree(OsStr::new("tree")).map_err(self.io("clear"))?;
        let tree = here.make_dir(OsStr::new("tree"), 0o700).map_err(self.io("create a directory in"))?;
        let cover = match coverage {
            UndoCoverage::ToolWrites => Coverage::ToolWrites,
            UndoCoverage::Everything => {
                let copied = copy_all(&tree, &before, limits);
                if copied.is_err() {
                    // The partial copy may have filled the disk.
                    let _ = here.remove_tree(OsStr::new("tree"));
                }
                copied.map_err(self.io("store pre-images in"))?
            }
        };
        self.write("cover", &cover)?;
        Ok((before, cover))
    }

    pub(crate) fn tree(&self, root: usize) -> io::Result<ConfinedDir> {
        let tree = ConfinedDir::open(&self.dir)?.open_dir(OsStr::new("tree"))?;
        tree.make_dir(OsStr::new(&root.to_string()), 0o700)
    }

    pub(crate) fn find(&self, root: usize, path: &Path) -> Option<(ConfinedDir, FileKind)> {
        let (above, name) = split_path(path);
        let dir = self.tree(root).ok()?.open_dir_path(above).ok()?;
        let kind = dir.stat(name).ok()??.kind;
        Some((dir, kind))
    }

    pub(crate) fn forget(&self, root: usize, path: &Path) -> io::Result<()> {
        match self.find(root, path) {
            Some((dir, _)) => dir.remove_tree(split_path(path).1),
            None => Ok(()),
        }
    }

    /// Syncs the pre-image and the directory that contains it. Does nothing if there already is a pre-image.
    pub(crate) fn store_one(&self, root: usize, path: &Path, from: &ConfinedDir) -> io::Result<()> {
        if self.find(root, path).is_some() {
            return Ok(());
        }
        let (above, name) = split_path(path);
        let mut dir = self.tree(root)?;
        for part in above.components() {
            dir = dir.make_dir(part.as_os_str(), 0o700)?;
        }
        match from.stat(name)?.map(|found| found.kind) {
            Some(FileKind::Link) => dir.symlink(&from.read_link(name)?, name)?,
            Some(FileKind::File) => {
                // The copy gets its final name only when it is complete.
                let aside = ConfinedDir::open(&self.dir)?.make_dir(OsStr::new("aside"), 0o700)?;
                aside.remove_tree(name)?;
                let copied = Copier::default().copy(from, name, &aside, &mut Vec::new())?;
                copied.ok_or(io::ErrorKind::NotFound)?;
                aside.open_file(name)?.0.sync_data()?;
                rustix::fs::renameat(&aside, name, &dir, name)?;
            }
            Some(FileKind::Dir | FileKind::Special) => return Err(io::Error::other("not a file")),
            None => return Ok(()),
        }
        Ok(rustix::fs::fsync(dir.reopen_readable()?)?)
    }
}

fn copy_all(tree: &ConfinedDir, before: &ContextSnapshot, limits: UndoLimits) -> io::Result<Coverage> {
    let is_file = |entry: &&ManifestEntry| entry.kind == FileKind::File;
    let in_packages = |entry: &ManifestEntry| package_dir(&entry.path).is_some();
    let files = || before.roots.iter().flat_map(|root| &root.entries).filter(is_file);
    let totals = |files: &mut dyn Iterator<Item = &ManifestEntry>| {
        files.fold((0, 0_u64), |(count, bytes), entry| (count + 1, bytes.saturating_add(entry.stamp.size)))
    };
    let fits = |(count, bytes): (u64, u64)| count <= limits.files && bytes <= limits.bytes;
    let (all, packages) = (totals(&mut files()), totals(&mut files().filter(|entry| in_packages(entry))));
    let others = (all.0 - packages.0, all.1.saturating_sub(packages.1));
    let coverage = if fits(all) {
        Coverage::Everything
    } else if fits(others) {
        Coverage::WithoutPackages { bytes: packages.1, files: packages.0 }
    } else {
        return Ok(Coverage::TooLarge { bytes: all.1, files: all.0 });
    };
    let copier = Copier::default();
    for (n, root) in before.roots.iter().enumerate() {
        let target = tree.make_dir(OsStr::new(&n.to_string()), 0o700)?;
        let node = |entry: &ManifestEntry| TreeNode {
            path: entry.path.clone(),
            found: crate::confine::FileStat {
                kind: entry.kind,
                stamp: entry.stamp,
                mode: entry.mode,
                links: 1,
            },
        };
        let stored =
            root.entries.iter().filter(|entry| coverage == Coverage::Everything || !in_packages(entry));
        let nodes: Vec<TreeNode> = stored.map(node).collect();
        fill_dir(&root.open()?, &target, &nodes, &|node, name, from, to, buffer| match node.found.kind {
            FileKind::Link => from.read_link(name).and_then(|text| to.symlink(&text, name)),
            FileKind::File => copier.copy(from, name, to, buffer).map(drop),
            FileKind::Dir | FileKind::Special => Ok(()),
        })?;
    }
    // One sync for the whole file system instead of one per file.
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(tree.reopen_readable()?)?;
    Ok(coverage)
}
