//! What the changing tools do to single files.

use super::yard::Yard;
use crate::Refusal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn a_file_is_written_with_the_directories_on_its_way() {
    let yard = Yard::new();
    assert!(yard.write("new/deep/file.txt", "one\n").unwrap().starts_with("Wrote "));
    assert!(yard.write("new/deep/file.txt", "two\n").unwrap().starts_with("Replaced "));
    assert_eq!(fs::read_to_string(yard.workspace().join("new/deep/file.txt")).unwrap(), "two\n");
    let names = fs::read_dir(yard.workspace().join("new/deep")).unwrap().count();
    assert_eq!(names, 1, "no temporary file stays");
}

#[test]
fn permissions_survive_a_change() {
    let yard = Yard::new();
    let path = yard.workspace().join("run.sh");
    fs::write(&path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    yard.call("edit_file", &json!({"path": "run.sh", "old": "sh\n", "new": "bash\n"})).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn an_edit_needs_its_text_exactly_once_unless_all_are_meant() {
    let yard = Yard::new();
    yard.write("a.txt", "x y x\n").unwrap();
    let edit = |old: &str, new: &str, all: bool| {
        yard.call("edit_file", &json!({"path": "a.txt", "old": old, "new": new, "replace_all": all}))
    };
    let told = |outcome: Result<String, Refusal>| outcome.unwrap_err().to_string();
    assert!(told(edit("x", "z", false)).contains("occurs 2 times"));
    assert!(told(edit("q", "z", false)).contains("does not occur"));
    assert!(told(edit("x", "x", false)).contains("same as `new`"));
    assert!(told(edit("", "x", false)).contains("must not be empty"));
    assert!(edit("x", "z", true).unwrap().contains("2 places"));
    assert_eq!(fs::read_to_string(yard.workspace().join("a.txt")).unwrap(), "z y z\n");
}

#[test]
fn an_edit_keeps_the_line_ends_of_the_file() {
    let yard = Yard::new();
    yard.write("dos.txt", "one\r\ntwo\r\n").unwrap();
    yard.call("edit_file", &json!({"path": "dos.txt", "old": "one\ntwo", "new": "1\n2"})).unwrap();
    assert_eq!(fs::read_to_string(yard.workspace().join("dos.txt")).unwrap(), "1\r\n2\r\n");
}

#[test]
fn what_is_not_text_or_too_large_is_not_edited() {
    let yard = Yard::new();
    fs::write(yard.workspace().join("latin"), b"caf\xe9").unwrap();
    let edited = yard.call("edit_file", &json!({"path": "latin", "old": "caf", "new": "x"}));
    assert!(matches!(edited, Err(Refusal::WrongKind { .. })));
    let large = "x".repeat((8 << 20) + 1);
    assert!(matches!(yard.write("large", &large), Err(Refusal::TooLarge { .. })));
    fs::write(yard.workspace().join("large"), &large).unwrap();
    let edited = yard.call("edit_file", &json!({"path": "large", "old": "x", "new": "y"}));
    assert!(matches!(edited, Err(Refusal::TooLarge { .. })));
}

#[test]
fn files_are_deleted_and_directories_are_not() {
    let yard = Yard::new();
    let delete = |path: &str| yard.call("delete_file", &json!({"path": path}));
    delete("ok.txt").unwrap();
    assert!(!yard.workspace().join("ok.txt").exists());
    assert!(matches!(delete("ok.txt"), Err(Refusal::NotFound { .. })));
    assert!(matches!(delete("sub"), Err(Refusal::WrongKind { .. })));
    assert!(matches!(delete("."), Err(Refusal::WrongKind { .. })));
}
