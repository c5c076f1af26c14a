//! The first screen of a conversation with a config, in a real terminal.

use althing_testkit::Script;
use serde_json::json;

use super::support::{Fixture, LIMIT, Team};

fn with_chat_agent() -> Fixture {
    let fixture = Fixture::new(2, Script::parliament());
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker-9", "base_url": base});
    let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
    fixture.althing.file("team.yaml", team.text());
    fixture
}

#[test]
fn with_a_config_the_first_screen_names_the_model_the_agents_the_directory_and_three_tips() {
    for (cols, rows) in [(80, 24), (160, 45)] {
        let fixture = with_chat_agent();
        let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(cols, rows);
        let screen = terminal.wait_for("you talk to", LIMIT);
        let is_row = |line: &&str, label: &str| line.trim_start().starts_with(label);
        let row = |label: &str| screen.lines().find(|line| is_row(line, label)).unwrap_or_default();
        assert!(row("you talk to").contains("talker-9"), "{screen}");
        assert!(row("agents  ").contains("a model-a · b model-b"), "{screen}");
        let directory = fixture.althing.work_dir();
        let name = directory.file_name().unwrap().to_str().unwrap();
        assert!(screen.contains("directory") && screen.contains(name), "{screen}");
        for tip in ["@path", "Shift+Tab", "Ctrl+G"] {
            assert!(screen.lines().any(|line| line.contains("· ") && line.contains(tip)), "{tip}:\n{screen}");
        }
        terminal.keys("compare them");
        terminal.wait_for("› compare them", LIMIT);
        terminal.keys("\r");
        terminal.wait_gone("you talk to", LIMIT);
    }
}

#[test]
fn the_greeting_fits_a_small_screen_and_says_if_nobody_is_talked_to() {
    let fixture = Fixture::new(2, Script::parliament());
    let terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(40, 12);
    let screen = terminal.wait_for("Type a message...", LIMIT);
    assert!(screen.contains("every message starts a run") || screen.contains("no single agent"), "{screen}");
    assert!(screen.contains("a model-a"), "{screen}");
}
