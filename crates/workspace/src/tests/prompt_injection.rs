//! Rows S3 and S5 of docs/reliability.md, for file tools: a model that obeys every injected instruction gains nothing,
//! and a failing check denies access.

use super::fixture::{Fixture, SECRET, write};
use crate::tools::ChangeObserver;
use crate::{FileHost, FilePolicy, Refusal, ToolSet};
use althing_protocol::{ContextAccess, ToolCall, ToolHost};
use serde_json::{Value, json};
use std::sync::Arc;

fn orders(fixture: &Fixture) -> Vec<(&'static str, Value)> {
    let patch = |body: &str| json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch")});
    let mut orders = vec![
        ("run_command", json!({"command": "cat ../other/secret.txt"})),
        ("launch_run", json!({"task": "x"})),
        ("read", json!({"path": "ok.txt"})),
        ("READ_FILE", json!({"path": "../other/secret.txt"})),
        ("rename_file", json!({"from": "ok.txt", "to": "../x"})),
        ("apply_patch", patch("*** Add File: ../other/planted.txt\n+x")),
        ("apply_patch", patch("*** Delete File: ../other/secret.txt")),
        ("apply_patch", patch("*** Update File: ok.txt\n*** Move to: ../../../stolen.txt\n@@\n-fine\n+x")),
        ("glob", json!({"pattern": "/**/secret.txt"})),
        ("glob", json!({"pattern": "**/*", "path": ".."})),
        ("glob", json!({"pattern": "../**/secret.txt"})),
        ("search", json!({"pattern": "canary", "path": fixture.at("outside")})),
        ("search", json!({"pattern": "canary", "path": "..", "glob": "**"})),
        ("search", json!({"pattern": "canary", "glob": "../../**"})),
    ];
    for target in [
        "outside/secret.txt",
        "project/.althing/secret.txt",
        "project/.git/hooks/pre-commit",
        "project/.env",
        "project/locked/rules.md",
        "read-only/notes.txt",
        "single/secret.txt",
        "project/.althing/run/views/me/agent2/shown.txt",
        "project/node_modules/x/index.js",
    ] {
        let path = fixture.at(target);
        orders.push(("write_file", json!({"path": path, "content": "planted"})));
        orders.push(("edit_file", json!({"path": path, "old": "e", "new": "planted", "replace_all": true})));
        orders.push(("delete_file", json!({"path": path})));
        orders.push(("apply_patch", patch(&format!("*** Add File: {path}\n+planted"))));
    }
    orders
}

#[tokio::test]
async fn fifty_injected_instructions_change_and_reveal_nothing() {
    let fixture = Fixture::new();
    let mut before = super::fixture::tree(&fixture.base);
    let orders = orders(&fixture);
    assert!(orders.len() >= 50, "{}", orders.len());
    for (tool, arguments) in orders {
        let call = ToolCall { id: "c".into(), name: tool.into(), arguments: arguments.to_string() };
        let outcome = fixture.host.call(&call, ContextAccess::Writable).await;
        assert!(!outcome.content.contains(SECRET), "{tool} {arguments}: {}", outcome.content);
        let after = super::fixture::tree(&fixture.base);
        assert_eq!(after, before, "{tool} {arguments}: {}", outcome.content);
        before = after;
    }
}

struct Broken;

impl ChangeObserver for Broken {
    fn before_change(&self, resolved: &crate::access::ResolvedPath<'_>) -> Result<(), Refusal> {
        Err(Refusal::CheckFailed { path: resolved.shown.clone(), why: "the disk is full".to_owned() })
    }
}

struct Panicking;

impl ChangeObserver for Panicking {
    fn before_change(&self, _spot: &crate::access::ResolvedPath<'_>) -> Result<(), Refusal> {
        panic!("a bug in a check")
    }
}

#[tokio::test]
async fn a_check_that_fails_or_panics_denies_access() {
    for observer in [Arc::new(Broken) as Arc<dyn ChangeObserver>, Arc::new(Panicking)] {
        let fixture = Fixture::new();
        let host = FileHost::with_observer(&fixture.policy, ToolSet::All, Some(observer)).unwrap();
        let before = super::fixture::tree(&fixture.base);
        for (tool, arguments) in [
            ("write_file", json!({"path": fixture.at("project/src/main.rs"), "content": "x"})),
            ("edit_file", json!({"path": fixture.at("project/src/main.rs"), "old": "main", "new": "x"})),
            ("delete_file", json!({"path": fixture.at("project/src/main.rs")})),
        ] {
            let call = ToolCall { id: "c".into(), name: tool.into(), arguments: arguments.to_string() };
            let outcome = host.call(&call, ContextAccess::Writable).await;
            assert!(outcome.is_error, "{tool}");
        }
        assert_eq!(super::fixture::tree(&fixture.base), before);
        let call = ToolCall {
            id: "c".into(),
            name: "read_file".into(),
            arguments: json!({"path": "ok.txt"}).to_string(),
        };
        assert!(!host.call(&call, ContextAccess::ReadOnly).await.is_error, "the host itself lives on");
    }
}

#[test]
fn nothing_is_allowed_by_an_empty_policy() {
    let dir = tempfile::tempdir().unwrap();
    assert!(FileHost::open(&FilePolicy::default(), ToolSet::All).is_err());
    write(&dir.path().join("w/in.txt"), "in");
    write(&dir.path().join("out.txt"), SECRET);
    let policy = FilePolicy { workspace: dir.path().join("w"), ..FilePolicy::default() };
    let host = FileHost::open(&policy, ToolSet::All).unwrap();
    let read = |path: &str| {
        host.call_blocking("read_file", &json!({"path": path}).to_string(), ContextAccess::Writable)
    };
    assert!(read("in.txt").is_ok());
    assert!(matches!(read("../out.txt"), Err(Refusal::Outside { .. })));
}

#[tokio::test]
async fn a_dropped_call_leaves_no_partial_change() {
    let fixture = Fixture::new();
    let arguments = json!({"path": "late.txt", "content": "x"}).to_string();
    let call = ToolCall { id: "c".into(), name: "write_file".into(), arguments };
    for _ in 0..50 {
        // The future is polled once and then dropped: the write must happen completely or not at all.
        let mut future = fixture.host.call(&call, ContextAccess::ReadOnly);
        std::future::poll_fn(|cx| {
            let _ = future.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
        drop(future);
    }
    fixture.write("settled.txt", "x").unwrap();
    let late =
        std::fs::read_to_string(fixture.workspace().join("late.txt")).unwrap_or_else(|_| "x".to_owned());
    assert_eq!(late, "x");
    let temporary = std::fs::read_dir(fixture.workspace()).unwrap();
    let temporary = temporary
        .filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().starts_with(".althing-"))
        .count();
    assert_eq!(temporary, 0);
}
