//! `launch_run.context_paths`, judged by what agents can really read: without approval only what is in the working
//! directory or the opened project; with a person's approval anything.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use althing_testkit::{Action, Althing, FakeModel, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{LIMIT, Team, althing, of_type, task_of, texts};

const TALKER: &str = "talker";

const CONTENT: &str = "the word is swordfish";

struct Scene {
    server: FakeModel,
    althing: Althing,
    /// A directory outside the working directory, which a run may read only with approval.
    outside: PathBuf,
}

fn reader(request: &RecordedRequest) -> Action {
    let text = texts(request);
    let task = task_of(&text).unwrap_or_default();
    let file = task.lines().next().and_then(|line| line.strip_prefix("Read ")).unwrap_or("/nowhere");
    let result = request.messages().iter().rev().find(|message| message["role"] == "tool");
    match result {
        None => Reply::call("read_file", &json!({ "path": file })).into(),
        Some(result) => {
            Reply::text(format!("Seen: {}", result["content"].as_str().unwrap_or_default())).into()
        }
    }
}

/// Launches the run that the message contains as JSON, and reports its result.
fn talker(request: &RecordedRequest) -> Action {
    let last = request.messages().last().cloned().unwrap_or_default();
    if last["role"] == "tool" {
        return Reply::text(format!("Returned: {}", last["content"].as_str().unwrap_or_default())).into();
    }
    let text = request.last_user_text();
    let launch = text.find('{').and_then(|at| serde_json::from_str::<Value>(&text[at..]).ok());
    Reply::call("launch_run", &launch.unwrap_or_default()).into()
}

const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, re, sys
prompt = sys.stdin.read()
file = re.findall(r"<ORIGINAL MESSAGE \w+>\nRead (.*)", prompt)[-1]
try:
    said = "Seen: " + open(file).read()
except OSError as error:
    said = "Seen: nothing, " + str(error)
print(json.dumps({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": said}]}}))
print(json.dumps({"type": "result", "is_error": False, "result": said, "usage": {"input_tokens": 1, "output_tokens": 1}}))
"#;

impl Scene {
    /// The agent `a` is a model, and `b` is a CLI agent.
    fn new(require_approval: bool) -> Self {
        let script = Script::from_fn(reader).on(TALKER).always(Action::with(talker));
        let server = FakeModel::start_on_thread(script);
        let althing = althing();
        let outside = althing.work_dir().parent().unwrap().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("far.txt"), CONTENT).unwrap();
        for name in ["src/near.txt", "conf/.env", ".env.local", ".git/config"] {
            althing.file(name, CONTENT);
        }
        symlink(&outside, althing.work_dir().join("link")).unwrap();
        symlink(althing.work_dir().join("conf/.env"), althing.work_dir().join("settings")).unwrap();
        symlink(althing.work_dir().join("src"), althing.work_dir().join("code")).unwrap();
        let bin = althing.home_dir().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("claude"), CLAUDE).unwrap();
        std::fs::set_permissions(bin.join("claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let althing = althing.env("PATH", path).env("ANTHROPIC_API_KEY", "sk-ant-test-key");
        let base = server.base_url();
        let backend = json!({"type": "chatcompletion", "model": TALKER, "base_url": base});
        let mode = json!({"require_approval": require_approval, "backend": backend});
        let mut config: Value =
            serde_json::from_str(&Team::on(&base, 2).rule("interactive_mode", mode).text()).unwrap();
        config["agents"][1]["backend"] = json!({"type": "claude_code"});
        althing.file("team.yaml", config.to_string());
        Self { server, althing, outside }
    }

    fn near(&self, name: &str) -> PathBuf {
        self.althing.work_dir().canonicalize().unwrap().join(name)
    }

    fn far(&self) -> PathBuf {
        self.outside.canonicalize().unwrap().join("far.txt")
    }

    fn chat(&self, lines: &str, args: &[&str]) -> String {
        let command = self.althing.new_command().args(["chat", "--config", "team.yaml"]).args(args);
        command.stdin(lines).spawn().wait(LIMIT).expect_code(0).stdout
    }

    fn runs(&self) -> usize {
        let events = self.althing.events();
        of_type(&events, "task_created").iter().filter(|event| event["data"]["spec"]["kind"] == "run").count()
    }

    fn is_known(&self) -> bool {
        self.server.requests().iter().any(|request| texts(request).contains(CONTENT))
    }
}

fn launch(agent: &str, file: &Path, path: &Path, permission: &str) -> Value {
    json!({"task": format!("Read {}", file.display()), "agent_mode": "single", "agents": [agent],
        "refinement": false, "context_paths": [{"path": path, "permission": permission}]})
}

/// Launches that are refused if nobody approves the run, each with words that the refusal must contain.
fn refused(scene: &Scene) -> Vec<(Value, &'static str)> {
    let far = scene.far();
    let up = scene.near("src/../../far.txt");
    let read = |file: &Path, path: &Path| launch("a", file, path, "read");
    vec![
        (read(&far, &far), "may not be read without the user's approval"),
        (read(&far, Path::new("/")), "may not be read without the user's approval"),
        (read(&far, &up), "without `..`"),
        (read(&scene.near("link/far.txt"), &scene.near("link")), "is a link to"),
        (read(&scene.near("link/far.txt"), &scene.near("link/far.txt")), "is a link to"),
        (read(&scene.near("settings"), &scene.near("settings")), "is a link to"),
        (read(&scene.near(".env.local"), &scene.near(".env.local")), "may contain secrets"),
        (read(&scene.near("conf/.env"), &scene.near("conf/.env")), "may contain secrets"),
        (read(&scene.near("conf/.env"), &scene.near("conf")), "may contain secrets"),
        (read(&scene.near(".env.local"), &scene.near("")), "may contain secrets"),
        (read(&scene.near("typo.txt"), &scene.near("typo.txt")), "does not exist"),
        (read(&scene.near(".git/config"), &scene.near(".git")), "may contain secrets"),
        (launch("a", &scene.near("src/near.txt"), &scene.near("src"), "write"), "may not be written to"),
    ]
}

/// Launches that need no approval: a file, a directory, and a link that stays in the working directory.
fn allowed(scene: &Scene) -> Vec<Value> {
    let near = scene.near("src/near.txt");
    let read = |agent, path: &Path| launch(agent, &near, path, "read");
    vec![
        read("a", &near),
        read("a", &scene.near("src")),
        read("b", &scene.near("src")),
        // `code` is a link to `src`: the run gets the real path, and so can read `src/near.txt`, which the task names.
        read("a", &scene.near("code")),
    ]
}

// spec: design/launch-run/context-paths
#[test]
fn without_approval_a_chat_agents_run_reads_in_the_working_directory_and_nowhere_else() {
    let scene = Scene::new(false);
    for launch in allowed(&scene) {
        let said = scene.chat(&format!("{launch}\n"), &[]);
        assert!(said.contains(CONTENT), "{launch}: {said}");
    }
    let scene = Scene::new(false);
    for (launch, reason) in refused(&scene) {
        let said = scene.chat(&format!("{launch}\n"), &[]);
        assert!(said.contains(reason), "{launch}: {said}");
        assert!(!scene.is_known(), "{launch}: {said}");
    }
}

// spec: design/launch-run/context-paths
#[test]
fn without_approval_an_mcp_clients_run_reads_in_the_working_directory_and_nowhere_else() {
    let scene = Scene::new(false);
    let mut client = Client::start(&scene.althing, &["--config", "team.yaml"]);
    for launch in allowed(&scene) {
        let returned = client.tool("launch_run", &launch);
        let answer = returned["structuredContent"]["final_answer"].as_str().unwrap_or_default();
        assert!(answer.contains(CONTENT), "{launch}: {returned}");
    }
    let scene = Scene::new(false);
    let mut client = Client::start(&scene.althing, &["--config", "team.yaml"]);
    for (launch, reason) in refused(&scene) {
        let returned = client.tool("launch_run", &launch);
        let text = returned["content"][0]["text"].as_str().unwrap_or_default();
        assert!(returned["isError"] == true && text.contains(reason), "{launch}: {returned}");
        assert!(!scene.is_known(), "{launch}: {returned}");
    }
    assert!(!scene.althing.state_dir().join("sessions").exists(), "no run was started");
}

// spec: design/launch-run/context-paths
#[test]
fn an_mcp_client_that_can_ask_its_user_asks_for_what_is_not_open() {
    let scene = Scene::new(false);
    let can_ask = json!({"elicitation": {"form": {}}});
    let mut client = Client::with(&scene.althing, &["--config", "team.yaml"], &can_ask);
    for (agent, action) in [("a", "decline"), ("a", "accept"), ("b", "accept")] {
        let launch = launch(agent, &scene.far(), &scene.far(), "read");
        let (question, returned) = client.tool_with_question("launch_run", &launch, action);
        let message = question["params"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("may not be read without the user's approval")
                && message.contains(&scene.far().display().to_string()),
            "{question}"
        );
        let answer = returned["structuredContent"]["final_answer"].as_str().unwrap_or_default();
        assert_eq!(answer.contains(CONTENT), action == "accept", "{returned}");
        assert_eq!(returned["isError"] == true, action == "decline", "{returned}");
    }
    // The question names the path behind a link, for reading and for writing, and the run gets that path.
    for permission in ["read", "write"] {
        let launch = launch("a", &scene.far(), &scene.near("link"), permission);
        let (question, returned) = client.tool_with_question("launch_run", &launch, "accept");
        let message = question["params"]["message"].as_str().unwrap_or_default();
        let (named, outside) = (scene.near("link"), scene.outside.canonicalize().unwrap());
        let (question, _) = message.split_once("`context_paths`").unwrap_or_default();
        assert!(
            question.contains(&outside.display().to_string())
                && !question.contains(&named.display().to_string()),
            "{message}"
        );
        let answer = returned["structuredContent"]["final_answer"].as_str().unwrap_or_default();
        assert!(answer.contains(CONTENT), "{returned}");
    }
    // What was accepted holds for that run only.
    for agent in ["a", "b"] {
        let mut later = launch(agent, &scene.far(), &scene.far(), "read");
        later.as_object_mut().unwrap().remove("context_paths");
        let returned = client.tool("launch_run", &later);
        let answer = returned["structuredContent"]["final_answer"].as_str().unwrap_or_default();
        assert!(answer.contains("Seen: ") && !answer.contains(CONTENT), "{agent}: {returned}");
    }
    // For a file in the working directory, the client is not asked.
    let near = scene.near("src/near.txt");
    let returned = client.tool("launch_run", &launch("a", &near, &near, "read"));
    assert!(returned["structuredContent"]["final_answer"].as_str().unwrap().contains(CONTENT), "{returned}");
}

// spec: design/launch-run/context-paths
// spec: interactive/run-approval-flow/approval-not-required
#[test]
fn in_a_terminal_a_person_is_asked_for_what_is_not_open_and_for_nothing_else() {
    for (args, ready, shown, yes, no) in [
        (&["chat"][..], "", "Launch this run?", "y\r", "n\r"),
        (&[][..], "Type a message...", "Launch this run?", "\r", "\x1b"),
    ] {
        for approves in [true, false] {
            let scene = Scene::new(false);
            let command = scene.althing.new_command().args(args).args(["--config", "team.yaml"]);
            let mut terminal = command.terminal(200, 50);
            terminal.wait_for(ready, LIMIT);
            let near = scene.near("src/near.txt");
            terminal.keys(&format!("{}\r", launch("a", &near, &near, "read")));
            terminal.wait_for("Returned: ", LIMIT);
            assert!(!terminal.screen().contains(shown), "{}", terminal.screen());
            assert_eq!(scene.runs(), 1);
            assert!(scene.is_known());
            let asked = scene.server.request_count();
            terminal.keys(&format!("{}\r", launch("a", &scene.far(), &scene.far(), "read")));
            terminal.wait_for(shown, LIMIT);
            assert_eq!(scene.runs(), 1, "the run waits for the answer");
            terminal.keys(if approves { yes } else { no });
            let read =
                |request: &RecordedRequest| request.model() != TALKER && texts(request).contains(CONTENT);
            // The chat agent's first call, the calls of the run if there is one, and the chat agent's report.
            let wanted = asked + if approves { 4 } else { 2 };
            scene.server.wait_for_requests_blocking(wanted, LIMIT);
            assert_eq!(scene.server.requests().iter().skip(asked).any(read), approves);
            assert_eq!(scene.runs(), if approves { 2 } else { 1 });
        }
    }
}

// spec: design/launch-run/context-paths
#[test]
fn where_runs_are_approved_a_launch_may_open_any_path() {
    let scene = Scene::new(true);
    let far = scene.far();
    for agent in ["a", "b"] {
        let said = scene.chat(&format!("{}\n", launch(agent, &far, &far, "read")), &["--approve", "always"]);
        assert!(said.contains(CONTENT), "{said}");
        let said = scene.chat(&format!("{}\n", launch(agent, &far, &far, "read")), &["--approve", "never"]);
        assert!(!said.contains(CONTENT), "{said}");
        // Nobody is asked about a workflow's runs, which its author wrote, or about a path that the user typed.
        let flow = json!({"name": "n", "goal": "g", "stages": [
            {"name": "s", "tasks": [{"id": "t", "run": launch(agent, &far, &far, "read")}]}]});
        scene.althing.file("flow.yaml", flow.to_string());
        let args = ["workflow", "run", "flow.yaml", "--config", "team.yaml"];
        let output = scene.althing.new_command().args(args).spawn().wait(LIMIT).expect_code(0);
        assert!(output.stdout.contains(CONTENT), "{output:?}");
        let (task, path) = (format!("Read {}", far.display()), far.display().to_string());
        let args = ["--config", "team.yaml", "--automation", "--quick", "--single-agent", agent];
        let command = scene.althing.new_command().args(args).args(["--context-path", &path, &task]);
        let output = command.spawn().wait(LIMIT).expect_code(0);
        assert!(output.stdout.contains(CONTENT), "{output:?}");
    }
}

// spec: design/launch-run/context-paths
#[test]
fn without_approval_a_run_reads_in_the_opened_project_but_not_in_an_unopened_one() {
    for opened in [true, false] {
        let scene = Scene::new(false);
        let far = scene.far();
        let project = far.parent().unwrap().to_owned();
        let mut command = scene.althing.new_command().args(["chat", "--config", "team.yaml"]);
        if opened {
            command = command.arg("--project").arg(&project);
        }
        let lines = format!("{}\n", launch("a", &far, &far, "read"));
        let said = command.stdin(lines).spawn().wait(LIMIT).expect_code(0).stdout;
        assert_eq!(said.contains(CONTENT), opened, "{said}");
        let scene = Scene { outside: scene.outside, ..Scene::new(false) };
        let project = project.display().to_string();
        let args = ["--config", "team.yaml", "--project", &project];
        let mut client = Client::start(&scene.althing, if opened { &args } else { &args[..2] });
        for agent in ["a", "b"] {
            let returned = client.tool("launch_run", &launch(agent, &far, &far, "read"));
            assert_eq!(returned.to_string().contains(CONTENT), opened, "{agent}: {returned}");
        }
    }
}

// spec: design/launch-run/context-paths
#[test]
fn a_home_directory_as_working_directory_opens_nothing() {
    let scene = Scene::new(false);
    let near = scene.near("src/near.txt");
    let home = scene.althing.work_dir();
    let command = scene.althing.new_command().args(["chat", "--config", "team.yaml"]).env("HOME", &home);
    let lines = format!("{}\n", launch("a", &near, &near, "read"));
    let said = command.stdin(lines).spawn().wait(LIMIT).expect_code(0).stdout;
    assert!(said.contains("may not be read without the user's approval"), "{said}");
    let mut client =
        Client::start(&scene.althing.new_command().env("HOME", &home), &["--config", "team.yaml"]);
    let returned = client.tool("launch_run", &launch("a", &near, &near, "read"));
    let text = returned["content"][0]["text"].as_str().unwrap_or_default();
    assert!(
        returned["isError"] == true && text.contains("may not be read without the user's approval"),
        "{returned}"
    );
    assert!(!scene.is_known());
}

// spec: design/launch-run/mode-matrix
// spec: interactive/launch-run-tool/tool-schema-definition
#[test]
fn a_launch_that_names_one_agent_is_a_multi_run_of_that_agent_by_default() {
    let scene = Scene::new(false);
    let near = scene.near("src/near.txt");
    let mut client = Client::start(&scene.althing, &["--config", "team.yaml"]);
    for mode in [json!("multi"), Value::Null] {
        let mut alone = launch("a", &near, &near, "read");
        (alone["agent_mode"], alone["refinement"]) = (mode, Value::Null);
        let returned = client.tool("launch_run", &alone);
        let result = &returned["structuredContent"];
        assert_eq!(result["modes"]["agent_mode"], "multi", "{returned}");
        assert_eq!(result["modes"]["refinement"], true, "as for every multi run");
        let agents = result["coordination_summary"]["agents"].as_array().unwrap();
        assert_eq!((agents.len(), &agents[0]["id"]), (1, &json!("a")));
    }
}
