//! Copies another agent's work into a workspace, so that neither agent sees the other's later changes.

use super::Workspace;
use super::copy::{Copier, fill_dir, split_path};
use super::snapshot::walk;
use crate::confine::{ConfinedDir, FileKind};
use althing_disk::DiskError;
use std::io;
use std::path::Path;

impl Workspace {
    /// Copies everything below `from` to `name` in the workspace and replaces what is there. Links are copied as
    /// links; special files are left out.
    pub fn import_dir(&self, from: &Path, name: &Path) -> Result<(), DiskError> {
        self.copy_dir(from, name).map_err(DiskError::io("copy files from", from))
    }

    fn copy_dir(&self, from: &Path, name: &Path) -> io::Result<()> {
        let source = ConfinedDir::open(from)?;
        let mut nodes = walk(&source, self.limits)?;
        nodes.retain(|node| node.found.kind != FileKind::Special);
        let mut target = ConfinedDir::open(&self.path)?;
        let (above, last) = split_path(name);
        for part in above {
            if target.stat(part)?.is_none() {
                target.make_dir(part, 0o700)?;
            }
            target = target.open_dir(part)?;
        }
        target.remove_tree(last)?;
        let copier = Copier::with_limits(self.limits);
        let into = target.make_dir(last, 0o700)?;
        let taken = fill_dir(&source, &into, &nodes, &|node, name, from, to, buffer| match node.found.kind {
            FileKind::Link => to.symlink(&from.read_link(name)?, name),
            FileKind::File => copier.copy(from, name, to, buffer).map(drop),
            FileKind::Dir | FileKind::Special => Ok(()),
        });
        if taken.is_err() {
            // A partial copy could be mistaken for the complete work.
            let _ = target.remove_tree(last);
        }
        taken
    }
}
