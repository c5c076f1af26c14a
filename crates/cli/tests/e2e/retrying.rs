//! Retrying a failed task of a workflow in a real terminal: while the workflow runs, and after it has ended.

use althing_testkit::process::wait_for_event;
use althing_testkit::{
    Action, Althing, Fault, FaultMoment, Parliament, RecordedRequest, Script, Terminal, wait,
};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, althing, of_type, run};

fn flaky(id: &str) -> Value {
    let script = "if [ -e ok ]; then echo it works; else echo it is broken >&2; exit 3; fi";
    json!({"id": id, "agent": "command", "command": ["sh", "-c", script], "executionMode": "headless", "prompt": ""})
}

fn waiting(id: &str) -> Value {
    let script = "while [ ! -e go ]; do sleep 0.02; done; echo went";
    json!({"id": id, "agent": "command", "command": ["sh", "-c", script], "executionMode": "headless", "prompt": ""})
}

fn printing(id: &str, text: &str) -> Value {
    json!({"id": id, "agent": "command", "command": ["echo", text], "executionMode": "headless", "prompt": ""})
}

fn watch(althing: &Althing, cols: u16, rows: u16) -> Terminal {
    althing
        .new_command()
        .args(["workflow", "run", "flow.yaml", "--offline", "--unconfined"])
        .terminal(cols, rows)
}

fn starts(althing: &Althing, task: &str) -> usize {
    let events = althing.events();
    of_type(&events, "attempt_started").into_iter().filter(|event| event["task"] == task).count()
}

fn failures(althing: &Althing, task: &str) -> usize {
    let events = althing.events();
    let changed = of_type(&events, "status_changed").into_iter();
    changed.filter(|event| event["task"] == task && event["data"]["status"] == "FAILED").count()
}

fn retry_second(terminal: &mut Terminal) {
    terminal.wait_for("q leave", LIMIT);
    terminal.keys("\x1b[B");
    terminal.wait_for("r retry · q leave", LIMIT);
    retry(terminal);
}

fn retry(terminal: &mut Terminal) {
    terminal.keys("r");
    terminal.wait_for("Retry this task?", LIMIT);
    terminal.keys("y");
}

#[test]
fn a_failed_task_of_a_workflow_that_has_ended_is_retried_and_the_workflow_goes_on() {
    for (cols, rows) in [(80, 24), (160, 45)] {
        let althing = althing();
        let last = json!({"id": "last", "agent": "command", "command": ["cat"], "executionMode": "headless",
            "prompt": "the last: {{flaky.output}}"});
        let file = json!({"name": "flow", "goal": "Ship it", "stages": [
            {"name": "one", "tasks": [printing("first", "the first"), flaky("flaky")]},
            {"name": "two", "tasks": [last]},
        ]});
        althing.file("flow.yaml", format!("{file:#}"));
        let mut terminal = watch(&althing, cols, rows);
        terminal.wait_for("Status: Failed", LIMIT);
        let screen = terminal.wait_for("q leave", LIMIT);
        assert!(!screen.contains("r retry"), "the first task is done:\n{screen}");
        retry_second(&mut terminal);
        wait::until(LIMIT, || failures(&althing, "w1") == 2);
        assert_eq!(failures(&althing, "w1.flaky"), 2);
        terminal.wait_for("Status: Failed", LIMIT);
        althing.file("ok", "");
        retry_second(&mut terminal);
        terminal.wait_for("Status: Done", LIMIT);
        let tasks = ["w1.first", "w1.flaky", "w1.last"];
        assert_eq!(tasks.map(|task| starts(&althing, task)), [1, 3, 1]);
        terminal.wait_for("q leave", LIMIT);
        terminal.keys("q");
        assert_eq!(terminal.wait(LIMIT), 0, "{}", terminal.screen());
        assert!(terminal.screen().contains("the last: it works"), "{}", terminal.screen());
        let listed = run(&althing.new_command(), &["sessions"]).expect_code(0);
        assert!(listed.stdout.contains("done"), "{}", listed.stdout);
        let again = run(&althing.new_command(), &["resume", "--json"]).expect_code(0);
        assert!(again.stdout.contains("the last: it works"), "{}", again.stdout);
    }
}

#[test]
fn a_failed_task_is_retried_while_the_other_tasks_of_its_stage_run() {
    let althing = althing();
    let file =
        json!({"name": "flow", "stages": [{"name": "one", "tasks": [flaky("flaky"), waiting("wait")]}]});
    althing.file("flow.yaml", format!("{file:#}"));
    let mut terminal = watch(&althing, 100, 30);
    terminal.wait_for("failed ✗", LIMIT);
    althing.file("ok", "");
    retry(&mut terminal);
    terminal.wait_gone("failed ✗", LIMIT);
    terminal.wait_for("done ✓", LIMIT);
    althing.file("go", "");
    terminal.wait_for("Status: Done", LIMIT);
    terminal.wait_for("q leave", LIMIT);
    terminal.keys("q");
    assert_eq!(terminal.wait(LIMIT), 0, "{}", terminal.screen());
}

#[test]
fn a_failed_run_of_a_workflow_is_retried_as_a_new_run() {
    let fails = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let still = std::sync::Arc::clone(&fails);
    let script = Script::from_fn(move |request: &RecordedRequest| {
        if still.load(std::sync::atomic::Ordering::SeqCst) {
            Action::Fault(Fault::Status(401), FaultMoment::BeforeHeaders)
        } else {
            Parliament::default().reply(request).into()
        }
    });
    let fixture = Fixture::new(2, script);
    let file = json!({"name": "flow", "stages": [
        {"name": "one", "tasks": [{"id": "team", "run": {"task": "Decide", "refinement": false}}]},
    ]});
    fixture.althing.file("flow.yaml", format!("{file:#}"));
    let command =
        fixture.althing.new_command().args(["workflow", "run", "flow.yaml", "--config", "team.yaml"]);
    let mut terminal = command.terminal(100, 30);
    terminal.wait_for("Status: Failed", LIMIT);
    fails.store(false, std::sync::atomic::Ordering::SeqCst);
    terminal.wait_for("r retry", LIMIT);
    retry(&mut terminal);
    terminal.wait_for("Status: Done", LIMIT);
    let screen = terminal.wait_for("q leave", LIMIT);
    assert!(screen.contains("team (again)"), "{screen}");
    terminal.keys("q");
    assert_eq!(terminal.wait(LIMIT), 0, "{}", terminal.screen());
    let events = fixture.althing.events();
    let created = of_type(&events, "task_created").into_iter();
    let runs: Vec<&Value> =
        created.filter(|event| event["data"]["spec"]["kind"] == "run").map(|event| &event["task"]).collect();
    assert_eq!(runs, ["w1.team", "w1.team.retry2"]);
}

#[test]
fn an_op_that_retries_a_task_which_has_not_failed_is_rejected() {
    let althing = althing();
    let file =
        json!({"name": "flow", "stages": [{"name": "one", "tasks": [waiting("wait"), flaky("flaky")]}]});
    althing.file("flow.yaml", format!("{file:#}"));
    let args = ["workflow", "run", "flow.yaml", "--offline", "--unconfined", "--automation", "--take-ops"];
    let running = althing.new_command().args(args).open_stdin().spawn();
    wait_for_event(&althing.state_dir(), LIMIT, |event| {
        event["type"] == "status_changed"
            && event["task"] == "w1.flaky"
            && event["data"]["status"] == "FAILED"
    });
    for task in ["w1.wait", "w1.nothing", "w1"] {
        running.write_stdin(format!("{}\n", json!({"op": "retry", "task": task})));
    }
    wait_for_event(&althing.state_dir(), LIMIT, |event| {
        event["type"] == "notice"
            && event["data"]["text"].as_str().unwrap_or_default().contains("w1 is not a task")
    });
    althing.file("ok", "");
    running.write_stdin(format!("{}\n", json!({"op": "retry", "task": "w1.flaky"})));
    wait_for_event(&althing.state_dir(), LIMIT, |event| {
        event["type"] == "status_changed" && event["task"] == "w1.flaky" && event["data"]["status"] == "DONE"
    });
    althing.file("go", "");
    running.wait(LIMIT).expect_code(0);
}
