//! A run: who takes part, where it stands, how it ended.

use super::member::{MemberView, What};
use crate::labels;
use althing_protocol::{
    AgentId, AnswerLabel, Fact, FinalAnswerStrategy, Item, Millis, Modes, Phase, PlanRef, RunEnd, RunResult,
    RunSpec, TaskId, TaskStatus, Timestamp, Usage, Verdict,
};
use std::collections::BTreeMap;

/// How the vote ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Vote {
    /// Who won.
    pub winner: AgentId,
    /// Votes by agent.
    pub votes: BTreeMap<AgentId, u32>,
    /// How a draw was settled.
    pub tie_break: Option<String>,
    /// How the final answer is made.
    pub strategy: FinalAnswerStrategy,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    /// Which.
    pub id: TaskId,
    /// What is to be accomplished.
    pub task: String,
    /// The modes it was started in.
    pub modes: Modes,
    /// Its agents, in config order.
    pub agents: Vec<MemberView>,
    /// Where it stands.
    pub phase: Option<Phase>,
    /// Its status as a task.
    pub status: TaskStatus,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// The vote, once it is over.
    pub vote: Option<Vote>,
    /// Who presents, if a person chose.
    pub chosen: Option<AgentId>,
    /// How it ended.
    pub end: Option<RunEnd>,
    /// What it gave back.
    pub result: Option<Box<RunResult>>,
    /// The plan it carries out.
    pub plan: Option<PlanRef>,
    /// Whether an agent of another run asked for it.
    pub errand: bool,
    /// The answers stored, in order: what a revision counts.
    stored: Vec<AnswerLabel>,
}

impl RunView {
    /// A run that just began.
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
            errand: spec.subagent_of.is_some(),
            stored: Vec::new(),
        }
    }

    /// Whether it still goes on.
    pub fn is_live(&self) -> bool {
        self.result.is_none() && !self.status.is_final()
    }

    /// The most rounds any agent is in.
    pub fn rounds(&self) -> u32 {
        match &self.result {
            Some(result) => result.coordination_summary.rounds,
            None => self.agents.iter().map(|agent| agent.round).max().unwrap_or_default(),
        }
    }

    /// How long it has taken.
    pub fn elapsed(&self, now: Timestamp) -> Millis {
        match &self.result {
            Some(result) => result.duration,
            None => self.ended.unwrap_or(now).since(self.started),
        }
    }

    /// What it has cost.
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

    /// Its status in the words of its card.
    pub fn standing(&self) -> &'static str {
        match &self.result {
            Some(result) => labels::run_status(result.status),
            None => labels::unfinished_run_status(self.status),
        }
    }

    /// The phase in a word.
    pub fn phase_word(&self) -> &'static str {
        labels::phase(self.phase)
    }

    /// Votes as they stand: by agent, in config order.
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

    /// Who presents, or presented.
    pub fn presenter(&self) -> Option<&AgentId> {
        let summary = self.result.as_ref().map(|result| &result.coordination_summary);
        summary
            .and_then(|summary| summary.presenter.as_ref())
            .or(self.chosen.as_ref())
            .or(self.vote.as_ref().map(|vote| &vote.winner))
    }

    /// Folds one fact about the run itself.
    pub fn apply(&mut self, at: Timestamp, fact: &Fact) {
        match fact {
            Fact::PhaseChanged { phase } => self.phase = Some(*phase),
            Fact::StatusChanged { status, .. } => {
                self.status = *status;
                if status.is_final() {
                    self.ended = self.ended.or(Some(at));
                }
            }
            Fact::Decided(Verdict::Winner { winner, votes, tie_break, strategy, .. }) => {
                self.vote = Some(Vote {
                    winner: winner.clone(),
                    votes: votes.clone(),
                    tie_break: tie_break.clone(),
                    strategy: *strategy,
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

    /// Folds one fact about the work of the agent at a place.
    pub fn apply_work(&mut self, seat: usize, at: Timestamp, fact: &Fact) {
        if let Fact::ItemAdded { item: Item::Answer(answer), .. } = fact {
            self.stored.push(answer.label);
            // A new answer makes the votes before it void.
            for agent in &mut self.agents {
                agent.vote = None;
            }
        }
        let update = match fact {
            Fact::ItemAdded { item: Item::Update { revision }, .. } => {
                Some(self.newest(revision.0 as usize, seat))
            }
            _ => None,
        };
        let Some(agent) = self.agents.get_mut(seat) else { return };
        if let Some(labels) = update {
            "judging newer answers".clone_into(&mut agent.activity);
            agent.timeline.push(super::member::Moment { at, what: What::Update(labels) });
        }
        agent.apply(at, fact);
    }

    /// The newest answer of every other agent among the first so many.
    fn newest(&self, revision: usize, seat: usize) -> Vec<AnswerLabel> {
        let mut newest = BTreeMap::new();
        for label in self.stored.iter().take(revision) {
            newest.insert(label.agent, *label);
        }
        newest.remove(&(seat as u32 + 1));
        newest.into_values().collect()
    }
}
