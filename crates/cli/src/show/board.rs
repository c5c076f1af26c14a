//! Who is doing what in a run: a fold of its events, for the progress displays.

use althing_protocol::{
    AgentId, AttemptOutcome, DeltaKind, Event, Fact, FeedItem, Item, Phase, Progress, Purpose, TaskId,
    TaskSpec, TaskStatus, Timestamp, Usage, Verdict,
};
use std::collections::BTreeMap;

/// One agent's line.
#[derive(Clone, Debug)]
pub struct Row {
    pub agent: AgentId,
    pub doing: String,
    pub round: u32,
    pub usage: Usage,
    /// When it began what it is doing; None when it does nothing.
    pub since: Option<Timestamp>,
}

/// The whole board.
#[derive(Clone, Debug, Default)]
pub struct Board {
    rows: BTreeMap<TaskId, Row>,
    members: Vec<AgentId>,
    pub usage: Usage,
    pub phase: Option<Phase>,
    pub now: Timestamp,
}

impl Board {
    /// The agents' lines, in config order.
    pub fn rows(&self) -> Vec<&Row> {
        let place = |row: &Row| self.members.iter().position(|id| *id == row.agent);
        let mut rows: Vec<&Row> = self.rows.values().collect();
        rows.sort_by_key(|row| place(row));
        rows
    }

    /// The agent whose work a task is.
    pub fn agent(&self, task: Option<&TaskId>) -> Option<&AgentId> {
        self.rows.get(task?).map(|row| &row.agent)
    }

    /// How wide the agents' names are.
    pub fn width(&self) -> usize {
        self.members.iter().map(|id| id.as_str().chars().count()).max().unwrap_or_default().clamp(4, 24)
    }

    pub fn take(&mut self, item: &FeedItem) {
        match item {
            FeedItem::Event(event) => self.apply(event),
            FeedItem::Progress(progress) => self.pass(progress),
        }
    }

    fn apply(&mut self, event: &Event) {
        self.now = event.at;
        match &event.fact {
            Fact::TaskCreated { spec: TaskSpec::Run(spec), .. } => {
                self.members = spec.members.iter().map(|member| member.id.clone()).collect();
            }
            Fact::TaskCreated { id, spec: TaskSpec::Work { agent }, .. } => {
                let row = Row {
                    agent: agent.clone(),
                    doing: "waiting".into(),
                    round: 0,
                    usage: Usage::default(),
                    since: None,
                };
                self.rows.insert(id.clone(), row);
            }
            Fact::PhaseChanged { phase } => self.phase = Some(*phase),
            Fact::Decided(Verdict::Finished { result, .. }) => self.usage = result.usage,
            fact => {
                let at = event.at;
                if let Some(row) = event.task.as_ref().and_then(|task| self.rows.get_mut(task)) {
                    let before = row.usage;
                    row.apply(fact, at);
                    self.usage.input_tokens += row.usage.input_tokens - before.input_tokens;
                    self.usage.output_tokens += row.usage.output_tokens - before.output_tokens;
                    self.usage.cost_usd += row.usage.cost_usd - before.cost_usd;
                    self.usage.calls += row.usage.calls - before.calls;
                }
            }
        }
    }

    fn pass(&mut self, progress: &Progress) {
        let Progress::Delta { task, kind, text, .. } = progress else { return };
        let Some(row) = self.rows.get_mut(task) else { return };
        match kind {
            DeltaKind::Text => "writing".clone_into(&mut row.doing),
            DeltaKind::Reasoning => "thinking".clone_into(&mut row.doing),
            DeltaKind::ToolCall => row.doing = format!("calling {text}"),
            DeltaKind::Retry => row.doing.clone_from(text),
        }
    }
}

impl Row {
    fn apply(&mut self, fact: &Fact, at: Timestamp) {
        match fact {
            Fact::AttemptStarted { purpose, continues, .. } => {
                self.since = Some(at);
                let (doing, rounds) = match purpose {
                    Purpose::Answer => ("answering", 1),
                    Purpose::Judge { may_answer: true, .. } => ("judging", 1),
                    Purpose::Judge { may_answer: false, .. } => ("voting", 1),
                    Purpose::Present { .. } => ("presenting", 0),
                    Purpose::Carry => ("working", 0),
                    Purpose::Converse => ("talking", 0),
                    Purpose::Compact => ("summing up", 0),
                };
                doing.clone_into(&mut self.doing);
                self.round += if continues.is_none() { rounds } else { 0 };
            }
            Fact::AttemptEnded { outcome, usage, .. } => {
                self.since = None;
                self.usage += *usage;
                match outcome {
                    AttemptOutcome::Answered => {}
                    AttemptOutcome::Voted => "voted".clone_into(&mut self.doing),
                    AttemptOutcome::Presented { .. } => "presented".clone_into(&mut self.doing),
                    AttemptOutcome::Said | AttemptOutcome::Exited { ok: true, .. } => {
                        "done".clone_into(&mut self.doing)
                    }
                    AttemptOutcome::Exited { error, .. } => {
                        self.doing = format!("failed: {}", error.as_deref().unwrap_or("it did not succeed"))
                    }
                    AttemptOutcome::GaveUp { reason } => self.doing = format!("out: {reason}"),
                    AttemptOutcome::Failed { error, .. } => self.doing = format!("failed: {error}"),
                    AttemptOutcome::TimedOut => "timed out".clone_into(&mut self.doing),
                    AttemptOutcome::Cancelled => "stopped".clone_into(&mut self.doing),
                    AttemptOutcome::Interrupted => "interrupted".clone_into(&mut self.doing),
                }
            }
            Fact::ItemAdded { item: Item::Reply(reply), .. } => self.usage += reply.usage,
            Fact::ItemAdded { item: Item::Answer(answer), .. } => {
                self.doing = format!("answered ({})", answer.label)
            }
            Fact::ItemAdded { item: Item::Reminder { .. }, .. } => {
                "reminded to finish its turn".clone_into(&mut self.doing)
            }
            Fact::ItemAdded { item: Item::Update { .. }, .. } => {
                "judging newer answers".clone_into(&mut self.doing)
            }
            Fact::StatusChanged { status: TaskStatus::Failed, why: Some(why) } => {
                self.doing = format!("out: {why}")
            }
            _ => {}
        }
    }
}
