//! The table of keys of `orchestrator.interactive_mode`, the conversation that launches runs. Data only. The keys are
//! Althing's own; MassGen ignores them.

use super::backend::BACKEND;
use super::{COUNT_OR_ZERO, Kind, POSITIVE, Section, TOKENS, key};

#[rustfmt::skip] // a table: one key a line
pub(super) static INTERACTIVE: Section = Section {
    name: "interactive_mode",
    about: "The conversation that launches runs. If this section is present, the conversation is on, unless `enabled` is `false`.",
    keys: &[
        key("enabled", Kind::Bool, "Whether messages go to the chat agent, which launches runs.").default("true"),
        key("require_approval", Kind::Bool, "Whether a person approves each run before it starts.").default("true"),
        key("backend", Kind::Section(&BACKEND), "The chat agent's backend; default: the first agent's."),
        key("append_system_prompt", Kind::Text, "Text appended to the chat agent's system prompt."),
        key("context_compaction", Kind::Section(&COMPACTION), "When a long conversation is summarized."),
        key("budget_usd", Kind::Number(POSITIVE), "Maximum cost of the conversation and its runs, in US dollars. For `althing mcp`: of all runs of the server together."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static COMPACTION: Section = Section {
    name: "context_compaction",
    about: "When a long conversation is summarized.",
    keys: &[
        key("enabled", Kind::Bool, "Whether a long conversation is summarized at all.").default("true"),
        key("threshold_tokens", Kind::Integer(TOKENS), "Size of the conversation, in tokens, from which it is summarized.").default("100000"),
        key("preserve_recent", Kind::Integer(COUNT_OR_ZERO), "Number of newest exchanges that stay verbatim.").default("10"),
    ],
};
