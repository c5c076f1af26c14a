//! Row S6b of docs/reliability.md: a `.env` or config that Althing finds in a directory may call any text a secret. This
//! must not change what Althing does or shows: commands, arguments, variables, paths, protections, approvals and lists of
//! files stay as the user wrote them.

use std::path::{Path, PathBuf};

use althing_testkit::process::Signal;
use althing_testkit::{Action, Althing, Gate, Output, RecordedRequest, Reply, Script, wait};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{Fixture, LIMIT, althing, items, run};

/// A config that needs no trust and calls this text a secret.
fn found_config(text: &str) -> String {
    let backend = json!({"type": "ollama", "model": "x", "stop": ["--password", text]});
    json!({"agents": [{"id": "a", "backend": backend}]}).to_string()
}

/// Makes a script in a directory of the user, and somebody else's script in a directory whose name is the mask
/// `[secret]`.
fn with_scripts() -> (Althing, PathBuf) {
    let althing = althing().env("OLLAMA_HOST", "127.0.0.1:9");
    let bin = althing.home_dir().canonicalize().unwrap().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("check.sh"), "echo the own script ran\n").unwrap();
    althing.file("[secret]/check.sh", "touch planted-ran\n");
    (althing, bin)
}

fn flow(althing: &Althing, stages: &[Value]) -> PathBuf {
    let stages: Vec<Value> = (1..)
        .zip(stages)
        .map(|(n, task): (usize, _)| json!({"name": format!("s{n}"), "tasks": [task]}))
        .collect();
    let path = althing.home_dir().join("flow.yaml");
    std::fs::write(&path, json!({"name": "f", "goal": "g", "stages": stages}).to_string()).unwrap();
    path
}

fn command(id: &str, words: &[&str]) -> Value {
    json!({"id": id, "agent": "command", "command": words, "executionMode": "headless", "prompt": "p"})
}

fn run_flow(althing: &Althing, path: &Path) -> Output {
    run(althing, &["workflow", "run", path.to_str().unwrap()])
}

#[test]
fn a_found_config_changes_no_command_of_the_users_own_workflow() {
    let (althing, bin) = with_scripts();
    let script = bin.join("check.sh");
    let path = flow(&althing, &[command("check", &["sh", script.to_str().unwrap()])]);
    althing.file("althing.yaml", found_config(bin.to_str().unwrap()));
    let output = run_flow(&althing, &path);
    assert!(!althing.work_dir().join("planted-ran").exists(), "{output:?}");
    let output = output.expect_code(0);
    assert!(output.stdout.contains("the own script ran"), "{output:?}");
}

#[test]
fn a_found_config_changes_no_command_of_a_resumed_workflow() {
    let (althing, bin) = with_scripts();
    let (script, wait_for_go) =
        (bin.join("check.sh"), "touch started; while [ ! -e go ]; do sleep 0.02; done");
    let stages =
        [command("one", &["sh", "-c", wait_for_go]), command("two", &["sh", script.to_str().unwrap()])];
    let path = flow(&althing, &stages);
    althing.file("althing.yaml", found_config(bin.to_str().unwrap()));
    let running = althing.new_command().args(["workflow", "run", path.to_str().unwrap()]).spawn();
    let work = althing.work_dir();
    wait::until(LIMIT, || work.join("started").exists());
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    althing.file("go", "");
    let output = run(&althing, &["resume"]);
    assert!(!work.join("planted-ran").exists(), "{output:?}");
    assert!(output.expect_code(0).stdout.contains("the own script ran"));
}

#[test]
fn a_found_dotenv_file_changes_no_command_argument_or_variable_of_the_users_own_workflow() {
    let althing = althing();
    althing.file("prog.sh", "cat >/dev/null\necho \"$* MODE=$MODE\" >> seen\n");
    let said = ["--deny=push-main-2024", "--ignore-scripts=true"];
    let words = |who: &'static str| ["prog.sh", who, said[0], said[1]];
    let env = json!({"MODE": "push-main-2024"});
    let task = |who: &'static str, sandbox: bool| {
        let mut task = command(who, &[&["sh"], &words(who)[..]].concat());
        (task["env"], task["sandbox"]) = (env.clone(), sandbox.into());
        task
    };
    let custom = json!({"id": "custom", "agent": "tool", "executionMode": "headless", "prompt": "p"});
    let path = flow(&althing, &[task("outside", false), task("inside", true), custom]);
    let mut file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let arguments = words("custom");
    file["adapters"] =
        json!({"tool": {"program": "/bin/sh", "args": arguments, "headless_args": arguments, "env": env}});
    std::fs::write(&path, file.to_string()).unwrap();
    althing.file(".env", format!("A_TOKEN={}\nB_TOKEN={}\nC_TOKEN=push-main-2024\n", said[0], said[1]));
    let output = run_flow(&althing, &path).expect_code(0);
    let seen = std::fs::read_to_string(althing.work_dir().join("seen")).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    let expected = ["outside", "inside", "custom"]
        .map(|who| format!("{who} {} {} MODE=push-main-2024", said[0], said[1]));
    assert_eq!(lines, expected, "{output:?}");
}

/// Calls this tool once and then answers.
fn calls_once(tool: &'static str, arguments: Value) -> Script {
    Script::from_fn(move |request: &RecordedRequest| -> Action {
        let result = request.messages().iter().rev().find(|message| message["role"] == "tool").cloned();
        match result {
            None if request.tool_names().contains(&tool) => Reply::call(tool, &arguments).into(),
            result => {
                let text =
                    format!("Done: {}", result.unwrap_or_default()["content"].as_str().unwrap_or_default());
                if request.tool_names().contains(&"new_answer") {
                    Reply::new_answer(&text).into()
                } else {
                    Reply::text(text).into()
                }
            }
        }
    })
}

/// Calls this tool in the presentation, because context paths can be written to only then.
fn acts_at_the_end(tool: &'static str, arguments: Value) -> Script {
    Script::from_fn(move |request: &RecordedRequest| {
        let has_result = request.messages().iter().any(|message| message["role"] == "tool");
        if request.tool_names().contains(&"vote") {
            Reply::vote("agent1", "It is the only one")
        } else if request.tool_names().contains(&"new_answer") {
            Reply::new_answer("An answer")
        } else if has_result {
            Reply::text("The end")
        } else {
            Reply::call(tool, &arguments)
        }
    })
}

fn place(dir: &tempfile::TempDir, name: &str) -> PathBuf {
    dir.path().canonicalize().unwrap().join(name)
}

#[test]
fn a_found_dotenv_file_removes_no_protection_of_the_users_own_config() {
    let dir = tempfile::tempdir().unwrap();
    let file = place(&dir, "prod-config-2024.yml");
    std::fs::write(&file, "original").unwrap();
    // The command does not contain the name itself.
    let line =
        format!("cd {}; for f in prod-c*; do echo overwritten > $f; done", file.parent().unwrap().display());
    let script = acts_at_the_end("run_command", json!({"command": line}));
    let paths =
        json!([{"path": file.parent(), "permission": "write", "protected_paths": ["prod-config-2024.yml"]}]);
    let fixture = Fixture::with(1, script, |team| {
        let team = team.every_backend("enable_mcp_command_line", true);
        team.every_backend("command_line_execution_mode", "local").rule("context_paths", paths)
    });
    fixture.althing.file(".env", "A_TOKEN=prod-config-2024.yml\n");
    let output = fixture.run(&["task"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "original", "{output:?}");
    let events = fixture.althing.events();
    let results = items(&events, "tool_result");
    let said = results.iter().any(|result| result["content"].to_string().contains("Read-only file system"));
    assert!(said, "the command was tried: {results:?}");
}

/// The ways in which a found `.env` can call `work2024x` a secret: by a name, or as a variable that the config uses.
const WAYS: [(&str, &str); 2] = [("A_TOKEN", "sk-of-the-user-0123456789"), ("PLAIN_WORD", "${PLAIN_WORD}")];

/// A team whose agent writes `work2024x/new2024x.txt` in a directory that also contains `[secret]`.
fn writing_team(dir: &tempfile::TempDir, (variable, api_key): (&str, &str), gate: Option<&Gate>) -> Fixture {
    for name in ["work2024x", "[secret]"] {
        std::fs::create_dir_all(place(dir, name)).unwrap();
    }
    let arguments = json!({"path": place(dir, "work2024x/new2024x.txt"), "content": "c"});
    let mut script = acts_at_the_end("write_file", arguments);
    if let Some(gate) = gate {
        script = script.nth(0, Action::gated(Reply::text("never sent"), gate));
    }
    let fixture =
        Fixture::with(1, script, |team| team.every_backend("cwd", "here").every_backend("api_key", api_key));
    fixture.althing.file(".env", format!("{variable}=work2024x\n"));
    fixture
}

fn assert_written(dir: &tempfile::TempDir, output: &Output) {
    assert!(place(dir, "work2024x/new2024x.txt").exists(), "{output:?}");
    let planted = std::fs::read_dir(place(dir, "[secret]")).unwrap().count();
    assert_eq!(planted, 0, "another directory was granted: {output:?}");
}

#[test]
fn a_found_dotenv_file_grants_no_other_directory() {
    for way in WAYS {
        let dir = tempfile::tempdir().unwrap();
        let fixture = writing_team(&dir, way, None);
        let grant = format!("{}:rw", place(&dir, "work2024x").display());
        let output = fixture.run(&["--context-path", &grant, "task"]).expect_code(0);
        assert_written(&dir, &output);
    }
}

#[test]
fn a_found_dotenv_file_grants_no_other_directory_when_a_session_is_resumed() {
    for way in WAYS {
        let (dir, gate) = (tempfile::tempdir().unwrap(), Gate::before_headers());
        let fixture = writing_team(&dir, way, Some(&gate));
        let grant = format!("{}:rw", place(&dir, "work2024x").display());
        let running = fixture.spawn(&["--context-path", &grant, "task"]);
        gate.wait_waiting_blocking(1, LIMIT);
        running.signal(Signal::KILL);
        running.wait(LIMIT);
        gate.release_all();
        assert_written(&dir, &fixture.resume().expect_code(0));
    }
}

#[test]
fn a_session_whose_log_has_a_mask_in_a_granted_path_is_not_resumed() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Gate::before_headers());
    let fixture = writing_team(&dir, WAYS[0], Some(&gate));
    let grant = format!("{}:rw", place(&dir, "[secret]").display());
    let running = fixture.spawn(&["--context-path", &grant, "task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let (made, output) = (fixture.server.request_count(), fixture.resume().expect_code(1));
    assert!(
        output.stderr.contains("cannot be resumed: `spec.context_paths[1].path` contained a secret")
            && output.stderr.contains("start a new session"),
        "{output:?}"
    );
    assert_eq!(fixture.server.request_count(), made, "nothing was sent");
}

#[test]
fn what_was_written_is_listed_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = writing_team(&dir, WAYS[0], None);
    fixture.althing.file(".env", "A_TOKEN=work2024x\nB_TOKEN=new2024x.txt\n");
    let grant = format!("{}:rw", place(&dir, "work2024x").display());
    let file = place(&dir, "work2024x/new2024x.txt").display().to_string();
    let output = fixture.run(&["--context-path", &grant, "task"]).expect_code(0);
    assert!(format!("{}{}", output.stdout, output.stderr).contains(&file), "{output:?}");
    let id = fixture.session_id();
    for args in [&["sessions", "show", &id] as &[&str], &["undo", &id]] {
        let output = run(&fixture.althing, args).expect_code(0);
        assert!(format!("{}{}", output.stdout, output.stderr).contains(&file), "{args:?}: {output:?}");
    }
    assert!(!Path::new(&file).exists(), "undone");
}

#[test]
fn a_found_dotenv_file_does_not_change_what_an_mcp_client_approved() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [("docs2024x", "the wanted text"), ("[secret]", "the planted text")] {
        std::fs::create_dir(place(&dir, name)).unwrap();
        std::fs::write(place(&dir, name).join("a.txt"), text).unwrap();
    }
    let docs = place(&dir, "docs2024x");
    let script = calls_once("read_file", json!({"path": docs.join("a.txt")}));
    let fixture = Fixture::with(1, script, |team| {
        let mode = json!({"require_approval": true});
        team.every_backend("cwd", "here").rule("interactive_mode", mode)
    });
    fixture.althing.file(".env", "A_TOKEN=docs2024x\n");
    let can_ask = json!({"elicitation": {"form": {}}});
    let mut client = Client::with(&fixture.althing, &["--config", "team.yaml"], &can_ask);
    let launch =
        json!({"task": "t", "refinement": false, "context_paths": [{"path": docs, "permission": "read"}]});
    let (question, returned) = client.tool_with_question("launch_run", &launch, "accept");
    assert!(question["params"]["message"].as_str().unwrap().contains(docs.to_str().unwrap()), "{question}");
    let answer = returned["structuredContent"]["final_answer"].as_str().unwrap_or_default();
    assert!(answer.contains("the wanted text"), "{returned}");
}

#[test]
fn a_secret_of_the_user_in_a_command_or_path_is_refused_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = writing_team(&dir, WAYS[0], None);
    let althing = fixture.althing.new_command().env("MY_TOKEN", "user-token-2025");
    let path = flow(&althing, &[command("one", &["sh", "-c", "touch started; echo user-token-2025"])]);
    let path = path.to_str().unwrap();
    std::fs::create_dir(place(&dir, "user-token-2025")).unwrap();
    let granted = place(&dir, "user-token-2025").display().to_string();
    let cases: [(&[&str], &str); 2] = [
        (&["workflow", "run", path], "spec.stages[1].tasks[1].command[3]"),
        (
            &["--config", "team.yaml", "--automation", "--context-path", &granted, "t"],
            "spec.context_paths[1].path",
        ),
    ];
    for (args, place) in cases {
        let output = run(&althing, args).expect_code(1);
        assert!(output.stderr.contains(&format!("`{place}` contains one of your secrets")), "{output:?}");
        assert!(output.stderr.contains("hint: let the program read the secret from a file"), "{output:?}");
    }
    assert!(!althing.work_dir().join("started").exists());
    assert_eq!(fixture.server.request_count(), 0);
    assert!(!fixture.althing.state_dir().join("sessions").exists(), "no session was created");
}

#[test]
fn a_secret_that_is_known_only_when_a_session_is_resumed_changes_no_path() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Gate::before_headers());
    let fixture = writing_team(&dir, ("OTHER", "sk-of-the-user-0123456789"), Some(&gate));
    let grant = format!("{}:rw", place(&dir, "work2024x").display());
    let running = fixture.spawn(&["--context-path", &grant, "task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    gate.release_all();
    let output = run(&fixture.althing.new_command().env("MY_TOKEN", "work2024x"), &["resume"]).expect_code(1);
    assert!(output.stderr.contains("contains one of your secrets"), "{output:?}");
    assert_written(&dir, &fixture.resume().expect_code(0));
}

#[test]
fn a_found_config_that_needs_no_trust_chooses_no_secrets() {
    let althing = althing();
    let words: Vec<String> = (0..3000).map(|n| format!("word-of-the-task-{n}")).collect();
    let stop: Vec<&str> = words.iter().flat_map(|word| ["--password", word]).collect();
    let backend = json!({"type": "offline", "model": "offline-a", "stop": stop});
    let agent = json!({"id": "a", "backend": backend, "x_password": "another word of it"});
    althing.file("althing.yaml", json!({"agents": [agent]}).to_string());
    let task = "Keep word-of-the-task-7 and another word of it";
    let output = run(&althing, &["--automation", "--quick", task]).expect_code(0);
    assert!(output.stdout.contains(task), "{output:?}");
    assert!(!format!("{:?}", althing.events()).contains("[secret]"));
}

#[test]
fn a_trusted_config_that_was_found_has_at_most_two_hundred_secrets() {
    for (count, code) in [(201, 1), (200, 0)] {
        let fixture = Fixture::new(1, Script::always(Reply::text("I saw value-000007 here")));
        let mut config: Value =
            serde_json::from_slice(&std::fs::read(fixture.althing.work_dir().join("team.yaml")).unwrap())
                .unwrap();
        let tokens = (1..count).map(|n| (format!("x-{n}-token"), format!("value-{n:06}").into()));
        config["agents"][0]["backend"]["extra_body"] = Value::Object(tokens.collect());
        config["agents"][0]["backend"]["api_key"] = "sk-of-the-user-0123456789".into();
        fixture.althing.file("althing.yaml", config.to_string());
        let output = run(&fixture.althing, &["--trust", "--automation", "--quick", "t"]).expect_code(code);
        let said = format!("{}{}", output.stdout, output.stderr);
        let expected = if code == 0 { "I saw [secret] here" } else { "has 201 secrets" };
        assert!(said.contains(expected), "{output:?}");
    }
}
