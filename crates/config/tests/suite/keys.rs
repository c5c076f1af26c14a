//! Keys that are supported, not supported yet, unknown or replaced; and the values of keys.

use althing_config::LoadPurpose;

use super::support::{backend, checked, env, loaded, messages, with};

#[test]
fn a_small_config_is_valid_without_warnings() {
    loaded(&with(""));
}

#[test]
fn an_unsupported_key_gives_one_warning_per_file() {
    let backend = "{type: offline, output_schema: {}, custom_tools: [{name: x}]}";
    let agents = ["a", "b", "c"].map(|id| format!("  - id: {id}\n    backend: {backend}\n")).concat();
    assert_eq!(
        messages(&checked(&format!("agents:\n{agents}"))),
        [
            "Warning 3:30 agents[0].backend.output_schema | `output_schema` is not supported yet and has no effect | the rest of the file works without it; remove the key to silence this warning",
            "Warning 3:49 agents[0].backend.custom_tools | `custom_tools` has no effect in Althing | Python tools are not supported; use an MCP server",
        ]
    );
}

#[test]
fn an_unsupported_feature_that_is_off_gives_no_warning() {
    loaded(&backend("{type: offline, enable_web_search: false}"));
    loaded(&with(
        "orchestrator: {coordination: {broadcast: false, max_orchestration_restarts: 0}, context_paths: []}\n",
    ));
    loaded(&with("ui: {display_type: textual_terminal, logging_enabled: true}\n"));
}

#[test]
fn an_unknown_key_within_two_edits_of_a_known_one_is_an_error() {
    for (text, expected) in [
        (
            backend("{type: offline, modle: x}"),
            "Error 3:30 agents[0].backend.modle | unknown key `modle` | did you mean `model`?",
        ),
        (
            with("orchestrator:\n  voting_sensitvty: strict\n"),
            "Error 5:3 orchestrator.voting_sensitvty | unknown key `voting_sensitvty` | did you mean `voting_sensitivity`?",
        ),
        (
            with("timeoutSettings: {}\n"),
            "Error 4:1 timeoutSettings | unknown key `timeoutSettings` | did you mean `timeout_settings`?",
        ),
        (with("uii: {}\n"), "Error 4:1 uii | unknown key `uii` | did you mean `ui`?"),
    ] {
        assert_eq!(messages(&checked(&text)), [expected]);
    }
}

#[test]
fn a_less_similar_unknown_key_is_a_warning_with_the_nearest_key() {
    assert_eq!(
        messages(&checked(&with("orchestrator:\n  voting_sensibilities: strict\n"))),
        [
            "Warning 5:3 orchestrator.voting_sensibilities | unknown key `voting_sensibilities`; it has no effect | did you mean `voting_sensitivity`?"
        ]
    );
}

#[test]
fn short_keys_and_providers_parameters_are_not_taken_for_typos() {
    let keys = "n: 1, tier: t, echo: e, note: x, audio: a, logprobs: 1";
    let report = checked(&backend(&format!("{{type: offline, {keys}}}")));
    assert!(report.is_valid(), "{:?}", messages(&report));
    assert_eq!(report.warnings.len(), 6, "{:?}", messages(&report));
}

#[test]
fn a_misplaced_key_is_reported_with_its_section() {
    let report = checked(
        "agents:\n  - id: a\n    temperature: 0.5\n    backend: {type: offline}\nskip_voting: true\n",
    );
    assert_eq!(
        messages(&report),
        [
            "Warning 3:5 agents[0].temperature | unknown key `temperature`; it has no effect | it belongs in `agents[].backend`",
            "Warning 5:1 skip_voting | unknown key `skip_voting`; it has no effect | it belongs in `orchestrator`",
        ]
    );
}

#[test]
fn every_key_of_massgens_first_format_is_an_error_with_its_replacement() {
    for key in [
        "models",
        "model_configs",
        "num_agents",
        "max_rounds",
        "consensus_threshold",
        "voting_enabled",
        "enable_voting",
    ] {
        let report = checked(&with(&format!("{key}: 3\n")));
        assert_eq!(report.errors.len(), 1, "{key}");
        let error = &report.errors[0];
        assert_eq!((error.location.as_str(), error.line, error.column), (key, 4, 1));
        assert!(error.message.contains("first config format"), "{}", error.message);
        assert!(
            error
                .suggestion
                .as_ref()
                .is_some_and(|hint| hint.contains("agent") || hint.contains('`') || hint.contains("votes"))
        );
    }
}

#[test]
fn all_problems_of_a_file_are_reported_at_once_in_its_order() {
    let text = "\
agents:
  - id: a
    backend: {type: opnai}
  - id: a
    backend: {type: chatcompletion}
  - backend: {type: offline, temperature: hot}
orchestrator:
  skip_voting: maybe
  max_new_answers_per_agent: 0
  final_answer_strategy: winner_takes_all
timeout_settings:
  orchestrator_timeout_seconds: -1
";
    assert_eq!(
        messages(&checked(text)).iter().filter(|message| message.starts_with("Error")).collect::<Vec<_>>(),
        [
            "Error 3:21 agents[0].backend.type | unknown backend type `opnai` | did you mean `openai`?",
            "Error 4:9 agents[1].id | two agents are called `a`; the first is on line 2 | give each agent a different id",
            "Error 5:21 agents[1].backend.model | a backend of type `chatcompletion` needs `model` | add `model: …` with the name that the server uses",
            "Error 6:5 agents[2].id | agents[2] needs `id` | add `id: …`: the agent's name, unique in the team",
            "Error 6:43 agents[2].backend.temperature | `temperature` must be a number from 0 to 2, not the text \"hot\" | write a number from 0 to 2",
            "Error 8:16 orchestrator.skip_voting | `skip_voting` must be `true` or `false`, not the text \"maybe\" | write `true` or `false`",
            "Error 9:30 orchestrator.max_new_answers_per_agent | `max_new_answers_per_agent` must be from 1 to 1000000, not 0 | use a whole number from 1 to 1000000",
            "Error 10:26 orchestrator.final_answer_strategy | `final_answer_strategy` cannot be the text \"winner_takes_all\" | use one of: winner_reuse, winner_present, synthesize",
            "Error 12:33 timeout_settings.orchestrator_timeout_seconds | `orchestrator_timeout_seconds` must be greater than 0 and at most 31536000, not -1 | use a number greater than 0 and at most 31536000",
        ]
    );
}

#[test]
fn a_limit_that_makes_no_sense_is_an_error() {
    let text = with(
        "orchestrator:
  limits: {answers_per_agent: 0, tool_calls_per_agent: many, processes: 3, memory: much, open_files: 10, disk: 1k}
",
    );
    let report = checked(&text);
    let wrong: Vec<&str> = report.errors.iter().map(|error| error.location.as_str()).collect();
    let keys = ["answers_per_agent", "tool_calls_per_agent", "processes", "memory", "open_files", "disk"];
    assert_eq!(wrong, keys.map(|key| format!("orchestrator.limits.{key}")));
}

#[test]
fn a_config_has_agents_or_one_agent_but_not_both_and_not_neither() {
    loaded("agent: {id: a, backend: {type: offline}}\n");
    let both =
        checked("agent: {id: a, backend: {type: offline}}\nagents: [{id: b, backend: {type: offline}}]\n");
    assert_eq!(
        messages(&both),
        [
            "Error 1:1 agent | a config has `agents` or `agent`, not both | move the agent into the list `agents`"
        ]
    );
    for none in ["ui: {}\n", "agents: []\n", "agents:\n"] {
        let report = checked(none);
        assert_eq!(report.errors.len(), 1, "{none}");
        assert!(report.config.is_none());
    }
    assert_eq!(
        checked("agents: {id: a}\n").errors[0].message,
        "`agents` must be a list, not a section with keys"
    );
    assert_eq!(checked("- a\n- b\n").errors[0].message, "the file must be a section with keys, not a list");
}

#[test]
fn an_agent_needs_an_id_and_a_backend_with_a_type() {
    let report = checked(
        "agents:\n  - system_message: hi\n  - id: b\n    backend:\n      model: x\n  - id: 7\n    backend: {type: offline}\n",
    );
    let locations: Vec<&str> = report.errors.iter().map(|error| error.location.as_str()).collect();
    assert_eq!(locations, ["agents[0].id", "agents[0].backend", "agents[1].backend.type", "agents[2].id"]);
    assert_eq!(report.errors[3].suggestion.as_deref(), Some("put quotes around it"));
}

#[test]
fn a_choice_of_massgens_is_mapped_to_the_nearest_supported_one() {
    let report = checked(&with("orchestrator: {voting_sensitivity: checklist_gated}\n"));
    assert_eq!(
        messages(&report),
        [
            "Warning 4:36 orchestrator.voting_sensitivity | `voting_sensitivity: checklist_gated` is not supported yet | `checklist` is used instead"
        ]
    );
    let rules = report.config.expect("settings").config.rules;
    assert_eq!(rules.voting_sensitivity, althing_protocol::VotingSensitivity::Checklist);
    let report = checked(&with("orchestrator: {voting_sensitivity: adversarial}\n"));
    assert_eq!(messages(&report), [""; 0]);
    let rules = report.config.expect("settings").config.rules;
    assert_eq!(rules.voting_sensitivity, althing_protocol::VotingSensitivity::Adversarial);
}

#[test]
fn an_unsupported_backend_type_is_a_warning_for_the_file_and_an_error_for_a_run() {
    let text = "agents:\n  - {id: a, backend: {type: uitars, model: m}}\n  - {id: b, backend: {type: uitars, model: m}}\n";
    let source = althing_config::Source { name: "team.yaml", text };
    let judged = althing_config::load_config(source, &env(&[]), LoadPurpose::Check);
    assert_eq!((judged.errors.len(), judged.warnings.len()), (0, 1));
    assert!(judged.config.is_some());
    let run = althing_config::load_config(source, &env(&[]), LoadPurpose::Run);
    assert_eq!((run.errors.len(), run.warnings.len()), (2, 0));
    assert!(run.config.is_none());
}

#[test]
fn yes_and_no_are_booleans_only_where_a_boolean_is_expected() {
    let loaded = loaded("agents: [{id: no, backend: {type: offline}}]\norchestrator: {skip_voting: yes}\n");
    assert_eq!(loaded.config.agents[0].id.as_str(), "no");
    assert!(loaded.config.rules.skip_voting);
    assert!(!checked(&with("orchestrator: {skip_voting: \"yes\"}\n")).is_valid());
}

#[test]
fn a_null_is_the_same_as_leaving_the_key_out() {
    let loaded = loaded(&with(
        "orchestrator:\n  max_new_answers_per_agent: null\n  coordination:\nui:\ntimeout_settings: ~\n",
    ));
    assert_eq!(loaded.config.rules, althing_protocol::RunRules::default());
}

#[test]
fn a_wrong_value_is_an_error_even_under_an_unsupported_key() {
    let report = checked(&with("orchestrator: {context_paths: [{path: a, permission: wrte}]}\n"));
    assert_eq!(report.errors[0].suggestion.as_deref(), Some("did you mean `write`? possible: read, write"));
    assert_eq!(report.errors[0].location, "orchestrator.context_paths[0].permission");
}
