//! `althing sessions prompt`: what agents were sent, rebuilt from the log, compared with what a server received.

use std::collections::BTreeSet;
use std::path::Path;

use althing_testkit::process::Signal;
use althing_testkit::{Action, Fault, FaultMoment, Gate, RecordedRequest, Script};
use serde_json::{Value, json};

use super::reports::{TASK, json_of, told};
use super::sessions_commands::crc32c;
use super::support::{Fixture, LIMIT, althing, items, run};
use super::tools::call_once;

/// What the server received for a model: the system prompt, and the texts of the other messages.
fn received(fixture: &Fixture, model: &str) -> BTreeSet<(String, String)> {
    let requests = fixture.server.requests();
    let of_model = requests.iter().filter(|request| request.model() == model);
    let others = |request: &RecordedRequest| {
        let messages = request.messages();
        let texts = messages.iter().filter(|message| message["role"] != "system");
        texts.map(|message| message["content"].as_str().unwrap_or_default()).collect::<Vec<_>>().join("\n")
    };
    of_model.map(|request| (request.system_text(), others(request))).collect()
}

fn rebuilt(calls: &Value) -> BTreeSet<(String, String)> {
    let text = |message: &Value| {
        let text = message.get("text").or(message.get("content"));
        text.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let calls = calls["calls"].as_array().unwrap().iter();
    calls
        .map(|call| {
            let messages = call["messages"].as_array().unwrap().iter().map(text).collect::<Vec<_>>();
            (call["system"].as_str().unwrap().to_owned(), messages.join("\n"))
        })
        .collect()
}

#[test]
fn what_every_agent_was_sent_is_rebuilt_from_the_log_exactly() {
    // Agents with tools and files: the environment adds to their requests, and they make several calls each.
    let script = Script::from_fn(|request: &RecordedRequest| {
        call_once(request, "list_directory", &json!({"path": "."}))
    });
    let fixture = Fixture::new(3, script);
    std::fs::create_dir_all(fixture.althing.work_dir().join("project")).unwrap();
    fixture.run(&["--context-path", "project", TASK]).expect_code(0);
    let id = fixture.session_id();
    for (agent, model) in [("a", "model-a"), ("b", "model-b"), ("agent3", "model-c")] {
        let calls = json_of(&told(&fixture, &["prompt", &id, agent, "--json"]));
        for call in calls["calls"].as_array().unwrap() {
            assert_eq!(call["exact"], true, "{agent}: {call}");
            assert!(call["first_token_ms"].is_u64() && call["duration_ms"].is_u64(), "{call}");
        }
        assert_eq!(rebuilt(&calls), received(&fixture, model), "{agent}");
    }
    let calls = json_of(&told(&fixture, &["prompt", &id, "a", "--json"]));
    let tools: BTreeSet<&str> = calls["calls"][0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    let first = fixture.server.requests().into_iter().find(|request| request.model() == "model-a").unwrap();
    assert_eq!(tools, first.tool_names().into_iter().collect::<BTreeSet<_>>());
    let shown = told(&fixture, &["prompt", &format!("{id}.r1"), "a", "1"]);
    for part in [TASK, "exactly what was sent", "list_directory", "SHA-256", "reply after"] {
        assert!(shown.contains(part), "`{part}` is missing:\n{shown}");
    }
}

#[test]
fn what_was_sent_before_and_after_a_crash_is_rebuilt_exactly() {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::new(2, script);
    let running = fixture.spawn(&[TASK]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    fixture.resume().expect_code(0);
    for (agent, model) in [("a", "model-a"), ("b", "model-b")] {
        let calls = json_of(&told(&fixture, &["prompt", "latest", agent, "--json"]));
        let exact =
            |call: &Value| call["exact"] == true || (call["reply"].is_null() && call["exact"].is_null());
        assert!(calls["calls"].as_array().unwrap().iter().all(exact), "{agent}: {calls}");
        assert_eq!(rebuilt(&calls), received(&fixture, model), "{agent}");
    }
}

#[test]
fn a_failed_call_is_shown_with_what_it_was_sent() {
    let script =
        Script::parliament().on("model-b").fault_always(Fault::Status(401), FaultMoment::BeforeHeaders);
    let fixture = Fixture::new(2, script);
    fixture.run(&[TASK]).expect_code(0);
    let calls = json_of(&told(&fixture, &["prompt", "latest", "b", "--json"]));
    let call = &calls["calls"][0];
    assert!(call["error"].as_str().unwrap().contains("401"), "{call}");
    assert_eq!(call["exact"], true, "{call}");
    let shown = told(&fixture, &["show", "latest"]);
    assert!(shown.contains("b dropped out"), "{shown}");
}

fn forge(log: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(log).unwrap();
    let mut done = false;
    let forged = text.lines().map(|line| {
        if done || !line.contains(from) {
            return format!("{line}\n");
        }
        done = true;
        let line = line.replacen(from, to, 1);
        let body = &line[..line.rfind(",\"crc\":\"").unwrap()];
        format!("{body},\"crc\":\"{:08x}\"}}\n", crc32c(body.as_bytes()))
    });
    let forged: String = forged.collect();
    assert_ne!(forged, text, "{from} is not in the log");
    std::fs::write(log, forged).unwrap();
}

#[test]
fn a_rebuilt_prompt_that_differs_from_what_was_sent_says_so() {
    let fixture = Fixture::new(1, Script::parliament());
    fixture.run(&[TASK]).expect_code(0);
    let (log, id) = (fixture.log(), fixture.session_id());
    forge(&log, "\"digest\":\"", "\"digest\":\"0");
    let shown = told(&fixture, &["prompt", &id, "a", "1"]);
    assert!(shown.contains("its digest differs"), "{shown}");
    assert_eq!(json_of(&told(&fixture, &["prompt", &id, "a", "1", "--json"]))["calls"][0]["exact"], false);
}

#[test]
fn agents_runs_and_steps_that_do_not_exist_are_named_with_what_there_is() {
    let fixture = Fixture::new(2, Script::parliament());
    fixture.run(&[TASK]).expect_code(0);
    let id = fixture.session_id();
    let missing_run = format!("{id}.r7");
    for (args, expected) in [
        (["prompt", &id, "nobody", "1"], "its agents: a, b"),
        (["prompt", &missing_run, "a", "1"], "its runs: "),
        (["prompt", &id, "a", "99"], "STEP is a number from 1 to "),
        (["prompt", "20200101-000000-0000", "a", "1"], "20200101-000000-0000"),
    ] {
        let output = run(&fixture.althing, &[&["sessions"], &args[..]].concat()).expect_code(1);
        assert!(output.stderr.contains(expected), "{args:?}: {}", output.stderr);
    }
    let output = run(&fixture.althing, &["sessions", "show", &missing_run]).expect_code(1);
    assert!(output.stderr.contains("has no run r7"), "{}", output.stderr);
}

#[test]
fn what_the_environment_of_an_agent_adds_is_recorded_once_until_it_changes() {
    let fixture = Fixture::new(1, Script::parliament());
    std::fs::create_dir_all(fixture.althing.work_dir().join("project")).unwrap();
    fixture.run(&["--context-path", "project", TASK]).expect_code(0);
    let log = std::fs::read_to_string(fixture.log()).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let replies = items(&events, "reply");
    assert!(replies.len() >= 3, "an answer, a vote and a presentation: {}", replies.len());
    assert!(
        replies.iter().all(|reply| reply["call"]["digest"].as_str().is_some_and(|digest| digest.len() == 64))
    );
    assert_eq!(items(&events, "briefed").len(), 1);
}

#[test]
fn what_the_chat_agent_was_sent_is_rebuilt_too() {
    let althing = althing();
    let talk = althing.new_command().args(["chat", "--offline", "--approve", "always"]);
    let talk = talk.stdin("Good morning\nCompare two parsers\n");
    talk.spawn().wait(LIMIT).expect_code(0);
    let whole = run(&althing, &["sessions", "show", "latest", "--json"]).expect_code(0).stdout;
    let agent = json_of(&whole)["report"]["chat_agent"].as_str().unwrap().to_owned();
    let prompt = run(&althing, &["sessions", "prompt", "latest.c1", &agent, "1"]).expect_code(0).stdout;
    assert!(prompt.contains("Good morning") && prompt.contains("exactly what was sent"), "{prompt}");
    let calls = run(&althing, &["sessions", "prompt", "latest.c1", &agent, "--json"]).expect_code(0).stdout;
    let calls = json_of(&calls)["calls"].clone();
    assert!(calls.as_array().unwrap().iter().all(|call| call["exact"] == true), "{calls}");
}

#[test]
fn every_request_of_every_mode_is_rebuilt_exactly() {
    for options in [
        &["--quick"][..],
        &["--single-agent"],
        &["--single-agent", "--quick"],
        &["--plan-and-execute"],
        &["--context-path", "src:rw"],
    ] {
        let althing = althing();
        althing.file("src/a.txt", "a file\n");
        let args = [&["--offline", "--automation", "Compare two parsers"], options].concat();
        run(&althing, &args).expect_code(0);
        let whole = json_of(&run(&althing, &["sessions", "show", "latest", "--json"]).expect_code(0).stdout);
        let report = &whole["report"];
        let mut rebuilt = 0;
        for one in report["runs"].as_array().unwrap() {
            for agent in one["agents"].as_array().unwrap().iter().filter(|agent| agent["usage"]["calls"] != 0)
            {
                let (id, name) = (one["run_id"].as_str().unwrap(), agent["id"].as_str().unwrap());
                let told = run(&althing, &["sessions", "prompt", id, name, "--json"]).expect_code(0).stdout;
                let calls = json_of(&told)["calls"].as_array().unwrap().clone();
                let exact = calls.iter().filter(|call| call["exact"] == true).count();
                assert_eq!(exact, calls.len(), "{options:?}: {told}");
                rebuilt += exact;
            }
        }
        assert_eq!(report["usage"]["calls"], rebuilt, "{options:?}");
    }
}

#[test]
fn the_prompt_of_a_workflows_program_is_shown_under_the_name_of_its_task() {
    let althing = althing();
    let task = "{id: hello, agent: command, command: [echo, hello from a task], executionMode: headless, prompt: \"\"}";
    althing.file(
        "flow.yaml",
        format!("name: one\ngoal: One thing\nstages:\n  - name: only\n    tasks:\n      - {task}\n"),
    );
    run(&althing, &["workflow", "run", "flow.yaml", "--automation"]).expect_code(0);
    let shown = run(&althing, &["sessions", "prompt", "latest", "hello"]).expect_code(0).stdout;
    assert!(shown.contains("echo hello from a task") && shown.contains("── output ──"), "{shown}");
    let told = json_of(
        &run(&althing, &["sessions", "prompt", "latest.w1", "hello", "--json"]).expect_code(0).stdout,
    );
    assert_eq!(told["command"], json!(["echo", "hello from a task"]));
}
