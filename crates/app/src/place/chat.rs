//! The place of a conversation's own agent: the files of the project, MCP servers, what the runs left. It works alone,
//! so it may write where it works, and nowhere else.

use super::{Places, Started, aside, guidance, servers};
use crate::project::Project;
use althing_engine::{Guidance, ProjectBriefing, Router};
use althing_protocol::{
    AgentPaths, AnswerLabel, BoxFuture, ChatSpec, ContextAccess, ContextPath, FileWrite, HandsConfig,
    ToolHost, Workplace,
};
use althing_workspace::{FileHost, FilePolicy, Memory, ProjectHost, TaskHost, ToolSet, project_instructions};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The interactive agent's place.
pub struct ChatPlace {
    /// Where a program works: the project, or a directory of its own where the project may not be written to.
    path: String,
    is_shared: bool,
    paths: AgentPaths,
    router: Router,
    briefing: ProjectBriefing,
    project: Option<Arc<Project>>,
    /// What is known of the project workspace.
    known: Mutex<Option<String>>,
    guidance: Mutex<Guidance>,
    memory: Option<Memory>,
}

impl Places {
    /// The place of the agent of a conversation whose files are in `dir`; None where nobody is talked to.
    pub(super) async fn make_chat(&self, dir: &Path, spec: &ChatSpec) -> Result<Option<ChatPlace>, String> {
        let Some(agent) = &spec.agent else { return Ok(None) };
        let (member, is_program) = (&agent.member, agent.member.is_program());
        let hands = self.hands.agent(&member.id);
        let (scratch, outputs) = (dir.join("workspace"), dir.join("outputs"));
        for made in [&scratch, &outputs] {
            let done = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(made);
            done.map_err(|error| format!("{} cannot be made: {error}", made.display()))?;
        }
        // Beside the conversation are its runs, whose results it is told by path where they are long.
        let runs = dir.parent().unwrap_or(dir).to_owned();
        let (project, mut context) = self.grounds(&spec.team.context_paths);
        context.insert(0, project.clone());
        let views: Vec<PathBuf> = [&runs].into_iter().chain(&self.skills.dirs).cloned().collect();
        let policy = FilePolicy {
            workspace: scratch.clone(),
            start: Some(PathBuf::from(&project.path)),
            views: views.clone(),
            context: context.clone(),
            state_dir: Some(self.state_dir.clone()),
        };
        let files = FileHost::undoable(&policy, ToolSet::All, dir).map_err(|error| error.to_string())?;
        let files = Arc::new(files);
        let mut hosts: Vec<Arc<dyn ToolHost>> = Vec::new();
        // A program reads and writes files by itself.
        if !is_program {
            hosts.push(files.clone());
        }
        self.add_hosts(&mut hosts, &hands, &project.path, (&scratch, &outputs)).await?;
        let memory = self.memory(&scratch, &self.notes.join(member.id.as_str()), &member.id).await;
        let guidance = Guidance {
            // A program finds them by itself.
            instructions: if self.hands.extras.instructions && !is_program {
                guidance::instructions(project_instructions(&files, &context))
            } else {
                Vec::new()
            },
            skills: guidance::skills(&self.skills),
            notes: memory.as_ref().map(guidance::notes),
            tasks: self.hands.extras.tasks.is_some(),
            ..Guidance::default()
        };
        let shown = |path: &Path| path.display().to_string();
        let paths = AgentPaths {
            readable: views.iter().map(|view| shown(view)).collect(),
            // Where it may not write to the project, this is the directory it works in.
            writable: if project.writable { vec![shown(&scratch)] } else { Vec::new() },
            context: context.clone(),
        };
        let briefing = ProjectBriefing {
            project: project.path.clone(),
            writable: project.writable,
            context: context.iter().skip(1).map(|path| path.path.clone()).collect(),
            runs: shown(&runs),
            is_program,
        };
        let path = if project.writable { project.path } else { shown(&scratch) };
        let router = Router::new(hosts, hands.excluded_tools);
        let (is_shared, guidance) = (project.writable, Mutex::new(guidance));
        let (project, known) = (self.project.clone(), Mutex::default());
        Ok(Some(ChatPlace { path, is_shared, paths, router, briefing, project, known, guidance, memory }))
    }

    /// The tools that a program has as well: of the project workspace, of MCP servers, of a task list.
    async fn add_hosts(
        &self,
        hosts: &mut Vec<Arc<dyn ToolHost>>,
        hands: &HandsConfig,
        project_dir: &str,
        (scratch, outputs): (&Path, &Path),
    ) -> Result<(), String> {
        if let Some(project) = &self.project {
            hosts.push(Arc::new(ProjectHost::new(project.workspace.clone())));
        }
        if !hands.mcp_servers.is_empty() {
            let environment = self.environment.clone();
            let tell = self.tell.clone();
            let launcher = self.walls.launcher.clone();
            let outputs = outputs.to_owned();
            let started =
                servers::start(&hands.mcp_servers, project_dir, launcher, environment, outputs, tell).await;
            self.note(Started::Servers(started.clone()));
            hosts.push(started);
        }
        if let Some(tasks) = self.hands.extras.tasks {
            let root = if tasks.as_files { scratch } else { outputs };
            let host = TaskHost::open(root, tasks.max_tasks).map_err(|error| error.to_string())?;
            hosts.push(Arc::new(host));
        }
        Ok(())
    }

    /// The project, and the other paths that the agent may read. Nobody hands over all of a home, or more, by being in
    /// it: there the agent only looks. What the config opens for reading only stays so.
    fn grounds(&self, configured: &[ContextPath]) -> (ContextPath, Vec<ContextPath>) {
        let here = self.cwd.canonicalize().unwrap_or_else(|_| self.cwd.clone());
        let kept = self.project.as_ref().map(|project| project.workspace.dir().to_owned());
        let dir = kept.clone().unwrap_or_else(|| here.clone());
        let home = self.home.as_ref().and_then(|home| home.canonicalize().ok());
        let path = dir.display().to_string();
        let mut project = ContextPath { path, writable: true, protected: Vec::new() };
        project.writable = dir.parent().is_some() && !home.is_some_and(|home| home.starts_with(&dir));
        let mut others = Vec::new();
        // Beside a project workspace there is what it is about.
        if kept.as_ref().is_some_and(|kept| *kept != here) {
            let path = here.display().to_string();
            others.push(ContextPath { path, writable: false, protected: Vec::new() });
        }
        for context in configured {
            // What runs only read of the project workspace is the agent's to keep.
            if kept.as_ref().is_some_and(|kept| Path::new(&context.path).starts_with(kept)) {
                continue;
            }
            if context.path == project.path {
                project.writable &= context.writable;
                project.protected.extend(context.protected.iter().cloned());
            } else if context.writable && Path::new(&context.path).starts_with(&dir) {
                project.protected.extend(context.protected.iter().cloned());
            } else {
                others.push(ContextPath { writable: false, ..context.clone() });
            }
        }
        (project, others)
    }
}

impl Workplace for ChatPlace {
    fn path(&self) -> &str {
        &self.path
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn host(&self) -> &dyn ToolHost {
        &self.router
    }

    fn reach(&self, _access: ContextAccess) -> AgentPaths {
        self.paths.clone()
    }

    fn briefing(&self, access: ContextAccess) -> String {
        let guidance = self.guidance.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{}{}", self.briefing.text(known.as_deref()), guidance.text(access))
    }

    fn keep(&self, _label: AnswerLabel) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    /// There is nobody else's work to see; the project and its own notes are what they are now.
    fn show(&self, _labels: Vec<AnswerLabel>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            if let Some(project) = self.project.clone() {
                // A project that somebody broke is told of as that; it can still be mended.
                let look = move || Ok(project.workspace.overview().unwrap_or_else(|error| error.to_string()));
                let known = aside(look).await?;
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
            }
            let Some(memory) = self.memory.clone() else { return Ok(()) };
            let notes = aside(move || Ok(guidance::notes(&memory))).await?;
            self.guidance.lock().unwrap_or_else(PoisonError::into_inner).notes = Some(notes);
            Ok(())
        })
    }

    fn view_of(&self, _agent: u32) -> String {
        String::new()
    }

    fn take<'a>(&'a self, _from: &'a str, _name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("nothing is taken over into a conversation".to_owned()) })
    }

    fn open_context(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn close_context(&self) -> BoxFuture<'_, Result<Vec<FileWrite>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
