//! `althing sessions cost`: what was spent, as a table with a small chart, or as JSON.

use crate::args::CostBy;
use crate::exit::Exit;
use crate::show::{self, print, print_json};
use althing_app::{AppContext, Failure, SystemClock, trust};
use althing_journal::MAX_LISTED_LOG;
use althing_protocol::{Clock, Seq, SessionStore, Timestamp};
use althing_text::{count, short_number};
use althing_view::report::{self, Block, CostGroup, Spent, add_costs};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const BAR: f64 = 24.0;

/// Sessions are read from the newest to the oldest. Reading stops after this many sessions in a row that are older than
/// `--since`. One is not enough: the order is that of file times, which may deviate from the recorded times.
const OLDER_IN_A_ROW: usize = 100;

#[derive(Default)]
struct Costs {
    groups: BTreeMap<String, Spent>,
    sessions: u64,
    /// The sessions that could not be read, or only up to a damaged line, with the reason.
    unreadable: Vec<(String, String)>,
}

pub fn run(
    since: Option<Age>,
    by: CostBy,
    as_json: bool,
    store: Option<&dyn SessionStore>,
    app: &AppContext,
) -> Result<Exit, Failure> {
    let now = SystemClock.now();
    let after = since.map_or(Timestamp(0), |age| Timestamp(now.0.saturating_sub(age.0)));
    let group = CostGroup::from(by);
    let costs = match store {
        Some(store) => collect(store, after, group, app)?,
        None => Costs::default(),
    };
    let mut total = Spent::default();
    for spent in costs.groups.values() {
        total += *spent;
    }
    let rows = sorted(costs.groups, group);
    if as_json {
        let row = |(name, spent): &(String, Spent)| {
            let mut row = serde_json::to_value(spent)?;
            if let Value::Object(fields) = &mut row {
                fields.insert(group.name().to_owned(), json!(name));
            }
            Ok(row)
        };
        let json_rows: Result<Vec<Value>, serde_json::Error> = rows.iter().map(row).collect();
        let json_rows =
            json_rows.map_err(|error| Failure::no_answer(format!("the costs cannot be shown: {error}")))?;
        let unreadable: Vec<Value> =
            costs.unreadable.iter().map(|(id, error)| json!({"id": id, "error": error})).collect();
        print_json(
            &json!({
                "since": since.map(|_| after),
                "by": group.name(),
                "rows": json_rows,
                "total": total,
                "sessions": costs.sessions,
                "unreadable": unreadable,
            })
            .to_string(),
        );
        return Ok(Exit::Answered);
    }
    for (id, error) in &costs.unreadable {
        show::notice(&format!("{id} could not be read completely: {error}"));
    }
    if rows.is_empty() {
        print("no model calls");
        return Ok(Exit::Answered);
    }
    print(report::plain(&[table(&rows, &total, group)]).trim_end_matches('\n'));
    let sessions = count(costs.sessions, "session");
    print(&format!("\n{sessions}; {}", in_words(&total)));
    Ok(Exit::Answered)
}

fn collect(
    store: &dyn SessionStore,
    since: Timestamp,
    group: CostGroup,
    app: &AppContext,
) -> Result<Costs, Failure> {
    let (mut costs, mut older) = (Costs::default(), 0);
    for id in store.ids().map_err(Failure::stored)? {
        let summary = match store.summary(&id) {
            Ok(Some(summary)) => summary,
            // The session was deleted meanwhile.
            Ok(None) => continue,
            Err(error) => {
                costs.unreadable.push((id.to_string(), error.message));
                continue;
            }
        };
        if summary.updated_at < since {
            older += 1;
            if older >= OLDER_IN_A_ROW {
                break;
            }
            continue;
        }
        older = 0;
        if summary.size > MAX_LISTED_LOG && !trust::is_own_session(&app.session_dir(&id), app) {
            let why = format!(
                "its log is larger than {} MB, and you did not start this session",
                MAX_LISTED_LOG / 1_000_000
            );
            costs.unreadable.push((id.to_string(), why));
            continue;
        }
        match store.read(&id, Seq(0)) {
            Ok(stored) => {
                costs.sessions += u64::from(add_costs(&stored.events, since, group, &mut costs.groups));
                costs.unreadable.extend(stored.damage.map(|damage| (id.to_string(), damage)));
            }
            Err(error) => costs.unreadable.push((id.to_string(), error.message)),
        }
    }
    Ok(costs)
}

fn sorted(groups: BTreeMap<String, Spent>, group: CostGroup) -> Vec<(String, Spent)> {
    let mut rows: Vec<(String, Spent)> = groups.into_iter().collect();
    if group != CostGroup::Day {
        let key = |spent: &Spent| (spent.cost_usd.unwrap_or_default(), tokens(spent));
        rows.sort_by(|(_, a), (_, b)| {
            let ((a_cost, a_tokens), (b_cost, b_tokens)) = (key(a), key(b));
            b_cost.total_cmp(&a_cost).then(b_tokens.cmp(&a_tokens))
        });
    }
    rows
}

fn tokens(spent: &Spent) -> u64 {
    spent.input_tokens.saturating_add(spent.output_tokens)
}

/// The table, with a bar for each row: of the cost or, if no cost above zero is known, of the tokens.
fn table(rows: &[(String, Spent)], total: &Spent, group: CostGroup) -> Block {
    let by_cost = total.cost_usd.is_some_and(|cost| cost > 0.0);
    let size = |spent: &Spent| {
        if by_cost { spent.cost_usd.unwrap_or_default() } else { tokens(spent) as f64 }
    };
    let largest = rows.iter().map(|(_, spent)| size(spent)).fold(0.0, f64::max);
    let line = |name: &str, spent: &Spent, bar: String| {
        vec![
            name.to_owned(),
            spent.calls.to_string(),
            short_number(spent.input_tokens),
            short_number(spent.output_tokens),
            spent.cost(),
            bar,
        ]
    };
    let mut lines: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, spent)| {
            let share = if largest > 0.0 { size(spent) / largest } else { 0.0 };
            let name = if name.is_empty() { "(unknown)" } else { name };
            line(name, spent, bar(share))
        })
        .collect();
    lines.push(line("total", total, String::new()));
    let chart = if by_cost { "cost" } else { "tokens" };
    let head = vec![group.name(), "calls", "tokens in", "tokens out", "cost", chart];
    Block::Table { head, rows: lines }
}

/// A bar for a share between 0 and 1. A share above 0 gets at least an eighth of a character, so that it is visible.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * BAR * 8.0).round().max(if share > 0.0 { 1.0 } else { 0.0 }) as usize;
    let rest = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{rest}", "█".repeat(eighths / 8))
}

fn in_words(total: &Spent) -> String {
    match total.unpriced_calls {
        0 => format!("cost {}", total.cost()),
        unpriced => format!(
            "cost {}. The price is not known for {}; `prices` in a config sets prices",
            total.cost(),
            count(unpriced, "call")
        ),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age(pub u64);

pub fn parse_age(text: &str) -> Result<Age, String> {
    let wrong = || "it must be a number with a unit: 90m, 24h, 7d or 4w".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let ms: u64 = match unit {
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        'w' => 7 * 86_400_000,
        _ => return Err(wrong()),
    };
    let number: u64 = text.strip_suffix(unit).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    number.checked_mul(ms).map(Age).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_span_is_a_number_with_a_unit() {
        assert_eq!(parse_age("7d"), Ok(Age(7 * 86_400_000)));
        assert_eq!(parse_age("90m"), Ok(Age(5_400_000)));
        for wrong in ["", "7", "d", "-1d", "7 days", "99999999999999999999d", "3y"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bars_are_proportional_and_small_amounts_stay_visible() {
        assert_eq!(bar(1.0).chars().count(), 24);
        assert_eq!(bar(0.5).chars().count(), 12);
        assert_eq!((bar(0.000_1), bar(0.0)), ("▏".to_owned(), String::new()));
    }
}
