//! The tools that change single files.

use super::fixture::Fixture;
use crate::Refusal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn missing_directories_are_created_when_a_file_is_written() {
    let fixture = Fixture::new();
    assert!(fixture.write("new/deep/file.txt", "one\n").unwrap().starts_with("Wrote "));
    assert!(fixture.write("new/deep/file.txt", "two\n").unwrap().starts_with("Replaced "));
    assert_eq!(fs::read_to_string(fixture.workspace().join("new/deep/file.txt")).unwrap(), "two\n");
    let names = fs::read_dir(fixture.workspace().join("new/deep")).unwrap().count();
    assert_eq!(names, 1, "no temporary file stays");
}

#[test]
fn permissions_survive_a_change() {
    let fixture = Fixture::new();
    let path = fixture.workspace().join("run.sh");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    fixture.call("edit_file", &json!({"path": "run.sh", "old": "sh\n", "new": "bash\n"})).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn an_edit_needs_exactly_one_match_unless_replace_all_is_set() {
    let fixture = Fixture::new();
    fixture.write("a.txt", "x y x\n").unwrap();
    let edit = |old: &str, new: &str, all: bool| {
        fixture.call("edit_file", &json!({"path": "a.txt", "old": old, "new": new, "replace_all": all}))
    };
    let output = |outcome: Result<String, Refusal>| outcome.unwrap_err().to_string();
    assert!(output(edit("x", "z", false)).contains("occurs 2 times"));
    assert!(output(edit("q", "z", false)).contains("does not occur"));
    assert!(output(edit("x", "x", false)).contains("same as `new`"));
    assert!(output(edit("", "x", false)).contains("must not be empty"));
    assert!(edit("x", "z", true).unwrap().contains("2 places"));
    assert_eq!(fs::read_to_string(fixture.workspace().join("a.txt")).unwrap(), "z y z\n");
}

#[test]
fn an_edit_keeps_the_line_ends_of_the_file() {
    let fixture = Fixture::new();
    fixture.write("dos.txt", "one\r\ntwo\r\n").unwrap();
    fixture.call("edit_file", &json!({"path": "dos.txt", "old": "one\ntwo", "new": "1\n2"})).unwrap();
    assert_eq!(fs::read_to_string(fixture.workspace().join("dos.txt")).unwrap(), "1\r\n2\r\n");
}

#[test]
fn binary_and_too_large_files_are_not_edited() {
    let fixture = Fixture::new();
    fs::write(fixture.workspace().join("latin"), b"caf\xe9").unwrap();
    let edited = fixture.call("edit_file", &json!({"path": "latin", "old": "caf", "new": "x"}));
    assert!(matches!(edited, Err(Refusal::WrongKind { .. })));
    let large = "x".repeat((8 << 20) + 1);
    assert!(matches!(fixture.write("large", &large), Err(Refusal::TooLarge { .. })));
    fs::write(fixture.workspace().join("large"), &large).unwrap();
    let edited = fixture.call("edit_file", &json!({"path": "large", "old": "x", "new": "y"}));
    assert!(matches!(edited, Err(Refusal::TooLarge { .. })));
}

#[test]
fn files_are_deleted_and_directories_are_not() {
    let fixture = Fixture::new();
    let delete = |path: &str| fixture.call("delete_file", &json!({"path": path}));
    delete("ok.txt").unwrap();
    assert!(!fixture.workspace().join("ok.txt").exists());
    assert!(matches!(delete("ok.txt"), Err(Refusal::NotFound { .. })));
    assert!(matches!(delete("sub"), Err(Refusal::WrongKind { .. })));
    assert!(matches!(delete("."), Err(Refusal::WrongKind { .. })));
}
