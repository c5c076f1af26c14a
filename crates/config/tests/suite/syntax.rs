//! Text that is not YAML: an error with a position and a suggestion.

use super::support::{checked, loaded, messages, with};

fn first(text: &str) -> (usize, usize, String) {
    let report = checked(text);
    let error = report.errors.first().expect("an error");
    (error.line, error.column, error.suggestion.clone().unwrap_or_default())
}

#[test]
fn a_tab_in_the_indentation_is_reported() {
    let (line, _, hint) = first("agents:\n  - id: a\n\tbackend: {}\n");
    assert_eq!((line, hint.as_str()), (2, "indent line 3 with spaces; YAML does not allow tabs there"));
}

#[test]
fn bad_indentation_points_at_its_line() {
    let (line, ..) = first("agents:\n  - id: a\n    backend:\n      type: offline\n     model: x\n");
    assert_eq!(line, 5);
}

#[test]
fn an_open_quote_and_an_open_bracket_are_reported() {
    assert!(first("agents: \"abc\n").2.starts_with("close the quote"));
    assert_eq!(first("agents: [a, b\n").2, "close the bracket");
}

#[test]
fn a_second_document_and_an_unknown_tag_are_rejected() {
    assert!(checked(&with("---\nui: {}\n")).errors[0].message.contains("more than one YAML document"));
    assert!(checked(&with("ui: !python/object {}\n")).errors[0].message.contains("tag"));
}

#[test]
fn an_empty_file_has_no_agent() {
    for text in ["", "\n", "# only a comment\n", "---\n", "null\n"] {
        assert_eq!(
            messages(&checked(text)),
            [
                "Error 1:1 agents | the config names no agent | add `agents: [{id: …, backend: {type: …, model: …}}]`"
            ],
            "{text:?}"
        );
    }
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let loaded = loaded(
        "agents:\n  - id: a\n    backend: &shared {type: offline, temperature: 0.1, seed: 3}\n  - id: b\n    backend:\n      <<: *shared\n      temperature: 0.9\n",
    );
    let params = &loaded.config.agents[1].backend.params;
    assert_eq!(
        serde_json::to_value(params).expect("json"),
        serde_json::json!({"temperature": 0.9, "seed": 3})
    );
}

#[test]
fn windows_line_endings_and_a_byte_order_mark_are_accepted() {
    loaded("\u{feff}agents:\r\n  - id: a\r\n    backend: {type: offline}\r\n");
    let report = checked("agents:\r\n  - id: a\r\n    backend: {type: offlin}\r\n");
    assert_eq!((report.errors[0].line, report.errors[0].column), (3, 21));
    assert_eq!(report.errors[0].source_line, "    backend: {type: offlin}");
}

#[test]
fn columns_count_characters() {
    let report = checked("agents: [{id: \"ünï\", backend: {type: öffline}}]\n");
    let error = &report.errors[0];
    assert_eq!((error.column, error.width), (38, 7));
}

#[test]
fn a_quoted_number_is_text_and_numbers_have_several_notations() {
    assert!(!checked(&with("timeout_settings: {orchestrator_timeout_seconds: \"60\"}\n")).is_valid());
    let rules = loaded(&with(
        "timeout_settings: {orchestrator_timeout_seconds: 6e1, round_timeout_grace_seconds: 0x10}\n",
    ))
    .config
    .rules;
    assert_eq!(rules.limits.orchestrator.0, 60_000);
    assert_eq!(rules.limits.round_grace.0, 16_000);
    for odd in [".inf", "-.inf", ".nan", "1e999", "99999999999999999999"] {
        assert!(
            !checked(&with(&format!("timeout_settings: {{orchestrator_timeout_seconds: {odd}}}\n")))
                .is_valid(),
            "{odd}"
        );
    }
}

#[test]
fn a_quote_that_is_not_closed_is_reported_where_it_opens() {
    let lines = |quote: char| {
        format!(
            "agents:\n  - id: {quote}a\n    backend:\n      type: {quote}offline{quote}\n      model: {quote}offline-a{quote}\n  - id: b\n    backend: {{type: offline}}\n"
        )
    };
    for quote in ['"', '\''] {
        let report = checked(&lines(quote));
        let error = report.errors.first().expect("an error");
        assert_eq!((error.line, error.column), (2, 9), "{quote}: {error:?}");
        assert!(error.message.contains("quote"), "{error:?}");
    }
    for (text, line) in [
        ("agents:\n  - id: a\n    backend: {type: offline}\nui: {display_type: \"simple}\n", 4),
        ("agents:\n  - id: a\n    system_message: |\n      say \"no\n    backend: {type: 'offline}\n", 5),
        ("# it's\nagents:\n  - id: 'a\n    backend: {type: offline}\n", 3),
    ] {
        let report = checked(text);
        assert_eq!(report.errors.first().map(|error| error.line), Some(line), "{text}: {:?}", report.errors);
    }
    let text = "agents:\n  - id: a\n    system_message: \"one\n      two\"\n    backend:\n      type: offline\n     model: x\n";
    assert_eq!(first(text).0, 7);
}

#[test]
fn errors_in_the_syntax_are_told_in_plain_words() {
    for text in [
        "agents:\n  - id: a\n    backend:\n      type: offline\n     model: x\n",
        "agents: [a, b\n",
        "agents: \"abc\n",
        "agents:\n  - id: a: b\n",
        "agents:\n\t- id: a\n",
        "agents: [a}\n",
        "agents: *team\n",
    ] {
        let report = checked(text);
        let error = report.errors.first().expect("an error");
        for jargon in ["scalar", "mapping", "sequence", "flow", "token", "simple key"] {
            assert!(!error.message.to_lowercase().contains(jargon), "{text}: {}", error.message);
        }
    }
}
