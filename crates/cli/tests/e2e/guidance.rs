//! What a config lets agents know, remember and run: instructions, skills, notes, task lists, planning, command lists.

use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, Team};

fn member_action(request: &RecordedRequest) -> Action {
    Parliament::default().reply(request).into()
}

fn tool_results(request: &RecordedRequest) -> String {
    let texts = request.messages().iter().filter(|message| message["role"] == "tool");
    texts.map(|message| message["content"].to_string()).collect::<Vec<_>>().join("\n")
}

fn calling(calls: Vec<(&'static str, Value)>) -> Script {
    Script::from_fn(move |request| {
        let done = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match calls.get(done) {
            Some((tool, arguments)) => Reply::call(*tool, arguments).into(),
            None => member_action(request),
        }
    })
}

fn coordination(team: Team, keys: &Value) -> Team {
    team.rule("coordination", keys.clone())
}

#[test]
fn an_agents_prompt_has_the_projects_instructions_and_readable_skills() {
    let script = Script::from_fn(|request| {
        let system = request.system_text();
        let skill = system.split("- pdf: Reads PDF. (").nth(1).unwrap_or_default().split(')').next();
        if tool_results(request).is_empty() {
            Reply::call("read_file", &json!({ "path": skill })).into()
        } else {
            member_action(request)
        }
    });
    let fixture = Fixture::with(1, script, |team| {
        coordination(team, &json!({ "use_skills": true, "skills_directory": "my-skills" }))
    });
    fixture
        .althing
        .file("my-skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDF.\n---\nUse pdftotext.\n");
    fixture.althing.file("project/AGENTS.md", "Indent with tabs.\n");
    fixture.run(&["--quick", "--context-path", "project", "task"]).expect_code(0);
    let requests = fixture.server.requests();
    let system = requests[0].system_text();
    assert!(system.contains("Indent with tabs.") && system.contains("- pdf: Reads PDF."), "{system}");
    assert!(tool_results(&requests[1]).contains("Use pdftotext."), "{}", tool_results(&requests[1]));
}

#[test]
fn an_agents_task_list_is_in_its_workspace_and_its_notes_are_stored_beside_the_runs() {
    let script = calling(vec![
        ("create_task_plan", json!({ "tasks": [{ "id": "one", "description": "The first step" }] })),
        ("update_task_status", json!({ "id": "one", "status": "completed" })),
        ("write_file", json!({ "path": "memory/short_term/tea.md", "content": "They like tea." })),
    ]);
    let fixture = Fixture::with(1, script, |team| {
        let keys = json!({
            "enable_agent_task_planning": true, "task_planning_filesystem_mode": true, "max_tasks_per_plan": 5,
            "enable_memory_filesystem_mode": true,
        });
        coordination(team, &keys)
    });
    let result = fixture.result(&["--quick", "task"]);
    let requests = fixture.server.requests();
    assert!(tool_results(&requests[3]).contains("1 of 1 done"), "{}", tool_results(&requests[3]));
    let workspace = std::path::Path::new(result["workspace_path"].as_str().unwrap()).to_owned();
    let list: Value =
        serde_json::from_slice(&std::fs::read(workspace.join("tasks/plan.json")).unwrap()).unwrap();
    assert_eq!(list["tasks"][0]["status"], "completed");
    let kept = std::fs::read_to_string(fixture.session().join("memory/a/short_term/tea.md")).unwrap();
    assert_eq!(kept, "They like tea.");
}

#[test]
fn with_planning_mode_in_the_config_agents_are_read_only_until_the_presentation() {
    let script = Script::from_fn(|request| {
        let presents = !request.tool_names().iter().any(|tool| *tool == "new_answer" || *tool == "vote");
        if presents && tool_results(request).is_empty() {
            return Reply::call("write_file", &json!({ "path": "result.txt", "content": "done" })).into();
        }
        member_action(request)
    });
    let fixture = Fixture::with(2, script, |team| {
        let keys =
            json!({ "enable_planning_mode": true, "planning_mode_instruction": "Describe, do not do." });
        coordination(team.every_backend("enable_mcp_command_line", true).every_backend("cwd", "here"), &keys)
    });
    let result = fixture.result(&["task"]);
    let (mut planned, mut acted) = (0, 0);
    for request in fixture.server.requests() {
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
fn a_blocked_command_is_refused_with_the_reason_and_the_agent_continues() {
    let script = calling(vec![
        ("run_command", json!({ "command": "rm -rf everything; echo gone" })),
        ("run_command", json!({ "command": "echo fine" })),
    ]);
    let fixture = Fixture::with(1, script, |team| {
        team.every_backend("enable_mcp_command_line", true)
            .every_backend("cwd", "here")
            .every_backend("command_line_blocked_commands", json!(["rm .*"]))
    });
    fixture.run(&["--quick", "task"]).expect_code(0);
    let said = tool_results(&fixture.server.requests()[2]);
    assert!(said.contains("blocks what matches `rm .*`") && said.contains("fine"), "{said}");
    assert!(!said.contains("gone"), "{said}");
}
