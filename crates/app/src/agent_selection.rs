//! Which agents take part: what `--agents` and `--single-agent` mean for a team.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::settings::SingleAgent;
use crate::team::Team;
use althing_protocol::{AgentId, AgentMode, ModeChoice};

/// The agents that the command line selects, and the task. The word after `--single-agent` is an agent id if the team
/// has such an agent, or else the task if no other word is the task.
pub struct AgentSelection {
    /// The task, if there is one.
    pub task: Option<String>,
    /// The agent that works alone, if one does.
    pub single: Option<SingleAgent>,
    agents: Vec<String>,
}

impl AgentSelection {
    /// Applies the settings to this team. Fails if they name an unknown agent.
    pub fn of(app: &AppContext, task: Option<String>, team: &Team) -> Result<Self, Failure> {
        let (single, agents) = (app.settings.single_agent.clone(), app.settings.agents.clone());
        let mut selection = Self { task, single, agents };
        selection.resolve(team)?;
        Ok(selection)
    }

    /// Like [`Self::of`], for commands without a task: the word after `--single-agent` must be an agent id.
    pub fn without_task(app: &AppContext, team: &Team) -> Result<Self, Failure> {
        Self::of(app, Some(String::new()), team)
    }

    fn resolve(&mut self, team: &Team) -> Result<(), Failure> {
        let known = |id: &str| team.config.agents.iter().any(|agent| agent.id.as_str() == id);
        if let Some(SingleAgent::Named(id)) = &self.single
            && !known(id)
            && self.task.is_none()
        {
            self.task = Some(id.clone());
            self.single = Some(SingleAgent::First);
        }
        match self.agents.iter().chain(self.named()).find(|id| !known(id)) {
            None => Ok(()),
            Some(unknown) => {
                let ids: Vec<&str> = team.config.agents.iter().map(|agent| agent.id.as_str()).collect();
                Err(Failure::usage(format!("there is no agent `{unknown}`"))
                    .hint(format!("the agents are: {}", ids.join(", "))))
            }
        }
    }

    fn named(&self) -> Option<&String> {
        match &self.single {
            Some(SingleAgent::Named(id)) => Some(id),
            Some(SingleAgent::First) | None => None,
        }
    }

    /// Removes agents that `--agents` does not name. Ignores `--single-agent`, because in a conversation the user
    /// chooses for each message whether one agent works alone.
    pub fn narrow(&self, team: &mut Team) {
        if !self.agents.is_empty() {
            team.config.agents.retain(|agent| self.agents.iter().any(|id| id == agent.id.as_str()));
        }
    }

    /// Removes every agent that does not take part in the run.
    pub fn narrow_to_run(&self, team: &mut Team) {
        self.narrow(team);
        let agents = &mut team.config.agents;
        match &self.single {
            Some(SingleAgent::Named(id)) => agents.retain(|agent| agent.id.as_str() == id),
            Some(SingleAgent::First) => agents.truncate(1),
            None => {}
        }
    }

    /// The modes that a conversation starts with.
    pub fn modes(&self, app: &AppContext) -> ModeChoice {
        ModeChoice {
            agent_mode: self.single.as_ref().map(|_| AgentMode::Single),
            agent: self.named().map(|id| AgentId::from(id.as_str())),
            refinement: app.settings.quick.then_some(false),
            planning: app.settings.plan.then_some(true),
        }
    }
}
