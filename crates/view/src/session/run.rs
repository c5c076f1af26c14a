//! The state of a run for people: its members, its progress and its result.

use super::member::{MemberView, TimelineEvent};
use crate::labels;
use althing_protocol::{
    AgentId, AnswerLabel, DecidedBy, DecisionReport, Fact, FinalAnswerStrategy, Item, Millis, Modes, Phase,
    PlanRef, PlanRun, PlanStatus, PlanTask, RunEnd, RunResult, RunSpec, TaskId, TaskStatus, Timestamp, Usage,
    Verdict,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct VoteResult {
    pub winner: AgentId,
    pub votes: BTreeMap<AgentId, u32>,
    /// How a tie for the first place was broken, or how the winner was found if nobody voted.
    pub tie_break: Option<String>,
    pub strategy: FinalAnswerStrategy,
    /// How the winner was chosen; None in logs of 0.1.
    pub decision: Option<Box<DecisionReport>>,
}

impl VoteResult {
    /// Who won and by what, in a few words; None if there was no vote and the log does not say what decided.
    pub fn in_short(&self) -> Option<String> {
        let winner = &self.winner;
        let all: u32 = self.votes.values().sum();
        let own = self.votes.get(winner).copied().unwrap_or_default();
        match self.decision.as_deref() {
            Some(DecisionReport { rule: DecidedBy::Borda, points, .. }) if all > 0 => {
                let points = points.get(winner).copied().unwrap_or_default();
                Some(format!("winner {winner}, {}", althing_text::count(points.into(), "point")))
            }
            Some(DecisionReport { rule: DecidedBy::Unanimous, .. }) => {
                Some(format!("winner {winner}, all agree"))
            }
            _ if all > 0 => Some(format!("winner {winner}, {own} of {all} votes")),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    pub id: TaskId,
    pub task: String,
    pub modes: Modes,
    /// The members, in config order.
    pub agents: Vec<MemberView>,
    pub phase: Option<Phase>,
    pub status: TaskStatus,
    pub started: Timestamp,
    pub ended: Option<Timestamp>,
    pub vote: Option<VoteResult>,
    /// The presenter, if the user overrode the vote.
    pub chosen: Option<AgentId>,
    pub end: Option<RunEnd>,
    pub result: Option<Box<RunResult>>,
    /// The plan that the run executes.
    pub plan: Option<PlanRef>,
    /// The tasks of that plan with their status, in the plan's order.
    pub checklist: Vec<(PlanTask, PlanStatus)>,
    /// Whether the chat agent is given the result and summarizes it; false until the run has a result.
    pub is_summarized: bool,
    pub is_subagent_run: bool,
    /// Whether the user has undone the changes of the run since. The log does not say this: the front end sets it.
    pub is_undone: bool,
    /// The answers in the order they were stored; revision `n` consists of the first `n`.
    stored: Vec<AnswerLabel>,
}

/// The tasks of a plan with their status at the start of the run.
fn checklist(run: &PlanRun) -> Vec<(PlanTask, PlanStatus)> {
    let status_of = |task: &PlanTask| {
        let begun = run.progress.iter().rev().find(|progress| progress.task == task.id);
        begun.map_or(PlanStatus::Pending, |progress| progress.status)
    };
    run.tasks.iter().map(|task| (task.clone(), status_of(task))).collect()
}

impl RunView {
    pub fn new(id: TaskId, spec: &RunSpec, at: Timestamp) -> Self {
        Self {
            id,
            task: spec.task.clone(),
            modes: spec.modes,
            agents: spec.members.iter().cloned().map(MemberView::new).collect(),
            phase: None,
            status: TaskStatus::Running,
            started: at,
            ended: None,
            vote: None,
            chosen: None,
            end: None,
            result: None,
            plan: spec.plan.as_ref().map(|run| run.plan.clone()),
            checklist: spec.plan.as_ref().map(checklist).unwrap_or_default(),
            is_summarized: false,
            is_subagent_run: spec.subagent_of.is_some(),
            is_undone: false,
            stored: Vec::new(),
        }
    }

    pub fn is_live(&self) -> bool {
        self.result.is_none() && !self.status.is_final()
    }

    pub fn rounds(&self) -> u32 {
        match &self.result {
            Some(result) => result.coordination_summary.rounds,
            None => self.agents.iter().map(|agent| agent.round).max().unwrap_or_default(),
        }
    }

    /// The time from the run's start until now or until its end; once there is a result, the run's active time.
    pub fn elapsed(&self, now: Timestamp) -> Millis {
        match &self.result {
            Some(result) => result.duration,
            None => self.ended.unwrap_or(now).since(self.started),
        }
    }

    /// The usage of the run; subagents are included once the run has ended.
    pub fn usage(&self) -> Usage {
        if let Some(result) = &self.result {
            return result.usage;
        }
        let mut sum = Usage::default();
        for agent in &self.agents {
            sum += agent.usage;
        }
        sum
    }

    pub fn status_label(&self) -> &'static str {
        match &self.result {
            Some(result) => labels::run_status(result.status),
            None => labels::unfinished_run_status(self.status),
        }
    }

    pub fn phase_label(&self) -> &'static str {
        labels::phase(self.phase)
    }

    /// The votes for each agent, in config order: those of the decided vote or, before that, the current ones.
    pub fn tally(&self) -> Vec<(&AgentId, u32)> {
        self.agents
            .iter()
            .map(|agent| {
                let id = &agent.member.id;
                let count = match &self.vote {
                    Some(vote) => vote.votes.get(id).copied().unwrap_or_default(),
                    None => self.agents.iter().filter(|voter| voter.vote.as_ref() == Some(id)).count() as u32,
                };
                (id, count)
            })
            .collect()
    }

    /// The presenter or, if nobody presents, the agent whose answer is the final answer; None if there is no winner
    /// (yet).
    pub fn presenter(&self) -> Option<&AgentId> {
        let summary = self.result.as_ref().map(|result| &result.coordination_summary);
        summary
            .and_then(|summary| summary.presenter.as_ref())
            .or(self.chosen.as_ref())
            .or(self.vote.as_ref().map(|vote| &vote.winner))
    }

    pub fn apply(&mut self, at: Timestamp, fact: &Fact) {
        match fact {
            Fact::PhaseChanged { phase } => self.phase = Some(*phase),
            Fact::StatusChanged { status, .. } => {
                self.status = *status;
                if status.is_final() {
                    self.ended = self.ended.or(Some(at));
                }
            }
            Fact::Decided(Verdict::Winner { winner, votes, tie_break, strategy, decision, .. }) => {
                self.vote = Some(VoteResult {
                    winner: winner.clone(),
                    votes: votes.clone(),
                    tie_break: tie_break.clone(),
                    strategy: *strategy,
                    decision: decision.clone(),
                });
            }
            Fact::Decided(Verdict::Override { presenter }) => self.chosen = Some(presenter.clone()),
            Fact::Decided(Verdict::Finished { end, result }) => {
                self.ended = Some(at);
                self.phase = Some(Phase::Done);
                self.status = match end {
                    RunEnd::Answered | RunEnd::Limit => TaskStatus::Done,
                    RunEnd::NoAnswer => TaskStatus::Failed,
                    RunEnd::Cancelled => TaskStatus::Cancelled,
                };
                self.end = Some(*end);
                self.result = Some(result.clone());
            }
            _ => {}
        }
    }

    pub fn apply_work(&mut self, member_index: usize, at: Timestamp, fact: &Fact) {
        if let Fact::ItemAdded { item: Item::Answer(answer), .. } = fact {
            self.stored.push(answer.label);
            // A new answer voids all earlier votes, except those of others for its author.
            for (index, agent) in self.agents.iter_mut().enumerate() {
                let stands = agent.vote.as_ref() == Some(&answer.agent) && index != member_index;
                agent.vote = agent.vote.take().filter(|_| stands);
            }
        }
        if let Fact::ItemAdded { item: Item::PlanProgress(progress), .. } = fact {
            let task = self.checklist.iter_mut().find(|(task, _)| task.id == progress.task);
            if let Some((_, status)) = task {
                *status = progress.status;
            }
        }
        let update = match fact {
            Fact::ItemAdded { item: Item::Update { revision }, .. } => {
                Some(self.newest(revision.0 as usize, member_index))
            }
            _ => None,
        };
        let Some(agent) = self.agents.get_mut(member_index) else { return };
        if let Some(labels) = update {
            "judging newer answers".clone_into(&mut agent.activity);
            agent.timeline.push(super::member::TimelineEntry { at, event: TimelineEvent::Update(labels) });
        }
        agent.apply(at, fact);
    }

    /// The newest answer of every other member within the first `revision` answers.
    fn newest(&self, revision: usize, member_index: usize) -> Vec<AnswerLabel> {
        let mut newest = BTreeMap::new();
        for label in self.stored.iter().take(revision) {
            newest.insert(label.agent, *label);
        }
        newest.remove(&(member_index as u32 + 1));
        newest.into_values().collect()
    }
}
