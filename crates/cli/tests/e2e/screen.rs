//! The terminal UI in a real terminal: the built binary, typed keys, and the resulting screen.

use althing_testkit::process::Signal;
use althing_testkit::{FakeModel, Script, Terminal};

use super::support::{Fixture, LIMIT, althing, bare, wait_for_reply_to_hello};

fn offline(cols: u16, rows: u16) -> Terminal {
    althing().arg("--offline").terminal(cols, rows)
}

#[test]
fn without_a_task_a_terminal_shows_the_conversation_ready_for_a_message() {
    let mut terminal = offline(100, 30);
    let screen = terminal.wait_for("Type a message...", LIMIT);
    for text in ["Project: none", "Status: Idle", "offline", "Plan", "Multi", "Refine", "Interactive"] {
        assert!(screen.contains(text), "{text}:\n{screen}");
    }
    terminal.keys("hello\r");
    wait_for_reply_to_hello(&terminal);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0, "Ctrl+D on an empty input quits");
}

#[test]
fn only_a_conversation_in_which_something_was_said_names_how_to_resume_it() {
    for says in [false, true] {
        let mut terminal = offline(100, 30);
        terminal.wait_for("Type a message...", LIMIT);
        if says {
            terminal.keys("hello\r");
            wait_for_reply_to_hello(&terminal);
        }
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
        let screen = terminal.screen();
        assert_eq!(screen.contains("resume with `althing --session"), says, "{screen}");
    }
}

// spec: interactive/run-approval-flow/approval-required
#[test]
fn a_run_is_approved_watched_overridden_and_read() {
    let mut terminal = offline(120, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("Compare three ways to cache HTTP responses\r");
    let screen = terminal.wait_for("Cancel esc", LIMIT);
    assert!(screen.contains("Launch this run?"), "{screen}");
    for text in ["Approve ⏎", "Edit e", "Cancel esc"] {
        assert!(screen.contains(text), "{text}:\n{screen}");
    }
    let row = |label: &str| {
        let row = screen.lines().find_map(|line| line.split_once(label));
        row.unwrap_or_else(|| panic!("no `{label}`:\n{screen}")).1.to_owned()
    };
    assert!(row("Task ").contains("Compare three ways to cache HTTP responses"), "{screen}");
    let agents = row("Agents ");
    let agents: Vec<&str> = agents.split_whitespace().collect();
    assert!(["one", "two", "three"].iter().all(|agent| agents.contains(agent)), "{agents:?}:\n{screen}");
    terminal.keys("\r");
    terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
    terminal.keys("\x0f");
    let screen = terminal.wait_for("Choose who presents", LIMIT);
    assert!(screen.contains("one") && screen.contains("two") && screen.contains("three"), "{screen}");
    terminal.keys("\x1b[B").keys("\r");
    terminal.wait_for("Status: Idle", LIMIT);
    // The answer has moved the card out of view: Ctrl+R opens the run.
    terminal.keys("\x12");
    terminal.wait_for("Complete ✓", LIMIT);
    terminal.keys("\x1b");
    terminal.wait_gone("Complete ✓", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
}

// spec: design/migration/existing-configs
#[test]
fn a_task_on_the_command_line_is_the_first_message() {
    let fixture = Fixture::new(2, Script::parliament());
    let command = fixture.althing.new_command().args(["--config", "team.yaml", "Why is the sky blue?"]);
    let mut terminal = command.terminal(90, 30);
    terminal.wait_for("Why is the sky blue?", LIMIT);
    // Without `interactive_mode` in the config, the message is a run.
    terminal.wait_for("Run: Why is the sky blue?", LIMIT);
    terminal.keys("\x03\x03\x03");
    terminal.wait(LIMIT);
}

#[test]
fn the_word_after_single_agent_is_the_first_message_if_no_agent_has_that_id() {
    let fixture = Fixture::new(2, Script::parliament());
    let command =
        fixture.althing.new_command().args(["--config", "team.yaml", "--single-agent", "What is new?"]);
    let mut terminal = command.terminal(90, 30);
    terminal.wait_for("Run: What is new?", LIMIT);
    terminal.wait_for("Complete ✓", LIMIT);
    assert_eq!(fixture.calls().into_keys().collect::<Vec<_>>(), ["model-a"]);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
}

#[test]
fn small_and_large_terminals_and_resizes_work() {
    for (cols, rows) in [(40, 12), (80, 24), (200, 50)] {
        let mut terminal = offline(cols, rows);
        terminal.wait_for("Type a message", LIMIT);
        terminal.resize(120, 30).keys("abc");
        terminal.wait_for("abc", LIMIT);
        terminal.resize(cols, rows);
        terminal.wait_for("abc", LIMIT);
    }
}

#[test]
fn a_signal_restores_the_terminal_and_names_the_resume_command() {
    let mut terminal = offline(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    // A conversation in which nothing was said is not worth resuming.
    terminal.keys("hello\r");
    wait_for_reply_to_hello(&terminal);
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.wait(LIMIT), 4);
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    assert!(raw.contains("\x1b[?1049l"), "the screen before is shown again");
    assert!(raw.contains("\x1b[?25h"), "the cursor shows again");
    assert!(raw.contains("--session"), "{raw}");
}

// spec: modes/plan-mode/enter-plan-mode
// spec: modes/plan-mode/plan-mode-submission
// spec: modes/plan-mode/plan-approval-with-additions
// spec: modes/plan-mode/plan-execution-display
#[test]
fn a_plan_is_made_shown_approved_with_additions_and_executed() {
    let althing = althing();
    let mut terminal = althing.new_command().arg("--offline").terminal(120, 45);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("\x1b[Z");
    terminal.wait_for("Describe what to plan...", LIMIT);
    terminal.keys("Write a tool that counts words\r");
    terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
    terminal.keys("\r");
    let screen = terminal.wait_for("Add instructions", LIMIT);
    assert!(screen.contains("first-version") && screen.contains("Approve"), "the plan is shown:\n{screen}");
    let plans: Vec<_> = std::fs::read_dir(althing.state_dir().join("plans")).unwrap().collect();
    assert_eq!(plans.len(), 1, "the plan is on disk");
    terminal.keys("\t").keys("also write a manual page").keys("\r");
    terminal.wait_until(LIMIT, "the plan's directory beside `Executing Plan`", |screen| {
        screen.lines().any(|line| line.contains("Executing Plan") && line.contains("plan-"))
    });
    terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
    let events = althing.events();
    let runs: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "task_created" && event["data"]["spec"]["kind"] == "run")
        .collect();
    assert_eq!(runs.len(), 2, "planning, then execution");
    assert_eq!(runs[0]["data"]["spec"]["modes"]["planning"], true);
    assert_eq!(runs[1]["data"]["spec"]["modes"]["planning"], false);
    let context = runs[1]["data"]["spec"]["context"].as_str().unwrap();
    assert!(context.contains("also write a manual page"), "{context}");
    let tasks = runs[1]["data"]["spec"]["plan"]["tasks"].as_array().unwrap();
    assert!(tasks.iter().any(|task| task["id"] == "first-version"), "{tasks:?}");
    let kept = plans[0].as_ref().unwrap().path().join("plan.json");
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(kept).unwrap()).unwrap();
    assert_eq!((&kept["additions"], &kept["approved"]), (&"also write a manual page".into(), &true.into()));
}

#[test]
fn the_first_start_can_write_a_config_and_continue_with_it() {
    let althing = bare();
    let mut terminal = althing.new_command().terminal(100, 30);
    terminal.wait_for("first write a config (althing.yaml) to this directory", LIMIT);
    terminal.keys("\x1b[B\x1b[B").keys("\r");
    terminal.wait_for("using /", LIMIT);
    assert!(althing.work_dir().join("althing.yaml").is_file());
    terminal.keys("/config\r");
    terminal.wait_for("already exists", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    assert!(!raw.contains("panicked") && !raw.contains("wrote "), "{raw}");
}

#[test]
fn the_first_start_shows_what_was_detected_and_what_is_missing() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let host = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let start = bare().env("OPENAI_API_KEY", "sk-of-the-user").env("OLLAMA_HOST", host);
    let screen = start.terminal(100, 30).wait_for("Welcome", LIMIT);
    let line =
        |word: &str| screen.lines().find(|line| line.trim_start().starts_with(word)).unwrap().to_owned();
    assert!(line("found").contains("OPENAI_API_KEY · Ollama (model-a"), "{screen}");
    assert!(line("missing").contains("ANTHROPIC_API_KEY") && line("missing").contains("claude"), "{screen}");
    assert!(!screen.contains("sk-of-the-user"));

    let screen = bare().terminal(100, 30).wait_for("Welcome", LIMIT);
    assert!(screen.contains("Ollama") && screen.contains("offline model (not an AI"), "{screen}");
}

#[test]
fn problems_of_a_config_are_shown_first_and_dismissed_by_a_key() {
    let althing = bare();
    let yaml = "agents:\n  - id: a\n    backend: {type: offline}\norchestrator: {skip_votes: true}\n";
    althing.file("team.yaml", yaml);
    let mut terminal = althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
    let screen = terminal.wait_for("Problems of the config", LIMIT);
    assert!(screen.contains("`skip_votes`") && screen.contains("did you mean `skip_voting`?"), "{screen}");
    terminal.keys("\x1b");
    terminal.wait_gone("Problems of the config", LIMIT);
    terminal.keys("hello");
    terminal.wait_for("› hello", LIMIT);
}
