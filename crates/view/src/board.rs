//! Who is doing what in a run or a workflow: a fold of its events.

use althing_protocol::{
    AttemptOutcome, DeltaKind, Event, Fact, FeedItem, Item, Phase, Progress, Purpose, TaskId, TaskSpec,
    TaskStatus, Timestamp, Usage, Verdict,
};
use std::collections::HashMap;

/// The line of an agent or of a workflow's program.
#[derive(Clone, Debug)]
pub struct Row {
    /// The agent's or the task's name.
    pub name: String,
    /// Whether it is a program of a workflow, which has no rounds.
    pub program: bool,
    /// What it is doing, in a few words.
    pub doing: String,
    /// How many rounds it has begun.
    pub round: u32,
    /// What it has used.
    pub usage: Usage,
    /// When it began what it is doing; None when it does nothing.
    pub since: Option<Timestamp>,
}

/// The whole board.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// In the order in which they came.
    rows: Vec<Row>,
    places: HashMap<TaskId, usize>,
    /// Of the longest name.
    width: usize,
    /// What all of them have used.
    pub usage: Usage,
    /// The phase of the run.
    pub phase: Option<Phase>,
    /// The time of the newest event.
    pub now: Timestamp,
}

impl Board {
    /// The lines.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The line of a task.
    pub fn row(&self, task: Option<&TaskId>) -> Option<&Row> {
        self.places.get(task?).and_then(|place| self.rows.get(*place))
    }

    /// How wide the names are.
    pub fn width(&self) -> usize {
        self.width.clamp(4, 24)
    }

    fn add(&mut self, task: &TaskId, name: String, program: bool) {
        self.places.insert(task.clone(), self.rows.len());
        self.width = self.width.max(name.chars().count());
        let (doing, usage) = ("waiting".into(), Usage::default());
        self.rows.push(Row { name, program, doing, round: 0, usage, since: None });
    }

    /// Folds an item.
    pub fn take(&mut self, item: &FeedItem) {
        match item {
            FeedItem::Event(event) => self.apply(event),
            FeedItem::Progress(progress) => self.pass(progress),
        }
    }

    fn apply(&mut self, event: &Event) {
        self.now = event.at;
        match &event.fact {
            Fact::TaskCreated { id, parent, spec: TaskSpec::Work { agent } } => {
                // An agent of a workflow's run is named after both.
                let run = parent.as_ref().and_then(|run| run.as_str().split_once('.'));
                let name = run.map_or_else(|| agent.to_string(), |(_, run)| format!("{run}/{agent}"));
                self.add(id, name, false);
            }
            Fact::TaskCreated { id, spec: TaskSpec::Program(_), .. } => {
                let name = id.as_str().split_once('.').map_or(id.as_str(), |(_, name)| name);
                self.add(id, name.to_owned(), true);
            }
            Fact::PhaseChanged { phase } => self.phase = Some(*phase),
            // A run within a run is part of what the whole costs.
            Fact::Decided(Verdict::Finished { result, .. })
                if event.task.as_ref().is_some_and(|task| !task.as_str().contains('.')) =>
            {
                self.usage = result.usage;
            }
            fact => {
                let at = event.at;
                let place = event.task.as_ref().and_then(|task| self.places.get(task));
                if let Some(row) = place.and_then(|place| self.rows.get_mut(*place)) {
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
        let Some(row) = self.places.get(task).and_then(|place| self.rows.get_mut(*place)) else { return };
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
                    Purpose::Evaluate => ("evaluating", 0),
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
                    AttemptOutcome::Evaluated { .. } => "evaluated".clone_into(&mut self.doing),
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
            Fact::ItemAdded { item: Item::Said { text }, .. } => {
                text.lines().next().unwrap_or_default().clone_into(&mut self.doing);
            }
            Fact::ItemAdded { item: Item::Did { tool, detail, .. }, .. } => {
                self.doing = format!("{tool} {detail}");
            }
            Fact::StatusChanged { status: TaskStatus::WaitingForUser, why } => {
                self.doing = format!("waits for you: {}", why.as_deref().unwrap_or("attach to it"));
            }
            Fact::StatusChanged { status: TaskStatus::Failed, why: Some(why) } => {
                self.doing = format!("{}: {why}", if self.program { "failed" } else { "out" })
            }
            Fact::StatusChanged { status: TaskStatus::Cancelled, .. } if self.program => {
                "cancelled".clone_into(&mut self.doing)
            }
            _ => {}
        }
    }
}
