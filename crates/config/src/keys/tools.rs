//! Keys of MCP servers and hooks: what a config can start on this machine.
//!
//! Facts only; see `keys`. They do not act yet, but their shape is known, because a config that would start
//! processes must be recognised before it is trusted.

use super::{Kind, Range, SECONDS, Section, key, later, word};

/// One MCP server.
#[rustfmt::skip] // a table: one key a line
pub(super) static MCP_SERVER: Section = Section {
    name: "mcp_server",
    about: "An MCP server: a program to start, or an address to call.",
    keys: &[
        key("name", Kind::Text, "Its name."),
        key("type", Kind::Choice(&[word("stdio"), word("streamable-http"), word("sse"), word("http")]), "How to talk to it."),
        key("command", Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]), "The program to start."),
        key("args", Kind::List(&Kind::Any), "Its arguments."),
        key("env", Kind::Map(&Kind::Any), "Its environment; secrets best as `${VARIABLE}`."),
        key("cwd", Kind::Text, "Its working directory."),
        key("url", Kind::Text, "The address to call."),
        key("headers", Kind::Map(&Kind::Text), "HTTP headers to send."),
        key("allowed_tools", Kind::List(&Kind::Text), "The only tools taken from it."),
        key("exclude_tools", Kind::List(&Kind::Text), "Tools not taken from it."),
        later("security", Kind::Any, "MassGen's checks of the server."),
        later("defer_loading", Kind::Bool, "Whether its tools are loaded when first wanted."),
        later("timeout_seconds", Kind::Number(SECONDS), "Longest time of a call."),
    ],
};

/// Hooks around tool calls.
#[rustfmt::skip] // a table: one key a line
pub(super) static HOOKS: Section = Section {
    name: "hooks",
    about: "Programs called before and after tool calls.",
    keys: &[
        key("PreToolUse", HOOK_LIST, "Called before a tool call."),
        key("PostToolUse", HOOK_LIST, "Called after a tool call."),
        key("override", Kind::Bool, "Whether these replace the hooks of the whole team."),
    ],
};

const HOOK_LIST: Kind = Kind::Either(&[Kind::List(&Kind::Section(&HOOK)), Kind::Section(&HOOK_GROUP)]);

#[rustfmt::skip] // a table: one key a line
static HOOK_GROUP: Section = Section {
    name: "hook_group",
    about: "Hooks of one kind, with the choice to replace the team's.",
    keys: &[
        key("hooks", Kind::List(&Kind::Section(&HOOK)), "The hooks."),
        key("override", Kind::Bool, "Whether these replace the hooks of the whole team."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static HOOK: Section = Section {
    name: "hook",
    about: "One hook.",
    keys: &[
        key("handler", Kind::Text, "What to call.").required(),
        key("type", Kind::Choice(&[word("python")]), "Kind of the handler."),
        key("matcher", Kind::Text, "Pattern of the tools it is called for."),
        key("timeout", Kind::Number(Range { min: 0.0, above_min: true, max: 86_400.0 }), "Longest time of a call, in seconds."),
        key("fail_closed", Kind::Bool, "Whether a failed hook stops the tool call."),
    ],
};
