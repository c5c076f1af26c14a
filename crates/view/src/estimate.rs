//! The estimate of what a proposed run will use and cost, and which sign-ins it lacks. Every front
//! end that asks for approval shows these texts.
//!
//! An estimate, not a promise: a model decides by itself how much it writes and how often it calls a tool. Only
//! `--max-cost` and a budget limit the cost.

use crate::labels::{micro_money, money};
use althing_protocol::{KnownCosts, LaunchRun, Member, Price, Proposal};
use althing_text::{estimate_tokens, short_number};

/// How long an answer, a judgment or a presentation is if no past run is known, in tokens, with reasoning.
const OUTPUT_TOKENS: u64 = 1_000;
/// The instructions and tools of a call, in tokens.
const PROMPT_TOKENS: u64 = 500;
/// The further instructions and tools of an agent that has a workspace, and what it reads there, in tokens.
const WORKSPACE_TOKENS: u64 = 4_000;
/// The upper estimate assumes that every agent gives this many answers, unless the rules set the number.
const MOST_ANSWERS: u32 = 3;

/// Tokens of one agent in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tokens {
    input: f64,
    output: f64,
}

impl Tokens {
    fn cost(self, price: &Price) -> f64 {
        (self.input * price.input_per_million + self.output * price.output_per_million) / 1e6
    }
}

/// The estimate for a run of `members`, in one line: `about 40k tokens, about $0.30, up to $1.10`. `launch` is the
/// proposed launch, with the changes that a person has made to it so far. None if the proposal says nothing about costs,
/// as in logs of 0.1.
pub fn cost_estimate(proposal: &Proposal, launch: &LaunchRun, members: &[&Member]) -> Option<String> {
    let costs = proposal.costs.as_deref().filter(|_| !members.is_empty())?;
    let refines = launch.refinement.unwrap_or(proposal.modes.refinement);
    let runs = if launch.execute_after_planning && proposal.modes.planning { 2.0 } else { 1.0 };
    // A cap that only the mode of the proposal sets does not apply if a person has changed the mode.
    let cap = costs.max_answers_per_agent.filter(|_| proposal.modes.refinement);
    let growth = most_calls(cap, members.len(), refines) / likely_calls(members.len(), refines);
    let used: Vec<(&Member, Tokens)> = members
        .iter()
        .map(|member| {
            (*member, past_tokens(costs).unwrap_or_else(|| expected(launch, member, members, refines)))
        })
        .map(|(member, one)| (member, Tokens { input: one.input * runs, output: one.output * runs }))
        .collect();
    let tokens: f64 = used.iter().map(|(_, tokens)| tokens.input + tokens.output).sum();
    let tokens = format!("about {} tokens", short_number(rounded(tokens)).replace(".0", ""));
    let prices: Vec<(&Member, Option<f64>)> = used
        .iter()
        .map(|(member, tokens)| (*member, costs.prices.get(&member.id).map(|price| tokens.cost(price))))
        .collect();
    let unknown: Vec<&Member> =
        prices.iter().filter(|(_, cost)| cost.is_none()).map(|(member, _)| *member).collect();
    let known: f64 = prices.iter().filter_map(|(_, cost)| *cost).sum();
    if unknown.is_empty() {
        return Some(format!("{tokens}, {}", amounts(known, growth, costs.limit_micro_usd)));
    }
    // The past runs of CLI agents say what these cost although their prices are not known.
    let past = &costs.past;
    if past.agents > 0 && past.usage.unpriced_calls == 0 {
        let cost = past.usage.cost_usd / past.agents as f64 * members.len() as f64 * runs;
        return Some(format!("{tokens}, {}", amounts(cost, growth, costs.limit_micro_usd)));
    }
    let names = names_of(&unknown);
    Some(if known > 0.0 {
        let known = amounts(known, growth, costs.limit_micro_usd);
        format!("{tokens}, {known}, plus {names} (price unknown)")
    } else {
        format!("{tokens}, cost unknown (no price for {names})")
    })
}

/// Which of these members the user seems not to be signed in to, and what to do, in one line. None if there are none.
pub fn missing_sign_ins(proposal: &Proposal, members: &[&Member]) -> Option<String> {
    let missing = members.iter().filter_map(|member| {
        let hint = proposal.not_signed_in.get(&member.id)?;
        Some(format!("{} ({hint})", member.id))
    });
    let missing = missing.collect::<Vec<_>>().join(", ");
    (!missing.is_empty()).then(|| format!("missing for {missing}"))
}

/// The likely cost and the upper estimate, which is the limit if that is lower. A likely cost above the limit is shown
/// as it is: such a run will probably not end before the limit stops it.
fn amounts(likely: f64, growth: f64, limit: Option<u64>) -> String {
    let most = likely * growth;
    if likely <= 0.0 {
        return "no cost".into();
    }
    match limit {
        Some(limit) if (limit as f64) < likely * 1e6 => {
            format!("{}, above the limit of {}", about(likely), micro_money(limit))
        }
        Some(limit) if (limit as f64) < most * 1e6 => {
            format!("{}, at most {} (the limit)", about(likely), micro_money(limit))
        }
        _ if money(most) == money(likely) => about(likely),
        _ => format!("{}, up to {}", about(likely), money(most)),
    }
}

fn about(usd: f64) -> String {
    let amount = money(usd);
    if amount.starts_with('$') { format!("about {amount}") } else { amount }
}

/// The agents whose price is not known, by the names under which `prices` can set it.
fn names_of(members: &[&Member]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for member in members {
        let name = if member.model.is_empty() { member.backend.as_str() } else { member.model.as_str() };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// What an agent used in past runs on average.
fn past_tokens(costs: &KnownCosts) -> Option<Tokens> {
    let past = &costs.past;
    let average = |tokens: u64| tokens as f64 / past.agents as f64;
    (past.agents > 0).then(|| Tokens {
        input: average(past.usage.input_tokens),
        output: average(past.usage.output_tokens),
    })
}

/// What an agent will use if there are no past runs: it answers, it judges all answers, and its share of the
/// presentation.
fn expected(launch: &LaunchRun, member: &Member, members: &[&Member], refines: bool) -> Tokens {
    let texts = [Some(launch.task.as_str()), launch.context.as_deref(), member.system_message.as_deref()];
    let texts: u64 = texts.into_iter().flatten().map(estimate_tokens).sum();
    let tools = if member.has_tools { WORKSPACE_TOKENS } else { 0 };
    let prompt = (PROMPT_TOKENS + tools + texts) as f64;
    let calls = likely_calls(members.len(), refines) / members.len() as f64;
    let answers = OUTPUT_TOKENS as f64 * members.len() as f64;
    Tokens { input: prompt * calls + answers * (calls - 1.0), output: OUTPUT_TOKENS as f64 * calls }
}

/// The number of calls of a run in which nobody improves an answer: everybody answers and judges, and one presents.
/// An agent that works alone without refinement only answers.
fn likely_calls(members: usize, refines: bool) -> f64 {
    if members == 1 && !refines { 1.0 } else { 2.0 * members as f64 + 1.0 }
}

/// The number of calls if every agent gives as many answers as it may, or [`MOST_ANSWERS`] if the rules set no cap.
fn most_calls(cap: Option<u32>, members: usize, refines: bool) -> f64 {
    let answers = if refines { cap.unwrap_or(MOST_ANSWERS).max(1) } else { 1 };
    likely_calls(members, refines) + f64::from(answers - 1) * members as f64
}

/// Rounds to two significant digits, because an estimate is not more exact.
fn rounded(tokens: f64) -> u64 {
    let unit = 10_f64.powf(tokens.max(1.0).log10().floor() - 1.0).max(1.0);
    ((tokens / unit).round() * unit) as u64
}

#[cfg(test)]
mod tests;
