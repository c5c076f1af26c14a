//! Project workspaces through the binary: created, maintained by conversations and runs, listed, switched.

use std::path::{Path, PathBuf};

use althing_testkit::{Action, Output, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, texts};

const CHAT_MODEL: &str = "talker";

/// A member that writes this text to `deliverables/report.md` of its workspace and answers.
fn delivers(text: &str) -> impl Fn(&RecordedRequest) -> Action + Send + Sync + 'static {
    let text = text.to_owned();
    move |request| {
        let told = request.messages().iter().any(|message| message["role"] == "tool");
        if told || !request.tool_names().contains(&"write_file") {
            return Reply::new_answer("The report is written.").into();
        }
        Reply::call("write_file", &json!({"path": "deliverables/report.md", "content": text})).into()
    }
}

fn fixture(script: impl Into<Script>) -> Fixture {
    Fixture::new(1, script)
}

fn project(fixture: &Fixture) -> PathBuf {
    fixture.althing.work_dir().join("my-app").canonicalize().unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn althing(fixture: &Fixture, args: &[&str]) -> Output {
    fixture.althing.new_command().args(args).spawn().wait(LIMIT)
}

/// The descriptions of a project's runs.
fn descriptions(project: &Path) -> Vec<Value> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(project.join("runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found.iter().map(|run| serde_json::from_str(&read(run.join("run_description.json"))).unwrap()).collect()
}

// spec: interactive/project-based-workspace/workspace-structure
// spec: interactive/project-based-workspace/run-association
// spec: design/project/run-description
// spec: design/project/deliverables
#[test]
fn a_run_in_a_project_leaves_a_description_and_deliverables_that_later_runs_see() {
    let fixture = fixture(Script::from_fn(delivers("first version\n")));
    let result = fixture.result(&["--quick", "--project", "my-app", "Write the report"]);
    let project = project(&fixture);
    assert!(project.join("CONTEXT.md").is_file() && read(project.join("filepaths.json")).contains('['));
    assert_eq!(read(project.join("deliverables/report.md")), "first version\n");
    let runs = descriptions(&project);
    assert_eq!(runs.len(), 1);
    for key in ["run_id", "task", "status", "final_answer", "log_dir", "workspace_path"] {
        assert_eq!(runs[0][key], result[key], "{key}");
    }
    assert!(Path::new(runs[0]["log_dir"].as_str().unwrap()).is_dir(), "the run's logs are named");
    fixture.run(&["--quick", "--project", "my-app", "Improve the report"]).expect_code(0);
    let last = fixture.server.requests().pop().unwrap();
    let deliverables = project.join("deliverables").display().to_string();
    assert!(last.system_text().contains(&deliverables), "{}", last.system_text());
    assert!(texts(&last).contains("Write the report"), "the earlier run is known: {}", texts(&last));
    assert_eq!(descriptions(&project).len(), 2);
}

// spec: design/project/deliverables
#[test]
fn a_deliverable_edited_by_hand_stays_and_the_runs_version_is_stored_beside_it() {
    let fixture = fixture(Script::from_fn(delivers("by the run\n")));
    fixture.run(&["--quick", "--project", "my-app", "Write the report"]).expect_code(0);
    let report = project(&fixture).join("deliverables/report.md");
    std::fs::write(&report, "by hand\n").unwrap();
    let output = fixture.run(&["--quick", "--project", "my-app", "Write it again"]).expect_code(0);
    assert_eq!(read(&report), "by hand\n");
    assert!(output.stderr.contains("edited by hand"), "{}", output.stderr);
    let beside = std::fs::read_dir(report.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let beside: Vec<PathBuf> = beside.filter(|path| *path != report).collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    assert_eq!(read(&beside[0]), "by the run\n");
}

/// A conversation whose agent calls these tools one after the other.
fn chat_agent_calling(calls: Vec<(&'static str, Value)>) -> Fixture {
    let member = delivers("delivered\n");
    let talker = Action::with(move |request: &RecordedRequest| {
        let results = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match calls.get(results) {
            Some((tool, arguments)) => Reply::call(*tool, arguments),
            None => Reply::text("done"),
        }
    });
    let fixture = fixture(Script::from_fn(member).on(CHAT_MODEL).always(talker));
    let base = fixture.server.base_url();
    let own = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let team = Team::on(&base, 1).rule("interactive_mode", json!({"backend": own}));
    fixture.althing.file("team.yaml", team.text());
    fixture
}

fn chat(fixture: &Fixture, args: &[&str]) -> Output {
    let command = fixture
        .althing
        .new_command()
        .args(["chat", "--config", "team.yaml", "--approve", "always"])
        .args(args);
    command.stdin("Please go on with the project\n").spawn().wait(LIMIT).expect_code(0)
}

// spec: interactive/project-based-workspace/run-association
// spec: design/project/filepaths
#[test]
fn the_chat_agent_updates_the_project_and_the_next_conversation_sees_it() {
    let fixture = chat_agent_calling(vec![
        ("update_project_context", json!({"content": "# Bridge\nIt must be blue."})),
        ("launch_run", json!({"task": "Write the report", "agent_mode": "single", "refinement": false})),
        ("describe_path", json!({"path": "deliverables", "description": "the reports"})),
        ("describe_path", json!({"path": "CONTEXT.md", "description": "what was decided"})),
        ("edit_file", json!({"path": "deliverables/report.md", "old": "delivered", "new": "corrected"})),
    ]);
    chat(&fixture, &["--project", "my-app"]);
    let project = project(&fixture);
    assert!(read(project.join("CONTEXT.md")).contains("It must be blue."));
    let paths: Value = serde_json::from_str(&read(project.join("filepaths.json"))).unwrap();
    assert_eq!(paths.as_array().unwrap().len(), 2, "described, not listed: {paths}");
    assert_eq!((&paths[0]["path"], &paths[0]["kind"]), (&json!("deliverables"), &json!("directory")));
    assert_eq!((&paths[1]["kind"], &paths[1]["description"]), (&json!("file"), &json!("what was decided")));
    assert_eq!(read(project.join("deliverables/report.md")), "corrected\n");
    assert_eq!(descriptions(&project)[0]["task"], "Write the report");
    let before = fixture.server.request_count();
    chat(&fixture, &["--project", "my-app"]);
    let system = fixture.server.requests()[before].system_text();
    for known in ["It must be blue.", "the reports", "report.md", "Write the report"] {
        assert!(system.contains(known), "{known}: {system}");
    }
}

#[test]
fn projects_are_listed_shown_found_by_name_and_forgotten() {
    let fixture = chat_agent_calling(vec![]);
    chat(&fixture, &["--project", "my-app"]);
    chat(&fixture, &["--project", "other/place"]);
    let listed = althing(&fixture, &["projects", "--json"]).expect_code(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["place", "my-app"], "the last used first");
    chat(&fixture, &["--project", "place"]);
    assert!(!fixture.althing.work_dir().join("place").exists(), "the known one was meant");
    let shown = althing(&fixture, &["projects", "show", "my-app"]).expect_code(0);
    assert!(shown.stdout.contains("Project my-app in "), "{}", shown.stdout);
    althing(&fixture, &["projects", "show", "nowhere"]).expect_code(1);
    assert!(!fixture.althing.work_dir().join("nowhere").exists(), "listing creates nothing");
    althing(&fixture, &["projects", "forget", "place"]).expect_code(0);
    let left = althing(&fixture, &["projects"]).expect_code(0);
    assert!(left.stdout.contains("my-app") && !left.stdout.contains("other/place"), "{}", left.stdout);
    assert!(fixture.althing.work_dir().join("other/place/CONTEXT.md").is_file(), "its files stay");
}

#[test]
fn a_project_is_locked_by_one_session_and_never_inside_the_state_directory() {
    let fixture = chat_agent_calling(vec![]);
    let first = fixture.althing.new_command().args(["chat", "--config", "team.yaml", "--project", "my-app"]);
    let first = first.open_stdin().spawn();
    first.write_stdin("hello\n");
    first.wait_for_stdout(|line| line.contains("done"), LIMIT);
    let second = fixture.run(&["--quick", "--project", "my-app", "task"]).expect_code(1);
    assert!(second.stderr.contains("in use by another session"), "{}", second.stderr);
    first.close_stdin();
    first.wait(LIMIT).expect_code(0);
    let inside = fixture.althing.state_dir().join("p").display().to_string();
    let refused = fixture.run(&["--quick", "--project", &inside, "task"]).expect_code(1);
    assert!(refused.stderr.contains("state directory"), "{}", refused.stderr);
}

// spec: design/ui/context-bar
#[test]
fn the_screen_names_the_project_and_switches_to_another() {
    let fixture = chat_agent_calling(vec![]);
    chat(&fixture, &["--project", "first"]);
    let mut terminal =
        fixture.althing.new_command().args(["--offline", "--project", "my-app"]).terminal(100, 30);
    terminal.wait_for("Project: my-app", LIMIT);
    terminal.keys("/projects\r");
    terminal.wait_until(LIMIT, "both projects to choose from", |screen| {
        screen.contains("my-app") && screen.lines().any(|line| line.contains("first"))
    });
    terminal.keys("\x1b[B\r");
    terminal.wait_for("Project: first", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
}
