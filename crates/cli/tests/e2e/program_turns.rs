//! The turns of the real CLI agents in terminals: a finished turn is shown and told like waiting, ends nothing by itself,
//! and a person ends the program with one op or one key.

use althing_testkit::process::Signal;
use althing_testkit::{Althing, FakeModel, RecordedRequest, Reply, RunningProcess, Script};
use serde_json::{Value, json};

use super::programs::{START_TIMEOUT, internal_reply, programs, send_op, start_workflow, with_programs};
use super::support::{LIMIT, of_type};

const CLIS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// A model that finishes every turn with these words.
fn finisher() -> Script {
    Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("The work is finished."))
    })
}

fn interactive(cli: &str) -> Value {
    json!({"id": cli, "agent": cli, "executionMode": "interactive", "prompt": "Do the work"})
}

/// Waits until a task has finished its turn, and returns the interaction, which is the task's first, second, … one.
#[track_caller]
fn wait_for_your_turn(running: &RunningProcess, task: &str, number: u32) -> Value {
    let of_task = format!(r#""id":"w1.{task}.i{number}""#);
    let is_turn = |line: &str| {
        line.contains(&of_task)
            && line.contains("interaction_opened")
            && line.contains(r#""about":"your_turn""#)
    };
    let line = running.wait_for_stdout(is_turn, START_TIMEOUT);
    let event: Value = serde_json::from_str(&line).unwrap();
    event["data"].clone()
}

fn statuses(events: &[Value], task: &str) -> Vec<String> {
    let of_task =
        of_type(events, "status_changed").into_iter().filter(|event| event["task"] == format!("w1.{task}"));
    of_task.map(|event| event["data"]["status"].as_str().unwrap().to_owned()).collect()
}

fn prompts(althing: &Althing) -> usize {
    super::support::items(&althing.events(), "prompt_sent").len()
}

#[test]
fn a_finished_turn_is_told_like_waiting_and_one_op_ends_the_program() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(finisher());
    let althing = with_programs(&dir, &server);
    let running = start_workflow(&althing, &CLIS.map(interactive));
    let turns = CLIS.map(|cli| wait_for_your_turn(&running, cli, 1));
    for (cli, turn) in CLIS.into_iter().zip(&turns) {
        assert!(turn["text"].as_str().unwrap().starts_with("Your turn"), "{turn}");
        let waits = |line: &str| {
            line.contains(&format!(r#""task":"w1.{cli}""#)) && line.contains(r#""status":"WAITING_FOR_USER""#)
        };
        running.wait_for_stdout(waits, LIMIT);
        assert_eq!(
            statuses(&althing.events(), cli),
            ["RUNNING", "WAITING_FOR_USER"],
            "nothing ends by itself"
        );
        let decision = json!({"decision": "choose", "option": "end"});
        send_op(&running, &json!({"op": "answer", "interaction": turn["id"], "decision": decision}));
    }
    running.wait(START_TIMEOUT).expect_code(0);
    let events = althing.events();
    for cli in CLIS {
        assert_eq!(statuses(&events, cli), ["RUNNING", "WAITING_FOR_USER", "RUNNING", "DONE"], "{cli}");
        let ended = of_type(&events, "attempt_ended");
        let ended = ended.iter().find(|event| event["task"] == format!("w1.{cli}")).unwrap();
        assert_eq!(ended["data"]["exit_code"], 0, "{cli} ended by itself: {ended}");
    }
    assert_eq!(of_type(&events, "interaction_opened").len(), 4, "each is told once");
}

#[test]
fn on_the_screen_a_finished_turn_is_your_turn_and_one_key_ends_the_program() {
    let Some(dir) = programs() else { return };
    for cli in ["claude", "codex"] {
        let server = FakeModel::start_on_thread(finisher());
        let althing = with_programs(&dir, &server);
        let flow =
            json!({"name": "n", "goal": "g", "stages": [{"name": "only", "tasks": [interactive(cli)]}]});
        althing.file("flow.yaml", flow.to_string());
        let mut terminal =
            althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]).terminal(120, 30);
        terminal.wait_for("your turn", START_TIMEOUT);
        terminal.wait_for("e end the program", LIMIT);
        terminal.keys("e");
        terminal.wait_for("done ✓", START_TIMEOUT);
        terminal.keys("q");
        assert_eq!(terminal.wait(LIMIT), 0, "{cli}");
    }
}

#[test]
fn after_an_interruption_a_program_that_had_finished_its_turn_is_reopened_and_told_nothing() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(finisher());
    let althing = with_programs(&dir, &server);
    let running = start_workflow(&althing, &CLIS.map(interactive));
    for cli in CLIS {
        wait_for_your_turn(&running, cli, 1);
    }
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let asked = server.requests().len();
    let resumed = althing.new_command().args(["resume", "--stream-events=all", "--take-ops"]);
    let resumed = resumed.open_stdin().spawn();
    for cli in CLIS {
        let turn = wait_for_your_turn(&resumed, cli, 2);
        let decision = json!({"decision": "choose", "option": "end"});
        send_op(&resumed, &json!({"op": "answer", "interaction": turn["id"], "decision": decision}));
    }
    resumed.wait(START_TIMEOUT).expect_code(0);
    assert_eq!(server.requests().len(), asked, "nothing is asked");
    assert_eq!(prompts(&althing), 4, "nothing is typed");
}

#[test]
fn the_output_of_a_task_in_a_terminal_is_the_last_message_of_its_agent() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(finisher());
    let althing = with_programs(&dir, &server);
    let running = start_workflow(&althing, &CLIS.map(interactive));
    for cli in CLIS {
        let turn = wait_for_your_turn(&running, cli, 1);
        let decision = json!({"decision": "choose", "option": "end"});
        send_op(&running, &json!({"op": "answer", "interaction": turn["id"], "decision": decision}));
    }
    running.wait(START_TIMEOUT).expect_code(0);
    let events = althing.events();
    let ended = of_type(&events, "attempt_ended");
    for cli in CLIS {
        let ended = ended.iter().find(|event| event["task"] == format!("w1.{cli}")).unwrap();
        assert_eq!(ended["data"]["output"], "The work is finished.", "{cli}");
    }
}

#[test]
fn a_cli_agent_that_exits_before_its_prompt_was_typed_has_failed() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(finisher());
    let althing = with_programs(&dir, &server);
    // Without an account, Codex begins with a dialog about accounts.
    std::fs::remove_file(althing.home_dir().join(".codex/config.toml")).unwrap();
    let althing = althing.env("OPENAI_API_KEY", "");
    let running = start_workflow(&althing, &[interactive("codex")]);
    let asks = |line: &str| line.contains(r#""id":"w1.codex.i1""#) && line.contains("interaction_opened");
    running.wait_for_stdout(asks, START_TIMEOUT);
    send_op(&running, &json!({"op": "input", "task": "w1.codex", "bytes": [3]}));
    running.wait(START_TIMEOUT).expect_code(2);
    let events = althing.events();
    let ended = of_type(&events, "attempt_ended");
    assert_eq!(ended[0]["data"]["exit_code"], 0, "{ended:?}");
    assert_eq!(ended[0]["data"]["error"], "it ended before its prompt was typed", "{ended:?}");
    assert_eq!(statuses(&events, "codex").last().unwrap(), "FAILED");
}
