//! The members of a launched run.

use super::did_you_mean;
use althing_protocol::{AgentId, AgentMode, LaunchRun, Member, ModeChoice, TeamSpec};
use std::collections::BTreeMap;

pub(super) fn members(
    team: &TeamSpec,
    launch: &LaunchRun,
    choice: &ModeChoice,
) -> Result<(AgentMode, Vec<Member>), String> {
    let Some(first) = team.members.first() else { return Err("there are no agents to run".into()) };
    let named = match &launch.agents {
        Some(ids) => Some(named(team, ids)?),
        None => None,
    };
    match choice.agent_mode.or(launch.agent_mode).unwrap_or(AgentMode::Multi) {
        AgentMode::Single => {
            let tab = match &choice.agent {
                Some(id) => Some(find(team, id)?),
                None => None,
            };
            let by_user = choice.agent_mode == Some(AgentMode::Single);
            let member = match named.as_deref() {
                // If the user chose single-agent mode and an agent, that agent runs. If the user chose only an agent,
                // it runs unless the launch names another.
                _ if by_user && tab.is_some() => tab.unwrap_or(first),
                Some([_, _, ..]) if !by_user => {
                    return Err(
                        "`agent_mode: single` takes one agent: name only one in `agents`, or leave `agents` out."
                            .into(),
                    );
                }
                Some([named, ..]) => *named,
                Some([]) | None => tab.unwrap_or(first),
            };
            Ok((AgentMode::Single, vec![member.clone()]))
        }
        AgentMode::Multi if team.members.len() == 1 => Ok((AgentMode::Single, vec![first.clone()])),
        AgentMode::Multi => {
            let members = named.unwrap_or_else(|| team.members.iter().collect());
            Ok((AgentMode::Multi, members.into_iter().cloned().collect()))
        }
    }
}

fn named<'a>(team: &'a TeamSpec, ids: &[AgentId]) -> Result<Vec<&'a Member>, String> {
    if ids.is_empty() {
        return Err("`agents` is empty: name at least one agent, or leave `agents` out to use all.".into());
    }
    for id in ids {
        find(team, id)?;
    }
    Ok(team.members.iter().filter(|member| ids.contains(&member.id)).collect())
}

fn find<'a>(team: &'a TeamSpec, id: &AgentId) -> Result<&'a Member, String> {
    let known = || team.members.iter().map(|member| member.id.as_str());
    team.members.iter().find(|member| member.id == *id).ok_or_else(|| {
        let names: Vec<String> = known().map(|name| format!("`{name}`")).collect();
        format!(
            "there is no agent `{id}`.{} The agents are {}.",
            did_you_mean(id.as_str(), known()),
            names.join(", ")
        )
    })
}

pub(super) fn add_prompts(members: &mut [Member], prompts: &BTreeMap<AgentId, String>) -> Result<(), String> {
    for (id, text) in prompts {
        super::check_length("agent_system_prompts", text)?;
        let names: Vec<String> = members.iter().map(|member| member.id.to_string()).collect();
        let Some(member) = members.iter_mut().find(|member| member.id == *id) else {
            let hint = did_you_mean(id.as_str(), names.iter().map(String::as_str));
            return Err(format!(
                "`agent_system_prompts` names `{id}`, which is not a member of this run.{hint} The members are {}.",
                names.join(", ")
            ));
        };
        let before = member.system_message.take().map(|message| message + "\n\n").unwrap_or_default();
        member.system_message = Some(before + text);
    }
    Ok(())
}
