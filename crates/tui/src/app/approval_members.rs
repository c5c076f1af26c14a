//! The members of a run in the approval dialog, while the user edits it. The approval contains exactly what the dialog
//! shows, so that exactly these agents start.

use althing_protocol::{AgentId, AgentMode, LaunchRun, Member, Proposal};

/// The agents to choose from: the proposed ones, or the whole team if fewer than two agents were proposed.
pub fn candidates<'a>(proposal: &'a Proposal, team: &'a [Member]) -> &'a [Member] {
    if proposal.members.len() < 2 && team.len() > 1 { team } else { &proposal.members }
}

pub fn is_single(proposal: &Proposal, edited: &LaunchRun) -> bool {
    edited.agent_mode.unwrap_or(proposal.modes.agent_mode) == AgentMode::Single
}

pub fn members<'a>(proposal: &'a Proposal, edited: &LaunchRun, team: &'a [Member]) -> Vec<&'a Member> {
    let everyone = || candidates(proposal, team).iter();
    match &edited.agents {
        Some(ids) => everyone().filter(|member| ids.contains(&member.id)).collect(),
        None if edited.agent_mode.is_none() => proposal.members.iter().collect(),
        None if is_single(proposal, edited) => everyone().take(1).collect(),
        None => everyone().collect(),
    }
}

/// `m`: all agents, then each agent alone in turn, then all agents again.
pub fn next_mode(proposal: &Proposal, edited: &mut LaunchRun, team: &[Member]) {
    let everyone = candidates(proposal, team);
    if everyone.len() < 2 {
        return;
    }
    let next = if is_single(proposal, edited) {
        selected_index(proposal, edited, team).and_then(|at| everyone.get(at + 1))
    } else {
        everyone.first()
    };
    match next.map(|member| member.id.clone()) {
        Some(id) => set_single(proposal, edited, id),
        None => set_multi(proposal, edited),
    }
}

/// Selects the previous or next agent, wrapping around. Does nothing unless a single agent is selected.
pub fn select_neighbor(proposal: &Proposal, edited: &mut LaunchRun, team: &[Member], step: isize) {
    let everyone = candidates(proposal, team);
    if !is_single(proposal, edited) || everyone.is_empty() {
        return;
    }
    let at = selected_index(proposal, edited, team).unwrap_or_default();
    let next = (at + everyone.len()).saturating_add_signed(step) % everyone.len();
    if let Some(id) = everyone.get(next).map(|member| member.id.clone()) {
        set_single(proposal, edited, id);
    }
}

fn selected_index(proposal: &Proposal, edited: &LaunchRun, team: &[Member]) -> Option<usize> {
    let chosen = members(proposal, edited, team).first().map(|member| member.id.clone())?;
    candidates(proposal, team).iter().position(|member| member.id == chosen)
}

fn set_single(proposal: &Proposal, edited: &mut LaunchRun, agent: AgentId) {
    edited.agent_mode = Some(AgentMode::Single);
    // Only this agent's prompt is kept, because a launch with prompts for agents that do not take part is rejected.
    edited.agent_system_prompts.clone_from(&proposal.launch.agent_system_prompts);
    edited.agent_system_prompts.retain(|id, _| *id == agent);
    edited.agents = Some(vec![agent]);
}

fn set_multi(proposal: &Proposal, edited: &mut LaunchRun) {
    edited.agent_mode = Some(AgentMode::Multi);
    edited.agent_system_prompts.clone_from(&proposal.launch.agent_system_prompts);
    // If the proposal names fewer than two agents, `None` stands for the whole team.
    edited.agents = proposal.launch.agents.clone().filter(|agents| agents.len() > 1);
}
