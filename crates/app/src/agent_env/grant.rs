//! The grant of each agent of a run and of the chat agent: decides what the agent may read and write, and whether its
//! commands have network access. The sandbox policy of commands, containers, CLI agents and MCP servers, and the
//! policy of file tools, are derived from the grant. (The program of a workflow task gets its grant in
//! `runner/src/program/mod.rs`.)

use super::SessionEnvs;
use crate::context_paths;
use althing_engine::workspace_of;
use althing_protocol::{
    CommandsConfig, ContextPath, Grant, GrantRoot, NetworkGrant, RunSpec, ToolsConfig, runs_code,
};
use althing_workspace::Workspace;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The agent that a grant is made for.
pub(super) enum Grantee<'a> {
    /// A member of a run whose files are in `run_dir`.
    Member { run_dir: &'a Path, spec: &'a RunSpec, member_index: usize },
    /// The chat agent of a conversation whose files are in `dir`.
    ChatAgent { dir: &'a Path, context_paths: &'a [ContextPath] },
}

impl SessionEnvs {
    /// The spec with the context paths that agents really get: see [`context_paths::confined_context`].
    pub(super) fn confined_spec<'a>(&self, spec: &'a RunSpec) -> Result<Cow<'a, RunSpec>, String> {
        if spec.unapproved_paths.is_empty() {
            return Ok(Cow::Borrowed(spec));
        }
        let project = self.project.as_ref().map(|project| project.workspace.dir());
        let dirs = context_paths::readable_dirs(&self.cwd, self.home.as_deref(), project);
        let context_paths = context_paths::confined_context(spec, &dirs)?;
        Ok(Cow::Owned(RunSpec { context_paths, ..spec.clone() }))
    }

    /// The most that an agent may touch. [`Grant::with_access`] narrows it for a single call.
    pub(super) fn grant(&self, agent: &Grantee<'_>, tools: &ToolsConfig) -> Grant {
        let (workspace, output_dir, start, mut views, context) = match agent {
            Grantee::Member { run_dir, spec, member_index } => {
                let workspace = PathBuf::from(workspace_of(spec, &run_dir.to_string_lossy(), *member_index));
                // The workspace's name is already safe as a path component.
                let output_dir = run_dir.join("outputs").join(workspace.file_name().unwrap_or_default());
                // A subagent can read the workspace of the agent that launched it.
                let asking = spec.subagent_of.as_ref().and_then(|of| of.workspace.as_ref());
                let others = Workspace::view_dir_of(run_dir, &workspace);
                let views = [others, output_dir.clone()].into_iter().chain(asking.map(PathBuf::from));
                (workspace, output_dir, None, views.collect::<Vec<_>>(), spec.context_paths.clone())
            }
            Grantee::ChatAgent { dir, context_paths } => {
                let (project, mut context) = self.project_and_context(context_paths);
                let start = PathBuf::from(&project.path);
                context.insert(0, project);
                // The directories of the conversation's runs are next to `dir`. The agent reads long results there: it
                // gets only their paths.
                let runs = dir.parent().unwrap_or(dir).to_owned();
                (dir.join("workspace"), dir.join("outputs"), Some(start), vec![runs], context)
            }
        };
        views.extend(self.skills.dirs.iter().cloned());
        Grant {
            workspace: Some(workspace),
            start,
            roots: views
                .into_iter()
                .map(GrantRoot::view)
                .chain(context.iter().map(GrantRoot::from))
                .collect(),
            planning: matches!(agent, Grantee::Member { spec, .. } if spec.modes.planning),
            network: tools.commands.as_ref().map(network).unwrap_or_default(),
            state_dir: Some(self.state_dir.clone()),
            output_dir: Some(output_dir),
        }
    }

    /// The chat agent's project (the project workspace, or without one the working directory), and the other paths
    /// that the chat agent may use. The project is read-only if it is `/`, or if it is or contains the home directory,
    /// so that starting Althing there does not grant the whole home; and also if the config makes it read-only.
    fn project_and_context(&self, configured: &[ContextPath]) -> (ContextPath, Vec<ContextPath>) {
        let here = self.cwd.canonicalize().unwrap_or_else(|_| self.cwd.clone());
        let project_dir = self.project.as_ref().map(|project| project.workspace.dir().to_owned());
        let dir = project_dir.clone().unwrap_or_else(|| here.clone());
        let home = self.home.as_ref().and_then(|home| home.canonicalize().ok());
        let path = dir.display().to_string();
        let mut project = ContextPath { path, writable: true, protected: Vec::new() };
        project.writable = dir.parent().is_some() && !home.is_some_and(|home| home.starts_with(&dir));
        let mut others = Vec::new();
        // If the project workspace is not the working directory, the agent may also read the working directory, which
        // contains the files that the project is about.
        if project_dir.as_ref().is_some_and(|project_dir| *project_dir != here) {
            let path = here.display().to_string();
            others.push(ContextPath { path, writable: false, protected: Vec::new() });
        }
        for context in configured {
            // Skip paths in the project workspace: the chat agent may write to the whole workspace, even to files that
            // runs may only read.
            if project_dir
                .as_ref()
                .is_some_and(|project_dir| Path::new(&context.path).starts_with(project_dir))
            {
                continue;
            }
            if context.path == project.path {
                project.writable &= context.writable;
                project.protected.extend(context.protected.iter().cloned());
            } else if context.writable && Path::new(&context.path).starts_with(&dir) {
                project.protected.extend(context.protected.iter().cloned());
                let below = Path::new(&context.path).strip_prefix(&dir).unwrap_or(Path::new(""));
                // Files at this path run code later, so the path is usually protected inside the project. Here it is
                // writable, because the user named it as a writable context path.
                if runs_code(below).is_some_and(|row| row.protected) {
                    others.push(context.clone());
                }
            } else {
                others.push(ContextPath { writable: false, ..context.clone() });
            }
        }
        (project, others)
    }
}

/// The network access of an agent's commands, as its config says.
fn network(commands: &CommandsConfig) -> NetworkGrant {
    match (&commands.docker, commands.network) {
        (Some(_), _) => NetworkGrant::Container,
        (None, true) => NetworkGrant::Open,
        (None, false) => NetworkGrant::Closed,
    }
}
