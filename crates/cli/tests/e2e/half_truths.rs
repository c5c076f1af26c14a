//! What the screen says about agents that dropped out, and about the budget of a conversation.

use althing_testkit::{Fault, FaultMoment, Script};
use serde_json::json;

use super::support::{Fixture, LIMIT, Team};

#[test]
fn a_run_whose_agents_dropped_out_says_how_many_and_why() {
    let before = FaultMoment::BeforeHeaders;
    let script = Script::parliament()
        .on("model-b")
        .fault_always(Fault::Status(401), before)
        .on("model-c")
        .fault_always(Fault::Status(429), before);
    let fixture = Fixture::with(4, script, |team| {
        team.backend(2, "rate_limit_wait_seconds", 1).every_backend("max_retries", 0).backend(
            3,
            "base_url",
            "http://127.0.0.1:9/v1",
        )
    });
    for (cols, rows) in [(80, 24), (160, 45)] {
        let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(cols, rows);
        terminal.wait_for("Type a message...", LIMIT);
        terminal.keys("Compare them").keys("\r");
        let screen = terminal.wait_for("Complete ✓", LIMIT);
        let words = "1 of 4 agents · 3 out: bad key, rate limit, no connection";
        assert!(screen.contains(words), "{cols}x{rows}:\n{screen}");
    }
}

#[test]
fn the_question_about_the_budget_says_what_was_spent_and_what_approving_changes() {
    let script = Script::parliament().on("talker").always(althing_testkit::Reply::text("Hello."));
    let fixture = Fixture::new(2, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let mode = json!({"backend": backend, "budget_usd": 0.0149});
    // One reply costs more than the budget.
    let team = Team::on(&base, 2).rule("interactive_mode", mode).price("talker", 100_000.0);
    fixture.althing.file("team.yaml", team.text());
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("hello").keys("\r");
    terminal.wait_for("Hello.", LIMIT);
    terminal.keys("again").keys("\r");
    let screen = terminal.wait_for("The budget is used up", LIMIT);
    let words: Vec<&str> = screen.split_whitespace().filter(|word| *word != "│").collect();
    let text = words.join(" ");
    assert!(text.contains("has spent $12 of $0.0149."), "{screen}");
    assert!(text.contains("Approving raises the limit to $12.0149."), "{screen}");
    terminal.keys("\r");
    let screen = terminal.wait_for("You raised the cost limit of this session to $12.0149", LIMIT);
    assert!(screen.contains("of $12.0149"), "{screen}");
}
