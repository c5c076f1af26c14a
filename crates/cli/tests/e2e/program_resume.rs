//! The real CLI agents after an interruption: each continues its own conversation, is not asked again for what it did,
//! and is asked nothing if its turn was finished.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use althing_testkit::process::Signal;
use althing_testkit::{Action, Althing, FakeModel, Gate, RecordedRequest, Reply, Script, wait};
use serde_json::{Value, json};

use super::programs::{
    START_TIMEOUT, cli_agent_of, command_reply, files_named, headless, internal_reply, passed, programs,
    send_op, shell_call, start_workflow, wait_for_question, with_programs,
};
use super::support::{LIMIT, items, of_type};

const CLIS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];
/// What each program prints last in a turn over its structured protocol.
const LAST_MESSAGES: [&str; 4] =
    [r#""type":"result","#, r#""method":"turn/completed""#, r#""stopReason":"#, r#""stopReason":"#];
const PROMPT: &str = "Append the line";
const CONTINUATION: &str = "You were cut off";

/// A model that lets the CLI agent append a line to a file, and then waits at the gate; after an interruption it only ends
/// the turn. `codex` contains the arguments about the sandbox for a shell call of Codex.
fn worker(gate: &Gate, codex: &Value) -> Script {
    let codex = codex.clone();
    let held = gate.clone();
    Script::from_fn(move |request: &RecordedRequest| {
        if let Some(internal_reply) = internal_reply(request) {
            return Action::from(internal_reply);
        }
        let (all, name) = (request.body().to_string(), cli_agent_of(request));
        if request.tool_names().is_empty() {
            return Action::from(Reply::text("A title"));
        }
        if all.contains(CONTINUATION) {
            return Action::from(Reply::text("All of it is done."));
        }
        if all.contains("worked-it") {
            return Action::gated(Action::from(Reply::text("Done at once.")), &held);
        }
        let call = shell_call(request, &format!("echo x >> {name}.log; echo worked-''it"), Some(&codex));
        Action::from(call.unwrap_or_else(|| Reply::text("A title")))
    })
}

fn conversation(server: &FakeModel, cli: &str) -> Vec<String> {
    let about = |request: &RecordedRequest| cli_agent_of(request) == cli && !request.tool_names().is_empty();
    let bodies = server.requests().into_iter().filter(about).map(|request| request.body().to_string());
    bodies.filter(|body| body.contains(PROMPT)).collect()
}

fn attempts(althing: &Althing, task: &str) -> usize {
    let events = althing.events();
    of_type(&events, "attempt_started").into_iter().filter(|event| event["task"] == task).count()
}

fn tasks_of(report: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(report).unwrap_or_else(|error| panic!("{error}: {report}"));
    report["stages"][0]["tasks"].as_array().unwrap().clone()
}

#[test]
fn a_headless_turn_that_was_cut_off_goes_on_in_its_conversation_and_its_work_is_done_once() {
    let Some(dir) = programs() else { return };
    let gate = Gate::before_headers();
    let server = FakeModel::start_on_thread(worker(&gate, &json!({"sandbox_permissions": "use_default"})));
    let althing = with_programs(&dir, &server);
    let running = start_workflow(&althing, &CLIS.map(|cli| headless(cli, cli, PROMPT)));
    wait_for_work(&althing, &server);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    goes_on_and_works_once(&althing, &server);
}

fn wait_for_work(althing: &Althing, server: &FakeModel) {
    let has_worked = |cli: &&str| conversation(server, cli).iter().any(|body| body.contains("worked-it"));
    wait::until(START_TIMEOUT, || CLIS.iter().all(has_worked));
    wait::until(LIMIT, || CLIS.iter().all(|cli| has_stored_its_work(althing, cli)));
}

/// Whether the CLI agent has stored in its conversation what it did to its `.log`. Claude Code and Codex do this a moment
/// after they have told their models. (opencode does it before, in a database.)
pub fn has_stored_its_work(althing: &Althing, cli: &str) -> bool {
    let log = format!("{cli}.log");
    let dirs = [althing.state_dir().join("agents"), althing.home_dir()];
    cli == "opencode" || dirs.iter().any(|dir| has_file_with(dir, &["worked-it", &log]))
}

fn has_file_with(dir: &Path, words: &[&str]) -> bool {
    std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return has_file_with(&path, words);
        }
        let is_log = path.extension().is_some_and(|extension| extension == "jsonl");
        let text = if is_log { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
        words.iter().all(|word| text.contains(word))
    })
}

#[track_caller]
fn goes_on_and_works_once(althing: &Althing, server: &FakeModel) {
    let before = CLIS.map(|cli| conversation(server, cli).len());
    let resumed = althing.new_command().args(["resume", "--json"]).spawn().wait(START_TIMEOUT).expect_code(0);
    for task in tasks_of(&resumed.stdout) {
        assert_eq!(
            (&task["status"], &task["output"]),
            (&json!("DONE"), &json!("All of it is done.")),
            "{task}"
        );
    }
    for (cli, before) in CLIS.into_iter().zip(before) {
        assert_eq!(attempts(althing, &format!("w1.{cli}")), 2, "{cli}");
        let after = conversation(server, cli).split_off(before);
        let last = after.last().unwrap_or_else(|| panic!("{cli} did not go on in its conversation"));
        assert!(last.contains("worked-it") && last.contains(CONTINUATION), "{cli}: {last}");
        assert_eq!(last.matches(PROMPT).count(), 1, "{cli} is asked once: {last}");
        let lines = std::fs::read_to_string(althing.work_dir().join(format!("{cli}.log"))).unwrap();
        assert_eq!(lines, "x\n", "{cli} worked once");
        passed(cli);
    }
}

#[test]
fn a_turn_with_approvals_that_was_cut_off_goes_on_in_its_conversation_and_its_work_is_done_once() {
    let Some(dir) = programs() else { return };
    let gate = Gate::before_headers();
    let codex = json!({"sandbox_permissions": "require_escalated", "justification": "Append it?"});
    let server = FakeModel::start_on_thread(worker(&gate, &codex));
    let althing = with_programs(&dir, &server);
    let tasks = CLIS.map(|cli| {
        let mut task = headless(cli, cli, PROMPT);
        task["approvals"] = json!(true);
        task
    });
    let running = start_workflow(&althing, &tasks);
    for cli in CLIS {
        let ask = wait_for_question(&running, &format!("w1.{cli}"), "allow");
        let decision = json!({"decision": "choose", "option": "allow"});
        send_op(&running, &json!({"op": "answer", "interaction": ask["id"], "decision": decision}));
    }
    wait_for_work(&althing, &server);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    goes_on_and_works_once(&althing, &server);
    assert_eq!(of_type(&althing.events(), "interaction_opened").len(), 4, "each asks once");
}

/// Programs with the names of the CLI agents that run the real ones and then do not exit.
fn that_never_exit(dir: &Path, althing: &Althing) -> PathBuf {
    let wrappers = althing.home_dir().join("wrappers");
    std::fs::create_dir(&wrappers).unwrap();
    for cli in CLIS {
        let script = format!("#!/bin/sh\ntrap '' TERM\n{}/{cli} \"$@\"\nexec sleep 1000\n", dir.display());
        let file = wrappers.join(cli);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    wrappers
}

#[test]
fn a_headless_turn_that_was_finished_before_the_interruption_is_not_asked_again() {
    let Some(dir) = programs() else { return };
    let script = Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("It was finished."))
    });
    let server = FakeModel::start_on_thread(script);
    let althing = with_programs(&dir, &server);
    let path = format!("{}:{}", that_never_exit(&dir, &althing).display(), std::env::var("PATH").unwrap());
    let althing = althing.env("PATH", path);
    let task = |cli: &str| {
        let mut task = headless(cli, cli, PROMPT);
        // In a sandbox, the wrapper could not start the real program.
        task["sandbox"] = json!(false);
        task
    };
    let running = start_workflow(&althing, &CLIS.map(task));
    let finals =
        [r#""type":"result","#, r#""type":"turn.completed""#, r#""type":"result","#, r#""reason":"stop""#];
    wait::until(START_TIMEOUT, || {
        let outputs = files_named(&althing.state_dir(), "output.raw");
        let outputs: Vec<String> = outputs
            .iter()
            .map(|file| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned())
            .collect();
        // A line that was not written completely does not count, neither here nor when the workflow is resumed.
        let has_line = |output: &str, word: &str| {
            output.split_inclusive('\n').any(|line| line.contains(word) && line.ends_with('\n'))
        };
        let is_final = |word: &str| outputs.iter().filter(|output| has_line(output, word)).count();
        // The log knows the conversations a moment later.
        finals.iter().all(|word| is_final(word) == finals.iter().filter(|other| *other == word).count())
            && items(&althing.events(), "conversation").len() >= CLIS.len()
    });
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let asked = server.requests().len();
    let resumed = althing.new_command().args(["resume", "--json"]).spawn().wait(START_TIMEOUT).expect_code(0);
    for task in tasks_of(&resumed.stdout) {
        assert_eq!(
            (&task["status"], &task["output"]),
            (&json!("DONE"), &json!("It was finished.")),
            "{task}"
        );
    }
    assert_eq!(server.requests().len(), asked, "nothing is asked again");
    for cli in CLIS {
        let events = althing.events();
        let ended = of_type(&events, "attempt_ended");
        let last = ended.iter().rfind(|event| event["task"] == format!("w1.{cli}")).unwrap();
        assert!(last["data"]["usage"]["input_tokens"].as_u64().unwrap() > 0, "its cost counts: {last}");
        passed(cli);
    }
}

#[test]
fn an_interactive_turn_that_was_cut_off_goes_on_in_its_conversation() {
    let Some(dir) = programs() else { return };
    let gate = Gate::before_headers();
    let held = gate.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        if let Some(internal_reply) = internal_reply(request) {
            return Action::from(internal_reply);
        }
        if request.tool_names().is_empty() {
            return Action::from(Reply::text("A title"));
        }
        if request.body().to_string().contains(CONTINUATION) {
            return Action::from(Reply::text("All of it is done."));
        }
        Action::gated(Action::from(Reply::text("Done at once.")), &held)
    });
    let server = FakeModel::start_on_thread(script);
    let althing = with_programs(&dir, &server);
    // One CLI agent of each kind: if two Codex processes create their databases at the same time, one may fail.
    let names = CLIS;
    let prompt = |name: &str| format!("{PROMPT} of {name}.");
    let task = |name: &str| json!({"id": name, "agent": name, "executionMode": "interactive", "prompt": prompt(name)});
    let running = start_workflow(&althing, &names.map(task));
    let asks = |name: &str| conversation(&server, name);
    for name in names {
        let of_task = format!(r#""task":"w1.{name}""#);
        let is_known = |line: &str| line.contains(&of_task) && line.contains(r#""kind":"conversation""#);
        running.wait_for_stdout(is_known, START_TIMEOUT);
    }
    for name in names {
        wait::until(START_TIMEOUT, || asks(name).iter().any(|body| body.contains(&prompt(name))));
    }
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let resumed = althing.new_command().args(["resume", "--stream-events=all", "--take-ops"]);
    let resumed = resumed.open_stdin().spawn();
    let goes_on = |name: &str| {
        asks(name).iter().any(|body| {
            body.contains(CONTINUATION) && body.matches(PROMPT).count() == 1 && body.contains(&prompt(name))
        })
    };
    for name in names {
        wait::until(START_TIMEOUT, || goes_on(name));
    }
    for name in names {
        let again =
            asks(name).into_iter().filter(|body| body.contains(&prompt(name)) && body.contains(CONTINUATION));
        assert_eq!(again.count(), 1, "{name} is told once");
    }
    resumed.signal(Signal::TERM);
    resumed.wait(LIMIT);
    names.into_iter().for_each(passed);
}

#[test]
fn a_turn_with_an_approval_that_was_finished_before_the_interruption_is_not_asked_again() {
    let Some(dir) = programs() else { return };
    for (cli, last_message) in CLIS.into_iter().zip(LAST_MESSAGES) {
        let server = FakeModel::start_on_thread(Script::from_fn(command_reply));
        let althing = with_programs(&dir, &server);
        let wrappers = that_never_exit(&dir, &althing);
        let path = format!("{}:{}", wrappers.display(), std::env::var("PATH").unwrap());
        let althing = althing.env("PATH", path);
        let mut task = headless(cli, cli, PROMPT);
        task["approvals"] = json!(true);
        let running = start_workflow(&althing, &[task]);
        let ask = wait_for_question(&running, &format!("w1.{cli}"), "allow");
        let decision = json!({"decision": "choose", "option": "allow"});
        send_op(&running, &json!({"op": "answer", "interaction": ask["id"], "decision": decision}));
        // From now on the program has four seconds to exit, which it does not.
        wait::until(START_TIMEOUT, || {
            let outputs = files_named(&althing.state_dir(), "output.raw");
            let text = |file: &PathBuf| String::from_utf8_lossy(&std::fs::read(file).unwrap()).into_owned();
            outputs.iter().any(|file| text(file).contains(last_message))
        });
        running.signal(Signal::KILL);
        running.wait(LIMIT);
        let asked = server.request_count();
        let resumed = althing.new_command().args(["resume", "--json"]).spawn().wait(START_TIMEOUT);
        let tasks = tasks_of(&resumed.expect_code(0).stdout);
        let (status, output) = (&tasks[0]["status"], &tasks[0]["output"]);
        assert_eq!((status, output), (&json!("DONE"), &json!("All of it is done.")), "{cli}: {tasks:?}");
        assert_eq!(server.request_count(), asked, "{cli} is asked again");
        assert_eq!(of_type(&althing.events(), "interaction_opened").len(), 1, "{cli} asks again");
        passed(cli);
    }
}
