//! Tests of the estimates that people are shown before they approve a run.

use super::*;
use althing_protocol::{AgentMode, Modes, PastRuns, Usage};
use std::collections::BTreeMap;

fn member(id: &str) -> Member {
    Member {
        id: id.into(),
        backend: "openai".into(),
        model: format!("model-{id}"),
        offline: false,
        system_message: None,
        has_tools: false,
        voting_sensitivity: None,
    }
}

fn price(input: f64, output: f64) -> Price {
    Price { input_per_million: input, output_per_million: output, cached_input_per_million: None }
}

/// A proposal of a run of these agents; prices of agents as (id, input, output).
fn proposal(agents: &[&str], prices: &[(&str, f64, f64)], past: PastRuns) -> Proposal {
    let prices: BTreeMap<_, _> = prices.iter().map(|(id, i, o)| ((*id).into(), price(*i, *o))).collect();
    Proposal {
        launch: LaunchRun { task: "Name three rivers".into(), ..LaunchRun::default() },
        members: agents.iter().map(|id| member(id)).collect(),
        modes: Modes { agent_mode: AgentMode::Multi, refinement: true, planning: false },
        chosen: Vec::new(),
        may_read: Vec::new(),
        may_write: Vec::new(),
        costs: Some(Box::new(KnownCosts { prices, past, ..KnownCosts::default() })),
        not_signed_in: BTreeMap::new(),
        digest: "d".into(),
    }
}

fn estimate(proposal: &Proposal) -> String {
    let members: Vec<&Member> = proposal.members.iter().collect();
    cost_estimate(proposal, &proposal.launch, &members).expect("an estimate")
}

/// Runs in which `agents` agents took part and used this many tokens.
fn past(
    agents: usize,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
    unpriced_calls: u64,
) -> PastRuns {
    let usage = Usage { input_tokens, output_tokens, cost_usd, unpriced_calls, calls: 9, ..Usage::default() };
    let mut past = PastRuns::default();
    past.add(agents, usage);
    past
}

#[test]
fn past_runs_and_prices_give_tokens_a_likely_cost_and_an_upper_one() {
    let prices = [("a", 3.0, 15.0), ("b", 3.0, 15.0), ("c", 3.0, 15.0)];
    let past = past(6, 60_000, 20_000, 0.0, 0);
    assert_eq!(
        estimate(&proposal(&["a", "b", "c"], &prices, past)),
        "about 40k tokens, about $0.24, up to $0.45"
    );
}

#[test]
fn without_past_runs_the_lengths_of_prompts_and_answers_are_assumed() {
    let prices = [("a", 10.0, 10.0), ("b", 10.0, 10.0)];
    let two = proposal(&["a", "b"], &prices, PastRuns::default());
    assert_eq!(estimate(&two), "about 14k tokens, about $0.14, up to $0.24");
    let mut alone = proposal(&["a"], &prices, PastRuns::default());
    alone.modes = Modes { agent_mode: AgentMode::Single, refinement: false, planning: false };
    assert_eq!(estimate(&alone), "about 1.5k tokens, about $0.02", "one call");
}

#[test]
fn the_estimate_follows_what_a_person_changes() {
    let prices = [("a", 10.0, 10.0), ("b", 10.0, 10.0)];
    let two = proposal(&["a", "b"], &prices, PastRuns::default());
    let quick = LaunchRun { refinement: Some(false), ..two.launch.clone() };
    let members: Vec<&Member> = two.members.iter().take(1).collect();
    let alone = cost_estimate(&two, &quick, &members).expect("an estimate");
    assert_eq!(alone, "about 1.5k tokens, about $0.02");
}

#[test]
fn a_limit_bounds_the_upper_estimate_and_never_lowers_the_likely_cost() {
    let mut limited = proposal(&["a"], &[("a", 3.0, 15.0)], past(1, 100_000, 100_000, 0.0, 0));
    limited.costs.as_mut().expect("costs").limit_micro_usd = Some(500_000);
    assert_eq!(estimate(&limited), "about 200k tokens, about $1.80, above the limit of $0.50");
    limited.costs.as_mut().expect("costs").limit_micro_usd = Some(1_900_000);
    assert_eq!(estimate(&limited), "about 200k tokens, about $1.80, at most $1.90 (the limit)");
}

#[test]
fn an_unknown_price_is_called_unknown_and_never_counted_as_nothing() {
    let unknown = proposal(&["a", "b"], &[], PastRuns::default());
    assert_eq!(estimate(&unknown), "about 14k tokens, cost unknown (no price for model-a, model-b)");
    let partly = proposal(&["a", "b"], &[("a", 10.0, 10.0)], PastRuns::default());
    let text = estimate(&partly);
    assert_eq!(text, "about 14k tokens, about $0.07, up to $0.12, plus model-b (price unknown)");
    let free = proposal(&["a", "b"], &[("a", 0.0, 0.0), ("b", 0.0, 0.0)], PastRuns::default());
    assert_eq!(estimate(&free), "about 14k tokens, no cost");
}

#[test]
fn the_reported_costs_of_past_runs_replace_unknown_prices() {
    let reported = proposal(&["a", "b"], &[], past(4, 40_000, 4_000, 2.0, 0));
    assert_eq!(estimate(&reported), "about 22k tokens, about $1.00, up to $1.80");
    let unpriced = proposal(&["a", "b"], &[], past(4, 40_000, 4_000, 2.0, 1));
    assert_eq!(estimate(&unpriced), "about 22k tokens, cost unknown (no price for model-a, model-b)");
}

#[test]
fn a_proposal_of_an_old_log_has_no_estimate() {
    let mut old = proposal(&["a"], &[], PastRuns::default());
    old.costs = None;
    let members: Vec<&Member> = old.members.iter().collect();
    assert_eq!(cost_estimate(&old, &old.launch, &members), None);
}
