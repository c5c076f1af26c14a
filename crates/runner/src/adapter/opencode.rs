//! The adapter for opencode. Verified with version 1.18.33.

use super::events::JsonLines;
use super::opencode_events::OpencodeEvents;
use super::opencode_log;
use super::{
    AgentAdapter, AskPattern, Conversations, GeneratedFile, LastMessage, LaunchConfig, LaunchRequest,
    LoginSigns, OutputParser, OwnDir, OwnFiles, Pattern, PermissionLevel, RunningProgram, SERVER,
    TOKEN_VARIABLE, TerminalTraits, ToolEndpoint, Treatment, login,
};
use crate::structured::{Acp, StructuredProtocol};
use althing_protocol::{AskKind, PermissionMode};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// opencode draws at most this many rows of a permission question above its buttons, and no mark if there are more.
const MOST_ROWS: usize = 12;

/// The adapter for the program `opencode`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opencode;

pub(super) const NAME: &str = "opencode";

const READ_ONLY_TOOLS: &[&str] = &["read", "grep", "glob", "list"];
/// Permissions of tools that can change something or access the network.
const GUARDED_PERMISSIONS: &[&str] = &["bash", "edit", "task", "webfetch", "skill"];

fn permission(tool: &str) -> &str {
    match tool {
        "write" | "patch" | "apply_patch" | "multiedit" => "edit",
        tool => tool,
    }
}

const SETTINGS_VARIABLE: &str = "OPENCODE_CONFIG_CONTENT";

const CONFIG_VARIABLE: &str = "OPENCODE_CONFIG";

/// An empty settings file. All processes of opencode write to the same log; the lines of the process that loaded this
/// file belong to the task's program.
const MARKER: &str = "opencode-task.json";

const OWN_DIRS: &[OwnDir] = &[
    OwnDir {
        name: "config",
        in_home: ".config/opencode",
        variable: "XDG_CONFIG_HOME",
        below: "opencode",
        files: &[OwnFiles {
            names: &[
                "opencode.json",
                "opencode.jsonc",
                "config.json",
                "tui.json",
                "AGENTS.md",
                "agent",
                "agents",
                "bun.lock",
                "command",
                "commands",
                "mode",
                "modes",
                "node_modules",
                "package.json",
                "plugin",
                "plugins",
                "skill",
                "skills",
                "themes",
                "tool",
                "tools",
            ],
            treatment: Treatment::Copied,
            why: "settings, plugins, tools and instructions: they run code or are obeyed",
        }],
    },
    OwnDir {
        name: "data",
        in_home: ".local/share/opencode",
        variable: "XDG_DATA_HOME",
        below: "opencode",
        files: &[
            OwnFiles { names: &["bin"], treatment: Treatment::Copied, why: "programs" },
            OwnFiles {
                names: &["auth.json", "mcp-auth.json"],
                treatment: Treatment::Credentials,
                why: "tokens expire and are replaced",
            },
            // The user's own database stays hidden, because it contains permissions, too: what the user allowed with
            // "Allow always". The agent could add such permissions.
            OwnFiles {
                names: &["opencode.db*", "snapshot", "storage"],
                treatment: Treatment::Kept,
                why: "conversations, which are resumed; the database contains permissions",
            },
        ],
    },
    OwnDir {
        name: "state",
        in_home: ".local/state/opencode",
        variable: "XDG_STATE_HOME",
        below: "opencode",
        files: &[OwnFiles {
            names: &["kv.json", "model.json"],
            treatment: Treatment::Copied,
            why: "the last choices in its screens",
        }],
    },
    OwnDir {
        name: "cache",
        in_home: ".cache/opencode",
        variable: "XDG_CACHE_HOME",
        below: "opencode",
        files: &[OwnFiles {
            names: &["bin", "bun.lock", "models.json", "node_modules", "package.json", "version"],
            treatment: Treatment::Copied,
            why: "packages of providers, which are loaded",
        }],
    },
];

/// opencode looks for language servers and formatters in `node_modules/.bin` of the project. These settings win over
/// the user's own, which may switch them on.
pub(super) fn switch_off_programs_of_the_project(config: &mut LaunchConfig) {
    let given = config.env.iter().position(|(name, _)| name == SETTINGS_VARIABLE);
    let given = given.map(|at| config.env.remove(at).1).or_else(|| std::env::var(SETTINGS_VARIABLE).ok());
    let mut settings: Map<String, Value> =
        given.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    settings.extend(["lsp", "formatter"].map(|name| (name.to_owned(), false.into())));
    config.env.push((SETTINGS_VARIABLE.to_owned(), Value::Object(settings).to_string()));
}

impl Opencode {
    /// The permission rules of a headless run; empty if opencode may do everything. Each permission is named, because
    /// a project's own settings override the rule `*`.
    fn rules(task: &LaunchRequest<'_>) -> Map<String, Value> {
        // An agent that may only read may also read outside the working directory, if our sandbox hides the rest.
        let looks = task.permissions == PermissionLevel::ReadOnly && task.sandboxed;
        let outside = if looks { "allow" } else { "deny" };
        let edit = match task.permissions {
            PermissionLevel::Full => return Map::new(),
            PermissionLevel::Workspace => "allow",
            PermissionLevel::ReadOnly | PermissionLevel::Ask => "deny",
        };
        let mut rules = Map::new();
        let mut set = |names: &[&str], rule: &str| {
            rules.extend(names.iter().map(|name| ((*name).to_owned(), rule.into())));
        };
        set(&["*", "bash", "task", "webfetch", "skill"], "deny");
        set(&["edit"], edit);
        set(&["external_directory"], outside);
        set(READ_ONLY_TOOLS, "allow");
        rules
    }

    fn interactive_rules(task: &LaunchRequest<'_>) -> Map<String, Value> {
        let plans = task.spec.options.permission_mode == Some(PermissionMode::Plan);
        let rule = if plans { "deny" } else { "ask" };
        let mut rules: Map<String, Value> =
            GUARDED_PERMISSIONS.iter().map(|name| ((*name).to_owned(), rule.into())).collect();
        rules.insert("external_directory".to_owned(), "ask".into());
        if task.spec.options.permission_mode == Some(PermissionMode::AcceptEdits) {
            rules.insert("edit".to_owned(), "allow".into());
        }
        rules
    }

    /// The config's tool lists can only remove permissions, and they never remove our own tools.
    fn apply_tool_lists(mut rules: Map<String, Value>, task: &LaunchRequest<'_>) -> Map<String, Value> {
        let options = &task.spec.options;
        if let Some(allowed) = &options.allowed_tools {
            // The last matching rule decides, so the rule for everything comes first.
            let denied = ["*"].iter().chain(GUARDED_PERMISSIONS).chain(READ_ONLY_TOOLS);
            let mut kept: Map<String, Value> =
                denied.map(|name| ((*name).to_owned(), "deny".into())).collect();
            let outside = rules.get("external_directory").cloned().unwrap_or_else(|| "allow".into());
            kept.insert("external_directory".to_owned(), outside);
            for name in allowed.iter().map(|tool| permission(tool)) {
                let unnamed = match task.permissions {
                    PermissionLevel::Full => Some("allow"),
                    PermissionLevel::Ask => {
                        Some(if READ_ONLY_TOOLS.contains(&name) { "allow" } else { "ask" })
                    }
                    PermissionLevel::Workspace | PermissionLevel::ReadOnly => None,
                };
                let rule = rules.get(name).cloned().or_else(|| unnamed.map(Value::from));
                kept.extend(rule.map(|rule| (name.to_owned(), rule)));
            }
            rules = kept;
        }
        for tool in &options.disallowed_tools {
            rules.insert(permission(tool).to_owned(), "deny".into());
        }
        if !rules.is_empty() {
            rules.insert(format!("{SERVER}_*"), "allow".into());
        }
        rules
    }

    /// The prompts are passed as files, because opencode would expand variables in a text inside its settings.
    fn model_settings(
        task: &LaunchRequest<'_>,
        settings: &mut Map<String, Value>,
        config: &mut LaunchConfig,
    ) {
        let options = &task.spec.options;
        let mut agent = Map::new();
        if let Some(effort) = &options.reasoning_effort {
            // opencode applies an agent's variant only to the model that is configured for the same agent.
            agent.extend(task.spec.model.iter().map(|model| ("model".to_owned(), model.as_str().into())));
            agent.insert("variant".to_owned(), effort.as_str().into());
        }
        if let Some(text) = &options.system_prompt {
            let path = task.dir.join("opencode-prompt.md");
            agent.insert("prompt".to_owned(), format!("{{file:{}}}", path.display()).into());
            config.files.push(GeneratedFile { path, text: text.clone() });
        }
        if !agent.is_empty() {
            settings.insert("agent".to_owned(), json!({ "build": agent }));
        }
        if let Some(text) = &options.append_system_prompt {
            let path = task.dir.join("opencode-instructions.md");
            settings.insert("instructions".to_owned(), json!([path.to_string_lossy()]));
            config.files.push(GeneratedFile { path, text: text.clone() });
        }
    }

    fn interactive_settings(
        task: &LaunchRequest<'_>,
        mut settings: Map<String, Value>,
        config: &mut LaunchConfig,
    ) {
        // With its default settings opencode would not ask a person.
        let rules = Self::apply_tool_lists(Self::interactive_rules(task), task);
        settings.insert("permission".to_owned(), Value::Object(rules));
        Self::model_settings(task, &mut settings, config);
        config.env.push((SETTINGS_VARIABLE.to_owned(), Value::Object(settings).to_string()));
    }

    /// opencode is a Bun executable, which takes its own modules from wherever a `tsconfig.json` in the directory of
    /// the process, or above it, says. So it does not start in the project.
    fn away_from_the_project(args: Vec<String>) -> LaunchConfig {
        let process_dir = Some(PathBuf::from("/"));
        LaunchConfig { program: NAME.to_owned(), args, process_dir, ..LaunchConfig::default() }
    }

    fn server(tools: &ToolEndpoint) -> Value {
        json!({
            "type": "remote",
            "url": tools.url,
            "headers": { "Authorization": format!("Bearer {{env:{TOKEN_VARIABLE}}}") },
            "oauth": false,
            "timeout": 7_200_000,
        })
    }
}

impl AgentAdapter for Opencode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn executable(&self) -> Option<&str> {
        Some(NAME)
    }

    fn may_miss_tools(&self) -> bool {
        true
    }

    fn launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let mut args = Vec::new();
        if let Some(model) = &task.spec.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(id) = task.resume {
            args.extend(["-s".to_owned(), id.to_owned()]);
        }
        // At this log level, the log shows the id of the conversation.
        args.extend(["--log-level", "INFO"].map(str::to_owned));
        let mut config = LaunchConfig { program: NAME.to_owned(), args, ..LaunchConfig::default() };
        Self::interactive_settings(task, Map::new(), &mut config);
        if std::env::var_os(CONFIG_VARIABLE).is_none() && !task.spec.env.contains_key(CONFIG_VARIABLE) {
            let path = task.dir.join(MARKER);
            config.env.push((CONFIG_VARIABLE.to_owned(), path.to_string_lossy().into_owned()));
            config.files.push(GeneratedFile { path, text: "{}".to_owned() });
        }
        Some(config)
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        // With its logs turned off, opencode reports nothing while it repeats a failed request to its model.
        let args = ["run", "--format", "json", "--print-logs", "--log-level", "ERROR"];
        let args = args.map(str::to_owned).to_vec();
        let mut config = Self::away_from_the_project(args);
        if task.permissions == PermissionLevel::Full {
            config.args.push("--auto".to_owned());
        }
        config.args.extend(["--dir".to_owned(), task.spec.cwd.clone()]);
        if let Some(model) = &task.spec.model {
            config.args.extend(["--model".to_owned(), model.clone()]);
        }
        if let Some(id) = task.resume {
            config.args.extend(["--session".to_owned(), id.to_owned()]);
        }
        let effort = task.spec.options.reasoning_effort.as_ref();
        config.args.extend(effort.map(|effort| format!("--variant={effort}")));
        let mut settings = Map::new();
        let rules = Self::apply_tool_lists(Self::rules(task), task);
        if !rules.is_empty() {
            settings.insert("permission".to_owned(), Value::Object(rules));
        }
        Self::model_settings(task, &mut settings, &mut config);
        if let Some(tools) = task.tools {
            settings.insert("mcp".to_owned(), json!({ SERVER: Self::server(tools) }));
            config.env.push((TOKEN_VARIABLE.to_owned(), tools.token.reveal().to_owned()));
        }
        if !settings.is_empty() {
            config.env.push((SETTINGS_VARIABLE.to_owned(), Value::Object(settings).to_string()));
        }
        Some(config)
    }

    fn structured_protocol(
        &self,
        task: &LaunchRequest<'_>,
    ) -> Option<(LaunchConfig, Box<dyn StructuredProtocol>)> {
        let mut settings = Map::new();
        if let Some(model) = &task.spec.model {
            settings.insert("model".to_owned(), model.as_str().into());
        }
        let args = ["acp", "--print-logs", "--log-level", "ERROR"].map(str::to_owned).to_vec();
        let mut config = Self::away_from_the_project(args);
        Self::interactive_settings(task, settings, &mut config);
        Some((config, Box::new(Acp::new(NAME, &task.spec.prompt, &task.spec.cwd, task.resume))))
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        Box::new(JsonLines::new(OpencodeEvents::default()))
    }

    fn conversations(&self) -> Conversations {
        Conversations::IdReported
    }

    fn running_conversation(&self, program: &RunningProgram<'_>) -> Option<String> {
        let env = |name: &str| (program.env)(name);
        let data = env("XDG_DATA_HOME").or_else(|| Some(env("HOME")?.join(".local/share")))?;
        let marker = env(CONFIG_VARIABLE).filter(|path| path.ends_with(MARKER))?;
        opencode_log::conversation(&data.join(NAME).join("log/opencode.log"), &marker)
    }

    fn last_message(&self, conversation: &str, _: &dyn Fn(&str) -> Option<PathBuf>) -> Option<LastMessage> {
        // The id becomes part of a query.
        if !conversation.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let query = format!(
            "select group_concat(json_extract(p.data, '$.text'), char(10)) as text from part p \
             join message m on m.id = p.message_id where p.session_id = '{conversation}' \
             and json_extract(m.data, '$.role') = 'assistant' and json_extract(p.data, '$.type') = 'text' \
             group by m.id order by m.id desc limit 1"
        );
        Some(LastMessage::Printed(["db", &query, "--format", "json"].map(str::to_owned).to_vec()))
    }

    fn login_signs(&self) -> Option<LoginSigns> {
        Some(login::opencode())
    }

    fn is_lost_conversation(&self, error: &str) -> bool {
        error.contains("Session not found")
    }

    fn own_dirs(&self) -> &'static [OwnDir] {
        OWN_DIRS
    }

    fn own_variables(&self) -> Vec<String> {
        // opencode supports many providers, each with its own key variables.
        let names = [
            "OPENCODE_*",
            "ANTHROPIC_*",
            "OPENAI_*",
            "GEMINI_*",
            "GOOGLE_*",
            "OPENROUTER_*",
            "GROQ_*",
            "XAI_*",
            "DEEPSEEK_*",
            "MISTRAL_*",
            "AWS_*",
        ];
        names.map(str::to_owned).to_vec()
    }

    fn terminal(&self) -> TerminalTraits {
        TerminalTraits {
            // The second pattern is the empty input box below a conversation.
            ready: vec![
                Pattern::screen(r"(?m)^ +┃  Ask anything"),
                Pattern::screen(r"(?m)^ +┃\n +┃\n +┃\n +┃  \S[^\n]* · [^\n]*\n +╹▀"),
            ],
            ready_limit: Some(Duration::from_secs(60)),
            busy: vec![Pattern::screen(r"(?m)^ +[■⬝]+ +esc interrupt")],
            asks: vec![
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(r"(?m)^ +┃  △ (?P<text>Permission required[^\n]*\n(?: +┃[^\n]*\n)*)\z"),
                    &[("allow", "Allow once", "\r"), ("reject", "Reject", "\x1b")],
                )
                .with_options(r" +┃ +Allow once +Allow always +Reject [^\n]*(?:\n +┃[^\n]*){0,3}")
                .with_most_rows(MOST_ROWS),
                AskPattern::new(
                    AskKind::Question,
                    Pattern::screen(
                        r"(?ms)^ +┃  (?P<text>[^ ┃\n][^\n]*)\n +┃\n +┃ +1\. .*^ +┃ +(?:[^\n]* )?↑↓ select  enter submit  esc dismiss[^\n]*(?:\n +┃[^\n]*){0,3}\z",
                    ),
                    &[],
                ),
            ],
            leave: Some("/exit".to_owned()),
            conversation: Some(r"opencode -s (ses_[0-9A-Za-z]+)".to_owned()),
            ..TerminalTraits::default()
        }
    }
}
