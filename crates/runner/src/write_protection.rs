//! Read-only paths for a program that otherwise has the user's own rights.
//!
//! This is used for MCP servers. They need the user's files, caches and network, so nothing is hidden from
//! them, but our state directory and those paths of the grant that their agent may not write to are read-only for
//! them, too. Only bubblewrap can enforce that.

use crate::bubblewrap::Bubblewrap;
use crate::mount_table::{MountMode, MountTable};
use crate::policy::{PolicyError, SandboxPaths};
use crate::protected_paths::find_protected;
use crate::sandbox::Sandbox;
use althing_protocol::{ContextAccess, Grant};
use std::path::{Path, PathBuf};

/// The paths that a program may not write to, and the paths inside them that it may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteProtection {
    bubblewrap: Bubblewrap,
    /// The paths with their modes in order of depth, shallow paths first.
    paths: Vec<(PathBuf, MountMode)>,
}

impl WriteProtection {
    /// The protection that a grant requires with this access; `None` if `sandbox` is not bubblewrap. The
    /// protection applies for the whole life of the program, so the program must be restarted when the access
    /// changes.
    pub fn new(sandbox: &Sandbox, grant: &Grant, access: ContextAccess) -> Result<Option<Self>, PolicyError> {
        let Sandbox::Bubblewrap(bubblewrap) = sandbox else { return Ok(None) };
        let sandbox_paths = SandboxPaths::from(grant).checked()?;
        let mounts = MountTable::new(&sandbox_paths, access, &find_protected(&sandbox_paths)?);
        let mut paths: Vec<(PathBuf, MountMode)> = mounts
            .rules()
            .iter()
            .map(|rule| (rule.path.clone(), rule.mode.max(MountMode::ReadOnly)))
            .filter(|(path, _)| Some(path) != sandbox_paths.state_dir.as_ref())
            .collect();
        // The state directory contains the workspaces of other agents.
        paths.extend(sandbox_paths.state_dir.map(|state| (state, MountMode::ReadOnly)));
        paths.sort_by_key(|(path, _)| path.components().count());
        Ok(Some(Self { bubblewrap: bubblewrap.clone(), paths }))
    }

    /// The executable and arguments that run `argv` in `cwd`.
    pub(crate) fn command(&self, cwd: &Path, argv: &[&str]) -> (PathBuf, Vec<String>) {
        (self.bubblewrap.program.clone(), Bubblewrap::protecting_args(&self.paths, cwd, argv))
    }
}
