//! The turns of the real CLI agents in terminals: a finished turn is shown and reported like waiting for the user, the
//! program does not end by itself, and a person ends it with one op or one key.

use std::time::Duration;

use althing_testkit::process::Signal;
use althing_testkit::{Althing, FakeModel, RecordedRequest, Reply, RunningProcess, Script, wait};
use serde_json::{Value, json};

use super::programs::{
    START_TIMEOUT, command_reply, internal_reply, passed, programs, send_op, start_workflow,
    wait_for_question, with_programs,
};
use super::support::{LIMIT, of_type};

const CLIS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

fn finisher() -> Script {
    Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("The work is finished."))
    })
}

fn interactive(cli: &str) -> Value {
    json!({"id": cli, "agent": cli, "executionMode": "interactive", "prompt": "Do the work"})
}

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
    CLIS.into_iter().for_each(passed);
}

#[test]
fn on_the_screen_a_finished_turn_is_your_turn_and_one_key_ends_the_program() {
    let Some(dir) = programs() else { return };
    for cli in CLIS {
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
        terminal.wait_for("End this program?", LIMIT);
        terminal.keys("y");
        terminal.wait_for("done ✓", START_TIMEOUT);
        terminal.keys("q");
        assert_eq!(terminal.wait(LIMIT), 0, "{cli}");
        passed(cli);
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
    CLIS.into_iter().for_each(passed);
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
        passed(cli);
    }
}

/// Leaves a program with Ctrl+C, typed until the program ends, and checks that the task has failed because its prompt
/// was not typed.
#[track_caller]
fn check_untyped(althing: &Althing, running: &RunningProcess, cli: &str) {
    let has_ended = || !of_type(&althing.events(), "attempt_ended").is_empty();
    wait::until(START_TIMEOUT, || {
        send_op(running, &json!({"op": "input", "task": format!("w1.{cli}"), "bytes": [3]}));
        // opencode exits after the first key; a second one would end it by a signal.
        let pause = if cli == "opencode" { LIMIT } else { Duration::from_millis(700) };
        wait::holds_within(pause, has_ended)
    });
    running.wait(LIMIT).expect_code(2);
    let events = althing.events();
    let ended = of_type(&events, "attempt_ended");
    assert_eq!(ended[0]["data"]["exit_code"], 0, "{cli}: {ended:?}");
    assert_eq!(ended[0]["data"]["error"], "it ended before its prompt was typed", "{cli}: {ended:?}");
    assert_eq!(statuses(&events, cli).last().unwrap(), "FAILED", "{cli}");
}

#[test]
fn a_cli_agent_that_is_left_in_its_first_dialog_has_failed() {
    let Some(dir) = programs() else { return };
    for cli in ["claude", "codex", "gemini"] {
        let server = FakeModel::start_on_thread(finisher());
        let althing = with_programs(&dir, &server);
        let home = althing.home_dir();
        // Each program is set up so that it first asks about its key or account. Claude Code asks if it was used before,
        // but not with this key.
        let althing = match cli {
            "claude" => {
                std::fs::write(home.join(".claude.json"), r#"{"hasCompletedOnboarding": true}"#).unwrap();
                althing
            }
            "codex" => {
                std::fs::remove_file(home.join(".codex/config.toml")).unwrap();
                althing.env("OPENAI_API_KEY", "")
            }
            _ => {
                std::fs::remove_file(home.join(".gemini/settings.json")).unwrap();
                althing.env("GEMINI_API_KEY", "")
            }
        };
        let running = start_workflow(&althing, &[interactive(cli)]);
        let id = format!(r#""id":"w1.{cli}.i1""#);
        running
            .wait_for_stdout(|line| line.contains(&id) && line.contains("interaction_opened"), START_TIMEOUT);
        check_untyped(&althing, &running, cli);
        assert_eq!(server.request_count(), 0, "{cli}: nothing is asked");
        passed(cli);
    }
}

#[test]
fn a_cli_agent_that_exits_before_its_prompt_was_typed_has_failed() {
    let Some(dir) = programs() else { return };
    // Nothing says that these programs accept a prompt, as after a release that changes their screens. (Claude Code and
    // Codex say it themselves.)
    for (cli, shown) in [("gemini", "Type your message"), ("opencode", "Ask anything")] {
        let server = FakeModel::start_on_thread(finisher());
        let althing = with_programs(&dir, &server);
        let unknown = json!({"ready": [{"regex": "never on the screen"}], "ready_limit_seconds": 3600});
        let patterns = althing.home_dir().join(".config/althing/patterns.json");
        std::fs::create_dir_all(patterns.parent().unwrap()).unwrap();
        std::fs::write(patterns, json!({ cli: unknown }).to_string()).unwrap();
        let running = start_workflow(&althing, &[interactive(cli)]);
        running.wait_for_stdout(|line| line.contains(shown), START_TIMEOUT);
        check_untyped(&althing, &running, cli);
        passed(cli);
    }
}

#[test]
fn a_turn_that_ends_after_an_approval_is_told_and_the_program_is_ended_with_its_last_message() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(command_reply));
    let althing = with_programs(&dir, &server);
    let tasks = CLIS.map(|cli| {
        let cwd = althing.work_dir().join(cli);
        std::fs::create_dir(&cwd).unwrap();
        let mut task = interactive(cli);
        task["cwd"] = json!(cwd);
        task
    });
    let running = start_workflow(&althing, &tasks);
    let choose = |interaction: &Value, option: &str| {
        let decision = json!({"decision": "choose", "option": option});
        send_op(&running, &json!({"op": "answer", "interaction": interaction["id"], "decision": decision}));
    };
    for cli in CLIS {
        let ask = wait_for_question(&running, &format!("w1.{cli}"), "allow");
        assert_eq!((&ask["about"], &ask["id"]), (&json!("permission"), &json!(format!("w1.{cli}.i1"))));
        choose(&ask, "allow");
    }
    for cli in CLIS {
        let turn = wait_for_your_turn(&running, cli, 2);
        assert!(
            althing.work_dir().join(cli).join("made.txt").exists(),
            "{cli}: the turn was not over: {turn}"
        );
        choose(&turn, "end");
    }
    running.wait(START_TIMEOUT).expect_code(0);
    let events = althing.events();
    let ended = of_type(&events, "attempt_ended");
    for cli in CLIS {
        let expected = ["RUNNING", "WAITING_FOR_USER", "RUNNING", "WAITING_FOR_USER", "RUNNING", "DONE"];
        assert_eq!(statuses(&events, cli), expected, "{cli}");
        let ended = ended.iter().find(|event| event["task"] == format!("w1.{cli}")).unwrap();
        assert_eq!(ended["data"]["output"], "All of it is done.", "{cli}");
    }
    assert_eq!(of_type(&events, "interaction_opened").len(), 8, "each asks once and is told once");
    CLIS.into_iter().for_each(passed);
}
