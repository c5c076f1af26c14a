//! From the facts of one session to finished spans, after OpenTelemetry's conventions for generative AI.
//!
//! Pure: no clock, no randomness, no I/O. Ids follow from the log, so that a session that is resumed goes on in its trace.
//! A run and a workflow are an `invoke_workflow`, an agent's attempt is an `invoke_agent`, a reply is a `chat`, a tool's
//! result an `execute_tool`. A trace is a run or a workflow with everything below it, or one turn of a conversation.

mod names;
mod tell;

use crate::span::{Attributes, Note, Seed, Span, SpanId, SpanKind, TraceId};
use althing_protocol::{
    AttemptOutcome, Event, Fact, Item, Member, ProgramSpec, Purpose, Reply, Seq, SessionOpened, SubagentOf,
    TaskId, TaskSpec, TaskStatus, Timestamp, ToolCall, Usage, Verdict,
};
use std::collections::{BTreeMap, HashMap};

/// Whether what people, models and tools wrote is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentCapture {
    /// It stays here.
    #[default]
    Omit,
    /// It is told, cut short where it is long.
    Include,
}

/// The fold of one session.
#[derive(Debug)]
pub struct Spans {
    content: ContentCapture,
    session: Option<Session>,
    tasks: HashMap<TaskId, Task>,
    /// What ended with the fact that is being taken in.
    finished: Vec<Span>,
}

#[derive(Debug)]
struct Session {
    id: String,
    seed: Seed,
}

#[derive(Debug, Default)]
struct Task {
    parent: Option<TaskId>,
    role: Role,
    /// The span of a run or a workflow.
    span: Option<Span>,
    /// The attempts that are under way.
    attempts: BTreeMap<u32, Attempt>,
    /// For attempts that carry on others: the first of them.
    firsts: HashMap<u32, u32>,
}

#[derive(Debug, Default)]
enum Role {
    #[default]
    Workflow,
    Run(Vec<Member>),
    /// With the agent that is talked to.
    Chat(Option<Member>),
    Work(Option<Member>),
    Program(ProgramSpec),
}

#[derive(Debug)]
struct Attempt {
    span: Span,
    who: Option<Member>,
    /// When the model call that is under way can have begun: the last thing that it was made from.
    since: Timestamp,
    /// Tools that were called and have not given their results, by the model's id for the call.
    calls: HashMap<String, Span>,
}

/// Where a new span belongs.
#[derive(Clone, Copy)]
struct Place {
    trace: TraceId,
    parent: Option<SpanId>,
}

impl Spans {
    /// Nothing happened yet.
    pub fn new(content: ContentCapture) -> Self {
        Self { content, session: None, tasks: HashMap::new(), finished: Vec::new() }
    }

    /// Takes in a fact; gives the spans that it ended.
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
            (Fact::AttemptEnded { attempt, outcome, usage }, Some(task)) => {
                self.end(task, *attempt, outcome, usage, event);
            }
            (Fact::Decided(Verdict::Finished { end, result }), Some(task)) => {
                if let Some(mut span) = self.tasks.get_mut(task).and_then(|task| task.span.take()) {
                    tell::result(&mut span, *end, result, self.content);
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
                if let Some((name, attributes)) = tell::noteworthy(fact, self.content) {
                    self.note(task, Note { at: event.at, name, attributes });
                }
            }
            (_, None) => {}
        }
        std::mem::take(&mut self.finished)
    }

    fn open(&mut self, opened: &SessionOpened, at: Timestamp) {
        // The name of a session holds its second and a little chance; the rest tells it from those of other machines.
        let parts = [opened.session.as_str(), &at.0.to_string(), &opened.cwd, &opened.goal];
        let seed = Seed::new(&parts);
        self.session = Some(Session { id: opened.session.to_string(), seed });
    }

    fn create(&mut self, id: &TaskId, parent: Option<&TaskId>, spec: &TaskSpec, at: Timestamp) {
        let place = match spec {
            TaskSpec::Run(spec) => spec.subagent_of.as_ref().and_then(|of| self.errand_of(of)),
            _ => None,
        };
        let place = place.or_else(|| self.inside(parent?)).or_else(|| self.root(id.as_str()));
        let member = |agent: &_| match parent.and_then(|parent| self.tasks.get(parent)).map(|task| &task.role)
        {
            Some(Role::Run(members)) => members.iter().find(|member| member.id == *agent).cloned(),
            _ => None,
        };
        let role = match spec {
            TaskSpec::Run(spec) => Role::Run(spec.members.clone()),
            TaskSpec::Workflow(_) => Role::Workflow,
            TaskSpec::Program(spec) => Role::Program((**spec).clone()),
            TaskSpec::Chat(spec) => Role::Chat(spec.agent.as_ref().map(|agent| agent.member.clone())),
            TaskSpec::Work { agent } => Role::Work(member(agent)),
        };
        let name = match spec {
            TaskSpec::Run(_) => Some("run"),
            TaskSpec::Workflow(spec) => Some(spec.name.as_str()),
            TaskSpec::Program(_) | TaskSpec::Chat(_) | TaskSpec::Work { .. } => None,
        };
        let span = name.zip(place).and_then(|(name, place)| {
            let what = format!("invoke_workflow {name}");
            let mut span = self.span(what, place, &["task", id.as_str()], at)?;
            span.set("gen_ai.operation.name", "invoke_workflow");
            span.set("gen_ai.workflow.name", name);
            span.set("althing.task", id.as_str());
            if let TaskSpec::Run(spec) = spec {
                tell::run(&mut span, spec, self.content);
            }
            Some(span)
        });
        let task = Task { parent: parent.cloned(), role, span, ..Task::default() };
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
        let (name, who, program) = match &task.role {
            Role::Program(spec) => (names::program(id, spec), None, Some(spec.clone())),
            Role::Work(Some(who)) | Role::Chat(Some(who)) => {
                (format!("invoke_agent {}", who.id), Some(who.clone()), None)
            }
            Role::Workflow | Role::Run(_) | Role::Chat(None) | Role::Work(None) => {
                ("invoke_agent".to_owned(), None, None)
            }
        };
        let place = parent.and_then(|parent| self.inside(&parent));
        // A turn of a conversation is a trace of its own; what carries it on is part of it.
        let place = place.or_else(|| self.root(&format!("{id}#{first}")));
        let key = ["attempt", id.as_str(), &attempt.to_string()];
        let Some(mut span) = place.and_then(|place| self.span(name, place, &key, at)) else { return };
        match &program {
            Some(spec) => tell::program(&mut span, id, spec),
            None => tell::agent(&mut span, who.as_ref()),
        }
        span.set("althing.task", id.as_str());
        span.set("althing.attempt", attempt);
        span.set("althing.purpose", names::purpose(purpose));
        if let Some(continued) = continues {
            span.set("althing.continues", continued);
        }
        let attempt_of = Attempt { span, who, since: at, calls: HashMap::new() };
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
                    tell::tool_result(&mut span, content, *is_error, self.content);
                    self.finished.push(span.ended(at));
                }
            }
            Item::Did { tool, is_error, .. } => {
                // A program tells of its own tools when they are done; how long they took it keeps to itself.
                let place = self.attempt(id, attempt).map(|attempt| attempt.place());
                let key = ["did", &seq.to_string()];
                let span = place.and_then(|place| self.tool(tool, place, &key, at));
                if let Some(mut span) = span {
                    if *is_error {
                        span.fail("tool_error");
                    }
                    self.finished.push(span);
                }
            }
            _ => {
                let noteworthy = tell::item(item, self.content);
                if let Some((attempt, (name, attributes))) = self.attempt(id, attempt).zip(noteworthy) {
                    attempt.span.note(Note { at, name, attributes });
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
        tell::reply(&mut call, reply, content);
        self.finished.push(call.ended(at));
        let tools: Vec<Option<Span>> = reply
            .tool_calls
            .iter()
            .map(|ToolCall { id: call, name, arguments }| {
                let place = self.attempt(id, n)?.place();
                let key = ["tool", id.as_str(), &n.to_string(), &seq.to_string(), call];
                let mut span = self.tool(name, place, &key, at)?.with("gen_ai.tool.call.id", call.as_str());
                tell::tool_call(&mut span, arguments, content);
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
        // What failed was the model call under way: it has a span of its own, as if it had ended well.
        if let AttemptOutcome::Failed { error, kind: Some(kind), .. } = outcome
            && let Some(mut call) = self.call(id, n, event.seq)
        {
            call.fail(names::failure(*kind));
            call.message = tell::words(error, content);
            tell::usage(&mut call, usage);
            self.finished.push(call.ended(event.at));
        }
        let known = self.tasks.get_mut(id).and_then(|task| task.attempts.remove(&n));
        if let Some(Attempt { mut span, who, .. }) = known {
            tell::outcome(&mut span, outcome, content);
            if who.is_none() && usage.calls > 0 {
                tell::usage(&mut span, usage);
            }
            self.finished.push(span.ended(event.at));
        }
    }

    /// The model call that a fact ended, begun when the last thing before it was there.
    fn call(&mut self, id: &TaskId, n: u32, seq: Seq) -> Option<Span> {
        let attempt = self.attempt(id, n)?;
        let (place, since, who) = (attempt.place(), attempt.since, attempt.who.clone());
        let model = who.as_ref().map(|who| who.model.as_str()).filter(|model| !model.is_empty());
        let name = model.map_or_else(|| "chat".to_owned(), |model| format!("chat {model}"));
        let mut span = self.span(name, place, &["call", &seq.to_string()], since)?;
        span.kind = SpanKind::Client;
        span.set("gen_ai.operation.name", "chat");
        tell::model(&mut span, who.as_ref());
        Some(span)
    }

    fn tool(&self, name: &str, place: Place, key: &[&str], at: Timestamp) -> Option<Span> {
        let name = names::tool(name);
        let span = self.span(format!("execute_tool {name}"), place, key, at)?;
        let span = span.with("gen_ai.operation.name", "execute_tool");
        Some(span.with("gen_ai.tool.name", name).with("gen_ai.tool.type", "function"))
    }

    fn span(&self, name: String, place: Place, key: &[&str], start: Timestamp) -> Option<Span> {
        let session = self.session.as_ref()?;
        let span = Span {
            trace: place.trace,
            id: session.seed.span(key),
            parent: place.parent,
            name,
            kind: SpanKind::Internal,
            start,
            end: start,
            attributes: Attributes::new(),
            notes: Vec::new(),
            left_out: 0,
            failed: false,
            message: None,
        };
        Some(span.with("gen_ai.conversation.id", session.id.as_str()))
    }

    /// The beginning of a trace.
    fn root(&self, key: &str) -> Option<Place> {
        let trace = self.session.as_ref()?.seed.trace(&[key]);
        Some(Place { trace, parent: None })
    }

    /// Where what a task brings about belongs: below its span, or below what its agent is at.
    fn inside(&self, id: &TaskId) -> Option<Place> {
        let task = self.tasks.get(id)?;
        if let Some(span) = &task.span {
            return Some(Place { trace: span.trace, parent: Some(span.id) });
        }
        match task.attempts.values().next_back() {
            Some(attempt) => {
                let launching = attempt.calls.values().find(|call| call.name.ends_with(" launch_run"));
                Some(launching.map_or_else(|| attempt.place(), place_in))
            }
            None => self.inside(task.parent.as_ref()?),
        }
    }

    /// Where a run belongs that an agent asked for: below the call with which it did.
    fn errand_of(&self, of: &SubagentOf) -> Option<Place> {
        let attempts = self.tasks.get(&of.work)?.attempts.values();
        attempts.rev().find_map(|attempt| attempt.calls.get(&of.call).map(place_in))
    }

    fn attempt(&mut self, id: &TaskId, attempt: u32) -> Option<&mut Attempt> {
        self.tasks.get_mut(id)?.attempts.get_mut(&attempt)
    }

    /// Puts a note on the nearest span that is open: the task's own, its agent's, or that of what it is part of.
    fn note(&mut self, id: &TaskId, note: Note) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        let attempt = task.attempts.values_mut().next_back().map(|attempt| &mut attempt.span);
        match task.span.as_mut().or(attempt) {
            Some(span) => span.note(note),
            None => {
                if let Some(parent) = task.parent.clone() {
                    self.note(&parent, note);
                }
            }
        }
    }
}

impl Attempt {
    fn place(&self) -> Place {
        place_in(&self.span)
    }
}

fn place_in(span: &Span) -> Place {
    Place { trace: span.trace, parent: Some(span.id) }
}
