//! Claude Code. Checked with 2.1.325.

use super::events::{Complaint, Events, JsonLines, count, did, said, text};
use super::{
    AgentAdapter, AskPattern, Conversations, Ending, Exit, FirstStart, Freedom, LaunchConfig, LaunchRequest,
    Meaning, OutputParser, OwnPlace, Pattern, SERVER, SetUp, Spent, TOKEN_VARIABLE, TerminalTraits, Toolbox,
};
use crate::dialogue::{ClaudeControl, Dialogue};
use althing_protocol::{AskKind, Item, PermissionMode, Usage};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

/// The program `claude`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claude;

/// The name of its program, and of its adapter.
const NAME: &str = "claude";

/// Its tools that only read.
const READING: &[&str] = &["Read", "Grep", "Glob"];
/// Its tools that edit files, or only read them.
const EDITING: &[&str] = &["Read", "Grep", "Glob", "Edit", "Write", "NotebookEdit"];

/// The variable that holds an API key.
const API_KEY: &str = "ANTHROPIC_API_KEY";

impl Claude {
    fn common(task: &LaunchRequest<'_>, config: &mut LaunchConfig) {
        let mut arg = |words: &[&str]| config.args.extend(words.iter().map(|word| (*word).to_owned()));
        if let Some(model) = &task.spec.model {
            arg(&["--model", model]);
        }
        match task.resume {
            Some(id) => arg(&["--resume", id]),
            None => arg(&["--session-id", task.fresh]),
        }
        if task.freedom == Freedom::Full && task.as_root {
            config.env.push(("IS_SANDBOX".to_owned(), "1".to_owned()));
        }
        let options = &task.spec.options;
        // In one argument with its text: the text may begin with a dash.
        let prompts = [
            ("--system-prompt", &options.system_prompt),
            ("--append-system-prompt", &options.append_system_prompt),
        ];
        for (flag, text) in prompts {
            config.args.extend(text.as_ref().map(|text| format!("{flag}={text}")));
        }
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

    /// The names of the tools of its own that the config allows: of `Bash(git *)`, `Bash`. None: all of them.
    fn allowed_names(task: &LaunchRequest<'_>) -> Option<Vec<String>> {
        let name = |tool: &String| tool.split('(').next().unwrap_or_default().trim().to_owned();
        Some(own_tools(task)?.map(name).collect())
    }

    /// The flags for what it may do without asking, on pipes.
    fn permissions(task: &LaunchRequest<'_>) -> Vec<String> {
        let allowed = Self::allowed_names(task);
        let among = |all: &[&str]| -> String {
            let is_allowed = |tool: &&&str| {
                allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|name| name == **tool))
            };
            all.iter().filter(is_allowed).copied().collect::<Vec<&str>>().join(",")
        };
        let (flags, tools): (&[&str], Option<String>) = match (task.freedom, &allowed) {
            (Freedom::Full, None) => (&["--dangerously-skip-permissions"], None),
            (Freedom::Full, Some(allowed)) => (&["--permission-mode", "dontAsk"], Some(allowed.join(","))),
            (Freedom::Workspace, None) => (&["--permission-mode", "acceptEdits", "--restricted"], None),
            (Freedom::Workspace, Some(_)) => {
                (&["--permission-mode", "acceptEdits", "--restricted"], Some(among(EDITING)))
            }
            (Freedom::ReadOnly | Freedom::Ask, _) => {
                (&["--permission-mode", "dontAsk"], Some(among(READING)))
            }
        };
        let tools = tools.map(|tools| ["--tools".to_owned(), tools]);
        flags.iter().map(|word| (*word).to_owned()).chain(tools.into_iter().flatten()).collect()
    }

    /// The tools of its own that it may use unasked, on pipes.
    fn unasked(task: &LaunchRequest<'_>) -> Vec<String> {
        let all = || READING.iter().map(|tool| (*tool).to_owned());
        match (task.freedom, own_tools(task)) {
            (Freedom::Full, Some(tools)) => tools.cloned().collect(),
            // By its own rules it reads only where it works; our sandbox shows it nothing that it may not read.
            (Freedom::ReadOnly, Some(tools)) if task.inside_walls => {
                let tools: Vec<&String> = tools.collect();
                all().filter(|tool| tools.contains(&tool)).collect()
            }
            (Freedom::ReadOnly, None) if task.inside_walls => all().collect(),
            _ => Vec::new(),
        }
    }

    /// The flags for a person who is asked.
    fn asking(task: &LaunchRequest<'_>) -> Vec<String> {
        let mode = match task.spec.options.permission_mode {
            Some(PermissionMode::Plan) => "plan",
            Some(PermissionMode::AcceptEdits) => "acceptEdits",
            // What it does by itself nowadays decides alone; the mode of this name asks, in old releases and in new ones.
            Some(PermissionMode::Default | PermissionMode::BypassPermissions) | None => "default",
        };
        let tools = Self::allowed_names(task).map(|names| ["--tools".to_owned(), names.join(",")]);
        ["--permission-mode", mode]
            .map(str::to_owned)
            .into_iter()
            .chain(tools.into_iter().flatten())
            .collect()
    }

    /// Offers our tools; `own` are tools of its own that it may use unasked.
    fn tools(tools: Option<&Toolbox>, own: Vec<String>, config: &mut LaunchConfig) {
        let ours = tools.into_iter().flat_map(Toolbox::shown_names);
        let allowed: Vec<String> = ours.chain(own).collect();
        if !allowed.is_empty() {
            config.args.extend(["--allowedTools".to_owned(), allowed.join(",")]);
        }
        let Some(tools) = tools else { return };
        // `alwaysLoad`: else the tools hide behind a search.
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

/// The tools of its own that the config allows, where it names any. Ours are not its own.
fn own_tools<'a>(task: &LaunchRequest<'a>) -> Option<impl Iterator<Item = &'a String>> {
    let allowed = task.spec.options.allowed_tools.as_ref()?;
    Some(allowed.iter().filter(|tool| !tool.starts_with("mcp__")))
}

impl AgentAdapter for Claude {
    fn name(&self) -> &'static str {
        NAME
    }

    fn executable(&self) -> Option<&str> {
        Some(NAME)
    }

    fn launch_config(&self, task: &LaunchRequest<'_>) -> LaunchConfig {
        let mut config = LaunchConfig { program: NAME.to_owned(), ..LaunchConfig::default() };
        Self::common(task, &mut config);
        config.args.extend(Self::asking(task));
        let mut set = |name: &str| config.env.push((name.to_owned(), "1".to_owned()));
        // Whoever wrote the task chose the folder; the dialog about it quits by default.
        set("CLAUDE_CODE_SANDBOXED");
        if let FirstStart::Keyed(variable) = task.first_start {
            // No dialogs of a first start, which end in signing in. A key that no dialog approved counts only by way of a
            // helper.
            set("IS_DEMO");
            if variable == API_KEY {
                let settings = json!({ "apiKeyHelper": format!("printenv {API_KEY}") });
                config.args.extend(["--settings".to_owned(), settings.to_string()]);
            }
        }
        config
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let args = ["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned).to_vec();
        let mut config = LaunchConfig { program: NAME.to_owned(), args, ..LaunchConfig::default() };
        config.args.extend(Self::permissions(task));
        Self::common(task, &mut config);
        Self::tools(task.tools, Self::unasked(task), &mut config);
        Some(config)
    }

    fn dialogue(&self, task: &LaunchRequest<'_>) -> Option<(LaunchConfig, Box<dyn Dialogue>)> {
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
        config.args.extend(Self::asking(task));
        Self::common(task, &mut config);
        Some((config, Box::new(ClaudeControl::new(&task.spec.prompt, self.parser()))))
    }

    fn set_up(&self) -> Option<SetUp> {
        Some(SetUp {
            settings: OwnPlace::new(".claude.json", "CLAUDE_CONFIG_DIR", ".claude.json"),
            signs: &["/hasCompletedOnboarding"],
            keys: &["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", API_KEY],
        })
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        Box::new(JsonLines::new(Run::default()))
    }

    fn conversations(&self) -> Conversations {
        Conversations::Chosen
    }

    fn own_places(&self) -> Vec<OwnPlace> {
        // It also keeps a file beside its directory, replaces it by renaming, and waits for ever where it cannot; told
        // where its directory is, it keeps that file inside.
        vec![OwnPlace { tell: true, ..OwnPlace::new(".claude", "CLAUDE_CONFIG_DIR", "") }]
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
struct Run {
    session: Option<String>,
    /// Tools under way, by its id for the call: name and input.
    calls: HashMap<String, (String, Value)>,
    /// The last message that counted as a call of the model.
    message: String,
    turns: u64,
    result: Option<Value>,
}

impl Events for Run {
    fn event(&mut self, event: &Value, tell: &mut dyn FnMut(Meaning)) {
        if self.session.is_none() && text(event, "/subtype") == "init" {
            let id = text(event, "/session_id").to_owned();
            tell(Meaning::Item(Item::Conversation { id: id.clone() }));
            self.session = Some(id);
        }
        match text(event, "/type") {
            "assistant" => self.assistant(event, tell),
            "user" => self.results(event, tell),
            "stream_event" if text(event, "/event/delta/type") == "text_delta" => {
                tell(Meaning::Saying(text(event, "/event/delta/text").to_owned()));
            }
            "result" => self.result = Some(event.clone()),
            _ => {}
        }
    }

    fn end(&mut self, exit: Exit, complaint: &Complaint, _tell: &mut dyn FnMut(Meaning)) -> Ending {
        let Some(result) = self.result.take() else {
            let error = complaint.with(&format!("claude gave no result; {exit}"));
            return Ending { error: Some(error), hint: hint(complaint), ..Ending::default() };
        };
        let message = text(&result, "/result");
        let failed = result.pointer("/is_error").and_then(Value::as_bool).unwrap_or(true);
        let ok = !failed && exit.is_success();
        let error = (!ok).then(|| match (message, text(&result, "/errors/0")) {
            ("", "") => complaint.with(&exit.to_string()),
            ("", first) => first.to_owned(),
            (message, _) if failed => message.to_owned(),
            _ => complaint.with(&exit.to_string()),
        });
        let signed_out = text(&result, "/api_error_type") == "authentication_error";
        let denied = result.pointer("/permission_denials").and_then(Value::as_array).map_or(0, Vec::len);
        let hint = if signed_out {
            Some("run `claude` once to sign in, or set ANTHROPIC_API_KEY".to_owned())
        } else if denied > 0 {
            Some(format!("claude was not allowed to use a tool {denied} times"))
        } else {
            hint(complaint).filter(|_| !ok)
        };
        Ending { ok, message: Some(message.to_owned()), error, hint, usage: self.usage(&result) }
    }
}

impl Run {
    fn assistant(&mut self, event: &Value, tell: &mut dyn FnMut(Meaning)) {
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
                "text" => said(text(block, "/text")).into_iter().for_each(&mut *tell),
                "tool_use" => {
                    let input = block.pointer("/input").cloned().unwrap_or_default();
                    self.calls
                        .insert(text(block, "/id").to_owned(), (text(block, "/name").to_owned(), input));
                }
                _ => {}
            }
        }
    }

    fn results(&mut self, event: &Value, tell: &mut dyn FnMut(Meaning)) {
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
            tell(did(&tool, &input, Some(&content), is_error));
        }
    }

    /// Tokens are this run's; the cost is that of the whole conversation.
    fn usage(&self, result: &Value) -> Spent {
        let cached = count(result, "/usage/cache_read_input_tokens");
        let now = Usage {
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
        Spent { now, so_far: Usage { cost_usd, ..Usage::default() } }
    }
}

fn blocks(event: &Value) -> impl Iterator<Item = &Value> {
    event.pointer("/message/content").and_then(Value::as_array).into_iter().flatten()
}

fn hint(complaint: &Complaint) -> Option<String> {
    complaint
        .mentions(&["/login", "Invalid API key", "authentication"])
        .then(|| "run `claude` once to sign in, or set ANTHROPIC_API_KEY".to_owned())
}
