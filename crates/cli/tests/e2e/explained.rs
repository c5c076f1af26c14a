//! The line that explains a result (rule, points, comparisons) stands on the screen and in the results of MCP.

use althing_testkit::{Script, Terminal};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{Fixture, LIMIT};

/// Three judges rank only `a`.
fn fixture() -> Fixture {
    let window = json!({"override_window_seconds": 600});
    Fixture::with(3, Script::parliament(), |team| team.rule("coordination", window))
}

/// Nobody ranked b and c, so the seed orders them.
const EXPLANATIONS: [&str; 2] = [
    "a wins by Borda count with 6 points (others: b 0, c 0); of 3 ballots, it is ranked above b by 3, c by 3",
    "a wins by Borda count with 6 points (others: c 0, b 0); of 3 ballots, it is ranked above c by 3, b by 3",
];

/// The words of the screen in one line, without frames.
fn words(terminal: &Terminal) -> String {
    let text = terminal.screen();
    let is_frame = |c: char| ('\u{2500}'..='\u{257f}').contains(&c);
    text.split(|c: char| c.is_whitespace() || is_frame(c))
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn is_explained(text: &str) -> bool {
    EXPLANATIONS.iter().any(|explanation| text.contains(explanation))
}

#[test]
fn the_screen_says_by_which_rule_and_with_which_points_the_winner_won() {
    let fixture = fixture();
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(160, 45);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("Compare them").keys("\r");
    terminal.wait_for("Press Ctrl+O to override", LIMIT);
    assert!(is_explained(&words(&terminal)), "{}", terminal.screen());
    terminal.keys("\r");
    terminal.wait_for("Complete ✓", LIMIT);
}

#[test]
fn results_of_mcp_say_by_which_rule_and_with_which_points_the_winner_won() {
    let fixture = fixture();
    let mut client = Client::start(&fixture.althing, &["--config", "team.yaml"]);
    let launched = client.tool("launch_run", &json!({"task": "Compare them"}));
    let check = |result: &Value| {
        let decision = &result["coordination_summary"]["decision"];
        assert_eq!(
            (&decision["rule"], &decision["points"]),
            (&json!("borda"), &json!({"a": 6, "b": 0, "c": 0}))
        );
        assert_eq!(decision["pairwise"]["a"], json!({"b": 3, "c": 3}));
        assert!(is_explained(decision["explanation"].as_str().unwrap()), "{decision}");
    };
    check(&launched["structuredContent"]);
    let run = launched["structuredContent"]["run_id"].clone();
    check(&client.result_of(&run));
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
}
