//! Resolves how runs decide: the keys of `orchestrator` about votes, conclusions and judges, and MassGen's keys that
//! stand for some of them.

use crate::resolve::flag;
use crate::tree::Node;
use althing_protocol::{DecisionRule, DecisionRules, Diversity, JudgeOrder};

pub(crate) fn resolve(node: &Node) -> DecisionRules {
    let default = DecisionRules::default();
    let coordination = node.get("coordination");
    let named = |key: &str| node.get(key).and_then(Node::as_text);
    let criteria = node.get("criteria").or_else(|| coordination?.get("checklist_criteria_inline"));
    let personas = coordination
        .and_then(|node| node.get("persona_generator"))
        .is_some_and(|personas| flag(personas, "enabled") == Some(true));
    DecisionRules {
        rule: match named("decision") {
            Some("plurality") => DecisionRule::Plurality,
            Some("borda") => DecisionRule::Borda,
            _ => default.rule,
        },
        unanimity: flag(node, "unanimity").unwrap_or(default.unanimity),
        merge_conclusions: flag(node, "merge_conclusions").unwrap_or(default.merge_conclusions),
        judge_order: match named("judge_order") {
            Some("config") => JudgeOrder::Config,
            Some("rotated") => JudgeOrder::Rotated,
            _ => default.judge_order,
        },
        stop_when_decided: flag(node, "stop_when_decided").unwrap_or(default.stop_when_decided),
        criteria: criteria.map(texts).unwrap_or_default(),
        diversity: match named("diversity") {
            Some("approaches") => Diversity::Approaches,
            Some("off") => Diversity::Off,
            _ if personas => Diversity::Approaches,
            _ => default.diversity,
        },
        prompts: default.prompts,
    }
}

fn texts(node: &Node) -> Vec<String> {
    let text = |node: &Node| node.as_text().or_else(|| node.get("text")?.as_text()).map(str::to_owned);
    let filled = |text: &String| !text.trim().is_empty();
    node.items().iter().filter_map(text).filter(filled).collect()
}
