//! `@path` and `@path:w`: what a person types grants a path to the runs of that message, on the screen and in `chat`;
//! what a model or a client writes, or what comes from a pipe, grants nothing.

use std::path::{Path, PathBuf};

use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script, Terminal};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{Fixture, LIMIT, Team, althing, of_type, texts};

const CHAT_MODEL: &str = "talker";

fn files(fixture: &Fixture) -> (PathBuf, PathBuf) {
    fixture.althing.file("notes/old.txt", "old\n");
    let plan = fixture.althing.file("plan.md", "the plan\n").canonicalize().unwrap();
    (fixture.althing.work_dir().join("notes").canonicalize().unwrap(), plan)
}

/// A member that writes a file to the first path that its prompt says is writable, then behaves like any member.
fn member(request: &RecordedRequest) -> Action {
    let system = request.system_text();
    let told = request.messages().iter().any(|message| message["role"] == "tool");
    let writable = system.lines().find_map(|line| line.strip_prefix("- ")?.split_once(" (you may write"));
    match writable {
        Some((path, _)) if !told && request.tool_names().contains(&"write_file") => {
            let arguments = json!({"path": Path::new(path).join("new.txt"), "content": "written\n"});
            Reply::call("write_file", &arguments).into()
        }
        _ => Parliament::default().reply(request).into(),
    }
}

/// Without a chat agent, each message is a run.
fn direct() -> Fixture {
    Fixture::new(2, Script::from_fn(member))
}

fn interactive(launch: Value, approval: bool) -> Fixture {
    let talker = move |request: &RecordedRequest| {
        let last = request.messages().last().cloned().unwrap_or_default();
        if last["role"] == "tool" { Reply::text("It is done.") } else { Reply::call("launch_run", &launch) }
    };
    let fixture = Fixture::new(2, Script::from_fn(member).on(CHAT_MODEL).always(Action::with(talker)));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let mode = json!({"enabled": true, "require_approval": approval, "backend": backend});
    fixture.althing.file("team.yaml", Team::on(&base, 2).rule("interactive_mode", mode).text());
    fixture
}

fn granted(fixture: &Fixture) -> Vec<Vec<(String, bool)>> {
    let events = fixture.althing.events();
    let created = of_type(&events, "task_created").into_iter().map(|event| &event["data"]["spec"]);
    let paths = |spec: &Value| {
        let paths = spec["context_paths"].as_array().cloned().unwrap_or_default();
        let path = |path: Value| (path["path"].as_str().unwrap().to_owned(), path["writable"] == true);
        paths.into_iter().map(path).collect()
    };
    created.filter(|spec| spec["kind"] == "run").map(paths).collect()
}

fn pair(path: &Path, writable: bool) -> (String, bool) {
    (path.display().to_string(), writable)
}

fn chat(fixture: &Fixture, lines: &str, args: &[&str]) -> althing_testkit::Output {
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]).args(args);
    command.stdin(lines).spawn().wait(LIMIT).expect_code(0)
}

fn type_into(command: &althing_testkit::Althing, lines: &str) -> (u32, String) {
    let mut terminal = command.terminal(200, 60);
    terminal.keys(&lines.replace('\n', "\r"));
    terminal.keys("\x04");
    let code = terminal.wait(LIMIT);
    (code, terminal.screen())
}

#[test]
fn a_path_typed_on_the_screen_is_granted_to_the_run_of_that_message() {
    let fixture = direct();
    let (notes, plan) = files(&fixture);
    let command =
        fixture.althing.new_command().args(["--config", "team.yaml", "--quick", "--single-agent", "a"]);
    let mut terminal = command.terminal(140, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("tidy @notes:w by @pl");
    terminal.wait_for("@plan.md", LIMIT);
    terminal.keys("\t");
    terminal.wait_for("› tidy @notes:w by @plan.md", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Files written to context paths:", LIMIT);
    assert_eq!(std::fs::read_to_string(notes.join("new.txt")).unwrap(), "written\n");
    assert_eq!(granted(&fixture), [[pair(&notes, true), pair(&plan, false)]]);
    // The next message grants nothing by itself.
    terminal.keys("and again\r");
    terminal.wait_for("Run: and again", LIMIT);
    assert_eq!(granted(&fixture)[1], []);
}

#[test]
fn a_sent_message_is_shown_and_edited_as_it_was_typed_also_after_a_resume() {
    let fixture = Fixture::new(2, Script::from_fn(|_| Action::from(Reply::text("It is done."))));
    let (_, plan) = files(&fixture);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let mode = json!({"enabled": true, "backend": backend});
    fixture.althing.file("team.yaml", Team::on(&base, 2).rule("interactive_mode", mode).text());
    let typed = "tidy @notes:w by @plan.md.";
    let edits = |terminal: &mut Terminal, text: &str| {
        let screen = terminal.wait_for("It is done.", LIMIT);
        assert!(screen.contains(typed), "{screen}");
        terminal.wait_for("Status: Idle", LIMIT);
        terminal.keys("\t");
        terminal.wait_for("c copy", LIMIT);
        terminal.keys("\x1b[A");
        terminal.wait_for("e edit", LIMIT);
        terminal.keys("e");
        terminal.wait_for(&format!("› {text}"), LIMIT);
        terminal.keys("\x1b");
        terminal.wait_for("Type a message...", LIMIT);
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
    };
    let command = || fixture.althing.new_command();
    let mut terminal = command().args(["--config", "team.yaml"]).terminal(190, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys(typed).keys("\r");
    edits(&mut terminal, typed);
    let sent = texts(&fixture.server.requests()[0]);
    assert!(sent.contains(&plan.display().to_string()), "the agent gets the whole path: {sent}");
    edits(&mut command().arg("resume").terminal(190, 40), typed);
    // From another directory, the same mentions would mean other paths.
    std::fs::create_dir(fixture.althing.work_dir().join("notes/notes")).unwrap();
    let script = format!("cd notes && exec {} resume", env!("CARGO_BIN_EXE_althing"));
    let elsewhere = fixture.althing.program("/bin/sh").args(["-c", &script]);
    edits(&mut elsewhere.terminal(190, 40), "tidy /");
}

#[test]
fn a_completed_file_can_be_granted_for_writing() {
    let fixture = direct();
    let (_, plan) = files(&fixture);
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(140, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("mend @pl");
    terminal.wait_for("@plan.md", LIMIT);
    terminal.keys("\t:w");
    terminal.wait_for("› mend @plan.md:w", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Run: mend /", LIMIT);
    assert_eq!(granted(&fixture), [[pair(&plan, true)]]);
}

#[test]
fn the_first_message_on_the_command_line_grants_its_paths_too() {
    let fixture = direct();
    let (notes, _) = files(&fixture);
    let command = fixture.althing.new_command().args(["--config", "team.yaml", "tidy @notes:w"]);
    let terminal = command.terminal(140, 40);
    terminal.wait_for("Run: tidy /", LIMIT);
    assert_eq!(granted(&fixture), [[pair(&notes, true)]]);
}

// spec: interactive/run-approval-flow/approval-granted
#[test]
fn the_approval_dialog_shows_what_the_run_may_read_and_write() {
    let fixture = interactive(json!({"task": "Tidy up"}), true);
    let (notes, plan) = files(&fixture);
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(190, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("tidy @notes:w by @plan.md \r");
    let screen = terminal.wait_for("Cancel esc", LIMIT);
    let row = |label: &str| screen.lines().find(|line| line.contains(label)).unwrap_or_default().to_owned();
    let (reads, writes) = (row("Reads "), row("May write "));
    // A long path may be wrapped on the screen, so only its start is compared.
    let start = |path: &Path| path.display().to_string().chars().take(30).collect::<String>();
    assert!(reads.contains(&start(&plan)), "{screen}");
    assert!(writes.contains(&start(&notes)), "{screen}");
    terminal.keys("\r");
    terminal.wait_for("Run: Tidy up", LIMIT);
    assert_eq!(granted(&fixture), [[pair(&notes, true), pair(&plan, false)]]);
}

#[test]
fn a_path_that_is_typed_in_chat_is_granted_whether_or_not_runs_are_approved() {
    for approval in [true, false] {
        let fixture = interactive(json!({"task": "Tidy up", "refinement": false}), approval);
        let (notes, plan) = files(&fixture);
        let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
        let typed =
            type_into(&command.args(["--approve", "always"]), "tidy @notes:w by @plan.md\nand again\n");
        assert_eq!(typed.0, 0, "{}", typed.1);
        assert_eq!(granted(&fixture), [vec![pair(&notes, true), pair(&plan, false)], vec![]]);
        assert_eq!(std::fs::read_to_string(notes.join("new.txt")).unwrap(), "written\n");
    }
    let fixture = direct();
    let (notes, _) = files(&fixture);
    let typed =
        type_into(&fixture.althing.new_command().args(["chat", "--config", "team.yaml"]), "tidy @notes:w\n");
    assert_eq!(typed.0, 0, "{}", typed.1);
    assert_eq!(granted(&fixture), [[pair(&notes, true)]]);
    assert_eq!(std::fs::read_to_string(notes.join("new.txt")).unwrap(), "written\n");
}

#[test]
fn a_mention_in_text_from_a_pipe_grants_nothing_in_chat() {
    let launching = interactive(json!({"task": "Tidy up", "refinement": false}), false);
    for fixture in [launching, direct()] {
        let (notes, _) = files(&fixture);
        let output = chat(&fixture, "a report says: see @notes:w and @plan.md\n", &["--approve", "always"]);
        assert!(output.stderr.contains("grants no access"), "{}", output.stderr);
        assert_eq!(granted(&fixture), [[]]);
        assert!(!notes.join("new.txt").exists());
    }
}

#[test]
fn a_plan_reads_the_granted_path_and_its_execution_may_write_it() {
    let fixture = althing();
    fixture.file("notes/old.txt", "old\n");
    let notes = fixture.work_dir().join("notes").canonicalize().unwrap();
    let command = fixture.new_command().args(["chat", "--offline", "--plan", "--approve", "always"]);
    let typed = type_into(&command, "Write a tool that tidies @notes:w\n");
    assert_eq!(typed.0, 0, "{}", typed.1);
    let events = fixture.events();
    let created = of_type(&events, "task_created").into_iter().map(|event| &event["data"]["spec"]);
    let runs: Vec<&Value> = created.filter(|spec| spec["kind"] == "run").collect();
    assert_eq!(runs.len(), 2, "planning, then execution");
    for (run, writable) in runs.into_iter().zip([false, true]) {
        let path = &run["context_paths"][0];
        assert_eq!((path["path"].as_str(), &path["writable"]), (notes.to_str(), &writable.into()), "{run}");
    }
}

#[test]
fn a_protected_path_is_not_granted_for_writing_and_the_user_is_notified() {
    let fixture = direct();
    let (notes, _) = files(&fixture);
    let paths = json!([{"path": notes, "permission": "write", "protected_paths": ["old.txt"]}]);
    let team = Team::on(&fixture.server.base_url(), 2).rule("context_paths", paths);
    fixture.althing.file("team.yaml", team.text());
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let (code, screen) = type_into(&command, "mend @notes/old.txt:w\n");
    assert_eq!(code, 2, "{screen}");
    assert!(screen.contains("is protected"), "{screen}");
    assert!(granted(&fixture).is_empty() && fixture.server.requests().is_empty(), "nobody was asked");
}

#[test]
fn a_mention_written_by_a_model_grants_nothing() {
    for approval in [true, false] {
        let launch = json!({"task": "Tidy @notes:w by @plan.md", "context": "@notes:w", "refinement": false});
        let fixture = interactive(launch, approval);
        files(&fixture);
        chat(&fixture, "tidy my notes\n", &["--approve", "always"]);
        assert_eq!(granted(&fixture), [[]]);
    }
}

#[test]
fn an_op_grants_only_its_explicit_grants() {
    let fixture = direct();
    let (notes, plan) = files(&fixture);
    let plain = json!({"op": "send_message", "text": "Tidy @notes:w"});
    let grants = json!([{"path": plan, "permission": "read"}]);
    let outright = json!({"op": "send_message", "text": "Tidy by the plan", "grants": grants});
    chat(&fixture, &format!("{plain}\n{outright}\n"), &["--json"]);
    assert_eq!(granted(&fixture), [vec![], vec![pair(&plan, false)]]);
    assert!(!notes.join("new.txt").exists());
}

#[test]
fn a_mention_from_an_mcp_client_grants_nothing() {
    let althing = althing();
    althing.file("plan.md", "the plan\n");
    let mut client = Client::start(&althing, &["--offline"]);
    let launched = client.tool("launch_run", &json!({"task": "Compare @plan.md:w", "context": "@plan.md"}));
    assert_eq!(launched["structuredContent"]["status"], "completed", "{launched}");
    let events = althing.events();
    let created = of_type(&events, "task_created").into_iter().map(|event| &event["data"]["spec"]);
    let runs: Vec<&Value> = created.filter(|spec| spec["kind"] == "run").collect();
    assert_eq!(runs.len(), 1);
    assert!(runs[0]["context_paths"].as_array().is_none_or(Vec::is_empty), "{}", runs[0]);
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
}
