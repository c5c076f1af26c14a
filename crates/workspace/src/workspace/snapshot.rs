//! Takes a snapshot of a workspace for an answer. Unchanged files are hard links to the agent's earlier snapshot;
//! other files are copied. The snapshot is built under a temporary name, so a partial snapshot is never visible.

use super::copy::{Copier, CopyResult, fill_dir, make_dirs_read_only, split_path};
use super::manifest_files::{
    SnapshotSummary, fingerprint, manifest_file_names, read_sealed, write_manifest_files,
};
use super::{TEMP_PREFIX, Workspace};
use crate::confine::{CLOCK_TICK, ConfinedDir, FileKind, FileStat, MAX_PATH, TreeNode, TreeWalk, WalkStep};
use crate::digest::{ComparedFile, digest};
use crate::manifest::ManifestEntry;
use crate::sparse::{CopyBudget, CopyLimits, limit_error, size_text};
use althing_disk::{DiskError, has_reliable_stamps};
use althing_protocol::AnswerLabel;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The maximum total length of all paths in a snapshot, in bytes; it limits the memory used.
const MAX_PATH_BYTES: usize = 512 << 20;

/// All snapshots of an agent in a run together may contain this many times the agent's disk limit.
const MAX_TOTAL: u64 = 2;

/// A larger file whose stamp does not say whether it changed is copied again, and not compared.
const MAX_COMPARED: u64 = 64 << 20;

/// A stored snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceSnapshot {
    /// The directory of the snapshot.
    pub path: PathBuf,
    /// The number of copied files.
    pub copied: u64,
    /// The number of files shared with an earlier snapshot.
    pub shared: u64,
    /// Files that were left out or changed during the copy, and links that lead out of the workspace.
    pub issues: Vec<SnapshotIssue>,
}

/// An issue with a file of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotIssue {
    /// A link that leads out of the workspace; stored as a link, not followed.
    LinkOutside(PathBuf),
    /// A file with a hard link outside the workspace; left out, because it may belong to somebody else.
    HardLink(PathBuf),
    /// A pipe, socket or device; left out.
    Special(PathBuf),
    /// A file that changed during the copy; its content may mix several states.
    Changing(PathBuf),
}

struct EarlierSnapshot {
    dir: ConfinedDir,
    label: AnswerLabel,
    summary: SnapshotSummary,
}

struct EarlierManifest {
    dir: ConfinedDir,
    entries: HashMap<PathBuf, ManifestEntry>,
}

struct SnapshotWork<'w> {
    before: Option<&'w EarlierManifest>,
    target: &'w ConfinedDir,
    /// Copied files that have several names in the workspace, by device and inode.
    linked: Mutex<HashMap<(u64, u64), PathBuf>>,
    started: i64,
    /// Whether every change of a file in the workspace leaves another stamp.
    are_stamps_reliable: bool,
    copier: Copier,
    compared: CopyBudget,
    copied: AtomicU64,
    shared: AtomicU64,
    entries: Mutex<Vec<ManifestEntry>>,
    issues: Mutex<Vec<SnapshotIssue>>,
}

impl Workspace {
    /// Stores a snapshot for an answer. An existing snapshot of that label is not changed.
    pub fn take_snapshot(&self, label: AnswerLabel) -> Result<WorkspaceSnapshot, DiskError> {
        let path = self.snapshot_dir(label);
        self.snapshot_in(label).map_err(DiskError::io("store a snapshot of the workspace in", &path))
    }

    fn snapshot_in(&self, label: AnswerLabel) -> io::Result<WorkspaceSnapshot> {
        let snapshots = ConfinedDir::open(&self.snapshots_dir())?;
        let name = OsString::from(label.to_string());
        if snapshots.stat(&name)?.is_some() {
            let path = self.snapshot_dir(label);
            return Ok(WorkspaceSnapshot { path, copied: 0, shared: 0, issues: Vec::new() });
        }
        let temporary = OsString::from(format!("{TEMP_PREFIX}{label}"));
        snapshots.remove_tree(&temporary)?;
        let built = self.build_snapshot(label, &snapshots, &temporary, &name);
        if built.is_err() {
            // A failed snapshot may have filled the disk.
            let _ = snapshots.remove_tree(&temporary);
        }
        built
    }

    fn build_snapshot(
        &self,
        label: AnswerLabel,
        snapshots: &ConfinedDir,
        temporary: &OsStr,
        name: &OsStr,
    ) -> io::Result<WorkspaceSnapshot> {
        let path = self.snapshot_dir(label);
        let target = snapshots.make_dir(temporary, 0o700)?;
        // The start of the snapshot by the file system's own clock. A file with a stamp shortly before this time, or
        // later, may change again without getting a new stamp, so its stamp does not show that it is unchanged.
        let started = target.stat_self()?.stamp.ctime;
        let source = ConfinedDir::open(&self.path)?;
        let mut issues = Vec::new();
        let nodes = remove_unstorable(walk(&source, self.limits)?, &mut issues);
        let before = newest_earlier(snapshots, label);
        if let Some(before) = &before
            && issues.is_empty()
            && before.summary.fingerprint.is_some()
            && before.summary.fingerprint == Some(fingerprint_of(&nodes))
        {
            snapshots.remove_tree(temporary)?;
            alias_label(snapshots, before.label, label)?;
            return Ok(WorkspaceSnapshot { path, copied: 0, shared: before.summary.files, issues });
        }
        let before = before.and_then(|before| before.load_manifest(snapshots));
        let total = self.disk_limit.saturating_mul(MAX_TOTAL);
        let left = total.saturating_sub(data_of_earlier(snapshots, label));
        let limits = CopyLimits { data: left.min(self.limits.data), ..self.limits };
        let work = SnapshotWork {
            before: before.as_ref(),
            target: &target,
            linked: Mutex::default(),
            started,
            are_stamps_reliable: has_reliable_stamps(&source),
            copier: Copier::with_limits(limits),
            compared: CopyBudget::new(CopyLimits { data: u64::MAX, ..limits }),
            copied: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            entries: Mutex::new(Vec::new()),
            issues: Mutex::new(issues),
        };
        fill_dir(&source, &target, &nodes, &|node, name, from, to, buffer| {
            work.add(node, name, from, to, buffer)
        })
        .map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge if left < self.limits.data => limit_error(format!(
                "all snapshots of this agent together would contain more than {} of data, which is the limit \
                 (`orchestrator.limits.disk` in the config changes it)",
                size_text(total)
            )),
            _ => error,
        })?;
        make_dirs_read_only(&target, &nodes)?;
        target.set_mode(0o500)?;
        let mut entries = work.entries.into_inner().unwrap_or_else(PoisonError::into_inner);
        entries.extend(
            nodes
                .iter()
                .filter(|node| node.found.kind == FileKind::Dir)
                .map(|node| ManifestEntry::of(node, false)),
        );
        write_manifest_files(snapshots, label, entries, work.copier.spent())?;
        snapshots.rename(temporary, name)?;
        let issues = work.issues.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(WorkspaceSnapshot {
            path,
            copied: work.copied.into_inner(),
            shared: work.shared.into_inner(),
            issues,
        })
    }
}

fn newest_earlier(snapshots: &ConfinedDir, label: AnswerLabel) -> Option<EarlierSnapshot> {
    let earlier = (1..label.nth).rev().map(|nth| AnswerLabel { agent: label.agent, nth });
    earlier.into_iter().find_map(|earlier| {
        let name = OsString::from(real_label(snapshots, earlier)?.to_string());
        let dir = snapshots.open_dir(&name).ok()?;
        let [_, summary_name] = manifest_file_names(earlier);
        Some(EarlierSnapshot { dir, label: earlier, summary: read_sealed(snapshots, &summary_name)? })
    })
}

/// How much data was copied for the earlier snapshots of the agent.
fn data_of_earlier(snapshots: &ConfinedDir, label: AnswerLabel) -> u64 {
    let earlier = (1..label.nth).map(|nth| AnswerLabel { agent: label.agent, nth });
    let stored = earlier.filter(|earlier| real_label(snapshots, *earlier) == Some(*earlier));
    let summaries = stored.filter_map(|earlier| {
        let [_, name] = manifest_file_names(earlier);
        read_sealed::<SnapshotSummary>(snapshots, &name)
    });
    summaries.map(|summary| summary.data).fold(0, u64::saturating_add)
}

fn fingerprint_of(nodes: &[TreeNode]) -> String {
    fingerprint(
        nodes.iter().map(|node| (node.path.as_path(), node.found.kind, node.found.mode, node.found.stamp)),
    )
}

/// For an unchanged workspace, the given label is a link to an earlier one.
pub(crate) fn real_label(snapshots: &ConfinedDir, label: AnswerLabel) -> Option<AnswerLabel> {
    let name = OsString::from(label.to_string());
    match snapshots.stat(&name).ok()??.kind {
        FileKind::Dir => Some(label),
        FileKind::Link => snapshots.read_link(&name).ok()?.to_str()?.parse().ok(),
        FileKind::File | FileKind::Special => None,
    }
}

fn alias_label(snapshots: &ConfinedDir, earlier: AnswerLabel, label: AnswerLabel) -> io::Result<()> {
    let real = real_label(snapshots, earlier).unwrap_or(earlier).to_string();
    for (file, of) in manifest_file_names(label).iter().zip(manifest_file_names(earlier)) {
        if snapshots.stat(file)?.is_some() {
            snapshots.remove_file(file)?;
        }
        snapshots.hard_link(&of, snapshots, file)?;
    }
    snapshots.symlink(OsStr::new(&real), OsStr::new(&label.to_string()))
}

pub(crate) fn walk(root: &ConfinedDir, limits: CopyLimits) -> io::Result<Vec<TreeNode>> {
    let entries = AtomicUsize::new(0);
    let path_bytes = AtomicUsize::new(0);
    let count = |at: &Path, name: &OsStr, _: &FileStat| {
        entries.fetch_add(1, Ordering::Relaxed);
        path_bytes.fetch_add(at.as_os_str().len() + name.len(), Ordering::Relaxed);
        WalkStep::Enter
    };
    let is_too_long = || path_bytes.load(Ordering::Relaxed) > MAX_PATH_BYTES;
    let stop = || entries.load(Ordering::Relaxed) > limits.entries || is_too_long();
    let walked = TreeWalk { step: &count, stop: &stop, unlock: false }.run(root);
    limits.check(entries.load(Ordering::Relaxed), 0)?;
    if is_too_long() {
        let limit = format!(
            "the paths of all its files and directories together are longer than {} MiB; there are too many of them",
            MAX_PATH_BYTES >> 20
        );
        return Err(limit_error(limit));
    }
    let nodes = walked?;
    if let Some(deep) = nodes.iter().find(|node| is_too_deep(node)) {
        let shown: String = deep.path.to_string_lossy().chars().take(60).collect();
        return Err(limit_error(format!("a directory in it is nested too deeply: {shown}…")));
    }
    let mut seen = HashSet::new();
    let is_new =
        |node: &&TreeNode| node.found.links < 2 || seen.insert((node.found.stamp.dev, node.found.stamp.ino));
    let files = nodes.iter().filter(|node| node.found.kind == FileKind::File).filter(is_new);
    let size = files.map(|node| node.found.stamp.size).fold(0, u64::saturating_add);
    limits.check(nodes.len(), size)?;
    Ok(nodes)
}

fn is_too_deep(node: &TreeNode) -> bool {
    node.found.kind == FileKind::Dir && node.path.as_os_str().len() > MAX_PATH
}

fn remove_unstorable(nodes: Vec<TreeNode>, issues: &mut Vec<SnapshotIssue>) -> Vec<TreeNode> {
    let mut names: HashMap<(u64, u64), u64> = HashMap::new();
    let has_more_links = |node: &&TreeNode| node.found.kind == FileKind::File && node.found.links > 1;
    for node in nodes.iter().filter(has_more_links) {
        *names.entry((node.found.stamp.dev, node.found.stamp.ino)).or_default() += 1;
    }
    let issue_of = |node: &TreeNode| match node.found.kind {
        FileKind::Special => Some(SnapshotIssue::Special(node.path.clone())),
        FileKind::File if node.found.links > 1 => {
            let inside = names.get(&(node.found.stamp.dev, node.found.stamp.ino)).copied();
            (inside != Some(node.found.links)).then(|| SnapshotIssue::HardLink(node.path.clone()))
        }
        FileKind::File | FileKind::Dir | FileKind::Link => None,
    };
    nodes
        .into_iter()
        .filter(|node| match issue_of(node) {
            Some(reason) => {
                issues.push(reason);
                false
            }
            None => true,
        })
        .collect()
}

impl EarlierSnapshot {
    fn load_manifest(self, snapshots: &ConfinedDir) -> Option<EarlierManifest> {
        let [manifest, _] = manifest_file_names(self.label);
        let entries: Vec<ManifestEntry> = read_sealed(snapshots, &manifest)?;
        Some(EarlierManifest {
            dir: self.dir,
            entries: entries.into_iter().map(|e| (e.path.clone(), e)).collect(),
        })
    }
}

impl EarlierManifest {
    fn is_unchanged(&self, node: &TreeNode) -> bool {
        self.entries.get(&node.path).is_some_and(|entry| !entry.fresh && entry.is_like(node))
    }

    /// Compares the content of a file whose stamp does not say whether it changed.
    fn has_same_content(
        &self,
        node: &TreeNode,
        name: &OsStr,
        from: &ConfinedDir,
        budget: &CopyBudget,
    ) -> bool {
        let is_like = self.entries.get(&node.path).is_some_and(|entry| entry.is_like(node));
        if !is_like || node.found.kind != FileKind::File || node.found.stamp.size > MAX_COMPARED {
            return false;
        }
        let earlier = self.dir.open_dir_path(split_path(&node.path).0).and_then(|dir| dir.open_file(name));
        let earlier = earlier.and_then(|(file, _)| digest(&file, budget));
        let is_same = |now, earlier: String| ComparedFile::new(now).is(&earlier, budget);
        from.open_listed(name).and_then(|now| is_same(now, earlier?)).unwrap_or(false)
    }
}

impl SnapshotWork<'_> {
    fn add(
        &self,
        node: &TreeNode,
        name: &OsStr,
        from: &ConfinedDir,
        to: &ConfinedDir,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        if node.found.kind == FileKind::Link {
            return self.link(node, name, from, to);
        }
        if self.link_to_earlier(node, name, from, to) {
            self.shared.fetch_add(1, Ordering::Relaxed);
            self.add_entry(ManifestEntry::of(node, self.is_fresh(&node.found)));
            return Ok(());
        }
        if self.link_to_copy(node, name, to) {
            self.copied.fetch_add(1, Ordering::Relaxed);
            self.add_entry(ManifestEntry::of(node, self.is_fresh(&node.found)));
            return Ok(());
        }
        let found = match self.copier.copy(from, name, to, buffer)? {
            None => return Ok(()),
            Some(CopyResult::Stable(found)) => found,
            Some(CopyResult::Changing(found)) => {
                self.add_issue(SnapshotIssue::Changing(node.path.clone()));
                self.copied.fetch_add(1, Ordering::Relaxed);
                self.add_entry(ManifestEntry::of(&TreeNode { path: node.path.clone(), found }, true));
                return Ok(());
            }
        };
        if node.found.links > 1 {
            let mut linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
            linked.insert((found.stamp.dev, found.stamp.ino), node.path.clone());
        }
        self.copied.fetch_add(1, Ordering::Relaxed);
        let fresh = self.is_fresh(&found);
        self.add_entry(ManifestEntry::of(&TreeNode { path: node.path.clone(), found }, fresh));
        Ok(())
    }

    fn is_fresh(&self, found: &FileStat) -> bool {
        !self.are_stamps_reliable || found.stamp.ctime.max(found.stamp.mtime) + CLOCK_TICK >= self.started
    }

    /// Returns false if the caller has to copy the file.
    fn link_to_earlier(&self, node: &TreeNode, name: &OsStr, from: &ConfinedDir, to: &ConfinedDir) -> bool {
        let is_same = |before: &&EarlierManifest| {
            before.is_unchanged(node) || before.has_same_content(node, name, from, &self.compared)
        };
        let Some(before) = self.before.filter(is_same) else { return false };
        let above = before.dir.open_dir_path(split_path(&node.path).0);
        above.is_ok_and(|above| above.hard_link(name, to, name).is_ok())
    }

    /// Links a file with several names to the copy that was made under another name. Returns false if the caller has
    /// to copy the file.
    fn link_to_copy(&self, node: &TreeNode, name: &OsStr, to: &ConfinedDir) -> bool {
        if node.found.links < 2 {
            return false;
        }
        let linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(copy) = linked.get(&(node.found.stamp.dev, node.found.stamp.ino)).cloned() else {
            return false;
        };
        drop(linked);
        let (above, copied_name) = split_path(&copy);
        self.target.open_dir_path(above).is_ok_and(|above| above.hard_link(copied_name, to, name).is_ok())
    }

    fn link(&self, node: &TreeNode, name: &OsStr, from: &ConfinedDir, to: &ConfinedDir) -> io::Result<()> {
        let Ok(text) = from.read_link(name) else { return Ok(()) };
        if leads_out(&node.path, Path::new(&text)) {
            self.add_issue(SnapshotIssue::LinkOutside(node.path.clone()));
        }
        to.symlink(&text, name)?;
        self.add_entry(ManifestEntry::of(node, false));
        Ok(())
    }

    fn add_entry(&self, entry: ManifestEntry) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    fn add_issue(&self, what: SnapshotIssue) {
        self.issues.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

/// Only the text of the link is judged; links in its target are not followed.
fn leads_out(path: &Path, text: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in text.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
        }
    }
    false
}
