//! Counts votes and breaks ties, without favoring agents that come earlier in the config.

use super::state::{MemberState, RunState};
use althing_protocol::{AgentId, Ballot};
use althing_text::pseudo_random;
use std::collections::BTreeMap;

/// The outcome of a vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The indexes of the members with answers, best first.
    pub(crate) ranking: Vec<usize>,
    pub(crate) votes: BTreeMap<AgentId, u32>,
    pub(crate) ballots: Vec<Ballot>,
    /// How a tie for the first place was broken, or how the winner was found if nobody voted.
    pub(crate) tie_break: Option<String>,
}

impl Tally {
    /// Counts the valid votes.
    ///
    /// The agent with the most votes wins. A tie goes to the agent with more votes from others; a remaining tie is
    /// broken by a pseudo-random number from the run's seed, which is fair across runs and the same on every replay.
    /// If nobody voted, the newest answer wins, because its author knew the most.
    pub(crate) fn of(state: &RunState) -> Self {
        let ballots: Vec<Ballot> = state.members.iter().filter_map(|member| member.vote.clone()).collect();
        let mut votes = BTreeMap::new();
        for ballot in &ballots {
            *votes.entry(ballot.target.clone()).or_default() += 1;
        }
        let mut ranked: Vec<(RankKey, usize)> = state
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.has_answered())
            .map(|(index, member)| (RankKey::of(member, index, state, &ballots), index))
            .collect();
        ranked.sort_by(|(a, _), (b, _)| b.cmp(a));
        let tie_break = match ranked.as_slice() {
            [(first, _), (second, _), ..] => first.tie_break_reason(second),
            _ => None,
        };
        Self { ranking: ranked.into_iter().map(|(_, index)| index).collect(), votes, ballots, tie_break }
    }
}

/// The sort key of a candidate: fields are compared in this order, larger first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RankKey {
    votes: usize,
    from_others: usize,
    /// If nobody voted, the index of the candidate's newest answer plus one; otherwise 0.
    newest: usize,
    tie_break: u64,
}

impl RankKey {
    fn of(member: &MemberState, index: usize, state: &RunState, ballots: &[Ballot]) -> Self {
        let id = &member.agent.id;
        let mine = || ballots.iter().filter(|ballot| ballot.target == *id);
        let newest = if ballots.is_empty() { member.answers.last().map_or(0, |last| last + 1) } else { 0 };
        Self {
            votes: mine().count(),
            from_others: mine().filter(|ballot| ballot.voter != *id).count(),
            newest,
            tie_break: pseudo_random(state.spec.tie_break_seed, index as u64),
        }
    }

    fn tie_break_reason(&self, second: &Self) -> Option<String> {
        if self.newest != second.newest {
            Some("nobody voted: the newest answer wins".into())
        } else if self.votes != second.votes {
            None
        } else if self.from_others != second.from_others {
            Some("a tie, broken by votes from others".into())
        } else {
            Some("a tie, broken at random".into())
        }
    }
}
