//! `orchestrator.interactive_mode`: accepted values, defaults, and problems.

use althing_protocol::{ContextCompaction, InteractiveConfig, ToolsConfig};

use super::support::{checked, loaded, messages, with};

fn section(inner: &str) -> String {
    with(&format!("orchestrator:\n  interactive_mode:{inner}"))
}

// spec: interactive/interactive-mode-configuration/config-structure
#[test]
fn every_field_of_interactive_mode_is_accepted_and_reaches_the_settings() {
    let text = section(
        "
    enabled: false
    require_approval: false
    backend: {type: chatcompletion, model: small, base_url: 'http://localhost:9/v1'}
    append_system_prompt: Speak plainly.
    context_compaction: {enabled: false, threshold_tokens: 5000, preserve_recent: 0}
    budget_usd: 2.5
",
    );
    let interactive = loaded(&text).config.interactive.expect("the section");
    let backend = interactive.backend.clone().expect("a backend");
    assert_eq!((backend.kind.as_str(), backend.model.as_deref()), ("chatcompletion", Some("small")));
    assert_eq!(backend.base_url.as_deref(), Some("http://localhost:9/v1"));
    let expected = InteractiveConfig {
        enabled: false,
        require_approval: false,
        backend: Some(backend),
        tools: ToolsConfig::default(),
        append_system_prompt: Some("Speak plainly.".to_owned()),
        context_compaction: ContextCompaction { enabled: false, threshold_tokens: 5000, preserve_recent: 0 },
        budget_usd: Some(2.5),
    };
    assert_eq!(interactive, expected);
}

// spec: interactive/interactive-mode-configuration/default-values
#[test]
fn fields_left_out_of_interactive_mode_take_their_defaults() {
    for empty in
        [" {}\n", "\n", "\n    context_compaction: {}\n", "\n    context_compaction:\n    backend: null\n"]
    {
        let interactive = loaded(&section(empty)).config.interactive.expect("the section is there");
        assert!(interactive.enabled, "on because the section is there");
        assert!(interactive.require_approval);
        assert_eq!(interactive.backend, None, "the first agent's backend");
        assert_eq!(
            interactive.context_compaction,
            ContextCompaction { enabled: true, threshold_tokens: 100_000, preserve_recent: 10 }
        );
        assert_eq!((interactive.append_system_prompt, interactive.budget_usd), (None, None));
    }
}

// spec: interactive/interactive-mode-configuration/validation-errors
#[test]
fn a_wrong_value_in_interactive_mode_is_an_error_with_location_and_suggestion() {
    let text = section(
        "
    enabled: perhaps
    require_approval: 1
    backend: {type: ofline, request_timeout_seconds: -5}
    append_system_prompt: [a]
    context_compaction: {enabled: 2, threshold_tokens: 0, preserve_recent: -1}
    budget_usd: 0
",
    );
    assert_eq!(
        messages(&checked(&text)),
        [
            "Error 6:14 orchestrator.interactive_mode.enabled | `enabled` must be `true` or `false`, not the text \"perhaps\" | write `true` or `false`",
            "Error 7:23 orchestrator.interactive_mode.require_approval | `require_approval` must be `true` or `false`, not the number 1 | write `true` or `false`",
            "Error 8:21 orchestrator.interactive_mode.backend.type | unknown backend type `ofline` | did you mean `offline`?",
            "Error 8:54 orchestrator.interactive_mode.backend.request_timeout_seconds | `request_timeout_seconds` must be greater than 0 and at most 31536000, not -5 | use a number greater than 0 and at most 31536000",
            "Error 9:5 orchestrator.interactive_mode.append_system_prompt | `append_system_prompt` must be a text, not a list | write a text",
            "Error 10:35 orchestrator.interactive_mode.context_compaction.enabled | `enabled` must be `true` or `false`, not the number 2 | write `true` or `false`",
            "Error 10:56 orchestrator.interactive_mode.context_compaction.threshold_tokens | `threshold_tokens` must be from 1 to 1000000000000, not 0 | use a whole number from 1 to 1000000000000",
            "Error 10:76 orchestrator.interactive_mode.context_compaction.preserve_recent | `preserve_recent` must be from 0 to 1000000, not -1 | use a whole number from 0 to 1000000",
            "Error 11:17 orchestrator.interactive_mode.budget_usd | `budget_usd` must be greater than 0, not 0 | use a number greater than 0",
        ]
    );
}

#[test]
fn interactive_mode_must_be_a_section_and_unknown_fields_are_reported() {
    assert_eq!(
        messages(&checked(&section(" true\n"))),
        [
            "Error 5:21 orchestrator.interactive_mode | `interactive_mode` must be a section with keys, not `true` | write a section with keys"
        ]
    );
    assert_eq!(
        messages(&checked(&section(" {require_aproval: true}\n"))),
        [
            "Error 5:22 orchestrator.interactive_mode.require_aproval | unknown key `require_aproval` | did you mean `require_approval`?"
        ]
    );
}

#[test]
fn without_the_section_the_conversation_is_not_configured() {
    assert_eq!(loaded(&with("orchestrator: {skip_voting: true}\n")).config.interactive, None);
    assert_eq!(loaded(&with("")).config.interactive, None);
}
