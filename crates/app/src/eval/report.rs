//! The report of an evaluation: each team under each rule.

use super::Eval;
use super::checks::{CheckedAnswer, is_right};
use super::command_check::CommandChecks;
use super::outcome::{NamedRule, RunOutcome};
use super::record::Cell;
use super::stats::{Comparison, Share, share};
use super::tasks::{Check, EvalTask};
use crate::failure::Failure;
use althing_protocol::{AgentId, Answer, SessionId, Usage};
use std::collections::BTreeMap;

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct EvalReport {
    /// The id of the evaluation.
    pub id: String,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of all runs, whether they are over or not.
    pub runs: usize,
    /// The teams in the order of the command line.
    pub teams: Vec<TeamReport>,
}

/// The result of one team.
#[derive(Clone, Debug)]
pub struct TeamReport {
    /// The name of the team.
    pub name: String,
    /// The number of runs that are over.
    pub runs: u64,
    /// The number of runs that are over and gave no answer.
    pub without_answer: u64,
    /// The number of runs decided without a vote, because all conclusions were equal.
    pub unanimous: u64,
    /// What all runs used.
    pub usage: Usage,
    /// The agent whose first answers were right most often, and in which share of the runs.
    pub best_member: Option<(AgentId, Share)>,
    /// The share of runs in which some agent's newest answer was right.
    pub somebody: Option<Share>,
    /// The share of ballots whose first choice was the voter itself; None without ballots.
    pub own_votes: Option<f64>,
    /// The first row is for the presented final answers; the others are for the winner's own answer under each rule.
    pub rows: Vec<RuleRow>,
    /// The runs that are over.
    pub cells: Vec<CellReport>,
}

/// How often a team was right under one rule.
#[derive(Clone, Debug)]
pub struct RuleRow {
    /// The name of the rule, or `presented` for the presented final answers.
    pub rule: &'static str,
    /// The share of right answers.
    pub right: Option<Share>,
    /// The number of right answers.
    pub right_count: u64,
    /// The share of votes with a tie for the first place; None without a vote.
    pub ties: Option<f64>,
    /// The comparison with the first row of the first team, on the runs that both have finished.
    pub compared: Option<Comparison>,
}

/// One finished run of a team.
#[derive(Clone, Debug)]
pub struct CellReport {
    /// The id of the task.
    pub task: String,
    /// The number of the repetition, counted from 1.
    pub repeat: u32,
    /// The session of the run.
    pub session: SessionId,
    /// The winner and whether the answer was right, in the order of [`TeamReport::rows`].
    pub right: Vec<(Option<AgentId>, bool)>,
}

impl RuleRow {
    /// The cost per right answer in US dollars; `None` if no answer was right, or if a call has no known price.
    pub fn cost_per_right(&self, usage: &Usage) -> Option<f64> {
        (self.right_count > 0 && usage.unpriced_calls == 0).then(|| usage.cost_usd / self.right_count as f64)
    }
}

const PRESENTED: &str = "presented";

impl Eval {
    pub(super) async fn report(
        &self,
        outcomes: &BTreeMap<Cell, (SessionId, RunOutcome)>,
        rules: &[NamedRule],
        commands: Option<&CommandChecks>,
    ) -> Result<EvalReport, Failure> {
        let mut teams = Vec::new();
        for (index, team) in self.teams.iter().enumerate() {
            let mut sum = TeamSum::new(team.name.clone(), rules);
            for (cell, (session, outcome)) in outcomes.iter().filter(|(cell, _)| cell.team == index) {
                let Some(task) = self.task(&cell.task) else { continue };
                let mut judge = Judge { task, commands, known: BTreeMap::new() };
                sum.add(cell, session, outcome, rules, &mut judge).await?;
            }
            teams.push(sum.finish());
        }
        compare(&mut teams);
        Ok(EvalReport { id: self.id.clone(), tasks: self.tasks.len(), runs: self.cells.len(), teams })
    }
}

/// An answer that several agents gave is checked once per run.
struct Judge<'a> {
    task: &'a EvalTask,
    commands: Option<&'a CommandChecks>,
    known: BTreeMap<(String, Option<String>), bool>,
}

impl Judge<'_> {
    async fn is_right(&mut self, answer: CheckedAnswer<'_>) -> Result<bool, Failure> {
        let key = (answer.text.to_owned(), answer.conclusion.map(str::to_owned));
        if let Some(right) = self.known.get(&key) {
            return Ok(*right);
        }
        let right = match (is_right(&self.task.check, answer), &self.task.check, self.commands) {
            (Some(right), ..) => right,
            (None, Check::Command { command, timeout }, Some(commands)) => {
                commands.is_right((self.task, command, *timeout), answer).await?
            }
            (None, ..) => false,
        };
        self.known.insert(key, right);
        Ok(right)
    }
}

fn checked(answer: &Answer) -> CheckedAnswer<'_> {
    CheckedAnswer { text: &answer.content, conclusion: answer.conclusion.as_deref() }
}

struct TeamSum {
    report: TeamReport,
    right: Vec<u64>,
    ties: Vec<u64>,
    votes: u64,
    ballots: u64,
    own: u64,
    somebody: u64,
    members: BTreeMap<AgentId, (u64, u64)>,
}

impl TeamSum {
    fn new(name: String, rules: &[NamedRule]) -> Self {
        let row = |rule| RuleRow { rule, right: None, right_count: 0, ties: None, compared: None };
        let rows: Vec<RuleRow> =
            std::iter::once(PRESENTED).chain(rules.iter().map(|rule| rule.name)).map(row).collect();
        let report = TeamReport {
            name,
            runs: 0,
            without_answer: 0,
            unanimous: 0,
            usage: Usage::default(),
            best_member: None,
            somebody: None,
            own_votes: None,
            rows,
            cells: Vec::new(),
        };
        let rows = report.rows.len();
        Self {
            report,
            right: vec![0; rows],
            ties: vec![0; rows],
            votes: 0,
            ballots: 0,
            own: 0,
            somebody: 0,
            members: BTreeMap::new(),
        }
    }

    async fn add(
        &mut self,
        cell: &Cell,
        session: &SessionId,
        outcome: &RunOutcome,
        rules: &[NamedRule],
        judge: &mut Judge<'_>,
    ) -> Result<(), Failure> {
        let report = &mut self.report;
        report.runs += 1;
        report.usage += outcome.usage;
        let result = outcome.result.as_ref();
        let text = result.and_then(|result| result.final_answer.as_deref()).unwrap_or_default();
        report.without_answer += u64::from(text.is_empty());
        let winner = result.and_then(|result| result.coordination_summary.winner.clone());
        // A presented answer has no conclusion of its own. The winner's conclusion counts for it only if the texts
        // are equal.
        let own = winner.as_ref().and_then(|winner| outcome.newest.get(winner));
        let conclusion =
            own.filter(|answer| answer.content == text).and_then(|answer| answer.conclusion.as_deref());
        let presented = !text.is_empty() && judge.is_right(CheckedAnswer { text, conclusion }).await?;
        let mut right = vec![(winner, presented)];
        for rule in rules {
            let answer = outcome.winner(rule.rule);
            let is_right = match answer {
                Some(answer) => judge.is_right(checked(answer)).await?,
                None => false,
            };
            right.push((answer.map(|answer| answer.agent.clone()), is_right));
        }
        let mut somebody = false;
        for answer in outcome.newest.values() {
            somebody |= judge.is_right(checked(answer)).await?;
        }
        self.somebody += u64::from(somebody);
        for (agent, answer) in &outcome.first {
            let (runs, rights) = self.members.entry(agent.clone()).or_default();
            *runs += 1;
            *rights += u64::from(judge.is_right(checked(answer)).await?);
        }
        for (sum, (_, right)) in self.right.iter_mut().zip(&right) {
            *sum += u64::from(*right);
        }
        let ballots = &outcome.election.ballots;
        self.ballots += ballots.len() as u64;
        self.own += ballots.iter().filter(|ballot| ballot.voter == ballot.target).count() as u64;
        if ballots.is_empty() {
            self.report.unanimous += u64::from(outcome.election.agrees());
        } else {
            self.votes += 1;
            let ties = rules.iter().map(|rule| outcome.count(rule.rule).tie_break.is_some());
            for (sum, tie) in self.ties.iter_mut().skip(1).zip(ties) {
                *sum += u64::from(tie);
            }
        }
        let (task, repeat) = (cell.task.clone(), cell.repeat);
        self.report.cells.push(CellReport { task, repeat, session: session.clone(), right });
        Ok(())
    }

    fn finish(self) -> TeamReport {
        let mut report = self.report;
        let part = |count: u64, all: u64| (all > 0).then(|| count as f64 / all as f64);
        for (row, (right, ties)) in report.rows.iter_mut().zip(self.right.iter().zip(&self.ties)) {
            row.right_count = *right;
            row.right = share(*right, report.runs);
            row.ties = part(*ties, self.votes).filter(|_| row.rule != PRESENTED);
        }
        report.somebody = share(self.somebody, report.runs);
        report.own_votes = part(self.own, self.ballots);
        // An agent that gave no answer in a run was not right in it.
        let best = self.members.into_iter().max_by_key(|(_, (_, right))| *right);
        report.best_member = best.and_then(|(agent, (_, right))| Some((agent, share(right, report.runs)?)));
        report
    }
}

fn compare(teams: &mut [TeamReport]) {
    let Some(first) = teams.first().cloned() else { return };
    let base: BTreeMap<(&str, u32), bool> = first
        .cells
        .iter()
        .filter_map(|cell| Some(((cell.task.as_str(), cell.repeat), cell.right.first()?.1)))
        .collect();
    for (team_index, team) in teams.iter_mut().enumerate() {
        for (row_index, row) in team.rows.iter_mut().enumerate() {
            if (team_index, row_index) == (0, 0) {
                continue;
            }
            let mut compared = Comparison::default();
            for cell in &team.cells {
                let pair = base.get(&(cell.task.as_str(), cell.repeat)).zip(cell.right.get(row_index));
                if let Some((first, (_, second))) = pair {
                    compared.add(*first, *second);
                }
            }
            row.compared = Some(compared);
        }
    }
}
