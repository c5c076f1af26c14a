//! Subagents: their runs are in the same log, and their answers and files go back to the agent that launched them.

use althing_testkit::process::Signal;
use althing_testkit::{Action, Gate, Parliament, RecordedRequest, Reply, Script, wait};
use serde_json::json;

use super::support::{Fixture, LIMIT, of_type, texts};

const PART: &str = "Count the words.";

fn is_subagent(request: &RecordedRequest) -> bool {
    request.last_user_text().contains(PART)
        || texts(request).contains(&format!(">\n{PART}\n<END OF ORIGINAL MESSAGE "))
}

fn has_tool_result(request: &RecordedRequest) -> bool {
    request.messages().iter().any(|message| message["role"] == "tool")
}

fn launch_subagent(request: &RecordedRequest) -> Action {
    if is_subagent(request) {
        return if has_tool_result(request) || !request.tool_names().contains(&"write_file") {
            Reply::text("There are 42.").into()
        } else {
            Reply::call("write_file", &json!({"path": "count.txt", "content": "42\n"})).into()
        };
    }
    if request.tool_names().contains(&"spawn_subagents") && !has_tool_result(request) && !votes(request) {
        return Reply::call("spawn_subagents", &json!({"tasks": [{"task": PART}]})).into();
    }
    Parliament::default().reply(request).into()
}

fn votes(request: &RecordedRequest) -> bool {
    request.tool_names().contains(&"vote")
}

fn fixture(agents: usize, has_tools: bool, script: impl Into<Script>) -> Fixture {
    Fixture::with(agents, script, |team| {
        let team = team.rule("coordination", json!({"enable_subagents": true}));
        if has_tools { team.every_backend("cwd", "work") } else { team }
    })
}

#[test]
fn a_subagents_answer_goes_to_its_parent_and_its_cost_to_the_run() {
    let fixture = fixture(2, false, Script::from_fn(launch_subagent));
    let result = fixture.result(&["Sum it up"]);
    assert_eq!(result["final_answer"], "Final answer of model-a");
    // Each agent: the call, its subagent, the answer, the vote; then the presentation.
    assert_eq!(
        (fixture.server.request_count(), &result["usage"]["calls"]),
        (9, &json!(9)),
        "{:?}",
        fixture.calls()
    );
    let requests = fixture.server.requests();
    let told = requests.iter().filter(|request| texts(request).contains("There are 42."));
    assert_eq!(told.count(), 2, "only the parents get a result");
    let nested = requests.iter().filter(|request| is_subagent(request));
    assert!(nested.into_iter().all(|request| !request.tool_names().contains(&"spawn_subagents")));
    let events = fixture.althing.events();
    let created: Vec<_> = of_type(&events, "task_created")
        .into_iter()
        .filter(|event| {
            event["data"]["id"].as_str().is_some_and(|id| id.starts_with("r1.s") && !id.contains(".a"))
        })
        .map(|event| event["data"]["parent"].clone())
        .collect();
    assert_eq!(created.len(), 2);
    assert!(created.contains(&json!("r1.a1")) && created.contains(&json!("r1.a2")), "{created:?}");
    assert_eq!(of_type(&events, "session_closed").len(), 1);
}

#[test]
fn a_subagents_files_are_copied_to_its_parents_workspace() {
    let fixture = fixture(1, true, Script::from_fn(launch_subagent));
    let result = fixture.result(&["Sum it up"]);
    let workspace = std::path::PathBuf::from(result["workspace_path"].as_str().expect("a workspace"));
    assert_eq!(std::fs::read_to_string(workspace.join("subagents/s1/count.txt")).unwrap(), "42\n");
    assert!(!workspace.join("count.txt").exists(), "its own workspace is another");
}

#[test]
fn a_run_stopped_during_a_subagent_resumes_the_subagent() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request| {
        let action = launch_subagent(request);
        if is_subagent(request) { Action::gated(action, &held) } else { action }
    });
    let fixture = fixture(1, false, script);
    let running = fixture.spawn(&["Sum it up"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    gate.release_all();
    let output = fixture.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    let asked = fixture.server.requests().iter().filter(|request| is_subagent(request)).count();
    assert_eq!(asked, 2, "the call that was cut off, once more; nothing else of it");
}

// spec: design/launch-run/shared-run-machinery
#[test]
fn a_subagent_in_the_background_works_while_the_agent_that_started_it_continues() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        if is_subagent(request) {
            return Action::gated(launch_subagent(request), &held);
        }
        let results = request.messages().iter().filter(|message| message["role"] == "tool").count();
        if votes(request) || !request.tool_names().contains(&"spawn_subagents") {
            return Parliament::default().reply(request).into();
        }
        match results {
            0 => {
                Reply::call("spawn_subagents", &json!({"tasks": [{"task": PART}], "background": true})).into()
            }
            1 => Reply::call("wait_for_subagents", &json!({})).into(),
            _ => Parliament::default().reply(request).into(),
        }
    });
    let fixture = fixture(1, true, script);
    let running = fixture.spawn(&["Sum it up"]);
    gate.wait_waiting_blocking(1, LIMIT);
    let of_parent =
        || fixture.server.requests().into_iter().filter(|request| !is_subagent(request)).collect::<Vec<_>>();
    // The subagent has no answer yet, and its parent is called again.
    wait::until(LIMIT, || of_parent().len() == 2);
    assert!(texts(&of_parent()[1]).contains("Started: s1"), "{}", texts(&of_parent()[1]));
    gate.release_all();
    running.wait(LIMIT).expect_code(0);
    let told = of_parent();
    assert!(texts(&told[2]).contains("There are 42."), "{}", texts(&told[2]));
    let own = fixture.session().join("tasks/r1.s1/workspaces/a/count.txt");
    assert_eq!(std::fs::read_to_string(own).unwrap(), "42\n", "it has a workspace of its own");
}
