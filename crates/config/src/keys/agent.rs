//! Keys of one agent.
//!
//! Facts only; see `keys`.

use super::backend::BACKEND;
use super::orchestrator::SENSITIVITY;
use super::tools::CONTEXT_PATHS;
use super::{Kind, Section, instead, key, later};

/// One agent of the team.
#[rustfmt::skip] // a table: one key a line
pub(super) static AGENT: Section = Section {
    name: "agent",
    about: "One agent: a name, a model, and what it is told.",
    keys: &[
        key("id", Kind::Text, "Its name, unique in the team.").required().before_trust(),
        key("backend", Kind::Section(&BACKEND), "The model or program that it runs on.").required().before_trust(),
        key("system_message", Kind::Text, "What it is told about itself.").before_trust(),
        key("append_system_prompt", Kind::Text, "More of the same, added behind `system_message`.").before_trust(),
        key("voting_sensitivity", Kind::Choice(SENSITIVITY), "This agent's own `orchestrator.voting_sensitivity`.").before_trust(),
        key("context_paths", CONTEXT_PATHS, "Paths besides `orchestrator.context_paths`; the whole team gets them."),
        later("subagent_agents", Kind::List(&Kind::Any), "Agents that it may start by itself."),
        later("main_agent", Kind::Bool, "Whether it leads in MassGen's checkpoint mode."),
        instead("subtask", Kind::Text, "Its part in MassGen's decomposition mode.", "decomposition is not offered; describe the part in `system_message`"),
        instead("enable_nlip", Kind::Bool, "MassGen's NLIP message routing.", "not offered"),
        instead("nlip", Kind::Any, "MassGen's NLIP message routing.", "not offered"),
    ],
};
