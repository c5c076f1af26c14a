//! Counts the votes (ballots) of a run, without favoring agents that come earlier in the config. Pure, so that recorded
//! ballots can be counted again under any rule.

mod conclusion;
mod explain;
#[cfg(test)]
mod tests;

pub use conclusion::same_form;

use althing_protocol::{AgentId, Ballot, DecidedBy, DecisionReport, DecisionRule};
use althing_text::pseudo_random;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

/// With more candidates than this, the report contains no pairwise table.
const MAX_TABLE: usize = 16;

/// Who can win, and who voted how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// The agents with an answer.
    pub candidates: Vec<Contender>,
    /// The number of the run's agents, with and without an answer.
    pub agents: usize,
    /// The ballots. Choices that are not candidates are ignored.
    pub ballots: Vec<Ballot>,
    /// Whether an agent voted since the run's start or its last restart, even if no vote is valid now.
    pub anybody_voted: bool,
    /// The run's seed for breaking ties.
    pub seed: u64,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The agent.
    pub agent: AgentId,
    /// The agent's position among all members of the run, counted from 0.
    pub member_index: usize,
    /// The conclusion of the agent's newest answer, if conclusions may be compared.
    pub conclusion: Option<String>,
    /// The revision of the agent's newest answer. If nobody voted, the newest answer wins.
    pub newest: u32,
}

/// How to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// How many points a ballot gives.
    pub method: DecisionRule,
    /// Whether candidates with the same conclusion are counted as one.
    pub merge_conclusions: bool,
    /// Whether the seed draws the winner, without counting, if all conclusions are equal.
    pub unanimity: bool,
}

impl Rule {
    /// The rule of 0.1.
    pub const PLURALITY: Self =
        Self { method: DecisionRule::Plurality, merge_conclusions: false, unanimity: false };
}

/// How the first place was decided, if not by points alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieBreak {
    /// By comparing the tied candidates with each other.
    Pairwise,
    /// By the points from other agents' ballots.
    FromOthers,
    /// Nobody voted: by the newest answer.
    Newest,
    /// At random, from the seed.
    Random,
}

/// The outcome of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The candidates, as indexes into [`Election::candidates`], best first.
    pub ranking: Vec<usize>,
    /// The number of first choices of each agent that has any. Empty after a unanimous decision.
    pub votes: BTreeMap<AgentId, u32>,
    /// How a tie for the first place was broken; None if points decided, and after a unanimous decision.
    pub tie_break: Option<TieBreak>,
    /// What decided, with points, pairwise table and an explanation.
    pub report: DecisionReport,
}

impl Count {
    /// The winner; None without candidates.
    pub fn winner<'a>(&self, election: &'a Election) -> Option<&'a AgentId> {
        Some(&election.candidates.get(*self.ranking.first()?)?.agent)
    }
}

/// Counts the ballots.
///
/// Borda: on each ballot, a candidate gets a point for each candidate that the ballot ranks lower or does not rank.
/// Plurality: only the first choice gets a point. If conclusions are merged, candidates with the same conclusion are
/// counted as one, at the place of the best-ranked of them; among those with the winning conclusion, their own points
/// decide. A tie goes to the candidate with the most direct comparisons won, minus those lost, against the others of
/// the tie (Borda only), then to the one with more points from others, and at last to a pseudo-random number from the
/// seed, which is fair across runs and the same on every replay. If nobody voted, the newest answer wins, because its
/// author knew the most. With [`Rule::unanimity`], if all agents gave equal conclusions, nothing is counted and the
/// seed draws the winner.
pub fn count(election: &Election, rule: Rule) -> Count {
    if rule.unanimity && election.agrees() {
        return unanimous(election);
    }
    let singles = Field::singles(election, rule.method);
    let parties = singles.merged(election.parties(rule.merge_conclusions));
    let mut ranking = Vec::new();
    let mut points = BTreeMap::new();
    let mut tie_break = None;
    let ranked = parties.ranked(&parties.all());
    for (nth, (party, standing)) in ranked.iter().enumerate() {
        let members = singles.ranked(parties.members(*party));
        if nth == 0 {
            tie_break = first_tie_break(&members).or_else(|| first_tie_break(&ranked));
        }
        ranking.extend(members.iter().map(|(member, _)| *member));
        let names = members.iter().filter_map(|(member, _)| election.candidates.get(*member));
        points.extend(names.map(|candidate| (candidate.agent.clone(), standing.points)));
    }
    let any = !singles.sheets.is_empty();
    let decided_by = match rule.method {
        _ if election.candidates.len() == 1 => DecidedBy::OnlyCandidate,
        DecisionRule::Borda => DecidedBy::Borda,
        DecisionRule::Plurality => DecidedBy::Plurality,
    };
    let mut count = Count {
        ranking,
        votes: singles.first_choices(),
        tie_break,
        report: DecisionReport {
            rule: decided_by,
            points: if any { points } else { BTreeMap::new() },
            pairwise: if any { singles.pairwise() } else { BTreeMap::new() },
            explanation: String::new(),
        },
    };
    count.report.explanation = explain::explain(election, rule, &count);
    count
}

/// Whether the ballots of `outstanding` more voters cannot change who wins, provided that no candidate is added and no
/// conclusion changes.
pub fn is_decided(election: &Election, rule: Rule, outstanding: usize) -> bool {
    let leads = |field: &Field<'_>, among: &[usize]| {
        let most = match rule.method {
            DecisionRule::Borda => field.parties.len().saturating_sub(1),
            DecisionRule::Plurality => 1,
        };
        let change = u32::try_from(outstanding.saturating_mul(most)).unwrap_or(u32::MAX);
        match field.ranked(among).as_slice() {
            [] => None,
            [(first, _)] => Some(*first),
            [(first, leader), (_, second), ..] => {
                (leader.points.saturating_sub(second.points) > change).then_some(*first)
            }
        }
    };
    let singles = Field::singles(election, rule.method);
    let parties = singles.merged(election.parties(rule.merge_conclusions));
    let party = leads(&parties, &parties.all()).filter(|_| !singles.sheets.is_empty());
    party.is_some_and(|party| leads(&singles, parties.members(party)).is_some())
}

fn unanimous(election: &Election) -> Count {
    let draw = |at: &usize| election.candidates.get(*at).map(|candidate| election.draw(candidate));
    let mut ranking: Vec<usize> = (0..election.candidates.len()).collect();
    ranking.sort_by_key(|at| Reverse(draw(at)));
    let mut count = Count {
        ranking,
        votes: BTreeMap::new(),
        tie_break: None,
        report: DecisionReport {
            rule: DecidedBy::Unanimous,
            points: BTreeMap::new(),
            pairwise: BTreeMap::new(),
            explanation: String::new(),
        },
    };
    count.report.explanation = explain::unanimous(election, &count);
    count
}

impl Election {
    /// Whether there are at least two agents, all gave a conclusion, and all conclusions are equal. An agent without an
    /// answer, for example because its provider failed, has not agreed.
    pub fn agrees(&self) -> bool {
        let mut forms = self.candidates.iter().map(|one| one.conclusion.as_deref().and_then(same_form));
        let Some(Some(first)) = forms.next() else { return false };
        self.agents > 1
            && self.candidates.len() == self.agents
            && forms.all(|form| form.as_ref() == Some(&first))
    }

    /// The candidates, grouped by conclusion with `merge`. If all conclusions are equal, merging would leave nothing to
    /// count, so each candidate stands alone.
    fn parties(&self, merge: bool) -> Vec<Vec<usize>> {
        let mut parties: Vec<(Option<String>, Vec<usize>)> = Vec::new();
        for (at, candidate) in self.candidates.iter().enumerate() {
            let form = candidate.conclusion.as_deref().filter(|_| merge).and_then(same_form);
            match parties.iter_mut().find(|(known, _)| form.is_some() && *known == form) {
                Some((_, party)) => party.push(at),
                None => parties.push((form, vec![at])),
            }
        }
        if parties.len() == 1 {
            return (0..self.candidates.len()).map(|at| vec![at]).collect();
        }
        parties.into_iter().map(|(_, party)| party).collect()
    }

    fn draw(&self, candidate: &Contender) -> u64 {
        pseudo_random(self.seed, candidate.member_index as u64)
    }
}

/// The place of each party on a ballot: 0 is the first; None if the ballot does not rank the party.
struct Sheet<'a> {
    voter: &'a AgentId,
    places: Vec<Option<usize>>,
}

impl Sheet<'_> {
    fn place(&self, party: usize) -> Option<usize> {
        *self.places.get(party)?
    }

    fn prefers(&self, one: usize, other: usize) -> bool {
        let rank = |party| self.place(party).unwrap_or(usize::MAX);
        rank(one) < rank(other)
    }
}

/// Fields are compared in this order, larger first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    points: u32,
    /// Direct comparisons won, minus those lost, with others that have the same points.
    duels: i64,
    from_others: u32,
    /// If nobody voted, the revision of the party's newest answer; otherwise 0, so that it decides nothing.
    newest: u32,
    draw: u64,
}

impl Standing {
    /// What decides between two neighbors in the ranking; None if their points differ.
    fn tie_break(&self, second: &Self) -> Option<TieBreak> {
        if self.points != second.points {
            None
        } else if self.duels != second.duels {
            Some(TieBreak::Pairwise)
        } else if self.from_others != second.from_others {
            Some(TieBreak::FromOthers)
        } else if self.newest != second.newest {
            Some(TieBreak::Newest)
        } else {
            Some(TieBreak::Random)
        }
    }
}

fn first_tie_break(ranked: &[(usize, Standing)]) -> Option<TieBreak> {
    match ranked {
        [(_, first), (_, second), ..] => first.tie_break(second),
        _ => None,
    }
}

/// A party is one candidate, or all candidates with the same conclusion.
struct Field<'a> {
    election: &'a Election,
    method: DecisionRule,
    parties: Vec<Vec<usize>>,
    sheets: Vec<Sheet<'a>>,
}

impl<'a> Field<'a> {
    fn singles(election: &'a Election, method: DecisionRule) -> Self {
        let index: BTreeMap<&AgentId, usize> =
            election.candidates.iter().enumerate().map(|(at, candidate)| (&candidate.agent, at)).collect();
        let count = election.candidates.len();
        let sheet = |ballot: &'a Ballot| {
            let known = ballot.choices().iter().filter_map(|agent| index.get(agent).copied());
            sheet(&ballot.voter, known, count)
        };
        let sheets = election.ballots.iter().map(sheet).filter(|sheet| sheet.places.contains(&Some(0)));
        let sheets = sheets.collect();
        Self { election, method, parties: (0..count).map(|at| vec![at]).collect(), sheets }
    }

    /// The same ballots for parties: the place of a party is that of its best-ranked candidate.
    fn merged(&self, parties: Vec<Vec<usize>>) -> Self {
        let sheets = self.sheets.iter().map(|single| {
            let best =
                |party: &Vec<usize>| party.iter().filter_map(|candidate| single.place(*candidate)).min();
            let ranked = parties.iter().enumerate().filter_map(|(at, party)| Some((best(party)?, at)));
            let mut ranked: Vec<(usize, usize)> = ranked.collect();
            ranked.sort_unstable();
            sheet(single.voter, ranked.into_iter().map(|(_, party)| party), parties.len())
        });
        Self { sheets: sheets.collect(), election: self.election, method: self.method, parties }
    }

    fn all(&self) -> Vec<usize> {
        (0..self.parties.len()).collect()
    }

    fn members(&self, party: usize) -> &[usize] {
        self.parties.get(party).map_or(&[], Vec::as_slice)
    }

    fn points(&self, place: Option<usize>) -> u32 {
        match (self.method, place) {
            (_, None) => 0,
            (DecisionRule::Borda, Some(place)) => self.parties.len().saturating_sub(1 + place) as u32,
            (DecisionRule::Plurality, Some(place)) => u32::from(place == 0),
        }
    }

    fn standing(&self, party: usize) -> Standing {
        let candidate = |at: &usize| self.election.candidates.get(*at);
        let members = || self.members(party).iter().filter_map(candidate);
        let mut standing = Standing {
            points: 0,
            duels: 0,
            from_others: 0,
            newest: 0,
            draw: members().map(|member| self.election.draw(member)).max().unwrap_or_default(),
        };
        if self.sheets.is_empty() {
            standing.newest = members().map(|member| member.newest).max().unwrap_or_default();
        }
        for sheet in &self.sheets {
            let points = self.points(sheet.place(party));
            standing.points += points;
            if !members().any(|member| member.agent == *sheet.voter) {
                standing.from_others += points;
            }
        }
        standing
    }

    /// These parties, best first.
    fn ranked(&self, among: &[usize]) -> Vec<(usize, Standing)> {
        let mut ranked: Vec<(usize, Standing)> =
            among.iter().map(|party| (*party, self.standing(*party))).collect();
        if self.method == DecisionRule::Borda {
            let duels: Vec<i64> = ranked
                .iter()
                .map(|(one, standing)| {
                    let tied = ranked
                        .iter()
                        .filter(|(other, theirs)| theirs.points == standing.points && other != one);
                    tied.map(|(other, _)| self.duel(*one, *other)).sum()
                })
                .collect();
            ranked.iter_mut().zip(duels).for_each(|((_, standing), duels)| standing.duels = duels);
        }
        ranked.sort_by(|(_, one), (_, other)| other.cmp(one));
        ranked
    }

    /// 1 if more ballots prefer `one` to `other` than the reverse, -1 if fewer, else 0.
    fn duel(&self, one: usize, other: usize) -> i64 {
        let prefer = |one, other| self.sheets.iter().filter(|sheet| sheet.prefers(one, other)).count();
        match prefer(one, other).cmp(&prefer(other, one)) {
            Ordering::Greater => 1,
            Ordering::Less => -1,
            Ordering::Equal => 0,
        }
    }

    fn first_choices(&self) -> BTreeMap<AgentId, u32> {
        let mut votes = BTreeMap::new();
        for sheet in &self.sheets {
            let first = sheet.places.iter().position(|place| *place == Some(0));
            if let Some(first) = first.and_then(|first| self.election.candidates.get(first)) {
                *votes.entry(first.agent.clone()).or_default() += 1;
            }
        }
        votes
    }

    fn pairwise(&self) -> BTreeMap<AgentId, BTreeMap<AgentId, u32>> {
        let candidates = &self.election.candidates;
        let mut table: BTreeMap<AgentId, BTreeMap<AgentId, u32>> = BTreeMap::new();
        if candidates.len() < 2 || candidates.len() > MAX_TABLE {
            return table;
        }
        for (one, name) in candidates.iter().enumerate() {
            let row = table.entry(name.agent.clone()).or_default();
            for (other, second) in candidates.iter().enumerate() {
                let times = self.sheets.iter().filter(|sheet| sheet.prefers(one, other)).count();
                if times > 0 {
                    row.insert(second.agent.clone(), times as u32);
                }
            }
        }
        table
    }
}

/// `ranked` lists parties, best first. Of a party that is named twice, the first place counts.
fn sheet(voter: &AgentId, ranked: impl Iterator<Item = usize>, count: usize) -> Sheet<'_> {
    let mut places = vec![None; count];
    let mut next = 0;
    for party in ranked {
        if let Some(place) = places.get_mut(party).filter(|place| place.is_none()) {
            *place = Some(next);
            next += 1;
        }
    }
    Sheet { voter, places }
}
