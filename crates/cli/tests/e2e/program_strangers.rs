//! The real CLI agents in a directory that somebody else made: the settings in it start nothing, unless the user trusts
//! them (row S25 of docs/reliability.md).

use althing_testkit::{Althing, FakeModel, RecordedRequest, Reply, Script};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

use super::programs::{START_TIMEOUT, headless, internal_reply, programs, with_programs};

const AGENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

fn planted(agent: &str, command: &str) -> (&'static str, String) {
    let server = json!({"command": "sh", "args": ["-c", command]});
    match agent {
        "claude" => {
            let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
            (".claude/settings.json", json!({"hooks": {"SessionStart": hook}}).to_string())
        }
        "codex" => (
            ".codex/config.toml",
            format!("[mcp_servers.x]\ncommand = \"sh\"\nargs = [\"-c\", \"{command}\"]\n"),
        ),
        "gemini" => (".gemini/settings.json", json!({"mcpServers": {"x": server}}).to_string()),
        _ => {
            let server = json!({"type": "local", "enabled": true, "command": ["sh", "-c", command]});
            ("opencode.json", json!({"mcp": {"x": server}}).to_string())
        }
    }
}

#[test]
fn settings_in_a_directory_start_nothing_in_headless_cli_agents_unless_they_are_trusted() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("all done"))
    }));
    let althing = with_programs(&dir, &server);
    let ran = |agent: &str| althing.work_dir().join(format!("ran-{agent}"));
    let tasks = AGENTS.map(|agent| {
        let (name, text) = planted(agent, &format!("touch {}", ran(agent).display()));
        althing.file(name, text);
        let mut task = headless(agent, agent, "Say that you are done");
        task["continue_on_failure"] = true.into();
        task
    });
    let stages = tasks.map(|task| json!({"name": task["id"], "tasks": [task]}));
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let run = |more: &[&str]| {
        let args = ["workflow", "run", "flow.yaml", "--offline", "--json"];
        let output = althing.new_command().args(args).args(more.iter().copied()).spawn().wait(START_TIMEOUT);
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        let tasks = report["stages"].as_array().unwrap().iter().map(|stage| stage["tasks"][0].clone());
        (tasks.collect::<Vec<_>>(), output)
    };
    let (tasks, output) = run(&[]);
    for (agent, task) in AGENTS.into_iter().zip(&tasks) {
        assert!(!ran(agent).exists(), "the settings of {agent} ran: {output:?}");
        // Nothing makes Gemini CLI ignore its settings, so it is not started.
        let status = if agent == "gemini" { "FAILED" } else { "DONE" };
        assert_eq!(task["status"], status, "{agent}: {output:?}");
    }
    assert!(tasks[2]["error"].as_str().unwrap().contains(".gemini"), "{}", tasks[2]);
    for agent in ["claude", "opencode"] {
        assert!(output.stderr.contains(&format!("{agent} does not use")), "{output:?}");
    }
    // With trust, what was planted runs.
    let (tasks, output) = run(&["--trust"]);
    for (agent, task) in AGENTS.into_iter().zip(&tasks) {
        assert_eq!(task["status"], "DONE", "{agent}: {output:?}");
        assert_eq!(ran(agent).exists(), agent != "codex", "{agent}: {output:?}");
    }
}

#[test]
fn a_tsconfig_in_a_directory_runs_nothing_in_opencode() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("all done"))
    }));
    for approvals in [false, true] {
        let althing = with_programs(&dir, &server);
        let ran = althing.work_dir().join("ran");
        let settings = json!({"compilerOptions": {"paths": {"*": ["./planted.js"]}}});
        althing.file("tsconfig.json", settings.to_string());
        althing.file("planted.js", format!("require('fs').writeFileSync('{}', '')", ran.display()));
        let mut task = headless("t", "opencode", "Say that you are done");
        task["approvals"] = approvals.into();
        let stages = json!([{"name": "s", "tasks": [task]}]);
        althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
        let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--json"]);
        let output = command.spawn().wait(START_TIMEOUT).expect_code(0);
        assert!(!ran.exists(), "approvals {approvals}: {output:?}");
    }
}

/// The user's own settings of opencode switch on language servers and formatters, which opencode takes from
/// `node_modules/.bin` of the directory.
#[test]
fn programs_of_a_directory_are_no_language_servers_and_formatters_in_opencode() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(|request: &RecordedRequest| {
        if let Some(reply) = internal_reply(request) {
            return reply;
        }
        if request.tool_names().is_empty() {
            return Reply::text("A title");
        }
        let body = request.body();
        let messages = body["messages"].as_array().unwrap();
        let cwd = body.to_string().split_once("CWD=").unwrap().1.split_once('=').unwrap().0.to_owned();
        let steps = [
            ("read", json!({"filePath": format!("{cwd}/a.ts")})),
            ("edit", json!({"filePath": format!("{cwd}/a.ts"), "oldString": "a = 1", "newString": "a = 2"})),
            ("write", json!({"filePath": format!("{cwd}/b.ts"), "content": "export const b = 1\n"})),
        ];
        let done = messages.iter().filter(|message| message["role"] == "tool").count();
        let step = steps.get(done);
        step.map_or_else(|| Reply::text("all done"), |(tool, arguments)| Reply::call(*tool, arguments))
    }));
    let althing = with_programs(&dir, &server);
    let file = althing.home_dir().join(".config/opencode/opencode.json");
    let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    settings["lsp"] = true.into();
    settings["formatter"] = true.into();
    std::fs::write(&file, settings.to_string()).unwrap();
    let work = althing.work_dir();
    let names = ["biome", "oxc_language_server", "oxlint"];
    for name in names {
        let path = format!("node_modules/.bin/{name}");
        althing.file(&path, format!("#!/bin/sh\ntouch '{}/ran-{name}'\n", work.display()));
        std::fs::set_permissions(work.join(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    althing.file("biome.json", "{}");
    althing.file("package-lock.json", "{}");
    althing.file("a.ts", "const a = 1\n");
    let prompt = format!("CWD={}= Change the files", work.display());
    let stages = json!([{"name": "s", "tasks": [headless("t", "opencode", &prompt)]}]);
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let args = ["workflow", "run", "flow.yaml", "--offline", "--json"];
    let command = althing.new_command().args(args);
    let output = command.spawn().wait(START_TIMEOUT).expect_code(0);
    assert_eq!(std::fs::read_to_string(work.join("a.ts")).unwrap(), "const a = 2\n", "{output:?}");
    assert!(work.join("b.ts").exists(), "{output:?}");
    let ran: Vec<&str> = names.into_iter().filter(|name| work.join(format!("ran-{name}")).exists()).collect();
    assert!(ran.is_empty(), "{ran:?} {output:?}");
}

/// Makes the working directory a linked worktree of the repository `inner` in it, which has settings of Claude Code.
fn plant_worktree(althing: &Althing, command: &str) {
    althing.file(".git", "gitdir: inner/.git/worktrees/w\n");
    for (name, text) in [
        ("HEAD", "ref: refs/heads/m\n"),
        ("objects/none", ""),
        ("refs/none", ""),
        ("worktrees/w/HEAD", "ref: refs/heads/m\n"),
        ("worktrees/w/commondir", "../..\n"),
        ("worktrees/w/gitdir", "../../../../.git\n"),
    ] {
        althing.file(&format!("inner/.git/{name}"), text);
    }
    let hook = json!([{"hooks": [{"type": "command", "command": command}]}]);
    let settings = json!({"hooks": {"SessionStart": hook}});
    althing.file("inner/.claude/settings.local.json", settings.to_string());
}

#[test]
fn settings_of_the_main_repository_of_a_worktree_start_nothing_in_claude_code() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("all done"))
    }));
    for options in [&[][..], &["--trust"]] {
        let althing = with_programs(&dir, &server);
        let ran = althing.work_dir().join("ran");
        plant_worktree(&althing, &format!("touch {}", ran.display()));
        let stages = json!([{"name": "s", "tasks": [headless("t", "claude", "Say that you are done")]}]);
        althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
        let args = ["workflow", "run", "flow.yaml", "--offline", "--json"];
        // The state directory is in the working directory, which is the default.
        let command = althing.new_command().env("ALTHING_STATE_DIR", "").args(args);
        let output = command.args(options.iter().copied()).spawn().wait(START_TIMEOUT).expect_code(0);
        assert_eq!(ran.exists(), !options.is_empty(), "{options:?}: {output:?}");
    }
}

#[test]
fn a_task_outside_the_sandbox_does_not_start_in_a_worktree_after_settings_were_planted_in_its_main_repository()
 {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("all done"))
    }));
    let althing = with_programs(&dir, &server);
    let ran = althing.home_dir().join("ran");
    plant_worktree(&althing, "true");
    std::fs::remove_dir_all(althing.work_dir().join("inner/.claude")).unwrap();
    std::fs::create_dir(althing.work_dir().join("wt")).unwrap();
    std::fs::rename(althing.work_dir().join(".git"), althing.work_dir().join("wt/.git")).unwrap();
    althing.file("wt/.git", "gitdir: ../inner/.git/worktrees/w\n");
    althing.file("inner/.git/worktrees/w/gitdir", "../../../../wt/.git\n");
    let hook = json!([{"hooks": [{"type": "command", "command": format!("touch {}", ran.display())}]}]);
    let settings = json!({"hooks": {"SessionStart": hook}}).to_string();
    let script = format!("mkdir -p .claude && printf '%s' '{settings}' > .claude/settings.local.json");
    let first = json!({"id": "plants", "agent": "command", "command": ["sh", "-c", script],
        "executionMode": "headless", "prompt": "", "sandbox": true, "cwd": "inner"});
    let mut second = headless("runs", "claude", "Say that you are done");
    second["approvals"] = true.into();
    second["cwd"] = "wt".into();
    let stages = json!([{"name": "a", "tasks": [first]}, {"name": "b", "tasks": [second]}]);
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--json"]);
    let output = command.spawn().wait(START_TIMEOUT);
    assert!(!ran.exists(), "{output:?}");
    assert_ne!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("could run code here outside the sandbox"), "{output:?}");
}

#[test]
fn opencode_does_not_start_in_a_terminal_after_a_tsconfig_was_planted_in_the_sandbox() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("all done"))
    }));
    let althing = with_programs(&dir, &server);
    let ran = althing.home_dir().join("ran");
    let settings = json!({"compilerOptions": {"paths": {"*": ["./planted.js"]}}});
    let code = format!("require('fs').writeFileSync('{}', '')", ran.display());
    let script = r#"printf '%s' "$SETTINGS" > tsconfig.json && printf '%s' "$CODE" > planted.js"#;
    let first = json!({"id": "plants", "agent": "command", "command": ["sh", "-c", script],
        "env": {"SETTINGS": settings.to_string(), "CODE": code},
        "executionMode": "headless", "prompt": "", "sandbox": true});
    let mut second = headless("runs", "opencode", "Say that you are done");
    second["executionMode"] = "interactive".into();
    let stages = json!([{"name": "a", "tasks": [first]}, {"name": "b", "tasks": [second]}]);
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--json"]);
    let output = command.spawn().wait(START_TIMEOUT);
    assert!(!ran.exists(), "{output:?}");
    assert_ne!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains("could run code here outside the sandbox"), "{output:?}");
}

#[test]
fn no_cli_agent_runs_a_script_of_its_settings_outside_the_sandbox_after_a_program_in_the_sandbox_wrote_it() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(|request: &RecordedRequest| {
        internal_reply(request).unwrap_or_else(|| Reply::text("all done"))
    }));
    let althing = with_programs(&dir, &server);
    let ran = althing.home_dir().join("ran");
    althing.file("tools/hook.sh", "true\n");
    for agent in AGENTS {
        let (name, text) = planted(agent, "cd tools && exec sh hook.sh");
        althing.file(name, text);
    }
    let script = format!("echo 'touch {}' > tools/hook.sh", ran.display());
    let first = json!({"id": "plants", "agent": "command", "command": ["sh", "-c", script],
        "executionMode": "headless", "prompt": "", "sandbox": true});
    let tasks = AGENTS.map(|agent| {
        let mut task = headless(agent, agent, "Say that you are done");
        task["approvals"] = true.into();
        task["continue_on_failure"] = true.into();
        task
    });
    let stages = [first].into_iter().chain(tasks).map(|task| json!({"name": task["id"], "tasks": [task]}));
    let flow = json!({"name": "n", "goal": "g", "stages": stages.collect::<Vec<_>>()});
    althing.file("flow.yaml", flow.to_string());
    let args = ["workflow", "run", "flow.yaml", "--offline", "--json"];
    let output = althing.new_command().args(args).spawn().wait(START_TIMEOUT);
    assert!(!ran.exists(), "{output:?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    for (agent, stage) in AGENTS.into_iter().zip(report["stages"].as_array().unwrap().iter().skip(1)) {
        let error = stage["tasks"][0]["error"].as_str().unwrap_or_default();
        let says =
            error.contains("could run code here outside the sandbox") && error.contains("tools/hook.sh");
        assert!(says, "{agent}: {output:?}");
    }
}
