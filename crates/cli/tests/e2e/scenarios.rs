//! Scenarios of the specification that concern several parts at once: the same run through every front end, questions
//! of tasks as events and states, prompts for programs in terminals, and the separation of the components.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_testkit::process::Signal;
use althing_testkit::{
    Action, Althing, Gate, Parliament, RecordedRequest, Reply, RunningProcess, Script, wait,
};
use serde_json::{Value, json};

use super::mcp::Client;
use super::scripted_claude;
use super::support::{Fixture, LIMIT, Team, althing, files_below, items, of_type, paths_below, run};

const TASK: &str = "Count the words.";
const DELEGATE: &str = "Delegate it.";
const CHAT_MODEL: &str = "talker";
const OF_MODEL: &str = "42\n";
const OF_CLAUDE: &str = "forty-two\n";
/// How long nothing may happen before the test concludes that nothing will.
const QUIET_TIME: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
enum FrontEnd {
    CommandLine,
    Mcp,
    /// An MCP client that does not wait for the run, but fetches its result later.
    McpInTheBackground,
    Chat,
    Workflow,
    Subagent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunShape {
    QuickSingle,
    QuickMulti,
    Refined,
}

impl RunShape {
    fn launch(self) -> Value {
        let mode = if self == Self::QuickSingle { "single" } else { "multi" };
        json!({"task": TASK, "agent_mode": mode, "refinement": self == Self::Refined})
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::QuickSingle => &["--single-agent", "a", "--quick"],
            Self::QuickMulti => &["--quick"],
            Self::Refined => &[],
        }
    }
}

/// An agent writes a file, answers, and votes for the second agent. The chat agent launches the run. An agent whose
/// task is [`DELEGATE`] starts a subagent first.
fn scripted_reply(shape: RunShape, request: &RecordedRequest) -> Action {
    let tools = request.tool_names();
    let has_results = request.messages().iter().any(|message| message["role"] == "tool");
    if request.model() == CHAT_MODEL {
        let launched =
            if has_results { Reply::text("Done.") } else { Reply::call("launch_run", &shape.launch()) };
        return launched.into();
    }
    if tools.contains(&"vote") {
        return Reply::vote("agent2", "clear").into();
    }
    if has_results || !tools.contains(&"write_file") {
        return Parliament::default().reply(request).into();
    }
    if tools.contains(&"spawn_subagents") && request.last_user_text().contains(DELEGATE) {
        let task = json!({"task": TASK, "team": shape != RunShape::QuickSingle});
        return Reply::call("spawn_subagents", &json!({"tasks": [task]})).into();
    }
    Reply::call("write_file", &json!({"path": "count.txt", "content": OF_MODEL})).into()
}

/// What a run left behind: the kinds of its events by task, and its files, without what differs from run to run.
#[derive(Debug, PartialEq)]
struct RunTrace {
    events: BTreeMap<String, Vec<String>>,
    files: BTreeMap<String, String>,
}

fn trace_through(front_end: FrontEnd, shape: RunShape) -> RunTrace {
    let fixture = Fixture::new(2, Script::from_fn(move |request| scripted_reply(shape, request)));
    let base = fixture.server.base_url();
    let chat = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let team = Team::on(&base, 1)
        .every_backend("cwd", "work")
        .agent("b", &json!({"type": "claude_code"}))
        .rule("coordination", json!({"enable_subagents": true}))
        .rule("interactive_mode", json!({"backend": chat, "require_approval": false}));
    let althing = scripted_claude::on_pipes(&fixture.althing);
    std::fs::write(scripted_claude::own_dir(&althing).join("count"), OF_CLAUDE).unwrap();
    althing.file("team.yaml", team.text());
    let with_team = |command: Althing| command.args(["--config", "team.yaml"]);
    let root = match front_end {
        FrontEnd::CommandLine => {
            let command = with_team(althing.new_command()).arg("--automation").args(shape.arguments());
            command.arg(TASK).spawn().wait(LIMIT).expect_code(0);
            "r1"
        }
        FrontEnd::Mcp => {
            let mut client = Client::start(&althing, &["--config", "team.yaml"]);
            let launched = client.tool("launch_run", &shape.launch());
            assert_eq!(launched["structuredContent"]["status"], "completed", "{launched}");
            client.running.close_stdin();
            client.running.wait(LIMIT).expect_code(0);
            "r1"
        }
        FrontEnd::McpInTheBackground => {
            let mut client = Client::start(&althing, &["--config", "team.yaml", "--wait", "0"]);
            let launched = client.tool("launch_run", &shape.launch())["structuredContent"].clone();
            assert_eq!(launched["status"], "running", "{launched}");
            let run = json!({"run_id": launched["run_id"]});
            wait::until(LIMIT, || {
                client.tool("run_result", &run)["structuredContent"]["status"] == "completed"
            });
            client.running.close_stdin();
            client.running.wait(LIMIT).expect_code(0);
            "r1"
        }
        FrontEnd::Chat => {
            let command = with_team(althing.new_command().arg("chat")).stdin("Please count\n");
            command.spawn().wait(LIMIT).expect_code(0);
            "r1"
        }
        FrontEnd::Workflow => {
            let task = json!({"id": "team", "run": shape.launch()});
            let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": [task]}]});
            althing.file("flow.yaml", flow.to_string());
            let command = with_team(althing.new_command().args(["workflow", "run", "flow.yaml"]));
            command.spawn().wait(LIMIT).expect_code(0);
            "w1.team"
        }
        FrontEnd::Subagent => {
            let command = with_team(althing.new_command()).arg("--automation").args(shape.arguments());
            command.arg(DELEGATE).spawn().wait(LIMIT).expect_code(0);
            let of_parent = fixture.session().join("tasks/r1/workspaces/a");
            assert!(of_parent.is_dir() && !of_parent.join("count.txt").exists(), "its workspace is its own");
            "r1.s1"
        }
    };
    RunTrace { events: events_of(&althing, root), files: files_of(&fixture, root) }
}

/// The kinds of the events of a run, by task relative to the run. Agents work at the same time, so only the order
/// within a task is fixed.
fn events_of(althing: &Althing, root: &str) -> BTreeMap<String, Vec<String>> {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in althing.events() {
        let Some(task) = event["task"].as_str().and_then(|task| task.strip_prefix(root)) else { continue };
        let data = &event["data"];
        let kind = &data["item"]["kind"];
        let details =
            [&data["status"], &data["phase"], &data["verdict"], &data["purpose"], &data["outcome"], kind];
        let details: Vec<String> =
            details.into_iter().filter(|detail| !detail.is_null()).map(Value::to_string).collect();
        let kind = format!("{} {}", event["type"].as_str().unwrap(), details.join(" "));
        kinds.entry(task.to_owned()).or_default().push(kind);
    }
    kinds
}

fn files_of(fixture: &Fixture, root: &str) -> BTreeMap<String, String> {
    let dir = fixture.session().join("tasks").join(root);
    let name = |path: &Path| path.strip_prefix(&dir).unwrap().display().to_string();
    let mut files: BTreeMap<String, String> =
        paths_below(&dir).iter().map(|path| (name(path), String::new())).collect();
    let is_read = |path: &PathBuf| {
        path.extension().is_some_and(|kind| ["md", "txt", "json"].iter().any(|it| kind == *it))
    };
    for (path, content) in files_below(&dir).into_iter().filter(|(path, _)| is_read(path)) {
        let mut text = String::from_utf8(content).unwrap();
        if path.ends_with("result.json") {
            let mut result: Value = serde_json::from_str(&text).unwrap();
            for different in ["run_id", "log_dir", "workspace_path", "duration_ms"] {
                assert!(result.as_object_mut().unwrap().remove(different).is_some(), "{different}: {result}");
            }
            text = result.to_string();
        }
        if path.ends_with("report.md") {
            // The report contains times and paths.
            assert!(text.contains("## Final answer"), "{text}");
            text.clear();
        }
        if path.ends_with("answers.md") {
            // The agents answer at the same time, so the order of their answers varies.
            let mut answers: Vec<&str> = text.split("# agent").collect();
            answers.sort_unstable();
            text = answers.join("# agent");
        }
        files.insert(name(&path), text);
    }
    files
}

// spec: design/launch-run/shared-run-machinery
#[test]
fn a_run_has_the_same_events_and_files_whatever_started_it() {
    use FrontEnd::{Chat, CommandLine, Mcp, McpInTheBackground, Subagent, Workflow};
    for shape in [RunShape::QuickSingle, RunShape::QuickMulti, RunShape::Refined] {
        let expected = trace_through(CommandLine, shape);
        assert!(expected.events[""].contains(&"decided \"finished\"".to_owned()), "{expected:#?}");
        assert!(expected.files.contains_key("final_answer.md"), "{expected:#?}");
        assert_eq!(expected.events.contains_key(".a2"), shape != RunShape::QuickSingle, "{expected:#?}");
        // Each agent works in a workspace of its own: neither changed the other's file.
        let written = |agent: &str| {
            let file = expected.files.get(&format!("workspaces/{agent}/count.txt"));
            file.map(String::as_str)
        };
        let of_claude = (shape != RunShape::QuickSingle).then_some(OF_CLAUDE);
        assert_eq!((written("a"), written("b")), (Some(OF_MODEL), of_claude), "{expected:#?}");
        for front_end in [Mcp, McpInTheBackground, Chat, Workflow, Subagent] {
            // A subagent never refines.
            if matches!((front_end, shape), (Subagent, RunShape::Refined)) {
                continue;
            }
            let found = trace_through(front_end, shape);
            assert_eq!(found.events, expected.events, "{front_end:?}, {shape:?}");
            assert_eq!(found.files, expected.files, "{front_end:?}, {shape:?}");
        }
    }
}

fn reported_state(althing: &Althing) -> String {
    let listed = run(althing, &["sessions", "--json"]).expect_code(0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    listed[0]["state"].as_str().unwrap().to_owned()
}

#[track_caller]
fn wait_for_state(althing: &Althing, state: &str) {
    wait::until(LIMIT, || reported_state(althing) == state);
}

#[track_caller]
fn wait_for_printed(running: &RunningProcess, task: &str, kind: &str) -> Value {
    let parsed = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_default();
    let is = |line: &str| {
        let event = parsed(line);
        event["task"] == task && event["type"] == kind
    };
    parsed(&running.wait_for_stdout(is, LIMIT))
}

fn printed_statuses(stdout: &str, task: &str) -> Vec<String> {
    let events: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_task = of_type(&events, "status_changed").into_iter().filter(|event| event["task"] == task);
    of_task.map(|event| event["data"]["status"].as_str().unwrap().to_owned()).collect()
}

fn start_flow(althing: &Althing, flow: &Value) -> RunningProcess {
    althing.file("flow.yaml", flow.to_string());
    let args = ["workflow", "run", "flow.yaml", "--offline", "--stream-events", "--take-ops"];
    althing.new_command().args(args).open_stdin().spawn()
}

fn one_task(task: &Value) -> Value {
    json!({"name": "n", "goal": "Ship 2.0", "stages": [{"name": "only", "tasks": [task]}]})
}

// spec: core/centralized-workflow-management/state-tracking
// spec: core/event-driven-ui-interface/ui-notification
#[test]
fn a_question_of_a_program_changes_the_state_and_is_an_event_with_text_and_options() {
    let althing = scripted_claude::in_terminal(&althing());
    let own = scripted_claude::own_dir(&althing);
    let task =
        json!({"id": "t", "agent": "claude", "executionMode": "interactive", "prompt": "Make the file"});
    let running = start_flow(&althing, &one_task(&task));
    wait_for_printed(&running, "w1.t", "attempt_started");
    wait_for_state(&althing, "RUNNING");
    std::fs::write(own.join("ready"), "").unwrap();
    let asked = wait_for_printed(&running, "w1.t", "interaction_opened");
    let question = &asked["data"];
    assert_eq!((&question["kind"], &question["about"]), (&json!("program"), &json!("permission")));
    assert_eq!(question["text"], "Do you want to write made.txt?");
    assert_eq!(
        question["options"],
        json!([{"id": "allow", "label": "Yes"}, {"id": "reject", "label": "No"}])
    );
    wait_for_state(&althing, "AWAITING_INTERACTION");
    let decision = json!({"decision": "choose", "option": "allow"});
    let answer = json!({"op": "answer", "interaction": question["id"], "decision": decision});
    running.write_stdin(format!("{answer}\n"));
    let closed = wait_for_printed(&running, "w1.t", "interaction_closed");
    assert_eq!(closed["data"], json!({"id": question["id"], "decision": decision}));
    wait_for_state(&althing, "RUNNING");
    std::fs::write(own.join("end"), "").unwrap();
    let output = running.wait(LIMIT).expect_code(0);
    assert_eq!(printed_statuses(&output.stdout, "w1.t"), ["RUNNING", "WAITING_FOR_USER", "RUNNING", "DONE"]);
    assert_eq!(reported_state(&althing), "DONE");
    assert_eq!(scripted_claude::notes(&althing).last().unwrap(), "key: 1", "the answer reached the program");
}

// spec: core/centralized-workflow-management/state-tracking
// spec: core/event-driven-ui-interface/ui-notification
#[test]
fn whether_an_interrupted_task_starts_again_is_asked_by_an_event_and_is_part_of_the_state() {
    let althing = althing();
    let (begun, go) = (althing.work_dir().join("begun"), althing.work_dir().join("go"));
    let script =
        format!("echo x >> {}; while [ ! -e {} ]; do sleep 0.02; done", begun.display(), go.display());
    let task = json!({"id": "t", "agent": "command", "command": ["sh", "-c", script], "prompt": "", "on_interrupt": "ask"});
    let running = start_flow(&althing, &one_task(&task));
    wait::until(LIMIT, || begun.exists());
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let resumed =
        althing.new_command().args(["resume", "--stream-events", "--take-ops"]).open_stdin().spawn();
    let asked = wait_for_printed(&resumed, "w1.t", "interaction_opened");
    assert_eq!(asked["data"]["kind"], "interrupted", "{asked}");
    wait_for_state(&althing, "AWAITING_INTERACTION");
    assert_eq!(std::fs::read_to_string(&begun).unwrap(), "x\n", "it is not started before the answer");
    let decision = json!({"decision": "approve"});
    let answer = json!({"op": "answer", "interaction": asked["data"]["id"], "decision": decision});
    resumed.write_stdin(format!("{answer}\n"));
    wait::until(LIMIT, || std::fs::read_to_string(&begun).unwrap() == "x\nx\n");
    wait_for_state(&althing, "RUNNING");
    std::fs::write(go, "").unwrap();
    resumed.wait(LIMIT).expect_code(0);
    assert_eq!(reported_state(&althing), "DONE");
}

// spec: core/centralized-workflow-management/state-tracking
#[test]
fn a_conversation_and_a_direct_run_on_the_screen_report_when_they_wait_for_a_person() {
    for has_chat_agent in [true, false] {
        let gate = Gate::before_headers();
        let held = gate.clone();
        let script = Script::from_fn(move |request: &RecordedRequest| {
            let told = request.messages().last().is_some_and(|last| last["role"] == "tool");
            match request.model() {
                CHAT_MODEL if told => Reply::text("I have heard it.").into(),
                CHAT_MODEL => Reply::call("launch_run", &json!({"task": TASK})).into(),
                _ => Action::gated(Action::from(Parliament::default().reply(request)), &held),
            }
        });
        let fixture = Fixture::new(2, script);
        let base = fixture.server.base_url();
        if has_chat_agent {
            let chat = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
            let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": chat}));
            fixture.althing.file("team.yaml", team.text());
        }
        let mut terminal =
            fixture.althing.new_command().args(["--config", "team.yaml", TASK]).terminal(120, 40);
        if has_chat_agent {
            terminal.wait_for("Cancel esc", LIMIT);
            wait_for_state(&fixture.althing, "AWAITING_APPROVAL");
            terminal.keys("\r");
        }
        gate.wait_waiting_blocking(2, LIMIT);
        wait_for_state(&fixture.althing, "RUNNING");
        gate.release_all();
        terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
        wait_for_state(&fixture.althing, "AWAITING_INTERACTION");
        terminal.keys("\r");
        terminal.wait_for(if has_chat_agent { "I have heard it." } else { "Complete ✓" }, LIMIT);
        wait_for_state(&fixture.althing, "IDLE");
        terminal.keys("\x04");
        assert_eq!(terminal.wait(LIMIT), 0);
        // Every change of the state is an event, and so is each question with its answer.
        let events = fixture.althing.events();
        let kinds: Vec<&Value> =
            of_type(&events, "interaction_opened").iter().map(|event| &event["data"]["kind"]).collect();
        let questions: &[&str] =
            if has_chat_agent { &["run_approval", "winner_override"] } else { &["winner_override"] };
        assert_eq!(kinds, questions, "a chat agent: {has_chat_agent}");
        assert_eq!(of_type(&events, "interaction_closed").len(), questions.len());
        let statuses: Vec<&str> = of_type(&events, "status_changed")
            .iter()
            .filter(|event| event["task"] == "r1")
            .map(|event| event["data"]["status"].as_str().unwrap())
            .collect();
        assert_eq!(statuses, ["RUNNING", "WAITING_FOR_USER", "RUNNING", "DONE"]);
        let phases: Vec<String> = of_type(&events, "phase_changed")
            .iter()
            .map(|event| event["data"]["phase"].to_string().to_lowercase())
            .collect();
        let asked = phases.iter().any(|phase| phase.contains("awaiting_approval"));
        assert_eq!(asked, has_chat_agent, "{phases:?}");
        assert!(phases.last().unwrap().contains("idle"), "{phases:?}");
    }
}

fn recorded_prompts(althing: &Althing) -> (Vec<String>, Vec<String>) {
    let text = |item: &Value| item["text"].as_str().unwrap().to_owned();
    let events = althing.events();
    let session = althing_testkit::process::newest_session(&althing.state_dir()).unwrap();
    let checkpoint = std::fs::read_to_string(session.join("session.json")).unwrap();
    let checkpoint: Value = serde_json::from_str(&checkpoint).unwrap();
    let history = checkpoint["history"].as_array().unwrap();
    let kept = history.iter().filter(|item| item["kind"] == "prompt_sent").map(text);
    (items(&events, "prompt_sent").into_iter().map(text).collect(), kept.collect())
}

// spec: core/interactive-prompt-dispatch/ready-output-gating
#[test]
fn a_program_in_a_terminal_gets_its_prompt_once_and_only_when_it_is_ready() {
    let althing = scripted_claude::in_terminal(&althing());
    let own = scripted_claude::own_dir(&althing);
    let task =
        json!({"id": "t", "agent": "claude", "executionMode": "interactive", "prompt": "Make the file"});
    let running = start_flow(&althing, &one_task(&task));
    wait::until(LIMIT, || !scripted_claude::notes(&althing).is_empty());
    let is_typed = || scripted_claude::notes(&althing).len() > 1;
    assert!(!wait::holds_within(QUIET_TIME, is_typed), "{:?}", scripted_claude::notes(&althing));
    std::fs::write(own.join("ready"), "").unwrap();
    let asked = wait_for_printed(&running, "w1.t", "interaction_opened");
    let answer = json!({"op": "answer", "interaction": asked["data"]["id"], "decision": {"decision": "choose", "option": "reject"}});
    running.write_stdin(format!("{answer}\n"));
    std::fs::write(own.join("end"), "").unwrap();
    running.wait(LIMIT).expect_code(0);
    let notes = scripted_claude::notes(&althing);
    assert_eq!(notes[..3], ["started", "ready", "line: Make the file"]);
    assert!(notes[3].starts_with("key: "), "the box was shown again, and nothing was typed again: {notes:?}");
    let sent = vec!["Make the file".to_owned()];
    assert_eq!(recorded_prompts(&althing), (sent.clone(), sent));
}

// spec: core/interactive-prompt-dispatch/ready-output-gating
#[test]
fn a_users_own_program_gets_its_prompt_once_it_says_so_or_after_the_time_limit() {
    let althing = althing();
    let (go, work) = (althing.work_dir().join("go"), althing.work_dir());
    let receive = "IFS= read -r line; echo \"first: $line\" >> $NOTES; if IFS= read -r -t 1 line; then echo \"then: $line\" >> $NOTES; fi";
    let says = "echo starting; echo started > $NOTES; stty -icanon; while [ ! -e $GO ]; do \
        if IFS= read -r -t 0.02 -n 1 key; then echo \"early: $key\" >> $NOTES; fi; done; \
        stty icanon; echo 'Ready for your command'";
    let adapter = |name: &str, script: String| {
        json!({"program": "bash", "args": ["-c", script], "ready": "Ready for your command",
            "env": {"NOTES": work.join(name), "GO": go}})
    };
    let adapters = json!({
        "says": adapter("says", format!("{says}; {receive}")),
        "silent": adapter("silent", format!("echo starting; echo started > $NOTES; {receive}")),
    });
    let task =
        |name: &str| json!({"id": name, "agent": name, "executionMode": "interactive", "prompt": "build it"});
    let mut flow = one_task(&task("says"));
    flow["stages"][0]["tasks"].as_array_mut().unwrap().push(task("silent"));
    flow["adapters"] = adapters;
    let running = start_flow(&althing, &flow);
    let notes = |name: &str| std::fs::read_to_string(work.join(name)).unwrap_or_default();
    wait::until(LIMIT, || !notes("says").is_empty() && !notes("silent").is_empty());
    let is_typed = || notes("says") != "started\n" || notes("silent") != "started\n";
    assert!(
        !wait::holds_within(QUIET_TIME, is_typed),
        "neither is ready, and the time limit is seconds away"
    );
    std::fs::write(&go, "").unwrap();
    wait::until(LIMIT, || notes("says").contains("first: "));
    assert_eq!(notes("silent"), "started\n", "the prompt of one program says nothing about another");
    running.wait(LIMIT).expect_code(0);
    for name in ["says", "silent"] {
        assert_eq!(notes(name), "started\nfirst: build it\n", "{name}");
    }
    let sent = vec!["build it".to_owned(); 2];
    assert_eq!(recorded_prompts(&althing), (sent.clone(), sent));
}

// spec: core/centralized-workflow-management/component-separation
#[test]
fn a_session_that_one_process_persisted_is_executed_by_another_and_driven_by_ops() {
    let althing = althing();
    let (diary, go) = (althing.work_dir().join("diary"), althing.work_dir().join("go"));
    let headless = |id: &str, script: String| json!({"id": id, "agent": "command", "command": ["sh", "-c", script], "prompt": ""});
    let ask = "printf 'Name it: '; read name; echo \"asked $name\" >> $DIARY";
    let asker = json!({"program": "sh", "args": ["-c", ask], "env": {"DIARY": diary},
        "interactions": [{"pattern": r"(?P<text>Name it:)", "about": "question"}]});
    let wait =
        format!("echo begun >> {}; while [ ! -e {} ]; do sleep 0.02; done", diary.display(), go.display());
    let flow = json!({"name": "n", "goal": "Ship 2.0", "adapters": {"asker": asker}, "stages": [
        {"name": "first", "tasks": [headless("one", format!("echo one >> {}", diary.display()))]},
        {"name": "second", "tasks": [headless("two", wait)]},
        {"name": "third", "tasks": [{"id": "three", "agent": "asker", "executionMode": "interactive", "prompt": ""}]},
    ]});
    let first = start_flow(&althing, &flow);
    let written = || std::fs::read_to_string(&diary).unwrap_or_default();
    wait::until(LIMIT, || written().contains("begun"));
    first.signal(Signal::KILL);
    first.wait(LIMIT);
    // Persistence: only the log is copied to another state directory; `sessions show` reads the whole state from it.
    let session = althing_testkit::process::newest_session(&althing.state_dir()).unwrap();
    let id = session.file_name().unwrap().to_string_lossy().into_owned();
    let elsewhere = althing.home_dir().join("elsewhere");
    let moved = elsewhere.join("sessions").join(&id);
    std::fs::create_dir_all(&moved).unwrap();
    std::fs::copy(session.join("events.jsonl"), moved.join("events.jsonl")).unwrap();
    std::fs::remove_dir_all(althing.state_dir().join("sessions")).unwrap();
    let althing = althing.new_command().env("ALTHING_STATE_DIR", &elsewhere);
    let shown = |althing: &Althing| -> Value {
        let shown = run(althing, &["sessions", "show", &id, "--json"]).expect_code(0);
        serde_json::from_str(&shown.stdout).unwrap()
    };
    let before = shown(&althing);
    assert_eq!((&before["goal"], &before["currentStageIndex"]), (&json!("Ship 2.0"), &json!(1)));
    let status = |shown: &Value, stage: usize| shown["stages"][stage]["tasks"][0]["status"].clone();
    assert_eq!([status(&before, 0), status(&before, 1), status(&before, 2)], ["DONE", "RUNNING", "PENDING"]);
    assert_eq!(written(), "one\nbegun\n", "reading executes nothing");
    // Execution: another process continues in the stage that the log gives; the op of a script answers the question.
    std::fs::write(&go, "").unwrap();
    let second = althing
        .new_command()
        .args(["resume", &id, "--trust", "--stream-events", "--take-ops"])
        .open_stdin()
        .spawn();
    wait_for_printed(&second, "w1.three", "interaction_opened");
    wait::until(LIMIT, || status(&shown(&althing), 2) == "WAITING_FOR_USER");
    second.write_stdin(format!("{}\n", json!({"op": "input", "task": "w1.three", "bytes": b"Ada\r"})));
    second.wait(LIMIT).expect_code(0);
    assert_eq!(written(), "one\nbegun\nbegun\nasked Ada\n", "only the interrupted task is repeated");
    assert_eq!(shown(&althing)["state"], "DONE");
}

/// The product's source files below a directory of the workspace, without comment lines and without files of tests.
fn sources(dir: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for (path, content) in files_below(&root.join(dir)) {
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let is_product =
            name.contains("/src/") && name.strip_suffix(".rs").is_some_and(|name| !name.contains("test"));
        if is_product {
            let code = String::from_utf8(content).unwrap();
            let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            found.push((name, code.join("\n")));
        }
    }
    assert!(!found.is_empty(), "no sources in {dir}");
    found
}

fn files_with(sources: &[(String, String)], text: &str) -> BTreeSet<String> {
    sources.iter().filter(|(_, code)| code.contains(text)).map(|(name, _)| name.clone()).collect()
}

// spec: core/centralized-workflow-management/component-separation
#[test]
fn persistence_execution_and_the_public_api_are_types_that_do_not_reach_around_each_other() {
    let all = sources("");
    for (name, file) in [
        ("SessionManager", "journal/src/sessions.rs"),
        ("WorkflowExecutor", "engine/src/workflow/mod.rs"),
        ("Orchestrator", "engine/src/orchestrator/mod.rs"),
    ] {
        let definition = format!("pub struct {name} {{");
        assert_eq!(files_with(&all, &definition), BTreeSet::from([file.to_owned()]), "{name}");
    }
    let (persistence, execution, api) =
        (sources("journal/src"), sources("engine/src/workflow"), sources("engine/src/orchestrator"));
    for (component, others) in [
        (&persistence, ["WorkflowExecutor", "Orchestrator", "Decider"]),
        (&execution, ["Orchestrator", "SessionManager", "Journal"]),
        (&api, ["SessionManager", "althing_journal", "std::fs"]),
    ] {
        for other in others {
            assert_eq!(files_with(component, other), BTreeSet::new(), "{other}");
        }
    }
    // Front ends use sessions through the service of `app`, which alone opens orchestrators and stores.
    for only_app in ["Orchestrator::open(", "Orchestrator::open;", "open_state("] {
        let outside = files_with(&all, only_app);
        let outside: Vec<&String> = outside
            .iter()
            .filter(|name| !name.starts_with("app/") && !name.starts_with("journal/"))
            .collect();
        assert!(outside.is_empty(), "{only_app} in {outside:?}");
    }
}
