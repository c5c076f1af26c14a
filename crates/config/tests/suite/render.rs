//! The report as text and as JSON.

use althing_config::Style;
use serde_json::json;

use super::support::checked;

const TEXT: &str = "agents:\n  - id: a\n    backend:\n      type: opnai\nui_theme: {}\n";

#[test]
fn a_problem_is_shown_with_its_position_line_caret_and_suggestion() {
    let expected = "\
error: unknown backend type `opnai`
 --> team.yaml:4:13 (agents[0].backend.type)
4 |       type: opnai
  |             ^^^^^
  = help: did you mean `openai`?

warning: unknown key `ui_theme`; it has no effect
 --> team.yaml:5:1 (ui_theme)
5 | ui_theme: {}
  | ^^^^^^^^
  = help: remove it, or see `althing config schema` for the known keys
";
    assert_eq!(checked(TEXT).render(Style::Plain), expected);
}

#[test]
fn color_adds_only_escape_sequences() {
    let colored = checked(TEXT).render(Style::Color);
    assert!(colored.contains("\u{1b}[31merror\u{1b}[0m"));
    let mut plain = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').expect("the end of a color").1;
    }
    plain.push_str(rest);
    assert_eq!(plain, checked(TEXT).render(Style::Plain));
}

#[test]
fn the_json_report_has_exactly_the_promised_fields() {
    assert_eq!(
        checked(TEXT).to_json(),
        json!({
            "file": "team.yaml",
            "valid": false,
            "errors": [{
                "message": "unknown backend type `opnai`",
                "location": "agents[0].backend.type",
                "line": 4,
                "column": 13,
                "suggestion": "did you mean `openai`?"
            }],
            "warnings": [{
                "message": "unknown key `ui_theme`; it has no effect",
                "location": "ui_theme",
                "line": 5,
                "column": 1,
                "suggestion": "remove it, or see `althing config schema` for the known keys"
            }]
        })
    );
}
