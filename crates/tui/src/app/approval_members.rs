//! The members and the added paths of a run in the approval dialog, while the user edits it. The approval contains exactly what the dialog
//! shows, so that exactly these agents start.

use crate::host::TuiHost;
use althing_protocol::{AgentId, AgentMode, LaunchRun, Member, PathGrant, Permission, Proposal};

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

/// The text of a field with the mentions that the person typed expanded, and what they grant. The text that was in the
/// field before is not the person's, so its mentions grant nothing.
pub fn typed_mentions(host: &dyn TuiHost, text: String, before: &str) -> (String, Vec<PathGrant>) {
    let not_typed = host.mentions(before).1;
    let (expanded, mut grants) = host.mentions(&text);
    grants.retain(|grant| !not_typed.contains(grant));
    if grants.is_empty() { (text, grants) } else { (expanded, grants) }
}

/// Adds the grants to the launch, and removes those that the person added before and whose path is no longer in its
/// texts.
pub fn change_grants(proposal: &Proposal, edited: &mut LaunchRun, grants: Vec<PathGrant>) {
    let mut paths = std::mem::take(&mut edited.context_paths);
    paths.extend(grants);
    let is_named = |path: &str| {
        edited.task.contains(path) || edited.context.as_deref().is_some_and(|text| text.contains(path))
    };
    for grant in paths {
        let stays = proposal.launch.context_paths.contains(&grant) || is_named(&grant.path);
        if stays && !edited.context_paths.contains(&grant) {
            edited.context_paths.push(grant);
        }
    }
}

/// The proposal with the paths that the person added while editing the run.
pub fn with_added_paths(proposal: &Proposal, edited: &LaunchRun) -> Proposal {
    let mut proposal = proposal.clone();
    let added = edited.context_paths.iter().filter(|grant| !proposal.launch.context_paths.contains(grant));
    for grant in added.cloned().collect::<Vec<_>>() {
        // A planning run writes nothing.
        let writes = grant.permission == Permission::Write && !proposal.modes.planning;
        if writes && !proposal.may_write.contains(&grant.path) {
            proposal.may_read.retain(|path| *path != grant.path);
            proposal.may_write.push(grant.path);
        } else if !proposal.may_write.contains(&grant.path) && !proposal.may_read.contains(&grant.path) {
            proposal.may_read.push(grant.path);
        }
    }
    proposal
}
