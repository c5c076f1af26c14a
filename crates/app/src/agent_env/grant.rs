//! Decides the permissions of each agent of a run and of the chat agent: the sandbox policy (other tools call it
//! `SandboxPolicy`; here it is a [`Grant`]), with the readable and the writable roots, and with network access for the
//! agent's commands or none. The sandbox of commands, containers, CLI agents and MCP servers, and the policy of file
//! tools, are derived from the grant. The grant of a workflow task's program is decided in `althing_runner`
//! (`program`).

use super::SessionEnvs;
use super::named_code::CodeInUse;
use super::server_code::ServerDirs;
use crate::base_dirs::BaseDirs;
use crate::context_paths;
use althing_disk::real_path;
use althing_engine::workspace_of;
use althing_protocol::{
    CommandsConfig, ContextPath, Grant, GrantRoot, NetworkGrant, RootKind, RunSpec, ToolsConfig, runs_code_in,
};
use althing_runner::adapter::SearchPath;
use althing_runner::{git_code, linked_code, own_places, startup_code};
use althing_workspace::Workspace;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub(super) enum Grantee<'a> {
    Member { run_dir: &'a Path, spec: &'a RunSpec, member_index: usize },
    ChatAgent { dir: &'a Path, context_paths: &'a [ContextPath] },
}

impl SessionEnvs {
    pub(super) fn confined_spec<'a>(&self, spec: &'a RunSpec) -> Result<Cow<'a, RunSpec>, String> {
        if spec.unapproved_paths.is_empty() {
            return Ok(Cow::Borrowed(spec));
        }
        let project = self.project.as_ref().map(|project| project.workspace.dir());
        let dirs = context_paths::readable_dirs(&self.cwd, self.home.as_deref(), project);
        let context_paths = context_paths::confined_context(spec, &dirs)?;
        Ok(Cow::Owned(RunSpec { context_paths, ..spec.clone() }))
    }

    /// The most that an agent may touch, before [`Self::protected`] makes paths in it unwritable. The caller must
    /// call that, too.
    pub(super) fn grant(&self, agent: &Grantee<'_>, tools: &ToolsConfig) -> Grant {
        let (workspace, output_dir, start, mut views, context) = match agent {
            Grantee::Member { run_dir, spec, member_index } => {
                let workspace = PathBuf::from(workspace_of(spec, &run_dir.to_string_lossy(), *member_index));
                // The workspace's name is already safe as a path component.
                let output_dir = run_dir.join("outputs").join(workspace.file_name().unwrap_or_default());
                let asking = spec.subagent_of.as_ref().and_then(|of| of.workspace.as_ref());
                let others = Workspace::view_dir_of(run_dir, &workspace);
                let views = [others, output_dir.clone()].into_iter().chain(asking.map(PathBuf::from));
                (workspace, output_dir, None, views.collect::<Vec<_>>(), spec.context_paths.clone())
            }
            Grantee::ChatAgent { dir, context_paths } => {
                let (project, mut context) = self.project_and_context(context_paths);
                let start = PathBuf::from(&project.path);
                context.insert(0, project);
                // The chat agent gets only the paths of long results, so it must be able to read the runs'
                // directories, which are next to `dir`.
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
            protected_files: Vec::new(),
            other_dirs: self.dirs.work.clone(),
            agents_write: self.dirs.agents_write.clone(),
        }
    }

    /// Makes paths inside the writable context paths unwritable: what git runs, Althing's own directories, the config,
    /// workflow and server code in use, the settings of CLI agents, and the directories of `PATH`. A file in use stays
    /// writable if the user named it as a context path, and a directory with settings of CLI agents or of `PATH` if the
    /// user named it or a path in it.
    pub(super) async fn protected(&self, mut grant: Grant) -> Grant {
        let own_dirs = self.own_dirs.clone();
        let mut unwritable_dirs = self.unwritable_dirs.clone();
        let find_code_in_use = self.code_finder(&grant);
        let protect = move || {
            let is_writable = |root: &&GrantRoot| root.kind == RootKind::Context && root.writable;
            let (writable, others): (Vec<&GrantRoot>, Vec<&GrantRoot>) =
                grant.roots(RootKind::Context).partition(is_writable);
            let paths =
                |roots: Vec<&GrantRoot>| roots.iter().map(|root| root.path.clone()).collect::<Vec<_>>();
            let writable = paths(writable);
            let code = git_code(&writable, &paths(others), &grant.other_dirs);
            let linked: Vec<PathBuf> = linked_code(&writable).into_iter().map(|code| code.path).collect();
            let own: Vec<PathBuf> = own_dirs.iter().flat_map(|dir| own_places(dir)).collect();
            let named: Vec<PathBuf> = grant.roots.iter().map(|root| root.path.clone()).collect();
            let mut startup = startup_code(&writable);
            startup.retain(|file| !named.contains(file));
            let in_use = find_code_in_use();
            let files = in_use.files.iter().flat_map(|file| own_places(file));
            let files: Vec<PathBuf> = files.filter(|file| !named.contains(file)).collect();
            unwritable_dirs.retain(|dir| !named.iter().any(|named| named.starts_with(dir)));
            let contains_root = |dir: &PathBuf| writable.iter().any(|root| root.starts_with(dir));
            let code_dirs = in_use.dirs.iter().filter(|dir| !contains_root(dir));
            let mut code_dirs: Vec<PathBuf> = code_dirs.flat_map(|dir| own_places(dir)).collect();
            code_dirs.retain(|dir| !contains_root(dir));
            for root in grant.roots.iter_mut().filter(|root| is_writable(&&**root)) {
                let real = root.path.canonicalize().unwrap_or_else(|_| root.path.clone());
                root.writable = !own.iter().chain(&code.unknown).any(|path| real.starts_with(path));
                let all = own
                    .iter()
                    .chain(&code.paths)
                    .chain(&linked)
                    .chain(&startup)
                    .chain(&files)
                    .chain(&code_dirs);
                let protected = all.chain(&unwritable_dirs).filter(|path| path.starts_with(&real));
                root.protected.extend(protected.cloned());
            }
            grant.protected_files.extend(code.config_files.into_iter().chain(files));
            grant
        };
        // If the search panicked, the agent would get the default grant, which grants nothing.
        tokio::task::spawn_blocking(protect).await.unwrap_or_default()
    }

    /// Returns a function that finds the code that no agent may write. In the paths of that code, `${cwd}` stands for
    /// the workspace of this grant's agent.
    fn code_finder(&self, grant: &Grant) -> impl FnOnce() -> CodeInUse + use<> {
        let (tools, from) = (self.tools.clone(), BaseDirs { cwd: self.cwd.clone(), home: self.home.clone() });
        let workspace = grant.start.as_ref().or(grant.workspace.as_ref());
        let workspace = workspace.map(|dir| dir.display().to_string()).unwrap_or_default();
        let search = self.search().map(OsStr::to_owned);
        move || tools.unwritable_code(&from, &workspace, search.as_deref())
    }

    /// The chat agent's project directory counts as writable for every agent, because what the chat agent writes in
    /// one conversation must not run in the next one.
    pub(super) fn server_dirs(&self, grant: &Grant, workspace: &str) -> ServerDirs<'_> {
        let roots = grant.roots.iter().filter(|root| root.writable).map(|root| root.path.clone());
        let (project, _) = self.project_and_context(&[]);
        let project = Some(project).filter(|project| project.writable).map(|project| project.path.into());
        let own = grant.workspace.iter().cloned().chain([PathBuf::from(workspace)]).chain(project);
        let own = own.chain(self.dirs.agents_write.iter().cloned());
        let writable: Vec<PathBuf> = roots.chain(own).map(|path| real_path(&path)).collect();
        let search = self.search().map(OsStr::to_string_lossy).unwrap_or_default();
        let search = SearchPath::without(&search, &writable);
        ServerDirs {
            default: self.server_dir(),
            cwd: &self.cwd,
            writable,
            search,
            home: self.home.as_deref(),
            workspace: grant.workspace.as_deref().map(real_path),
            empty: self.empty_dir.clone(),
        }
    }

    pub(super) fn search(&self) -> Option<&OsStr> {
        self.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str())
    }

    fn server_dir(&self) -> PathBuf {
        self.tools.server_dir.clone().unwrap_or_else(|| self.cwd.clone())
    }

    /// The chat agent's project (the project workspace, or without one the working directory), and the other paths
    /// that it may use. The project is read-only if it is `/` or contains the home directory, so that starting
    /// Althing there does not grant the whole home directory.
    fn project_and_context(&self, configured: &[ContextPath]) -> (ContextPath, Vec<ContextPath>) {
        let here = self.cwd.clone();
        let project_dir = self.project.as_ref().map(|project| project.workspace.dir().to_owned());
        let dir = project_dir.clone().unwrap_or_else(|| here.clone());
        let home = self.home.as_ref().and_then(|home| home.canonicalize().ok());
        let path = dir.display().to_string();
        let mut project = ContextPath { path, writable: true, protected: Vec::new() };
        project.writable = dir.parent().is_some() && !home.is_some_and(|home| home.starts_with(&dir));
        let mut others = Vec::new();
        // The working directory may contain the files that the project is about.
        if project_dir.as_ref().is_some_and(|project_dir| *project_dir != here) {
            let path = here.display().to_string();
            others.push(ContextPath { path, writable: false, protected: Vec::new() });
        }
        for context in configured {
            // The chat agent may write to the whole project workspace, even to files that runs may only read.
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
                // Such a path is otherwise protected inside the project. The user named it as a writable context
                // path, so it stays writable.
                if runs_code_in(&dir, below).is_some_and(|row| row.protected) {
                    others.push(context.clone());
                }
            } else {
                others.push(ContextPath { writable: false, ..context.clone() });
            }
        }
        (project, others)
    }
}

fn network(commands: &CommandsConfig) -> NetworkGrant {
    match (&commands.docker, commands.network) {
        (Some(_), _) => NetworkGrant::Container,
        (None, true) => NetworkGrant::Open,
        (None, false) => NetworkGrant::Closed,
    }
}
