//! Folds the facts of one session into finished spans, following OpenTelemetry's semantic conventions for generative
//! AI.
//!
//! The fold is pure: no clock, no randomness, no I/O. Ids are derived from the log, so a resumed session continues its
//! trace. A trace is a run or a workflow with everything below it, or one turn of a conversation.

mod attributes;
mod names;

use crate::span::{Attributes, Seed, Span, SpanEvent, SpanId, SpanKind, TraceId};
use althing_protocol::{
    AttemptOutcome, Event, Fact, Item, Member, ProgramSpec, Purpose, Reply, Seq, SessionOpened, SubagentOf,
    TaskId, TaskSpec, TaskStatus, Timestamp, ToolCall, Usage, Verdict,
};
use std::collections::{BTreeMap, HashMap};

/// Whether spans include text that people, models and tools wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentCapture {
    /// Text is left out.
    #[default]
    Omit,
    /// Text is included, truncated if it is long.
    Include,
}

/// The fold of one session.
#[derive(Debug)]
pub struct SpanFold {
    content: ContentCapture,
    session: Option<Session>,
    tasks: HashMap<TaskId, TaskState>,
    finished: Vec<Span>,
}

#[derive(Debug)]
struct Session {
    id: String,
    seed: Seed,
}

#[derive(Debug, Default)]
struct TaskState {
    parent: Option<TaskId>,
    role: TaskRole,
    span: Option<Span>,
    /// The attempts in progress, by number.
    attempts: BTreeMap<u32, OpenAttempt>,
    /// For each attempt that continues another one: the number of the first attempt in that chain.
    firsts: HashMap<u32, u32>,
}

#[derive(Debug, Default)]
enum TaskRole {
    #[default]
    Workflow,
    Run(Vec<Member>),
    Chat(Option<Member>),
    Work(Option<Member>),
    Program(Box<ProgramSpec>),
}

#[derive(Debug)]
struct OpenAttempt {
    span: Span,
    member: Option<Member>,
    /// When the current model call begins: when the newest item of the attempt was recorded or, without items, when the
    /// attempt began.
    since: Timestamp,
    /// The tool calls of the newest reply that have no result yet, by the model's call id.
    calls: HashMap<String, Span>,
}

#[derive(Clone, Copy)]
struct ParentContext {
    trace: TraceId,
    parent: Option<SpanId>,
}

impl SpanFold {
    /// An empty fold.
    pub fn new(content: ContentCapture) -> Self {
        Self { content, session: None, tasks: HashMap::new(), finished: Vec::new() }
    }

    /// Applies a fact and returns the spans that it ended.
    pub fn apply(&mut self, event: &Event) -> Vec<Span> {
        match (&event.fact, &event.task) {
            (Fact::SessionOpened(opened), _) => self.open(opened, event.at),
            (Fact::TaskCreated { id, parent, spec }, _) => {
                self.create(id, parent.as_ref(), spec, event.at);
            }
            (Fact::AttemptStarted { attempt, purpose, continues }, Some(task)) => {
                self.start(task, *attempt, *purpose, *continues, event.at);
            }
            (Fact::ItemAdded { attempt, item }, Some(task)) => {
                self.item(task, *attempt, item, event.seq, event.at);
            }
            (Fact::AttemptEnded { attempt, outcome, usage, .. }, Some(task)) => {
                self.end(task, *attempt, outcome, usage, event);
            }
            (Fact::Decided(Verdict::Finished { end, result }), Some(task)) => {
                if let Some(mut span) = self.tasks.get_mut(task).and_then(|task| task.span.take()) {
                    attributes::result(&mut span, *end, result, self.content);
                    self.finished.push(span.ended(event.at));
                }
            }
            (Fact::StatusChanged { status, .. }, Some(task)) if status.is_final() => {
                if let Some(mut span) = self.tasks.get_mut(task).and_then(|task| task.span.take()) {
                    span.set("althing.status", names::status(*status));
                    if *status == TaskStatus::Failed {
                        span.fail("task_failed");
                    }
                    self.finished.push(span.ended(event.at));
                }
            }
            (fact, Some(task)) => {
                if let Some((name, attributes)) = attributes::fact_event(fact, self.content) {
                    self.add_event(task, SpanEvent { at: event.at, name, attributes });
                }
            }
            (_, None) => {}
        }
        std::mem::take(&mut self.finished)
    }

    fn open(&mut self, opened: &SessionOpened, at: Timestamp) {
        // A session id consists of a time in seconds and 16 random bits. The exact start time, the directory and the
        // goal distinguish sessions of different machines that have the same id.
        let parts = [opened.session.as_str(), &at.0.to_string(), &opened.cwd, &opened.goal];
        let seed = Seed::new(&parts);
        self.session = Some(Session { id: opened.session.to_string(), seed });
    }

    fn create(&mut self, id: &TaskId, parent: Option<&TaskId>, spec: &TaskSpec, at: Timestamp) {
        let parent_context = match spec {
            TaskSpec::Run(spec) => spec.subagent_of.as_ref().and_then(|of| self.subagent_parent(of)),
            _ => None,
        };
        let parent_context =
            parent_context.or_else(|| self.parent_for(parent?)).or_else(|| self.new_trace(id.as_str()));
        let member = |agent: &_| match parent.and_then(|parent| self.tasks.get(parent)).map(|task| &task.role)
        {
            Some(TaskRole::Run(members)) => members.iter().find(|member| member.id == *agent).cloned(),
            _ => None,
        };
        let role = match spec {
            TaskSpec::Run(spec) => TaskRole::Run(spec.members.clone()),
            TaskSpec::Workflow(_) => TaskRole::Workflow,
            TaskSpec::Program(spec) => TaskRole::Program(spec.clone()),
            TaskSpec::Chat(spec) => TaskRole::Chat(spec.agent.as_ref().map(|agent| agent.member.clone())),
            TaskSpec::Work { agent } => TaskRole::Work(member(agent)),
        };
        let name = match spec {
            TaskSpec::Run(_) => Some("run"),
            TaskSpec::Workflow(spec) => Some(spec.name.as_str()),
            TaskSpec::Program(_) | TaskSpec::Chat(_) | TaskSpec::Work { .. } => None,
        };
        let span = name.zip(parent_context).and_then(|(name, parent_context)| {
            let what = format!("invoke_workflow {name}");
            let mut span = self.span(what, parent_context, &["task", id.as_str()], at)?;
            span.set("gen_ai.operation.name", "invoke_workflow");
            span.set("gen_ai.workflow.name", name);
            span.set("althing.task", id.as_str());
            if let TaskSpec::Run(spec) = spec {
                attributes::run(&mut span, spec, self.content);
            }
            Some(span)
        });
        let task = TaskState { parent: parent.cloned(), role, span, ..TaskState::default() };
        self.tasks.insert(id.clone(), task);
    }

    fn start(&mut self, id: &TaskId, attempt: u32, purpose: Purpose, continues: Option<u32>, at: Timestamp) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        if let Some(continued) = continues {
            let first = task.firsts.get(&continued).copied().unwrap_or(continued);
            task.firsts.insert(attempt, first);
        }
        let first = task.firsts.get(&attempt).copied().unwrap_or(attempt);
        let parent = task.parent.clone();
        let (name, member, program) = match &task.role {
            TaskRole::Program(spec) => (names::program(id, spec), None, Some(spec.clone())),
            TaskRole::Work(Some(member)) | TaskRole::Chat(Some(member)) => {
                (format!("invoke_agent {}", member.id), Some(member.clone()), None)
            }
            TaskRole::Workflow | TaskRole::Run(_) | TaskRole::Chat(None) | TaskRole::Work(None) => {
                ("invoke_agent".to_owned(), None, None)
            }
        };
        let parent_context = parent.and_then(|parent| self.parent_for(&parent));
        // A turn of a conversation is its own trace. An attempt that continues the turn belongs to the same trace.
        let parent_context = parent_context.or_else(|| self.new_trace(&format!("{id}#{first}")));
        let key = ["attempt", id.as_str(), &attempt.to_string()];
        let Some(mut span) =
            parent_context.and_then(|parent_context| self.span(name, parent_context, &key, at))
        else {
            return;
        };
        match &program {
            Some(spec) => attributes::program(&mut span, id, spec),
            None => attributes::agent(&mut span, member.as_ref()),
        }
        span.set("althing.task", id.as_str());
        span.set("althing.attempt", attempt);
        span.set("althing.purpose", names::purpose(purpose));
        if let Some(continued) = continues {
            span.set("althing.continues", continued);
        }
        let attempt_of = OpenAttempt { span, member, since: at, calls: HashMap::new() };
        if let Some(task) = self.tasks.get_mut(id) {
            task.attempts.insert(attempt, attempt_of);
        }
    }

    fn item(&mut self, id: &TaskId, attempt: u32, item: &Item, seq: Seq, at: Timestamp) {
        match item {
            Item::Reply(reply) => self.reply(id, attempt, reply, seq, at),
            Item::ToolResult { call, content, is_error } => {
                let known = self.attempt(id, attempt).and_then(|attempt| attempt.calls.remove(call));
                if let Some(mut span) = known {
                    attributes::tool_result(&mut span, content, *is_error, self.content);
                    self.finished.push(span.ended(at));
                }
            }
            Item::Did { tool, is_error, .. } => {
                // A CLI agent reports its own tool calls when they are done, without their duration.
                let parent_context = self.attempt(id, attempt).map(|attempt| attempt.parent_context());
                let key = ["did", &seq.to_string()];
                let span =
                    parent_context.and_then(|parent_context| self.tool(tool, parent_context, &key, at));
                if let Some(mut span) = span {
                    if *is_error {
                        span.fail("tool_error");
                    }
                    self.finished.push(span);
                }
            }
            _ => {
                let span_event = attributes::item_event(item, self.content);
                if let Some((attempt, (name, attributes))) = self.attempt(id, attempt).zip(span_event) {
                    attempt.span.add_event(SpanEvent { at, name, attributes });
                }
            }
        }
        if let Some(attempt) = self.attempt(id, attempt) {
            attempt.since = at;
        }
    }

    fn reply(&mut self, id: &TaskId, n: u32, reply: &Reply, seq: Seq, at: Timestamp) {
        let content = self.content;
        let Some(mut call) = self.call(id, n, seq) else { return };
        attributes::reply(&mut call, reply, content);
        self.finished.push(call.ended(at));
        let tools: Vec<Option<Span>> = reply
            .tool_calls
            .iter()
            .map(|ToolCall { id: call, name, arguments }| {
                let parent_context = self.attempt(id, n)?.parent_context();
                let key = ["tool", id.as_str(), &n.to_string(), &seq.to_string(), call];
                let mut span =
                    self.tool(name, parent_context, &key, at)?.with("gen_ai.tool.call.id", call.as_str());
                attributes::tool_call(&mut span, arguments, content);
                Some(span)
            })
            .collect();
        if let Some(attempt) = self.attempt(id, n) {
            let ids = reply.tool_calls.iter().map(|call| call.id.clone());
            attempt.calls = ids.zip(tools).filter_map(|(id, span)| Some((id, span?))).collect();
        }
    }

    fn end(&mut self, id: &TaskId, n: u32, outcome: &AttemptOutcome, usage: &Usage, event: &Event) {
        let content = self.content;
        if let AttemptOutcome::Failed { error, kind: Some(kind), .. } = outcome
            && let Some(mut call) = self.call(id, n, event.seq)
        {
            call.fail(names::failure(*kind));
            call.message = attributes::captured_text(error, content);
            attributes::usage(&mut call, usage);
            self.finished.push(call.ended(event.at));
        }
        let known = self.tasks.get_mut(id).and_then(|task| task.attempts.remove(&n));
        if let Some(OpenAttempt { mut span, member, .. }) = known {
            attributes::outcome(&mut span, outcome, content);
            if member.is_none() && usage.calls > 0 && outcome.has_own_usage() {
                attributes::usage(&mut span, usage);
            }
            self.finished.push(span.ended(event.at));
        }
    }

    /// A span for the model call that ended with the fact `seq`. It begins at [`OpenAttempt::since`]; the caller sets
    /// its end.
    fn call(&mut self, id: &TaskId, n: u32, seq: Seq) -> Option<Span> {
        let attempt = self.attempt(id, n)?;
        let (parent_context, since, member) =
            (attempt.parent_context(), attempt.since, attempt.member.clone());
        let model = member.as_ref().map(|member| member.model.as_str()).filter(|model| !model.is_empty());
        let name = model.map_or_else(|| "chat".to_owned(), |model| format!("chat {model}"));
        let mut span = self.span(name, parent_context, &["call", &seq.to_string()], since)?;
        span.kind = SpanKind::Client;
        span.set("gen_ai.operation.name", "chat");
        attributes::model(&mut span, member.as_ref());
        Some(span)
    }

    fn tool(&self, name: &str, parent_context: ParentContext, key: &[&str], at: Timestamp) -> Option<Span> {
        let name = names::tool(name);
        let span = self.span(format!("execute_tool {name}"), parent_context, key, at)?;
        let span = span.with("gen_ai.operation.name", "execute_tool");
        Some(span.with("gen_ai.tool.name", name).with("gen_ai.tool.type", "function"))
    }

    fn span(
        &self,
        name: String,
        parent_context: ParentContext,
        key: &[&str],
        start: Timestamp,
    ) -> Option<Span> {
        let session = self.session.as_ref()?;
        let span = Span {
            trace: parent_context.trace,
            id: session.seed.span(key),
            parent: parent_context.parent,
            name,
            kind: SpanKind::Internal,
            start,
            end: start,
            attributes: Attributes::new(),
            events: Vec::new(),
            dropped_events: 0,
            failed: false,
            message: None,
        };
        Some(span.with("gen_ai.conversation.id", session.id.as_str()))
    }

    /// A new trace, whose id follows from the session's seed and `key`. `None` before the session is opened.
    fn new_trace(&self, key: &str) -> Option<ParentContext> {
        let trace = self.session.as_ref()?.seed.trace(&[key]);
        Some(ParentContext { trace, parent: None })
    }

    /// The parent of what a task starts, the first that exists of: the task's own span; the open `launch_run` call of
    /// its current attempt; that attempt; what this function returns for the parent task.
    fn parent_for(&self, id: &TaskId) -> Option<ParentContext> {
        let task = self.tasks.get(id)?;
        if let Some(span) = &task.span {
            return Some(ParentContext { trace: span.trace, parent: Some(span.id) });
        }
        match task.attempts.values().next_back() {
            Some(attempt) => {
                let launching = attempt.calls.values().find(|call| call.name.ends_with(" launch_run"));
                Some(launching.map_or_else(|| attempt.parent_context(), context_below))
            }
            None => self.parent_for(task.parent.as_ref()?),
        }
    }

    /// The parent of a subagent run: the tool call that started it, if that call is still open.
    fn subagent_parent(&self, of: &SubagentOf) -> Option<ParentContext> {
        let attempts = self.tasks.get(&of.work)?.attempts.values();
        attempts.rev().find_map(|attempt| attempt.calls.get(&of.call).map(context_below))
    }

    fn attempt(&mut self, id: &TaskId, attempt: u32) -> Option<&mut OpenAttempt> {
        self.tasks.get_mut(id)?.attempts.get_mut(&attempt)
    }

    /// Adds an event to the task's own span or, without one, to its current attempt or the nearest ancestor with a
    /// span.
    fn add_event(&mut self, id: &TaskId, event: SpanEvent) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        let attempt = task.attempts.values_mut().next_back().map(|attempt| &mut attempt.span);
        match task.span.as_mut().or(attempt) {
            Some(span) => span.add_event(event),
            None => {
                if let Some(parent) = task.parent.clone() {
                    self.add_event(&parent, event);
                }
            }
        }
    }
}

impl OpenAttempt {
    fn parent_context(&self) -> ParentContext {
        context_below(&self.span)
    }
}

fn context_below(span: &Span) -> ParentContext {
    ParentContext { trace: span.trace, parent: Some(span.id) }
}
