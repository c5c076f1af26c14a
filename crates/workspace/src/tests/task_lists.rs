//! An agent's task list: stored in a file, in order, within its limits.

use super::fixture::{Temp, temp, write};
use crate::TaskHost;
use althing_protocol::{ContextAccess, ToolCall, ToolHost, ToolOutcome};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

fn host(dir: &Temp, most: u32) -> TaskHost {
    TaskHost::open(dir.path(), most).unwrap()
}

async fn call(host: &TaskHost, tool: &str, arguments: Value) -> ToolOutcome {
    let call = ToolCall { id: "1".into(), name: tool.into(), arguments: arguments.to_string() };
    host.call(&call, ContextAccess::ReadOnly).await
}

#[tokio::test]
async fn a_list_is_created_updated_and_read_back_from_its_file() {
    let dir = temp();
    let first = host(&dir, 10);
    assert!(call(&first, "get_task_plan", json!({})).await.content.contains("no tasks"));
    let tasks = json!([
        { "id": "read", "description": "Read the code" },
        { "id": "mend", "description": "Mend it", "depends_on": ["read"], "verification": "tests pass" },
    ]);
    let made = call(&first, "create_task_plan", json!({ "tasks": tasks })).await;
    assert!(made.content.starts_with("0 of 2 done. Can begin now: read."), "{}", made.content);
    let early = call(&first, "update_task_status", json!({ "id": "mend", "status": "in_progress" })).await;
    assert!(early.is_error && early.content.contains("depends on `read`"), "{}", early.content);
    call(&first, "update_task_status", json!({ "id": "read", "status": "completed", "note": "12 files" }))
        .await;
    let added = call(&first, "add_task", json!({ "description": "Say so", "after": "read" })).await;
    assert!(
        added.content.contains("- [x] **read**: Read the code\n  - note: 12 files\n- [ ] **t3**: Say so"),
        "{}",
        added.content
    );

    let again = host(&dir, 10);
    call(&again, "edit_task", json!({ "id": "t3", "description": "Tell them", "depends_on": ["mend"] }))
        .await;
    let shown = call(&again, "delete_task", json!({ "id": "nobody" })).await;
    assert!(shown.is_error && shown.content.contains("read, t3, mend"), "{}", shown.content);
    let output = call(&again, "get_task_plan", json!({})).await.content;
    assert!(
        output.starts_with("1 of 3 done. Can begin now: mend.") && output.contains("Tell them (after mend)"),
        "{output}"
    );
    let file: Value = serde_json::from_slice(&fs::read(dir.path().join("tasks/plan.json")).unwrap()).unwrap();
    assert_eq!(file["tasks"][0]["status"], "completed");
    assert_eq!(file["tasks"][2]["verification"], "tests pass");
}

#[tokio::test]
async fn invalid_changes_are_refused_and_change_nothing() {
    let dir = temp();
    let host = host(&dir, 2);
    call(&host, "create_task_plan", json!({ "tasks": [{ "id": "a", "description": "A" }, "B"] })).await;
    let before = fs::read(dir.path().join("tasks/plan.json")).unwrap();
    for (tool, arguments, word) in [
        ("add_task", json!({ "description": "one too many" }), "2 are allowed"),
        ("create_task_plan", json!({ "tasks": [] }), "no tasks"),
        ("create_task_plan", json!({ "tasks": "all of it" }), "list"),
        (
            "create_task_plan",
            json!({ "tasks": [{ "id": "a", "description": "A" }, { "id": "a", "description": "A" }] }),
            "two tasks",
        ),
        ("edit_task", json!({ "id": "a", "depends_on": ["a"] }), "a → a"),
        ("edit_task", json!({ "id": "a", "depends_on": ["z"] }), "`z`"),
        ("update_task_status", json!({ "id": "a", "status": "finished" }), "in_progress"),
        ("update_task_status", json!({ "status": "completed" }), "required"),
        ("add_task", json!({ "descripton": "misspelt" }), "unknown"),
    ] {
        let outcome = call(&host, tool, arguments).await;
        assert!(outcome.is_error && outcome.content.contains(word), "{tool}: {}", outcome.content);
    }
    assert_eq!(fs::read(dir.path().join("tasks/plan.json")).unwrap(), before);
}

#[tokio::test]
async fn a_broken_list_is_reported_and_replaceable_and_links_are_not_followed() {
    let dir = temp();
    let host = host(&dir, 5);
    write(&dir.path().join("tasks/plan.json"), "{ not json");
    let broken = call(&host, "get_task_plan", json!({})).await;
    assert!(broken.is_error && broken.content.contains("create_task_plan"), "{}", broken.content);
    let made = call(&host, "create_task_plan", json!({ "tasks": ["A"] })).await;
    assert!(!made.is_error, "{}", made.content);
    fs::remove_dir_all(dir.path().join("tasks")).unwrap();
    let outside = temp();
    symlink(outside.path(), dir.path().join("tasks")).unwrap();
    assert!(call(&host, "create_task_plan", json!({ "tasks": ["A"] })).await.is_error);
    assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
}
