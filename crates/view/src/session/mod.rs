//! The state of a session for people: a pure fold of its event feed, shared by all front ends. The same events give the
//! same state, live or replayed.

mod dropouts;
mod entry;
mod member;
mod queries;
mod questions;
mod run;
mod streaming;
mod task;
mod worker;

pub use entry::{ConversationEntry, EntryBody, Question, QueuedMessage};
pub use member::{MemberView, TimelineEntry, TimelineEvent};
pub use run::RunView;
pub use streaming::StreamingText;
pub use task::{TaskKind, TaskView};
pub use worker::Worker;

use crate::{labels, mentions, shown};
use althing_protocol::{
    AskKind, AttemptOutcome, ChatSpec, ChatState, Event, Fact, FeedItem, InteractionId, InteractionKind,
    Item, Member, ModeChoice, NoticeLevel, Op, Phase, PlanRef, Progress, Purpose, Seq, SessionId,
    SessionKind, TaskId, TaskSpec, TaskStatus, Timestamp, Usage, Verdict,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionView {
    pub session: Option<SessionId>,
    pub kind: Option<SessionKind>,
    /// The goal as recorded when the session was opened. For a conversation: the message on the command line, or
    /// `conversation` if there was none.
    pub goal: String,
    /// The directory in which the session was started.
    cwd: String,
    pub chat_agent: Option<Member>,
    /// The members that may take part in runs.
    pub team: Vec<Member>,
    pub project: Option<String>,
    /// The budget of the conversation and its runs in micro-USD, including what the user added by approvals; None if
    /// there is no budget.
    pub budget_micro_usd: Option<u64>,
    /// The user's mode choices, as last recorded in the log. Approving a plan clears the choice of `planning`.
    pub choice: ModeChoice,
    pub state: ChatState,
    /// The conversation, oldest first.
    pub entries: Vec<ConversationEntry>,
    /// The messages whose turns have not started, oldest first.
    pub queue: Vec<QueuedMessage>,
    pub streaming: StreamingText,
    /// When the current model call for the conversation started.
    pub replying_since: Option<Timestamp>,
    pub runs: BTreeMap<TaskId, RunView>,
    /// All tasks except the work of single agents, in order of creation.
    pub tasks: Vec<TaskView>,
    /// The open questions, oldest first.
    pub questions: Vec<Question>,
    /// The question whose answer was rejected last, and the reason. The question may be closed by now.
    pub refused: Option<(InteractionId, String)>,
    /// The usage of the conversation itself, without runs.
    pub chat_usage: Usage,
    /// Why events cannot be written to disk at the moment, with a hint. The next event resets this to None.
    pub stalled: Option<(String, Option<String>)>,
    pub stage: Option<u32>,
    pub closed: bool,
    pub last: Seq,
    pub at: Timestamp,
    /// The plan that the next run will execute; planning runs and subagent runs do not count as the next run.
    pub pending_plan: Option<PlanRef>,
    /// Whether the message of the current or last turn was sent in plan mode, so that it started a run without the chat
    /// agent.
    turn_is_planning: bool,
    /// Whether the user asked to stop the current turn.
    is_stopping: bool,
    /// Whether the chat agent's model is writing a summary instead of a reply.
    is_compacting: bool,
    /// The run and the index in `RunView::agents` of each agent, by the task of its work.
    work_tasks: BTreeMap<TaskId, (TaskId, usize)>,
    /// Whether the conversation and the timelines stay empty.
    without_transcript: bool,
}

impl SessionView {
    /// A view for front ends that show no transcript: the conversation and the timelines stay empty.
    pub fn without_transcript() -> Self {
        Self { without_transcript: true, ..Self::default() }
    }

    pub fn apply(&mut self, item: &FeedItem) {
        match item {
            FeedItem::Event(event) => self.apply_event(event),
            FeedItem::Progress(progress) => self.apply_progress(progress),
        }
    }

    /// Adds a note that is not in the log, for example how the screen was started.
    pub fn add_note(&mut self, text: &str) {
        let body = EntryBody::Notice { level: NoticeLevel::Info, text: text.to_owned() };
        self.entries.push(ConversationEntry { seq: Seq(0), at: Timestamp(0), body, pinned: false });
    }

    fn add_entry(&mut self, event: &Event, body: EntryBody) {
        if self.without_transcript {
            return;
        }
        self.entries.push(ConversationEntry { seq: event.seq, at: event.at, body, pinned: false });
    }

    fn apply_event(&mut self, event: &Event) {
        if event.seq <= self.last {
            return;
        }
        self.last = event.seq;
        self.at = event.at;
        self.stalled = None;
        match &event.fact {
            Fact::SessionOpened(opened) => {
                self.session = Some(opened.session.clone());
                self.kind = Some(opened.kind);
                self.goal.clone_from(&opened.goal);
                self.cwd.clone_from(&opened.cwd);
            }
            Fact::SessionClosed {} => self.closed = true,
            Fact::OpAccepted { op, .. } => self.apply_op(event, op),
            Fact::TaskCreated { id, parent, spec } => self.add_task(event, id, parent.as_ref(), spec),
            Fact::InteractionOpened(interaction) => {
                let kind = &interaction.kind;
                let is_turn = matches!(kind, InteractionKind::Program(ask) if ask.about == AskKind::YourTurn);
                self.set_turn_over(event.task.as_ref(), is_turn);
                self.questions.push(Question {
                    interaction: shown::interaction(interaction),
                    task: event.task.clone(),
                    since: event.at,
                    opened: event.seq,
                    paused: None,
                });
            }
            Fact::InteractionClosed { id, decision } => {
                self.set_turn_over(event.task.as_ref(), false);
                self.close_question(event, id, decision);
            }
            Fact::Notice(notice) => {
                let hint = notice.hint.as_ref().map(|hint| format!(" {hint}")).unwrap_or_default();
                let text = format!("{}{hint}", notice.text);
                // A notice whose cause is an open question says that an answer to that question was rejected, and why.
                let refused = self.questions.iter().find(|question| event.cause == Some(question.opened));
                if let Some(question) = refused {
                    self.refused = Some((question.interaction.id.clone(), text.clone()));
                }
                self.add_entry(event, EntryBody::Notice { level: notice.level, text });
            }
            Fact::Decided(Verdict::Compacted { summary, tokens, exchanges, steps, .. }) => {
                let what = labels::compaction(*exchanges, *steps, *tokens);
                self.add_entry(event, EntryBody::Compacted { summary: summary.clone(), what });
            }
            fact => {
                if event.task.as_ref() == Some(&TaskId::chat()) {
                    self.apply_chat_fact(event, fact);
                } else {
                    self.apply_task_fact(event, fact);
                }
            }
        }
    }

    fn set_turn_over(&mut self, task: Option<&TaskId>, is_over: bool) {
        if let Some(task) = self.tasks.iter_mut().find(|found| Some(&found.id) == task) {
            task.turn_is_over = is_over;
        }
    }

    fn apply_op(&mut self, event: &Event, op: &Op) {
        match op {
            Op::SendMessage { text, modes, grants } => {
                self.choice = modes.clone();
                let planning = modes.planning == Some(true);
                let (text, sent) = match mentions::with_mentions(text, grants, &self.cwd) {
                    Some(typed) => (typed, Some(text.clone())),
                    None => (text.clone(), None),
                };
                let (seq, at) = (event.seq, event.at);
                self.queue.push(QueuedMessage { seq, at, text, sent, planning, pinned: false });
            }
            Op::StartRun { spec } => {
                let (text, planning) = (spec.task.clone(), spec.modes.planning);
                self.add_entry(event, EntryBody::User { text, sent: None, planning });
            }
            Op::StartChat { spec } => self.set_chat_spec(spec),
            Op::Unqueue { message } => {
                self.queue.retain(|queued| queued.seq != *message);
            }
            Op::Pin { message } => self.pin(*message),
            Op::StopReply => self.is_stopping = true,
            Op::Cancel { task } if *task == TaskId::chat() => self.is_stopping = true,
            Op::SetModes { modes } => self.choice = modes.clone(),
            Op::Retry { .. } => self.closed = false,
            _ => self.apply_op_to_questions(event, op),
        }
    }

    /// Pins a message; without a number, the newest one, queued messages included.
    fn pin(&mut self, message: Option<Seq>) {
        let queued = self.queue.iter_mut().rfind(|queued| message.is_none_or(|seq| queued.seq == seq));
        let spoken = |entry: &&mut ConversationEntry| match message {
            Some(seq) => entry.seq == seq,
            None => matches!(entry.body, EntryBody::User { .. } | EntryBody::Agent { .. }),
        };
        if let Some(queued) = queued {
            queued.pinned = true;
        } else if let Some(entry) = self.entries.iter_mut().rfind(spoken) {
            entry.pinned = true;
        }
    }

    fn set_chat_spec(&mut self, spec: &ChatSpec) {
        self.chat_agent = spec.agent.as_ref().map(|agent| agent.member.clone());
        self.budget_micro_usd = spec.agent.as_ref().and_then(|agent| agent.budget_micro_usd);
        self.team.clone_from(&spec.team.members);
        self.project.clone_from(&spec.project);
        self.choice = spec.modes.clone();
    }

    /// Adds what was said in the session that the conversation continues.
    fn add_inherited(&mut self, spec: &ChatSpec) {
        if self.without_transcript {
            return;
        }
        let message =
            |body: EntryBody| ConversationEntry { seq: Seq(0), at: Timestamp(0), body, pinned: false };
        for exchange in &spec.history {
            let text = exchange.user.clone();
            self.entries.push(message(EntryBody::User { text, sent: None, planning: false }));
            self.entries.push(message(EntryBody::Agent { text: exchange.assistant.clone() }));
        }
        if let Some(origin) = &spec.branch_of {
            self.add_note(&format!("a branch of session {origin}, which /sessions opens"));
        }
    }

    fn add_task(&mut self, event: &Event, id: &TaskId, parent: Option<&TaskId>, spec: &TaskSpec) {
        let (kind, name) = match spec {
            TaskSpec::Work { agent } => {
                let found = parent.and_then(|run| self.runs.get(run)).and_then(|run| {
                    let member_index = run.agents.iter().position(|other| other.member.id == *agent)?;
                    Some((run.id.clone(), member_index))
                });
                if let Some(place) = found {
                    self.work_tasks.insert(id.clone(), place);
                }
                return;
            }
            TaskSpec::Run(spec) => {
                let mut run = RunView::new(id.clone(), spec, event.at);
                if !spec.modes.planning && !run.is_subagent_run {
                    run.plan = run.plan.or(self.pending_plan.take());
                }
                if self.team.is_empty() {
                    self.team.clone_from(&spec.members);
                }
                if !run.is_subagent_run {
                    self.add_entry(event, EntryBody::Run(id.clone()));
                }
                self.runs.insert(id.clone(), run);
                (TaskKind::Run, spec.task.clone())
            }
            TaskSpec::Program(spec) => {
                self.add_entry(event, EntryBody::Program(id.clone()));
                (TaskView::program_kind(spec), String::new())
            }
            TaskSpec::Workflow(spec) => {
                let stages = spec.stages.iter().map(|stage| stage.name.clone()).collect();
                (TaskKind::Workflow(stages), spec.name.clone())
            }
            TaskSpec::Chat(spec) => {
                self.set_chat_spec(spec);
                self.add_inherited(spec);
                (TaskKind::Chat, "conversation".to_owned())
            }
        };
        let short = parent.and_then(|parent| id.as_str().strip_prefix(parent.as_str()));
        let short = short.map_or(id.as_str(), |rest| rest.trim_start_matches('.'));
        let name = if name.is_empty() { short.to_owned() } else { name };
        let mut task = TaskView::new(id.clone(), parent.cloned(), kind, name, event.at);
        if task.kind == TaskKind::Run {
            task.status = TaskStatus::Running;
        }
        // A workflow's task already has a row. Keep the place, the stage and the name of that row.
        match self.tasks.iter_mut().find(|existing| existing.id == *id) {
            Some(existing) => {
                (task.stage, task.name) = (existing.stage.take(), std::mem::take(&mut existing.name));
                *existing = task;
            }
            None if id.without_retry() != *id => self.add_later_try(task),
            None => self.tasks.push(task),
        }
        if let TaskSpec::Workflow(spec) = spec {
            self.tasks.extend(TaskView::from_workflow(id, spec, event.at));
        }
    }

    /// Leaving `Idle` starts the turn of the oldest queued message.
    fn set_chat_state(&mut self, event: &Event, state: ChatState) {
        let before = std::mem::replace(&mut self.state, state);
        if state == ChatState::Idle {
            self.replying_since = None;
            self.end_stopping(event, String::new());
        } else if before == ChatState::Idle && !self.queue.is_empty() {
            let message = self.queue.remove(0);
            self.turn_is_planning = message.planning;
            if !self.without_transcript {
                self.entries.push(message.into_entry());
            }
        }
    }

    /// Records that the user stopped the turn, once the turn has ended.
    fn end_stopping(&mut self, event: &Event, partial: String) {
        if std::mem::take(&mut self.is_stopping) {
            self.add_entry(event, EntryBody::Stopped { partial });
        }
    }

    fn apply_chat_fact(&mut self, event: &Event, fact: &Fact) {
        match fact {
            Fact::PhaseChanged { phase: Phase::Chat(state) } => self.set_chat_state(event, *state),
            Fact::AttemptStarted { purpose, .. } => {
                self.streaming = StreamingText::default();
                self.replying_since = Some(event.at);
                self.is_compacting = *purpose == Purpose::Compact;
            }
            Fact::AttemptEnded { outcome, usage, .. } => {
                let partial = std::mem::take(&mut self.streaming).text;
                self.replying_since = None;
                self.end_stopping(event, partial);
                self.chat_usage += if outcome.has_own_usage() { *usage } else { Usage::default() };
                if let AttemptOutcome::Failed { error, hint, .. } = outcome {
                    let hint = hint.as_ref().map(|hint| format!(" {hint}")).unwrap_or_default();
                    let text = format!("{error}{hint}");
                    self.add_entry(event, EntryBody::Notice { level: NoticeLevel::Error, text });
                }
            }
            Fact::ItemAdded { item: Item::Reply(reply), .. } => {
                self.streaming = StreamingText::default();
                self.chat_usage += reply.usage;
                // The summary of a compaction is not a reply to the user.
                if !reply.text.trim().is_empty() && !self.is_compacting {
                    self.add_entry(event, EntryBody::Agent { text: reply.text.clone() });
                }
                // A `launch_run` call is shown as the card of its run instead.
                for call in reply.tool_calls.iter().filter(|call| call.name != "launch_run") {
                    let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
                    self.add_entry(event, EntryBody::tool(id, name, arguments));
                }
            }
            Fact::ItemAdded { item: Item::ToolResult { call, content, is_error }, .. } => {
                if let Some(EntryBody::Tool { result, .. }) = self.open_tool(call) {
                    *result = Some((content.clone(), *is_error));
                }
            }
            Fact::ItemAdded { item: Item::EditProposed { call, preview }, .. } => {
                if let Some(EntryBody::Tool { edits, .. }) = self.open_tool(call) {
                    edits.clone_from(&preview.files);
                }
            }
            Fact::StatusChanged { .. } => self.task_fact(event, fact),
            _ => {}
        }
    }

    fn apply_task_fact(&mut self, event: &Event, fact: &Fact) {
        let Some(id) = &event.task else { return };
        if let Some((run, member_index)) = self.work_tasks.get(id) {
            if let Some(run) = self.runs.get_mut(run) {
                run.apply_work(*member_index, event.at, fact);
                if let (true, Some(agent)) = (self.without_transcript, run.agents.get_mut(*member_index)) {
                    agent.timeline.clear();
                }
            }
            return;
        }
        if let Fact::PhaseChanged { phase: Phase::Stage(stage) } = fact {
            self.stage = Some(*stage);
        }
        self.task_fact(event, fact);
        let Some(run) = self.runs.get_mut(id) else { return };
        run.apply(event.at, fact);
        // A planning run whose plan is executed ends when the execution has ended or will not start.
        if let Fact::StatusChanged { status, .. } = fact
            && status.is_final()
            && run.result.as_ref().is_some_and(|result| result.follow_up.is_some())
        {
            self.pending_plan = None;
        }
        if let Fact::Decided(Verdict::Finished { result, .. }) = fact {
            let (status, is_subagent_run) = (run.status, run.is_subagent_run);
            if result.follow_up.is_some() {
                self.pending_plan.clone_from(&result.plan);
            }
            if let Some(task) = self.tasks.iter_mut().find(|task| task.id == *id) {
                task.status = status;
                task.ended = Some(event.at);
            }
            // A chat agent summarizes the answer, unless this turn's message was sent in plan mode.
            run.is_summarized = self.chat_agent.is_some() && !self.turn_is_planning;
            if !is_subagent_run && (!run.is_summarized || result.final_answer.is_some()) {
                self.add_entry(event, EntryBody::Final(id.clone()));
            }
        }
    }

    fn task_fact(&mut self, event: &Event, fact: &Fact) {
        let id = event.task.as_ref();
        if let Some(task) = self.tasks.iter_mut().find(|task| Some(&task.id) == id) {
            task.apply(event.at, fact);
            if self.without_transcript {
                task.work.timeline.clear();
            }
        }
    }

    fn apply_progress(&mut self, progress: &Progress) {
        match progress {
            Progress::Delta { after, task, kind, text } => {
                // A late delta of the chat agent is ignored if its complete reply was already folded.
                if *after < self.last && self.is_settled(task, *after) {
                    return;
                }
                if *task == TaskId::chat() {
                    if !self.is_compacting {
                        self.streaming.add(*kind, text);
                    }
                } else if let Some((run, member_index)) = self.work_tasks.get(task) {
                    let agent = self.runs.get_mut(run).and_then(|run| run.agents.get_mut(*member_index));
                    if let Some(agent) = agent {
                        agent.streaming.add(*kind, text);
                    }
                } else if let Some(existing) = self.tasks.iter_mut().find(|existing| existing.id == *task) {
                    existing.work.streaming.add(*kind, text);
                }
            }
            Progress::Gap { .. } => {
                // Deltas were lost, so the incomplete text is dropped. The complete text arrives later as an event.
                self.streaming = StreamingText::default();
                for agent in self.runs.values_mut().flat_map(|run| &mut run.agents) {
                    agent.streaming = StreamingText::default();
                }
            }
            Progress::Output { task, clean, .. } => {
                if let Some(task) = self.tasks.iter_mut().find(|existing| existing.id == *task) {
                    task.append_output(clean);
                }
            }
            Progress::ScreenChanged { .. } => {}
            Progress::Stalled { reason, hint, .. } => {
                self.stalled = Some((reason.clone(), hint.clone()));
            }
        }
    }

    /// Whether the chat agent already finished the text that a delta after event `after` belongs to. Only a delta that
    /// arrives late after a gap is older than the folded state. False for other tasks.
    fn is_settled(&self, task: &TaskId, after: Seq) -> bool {
        *task == TaskId::chat()
            && self.streaming.is_empty()
            && self
                .entries
                .iter()
                .rev()
                .take_while(|entry| entry.seq > after || matches!(entry.body, EntryBody::User { .. }))
                .any(|entry| matches!(entry.body, EntryBody::Agent { .. }))
    }
}
