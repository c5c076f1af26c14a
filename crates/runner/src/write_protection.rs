//! Write protection for MCP servers, which otherwise have the user's own rights: Althing's state directory, and those
//! paths of the grant that the agent may not write to, are read-only. Only bubblewrap can enforce that.

use crate::bubblewrap::Bubblewrap;
use crate::mount_check::{ExpectedMount, expected_mounts};
use crate::mount_table::{MountMode, MountRule, MountTable};
use crate::placeholders::PlaceholderUse;
use crate::policy::{PolicyError, SandboxPaths};
use crate::protected_paths::find_protected;
use crate::sandbox::Sandbox;
use althing_protocol::{ContextAccess, Grant};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The paths that a program may not write to, and the paths inside them that it may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteProtection {
    bubblewrap: Bubblewrap,
    paths: Vec<(PathBuf, MountMode)>,
    missing: Arc<PlaceholderUse>,
}

impl WriteProtection {
    /// The protection that a grant requires with this access; `None` if `sandbox` is not bubblewrap. It applies for
    /// the whole life of a program, which must be restarted when the access changes.
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
        // Read-only, because the state directory contains the workspaces of other agents.
        paths.extend(sandbox_paths.state_dir.map(|state| (state, MountMode::ReadOnly)));
        pin_ancestors(&mut paths);
        paths.sort_by_key(|(path, _)| path.components().count());
        let missing = Arc::new(PlaceholderUse::new(mounts.missing()));
        Ok(Some(Self { bubblewrap: bubblewrap.clone(), paths, missing }))
    }

    pub(crate) fn expected_mounts(&self) -> io::Result<Vec<ExpectedMount>> {
        let mode = |mode: MountMode| mode.max(MountMode::ReadOnly);
        let rules = self.paths.iter().map(|(path, kind)| MountRule { path: path.clone(), mode: mode(*kind) });
        expected_mounts(&rules.collect::<Vec<_>>(), self.missing.missing(), &[])
    }

    pub(crate) fn command(&self, cwd: &Path, argv: &[&str]) -> (PathBuf, Vec<OsString>) {
        (
            self.bubblewrap.program.clone(),
            Bubblewrap::protecting_args(&self.paths, self.missing.missing(), cwd, argv),
        )
    }
}

/// Adds a writable mount for every directory above one of the paths, except `/` and directories inside one of the
/// paths. A mount point cannot be renamed, so the program cannot move a protected path away from its mount by
/// renaming a directory above it.
fn pin_ancestors(paths: &mut Vec<(PathBuf, MountMode)>) {
    let above = |(path, _): &(PathBuf, MountMode)| {
        path.ancestors()
            .skip(1)
            .filter(|above| above.parent().is_some())
            .map(Path::to_owned)
            .collect::<Vec<_>>()
    };
    let ancestors: BTreeSet<PathBuf> = paths.iter().flat_map(above).collect();
    let is_inside = |ancestor: &PathBuf| paths.iter().any(|(path, _)| ancestor.starts_with(path));
    let free: Vec<PathBuf> = ancestors.into_iter().filter(|ancestor| !is_inside(ancestor)).collect();
    paths.extend(free.into_iter().map(|ancestor| (ancestor, MountMode::Writable)));
}

#[cfg(test)]
mod tests {
    use super::pin_ancestors;
    use crate::mount_table::MountMode;
    use std::path::PathBuf;

    #[test]
    fn every_directory_above_a_protected_path_becomes_a_mount_point() {
        let path = |text: &str| PathBuf::from(text);
        let mut paths = vec![
            (path("/home/u/dev/proj"), MountMode::Writable),
            (path("/home/u/dev/proj/.git"), MountMode::ReadOnly),
            (path("/home/u/dev/read-only"), MountMode::ReadOnly),
            (path("/home/u/dev/read-only/a/open"), MountMode::Writable),
        ];
        pin_ancestors(&mut paths);
        let added: Vec<_> = paths[4..].iter().map(|(path, mode)| (path.to_str().unwrap(), *mode)).collect();
        let expected = ["/home", "/home/u", "/home/u/dev"].map(|path| (path, MountMode::Writable));
        assert_eq!(added, expected);
    }
}
