//! Open files and held locks of the simulated disk, including torn writes and pages lost by a failed sync.
//!
//! A handle stops working after a crash: it belongs to the power cycle in which it was opened.

use super::tree::NodeId;
use super::{Access, Inner, Outcome, SimDisk, power_cut};
use crate::disk::{DiskFile, DiskLock};
use std::io;
use std::path::PathBuf;
use std::sync::MutexGuard;

pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) node: NodeId,
    pub(super) generation: u64,
}

impl SimFile {
    fn alive(&self) -> io::Result<MutexGuard<'_, Inner>> {
        let inner = self.disk.inner();
        if inner.generation == self.generation { Ok(inner) } else { Err(power_cut()) }
    }
}

impl DiskFile for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.alive()?;
        let some = inner.rng.usize(..=bytes.len());
        let part = bytes.get(..some).unwrap_or_default();
        match inner.next_outcome(Access::Write)? {
            Outcome::Done => inner.tree.append(self.node, bytes).map(|()| bytes.len()),
            Outcome::Fails(kind) => match inner.rng.u8(..3) {
                0 => Err(kind.error()),
                1 => {
                    inner.tree.append(self.node, part)?;
                    Err(kind.error())
                }
                // A short write counts as a success.
                _ if some > 0 => inner.tree.append(self.node, part).map(|()| some),
                _ => Err(kind.error()),
            },
            Outcome::Crash => {
                inner.tree.append(self.node, part)?;
                inner.cut_power();
                Err(power_cut())
            }
        }
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let mut inner = self.alive()?;
        match inner.next_outcome(Access::Write)? {
            Outcome::Done => inner.tree.sync_file(self.node),
            Outcome::Fails(kind) => {
                let Inner { tree, rng, .. } = &mut *inner;
                if rng.bool() {
                    tree.lose_pages(self.node, rng)?;
                }
                Err(kind.error())
            }
            Outcome::Crash => {
                if inner.rng.bool() {
                    inner.tree.sync_file(self.node)?;
                }
                inner.cut_power();
                Err(power_cut())
            }
        }
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        drop(self.alive()?);
        let node = self.node;
        self.disk.operate(Access::Write, |tree| tree.cut(node, len))
    }

    fn size(&self) -> io::Result<Option<u64>> {
        drop(self.alive()?);
        self.disk.operate(Access::Read, |tree| tree.size(self.node))
    }
}

pub(super) struct SimLock {
    pub(super) disk: SimDisk,
    pub(super) path: PathBuf,
    pub(super) generation: u64,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut inner = self.disk.inner();
        if inner.generation == self.generation {
            inner.locks.remove(&self.path);
        }
    }
}
