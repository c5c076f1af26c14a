//! Plans from the command line: made, stored, executed.

use std::path::Path;
use std::sync::Arc;

use althing_protocol::{Event, Fact, Op, Origin, SessionId, SessionStore};
use althing_testkit::process::{Signal, wait_for_event};
use althing_testkit::{Action, FakeModel, Gate, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, althing, items, run, texts};

fn result(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

#[test]
fn a_plan_is_stored_and_executed_by_id_or_as_the_latest() {
    let althing = althing();
    let planned = run(&althing, &["--offline", "--plan", "--json", "Write a word counter"]).expect_code(0);
    let planned = result(&planned.stdout);
    assert_eq!(planned["modes"]["planning"], true);
    let (id, path) = (planned["plan"]["id"].as_str().unwrap(), planned["plan"]["path"].as_str().unwrap());
    let on_disk: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{path}/plan.json")).unwrap()).unwrap();
    assert_eq!(on_disk["tasks"][0]["id"], "goal");
    for which in [id, path, "latest"] {
        let done = run(&althing, &["--offline", "--execute-plan", which, "--json"]).expect_code(0);
        let done = result(&done.stdout);
        assert_eq!(done["modes"]["planning"], false);
        assert_eq!(done["task"], "Write a word counter");
    }
    let events = althing.events();
    let created = events.iter().find(|event| event["data"]["spec"]["kind"] == "run").unwrap();
    let plan = &created["data"]["spec"]["plan"];
    assert_eq!(plan["plan"]["id"], id);
    assert!(plan["tasks"].as_array().unwrap().iter().any(|task| task["id"] == "first-version"), "{plan}");
}

#[test]
fn planning_and_execution_follow_each_other_and_one_answer_is_printed() {
    let althing = althing();
    let output =
        run(&althing, &["--offline", "--plan-and-execute", "--json", "Write a word counter"]).expect_code(0);
    assert_eq!(output.stdout.lines().count(), 1, "{}", output.stdout);
    assert_eq!(result(&output.stdout)["modes"]["planning"], false);
    assert!(output.stderr.contains("plan stored in"), "{}", output.stderr);
    let sessions = std::fs::read_dir(althing.state_dir().join("sessions")).unwrap().count();
    assert_eq!(sessions, 1, "both runs are in one session, so that resuming it continues with the execution");
    // Each step is a fact in the log, and comes after the fact of the step before.
    let events = althing.events();
    let at = |what: &str, is: &dyn Fn(&Value) -> bool| {
        events.iter().position(is).unwrap_or_else(|| panic!("{what} is missing"))
    };
    let steps = [
        at("the plan's storing", &|event| event["data"]["item"]["kind"] == "plan_stored"),
        at("the plan's result", &|event| event["data"]["verdict"] == "finished" && event["task"] == "r1"),
        at("the execution", &|event| event["data"]["id"] == "r1.execution"),
        at("the plan's reading", &|event| event["data"]["item"]["kind"] == "plan_opened"),
        at("the first attempt", &|event| {
            event["type"] == "attempt_started" && event["task"] == "r1.execution.a1"
        }),
    ];
    assert!(steps.is_sorted(), "{steps:?}");
    let plan = std::fs::read_dir(althing.state_dir().join("plans")).unwrap().next().unwrap().unwrap().path();
    let shown = std::fs::read_to_string(plan.join("plan.md")).unwrap();
    assert_eq!(shown.matches("- [x] **").count(), 3, "{shown}");
    assert!(shown.contains("not an AI"), "{shown}");
}

#[test]
fn an_unknown_plan_is_an_error_and_nothing_starts() {
    let althing = althing();
    for which in ["latest", "no-such-plan"] {
        let output = run(&althing, &["--offline", "--execute-plan", which, "--automation"]).expect_code(1);
        assert!(output.stderr.contains("there is no plan"), "{}", output.stderr);
    }
    assert!(!althing.state_dir().join("sessions").exists());
}

#[test]
fn a_plan_that_cannot_be_stored_is_reported_and_its_run_still_has_its_answer() {
    let althing = althing();
    std::fs::create_dir_all(althing.state_dir()).unwrap();
    std::fs::write(althing.state_dir().join("plans"), "not a directory").unwrap();
    let output = run(&althing, &["--offline", "--plan", "--json", "Write a word counter"]).expect_code(0);
    assert!(output.stderr.contains("no plan was stored"), "{}", output.stderr);
    let planned = result(&output.stdout);
    assert!(planned["plan"].is_null() && planned["final_answer"].is_string(), "{planned}");
}

/// Each of the eight tasks depends on the previous one.
fn store_eight_tasks(fixture: &Fixture) -> std::path::PathBuf {
    let task = |n: usize| {
        let before: Vec<String> = (n > 1).then(|| format!("t{}", n - 1)).into_iter().collect();
        json!({"id": format!("t{n}"), "description": format!("Write part {n}"), "depends_on": before})
    };
    let tasks: Vec<Value> = (1..=8).map(task).collect();
    let dir = fixture.althing.state_dir().join("plans/plan-20261115-120000-0001");
    std::fs::create_dir_all(&dir).unwrap();
    let plan = json!({"goal": "Write a book", "created_at": "2026-11-15T12:00:00.000Z", "tasks": tasks});
    std::fs::write(dir.join("plan.json"), plan.to_string()).unwrap();
    dir
}

/// The plan tasks with this status in a request: in its texts, and in the calls of `update_plan_task`.
fn tasks_with_status(request: &RecordedRequest, status: &str) -> Vec<String> {
    let mut tasks: Vec<String> = Vec::new();
    let shown = format!(" ({})", status.replace('_', " "));
    for message in request.messages() {
        let text = message["content"].as_str().unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(&shown));
        tasks.extend(lines.map(|(id, _)| id.to_owned()));
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
            if call["function"]["name"] == "update_plan_task" && arguments["status"] == status {
                tasks.push(arguments["id"].as_str().unwrap_or_default().to_owned());
            }
        }
    }
    tasks
}

/// Starts the first unfinished task of the plan and writes the task's part, or completes the task if it has started.
/// Answers when all tasks are completed.
fn worker(request: &RecordedRequest) -> Reply {
    let done = tasks_with_status(request, "completed");
    let Some(n) = (1..=8).find(|n| !done.contains(&format!("t{n}"))) else {
        return Reply::new_answer("The book is written.");
    };
    let update = |status: &str| json!({"id": format!("t{n}"), "status": status});
    if tasks_with_status(request, "in_progress").contains(&format!("t{n}")) {
        return Reply::call("update_plan_task", &update("completed"));
    }
    let part = json!({"path": format!("part-{n}.txt"), "content": format!("part {n}\n")});
    Reply::call("update_plan_task", &update("in_progress")).and_call("write_file", &part)
}

fn stored_progress(plan: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(plan.join("progress.json")).unwrap();
    let progress: Value = serde_json::from_str(&text).unwrap();
    (1..=8).map(|n| progress[format!("t{n}")]["status"].as_str().unwrap_or("pending").to_owned()).collect()
}

#[test]
fn a_plan_of_eight_tasks_is_killed_in_the_middle_and_resumed_without_repeating_a_finished_task() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let action = Action::from(worker(request));
        // The process is killed when four tasks are done and the fifth has started.
        let (done, begun) =
            (tasks_with_status(request, "completed").len(), tasks_with_status(request, "in_progress").len());
        if (done, begun) == (4, 5) { Action::gated(action, &held) } else { action }
    });
    let server = FakeModel::start_on_thread(script);
    let fixture = Fixture { server, althing: althing() };
    let team = Team::on(&fixture.server.base_url(), 1).every_backend("cwd", "here");
    fixture.althing.file("team.yaml", team.text());
    let plan = store_eight_tasks(&fixture);
    let running = fixture.spawn(&["--quick", "--execute-plan", "latest"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let half = stored_progress(&plan);
    assert_eq!(half[..5], ["completed", "completed", "completed", "completed", "in_progress"]);
    assert_eq!(half[5..], ["pending"; 3]);
    fixture.resume().expect_code(0);
    assert_eq!(stored_progress(&plan), ["completed"; 8]);
    let events = fixture.althing.events();
    let written = items(&events, "reply")
        .into_iter()
        .flat_map(|reply| reply["tool_calls"].as_array().into_iter().flatten());
    let parts: Vec<String> = written
        .filter(|call| call["name"] == "write_file")
        .map(|call| {
            serde_json::from_str::<Value>(call["arguments"].as_str().unwrap()).unwrap()["path"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let expected: Vec<String> = (1..=8).map(|n| format!("part-{n}.txt")).collect();
    assert_eq!(parts, expected, "each task once, in order");
}

#[test]
fn an_unfinished_plan_is_continued_by_another_execution_and_locked_by_one_session() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let action = Action::from(worker(request));
        if tasks_with_status(request, "completed").len() == 2 { Action::gated(action, &held) } else { action }
    });
    let server = FakeModel::start_on_thread(script);
    let fixture = Fixture { server, althing: althing() };
    fixture
        .althing
        .file("team.yaml", Team::on(&fixture.server.base_url(), 1).every_backend("cwd", "here").text());
    let plan = store_eight_tasks(&fixture);
    let running = fixture.spawn(&["--quick", "--execute-plan", "latest"]);
    gate.wait_waiting_blocking(1, LIMIT);
    wait_for_event(&fixture.althing.state_dir(), LIMIT, |event| {
        event["data"]["item"]["kind"] == "plan_progress"
    });
    let second = fixture.run(&["--quick", "--execute-plan", "latest"]).expect_code(1);
    assert!(second.stderr.contains("is being executed by another process"), "{}", second.stderr);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let before = fixture.server.request_count();
    fixture.run(&["--quick", "--execute-plan", "latest"]).expect_code(0);
    let first = &fixture.server.requests()[before];
    assert_eq!(tasks_with_status(first, "completed"), ["t1", "t2"], "finished tasks are shown as completed");
    assert_eq!(stored_progress(&plan), ["completed"; 8]);
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_plan_approved_in_a_conversation_is_executed_as_on_disk_and_its_progress_is_stored() {
    let tasks: Vec<Value> =
        (1..=2).map(|n| json!({"id": format!("t{n}"), "description": format!("Part {n}")})).collect();
    let answer = format!("```json\n{}\n```", json!({"tasks": tasks}));
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let executes = request.tool_names().contains(&"update_plan_task");
        if !executes {
            return Action::from(Reply::new_answer(&answer));
        }
        let done = tasks_with_status(request, "completed");
        let ids = texts(request);
        let next = ["t1", "t2", "t3"]
            .into_iter()
            .find(|id| ids.contains(&format!("- {id} (")) && !done.contains(&(*id).to_owned()));
        Action::from(match next {
            Some(id) => {
                Reply::call("update_plan_task", &json!({"id": id, "status": "completed", "note": "checked"}))
            }
            None => Reply::new_answer("all done"),
        })
    });
    let fixture = Fixture::new(1, script);
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml", "--plan", "--quick"]);
    let running = command.open_stdin().spawn();
    running.write_stdin("Write a book\n");
    let opened =
        wait_for_event(&fixture.althing.state_dir(), LIMIT, |event| event["type"] == "interaction_opened");
    let plan =
        Path::new(opened["data"]["plan"]["path"].as_str().unwrap_or_else(|| panic!("{opened}"))).to_owned();
    let text = std::fs::read_to_string(plan.join("plan.json")).unwrap();
    let stored: Value = serde_json::from_str(&text).unwrap();
    let line =
        |task: &Value| format!("{}: {}", task["id"].as_str().unwrap(), task["description"].as_str().unwrap());
    let stored: Vec<String> = stored["tasks"].as_array().unwrap().iter().map(line).collect();
    assert_eq!(stored, ["t1: Part 1", "t2: Part 2"]);
    assert_eq!(opened["data"]["preview"], json!(stored), "the preview is the stored plan");
    let text = text.replace("\"t2\"", "\"t3\"");
    std::fs::write(plan.join("plan.json"), text).unwrap();
    running.wait_for_stderr(|line| line.contains("y or n"), LIMIT);
    running.write_stdin("y\n");
    running.close_stdin();
    running.wait(LIMIT).expect_code(0);
    let progress: Value =
        serde_json::from_str(&std::fs::read_to_string(plan.join("progress.json")).unwrap()).unwrap();
    let expected = json!({"status": "completed", "note": "checked"});
    assert_eq!(progress, json!({"t1": expected, "t3": expected}));
    let stored = result(&std::fs::read_to_string(plan.join("plan.json")).unwrap());
    assert_eq!(stored["approved"], true, "the approval is stored with the plan: {stored}");
}

fn plans_and_executes(request: &RecordedRequest) -> Reply {
    if request.tool_names().contains(&"update_plan_task") {
        let done = tasks_with_status(request, "completed");
        return match ["t1", "t2"].into_iter().find(|id| !done.contains(&(*id).to_owned())) {
            Some(id) => Reply::call("update_plan_task", &json!({"id": id, "status": "completed"})),
            None => Reply::new_answer("all done"),
        };
    }
    let tasks = json!([{"id": "t1", "description": "Part 1"}, {"id": "t2", "description": "Part 2"}]);
    Reply::new_answer(&json!({"tasks": tasks}).to_string())
}

// spec: modes/plan-mode/plan-approval-with-additions
// spec: modes/plan-mode/plan-mode-submission
#[test]
fn in_lines_a_plan_is_shown_and_approved_with_or_without_additions() {
    const PREVIEW: &str = "t1: Part 1; t2: Part 2";
    let script = || Script::from_fn(|request: &RecordedRequest| Action::from(plans_and_executes(request)));
    for plain in [false, true] {
        for (answer, additions) in
            [("y", Value::Null), ("/approve also write an index", json!("also write an index"))]
        {
            let fixture = Fixture::new(1, script());
            let executed = || fixture.server.requests().iter().any(is_executing);
            if plain {
                let command = fixture.althing.new_command().args(["--config", "team.yaml", "--quick"]);
                let mut terminal = command.env("ALTHING_PLAIN", "1").terminal(300, 40);
                terminal.wait_for("Write a message and press Enter", LIMIT);
                terminal.keys("/plan\rWrite a book\r");
                let screen =
                    terminal.wait_for("Write /approve, /approve and instructions to add, or /reject.", LIMIT);
                assert!(
                    screen.contains("Question: execute the plan ") && screen.contains(PREVIEW),
                    "{screen}"
                );
                assert!(!executed(), "nothing is executed before the answer");
                terminal.keys(answer).keys("\r");
                terminal.wait_for("all done", LIMIT);
                terminal.keys("/quit\r");
                assert_eq!(terminal.wait(LIMIT), 0);
            } else {
                let command = fixture.althing.new_command().args([
                    "chat",
                    "--config",
                    "team.yaml",
                    "--plan",
                    "--quick",
                ]);
                let running = command.open_stdin().spawn();
                running.write_stdin("Write a book\n");
                running.wait_for_stderr(|line| line.contains("Execute the plan "), LIMIT);
                running.wait_for_stderr(|line| line.contains("Tasks") && line.contains(PREVIEW), LIMIT);
                running.wait_for_stderr(
                    |line| line.contains("y or n, or /approve and instructions to add"),
                    LIMIT,
                );
                // Only a command such as `/approve` takes words after it, so this line is not an answer.
                running.write_stdin("y also write an index\n");
                running.wait_for_stderr(|line| line.contains("does not answer the open question"), LIMIT);
                assert!(!executed(), "nothing is executed before the answer");
                running.write_stdin(format!("{answer}\n"));
                running.close_stdin();
                let output = running.wait(LIMIT).expect_code(0);
                assert!(output.stdout.ends_with("all done\n"), "{output:?}");
            }
            let (executing, planning): (Vec<RecordedRequest>, Vec<RecordedRequest>) =
                fixture.server.requests().into_iter().partition(is_executing);
            assert!(executing.len() >= 3 && !planning.is_empty(), "plain {plain}, {answer}");
            for request in &executing {
                let adds = texts(request).contains("The user adds: also write an index");
                assert_eq!(adds, !additions.is_null(), "plain {plain}, {answer}: {}", texts(request));
                assert!(
                    texts(request).contains("- t1 (") && texts(request).contains("- t2 ("),
                    "{}",
                    texts(request)
                );
            }
            let adds = |request: &RecordedRequest| texts(request).contains("The user adds");
            assert!(!planning.iter().any(adds), "plain {plain}, {answer}");
            let plan = std::fs::read_dir(fixture.althing.state_dir().join("plans"))
                .unwrap()
                .next()
                .unwrap()
                .unwrap();
            let stored = result(&std::fs::read_to_string(plan.path().join("plan.json")).unwrap());
            assert_eq!((&stored["approved"], &stored["additions"]), (&json!(true), &additions), "{stored}");
        }
    }
}

#[test]
fn a_plan_that_could_not_be_stored_is_not_offered_for_approval() {
    let fixture = Fixture::new(
        1,
        Script::from_fn(|request: &RecordedRequest| Action::from(plans_and_executes(request))),
    );
    std::fs::create_dir_all(fixture.althing.state_dir()).unwrap();
    std::fs::write(fixture.althing.state_dir().join("plans"), "not a directory").unwrap();
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml", "--plan", "--quick"]);
    command.stdin("Write a book\n").spawn().wait(LIMIT).expect_code(0);
    let events = fixture.althing.events();
    let stored = items(&events, "plan_stored");
    assert!(stored[0]["plan"].is_null() && stored[0]["error"].is_string(), "{stored:?}");
    assert!(!events.iter().any(|event| event["type"] == "interaction_opened"), "{events:?}");
    let said =
        |event: &Value| event["data"]["text"].as_str().is_some_and(|text| text.contains("without a plan"));
    assert!(events.iter().any(said), "{events:?}");
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_chat_agent_that_launches_a_plan_and_its_execution_gets_both_results() {
    let launch = json!({"task": "Write a book", "refinement": false, "planning_mode": true, "execute_after_planning": true});
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let last = request.messages().last().cloned().unwrap_or_default();
        Action::from(match () {
            () if request.model() != "talker" => plans_and_executes(request),
            () if last["role"] == "tool" => Reply::text("Both runs have ended."),
            () => Reply::call("launch_run", &launch),
        })
    });
    let fixture = Fixture::new(1, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let interactive = json!({"enabled": true, "backend": backend, "require_approval": false});
    fixture.althing.file("team.yaml", Team::on(&base, 1).rule("interactive_mode", interactive).text());
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let output = command.stdin("Write a book\n").spawn().wait(LIMIT).expect_code(0);
    assert_eq!(output.stdout, "Both runs have ended.\n");
    let requests = fixture.server.requests();
    let last = requests.iter().rfind(|request| request.model() == "talker").unwrap();
    let told = result(last.messages().last().unwrap()["content"].as_str().unwrap());
    let execution = &told["execution"];
    assert_eq!((&told["modes"]["planning"], &execution["modes"]["planning"]), (&json!(true), &json!(false)));
    assert_eq!((&execution["final_answer"], &execution["run_id"]), (&json!("all done"), &told["follow_up"]));
    let events = fixture.althing.events();
    let runs = events.iter().filter(|event| event["data"]["spec"]["kind"] == "run");
    let runs: Vec<&str> = runs.map(|event| event["data"]["id"].as_str().unwrap()).collect();
    assert_eq!(runs, ["r1", "r1.execution"], "the planning run starts the execution of its plan");
}

fn is_executing(request: &RecordedRequest) -> bool {
    request.tool_names().contains(&"update_plan_task")
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_killed_execution_that_follows_a_plan_is_resumed_without_planning_again() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let action = Action::from(plans_and_executes(request));
        if is_executing(request) { Action::gated(action, &held) } else { action }
    });
    let fixture = Fixture::new(1, script);
    let running = fixture.spawn(&["--quick", "--plan-and-execute", "Write a book"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let planning = fixture.server.requests().iter().filter(|request| !is_executing(request)).count();
    let resumed = fixture.resume().expect_code(0);
    assert_eq!(resumed.stdout.trim(), "all done");
    let again = fixture.server.requests().iter().filter(|request| !is_executing(request)).count();
    assert_eq!(planning, again, "the plan is not made again");
}

#[test]
fn an_execution_cancelled_before_it_starts_names_the_stored_plan() {
    let script = Script::from_fn(|request: &RecordedRequest| Action::from(plans_and_executes(request)));
    let fixture = Fixture::new(1, script);
    fixture.run(&["--quick", "--plan-and-execute", "Write a book"]).expect_code(0);
    let whole = std::fs::read_to_string(fixture.log()).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let line_with = |part: &str| lines.iter().position(|line| line.contains(part)).unwrap();
    let stored = line_with("\"kind\":\"plan_stored\"");
    let executing = line_with("\"type\":\"task_created\",\"data\":{\"id\":\"r1.execution\"");
    // The cancel arrives just after the plan was stored, or just after the planning run ended.
    for cut in [stored + 1, executing] {
        std::fs::write(fixture.log(), lines[..stored].join("\n") + "\n").unwrap();
        let state =
            althing_journal::open_state(&fixture.althing.state_dir(), althing_journal::Owners::Anybody)
                .unwrap();
        let mut owned = SessionStore::open(&state, &SessionId::new(fixture.session_id())).unwrap();
        let mut events: Vec<Arc<Event>> =
            lines[stored..cut].iter().map(|line| Arc::new(serde_json::from_str(line).unwrap())).collect();
        let last = Event::clone(events.last().unwrap());
        let fact = Fact::accepted(Op::Cancel { task: "r1".into() }, Origin::User);
        events.push(Arc::new(Event { seq: last.seq.next(), task: None, cause: None, fact, ..last }));
        owned.journal.append(&events).unwrap();
        drop(owned);
        let output = fixture.resume().expect_code(4);
        let plan =
            std::fs::read_dir(fixture.althing.state_dir().join("plans")).unwrap().next().unwrap().unwrap();
        let (path, id) = (plan.path(), plan.file_name());
        let kept = format!(
            "the plan is stored in {}; execute it with --execute-plan {}",
            path.canonicalize().unwrap().display(),
            id.display()
        );
        assert!(output.stderr.contains("the execution of the plan was cancelled"), "{}", output.stderr);
        assert!(output.stderr.contains(&kept), "{kept}: {}", output.stderr);
        assert_eq!(output.stdout, "");
        let mut client = super::mcp::Client::start(&fixture.althing, &["--config", "team.yaml"]);
        let run = format!("{}.r1", fixture.session_id());
        let result = client.tool("run_result", &json!({ "run_id": run }))["structuredContent"].clone();
        assert_eq!(
            (&result["status"], &result["follow_up"]),
            (&json!("cancelled"), &json!(null)),
            "{result}"
        );
        drop(client);
    }
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_log_that_ends_anywhere_between_plan_and_execution_is_resumed_with_one_execution_and_one_plan() {
    let script = || Script::from_fn(|request: &RecordedRequest| Action::from(plans_and_executes(request)));
    let fixture = Fixture::new(1, script());
    fixture.run(&["--quick", "--plan-and-execute", "Write a book"]).expect_code(0);
    let log =
        althing_testkit::process::newest_session(&fixture.althing.state_dir()).unwrap().join("events.jsonl");
    let whole = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let answered = lines.iter().position(|line| line.contains("\"kind\":\"answer\"")).unwrap();
    let executing = lines.iter().position(|line| line.contains("\"r1.execution.a1\"")).unwrap();
    for cut in answered + 1..=executing {
        std::fs::write(&log, lines[..cut].join("\n") + "\n").unwrap();
        let resumed = fixture.resume().expect_code(0);
        assert_eq!(resumed.stdout.trim(), "all done", "cut at {cut}");
        let events = fixture.althing.events();
        let created = |id: &str| {
            events.iter().filter(|event| event["type"] == "task_created" && event["data"]["id"] == id).count()
        };
        assert_eq!((created("r1"), created("r1.execution")), (1, 1), "cut at {cut}");
    }
    let plans = std::fs::read_dir(fixture.althing.state_dir().join("plans")).unwrap().count();
    assert_eq!(plans, 1, "storing a plan again after a crash stores no second one");
}
