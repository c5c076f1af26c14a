//! The adapter for Gemini CLI. Verified with version 0.61.0.

use super::events::{Diagnostics, EventHandler, JsonLines, count, message_item, text, tool_item};
use super::open_calls::{OpenCalls, push_piece};
use super::{
    AgentAdapter, Conversations, Exit, GeneratedFile, LastMessage, LaunchConfig, LaunchRequest, LoginSigns,
    Mentions, ModelUsage, Onboarding, OnboardingCheck, OutputEvent, OutputParser, OwnDir, OwnFiles, OwnPath,
    PermissionLevel, ProgramOutcome, ReportedUsage, SERVER, TOKEN_VARIABLE, TerminalTraits, ToolEndpoint,
    Treatment, Trouble, login,
};
use crate::structured::{Acp, StructuredProtocol};
use althing_protocol::{Item, PermissionMode, Usage};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The adapter for the program `gemini`.
#[derive(Clone, Copy, Debug, Default)]
pub struct GeminiCli;

const NAME: &str = "gemini";
const URL_VARIABLE: &str = "ALTHING_URL";
const READ_ONLY_TOOLS: &[&str] =
    &["glob", "grep_search", "list_directory", "read_file", "read_many_files", "google_web_search"];
const EDIT_TOOLS: &[&str] = &["write_file", "replace"];
/// The path of the project settings, relative to the working directory, and of the user settings, relative to the
/// home directory.
const SETTINGS: &str = ".gemini/settings.json";
/// The variable that names a directory that Gemini CLI uses instead of the home directory.
const HOME_VARIABLE: &str = "GEMINI_CLI_HOME";

const OWN_DIRS: &[OwnDir] = &[OwnDir {
    name: "gemini",
    in_home: ".gemini",
    variable: HOME_VARIABLE,
    below: ".gemini",
    files: &[
        OwnFiles {
            names: &[
                "settings.json",
                ".env",
                "GEMINI.md",
                "agents",
                "commands",
                "extensions",
                "gemini-credentials.json",
                "google_accounts.json",
                "hooks",
                "installation_id",
                "keybindings.json",
                "policies",
                "skills",
                "trustedFolders.json",
            ],
            treatment: Treatment::Copied,
            why: "settings, MCP servers, extensions, policies and instructions: they run code, give permissions or are obeyed",
        },
        OwnFiles {
            names: &["oauth_creds.json", "*-oauth-tokens.json"],
            treatment: Treatment::Credentials,
            why: "tokens expire and are replaced",
        },
        OwnFiles {
            names: &["tmp", "history", "projects.json"],
            treatment: Treatment::Kept,
            why: "conversations, which are resumed; `tmp/bin` contains programs",
        },
    ],
}];

impl GeminiCli {
    fn common_args(task: &LaunchRequest<'_>, config: &mut LaunchConfig) {
        let mut arg = |words: &[&str]| config.args.extend(words.iter().map(|word| (*word).to_owned()));
        if let Some(model) = &task.spec.model {
            arg(&["-m", model]);
        }
        match task.resume {
            Some(id) => arg(&["--resume", id]),
            None => arg(&["--session-id", task.new_conversation_id]),
        }
        config.env.push(("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), "true".to_owned()));
    }

    fn approval_mode(task: &LaunchRequest<'_>) -> [String; 2] {
        let mode = match task.spec.options.permission_mode {
            Some(PermissionMode::Plan) => "plan",
            Some(PermissionMode::AcceptEdits) => "auto_edit",
            Some(PermissionMode::Default | PermissionMode::BypassPermissions) | None => "default",
        };
        ["--approval-mode", mode].map(str::to_owned)
    }

    /// Adds a file with policy rules for the config's tool lists, which take precedence over Gemini CLI's built-in
    /// rules, and a file with the config's `system_prompt`. Our own tools are always allowed.
    fn options(task: &LaunchRequest<'_>, config: &mut LaunchConfig) {
        let options = &task.spec.options;
        let mut rules = String::new();
        if let Some(tools) = task.tools {
            let names: Vec<String> = tools.names.iter().map(|name| quoted(name)).collect();
            let condition = format!("mcpName = \"{SERVER}\"\ntoolName = [{}]", names.join(", "));
            rules.push_str(&rule(&condition, "allow", 950));
        }
        if let Some(allowed) = &options.allowed_tools {
            rules.push_str(&rule("toolName = \"*\"", "deny", 100));
            for tool in allowed {
                let name = tool.split('(').next().unwrap_or_default();
                let decision = match task.permissions {
                    PermissionLevel::Full => "allow",
                    PermissionLevel::Workspace if EDIT_TOOLS.contains(&name) => "allow",
                    _ if READ_ONLY_TOOLS.contains(&name) => "allow",
                    PermissionLevel::Ask => "ask_user",
                    PermissionLevel::Workspace | PermissionLevel::ReadOnly => continue,
                };
                rules.push_str(&rule(&condition(tool), decision, 200));
            }
        }
        for tool in &options.disallowed_tools {
            rules.push_str(&rule(&condition(tool), "deny", 900));
        }
        if !rules.is_empty() {
            let path = task.dir.join("gemini-policy.toml");
            config.args.extend(["--policy".to_owned(), path.to_string_lossy().into_owned()]);
            config.files.push(GeneratedFile { path, text: rules });
        }
        if let Some(text) = &options.system_prompt {
            let path = task.dir.join("gemini-system.md");
            config.env.push(("GEMINI_SYSTEM_MD".to_owned(), path.to_string_lossy().into_owned()));
            config.files.push(GeneratedFile { path, text: text.clone() });
        }
    }

    /// Gemini CLI asks how to sign in, or refuses to start, until its settings name a method. If the first-start
    /// dialogs can be skipped, Gemini CLI gets generated settings in the task's directory, and stores its
    /// conversations there, too.
    fn preset_auth(task: &LaunchRequest<'_>, config: &mut LaunchConfig) {
        if task.onboarding == Onboarding::LeaveToAgent {
            return;
        }
        let home = task.dir.join("gemini");
        let settings = json!({ "security": { "auth": { "selectedType": "gemini-api-key" } } });
        config.files.push(GeneratedFile { path: home.join(SETTINGS), text: settings.to_string() });
        config.env.push((HOME_VARIABLE.to_owned(), home.to_string_lossy().into_owned()));
    }

    /// Gemini CLI's file tools work only in the working directory and in included directories. Its writing tools
    /// would work in them as well, so this is called only for [`PermissionLevel::ReadOnly`].
    fn include_readable_dirs(task: &LaunchRequest<'_>, config: &mut LaunchConfig) {
        for dir in task.readable.iter().filter(|path| path.is_dir()) {
            config.args.extend(["--include-directories".to_owned(), dir.to_string_lossy().into_owned()]);
        }
    }

    /// Gemini CLI reads MCP servers only from settings files, so our server is added to the project settings. The
    /// token is in a variable, not in the file.
    fn tools(task: &LaunchRequest<'_>, tools: &ToolEndpoint, config: &mut LaunchConfig) {
        config.args.extend(["--allowed-mcp-server-names".to_owned(), SERVER.to_owned()]);
        config.files.push(GeneratedFile {
            path: Path::new(&task.spec.cwd).join(SETTINGS),
            text: server_settings().to_string(),
        });
        config.env.extend([
            (URL_VARIABLE.to_owned(), tools.url.clone()),
            (TOKEN_VARIABLE.to_owned(), tools.token.reveal().to_owned()),
        ]);
    }
}

fn server_settings() -> Value {
    let server = json!({
        "httpUrl": format!("${URL_VARIABLE}"),
        "headers": { "Authorization": format!("Bearer ${TOKEN_VARIABLE}") },
        "timeout": 7_200_000,
    });
    json!({ "mcpServers": { SERVER: server } })
}

pub(crate) fn is_generated(text: &[u8]) -> bool {
    serde_json::from_slice::<Value>(text).is_ok_and(|settings| settings == server_settings())
}

fn stored_conversation(id: &str, env: &dyn Fn(&str) -> Option<PathBuf>) -> Option<(PathBuf, String)> {
    let home = env(HOME_VARIABLE).or_else(|| env("HOME"))?;
    Some((home.join(".gemini/tmp"), format!("-{}.jsonl", id.split('-').next()?)))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn rule(condition: &str, decision: &str, priority: u16) -> String {
    format!("[[rule]]\n{condition}\ndecision = \"{decision}\"\npriority = {priority}\n")
}

fn condition(tool: &str) -> String {
    match tool.split_once('(') {
        Some((name, command)) => {
            let command = command.trim_end_matches(')');
            format!("toolName = {}\ncommandPrefix = {}", quoted(name), quoted(command))
        }
        None => format!("toolName = {}", quoted(tool)),
    }
}

impl AgentAdapter for GeminiCli {
    fn name(&self) -> &'static str {
        NAME
    }

    fn executable(&self) -> Option<&str> {
        Some(NAME)
    }

    fn launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let mut config = LaunchConfig { program: NAME.to_owned(), ..LaunchConfig::default() };
        if task.spec.options.permission_mode.is_some() {
            config.args.extend(Self::approval_mode(task));
        }
        Self::common_args(task, &mut config);
        Self::options(task, &mut config);
        Self::preset_auth(task, &mut config);
        Some(config)
    }

    fn headless_launch_config(&self, task: &LaunchRequest<'_>) -> Option<LaunchConfig> {
        let mode = match task.permissions {
            PermissionLevel::Full => "yolo",
            PermissionLevel::Workspace => "auto_edit",
            // In this mode a headless run is not offered tools that write or execute.
            PermissionLevel::ReadOnly | PermissionLevel::Ask => "default",
        };
        let args = ["-o", "stream-json", "--approval-mode", mode].map(str::to_owned).to_vec();
        let mut config = LaunchConfig { program: NAME.to_owned(), args, ..LaunchConfig::default() };
        Self::common_args(task, &mut config);
        Self::options(task, &mut config);
        if task.permissions == PermissionLevel::ReadOnly {
            Self::include_readable_dirs(task, &mut config);
        }
        if let Some(tools) = task.tools {
            Self::tools(task, tools, &mut config);
        }
        Some(config)
    }

    fn structured_protocol(
        &self,
        task: &LaunchRequest<'_>,
    ) -> Option<(LaunchConfig, Box<dyn StructuredProtocol>)> {
        let mut args = vec!["--acp".to_owned()];
        args.extend(Self::approval_mode(task));
        if let Some(model) = &task.spec.model {
            args.extend(["-m".to_owned(), model.clone()]);
        }
        let env = vec![("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), "true".to_owned())];
        let mut config = LaunchConfig { program: NAME.to_owned(), args, env, ..LaunchConfig::default() };
        Self::options(task, &mut config);
        Self::preset_auth(task, &mut config);
        Some((config, Box::new(Acp::new(NAME, &task.spec.prompt, &task.spec.cwd, task.resume))))
    }

    fn onboarding_check(&self) -> Option<OnboardingCheck> {
        Some(OnboardingCheck {
            settings: OwnPath::new(SETTINGS).overridden_by(HOME_VARIABLE, SETTINGS),
            completed_pointers: &["/security/auth/selectedType", "/selectedAuthType"],
            key_variables: &["GEMINI_API_KEY"],
        })
    }

    fn parser(&self) -> Box<dyn OutputParser> {
        Box::new(JsonLines::new(GeminiEvents::default()))
    }

    fn conversations(&self) -> Conversations {
        Conversations::IdChosen
    }

    fn landlock_problem(&self) -> Option<&'static str> {
        // Gemini CLI sets the modification time of its lock file and retries until it succeeds. Our Landlock sandbox
        // denies that call (`utimensat`), because Landlock cannot restrict it to certain files.
        Some("Gemini CLI cannot lock its list of projects in Landlock, the only sandbox that works here")
    }

    fn last_message(&self, conversation: &str, env: &dyn Fn(&str) -> Option<PathBuf>) -> Option<LastMessage> {
        let (dir, name_end) = stored_conversation(conversation, env)?;
        let message =
            |line: &Value| (text(line, "/type") == "gemini").then(|| text(line, "/content").to_owned());
        Some(LastMessage::Stored { dir, name_end, message })
    }

    /// On `session/load`, Gemini CLI begins a file before it reads the conversation. The file has the name of the
    /// conversation's own file if that was begun in the same minute.
    fn overwritten_when_loaded(
        &self,
        conversation: &str,
        env: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Option<(PathBuf, String)> {
        stored_conversation(conversation, env)
    }

    fn login_signs(&self) -> Option<LoginSigns> {
        Some(login::gemini())
    }

    fn mentions(&self) -> Mentions {
        Mentions::Anywhere
    }

    fn is_lost_conversation(&self, error: &str) -> bool {
        error.contains("Invalid session identifier")
    }

    fn own_dirs(&self) -> &'static [OwnDir] {
        OWN_DIRS
    }

    fn own_variables(&self) -> Vec<String> {
        ["GEMINI_*", "GOOGLE_*"].map(str::to_owned).to_vec()
    }

    fn terminal(&self) -> TerminalTraits {
        super::gemini_screen::traits()
    }
}

#[derive(Debug, Default)]
struct GeminiEvents {
    /// The message that is being received or, if `whole` is true, the last complete one.
    message: String,
    whole: bool,
    calls: OpenCalls<(String, Value)>,
    turns: u64,
    /// Why a request to the model failed most recently; kept if a later request succeeds.
    trouble: Option<String>,
    result: Option<Value>,
}

impl EventHandler for GeminiEvents {
    fn event(&mut self, event: &Value, emit: &mut dyn FnMut(OutputEvent)) {
        match text(event, "/type") {
            "init" => {
                emit(OutputEvent::Item(Item::Conversation { id: text(event, "/session_id").to_owned() }))
            }
            "message" if text(event, "/role") == "assistant" => {
                if std::mem::take(&mut self.whole) {
                    self.message.clear();
                }
                let piece = text(event, "/content");
                push_piece(&mut self.message, piece);
                emit(OutputEvent::TextDelta(piece.to_owned()));
            }
            "tool_use" => {
                emit(OutputEvent::ModelReplies);
                self.end_message(emit);
                let input = event.pointer("/parameters").cloned().unwrap_or_default();
                let (tool, bytes) = (text(event, "/tool_name").to_owned(), input.to_string().len());
                self.calls.insert(text(event, "/tool_id"), bytes, (tool, input));
            }
            "tool_result" => {
                if let Some((tool, input)) = self.calls.remove(text(event, "/tool_id")) {
                    let is_error = text(event, "/status") != "success";
                    if is_error {
                        let arguments = input.to_string();
                        emit(OutputEvent::FailedCall { tool: tool.clone(), arguments });
                    }
                    emit(tool_item(&tool, &input, Some(text(event, "/output")), is_error));
                }
            }
            "result" => self.result = Some(event.clone()),
            _ => {}
        }
    }

    fn error_line(&mut self, line: &str, emit: &mut dyn FnMut(OutputEvent)) -> bool {
        if let Some(said) = failed_attempt(line) {
            self.trouble = Some(said.to_owned());
            emit(Trouble::passing(said));
        }
        true
    }

    fn has_ended_turn(&self) -> bool {
        self.result.is_some()
    }

    fn end(
        &mut self,
        exit: Exit,
        diagnostics: &Diagnostics,
        emit: &mut dyn FnMut(OutputEvent),
    ) -> ProgramOutcome {
        self.end_message(emit);
        let message = std::mem::take(&mut self.message);
        let Some(result) = self.result.take() else {
            let failure = format!("gemini gave no result; {exit}");
            let error = match self.trouble.take() {
                Some(said) => format!("{failure}: {said}"),
                None => diagnostics.explain(&failure),
            };
            let hint = match exit.code {
                Some(41) => Some("run `gemini` once to sign in, or set GEMINI_API_KEY".to_owned()),
                Some(42) => {
                    Some("a conversation can be resumed only in the directory where it began".to_owned())
                }
                _ => None,
            };
            return ProgramOutcome {
                error: Some(error),
                hint,
                message: Some(message),
                ..ProgramOutcome::default()
            };
        };
        let ok = text(&result, "/status") == "success" && exit.is_success();
        let error = (!ok).then(|| match text(&result, "/error/message") {
            "" => diagnostics.explain(&exit.to_string()),
            message => message.to_owned(),
        });
        let signed_out = error.as_deref().is_some_and(|error| error.contains("UNAUTHENTICATED"));
        let hint = signed_out.then(|| "run `gemini` once to sign in, or set GEMINI_API_KEY".to_owned());
        let tokens = |stats: &Value| Usage {
            input_tokens: count(stats, "/input_tokens"),
            output_tokens: count(stats, "/output_tokens"),
            cached_input_tokens: count(stats, "/cached"),
            ..Usage::default()
        };
        let stats = result.get("stats").unwrap_or(&Value::Null);
        let this_run = Usage { calls: self.turns, ..tokens(stats) };
        let models = stats.get("models").and_then(Value::as_object).into_iter().flatten();
        let by_model = models.map(|(model, stats)| ModelUsage { model: model.clone(), usage: tokens(stats) });
        ProgramOutcome {
            ok,
            message: Some(message),
            error,
            hint,
            usage: ReportedUsage { this_run, by_model: by_model.collect(), ..ReportedUsage::default() },
        }
    }
}

/// The part after the counter of a line of stderr such as "Attempt 2 failed with status 500. Retrying with backoff...
/// reason", with which Gemini CLI reports that it repeats a request to its model.
pub(crate) fn failed_attempt(line: &str) -> Option<&str> {
    let (number, rest) = line.trim().strip_prefix("Attempt ")?.split_once(' ')?;
    (number.parse::<u32>().is_ok() && rest.starts_with("failed")).then_some(rest)
}

impl GeminiEvents {
    fn end_message(&mut self, emit: &mut dyn FnMut(OutputEvent)) {
        self.turns += 1;
        if !std::mem::replace(&mut self.whole, true) {
            message_item(&self.message).into_iter().for_each(emit);
        }
    }
}
