//! Explains in one line of plain words how an election was decided.

use super::{Count, Election, Rule, TieBreak, same_form};
use althing_protocol::{AgentId, DecisionRule};
use althing_text::{count as counted, sanitize, truncate_chars};
use std::fmt::Write;

const MAX_LISTED: usize = 8;

const MAX_CONCLUSION: usize = 80;

impl TieBreak {
    /// How the tie was broken, in words.
    pub fn words(self, election: &Election) -> &'static str {
        match self {
            Self::Pairwise => "a tie, broken by direct comparison",
            Self::FromOthers => "a tie, broken by votes from others",
            Self::Newest if election.anybody_voted => "no vote is valid: the newest answer wins",
            Self::Newest => "nobody voted: the newest answer wins",
            Self::Random => "a tie, broken at random",
        }
    }
}

pub(super) fn explain(election: &Election, rule: Rule, count: &Count) -> String {
    let name = |at: &usize| election.candidates.get(*at).map(|candidate| &candidate.agent);
    let names: Vec<&AgentId> = count.ranking.iter().filter_map(name).collect();
    let Some((winner, others)) = names.split_first() else { return "no agent gave an answer".into() };
    if others.is_empty() {
        return format!("{winner} gave the only answer");
    }
    if count.report.points.is_empty() {
        let why = if election.anybody_voted {
            "no vote is valid, because newer answers came after the votes"
        } else {
            "nobody voted"
        };
        return format!("{why}; the newest answer, by {winner}, wins");
    }
    let points = |agent: &AgentId| count.report.points.get(agent).copied().unwrap_or_default();
    let list: Vec<String> =
        others.iter().take(MAX_LISTED).map(|other| format!("{other} {}", points(other))).collect();
    let more = others.len().saturating_sub(MAX_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let list = format!("{}{more}", list.join(", "));
    let ballots: u32 = count.votes.values().sum();
    let mut text = match rule.method {
        DecisionRule::Borda => {
            format!("{winner} wins by Borda count with {} (others: {list})", counted_points(points(winner)))
        }
        DecisionRule::Plurality => {
            format!("{winner} wins by plurality with {} of {ballots} votes (others: {list})", points(winner))
        }
    };
    let row = count.report.pairwise.get(*winner);
    if let Some(row) = row.filter(|_| rule.method == DecisionRule::Borda) {
        let above = |other: &&AgentId| format!("{other} by {}", row.get(*other).copied().unwrap_or_default());
        let duels: Vec<String> = others.iter().take(MAX_LISTED).map(above).collect();
        let ballots = counted(u64::from(ballots), "ballot");
        let _ = write!(text, "; of {ballots}, it is ranked above {}", duels.join(", "));
    }
    if let Some(same) = concluding_alike(election, rule, winner) {
        let _ = write!(text, "; {same} concluded the same, so a ballot for one counts for all of them");
    }
    if let Some(tie_break) = count.tie_break {
        let _ = write!(text, "; {}", tie_break.words(election));
    }
    text
}

pub(super) fn unanimous(election: &Election, count: &Count) -> String {
    let winner = count.winner(election).map_or("", AgentId::as_str);
    let conclusion = election.candidates.first().and_then(|first| first.conclusion.as_deref());
    let quoted = truncate_chars(&sanitize::line(conclusion.unwrap_or_default()), MAX_CONCLUSION);
    let agents = election.candidates.len();
    let votes = if election.anybody_voted { "votes were not counted" } else { "nobody voted" };
    format!("all {agents} agents concluded the same (\"{quoted}\"), so {votes}; {winner} was drawn at random")
}

fn counted_points(points: u32) -> String {
    counted(u64::from(points), "point")
}

/// The agents that reached the winner's conclusion, including the winner; None if there are no others, or if
/// conclusions are not merged.
fn concluding_alike(election: &Election, rule: Rule, winner: &AgentId) -> Option<String> {
    let form = |of: &super::Contender| of.conclusion.as_deref().and_then(same_form);
    let wins = election.candidates.iter().find(|candidate| candidate.agent == *winner).and_then(form)?;
    let alike: Vec<&str> = election
        .candidates
        .iter()
        .filter(|candidate| form(candidate).as_ref() == Some(&wins))
        .map(|candidate| candidate.agent.as_str())
        .collect();
    (rule.merge_conclusions && alike.len() > 1).then(|| alike.join(", "))
}
