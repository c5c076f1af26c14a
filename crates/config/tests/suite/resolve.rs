//! The settings that result from a config.

use althing_protocol::{
    AnswerNovelty, ChatLimits, DecisionRule, DecisionRules, Diversity, FinalAnswerStrategy, JudgeOrder,
    Millis, Price, ProcessLimits, RunLimits, RunRules, VotingSensitivity,
};

use super::support::{checked, loaded, with};

#[test]
fn every_rule_of_a_run_reaches_the_settings() {
    let text = with(
        "orchestrator:
  voting_sensitivity: balanced
  decision: plurality
  unanimity: false
  merge_conclusions: false
  judge_order: config
  stop_when_decided: false
  criteria: [short, right]
  diversity: approaches
  max_new_answers_per_agent: 3
  max_new_answers_global: 7
  skip_voting: true
  disable_injection: true
  defer_voting_until_all_answered: true
  final_answer_strategy: synthesize
  skip_final_presentation: true
  answer_novelty_requirement: strict
  fairness_lead_cap_answers: 5
  coordination: {override_window_seconds: 5, first_answer_wait_seconds: 0.5, straggler_wait_seconds: 0}
timeout_settings:
  orchestrator_timeout_seconds: 600
  initial_round_timeout_seconds: 120
  subsequent_round_timeout_seconds: 60.5
  round_timeout_grace_seconds: 0
",
    );
    let expected = RunRules {
        max_new_answers_per_agent: Some(3),
        max_new_answers_global: Some(7),
        voting_sensitivity: VotingSensitivity::Balanced,
        skip_voting: true,
        disable_injection: true,
        defer_voting_until_all_answered: true,
        final_answer_strategy: Some(FinalAnswerStrategy::Synthesize),
        skip_final_presentation: true,
        first_answer_wait: Millis(500),
        straggler_wait: None,
        override_window: Some(Millis(5000)),
        answer_novelty: AnswerNovelty::Strict,
        fairness_lead_cap: Some(5),
        max_restarts: 0,
        plan_first: false,
        subagents: None,
        decision: DecisionRules {
            rule: DecisionRule::Plurality,
            unanimity: false,
            merge_conclusions: false,
            judge_order: JudgeOrder::Config,
            stop_when_decided: false,
            criteria: vec!["short".into(), "right".into()],
            diversity: Diversity::Approaches,
            ..DecisionRules::default()
        },
        limits: RunLimits {
            orchestrator: Millis(600_000),
            initial_round: Some(Millis(120_000)),
            subsequent_round: Some(Millis(60_500)),
            round_grace: Millis(0),
            ..RunLimits::default()
        },
    };
    assert_eq!(loaded(&text).config.rules, expected);
}

#[test]
fn every_limit_reaches_the_settings_and_a_missing_one_has_its_default() {
    let limits = |text: &str| {
        let config = loaded(&with(&format!("orchestrator: {{limits: {text}}}\n"))).config;
        (config.rules.limits, config.chat_limits, config.process_limits)
    };
    let (run, chat, processes) = limits(
        "{answers_per_agent: 3, tool_calls_per_agent: 4, model_calls_per_run: 5, model_calls_per_message: 6, \
         processes: 70, memory: 2g, open_files: 80, disk: 512m}",
    );
    assert_eq!(
        (run.answers_per_agent, run.tool_calls_per_agent, run.model_calls),
        (Some(3), Some(4), Some(5))
    );
    assert_eq!(chat, ChatLimits { model_calls: 6, tool_calls: Some(4) });
    let expected =
        ProcessLimits { processes: Some(70), memory: Some(2 << 30), open_files: 80, disk: 512 << 20 };
    assert_eq!(processes, expected);
    assert_eq!(limits("{}"), (RunLimits::default(), ChatLimits::default(), ProcessLimits::default()));
}

#[test]
fn disabled_fairness_has_no_cap() {
    let cap = |more: &str| loaded(&with(&format!("orchestrator: {more}\n"))).config.rules.fairness_lead_cap;
    assert_eq!(cap("{fairness_enabled: false}"), None);
    assert_eq!(cap("{fairness_enabled: false, fairness_lead_cap_answers: 3}"), None);
    assert_eq!(cap("{fairness_enabled: true}"), Some(2));
    assert_eq!(cap("{fairness_lead_cap_answers: 0}"), Some(0));
    let wrong = checked(&with(
        "orchestrator: {fairness_lead_cap_answers: -1, answer_novelty_requirement: strickt}\n",
    ));
    let hints: Vec<_> = wrong.errors.iter().filter_map(|error| error.suggestion.as_deref()).collect();
    assert_eq!(
        hints,
        [
            "use a whole number from 0 to 1000000",
            "did you mean `strict`? possible: lenient, balanced, strict"
        ]
    );
}

#[test]
fn restarts_can_be_set_in_two_sections_and_the_inner_one_wins() {
    let restarts = |more: &str| loaded(&with(&format!("orchestrator: {more}\n"))).config.rules.max_restarts;
    assert_eq!(restarts("{coordination: {max_orchestration_restarts: 2}}"), 2);
    assert_eq!(restarts("{max_orchestration_restarts: 1}"), 1);
    assert_eq!(restarts("{max_orchestration_restarts: 1, coordination: {max_orchestration_restarts: 3}}"), 3);
    assert_eq!(restarts("{}"), 0);
}

#[test]
fn the_simple_display_means_plain_progress() {
    let plain = |ui: &str| loaded(&with(&format!("ui: {ui}\n"))).plain_progress();
    assert!(plain("{display_type: simple}"));
    assert!(plain("{type: simple}"));
    assert!(!plain("{display_type: rich_terminal}"));
    assert!(!plain("{display_type: textual_terminal, type: simple}"));
    assert!(!loaded(&with("")).plain_progress());
}

#[test]
fn massgens_storage_directories_give_no_warning() {
    loaded(&with(
        "orchestrator: {agent_temporary_workspace: temp_workspaces, snapshot_storage: snapshots}\n",
    ));
    assert!(!checked(&with("orchestrator: {snapshot_storage: [a]}\n")).is_valid());
}

#[test]
fn an_empty_config_has_the_default_rules() {
    assert_eq!(loaded(&with("")).config.rules, RunRules::default());
}

/// The defaults in the table of keys are documentation; those of the settings' types take effect.
#[test]
fn writing_out_the_defaults_of_the_table_changes_nothing() {
    let schema = althing_config::schema();
    let mut written = serde_json::Map::new();
    for section in
        ["orchestrator", "timeout_settings", "coordination", "interactive_mode", "context_compaction"]
    {
        let keys = schema["$defs"][section]["properties"].as_object().expect("a section");
        let defaults =
            keys.iter().filter_map(|(name, key)| Some((name.clone(), key.get("default")?.clone())));
        written.insert(section.to_owned(), serde_json::Value::Object(defaults.collect()));
    }
    written["interactive_mode"]["context_compaction"] = written["context_compaction"].clone();
    written["orchestrator"]["coordination"] = written["coordination"].clone();
    written["orchestrator"]["interactive_mode"] = written["interactive_mode"].clone();
    let more = format!(
        "orchestrator: {}\ntimeout_settings: {}\n",
        written["orchestrator"], written["timeout_settings"]
    );
    let with_defaults = loaded(&with(&more)).config;
    assert_eq!(with_defaults, loaded(&with("orchestrator: {interactive_mode: {}}\n")).config);
    assert_eq!(with_defaults.rules, RunRules::default());
    assert_eq!(with_defaults.interactive, Some(althing_protocol::InteractiveConfig::default()));
    assert!(
        more.contains("\"override_window_seconds\":60") && more.contains("\"threshold_tokens\":100000"),
        "{more}"
    );
}

#[test]
fn an_override_window_of_zero_is_none() {
    assert_eq!(
        loaded(&with("orchestrator: {coordination: {override_window_seconds: 0}}\n"))
            .config
            .rules
            .override_window,
        None
    );
}

#[test]
fn agents_keep_their_order_messages_and_sensitivity() {
    let config = loaded(
        "agents:
  - {id: z, backend: {type: offline}, system_message: One., append_system_prompt: Two., voting_sensitivity: strict}
  - {id: a, backend: {type: offline}, append_system_prompt: Only.}
  - {id: m, backend: {type: offline}}
",
    )
    .config;
    let found: Vec<_> = config
        .agents
        .iter()
        .map(|agent| (agent.id.as_str(), agent.system_message.as_deref(), agent.voting_sensitivity))
        .collect();
    assert_eq!(
        found,
        [
            ("z", Some("One.\n\nTwo."), Some(VotingSensitivity::Strict)),
            ("a", Some("Only."), None),
            ("m", None, None)
        ]
    );
}

#[test]
fn prices_are_read_by_model_and_must_be_complete() {
    let config =
        loaded(&with("prices:\n  a/b-1.5: {input_per_million: 1, output_per_million: 2.5}\n")).config;
    let price = Price { input_per_million: 1.0, output_per_million: 2.5, cached_input_per_million: None };
    assert_eq!(config.prices["a/b-1.5"], price);
    let wrong = checked(&with("prices:\n  m: {input_per_million: -1}\n"));
    let locations: Vec<&str> = wrong.errors.iter().map(|error| error.location.as_str()).collect();
    assert_eq!(locations, ["prices.m.output_per_million", "prices.m.input_per_million"]);
}

#[test]
fn massgens_personas_and_criteria_stand_for_approaches_and_criteria() {
    let decision = |keys: &str| loaded(&with(&format!("orchestrator: {{{keys}}}\n"))).config.rules.decision;
    let criteria = "coordination: {checklist_criteria_inline: [{text: exact, category: must}, brief]}";
    assert_eq!(decision(criteria).criteria, ["exact", "brief"]);
    assert_eq!(decision(&format!("criteria: [own], {criteria}")).criteria, ["own"]);
    let personas = "coordination: {persona_generator: {enabled: true, diversity_mode: perspective}}";
    assert_eq!(decision(personas).diversity, Diversity::Approaches);
    assert_eq!(decision(&format!("diversity: off, {personas}")).diversity, Diversity::Off);
    assert_eq!(decision("coordination: {persona_generator: {enabled: false}}").diversity, Diversity::Off);
}
