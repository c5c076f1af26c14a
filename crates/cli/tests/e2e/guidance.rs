//! What a config lets agents know, remember and run: instructions, skills, notes, task lists, planning, command lists.

use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Scene, Team};

fn usual(request: &RecordedRequest) -> Action {
    Parliament::default().reply(request).into()
}

/// The results of a request's tool calls.
fn told(request: &RecordedRequest) -> String {
    let texts = request.messages().iter().filter(|message| message["role"] == "tool");
    texts.map(|message| message["content"].to_string()).collect::<Vec<_>>().join("\n")
}

/// Calls these tools one after another, then behaves like any member.
fn calling(calls: Vec<(&'static str, Value)>) -> Script {
    Script::from_fn(move |request| {
        let done = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match calls.get(done) {
            Some((tool, arguments)) => Reply::call(*tool, arguments).into(),
            None => usual(request),
        }
    })
}

/// Sets keys of `orchestrator.coordination`.
fn coordination(team: Team, keys: &Value) -> Team {
    team.rule("coordination", keys.clone())
}

#[test]
fn an_agent_is_told_of_the_projects_instructions_and_of_skills_that_it_can_read() {
    let script = Script::from_fn(|request| {
        let system = request.system_text();
        let skill = system.split("- pdf: Reads PDF. (").nth(1).unwrap_or_default().split(')').next();
        if told(request).is_empty() {
            Reply::call("read_file", &json!({ "path": skill })).into()
        } else {
            usual(request)
        }
    });
    let scene = Scene::with(1, script, |team| {
        coordination(team, &json!({ "use_skills": true, "skills_directory": "my-skills" }))
    });
    scene
        .althing
        .file("my-skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDF.\n---\nUse pdftotext.\n");
    scene.althing.file("project/AGENTS.md", "Indent with tabs.\n");
    scene.run(&["--quick", "--context-path", "project", "task"]).expect_code(0);
    let requests = scene.server.requests();
    let system = requests[0].system_text();
    assert!(system.contains("Indent with tabs.") && system.contains("- pdf: Reads PDF."), "{system}");
    assert!(told(&requests[1]).contains("Use pdftotext."), "{}", told(&requests[1]));
}

#[test]
fn an_agents_task_list_goes_with_its_work_and_its_notes_are_kept_beside_the_runs() {
    let script = calling(vec![
        ("create_task_plan", json!({ "tasks": [{ "id": "one", "description": "The first step" }] })),
        ("update_task_status", json!({ "id": "one", "status": "completed" })),
        ("write_file", json!({ "path": "memory/short_term/tea.md", "content": "They like tea." })),
    ]);
    let scene = Scene::with(1, script, |team| {
        let keys = json!({
            "enable_agent_task_planning": true, "task_planning_filesystem_mode": true, "max_tasks_per_plan": 5,
            "enable_memory_filesystem_mode": true,
        });
        coordination(team, &keys)
    });
    let result = scene.result(&["--quick", "task"]);
    let requests = scene.server.requests();
    assert!(told(&requests[3]).contains("1 of 1 done"), "{}", told(&requests[3]));
    let workspace = std::path::Path::new(result["workspace_path"].as_str().unwrap()).to_owned();
    let list: Value =
        serde_json::from_slice(&std::fs::read(workspace.join("tasks/plan.json")).unwrap()).unwrap();
    assert_eq!(list["tasks"][0]["status"], "completed");
    let kept = std::fs::read_to_string(scene.session().join("memory/a/short_term/tea.md")).unwrap();
    assert_eq!(kept, "They like tea.");
}

#[test]
fn with_planning_mode_in_the_config_agents_only_look_until_one_of_them_presents_and_acts() {
    let script = Script::from_fn(|request| {
        let presents = !request.tool_names().iter().any(|tool| *tool == "new_answer" || *tool == "vote");
        if presents && told(request).is_empty() {
            return Reply::call("write_file", &json!({ "path": "result.txt", "content": "done" })).into();
        }
        usual(request)
    });
    let scene = Scene::with(2, script, |team| {
        let keys =
            json!({ "enable_planning_mode": true, "planning_mode_instruction": "Describe, do not do." });
        coordination(team.every_backend("enable_mcp_command_line", true).every_backend("cwd", "here"), &keys)
    });
    let result = scene.result(&["task"]);
    let (mut planned, mut acted) = (0, 0);
    for request in scene.server.requests() {
        let acting = ["write_file", "edit_file", "apply_patch", "delete_file", "run_command"];
        let has_acting = request.tool_names().iter().any(|tool| acting.contains(tool));
        let presents = !request.tool_names().iter().any(|tool| *tool == "new_answer" || *tool == "vote");
        assert_eq!(has_acting, presents, "{:?}", request.tool_names());
        assert_eq!(request.system_text().contains("Describe, do not do."), !presents);
        if presents { acted += 1 } else { planned += 1 }
    }
    assert!(planned >= 4 && acted == 2, "{planned} {acted}");
    let workspace = std::path::Path::new(result["workspace_path"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(workspace.join("result.txt")).unwrap(), "done");
}

#[test]
fn a_command_that_the_config_blocks_is_refused_with_the_reason_and_the_agent_goes_on() {
    let script = calling(vec![
        ("run_command", json!({ "command": "rm -rf everything; echo gone" })),
        ("run_command", json!({ "command": "echo fine" })),
    ]);
    let scene = Scene::with(1, script, |team| {
        team.every_backend("enable_mcp_command_line", true)
            .every_backend("cwd", "here")
            .every_backend("command_line_blocked_commands", json!(["rm .*"]))
    });
    scene.run(&["--quick", "task"]).expect_code(0);
    let said = told(&scene.server.requests()[2]);
    assert!(said.contains("blocks what matches `rm .*`") && said.contains("fine"), "{said}");
    assert!(!said.contains("gone"), "{said}");
}
