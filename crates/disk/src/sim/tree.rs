//! The content of the simulated disk: for every file and directory, the visible content, the durable content, and the
//! changes between the two. It decides what a crash or a failed sync leaves behind.

use crate::disk::{EntryKind, OpenMode};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};

pub(super) type NodeId = usize;
type Names = BTreeMap<String, NodeId>;
const ROOT: NodeId = 0;

enum Node {
    File { visible: Vec<u8>, durable: Vec<u8>, pending: Vec<Change>, linked: bool },
    Dir { visible: Names, durable: Names, pending: Vec<NameChange> },
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Cut { len: usize },
}

/// A rename is one change: a crash keeps all of it or nothing.
#[derive(Clone)]
struct NameChange {
    removed: Option<String>,
    added: Option<(String, NodeId)>,
}

pub(super) struct Tree {
    nodes: Vec<Node>,
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn not_a_directory() -> io::Error {
    io::ErrorKind::NotADirectory.into()
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { nodes: vec![dir()] }
    }

    fn names(&self, id: NodeId) -> io::Result<&Names> {
        match self.nodes.get(id) {
            Some(Node::Dir { visible, .. }) => Ok(visible),
            _ => Err(not_a_directory()),
        }
    }

    fn find(&self, path: &Path) -> io::Result<NodeId> {
        path.components().try_fold(ROOT, |at, part| match part {
            Component::Normal(name) => self.names(at)?.get(&text(name)).copied().ok_or_else(not_found),
            _ => Ok(at),
        })
    }

    fn parent(&self, path: &Path) -> io::Result<(NodeId, String)> {
        let parent = self.find(path.parent().ok_or_else(not_found)?)?;
        Ok((parent, text(path.file_name().ok_or_else(not_found)?)))
    }

    fn change_names(&mut self, id: NodeId, change: NameChange) -> io::Result<()> {
        match self.nodes.get_mut(id) {
            Some(Node::Dir { visible, pending, .. }) => {
                change.apply(visible);
                pending.push(change);
                Ok(())
            }
            _ => Err(not_a_directory()),
        }
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<NodeId> {
        let (parent, name) = self.parent(path)?;
        if self.names(parent)?.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = self.nodes.len();
        self.nodes.push(node);
        self.change_names(parent, NameChange { removed: None, added: Some((name, id)) })?;
        Ok(id)
    }

    pub(super) fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        Ok(match self.find(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            found => match self.nodes.get(found?) {
                Some(Node::File { visible, .. }) => Some(EntryKind::File { len: visible.len() as u64 }),
                Some(Node::Dir { .. }) => Some(EntryKind::Dir),
                None => None,
            },
        })
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Ok(self.names(self.find(path)?)?.keys().cloned().collect())
    }

    pub(super) fn read(&self, path: &Path) -> io::Result<&[u8]> {
        match self.nodes.get(self.find(path)?) {
            Some(Node::File { visible, .. }) => Ok(visible),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<NodeId> {
        match (self.find(path), mode) {
            (Ok(_), OpenMode::New) => Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(id), OpenMode::Truncate) => self.cut(id, 0).map(|()| id),
            (Ok(id), OpenMode::Existing) => Ok(id),
            (Err(e), OpenMode::New | OpenMode::Truncate) if e.kind() == io::ErrorKind::NotFound => {
                self.add(path, file(Vec::new()))
            }
            (Err(e), _) => Err(e),
        }
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.add(path, dir()).map(|_| ())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (id, (parent, old), (_, new)) = (self.find(from)?, self.parent(from)?, self.parent(to)?);
        if let Ok(replaced) = self.find(to) {
            self.unlink(replaced);
        }
        self.change_names(parent, NameChange { removed: Some(old), added: Some((new, id)) })
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (id, (parent, name)) = (self.find(path)?, self.parent(path)?);
        if self.names(id).is_ok_and(|names| !names.is_empty()) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.unlink(id);
        self.change_names(parent, NameChange { removed: Some(name), added: None })
    }

    fn unlink(&mut self, id: NodeId) {
        if let Some(Node::File { linked, .. }) = self.nodes.get_mut(id) {
            *linked = false;
        }
    }

    fn change_file(&mut self, id: NodeId, make: impl FnOnce(&[u8]) -> Change) -> io::Result<()> {
        match self.nodes.get_mut(id) {
            Some(Node::File { visible, pending, .. }) => {
                let change = make(visible);
                change.apply(visible, 0);
                pending.push(change);
                Ok(())
            }
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn append(&mut self, id: NodeId, bytes: &[u8]) -> io::Result<()> {
        self.change_file(id, |visible| Change::Write { at: visible.len(), bytes: bytes.to_vec() })
    }

    pub(super) fn cut(&mut self, id: NodeId, len: u64) -> io::Result<()> {
        self.change_file(id, |_| Change::Cut { len: len as usize })
    }

    pub(super) fn size(&self, id: NodeId) -> io::Result<Option<u64>> {
        match self.nodes.get(id) {
            Some(Node::File { visible, linked, .. }) => Ok(linked.then_some(visible.len() as u64)),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn put(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let id = self.open(path, OpenMode::Truncate)?;
        self.append(id, bytes)?;
        self.sync_file(id)?;
        self.sync_dir(path.parent().ok_or_else(not_found)?)
    }

    /// Applies the pending changes instead of copying the visible content: pages that a failed sync lost stay visible
    /// but are never written.
    pub(super) fn sync_file(&mut self, id: NodeId) -> io::Result<()> {
        match self.nodes.get_mut(id) {
            Some(Node::File { durable, pending, .. }) => {
                pending.drain(..).for_each(|change| change.apply(durable, 0));
                Ok(())
            }
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        match self.find(path).map(|id| self.nodes.get_mut(id))? {
            Some(Node::Dir { visible, durable, pending }) => {
                durable.clone_from(visible);
                pending.clear();
                Ok(())
            }
            _ => Err(not_a_directory()),
        }
    }

    /// Simulates a failed sync: some pages reach the disk, and the others never will, because the operating system
    /// considers all of them clean.
    pub(super) fn lose_pages(&mut self, id: NodeId, rng: &mut Rng) -> io::Result<()> {
        match self.nodes.get_mut(id) {
            Some(Node::File { durable, pending, .. }) => {
                apply_some(durable, std::mem::take(pending), rng);
                Ok(())
            }
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn crash(&mut self, rng: &mut Rng) {
        for node in &mut self.nodes {
            match node {
                Node::File { visible, durable, pending, linked } => {
                    apply_some(durable, std::mem::take(pending), rng);
                    *linked = true;
                    visible.clone_from(durable);
                }
                Node::Dir { visible, durable, pending } => {
                    let all = std::mem::take(pending);
                    // A journaling file system preserves the order of changes, so a prefix survives; on other
                    // file systems, any subset may survive.
                    let (whole, upto) = (rng.bool(), rng.usize(..=all.len()));
                    let kept =
                        all.iter().enumerate().filter(|(n, _)| if whole { *n < upto } else { rng.bool() });
                    kept.for_each(|(_, change)| change.apply(durable));
                    visible.clone_from(durable);
                }
            }
        }
    }
}

/// Applies none of a file's unsynced changes, all, a prefix that is torn at any byte, or any subset of the pages.
fn apply_some(durable: &mut Vec<u8>, pending: Vec<Change>, rng: &mut Rng) {
    let fill = if rng.bool() { 0 } else { rng.u8(..) };
    let mut pages: Vec<Change> = Vec::new();
    let size = 1 << rng.u32(6..=12);
    for change in pending {
        match change {
            Change::Write { mut at, bytes } => {
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let (page, after) = rest.split_at(rest.len().min(size - at % size));
                    pages.push(Change::Write { at, bytes: page.to_vec() });
                    at += page.len();
                    rest = after;
                }
            }
            cut @ Change::Cut { .. } => pages.push(cut),
        }
    }
    match rng.u8(..4) {
        0 => {}
        1 => pages.iter().for_each(|page| page.apply(durable, fill)),
        2 => {
            pages.truncate(rng.usize(..=pages.len()));
            if let Some(Change::Write { bytes, .. }) = pages.last_mut() {
                bytes.truncate(rng.usize(..=bytes.len()));
            }
            for page in &pages {
                page.apply(durable, fill);
            }
        }
        _ => pages.iter().filter(|_| rng.bool()).for_each(|page| page.apply(durable, fill)),
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>, fill: u8) {
        match self {
            Self::Cut { len } => content.truncate(*len),
            Self::Write { at, bytes } => {
                if content.len() < at + bytes.len() {
                    content.resize(at + bytes.len(), fill);
                }
                if let Some(place) = content.get_mut(*at..at + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        if let Some(removed) = &self.removed {
            names.remove(removed);
        }
        if let Some((name, id)) = &self.added {
            names.insert(name.clone(), *id);
        }
    }
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn file(bytes: Vec<u8>) -> Node {
    Node::File { visible: bytes.clone(), durable: bytes, pending: Vec::new(), linked: true }
}

fn dir() -> Node {
    Node::Dir { visible: Names::new(), durable: Names::new(), pending: Vec::new() }
}
