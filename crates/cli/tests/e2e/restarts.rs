//! A run whose final answer is judged insufficient starts over, as often as the config allows.

use althing_testkit::process::Signal;
use althing_testkit::{Action, Fault, FaultMoment, Gate, RecordedRequest, Reply, Script};
use serde_json::json;

use super::support::{Fixture, LIMIT, of_type, texts};

const TASK: &str = "Why is the sky blue?";

fn judges(request: &RecordedRequest) -> bool {
    request.tool_names().contains(&"restart_orchestration")
}

fn always_restart() -> Action {
    Action::with(|request| {
        if judges(request) {
            let arguments = json!({"reason": "It names no law.", "instructions": "Name the law."});
            Action::from(Reply::call("restart_orchestration", &arguments))
        } else {
            Action::Usual
        }
    })
}

fn fixture(script: impl Into<Script>, restarts: u32) -> Fixture {
    Fixture::with(2, script, |team| {
        team.rule("coordination", json!({ "max_orchestration_restarts": restarts }))
    })
}

#[test]
fn an_insufficient_answer_restarts_the_run_up_to_the_limit() {
    let script =
        Script::parliament().on("model-a").always(always_restart()).on("model-b").always(Action::Usual);
    let fixture = fixture(script, 2);
    let result = fixture.result(&[TASK]);
    assert_eq!(result["coordination_summary"]["restarts"], 2);
    assert_eq!(result["status"], "completed");
    // Three tries of five calls each; the first two are followed by a judgment.
    assert_eq!((fixture.server.request_count(), &result["usage"]["calls"]), (17, &json!(17)));
    let requests = fixture.server.requests();
    let told = requests.iter().filter(|request| texts(request).contains("Name the law."));
    assert_eq!(told.count(), 11, "everyone in the second and third try, and who judged the second");
    assert_eq!(requests.iter().filter(|request| judges(request)).count(), 2);
    let events = fixture.althing.events();
    let restarted: Vec<_> = of_type(&events, "decided")
        .into_iter()
        .filter(|event| event["data"]["verdict"] == "restarted")
        .map(|event| event["data"]["nth"].clone())
        .collect();
    assert_eq!(restarted, [1, 2]);
}

#[test]
fn a_sufficient_answer_takes_one_more_call_and_a_failing_judge_does_not_lose_it() {
    for judged in [
        Action::from(Reply::call("submit", &json!({"confirmed": true}))),
        Action::Fault(Fault::Status(400), FaultMoment::BeforeHeaders),
    ] {
        let script = Script::parliament().on("model-a").nth(3, judged);
        let fixture = fixture(script, 1);
        let output = fixture.run(&[TASK]).expect_code(0);
        assert_eq!(output.stdout, "Final answer of model-a\n");
        assert_eq!(fixture.server.request_count(), 6, "{:?}", fixture.calls());
    }
}

#[test]
fn a_run_stopped_after_a_restart_resumes_in_its_second_attempt() {
    let gate = Gate::before_headers();
    let script = Script::parliament()
        .on("model-a")
        .always(always_restart())
        .on("model-b")
        .nth(2, Action::gated(Action::Usual, &gate));
    let fixture = fixture(script, 1);
    let running = fixture.spawn(&[TASK]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    let before = fixture.server.request_count();
    gate.release_all();
    let output = fixture.resume().expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    assert!(fixture.server.request_count() - before <= 5, "only what the second try still lacked");
    assert!(
        fixture.server.requests().iter().skip(before).all(|request| texts(request).contains("Name the law."))
    );
}
