//! Git can run code from one directory for a repository in another directory. Here, an agent that may write to one
//! directory plants code there that git runs for the directory of another task, of the session or of its project. The
//! planted code must not run, or a notice must name it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use althing_testkit::docker::{IMAGE, TestDockerDaemon, is_excluded};
use althing_testkit::{
    Action, FakeModel, Machine, RecordedRequest, Reply, Script, User, is_root, skip_unless_ci,
};
use serde_json::{Value, json};

use super::scripted_claude;
use super::support::{LIMIT, Team, althing, ensure, in_parallel};

/// Who writes in the directory `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// A CLI agent as the program of a task.
    Task,
    /// A CLI agent as the program of a task, without a sandbox.
    FreeTask,
    /// The user's own command in a sandbox.
    OwnCommand,
    /// The file tools and commands of an agent in a run of the workflow.
    WorkflowRun,
    /// The file tools and commands of an agent in a run that is a session of its own.
    Run,
    /// As `Run`, with commands in Docker.
    ContainerRun,
    /// A CLI agent as a member of a run.
    Member,
}

use Writer::{ContainerRun, FreeTask, Member, OwnCommand, Run, Task, WorkflowRun};

/// The directories for which git runs code from `a`: the directory of another task, of the session, and of the project.
const REPOSITORIES: [&str; 3] = ["b", "work", "project"];

/// The files in `a` from which git takes code for the repository `name`.
fn code_for(name: &str) -> [String; 3] {
    [format!("hooks-{name}/pre-commit"), format!("{name}.gitconfig"), format!("not-yet-{name}/post-commit")]
}

fn git(dir: &Path, home: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=n", "-c", "user.email=e", "-c", "safe.directory=*"]).args(args);
    command.current_dir(dir).env("HOME", home).output().expect("git");
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Makes the repositories, with harmless code in `a`. Each repository contains a nested repository with other hooks.
fn make_repositories(base: &Path, home: &Path) {
    fs::create_dir_all(base.join("a/src")).unwrap();
    for name in REPOSITORIES {
        let [hook, config, later] = code_for(name);
        let dir = base.join(name);
        let a = base.join("a");
        put(&a.join(&hook), "#!/bin/sh\n");
        put(&a.join(&config), "");
        for (at, hooks) in [(dir.clone(), hook), (dir.join("sub/deep"), later)] {
            fs::create_dir_all(&at).unwrap();
            git(&at, home, &["init", "-q"]);
            let hooks = a.join(hooks);
            git(&at, home, &["config", "core.hooksPath", hooks.parent().unwrap().to_str().unwrap()]);
            git(&at, home, &["config", "include.path", a.join(&config).to_str().unwrap()]);
        }
    }
}

/// Each planted piece of code creates a file in `marks` when it runs.
fn attack(base: &Path, marks: &Path) -> String {
    let mut lines = vec![format!("cd '{}'; echo x > src/made.txt", base.join("a").display())];
    let marks = marks.display();
    for name in REPOSITORIES {
        let [hook, config, later] = code_for(name);
        lines.extend([hook, later].map(|hook| {
            let text = format!("#!/bin/sh\\ntouch {marks}/{name}-hook\\n");
            format!("mkdir -p \"$(dirname {hook})\"; printf '{text}' > {hook}; chmod +x {hook}")
        }));
        let text = format!("[core]\\n\\tfsmonitor = touch {marks}/{name}-config; false\\n");
        lines.push(format!("printf '{text}' > {config}"));
    }
    lines.join("\n")
}

fn planter(base: &Path, script: &str) -> FakeModel {
    let mut reply = Reply::empty();
    for name in REPOSITORIES {
        for path in code_for(name) {
            let arguments =
                json!({"path": base.join("a").join(path), "content": "#!/bin/sh\ntouch planted\n"});
            reply = reply.and_call("write_file", &arguments);
        }
    }
    let reply = reply.and_call("run_command", &json!({ "command": script }));
    FakeModel::start_on_thread(Script::from_fn(move |request: &RecordedRequest| -> Action {
        let acted = request.messages().iter().any(|message| message["role"] == "tool");
        if acted { Reply::text("done").into() } else { reply.clone().into() }
    }))
}

/// A stand-in for Claude Code that runs the script `attack.sh` beside it.
const CLAUDE: &str = r#"#!/bin/bash
cat > /dev/null
bash "$(dirname "$0")/attack.sh" > /dev/null 2>&1
echo '{"type": "system", "subtype": "init", "session_id": "s"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "Done.", "session_id": "s"}'
"#;

fn plant(writer: Writer, bubblewrap: bool, daemon: Option<&TestDockerDaemon>) -> Result<(), String> {
    let new = althing().on(Machine { user: User::Current, bubblewrap });
    let althing = scripted_claude::install(&new, CLAUDE);
    let base = althing.work_dir().parent().unwrap().canonicalize().unwrap();
    let (home, marks) = (althing.home_dir(), base.join("marks"));
    fs::create_dir(&marks).unwrap();
    assert_eq!(althing.work_dir().canonicalize().unwrap(), base.join("work"), "the name of the directory");
    make_repositories(&base, &home);
    let script = attack(&base, &marks);
    fs::write(home.join("bin/attack.sh"), &script).unwrap();
    let (a, b) = (base.join("a"), base.join("b"));
    let server = planter(&base, &script);
    let grant = json!([{"path": a, "permission": "write"}]);
    let mut team = Team::on(&server.base_url(), 1).backend(0, "enable_mcp_command_line", true);
    team = team.backend(0, "cwd", "here").agent("cli", &json!({"type": "claude_code"}));
    if writer == ContainerRun {
        team = team.backend(0, "command_line_execution_mode", "docker");
        team = team.backend(0, "command_line_docker_image", IMAGE);
    }
    if matches!(writer, Run | ContainerRun | Member) {
        team = team.rule("context_paths", grant.clone());
    }
    althing.file("team.yaml", team.text());
    let program = |id: &str, agent: &str, cwd: &Path| json!({"id": id, "agent": agent, "executionMode": "headless", "prompt": "Do it", "cwd": cwd});
    let mut task = match writer {
        OwnCommand => program("t", "command", &a),
        _ => program("t", "claude", &a),
    };
    match writer {
        FreeTask => task["sandbox"] = json!(false),
        OwnCommand => {
            task["sandbox"] = json!(true);
            task["command"] = json!(["bash", "-c", script]);
        }
        WorkflowRun => {
            let run = json!({"task": "task", "agent_mode": "single", "agents": ["a"], "refinement": false,
                "context_paths": grant});
            task = json!({"id": "t", "run": run});
        }
        _ => {}
    }
    let mut other = program("other", "command", &b);
    other["command"] = json!(["true"]);
    let stages = [task, other].map(|task| json!({"name": task["id"], "tasks": [task]}));
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let project = base.join("project").display().to_string();
    let command = althing.new_command();
    let command = match writer {
        Run | ContainerRun | Member => {
            let agent = if writer == Member { "cli" } else { "a" };
            let args = ["--config", "team.yaml", "--automation", "--quick", "--single-agent", agent];
            command.args(args).args(["--project", &project, "task"])
        }
        _ => command.args(["workflow", "run", "flow.yaml", "--config", "team.yaml", "--project", &project]),
    };
    let host = daemon.map(|daemon| format!("unix://{}", daemon.socket().display()));
    let command = host.iter().fold(command, |command, host| command.env("DOCKER_HOST", host));
    let output = command.spawn().wait(LIMIT);
    let complain = |what: &str| format!("{writer:?}, bubblewrap {bubblewrap}: {what}: {output:?}");
    ensure(a.join("src/made.txt").exists(), || complain("it cannot act"))?;
    // Only a workflow has a task that works in the directory `b`.
    let is_known = |name: &&&str| **name != "b" || !matches!(writer, Run | ContainerRun | Member);
    for dir in REPOSITORIES.iter().filter(is_known) {
        for at in [base.join(dir), base.join(dir).join("sub/deep")] {
            git(&at, &home, &["status"]);
            git(&at, &home, &["commit", "-q", "--allow-empty", "-m", "x"]);
        }
    }
    let ran: Vec<PathBuf> = fs::read_dir(&marks).unwrap().map(|mark| mark.unwrap().path()).collect();
    let events: Vec<Value> = althing.events();
    let events = format!("{events:?}");
    // Without a sandbox the agent can write everything, but a notice names every file.
    let is_pointed_out = || {
        let mut files = REPOSITORIES.iter().flat_map(|name| code_for(name));
        files.all(|file| {
            let named = format!("{} (runs code when git", a.join(file).display());
            events.contains(&named)
        })
    };
    let holds = if writer == FreeTask { is_pointed_out() } else { ran.is_empty() };
    ensure(holds, || format!("{}: git ran {ran:?}; {events}", complain("not protected")))
}

fn try_writers(writers: &[Writer], bubblewrap: bool) {
    in_parallel(2, writers.iter().copied(), |writer| plant(writer, bubblewrap, None));
}

#[test]
fn no_agent_in_bubblewrap_plants_code_that_git_runs_for_another_directory() {
    if !is_excluded("bubblewrap") {
        try_writers(&[Task, FreeTask, OwnCommand, WorkflowRun, Run, Member], true);
    }
}

#[test]
fn no_agent_in_landlock_plants_code_that_git_runs_for_another_directory() {
    if !is_root() {
        return skip_unless_ci("only root can hide bubblewrap");
    }
    if !is_excluded("landlock") {
        try_writers(&[Task, OwnCommand, WorkflowRun, Member], false);
    }
}

#[test]
fn no_command_in_a_container_plants_code_that_git_runs_for_another_directory() {
    if !is_excluded("docker") {
        let daemon = TestDockerDaemon::start();
        in_parallel(1, [ContainerRun], |writer| plant(writer, true, Some(&daemon)));
    }
}
