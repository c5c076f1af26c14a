//! `coordination_overrides`: changes to a run's rules, by config key. A launch may shorten the user's time limits but
//! not extend them.

use super::did_you_mean;
use althing_protocol::{
    AnswerNovelty, DecisionRule, Diversity, FinalAnswerStrategy, JudgeOrder, Millis, Modes, RunRules,
    VotingSensitivity,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(super) const KEYS: &[&str] = &[
    "max_new_answers_per_agent",
    "max_new_answers_global",
    "voting_sensitivity",
    "criteria",
    "decision",
    "unanimity",
    "merge_conclusions",
    "judge_order",
    "stop_when_decided",
    "diversity",
    "skip_voting",
    "disable_injection",
    "defer_voting_until_all_answered",
    "final_answer_strategy",
    "skip_final_presentation",
    "answer_novelty_requirement",
    "fairness_lead_cap_answers",
    "max_orchestration_restarts",
    "enable_planning_mode",
    "first_answer_wait_seconds",
    "straggler_wait_seconds",
    "orchestrator_timeout_seconds",
    "initial_round_timeout_seconds",
    "subsequent_round_timeout_seconds",
    "round_timeout_grace_seconds",
];

const SENSITIVITIES: &[&str] = &[
    "lenient",
    "balanced",
    "strict",
    "roi",
    "roi_conservative",
    "roi_balanced",
    "roi_aggressive",
    "sequential",
    "adversarial",
    "consistency",
    "diversity",
    "reflective",
    "checklist",
];

/// A launch that sets one of these keys is refused.
const USER_ONLY_KEYS: &[&str] =
    &["override_window_seconds", "interactive_mode", "context_paths", "budget_usd"];

pub(super) fn apply(
    rules: &mut RunRules,
    configured: &RunRules,
    changes: &Map<String, Value>,
) -> Result<(), String> {
    for (key, value) in changes {
        change(rules, configured, key, value)
            .map_err(|problem| format!("`coordination_overrides`: {problem}"))?;
    }
    Ok(())
}

fn change(rules: &mut RunRules, configured: &RunRules, key: &str, value: &Value) -> Result<(), String> {
    let limits = &configured.limits;
    match key {
        "max_new_answers_per_agent" => rules.max_new_answers_per_agent = Some(count(key, value, 1)?),
        "max_new_answers_global" => rules.max_new_answers_global = Some(count(key, value, 1)?),
        "voting_sensitivity" => {
            rules.voting_sensitivity = parse_name::<VotingSensitivity>(key, value, SENSITIVITIES)?
        }
        "criteria" => rules.decision.criteria = texts(key, value)?,
        "decision" => rules.decision.rule = parse_name::<DecisionRule>(key, value, &["borda", "plurality"])?,
        "unanimity" => rules.decision.unanimity = flag(key, value)?,
        "merge_conclusions" => rules.decision.merge_conclusions = flag(key, value)?,
        "judge_order" => {
            rules.decision.judge_order = parse_name::<JudgeOrder>(key, value, &["rotated", "config"])?
        }
        "stop_when_decided" => rules.decision.stop_when_decided = flag(key, value)?,
        "diversity" => {
            rules.decision.diversity = parse_name::<Diversity>(key, value, &["off", "approaches"])?
        }
        "skip_voting" => rules.skip_voting = flag(key, value)?,
        "disable_injection" => rules.disable_injection = flag(key, value)?,
        "defer_voting_until_all_answered" => rules.defer_voting_until_all_answered = flag(key, value)?,
        "final_answer_strategy" => {
            let names = ["winner_reuse", "winner_present", "synthesize"];
            rules.final_answer_strategy = Some(parse_name::<FinalAnswerStrategy>(key, value, &names)?);
        }
        "skip_final_presentation" => rules.skip_final_presentation = flag(key, value)?,
        "answer_novelty_requirement" => {
            rules.answer_novelty =
                parse_name::<AnswerNovelty>(key, value, &["lenient", "balanced", "strict"])?
        }
        "fairness_lead_cap_answers" => rules.fairness_lead_cap = Some(count(key, value, 0)?),
        "max_orchestration_restarts" => rules.max_restarts = count(key, value, 0)?,
        "enable_planning_mode" => rules.plan_first = flag(key, value)?,
        "first_answer_wait_seconds" => rules.first_answer_wait = seconds(key, value)?,
        "straggler_wait_seconds" => {
            rules.straggler_wait = Some(seconds(key, value)?).filter(|wait| *wait > Millis(0));
        }
        "orchestrator_timeout_seconds" => {
            rules.limits.orchestrator = limit_within(key, value, Some(limits.orchestrator))?
        }
        "initial_round_timeout_seconds" => {
            rules.limits.initial_round = Some(limit_within(key, value, limits.initial_round)?)
        }
        "subsequent_round_timeout_seconds" => {
            rules.limits.subsequent_round = Some(limit_within(key, value, limits.subsequent_round)?)
        }
        "round_timeout_grace_seconds" => {
            rules.limits.round_grace = limit_within(key, value, Some(limits.round_grace))?
        }
        _ if USER_ONLY_KEYS.contains(&key) => {
            return Err(format!("`{key}` can be set only by the user, in the config."));
        }
        _ => {
            let hint = did_you_mean(key, KEYS.iter().copied());
            return Err(format!("there is no key `{key}`.{hint} The keys are {}.", KEYS.join(", ")));
        }
    }
    Ok(())
}

/// Removes changes that contradict the modes. Called only if the user turned refinement on or off, or for a quick run
/// of a single agent, to which no model calls may be added.
pub(super) fn drop_overridden(modes: Modes, changes: &mut Map<String, Value>) -> Result<(), String> {
    let decided = serde_json::to_value(modes.overrides()).map_err(|error| error.to_string())?;
    let mut fixed: Vec<&str> =
        decided.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
    if modes.overrides().is_one_call() {
        fixed.push("max_orchestration_restarts");
    } else {
        // The mode only sets a default for the strategy, so the launch may change it.
        fixed.retain(|key| *key != "final_answer_strategy");
    }
    if modes.refinement {
        fixed.extend(["skip_voting", "max_new_answers_per_agent", "max_new_answers_global"]);
    }
    changes.retain(|key, _| !fixed.contains(&key.as_str()));
    Ok(())
}

fn flag(key: &str, value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{key}` must be true or false."))
}

fn texts(key: &str, value: &Value) -> Result<Vec<String>, String> {
    serde_json::from_value(value.clone()).map_err(|_| format!("`{key}` must be a list of texts."))
}

fn count(key: &str, value: &Value, least: u32) -> Result<u32, String> {
    let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
    count
        .filter(|count| *count >= least)
        .ok_or_else(|| format!("`{key}` must be a whole number of at least {least}."))
}

fn parse_name<T: DeserializeOwned>(key: &str, value: &Value, names: &[&str]) -> Result<T, String> {
    serde_json::from_value(value.clone())
        .map_err(|_| format!("`{key}` must be one of \"{}\".", names.join("\", \"")))
}

fn seconds(key: &str, value: &Value) -> Result<Millis, String> {
    let seconds = value.as_f64().filter(|seconds| (0.0..1e9).contains(seconds));
    seconds
        .map(|seconds| Millis((seconds * 1000.0).round() as u64))
        .ok_or_else(|| format!("`{key}` must be a number of seconds, at least 0."))
}

/// Parses a time limit: more than 0, and at most `most` if there is one.
fn limit_within(key: &str, value: &Value, most: Option<Millis>) -> Result<Millis, String> {
    let limit = seconds(key, value)?;
    match most {
        _ if limit == Millis(0) => Err(format!("`{key}` must be more than 0.")),
        Some(most) if limit > most => Err(format!("`{key}` must not exceed the user's limit ({most}).")),
        _ => Ok(limit),
    }
}
