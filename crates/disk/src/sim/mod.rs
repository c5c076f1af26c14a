//! A simulated disk for tests: it tracks which data is synced, and it crashes and fails at chosen operations.
//!
//! It is stricter than real file systems: a file's name is durable only after its directory was synced, unsynced data
//! may be lost, torn or retained in any mixture, and after a failed sync the lost pages count as clean.

mod handles;
mod tree;

use crate::disk::{Disk, DiskFile, EntryKind, Lock, OpenMode};
use handles::{SimFile, SimLock};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tree::Tree;

/// The error that a failing operation returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No space is left on the device.
    Full,
    /// The device reports an I/O error.
    Io,
    /// The file system is read-only.
    ReadOnly,
}

impl FaultKind {
    fn error(self) -> io::Error {
        use rustix::io::Errno;
        let errno = match self {
            Self::Full => Errno::NOSPC,
            Self::Io => Errno::IO,
            Self::ReadOnly => Errno::ROFS,
        };
        io::Error::from_raw_os_error(errno.raw_os_error())
    }
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDuration {
    /// One operation fails.
    Once,
    /// The operation fails, and so does every later operation that changes something, until [`SimDisk::heal`] is
    /// called.
    UntilHealed,
}

/// A disk in memory; clones share the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<Inner>>);

struct Inner {
    tree: Tree,
    rng: fastrand::Rng,
    operations: u64,
    /// The number of changing operations so far, including failed ones.
    changes: u64,
    crash_at: Option<u64>,
    fault: Option<(u64, FaultKind, FaultDuration)>,
    fired: bool,
    crashed: bool,
    /// Incremented by every crash; handles of an earlier generation no longer work.
    generation: u64,
    locks: BTreeSet<PathBuf>,
}

enum Outcome {
    Done,
    /// The operation fails; a part of a write or sync may have taken effect. A write may also succeed as a short write.
    Fails(FaultKind),
    Crash,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

fn power_cut() -> io::Error {
    io::Error::other("the power is cut")
}

impl SimDisk {
    /// An empty disk. The seed decides what survives crashes and how much of a failing operation takes effect.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            tree: Tree::new(),
            rng: fastrand::Rng::with_seed(seed),
            operations: 0,
            changes: 0,
            crash_at: None,
            fault: None,
            fired: false,
            crashed: false,
            generation: 0,
            locks: BTreeSet::new(),
        })))
    }

    /// Cuts the power during the `n`th changing operation, counted from 1 since the disk was created.
    pub fn crash_at(&self, n: u64) {
        self.inner().crash_at = Some(n);
    }

    /// Makes the `n`th operation after this call fail, counted from 1.
    pub fn fail_at(&self, n: u64, kind: FaultKind, duration: FaultDuration) {
        let mut inner = self.inner();
        inner.fault = Some((inner.operations + n, kind, duration));
        inner.fired = false;
    }

    /// Ends the fault; returns whether the fault was triggered.
    pub fn heal(&self) -> bool {
        let mut inner = self.inner();
        inner.fault = None;
        std::mem::take(&mut inner.fired)
    }

    /// The number of changing operations so far.
    pub fn changes(&self) -> u64 {
        self.inner().changes
    }

    /// Whether the power is cut.
    pub fn crashed(&self) -> bool {
        self.inner().crashed
    }

    /// Cuts the power, if it is not cut yet, and turns the disk on again. Unsynced data is lost, torn or
    /// retained as the seed decides; locks are released and open handles stop working.
    pub fn reboot(&self) {
        let mut inner = self.inner();
        if !inner.crashed {
            inner.cut_power();
        }
        inner.crashed = false;
        inner.crash_at = None;
    }

    /// Replaces the content of a file durably, or creates it in an existing directory: simulates damage from
    /// outside.
    pub fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.inner().tree.put(path, bytes)
    }

    /// Reads a file regardless of any fault.
    pub fn peek(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.inner().tree.read(path).map(<[u8]>::to_vec)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn operate<T>(&self, access: Access, act: impl FnOnce(&mut Tree) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.inner();
        match inner.next_outcome(access)? {
            Outcome::Done => act(&mut inner.tree),
            Outcome::Fails(kind) => Err(kind.error()),
            Outcome::Crash => {
                if inner.rng.bool() {
                    let _ = act(&mut inner.tree);
                }
                inner.cut_power();
                Err(power_cut())
            }
        }
    }
}

impl Inner {
    fn next_outcome(&mut self, access: Access) -> io::Result<Outcome> {
        if self.crashed {
            return Err(power_cut());
        }
        self.operations += 1;
        if access == Access::Write {
            self.changes += 1;
            if self.crash_at == Some(self.changes) {
                return Ok(Outcome::Crash);
            }
        }
        Ok(match self.fault {
            Some((at, kind, _)) if self.operations == at => {
                self.fired = true;
                Outcome::Fails(kind)
            }
            Some((at, kind, FaultDuration::UntilHealed))
                if self.operations > at && access == Access::Write =>
            {
                Outcome::Fails(kind)
            }
            _ => Outcome::Done,
        })
    }

    fn cut_power(&mut self) {
        self.tree.crash(&mut self.rng);
        self.crashed = true;
        self.generation += 1;
        self.locks.clear();
    }
}

impl Disk for SimDisk {
    fn kind(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        self.operate(Access::Read, |tree| tree.kind(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.operate(Access::Read, |tree| tree.list(path))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.operate(Access::Read, |tree| tree.read(path).map(<[u8]>::to_vec))
    }

    fn read_range(&self, path: &Path, from: u64, len: u64) -> io::Result<Vec<u8>> {
        self.operate(Access::Read, |tree| {
            let bytes = tree.read(path)?.iter().skip(from as usize).take(len as usize);
            Ok(bytes.copied().collect())
        })
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Box<dyn DiskFile>> {
        let access = if mode == OpenMode::Existing { Access::Read } else { Access::Write };
        let node = self.operate(access, |tree| tree.open(path, mode))?;
        let generation = self.inner().generation;
        Ok(Box::new(SimFile { disk: self.clone(), node, generation }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.operate(Access::Write, |tree| tree.create_dir(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(Access::Write, |tree| tree.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.operate(Access::Write, |tree| tree.remove(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.operate(Access::Write, |tree| tree.remove(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.operate(Access::Write, |tree| tree.sync_dir(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Lock> {
        self.operate(Access::Write, |tree| match tree.open(path, OpenMode::New) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e),
            _ => Ok(()),
        })?;
        let mut inner = self.inner();
        if !inner.locks.insert(path.to_owned()) {
            return Ok(Lock::Held { pid: None });
        }
        let generation = inner.generation;
        Ok(Lock::Taken(Box::new(SimLock { disk: self.clone(), path: path.to_owned(), generation })))
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        Ok(self.inner().locks.contains(path))
    }

    fn single_threaded(&self) -> bool {
        true
    }
}
