//! A CLI agent as the backend of a run's member or of the chat agent: for each model call the program is started
//! headless, with our tools offered over MCP.
//!
//! Calls to our tools are not executed while the program runs: they are recorded, the program is told to end its
//! turn, and the calls are returned as part of the reply.

use super::cli_prompt;
use super::conversation_id::{is_conversation_id, notice_of_refused};
use super::foreign_settings::notice_of_ignored;
use super::headless::Headless;
use super::model_prices::ModelPrices;
use super::pipes::{FinishedRun, ProgramEvent};
use super::prepare::{PreparedProgram, ProgramStarter, StartRequest};
use super::raw_output::RawOutputFile;
use super::recorded_calls::RecordedCalls;
use super::reply_collector::ReplyCollector;
use super::unfinished_turn::UnfinishedTurn;
use super::usage_tracker::UsageTracker;
use crate::adapter::{PermissionLevel, SERVER, ToolEndpoint};
use crate::agent_processes::{UntilEnded, processes_ended};
use crate::code_watch::{CodeWatch, WatchedProgram};
use crate::command::unique;
use crate::placeholders::Placeholders;
use crate::planted_code::PlantedCode;
use althing_protocol::{
    AgentKind, AgentOptions, Backend, BackendError, BackendErrorKind, BackendInfo, BoxFuture, CallContext,
    DeltaSink, Endpoint, EndpointHandler, Endpoints, ExecutionMode, Message, ModelRequest, ProgramSpec,
    Reply, ToolCall, ToolSpec, Usage,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const END_TIMEOUT: Duration = Duration::from_secs(20);

/// A CLI agent that is a member of runs or the chat agent.
pub struct CliBackend {
    info: BackendInfo,
    kind: &'static AgentKind,
    config: CliAgentConfig,
    starter: Arc<ProgramStarter>,
    endpoints: Arc<dyn Endpoints>,
    usage_tracker: UsageTracker,
    placeholders: Placeholders,
}

/// The config of a CLI agent.
#[derive(Clone, Debug, Default)]
pub struct CliAgentConfig {
    /// The config's `backend.type`, which is the `kind` of a row in `AGENT_KINDS`.
    pub kind: String,
    /// The model; `None` uses the CLI agent's default model.
    pub model: Option<String>,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
    /// The directory for generated files and raw output.
    pub dir: PathBuf,
    /// The permission mode, tool lists, system prompts and reasoning effort from the config.
    pub options: AgentOptions,
    /// How long the program may be silent; `None` uses the default.
    pub idle: Option<Duration>,
    /// Prices, for a CLI agent that reports tokens but no cost.
    pub prices: ModelPrices,
    /// What agents of the session wrote that could run code.
    pub planted: Arc<PlantedCode>,
}

impl CliBackend {
    /// Makes the backend of a CLI agent; `None` if the config's kind is not a CLI agent.
    pub fn new(
        starter: Arc<ProgramStarter>,
        endpoints: Arc<dyn Endpoints>,
        config: CliAgentConfig,
    ) -> Option<Self> {
        let kind = starter.adapters.kind(&config.kind)?;
        let model = config.model.clone().unwrap_or_else(|| "its own default".to_owned());
        let info = BackendInfo { kind: config.kind.clone(), model, offline: false };
        let (usage_tracker, placeholders) = (UsageTracker::default(), Placeholders::default());
        Some(Self { info, kind, config, starter, endpoints, usage_tracker, placeholders })
    }

    async fn reply(&self, request: &ModelRequest, on_delta: DeltaSink<'_>) -> Result<Reply, BackendError> {
        let recorded = Arc::new(RecordedCalls::default());
        let endpoint = if request.tools.is_empty() || self.kind.tool_name_pattern.is_none() {
            None
        } else {
            let calls: Arc<dyn EndpointHandler> = recorded.clone();
            let opened = self.endpoints.open(request.tools.clone(), calls).await;
            Some(opened.map_err(|why| error(BackendErrorKind::Connect, &why, None))?)
        };
        let call_context = request.call_context.as_ref();
        let mut native = call_context.and_then(|call_context| call_context.native.as_deref());
        if let (Some(call_context), Some(id)) = (call_context, native.take_if(|id| !is_conversation_id(id))) {
            call_context.late_notices.add(notice_of_refused(self.kind.kind, id));
        }
        let owner = self.owner(call_context);
        let call = BackendCall { request, endpoint: endpoint.as_deref(), recorded: &recorded, owner: &owner };
        let watch = match call_context.filter(|call_context| call_context.grant.start.is_some()) {
            Some(call_context) => Some(CodeWatch::start(&call_context.grant).await),
            None => None,
        };
        let late = call_context.map(|call_context| call_context.late_notices.clone()).unwrap_or_default();
        let watched = WatchedProgram::new(watch, &owner, {
            let late = late.clone();
            move |written| {
                if let Some(written) = written {
                    late.add(written.notice());
                }
            }
        });
        let reply = self.reply_of_program(&call, native, on_delta).await;
        let notice = watched.finish().await.map(|written| written.notice());
        match reply {
            Ok(mut reply) => {
                reply.notices.extend(notice);
                Ok(reply)
            }
            Err(error) => {
                if let Some(notice) = notice {
                    late.add(notice);
                }
                Err(error)
            }
        }
    }

    async fn reply_of_program(
        &self,
        call: &BackendCall<'_>,
        native: Option<&str>,
        on_delta: DeltaSink<'_>,
    ) -> Result<Reply, BackendError> {
        let dir = self.dir(call.request.call_context.as_ref());
        let shared = dir.parent().unwrap_or(&dir);
        let mut turn = UnfinishedTurn::new(shared, call.request, native, self.kind);
        let reply = self.reply_in_turn(call, native, &mut turn, on_delta).await;
        turn.over();
        reply
    }

    async fn reply_in_turn(
        &self,
        call: &BackendCall<'_>,
        native: Option<&str>,
        turn: &mut UnfinishedTurn,
        on_delta: DeltaSink<'_>,
    ) -> Result<Reply, BackendError> {
        let (mut native, mut usage, mut reply) = (native, Usage::default(), None);
        if let Some(cut_off) = turn.cut_off() {
            let prompt = cli_prompt::continuation(call.request, cut_off.messages, self.kind);
            let conversation = Some(cut_off.conversation.as_str());
            match self.run_once(call, conversation, prompt, turn, on_delta).await {
                // The conversation may be damaged in a way that the adapter does not know, and nothing was done in it
                // now.
                Err(failed) if !turn.has_begun() && failed.kind != BackendErrorKind::Auth => {
                    native = native.filter(|native| *native != cut_off.conversation);
                    usage = failed.usage;
                }
                continued => reply = continued?,
            }
        }
        let reply = match reply {
            Some(reply) => Ok(reply),
            None => self.reply_to_all(call, native, turn, on_delta).await,
        };
        match reply {
            Ok(mut reply) => {
                reply.usage += usage;
                self.ask_again_with_tools(call, reply, turn, on_delta).await
            }
            Err(mut error) => {
                error.usage += usage;
                Err(error)
            }
        }
    }

    async fn reply_to_all(
        &self,
        call: &BackendCall<'_>,
        native: Option<&str>,
        turn: &mut UnfinishedTurn,
        on_delta: DeltaSink<'_>,
    ) -> Result<Reply, BackendError> {
        let complete = |native: Option<&str>| cli_prompt::render(call.request, native.is_some(), self.kind);
        let mut reply = self.run_once(call, native, complete(native), turn, on_delta).await?;
        if reply.is_none() {
            // The program no longer has the conversation, so the whole history is sent.
            reply = self.run_once(call, None, complete(None), turn, on_delta).await?;
        }
        reply.ok_or_else(|| {
            let why = "the program could not resume its conversation, nor start a new one";
            error(BackendErrorKind::Protocol, why, None)
        })
    }

    /// In a run, the owner of a call's processes is the workspace: the run waits for its processes before it lists
    /// what they wrote. Otherwise, each call has an owner of its own.
    fn owner(&self, call_context: Option<&CallContext>) -> PathBuf {
        let grant = call_context.map(|call_context| &call_context.grant);
        let workspace = grant.filter(|grant| grant.start.is_none()).and_then(|grant| grant.workspace.clone());
        workspace.unwrap_or_else(|| self.dir(call_context).join(unique()))
    }

    /// Asks a CLI agent that may miss our tools again, once, if it ended its turn without having listed them and its
    /// message was not read as an answer or a vote. The agent must have a conversation to continue, so that it does
    /// not repeat its work.
    async fn ask_again_with_tools(
        &self,
        call: &BackendCall<'_>,
        first: Reply,
        turn: &mut UnfinishedTurn,
        on_delta: DeltaSink<'_>,
    ) -> Result<Reply, BackendError> {
        let missed_tools = call.endpoint.is_some_and(|endpoint| !endpoint.is_connected())
            && self.starter.adapters.get(self.kind.adapter).is_some_and(|adapter| adapter.may_miss_tools());
        let Some(native) = first.native.as_deref().filter(|_| missed_tools && first.tool_calls.is_empty())
        else {
            return Ok(first);
        };
        let mut request = call.request.clone();
        request.messages.push(Message::Assistant { text: first.text.clone(), tool_calls: Vec::new() });
        request.messages.push(Message::User(cli_prompt::TOOLS_WERE_MISSING.to_owned()));
        let again = BackendCall { request: &request, ..*call };
        let prompt = cli_prompt::render(&request, true, self.kind);
        match self.run_once(&again, Some(native), prompt, turn, on_delta).await? {
            Some(mut reply) => {
                reply.usage += first.usage;
                Ok(reply)
            }
            None => Ok(first),
        }
    }

    /// Starts the CLI agent for one call and waits for its end, but only for a limited time after its first
    /// tool call ([`RecordedCalls::overdue`]). `None` if the conversation to resume does not exist and no tool was called.
    async fn run_once(
        &self,
        call: &BackendCall<'_>,
        native: Option<&str>,
        prompt: String,
        turn: &mut UnfinishedTurn,
        on_delta: DeltaSink<'_>,
    ) -> Result<Option<Reply>, BackendError> {
        let request = call.request;
        let dir = self.dir(request.call_context.as_ref());
        let cwd = Self::workspace(request.call_context.as_ref(), &dir)?;
        let spec = self.spec(prompt, &cwd);
        let mut grant =
            request.call_context.as_ref().map(|call_context| call_context.grant.clone()).unwrap_or_default();
        grant.workspace.get_or_insert_with(|| cwd.clone());
        let tool_endpoint = call.tool_endpoint(self.kind);
        let start_request = StartRequest {
            spec: &spec,
            resume: native,
            dir: &dir,
            // The directories of two sessions can have the same name, but not their workspaces.
            conversation_of: [
                dir.parent().unwrap_or(&dir),
                grant.workspace.as_deref().unwrap_or(Path::new("")),
            ],
            tools: tool_endpoint.as_ref(),
            grant: &grant,
            unsandboxed_level: PermissionLevel::Workspace,
        };
        let mut prepared = self.prepare(&start_request).await?;
        let late = request.call_context.as_ref().map(|call_context| call_context.late_notices.clone());
        // The notice about ignored settings is given once per conversation.
        let ignored = notice_of_ignored(prepared.adapter.name(), &prepared.ignored_settings);
        let ignored = ignored.filter(|_| native.is_none());
        if let (Some(late), Some(notice)) = (&late, ignored) {
            late.add(notice);
        }
        let used = UntilEnded::new(call.owner, (prepared.take_used(), late));
        let launcher = self.starter.launcher.clone().owned_by(call.owner);
        let mut raw = RawOutputFile::new(dir.join(super::RAW_OUTPUT), self.starter.output_masking.as_ref());
        let mut collector = ReplyCollector::new(request, native, self.kind.kind, turn, on_delta);
        let run = Headless {
            guarded_command: &prepared.confined.guarded_command,
            prompt: &prepared.prompt,
            idle: self.config.idle.unwrap_or(self.starter.limits.idle),
            parser: prepared.adapter.parser(),
            raw: &mut raw,
        };
        let mut on_event = |event: ProgramEvent<'_>| collector.on_event(event);
        let lease = self.placeholders.lease(&prepared.confined.placeholders);
        let finished = tokio::select! {
            finished = run.run(&launcher, &mut on_event) => Some(finished),
            () = call.recorded.overdue() => None,
        };
        if finished.is_none() {
            // The program was asked to end, but may write until it is killed.
            let _ = tokio::time::timeout(END_TIMEOUT, processes_ended(call.owner)).await;
        }
        drop(used);
        // Placeholders protect paths from the program. If it has not ended, they must stay, and are removed later.
        if finished.is_some() {
            lease.release();
        }
        let ReplyCollector { native: conversation, mut text, streamed_text, trouble, failed_call, .. } =
            collector;
        if text.is_empty() {
            text = streamed_text.finish(&format!("the complete raw output is in {}", raw.path().display()));
        }
        let calls = self.calls(call, failed_call);
        match finished {
            Some(Ok(done))
                if native.is_some()
                    && calls.is_empty()
                    && super::lost_conversation(&*prepared.adapter, &done) =>
            {
                Ok(None)
            }
            Some(Ok(done)) => {
                let reply = self.finish_reply(call, done, calls, conversation, text);
                reply.map(Some).map_err(|error| after_trouble(error, trouble))
            }
            Some(Err(why)) if calls.is_empty() => {
                Err(error(BackendErrorKind::Server, &why.to_string(), None))
            }
            // The program made its tool calls but did not exit properly; its usage is unknown.
            Some(Err(_)) | None => {
                let usage = Usage { calls: 1, unpriced_calls: 1, ..Usage::default() };
                Ok(Some(Reply { text, tool_calls: calls, native: conversation, usage, ..Reply::default() }))
            }
        }
    }

    /// Also fails if the CLI agent would run code that an agent planted: without a sandbox, and with the settings of the
    /// directory where it works.
    async fn prepare(&self, start: &StartRequest<'_>) -> Result<PreparedProgram, BackendError> {
        let spec = start.spec;
        if self.starter.trusts_project_settings
            && !self.starter.is_confined(spec)
            && let Some(problem) = self.config.planted.problem(Path::new(&spec.cwd), &spec.adapter).await
        {
            let hint = "look at the files, and delete what you do not want; then start a new session, or leave out \
                        `--trust`";
            return Err(error(BackendErrorKind::NotFound, &problem, Some(hint.to_owned())));
        }
        let prepared = self.starter.prepare(start).await;
        prepared.map_err(|(why, hint)| error(BackendErrorKind::NotFound, &why, hint))
    }

    fn finish_reply(
        &self,
        call: &BackendCall<'_>,
        done: FinishedRun,
        mut calls: Vec<ToolCall>,
        native: Option<String>,
        said: String,
    ) -> Result<Reply, BackendError> {
        let dir = self.dir(call.request.call_context.as_ref());
        let shared = dir.parent().unwrap_or(&dir);
        let usage = self.usage_tracker.settle(native.as_deref(), &done.outcome.usage, shared);
        let names: Vec<&str> = self.config.model.iter().map(String::as_str).chain([self.kind.kind]).collect();
        let mut usage = self.config.prices.priced(usage, &done.outcome.usage.by_model, &names);
        // Not every program reports its number of model calls.
        usage.calls = usage.calls.max(1);
        let failed = !done.outcome.ok || done.idle;
        // Recorded tool calls count even if the program failed afterwards.
        if failed && calls.is_empty() {
            return Err(failure(&done, usage));
        }
        let text = done.outcome.message.filter(|message| !message.is_empty()).unwrap_or(said);
        let connected = call.endpoint.is_some_and(Endpoint::is_connected);
        if calls.is_empty() && !connected {
            calls.extend(cli_prompt::call_from_text(&text, call.request));
        }
        Ok(Reply { text, tool_calls: calls, native, usage, ..Reply::default() })
    }

    /// The calls of our tools, or a call of one of them that did not reach us: Gemini CLI refuses calls that do not fit
    /// a tool's schema, among them some that the run accepts. For the others, the run can say better what is wrong.
    fn calls(&self, call: &BackendCall<'_>, failed: Option<(String, String)>) -> Vec<ToolCall> {
        let recorded = call.recorded.take();
        let Some((tool, arguments)) = failed.filter(|_| recorded.is_empty()) else { return recorded };
        let is_it = |spec: &&ToolSpec| self.kind.tool_name(SERVER, &spec.name).as_ref() == Some(&tool);
        let ours = call.request.tools.iter().find(is_it);
        let failed =
            |spec: &ToolSpec| ToolCall { id: "call-1".to_owned(), name: spec.name.clone(), arguments };
        ours.map(failed).into_iter().collect()
    }

    fn spec(&self, prompt: String, cwd: &Path) -> ProgramSpec {
        ProgramSpec {
            adapter: self.kind.adapter.to_owned(),
            command: Vec::new(),
            mode: ExecutionMode::Headless,
            prompt,
            cwd: cwd.to_string_lossy().into_owned(),
            env: self.config.env.clone(),
            model: self.config.model.clone(),
            on_interrupt: None,
            sandbox: None,
            idle_timeout: None,
            approvals: false,
            agent: None,
            options: self.config.options.clone(),
        }
    }

    fn dir(&self, call_context: Option<&CallContext>) -> PathBuf {
        match call_context {
            Some(call_context) => self
                .config
                .dir
                .join(call_context.work.as_str().replace('/', "-"))
                .join(call_context.attempt.to_string()),
            None => self.config.dir.clone(),
        }
    }

    fn workspace(call_context: Option<&CallContext>, dir: &Path) -> Result<PathBuf, BackendError> {
        if let Some(workspace) = call_context.and_then(|call_context| call_context.workspace.as_ref()) {
            return Ok(PathBuf::from(workspace));
        }
        // All attempts share this directory, because a conversation can only be resumed in the directory where it
        // began.
        let empty = dir.parent().unwrap_or(dir).join("workspace");
        std::fs::create_dir_all(&empty)
            .map_err(|why| error(BackendErrorKind::Server, &format!("{}: {why}", empty.display()), None))?;
        Ok(empty)
    }
}

impl Backend for CliBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_delta: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Reply, BackendError>> {
        Box::pin(async move {
            let result = self.reply(request, on_delta).await;
            result.map_err(|error| BackendError {
                message: format!("{}: {}", self.info.kind, error.message),
                ..error
            })
        })
    }
}

#[derive(Clone, Copy)]
struct BackendCall<'a> {
    request: &'a ModelRequest,
    endpoint: Option<&'a dyn Endpoint>,
    recorded: &'a RecordedCalls,
    owner: &'a Path,
}

impl BackendCall<'_> {
    fn tool_endpoint(&self, kind: &'static AgentKind) -> Option<ToolEndpoint> {
        self.endpoint.map(|endpoint| ToolEndpoint {
            url: endpoint.url().to_owned(),
            token: endpoint.token().clone(),
            names: self.request.tools.iter().map(|tool| tool.name.clone()).collect(),
            kind,
        })
    }
}

/// Adds why the program could not reach its model, unless the error already contains that reason.
fn after_trouble(mut error: BackendError, trouble: Option<String>) -> BackendError {
    if let Some(trouble) = trouble.filter(|text| !error.message.contains(text.as_str())) {
        error.message = format!("{}; the last problem that it reported: {trouble}", error.message);
    }
    error
}

fn failure(done: &FinishedRun, usage: Usage) -> BackendError {
    let why = done.outcome.error.clone().unwrap_or_else(|| done.exit.to_string());
    let signed_out = ["401", "UNAUTHENTICATED", "authenticat", "API key"];
    let kind = if done.idle {
        BackendErrorKind::Timeout
    } else if signed_out.iter().any(|word| why.contains(word)) {
        BackendErrorKind::Auth
    } else {
        BackendErrorKind::Server
    };
    let message =
        if done.idle { "the CLI agent printed nothing for too long and was ended".to_owned() } else { why };
    BackendError { kind, message, hint: done.outcome.hint.clone(), usage }
}

fn error(kind: BackendErrorKind, message: &str, hint: Option<String>) -> BackendError {
    BackendError { kind, message: message.to_owned(), hint, usage: Usage::default() }
}
