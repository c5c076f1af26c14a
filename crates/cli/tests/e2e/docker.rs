//! Commands in containers on a real Docker daemon, end to end.

use std::path::Path;

use althing_testkit::docker::{IMAGE, TestDockerDaemon, is_excluded};
use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script};
use serde_json::json;

use super::support::{LIMIT, Scene};

/// Tries to write to the project with a shell command, then behaves like any member.
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

/// The output of the command, which names its container.
fn said(request: &RecordedRequest) -> String {
    let results = request.messages().iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

fn in_docker(agents: usize) -> Scene {
    Scene::with(agents, Script::from_fn(writes), |team| {
        team.every_backend("enable_mcp_command_line", true)
            .every_backend("command_line_execution_mode", "docker")
            .every_backend("command_line_docker_image", IMAGE)
            .every_backend("command_line_docker_network_mode", "none")
            .every_backend("cwd", "here")
    })
}

/// Runs a task on a writable project in Docker; returns the project and the output of each command.
fn run(scene: &Scene, daemon: &TestDockerDaemon) -> (std::path::PathBuf, Vec<(bool, String)>) {
    let project = scene.althing.work_dir().canonicalize().unwrap().join("project");
    std::fs::create_dir_all(&project).unwrap();
    let path = format!("{}:rw", project.display());
    let command = scene.command(&["--quick", "--context-path", &path, "task"]);
    let host = format!("unix://{}", daemon.socket().display());
    command.env("DOCKER_HOST", host).spawn().wait(LIMIT).expect_code(0);
    let requests = scene.server.requests();
    let results = requests.iter().map(|request| (presents(request), said(request)));
    (project, results.filter(|(_, said)| !said.is_empty()).collect())
}

/// The container that a command's output names.
fn container(said: &str) -> &str {
    let is_id = |line: &&str| line.len() == 12 && line.chars().all(|c| c.is_ascii_hexdigit());
    said.lines().find(is_id).unwrap_or_else(|| panic!("no container: {said}"))
}

// spec: modes/docker-container-recreation-for-write-access/recreate-container-before-final-presentation
#[test]
fn the_presenters_container_is_made_anew_and_only_then_can_its_commands_write_to_the_context_path() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    let scene = in_docker(2);
    let (project, results) = run(&scene, &daemon);
    let (after, before): (Vec<_>, Vec<_>) = results.into_iter().partition(|(presents, _)| *presents);
    assert!(before.len() >= 2 && after.len() == 1, "everyone tried: {before:?} {after:?}");
    for (_, said) in &before {
        assert!(said.contains("Read-only file system"), "{said}");
        assert_ne!(container(said), container(&after[0].1), "another container: {said}");
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
    let scene = in_docker(1);
    let (project, results) = run(&scene, &daemon);
    assert_eq!(results.len(), 1, "{results:?}");
    assert!(results[0].1.starts_with("exit code: 0"), "{results:?}");
    assert_eq!(std::fs::read_dir(&project).unwrap().count(), 1, "the one file that it wrote");
    assert_eq!(daemon.containers(), Vec::<String>::new(), "none is left");
}

#[test]
fn without_a_daemon_nobody_runs_commands_elsewhere_and_it_is_said() {
    let scene = in_docker(1);
    let command = scene.command(&["--quick", "task"]).env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let output = command.spawn().wait(LIMIT).expect_code(2);
    assert!(output.stderr.contains("no Docker daemon answers"), "{}", output.stderr);
    assert_eq!(scene.server.request_count(), 0);
}
