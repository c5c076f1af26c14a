//! The view of one agent of a run or one program of a workflow: its timeline and current state.

use super::streaming::StreamingText;
use crate::labels;
use althing_protocol::{
    AgentId, AnswerLabel, AttemptOutcome, Fact, FileWrite, Item, Member, Purpose, TaskStatus, Timestamp,
    Usage,
};

/// A timeline entry: something that an agent did, or a message to the agent.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineEntry {
    pub at: Timestamp,
    pub event: TimelineEvent,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TimelineEvent {
    /// What the agent does in the attempt that began, such as `judging`.
    Began(&'static str),
    Reasoning(String),
    Text(String),
    Tool {
        /// The model's id for the call; empty for a tool of a workflow's program.
        call: String,
        name: String,
        /// The arguments as JSON; for a tool of a workflow's program, what it was used on.
        arguments: String,
        /// The text of the result, the time of its arrival, and whether it is an error; None if there is none yet.
        result: Option<(String, Timestamp, bool)>,
    },
    Answer {
        label: AnswerLabel,
        content: String,
    },
    /// The agent was shown newer answers: the newest answers of the other agents.
    Update(Vec<AnswerLabel>),
    /// A reminder, a time warning, or a problem with context paths, copied files or the prompt.
    Note(String),
    Plan(String),
    Vote {
        target: AgentId,
        reason: String,
        /// Whether newer answers arrived before the vote, so that the vote does not count.
        stale: bool,
    },
    /// The agent changed files in context paths.
    Files(Vec<FileWrite>),
    Presented(String),
    /// How an attempt ended, if the timeline does not show it otherwise.
    Ended(String),
}

/// The state of one agent in a run, or of one program of a workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberView {
    pub member: Member,
    /// What the agent is doing, for display.
    pub activity: String,
    /// The agent's current round, counted from 1; 0 before its first attempt to answer or judge, and always for a
    /// program.
    pub round: u32,
    pub usage: Usage,
    /// What the agent did, oldest first.
    pub timeline: Vec<TimelineEntry>,
    pub streaming: StreamingText,
    /// The agent that this agent voted for; None before it votes, and once a newer answer voids the vote.
    pub vote: Option<AgentId>,
    /// What the agent waits for, if it waits for the user.
    pub waiting_for: Option<String>,
    /// When the current attempt started; None between attempts.
    pub since: Option<Timestamp>,
    /// Whether the agent's work, or the program's task, has ever had the status `Failed`.
    pub dropped_out: bool,
    /// Why the last failed attempt failed, in one or two words.
    pub failure: Option<&'static str>,
}

impl MemberView {
    pub fn new(member: Member) -> Self {
        Self {
            member,
            activity: "waiting".into(),
            round: 0,
            usage: Usage::default(),
            timeline: Vec::new(),
            streaming: StreamingText::default(),
            vote: None,
            waiting_for: None,
            since: None,
            dropped_out: false,
            failure: None,
        }
    }

    pub fn activity(&self) -> String {
        self.streaming.activity().unwrap_or_else(|| self.activity.clone())
    }

    /// The current activity; while the agent writes, with the beginning of what it writes.
    pub fn live_activity(&self) -> String {
        match self.streaming.opening() {
            Some(opening) => format!("{}: {opening}", self.activity()),
            None => self.activity(),
        }
    }

    pub fn answers(&self) -> impl DoubleEndedIterator<Item = (AnswerLabel, &str)> {
        self.timeline.iter().filter_map(|entry| match &entry.event {
            TimelineEvent::Answer { label, content } => Some((*label, content.as_str())),
            _ => None,
        })
    }

    fn add(&mut self, at: Timestamp, event: TimelineEvent) {
        self.timeline.push(TimelineEntry { at, event });
    }

    pub fn apply(&mut self, at: Timestamp, fact: &Fact) {
        match fact {
            Fact::AttemptStarted { purpose, continues, .. } => {
                self.streaming = StreamingText::default();
                let activity = labels::activity(*purpose);
                let counts = matches!(purpose, Purpose::Answer | Purpose::Judge { .. });
                self.since = Some(at);
                activity.clone_into(&mut self.activity);
                self.round += u32::from(counts && continues.is_none());
                self.add(at, TimelineEvent::Began(activity));
            }
            Fact::AttemptEnded { outcome, usage, .. } => {
                self.since = None;
                self.usage += if outcome.has_own_usage() { *usage } else { Usage::default() };
                self.streaming = StreamingText::default();
                self.failure = super::dropouts::reason(outcome).or(self.failure);
                self.end(at, outcome);
            }
            Fact::ItemAdded { item, .. } => self.item(at, item),
            Fact::StatusChanged { status, why } => {
                let waits = *status == TaskStatus::WaitingForUser;
                self.waiting_for = waits.then(|| why.clone().unwrap_or_else(|| "attach to it".into()));
                if *status == TaskStatus::Failed {
                    self.dropped_out = true;
                    let dropped = "dropped out";
                    self.activity = why.as_ref().map_or(dropped.into(), |why| format!("{dropped}: {why}"));
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, at: Timestamp, outcome: &AttemptOutcome) {
        let Some(words) = labels::outcome(outcome) else { return };
        match outcome {
            AttemptOutcome::Presented { text, rejected: None } => {
                self.add(at, TimelineEvent::Presented(text.clone()));
            }
            // The timeline already shows what the agent did, or the attempt was no longer needed.
            AttemptOutcome::Voted
            | AttemptOutcome::Said
            | AttemptOutcome::Exited { ok: true, .. }
            | AttemptOutcome::Cancelled => {}
            _ => self.add(at, TimelineEvent::Ended(words.clone())),
        }
        self.activity = words;
    }

    fn item(&mut self, at: Timestamp, item: &Item) {
        match item {
            Item::Reply(reply) => {
                self.streaming = StreamingText::default();
                self.usage += reply.usage;
                if !reply.reasoning.is_empty() {
                    self.add(at, TimelineEvent::Reasoning(reply.reasoning.clone()));
                }
                if !reply.text.trim().is_empty() {
                    self.add(at, TimelineEvent::Text(reply.text.clone()));
                }
                for call in &reply.tool_calls {
                    // These calls appear as an answer or a vote instead.
                    if !matches!(call.name.as_str(), "new_answer" | "vote") {
                        self.activity = format!("running {}", call.name);
                        self.add(
                            at,
                            TimelineEvent::Tool {
                                call: call.id.clone(),
                                name: call.name.clone(),
                                arguments: call.arguments.clone(),
                                result: None,
                            },
                        );
                    }
                }
            }
            Item::ToolResult { call, content, is_error } => self.result(at, call, content, *is_error),
            Item::Reminder { text, .. } => {
                "reminded to finish its turn".clone_into(&mut self.activity);
                self.add(at, TimelineEvent::Note(text.clone()));
            }
            Item::TimeWarning => self.add(at, TimelineEvent::Note("its time is nearly up".into())),
            Item::ContextClosed { writes, error } => {
                if let Some(error) = error {
                    self.add(at, TimelineEvent::Note(error.clone()));
                }
                if !writes.is_empty() {
                    self.add(at, TimelineEvent::Files(writes.clone()));
                }
            }
            Item::Answer(answer) => {
                self.activity = format!("answered ({})", answer.label);
                self.add(at, TimelineEvent::Answer { label: answer.label, content: answer.content.clone() });
            }
            Item::Vote(ballot) | Item::StaleVote(ballot) => {
                let stale = matches!(item, Item::StaleVote(_));
                if !stale {
                    self.vote = Some(ballot.target.clone());
                }
                let (target, reason) = (ballot.target.clone(), ballot.reason.clone());
                self.add(at, TimelineEvent::Vote { target, reason, stale });
            }
            Item::Said { text } => {
                text.lines().next().unwrap_or_default().clone_into(&mut self.activity);
                self.add(at, TimelineEvent::Text(text.clone()));
            }
            Item::PlanProgress(progress) => {
                let stands = labels::plan_status(progress.status);
                let note = progress.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
                self.add(at, TimelineEvent::Plan(format!("{} {stands}{note}", progress.task)));
            }
            Item::FilesTaken { from, error: Some(error) } => {
                let note = format!(
                    "the files of subagent {from} were not copied into this agent's workspace: {error}"
                );
                self.add(at, TimelineEvent::Note(note));
            }
            Item::Did { tool, detail, result, is_error } => {
                self.activity = format!("{tool} {detail}");
                let result = result.as_ref().map(|text| (text.clone(), at, *is_error));
                let (name, arguments) = (tool.clone(), detail.clone());
                self.add(at, TimelineEvent::Tool { call: String::new(), name, arguments, result });
            }
            Item::ContextOpened { error: Some(error) } | Item::PromptSent { error: Some(error), .. } => {
                self.add(at, TimelineEvent::Note(error.clone()));
            }
            _ => {}
        }
    }

    fn result(&mut self, at: Timestamp, id: &str, content: &str, is_error: bool) {
        let open = self.timeline.iter_mut().rev().find_map(|entry| match &mut entry.event {
            TimelineEvent::Tool { call, result: result @ None, .. } if call == id => Some(result),
            _ => None,
        });
        if let Some(result) = open {
            *result = Some((content.to_owned(), at, is_error));
        }
    }
}
