//! The election of a run: who has an answer, and which votes are valid. `crate::tally` counts them.

use super::Coordination;
use super::state::{MemberState, RunState};
use crate::tally::{Contender, Count, Election, Rule, count, is_decided};
use althing_protocol::{AgentId, Ballot, DecidedBy, DecisionReport};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Indexes of the members with answers, best first.
    pub(crate) ranking: Vec<usize>,
    /// How many first choices each agent got.
    pub(crate) votes: BTreeMap<AgentId, u32>,
    pub(crate) ballots: Vec<Ballot>,
    /// How a tie for first place was broken, or how the winner was found without votes.
    pub(crate) tie_break: Option<String>,
    pub(crate) report: DecisionReport,
}

impl Tally {
    pub(crate) fn of(state: &RunState) -> Self {
        let election = state.election();
        let Count { ranking, votes, tie_break, mut report } = count(&election, state.rule());
        if state.is_decided() {
            report.explanation.push_str("; judges whose votes could not change this were stopped");
        }
        let index = |at: usize| election.candidates.get(at).map(|candidate| candidate.member_index);
        let ranking = ranking.into_iter().filter_map(index).collect();
        let is_counted = report.rule != DecidedBy::Unanimous;
        let tie_break = tie_break.map(|how| how.words(&election).to_owned());
        let ballots = if is_counted { election.ballots } else { Vec::new() };
        Self { ranking, votes, ballots, tie_break, report }
    }
}

impl RunState {
    pub(crate) fn rule(&self) -> Rule {
        let decision = &self.spec.rules.decision;
        Rule {
            method: decision.rule,
            merge_conclusions: decision.merge_conclusions,
            unanimity: decision.unanimity,
        }
    }

    pub(crate) fn election(&self) -> Election {
        let compares = self.spec.compares_conclusions();
        let candidate = |(member_index, member): (usize, &MemberState)| {
            let answer = self.answers.get(*member.answers.last()?)?;
            Some(Contender {
                agent: member.agent.id.clone(),
                member_index,
                conclusion: answer.conclusion.clone().filter(|_| compares),
                newest: answer.revision.0,
            })
        };
        Election {
            candidates: self.members.iter().enumerate().filter_map(candidate).collect(),
            agents: self.members.len(),
            ballots: self.members.iter().filter_map(|member| member.vote.clone()).collect(),
            anybody_voted: self.members.iter().any(|member| member.has_voted),
            seed: self.spec.tie_break_seed,
        }
    }

    /// Whether the run decides without a vote, because all agents gave equal conclusions.
    pub(crate) fn is_unanimous(&self) -> bool {
        self.rule().unanimity && self.election().agrees()
    }

    /// Whether judges can be stopped: no agent may answer again, and the outstanding votes cannot change who wins.
    pub(super) fn is_decided(&self) -> bool {
        let voted = self.members.iter().filter(|member| member.vote.is_some()).count();
        let is_out = |member: &&MemberState| member.is_live() && member.vote.is_none() && !member.abstained;
        let outstanding = self.members.iter().filter(is_out).count();
        let rules = &self.spec.rules;
        rules.decision.stop_when_decided
            && !rules.skip_voting
            && outstanding > 0
            && voted > outstanding
            && self.takes_no_more_answers()
            && is_decided(&self.election(), self.rule(), outstanding)
    }
}

impl Coordination {
    /// The candidates and valid ballots of the run so far.
    pub fn election(&self) -> Election {
        self.state.election()
    }
}
