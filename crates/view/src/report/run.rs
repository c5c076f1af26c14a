//! The report of a run: a fold of the run's events.

use super::agent::AgentReport;
use super::spent::Spent;
use super::{Places, Warning, diff, words};
use crate::labels;
use althing_protocol::{
    AgentId, AgentOutcome, AnswerLabel, Ballot, ContextPath, DecidedBy, Event, Fact, FileWrite, Item, Millis,
    Modes, Purpose, RunResult, RunSpec, RunStatus, TaskId, Timestamp, Verdict,
};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// The id `<session>.<run>`.
    pub run_id: String,
    pub task: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The status: `completed`, `partial`, `cancelled` or `failed`; before the end, that of the run's task.
    pub status: String,
    pub error: Option<String>,
    pub modes: Modes,
    /// The rules of the run, one sentence each.
    pub rules: Vec<String>,
    pub context_paths: Vec<ContextPath>,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    /// The active time, without downtime and without waiting for a person; before the end, the time from the start to
    /// the last event of an agent.
    #[serde(rename = "duration_ms")]
    pub duration: Millis,
    pub rounds: u32,
    pub agents: Vec<AgentReport>,
    pub decision: DecisionReport,
    pub final_answer: Option<String>,
    /// A unified diff from the newest answer of its author to the final answer; None if they are equal.
    pub final_diff: Option<String>,
    pub context_path_writes: Vec<FileWrite>,
    /// The writable context paths, if the run changed nothing in any of them.
    pub unchanged_paths: Vec<String>,
    pub plan: Option<String>,
    pub follow_up: Option<String>,
    pub timeline: Vec<TimelineLine>,
    pub warnings: Vec<Warning>,
    pub usage: Spent,
    pub files: Vec<FilePlace>,
    pub is_subagent: bool,
    #[serde(skip)]
    pub(super) id: TaskId,
    #[serde(skip)]
    pub(super) is_over: bool,
    /// The answers in the order in which they were stored.
    #[serde(skip)]
    stored: Vec<AnswerLabel>,
    /// The number of answers that were stored before the last restart. Agents are no longer shown these answers.
    #[serde(skip)]
    discarded: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FilePlace {
    pub what: String,
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimelineLine {
    pub at: Timestamp,
    /// The time since the run's start.
    #[serde(rename = "after_ms")]
    pub after: Millis,
    pub who: String,
    pub what: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DecisionReport {
    pub words: Vec<String>,
    pub winner: Option<AgentId>,
    pub presenter: Option<AgentId>,
    pub overridden: bool,
    /// The number of first choices of each agent.
    pub votes: BTreeMap<AgentId, u32>,
    /// How the winner was chosen; None in logs of 0.1.
    #[serde(flatten)]
    pub report: Option<althing_protocol::DecisionReport>,
    /// All votes, oldest first.
    pub ballots: Vec<BallotReport>,
    pub restarts: Vec<String>,
    #[serde(skip)]
    pub(super) tie_break: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BallotReport {
    pub at: Timestamp,
    pub voter: AgentId,
    pub target: AgentId,
    /// All agents that the voter ranked, best first, if it ranked several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<AgentId>,
    pub reason: String,
    pub counted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_counted_because: Option<&'static str>,
}

const OVERTAKEN: &str = "the voter had not seen a newer answer";
const REPLACED: &str = "the agent voted again later";
const STARTED_OVER: &str = "the run started over";
const INVALID: &str = "a newer answer arrived after the vote";
const UNANIMOUS: &str = "all agents concluded the same";

impl RunReport {
    pub(super) fn new(
        session: &str,
        id: &TaskId,
        spec: &RunSpec,
        at: Timestamp,
        places: &Places<'_>,
    ) -> Self {
        let agents = (1u32..).zip(&spec.members).map(|(number, member)| AgentReport::new(id, number, member));
        Self {
            run_id: format!("{session}.{id}"),
            task: spec.task.clone(),
            context: spec.context.clone(),
            status: "running".into(),
            error: None,
            modes: spec.modes,
            rules: words::rules(spec),
            context_paths: spec.context_paths.clone(),
            started: at,
            ended: None,
            duration: Millis(0),
            rounds: 0,
            agents: agents.collect(),
            decision: DecisionReport::default(),
            final_answer: None,
            final_diff: None,
            context_path_writes: Vec::new(),
            unchanged_paths: Vec::new(),
            plan: None,
            follow_up: None,
            timeline: Vec::new(),
            warnings: Vec::new(),
            usage: Spent::default(),
            files: vec![FilePlace { what: "files of the run".into(), path: (places.task)(id) }],
            is_subagent: spec.subagent_of.is_some(),
            id: id.clone(),
            is_over: false,
            stored: Vec::new(),
            discarded: 0,
        }
    }

    /// Folds an event of the run itself or of one of its agents.
    pub(super) fn apply(&mut self, event: &Event, places: &Places<'_>) {
        if event.task.as_ref() == Some(&self.id) {
            self.apply_to_run(event, places);
            return;
        }
        let dir = (places.task)(&self.id);
        let saw = self.shown(&event.fact);
        let Some(agent) = event.task.as_ref().and_then(|task| self.agent_of(task)) else { return };
        agent.apply(event, &dir);
        if let Some(saw) = saw {
            agent.see(saw);
        }
        match &event.fact {
            Fact::ItemAdded { item: Item::Vote(ballot), .. } => self.add_ballot(event.at, ballot, true),
            Fact::ItemAdded { item: Item::StaleVote(ballot), .. } => self.add_ballot(event.at, ballot, false),
            Fact::ItemAdded { item: Item::Answer(answer), .. } => self.stored.push(answer.label),
            _ => {}
        }
        if !self.is_over {
            self.duration = event.at.since(self.started);
        }
    }

    pub(super) fn add_line(&mut self, at: Timestamp, line: Option<(String, String)>) {
        let after = at.since(self.started);
        self.timeline.extend(line.map(|(who, what)| TimelineLine { at, after, who, what }));
    }

    pub(super) fn agent_of(&mut self, task: &TaskId) -> Option<&mut AgentReport> {
        let number =
            task.as_str().strip_prefix(self.id.as_str())?.strip_prefix(".a")?.parse::<usize>().ok()?;
        self.agents.get_mut(number.checked_sub(1)?)
    }

    /// The newest answer of each agent that this fact shows to an agent; None if it shows no answers.
    fn shown(&self, fact: &Fact) -> Option<Vec<AnswerLabel>> {
        let most = match fact {
            Fact::AttemptStarted { purpose: Purpose::Judge { knows, .. }, .. }
            | Fact::ItemAdded { item: Item::Update { revision: knows }, .. } => knows.0 as usize,
            Fact::AttemptStarted { purpose: Purpose::Present { .. }, .. } => self.stored.len(),
            _ => return None,
        };
        let mut newest = BTreeMap::new();
        for label in self.stored.iter().take(most).skip(self.discarded) {
            newest.insert(label.agent, *label);
        }
        Some(newest.into_values().collect())
    }

    fn apply_to_run(&mut self, event: &Event, places: &Places<'_>) {
        match &event.fact {
            Fact::StatusChanged { status, .. } if !self.is_over => {
                labels::task_status(*status).clone_into(&mut self.status);
                if status.is_final() {
                    self.ended = Some(event.at);
                }
            }
            Fact::Decided(Verdict::Winner {
                winner, votes, ballots, tie_break, decision: report, ..
            }) => {
                let decision = &mut self.decision;
                decision.report = report.as_deref().cloned();
                decision.winner = Some(winner.clone());
                decision.votes.clone_from(votes);
                decision.tie_break.clone_from(tie_break);
                decision.count(ballots);
            }
            Fact::Decided(Verdict::Override { presenter }) => {
                self.decision.overridden = true;
                self.decision.presenter = Some(presenter.clone());
            }
            Fact::Decided(Verdict::Restarted { reason, .. }) => {
                self.decision.restarts.push(reason.clone());
                for ballot in &mut self.decision.ballots {
                    ballot.not_counted_because.get_or_insert(STARTED_OVER);
                }
                self.discarded = self.stored.len();
                self.decision.winner = None;
            }
            Fact::Decided(Verdict::Finished { result, .. }) => self.finish(event.at, result, places),
            _ => {}
        }
    }

    fn finish(&mut self, at: Timestamp, result: &RunResult, places: &Places<'_>) {
        self.is_over = true;
        self.ended = Some(at);
        result.status.as_str().clone_into(&mut self.status);
        self.error.clone_from(&result.error);
        self.duration = result.duration;
        self.rounds = result.coordination_summary.rounds;
        self.final_answer.clone_from(&result.final_answer);
        self.context_path_writes.clone_from(&result.context_path_writes);
        self.unchanged_paths.clone_from(&result.unchanged_paths);
        self.plan = result.plan.as_ref().map(|plan| plan.path.clone());
        self.follow_up.clone_from(&result.follow_up);
        let summary = &result.coordination_summary;
        let decision = &mut self.decision;
        decision.winner.clone_from(&summary.winner);
        decision.presenter.clone_from(&summary.presenter);
        decision.overridden = summary.overridden;
        decision.votes.clone_from(&summary.votes);
        decision.report.clone_from(&summary.decision);
        decision.count(&summary.ballots);
        for agent in &summary.agents {
            if let Some(report) = self.agents.iter_mut().find(|report| report.id == agent.id) {
                outcome(agent.status).clone_into(&mut report.status);
                report.error.clone_from(&agent.error);
            }
        }
        let dir = (places.task)(&self.id);
        let mut files = vec![
            ("this report", "report.md"),
            ("all answers", "answers.md"),
            ("result as JSON", "result.json"),
        ];
        if result.final_answer.is_some() {
            files.insert(0, ("final answer", "final_answer.md"));
        }
        let places = files.into_iter().map(|(what, name)| place(what, format!("{dir}/{name}")));
        self.files.extend(places);
        self.files
            .extend(result.workspace_path.clone().map(|path| place("workspace of the final answer", path)));
    }

    fn add_ballot(&mut self, at: Timestamp, ballot: &Ballot, counted: bool) {
        let Ballot { voter, target, reason, ranking } = ballot.clone();
        // A later vote of the same agent replaces the earlier ones, unless the later vote is stale.
        for earlier in self.decision.ballots.iter_mut().filter(|earlier| counted && earlier.voter == voter) {
            earlier.counted = false;
            earlier.not_counted_because.get_or_insert(REPLACED);
        }
        let not_counted_because = (!counted).then_some(OVERTAKEN);
        let ballot = BallotReport { at, voter, target, ranking, reason, counted, not_counted_because };
        self.decision.ballots.push(ballot);
    }

    /// Completes the report once all events are folded.
    pub(super) fn complete(&mut self) {
        self.decision.words = words::decision(self);
        self.final_diff = self.final_diff();
        let mut sum = Spent::default();
        for agent in &self.agents {
            sum += agent.usage;
        }
        self.usage = sum;
        if self.rounds == 0 {
            let rounds = |agent: &AgentReport| {
                agent
                    .attempts
                    .iter()
                    .filter(|attempt| !["presenting", "evaluating"].contains(&attempt.activity))
                    .count()
            };
            self.rounds = self.agents.iter().map(rounds).max().unwrap_or_default() as u32;
        }
    }

    fn final_diff(&self) -> Option<String> {
        let author = self.decision.presenter.as_ref()?;
        let agent = self.agents.iter().find(|agent| agent.id == *author)?;
        let (newest, answer) = (agent.newest()?, self.final_answer.as_ref()?);
        let changed = newest.content.trim_end() != answer.trim_end();
        changed.then(|| diff(&newest.content, answer, (&newest.label.to_string(), "final answer")))
    }

    pub fn task_id(&self) -> &TaskId {
        &self.id
    }

    pub(super) fn has_failed(&self) -> bool {
        [RunStatus::Failed, RunStatus::Cancelled].iter().any(|status| self.status == status.as_str())
    }
}

fn place(what: &str, path: String) -> FilePlace {
    FilePlace { what: what.to_owned(), path }
}

fn outcome(status: AgentOutcome) -> &'static str {
    match status {
        AgentOutcome::Answered => "answered",
        AgentOutcome::Voted => "voted",
        AgentOutcome::Failed => "dropped out",
        AgentOutcome::TimedOut => "timed out",
        AgentOutcome::Cancelled => "cancelled",
    }
}

impl DecisionReport {
    /// Marks the ballots that were counted, and gives the others a reason.
    fn count(&mut self, counted: &[Ballot]) {
        for ballot in &mut self.ballots {
            ballot.counted = false;
        }
        for one in counted {
            let same = |ballot: &&mut BallotReport| {
                ballot.voter == one.voter && ballot.target == one.target && ballot.reason == one.reason
            };
            if let Some(ballot) = self.ballots.iter_mut().rev().find(same) {
                ballot.counted = true;
                ballot.not_counted_because = None;
            }
        }
        let is_unanimous = self.report.as_ref().is_some_and(|report| report.rule == DecidedBy::Unanimous);
        let reason = if is_unanimous { UNANIMOUS } else { INVALID };
        for ballot in self.ballots.iter_mut().filter(|ballot| !ballot.counted) {
            ballot.not_counted_because.get_or_insert(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ballot(voter: &str, target: &str) -> Ballot {
        Ballot { voter: voter.into(), target: target.into(), reason: String::new(), ranking: Vec::new() }
    }

    fn reported(ballot: Ballot) -> BallotReport {
        let Ballot { voter, target, reason, ranking } = ballot;
        let at = Timestamp(0);
        BallotReport { at, voter, target, ranking, reason, counted: true, not_counted_because: None }
    }

    #[test]
    fn every_vote_that_was_not_counted_has_a_reason() {
        for (rule, counted, expected) in [
            (DecidedBy::Borda, vec![ballot("b", "a")], [Some("a newer answer arrived after the vote"), None]),
            (DecidedBy::Unanimous, vec![], [Some("all agents concluded the same"); 2]),
        ] {
            let mut decision = DecisionReport {
                report: Some(althing_protocol::DecisionReport {
                    rule,
                    points: BTreeMap::new(),
                    pairwise: BTreeMap::new(),
                    explanation: String::new(),
                }),
                ballots: [ballot("a", "a"), ballot("b", "a")].map(reported).to_vec(),
                ..DecisionReport::default()
            };
            decision.count(&counted);
            let reasons: Vec<Option<&str>> =
                decision.ballots.iter().map(|ballot| ballot.not_counted_because).collect();
            assert_eq!(reasons, expected, "{rule:?}");
        }
    }
}
