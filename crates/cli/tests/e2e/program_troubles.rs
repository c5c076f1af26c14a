//! A real CLI agent whose model service fails reports that. Althing passes the report on at once, and also as the error
//! of the task.

use althing_testkit::{Action, Althing, FakeModel, Fault, FaultMoment, Script};
use serde_json::{Value, json};

use super::programs::{START_TIMEOUT, files_named, headless, programs, start_workflow, with_programs};
use super::support::of_type;

const AGENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

fn failing(status: u16) -> FakeModel {
    let fault = move |_: &_| Action::Fault(Fault::Status(status), FaultMoment::BeforeHeaders);
    FakeModel::start_on_thread(Script::from_fn(fault))
}

fn ends(althing: &Althing) -> Vec<Value> {
    of_type(&althing.events(), "attempt_ended").into_iter().cloned().collect()
}

fn warnings(events: &[Value], agent: &str) -> Vec<String> {
    let task = format!("w1.{agent}");
    let notices = of_type(events, "notice").into_iter().filter(|event| event["task"] == task.as_str());
    let texts = notices.filter_map(|event| event["data"]["text"].as_str());
    texts.filter_map(|text| text.strip_prefix(&format!("{agent}: "))).map(str::to_owned).collect()
}

#[test]
fn what_a_cli_agent_says_about_its_failing_service_is_told_at_once_and_when_its_time_is_up() {
    let Some(dir) = programs() else { return };
    let server = failing(500);
    let althing = with_programs(&dir, &server);
    let tasks = AGENTS.map(|agent| {
        let mut task = headless(agent, agent, "Do it");
        task["timeout_seconds"] = json!(30);
        task
    });
    let running = start_workflow(&althing, &tasks);
    for agent in AGENTS {
        let of_task = format!(r#""task":"w1.{agent}""#);
        let told = |line: &str| line.contains(r#""type":"notice""#) && line.contains(&of_task);
        running.wait_for_stdout(told, START_TIMEOUT);
    }
    let output = running.wait(START_TIMEOUT);
    let events = althing.events();
    let report = files_named(&althing.state_dir(), "result.json").remove(0);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    for agent in AGENTS {
        let said = warnings(&events, agent);
        assert!(!said.is_empty() && said.len() < 4, "{agent} repeats itself: {said:?}");
        let tasks = report["stages"][0]["tasks"].as_array().unwrap();
        let task = tasks.iter().find(|task| task["id"].as_str().unwrap().ends_with(agent)).unwrap();
        let error = task["error"].as_str().unwrap_or_else(|| panic!("{task}\n{}", output.stderr));
        assert!(error.contains(said.last().unwrap()), "{agent}: {error}\n{said:?}");
    }
    assert_eq!(ends(&althing).len(), 4);
}

#[test]
fn a_refused_key_ends_the_task_of_a_cli_agent_at_once() {
    let Some(dir) = programs() else { return };
    for status in [401, 403] {
        let server = failing(status);
        let althing = with_programs(&dir, &server);
        let running = start_workflow(&althing, &AGENTS.map(|agent| headless(agent, agent, "Do it")));
        running.wait(START_TIMEOUT);
        for end in ends(&althing) {
            let error = end["data"]["error"].as_str();
            let error = error.unwrap_or_else(|| panic!("{status}: no error of its own: {end}"));
            let code = status.to_string();
            let words = [code.as_str(), "API key", "orbidden", "ermission", "uthenticat"];
            assert!(words.iter().any(|word| error.contains(word)), "{status}: {end}");
        }
    }
}
