//! The table of keys of context paths, MCP servers, hooks and containers in a config. Data only. Hooks have no effect
//! yet, but a config that would start processes must be recognized before it is trusted.

use super::{Kind, Range, SCALAR, SECONDS, Section, alternative, key, not_yet, word, word_instead_of};

const OWN_RULES: &str = "Althing's own rules apply to every server: a server gets only its `env` and common \
    variables such as `PATH`, and no server of a found config starts before you trust the config";

pub(crate) const NO_MOUNTS: &str = "an agent could read mounted keys and send them away: pass a token that can be \
    revoked with `env_vars`, or name a directory in `context_paths`";
pub(crate) const ALL_VARIABLES: &str = "name the variables in `env_vars`";

/// The network for installing packages if commands in the container have none.
pub(crate) const INSTALL_NETWORK: &str = "bridge";

/// MassGen's default image, so that a config without an image means the same here.
pub(crate) const DEFAULT_IMAGE: &str = "ghcr.io/massgen/mcp-runtime:latest";

pub(super) const CONTEXT_PATHS: Kind = Kind::List(&Kind::Either(&[Kind::Section(&CONTEXT_PATH), Kind::Text]));

#[rustfmt::skip] // a table: one key a line
static CONTEXT_PATH: Section = Section {
    name: "context_path",
    about: "A file or directory that the agents may read, and the presenter may write. An entry that is only a path is read-only.",
    keys: &[
        key("path", Kind::Text, "The path. A relative path is resolved against the directory where Althing was started.").required(),
        key("permission", Kind::Choice(&[word("read"), word("write")]), "Whether the path is read-only or writable.").default("read"),
        key("protected_paths", Kind::List(&Kind::Text), "Paths inside the context path that stay read-only: files or directories, no patterns."),
    ],
};

#[rustfmt::skip] // a table: one key a line
pub(super) static MCP_SERVER: Section = Section {
    name: "mcp_server",
    about: "An MCP server: a program to start, or an address to connect to.",
    keys: &[
        key("name", Kind::Text, "The server's name."),
        key("type", Kind::Choice(&[word("stdio"), word("streamable-http"), word_instead_of("sse", "streamable-http"), word("http")]), "The transport; the default depends on whether there is a `command` or a `url`. `http` means `streamable-http`."),
        key("command", Kind::Either(&[Kind::Text, Kind::List(&Kind::Text)]), "The program to start, for a server with transport `stdio`."),
        key("args", Kind::List(&SCALAR), "The program's arguments; `${cwd}` is the agent's workspace."),
        key("env", Kind::Map(&SCALAR), "The program's environment; write secrets as `${VARIABLE}`."),
        key("cwd", Kind::Text, "The program's working directory; a relative path is resolved against the directory where Althing was started. Default: the directory of the config, or an empty directory if agents may write there."),
        key("url", Kind::Url, "The address to connect to, for a server with transport `streamable-http`."),
        key("headers", Kind::Map(&Kind::Text), "HTTP headers to send with every request to `url`."),
        key("allowed_tools", Kind::List(&Kind::Text), "The only tools of this server that the agent gets; default: `backend.allowed_tools`."),
        key("exclude_tools", Kind::List(&Kind::Text), "Tools of this server that the agent does not get, in addition to `backend.exclude_tools`."),
        alternative("security", Kind::Any, "Settings of MassGen's security checks of this server.", OWN_RULES).no_warning(),
        not_yet("defer_loading", Kind::Bool, "Whether the model finds the server's tools only by tool search; needs `backend.enable_tool_search`."),
        key("timeout_seconds", Kind::Number(SECONDS), "Longest time, in seconds, that a tool call may take without a reply or a progress notification."),
        not_yet("timeout", Kind::Number(SECONDS), "Longest time until an HTTP server answers, in seconds."),
        not_yet("http_read_timeout", Kind::Number(SECONDS), "Longest time without data from an HTTP server, in seconds."),
    ],
};

#[rustfmt::skip] // a table: one key a line
pub(super) static HOOKS: Section = Section {
    name: "hooks",
    about: "Programs called before and after tool calls.",
    keys: &[
        key("PreToolUse", HOOK_LIST, "Programs called before a tool call."),
        key("PostToolUse", HOOK_LIST, "Programs called after a tool call."),
        key("override", Kind::Bool, "Whether these hooks replace the hooks at the top level of the config, instead of adding to them."),
    ],
};

const HOOK_LIST: Kind = Kind::Either(&[Kind::List(&Kind::Section(&HOOK)), Kind::Section(&HOOK_GROUP)]);

#[rustfmt::skip] // a table: one key a line
static HOOK_GROUP: Section = Section {
    name: "hook_group",
    about: "The hooks before tool calls, or those after them, with the option to replace the hooks at the top level of the config.",
    keys: &[
        key("hooks", Kind::List(&Kind::Section(&HOOK)), "The hooks."),
        key("override", Kind::Bool, "Whether these hooks replace the hooks at the top level of the config, instead of adding to them."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static HOOK: Section = Section {
    name: "hook",
    about: "One hook.",
    keys: &[
        key("handler", Kind::Text, "The function to call, by its path, such as `mymodule.my_hook`.").required(),
        key("type", Kind::Choice(&[word("python")]), "Kind of the handler; `python` means a Python function."),
        key("matcher", Kind::Text, "Pattern of the names of the tools that the hook applies to."),
        key("timeout", Kind::Number(Range { min: 0.0, above_min: true, max: 86_400.0 }), "Longest time of a call, in seconds."),
        key("fail_closed", Kind::Bool, "Whether a tool call is refused if the hook fails or takes too long."),
    ],
};

#[rustfmt::skip] // a table: one key a line
pub(super) static DOCKER_CREDENTIALS: Section = Section {
    name: "docker_credentials",
    about: "Credentials for the commands in a container.",
    keys: &[
        key("env_vars", Kind::List(&Kind::Text), "Names of environment variables that commands in the container get, with the values that they have where Althing was started."),
        key("env_file", Kind::Text, "File with variables (`NAME=value` on each line) that commands in the container get; a relative path is resolved against the directory where Althing was started."),
        key("env_vars_from_file", Kind::List(&Kind::Text), "The only variables of `env_file` that commands in the container get; default: all."),
        alternative("mount", Kind::Any, "Names of the user's own settings and keys that are mounted into the container (`ssh_keys`, `git_config`, …).", NO_MOUNTS).no_warning(),
        alternative("additional_mounts", Kind::Any, "Other directories that are mounted into the container.", NO_MOUNTS).no_warning(),
        alternative("pass_all_env", Kind::Bool, "Whether commands in the container get all environment variables.", ALL_VARIABLES).no_warning(),
    ],
};

#[rustfmt::skip] // a table: one key a line
pub(super) static DOCKER_PACKAGES: Section = Section {
    name: "docker_packages",
    about: "Packages that are installed in the image of a container before commands run in it.",
    keys: &[
        key("preinstall", Kind::Section(&PREINSTALL), "The packages."),
        key("network", Kind::Choice(&[word("bridge"), word("host")]), "Network of the installation; default: `command_line_docker_network_mode`, or `bridge` if that is `none`. Commands do not get this network."),
    ],
};

#[rustfmt::skip] // a table: one key a line
static PREINSTALL: Section = Section {
    name: "preinstall",
    about: "The packages to install: first `system`, then `python`, then `npm`.",
    keys: &[
        key("system", Kind::List(&Kind::Text), "Packages for the image's own package manager (`apt-get`, `apk`, `dnf`, `microdnf`, `zypper` or `pacman`)."),
        key("python", Kind::List(&Kind::Text), "Python packages, as `pip install` takes them, such as `numpy>=2`."),
        key("npm", Kind::List(&Kind::Text), "npm packages, as `npm install -g` takes them."),
    ],
};
