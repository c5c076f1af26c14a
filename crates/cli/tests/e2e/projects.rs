//! Project workspaces through the binary: created, maintained by conversations and runs, listed, switched.

use std::path::{Path, PathBuf};

use althing_testkit::{Action, Output, Parliament, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::mcp::Client;
use super::mode_scenarios::{claude_calls, claude_file, prompt, set_claude, with_claude};
use super::support::{Fixture, LIMIT, Team, ensure, in_parallel, task_of, texts};

const CHAT_MODEL: &str = "talker";

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

#[derive(Clone, Copy, Debug)]
enum Door {
    CommandLine,
    Chat,
    Screen,
    Workflow,
    Mcp,
}

const DOORS: [Door; 5] = [Door::CommandLine, Door::Chat, Door::Screen, Door::Workflow, Door::Mcp];
const REPORT: &str = "Write the report";

fn open(door: Door, fixture: &Fixture) {
    let config = ["--config", "team.yaml", "--project", "my-app"];
    let command = fixture.althing.new_command();
    match door {
        Door::CommandLine => {
            fixture.run(&["--quick", "--project", "my-app", REPORT]).expect_code(0);
        }
        Door::Chat => {
            let command = command.arg("chat").args(config).arg("--quick");
            command.stdin(format!("{REPORT}\n")).spawn().wait(LIMIT).expect_code(0);
        }
        Door::Screen => {
            let mut terminal = command.args(config).args(["--quick", REPORT]).terminal(110, 40);
            terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
            terminal.keys("\r");
            terminal.wait_for("Complete ✓", LIMIT);
            terminal.keys("\x04");
            assert_eq!(terminal.wait(LIMIT), 0);
        }
        Door::Workflow => {
            let task = json!({"id": "report", "run": {"task": REPORT, "refinement": false}});
            let stages = json!([{"name": "only", "tasks": [task]}]);
            let flow = json!({"name": "n", "goal": "g", "stages": stages});
            fixture.althing.file("flow.yaml", flow.to_string());
            command.args(["workflow", "run", "flow.yaml"]).args(config).spawn().wait(LIMIT).expect_code(0);
        }
        Door::Mcp => {
            let mut client = Client::start(&fixture.althing, &config);
            let launched = client.tool("launch_run", &json!({"task": REPORT, "refinement": false}));
            assert_eq!(launched["structuredContent"]["status"], "completed", "{launched}");
            client.running.close_stdin();
            client.running.wait(LIMIT).expect_code(0);
        }
    }
}

// spec: interactive/project-based-workspace/run-association
// spec: design/project/run-description
// spec: design/project/deliverables
#[test]
fn a_run_in_a_project_is_recorded_and_delivers_the_winners_files_whatever_started_it() {
    let winners = [("agent1", "by claude\n"), ("agent2", "by the model\n")];
    let cases: Vec<_> = DOORS.into_iter().flat_map(|door| winners.map(|winner| (door, winner))).collect();
    in_parallel(2, cases, |(door, (winner, text))| {
        // Claude Code is agent 1, the model is agent 2, and each writes a report of its own.
        let script = Script::from_fn(move |request: &RecordedRequest| {
            let has_result = request.messages().iter().any(|message| message["role"] == "tool");
            match request.tool_names() {
                tools if tools.contains(&"vote") => Reply::vote(winner, "clear"),
                tools if tools.contains(&"write_file") && !has_result => {
                    let report = json!({"path": "deliverables/report.md", "content": "by the model\n"});
                    Reply::call("write_file", &report)
                }
                _ => Parliament::default().reply(request),
            }
        });
        let fixture = with_claude(1, script, &json!({}));
        set_claude(&fixture, "vote", winner);
        let writes = "mkdir -p deliverables && echo by claude > deliverables/report.md";
        set_claude(&fixture, "command-answer", writes);
        open(door, &fixture);
        let project = project(&fixture);
        let place = format!("{door:?}, {winner}");
        let runs = descriptions(&project);
        ensure(runs.len() == 1, || format!("{place}: {} descriptions", runs.len()))?;
        let recorded = (&runs[0]["status"], &runs[0]["task"]);
        ensure(recorded == (&json!("completed"), &json!(REPORT)), || format!("{place}: {recorded:?}"))?;
        let run_id = runs[0]["run_id"].as_str().unwrap();
        let is_linked = run_id.starts_with(&format!("{}.", fixture.session_id()))
            && project.join("runs").join(run_id).is_dir();
        ensure(is_linked, || format!("{place}: {run_id} is not the id of the run"))?;
        let log_dir = Path::new(runs[0]["log_dir"].as_str().unwrap());
        let result = std::fs::read_to_string(log_dir.join("result.json")).unwrap_or_default();
        let result: Value = serde_json::from_str(&result).unwrap_or_default();
        ensure(result["run_id"] == run_id, || {
            format!("{place}: {log_dir:?} has not the result of {run_id}")
        })?;
        let report = std::fs::read_to_string(project.join("deliverables/report.md")).unwrap_or_default();
        ensure(report == text, || format!("{place}: the report is {report:?}"))
    });
}

// spec: design/project/deliverables
// spec: design/project/run-description
#[test]
fn a_subagent_of_a_run_in_a_project_leaves_no_description_and_delivers_nothing() {
    let script = Script::from_fn(|request: &RecordedRequest| {
        let is_told = request.messages().iter().any(|message| message["role"] == "tool");
        let tools = request.tool_names();
        if is_told {
            return Parliament::default().reply(request);
        }
        if tools.contains(&"spawn_subagents") && task_of(&texts(request)) == Some(REPORT) {
            return Reply::call("spawn_subagents", &json!({"tasks": [{"task": "Write a draft."}]}));
        }
        Reply::call("write_file", &json!({"path": "deliverables/draft.md", "content": "a draft\n"}))
    });
    let fixture =
        Fixture::with(1, script, |team| team.rule("coordination", json!({"enable_subagents": true})));
    fixture.run(&["--quick", "--project", "my-app", REPORT]).expect_code(0);
    let events = fixture.althing.events();
    let runs = events.iter().filter(|event| event["data"]["spec"]["kind"] == "run").count();
    assert_eq!(runs, 2, "the subagent is a run");
    assert!(
        fixture.server.requests().iter().any(|request| texts(request).contains("draft.md")),
        "it wrote a draft"
    );
    let project = project(&fixture);
    let tasks: Vec<Value> = descriptions(&project).iter().map(|run| run["task"].clone()).collect();
    assert_eq!(tasks, [REPORT]);
    assert!(
        !project.join("deliverables/draft.md").exists(),
        "the draft belongs to the run that asked for it"
    );
}

// spec: design/project/deliverables
#[test]
fn the_next_run_reads_a_deliverable_as_a_person_corrected_it() {
    let script = Script::from_fn(|request: &RecordedRequest| {
        let has_result = request.messages().iter().any(|message| message["role"] == "tool");
        if has_result {
            return Parliament::default().reply(request);
        }
        if task_of(&texts(request)) == Some(REPORT) {
            let report = json!({"path": "deliverables/report.md", "content": "first version\n"});
            return Reply::call("write_file", &report);
        }
        let system = request.system_text();
        let shown = system.lines().filter_map(|line| line.strip_prefix("- ")?.split(" (").next());
        let deliverables = shown.into_iter().find(|path| path.ends_with("/deliverables")).unwrap();
        Reply::call("read_file", &json!({"path": format!("{deliverables}/report.md")}))
    });
    let fixture = with_claude(1, script, &json!({}));
    let start = |agent: &str, task: &str| {
        fixture.run(&["--quick", "--single-agent", agent, "--project", "my-app", task]).expect_code(0);
    };
    start("a", REPORT);
    let report = project(&fixture).join("deliverables/report.md");
    assert_eq!(read(&report), "first version\n");
    std::fs::write(&report, "corrected by a person\n").unwrap();
    start("a", "Improve it");
    let last = fixture.server.requests().pop().unwrap();
    let results = last.messages().iter().filter(|message| message["role"] == "tool");
    let results: Vec<String> = results.map(|message| message["content"].to_string()).collect();
    assert!(results.concat().contains("corrected by a person"), "{results:?}");
    let note = format!("cat {} > \"$HOME/.claude/read\"", report.display());
    set_claude(&fixture, "command-present", &note);
    start("claude", "Improve it");
    let call = claude_calls(&fixture).pop().unwrap();
    let deliverables = report.parent().unwrap().display().to_string();
    assert!(prompt(&call).contains(&deliverables), "{}", prompt(&call));
    assert_eq!(read(claude_file(&fixture, "read")), "corrected by a person\n");
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

// spec: design/project/filepaths
#[test]
fn a_cli_agent_as_chat_agent_updates_the_project_and_its_next_conversation_sees_it() {
    let interactive = json!({"backend": {"type": "claude_code"}, "require_approval": false});
    let fixture = with_claude(1, Script::parliament(), &json!({"interactive_mode": interactive}));
    let calls = json!([
        ["update_project_context", {"content": "# Bridge\nIt must be blue."}],
        ["describe_path", {"path": "deliverables", "description": "the reports"}],
        ["describe_path", {"path": "CONTEXT.md", "description": "what was decided"}],
    ]);
    set_claude(&fixture, "tools-present", &calls.to_string());
    chat(&fixture, &["--project", "my-app"]);
    let project = project(&fixture);
    assert_eq!(read(project.join("CONTEXT.md")).trim_end(), "# Bridge\nIt must be blue.");
    let paths: Value = serde_json::from_str(&read(project.join("filepaths.json"))).unwrap();
    let described: Vec<[&Value; 3]> = paths
        .as_array()
        .unwrap()
        .iter()
        .map(|path| ["path", "kind", "description"].map(|key| &path[key]))
        .collect();
    let wanted = [["deliverables", "directory", "the reports"], ["CONTEXT.md", "file", "what was decided"]];
    assert_eq!(json!(described), json!(wanted));
    assert_eq!(fixture.server.request_count(), 0, "no run was started");
    chat(&fixture, &["--project", "my-app"]);
    let call = claude_calls(&fixture).pop().unwrap();
    assert_eq!(call["resumes"], false, "a conversation of its own");
    for known in ["It must be blue.", "the reports", "what was decided"] {
        assert!(prompt(&call).contains(known), "{known}: {}", prompt(&call));
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
    let found = fixture.althing.work_dir().join("place");
    std::fs::create_dir(&found).unwrap();
    chat(&fixture, &["--project", "place"]);
    assert!(!found.join("CONTEXT.md").exists(), "a directory that came with other files is not preferred");
    chat(&fixture, &["--project", "./place"]);
    assert!(found.join("CONTEXT.md").exists(), "unless it is named as a directory");
    althing(&fixture, &["projects", "forget", found.to_str().unwrap()]).expect_code(0);
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
