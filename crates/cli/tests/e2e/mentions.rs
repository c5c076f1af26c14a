//! `@path` and `@path:w`: what a person types grants a path to the runs of that message, on the screen and in `chat`;
//! what a model or a client writes grants nothing.

use std::path::{Path, PathBuf};

use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{LIMIT, Scene, Team, althing, of_type};

const TALKER: &str = "talker";

/// A directory `notes` with a file in it, and a file `plan.md`.
fn files(scene: &Scene) -> (PathBuf, PathBuf) {
    scene.althing.file("notes/old.txt", "old\n");
    let plan = scene.althing.file("plan.md", "the plan\n").canonicalize().unwrap();
    (scene.althing.work_dir().join("notes").canonicalize().unwrap(), plan)
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

/// A team whose messages are runs.
fn direct() -> Scene {
    Scene::new(2, Script::from_fn(member))
}

/// A team with a chat agent that launches this run for every message.
fn interactive(launch: Value, approval: bool) -> Scene {
    let talker = move |request: &RecordedRequest| {
        let last = request.messages().last().cloned().unwrap_or_default();
        if last["role"] == "tool" { Reply::text("It is done.") } else { Reply::call("launch_run", &launch) }
    };
    let scene = Scene::new(2, Script::from_fn(member).on(TALKER).always(Action::with(talker)));
    let base = scene.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": TALKER, "base_url": base});
    let mode = json!({"enabled": true, "require_approval": approval, "backend": backend});
    scene.althing.file("team.yaml", Team::on(&base, 2).rule("interactive_mode", mode).text());
    scene
}

/// The context paths of every run that started, and whether they are writable.
fn granted(scene: &Scene) -> Vec<Vec<(String, bool)>> {
    let events = scene.althing.events();
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

fn chat(scene: &Scene, lines: &str, args: &[&str]) -> althing_testkit::Output {
    let command = scene.althing.new_command().args(["chat", "--config", "team.yaml"]).args(args);
    command.stdin(lines).spawn().wait(LIMIT).expect_code(0)
}

#[test]
fn a_path_that_is_typed_on_the_screen_is_granted_to_the_run_of_that_message() {
    let scene = direct();
    let (notes, plan) = files(&scene);
    let command =
        scene.althing.new_command().args(["--config", "team.yaml", "--quick", "--single-agent", "a"]);
    let mut terminal = command.terminal(140, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("tidy @notes:w by @pl");
    terminal.wait_for("@plan.md", LIMIT);
    terminal.keys("\t");
    terminal.wait_for("› tidy @notes:w by @plan.md", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Files written to context paths:", LIMIT);
    assert_eq!(std::fs::read_to_string(notes.join("new.txt")).unwrap(), "written\n");
    assert_eq!(granted(&scene), [[pair(&notes, true), pair(&plan, false)]]);
    // The next message grants nothing by itself.
    terminal.keys("and again\r");
    terminal.wait_for("Run: and again", LIMIT);
    assert_eq!(granted(&scene)[1], []);
}

#[test]
fn a_completed_file_can_be_granted_for_writing() {
    let scene = direct();
    let (_, plan) = files(&scene);
    let mut terminal = scene.althing.new_command().args(["--config", "team.yaml"]).terminal(140, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("mend @pl");
    terminal.wait_for("@plan.md", LIMIT);
    terminal.keys("\t:w");
    terminal.wait_for("› mend @plan.md:w", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Run: mend /", LIMIT);
    assert_eq!(granted(&scene), [[pair(&plan, true)]]);
}

#[test]
fn the_first_message_on_the_command_line_grants_its_paths_too() {
    let scene = direct();
    let (notes, _) = files(&scene);
    let command = scene.althing.new_command().args(["--config", "team.yaml", "tidy @notes:w"]);
    let terminal = command.terminal(140, 40);
    terminal.wait_for("Run: tidy /", LIMIT);
    assert_eq!(granted(&scene), [[pair(&notes, true)]]);
}

#[test]
fn the_approval_box_shows_what_the_run_may_read_and_write() {
    let scene = interactive(json!({"task": "Tidy up"}), true);
    let (notes, plan) = files(&scene);
    let mut terminal = scene.althing.new_command().args(["--config", "team.yaml"]).terminal(190, 40);
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
    assert_eq!(granted(&scene), [[pair(&notes, true), pair(&plan, false)]]);
}

#[test]
fn a_path_that_is_typed_in_chat_is_granted_whether_or_not_runs_are_approved() {
    for approval in [true, false] {
        let scene = interactive(json!({"task": "Tidy up", "refinement": false}), approval);
        let (notes, plan) = files(&scene);
        chat(&scene, "tidy @notes:w by @plan.md\nand again\n", &["--approve", "always"]);
        assert_eq!(granted(&scene), [vec![pair(&notes, true), pair(&plan, false)], vec![]]);
        assert_eq!(std::fs::read_to_string(notes.join("new.txt")).unwrap(), "written\n");
    }
    let scene = direct();
    let (notes, _) = files(&scene);
    chat(&scene, "tidy @notes:w\n", &[]);
    assert_eq!(granted(&scene), [[pair(&notes, true)]]);
    assert_eq!(std::fs::read_to_string(notes.join("new.txt")).unwrap(), "written\n");
}

#[test]
fn a_plan_reads_the_granted_path_and_its_execution_may_write_it() {
    let scene = althing();
    scene.file("notes/old.txt", "old\n");
    let notes = scene.work_dir().join("notes").canonicalize().unwrap();
    let command = scene.new_command().args(["chat", "--offline", "--plan", "--approve", "always"]);
    command.stdin("Write a tool that tidies @notes:w\n").spawn().wait(LIMIT).expect_code(0);
    let events = scene.events();
    let created = of_type(&events, "task_created").into_iter().map(|event| &event["data"]["spec"]);
    let runs: Vec<&Value> = created.filter(|spec| spec["kind"] == "run").collect();
    assert_eq!(runs.len(), 2, "planning, then execution");
    for (run, writable) in runs.into_iter().zip([false, true]) {
        let path = &run["context_paths"][0];
        assert_eq!((path["path"].as_str(), &path["writable"]), (notes.to_str(), &writable.into()), "{run}");
    }
}

#[test]
fn a_protected_path_is_not_granted_for_writing_and_the_person_is_told() {
    let scene = direct();
    let (notes, _) = files(&scene);
    let paths = json!([{"path": notes, "permission": "write", "protected_paths": ["old.txt"]}]);
    let team = Team::on(&scene.server.base_url(), 2).rule("context_paths", paths);
    scene.althing.file("team.yaml", team.text());
    let command = scene.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let output = command.stdin("mend @notes/old.txt:w\n").spawn().wait(LIMIT).expect_code(2);
    assert!(output.stderr.contains("is protected"), "{}", output.stderr);
    assert!(granted(&scene).is_empty() && scene.server.requests().is_empty(), "nobody was asked");
}

#[test]
fn what_a_model_writes_grants_nothing() {
    for approval in [true, false] {
        let launch = json!({"task": "Tidy @notes:w by @plan.md", "context": "@notes:w", "refinement": false});
        let scene = interactive(launch, approval);
        files(&scene);
        chat(&scene, "tidy my notes\n", &["--approve", "always"]);
        assert_eq!(granted(&scene), [[]]);
    }
}

#[test]
fn what_a_program_sends_as_an_op_grants_only_what_the_op_says() {
    let scene = direct();
    let (notes, plan) = files(&scene);
    let plain = json!({"op": "send_message", "text": "Tidy @notes:w"});
    let grants = json!([{"path": plan, "permission": "read"}]);
    let outright = json!({"op": "send_message", "text": "Tidy by the plan", "grants": grants});
    chat(&scene, &format!("{plain}\n{outright}\n"), &["--json"]);
    assert_eq!(granted(&scene), [vec![], vec![pair(&plan, false)]]);
    assert!(!notes.join("new.txt").exists());
}

#[test]
fn what_a_client_writes_over_mcp_grants_nothing() {
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
