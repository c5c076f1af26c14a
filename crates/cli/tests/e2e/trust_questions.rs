//! A person at a terminal is asked about what was found in the working directory, and answers with one key: once,
//! always or not at all. Without a person, it is refused.

use althing_testkit::{Althing, RecordedRequest, Reply, Script, Terminal};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, althing, run};

const QUESTION: &str = "Use what was found here?";

fn found() -> Fixture {
    let fixture = Fixture::new(2, Script::parliament());
    fixture.althing.file("althing.yaml", Team::on(&fixture.server.base_url(), 2).text());
    fixture
}

fn start(althing: &Althing, cols: u16, rows: u16) -> Terminal {
    althing.new_command().terminal(cols, rows)
}

fn words(screen: &str) -> String {
    screen.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
}

fn answer(terminal: &mut Terminal, key: &str) {
    terminal.wait_for(QUESTION, LIMIT);
    for _ in 0..10 {
        terminal.keys("\x1b[6~");
    }
    // A key right after others is not taken for an answer, so it is pressed after a pause, as a person would.
    let mut pressed = std::time::Instant::now();
    terminal.keys(key);
    althing_testkit::wait::until(LIMIT, || {
        let is_gone = !terminal.screen().contains(QUESTION);
        if !is_gone && pressed.elapsed() > std::time::Duration::from_secs(4) {
            terminal.keys_at_once(key);
            pressed = std::time::Instant::now();
        }
        is_gone
    });
}

fn leave(terminal: &mut Terminal) {
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
}

#[test]
fn a_found_config_is_shown_in_plain_lines_and_accepted_once_always_or_not_at_all() {
    for (cols, rows) in [(40, 12), (80, 24), (160, 45)] {
        let fixture = found();
        let mut terminal = start(&fixture.althing, cols, rows);
        let screen = terminal.wait_for("Not at all esc", LIMIT);
        if cols >= 80 {
            let shown = words(&screen);
            assert!(shown.contains("althing.yaml was found in this directory, not named by you"), "{screen}");
            assert!(
                shown.contains("base_url: would send your tasks, files and key to 127.0.0.1"),
                "{screen}"
            );
        }
        answer(&mut terminal, "\x1b");
        assert_eq!(terminal.wait(LIMIT), 1, "{}", terminal.screen());
        assert!(terminal.screen().contains("Nothing was started or sent"), "{}", terminal.screen());

        // Once: the next start asks again.
        let mut terminal = start(&fixture.althing, cols, rows);
        answer(&mut terminal, "o");
        leave(&mut terminal);
        // Always: the next start does not ask, until the file changes.
        let mut terminal = start(&fixture.althing, cols, rows);
        answer(&mut terminal, "a");
        leave(&mut terminal);
        leave(&mut start(&fixture.althing, cols, rows));
        fixture.althing.file("althing.yaml", Team::on(&fixture.server.base_url(), 3).text());
        let mut terminal = start(&fixture.althing, cols, rows);
        answer(&mut terminal, "\x1b");
        assert_eq!(terminal.wait(LIMIT), 1);
        assert_eq!(fixture.server.request_count(), 0);
    }
}

#[test]
fn without_a_terminal_or_with_automation_a_found_config_is_refused_as_before() {
    let fixture = found();
    let output = run(&fixture.althing, &["--automation", "task"]).expect_code(1);
    assert!(output.stderr.contains("--trust"), "{}", output.stderr);
    let mut terminal = fixture.althing.new_command().args(["--automation", "task"]).terminal(160, 40);
    assert_eq!(terminal.wait(LIMIT), 1);
    assert!(terminal.screen().contains("--trust"), "{}", terminal.screen());
    assert_eq!(fixture.server.request_count(), 0);
}

#[test]
fn keys_typed_before_the_question_was_shown_accept_nothing() {
    let fixture = found();
    let mut terminal = start(&fixture.althing, 100, 30);
    for _ in 0..50 {
        terminal.keys_at_once("yoa");
    }
    terminal.wait_for(QUESTION, LIMIT);
    terminal.wait_for("came too soon", LIMIT);
    answer(&mut terminal, "\x1b");
    assert_eq!(terminal.wait(LIMIT), 1);
    assert_eq!(fixture.server.request_count(), 0);
}

#[test]
fn a_found_session_shows_its_goal_and_programs_before_it_is_resumed() {
    let althing = althing();
    let here = || althing.new_command().env("ALTHING_STATE_DIR", "");
    here().args(["chat", "--offline"]).stdin("a planted goal\n").spawn().wait(LIMIT).expect_code(0);
    let another = althing.work_dir().join("home-of-another");
    let open = || here().env("HOME", &another).args(["--offline", "--continue"]).terminal(100, 30);
    let mut terminal = open();
    let screen = terminal.wait_for("Not at all esc", LIMIT);
    let shown = words(&screen);
    assert!(shown.contains("was found here and not started by you"), "{screen}");
    assert!(shown.contains("works in") && shown.contains("its chat agent has file tools"), "{screen}");
    answer(&mut terminal, "\x1b");
    assert_ne!(terminal.wait(LIMIT), 0);
    let mut terminal = open();
    answer(&mut terminal, "o");
    terminal.wait_for("a planted goal", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
}

#[test]
fn a_found_config_cannot_hide_a_part_of_its_question_as_a_secret() {
    let althing = althing();
    let hidden = "echo-planted-words";
    let server = json!({"name": "fs", "type": "stdio", "command": "sh", "args": ["-c", hidden]});
    let backend = json!({"type": "chatcompletion", "model": "m", "base_url": "http://127.0.0.1:9/v1",
        "api_key": hidden, "mcp_servers": [server]});
    althing.file("althing.yaml", json!({"agents": [{"id": "one", "backend": backend}]}).to_string());
    let terminal = start(&althing, 120, 40);
    let screen = terminal.wait_for("Not at all esc", LIMIT);
    assert!(words(&screen).contains(&format!("sh -c {hidden}")), "{screen}");
}

#[test]
fn an_accepted_session_of_another_user_does_not_read_the_file_of_its_config_again() {
    let fixture = Fixture::new(1, Script::from_fn(|_| Reply::text("Hello.")));
    let mut team: Value = serde_json::from_str(&Team::on(&fixture.server.base_url(), 1).text()).unwrap();
    team["agents"][0]["backend"]["api_key"] = "key-of-the-author".into();
    fixture.althing.file("team.yaml", team.to_string());
    let chat = |home: &str, args: &[&str]| {
        let home = fixture.althing.work_dir().join(home);
        let command = fixture.althing.new_command().env("ALTHING_STATE_DIR", "").env("HOME", home);
        let command = command.args(args).stdin("Hello\n");
        command.spawn().wait(LIMIT)
    };
    let sent = |request: &RecordedRequest| request.header("authorization").unwrap_or_default().to_owned();
    chat("author", &["chat", "--config", "team.yaml"]).expect_code(0);
    assert!(fixture.server.requests().iter().any(|request| sent(request).contains("key-of-the-author")));
    let before = fixture.server.request_count();
    chat("author", &["chat", "--continue"]).expect_code(0);
    let requests = fixture.server.requests();
    assert!(requests[before..].iter().any(|request| sent(request).contains("key-of-the-author")));
    let before = fixture.server.request_count();
    chat("user", &["chat", "--continue", "--trust"]);
    let requests = fixture.server.requests();
    assert!(!requests[before..].iter().any(|request| sent(request).contains("key-of-the-author")));
}

/// Goes to the end of the question and returns the screen once it shows the last words.
fn last_page(terminal: &mut Terminal, last: &str) -> String {
    terminal.wait_for(QUESTION, LIMIT);
    for _ in 0..10 {
        terminal.keys("\x1b[6~");
    }
    terminal.wait_until(LIMIT, last, |screen| words(screen).contains(last))
}

#[test]
fn a_found_config_is_accepted_only_after_the_variables_of_its_servers_were_shown() {
    let althing = althing();
    let server = json!({"name": "time", "command": "npx", "args": ["-y", "server-time"], "cwd": "sub",
        "env": {"API_KEY": "canary-1234", "NODE_OPTIONS": "--require ./x.js"}});
    let remote =
        json!({"name": "web", "url": "https://h.example/mcp", "headers": {"X-Route": "canary-route"}});
    let backend = json!({"type": "offline", "mcp_servers": [remote, server]});
    althing.file("althing.yaml", json!({"agents": [{"id": "one", "backend": backend}]}).to_string());
    for (cols, rows) in [(40, 12), (80, 24), (160, 45)] {
        let mut terminal = start(&althing, cols, rows);
        let screen = last_page(&mut terminal, "'NODE_OPTIONS=--require ./x.js'`");
        assert!(words(&screen).contains("in `sub` with the variables `API_KEY=…"), "{screen}");
        answer(&mut terminal, "\x1b");
        assert_eq!(terminal.wait(LIMIT), 1, "{}", terminal.screen());
    }
    let output = run(&althing, &["--automation", "task"]).expect_code(1);
    for shown in ["with the headers `{\"X-Route\":\"canary-route\"}`", "'NODE_OPTIONS=--require ./x.js'"] {
        assert!(output.stderr.contains(shown), "{}", output.stderr);
    }
    assert!(!output.stderr.contains("canary-1234"), "{}", output.stderr);
}

/// A plan that a stranger left here, with an innocent `plan.md`. The flag `approved` keeps Althing from writing the file.
struct FoundPlan {
    fixture: Fixture,
    file: std::path::PathBuf,
    made: usize,
}

impl FoundPlan {
    fn new() -> Self {
        let fixture = Fixture::new(1, super::found_sessions::makes_a_plan());
        let here = fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
        let planning =
            here.args(["--config", "team.yaml", "--automation", "--quick", "--plan", "Look around"]);
        planning.spawn().wait(LIMIT).expect_code(0);
        let plans = fixture.althing.work_dir().join(".althing/plans");
        let dir = std::fs::read_dir(&plans).unwrap().next().unwrap().unwrap().path();
        let made = fixture.server.request_count();
        let found = Self { fixture, file: dir.join("plan.json"), made };
        std::fs::write(
            dir.join("progress.json"),
            r#"{"look": {"status": "failed", "note": "planted-note"}}"#,
        )
        .unwrap();
        found.plant("planted-task");
        found
    }

    fn plant(&self, description: &str) {
        let mut plan: Value = serde_json::from_str(&std::fs::read_to_string(&self.file).unwrap()).unwrap();
        plan["tasks"][0]["description"] = description.into();
        plan["tasks"][0]["verification"] = "planted-check".into();
        plan["additions"] = "planted-addition".into();
        plan["approved"] = true.into();
        std::fs::write(&self.file, plan.to_string()).unwrap();
    }

    fn open(&self, cols: u16, rows: u16) -> Terminal {
        let another = self.fixture.althing.work_dir().join("home-of-another");
        let here = self.fixture.althing.new_command().env("ALTHING_STATE_DIR", "").env("HOME", another);
        here.args(["--config", "team.yaml", "--quick", "--execute-plan", "latest"]).terminal(cols, rows)
    }
}

#[test]
fn a_found_plan_is_shown_as_it_would_be_executed() {
    let found = FoundPlan::new();
    for (cols, rows) in [(40, 12), (80, 24), (160, 45)] {
        let mut terminal = found.open(cols, rows);
        let screen = last_page(&mut terminal, "note: planted-note");
        assert!(words(&screen).contains("planted-task"), "{screen}");
        if cols >= 80 {
            let shown = words(&screen);
            assert!(shown.contains("Also: planted-addition") && shown.contains("planted-check"), "{screen}");
        }
        answer(&mut terminal, "\x1b");
        assert_ne!(terminal.wait(LIMIT), 0);
    }
    assert_eq!(found.fixture.server.request_count(), found.made);
    let mut terminal = found.open(100, 30);
    answer(&mut terminal, "o");
    althing_testkit::wait::until(LIMIT, || found.fixture.server.request_count() > found.made);
    let request = found.fixture.server.requests()[found.made].body().to_string();
    assert!(request.contains("planted-task") && request.contains("planted-addition"), "{request}");
}

#[test]
fn a_plan_that_changes_while_a_person_is_asked_about_it_is_not_executed() {
    let found = FoundPlan::new();
    let mut terminal = found.open(100, 30);
    last_page(&mut terminal, "note: planted-note");
    found.plant("another-task");
    answer(&mut terminal, "o");
    assert_eq!(terminal.wait(LIMIT), 1, "{}", terminal.screen());
    let screen = terminal.screen();
    assert!(words(&screen).contains("has changed while you were asked about it"), "{screen}");
    assert_eq!(found.fixture.server.request_count(), found.made);
    let mut terminal = found.open(100, 30);
    assert!(words(&last_page(&mut terminal, "note: planted-note")).contains("another-task"));
}
