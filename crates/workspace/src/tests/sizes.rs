//! File tools whose result is much larger than their arguments: refused before memory is used for the result.

use super::fixture::Fixture;
use crate::Refusal;
use althing_protocol::{ContextAccess, ToolCall, ToolHost};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;

/// More memory than this process needs, and less than any of these calls would use. Each test is a process of its own.
const MEMORY: u64 = 1 << 30;

fn limit_memory() {
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: Some(MEMORY), maximum }).unwrap();
}

async fn both(fixture: &Fixture, tool: &str, arguments: &Value) -> [String; 2] {
    let call = ToolCall { id: "1".into(), name: tool.into(), arguments: arguments.to_string() };
    let preview = fixture.host.preview(&call, ContextAccess::Writable).await.unwrap_err();
    let refused = fixture.call(tool, arguments).unwrap_err();
    assert!(matches!(refused, Refusal::TooLarge { .. }), "{refused}");
    [preview.content, refused.to_string()]
}

#[tokio::test]
async fn an_edit_whose_result_would_be_huge_is_refused_without_using_memory() {
    let fixture = Fixture::new();
    fs::write(fixture.workspace().join("f"), "a".repeat(1 << 20)).unwrap();
    fs::write(fixture.workspace().join("lines"), "\r\n".repeat(1 << 20)).unwrap();
    limit_memory();
    for (path, old) in [("f", "a"), ("lines", "\n")] {
        for new in ["b".repeat(1 << 20), "\n".repeat(1 << 20)] {
            let edit = json!({"path": path, "old": old, "new": new, "replace_all": true});
            let [preview, refused] = both(&fixture, "edit_file", &edit).await;
            assert_eq!(preview, refused);
        }
    }
    let smaller = json!({"path": "f", "old": "aa", "new": "a", "replace_all": true});
    fixture.call("edit_file", &smaller).unwrap();
    assert_eq!(fs::metadata(fixture.workspace().join("f")).unwrap().len(), 1 << 19);
    let larger = json!({"path": "f", "old": "a", "new": "b".repeat(16), "replace_all": true});
    fixture.call("edit_file", &larger).unwrap();
    assert_eq!(fs::metadata(fixture.workspace().join("f")).unwrap().len(), 8 << 20, "exactly the limit");
}

#[tokio::test]
async fn a_patch_of_more_data_than_its_limit_is_refused_without_using_memory() {
    let fixture = Fixture::new();
    // The files are sparse, so an agent makes any number of them within its disk limit.
    for number in 0..300 {
        fs::File::create(fixture.workspace().join(format!("f{number}"))).unwrap().set_len(8_000_000).unwrap();
    }
    limit_memory();
    let patch = |op: &dyn Fn(usize) -> String| {
        let mut text = "*** Begin Patch\n".to_owned();
        for number in 0..300 {
            writeln!(text, "{}", op(number)).unwrap();
        }
        json!({"patch": text + "*** End Patch"})
    };
    let deletions = patch(&|number| format!("*** Delete File: f{number}"));
    let updates = patch(&|number| format!("*** Update File: f{number}\n@@\n+x"));
    let moves = patch(&|number| format!("*** Update File: f{number}\n*** Move to: g{number}"));
    for patch in [deletions, updates, moves] {
        let [preview, refused] = both(&fixture, "apply_patch", &patch).await;
        assert_eq!(preview, refused);
        assert!(refused.contains("all files of the patch together"), "{refused}");
    }
    assert_eq!(
        fs::metadata(fixture.workspace().join("f299")).unwrap().len(),
        8_000_000,
        "nothing was changed"
    );
    let twice = patch(&|_| "*** Delete File: f0".to_owned());
    let refused = fixture.call("apply_patch", &twice).unwrap_err().to_string();
    assert!(refused.contains("f0 is changed twice"), "{refused}");
}

#[test]
fn a_glob_that_is_too_long_or_nested_too_deeply_is_refused() {
    let fixture = Fixture::new();
    let nested = |depth: usize| format!("{}deep.txt{}", "{".repeat(depth), "}".repeat(depth));
    for pattern in [nested(200_000), nested(2_000), nested(60), "*".repeat(100_000), "{a,b}".repeat(2_000)] {
        for (tool, arguments) in
            [("glob", json!({"pattern": pattern})), ("search", json!({"pattern": "x", "glob": pattern}))]
        {
            let refused = fixture.call(tool, &arguments).unwrap_err();
            assert!(matches!(refused, Refusal::Argument { .. }), "{tool}: {refused}");
        }
    }
    let found = fixture.call("glob", &json!({"pattern": "**/{deep,{other,third}}.txt"})).unwrap();
    assert!(found.contains("sub/deep.txt"), "{found}");
    // Nesting within the limit neither panics nor is it refused.
    let found = fixture.call("glob", &json!({"pattern": format!("**/{}", nested(50))})).unwrap();
    assert!(found.contains("sub/deep.txt"), "{found}");
}

#[test]
fn a_gitignore_whose_patterns_are_nested_deeply_does_not_end_the_process() {
    let fixture = Fixture::new();
    let nested = format!("{}a{}", "{".repeat(100_000), "}".repeat(100_000));
    fixture.write(".gitignore", &format!("{nested}\nsub\n")).unwrap();
    fixture.write("found.txt", "fine\n").unwrap();
    let found = fixture.call("search", &json!({"pattern": "fine|deep"})).unwrap();
    assert!(found.contains("found.txt") && !found.contains("sub/deep.txt"), "{found}");
    let listed = crate::list_tree(fixture.workspace(), 100);
    assert!(format!("{listed:?}").contains("found.txt"), "{listed:?}");
}
