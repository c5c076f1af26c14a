//! What the interactive agent is told: who it is, how it works, what it can launch and when.
//!
//! The role of the one who is talked to, not of one who takes part in a run: nothing of how agents in a run answer and
//! choose is said here, and none of their tools is named. What it should know of its place (files, skills, memories, task
//! lists) is told by the place itself.

use super::sections::{family, identity, orchestrator};
use althing_protocol::{InteractiveAgent, TeamSpec};

pub use super::sections::orchestrator::launch_guidance;

/// What the sections of the interactive agent's prompt may depend on.
pub(crate) struct ChatPromptInput<'a> {
    pub(crate) agent: &'a InteractiveAgent,
    pub(crate) team: &'a TeamSpec,
    pub(crate) project: Option<&'a str>,
}

/// How it works.
const BEHAVIOUR: &str = "Do what the user asks rather than describe how it could be done; ask back only where you cannot go on \
                         without knowing. Call several tools at once where they do not depend on each other. Say what you \
                         did and what you found, briefly and truthfully; if something failed, say so.";

/// The whole system prompt.
pub(crate) fn system_prompt(input: &ChatPromptInput<'_>) -> String {
    let member = &input.agent.member;
    let project = input.project.map(|path| format!("You work in the project workspace {path}."));
    let user = input.agent.append_system_prompt.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let sections = [
        identity::from_config(member.system_message.as_deref()),
        Some(BEHAVIOUR.to_owned()),
        family::instructions(&member.model).map(str::to_owned),
        project,
        Some(orchestrator::section(input)),
        user.map(str::to_owned),
    ];
    let texts: Vec<String> = sections.into_iter().flatten().collect();
    texts.join("\n\n")
}
