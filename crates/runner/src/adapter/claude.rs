//! The adapter for Claude Code: its arguments and settings, headless (`claude -p`) or in a terminal, and its output. The
//! process is started in `program/mod.rs`. Verified with version 2.1.325.

use super::claude_events::{ClaudeEvents, stored_message};
use super::events::JsonLines;
use super::{
    AgentAdapter, AskPattern, Conversations, GeneratedFile, LastMessage, LaunchConfig, LaunchRequest,
    LoginSigns, Mentions, Onboarding, OnboardingCheck, OutputParser, OwnDir, OwnFiles, OwnPath, Pattern,
    PermissionLevel, SERVER, TOKEN_VARIABLE, TerminalTraits, ToolEndpoint, Treatment, login,
};
use crate::structured::{ClaudeControl, StructuredProtocol};
use althing_protocol::{AskKind, PermissionMode};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// The adapter for the program `claude`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaudeCode;

const NAME: &str = "claude";

const READ_ONLY_TOOLS: &[&str] = &["Read", "Grep", "Glob"];
const EDIT_TOOLS: &[&str] = &["Read", "Grep", "Glob", "Edit", "Write", "NotebookEdit"];

const API_KEY: &str = "ANTHROPIC_API_KEY";
const CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

/// `.claude.json` lies in the home directory or, if `CLAUDE_CONFIG_DIR` is set, in the directory that this variable
/// names.
const OWN_DIRS: &[OwnDir] = &[OwnDir {
    name: "claude",
    in_home: ".claude",
    variable: CONFIG_DIR,
    below: "",
    files: &[
        OwnFiles {
            names: &[
                "settings.json",
                "settings.local.json",
                "CLAUDE.md",
                "agents",
                "commands",
                "hooks",
                "keybindings.json",
                "output-styles",
                "plugins",
                "rules",
                "skills",
            ],
            treatment: Treatment::Copied,
            why: "settings, hooks, plugins and instructions: they run code or are obeyed",
        },
        OwnFiles {
            names: &[".claude.json"],
            treatment: Treatment::CopiedFromHome { without: &["mcpServers", "projects"] },
            why: "completed dialogs and the account; the MCP servers in it run code",
        },
        OwnFiles {
            names: &[".credentials.json"],
            treatment: Treatment::Credentials,
            why: "tokens expire and are replaced",
        },
        OwnFiles {
            names: &["projects"],
            treatment: Treatment::KeptForAll,
            why: "conversations, which are resumed, and notes about projects",
        },
    ],
}];

impl ClaudeCode {
    fn common_args(task: &LaunchRequest<'_>, config: &mut LaunchConfig) {
        let mut arg = |words: &[&str]| config.args.extend(words.iter().map(|word| (*word).to_owned()));
        if let Some(model) = &task.spec.model {
            arg(&["--model", model]);
        }
        match task.resume {
            Some(id) => arg(&["--resume", id]),
            None => arg(&["--session-id", task.new_conversation_id]),
        }
        if task.permissions == PermissionLevel::Full && task.as_root {
            config.env.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
        }
        let options = &task.spec.options;
        // Prompts are passed in files, because every user of the machine can read the arguments of a process.
        let prompts = [
            ("--system-prompt-file", "claude-system-prompt.md", &options.system_prompt),
            ("--append-system-prompt-file", "claude-appended-prompt.md", &options.append_system_prompt),
        ];
        for (flag, name, text) in prompts {
            let Some(text) = text else { continue };
            let path = task.dir.join(name);
            config.args.extend([flag.to_owned(), path.to_string_lossy().into_owned()]);
            config.files.push(GeneratedFile { path, text: text.clone() });
        }
        config.args.extend(options.reasoning_effort.as_ref().map(|effort| format!("--effort={effort}")));
        let ours = format!("mcp__{SERVER}");
        let disallowed: Vec<&str> = options
            .disallowed_tools
            .iter()
            .map(String::as_str)
            .filter(|tool| !tool.starts_with(&ours))
            .collect();
        if !disallowed.is_empty() {
            config.args.extend(["--disallowedTools".to_owned(), disallowed.join(",")]);
        }
    }

    /// The names of Claude Code's own tools in the config's `allowed_tools`, without tools of MCP servers;
    /// `Bash(git *)` counts as `Bash`. `None` if the config has no such list.
    fn allowed_names(task: &LaunchRequest<'_>) -> Option<Vec<String>> {
        let name = |tool: &String| tool.split('(').next().unwrap_or_default().trim().to_owned();
        Some(own_tools(task)?.map(name).collect())
    }

    fn allowed_among(task: &LaunchRequest<'_>, all: &[&str]) -> String {
        let allowed = Self::allowed_names(task);
        let is_allowed =
            |tool: &&&str| allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|name| name == **tool));
        all.iter().filter(is_allowed).copied().collect::<Vec<&str>>().join(",")
    }

    fn permissions(task: &LaunchRequest<'_>) -> Vec<String> {
        let allowed = Self::allowed_names(task);
        let among = |all: &[&str]| Self::allowed_among(task, all);
        let (flags, tools): (&[&str], Option<String>) = match (task.permissions, &allowed) {
            (PermissionLevel::Full, None) => (&["--dangerously-skip-permissions"], None),
            (PermissionLevel::Full, Some(allowed)) => {
                (&["--permission-mode", "dontAsk"], Some(allowed.join(",")))
            }
            (PermissionLevel::Workspace, None) => {
                (&["--permission-mode", "acceptEdits", "--restricted"], None)
            }
            (PermissionLevel::Workspace, Some(_)) => {
                (&["--permission-mode", "acceptEdits", "--restricted"], Some(among(EDIT_TOOLS)))
            }
            (PermissionLevel::ReadOnly | PermissionLevel::Ask, _) => {
                (&["--permission-mode", "dontAsk"], Some(among(READ_ONLY_TOOLS)))
            }
        };
        let tools = tools.map(|tools| ["--tools".to_owned(), tools]);
        flags.iter().map(|word| (*word).to_owned()).chain(tools.into_iter().flatten()).collect()
    }

    /// Claude Code's own tools that a headless run may use without asking, and that the flags from
    /// [`Self::permissions`] alone do not allow.
    fn allowed_without_asking(task: &LaunchRequest<'_>) -> Vec<String> {
        let all = || READ_ONLY_TOOLS.iter().map(|tool| (*tool).to_owned());
        match (task.permissions, own_tools(task)) {
            (PermissionLevel::Full, Some(tools)) => tools.cloned().collect(),
            // By default Claude Code reads only in its working directory. Our sandbox hides everything that Claude
            // Code may not read, so it may use its reading tools everywhere.
            (PermissionLevel::ReadOnly, Some(tools)) if task.sandboxed => {
                let tools: Vec<&String> = tools.collect();
                all().filter(|tool| tools.contains(&tool)).collect()
            }
            (PermissionLevel::ReadOnly, None) if task.sandboxed => all().collect(),
            _ => Vec::new(),
        }
    }

    fn interactive_permissions(task: &LaunchRequest<'_>) -> Vec<String> {
        let mode = match task.spec.options.permission_mode {
            Some(PermissionMode::Plan) => "plan",
            Some(PermissionMode::AcceptEdits) => "acceptEdits",
            // Without `--permission-mode`, current releases of Claude Code choose a mode by themselves; the mode
            // `default` asks a person.
            Some(PermissionMode::Default | PermissionMode::BypassPermissions) | None => "default",
        };
        let tools = match task.spec.options.permission_mode {
            // The mode `plan` alone does not prevent writing: in it, Claude Code asks a person, who could say yes.
            Some(PermissionMode::Plan) => Some(Self::allowed_among(task, READ_ONLY_TOOLS)),
            _ => Self::allowed_names(task).map(|names| names.join(",")),
        };
        let tools = tools.map(|tools| ["--tools".to_owned(), tools]);
        ["--permission-mode", mode]
            .map(str::to_owned)
            .into_iter()
            .chain(tools.into_iter().flatten())
            .collect()
    }

    fn tools(tools: Option<&ToolEndpoint>, own: Vec<String>, config: &mut LaunchConfig) {
        let ours = tools.into_iter().flat_map(ToolEndpoint::tool_names);
        let allowed: Vec<String> = ours.chain(own).collect();
        if !allowed.is_empty() {
            config.args.extend(["--allowedTools".to_owned(), allowed.join(",")]);
        }
        let Some(tools) = tools else { return };
        // Without `alwaysLoad` the model would have to search for the tools first.
        let server = json!({
            "type": "http",
            "url": tools.url,
            "headers": { "Authorization": format!("Bearer ${{{TOKEN_VARIABLE}}}") },
            "alwaysLoad": true,
            "timeout": 7_200_000,
        });
        config.args.extend([
            "--mcp-config".to_owned(),
            json!({ "mcpServers": { SERVER: server } }).to_string(),
            "--strict-mcp-config".to_owned(),
            "--include-partial-messages".to_owned(),
        ]);
        config.env.push((TOKEN_VARIABLE.to_owned(), tools.token.reveal().to_owned()));
    }
}

fn own_tools<'a>(task: &LaunchRequest<'a>) -> Option<impl Iterator<Item = &'a String>> {
    let allowed = task.spec.options.allowed_tools.as_ref()?;
    Some(allowed.iter().filter(|tool| !tool.starts_with("mcp__")))
}

impl AgentAdapter for ClaudeCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn executable(&self) -> Option<&str> {
        Some(NAME)
    }

    fn launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let mut config = LaunchConfig { program: NAME.to_owned(), ..LaunchConfig::default() };
        Self::common_args(task, &mut config);
        config.args.extend(Self::interactive_permissions(task));
        let mut set = |name: &str| config.env.push((name.to_owned(), "1".to_owned()));
        // Skips the folder-trust dialog, whose default answer is to quit; the author of the task chose the folder.
        set("CLAUDE_CODE_SANDBOXED");
        if let Onboarding::SkipWithKey(variable) = task.onboarding {
            // Skips the onboarding dialogs, the last of which asks the user to sign in. Claude Code then accepts an
            // API key only from a key helper.
            set("IS_DEMO");
            if variable == API_KEY {
                let settings = json!({ "apiKeyHelper": format!("printenv {API_KEY}") });
                config.args.extend(["--settings".to_owned(), settings.to_string()]);
            }
        }
        Some(config)
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let args = ["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned).to_vec();
        let mut config = LaunchConfig { program: NAME.to_owned(), args, ..LaunchConfig::default() };
        config.args.extend(Self::permissions(task));
        Self::common_args(task, &mut config);
        Self::tools(task.tools, Self::allowed_without_asking(task), &mut config);
        Some(config)
    }

    fn structured_protocol(
        &self,
        task: &LaunchRequest<'_>,
    ) -> Option<(LaunchConfig, Box<dyn StructuredProtocol>)> {
        let args = [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-prompt-tool",
            "stdio",
        ];
        let args = args.map(str::to_owned).to_vec();
        let mut config = LaunchConfig { program: NAME.to_owned(), args, ..LaunchConfig::default() };
        config.args.extend(Self::interactive_permissions(task));
        Self::common_args(task, &mut config);
        Some((config, Box::new(ClaudeControl::new(&task.spec.prompt, self.parser()))))
    }

    fn onboarding_check(&self) -> Option<OnboardingCheck> {
        Some(OnboardingCheck {
            settings: OwnPath::new(".claude.json").overridden_by(CONFIG_DIR, ".claude.json"),
            completed_pointers: &["/hasCompletedOnboarding"],
            key_variables: &["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", API_KEY],
        })
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        Box::new(JsonLines::new(ClaudeEvents::default()))
    }

    fn conversations(&self) -> Conversations {
        Conversations::IdChosen
    }

    fn last_message(&self, conversation: &str, env: &dyn Fn(&str) -> Option<PathBuf>) -> Option<LastMessage> {
        let home = env("CLAUDE_CONFIG_DIR").or_else(|| Some(env("HOME")?.join(".claude")))?;
        let name_end = format!("{conversation}.jsonl");
        Some(LastMessage::Stored { dir: home.join("projects"), name_end, message: stored_message })
    }

    fn login_signs(&self) -> Option<LoginSigns> {
        login::claude()
    }

    fn mentions(&self) -> Mentions {
        Mentions::AfterSpace
    }

    fn is_lost_conversation(&self, error: &str) -> bool {
        error.contains("No conversation found")
    }

    fn own_dirs(&self) -> &'static [OwnDir] {
        OWN_DIRS
    }

    fn own_variables(&self) -> Vec<String> {
        // The user turns off updates and telemetry with `DISABLE_*`.
        ["ANTHROPIC_*", "CLAUDE_*", "DISABLE_*", "AWS_*", "CLOUD_ML_REGION"].map(str::to_owned).to_vec()
    }

    fn terminal(&self) -> TerminalTraits {
        TerminalTraits {
            ready: vec![Pattern::screen(r"(?m)^─{10,}\n❯(?: .*)?\n─{10,}$")],
            ready_limit: Some(Duration::from_secs(60)),
            busy: vec![Pattern::screen(r"esc to interrupt"), Pattern::title(r"^[◐◓◑◒] ")],
            troubles: vec![
                Pattern::screen(r"(?m)^[^\w\s] (?P<text>[^\n]+?) · Retrying in \d+"),
                Pattern::screen(
                    r"(?m)^ *⎿ +(?P<text>(?:API Error|Please run /login|Invalid API key)[^\n]*)$",
                ),
            ],
            asks: vec![
                // The first pattern finds a dialog with its command, path or diff; the second one finds a dialog
                // with other options or whose beginning has scrolled off the screen, but not one that still shows `…` in place of its diff.
                // The second one has no answers: a person must not allow what is not shown.
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?m)^─{10,}\n(?P<text>(?:(?: [^\n]*|╌+)?\n)+ ?Do you want to [^\n]*\?\n)\z",
                    ),
                    &[("allow", "Yes", "1"), ("reject", "No", "\x1b")],
                )
                .with_options(
                    r" [ ❯] 1\. Yes\n(?:(?: [ ❯] \d\. | {5})[^\n]*\n)+\n* Esc to cancel · Tab to amend[^\n]*",
                ),
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?ms)(?:\A(?:╌+\n)?|^(?:[^…\n][^\n]*)?\n╌+\n|^(?:[^╌\n][^\n]*)?\n) ?(?P<text>Do you want to [^\n]*\?)$.*^ [ ❯] \d\. .*^ Esc to cancel · Tab to amend[^\n]*\z",
                    ),
                    &[],
                ),
                AskPattern::new(
                    AskKind::Question,
                    Pattern::screen(
                        r"(?ms)^(?P<text>[^ \n─][^\n]*)\n\n^[❯ ] \d\. .*^ ?Enter to select · (?:[^\n]* · )?↑/↓ to navigate · [^\n]*Esc to cancel\z",
                    ),
                    &[],
                ),
                AskPattern::new(
                    AskKind::Auth,
                    Pattern::screen(
                        r"(?ms)^ {1,2}(?P<text>Do you want to use this API key\?)$.*^ +❯ .*^ {1,2}Enter to confirm · Esc to cancel\z",
                    ),
                    &[],
                ),
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?ms)^─{10,}\n {1,2}(?P<text>[^ \n][^\n]*)$.*^ {1,2}❯ .*^ {1,2}Enter to confirm · Esc to cancel\z",
                    ),
                    &[],
                ),
            ],
            // Ctrl+U removes text that is in the input.
            leave: Some("\x15/exit".to_owned()),
            conversation: Some(r"claude --resume ([0-9a-f]{8}-[0-9a-f-]{27})".to_owned()),
            ..TerminalTraits::default()
        }
    }
}
