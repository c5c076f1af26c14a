//! The table of keys of one agent in a config. Data only.

use super::backend::BACKEND;
use super::orchestrator::SENSITIVITY;
use super::tools::CONTEXT_PATHS;
use super::{Kind, Section, alternative, key, not_yet};

#[rustfmt::skip] // a table: one key a line
pub(super) static AGENT: Section = Section {
    name: "agent",
    about: "One agent: a name, a backend, and a system message.",
    keys: &[
        key("id", Kind::Text, "The agent's name, unique in the team.").required().before_trust(),
        key("backend", Kind::Section(&BACKEND), "The model or CLI agent that the agent runs on.").required().before_trust(),
        key("system_message", Kind::Text, "Instructions for this agent only, given in its system prompt.").before_trust(),
        key("append_system_prompt", Kind::Text, "Text appended to `system_message`.").before_trust(),
        key("voting_sensitivity", Kind::Choice(SENSITIVITY), "How good an answer must be before this agent votes for it; overrides `orchestrator.voting_sensitivity`.").before_trust(),
        key("context_paths", CONTEXT_PATHS, "Files and directories in addition to `orchestrator.context_paths`; every agent of the team gets them, not only this one."),
        not_yet("subagent_agents", Kind::List(&Kind::Any), "The models that work as this agent's subagents: a list of entries with `backend` and, optionally, `id`."),
        not_yet("main_agent", Kind::Bool, "Whether this agent leads in MassGen's checkpoint mode: it works alone and delegates selected tasks to the whole team."),
        alternative("subtask", Kind::Text, "The part of the task that this agent works on in MassGen's decomposition mode.", "decomposition is not supported; describe the agent's part in `system_message`"),
        alternative("enable_nlip", Kind::Bool, "Whether MassGen routes messages with NLIP, the Natural Language Interaction Protocol.", "not supported"),
        alternative("nlip", Kind::Any, "Settings of MassGen's message routing with NLIP, the Natural Language Interaction Protocol.", "not supported"),
    ],
};
