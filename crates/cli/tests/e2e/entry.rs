//! Which mode starts: a conversation with the chat agent, or each message as a run. Seen from outside: the screen, the
//! requests that the models received, and the log.

use althing_testkit::{Action, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, bare, of_type, texts};

const CHAT_MODEL: &str = "talker";
const OVERRIDE_HINT: &str = "Press Ctrl+O to override, Enter to continue";

/// Two agents, and this section `interactive_mode`, if any. The section names a model for the chat agent, so that the
/// chat agent's requests can be told apart.
fn fixture(section: Option<&Value>) -> Fixture {
    let talker = Action::with(|_| Reply::text("I am the chat agent."));
    let fixture = Fixture::new(2, Script::parliament().on(CHAT_MODEL).always(talker));
    let base = fixture.server.base_url();
    let mut team = Team::on(&base, 2);
    if let Some(section) = section {
        let mut section = section.clone();
        section["backend"] = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
        team = team.rule("interactive_mode", section);
    }
    fixture.althing.file("team.yaml", team.text());
    fixture
}

fn task_kinds(events: &[Value]) -> Vec<String> {
    let created = of_type(events, "task_created").into_iter();
    let kinds = created.map(|event| event["data"]["spec"]["kind"].as_str().unwrap().to_owned());
    kinds.filter(|kind| kind != "work").collect()
}

fn bars(screen: &str) -> (String, String) {
    let modes = screen.lines().find(|line| line.contains("Plan · Multi · Refine")).unwrap_or_default();
    let first = screen.lines().next().unwrap_or_default();
    (modes.trim_end().to_owned(), first.trim_end().to_owned())
}

// spec: design/entry/tui-default
// spec: interactive/interactive-session-lifecycle/session-initialization
// spec: interactive/tui-mode-state-extension/mode-indicator
#[test]
fn with_the_section_on_the_screen_starts_as_a_conversation_with_the_chat_agent() {
    for section in [json!({"enabled": true}), json!({})] {
        let fixture = fixture(Some(&section));
        let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 30);
        let (modes, first) = bars(&terminal.wait_for("Type a message...", LIMIT));
        assert!(modes.contains("· Interactive") && !modes.contains("Interactive off"), "{section}: {modes}");
        assert!(first.ends_with("Interactive"), "{section}: {first}");
        terminal.keys("the first message\r");
        terminal.wait_for("I am the chat agent.", LIMIT);
        terminal.wait_for("Status: Idle", LIMIT);
        terminal.keys("and another\r");
        terminal.wait_until(LIMIT, "a second reply", |screen| {
            screen.matches("I am the chat agent.").count() == 2 && screen.contains("Status: Idle")
        });
        assert_eq!(fixture.calls(), [(CHAT_MODEL.to_owned(), 2)].into(), "{section}: nobody else was asked");
        let last = fixture.server.requests().pop().unwrap();
        assert!(last.tool_names().contains(&"launch_run"), "{section}: {:?}", last.tool_names());
        let said = texts(&last);
        assert!(said.contains("the first message") && said.contains("and another"), "one session: {said}");
        assert_eq!(task_kinds(&fixture.althing.events()), ["chat"], "{section}");
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
    }
}

// spec: design/entry/tui-default
// spec: interactive/tui-mode-state-extension/mode-indicator
#[test]
fn with_the_section_off_or_absent_each_message_on_the_screen_is_a_run() {
    for section in [Some(json!({"enabled": false})), None] {
        let fixture = fixture(section.as_ref());
        let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 40);
        let (modes, first) = bars(&terminal.wait_for("Type a message...", LIMIT));
        assert!(modes.contains("· Interactive off"), "{section:?}: {modes}");
        assert!(first.ends_with("Direct"), "{section:?}: {first}");
        terminal.keys("hello\r");
        terminal.wait_for(OVERRIDE_HINT, LIMIT);
        terminal.keys("\r");
        let screen = terminal.wait_for("Complete ✓", LIMIT);
        assert!(screen.contains("Run: hello"), "{section:?}:\n{screen}");
        assert_eq!(fixture.calls().into_keys().collect::<Vec<_>>(), ["model-a", "model-b"], "{section:?}");
        let offered = fixture.server.requests();
        assert!(offered.iter().all(|request| !request.tool_names().contains(&"launch_run")), "{section:?}");
        assert!(task_kinds(&fixture.althing.events()).contains(&"run".to_owned()), "{section:?}");
    }
}

// spec: design/entry/tui-default
// spec: interactive/interactive-session-lifecycle/session-initialization
#[test]
fn without_any_config_the_screen_starts_as_a_conversation_with_the_chat_agent() {
    let althing = bare();
    let mut terminal = althing.new_command().terminal(100, 30);
    terminal.wait_for("Welcome to Althing", LIMIT);
    let (modes, first) = bars(&terminal.screen());
    assert!(modes.contains("· Interactive") && !modes.contains("Interactive off"), "{modes}");
    assert!(first.ends_with("Interactive"), "{first}");
    terminal.keys("hello\r");
    terminal.wait_for("You wrote: \"hello\"", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    assert_eq!(task_kinds(&althing.events()), ["chat"]);
}

// spec: design/entry/tui-default
#[test]
fn automation_runs_the_task_even_if_the_section_is_on() {
    // Without a terminal, a task is also run if `--automation` is missing.
    for args in [vec!["--automation", "Why is the sky blue?"], vec!["Why is the sky blue?"]] {
        let fixture = fixture(Some(&json!({"enabled": true})));
        let command = fixture.althing.new_command().args(["--config", "team.yaml"]).args(&args);
        let output = command.spawn().wait(LIMIT).expect_code(0);
        assert!(output.stdout.starts_with("Final answer of model-"), "{args:?}: {}", output.stdout);
        assert!(!output.stdout.contains('\x1b'), "no screen: {}", output.stdout);
        assert_eq!(fixture.calls().into_keys().collect::<Vec<_>>(), ["model-a", "model-b"], "{args:?}");
        assert_eq!(task_kinds(&fixture.althing.events()), ["run"], "{args:?}");
    }
    let fixture = fixture(Some(&json!({"enabled": true})));
    let mut terminal = fixture.command(&["Why is the sky blue?"]).terminal(100, 30);
    assert_eq!(terminal.wait(LIMIT), 0);
    assert!(!String::from_utf8_lossy(&terminal.raw()).contains("\x1b[?1049h"), "no screen was opened");
    assert!(!fixture.calls().contains_key(CHAT_MODEL), "{:?}", fixture.calls());
}

#[test]
fn the_task_dash_is_read_from_the_terminal_without_a_screen() {
    let fixture = fixture(None);
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml", "-"]).terminal(100, 30);
    terminal.wait_for("type the task", LIMIT);
    terminal.keys("Compare two colors\n\u{4}");
    assert_eq!(terminal.wait(LIMIT), 0);
    let request = &fixture.server.requests()[0];
    assert!(texts(request).contains("Compare two colors"), "{}", texts(request));
}
