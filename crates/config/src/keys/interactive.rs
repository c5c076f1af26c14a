//! Keys of `orchestrator.interactive_mode`: the conversation in front of the runs.
//!
//! Facts only; see `keys`. These are Althing's own: MassGen tolerates the section and ignores what is in it.

use super::backend::BACKEND;
use super::{COUNT_OR_ZERO, Kind, POSITIVE, Section, TOKENS, key};

/// The conversation in front of the runs.
#[rustfmt::skip] // a table: one key a line
pub(super) static INTERACTIVE: Section = Section {
    name: "interactive_mode",
    about: "The conversation in front of the runs. Present, it is on unless `enabled: false`.",
    keys: &[
        key("enabled", Kind::Bool, "Whether messages go to the interactive agent first.").default("true"),
        key("require_approval", Kind::Bool, "Whether a person approves each run before it starts.").default("true"),
        key("backend", Kind::Section(&BACKEND), "The interactive agent's backend; the first agent's where absent."),
        key("append_system_prompt", Kind::Text, "Text added to what the interactive agent is told."),
        key("context_compaction", Kind::Section(&COMPACTION), "When a long conversation is summed up."),
        key("budget_usd", Kind::Number(POSITIVE), "Most that the conversation and its runs may cost, in US dollars."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static COMPACTION: Section = Section {
    name: "context_compaction",
    about: "When a long conversation is summed up.",
    keys: &[
        key("enabled", Kind::Bool, "Whether it is summed up at all.").default("true"),
        key("threshold_tokens", Kind::Integer(TOKENS), "Size of the conversation, in tokens, from which it is summed up.").default("100000"),
        key("preserve_recent", Kind::Integer(COUNT_OR_ZERO), "Number of newest exchanges that stay word for word.").default("10"),
    ],
};
