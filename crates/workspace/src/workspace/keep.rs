//! Keeps a workspace as it is, under the name of an answer.
//!
//! Only what changed is copied; the rest is shared with what was kept before, which nobody can write to. A tree in which
//! nothing changed costs one look at each file. Everything is prepared under another name, so that there is never half
//! of it under the right one.

use super::copy::{Copied, Copier, close, fill, split};
use super::lists::{Summary, list_names, print, read_list, write_lists};
use super::{UNFINISHED, Workspace};
use crate::confine::{ConfinedDir, Found, Kind, Leaf, TICK, TreeWalk};
use crate::manifest::Entry;
use crate::sparse::CopyLimits;
use althing_disk::DiskError;
use althing_protocol::AnswerLabel;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Where.
    pub path: PathBuf,
    /// How many files were copied.
    pub copied: u64,
    /// How many are shared with what was kept before.
    pub shared: u64,
    /// What is not as it is in the workspace.
    pub left_out: Vec<LeftOut>,
}

/// Something that was not kept as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// A link that leads out of the workspace: kept as a link, not followed.
    LinkOutside(PathBuf),
    /// A file with a further name outside the workspace: not kept, it may be somebody else's.
    HardLink(PathBuf),
    /// A pipe, socket or device: not kept.
    Special(PathBuf),
    /// A file that changed all the while: kept as it was at some moment.
    Restless(PathBuf),
}

/// What was kept before.
struct Before {
    dir: ConfinedDir,
    label: AnswerLabel,
    summary: Summary,
}

/// The list of what was kept before, by path.
struct Listed {
    dir: ConfinedDir,
    entries: HashMap<PathBuf, Entry>,
}

/// What the threads that fill a snapshot share.
struct Work<'w> {
    before: Option<&'w Listed>,
    started: i64,
    copier: Copier,
    copied: AtomicU64,
    shared: AtomicU64,
    entries: Mutex<Vec<Entry>>,
    left_out: Mutex<Vec<LeftOut>>,
}

impl Workspace {
    /// Keeps the workspace under a label. A label that was used stays as it is.
    pub fn keep(&self, label: AnswerLabel) -> Result<Kept, DiskError> {
        let path = self.kept_dir(label);
        self.keep_in(label).map_err(DiskError::io("keep the workspace in", &path))
    }

    fn keep_in(&self, label: AnswerLabel) -> io::Result<Kept> {
        let snapshots = ConfinedDir::open(&self.snapshots())?;
        let name = OsString::from(label.to_string());
        if snapshots.look(&name)?.is_some() {
            let path = self.kept_dir(label);
            return Ok(Kept { path, copied: 0, shared: 0, left_out: Vec::new() });
        }
        let temporary = OsString::from(format!("{UNFINISHED}{label}"));
        snapshots.remove_tree(&temporary)?;
        let kept = self.keep_as(label, &snapshots, &temporary, &name);
        if kept.is_err() {
            // What was refused, or filled the disk, must not stay behind.
            let _ = snapshots.remove_tree(&temporary);
        }
        kept
    }

    /// Prepares a snapshot under a temporary name and gives it its own when it is whole.
    fn keep_as(
        &self,
        label: AnswerLabel,
        snapshots: &ConfinedDir,
        temporary: &OsStr,
        name: &OsStr,
    ) -> io::Result<Kept> {
        let path = self.kept_dir(label);
        let target = snapshots.make_dir(temporary, 0o700)?;
        // The file system's own time: what changed at this moment or later may change again and look the same.
        let started = target.itself()?.stamp.ctime;
        let source = ConfinedDir::open(&self.path)?;
        let mut left_out = Vec::new();
        let leaves = sort_out(walk(&source, self.limits)?, &mut left_out);
        let before = newest_before(snapshots, label);
        if let Some(before) = &before
            && left_out.is_empty()
            && before.summary.print.is_some()
            && before.summary.print == Some(print_of(&leaves))
        {
            snapshots.remove_tree(temporary)?;
            alias(snapshots, before.label, label)?;
            return Ok(Kept { path, copied: 0, shared: before.summary.files, left_out });
        }
        let before = before.and_then(|before| before.list(snapshots));
        let work = Work {
            before: before.as_ref(),
            started,
            copier: Copier::within(self.limits),
            copied: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            entries: Mutex::new(Vec::new()),
            left_out: Mutex::new(left_out),
        };
        fill(&source, &target, &leaves, &|leaf, name, from, to, buffer| {
            work.one(leaf, name, from, to, buffer)
        })?;
        close(&target, &leaves)?;
        target.set_mode(0o500)?;
        let mut entries = work.entries.into_inner().unwrap_or_else(PoisonError::into_inner);
        entries.extend(
            leaves.iter().filter(|leaf| leaf.found.kind == Kind::Dir).map(|leaf| Entry::of(leaf, false)),
        );
        write_lists(snapshots, label, entries)?;
        snapshots.rename(temporary, name)?;
        let left_out = work.left_out.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Kept { path, copied: work.copied.into_inner(), shared: work.shared.into_inner(), left_out })
    }
}

/// The newest that was kept of the same agent before, with a list that can be believed.
fn newest_before(snapshots: &ConfinedDir, label: AnswerLabel) -> Option<Before> {
    let earlier = (1..label.nth).rev().map(|nth| AnswerLabel { agent: label.agent, nth });
    earlier.into_iter().find_map(|earlier| {
        let name = OsString::from(real_label(snapshots, earlier)?.to_string());
        let dir = snapshots.descend(&name).ok()?;
        let [_, brief] = list_names(earlier);
        Some(Before { dir, label: earlier, summary: read_list(snapshots, &brief)? })
    })
}

fn print_of(leaves: &[Leaf]) -> String {
    print(leaves.iter().map(|leaf| (leaf.path.as_path(), leaf.found.kind, leaf.found.mode, leaf.found.stamp)))
}

/// The label under which the files are: a label of an unchanged workspace is a link to an earlier one.
pub(crate) fn real_label(snapshots: &ConfinedDir, label: AnswerLabel) -> Option<AnswerLabel> {
    let name = OsString::from(label.to_string());
    match snapshots.look(&name).ok()??.kind {
        Kind::Dir => Some(label),
        Kind::Link => snapshots.link_text(&name).ok()?.to_str()?.parse().ok(),
        Kind::File | Kind::Special => None,
    }
}

/// Lets a label mean what an earlier one means. A link to a link would break when read by hand, so it leads straight
/// to the files.
fn alias(snapshots: &ConfinedDir, earlier: AnswerLabel, label: AnswerLabel) -> io::Result<()> {
    let real = real_label(snapshots, earlier).unwrap_or(earlier).to_string();
    for (list, of) in list_names(label).iter().zip(list_names(earlier)) {
        if snapshots.look(list)?.is_some() {
            snapshots.remove_file(list)?;
        }
        snapshots.hard_link(&of, snapshots, list)?;
    }
    snapshots.make_link(OsStr::new(&real), OsStr::new(&label.to_string()))
}

/// Everything below `root`; refused if that is more than may be copied.
pub(crate) fn walk(root: &ConfinedDir, limits: CopyLimits) -> io::Result<Vec<Leaf>> {
    let entries = AtomicUsize::new(0);
    let count = |_: &Path, _: &OsStr, _: &Found| {
        entries.fetch_add(1, Ordering::Relaxed);
        false
    };
    let stop = || entries.load(Ordering::Relaxed) > limits.entries;
    let walked = TreeWalk { skip: &count, stop: &stop }.run(root);
    limits.check(entries.into_inner(), 0)?;
    let leaves = walked?;
    let files = leaves.iter().filter(|leaf| leaf.found.kind == Kind::File);
    limits.check(leaves.len(), files.map(|leaf| leaf.found.stamp.size).fold(0, u64::saturating_add))?;
    Ok(leaves)
}

/// Leaves out what cannot be kept.
pub(super) fn sort_out(leaves: Vec<Leaf>, left_out: &mut Vec<LeftOut>) -> Vec<Leaf> {
    let mut names: HashMap<(u64, u64), u64> = HashMap::new();
    let several = |leaf: &&Leaf| leaf.found.kind == Kind::File && leaf.found.links > 1;
    for leaf in leaves.iter().filter(several) {
        *names.entry((leaf.found.stamp.dev, leaf.found.stamp.ino)).or_default() += 1;
    }
    let stays = |leaf: &Leaf| match leaf.found.kind {
        Kind::Special => Some(LeftOut::Special(leaf.path.clone())),
        Kind::File if leaf.found.links > 1 => {
            let inside = names.get(&(leaf.found.stamp.dev, leaf.found.stamp.ino)).copied();
            (inside != Some(leaf.found.links)).then(|| LeftOut::HardLink(leaf.path.clone()))
        }
        Kind::File | Kind::Dir | Kind::Link => None,
    };
    leaves
        .into_iter()
        .filter(|leaf| match stays(leaf) {
            Some(reason) => {
                left_out.push(reason);
                false
            }
            None => true,
        })
        .collect()
}

impl Before {
    fn list(self, snapshots: &ConfinedDir) -> Option<Listed> {
        let [manifest, _] = list_names(self.label);
        let entries: Vec<Entry> = read_list(snapshots, &manifest)?;
        Some(Listed { dir: self.dir, entries: entries.into_iter().map(|e| (e.path.clone(), e)).collect() })
    }
}

impl Listed {
    fn same(&self, leaf: &Leaf) -> bool {
        self.entries.get(&leaf.path).is_some_and(|entry| !entry.fresh && entry.is_like(leaf))
    }
}

impl Work<'_> {
    fn one(
        &self,
        leaf: &Leaf,
        name: &OsStr,
        from: &ConfinedDir,
        to: &ConfinedDir,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        if leaf.found.kind == Kind::Link {
            return self.link(leaf, name, from, to);
        }
        if self.share(leaf, name, to) {
            self.shared.fetch_add(1, Ordering::Relaxed);
            self.enter(Entry::of(leaf, false));
            return Ok(());
        }
        let found = match self.copier.copy(from, name, to, buffer)? {
            None => return Ok(()),
            Some(Copied::Whole(found)) => found,
            Some(Copied::Restless(found)) => {
                self.leave_out(LeftOut::Restless(leaf.path.clone()));
                self.copied.fetch_add(1, Ordering::Relaxed);
                self.enter(Entry::of(&Leaf { path: leaf.path.clone(), found }, true));
                return Ok(());
            }
        };
        self.copied.fetch_add(1, Ordering::Relaxed);
        let fresh = found.stamp.ctime.max(found.stamp.mtime) + TICK >= self.started;
        self.enter(Entry::of(&Leaf { path: leaf.path.clone(), found }, fresh));
        Ok(())
    }

    /// Shares the file with what was kept before, if it is the same; where that cannot be, it is copied.
    fn share(&self, leaf: &Leaf, name: &OsStr, to: &ConfinedDir) -> bool {
        let Some(before) = self.before.filter(|before| before.same(leaf)) else { return false };
        let above = before.dir.enter(split(&leaf.path).0);
        above.is_ok_and(|above| above.hard_link(name, to, name).is_ok())
    }

    fn link(&self, leaf: &Leaf, name: &OsStr, from: &ConfinedDir, to: &ConfinedDir) -> io::Result<()> {
        let Ok(text) = from.link_text(name) else { return Ok(()) };
        if leads_out(&leaf.path, Path::new(&text)) {
            self.leave_out(LeftOut::LinkOutside(leaf.path.clone()));
        }
        to.make_link(&text, name)?;
        self.enter(Entry::of(leaf, false));
        Ok(())
    }

    fn enter(&self, entry: Entry) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }

    fn leave_out(&self, what: LeftOut) {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

/// Whether a link at `path` below a root leads out of the root, by its text.
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
