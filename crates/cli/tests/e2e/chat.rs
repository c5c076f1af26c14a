//! `althing chat`, end to end: lines on stdin, replies on stdout, and every request that the model server received.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_testkit::process::{Signal, newest_session, wait_for_event};
use althing_testkit::{Althing, FakeModel, RecordedRequest, Reply, Script, wait};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, of_type, texts};

const CHAT_MODEL: &str = "talker";

fn fixture(
    talker: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
    change: impl FnOnce(Value) -> Value,
) -> Fixture {
    let script = Script::parliament().on(CHAT_MODEL).always(althing_testkit::Action::with(talker));
    let fixture = Fixture::new(2, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let interactive = change(json!({"enabled": true, "backend": backend}));
    let team = Team::on(&base, 2).rule("interactive_mode", interactive);
    fixture.althing.file("team.yaml", team.text());
    fixture
}

fn chat(fixture: &Fixture, lines: &str, args: &[&str]) -> althing_testkit::Output {
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]).args(args);
    command.stdin(lines).spawn().wait(LIMIT)
}

fn chat_agent_requests(server: &FakeModel) -> Vec<RecordedRequest> {
    server.requests().into_iter().filter(|request| request.model() == CHAT_MODEL).collect()
}

fn delegates(launch: Value) -> impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static {
    move |request: &RecordedRequest| {
        let last = request.messages().last().cloned().unwrap_or_default();
        if last["role"] == "tool" {
            return Reply::text(format!("It is done: {}", last["content"].as_str().unwrap_or_default()));
        }
        Reply::call("launch_run", &launch)
    }
}

// spec: interactive/interactive-agent-delegation-behavior/simple-task-handling
// spec: interactive/interactive-agent-system-prompt/no-coordination-tools
#[test]
fn a_simple_question_is_answered_by_the_chat_agent_without_a_run() {
    let fixture = fixture(|_| Reply::text("It is 42."), |config| config);
    let output = chat(&fixture, "What is six times seven?\n", &[]).expect_code(0);
    assert_eq!(output.stdout, "It is 42.\n");
    let requests = fixture.server.requests();
    assert_eq!(requests.len(), 1, "nobody else was asked");
    let tools = requests[0].tool_names();
    assert!(tools.contains(&"launch_run"), "{tools:?}");
    for never in ["new_answer", "vote", "ask_others"] {
        assert!(!tools.contains(&never) && !requests[0].system_text().contains(never), "{never}");
    }
    let parameters = requests[0].tool_parameters("launch_run").unwrap();
    for name in [
        "task",
        "context",
        "agent_mode",
        "agents",
        "refinement",
        "planning_mode",
        "execute_after_planning",
        "context_paths",
        "agent_system_prompts",
        "coordination_overrides",
    ] {
        assert!(parameters["properties"][name].is_object(), "{name}");
    }
}

// spec: interactive/launch-run-tool/results-returned-to-agent
// spec: interactive/run-approval-flow/approval-not-required
#[test]
fn launch_run_starts_a_run_with_task_and_context_and_its_result_comes_back() {
    let launch = json!({"task": "Refactor the parser", "context": "Keep the public API", "agent_mode": "multi", "refinement": true});
    let fixture = fixture(delegates(launch), |mut config| {
        config["require_approval"] = false.into();
        config
    });
    let output = chat(&fixture, "Please refactor the parser, it is a mess\n", &[]).expect_code(0);
    assert!(output.stdout.starts_with("It is done: "), "{}", output.stdout);
    let workers: Vec<RecordedRequest> =
        fixture.server.requests().into_iter().filter(|request| request.model() != CHAT_MODEL).collect();
    assert_eq!(workers.len(), 5, "two answers, two votes, one presentation");
    let first = texts(&workers[0]);
    assert!(first.contains("Refactor the parser") && first.contains("Keep the public API"), "{first}");
    assert!(!first.contains("it is a mess"), "what was said in the conversation stays there: {first}");
    assert!(workers.iter().all(|request| !request.tool_names().contains(&"launch_run")), "none inside a run");
    let result = chat_agent_requests(&fixture.server)[1].messages().last().cloned().unwrap();
    let result: Value = serde_json::from_str(result["content"].as_str().unwrap()).unwrap();
    assert_eq!(result["status"], "completed");
    assert!(
        result["final_answer"].is_string() && result["coordination_summary"]["votes"].is_object(),
        "{result}"
    );
    assert!(
        result["coordination_summary"]["winner"].is_string()
            && result["coordination_summary"]["rounds"].is_u64()
    );
}

// spec: interactive/launch-run-tool/single-agent-run
#[test]
fn a_single_quick_run_is_one_call() {
    let launch = json!({"task": "Say hi", "agent_mode": "single", "agents": ["b"]});
    let fixture = fixture(delegates(launch), |config| config);
    chat(&fixture, "Let b say hi\n", &["--approve", "always"]).expect_code(0);
    assert_eq!(fixture.calls().get("model-b"), Some(&1));
    assert_eq!(fixture.calls().get("model-a"), None);
}

// spec: interactive/run-approval-flow/approval-cancelled
#[test]
fn a_rejected_run_does_not_start_and_the_chat_agent_learns_of_it() {
    for (args, lines) in [
        (vec!["--approve", "never"], "Refactor everything\n"),
        (vec![], "Refactor everything\nn\n"),
        // Stdin ends, so nobody can answer the question whether to launch the run.
        (vec![], "Refactor everything\n"),
    ] {
        let fixture = fixture(delegates(json!({"task": "Refactor"})), |config| config);
        let output = chat(&fixture, lines, &args).expect_code(0);
        assert!(
            fixture.calls().keys().all(|model| model == CHAT_MODEL),
            "no agent was asked: {:?}",
            fixture.calls()
        );
        assert!(
            output.stdout.contains("cancel")
                || output.stdout.contains("not approved")
                || output.stdout.contains("nobody"),
            "{}",
            output.stdout
        );
    }
}

// spec: interactive/run-approval-flow/approval-required
#[test]
fn a_question_in_a_script_says_that_the_plan_will_be_executed() {
    let launches = |request: &RecordedRequest| {
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return Reply::text("It is over.");
        }
        let executes = request.last_user_text() == "Do it";
        let launch = json!({"task": "Plan it", "planning_mode": true, "execute_after_planning": executes});
        Reply::call("launch_run", &launch)
    };
    for (message, executes) in [("Do it", true), ("Only plan it", false)] {
        let fixture = fixture(launches, |config| config);
        let output = chat(&fixture, &format!("{message}\nn\n"), &[]).expect_code(0);
        assert!(output.stderr.contains("Plan · "), "{}", output.stderr);
        assert_eq!(output.stderr.contains("then execute"), executes, "{}", output.stderr);
    }
}

#[test]
fn words_after_approve_are_added_to_the_context_of_the_approved_run() {
    let launch = json!({"task": "Build it", "context": "Keep it small"});
    let fixture = fixture(delegates(launch), |config| config);
    chat(&fixture, "Please build it\n/approve but count the lines\n", &[]).expect_code(0);
    let members = fixture.server.requests().into_iter().filter(|request| request.model() != CHAT_MODEL);
    let prompts: Vec<String> = members.map(|request| texts(&request)).collect();
    assert!(!prompts.is_empty(), "the run was approved");
    for prompt in prompts {
        assert!(prompt.contains("Keep it small\n\nThe user adds: but count the lines\n"), "{prompt}");
    }
}

// spec: interactive/run-approval-flow/approval-granted
#[test]
fn in_a_script_the_line_after_a_message_answers_the_question_that_the_message_leads_to() {
    let launches = |request: &RecordedRequest| {
        let last = request.messages().last().cloned().unwrap_or_default();
        let said = last["content"].as_str().unwrap_or_default();
        match last["role"].as_str() {
            Some("tool") => Reply::text(format!("It is done: {said}")),
            _ if said.starts_with("Compare") => Reply::call("launch_run", &json!({"task": said})),
            _ => Reply::text(format!("You said {said}.")),
        }
    };
    for (lines, runs, replies) in [
        ("Compare them\ny\n", 1, 1),
        ("Compare them\nn\n", 0, 1),
        ("Compare them\n", 0, 1),
        ("Good morning\nCompare them\ny\nThanks\n", 1, 3),
        ("Compare them\ny\nCompare those\nn\nCompare all\ny\n", 2, 3),
        // Without a question, `y` is a message.
        ("Good morning\ny\n", 0, 2),
    ] {
        let fixture = fixture(launches, |config| config);
        let output = chat(&fixture, lines, &[]).expect_code(0);
        let events = fixture.althing.events();
        let created = of_type(&events, "task_created").into_iter();
        let started = created.filter(|event| event["data"]["spec"]["kind"] == "run").count();
        assert_eq!(started, runs, "{lines:?}: {}\n{}", output.stdout, output.stderr);
        assert_eq!(output.stdout.lines().count(), replies, "{lines:?}: {}", output.stdout);
        assert_eq!(output.stdout.contains("You said y."), lines.starts_with("Good morning\ny"), "{lines:?}");
    }
}

#[test]
fn a_script_can_cancel_the_current_work_while_later_lines_wait() {
    let gate = althing_testkit::Gate::before_headers();
    let script = Script::parliament()
        .on(CHAT_MODEL)
        .nth(0, althing_testkit::Action::gated(Reply::text("Too late."), &gate))
        .on(CHAT_MODEL)
        .always(Reply::text("The second reply."));
    let fixture = Fixture::new(2, script);
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let team = Team::on(&base, 2).rule("interactive_mode", json!({"backend": backend}));
    fixture.althing.file("team.yaml", team.text());
    let running = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]).open_stdin().spawn();
    running.write_stdin("First\nSecond\n");
    gate.wait_waiting_blocking(1, LIMIT);
    running.write_stdin("/cancel\n");
    running.close_stdin();
    let output = running.wait(LIMIT).expect_code(0);
    assert_eq!(output.stdout, "The second reply.\n", "{}", output.stderr);
    gate.release_all();
}

// spec: interactive/run-approval-flow/approval-granted
#[test]
fn a_run_edited_at_its_approval_starts_as_edited() {
    let fixture = fixture(delegates(json!({"task": "Do A"})), |config| config);
    let edited = json!({"task": "Do B instead", "agent_mode": "single", "refinement": false});
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let running = command.open_stdin().spawn();
    running.write_stdin("Do A for me, all of you\n");
    running.wait_for_stderr(|line| line.contains("y approve"), LIMIT);
    running.write_stdin(format!("{edited}\n"));
    running.close_stdin();
    let output = running.wait(LIMIT).expect_code(0);
    assert!(
        output.stderr.contains("Launch this run?") && output.stderr.contains("Do A"),
        "{}",
        output.stderr
    );
    let events = fixture.althing.events();
    let created = of_type(&events, "task_created");
    let run = created.iter().find(|event| event["data"]["spec"]["kind"] == "run").unwrap();
    assert_eq!(run["data"]["spec"]["task"], "Do B instead");
    assert_eq!(run["data"]["spec"]["members"].as_array().unwrap().len(), 1);
}

#[test]
fn bad_arguments_are_returned_to_the_model_which_corrects_them() {
    let fixture = fixture(
        |request| {
            let last = request.messages().last().cloned().unwrap_or_default();
            let said = last["content"].as_str().unwrap_or_default();
            match last["role"].as_str() {
                Some("tool") if said.contains("tsak") => {
                    Reply::call("launch_run", &json!({"task": "Right now"}))
                }
                Some("tool") => Reply::text("good"),
                _ => Reply::call("launch_run", &json!({"tsak": "Wrong"})),
            }
        },
        |config| config,
    );
    let output = chat(&fixture, "Work, all of you\n", &["--approve", "always"]).expect_code(0);
    assert_eq!(output.stdout, "good\n");
    let told = texts(&chat_agent_requests(&fixture.server)[1]);
    assert!(told.contains("task"), "the nearest parameter is named: {told}");
}

#[test]
fn a_conversation_can_be_left_and_resumed() {
    let fixture = fixture(
        |request| Reply::text(format!("heard {} messages", request.messages().len())),
        |config| config,
    );
    chat(&fixture, "My name is Ada\n", &[]).expect_code(0);
    chat(&fixture, "What is my name?\n", &["--continue"]).expect_code(0);
    let last = chat_agent_requests(&fixture.server).pop().unwrap();
    assert!(texts(&last).contains("My name is Ada") && texts(&last).contains("What is my name?"));
    assert_eq!(std::fs::read_dir(fixture.althing.state_dir().join("sessions")).unwrap().count(), 1);
}

// spec: design/migration/existing-configs
#[test]
fn without_interactive_mode_each_message_is_a_run_with_the_earlier_ones_as_history() {
    let fixture = Fixture::new(2, Script::parliament());
    let output = chat(&fixture, "First question\nSecond question\n", &["--quick"]).expect_code(0);
    assert!(!output.stdout.trim().is_empty(), "the answers are the replies");
    let events = fixture.althing.events();
    let runs: Vec<&Value> = of_type(&events, "task_created")
        .into_iter()
        .filter(|event| event["data"]["spec"]["kind"] == "run")
        .collect();
    assert_eq!(runs.len(), 2, "{}", output.stderr);
    assert_eq!(runs[1]["data"]["spec"]["history"][0]["user"], "First question");
}

fn long_chat_agent(request: &RecordedRequest) -> Reply {
    // Compaction requests have no tools.
    if request.tool_names().is_empty() {
        return Reply::text("Summary of what was said so far.").without_usage();
    }
    let last = request.messages().last().cloned().unwrap_or_default();
    let said = last["content"].as_str().unwrap_or_default().to_owned();
    let padding = "word ".repeat(40);
    if last["role"] == "tool" {
        return Reply::text(format!("The run is over. {padding}")).without_usage();
    }
    match said.strip_prefix("job ").and_then(|rest| rest.split_whitespace().next()) {
        Some(number) => Reply::call(
            "launch_run",
            &json!({"task": format!("job number {number}"), "agent_mode": "single", "refinement": false}),
        )
        .without_usage(),
        None => Reply::text(format!("Noted. {padding}")).without_usage(),
    }
}

/// The lines of the log are searched as text, because parsing all of them each time takes too long.
fn accepted_messages(althing: &Althing) -> usize {
    let log = newest_session(&althing.state_dir()).expect("there is a session").join("events.jsonl");
    let text = std::fs::read_to_string(log).unwrap();
    let accepted =
        |line: &&str| line.contains(r#""type":"op_accepted""#) && line.contains(r#""op":"send_message""#);
    // A log that is being written may end in the middle of a line.
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).filter(accepted).count()
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
// spec: design/compaction/pinned
#[test]
fn three_hundred_turns_and_twenty_runs_survive_kill_9_without_a_run_launched_twice() {
    let (turns, kills) = (300, 100);
    let fixture = fixture(long_chat_agent, |mut config| {
        config["context_compaction"] =
            json!({"enabled": true, "threshold_tokens": 8000, "preserve_recent": 4});
        config
    });
    let message = |n: usize| match n {
        0 => "GOAL: build the great bridge over the river".to_owned(),
        3 => format!("PINNED: the bridge must be blue. {}", "x ".repeat(40)),
        n if n % 15 == 7 => format!("job {n} {}", "y ".repeat(40)),
        n => format!("message {n}: {}", "z ".repeat(60)),
    };
    let mut random = fastrand::Rng::with_seed(7);
    let start = |session: Option<String>| {
        let command =
            fixture.althing.new_command().args(["chat", "--config", "team.yaml", "--approve", "always"]);
        let command = match session {
            Some(id) => command.args(["--session", id.as_str()]),
            None => command,
        };
        command.open_stdin().spawn()
    };
    let session = || {
        let dir = newest_session(&fixture.althing.state_dir())?;
        dir.file_name().map(|name| name.to_string_lossy().into_owned())
    };
    // The message and its `/pin`, which keeps it verbatim in compactions, must be recorded before the first kill.
    let running = start(None);
    running.write_stdin(format!("{}\n{}\n{}\n{}\n/pin\n", message(0), message(1), message(2), message(3)));
    wait_for_event(&fixture.althing.state_dir(), LIMIT, |event| event["data"]["op"]["op"] == "pin");
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let mut killed = 1;
    while killed < kills {
        let running = start(session());
        // The log contains every accepted message. All messages that are not in it are sent again.
        wait::until(LIMIT, || session().is_some());
        let from = accepted_messages_or_zero(&fixture.althing);
        // The number of messages before the next kill is limited, so that enough messages are left for the remaining
        // kills.
        let step = 2 * (turns - from) / (kills - killed);
        let upto = (from + random.usize(0..=step)).min(turns - 1);
        let mut lines = String::new();
        for n in from..upto {
            lines += &message(n);
            lines += "\n";
        }
        running.write_stdin(lines);
        std::thread::park_timeout(Duration::from_millis(random.u64(5..120)));
        running.signal(Signal::KILL);
        running.wait(LIMIT);
        killed += 1;
    }
    let from = accepted_messages_or_zero(&fixture.althing);
    let rest: String = (from..turns).flat_map(|n| [message(n), "\n".to_owned()]).collect();
    let id = session().unwrap();
    let command = fixture.althing.new_command().args([
        "chat",
        "--config",
        "team.yaml",
        "--approve",
        "always",
        "--session",
        &id,
    ]);
    command.stdin(rest).spawn().wait(Duration::from_secs(240)).expect_code(0);
    check_long(&fixture, turns);
}

fn check_long(fixture: &Fixture, turns: usize) {
    assert_eq!(accepted_messages(&fixture.althing), turns, "every message once");
    let events = fixture.althing.events();
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for event in of_type(&events, "task_created") {
        if event["data"]["spec"]["kind"] == "run" {
            *runs.entry(event["data"]["spec"]["task"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    assert_eq!(runs.len(), turns.div_ceil(15).min(20), "{runs:?}");
    assert!(runs.values().all(|times| *times == 1), "launched twice: {runs:?}");
    let compacted = events.iter().filter(|event| event["data"]["verdict"] == "compacted").count();
    assert!(compacted > 0, "the conversation was never shortened");
    let last = chat_agent_requests(&fixture.server)
        .into_iter()
        .rev()
        .find(|request| !request.tool_names().is_empty())
        .unwrap();
    let all = texts(&last);
    assert!(all.contains("GOAL: build the great bridge"), "the goal is kept");
    assert!(all.contains("PINNED: the bridge must be blue"), "what was pinned is kept");
    assert!(
        all.contains(&format!("message {}", turns - 1)) && all.contains(&format!("message {}", turns - 3)),
        "the newest are kept"
    );
    assert!(all.len() < 60_000, "it is short: {}", all.len());
}

fn accepted_messages_or_zero(althing: &Althing) -> usize {
    if newest_session(&althing.state_dir()).is_none() { 0 } else { accepted_messages(althing) }
}
