//! Keys of context paths, MCP servers and hooks: what a config can reach and start on this machine.
//!
//! Facts only; see `keys`. Hooks do not act yet, but their shape is known, because a config that would start
//! processes must be recognised before it is trusted.

use super::{Kind, Range, SCALAR, SECONDS, Section, instead, key, later, word, word_later};

const OWN_RULES: &str = "Althing's own rules hold for every server: it gets no variables but the usual ones and its `env`, \
    and none starts from a config that was found before you trust it";

/// MassGen's image, so that a file without one means the same here.
pub(crate) const DEFAULT_IMAGE: &str = "ghcr.io/massgen/mcp-runtime:latest";

/// A list of context paths.
pub(super) const CONTEXT_PATHS: Kind = Kind::List(&Kind::Either(&[Kind::Section(&CONTEXT_PATH), Kind::Text]));

#[rustfmt::skip] // a table: one key a line
static CONTEXT_PATH: Section = Section {
    name: "context_path",
    about: "A file or directory that the agents may read, and the presenter write; a path alone is one to read.",
    keys: &[
        key("path", Kind::Text, "The path; a relative one counts from where Althing was started.").required(),
        key("permission", Kind::Choice(&[word("read"), word("write")]), "Whether it may be written.").default("read"),
        key("protected_paths", Kind::List(&Kind::Text), "Paths in it that are never written."),
    ],
};

/// One MCP server.
#[rustfmt::skip] // a table: one key a line
pub(super) static MCP_SERVER: Section = Section {
    name: "mcp_server",
    about: "An MCP server: a program to start, or an address to call.",
    keys: &[
        key("name", Kind::Text, "Its name."),
        key("type", Kind::Choice(&[word("stdio"), word("streamable-http"), word_later("sse", "streamable-http"), word("http")]), "How to talk to it; told by `command` or `url` where absent. `http` is `streamable-http`."),
        key("command", Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]), "The program to start."),
        key("args", Kind::List(&SCALAR), "Its arguments; `${cwd}` stands for the agent's workspace."),
        key("env", Kind::Map(&SCALAR), "Its environment; secrets best as `${VARIABLE}`."),
        key("cwd", Kind::Text, "Its working directory."),
        key("url", Kind::Url, "The address to call."),
        key("headers", Kind::Map(&Kind::Text), "HTTP headers to send."),
        key("allowed_tools", Kind::List(&Kind::Text), "The only tools taken from it; `backend.allowed_tools` where absent."),
        key("exclude_tools", Kind::List(&Kind::Text), "Tools not taken from it, besides `backend.exclude_tools`."),
        instead("security", Kind::Any, "MassGen's checks of the server.", OWN_RULES),
        later("defer_loading", Kind::Bool, "Whether its tools are loaded when first wanted."),
        key("timeout_seconds", Kind::Number(SECONDS), "Longest time of a call without an answer or a sign of progress."),
        later("timeout", Kind::Number(SECONDS), "Longest time until an HTTP server answers."),
        later("http_read_timeout", Kind::Number(SECONDS), "Longest silence of an HTTP server."),
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
