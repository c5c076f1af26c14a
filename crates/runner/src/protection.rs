//! What a program with the user's own rights may still not write: the closed parts of an agent's grant.
//!
//! For MCP servers. They need the user's files, caches and network to do their work, so nothing is hidden from them; but
//! what their agent may never write is read-only for them too. Only bubblewrap can do that.

use crate::bubblewrap::Bubblewrap;
use crate::confinement::Confinement;
use crate::policy::{PolicyError, SandboxPaths};
use crate::protected::existing;
use crate::view::{Mode, View};
use althing_protocol::{ContextAccess, Grant};
use std::path::{Path, PathBuf};

/// The parts of a machine that a program may not write to.
#[derive(Clone, Debug)]
pub struct WriteProtection {
    bubblewrap: Bubblewrap,
    /// Shallow places first.
    places: Vec<(PathBuf, Mode)>,
}

impl WriteProtection {
    /// The protection that a grant asks for; `None` where this confinement has no bubblewrap. It holds for as long as the
    /// program runs, so context paths that a run opens for writing at its end are open from the beginning.
    pub fn new(confinement: &Confinement, grant: &Grant) -> Result<Option<Self>, PolicyError> {
        let Confinement::Bubblewrap(bubblewrap) = confinement else { return Ok(None) };
        let sandbox_paths = SandboxPaths::from(grant).checked()?;
        let view = View::new(&sandbox_paths, ContextAccess::Writable, &existing(&sandbox_paths)?);
        let mut places: Vec<(PathBuf, Mode)> = view
            .rules()
            .iter()
            .map(|rule| (rule.path.clone(), rule.mode.max(Mode::ReadOnly)))
            .filter(|(path, _)| Some(path) != sandbox_paths.state_dir.as_ref())
            .collect();
        // The other agents' workspaces are in the state directory.
        places.extend(sandbox_paths.state_dir.map(|state| (state, Mode::ReadOnly)));
        places.sort_by_key(|(path, _)| path.components().count());
        Ok(Some(Self { bubblewrap: bubblewrap.clone(), places }))
    }

    /// What to execute, and its arguments, to run `argv` in `cwd`.
    pub(crate) fn command(&self, cwd: &Path, argv: &[&str]) -> (PathBuf, Vec<String>) {
        (self.bubblewrap.program.clone(), Bubblewrap::protecting(&self.places, cwd, argv))
    }
}
