//! What a user sees, clicks and types on the screen of the built binary: the layout of the conversation, cards,
//! approvals, the mode bar and the tabs.

use althing_testkit::{Action, Gate, Parliament, RecordedRequest, Reply, Script, Terminal, wait};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{Fixture, LIMIT, Team, althing, ensure, in_parallel, items, of_type, texts};

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
    terminal.wait_for("The run is cancelled", LIMIT);
    terminal.keys("\x1b[5~");
    let screen = terminal.wait_for("Cancelled", LIMIT);
    assert!(line(&screen, "Cancelled").contains("Run: Compare"), "{screen}");
}

fn proposing() -> Fixture {
    proposing_run(&json!({"task": "Do it"}), |team| team)
}

pub fn proposing_run(launch: &Value, change: impl FnOnce(Team) -> Team) -> Fixture {
    let launch = launch.clone();
    let talker = move |request: &RecordedRequest| {
        let last = request.messages().last().cloned().unwrap_or_default();
        if last["role"] == "tool" {
            return Reply::text("I have heard it.");
        }
        Reply::call("launch_run", &launch)
    };
    let fixture = Fixture::new(2, Script::parliament().on("talker").always(Action::with(talker)));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let team = change(Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend})));
    fixture.althing.file("team.yaml", team.text());
    fixture
}

fn shown_question(front_end: &str, fixture: &Fixture, launch: &Value) -> String {
    let command = fixture.althing.new_command();
    match front_end {
        "screen" => {
            let terminal = command.args(["--config", "team.yaml", "go"]).terminal(160, 40);
            terminal.wait_for("Cancel esc", LIMIT)
        }
        "plain screen" => {
            let command = command.args(["--config", "team.yaml"]).env("ALTHING_PLAIN", "1");
            let mut terminal = command.terminal(250, 40);
            terminal.wait_for("Write a message and press Enter", LIMIT);
            terminal.keys("go\r");
            terminal.wait_for("Write /approve or /reject.", LIMIT)
        }
        "chat" => {
            let running = command.args(["chat", "--config", "team.yaml"]).open_stdin().spawn();
            running.write_stdin("go\n");
            running.wait_for_stderr(|line| line.contains("y approve"), LIMIT);
            let shown = running.stderr();
            running.write_stdin("n\n");
            running.close_stdin();
            running.wait(LIMIT).expect_code(0);
            shown
        }
        _ => {
            let can_ask = json!({"elicitation": {"form": {}}});
            let mut client = Client::with(&fixture.althing, &["--config", "team.yaml"], &can_ask);
            let (question, _) = client.tool_with_question("launch_run", launch, "decline");
            question["params"]["message"].as_str().unwrap().to_owned()
        }
    }
}

/// The words of one detail of a question: of the row that begins with the label, or of the sentence after the label.
/// Empty if there is no such detail.
fn detail(question: &str, label: &str) -> Vec<String> {
    let sentence = question.split_once(&format!("{label}: ")).map(|(_, rest)| {
        let next = [
            "Context: ",
            "Agents: ",
            "Modes: ",
            "Prompts: ",
            "May write: ",
            "Cost: ",
            "Sign-in: ",
            "Write /approve",
        ];
        let end = next.iter().filter_map(|next| rest.find(&format!(". {next}"))).min();
        &rest[..end.unwrap_or(rest.len())]
    });
    let is_row =
        |line: &&str| line.trim_start_matches(|c: char| !c.is_alphabetic()).starts_with(&format!("{label} "));
    let row = || question.lines().find(is_row)?.split_once(label).map(|(_, rest)| rest);
    let found = sentence.or_else(row).unwrap_or_default();
    let words = found.split_whitespace().map(|word| word.trim_matches([',', '.', '‹', '›']).to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

// spec: interactive/run-approval-flow/approval-required
#[test]
fn the_question_shows_task_context_agents_modes_and_paths_in_every_front_end() {
    let named = json!({"task": "Do it", "context": "Keep it small", "agents": ["b"], "agent_mode": "single",
        "agent_system_prompts": {"b": "Rhyme"}});
    let all = json!({"task": "Do it", "context": "Keep it small"});
    let launches = [(named, &["b"][..], ["Single", "Quick"]), (all, &["a", "b"], ["Multi", "Refine"])];
    let front_ends = ["screen", "plain screen", "chat", "MCP"];
    let cases = launches.iter().flat_map(|launch| front_ends.map(|front_end| (launch, front_end)));
    in_parallel(2, cases, |((launch, agents, modes), front_end)| {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().canonicalize().unwrap();
        let fixture = proposing_run(launch, |team| {
            team.rule("context_paths", json!([{"path": shared, "permission": "write"}]))
        });
        let question = shown_question(front_end, &fixture, launch);
        let path = shared.display().to_string();
        let prompts: &[&str] = if launch["agents"].is_null() { &[] } else { &["Rhyme"] };
        for (label, words) in [
            ("Task", &["Do", "it"][..]),
            ("Context", &["Keep", "it", "small"]),
            ("Agents", agents),
            ("Modes", modes),
            ("Prompts", prompts),
            ("May write", &[path.as_str()]),
        ] {
            let shown = detail(&question, label);
            let has_all =
                words.iter().all(|word| shown.iter().any(|shown| shown.trim_end_matches(':') == *word));
            ensure(has_all, || format!("{front_end}: {label}: {shown:?}, not {words:?}:\n{question}"))?;
        }
        let others = ["a", "b"].into_iter().filter(|agent| !agents.contains(agent));
        let shown = detail(&question, "Agents");
        for other in others {
            ensure(!shown.iter().any(|word| word == other), || format!("{front_end}: {other}:\n{question}"))?;
        }
        let requests = fixture.server.requests();
        let is_asking = requests.iter().all(|request| request.model() == "talker");
        ensure(is_asking, || format!("{front_end}: an agent works before the answer"))
    });
}

#[test]
fn the_question_estimates_tokens_and_cost_in_every_front_end() {
    let launch = json!({"task": "Do it", "agents": ["a", "b"]});
    in_parallel(2, ["screen", "plain screen", "chat", "MCP"], |front_end| {
        let fixture = proposing_run(&launch, |team| team.price("model-a", 10.0).price("model-b", 10.0));
        let first = shown_question(front_end, &fixture, &launch);
        let assumed = "about 14k tokens, about $0.14, up to $0.24";
        ensure(first.contains(assumed), || format!("{front_end}: no `{assumed}`:\n{first}"))?;
        // Five calls with 120 tokens each.
        fixture.run(&["A run before"]).expect_code(0);
        let second = shown_question(front_end, &fixture, &launch);
        let measured = "about 600 tokens, under $0.01";
        ensure(second.contains(measured), || format!("{front_end}: no `{measured}`:\n{second}"))
    });
}

#[test]
fn a_run_that_somebody_else_left_in_the_directory_changes_no_estimate_in_any_front_end() {
    let launch = json!({"task": "Do it", "agents": ["a", "b"]});
    in_parallel(2, ["screen", "plain screen", "chat", "MCP"], |front_end| {
        let mut fixture = proposing_run(&launch, |team| team.price("model-a", 10.0).price("model-b", 10.0));
        fixture.althing = fixture.althing.env("ALTHING_STATE_DIR", "");
        let stranger = fixture.althing.work_dir().join("home-of-a-stranger");
        std::fs::create_dir(&stranger).unwrap();
        let planted = fixture.command(&["A run before"]).env("HOME", &stranger).spawn();
        planted.wait(LIMIT).expect_code(0);
        let (assumed, measured) = ("about 14k tokens, about $0.14", "about 600 tokens, under $0.01");
        let question = shown_question(front_end, &fixture, &launch);
        ensure(question.contains(assumed), || format!("{front_end}: no `{assumed}`:\n{question}"))?;
        fixture.run(&["An own run"]).expect_code(0);
        let question = shown_question(front_end, &fixture, &launch);
        ensure(question.contains(measured), || format!("{front_end}: no `{measured}`:\n{question}"))
    });
}

#[test]
fn the_question_names_agents_that_nobody_signed_in_to_in_every_front_end() {
    in_parallel(2, ["screen", "plain screen", "chat", "MCP"], |front_end| {
        for (agents, is_named) in [(["a", "c"], true), (["a", "b"], false)] {
            let launch = json!({"task": "Do it", "agents": agents});
            let fixture = proposing_run(&launch, |team| team.agent("c", &json!({"type": "codex"})));
            let question = shown_question(front_end, &fixture, &launch);
            let shown = detail(&question, "Sign-in").join(" ");
            let expected = if is_named { "missing for c (run `codex login`)" } else { "" };
            ensure(shown.trim_end_matches(['│', ' ', '|']) == expected, || {
                format!("{front_end}: {shown:?}, not {expected:?}:\n{question}")
            })?;
        }
        Ok(())
    });
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
    // In lines: in a terminal without a screen, and with `althing chat`.
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

/// The task of the run is padded so that, if the terminal wrapped it, a forged row would begin at the first column.
#[test]
fn no_text_of_a_proposed_run_looks_like_a_row_of_its_question() {
    const COLUMNS: usize = 100;
    let (line, screen) = (&["chat", "--config", "team.yaml"][..], &["--config", "team.yaml"][..]);
    // `before` is the text in front of the task in the task's row, and `forged` the row that the task imitates.
    for (args, plain, ready, before, forged, after) in [
        (line, "", "", "  Task      ", "  May write nothing at all", "y approve"),
        (
            screen,
            "1",
            "Write a message",
            "Question: launch this run? Task: ",
            "Question: stop?",
            "Write /approve",
        ),
    ] {
        let fill = |used: usize| "x".repeat(COLUMNS - used);
        let task = format!("{}{forged}{}{forged}", fill(before.len()), fill(forged.len()));
        let launch = Reply::call("launch_run", &json!({"task": task, "context": task}));
        let script = Script::parliament().on("talker").nth(0, launch).on("talker").always(Reply::text("Ok."));
        let fixture = Fixture::new(2, script);
        let base = fixture.server.base_url();
        let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
        let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
        fixture.althing.file("team.yaml", team.text());
        let command = fixture.althing.new_command().args(args);
        let command = if plain.is_empty() { command } else { command.env("ALTHING_PLAIN", plain) };
        let mut terminal = command.terminal(COLUMNS as u16, 40);
        terminal.wait_for(ready, LIMIT);
        terminal.keys("go\r");
        let shown = terminal.wait_for(after, LIMIT);
        // In the screen's text, a line that the terminal wrapped is still one line. It is split into the rows on the
        // screen.
        let rows = shown.lines().flat_map(|line| {
            let letters: Vec<char> = line.chars().collect();
            letters.chunks(COLUMNS).map(|row| row.iter().collect::<String>()).collect::<Vec<_>>()
        });
        let looks_real: Vec<String> = rows.filter(|row| row.starts_with(forged)).collect();
        assert!(looks_real.is_empty(), "{args:?}: {looks_real:?}\n{shown}");
        assert!(shown.contains("  | "), "{args:?}:\n{shown}");
    }
}
