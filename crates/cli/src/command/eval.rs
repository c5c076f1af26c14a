//! `althing eval`: teams answer tasks with known solutions; prints how teams and rules compare.

use crate::args::Options;
use crate::exit::Exit;
use crate::show::{self, print, print_json};
use crate::stop::{self, StopRequest};
use althing_app::eval::stats::{Comparison, Share, tasks_needed};
use althing_app::eval::{
    Eval, EvalProgress, EvalReport, EvalRequest, EvalStop, NamedRule, RuleRow, TeamReport,
};
use althing_app::{AppContext, Failure, session};
use althing_text::{count, short_number};
use althing_view::report::{self, Block};
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Table,
    Json,
    Csv,
}

impl Form {
    pub fn of(options: &Options, csv: bool) -> Self {
        if options.json {
            Self::Json
        } else if csv {
            Self::Csv
        } else {
            Self::Table
        }
    }
}

pub fn run(
    request: &EvalRequest,
    rules: &[NamedRule],
    form: Form,
    app: &AppContext,
) -> Result<Exit, Failure> {
    let runtime = session::runtime()?;
    let mut signals = stop::signals(&runtime)?;
    let eval = Eval::prepare(request, app)?;
    show::notice(&format!("evaluation {}; the same command continues it if it is interrupted", eval.id));
    let on_progress = |progress: EvalProgress| show::notice(&progress_line(progress));
    let asked = async {
        if let StopRequest::Stop(name) = signals.next_request().await {
            show::notice(&format!("{name}: stopping …"));
        }
    };
    let (report, stopped) = runtime.block_on(eval.run(asked, &on_progress, rules))?;
    match form {
        Form::Table => print(report::plain(&blocks(&report)).trim_end_matches('\n')),
        Form::Json => print_json(&as_json(&report).to_string()),
        Form::Csv => print(csv(&report).trim_end_matches('\n')),
    }
    let done: u64 = report.teams.iter().map(|team| team.runs).sum();
    let so_far = format!("{done} of {} ended", count(report.runs as u64, "run"));
    Ok(match stopped {
        None => Exit::Answered,
        Some(EvalStop::Cost) => {
            show::notice(&format!(
                "the limit on the cost was reached: {so_far}; a higher --max-cost continues the evaluation"
            ));
            Exit::Limit
        }
        Some(EvalStop::Asked) => {
            show::notice(&format!("stopped: {so_far}; the same command continues the evaluation"));
            Exit::Interrupted
        }
    })
}

fn progress_line(EvalProgress { done, total, cost_usd, left }: EvalProgress) -> String {
    let cost = if cost_usd > 0.0 { format!(" · ${cost_usd:.4}") } else { String::new() };
    let left = left
        .filter(|_| done < total)
        .map(|left| format!(" · about {} left", duration(left)))
        .unwrap_or_default();
    format!("{done} of {total} runs{cost}{left}")
}

fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=89 => format!("{seconds} s"),
        seconds @ 90..=5399 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

fn percent(value: f64) -> String {
    format!("{:.1} %", 100.0 * value)
}

fn interval(share: Option<Share>) -> String {
    share.map_or_else(|| "–".into(), |share| format!("{:.0}–{:.0} %", 100.0 * share.low, 100.0 * share.high))
}

fn value(share: Option<Share>) -> String {
    share.map_or_else(|| "–".into(), |share| percent(share.value))
}

fn blocks(report: &EvalReport) -> Vec<Block> {
    let rows = report.teams.iter().flat_map(|team| team.rows.iter().map(|row| rule_row(team, row))).collect();
    let head = vec!["team", "rule", "right", "95 %", "$ per right", "selection loss", "ties", "vs first row"];
    let teams = report.teams.iter().map(team_row).collect();
    let team_head = vec![
        "team",
        "runs",
        "calls",
        "tokens",
        "cost",
        "best agent alone",
        "somebody right",
        "no vote needed",
        "votes for oneself",
    ];
    let mut blocks = vec![Block::Table { head, rows }, Block::Table { head: team_head, rows: teams }];
    blocks.push(Block::List(explanation(report)));
    blocks
}

fn rule_row(team: &TeamReport, row: &RuleRow) -> Vec<String> {
    let loss = team.somebody.zip(row.right).map(|(some, right)| percent((some.value - right.value).max(0.0)));
    let per_right = match row.cost_per_right(&team.usage) {
        Some(cost) => format!("{cost:.4}"),
        None if team.usage.unpriced_calls > 0 => "unknown".into(),
        None => "–".into(),
    };
    vec![
        team.name.clone(),
        row.rule.to_owned(),
        format!("{} ({} of {})", value(row.right), row.right_count, team.runs),
        interval(row.right),
        per_right,
        loss.unwrap_or_else(|| "–".into()),
        row.ties.map_or_else(|| "–".into(), percent),
        row.compared.map_or_else(|| "–".into(), compared),
    ]
}

fn compared(comparison: Comparison) -> String {
    let (worse, better) = (comparison.only_first, comparison.only_second);
    if worse + better == 0 {
        return "the same".into();
    }
    format!("+{better} −{worse}, p = {:.3}", comparison.p_value())
}

fn team_row(team: &TeamReport) -> Vec<String> {
    let usage = &team.usage;
    let cost = match usage.unpriced_calls {
        0 => format!("${:.4}", usage.cost_usd),
        unpriced if unpriced == usage.calls => "unknown".into(),
        unpriced => format!("${:.4} and {} of unknown cost", usage.cost_usd, count(unpriced, "call")),
    };
    let best = team.best_member.as_ref();
    vec![
        team.name.clone(),
        team.runs.to_string(),
        usage.calls.to_string(),
        short_number(usage.input_tokens.saturating_add(usage.output_tokens)),
        cost,
        best.map_or_else(|| "–".into(), |(agent, share)| format!("{agent} {}", percent(share.value))),
        value(team.somebody),
        team.unanimous.to_string(),
        team.own_votes.map_or_else(|| "–".into(), percent),
    ]
}

fn explanation(report: &EvalReport) -> Vec<String> {
    let rows = report.teams.iter().flat_map(|team| &team.rows);
    let closest = rows.filter_map(|row| row.compared?.tasks_needed()).min();
    let further = match closest {
        Some(needed) => format!(
            "With {}, a small difference can be chance. The clearest difference above could be confirmed with about {}.",
            count(report.tasks as u64, "task"),
            count(needed, "task")
        ),
        None => format!(
            "There is no difference between the rows. To show that one row is right 2 percentage points more often \
             than another, if exactly one of the two is right in 8 % of the tasks, takes about {}.",
            count(tasks_needed(0.08, 0.02), "task")
        ),
    };
    vec![
        "`presented`: the final answers. Other rows: the winner's own answer if the recorded votes are counted by that rule."
            .into(),
        "Selection loss: some agent was right, but another one won.".into(),
        "`vs first row`: tasks that only this row (+) or only the first row (−) got right, and the probability of such a \
         difference by chance (McNemar's exact test)."
            .into(),
        further,
    ]
}

fn share_json(share: Option<Share>) -> Value {
    share.map_or(Value::Null, |share| json!({"share": share.value, "low": share.low, "high": share.high}))
}

fn as_json(report: &EvalReport) -> Value {
    let row = |team: &TeamReport, row: &RuleRow| {
        json!({
            "rule": row.rule,
            "right": share_json(row.right),
            "right_count": row.right_count,
            "cost_per_right_usd": row.cost_per_right(&team.usage),
            "selection_loss": team.somebody.zip(row.right).map(|(some, right)| some.value - right.value),
            "ties": row.ties,
            "compared_with_first_row": row.compared.map(|compared| json!({
                "only_first_right": compared.only_first,
                "only_this_right": compared.only_second,
                "pairs": compared.pairs,
                "p": compared.p_value(),
                "tasks_needed": compared.tasks_needed(),
            })),
        })
    };
    let team = |team: &TeamReport| {
        let cells = team.cells.iter().map(|cell| {
            let rules = cell.right.iter().zip(&team.rows);
            let rules: Vec<Value> = rules
                .map(|((winner, right), row)| json!({"rule": row.rule, "winner": winner, "right": right}))
                .collect();
            json!({"task": cell.task, "repeat": cell.repeat, "session": cell.session, "rules": rules})
        });
        json!({
            "team": team.name,
            "runs": team.runs,
            "runs_without_answer": team.without_answer,
            "runs_without_vote": team.unanimous,
            "usage": team.usage,
            "best_member": team.best_member.as_ref().map(|(agent, share)| json!({"agent": agent, "right": share_json(Some(*share))})),
            "somebody_right": share_json(team.somebody),
            "own_votes": team.own_votes,
            "rows": team.rows.iter().map(|one| row(team, one)).collect::<Vec<_>>(),
            "runs_in_detail": cells.collect::<Vec<_>>(),
        })
    };
    let teams: Vec<Value> = report.teams.iter().map(team).collect();
    json!({"eval": report.id, "tasks": report.tasks, "runs": report.runs, "teams": teams})
}

fn csv(report: &EvalReport) -> String {
    let mut text = String::from("team,task,repeat,session,rule,winner,right\n");
    for team in &report.teams {
        for cell in &team.cells {
            for ((winner, right), row) in cell.right.iter().zip(&team.rows) {
                let winner = winner.as_ref().map_or("", |winner| winner.as_str());
                let fields = [
                    field(&team.name),
                    field(&cell.task),
                    cell.repeat.to_string(),
                    cell.session.to_string(),
                    row.rule.to_owned(),
                    field(winner),
                    right.to_string(),
                ];
                text.push_str(&fields.join(","));
                text.push('\n');
            }
        }
    }
    text
}

fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
