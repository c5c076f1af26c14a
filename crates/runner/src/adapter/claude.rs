//! The adapter for Claude Code. Verified with version 2.1.325.

use super::events::{Diagnostics, EventHandler, JsonLines, count, message_item, text, tool_item};
use super::{
    AgentAdapter, AskPattern, Conversations, Exit, LaunchConfig, LaunchRequest, Onboarding, OnboardingCheck,
    OutputEvent, OutputParser, OwnPath, Pattern, PermissionLevel, ProgramOutcome, ReportedUsage, SERVER,
    TOKEN_VARIABLE, TerminalTraits, ToolEndpoint,
};
use crate::structured::{ClaudeControl, StructuredProtocol};
use althing_protocol::{AskKind, Item, PermissionMode, Usage};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// The adapter for the program `claude`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaudeCode;

/// The name of both the executable and the adapter.
const NAME: &str = "claude";

/// Claude Code's tools that only read.
const READ_ONLY_TOOLS: &[&str] = &["Read", "Grep", "Glob"];
/// Claude Code's tools that read or edit files.
const EDIT_TOOLS: &[&str] = &["Read", "Grep", "Glob", "Edit", "Write", "NotebookEdit"];

const API_KEY: &str = "ANTHROPIC_API_KEY";

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
        // Flag and text form one argument, because the text may begin with a dash.
        let prompts = [
            ("--system-prompt", &options.system_prompt),
            ("--append-system-prompt", &options.append_system_prompt),
        ];
        for (flag, text) in prompts {
            config.args.extend(text.as_ref().map(|text| format!("{flag}={text}")));
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

    /// The names of Claude Code's own tools in the config's `allowed_tools` (`Bash(git *)` counts as `Bash`);
    /// `None` if the config has no such list.
    fn allowed_names(task: &LaunchRequest<'_>) -> Option<Vec<String>> {
        let name = |tool: &String| tool.split('(').next().unwrap_or_default().trim().to_owned();
        Some(own_tools(task)?.map(name).collect())
    }

    /// The permission flags of a headless run.
    fn permissions(task: &LaunchRequest<'_>) -> Vec<String> {
        let allowed = Self::allowed_names(task);
        let among = |all: &[&str]| -> String {
            let is_allowed = |tool: &&&str| {
                allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|name| name == **tool))
            };
            all.iter().filter(is_allowed).copied().collect::<Vec<&str>>().join(",")
        };
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

    /// Claude Code's own tools that `--allowedTools` has to name, because a headless run may use them without
    /// asking and the flags from [`Self::permissions`] alone do not allow that.
    fn allowed_without_asking(task: &LaunchRequest<'_>) -> Vec<String> {
        let all = || READ_ONLY_TOOLS.iter().map(|tool| (*tool).to_owned());
        match (task.permissions, own_tools(task)) {
            (PermissionLevel::Full, Some(tools)) => tools.cloned().collect(),
            // By default Claude Code reads only in its working directory. Our sandbox hides everything that
            // Claude Code may not read, so the reading tools are allowed everywhere.
            (PermissionLevel::ReadOnly, Some(tools)) if task.sandboxed => {
                let tools: Vec<&String> = tools.collect();
                all().filter(|tool| tools.contains(&tool)).collect()
            }
            (PermissionLevel::ReadOnly, None) if task.sandboxed => all().collect(),
            _ => Vec::new(),
        }
    }

    /// The permission flags of a run in which a person answers questions.
    fn interactive_permissions(task: &LaunchRequest<'_>) -> Vec<String> {
        let mode = match task.spec.options.permission_mode {
            Some(PermissionMode::Plan) => "plan",
            Some(PermissionMode::AcceptEdits) => "acceptEdits",
            // Without `--permission-mode`, current releases of Claude Code choose a mode by themselves; the mode
            // `default` asks a person in old and new releases.
            Some(PermissionMode::Default | PermissionMode::BypassPermissions) | None => "default",
        };
        let tools = Self::allowed_names(task).map(|names| ["--tools".to_owned(), names.join(",")]);
        ["--permission-mode", mode]
            .map(str::to_owned)
            .into_iter()
            .chain(tools.into_iter().flatten())
            .collect()
    }

    /// Adds `--allowedTools` with our tools and `own` (Claude Code's own tools that need no approval) and, if
    /// `tools` is given, configures our MCP server.
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

/// The entries of the config's `allowed_tools` that are Claude Code's own tools, not tools of an MCP server;
/// `None` if the config has no such list.
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
        // Skips the folder-trust dialog, whose default answer is to quit. The dialog is not needed, because the
        // author of the task chose the folder.
        set("CLAUDE_CODE_SANDBOXED");
        if let Onboarding::SkipWithKey(variable) = task.onboarding {
            // Skips the onboarding dialogs, the last of which asks the user to sign in. Claude Code accepts an API
            // key that no dialog approved only from a key helper, so the key is passed by a key helper.
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
            settings: OwnPath::new(".claude.json").overridden_by("CLAUDE_CONFIG_DIR", ".claude.json"),
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

    fn is_lost_conversation(&self, error: &str) -> bool {
        error.contains("No conversation found")
    }

    fn own_paths(&self) -> Vec<OwnPath> {
        // Claude Code also has a file next to this directory, which it replaces by renaming a new file; where the
        // renaming fails, Claude Code hangs forever. With `CLAUDE_CONFIG_DIR` set, Claude Code has that file inside
        // the directory.
        vec![OwnPath {
            set_in_sandbox: true,
            ..OwnPath::new(".claude").overridden_by("CLAUDE_CONFIG_DIR", "")
        }]
    }

    fn own_variables(&self) -> Vec<String> {
        ["ANTHROPIC_*", "CLAUDE_*", "AWS_*", "CLOUD_ML_REGION"].map(str::to_owned).to_vec()
    }

    fn terminal(&self) -> TerminalTraits {
        TerminalTraits {
            ready: vec![Pattern::screen(r"(?m)^─{10,}\n❯(?: .*)?\n─{10,}$")],
            ready_limit: Some(Duration::from_secs(60)),
            busy: vec![Pattern::screen(r"esc to interrupt"), Pattern::title(r"^[◐◓◑◒] ")],
            asks: vec![
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?ms)^ ?(?P<text>Do you want to [^\n]*\?)$.*^ [ ❯] \d\. .*^ Esc to cancel · Tab to amend[^\n]*\z",
                    ),
                    &[("yes", "Yes", "1"), ("no", "No", "\x1b")],
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
            conversation: Some(r"claude --resume ([0-9a-f]{8}-[0-9a-f-]{27})".to_owned()),
            ..TerminalTraits::default()
        }
    }
}

#[derive(Debug, Default)]
struct ClaudeEvents {
    session: Option<String>,
    /// The tool calls in progress by id, each with the tool's name and input.
    calls: HashMap<String, (String, Value)>,
    /// The id of the last message that was counted as a model call.
    message: String,
    turns: u64,
    result: Option<Value>,
}

impl EventHandler for ClaudeEvents {
    fn event(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        if self.session.is_none() && text(event, "/subtype") == "init" {
            let id = text(event, "/session_id").to_owned();
            emit(OutputEvent::Item(Item::Conversation { id: id.clone() }));
            self.session = Some(id);
        }
        match text(event, "/type") {
            "assistant" => self.assistant(event, emit),
            "user" => self.results(event, emit),
            "stream_event" if text(event, "/event/delta/type") == "text_delta" => {
                emit(OutputEvent::TextDelta(text(event, "/event/delta/text").to_owned()));
            }
            "result" => self.result = Some(event.clone()),
            _ => {}
        }
    }

    fn end(
        &mut self,
        exit: Exit,
        diagnostics: &Diagnostics,
        _tell: &mut dyn FnMut(OutputEvent),
    ) -> ProgramOutcome {
        let Some(result) = self.result.take() else {
            let error = diagnostics.explain(&format!("claude gave no result; {exit}"));
            return ProgramOutcome {
                error: Some(error),
                hint: hint(diagnostics),
                ..ProgramOutcome::default()
            };
        };
        let message = text(&result, "/result");
        let failed = result.pointer("/is_error").and_then(Value::as_bool).unwrap_or(true);
        let ok = !failed && exit.is_success();
        let error = (!ok).then(|| match (message, text(&result, "/errors/0")) {
            ("", "") => diagnostics.explain(&exit.to_string()),
            ("", first) => first.to_owned(),
            (message, _) if failed => message.to_owned(),
            _ => diagnostics.explain(&exit.to_string()),
        });
        let signed_out = text(&result, "/api_error_type") == "authentication_error";
        let denied = result.pointer("/permission_denials").and_then(Value::as_array).map_or(0, Vec::len);
        let hint = if signed_out {
            Some("run `claude` once to sign in, or set ANTHROPIC_API_KEY".to_owned())
        } else if denied > 0 {
            Some(format!(
                "claude was not allowed to use a tool ({})",
                althing_text::count(denied as u64, "time")
            ))
        } else {
            hint(diagnostics).filter(|_| !ok)
        };
        ProgramOutcome { ok, message: Some(message.to_owned()), error, hint, usage: self.usage(&result) }
    }
}

impl ClaudeEvents {
    fn assistant(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        let id = text(event, "/message/id");
        if text(event, "/message/model") == "<synthetic>" {
            return;
        }
        if id != self.message {
            id.clone_into(&mut self.message);
            self.turns += 1;
        }
        for block in blocks(event) {
            match text(block, "/type") {
                "text" => message_item(text(block, "/text")).into_iter().for_each(&mut *emit),
                "tool_use" => {
                    let input = block.pointer("/input").cloned().unwrap_or_default();
                    self.calls
                        .insert(text(block, "/id").to_owned(), (text(block, "/name").to_owned(), input));
                }
                _ => {}
            }
        }
    }

    fn results(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        for block in blocks(event).filter(|block| text(block, "/type") == "tool_result") {
            let Some((tool, input)) = self.calls.remove(text(block, "/tool_use_id")) else { continue };
            let is_error = block.pointer("/is_error").and_then(Value::as_bool).unwrap_or_default();
            let content = match block.pointer("/content") {
                Some(Value::String(content)) => content.clone(),
                Some(Value::Array(parts)) => {
                    parts.iter().map(|part| text(part, "/text")).collect::<Vec<_>>().join("\n")
                }
                _ => String::new(),
            };
            emit(tool_item(&tool, &input, Some(&content), is_error));
        }
    }

    /// Claude Code reports the tokens of this run alone, but the cost of the whole conversation.
    fn usage(&self, result: &Value) -> ReportedUsage {
        let cached = count(result, "/usage/cache_read_input_tokens");
        let this_run = Usage {
            input_tokens: count(result, "/usage/input_tokens")
                + count(result, "/usage/cache_creation_input_tokens")
                + cached,
            output_tokens: count(result, "/usage/output_tokens"),
            cached_input_tokens: cached,
            reasoning_tokens: count(result, "/usage/output_tokens_details/thinking_tokens"),
            cost_usd: 0.0,
            calls: self.turns,
        };
        let cost_usd = result.pointer("/total_cost_usd").and_then(Value::as_f64).unwrap_or_default();
        ReportedUsage { this_run, conversation_total: Usage { cost_usd, ..Usage::default() } }
    }
}

fn blocks(event: &Value) -> impl Iterator<Item = &Value> {
    event.pointer("/message/content").and_then(Value::as_array).into_iter().flatten()
}

fn hint(diagnostics: &Diagnostics) -> Option<String> {
    diagnostics
        .mentions(&["/login", "Invalid API key", "authentication"])
        .then(|| "run `claude` once to sign in, or set ANTHROPIC_API_KEY".to_owned())
}
