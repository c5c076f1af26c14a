//! A program as the backend of a run's agent: one call is one headless run of it, with our tools over MCP.
//!
//! The program works in the agent's own workspace with its own tools, inside our walls where there are any and by its
//! own rules where there are none. What it calls of ours is not carried out while it runs: it is noted, the program is
//! told to end its turn, and the call comes back as part of the reply, as any model's would. Its conversation is its
//! own; it is told only what is new to it.

use super::digest::Digest;
use super::headless::Headless;
use super::pipes::{Done, Heard};
use super::raw::RawFile;
use super::spending::Spending;
use super::start::{ProgramStarter, Want};
use super::words;
use crate::adapter::{Freedom, Meaning, Toolbox};
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

/// How long a program may go on after it called one of our tools and was told to end its turn.
const LAST_WORDS: Duration = Duration::from_secs(60);
/// What it is told then.
const NOTED: &str =
    "Noted. End your turn now, without any further tool call: what comes of it is in the next message.";

/// A program that is an agent of runs.
pub struct CliBackend {
    info: BackendInfo,
    kind: &'static AgentKind,
    member: CliAgentConfig,
    starter: Arc<ProgramStarter>,
    endpoints: Arc<dyn Endpoints>,
    spending: Spending,
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
        member: CliAgentConfig,
    ) -> Option<Self> {
        let kind = starter.adapters.kind(&member.kind)?;
        let model = member.model.clone().unwrap_or_else(|| "its own default".to_owned());
        let info = BackendInfo { kind: member.kind.clone(), model, offline: false };
        let (spending, placeholders) = (Spending::default(), Placeholders::default());
        Some(Self { info, kind, member, starter, endpoints, spending, placeholders })
    }

    async fn reply(&self, request: &ModelRequest, on_delta: DeltaSink<'_>) -> Result<Reply, BackendError> {
        let noted = Arc::new(Noted::default());
        let endpoint = if request.tools.is_empty() {
            None
        } else {
            let calls: Arc<dyn EndpointHandler> = noted.clone();
            let opened = self.endpoints.open(request.tools.clone(), calls).await;
            Some(opened.map_err(|why| error(BackendErrorKind::Connect, &why, None))?)
        };
        let native = request.call_context.as_ref().and_then(|call_context| call_context.native.as_deref());
        let turn = Turn { request, endpoint: endpoint.as_deref(), noted: &noted };
        match self.turn(&turn, native, on_delta).await? {
            Some(reply) => Ok(reply),
            // Its conversation is not there any more; it is told everything.
            None => self.turn(&turn, None, on_delta).await?.ok_or_else(|| {
                error(BackendErrorKind::Protocol, "the program lost its conversation twice", None)
            }),
        }
    }

    /// One run of the program; None where the conversation to go on with is not there.
    async fn turn(
        &self,
        turn: &Turn<'_>,
        native: Option<&str>,
        on_delta: DeltaSink<'_>,
    ) -> Result<Option<Reply>, BackendError> {
        let request = turn.request;
        let dir = self.dir(request.call_context.as_ref());
        let cwd = Self::workspace(request.call_context.as_ref(), &dir)?;
        let spec = self.spec(words::prompt(request, native.is_some(), self.kind), &cwd);
        let mut grant =
            request.call_context.as_ref().map(|call_context| call_context.grant.clone()).unwrap_or_default();
        // Without a workspace it works in an empty directory of its own.
        grant.workspace.get_or_insert_with(|| cwd.clone());
        let toolbox = turn.endpoint.map(|endpoint| Toolbox {
            url: endpoint.url().to_owned(),
            token: endpoint.token().clone(),
            names: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            kind: self.kind,
        });
        let want = Want {
            spec: &spec,
            resume: native,
            dir: &dir,
            tools: toolbox.as_ref(),
            grant: &grant,
            at_least: Freedom::Workspace,
        };
        let start =
            self.starter.start(&want).map_err(|(why, hint)| error(BackendErrorKind::NotFound, &why, hint))?;
        let mut raw = RawFile::new(dir.join(super::RAW_OUTPUT), self.starter.masks.as_ref());
        let mut listener = Listener {
            on_delta,
            native: native.map(str::to_owned),
            text: String::new(),
            streamed: false,
            pieces: Digest::default(),
        };
        let run = Headless {
            launch: &start.prepared.launch,
            prompt: &start.prompt,
            idle: self.member.idle.unwrap_or(self.starter.limits.idle),
            parser: start.adapter.parser(),
            raw: &mut raw,
        };
        let mut hear = |what: Heard<'_>| listener.hear(what);
        let held = self.placeholders.hold(&start.prepared.placeholders);
        let done = tokio::select! {
            done = run.run(&self.starter.launcher, &mut hear) => Some(done),
            () = turn.noted.too_long() => None,
        };
        // Of a program that would not stop, they are removed later.
        if done.is_some() {
            held.done();
        }
        let Listener { native: conversation, mut text, pieces, .. } = listener;
        if text.is_empty() {
            text = pieces.finish(&format!("all of it, as it came, is in {}", raw.path().display()));
        }
        let calls = turn.noted.take();
        match done {
            Some(Ok(done)) if native.is_some() && calls.is_empty() && super::lost(&done) => Ok(None),
            Some(Ok(done)) => self.settle(turn, done, calls, conversation, text).map(Some),
            Some(Err(why)) => Err(error(BackendErrorKind::Server, &why.to_string(), None)),
            // It did what it had to and would not stop; what it cost is not known.
            None => {
                let usage = Usage { calls: 1, ..Usage::default() };
                Ok(Some(Reply { text, tool_calls: calls, native: conversation, usage, ..Reply::default() }))
            }
        }
    }

    fn settle(
        &self,
        turn: &Turn<'_>,
        done: Done,
        mut calls: Vec<ToolCall>,
        native: Option<String>,
        said: String,
    ) -> Result<Reply, BackendError> {
        let mut usage = self.spending.settle(native.as_deref(), done.ending.usage);
        // Not every program says how often it called its model.
        usage.calls = usage.calls.max(1);
        let failed = !done.ending.ok || done.idle;
        // What it called counts, however it ended afterwards.
        if failed && calls.is_empty() {
            return Err(failure(&done, usage));
        }
        let text = done.ending.message.filter(|message| !message.is_empty()).unwrap_or(said);
        let connected = turn.endpoint.is_some_and(Endpoint::is_connected);
        if calls.is_empty() && !connected {
            calls.extend(words::call_in(&text, &turn.request.tools));
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
            env: self.member.env.clone(),
            model: self.member.model.clone(),
            on_interrupt: None,
            sandbox: None,
            idle_timeout: None,
            approvals: false,
            agent: None,
            options: self.member.options.clone(),
        }
    }

    fn dir(&self, call_context: Option<&CallContext>) -> PathBuf {
        match call_context {
            Some(call_context) => self
                .member
                .dir
                .join(call_context.work.as_str().replace('/', "-"))
                .join(call_context.attempt.to_string()),
            None => self.member.dir.clone(),
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
struct Turn<'a> {
    request: &'a ModelRequest,
    endpoint: Option<&'a dyn Endpoint>,
    noted: &'a Noted,
}

/// Calls of our tools, noted while the program runs.
#[derive(Default)]
struct Noted {
    calls: Mutex<Vec<ToolCall>>,
    first: Notify,
}

impl Noted {
    fn take(&self) -> Vec<ToolCall> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the first call and then as long as the program may still take.
    async fn too_long(&self) {
        self.first.notified().await;
        tokio::time::sleep(LAST_WORDS).await;
    }
}

impl EndpointHandler for Noted {
    fn call(&self, mut call: ToolCall) -> BoxFuture<'_, ToolOutcome> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // Unique within the reply, whatever the program's protocol says.
        call.id = format!("call-{}", calls.len() + 1);
        calls.push(call);
        drop(calls);
        self.first.notify_one();
        Box::pin(async { ToolOutcome { content: NOTED.to_owned(), is_error: false } })
    }
}

/// Passes on what the program says.
struct Listener<'a> {
    on_delta: DeltaSink<'a>,
    native: Option<String>,
    text: String,
    /// It streams its messages, so that whole ones are nothing new.
    streamed: bool,
    /// The streamed pieces, for a program that says no whole message.
    pieces: Digest,
}

impl Listener<'_> {
    fn hear(&mut self, what: Heard<'_>) {
        match what {
            Heard::Meaning(Meaning::Saying(piece)) => {
                self.streamed = true;
                (self.on_delta)(Delta::Text(&piece));
                self.pieces.push(&piece);
            }
            Heard::Meaning(Meaning::Item(Item::Said { text })) => {
                if !self.streamed {
                    (self.on_delta)(Delta::Text(&text));
                    (self.on_delta)(Delta::Text("\n"));
                }
                self.text = text;
            }
            Heard::Meaning(Meaning::Item(Item::Conversation { id })) => self.native = Some(id),
            Heard::Meaning(Meaning::Item(_))
            | Heard::Output(..)
            | Heard::PromptSent(_)
            | Heard::Waiting(_)
            | Heard::MovedOn => {}
        }
    }
}

fn failure(done: &Done, usage: Usage) -> BackendError {
    let why = done.ending.error.clone().unwrap_or_else(|| done.exit.to_string());
    let signed_out = ["401", "UNAUTHENTICATED", "authenticat", "API key"];
    let kind = if done.idle {
        BackendErrorKind::Timeout
    } else if signed_out.iter().any(|word| why.contains(word)) {
        BackendErrorKind::Auth
    } else {
        BackendErrorKind::Server
    };
    let message = if done.idle { "it said nothing for too long and was ended".to_owned() } else { why };
    BackendError { kind, message, hint: done.ending.hint.clone(), usage }
}

fn error(kind: BackendErrorKind, message: &str, hint: Option<String>) -> BackendError {
    BackendError { kind, message: message.to_owned(), hint, usage: Usage::default() }
}
