//! CLI agents as members of runs, in the same situations as models: no call is wasted, a silent CLI agent
//! does not hold up the run, and a presenter is told to carry out the change.

use std::path::PathBuf;

use althing_testkit::process::newest_session;
use althing_testkit::{Action, Althing, Gate, Parliament, RecordedRequest, Script, wait};
use serde_json::{Value, json};

use super::scripted_claude;
use super::support::{Fixture, LIMIT, Team, items};

const TASK: &str = "Improve the file";

/// A stand-in for `claude` that does what the file `act.py` in its own directory says. For each start, it first records
/// its agent, its phase and its prompt.
const ACTS: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
own = os.path.join(os.environ["HOME"], ".claude")
prompt, arguments = sys.stdin.read(), " ".join(sys.argv[1:])
offered = [tool for tool in ("vote", "new_answer") if "mcp__althingtools__" + tool in arguments]
phase = offered[0] if offered else "present"
agent = os.path.basename(os.getcwd())
log = os.path.join(own, "calls.jsonl")
open(log, "a").write(json.dumps({"agent": agent, "phase": phase, "prompt": prompt, "pid": os.getpid()}) + "\n")
starts = lambda of: sum(json.loads(line)["agent"] == of for line in open(log))
nth = starts(agent)

def wait_for(name):
    while not os.path.exists(os.path.join(own, name)):
        time.sleep(0.005)

def say(text):
    print(json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}), flush=True)

def end(text):
    print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": agent}), flush=True)
    open(os.path.join(own, "%s-%d" % (agent, nth)), "w")

def stay():
    open(os.path.join(own, "stays"), "w")
    wait_for("never")

def vote(target):
    end(json.dumps({"agent_id": target, "reason": "clear"}))

print(json.dumps({"type": "system", "subtype": "init", "session_id": agent}), flush=True)
exec(open(os.path.join(own, "act.py")).read())
"#;

fn installed(althing: &Althing, act: &str) -> Althing {
    let althing = scripted_claude::install(althing, ACTS);
    std::fs::write(scripted_claude::own_dir(&althing).join("act.py"), act).unwrap();
    althing
}

fn calls_of(althing: &Althing, agent: &str) -> Vec<Value> {
    let mut calls = scripted_claude::calls(althing);
    calls.retain(|call| call["agent"] == agent);
    calls
}

fn claude() -> Value {
    json!({"type": "claude_code"})
}

#[test]
fn cli_agents_that_all_improve_once_are_started_three_times_each_and_once_to_present() {
    // Each agent finishes a call only after the agent before it has finished as many, so the speeds are unequal.
    let act = r#"
before = {"b": "a", "c": "b"}.get(agent)
if before and phase != "present":
    wait_for("%s-%d" % (before, nth))
if phase == "present":
    end("The final answer")
elif nth <= 2:
    end("Answer %d of %s" % (nth, agent))
else:
    vote("agent1")
"#;
    let althing = installed(&super::support::althing(), act);
    let agents = ["a", "b", "c"].map(|id| json!({"id": id, "backend": claude()}));
    althing.file("team.yaml", json!({ "agents": agents }).to_string());
    let command = althing.new_command().args(["--config", "team.yaml", "--automation", "--json", TASK]);
    let output = command.spawn().wait(LIMIT).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["final_answer"], "The final answer", "{}", output.stderr);
    let started = ["a", "b", "c"].map(|agent| calls_of(&althing, agent).len());
    assert_eq!(started, [4, 3, 3], "two answers and a vote of each, and the presentation: {}", output.stderr);
    assert!(items(&althing.events(), "stale_vote").is_empty(), "{}", output.stderr);
}

/// A run of a model and of the CLI agent `b`, which judges as `act` says. The model answers only after `b` has
/// answered, and votes only after the program of `b` has called `stay`, so that the time in which a program starts does
/// not count as silence.
fn with_judge(act: &str, straggler_wait: f64, round_limit: u64) -> (Fixture, Value, String) {
    let (answers, votes) = (Gate::new(), Gate::new());
    let gates = (answers.clone(), votes.clone());
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let reply = Parliament::default().reply(request);
        match request.tool_names() {
            tools if tools.contains(&"vote") => Action::gated(reply, &votes),
            tools if tools.contains(&"new_answer") => Action::gated(reply, &answers),
            _ => reply.into(),
        }
    });
    let mut fixture = Fixture::with(2, script, |team| team);
    let team = Team::on(&fixture.server.base_url(), 1)
        .agent("b", &claude())
        .rule("coordination", json!({"straggler_wait_seconds": straggler_wait}))
        .timeout("subsequent_round_timeout_seconds", round_limit)
        .timeout("round_timeout_grace_seconds", 0);
    fixture.althing = installed(&fixture.althing, act);
    fixture.althing.file("team.yaml", team.text());
    let own = scripted_claude::own_dir(&fixture.althing);
    let opener = std::thread::spawn(move || {
        wait::until(LIMIT, || own.join("b-1").exists());
        gates.0.release_all();
        wait::until(LIMIT, || own.join("stays").exists());
        gates.1.release_all();
    });
    let output = fixture.run(&["--json", TASK]).expect_code(0);
    opener.join().unwrap();
    let result = serde_json::from_str(&output.stdout).unwrap();
    (fixture, result, output.stderr)
}

#[test]
fn a_run_is_completed_without_a_cli_agent_that_says_nothing_and_its_program_is_ended() {
    let act = r#"
if phase == "vote":
    stay()
end("Answer of " + agent)
"#;
    let (fixture, result, told) = with_judge(act, 0.3, 60);
    assert_eq!(result["status"], "completed", "{told}");
    let agent = &result["coordination_summary"]["agents"][1];
    assert_eq!((agent["status"].as_str(), agent["answers"].as_u64()), (Some("timed_out"), Some(1)), "{told}");
    assert!(told.contains("b sent nothing for 300ms while all others were done"), "{told}");
    let judge = calls_of(&fixture.althing, "b").pop().unwrap();
    assert_eq!(judge["phase"], "vote");
    let program = PathBuf::from(format!("/proc/{}/cmdline", judge["pid"]));
    let home = fixture.althing.home_dir().display().to_string();
    wait::until(LIMIT, || !std::fs::read_to_string(&program).is_ok_and(|line| line.contains(&home)));
}

#[test]
fn a_cli_agent_that_has_said_something_is_waited_for_until_its_rounds_limit() {
    let act = r#"
if phase == "vote":
    say("I think about it.")
    stay()
end("Answer of " + agent)
"#;
    let (_fixture, result, told) = with_judge(act, 0.3, 5);
    let agent = &result["coordination_summary"]["agents"][1];
    assert_eq!(agent["status"], "timed_out", "{told}");
    assert!(agent["error"].as_str().unwrap().contains("round's time limit"), "{agent}");
    assert!(!told.contains("sent nothing"), "{told}");
}

#[test]
fn a_cli_agent_that_reasons_or_works_with_its_own_tools_is_not_silent() {
    let act = r#"
if phase == "vote":
    print(json.dumps({"type": "stream_event", "event": {"type": "message_start", "message": {"id": "m"}}}), flush=True)
    stay()
end("Answer of " + agent)
"#;
    let (_fixture, result, told) = with_judge(act, 0.3, 5);
    let agent = &result["coordination_summary"]["agents"][1];
    assert!(agent["error"].as_str().unwrap().contains("round's time limit"), "{agent}");
    assert!(!told.contains("sent nothing"), "{told}");
}

struct Presented {
    prompts: Vec<String>,
    result: Value,
    told: String,
    project: PathBuf,
    written: Option<String>,
}

/// The presenter writes a file if the Python expression `writes` is true. In the expression, `presented` is the number
/// of presentations so far.
fn present(writes: &str) -> Presented {
    let althing = super::support::althing();
    let project = althing.work_dir().canonicalize().unwrap().join("project");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("old.txt"), "old\n").unwrap();
    let act = format!(
        r#"
if phase == "present":
    presented = sum(json.loads(line)["phase"] == "present" for line in open(log))
    if {writes}:
        open("{}/new.txt", "w").write("new\n")
    end("Presentation %d" % presented)
elif phase == "vote":
    vote("agent1")
else:
    end("Answer")
"#,
        project.display()
    );
    let althing = installed(&althing, &act);
    althing.file("team.yaml", json!({"agents": [{"id": "a", "backend": claude()}]}).to_string());
    let path = format!("{}:rw", project.display());
    let command = althing.new_command().args(["--config", "team.yaml", "--automation"]);
    let output = command.args(["--context-path", &path, TASK]).spawn().wait(LIMIT).expect_code(0);
    let calls = calls_of(&althing, "a").into_iter().filter(|call| call["phase"] == "present");
    let prompts = calls.map(|call| call["prompt"].as_str().unwrap().to_owned()).collect();
    let result = newest_session(&althing.state_dir()).unwrap().join("tasks/r1/result.json");
    let result = serde_json::from_str(&std::fs::read_to_string(result).unwrap()).unwrap();
    let written = std::fs::read_to_string(project.join("new.txt")).ok();
    Presented { prompts, result, told: format!("{}{}", output.stdout, output.stderr), project, written }
}

#[test]
fn a_cli_agent_that_presents_is_told_that_nothing_has_been_changed_yet() {
    let it = present("True");
    assert_eq!(it.prompts.len(), 1, "not reminded: {:?}", it.prompts);
    assert!(it.prompts[0].contains("nothing has been changed there yet"), "{}", it.prompts[0]);
    assert_eq!(it.result["context_path_writes"][0]["path"], json!(it.project.join("new.txt")));
    assert_eq!(it.result["unchanged_paths"], Value::Null, "{}", it.result);
}

#[test]
fn a_cli_agent_that_presents_and_writes_nothing_is_reminded_once_and_may_write_again() {
    let it = present("presented == 2");
    assert_eq!(it.prompts.len(), 2, "{:?}", it.prompts);
    let reminder = format!("Nothing has been changed in {}", it.project.display());
    assert!(it.prompts[1].contains(&reminder), "{}", it.prompts[1]);
    assert_eq!(it.written.as_deref(), Some("new\n"));
    assert_eq!(it.result["context_path_writes"][0]["path"], json!(it.project.join("new.txt")));
    assert_eq!(it.result["final_answer"], "Presentation 2");
}

#[test]
fn the_result_says_that_a_cli_agent_that_could_write_changed_nothing() {
    let it = present("False");
    assert_eq!(it.prompts.len(), 2, "reminded once: {:?}", it.prompts);
    assert_eq!(it.result["unchanged_paths"], json!([it.project]), "{}", it.result);
    let note = format!("the run changed nothing in {}", it.project.display());
    assert!(it.told.contains(&note), "{}", it.told);
    assert!(!it.told.contains("Files written"), "the footer is only for writes: {}", it.told);
}
