//! What a conversation is made of: the agent that is talked to, and the team that its runs are made of.

use crate::args::{Options, Single};
use crate::context;
use crate::exit::Failure;
use crate::project::{Project, with_project};
use crate::session::{self, Cast};
use crate::surroundings::Surroundings;
use crate::team::Team;
use althing_protocol::{
    AgentId, AgentMode, ChatSpec, ContextPath, HandsConfig, InteractiveAgent, Millis, ModeChoice, TeamSpec,
};
use std::path::PathBuf;

/// A conversation, ready to be opened, with everyone who takes part in it.
pub struct Conversation {
    pub spec: ChatSpec,
    pub cast: Cast,
}

/// Makes the conversation that a team and these options mean. `attended`: whether a person may override winners.
pub fn assemble(
    team: &Team,
    options: &Options,
    attended: bool,
    project: Option<&Project>,
    surroundings: &Surroundings,
) -> Result<Conversation, Failure> {
    let about = about(team, options, project, surroundings)?;
    let mut cast = session::cast(team, Some(&about), options, surroundings)?;
    let team_spec = team_spec(team, &cast, about, options, attended);
    let agent = match team.interactive() {
        None => None,
        Some(config) => {
            let first = team.config.agents.first();
            let backend = config.backend.clone().or_else(|| first.map(|agent| agent.backend.clone()));
            let backend = backend.ok_or_else(|| Failure::usage("there is no agent to talk to"))?;
            // Its own id, which no agent of the team has.
            let mut id = "interactive".to_owned();
            while cast.members.iter().any(|member| member.id.as_str() == id) {
                id.push('_');
            }
            let id = AgentId::from(id.as_str());
            let mut member = cast.add(&id, &backend, team, options, surroundings)?;
            // Who it is, is told by the config only where the agent is the first one itself.
            member.system_message =
                first.filter(|_| config.backend.is_none()).and_then(|agent| agent.system_message.clone());
            cast.hands.insert(id, hands(team));
            Some(InteractiveAgent {
                member,
                require_approval: config.require_approval,
                append_system_prompt: config.append_system_prompt.clone(),
                compaction: config.context_compaction,
                budget_micro_usd: config.budget_usd.map(|dollars| (dollars * 1e6).ceil() as u64),
            })
        }
    };
    let spec =
        ChatSpec { agent, team: team_spec, project: project.map(Project::dir), modes: toggled(options) };
    Ok(Conversation { spec, cast })
}

/// Everyone who takes part in a conversation that is gone on with.
pub fn recast(
    spec: &ChatSpec,
    team: &Team,
    options: &Options,
    surroundings: &Surroundings,
) -> Result<Cast, Failure> {
    let mut cast = session::cast(team, None, options, surroundings)?;
    if let Some(agent) = &spec.agent {
        let first = team.config.agents.first();
        let own = team.config.interactive.as_ref().and_then(|config| config.backend.clone());
        let backend = own.or_else(|| first.map(|agent| agent.backend.clone()));
        let backend = backend.ok_or_else(|| Failure::usage("there is no agent to talk to"))?;
        cast.add(&agent.member.id, &backend, team, options, surroundings)?;
        cast.hands.insert(agent.member.id.clone(), hands(team));
    }
    Ok(cast)
}

/// The MCP servers of the interactive agent, and the tools it does not get: its own backend's, else the first agent's.
fn hands(team: &Team) -> HandsConfig {
    let own = team.config.interactive.as_ref().map(|config| &config.hands);
    let own = own.filter(|hands| !hands.mcp_servers.is_empty() || !hands.excluded_tools.is_empty());
    let hands = own.or_else(|| team.config.agents.first().map(|agent| &agent.hands)).cloned();
    let HandsConfig { mcp_servers, excluded_tools, .. } = hands.unwrap_or_default();
    HandsConfig { mcp_servers, excluded_tools, ..HandsConfig::default() }
}

/// The paths that every run of a team is about.
pub fn about(
    team: &Team,
    options: &Options,
    project: Option<&Project>,
    surroundings: &Surroundings,
) -> Result<Vec<ContextPath>, Failure> {
    let home = surroundings.variable("HOME").map(PathBuf::from);
    let from = context::From { cwd: &surroundings.cwd, home: home.as_deref() };
    let (paths, _) = context::gather(&team.config.context_paths, &options.context_path, "", &from)?;
    Ok(with_project(paths, project))
}

/// The team that runs are made of.
pub fn team_spec(
    team: &Team,
    cast: &Cast,
    context_paths: Vec<ContextPath>,
    options: &Options,
    attended: bool,
) -> TeamSpec {
    let mut rules = team.config.rules.clone();
    if !attended {
        rules.override_window = None;
    }
    if let Some(seconds) = options.orchestrator_timeout {
        rules.limits.orchestrator = Millis::from_secs(seconds);
    }
    if let Some(dollars) = options.max_cost {
        rules.limits.cost_micro_usd = Some((dollars * 1e6).ceil() as u64);
    }
    TeamSpec { members: cast.members.clone(), rules, context_paths }
}

/// What the user toggled on the command line.
fn toggled(options: &Options) -> ModeChoice {
    let agent = match &options.single_agent {
        Some(Single::Named(id)) => Some(AgentId::from(id.as_str())),
        Some(Single::First) | None => None,
    };
    ModeChoice {
        agent_mode: options.single_agent.as_ref().map(|_| AgentMode::Single),
        agent,
        refinement: options.quick.then_some(false),
        planning: options.plan.then_some(true),
    }
}
