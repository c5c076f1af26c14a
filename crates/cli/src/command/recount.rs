//! `althing recount`: who would have won if the recorded votes had been counted by other rules.

use super::sessions::{SessionName, find};
use crate::exit::Exit;
use crate::show::{print, print_json};
use althing_app::eval::{NamedRule, RunOutcome};
use althing_app::resume::existing_store;
use althing_app::{AppContext, Failure};
use althing_protocol::{Seq, TaskId};
use serde_json::{Value, json};

pub fn run(runs: &[String], rules: &[NamedRule], as_json: bool, app: &AppContext) -> Result<Exit, Failure> {
    let store = existing_store(app)?;
    let mut reports = Vec::new();
    for name in runs {
        let SessionName { session, task } = find(name, &*store)?;
        let events = store.read(&session, Seq(0)).map_err(Failure::stored)?.events;
        let task = task.map_or_else(|| TaskId::run(1), |task| TaskId::from(task.as_str()));
        let outcome = RunOutcome::of(&session, &task, &events).ok_or_else(|| {
            Failure::usage(format!("session {session} has no run {task}"))
                .hint(format!("`althing sessions show {session}` lists its runs"))
        })?;
        let summary = outcome.result.as_ref().map(|result| &result.coordination_summary);
        let recorded = summary.and_then(|summary| summary.winner.clone());
        if outcome.election.candidates.is_empty() {
            return Err(Failure::usage(format!("{session}.{task} has no answers to vote on")));
        }
        let mut lines = vec![format!(
            "{session}.{task}: {} won{}",
            recorded.as_ref().map_or("nobody", |winner| winner.as_str()),
            if outcome.election.ballots.is_empty() { "; no votes were recorded" } else { "" }
        )];
        let mut counted = Vec::new();
        for rule in rules {
            let count = outcome.count(rule.rule);
            let winner = count.winner(&outcome.election).cloned();
            let change = if winner == recorded { "the same" } else { "another winner" };
            lines.push(format!("  {}: {} ({change})", rule.name, count.report.explanation));
            counted.push(json!({
                "rule": rule.name,
                "winner": winner,
                "votes": count.votes,
                "decision": count.report,
                "changed": winner != recorded,
            }));
        }
        if !as_json {
            print(&lines.join("\n"));
        }
        reports.push(json!({"run": format!("{session}.{task}"), "winner": recorded, "rules": counted}));
    }
    if as_json {
        print_json(&Value::Array(reports).to_string());
    }
    Ok(Exit::Answered)
}
