//! Reading any text ends in a report and not in a panic.

use althing_config::{LoadPurpose, Source, Style, load_config, parse_dotenv, redact};
use proptest::prelude::*;

use super::support::env;

/// Random fragments of configs, so that the reader gets past the first character.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,3}",
        4 => Just(": ".to_owned()),
        3 => Just("\n".to_owned()),
        3 => Just("\n  ".to_owned()),
        2 => Just("\n    - ".to_owned()),
        1 => prop::sample::select(vec![
            "agents:", "backend:", "type:", "openai", "offline", "id:", "api_key:", "orchestrator:", "interactive_mode:", "${X}", "${Y:-z}",
            "$${", "&a ", "*a ", "<<: ", "|\n", ">-\n", "{", "}", "[", "]", ",", "\"", "'", "#", "é", "\u{1f600}", "\t", "-1", "0.5", "true", "~",
            "? ", "!x ", "---\n", "\r\n", "\0", "\u{feff}",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_a_report_with_valid_positions(text in text()) {
        for purpose in [LoadPurpose::Check, LoadPurpose::Run] {
            let report = load_config(Source { name: "x", text: &text }, &env(&[("X", "x")]), purpose);
            prop_assert_eq!(report.is_valid(), report.config.is_some());
            let lines = text.split('\n').count();
            for one in report.errors.iter().chain(&report.warnings) {
                prop_assert!((1..=lines + 1).contains(&one.line), "line {} of {}", one.line, lines);
                prop_assert!(one.suggestion.is_some(), "{one:?}");
                prop_assert!(one.caret <= one.source_line.chars().count() + 1, "{one:?}");
            }
            let _ = report.render(Style::Color);
        }
    }

    #[test]
    fn a_secret_never_survives_redaction(before in text(), after in text()) {
        let text = format!("{before}\napi_key: canary5f3a9c\n{after}");
        let redacted = redact(&text);
        // If the line became part of something else, such as a block text, it is not a key and has no secret.
        if load_config(Source { name: "x", text: &text }, &env(&[]), LoadPurpose::Check).secrets.iter().any(|secret| secret.reveal().contains("canary")) {
            prop_assert!(!redacted.contains("canary"), "{redacted}");
        }
        prop_assert_eq!(redact(&redacted), redacted);
    }

    #[test]
    fn any_dotenv_text_can_be_read(text in "[A-Z=\"'#\\\\\n \\$a-z]{0,80}") {
        for (name, _) in parse_dotenv(&text) {
            prop_assert!(!name.is_empty());
        }
    }
}
