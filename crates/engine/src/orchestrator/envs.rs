//! The environments of agents with tools: opened on first use, and added to the requests of model calls.

use super::SessionDeps;
use crate::decider::{EnvOwner, Visibility};
use crate::workspaces::workspace_of;
use althing_protocol::{AgentEnv, AgentEnvs, Briefing, ModelRequest, TaskId};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// An environment. None if the agent has none; Err says why it could not be opened.
type OpenedEnv = Result<Option<Arc<dyn AgentEnv>>, String>;

/// The environments by task and member index. The chat agent's task is the conversation, and its index is 0.
#[derive(Default)]
pub(super) struct AgentEnvCache {
    envs: HashMap<(TaskId, usize), Arc<OnceCell<OpenedEnv>>>,
}

/// A handle of an environment. Opening takes time, so the first effect that needs the environment opens it.
#[derive(Clone)]
pub(super) struct AgentEnvHandle {
    agent_envs: Option<Arc<dyn AgentEnvs>>,
    /// The directory of the task's files.
    dir: String,
    owner: EnvOwner,
    cell: Arc<OnceCell<OpenedEnv>>,
}

impl AgentEnvCache {
    pub(super) fn handle(&mut self, deps: &SessionDeps, owner: EnvOwner) -> AgentEnvHandle {
        let (task, member_index) = match &owner {
            EnvOwner::Member { run, member_index, .. } => (run.clone(), *member_index),
            EnvOwner::ChatAgent { chat, .. } => (chat.clone(), 0),
        };
        let (agent_envs, dir) = (deps.agent_envs.clone(), (deps.task_dir)(&task));
        AgentEnvHandle {
            agent_envs,
            dir,
            owner,
            cell: self.envs.entry((task, member_index)).or_default().clone(),
        }
    }
}

impl AgentEnvHandle {
    pub(super) async fn env(&self) -> OpenedEnv {
        let open = || async {
            match (&self.agent_envs, &self.owner) {
                (Some(agent_envs), EnvOwner::Member { run, spec, member_index }) => {
                    agent_envs.open(run, &self.dir, spec, *member_index).await.map(Some)
                }
                (Some(agent_envs), EnvOwner::ChatAgent { spec, .. }) => {
                    agent_envs.open_chat(&self.dir, spec).await
                }
                (None, EnvOwner::Member { .. }) => Err("no agent environments are available".into()),
                (None, EnvOwner::ChatAgent { .. }) => Ok(None),
            }
        };
        self.cell.get_or_init(open).await.clone()
    }

    /// Adds tools, briefing, grant and working directory to a model request. Paths of other members' workspaces are
    /// replaced with the paths at which this agent sees their snapshots. Returns what was added to the text.
    pub(super) async fn add_context(
        &self,
        request: &mut ModelRequest,
        visibility: Visibility,
    ) -> Result<Option<Briefing>, String> {
        let Some(env) = self.env().await? else { return Ok(None) };
        env.show_snapshots(visibility.labels).await?;
        if let Some(call_context) = &mut request.call_context {
            call_context.workspace = Some(env.path().to_owned());
            // The agent only plans if the request or the environment says so.
            let planning = call_context.grant.planning;
            call_context.grant = env.grant(visibility.access);
            call_context.grant.planning |= planning;
        }
        let replaced_paths = match &self.owner {
            EnvOwner::ChatAgent { .. } => Vec::new(),
            EnvOwner::Member { spec, member_index, .. } => (0..spec.members.len())
                .filter(|other| other != member_index)
                .map(|other| (workspace_of(spec, &self.dir, other), env.view_of(other as u32 + 1)))
                .collect(),
        };
        let briefing = Briefing {
            system: env.briefing(visibility.access),
            // The environment of a CLI agent offers no file or command tools, because the agent has its own.
            tools: env.tool_host().tools(visibility.access),
            replaced_paths,
        };
        briefing.add_to(request);
        Ok(Some(briefing))
    }
}
