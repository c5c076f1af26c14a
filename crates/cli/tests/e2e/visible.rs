//! What a user sees, clicks and types on the screen of the built binary: the layout of the conversation, cards,
//! approvals, the mode bar and the tabs.

use althing_testkit::{Action, Gate, Parliament, RecordedRequest, Reply, Script, Terminal, wait};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, althing, items, of_type, texts};

const TASK: &str = "Compare three ways to cache HTTP responses";
const OVERRIDE_HINT: &str = "Press Ctrl+O to override, Enter to continue";

fn offline(althing: &althing_testkit::Althing) -> Terminal {
    let mut terminal = althing.new_command().arg("--offline").terminal(100, 60);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys(TASK).keys("\r");
    terminal.wait_for("Cancel esc", LIMIT);
    terminal
}

#[track_caller]
fn click(terminal: &mut Terminal, text: &str) {
    let (column, row) = terminal.find(text).unwrap_or_else(|| panic!("no `{text}`:\n{}", terminal.screen()));
    terminal.click(column, row);
}

/// The line that contains a text, without trailing spaces.
#[track_caller]
fn line(screen: &str, text: &str) -> String {
    let found = screen.lines().find(|line| line.contains(text));
    found.unwrap_or_else(|| panic!("no `{text}`:\n{screen}")).trim_end().to_owned()
}

fn runs(events: &[Value]) -> usize {
    let created = of_type(events, "task_created");
    created.into_iter().filter(|event| event["data"]["spec"]["kind"] == "run").count()
}

// spec: design/approval/shortcut
// spec: design/ui/alignment
// spec: design/ui/context-bar
// spec: design/ui/run-card
// spec: design/ui/queued-messages
// spec: interactive/tui-mode-state-extension/mode-indicator
#[test]
fn the_conversation_has_two_sides_and_a_run_card_opens_while_messages_are_queued() {
    let althing = althing();
    let mut terminal = offline(&althing);
    assert!(line(&terminal.screen(), "Status:").contains("Project: none   Status: Awaiting approval"));
    terminal.keys("a");
    let screen = terminal.wait_for(OVERRIDE_HINT, LIMIT);
    assert!(line(&screen, "Status: Running").ends_with("Interactive"), "{screen}");
    assert!(line(&screen, "Plan · Multi").contains("· Interactive"), "the bar says it too:\n{screen}");
    assert!(line(&screen, "This is work for the agents").starts_with("   This"), "agents left:\n{screen}");
    assert_eq!(line(&screen, "  You").chars().count(), 99, "users right:\n{screen}");
    assert!(line(&screen, "Run: Compare").starts_with(" ▾ Run: Compare three ways"), "{screen}");
    assert!(screen.contains("3 agents · round 3"), "{screen}");
    let last = screen.trim_end().lines().last().unwrap_or_default();
    assert!(
        last.starts_with(" › Type a message...") && last.ends_with("[Send]"),
        "the input is at the bottom:\n{screen}"
    );

    terminal.keys("hello in between\r");
    terminal.wait_for("queued, delivered after this run", LIMIT);
    terminal.keys("\x12");
    terminal.wait_for("tab go into the run", LIMIT);
    assert!(terminal.screen().contains("‹ esc   Run: Compare"), "{}", terminal.screen());
    terminal.keys("\x1b");
    terminal.wait_gone("tab go into the run", LIMIT);
    terminal.keys("\r");
    // The run's result comes first; then the queued message is answered.
    let screen = terminal.wait_for("You wrote: \"hello in between\"", LIMIT);
    assert!(!screen.contains("queued"), "{screen}");
    terminal.keys("\x1b[5~");
    terminal.wait_for("Complete ✓", LIMIT);
    let screen = terminal.wait_for("3 agents · 3 rounds", LIMIT);
    let row = |text: &str| screen.lines().position(|line| line.contains(text));
    assert!(row("Complete ✓") < row("The run has ended"), "{screen}");
}

// spec: interactive/run-approval-flow/approval-granted
// spec: design/ui/run-card
#[test]
fn approve_is_clicked_and_the_run_is_cancelled_at_its_card() {
    let althing = althing();
    let mut terminal = offline(&althing);
    click(&mut terminal, "Approve ⏎");
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    assert_eq!(runs(&althing.events()), 1);
    terminal.keys("\t");
    terminal.wait_for("enter open · x cancel", LIMIT);
    terminal.keys("x");
    terminal.wait_for("Stop this run?", LIMIT);
    terminal.keys("y");
    let screen = terminal.wait_for("Cancelled", LIMIT);
    assert!(line(&screen, "Cancelled").contains("Run: Compare"), "{screen}");
}

/// A chat agent that proposes a run and then repeats what it learned of the run.
fn proposing() -> Fixture {
    let talker = |request: &RecordedRequest| {
        let last = request.messages().last().cloned().unwrap_or_default();
        if last["role"] == "tool" {
            return Reply::text("I have heard it.");
        }
        Reply::call("launch_run", &json!({"task": "Do it"}))
    };
    let fixture = Fixture::new(2, Script::parliament().on("talker").always(Action::with(talker)));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
    fixture.althing.file("team.yaml", team.text());
    fixture
}

/// Checks that the chat agent received the cancellation in its next request, as the result of its call, and that
/// nothing else happened.
#[track_caller]
fn heard_the_cancellation(fixture: &Fixture, how: &str) {
    let requests = fixture.server.requests();
    assert_eq!(fixture.calls(), [("talker".to_owned(), 2)].into(), "{how}: no agent was asked");
    let messages = requests[1].messages();
    let heard = messages.last().unwrap();
    assert_eq!(heard["role"], "tool", "{how}: {heard}");
    let result: Value = serde_json::from_str(heard["content"].as_str().unwrap()).unwrap();
    assert_eq!(result["status"], "cancelled", "{how}: {result}");
    assert!(result.to_string().contains("the user did not approve this run"), "{how}: {result}");
    let said: Vec<&Value> = messages.iter().filter(|message| message["role"] == "user").collect();
    assert_eq!(said.len(), 1, "{how}: the answer is no message: {said:?}");
    let events = fixture.althing.events();
    assert_eq!(runs(&events), 0, "{how}");
}

// spec: interactive/run-approval-flow/approval-cancelled
#[test]
fn a_cancelled_approval_starts_no_run_and_the_chat_agent_hears_of_it_in_every_front_end() {
    // On the screen: by key and by click.
    for how in ["esc", "c", "click"] {
        let fixture = proposing();
        let mut terminal =
            fixture.althing.new_command().args(["--config", "team.yaml", "go"]).terminal(100, 40);
        terminal.wait_for("Cancel esc", LIMIT);
        match how {
            "esc" => terminal.keys("\x1b"),
            "c" => terminal.keys("c"),
            _ => {
                click(&mut terminal, "Cancel esc");
                &mut terminal
            }
        };
        let screen = terminal.wait_for("I have heard it.", LIMIT);
        assert!(!screen.contains("Launch this run?"), "{screen}");
        terminal.wait_for("Status: Idle", LIMIT);
        heard_the_cancellation(&fixture, how);
    }
    // As lines for a person, and as lines for a script.
    for answer in ["n\r", "/reject\r"] {
        let fixture = proposing();
        let command = fixture.althing.new_command().args(["--config", "team.yaml"]).env("ALTHING_PLAIN", "1");
        let mut terminal = command.terminal(100, 40);
        terminal.wait_for("Write a message and press Enter", LIMIT);
        terminal.keys("go\r");
        terminal.wait_for("Question: launch this run?", LIMIT);
        terminal.keys(answer);
        terminal.wait_for("I have heard it.", LIMIT);
        heard_the_cancellation(&fixture, answer);
    }
    let fixture = proposing();
    let running = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]).open_stdin().spawn();
    running.write_stdin("go\n");
    running.wait_for_stderr(|line| line.contains("y approve"), LIMIT);
    running.write_stdin("n\n");
    running.wait_for_stdout(|line| line.contains("I have heard it."), LIMIT);
    running.close_stdin();
    running.wait(LIMIT).expect_code(0);
    heard_the_cancellation(&fixture, "n to `althing chat`");
}

// spec: interactive/run-approval-flow/approval-not-required
#[test]
fn without_required_approval_a_run_starts_without_a_question() {
    let talker = |request: &RecordedRequest| {
        let told = request.messages().last().is_some_and(|last| last["role"] == "tool");
        if told { Reply::text("It is done.") } else { Reply::call("launch_run", &json!({"task": "Do it"})) }
    };
    let fixture = Fixture::new(2, Script::parliament().on("talker").always(Action::with(talker)));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let interactive = json!({"enabled": true, "require_approval": false, "backend": backend});
    fixture.althing.file("team.yaml", Team::on(&base, 2).rule("interactive_mode", interactive).text());
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml", "go"]).terminal(100, 40);
    terminal.wait_for(OVERRIDE_HINT, LIMIT);
    terminal.keys("\r");
    let screen = terminal.wait_for("It is done.", LIMIT);
    assert!(screen.contains("Run: Do it"), "{screen}");
    assert!(!String::from_utf8_lossy(&terminal.raw()).contains("Launch this run?"));
}

// spec: modes/mode-bar-widget/mode-bar-visibility
// spec: modes/mode-bar-widget/mode-bar-disabled-during-execution
// spec: modes/agent-mode-toggle/single-agent-mode-activation
// spec: modes/agent-mode-toggle/tab-bar-agent-selection
// spec: modes/agent-mode-toggle/context-preservation-across-agent-switches
// spec: modes/refinement-mode-toggle/refinement-off-with-single-agent
#[test]
fn the_mode_bar_and_tabs_can_be_clicked_and_are_locked_while_agents_work() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        Action::gated(Action::from(Parliament::default().reply(request)), &held)
    });
    let fixture = Fixture::new(3, script);
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(100, 40);
    terminal.wait_for("Plan · Multi · Refine", LIMIT);
    click(&mut terminal, "Multi");
    terminal.wait_for("1 a works", LIMIT);
    click(&mut terminal, "2 b");
    terminal.wait_for("2 b works", LIMIT);
    let (column, row) = terminal.find("3 c").unwrap();
    assert!(terminal.with_screen(|screen| screen.cell(row, column).unwrap().dim()), "the others are greyed");
    click(&mut terminal, "Refine");
    terminal.wait_for("Plan · Single · Refine off", LIMIT);

    terminal.keys("the first question\r");
    gate.wait_waiting_blocking(1, LIMIT);
    terminal.wait_for("Status: Running", LIMIT);
    for word in ["Plan ·", "Single", "Refine off", "1 a   2 b"] {
        click(&mut terminal, word);
        terminal.wait_for("modes locked while agents work", LIMIT);
        // The message disappears with the next key.
        terminal.keys("\x1b[F");
        terminal.wait_gone("modes locked", LIMIT);
    }
    assert!(terminal.screen().contains("Plan · Single · Refine off"), "{}", terminal.screen());
    gate.release_all();
    terminal.wait_for("Complete ✓", LIMIT);
    terminal.wait_for("Status: Idle", LIMIT);
    assert_eq!(fixture.calls().keys().collect::<Vec<_>>(), ["model-b"], "one agent worked");
    assert!(items(&fixture.althing.events(), "vote").is_empty(), "nobody voted");

    click(&mut terminal, "1 a   2 b");
    terminal.wait_for("1 a works", LIMIT);
    terminal.keys("and the second\r");
    wait::until(LIMIT, || fixture.calls().contains_key("model-a"));
    let requests = fixture.server.requests();
    let asked = requests.iter().find(|request| request.model() == "model-a").unwrap();
    let all = texts(asked);
    assert!(all.contains("the first question") && all.contains("and the second"), "{all}");
}
