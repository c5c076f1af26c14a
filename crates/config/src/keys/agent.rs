//! Keys of one agent.
//!
//! Data only; see `keys`.

use super::backend::BACKEND;
use super::orchestrator::SENSITIVITY;
use super::tools::CONTEXT_PATHS;
use super::{Kind, Section, alternative, key, not_yet};

/// One agent of the team.
#[rustfmt::skip] // a table: one key a line
pub(super) static AGENT: Section = Section {
    name: "agent",
    about: "One agent: a name, a backend, and a system message.",
    keys: &[
        key("id", Kind::Text, "The agent's name, unique in the team.").required().before_trust(),
        key("backend", Kind::Section(&BACKEND), "The model or CLI agent that the agent runs on.").required().before_trust(),
        key("system_message", Kind::Text, "The agent's own system message.").before_trust(),
        key("append_system_prompt", Kind::Text, "Text appended to `system_message`.").before_trust(),
        key("voting_sensitivity", Kind::Choice(SENSITIVITY), "`orchestrator.voting_sensitivity` for this agent.").before_trust(),
        key("context_paths", CONTEXT_PATHS, "Context paths in addition to `orchestrator.context_paths`; the whole team gets them."),
        not_yet("subagent_agents", Kind::List(&Kind::Any), "Subagents that the agent may start."),
        not_yet("main_agent", Kind::Bool, "Whether the agent leads in MassGen's checkpoint mode."),
        alternative("subtask", Kind::Text, "The agent's part in MassGen's decomposition mode.", "decomposition is not supported; describe the agent's part in `system_message`"),
        alternative("enable_nlip", Kind::Bool, "MassGen's NLIP message routing.", "not supported"),
        alternative("nlip", Kind::Any, "MassGen's NLIP message routing.", "not supported"),
    ],
};
