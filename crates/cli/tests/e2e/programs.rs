//! The real CLI agents from npm against the fake model server: as tasks of a workflow, and as members of a run.
//! `ALTHING_AGENT_CLIS` is the directory where `tests/setup.sh` installed them. Without this variable nothing is
//! tested; in CI, it is a failure if the variable is missing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use althing_protocol::AGENT_KINDS;
use althing_testkit::process::Signal;
use althing_testkit::{
    Action, Althing, FakeModel, Gate, Parliament, RecordedRequest, Reply, RunningProcess, Script,
    skip_unless_ci, wait,
};
use serde_json::{Value, json};

use super::support::{LIMIT, althing, items, of_type};

/// The time that four CLI agents may take to start on two cores.
pub const START_TIMEOUT: Duration = Duration::from_secs(180);

pub fn programs() -> Option<PathBuf> {
    let dir = std::env::var_os("ALTHING_AGENT_CLIS").map(PathBuf::from);
    let found = dir.map(|dir| dir.join("node_modules/.bin")).filter(|dir| dir.join("claude").exists());
    if found.is_none() {
        skip_unless_ci("the agents' programs are not installed: see tests/setup.sh");
    }
    found
}

/// Records for `scripts/cli-checks` that the running test has passed for this CLI agent, named like its adapter or its
/// backend.
#[track_caller]
pub fn passed(cli: &str) {
    let kind = AGENT_KINDS.iter().find(|kind| [kind.adapter, kind.kind].contains(&cli)).unwrap();
    let Some(file) = std::env::var_os("ALTHING_CLI_CHECKS") else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap().rsplit("::").next().unwrap();
    let mut file = std::fs::File::options().append(true).create(true).open(file).unwrap();
    file.write_all(format!("{test} {}\n", kind.adapter).as_bytes()).unwrap();
}

pub fn with_programs(dir: &Path, server: &FakeModel) -> Althing {
    let althing = althing();
    let origin = server.base_url().trim_end_matches("/v1").to_owned();
    let home = althing.home_dir();
    let write = |name: &str, text: String| {
        let file = home.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write(
        ".codex/config.toml",
        format!(
            "model = \"codex-model\"\nmodel_provider = \"fake\"\n[model_providers.fake]\nname = \"fake\"\nbase_url = \"{origin}/v1\"\n\
             wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n"
        ),
    );
    write(
        ".gemini/settings.json",
        json!({"security": {"auth": {"selectedType": "gemini-api-key"}}}).to_string(),
    );
    let provider = json!({"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": {"baseURL": format!("{origin}/v1"), "apiKey": "k"},
        "models": {"opencode-model": {"name": "m"}}});
    write(
        ".config/opencode/opencode.json",
        json!({"model": "fake/opencode-model", "small_model": "fake/opencode-model", "provider": {"fake": provider}}).to_string(),
    );
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    althing
        .env("PATH", path)
        .env("ANTHROPIC_BASE_URL", &origin)
        .env("ANTHROPIC_API_KEY", "sk-ant-test-key-for-claude")
        .env("OPENAI_API_KEY", "sk-test-key-for-codex")
        .env("GEMINI_API_KEY", "test-key-for-gemini")
        .env("GOOGLE_GEMINI_BASE_URL", &origin)
        .env("DISABLE_TELEMETRY", "1")
        // Claude Code would install its newest version for all users of the machine.
        .env("DISABLE_AUTOUPDATER", "1")
        // Without a network, opencode would try for two seconds to load its list of models at every start.
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
}

pub fn headless(id: &str, agent: &str, prompt: &str) -> Value {
    json!({"id": id, "agent": agent, "executionMode": "headless", "prompt": prompt, "timeout_seconds": 150})
}

pub fn cli_agent_of(request: &RecordedRequest) -> &'static str {
    let path = request.path();
    let wires = [("/messages", "claude"), ("/responses", "codex"), ("GenerateContent", "gemini")];
    wires.into_iter().find(|(wire, _)| path.contains(wire)).map_or("opencode", |(_, program)| program)
}

pub fn has_sandbox(althing: &Althing) -> bool {
    let found = althing.new_command().args(["agents", "--json"]).spawn().wait(LIMIT).expect_code(0);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let sandboxed = |place: &Value| ["bubblewrap", "landlock"].contains(&place["name"].as_str().unwrap());
    found["confinement"].as_array().unwrap().iter().any(|place| sandboxed(place) && place["usable"] == true)
}

#[test]
fn four_real_programs_run_headless_in_a_sandbox_and_their_interrupted_workflow_resumes() {
    let Some(dir) = programs() else { return };
    let gate = Gate::before_headers();
    let held = gate.clone();
    // Every CLI agent is told to write to its working directory and to the home; the second stage waits at a gate.
    let script = Script::from_fn(move |request: &RecordedRequest| {
        if let Some(internal_reply) = internal_reply(request) {
            return Action::from(internal_reply);
        }
        let all = request.body().to_string();
        if all.contains("SECOND") {
            return Action::gated(Action::from(Reply::text("second done")), &held);
        }
        let name = cli_agent_of(request);
        let command = format!("echo x > {name}.txt; echo x > ../home/{name}.txt; echo tried-''it");
        let tried = all.contains("tried-it");
        let call = shell_call(request, &command, None).filter(|_| !tried);
        Action::from(call.unwrap_or_else(|| Reply::text("first done")))
    });
    let server = FakeModel::start_on_thread(script);
    let althing = with_programs(&dir, &server);
    let agents = ["claude", "codex", "gemini", "opencode"];
    let stage = |number: u8, prompt: &str| {
        let tasks = agents.map(|agent| headless(&format!("{agent}{number}"), agent, prompt));
        json!({"name": format!("stage {number}"), "tasks": tasks})
    };
    let stages = [stage(1, "FIRST task"), stage(2, "SECOND task after {{claude1.output}}")];
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let running = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]).spawn();
    let wires = ["/messages", "/responses", ":streamGenerateContent", "/chat/completions"];
    wait::until(START_TIMEOUT, || {
        let requests = server.requests();
        let mut second = requests.iter().filter(|request| request.body().to_string().contains("SECOND"));
        let paths: Vec<&str> = second.by_ref().map(RecordedRequest::path).collect();
        wires.iter().all(|wire| paths.iter().any(|path| path.contains(wire)))
    });
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let resumed = althing.new_command().args(["resume", "--json"]).spawn().wait(START_TIMEOUT).expect_code(0);
    let report: Value = serde_json::from_str(&resumed.stdout).unwrap();
    for (stage, said) in [(0, "first done"), (1, "second done")] {
        for task in report["stages"][stage]["tasks"].as_array().unwrap() {
            assert!(task["output"].as_str().unwrap().contains(said), "{task}");
            assert_eq!(task["status"], "DONE");
        }
    }
    let sandboxed = has_sandbox(&althing);
    let events = althing.events();
    let attempts = |task: &str| {
        of_type(&events, "attempt_started").into_iter().filter(|event| event["task"] == task).count()
    };
    let conversations = |task: &str| {
        let of_task = events.iter().filter(|event| event["task"] == task).cloned().collect::<Vec<_>>();
        items(&of_task, "conversation").len()
    };
    for agent in agents {
        assert_eq!(attempts(&format!("w1.{agent}1")), 1, "{agent} is not asked again for what it finished");
        assert_eq!(attempts(&format!("w1.{agent}2")), 2, "{agent} resumes what was interrupted");
        assert_eq!(conversations(&format!("w1.{agent}2")), 1, "{agent} resumes its own conversation");
        let written = |dir: PathBuf| dir.join(format!("{agent}.txt")).exists();
        assert!(!written(althing.home_dir()), "{agent} wrote outside its sandbox");
        assert_eq!(written(althing.work_dir()), sandboxed, "{agent} writes where it works");
        passed(agent);
    }
}

/// The reply to a CLI agent's internal request, such as how hard a task is. `None` for any other request.
pub fn internal_reply(request: &RecordedRequest) -> Option<Reply> {
    request.wanted_schema().map(|_| Parliament::default().reply(request))
}

/// A member on any wire format, regardless of how the CLI agent names our tools: votes if it can, else answers, and
/// ends its turn after a tool result.
pub fn member(request: &RecordedRequest) -> Reply {
    let tools: Vec<String> = request.tool_names().into_iter().map(str::to_owned).collect();
    let named = |end: &str| {
        tools.iter().find(|name| {
            name.as_str() == end
                || name.ends_with(&format!("althingtools_{end}"))
                || name.ends_with(&format!("althingtools__{end}"))
        })
    };
    if let Some(internal_reply) = internal_reply(request) {
        return internal_reply;
    }
    let body = request.body().to_string();
    // Althing's MCP endpoint returns this text for a recorded call. Only a text after the last prompt counts.
    if body.rfind("End your turn now") > body.rfind("<ORIGINAL MESSAGE ") {
        return Reply::text("My turn is over.");
    }
    let who = request.model().to_owned();
    match (named("vote"), named("new_answer")) {
        // Althing accepts `agent_id`, too. Gemini CLI checks the arguments against the tool's schema, and refuses it.
        (Some(vote), _) => Reply::call(vote.clone(), &json!({"agent_id": "agent1", "reason": "it is right"})),
        (None, Some(answer)) => {
            Reply::call(answer.clone(), &json!({"content": format!("An answer of {who}")}))
        }
        (None, None) => Reply::text(format!("Said by {who}")),
    }
}

/// Adds `althing mcp` to the settings of each CLI agent, under the name `althing`, as docs/mcp.md does.
fn offer_althing_to_every_program(dir: &Path, althing: &Althing) {
    let home = althing.home_dir();
    let mut add = std::process::Command::new(dir.join("codex"));
    add.args(["mcp", "add", "althing", "--", env!("CARGO_BIN_EXE_althing"), "mcp"]);
    add.env("HOME", &home).env_remove("CODEX_HOME").stdin(std::process::Stdio::null());
    assert!(add.status().unwrap().success());
    let server = json!({"command": env!("CARGO_BIN_EXE_althing"), "args": ["mcp"]});
    let extend = |name: &str, key: &str, value: &Value| {
        let file = home.join(name);
        let text = std::fs::read_to_string(&file).unwrap_or_else(|_| "{}".to_owned());
        let mut settings: Value = serde_json::from_str(&text).unwrap();
        settings[key] = json!({"althing": value});
        std::fs::write(file, settings.to_string()).unwrap();
    };
    extend(".claude.json", "mcpServers", &server);
    extend(".gemini/settings.json", "mcpServers", &server);
    let server = json!({"type": "local", "command": [env!("CARGO_BIN_EXE_althing"), "mcp"]});
    extend(".config/opencode/opencode.json", "mcp", &server);
}

/// A run of these CLI agents and an API model. All agents answer and vote, although the user's own settings offer
/// `althing mcp` to each CLI agent.
fn everyone_votes(programs: [&str; 2]) {
    let Some(dir) = self::programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(member));
    let althing = with_programs(&dir, &server);
    let api = json!({"type": "chatcompletion", "model": "api-model", "base_url": server.base_url()});
    offer_althing_to_every_program(&dir, &althing);
    let mut agents = vec![json!({"id": "api", "backend": api})];
    agents.extend(programs.map(|program| json!({"id": program, "backend": {"type": program}})));
    althing.file("team.yaml", json!({"agents": agents}).to_string());
    let command = althing.new_command().args(["--config", "team.yaml", "--json", "Which is best?"]);
    let output = command.spawn().wait(START_TIMEOUT).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    let summary = &result["coordination_summary"];
    assert_eq!(summary["ballots"].as_array().unwrap().len(), 3, "three ballots: {result}");
    for agent in summary["agents"].as_array().unwrap() {
        assert_eq!(agent["status"], "voted", "{result}\n{}", output.stderr);
        assert!(agent["answers"].as_u64().unwrap() >= 1, "{result}");
    }
    programs.into_iter().for_each(passed);
}

#[test]
fn claude_code_and_codex_answer_and_vote_beside_an_api_model() {
    everyone_votes(["claude_code", "codex"]);
}

#[test]
fn gemini_cli_and_opencode_answer_and_vote_beside_an_api_model() {
    everyone_votes(["gemini_cli", "opencode"]);
}

fn chat_agent_reply(request: &RecordedRequest) -> Reply {
    if let Some(internal_reply) = internal_reply(request) {
        return internal_reply;
    }
    let body = request.body().to_string();
    let launch =
        request.tool_names().into_iter().find(|name| name.ends_with("launch_run")).map(str::to_owned);
    let Some(launch) = launch else { return Parliament::default().reply(request) };
    if body.contains("result of your call to launch_run") {
        return Reply::text("The run is over, and all is told.");
    }
    if body.contains("End your turn now") {
        return Reply::text("My turn is over.");
    }
    if body.contains("made-it") {
        let run = json!({"task": "Say hi", "agent_mode": "single", "agents": ["api"], "refinement": false});
        return Reply::call(launch, &run);
    }
    let command = "echo made-''it > made.txt; cat made.txt; touch .git/hooks/x";
    shell_call(request, command, None).unwrap_or_else(|| Reply::text("there is no shell: made-it"))
}

/// A conversation with this CLI agent as chat agent: it works in the project, launches a run, and still knows the run's
/// result when it answers a second message.
fn chat_with_cli_agent(kind: &str) {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(chat_agent_reply));
    let althing = with_programs(&dir, &server);
    let api = json!({"type": "chatcompletion", "model": "api-model", "base_url": server.base_url()});
    let agents = json!([{"id": "api", "backend": api}]);
    let interactive = json!({"backend": {"type": kind}});
    let config = json!({"agents": agents, "orchestrator": {"interactive_mode": interactive}});
    althing.file("team.yaml", config.to_string());
    althing.file(".git/hooks/there", "");
    let command = althing.new_command().args(["chat", "--config", "team.yaml", "--approve", "always"]);
    // The second message begins like a command.
    let lines = "Make a file and ask the others\n/clear What did they say?\n";
    let output = command.stdin(lines).spawn().wait(START_TIMEOUT).expect_code(0);
    let told = output.stdout.matches("all is told").count();
    assert_eq!(told, 2, "a reply to each message: {}\n{}", output.stdout, output.stderr);
    let events = althing.events();
    let runs = of_type(&events, "task_created");
    assert_eq!(runs.iter().filter(|event| event["data"]["spec"]["task"] == "Say hi").count(), 1);
    assert_eq!(althing.work_dir().join("made.txt").exists(), has_sandbox(&althing), "{}", output.stderr);
    assert!(!althing.work_dir().join(".git/hooks/x").exists(), "the project's history is not its own");
    let has_launch =
        |request: &RecordedRequest| request.tool_names().iter().any(|tool| tool.ends_with("launch_run"));
    let chatting: Vec<_> = server.requests().into_iter().filter(has_launch).collect();
    for request in &chatting {
        assert!(
            !request.tool_names().iter().any(|tool| tool.ends_with("vote")),
            "{:?}",
            request.tool_names()
        );
    }
    let chatting: Vec<String> = chatting.iter().map(|request| request.body().to_string()).collect();
    for body in &chatting {
        assert!(body.contains("Answer directly: greetings"), "the guidance is missing: {body}");
        assert!(!body.contains("new_answer") && !body.contains("ask_others"), "{body}");
    }
    let second = chatting.iter().rfind(|body| body.contains("What did they say?")).unwrap();
    for known in
        ["Make a file and ask the others", "result of your call to launch_run", "Final answer of api-model"]
    {
        assert!(second.contains(known), "{known}: {second}");
    }
    passed(kind);
}

// spec: interactive/interactive-agent-delegation-behavior/complex-task-delegation
#[test]
fn claude_code_as_chat_agent_works_in_the_project_and_launches_a_run() {
    chat_with_cli_agent("claude_code");
}

// spec: interactive/interactive-agent-delegation-behavior/complex-task-delegation
#[test]
fn codex_as_chat_agent_works_in_the_project_and_launches_a_run() {
    chat_with_cli_agent("codex");
}

// spec: interactive/interactive-agent-delegation-behavior/complex-task-delegation
#[test]
fn gemini_cli_as_chat_agent_works_in_the_project_and_launches_a_run() {
    chat_with_cli_agent("gemini_cli");
}

// spec: interactive/interactive-agent-delegation-behavior/complex-task-delegation
#[test]
fn opencode_as_chat_agent_works_in_the_project_and_launches_a_run() {
    chat_with_cli_agent("opencode");
}

/// A call to the CLI agent's shell tool, whatever the CLI agent calls it. `None` if the request offers no such tool.
pub fn shell_call(request: &RecordedRequest, command: &str, for_codex: Option<&Value>) -> Option<Reply> {
    let tools = request.tool_names();
    let shells = ["Bash", "bash", "run_shell_command", "exec_command"];
    let shell = (*tools.iter().find(|tool| shells.contains(tool))?).to_owned();
    if shell != "exec_command" {
        return Some(Reply::call(shell, &json!({"command": command, "description": "makes a file"})));
    }
    let mut input = for_codex.cloned().unwrap_or_else(|| json!({}));
    input["cmd"] = command.into();
    Some(Reply::call(shell, &input))
}

pub fn command_reply(request: &RecordedRequest) -> Reply {
    if let Some(internal_reply) = internal_reply(request) {
        return internal_reply;
    }
    if request.body().to_string().contains("made-it") {
        return Reply::text("All of it is done.");
    }
    // Codex asks for permission only for what its own sandbox would not allow.
    let codex = json!({"sandbox_permissions": "require_escalated", "justification": "Make a file?"});
    let call = shell_call(request, "echo made-''it > made.txt; cat made.txt", Some(&codex));
    call.unwrap_or_else(|| Reply::text("A title"))
}

pub fn start_workflow(althing: &Althing, tasks: &[Value]) -> RunningProcess {
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "only", "tasks": tasks}]});
    althing.file("flow.yaml", flow.to_string());
    let args = ["workflow", "run", "flow.yaml", "--offline", "--stream-events=all", "--take-ops"];
    althing.new_command().args(args).open_stdin().spawn()
}

pub fn send_op(running: &RunningProcess, op: &Value) {
    running.write_stdin(format!("{op}\n"));
}

#[track_caller]
pub fn wait_for_question(running: &RunningProcess, task: &str, option: &str) -> Value {
    let option = format!(r#""id":"{option}""#);
    let of_task = format!(r#""task":"{task}""#);
    let is =
        |line: &str, kind: &str| line.contains(&of_task) && line.contains(&format!(r#""type":"{kind}""#));
    let line = running
        .wait_for_stdout(|line| is(line, "interaction_opened") && line.contains(&option), START_TIMEOUT);
    running.wait_for_stdout(|line| is(line, "status_changed") && line.contains("WAITING_FOR_USER"), LIMIT);
    let event: Value = serde_json::from_str(&line).unwrap();
    event["data"].clone()
}

pub fn option_ids(ask: &Value) -> Vec<String> {
    let ids = ask["options"].as_array().unwrap().iter().map(|option| option["id"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

fn statuses(events: &[Value], task: &str) -> Vec<String> {
    let of_task = of_type(events, "status_changed").into_iter().filter(|event| event["task"] == task);
    of_task.map(|event| event["data"]["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_permission_question_of_claude_code_in_a_terminal_is_detected_and_answered() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(command_reply));
    let althing = with_programs(&dir, &server);
    let task =
        json!({"id": "t", "agent": "claude", "executionMode": "interactive", "prompt": "Make the file"});
    let running = start_workflow(&althing, &[task]);
    // This is the CLI agent's first question: the first-start dialogs of a new installation are suppressed.
    let ask = wait_for_question(&running, "w1.t", "allow");
    assert_eq!(ask["about"], "permission", "{ask}");
    assert!(ask["text"].as_str().unwrap().contains("made.txt"), "in its own words: {ask}");
    assert_eq!(items(&althing.events(), "prompt_sent").len(), 1);
    let made = althing.work_dir().join("made.txt");
    assert!(!made.exists());
    let type_in =
        |keys: &str| send_op(&running, &json!({"op": "input", "task": "w1.t", "bytes": keys.as_bytes()}));
    // The CLI agent ignores keys just after it drew its dialog, so the key is typed again, as a person would do.
    let mut typed_at = None::<Instant>;
    wait::until(START_TIMEOUT, || {
        let answered = statuses(&althing.events(), "w1.t").len() > 2;
        if !answered && typed_at.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) {
            type_in("1");
            typed_at = Some(Instant::now());
        }
        answered
    });
    running.wait_for_stdout(
        |line| line.contains(r#""type":"output""#) && line.contains("All of it is done."),
        START_TIMEOUT,
    );
    assert_eq!(std::fs::read_to_string(made).unwrap(), "made-it\n");
    type_in("/exit");
    type_in("\r");
    running.wait(START_TIMEOUT).expect_code(0);
    // Before `/exit` ended it, the CLI agent may have been reported as waiting for its user a second time.
    let statuses = statuses(&althing.events(), "w1.t");
    assert_eq!(statuses[..3], ["RUNNING", "WAITING_FOR_USER", "RUNNING"], "{statuses:?}");
    assert_eq!(statuses.last().unwrap(), "DONE");
    // Suppressing the first-start dialogs stored no answers to them in the user's settings.
    let settings = std::fs::read_to_string(althing.home_dir().join(".claude.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings.get("hasCompletedOnboarding"), None);
    let trusted = |project: &Value| project["hasTrustDialogAccepted"] == true;
    assert!(!settings["projects"].as_object().unwrap().values().any(trusted), "{settings}");
}

#[test]
fn questions_of_each_cli_agent_in_a_terminal_are_detected_and_answered_by_name() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(command_reply));
    let althing = with_programs(&dir, &server);
    let programs = ["claude", "codex", "gemini", "opencode"].map(|agent| (agent, "allow"));
    let tasks = programs.map(|(agent, _)| {
        let cwd = althing.work_dir().join(agent);
        std::fs::create_dir(&cwd).unwrap();
        json!({"id": agent, "agent": agent, "executionMode": "interactive", "prompt": "Make the file", "cwd": cwd})
    });
    let running = start_workflow(&althing, &tasks);
    for (agent, option) in programs {
        let ask = wait_for_question(&running, &format!("w1.{agent}"), option);
        assert_eq!(ask["about"], "permission", "{ask}");
        assert!(ask["text"].as_str().unwrap().contains("cat made.txt"), "the whole command: {ask}");
        assert_eq!(option_ids(&ask), ["allow", "reject"], "{ask}");
        assert!(!althing.work_dir().join(agent).join("made.txt").exists(), "{agent} acts before it may");
        let decision = json!({"decision": "choose", "option": option});
        send_op(&running, &json!({"op": "answer", "interaction": ask["id"], "decision": decision}));
    }
    for (agent, _) in programs {
        let of_agent = format!(r#""task":"w1.{agent}""#);
        running.wait_for_stdout(
            |line| {
                line.contains(r#""type":"output""#)
                    && line.contains(&of_agent)
                    && line.contains("All of it is done.")
            },
            START_TIMEOUT,
        );
    }
    // The CLI agents would wait for the next prompt, so they are stopped.
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    for (agent, _) in programs {
        let made = std::fs::read_to_string(althing.work_dir().join(agent).join("made.txt"));
        assert_eq!(made.unwrap(), "made-it\n", "{agent}");
    }
    assert_eq!(items(&althing.events(), "prompt_sent").len(), 4, "each gets its prompt once");
    let events = althing.events();
    let asked = of_type(&events, "interaction_opened");
    let asked = asked.iter().filter(|event| event["data"]["about"] != "your_turn");
    assert_eq!(asked.count(), 4, "each asks once");
    for (agent, _) in programs {
        passed(agent);
    }
}

#[test]
fn real_cli_agents_on_pipes_ask_over_their_protocols_and_continue_with_the_answer() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(command_reply));
    let althing = with_programs(&dir, &server);
    // Without settings, as on a new installation, Althing has to choose how Gemini CLI signs in.
    let own = althing.home_dir().join(".gemini/settings.json");
    std::fs::remove_file(&own).unwrap();
    let answers = ["gemini", "opencode", "claude", "codex"].map(|agent| (agent, "allow"));
    let tasks = answers.map(|(agent, _)| {
        let cwd = althing.work_dir().join(agent);
        std::fs::create_dir(&cwd).unwrap();
        json!({"id": agent, "agent": agent, "executionMode": "headless", "approvals": true,
            "prompt": "Make the file", "cwd": cwd, "timeout_seconds": 150})
    });
    let running = start_workflow(&althing, &tasks);
    for (agent, option) in answers {
        let ask = wait_for_question(&running, &format!("w1.{agent}"), option);
        assert_eq!(ask["about"], "permission", "{ask}");
        assert!(ask["text"].as_str().unwrap().contains("cat made.txt"), "the whole command: {ask}");
        let mut ids = option_ids(&ask);
        ids.retain(|id| id != "allow_always");
        assert_eq!(ids, ["allow", "reject"], "{ask}");
        assert!(!althing.work_dir().join(agent).join("made.txt").exists(), "{agent} acts before it may");
        let decision = json!({"decision": "choose", "option": option});
        send_op(&running, &json!({"op": "answer", "interaction": ask["id"], "decision": decision}));
    }
    running.wait(START_TIMEOUT).expect_code(0);
    let events = althing.events();
    for (agent, _) in answers {
        let made = std::fs::read_to_string(althing.work_dir().join(agent).join("made.txt"));
        assert_eq!(made.unwrap(), "made-it\n", "{agent}");
        let expected = ["RUNNING", "WAITING_FOR_USER", "RUNNING", "DONE"];
        assert_eq!(statuses(&events, &format!("w1.{agent}")), expected, "{agent}");
    }
    assert!(!own.exists(), "its own settings are left alone");
    for (agent, _) in answers {
        passed(agent);
    }
}

pub fn files_named(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files_named(&path, name));
        } else if entry.file_name() == name {
            found.push(path);
        }
    }
    found
}

/// A model that writes where it must not, with offered and unoffered tools, then reads a file of the project, and then
/// gives its plan.
fn disobedient_planner(project: PathBuf) -> Script {
    let turns = std::sync::Mutex::new(std::collections::HashMap::<&'static str, usize>::new());
    Script::from_fn(move |request: &RecordedRequest| {
        if let Some(internal_reply) = internal_reply(request) {
            return internal_reply;
        }
        let name = cli_agent_of(request);
        if request.tool_names().is_empty() {
            return Reply::text("A title");
        }
        let mut turns = turns.lock().unwrap();
        let turn = turns.entry(name).or_default();
        *turn += 1;
        let (written, note) = (project.join(format!("{name}.txt")), project.join("note.txt"));
        let command = format!("echo x > {}; echo x > {name}.txt; cat {}", written.display(), note.display());
        let patch = format!("*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n", written.display());
        let run = json!({"command": command, "description": "d"});
        let [act, write, read] = match name {
            "claude" => [
                Reply::call("Bash", &run),
                Reply::call("Write", &json!({"file_path": written, "content": "x"})),
                Reply::call("Read", &json!({"file_path": note})),
            ],
            "codex" => [
                Reply::call("exec_command", &json!({"cmd": command})),
                Reply::call("apply_patch", &json!({"input": patch})),
                Reply::call("exec_command", &json!({"cmd": format!("cat {}", note.display())})),
            ],
            "gemini" => [
                Reply::call("run_shell_command", &run),
                Reply::call("write_file", &json!({"file_path": written, "content": "x"})),
                Reply::call("read_file", &json!({"file_path": note})),
            ],
            _ => [
                Reply::call("bash", &run),
                Reply::call("write", &json!({"filePath": written, "content": "x"})),
                Reply::call("read", &json!({"filePath": note})),
            ],
        };
        match *turn {
            1 => act,
            2 => write,
            3 => read,
            _ => Reply::text("1. Think. 2. Do."),
        }
    })
}

// spec: interactive/launch-run-tool/planning-mode-run
#[test]
fn real_cli_agents_that_only_plan_read_the_project_and_write_nothing() {
    let Some(dir) = programs() else { return };
    let project = tempfile::tempdir().unwrap();
    let project = project.path().canonicalize().unwrap();
    let server = FakeModel::start_on_thread(disobedient_planner(project.clone()));
    let althing = with_programs(&dir, &server);
    std::fs::write(project.join("note.txt"), "the note says forty-two").unwrap();
    for (kind, name) in
        [("claude_code", "claude"), ("codex", "codex"), ("gemini_cli", "gemini"), ("opencode", "opencode")]
    {
        althing.file("team.yaml", json!({"agents": [{"id": "a", "backend": {"type": kind}}]}).to_string());
        let path = format!("{}:rw", project.display());
        let args =
            ["--config", "team.yaml", "--plan", "--quick", "--json", "--context-path", &path, "Plan it"];
        let output = althing.new_command().args(args).spawn().wait(START_TIMEOUT).expect_code(0);
        let result: Value = serde_json::from_str(&output.stdout).unwrap();
        assert!(result["final_answer"].as_str().unwrap().contains("Think"), "{kind}: {result}");
        let file = format!("{name}.txt");
        assert!(!project.join(&file).exists(), "{kind} wrote to the project while it planned");
        let here = files_named(&althing.state_dir(), &file);
        assert!(here.is_empty(), "{kind} wrote to its workspace while it planned: {here:?}");
        let read = server.requests().iter().any(|request| {
            cli_agent_of(request) == name && request.body().to_string().contains("the note says forty-two")
        });
        assert!(read, "{kind} could not read the project");
        passed(kind);
    }
}

#[test]
fn a_real_cli_agent_writes_to_a_context_path_but_not_to_its_git_directory_and_protected_paths() {
    let Some(dir) = programs() else { return };
    let project = tempfile::tempdir().unwrap();
    let project = project.path().canonicalize().unwrap();
    for place in [".git/hooks", "locked"] {
        std::fs::create_dir_all(project.join(place)).unwrap();
    }
    std::fs::write(project.join("kept.txt"), "before").unwrap();
    let in_project = project.clone();
    let script = Script::from_fn(move |request: &RecordedRequest| {
        if let Some(internal_reply) = internal_reply(request) {
            return internal_reply;
        }
        let project = in_project.display();
        let command = format!(
            "cd {project}; echo x > kept.txt; echo x > .git/hooks/x; echo x > locked/x; echo tried-''it"
        );
        let tried = request.body().to_string().contains("tried-it");
        let call = shell_call(request, &command, None).filter(|_| !tried);
        call.unwrap_or_else(|| Reply::text("All of it is done."))
    });
    let server = FakeModel::start_on_thread(script);
    let althing = with_programs(&dir, &server);
    if !has_sandbox(&althing) {
        skip_unless_ci("no sandbox works here");
        return;
    }
    let context = json!([{"path": project, "permission": "write", "protected_paths": ["locked"]}]);
    for kind in ["claude_code", "codex", "gemini_cli", "opencode"] {
        let agents = json!([{"id": "a", "backend": {"type": kind}}]);
        let config = json!({"agents": agents, "orchestrator": {"context_paths": context}});
        althing.file("team.yaml", config.to_string());
        let args = ["--config", "team.yaml", "--quick", "--json", "Do it"];
        let output = althing.new_command().args(args).spawn().wait(START_TIMEOUT).expect_code(0);
        let result: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(std::fs::read_to_string(project.join("kept.txt")).unwrap(), "x\n", "{kind}: {result}");
        for place in [".git/hooks/x", "locked/x"] {
            assert!(!project.join(place).exists(), "{kind} wrote to {place}");
        }
        let writes = result["context_path_writes"].as_array().unwrap();
        assert_eq!(writes.len(), 1, "{kind}: {writes:?}");
        let log_dir = Path::new(result["log_dir"].as_str().unwrap());
        let session = log_dir.ancestors().nth(2).and_then(Path::file_name).unwrap().to_str().unwrap();
        althing.new_command().args(["undo", session]).spawn().wait(LIMIT).expect_code(0);
        assert_eq!(std::fs::read_to_string(project.join("kept.txt")).unwrap(), "before", "{kind}");
        passed(kind);
    }
}

/// The first request with Althing's tools that the real CLI agents of these kinds send as members of one run, with
/// these options. No member gets a reply.
fn first_requests(dir: &Path, members: &[(&str, Value)]) -> Vec<RecordedRequest> {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let offers_ours =
        |request: &RecordedRequest| request.tool_names().iter().any(|name| name.ends_with("new_answer"));
    let server = FakeModel::start_on_thread(Script::from_fn(move |request: &RecordedRequest| {
        let reply = Action::from(internal_reply(request).unwrap_or_else(|| Reply::text("A title")));
        if offers_ours(request) { Action::gated(reply, &held) } else { reply }
    }));
    let althing = with_programs(dir, &server);
    let file = althing.home_dir().join(".config/opencode/opencode.json");
    let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let mut agents = Vec::new();
    for (number, (kind, options)) in members.iter().enumerate() {
        let model = format!("model-{number}");
        // opencode knows variants only of models that reason.
        settings["provider"]["fake"]["models"][&model] = json!({"name": model, "reasoning": true});
        let name = if *kind == "opencode" { format!("fake/{model}") } else { model };
        let mut backend = json!({"type": kind, "model": name});
        backend.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        agents.push(json!({"id": format!("a{number}"), "backend": backend}));
    }
    std::fs::write(file, settings.to_string()).unwrap();
    althing.file("team.yaml", json!({"agents": agents}).to_string());
    // Where no sandbox works, CLI agents would have fewer tools without `--unconfined`.
    let args = ["--config", "team.yaml", "--unconfined", "--json", "Which is best?"];
    let running = althing.new_command().args(args).spawn();
    let requests = (0..members.len()).map(|number| {
        let model = format!("model-{number}");
        wait::until_some(START_TIMEOUT, || {
            let requests = server.requests();
            requests.iter().find(|request| request.model() == model && offers_ours(request)).cloned()
        })
    });
    let requests = requests.collect();
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    requests
}

#[test]
fn a_real_cli_agent_gets_no_disallowed_tool_but_keeps_ours() {
    let Some(dir) = programs() else { return };
    let kinds = [
        ("claude_code", "Bash", "Read"),
        ("gemini_cli", "run_shell_command", "read_file"),
        ("opencode", "bash", "read"),
    ];
    let members = kinds.iter().flat_map(|(kind, denied, kept)| {
        let lists = [json!({}), json!({"disallowed_tools": [denied]}), json!({"allowed_tools": [kept]})];
        lists.map(|options| (*kind, options))
    });
    let members: Vec<_> = members.collect();
    let requests = first_requests(&dir, &members);
    for ((kind, denied, kept), requests) in kinds.into_iter().zip(requests.chunks(3)) {
        let [usual, without, only] = [0, 1, 2].map(|number| requests[number].tool_names());
        assert!(usual.contains(&denied) && usual.contains(&kept), "{kind}: {usual:?}");
        assert!(!without.contains(&denied) && without.contains(&kept), "{kind}: {without:?}");
        assert!(!only.contains(&denied) && only.contains(&kept), "{kind}: {only:?}");
        assert!(only.len() < without.len(), "{kind}: {only:?}");
        passed(kind);
    }
}

#[test]
fn a_real_cli_agent_gets_the_prompts_of_its_config() {
    let Some(dir) = programs() else { return };
    let mut members = Vec::new();
    for row in AGENT_KINDS {
        let keys = ["system_prompt", "append_system_prompt"].into_iter();
        let keys = keys.filter(|key| row.instead_of(key).is_none());
        members.extend(keys.map(|key| (row.kind, json!({ key: "Speak like a pirate." }))));
    }
    for ((kind, options), request) in members.iter().zip(first_requests(&dir, &members)) {
        let body = request.body().to_string();
        assert!(body.contains("Speak like a pirate."), "{kind} {options}: {body}");
        passed(kind);
    }
}

#[test]
fn a_real_cli_agent_asks_its_model_for_the_configured_reasoning_effort() {
    let Some(dir) = programs() else { return };
    let kinds = [("claude_code", "effort"), ("codex", "effort"), ("opencode", "reasoning_effort")];
    let asked = kinds.iter().flat_map(|(kind, key)| ["low", "high"].map(|effort| (*kind, *key, effort)));
    let asked: Vec<_> = asked.collect();
    let member = |(kind, _, effort): &(&'static str, _, &str)| (*kind, json!({ "reasoning_effort": effort }));
    let members: Vec<_> = asked.iter().map(member).collect();
    for ((kind, key, effort), request) in asked.into_iter().zip(first_requests(&dir, &members)) {
        let body = request.body().to_string();
        assert!(body.contains(&format!("\"{key}\":\"{effort}\"")), "{kind}: {body}");
        passed(kind);
    }
}
