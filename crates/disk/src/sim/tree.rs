//! The content of the simulated disk: for every file and directory what is seen, what is durable, and the changes
//! between the two.
//!
//! Knows nothing of faults; it only decides what a crash leaves behind.

use crate::disk::{Kind, OpenMode};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};

pub(super) type NodeId = usize;
type Names = BTreeMap<String, NodeId>;
const ROOT: NodeId = 0;

enum Node {
    File { seen: Vec<u8>, durable: Vec<u8>, pending: Vec<Change>, linked: bool },
    Dir { seen: Names, durable: Names, pending: Vec<NameChange> },
}

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Cut { len: usize },
}

/// A rename is one change: it happens or it does not.
#[derive(Clone)]
struct NameChange {
    gone: Option<String>,
    here: Option<(String, NodeId)>,
}

pub(super) struct Tree {
    nodes: Vec<Node>,
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn wrong_kind() -> io::Error {
    io::ErrorKind::NotADirectory.into()
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { nodes: vec![dir()] }
    }

    fn names(&self, id: NodeId) -> io::Result<&Names> {
        match self.nodes.get(id) {
            Some(Node::Dir { seen, .. }) => Ok(seen),
            _ => Err(wrong_kind()),
        }
    }

    fn find(&self, path: &Path) -> io::Result<NodeId> {
        path.components().try_fold(ROOT, |at, part| match part {
            Component::Normal(name) => self.names(at)?.get(&text(name)).copied().ok_or_else(missing),
            _ => Ok(at),
        })
    }

    fn parent(&self, path: &Path) -> io::Result<(NodeId, String)> {
        let parent = self.find(path.parent().ok_or_else(missing)?)?;
        Ok((parent, text(path.file_name().ok_or_else(missing)?)))
    }

    fn change_names(&mut self, id: NodeId, change: NameChange) -> io::Result<()> {
        match self.nodes.get_mut(id) {
            Some(Node::Dir { seen, pending, .. }) => {
                change.apply(seen);
                pending.push(change);
                Ok(())
            }
            _ => Err(wrong_kind()),
        }
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<NodeId> {
        let (parent, name) = self.parent(path)?;
        if self.names(parent)?.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = self.nodes.len();
        self.nodes.push(node);
        self.change_names(parent, NameChange { gone: None, here: Some((name, id)) })?;
        Ok(id)
    }

    pub(super) fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        Ok(match self.find(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            found => match self.nodes.get(found?) {
                Some(Node::File { seen, .. }) => Some(Kind::File { len: seen.len() as u64 }),
                Some(Node::Dir { .. }) => Some(Kind::Dir),
                None => None,
            },
        })
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Ok(self.names(self.find(path)?)?.keys().cloned().collect())
    }

    pub(super) fn read(&self, path: &Path) -> io::Result<&[u8]> {
        match self.nodes.get(self.find(path)?) {
            Some(Node::File { seen, .. }) => Ok(seen),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn open(&mut self, path: &Path, mode: OpenMode) -> io::Result<NodeId> {
        match (self.find(path), mode) {
            (Ok(_), OpenMode::New) => Err(io::ErrorKind::AlreadyExists.into()),
            (Ok(id), OpenMode::Emptied) => self.cut(id, 0).map(|()| id),
            (Ok(id), OpenMode::Existing) => Ok(id),
            (Err(e), OpenMode::New | OpenMode::Emptied) if e.kind() == io::ErrorKind::NotFound => {
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
        self.change_names(parent, NameChange { gone: Some(old), here: Some((new, id)) })
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (id, (parent, name)) = (self.find(path)?, self.parent(path)?);
        if self.names(id).is_ok_and(|names| !names.is_empty()) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.unlink(id);
        self.change_names(parent, NameChange { gone: Some(name), here: None })
    }

    fn unlink(&mut self, id: NodeId) {
        if let Some(Node::File { linked, .. }) = self.nodes.get_mut(id) {
            *linked = false;
        }
    }

    fn change_file(&mut self, id: NodeId, make: impl FnOnce(&[u8]) -> Change) -> io::Result<()> {
        match self.nodes.get_mut(id) {
            Some(Node::File { seen, pending, .. }) => {
                let change = make(seen);
                change.apply(seen, 0);
                pending.push(change);
                Ok(())
            }
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn append(&mut self, id: NodeId, bytes: &[u8]) -> io::Result<()> {
        self.change_file(id, |seen| Change::Write { at: seen.len(), bytes: bytes.to_vec() })
    }

    pub(super) fn cut(&mut self, id: NodeId, len: u64) -> io::Result<()> {
        self.change_file(id, |_| Change::Cut { len: len as usize })
    }

    pub(super) fn size(&self, id: NodeId) -> io::Result<Option<u64>> {
        match self.nodes.get(id) {
            Some(Node::File { seen, linked, .. }) => Ok(linked.then_some(seen.len() as u64)),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn put(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let id = self.open(path, OpenMode::Emptied)?;
        self.append(id, bytes)?;
        self.sync_file(id)?;
        self.sync_dir(path.parent().ok_or_else(missing)?)
    }

    /// Brings the changes since the last sync to the disk.
    ///
    /// Not simply a copy of what is seen: after a failed sync the lost pages are seen but will never be written.
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
            Some(Node::Dir { seen, durable, pending }) => {
                durable.clone_from(seen);
                pending.clear();
                Ok(())
            }
            _ => Err(wrong_kind()),
        }
    }

    /// A sync failed: some pages reached the disk, the others never will, and the system takes all of them for clean.
    pub(super) fn lose_pages(&mut self, id: NodeId, rng: &mut Rng) -> io::Result<()> {
        match self.nodes.get_mut(id) {
            Some(Node::File { durable, pending, .. }) => {
                keep_some(durable, std::mem::take(pending), rng);
                Ok(())
            }
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn crash(&mut self, rng: &mut Rng) {
        for node in &mut self.nodes {
            match node {
                Node::File { seen, durable, pending, linked } => {
                    keep_some(durable, std::mem::take(pending), rng);
                    *linked = true;
                    seen.clone_from(durable);
                }
                Node::Dir { seen, durable, pending } => {
                    let all = std::mem::take(pending);
                    // A journal keeps the order; not every file system has one.
                    let (whole, upto) = (rng.bool(), rng.usize(..=all.len()));
                    let kept =
                        all.iter().enumerate().filter(|(n, _)| if whole { *n < upto } else { rng.bool() });
                    kept.for_each(|(_, change)| change.apply(durable));
                    seen.clone_from(durable);
                }
            }
        }
    }
}

/// What of a file's unsynced changes reaches the disk: nothing, all, a beginning torn at any byte, or any mixture of
/// pages.
fn keep_some(durable: &mut Vec<u8>, pending: Vec<Change>, rng: &mut Rng) {
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
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((name, id)) = &self.here {
            names.insert(name.clone(), *id);
        }
    }
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn file(bytes: Vec<u8>) -> Node {
    Node::File { seen: bytes.clone(), durable: bytes, pending: Vec::new(), linked: true }
}

fn dir() -> Node {
    Node::Dir { seen: Names::new(), durable: Names::new(), pending: Vec::new() }
}
