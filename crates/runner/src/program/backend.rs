//! A program as the backend of a run's agent: one call is one headless run of it, with our tools over MCP.
//!
//! The program works in the agent's own workspace with its own tools, inside our walls where there are any and by its
//! own rules where there are none. What it calls of ours is not carried out while it runs: it is noted, the program is
//! told to end its turn, and the call comes back as part of the reply, as any model's would. Its conversation is its
//! own; it is told only what is new to it.

use super::cli_prompt;
use super::excerpt::OutputExcerpt;
use super::headless::Headless;
use super::pipes::{FinishedRun, ProgramEvent};
use super::raw_output::RawOutputFile;
use super::start::{ProgramStarter, StartRequest};
use super::usage_tracker::UsageTracker;
use crate::adapter::{OutputEvent, PermissionLevel, ToolEndpoint};
use crate::command::Placeholders;
use althing_protocol::{
    AgentKind, AgentOptions, Backend, BackendError, BackendErrorKind, BackendInfo, BoxFuture, CallContext,
    Delta, DeltaSink, Endpoint, EndpointHandler, Endpoints, ExecutionMode, Item, ModelRequest, ProgramSpec,
    Reply, ToolCall, ToolOutcome, Usage,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a program may go on after it called one of our tools and was told to end its call.
const STOP_AFTER_TOOL_CALL: Duration = Duration::from_secs(60);
/// What it is told then.
const CALL_RECORDED: &str =
    "Noted. End your turn now, without any further tool call: what comes of it is in the next message.";

/// A program that is an agent of runs.
pub struct CliBackend {
    info: BackendInfo,
    kind: &'static AgentKind,
    config: CliAgentConfig,
    starter: Arc<ProgramStarter>,
    endpoints: Arc<dyn Endpoints>,
    usage_tracker: UsageTracker,
    placeholders: Placeholders,
}

/// What an agent's config says of its program.
#[derive(Clone, Debug, Default)]
pub struct CliAgentConfig {
    /// The config's `backend.type`: the `kind` of a row of the table of agent kinds.
    pub kind: String,
    /// The model it is to use; its own default where None.
    pub model: Option<String>,
    /// More environment.
    pub env: BTreeMap<String, String>,
    /// Where files made for it, and its raw output, go.
    pub dir: PathBuf,
    /// Its own permissions, tools and prompt.
    pub options: AgentOptions,
    /// How long it may say nothing; the usual where None.
    pub idle: Option<Duration>,
}

impl CliBackend {
    /// A backend for this member; None where its kind is no CLI agent.
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
        let endpoint = if request.tools.is_empty() {
            None
        } else {
            let calls: Arc<dyn EndpointHandler> = recorded.clone();
            let opened = self.endpoints.open(request.tools.clone(), calls).await;
            Some(opened.map_err(|why| error(BackendErrorKind::Connect, &why, None))?)
        };
        let native = request.call_context.as_ref().and_then(|call_context| call_context.native.as_deref());
        let call = BackendCall { request, endpoint: endpoint.as_deref(), recorded: &recorded };
        match self.run_once(&call, native, on_delta).await? {
            Some(reply) => Ok(reply),
            // Its conversation is not there any more; it is told everything.
            None => self.run_once(&call, None, on_delta).await?.ok_or_else(|| {
                error(BackendErrorKind::Protocol, "the program lost its conversation twice", None)
            }),
        }
    }

    /// One run of the program; None where the conversation to go on with is not there.
    async fn run_once(
        &self,
        call: &BackendCall<'_>,
        native: Option<&str>,
        on_delta: DeltaSink<'_>,
    ) -> Result<Option<Reply>, BackendError> {
        let request = call.request;
        let dir = self.dir(request.call_context.as_ref());
        let cwd = Self::workspace(request.call_context.as_ref(), &dir)?;
        let spec = self.spec(cli_prompt::render(request, native.is_some(), self.kind), &cwd);
        let mut grant =
            request.call_context.as_ref().map(|call_context| call_context.grant.clone()).unwrap_or_default();
        // Without a workspace it works in an empty directory of its own.
        grant.workspace.get_or_insert_with(|| cwd.clone());
        let tool_endpoint = call.endpoint.map(|endpoint| ToolEndpoint {
            url: endpoint.url().to_owned(),
            token: endpoint.token().clone(),
            names: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            kind: self.kind,
        });
        let start_request = StartRequest {
            spec: &spec,
            resume: native,
            dir: &dir,
            tools: tool_endpoint.as_ref(),
            grant: &grant,
            unsandboxed_level: PermissionLevel::Workspace,
        };
        let prepared = self
            .starter
            .prepare(&start_request)
            .map_err(|(why, hint)| error(BackendErrorKind::NotFound, &why, hint))?;
        let mut raw = RawOutputFile::new(dir.join(super::RAW_OUTPUT), self.starter.masks.as_ref());
        let mut collector = ReplyCollector {
            on_delta,
            native: native.map(str::to_owned),
            text: String::new(),
            has_streamed: false,
            streamed_text: OutputExcerpt::default(),
        };
        let run = Headless {
            launch: &prepared.confined.launch,
            prompt: &prepared.prompt,
            idle: self.config.idle.unwrap_or(self.starter.limits.idle),
            parser: prepared.adapter.parser(),
            raw: &mut raw,
        };
        let mut on_event = |event: ProgramEvent<'_>| collector.on_event(event);
        let lease = self.placeholders.lease(&prepared.confined.placeholders);
        let finished = tokio::select! {
            finished = run.run(&self.starter.launcher, &mut on_event) => Some(finished),
            () = call.recorded.overdue() => None,
        };
        // Of a program that would not stop, they are removed later.
        if finished.is_some() {
            lease.release();
        }
        let ReplyCollector { native: conversation, mut text, streamed_text, .. } = collector;
        if text.is_empty() {
            text = streamed_text.finish(&format!("all of it, as it came, is in {}", raw.path().display()));
        }
        let calls = call.recorded.take();
        match finished {
            Some(Ok(done)) if native.is_some() && calls.is_empty() && super::lost_conversation(&done) => {
                Ok(None)
            }
            Some(Ok(done)) => self.finish_reply(call, done, calls, conversation, text).map(Some),
            Some(Err(why)) => Err(error(BackendErrorKind::Server, &why.to_string(), None)),
            // It did what it had to and would not stop; what it cost is not known.
            None => {
                let usage = Usage { calls: 1, ..Usage::default() };
                Ok(Some(Reply { text, tool_calls: calls, native: conversation, usage, ..Reply::default() }))
            }
        }
    }

    fn finish_reply(
        &self,
        call: &BackendCall<'_>,
        done: FinishedRun,
        mut calls: Vec<ToolCall>,
        native: Option<String>,
        said: String,
    ) -> Result<Reply, BackendError> {
        let mut usage = self.usage_tracker.settle(native.as_deref(), done.outcome.usage);
        // Not every program says how often it called its model.
        usage.calls = usage.calls.max(1);
        let failed = !done.outcome.ok || done.idle;
        // What it called counts, however it ended afterwards.
        if failed && calls.is_empty() {
            return Err(failure(&done, usage));
        }
        let text = done.outcome.message.filter(|message| !message.is_empty()).unwrap_or(said);
        let connected = call.endpoint.is_some_and(Endpoint::is_connected);
        if calls.is_empty() && !connected {
            calls.extend(cli_prompt::call_from_text(&text, &call.request.tools));
        }
        Ok(Reply { text, tool_calls: calls, native, usage, ..Reply::default() })
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

    /// The agent's workspace, or an empty directory where it has none.
    fn workspace(call_context: Option<&CallContext>, dir: &Path) -> Result<PathBuf, BackendError> {
        if let Some(workspace) = call_context.and_then(|call_context| call_context.workspace.as_ref()) {
            return Ok(PathBuf::from(workspace));
        }
        // Beside the tries, so that a conversation is gone on with where it began.
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

/// One call's parts.
struct BackendCall<'a> {
    request: &'a ModelRequest,
    endpoint: Option<&'a dyn Endpoint>,
    recorded: &'a RecordedCalls,
}

/// Calls of our tools, noted while the program runs.
#[derive(Default)]
struct RecordedCalls {
    calls: Mutex<Vec<ToolCall>>,
    first: Notify,
}

impl RecordedCalls {
    fn take(&self) -> Vec<ToolCall> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the first call and then as long as the program may still take.
    async fn overdue(&self) {
        self.first.notified().await;
        tokio::time::sleep(STOP_AFTER_TOOL_CALL).await;
    }
}

impl EndpointHandler for RecordedCalls {
    fn call(&self, mut call: ToolCall) -> BoxFuture<'_, ToolOutcome> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // Unique within the reply, whatever the program's protocol says.
        call.id = format!("call-{}", calls.len() + 1);
        calls.push(call);
        drop(calls);
        self.first.notify_one();
        Box::pin(async { ToolOutcome { content: CALL_RECORDED.to_owned(), is_error: false } })
    }
}

/// Passes on what the program says.
struct ReplyCollector<'a> {
    on_delta: DeltaSink<'a>,
    native: Option<String>,
    text: String,
    /// It streams its messages, so that whole ones are nothing new.
    has_streamed: bool,
    /// The streamed pieces, for a program that says no whole message.
    streamed_text: OutputExcerpt,
}

impl ReplyCollector<'_> {
    fn on_event(&mut self, event: ProgramEvent<'_>) {
        match event {
            ProgramEvent::Parsed(OutputEvent::TextDelta(piece)) => {
                self.has_streamed = true;
                (self.on_delta)(Delta::Text(&piece));
                self.streamed_text.push(&piece);
            }
            ProgramEvent::Parsed(OutputEvent::Item(Item::Said { text })) => {
                if !self.has_streamed {
                    (self.on_delta)(Delta::Text(&text));
                    (self.on_delta)(Delta::Text("\n"));
                }
                self.text = text;
            }
            ProgramEvent::Parsed(OutputEvent::Item(Item::Conversation { id })) => self.native = Some(id),
            ProgramEvent::Parsed(OutputEvent::Item(_))
            | ProgramEvent::Output(..)
            | ProgramEvent::PromptSent(_)
            | ProgramEvent::Waiting(_)
            | ProgramEvent::MovedOn => {}
        }
    }
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
    let message = if done.idle { "it said nothing for too long and was ended".to_owned() } else { why };
    BackendError { kind, message, hint: done.outcome.hint.clone(), usage }
}

fn error(kind: BackendErrorKind, message: &str, hint: Option<String>) -> BackendError {
    BackendError { kind, message: message.to_owned(), hint, usage: Usage::default() }
}
