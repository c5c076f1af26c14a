//! Agents that write until they are killed. However a run, a task or a conversation ends, the files that its programs
//! wrote are listed only after the last of their processes is gone: the result lists every file, `undo` reverts all of
//! them, and notices name the files that run code later.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use althing_testkit::process::Signal;
use althing_testkit::{FakeModel, Output, RecordedRequest, Reply, Script, User, wait};
use serde_json::{Value, json};

use super::attack_agents::{Cell, Kind, SandboxName, World};
use super::scripted_claude;
use super::support::{LIMIT, althing, ensure, in_parallel};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cancelled,
    TimeLimit,
    /// The agent says that it is done, and leaves processes behind.
    Answered,
}

/// Writes one file after another into its directory until it is killed: it ignores the usual signals to end. With the
/// argument `late`, it also starts a child in a separate process session that does the same.
const STUBBORN: &str = r#"trap '' TERM HUP INT PIPE
[ "$1" = late ] && setsid sh "$0" child > /dev/null 2>&1 < /dev/null &
n=0
while :; do n=$((n+1)); echo planted > "${0%/*}/$1-$n.txt"; sleep 0.02; done
"#;

fn stubborn(dir: &Path) -> String {
    let script = dir.join("stubborn.sh");
    std::fs::write(&script, STUBBORN).unwrap();
    format!("sh '{}' late", script.display())
}

/// A `claude` that runs this command after it has read its prompt, and reports that it is done once the file `end`
/// exists.
fn stubborn_claude(command: &str) -> String {
    format!(
        r#"#!/bin/bash
[ "$1" = --version ] && {{ echo 1.0.0; exit; }}
cat > /dev/null
{{ {command}; }} > /dev/null 2>&1 < /dev/null &
trap '' TERM HUP INT
until [ -e "$HOME/.claude/end" ]; do sleep 0.02; done
echo '{{"type": "system", "subtype": "init", "session_id": "s"}}'
echo '{{"type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": "s"}}'
"#
    )
}

fn written(dir: &Path) -> BTreeSet<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Lets an agent write until it is killed. Compares the files on disk at the end with the list of the result, and with
/// what is left after `undo`.
fn ended((kind, sandbox, end): (Kind, SandboxName, End)) -> Result<(), String> {
    let world = World::new(Cell { kind, sandbox, user: User::Current }, None);
    // Landlock lets no command create a file directly in the context path, because its missing `.git` is protected.
    let dir = world.places.base.join("fresh/src");
    std::fs::write(dir.join("before.txt"), "before\n").unwrap();
    let command = stubborn(&dir);
    let before = written(&dir);
    let own = world.althing.home_dir().join(".claude");
    let program = world.althing.home_dir().join("bin/claude");
    std::fs::write(&program, stubborn_claude(&command)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = match end {
        // The call of a command or of an MCP server ends by itself, and leaves processes behind that continue writing.
        End::Answered => format!("({command}) > /dev/null 2>&1 < /dev/null & sleep 0.3"),
        End::Cancelled | End::TimeLimit => command,
    };
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let acted = request.messages().iter().any(|message| message["role"] == "tool");
        match kind {
            _ if acted => Reply::text("done"),
            Kind::McpServer => Reply::call("mcp__shell__act", &json!({ "command": line })),
            _ => Reply::call("run_command", &json!({ "command": line })),
        }
    });
    let server = FakeModel::start_on_thread(script);
    world.althing.file("team.yaml", world.config(&server.base_url()).text());
    let limit = if end == End::TimeLimit { "10" } else { "600" };
    let command = world.command().args(["--config", "team.yaml", "--automation", "--quick", "--json"]);
    let command = command.args(["--take-ops", "--orchestrator-timeout", limit, "task"]);
    let running = command.open_stdin().spawn();
    let wrote = || dir.join("child-5.txt").exists();
    if !wait::holds_within(LIMIT, || wrote() || !running.is_running()) || !wrote() {
        running.signal(Signal::KILL);
        let output = running.wait(LIMIT);
        let said = format!("{} {}", output.stdout, output.stderr);
        return Err(format!("{kind:?} {sandbox:?} {end:?} wrote nothing: {said}"));
    }
    match end {
        End::Cancelled => running.write_stdin("{\"op\": \"cancel\", \"task\": \"r1\"}\n"),
        End::Answered => std::fs::write(own.join("end"), "").unwrap(),
        End::TimeLimit => {}
    }
    let output = running.wait(LIMIT);
    let complain =
        |what: String| format!("{kind:?} {sandbox:?} {end:?}: {what}\n{} {}", output.stdout, output.stderr);
    let changed: Vec<PathBuf> = written(&dir).difference(&before).cloned().collect();
    ensure(changed.len() >= 5, || complain(format!("it wrote only {changed:?}")))?;
    let result: Value = serde_json::from_str(&output.stdout).map_err(|error| complain(error.to_string()))?;
    let listed = result["context_path_writes"].as_array().cloned().unwrap_or_default();
    let listed: BTreeSet<&str> = listed.iter().filter_map(|write| write["path"].as_str()).collect();
    let missed: Vec<&PathBuf> =
        changed.iter().filter(|path| !listed.contains(&*path.to_string_lossy())).collect();
    ensure(missed.is_empty(), || complain(format!("not listed: {missed:?}")))?;
    let sessions = std::fs::read_dir(world.state_dir().join("sessions")).unwrap();
    let session = sessions.map(|entry| entry.unwrap().file_name()).max().unwrap();
    let undone = world.command().arg("undo").arg(session).spawn().wait(LIMIT);
    ensure(undone.code == Some(0), || complain(format!("undo: {} {}", undone.stdout, undone.stderr)))?;
    let left = written(&dir);
    ensure(left == before, || complain(format!("not undone: {:?}", left.difference(&before))))
}

#[test]
fn what_an_agent_writes_until_it_is_killed_is_listed_and_undone() {
    let mut all = Vec::new();
    for sandbox in [SandboxName::Bubblewrap, SandboxName::Landlock] {
        for kind in [Kind::Command, Kind::CliAgent, Kind::McpServer] {
            all.extend([End::Cancelled, End::Answered].map(|end| (kind, sandbox, end)));
        }
    }
    all.push((Kind::CliAgent, SandboxName::Bubblewrap, End::TimeLimit));
    in_parallel(2, all, ended);
}

/// A program that, when it is asked to end, plants a file that runs code later, and then waits to be killed.
const PLANTS_LATE: &str = r#"#!/bin/bash
[ "$1" = --version ] && { echo 1.0.0; exit; }
trap 'echo planted > .envrc' TERM HUP INT
: > "$HOME/.claude/started"
cat > /dev/null
while :; do sleep 0.02; done
"#;

fn assert_pointed_out(what: &str, output: &Output, events: &[Value], dir: &Path) {
    let named = format!("{} (runs code when", dir.join(".envrc").display());
    assert!(dir.join(".envrc").exists(), "{what}: {}", output.stderr);
    let events: Vec<String> = events.iter().map(Value::to_string).collect();
    assert!(events.iter().any(|event| event.contains(&named)), "{what}: {events:#?}");
    assert!(output.stderr.contains(&named), "{what}: {}", output.stderr);
}

#[test]
fn a_task_that_is_ended_gives_the_same_notices_as_one_that_ends() {
    for how in ["time limit", "cancel", "signal"] {
        let althing = scripted_claude::install(&althing(), PLANTS_LATE);
        let mut task = json!({"id": "t", "agent": "claude", "executionMode": "headless", "prompt": "Do it"});
        if how == "time limit" {
            task["timeout_seconds"] = 5.into();
        }
        // The second stage runs even if the task of the first stage fails. It starts only after every process of the
        // first stage has ended.
        task["continue_on_failure"] = true.into();
        let next = json!({"id": "u", "agent": "command", "command": ["ls", "-a"], "executionMode": "headless", "prompt": ""});
        let stages = json!([{"name": "s", "tasks": [task]}, {"name": "next", "tasks": [next]}]);
        althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
        let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--take-ops"]);
        let running = command.open_stdin().spawn();
        let started = scripted_claude::own_dir(&althing).join("started");
        wait::until(LIMIT, || started.exists() || !running.is_running());
        match how {
            "cancel" => running.write_stdin("{\"op\": \"cancel\", \"task\": \"w1\"}\n"),
            "signal" => running.signal(Signal::TERM),
            _ => {}
        }
        let output = running.wait(LIMIT);
        let dir = althing.work_dir().canonicalize().unwrap();
        assert_pointed_out(how, &output, &althing.events(), &dir);
    }
}

#[test]
fn a_conversation_that_is_interrupted_gives_the_notices_of_its_agent() {
    let althing = scripted_claude::install(&althing(), PLANTS_LATE);
    let config = json!({
        "agents": [{"id": "a", "backend": {"type": "claude_code"}}],
        "orchestrator": {"interactive_mode": {}},
    });
    althing.file("team.yaml", config.to_string());
    let running = althing.new_command().args(["chat", "--config", "team.yaml"]).open_stdin().spawn();
    running.write_stdin("Good morning\n");
    let started = scripted_claude::own_dir(&althing).join("started");
    wait::until(LIMIT, || started.exists() || !running.is_running());
    running.signal(Signal::TERM);
    let output = running.wait(LIMIT);
    let dir = althing.work_dir().canonicalize().unwrap();
    assert_pointed_out("signal", &output, &althing.events(), &dir);
}
