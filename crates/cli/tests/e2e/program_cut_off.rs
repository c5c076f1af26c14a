//! The real CLI agents as members of a run and as chat agent, cut off in the middle of a turn: each goes on in its own
//! conversation, and does not repeat its work.

use althing_testkit::process::{Signal, newest_session};
use althing_testkit::{Action, Althing, FakeModel, Gate, RecordedRequest, Reply, Script, wait};
use serde_json::json;

use super::program_resume::has_stored_its_work;
use super::programs::{
    START_TIMEOUT, cli_agent_of, files_named, internal_reply, member, passed, programs, shell_call,
    with_programs,
};
use super::support::{LIMIT, items};

const KINDS: [(&str, &str); 4] =
    [("claude_code", "claude"), ("codex", "codex"), ("gemini_cli", "gemini"), ("opencode", "opencode")];
const TASK: &str = "Append the line to the log";
const NEXT: &str = "And what was the second thing?";
const CONTINUATION: &str = "You were cut off";

/// Appends a line to a file of the agent, and then waits at the gate. After an interruption, it finishes with `last`.
fn worker(gate: &Gate, last: fn(&RecordedRequest) -> Reply) -> Script {
    let held = gate.clone();
    Script::from_fn(move |request: &RecordedRequest| {
        let body = request.body().to_string();
        if let Some(internal_reply) = internal_reply(request) {
            return Action::from(internal_reply);
        }
        if request.model() == "api-model" || body.contains(CONTINUATION) || body.contains(NEXT) {
            return Action::from(last(request));
        }
        if body.contains("worked-it") {
            return Action::gated(Action::from(Reply::text("Done at once.")), &held);
        }
        let command = format!("echo x >> {}.log; echo worked-''it", cli_agent_of(request));
        let codex = json!({"sandbox_permissions": "use_default"});
        let call = shell_call(request, &command, Some(&codex));
        Action::from(call.unwrap_or_else(|| Reply::text("A title")))
    })
}

/// What this CLI agent asked its model about the task, in the order of arrival.
fn conversation(server: &FakeModel, cli: &str) -> Vec<String> {
    let about = |request: &RecordedRequest| {
        request.model() != "api-model" && cli_agent_of(request) == cli && !request.tool_names().is_empty()
    };
    let bodies = server.requests().into_iter().filter(about).map(|request| request.body().to_string());
    bodies.filter(|body| body.contains(TASK)).collect()
}

/// Waits until the CLI agent has told Althing and its model about its work, and has stored it.
fn wait_for_work(althing: &Althing, server: &FakeModel, cli: &str) {
    wait::until(START_TIMEOUT, || conversation(server, cli).iter().any(|body| body.contains("worked-it")));
    let log = format!("{cli}.log");
    wait::until(LIMIT, || {
        files_named(&althing.state_dir(), "output.raw").iter().any(|file| {
            let output = std::fs::read(file).unwrap_or_default();
            let output = String::from_utf8_lossy(&output);
            output.contains(&log) && output.contains("worked-it")
        })
    });
    wait::until(LIMIT, || has_stored_its_work(althing, cli));
}

#[track_caller]
fn went_on(cli: &str, before: &[String], after: &[String]) {
    let first = after.iter().find(|body| body.contains(CONTINUATION));
    let first = first.unwrap_or_else(|| panic!("{cli} did not go on in its conversation"));
    assert!(first.contains("worked-it"), "{cli} went on in another conversation: {first}");
    let prompts = |body: &str| body.matches(TASK).count();
    let asked = prompts(before.last().unwrap());
    assert_eq!(prompts(first), asked, "{cli} is asked once: {first}");
}

#[test]
fn a_member_that_was_cut_off_goes_on_in_its_conversation_and_its_work_is_done_once() {
    let Some(dir) = programs() else { return };
    let gate = Gate::before_headers();
    let server = FakeModel::start_on_thread(worker(&gate, member));
    let althing = with_programs(&dir, &server);
    let api = json!({"type": "chatcompletion", "model": "api-model", "base_url": server.base_url()});
    let mut agents = vec![json!({"id": "api", "backend": api})];
    agents.extend(KINDS.map(|(kind, cli)| json!({"id": cli, "backend": {"type": kind}})));
    althing.file("team.yaml", json!({ "agents": agents }).to_string());
    let running = althing.new_command().args(["--config", "team.yaml", "--json", TASK]).spawn();
    for (_, cli) in KINDS {
        wait_for_work(&althing, &server, cli);
    }
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let before = KINDS.map(|(_, cli)| conversation(&server, cli));
    let resumed = althing.new_command().args(["resume", "--json"]).spawn();
    wait::until(START_TIMEOUT, || items(&althing.events(), "answer").len() > KINDS.len());
    resumed.signal(Signal::TERM);
    resumed.wait(LIMIT);
    for ((_, cli), before) in KINDS.into_iter().zip(before) {
        went_on(cli, &before, &conversation(&server, cli).split_off(before.len()));
        let logs = files_named(&althing.state_dir(), &format!("{cli}.log"));
        assert!(!logs.is_empty(), "{cli} wrote nothing");
        for log in logs {
            assert_eq!(std::fs::read_to_string(log).unwrap(), "x\n", "{cli} worked once");
        }
        passed(cli);
    }
    let answers = server.requests_of("api-model").into_iter();
    let answers = answers.filter(|request| !request.tool_names().contains(&"vote"));
    assert_eq!(answers.count(), 1, "an agent that has answered is not asked again");
}

#[test]
fn a_chat_agent_that_was_cut_off_goes_on_in_its_conversation_and_its_work_is_done_once() {
    let Some(dir) = programs() else { return };
    let gate = Gate::before_headers();
    let said = |request: &RecordedRequest| {
        let body = request.body().to_string();
        Reply::text(if body.contains(NEXT) { "It was the second." } else { "All of it is done." })
    };
    let server = FakeModel::start_on_thread(worker(&gate, said));
    let chats = KINDS.map(|(kind, cli)| {
        let althing = with_programs(&dir, &server);
        let api = json!({"type": "chatcompletion", "model": "api-model", "base_url": server.base_url()});
        let interactive = json!({"backend": {"type": kind}});
        let agents = json!([{"id": "api", "backend": api}]);
        let config = json!({"agents": agents, "orchestrator": {"interactive_mode": interactive}});
        althing.file("team.yaml", config.to_string());
        let command = althing.new_command().args(["chat", "--config", "team.yaml"]).open_stdin();
        let running = command.spawn();
        running.write_stdin(format!("{TASK}\n"));
        (cli, althing, running)
    });
    for (cli, althing, running) in &chats {
        wait_for_work(althing, &server, cli);
        running.signal(Signal::KILL);
        running.wait(LIMIT);
    }
    gate.release_all();
    let resumed = chats.map(|(cli, althing, _)| {
        let before = conversation(&server, cli);
        let session = newest_session(&althing.state_dir()).unwrap();
        let session = session.file_name().unwrap().to_str().unwrap().to_owned();
        let command = althing.new_command().args(["chat", "--session", &session]);
        let running = command.stdin(format!("{NEXT}\n")).spawn();
        (cli, althing, running, before)
    });
    for (cli, althing, running, before) in resumed {
        let output = running.wait(START_TIMEOUT).expect_code(0);
        assert!(output.stdout.contains("It was the second."), "{cli}: {output:?}");
        let after = conversation(&server, cli).split_off(before.len());
        went_on(cli, &before, &after);
        let next = after.iter().find(|body| body.contains(NEXT)).unwrap();
        assert!(next.contains(CONTINUATION) && next.contains("worked-it"), "{cli}: {next}");
        let lines = std::fs::read_to_string(althing.work_dir().join(format!("{cli}.log"))).unwrap();
        assert_eq!(lines, "x\n", "{cli} worked once");
        passed(cli);
    }
}
