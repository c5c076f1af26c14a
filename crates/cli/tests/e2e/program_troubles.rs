//! A real CLI agent whose model service fails reports that. Althing passes the report on at once, and also as the error
//! of the task.

use althing_testkit::process::Signal;
use althing_testkit::{Action, Althing, FakeModel, Fault, FaultMoment, RunningProcess, Script};
use serde_json::{Value, json};

use super::programs::{
    START_TIMEOUT, files_named, headless, passed, programs, start_workflow, wait_for_question, with_programs,
};
use super::support::{LIMIT, of_type};

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
    AGENTS.into_iter().for_each(passed);
}

/// What the CLI agents say about HTTP 401 and 403.
fn names_a_refusal(text: &str, status: u16) -> bool {
    let code = status.to_string();
    [code.as_str(), "API key", "orbidden", "ermission", "uthenticat"].iter().any(|word| text.contains(word))
}

#[test]
fn a_refused_key_ends_the_task_of_a_cli_agent_at_once() {
    let Some(dir) = programs() else { return };
    for (status, approvals) in [(401, false), (403, false), (401, true)] {
        let server = failing(status);
        let althing = with_programs(&dir, &server);
        let running = start_workflow(
            &althing,
            &AGENTS.map(|agent| {
                let mut task = headless(agent, agent, "Do it");
                // Far more time than this test waits.
                task["timeout_seconds"] = json!(3600);
                task["approvals"] = approvals.into();
                task
            }),
        );
        let output = running.wait(START_TIMEOUT);
        let ends = ends(&althing);
        for agent in AGENTS {
            let end = ends.iter().find(|end| end["task"] == format!("w1.{agent}"));
            let end = end.unwrap_or_else(|| panic!("{agent}, {status}: no end: {}", output.stderr));
            let error = end["data"]["error"].as_str().unwrap_or_default();
            assert!(names_a_refusal(error, status), "{agent}, {status}, approvals: {approvals}: {end}");
        }
        assert_eq!(ends.len(), 4, "{status}, {approvals}");
    }
    AGENTS.into_iter().for_each(passed);
}

/// Waits until a warning names the failure, while the program runs. Returns what the CLI agent said.
#[track_caller]
fn wait_for_warning(running: &RunningProcess, agent: &str, status: u16) -> String {
    let said = |line: &str| {
        let event: Value = serde_json::from_str(line).ok()?;
        let is_warning = event["type"] == "notice" && event["task"] == format!("w1.{agent}");
        let text = event["data"]["text"].as_str().filter(|_| is_warning)?;
        Some(text.strip_prefix(&format!("{agent}: "))?.to_owned())
    };
    let names = |said: String| match status {
        500 => said.contains("500") || said.contains("temporary errors"),
        _ => names_a_refusal(&said, status),
    };
    let line = running.wait_for_stdout(|line| said(line).is_some_and(names), START_TIMEOUT);
    said(&line).unwrap()
}

#[test]
fn what_a_cli_agent_with_approvals_says_about_its_failing_service_is_told_at_once() {
    let Some(dir) = programs() else { return };
    // Gemini CLI says nothing over ACP until it gives up.
    let agents = ["claude", "codex", "opencode"];
    let server = failing(500);
    let althing = with_programs(&dir, &server);
    let running = start_workflow(
        &althing,
        &agents.map(|agent| {
            let mut task = headless(agent, agent, "Do it");
            task["timeout_seconds"] = json!(3600);
            task["approvals"] = true.into();
            task
        }),
    );
    for agent in agents {
        wait_for_warning(&running, agent, 500);
        passed(agent);
    }
    running.signal(Signal::TERM);
    running.wait(LIMIT);
}

#[test]
fn what_a_cli_agent_in_a_terminal_says_about_its_failing_service_is_told_at_once() {
    let Some(dir) = programs() else { return };
    // Gemini CLI shows nothing about HTTP 500 until it gives up; opencode shows errors like messages.
    for (status, agents) in [(401, &["claude", "codex", "gemini"][..]), (500, &["claude", "codex"])] {
        let server = failing(status);
        let althing = with_programs(&dir, &server);
        let tasks: Vec<Value> = agents
            .iter()
            .map(|agent| json!({"id": agent, "agent": agent, "executionMode": "interactive", "prompt": "Do it"}))
            .collect();
        let running = start_workflow(&althing, &tasks);
        for agent in agents {
            let said = wait_for_warning(&running, agent, status);
            // Claude Code tries again for minutes. The others wait for their user.
            if *agent != "claude" {
                let turn = wait_for_question(&running, &format!("w1.{agent}"), "end");
                assert!(turn["text"].as_str().unwrap().contains(&said), "{agent}: {turn}");
            }
        }
        running.signal(Signal::TERM);
        running.wait(LIMIT);
    }
    ["claude", "codex", "gemini"].into_iter().for_each(passed);
}

#[test]
fn what_a_member_says_about_its_failing_service_is_told_and_a_refused_key_ends_its_run() {
    let Some(dir) = programs() else { return };
    for kind in ["claude_code", "codex", "gemini_cli", "opencode"] {
        let start = |status: u16| {
            let server = failing(status);
            let althing = with_programs(&dir, &server);
            althing
                .file("team.yaml", json!({"agents": [{"id": "a", "backend": {"type": kind}}]}).to_string());
            let args = ["--config", "team.yaml", "--quick", "--json", "Which is best?"];
            (althing.new_command().args(args).spawn(), server, althing)
        };
        let (running, _server, _althing) = start(401);
        let output = running.wait(START_TIMEOUT).expect_code(2);
        let result: Value = serde_json::from_str(&output.stdout).unwrap();
        let error = result["coordination_summary"]["agents"][0]["error"].as_str().unwrap();
        assert!(names_a_refusal(error, 401) && error.starts_with(kind), "{result}");
        let (running, _server, _althing) = start(500);
        let warning = format!("{kind}: ");
        running.wait_for_stderr(|line| line.starts_with("warning") && line.contains(&warning), START_TIMEOUT);
        running.signal(Signal::TERM);
        running.wait(LIMIT);
        passed(kind);
    }
}
