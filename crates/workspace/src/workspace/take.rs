//! Puts what another agent made into a workspace: copied, so that neither sees what the other does with it afterwards.

use super::Workspace;
use super::copy::{Copier, fill, split};
use super::keep::{sort_out, walk};
use crate::confine::{ConfinedDir, Kind};
use althing_disk::DiskError;
use std::io;
use std::path::Path;

impl Workspace {
    /// Copies what is below `from` to `name` within the workspace, in place of what is there. Links are copied as links;
    /// what is no file of its own (pipes, files with names elsewhere) is left out.
    pub fn take(&self, from: &Path, name: &Path) -> Result<(), DiskError> {
        self.take_in(from, name).map_err(DiskError::io("take files from", from))
    }

    fn take_in(&self, from: &Path, name: &Path) -> io::Result<()> {
        let source = ConfinedDir::open(from)?;
        let leaves = sort_out(walk(&source, self.limits)?, &mut Vec::new());
        let mut target = ConfinedDir::open(&self.path)?;
        let (above, last) = split(name);
        for part in above {
            if target.look(part)?.is_none() {
                target.make_dir(part, 0o700)?;
            }
            target = target.descend(part)?;
        }
        target.remove_tree(last)?;
        let copier = Copier::within(self.limits);
        let into = target.make_dir(last, 0o700)?;
        let taken = fill(&source, &into, &leaves, &|leaf, name, from, to, buffer| match leaf.found.kind {
            Kind::Link => to.make_link(&from.link_text(name)?, name),
            Kind::File => copier.copy(from, name, to, buffer).map(drop),
            Kind::Dir | Kind::Special => Ok(()),
        });
        if taken.is_err() {
            // Half of another agent's work would pass for all of it.
            let _ = target.remove_tree(last);
        }
        taken
    }
}
