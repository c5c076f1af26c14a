//! The places where agents with hands work, opened when they are first needed, and what a model call looks like from
//! there.

use super::SessionDeps;
use crate::decider::{Sight, Whose};
use crate::workspaces::workspace_of;
use althing_protocol::{AgentEnv, AgentEnvs, Member, Message, ModelRequest, TaskId};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// A place that is open, None where there is none, or why it could not be opened.
type Opened = Result<Option<Arc<dyn AgentEnv>>, String>;

/// The places, by run and seat.
#[derive(Default)]
pub(super) struct Places {
    known: HashMap<(TaskId, usize), Arc<OnceCell<Opened>>>,
}

/// The way to a place: opening it takes time, so it is opened by the doer that needs it first.
#[derive(Clone)]
pub(super) struct Way {
    agent_envs: Option<Arc<dyn AgentEnvs>>,
    /// Where the task's files are.
    dir: String,
    whose: Whose,
    cell: Arc<OnceCell<Opened>>,
}

impl Places {
    /// The way to somebody's place.
    pub(super) fn way(&mut self, parts: &SessionDeps, whose: Whose) -> Way {
        let (task, seat) = match &whose {
            Whose::Member { run, seat, .. } => (run.clone(), *seat),
            Whose::Talker { chat, .. } => (chat.clone(), 0),
        };
        let (agent_envs, dir) = (parts.agent_envs.clone(), (parts.task_dir)(&task));
        Way { agent_envs, dir, whose, cell: self.known.entry((task, seat)).or_default().clone() }
    }
}

impl Way {
    /// The place itself.
    pub(super) async fn place(&self) -> Opened {
        let open = || async {
            match (&self.agent_envs, &self.whose) {
                (Some(agent_envs), Whose::Member { run, spec, seat }) => {
                    agent_envs.open(run, &self.dir, spec, *seat).await.map(Some)
                }
                (Some(agent_envs), Whose::Talker { spec, .. }) => agent_envs.open_chat(&self.dir, spec).await,
                (None, Whose::Member { .. }) => Err("there is no place to work in".into()),
                (None, Whose::Talker { .. }) => Ok(None),
            }
        };
        self.cell.get_or_init(open).await.clone()
    }

    fn is_programs(&self) -> bool {
        match &self.whose {
            Whose::Member { spec, seat, .. } => spec.members.get(*seat).is_some_and(Member::is_cli_agent),
            Whose::Talker { spec, .. } => {
                spec.agent.as_ref().is_some_and(|agent| agent.member.is_cli_agent())
            }
        }
    }

    /// Makes a request one from this place: its tools, what there is to know of it, others' paths as they are seen here.
    pub(super) async fn dress(&self, request: &mut ModelRequest, sight: Sight) -> Result<(), String> {
        let Some(place) = self.place().await? else { return Ok(()) };
        place.show_snapshots(sight.labels).await?;
        request.system = format!("{}\n\n{}", request.system, place.briefing(sight.access)).into();
        // A program has tools of its own for files and commands; those of a run's place would only be in their way. The
        // place of a conversation's program offers no such tools.
        if !self.is_programs() || matches!(self.whose, Whose::Talker { .. }) {
            request.tools.extend(place.tool_host().tools(sight.access));
        }
        if let Some(call_context) = &mut request.call_context {
            call_context.workspace = Some(place.path().to_owned());
            // The run decides when an agent plans; the workspace decides what there is to touch.
            let planning = call_context.grant.planning;
            call_context.grant = place.grant(sight.access);
            call_context.grant.planning |= planning;
        }
        let Whose::Member { spec, seat, .. } = &self.whose else { return Ok(()) };
        for other in (0..spec.members.len()).filter(|other| other != seat) {
            let path = workspace_of(spec, &self.dir, other);
            let seen = place.view_of(other as u32 + 1);
            for message in &mut request.messages {
                if let Message::User(text) = message
                    && text.contains(&path)
                {
                    *text = text.replace(&path, &seen);
                }
            }
        }
        Ok(())
    }
}
