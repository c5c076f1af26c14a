//! The adapter for Codex. Verified with version 0.166.0.

use super::events::{Diagnostics, EventHandler, JsonLines, count, message_item, text, tool_item};
use super::{
    AgentAdapter, AskPattern, Conversations, Exit, GeneratedFile, LastMessage, LaunchConfig, LaunchRequest,
    LoginSigns, OutputEvent, OutputParser, OwnDir, OwnFiles, Pattern, PermissionLevel, ProgramOutcome,
    ReportedUsage, RunningProgram, SERVER, TOKEN_VARIABLE, TerminalTraits, ToolEndpoint, Treatment, Trouble,
    login,
};
use crate::structured::{AppServer, StructuredProtocol};
use althing_protocol::{AskKind, Item, PermissionMode, Usage};
use serde_json::Value;
use std::path::PathBuf;

/// The adapter for the program `codex`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codex;

const NAME: &str = "codex";

/// The user's own conversations stay hidden: a conversation can contain the permission to run everything without
/// asking, and `codex resume` would restore that permission.
const OWN_DIRS: &[OwnDir] = &[OwnDir {
    name: "codex",
    in_home: ".codex",
    variable: "CODEX_HOME",
    below: "",
    files: &[
        OwnFiles {
            names: &[
                "config.toml",
                "*.config.toml",
                "hooks.json",
                ".env",
                "AGENTS.md",
                "AGENTS.override.md",
                "agents",
                "hooks",
                "plugins",
                "prompts",
                "rules",
                "skills",
            ],
            treatment: Treatment::Copied,
            why: "settings (`notify`, MCP servers, trusted projects), hooks and instructions: they run code or are obeyed",
        },
        OwnFiles {
            names: &["auth.json", ".credentials.json"],
            treatment: Treatment::Credentials,
            why: "tokens expire and are replaced",
        },
        OwnFiles {
            names: &["sessions", "archived_sessions"],
            treatment: Treatment::Kept,
            why: "conversations, which are resumed; they contain permissions",
        },
    ],
}];

/// The options of a question for permission; further rows of an option are indented.
const OPTIONS: &str = r"(?m)[› ] 1\. Yes, proceed \(y\)\n(?:(?:[› ] \d\. | {5})[^\n]*\n)+\n*  Press enter to confirm or esc to cancel";

/// The name of a stored conversation is `rollout-TIME-ID.jsonl`.
const ROLLOUT_TIME: usize = "2026-11-17T10-45-19".len();

impl Codex {
    fn tools(tools: &ToolEndpoint, config: &mut LaunchConfig) {
        // Without `required` Codex would not wait for the server; without `omit_tools_from` the model would have to
        // search for the tools first.
        let server = format!(
            "mcp_servers.{SERVER}={{url={},bearer_token_env_var=\"{TOKEN_VARIABLE}\",required=true,\
             omit_tools_from=[\"deferred\"],default_tools_approval_mode=\"approve\",enabled_tools=[{}],\
             tool_timeout_sec=7200}}",
            quoted(&tools.url),
            tools.names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(","),
        );
        // The token is for Codex itself and must not reach the commands that it runs.
        let hidden = "shell_environment_policy.exclude=[\"ALTHING_*\"]".to_owned();
        config.args.extend(["-c".to_owned(), server, "-c".to_owned(), hidden]);
        config.env.push((TOKEN_VARIABLE.to_owned(), tools.token.reveal().to_owned()));
    }
}

impl Codex {
    fn model_settings(task: &LaunchRequest<'_>, config: &mut LaunchConfig) {
        let options = &task.spec.options;
        if let Some(text) = &options.system_prompt {
            let path = task.dir.join("codex-instructions.md");
            let setting = format!("model_instructions_file={}", quoted(&path.to_string_lossy()));
            config.args.extend(["-c".to_owned(), setting]);
            config.files.push(GeneratedFile { path, text: text.clone() });
        }
        if let Some(text) = &options.append_system_prompt {
            config.args.extend(["-c".to_owned(), format!("developer_instructions={}", quoted(text))]);
        }
        if let Some(effort) = &options.reasoning_effort {
            config.args.extend(["-c".to_owned(), format!("model_reasoning_effort={}", quoted(effort))]);
        }
    }

    fn sandbox_mode(task: &LaunchRequest<'_>, config: &mut LaunchConfig) {
        if plans(task) {
            // With its usual policy Codex would ask for permission to leave its sandbox.
            let settings = ["-c", "sandbox_mode=\"read-only\"", "-c", "approval_policy=\"never\""];
            config.args.extend(settings.map(str::to_owned));
        }
    }
}

fn plans(task: &LaunchRequest<'_>) -> bool {
    task.spec.options.permission_mode == Some(PermissionMode::Plan)
}

/// Says, for one start, whether Codex trusts a project. It is an inline table, because Codex does not accept a path
/// as part of a dotted key.
fn project_trust(dir: &str, level: &str) -> String {
    let real = std::path::Path::new(dir).canonicalize().ok();
    let real = real.as_deref().and_then(std::path::Path::to_str).filter(|real| *real != dir);
    let rows: Vec<String> = [dir]
        .into_iter()
        .chain(real)
        .map(|dir| format!("{}={{trust_level=\"{level}\"}}", quoted(dir)))
        .collect();
    format!("projects={{{}}}", rows.join(","))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

impl AgentAdapter for Codex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn executable(&self) -> Option<&str> {
        Some(NAME)
    }

    fn launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        // Without this flag Codex would start a daemon, which would outlive Codex and Althing.
        let mut args = vec!["--no-daemon".to_owned()];
        args.extend(["-c".to_owned(), project_trust(&task.spec.cwd, "trusted")]);
        if let Some(model) = &task.spec.model {
            args.extend(["-m".to_owned(), model.clone()]);
        }
        let mut config = LaunchConfig { program: NAME.to_owned(), args, ..LaunchConfig::default() };
        Self::sandbox_mode(task, &mut config);
        Self::model_settings(task, &mut config);
        if let Some(id) = task.resume {
            config.args.extend(["resume".to_owned(), id.to_owned()]);
        }
        Some(config)
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let args = ["exec", "--json", "--skip-git-repo-check"].map(str::to_owned).to_vec();
        let mut config = LaunchConfig { program: NAME.to_owned(), args, ..LaunchConfig::default() };
        let permissions: &[&str] = match task.permissions {
            PermissionLevel::Full => &["--dangerously-bypass-approvals-and-sandbox"],
            // Codex works only through commands, and inside our sandbox its own sandbox fails for every command. Our
            // sandbox already limits where Codex can write.
            PermissionLevel::ReadOnly | PermissionLevel::Workspace if task.sandboxed => {
                &["--dangerously-bypass-approvals-and-sandbox"]
            }
            // Without the two `exclude_…` settings, /tmp and the directory in `TMPDIR` would be writable, too.
            PermissionLevel::Workspace => &[
                "-s",
                "workspace-write",
                "-c",
                "sandbox_workspace_write.exclude_slash_tmp=true",
                "-c",
                "sandbox_workspace_write.exclude_tmpdir_env_var=true",
            ],
            PermissionLevel::ReadOnly | PermissionLevel::Ask => &["-s", "read-only"],
        };
        config.args.extend(permissions.iter().map(|word| (*word).to_owned()));
        if let Some(model) = &task.spec.model {
            config.args.extend(["-m".to_owned(), model.clone()]);
        }
        if let Some(tools) = task.tools {
            Self::tools(tools, &mut config);
        }
        Self::model_settings(task, &mut config);
        // Without this setting Codex would add the project to the user's settings as trusted.
        config.args.extend(["-c".to_owned(), project_trust(&task.spec.cwd, "untrusted")]);
        config.args.extend(["-C".to_owned(), task.spec.cwd.clone()]);
        if let Some(id) = task.resume {
            config.args.extend(["resume".to_owned(), id.to_owned()]);
        }
        // The prompt is read from stdin.
        config.args.push("-".to_owned());
        Some(config)
    }

    fn structured_protocol(
        &self,
        task: &LaunchRequest<'_>,
    ) -> Option<(LaunchConfig, Box<dyn StructuredProtocol>)> {
        let mut config = LaunchConfig { program: NAME.to_owned(), ..LaunchConfig::default() };
        Self::sandbox_mode(task, &mut config);
        Self::model_settings(task, &mut config);
        config.args.push("app-server".to_owned());
        let spec = task.spec;
        let server = AppServer::new(&spec.prompt, &spec.cwd, spec.model.as_deref(), task.resume);
        let server = if plans(task) { server.read_only() } else { server };
        Some((config, Box::new(server)))
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        Box::new(JsonLines::new(CodexEvents::default()))
    }

    fn conversations(&self) -> Conversations {
        Conversations::IdReported
    }

    fn running_conversation(&self, program: &RunningProgram<'_>) -> Option<String> {
        let files = (program.open_files)();
        let rollouts = files.iter().filter_map(|file| {
            let name = file.file_name()?.to_str()?.strip_prefix("rollout-")?.strip_suffix(".jsonl")?;
            name.is_char_boundary(ROLLOUT_TIME).then(|| name.split_at(ROLLOUT_TIME))
        });
        // Subagents of Codex have conversations of their own, which begin later.
        let (_, id) = rollouts.min()?;
        id.strip_prefix('-').map(str::to_owned)
    }

    fn last_message(&self, conversation: &str, env: &dyn Fn(&str) -> Option<PathBuf>) -> Option<LastMessage> {
        let home = env("CODEX_HOME").or_else(|| Some(env("HOME")?.join(".codex")))?;
        let message = |line: &Value| match text(line, "/payload/type") {
            "task_complete" => Some(text(line, "/payload/last_agent_message").to_owned()),
            "message" if text(line, "/payload/role") == "assistant" => {
                Some(text(line, "/payload/content/0/text").to_owned())
            }
            _ => None,
        };
        let name_end = format!("-{conversation}.jsonl");
        Some(LastMessage::Stored { dir: home.join("sessions"), name_end, message })
    }

    fn login_signs(&self) -> Option<LoginSigns> {
        Some(login::codex())
    }

    fn is_lost_conversation(&self, error: &str) -> bool {
        error.contains("no rollout found")
    }

    fn own_dirs(&self) -> &'static [OwnDir] {
        OWN_DIRS
    }

    fn own_variables(&self) -> Vec<String> {
        ["OPENAI_*", "CODEX_*"].map(str::to_owned).to_vec()
    }

    fn terminal(&self) -> TerminalTraits {
        TerminalTraits {
            busy: vec![Pattern::screen(r"(?m)^• Working \(\d+")],
            // `Conversation interrupted` has the same mark, but is no trouble: the user interrupted the turn.
            troubles: vec![Pattern::screen(
                r"(?ms)^■ (?P<text>(?:[^C\s]|C[^o]|Co[^n]|Con[^v]).*?)(?:\n\s*\n|\z)",
            )],
            asks: vec![
                // The changes of files are above the question, unless they have scrolled off the screen.
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?ms)^(?P<text>• (?:Added|Edited|Deleted) [^\n]*\n(?:(?: {4}[^\n]*)?\n)*?  Would you like to make the following edits\?$.*)\z",
                    ),
                    &[("allow", "Yes, proceed", "y"), ("reject", "No", "\x1b")],
                )
                .with_options(OPTIONS),
                // This pattern matches if the screen shows the question without the changes. It offers no answers: a
                // person must not allow what is not shown.
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?ms)^  (?P<text>Would you like to make the following edits\?$.*)\z",
                    ),
                    &[],
                )
                .with_options(OPTIONS),
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?ms)^  (?P<text>Would you like to [^\n]*\?$.*)\z",
                    ),
                    &[("allow", "Yes, proceed", "y"), ("reject", "No", "\x1b")],
                )
                .with_options(OPTIONS),
                // A question with other options.
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?ms)^  (?P<text>Would you like to [^\n]*\?$.*?)(?:^› 1\. |^  1\. .*?^› \d\. ).*^  Press enter to confirm or esc to cancel\z",
                    ),
                    &[],
                ),
                AskPattern::new(
                    AskKind::Auth,
                    Pattern::screen(
                        r"(?ms)^  (?P<text>Choose how you want to use Codex\.)$.*^[>›] \d\. .*^  Press enter to continue\z",
                    ),
                    &[],
                ),
                AskPattern::new(
                    AskKind::Permission,
                    Pattern::screen(
                        r"(?ms)^  (?P<text>Trust this folder\?)[^\n]*$.*^› \d\. .*^  enter continue · esc quit\z",
                    ),
                    &[],
                ),
                AskPattern::new(
                    AskKind::Question,
                    Pattern::screen(
                        r"(?ms)\A\n*  (?P<text>[A-Z][^\n]*)$.*^› \d\. .*^  enter/esc confirm · \^c quit\z",
                    ),
                    &[],
                ),
            ],
            // Ctrl+U removes text that is in the input.
            leave: Some("\x15/quit".to_owned()),
            conversation: Some(r"codex resume ([0-9a-f]{8}-[0-9a-f-]{27})".to_owned()),
            ..TerminalTraits::default()
        }
    }
}

#[derive(Debug, Default)]
struct CodexEvents {
    message: String,
    turns: u64,
    completed: Option<Value>,
    failed: Option<String>,
    last_error: Option<String>,
}

impl EventHandler for CodexEvents {
    fn event(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        match text(event, "/type") {
            "thread.started" => {
                emit(OutputEvent::Item(Item::Conversation { id: text(event, "/thread_id").to_owned() }));
            }
            "item.started" | "item.updated" => emit(OutputEvent::ModelReplies),
            "item.completed" => {
                emit(OutputEvent::ModelReplies);
                self.item(event.pointer("/item").unwrap_or(&Value::Null), emit);
            }
            "turn.completed" => self.completed = Some(event.clone()),
            "turn.failed" => self.failed = Some(text(event, "/error/message").to_owned()),
            // Codex goes on after an event such as "Reconnecting…".
            "error" => {
                let said = without_counter(text(event, "/message"));
                self.last_error = Some(said.to_owned());
                emit(Trouble::passing(said));
            }
            _ => {}
        }
    }

    fn has_ended_turn(&self) -> bool {
        self.completed.is_some()
    }

    fn end(
        &mut self,
        exit: Exit,
        diagnostics: &Diagnostics,
        _tell: &mut dyn FnMut(OutputEvent),
    ) -> ProgramOutcome {
        let usage = self.completed.as_ref().map(|event| self.usage(event)).unwrap_or_default();
        let ok = self.completed.is_some() && self.failed.is_none() && exit.is_success();
        let error = (!ok).then(|| {
            let reported = self.failed.take().or_else(|| self.last_error.take());
            reported
                .unwrap_or_else(|| diagnostics.explain(&format!("codex did not complete its turn; {exit}")))
        });
        let signed_out = error.as_deref().is_some_and(|error| error.contains("401"));
        let hint = signed_out.then(|| "run `codex login`, or set OPENAI_API_KEY".to_owned());
        ProgramOutcome { ok, message: Some(std::mem::take(&mut self.message)), error, hint, usage }
    }
}

/// The reason in "Reconnecting... 1/5 (reason)". Any other message is returned unchanged.
pub(crate) fn without_counter(message: &str) -> &str {
    let reason = message.strip_prefix("Reconnecting...").and_then(|rest| rest.split_once('('));
    reason.and_then(|(_, reason)| reason.strip_suffix(')')).unwrap_or(message)
}

impl CodexEvents {
    fn item(&mut self, item: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        let output = text(item, "/aggregated_output");
        let failed = text(item, "/status") == "failed";
        match text(item, "/type") {
            "agent_message" => {
                text(item, "/text").clone_into(&mut self.message);
                self.turns += 1;
                message_item(&self.message).into_iter().for_each(emit);
            }
            "command_execution" => {
                self.turns += 1;
                let wrong = item.pointer("/exit_code").and_then(Value::as_i64) != Some(0);
                emit(tool_item("shell", item, Some(output), failed || wrong));
            }
            "file_change" => {
                let changes = item.pointer("/changes").and_then(Value::as_array).into_iter().flatten();
                let paths: Vec<&str> = changes.map(|change| text(change, "/path")).collect();
                emit(tool_item("edit", &Value::from(paths.join(" ")), None, failed));
            }
            "mcp_tool_call" => {
                let result = item.pointer("/result/content/0/text").and_then(Value::as_str);
                let input = item.pointer("/arguments").unwrap_or(&Value::Null);
                emit(tool_item(text(item, "/tool"), input, result, failed));
            }
            "web_search" => emit(tool_item("web_search", item, None, failed)),
            _ => {}
        }
    }

    /// Codex reports the tokens of the whole conversation, and no cost.
    fn usage(&self, event: &Value) -> ReportedUsage {
        let conversation_total = Usage {
            input_tokens: count(event, "/usage/input_tokens"),
            output_tokens: count(event, "/usage/output_tokens"),
            cached_input_tokens: count(event, "/usage/cached_input_tokens"),
            reasoning_tokens: count(event, "/usage/reasoning_output_tokens"),
            ..Usage::default()
        };
        ReportedUsage {
            this_run: Usage { calls: self.turns, ..Usage::default() },
            conversation_total,
            ..ReportedUsage::default()
        }
    }
}
