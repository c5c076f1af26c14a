//! The environment of a conversation's chat agent: its project directory, tools, MCP servers and notes, and read access
//! to the files of the conversation's runs.

use super::grant::Grantee;
use super::tool_hosts::{ChatFileHost, WatchedHost};
use super::watch::AgentWatch;
use super::{SessionEnvs, guidance, make_dir, run_blocking};
use crate::project::Project;
use althing_engine::{Guidance, ProjectBriefing, ToolRouter};
use althing_protocol::{
    AgentEnv, AnswerLabel, BoxFuture, ChatSpec, ContextAccess, FileWrite, Grant, ToolHost, ToolsConfig,
};
use althing_workspace::{FileHost, FilePolicy, Memory, ProjectHost, TaskHost, ToolSet, project_instructions};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

pub struct ChatEnv {
    /// Where a CLI agent is started: the project, or the chat agent's own workspace if the project is read-only.
    path: String,
    grant: Grant,
    router: ToolRouter,
    briefing: ProjectBriefing,
    project: Option<Arc<Project>>,
    /// The overview of the project workspace; None before the first model call, or if the session has no project.
    overview: Mutex<Option<String>>,
    guidance: Mutex<Guidance>,
    memory: Option<Memory>,
}

impl SessionEnvs {
    pub(super) async fn open_chat_env(&self, dir: &Path, spec: &ChatSpec) -> Result<Option<ChatEnv>, String> {
        let Some(agent) = &spec.agent else { return Ok(None) };
        let (member, is_cli_agent) = (&agent.member, agent.member.is_cli_agent());
        let tools = self.tools.agent(&member.id);
        let grantee = Grantee::ChatAgent { dir, context_paths: &spec.team.context_paths };
        let grant = self.protected(self.grant(&grantee, &tools)).await;
        let (scratch, outputs) = (dir.join("workspace"), dir.join("outputs"));
        make_dir(&scratch)?;
        make_dir(&outputs)?;
        let runs = dir.parent().unwrap_or(dir).to_owned();
        let watch = AgentWatch::new(&self.planted, dir, grant.clone(), &self.notify);
        watch.load().await;
        let context = grant.context_paths();
        let project = context.first().cloned().ok_or("the chat agent has no project")?;
        let files = FileHost::undoable(&FilePolicy::from(&grant), ToolSet::All, dir);
        let files = files.map_err(|error| error.to_string())?;
        let files = Arc::new(files);
        let mut hosts: Vec<Arc<dyn ToolHost>> = Vec::new();
        // A CLI agent has file tools of its own.
        if !is_cli_agent {
            let host: Arc<dyn ToolHost> = Arc::new(ChatFileHost {
                files: files.clone(),
                project: project.path.clone(),
                can_ask: agent.can_ask || self.tools.can_ask_now,
                trust: self.edit_trust.clone(),
            });
            // What the chat agent writes matters only to CLI agents without a sandbox.
            hosts.push(if self.tools.has_trusting_agents {
                Arc::new(WatchedHost { host, watch: watch.clone() })
            } else {
                host
            });
        }
        self.add_hosts(&mut hosts, &tools, (&project.path, &grant), (&scratch, &outputs), &watch).await?;
        let memory = self.memory(&scratch, &self.notes.join(member.id.as_str()), &member.id).await;
        let guidance = Guidance {
            // A CLI agent reads a project's instructions itself.
            instructions: if self.tools.shared.instructions && !is_cli_agent {
                guidance::instructions(project_instructions(&files, &context))
            } else {
                Vec::new()
            },
            skills: guidance::skills(&self.skills),
            notes: self.notes_for_prompt(memory.as_ref(), &member.id),
            tasks: self.tools.shared.tasks.is_some(),
            ..Guidance::default()
        };
        let shown = |path: &Path| path.display().to_string();
        let briefing = ProjectBriefing {
            project: project.path.clone(),
            writable: project.writable,
            context: context.iter().skip(1).map(|path| path.path.clone()).collect(),
            runs: shown(&runs),
            is_cli_agent,
        };
        let path = if project.writable { project.path } else { shown(&scratch) };
        let router = ToolRouter::new(hosts, tools.excluded_tools);
        let guidance = Mutex::new(guidance);
        let (project, overview) = (self.project.clone(), Mutex::default());
        Ok(Some(ChatEnv { path, grant, router, briefing, project, overview, guidance, memory }))
    }

    async fn add_hosts(
        &self,
        hosts: &mut Vec<Arc<dyn ToolHost>>,
        tools: &ToolsConfig,
        (project_dir, grant): (&str, &Grant),
        (scratch, outputs): (&Path, &Path),
        watch: &AgentWatch,
    ) -> Result<(), String> {
        if let Some(project) = &self.project {
            hosts.push(Arc::new(ProjectHost::new(project.workspace.clone())));
        }
        if !tools.mcp_servers.is_empty() {
            let start = (project_dir, ContextAccess::Writable);
            let (host, servers) = self.server_tools(tools, start, grant, outputs).await;
            let watched = servers.as_ref().filter(|_| self.tools.has_trusting_agents);
            hosts.push(watch.servers(host, watched));
        }
        if let Some(tasks) = self.tools.shared.tasks {
            let root = if tasks.as_files { scratch } else { outputs };
            let host = TaskHost::open(root, tasks.max_tasks).map_err(|error| error.to_string())?;
            hosts.push(Arc::new(host));
        }
        Ok(())
    }
}

impl AgentEnv for ChatEnv {
    fn path(&self) -> &str {
        &self.path
    }

    fn tool_host(&self) -> &dyn ToolHost {
        &self.router
    }

    /// The same grant for every access: the chat agent works alone, so a writable project is writable at any time.
    fn grant(&self, _access: ContextAccess) -> Grant {
        self.grant.clone()
    }

    fn briefing(&self, access: ContextAccess) -> String {
        let guidance = self.guidance.lock().unwrap_or_else(PoisonError::into_inner);
        let overview = self.overview.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{}{}", self.briefing.text(overview.as_deref()), guidance.text(access))
    }

    fn snapshot(&self, _label: AnswerLabel) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    /// A chat agent has no snapshots to show. The engine calls this before each model call, so the overview and the
    /// notes are refreshed here.
    fn show_snapshots(&self, _labels: Vec<AnswerLabel>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            if let Some(project) = self.project.clone() {
                // If the project workspace is damaged, the agent sees the error, so that it can repair the files.
                let look = move || Ok(project.workspace.overview().unwrap_or_else(|error| error.to_string()));
                let overview = run_blocking(look).await?;
                *self.overview.lock().unwrap_or_else(PoisonError::into_inner) = Some(overview);
            }
            let Some(memory) = self.memory.clone() else { return Ok(()) };
            let notes = run_blocking(move || guidance::notes(&memory)).await?;
            self.guidance.lock().unwrap_or_else(PoisonError::into_inner).notes = Some(notes);
            Ok(())
        })
    }

    fn view_of(&self, _agent: u32) -> String {
        String::new()
    }

    fn import_dir<'a>(&'a self, _from: &'a str, _name: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("a conversation has no workspace to import into".to_owned()) })
    }

    fn open_context(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn close_context(&self) -> BoxFuture<'_, Result<Vec<FileWrite>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
