//! What a program with the user's own rights may still not write: the closed parts of an agent's grant.
//!
//! For MCP servers. They need the user's files, caches and network to do their work, so nothing is hidden from them; but
//! what their agent may never write is read-only for them too. Only bubblewrap can do that.

use crate::bubblewrap::Bubblewrap;
use crate::confinement::Confinement;
use crate::mount_table::{MountMode, MountTable};
use crate::policy::{PolicyError, SandboxPaths};
use crate::protected_paths::find_protected;
use althing_protocol::{ContextAccess, Grant};
use std::path::{Path, PathBuf};

/// The parts of a machine that a program may not write to.
#[derive(Clone, Debug)]
pub struct WriteProtection {
    bubblewrap: Bubblewrap,
    /// Shallow places first.
    paths: Vec<(PathBuf, MountMode)>,
}

impl WriteProtection {
    /// The protection that a grant asks for; `None` where this confinement has no bubblewrap. It holds for as long as the
    /// program runs, so context paths that a run opens for writing at its end are open from the beginning.
    pub fn new(confinement: &Confinement, grant: &Grant) -> Result<Option<Self>, PolicyError> {
        let Confinement::Bubblewrap(bubblewrap) = confinement else { return Ok(None) };
        let sandbox_paths = SandboxPaths::from(grant).checked()?;
        let mounts =
            MountTable::new(&sandbox_paths, ContextAccess::Writable, &find_protected(&sandbox_paths)?);
        let mut paths: Vec<(PathBuf, MountMode)> = mounts
            .rules()
            .iter()
            .map(|rule| (rule.path.clone(), rule.mode.max(MountMode::ReadOnly)))
            .filter(|(path, _)| Some(path) != sandbox_paths.state_dir.as_ref())
            .collect();
        // The other agents' workspaces are in the state directory.
        paths.extend(sandbox_paths.state_dir.map(|state| (state, MountMode::ReadOnly)));
        paths.sort_by_key(|(path, _)| path.components().count());
        Ok(Some(Self { bubblewrap: bubblewrap.clone(), paths }))
    }

    /// What to execute, and its arguments, to run `argv` in `cwd`.
    pub(crate) fn command(&self, cwd: &Path, argv: &[&str]) -> (PathBuf, Vec<String>) {
        (self.bubblewrap.program.clone(), Bubblewrap::protecting_args(&self.paths, cwd, argv))
    }
}
