//! Commands in containers on a real Docker daemon, end to end.

use std::path::Path;

use althing_testkit::docker::{IMAGE, TestDockerDaemon, is_excluded};
use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script};
use serde_json::json;

use super::support::{Fixture, LIMIT};

fn writes(request: &RecordedRequest) -> Action {
    if request.messages().iter().any(|message| message["role"] == "tool") {
        return Parliament::default().reply(request).into();
    }
    let system = request.system_text();
    let project = system.lines().find_map(|line| line.strip_prefix("- ")).unwrap_or("/nowhere (");
    let project = Path::new(project.split(" (").next().unwrap());
    let name = if presents(request) { "by-presenter.txt" } else { "too-early.txt" };
    let command = format!("hostname && echo written > {}", project.join(name).display());
    Reply::call("run_command", &json!({ "command": command })).into()
}

fn presents(request: &RecordedRequest) -> bool {
    !request.tool_names().iter().any(|tool| *tool == "new_answer" || *tool == "vote")
}

fn command_output(request: &RecordedRequest) -> String {
    let results = request.messages().iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn in_docker(agents: usize) -> Fixture {
    Fixture::with(agents, Script::from_fn(writes), |team| {
        team.every_backend("enable_mcp_command_line", true)
            .every_backend("command_line_execution_mode", "docker")
            .every_backend("command_line_docker_image", IMAGE)
            .every_backend("command_line_docker_network_mode", "none")
            .every_backend("cwd", "here")
    })
}

/// Runs a task on a writable project in Docker. Returns the project, and for each command whether the presenter ran it
/// and its output.
fn run(fixture: &Fixture, daemon: &TestDockerDaemon) -> (std::path::PathBuf, Vec<(bool, String)>) {
    let project = fixture.althing.work_dir().canonicalize().unwrap().join("project");
    std::fs::create_dir_all(&project).unwrap();
    let path = format!("{}:rw", project.display());
    let command = fixture.command(&["--quick", "--context-path", &path, "task"]);
    let host = format!("unix://{}", daemon.socket().display());
    command.env("DOCKER_HOST", host).spawn().wait(LIMIT).expect_code(0);
    let requests = fixture.server.requests();
    let results = requests.iter().map(|request| (presents(request), command_output(request)));
    (project, results.filter(|(_, command_output)| !command_output.is_empty()).collect())
}

fn container(command_output: &str) -> &str {
    // The shell writes its error messages in pieces, so the id may be in the middle of the output.
    let is_id = |word: &&str| word.len() == 12 && word.chars().all(|c| c.is_ascii_hexdigit());
    command_output.split_whitespace().find(is_id).unwrap_or_else(|| panic!("no container: {command_output}"))
}

// spec: modes/docker-container-recreation-for-write-access/recreate-container-before-final-presentation
#[test]
fn the_presenters_container_is_recreated_with_writable_context_paths() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let fixture = in_docker(2);
    let (project, results) = run(&fixture, &daemon);
    let (after, before): (Vec<_>, Vec<_>) = results.into_iter().partition(|(presents, _)| *presents);
    assert!(before.len() >= 2 && after.len() == 1, "everyone tried: {before:?} {after:?}");
    for (_, command_output) in &before {
        assert!(command_output.contains("Read-only file system"), "{command_output}");
        assert_ne!(container(command_output), container(&after[0].1), "another container: {command_output}");
    }
    assert!(after[0].1.starts_with("exit code: 0"), "{}", after[0].1);
    assert!(!project.join("too-early.txt").exists());
    assert_eq!(std::fs::read_to_string(project.join("by-presenter.txt")).unwrap(), "written\n");
    assert_eq!(daemon.containers(), Vec::<String>::new(), "none is left");
}

#[test]
fn the_container_of_a_quick_single_agent_can_write_to_the_context_path_from_the_start() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let fixture = in_docker(1);
    let (project, results) = run(&fixture, &daemon);
    assert_eq!(results.len(), 1, "{results:?}");
    assert!(results[0].1.starts_with("exit code: 0"), "{results:?}");
    assert_eq!(std::fs::read_dir(&project).unwrap().count(), 1, "the one file that it wrote");
    assert_eq!(daemon.containers(), Vec::<String>::new(), "none is left");
}

#[test]
fn without_a_docker_daemon_commands_are_refused_with_a_notice() {
    let fixture = in_docker(1);
    let command = fixture.command(&["--quick", "task"]).env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let output = command.spawn().wait(LIMIT).expect_code(2);
    assert!(output.stderr.contains("no Docker daemon answers"), "{}", output.stderr);
    assert_eq!(fixture.server.request_count(), 0);
}

fn prints_tokens(request: &RecordedRequest) -> Action {
    if request.messages().iter().any(|message| message["role"] == "tool") {
        return Parliament::default().reply(request).into();
    }
    let command =
        "echo length ${#GH_TOKEN} ${#NPM_TOKEN} ${#NOT_NAMED} ${#ALSO_IN_FILE}; echo value $GH_TOKEN";
    Reply::call("run_command", &json!({ "command": command })).into()
}

#[test]
fn commands_in_a_container_get_the_credentials_that_the_config_names_and_no_others() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let credentials =
        json!({"env_vars": ["GH_TOKEN"], "env_file": "tokens.env", "env_vars_from_file": ["NPM_TOKEN"]});
    let fixture = Fixture::with(1, Script::from_fn(prints_tokens), |team| {
        team.every_backend("enable_mcp_command_line", true)
            .every_backend("command_line_execution_mode", "docker")
            .every_backend("command_line_docker_image", IMAGE)
            .every_backend("command_line_docker_credentials", credentials)
            .every_backend("cwd", "here")
    });
    fixture.althing.file("tokens.env", "NPM_TOKEN=seven-of-npm\nALSO_IN_FILE=not-for-agents\n");
    let host = format!("unix://{}", daemon.socket().display());
    let command =
        || fixture.command(&["--quick", "task"]).env("DOCKER_HOST", &host).env("NOT_NAMED", "not-for-agents");
    let output = command().spawn().wait(LIMIT).expect_code(1);
    assert!(output.stderr.contains("GH_TOKEN, which is not set"), "{}", output.stderr);
    assert!(fixture.server.requests().is_empty(), "nothing was started");
    command().env("GH_TOKEN", "canary-token-of-gh").spawn().wait(LIMIT).expect_code(0);
    let results: Vec<String> = fixture.server.requests().iter().map(command_output).collect();
    let result =
        results.iter().find(|result| result.contains("length")).unwrap_or_else(|| panic!("{results:?}"));
    assert!(result.contains("length 18 12 0 0"), "{result}");
    assert!(!results.concat().contains("canary-token-of-gh"), "the value is masked: {results:?}");
}
