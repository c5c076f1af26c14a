//! Agents with tools: what agents may touch and when, how their writes are reported, and how the writes are undone.

use std::path::Path;

use althing_testkit::{Action, FakeModel, Gate, Parliament, RecordedRequest, Reply, Script};
use serde_json::json;

use super::scripted_claude;
use super::support::{Fixture, LIMIT, SKY, Team, files_below, items, texts};

/// Calls a tool in the first request of an attempt, then behaves like any member.
pub fn call_once(request: &RecordedRequest, tool: &str, arguments: &serde_json::Value) -> Action {
    let tool_results = request.messages().iter().any(|message| message["role"] == "tool");
    if tool_results { member_action(request) } else { Reply::call(tool, arguments).into() }
}

pub fn member_action(request: &RecordedRequest) -> Action {
    Parliament::default().reply(request).into()
}

fn write(path: &Path, text: &str) -> serde_json::Value {
    json!({ "path": path, "content": text })
}

fn project(fixture: &Fixture) -> std::path::PathBuf {
    let project = fixture.althing.work_dir().join("project");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("old.txt"), "old\n").unwrap();
    project.canonicalize().unwrap()
}

/// An agent that writes this text to a file of the project. Returns the fixture, the project, and the option that makes
/// the project writable.
fn writer(file: &'static str, text: &'static str) -> (Fixture, std::path::PathBuf, String) {
    let script = Script::from_fn(move |request| {
        call_once(request, "write_file", &write(&project_of(request).join(file), text))
    });
    let fixture = Fixture::new(1, script);
    let project = project(&fixture);
    let path = format!("{}:rw", project.display());
    (fixture, project, path)
}

fn tool_results(request: &RecordedRequest) -> String {
    let texts = request.messages().iter().filter(|message| message["role"] == "tool");
    texts.map(|message| message["content"].to_string()).collect::<Vec<_>>().join("\n")
}

pub fn is_presenter(request: &RecordedRequest) -> bool {
    !request.tool_names().iter().any(|tool| *tool == "new_answer" || *tool == "vote")
}

pub fn run(fixture: &Fixture, args: &[&str]) -> althing_testkit::Output {
    fixture.althing.new_command().args(args).spawn().wait(LIMIT)
}

fn project_of(request: &RecordedRequest) -> std::path::PathBuf {
    let system = request.system_text();
    let line = system.lines().find_map(|line| line.strip_prefix("- ")).unwrap_or("/nowhere (");
    Path::new(line.split(" (").next().unwrap()).to_owned()
}

// spec: modes/context-path-write-tracking/display-written-files-in-final-answer-few-files
#[test]
fn only_the_presenter_can_write_to_a_writable_context_path_and_what_it_wrote_is_listed() {
    let fixture = Fixture::new(
        3,
        Script::from_fn(|request| {
            let project = project_of(request);
            let name = if is_presenter(request) { "by-presenter.txt" } else { "too-early.txt" };
            call_once(request, "write_file", &write(&project.join(name), "new\n"))
        }),
    );
    let project = project(&fixture);
    let path = format!("{}:rw", project.display());
    let output = fixture.run(&["--quick", "--context-path", &path, "task"]).expect_code(0);
    assert!(!project.join("too-early.txt").exists(), "nobody writes there while agents work in parallel");
    assert_eq!(std::fs::read_to_string(project.join("by-presenter.txt")).unwrap(), "new\n");
    let footer = format!("Files written to context paths:\n  {}", project.join("by-presenter.txt").display());
    assert!(output.stdout.contains(&footer), "{}", output.stdout);
    assert!(!output.stdout.contains("old.txt"), "{}", output.stdout);
    let refused: Vec<String> =
        fixture.server.requests().iter().filter(|request| !is_presenter(request)).map(tool_results).collect();
    assert!(
        refused.iter().any(|text| text.contains("read-only") || text.contains("read only")),
        "{refused:?}"
    );
}

// spec: modes/context-path-write-access-in-quick-mode/multi-agent-with-refinement-off-and-write-context-paths
#[test]
fn with_each_strategy_a_quick_run_of_several_agents_writes_to_context_paths_only_in_its_presentation() {
    for (strategy, winner) in [
        ("winner_present", "agent1"),
        ("winner_present", "agent2"),
        ("synthesize", "agent1"),
        ("synthesize", "agent2"),
    ] {
        // The model tries to write in each of its attempts, and so does the CLI agent.
        let script = Script::from_fn(move |request: &RecordedRequest| {
            let phases = ["vote", "new_answer"];
            let phase =
                phases.into_iter().find(|tool| request.tool_names().contains(tool)).unwrap_or("present");
            if tool_results(request).is_empty() {
                let file = project_of(request).join(format!("model-{phase}.txt"));
                return Reply::call("write_file", &write(&file, "by the model\n")).into();
            }
            if phase == "vote" { Reply::vote(winner, "clear").into() } else { member_action(request) }
        });
        let server = FakeModel::start_on_thread(script);
        let team = Team::on(&server.base_url(), 1)
            .agent("b", &json!({"type": "claude_code"}))
            .rule("final_answer_strategy", strategy);
        let fixture = Fixture { server, althing: scripted_claude::on_pipes(&super::support::althing()) };
        fixture.althing.file("team.yaml", team.text());
        std::fs::write(scripted_claude::own_dir(&fixture.althing).join("vote"), winner).unwrap();
        let project = project(&fixture);
        let path = format!("{}:rw", project.display());
        let result = fixture.result(&["--quick", "--context-path", &path, "task"]);
        let (presenter, file, answer) = match winner {
            "agent1" => ("a", "model-present.txt", "Final answer of model-a"),
            _ => ("b", "claude-present.txt", "Text of claude"),
        };
        let summary = &result["coordination_summary"];
        assert_eq!((&summary["strategy"], &summary["presenter"]), (&json!(strategy), &json!(presenter)));
        assert_eq!(result["final_answer"], answer, "the presentation is the final answer");
        let mut names: Vec<String> = std::fs::read_dir(&project)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, [file, "old.txt"], "{strategy}, {winner}");
        let written: Vec<&serde_json::Value> =
            result["context_path_writes"].as_array().unwrap().iter().map(|write| &write["path"]).collect();
        assert_eq!(written, [&json!(project.join(file))], "{strategy}, {winner}");
        let calls = scripted_claude::calls(&fixture.althing);
        assert!(calls.iter().all(|call| call["paths"] == json!([project])), "{calls:?}");
        let refused = fixture
            .server
            .requests()
            .iter()
            .map(tool_results)
            .filter(|text| text.contains("read-only"))
            .count();
        assert!(refused >= 2, "{strategy}, {winner}: an answer and a vote");
    }
}

fn reported_writes(output: &str) -> Vec<String> {
    let result: serde_json::Value = serde_json::from_str(output).unwrap();
    let writes = result["context_path_writes"].as_array().unwrap().iter();
    let name = |write: &serde_json::Value| {
        let path = write["path"].as_str().unwrap();
        path.rsplit('/').next().unwrap().to_owned()
    };
    let mut names: Vec<String> = writes.map(name).collect();
    names.sort();
    names
}

// spec: modes/context-path-write-tracking/snapshot-context-paths-before-writes-are-enabled
#[test]
fn what_a_person_changes_before_the_presentation_is_not_reported_as_written_by_the_run() {
    for modes in [&["--quick"][..], &[], &["--single-agent", "a"]] {
        let gate = Gate::before_headers();
        let held = gate.clone();
        let script = Script::from_fn(move |request: &RecordedRequest| {
            if is_presenter(request) {
                return call_once(
                    request,
                    "write_file",
                    &write(&project_of(request).join("by-presenter.txt"), "new\n"),
                );
            }
            let votes = request.tool_names().contains(&"vote");
            if votes { Action::gated(member_action(request), &held) } else { member_action(request) }
        });
        let fixture = Fixture::new(2, script);
        let project = project(&fixture);
        std::fs::write(project.join("untouched.txt"), "content-canary\n").unwrap();
        let path = format!("{}:rw", project.display());
        let running = fixture.command(&["--json", "--context-path", &path]).args(modes).arg("task").spawn();
        gate.wait_waiting_blocking(1, LIMIT);
        // The first answers are in, and no agent can write yet.
        std::fs::write(project.join("old.txt"), "changed by a person\n").unwrap();
        std::fs::write(project.join("new-by-a-person.txt"), "new\n").unwrap();
        gate.release_all();
        let output = running.wait(LIMIT).expect_code(0);
        assert_eq!(reported_writes(&output.stdout), ["by-presenter.txt"], "{modes:?}");
        let state = fixture.althing.state_dir();
        let contains = |content: &[u8]| content.windows(14).any(|piece| piece == b"content-canary");
        let copied = files_below(&state).into_iter().find(|(_, content)| contains(content));
        assert!(copied.is_none(), "{modes:?}: the snapshot has content: {copied:?}");
    }
}

// spec: modes/context-path-write-tracking/snapshot-context-paths-before-writes-are-enabled
#[test]
fn the_snapshot_of_a_quick_single_run_is_taken_before_its_first_call() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let file = project_of(request).join("direct.txt");
        Action::gated(call_once(request, "write_file", &write(&file, "now\n")), &held)
    });
    let fixture = Fixture::new(1, script);
    let project = project(&fixture);
    let path = format!("{}:rw", project.display());
    let running = fixture.spawn(&["--json", "--quick", "--context-path", &path, "task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    // The path is writable from the start, so any change from now on is reported as the run's.
    std::fs::write(project.join("old.txt"), "changed meanwhile\n").unwrap();
    gate.release_all();
    let output = running.wait(LIMIT).expect_code(0);
    assert_eq!(reported_writes(&output.stdout), ["direct.txt", "old.txt"]);
}

// spec: modes/context-path-write-access-in-quick-mode/single-agent-with-refinement-off-and-write-context-paths
#[test]
fn a_quick_single_agent_writes_while_it_works_and_makes_no_further_call() {
    let (fixture, project, path) = writer("direct.txt", "now\n");
    let output = fixture.run(&["--quick", "--context-path", &path, "task"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(project.join("direct.txt")).unwrap(), "now\n");
    assert_eq!(fixture.server.request_count(), 2, "the tool call and the answer, no presentation");
    assert!(output.stdout.contains("Files written to context paths:"), "{}", output.stdout);
}

fn writes_seven_files() -> (Fixture, std::path::PathBuf, String) {
    let script = Script::from_fn(|request| {
        let project = project_of(request);
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return member_action(request);
        }
        let first = Reply::call("write_file", &write(&project.join("f0.txt"), "x"));
        let reply = (1..7).fold(first, |reply, n| {
            reply.and_call("write_file", &write(&project.join(format!("f{n}.txt")), "x"))
        });
        reply.into()
    });
    let fixture = Fixture::new(1, script);
    let project = project(&fixture);
    let path = format!("{}:rw", project.display());
    (fixture, project, path)
}

// spec: modes/context-path-write-tracking/display-written-files-in-final-answer-many-files
#[test]
fn many_written_files_are_counted_and_listed_in_a_file_in_every_front_end() {
    // The count and the path of the list are shown, and the list has every file.
    #[track_caller]
    fn check(fixture: &Fixture, project: &Path, shown: &str) {
        assert!(shown.contains("7 files written to context paths"), "{shown}");
        let list = fixture.session().join("tasks/r1/context_path_writes.txt");
        assert!(shown.contains(&list.display().to_string()), "{shown}");
        assert!((0..7).all(|n| !shown.contains(&format!("f{n}.txt"))), "{shown}");
        let files = (0..7).map(|n| format!("+ {}\n", project.join(format!("f{n}.txt")).display()));
        let expected = format!("7 files written to context paths\n{}", files.collect::<String>());
        assert_eq!(std::fs::read_to_string(list).unwrap(), expected);
    }
    let (fixture, project, path) = writes_seven_files();
    let output = fixture.run(&["--quick", "--context-path", &path, "task"]).expect_code(0);
    check(&fixture, &project, &output.stdout);

    let (fixture, project, path) = writes_seven_files();
    let command = fixture.althing.new_command().arg("chat").args(options_of(&path)).stdin("task\n");
    let output = command.spawn().wait(LIMIT).expect_code(0);
    check(&fixture, &project, &output.stdout);

    let (fixture, project, path) = writes_seven_files();
    let terminal = fixture.althing.new_command().args(options_of(&path)).arg("task").terminal(250, 40);
    terminal.wait_for("Final answer of model-a", LIMIT);
    check(&fixture, &project, &terminal.wait_for("context_path_writes.txt", LIMIT));

    for command in [&[][..], &["chat"]] {
        let (fixture, project, path) = writes_seven_files();
        let mut terminal = plain_terminal(&fixture, command, &path);
        terminal.keys("task\r");
        terminal.wait_for("Final answer of model-a", LIMIT);
        check(&fixture, &project, &terminal.wait_for("context_path_writes.txt", LIMIT));
    }
}

// spec: modes/context-path-write-tracking/no-footer-when-no-writes
#[test]
fn a_run_without_writes_has_no_footer_and_read_only_paths_cannot_be_written() {
    let fixture = Fixture::new(
        1,
        Script::from_fn(|request| {
            let project = project_of(request);
            call_once(request, "delete_file", &json!({ "path": project.join("old.txt") }))
        }),
    );
    let project = project(&fixture);
    let path = project.display().to_string();
    let output = fixture.run(&["--quick", "--context-path", &path, "task"]).expect_code(0);
    assert!(project.join("old.txt").exists());
    assert!(!output.stdout.contains("context paths"), "{}", output.stdout);
}

fn deleter(writes: bool) -> (Fixture, std::path::PathBuf, String) {
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let project = project_of(request);
        let results = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match results {
            0 => Reply::call("delete_file", &json!({ "path": project.join("old.txt") })).into(),
            1 if writes => Reply::call("write_file", &write(&project.join("new.txt"), "new\n")).into(),
            _ => member_action(request),
        }
    });
    let fixture = Fixture::new(1, script);
    let project = project(&fixture);
    let path = format!("{}:rw", project.display());
    (fixture, project, path)
}

// spec: modes/context-path-write-tracking/no-footer-when-no-writes
#[test]
fn a_run_that_only_deleted_files_has_no_footer_and_every_front_end_names_the_deleted_files() {
    // The command line: the answer alone on stdout, and a note on stderr.
    let (fixture, project, path) = deleter(false);
    let gone = project.join("old.txt").display().to_string();
    let note = format!("the run deleted 1 file: {gone}");
    let output = fixture.run(&["--quick", "--context-path", &path, "task"]).expect_code(0);
    assert!(!project.join("old.txt").exists());
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(output.stderr.contains(&format!("note: {note}")), "{}", output.stderr);

    let (fixture, project, path) = deleter(false);
    let result = fixture.result(&["--quick", "--context-path", &path, "task"]);
    let gone = project.join("old.txt").display().to_string();
    assert_eq!(result["context_path_writes"], json!([{ "path": gone, "change": "deleted" }]));

    // An MCP client gets the same result.
    let (fixture, project, path) = deleter(false);
    let mut client =
        super::mcp::Client::start(&fixture.althing, &["--config", "team.yaml", "--context-path", &path]);
    let launched = client.tool("launch_run", &json!({"task": "task", "refinement": false}));
    let gone = project.join("old.txt").display().to_string();
    let writes = &launched["structuredContent"]["context_path_writes"];
    assert_eq!(*writes, json!([{ "path": gone, "change": "deleted" }]), "{launched}");

    // The screen: a note above the answer.
    let (fixture, project, path) = deleter(false);
    let options = ["--config", "team.yaml", "--quick", "--context-path", &path];
    let terminal = fixture.althing.new_command().args(options).arg("task").terminal(200, 40);
    let note = format!("note: the run deleted 1 file: {}", project.join("old.txt").display());
    let screen = terminal.wait_for(&note, LIMIT);
    let row = |text: &str| screen.lines().position(|line| line.contains(text));
    assert!(
        row(&note) < row("Final answer of model-a") && row("Final answer of model-a").is_some(),
        "{screen}"
    );
    assert!(!screen.contains("context paths"), "{screen}");

    // Lines in a terminal: the screen in plain mode, and `althing chat`.
    for command in ["", "chat"] {
        let (fixture, project, path) = deleter(false);
        let command = if command.is_empty() { vec![] } else { vec![command] };
        let plain = fixture.althing.new_command().args(&command).args(options_of(&path));
        let mut terminal = plain.env("ALTHING_PLAIN", "1").terminal(200, 40);
        terminal.keys("task\r");
        let note = format!("the run deleted 1 file: {}", project.join("old.txt").display());
        let screen = terminal.wait_until(LIMIT, "the note and the answer", |screen| {
            screen.contains(&note) && screen.contains("Final answer of model-a")
        });
        assert!(!screen.contains("context paths"), "{screen}");
    }
}

fn options_of(path: &str) -> Vec<String> {
    ["--config", "team.yaml", "--quick", "--context-path", path].map(str::to_owned).to_vec()
}

// spec: modes/context-path-write-tracking/display-written-files-in-final-answer-few-files
#[test]
fn chat_in_a_script_names_the_files_that_a_launched_run_wrote_and_deleted() {
    let script = Script::from_fn(|request: &RecordedRequest| {
        let results = request.messages().iter().filter(|message| message["role"] == "tool").count();
        if request.tool_names().contains(&"launch_run") {
            return match results {
                0 => Reply::call("launch_run", &json!({"task": "Replace it", "agent_mode": "single"})).into(),
                _ => Reply::text("Reported.").into(),
            };
        }
        let project = project_of(request);
        match results {
            0 => Reply::call("delete_file", &json!({ "path": project.join("old.txt") })).into(),
            1 => Reply::call("write_file", &write(&project.join("new.txt"), "new\n")).into(),
            _ => member_action(request),
        }
    });
    let fixture =
        Fixture::with(1, script, |team| team.rule("interactive_mode", json!({"require_approval": false})));
    let project = project(&fixture);
    let path = format!("{}:rw", project.display());
    let command =
        fixture.althing.new_command().arg("chat").args(["--config", "team.yaml", "--context-path", &path]);
    let output = command.stdin("Replace it\n").spawn().wait(LIMIT).expect_code(0);
    assert_eq!(output.stdout, "Reported.\n");
    let footer = format!("Files written to context paths:\n  {}\n", project.join("new.txt").display());
    assert!(output.stderr.contains(&footer), "{}", output.stderr);
    assert!(output.stderr.contains(&project.join("old.txt").display().to_string()), "{}", output.stderr);
}

// spec: modes/context-path-write-tracking/display-written-files-in-final-answer-few-files
#[test]
fn a_run_that_wrote_and_deleted_files_lists_both_in_its_footer_in_every_front_end() {
    let (fixture, project, path) = deleter(true);
    let output = fixture.run(&["--quick", "--context-path", &path, "task"]).expect_code(0);
    let (new, old) = (project.join("new.txt"), project.join("old.txt"));
    let footer = format!(
        "Files written to context paths:\n  {}\nFiles deleted from context paths:\n  {}\n",
        new.display(),
        old.display()
    );
    assert!(output.stdout.ends_with(&footer), "{}", output.stdout);
    assert!(!output.stderr.contains("the run deleted"), "{}", output.stderr);

    let (fixture, project, path) = deleter(true);
    let command = fixture.althing.new_command().arg("chat").args(options_of(&path)).stdin("task\n");
    let output = command.spawn().wait(LIMIT).expect_code(0);
    assert!(
        output.stdout.starts_with("Final answer of model-a\n\nFiles written to context paths:\n"),
        "{output:?}"
    );
    assert!(output.stdout.contains(&project.join("new.txt").display().to_string()), "{output:?}");

    let (fixture, _, path) = deleter(true);
    let terminal = fixture.althing.new_command().args(options_of(&path)).arg("task").terminal(200, 40);
    let screen = terminal.wait_for("Files written to context paths:", LIMIT);
    assert!(screen.contains("new.txt (new)") && screen.contains("old.txt (deleted)"), "{screen}");

    // Lines in a terminal: the screen in plain mode, and `althing chat`.
    for command in [&[][..], &["chat"]] {
        let (fixture, project, path) = deleter(true);
        let mut terminal = plain_terminal(&fixture, command, &path);
        terminal.keys("task\r");
        let (new, old) = (project.join("new.txt"), project.join("old.txt"));
        let rows = [
            "Files written to context paths:",
            &format!("  {}", new.display()),
            "Files deleted from context paths:",
            &format!("  {}", old.display()),
        ]
        .map(str::to_owned);
        terminal.wait_until(LIMIT, "the answer and the list of both files below it", |screen| {
            let lines: Vec<&str> = screen.lines().map(str::trim_end).collect();
            let answer = lines.iter().position(|line| line.ends_with("Final answer of model-a"));
            let list = lines.windows(4).position(|window| window == rows);
            answer.is_some() && answer < list
        });
    }
}

fn plain_terminal(fixture: &Fixture, command: &[&str], path: &str) -> althing_testkit::Terminal {
    let command = fixture.althing.new_command().args(command).args(options_of(path));
    command.env("ALTHING_PLAIN", "1").terminal(250, 40)
}

#[test]
fn a_runs_changes_are_shown_and_undone_on_the_screen() {
    let (fixture, project, path) = writer("old.txt", "changed by the run\n");
    let command =
        fixture.althing.new_command().args(["--config", "team.yaml", "--quick", "--context-path", &path]);
    let mut terminal = command.arg("task").terminal(120, 40);
    let screen = terminal.wait_for("Files written to context paths:", LIMIT);
    assert!(screen.contains("old.txt (modified)"), "{screen}");
    terminal.keys("\td");
    let screen = terminal.wait_for("+changed by the run", LIMIT);
    assert!(screen.contains("-old"), "{screen}");
    terminal.keys("\x1b");
    terminal.wait_gone("+changed by the run", LIMIT);
    terminal.keys("u");
    terminal.wait_for("Undo what this run wrote?", LIMIT);
    assert_eq!(std::fs::read_to_string(project.join("old.txt")).unwrap(), "changed by the run\n");
    terminal.keys("y");
    terminal.wait_for("changes to 1 file undone", LIMIT);
    assert_eq!(std::fs::read_to_string(project.join("old.txt")).unwrap(), "old\n");
    // The footer no longer says that the file is modified, also when the conversation is opened again.
    let screen = terminal.wait_for("Undone: the files are as before", LIMIT);
    assert!(!screen.contains("old.txt (modified)"), "{screen}");
    terminal.keys("\x1b");
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    let terminal = fixture.althing.new_command().arg("--continue").terminal(120, 40);
    terminal.wait_for("Undone: the files are as before", LIMIT);
}

#[test]
fn a_runs_changes_can_be_undone_but_not_over_another_change() {
    let (fixture, project, path) = writer("old.txt", "changed by the run\n");
    fixture.run(&["--quick", "--context-path", &path, "task"]).expect_code(0);
    let session = fixture.session().file_name().unwrap().to_string_lossy().into_owned();
    let file = project.join("old.txt");
    let shown = run(&fixture, &["undo", &session, "--diff"]).expect_code(0);
    let path = file.display();
    let diff = format!("--- {path}\n+++ {path}\n@@ -1 +1 @@\n-old\n+changed by the run\n");
    assert_eq!(shown.stdout, diff, "what it changed can be reviewed");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed by the run\n");
    std::fs::write(&file, "and by a person\n").unwrap();
    let refused = run(&fixture, &["undo", &format!("{session}.r1")]).expect_code(1);
    assert!(refused.stderr.contains("old.txt"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "and by a person\n");
    std::fs::write(&file, "changed by the run\n").unwrap();
    let undone = run(&fixture, &["undo", &session]);
    // A person has rewritten the file with the run's own text: `undo` either restores the old text or leaves the file
    // unchanged.
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        (undone.code == Some(0) && text == "old\n")
            || (undone.code == Some(1) && text == "changed by the run\n"),
        "{text}"
    );
}

#[test]
fn a_path_in_the_task_becomes_a_context_path() {
    let fixture = Fixture::new(1, Script::parliament());
    let project = project(&fixture);
    fixture.run(&["--quick", "Look at @project, please"]).expect_code(0);
    let request = &fixture.server.wait_for_requests_blocking(1, LIMIT)[0];
    assert!(request.last_user_text().contains(&format!("Look at {}, please", project.display())));
    assert!(request.tool_names().contains(&"read_file"), "{:?}", request.tool_names());
    assert!(request.system_text().contains(&project.display().to_string()));
    assert!(request.system_text().len() < 8000);
    let missing = fixture.run(&["--context-path", "nowhere", "task"]).expect_code(1);
    assert!(missing.stderr.contains("nowhere"), "{}", missing.stderr);
}

#[test]
fn agents_shows_what_is_usable_and_what_is_missing() {
    let fixture = Fixture::new(1, Script::parliament());
    let output = run(&fixture, &["agents"]).expect_code(0);
    assert!(output.stdout.contains("OPENAI_API_KEY"), "{}", output.stdout);
    let usable = fixture
        .althing
        .new_command()
        .env("OPENAI_API_KEY", "sk-some-key-0123")
        .args(["agents", "--json"])
        .spawn()
        .wait(LIMIT);
    let all: serde_json::Value = serde_json::from_str(&usable.stdout).unwrap();
    let openai =
        all["backends"].as_array().unwrap().iter().find(|row| row["name"] == "openai").unwrap().clone();
    assert_eq!(openai["usable"], true);
    assert!(!usable.stdout.contains("sk-some-key"));
}

pub fn with_commands(agents: usize, script: Script) -> Fixture {
    Fixture::with(agents, script, |team| {
        team.every_backend("enable_mcp_command_line", true).every_backend("cwd", "here")
    })
}

#[test]
fn a_command_runs_in_a_sandbox_and_its_result_goes_to_the_agent() {
    let fixture = with_commands(
        1,
        Script::from_fn(|request| {
            let command =
                "echo hello from $PWD; echo evil > /tmp/althing-escaped; ls /root 2>&1; cat /proc/1/comm";
            call_once(request, "run_command", &json!({ "command": command }))
        }),
    );
    fixture.run(&["--quick", "task"]).expect_code(0);
    assert!(!Path::new("/tmp/althing-escaped").exists(), "its /tmp is its own");
    let requests = fixture.server.requests();
    assert!(requests[0].tool_names().contains(&"run_command"), "{:?}", requests[0].tool_names());
    let said = tool_results(&requests[1]);
    assert!(said.contains("hello from") && said.contains("workspaces/a"), "{said}");
}

#[test]
fn a_secret_in_the_long_output_of_a_command_is_stored_nowhere() {
    let key = "sk-a-key-of-the-user-0123";
    let fixture = with_commands(
        1,
        Script::from_fn(|request| {
            // The key is printed in two writes, followed by more output than an agent is shown.
            let command = "printf %s sk-a-key-; printf %s of-the-user-0123; seq 1 40000";
            call_once(request, "run_command", &json!({ "command": command }))
        }),
    );
    let command = fixture.command(&["--quick", "task"]).env("OPENAI_API_KEY", key);
    command.spawn().wait(LIMIT).expect_code(0);
    let files = files_below(&fixture.althing.state_dir());
    let texts: Vec<_> = files.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
    assert!(
        texts.iter().any(|text| text.starts_with("[secret]1\n2\n") && text.ends_with("\n40000\n")),
        "the output is stored"
    );
    assert!(!texts.iter().any(|text| text.contains(key)), "the key is in a file");
}

#[test]
fn the_tools_of_a_configured_mcp_server_are_offered_and_called() {
    let fixture = Fixture::with(
        1,
        Script::from_fn(|request| call_once(request, "mcp__sky__weather", &json!({ "city": "Þingvellir" }))),
        |team| {
            team.every_backend(
                "mcp_servers",
                json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["sky.py"]}]),
            )
        },
    );
    fixture.althing.file("sky.py", SKY);
    fixture.run(&["--quick", "task"]).expect_code(0);
    let requests = fixture.server.requests();
    assert!(requests[0].tool_names().contains(&"mcp__sky__weather"), "{:?}", requests[0].tool_names());
    assert!(tool_results(&requests[1]).contains("Sunny in Þingvellir"), "{}", tool_results(&requests[1]));
}

#[test]
fn a_judge_sees_the_others_snapshots_read_only_at_its_own_path() {
    let fixture = Fixture::with(
        2,
        Script::from_fn(|request| {
            let workspace = workspace_of(request);
            if request.tool_names().contains(&"vote") {
                return member_action(request);
            }
            if request.messages().iter().any(|message| message["role"] == "tool") {
                return Reply::new_answer(&format!("see {workspace}/result.txt")).into();
            }
            Reply::call(
                "write_file",
                &json!({ "path": "result.txt", "content": format!("of {}", request.model()) }),
            )
            .into()
        }),
        |team| team.every_backend("cwd", "here").rule("max_new_answers_per_agent", 1),
    );
    let result = fixture.result(&["task"]);
    let judge =
        fixture.server.requests().into_iter().find(|request| request.tool_names().contains(&"vote")).unwrap();
    let shown = judge.last_user_text();
    let other = shown
        .split_whitespace()
        .find(|word| word.contains("/views/"))
        .expect("another's work, as this one sees it");
    let kept = std::fs::read_to_string(other).unwrap();
    assert!(kept.starts_with("of model-"), "{kept}");
    assert!(!kept.ends_with(judge.model()), "it is the other's: {kept}");
    let workspace = result["workspace_path"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(Path::new(workspace).join("result.txt")).unwrap(), "of model-a");
}

fn workspace_of(request: &RecordedRequest) -> String {
    let system = request.system_text();
    let rest = system.split("Your workspace is ").nth(1).unwrap_or_default();
    rest.split(';').next().unwrap_or_default().to_owned()
}

#[test]
fn agents_on_four_wire_formats_work_together_and_only_the_presenter_writes() {
    let script = Script::from_fn(|request| {
        let project = project_of(request);
        let name = if is_presenter(request) { "by-presenter.txt" } else { "too-early.txt" };
        let answered =
            request.raw_body().windows(8).any(|bytes| bytes == b"too-earl" || bytes == b"by-prese");
        if answered {
            member_action(request)
        } else {
            Reply::call("write_file", &write(&project.join(name), "new\n")).into()
        }
    });
    let fixture = Fixture::with(4, script, |team| {
        let kinds = ["openai", "claude", "gemini", "chatcompletion"];
        kinds.into_iter().enumerate().fold(team, |team, (agent, kind)| {
            team.backend(agent, "type", kind).backend(agent, "api_key", "sk-test-0123456789")
        })
    });
    let project = project(&fixture);
    let path = format!("{}:rw", project.display());
    let output = fixture.run(&["--context-path", &path, "task"]).expect_code(0);
    let paths: Vec<String> =
        fixture.server.requests().iter().map(|request| request.path().to_owned()).collect();
    for part in ["/responses", "/messages", ":streamGenerateContent", "/chat/completions"] {
        assert!(paths.iter().any(|path| path.contains(part)), "{part} in {paths:?}");
    }
    assert!(!project.join("too-early.txt").exists());
    assert_eq!(std::fs::read_to_string(project.join("by-presenter.txt")).unwrap(), "new\n");
    let footer = format!("Files written to context paths:\n  {}", project.join("by-presenter.txt").display());
    assert!(output.stdout.contains(&footer), "{}", output.stdout);
}

// Row D8 of docs/reliability.md. If both sessions could write, each would report and undo the other's changes as its
// own.
#[test]
fn two_sessions_cannot_write_to_one_path_at_once_and_the_second_gets_the_reason() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let fixture = Fixture::new(
        1,
        Script::from_fn(move |request| {
            let first = texts(request).contains("hold it");
            let name = if first { "first.txt" } else { "second.txt" };
            let action = call_once(request, "write_file", &write(&project_of(request).join(name), "x"));
            if first && !tool_results(request).is_empty() { Action::gated(action, &held) } else { action }
        }),
    );
    let project = project(&fixture);
    let path = format!("{}:rw", project.display());
    let first = fixture.spawn(&["--quick", "--context-path", &path, "hold it"]);
    gate.wait_waiting_blocking(1, LIMIT);
    assert!(project.join("first.txt").exists());
    // A directory inside the one that the first session writes to.
    let inner = project.join("inner");
    std::fs::create_dir(&inner).unwrap();
    let path = format!("{}:rw", inner.display());
    let output = fixture.run(&["--quick", "--context-path", &path, "another"]).expect_code(0);
    assert!(!inner.join("second.txt").exists() && !output.stdout.contains("Files written"), "{output:?}");
    let events = fixture.althing.events();
    let opened = items(&events, "context_opened");
    assert!(opened[0]["error"].as_str().unwrap().contains("another session is writing"), "{opened:?}");
    gate.release_all();
    let output = first.wait(LIMIT).expect_code(0);
    assert!(
        output.stdout.contains("first.txt") && !output.stdout.contains("second.txt"),
        "{}",
        output.stdout
    );
}
