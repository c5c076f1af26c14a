//! Changes in context paths: detected per file, and listed in a file if they are many.

use super::fixture::{context, write};
use super::scale;
use super::snapshots::let_time_pass;
use crate::{ContextSnapshot, write_change_list};
use althing_protocol::FileChange::{Deleted, Modified, New};
use althing_protocol::{FileChange, FileWrite, WRITES_FILE};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn writes(list: &[(&Path, &str, FileChange)]) -> Vec<FileWrite> {
    let one = |(base, path, change): &(&Path, &str, FileChange)| FileWrite {
        path: base.join(path).to_str().unwrap().to_owned(),
        change: *change,
        note: None,
    };
    list.iter().map(one).collect()
}

// spec: modes/context-path-write-tracking/snapshot-context-paths-before-writes-are-enabled
#[test]
fn the_snapshot_records_every_file_of_writable_paths_without_content() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path();
    for path in ["w/a.txt", "w/deep/b.txt", "w/.git/index", "w/.state/log", "r/c.txt", "one.txt"] {
        write(&base.join(path), "content-canary");
    }
    let paths = [
        context(&base.join("w"), true, &[]),
        context(&base.join("r"), false, &[]),
        context(&base.join("one.txt"), true, &[]),
        context(&base.join("missing"), true, &[]),
    ];
    let taken = ContextSnapshot::take(&paths, Some(&base.join("w/.state"))).unwrap();
    let stored = serde_json::to_string(&taken).unwrap();
    for there in ["a.txt", "deep/b.txt", "one.txt"] {
        assert!(stored.contains(there), "{there}");
    }
    let time = fs::metadata(base.join("w/deep/b.txt")).unwrap().modified().unwrap();
    let time = time.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    assert!(stored.contains(&time.to_string()), "times are stored in nanoseconds");
    for not_there in ["content-canary", "c.txt", "index", "log"] {
        assert!(!stored.contains(not_there), "{not_there}");
    }
    assert_eq!(taken.compare().unwrap(), []);
    assert_eq!(
        serde_json::from_str::<ContextSnapshot>(&stored).unwrap(),
        taken,
        "a resumed run compares with it"
    );
}

#[test]
fn a_new_git_directory_is_listed_whether_it_is_empty_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("project");
    write(&base.join("same.txt"), "before");
    let taken = ContextSnapshot::take(&[context(&base, true, &[])], None).unwrap();
    fs::create_dir(base.join(".git")).unwrap();
    let listed = taken.compare().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(listed[0].path.ends_with("project/.git/"), "{listed:?}");
    write(&base.join(".git/hooks/pre-commit"), "planted");
    let listed = taken.compare().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(listed[0].path.ends_with(".git/hooks/pre-commit"), "{listed:?}");
}

// spec: modes/context-path-write-tracking/detect-written-files-after-execution-completes
#[test]
fn new_and_modified_files_are_found_and_deleted_ones_too() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("project");
    for path in [
        "same.txt",
        "changed.txt",
        "grown.txt",
        "gone.txt",
        "sneaky.txt",
        "replaced.txt",
        "d/x.txt",
        ".git/index",
    ] {
        write(&base.join(path), "before");
    }
    symlink("same.txt", base.join("link")).unwrap();
    let taken = ContextSnapshot::take(&[context(&base, true, &[])], None).unwrap();
    let time = fs::metadata(base.join("sneaky.txt")).unwrap().modified().unwrap();
    let_time_pass(dir.path());
    write(&base.join("changed.txt"), "after!");
    write(&base.join("grown.txt"), "longer than before");
    write(&base.join("new/deep.txt"), "new");
    write(&base.join(".git/index"), "git's own bookkeeping");
    fs::remove_file(base.join("gone.txt")).unwrap();
    // The new content has the same size, and the modification time is restored.
    fs::write(base.join("sneaky.txt"), "after!").unwrap();
    fs::File::options().write(true).open(base.join("sneaky.txt")).unwrap().set_modified(time).unwrap();
    // A different file with the same name, size and modification time.
    fs::write(base.join("tmp"), "after!").unwrap();
    fs::File::options().write(true).open(base.join("tmp")).unwrap().set_modified(time).unwrap();
    fs::rename(base.join("tmp"), base.join("replaced.txt")).unwrap();
    fs::remove_file(base.join("link")).unwrap();
    symlink("changed.txt", base.join("link")).unwrap();
    fs::remove_dir_all(base.join("d")).unwrap();
    symlink("/", base.join("d")).unwrap();
    assert_eq!(
        taken.compare().unwrap(),
        writes(&[
            (&base, "changed.txt", Modified),
            (&base, "d", New),
            (&base, "d/x.txt", Deleted),
            (&base, "gone.txt", Deleted),
            (&base, "grown.txt", Modified),
            (&base, "link", Modified),
            (&base, "new/deep.txt", New),
            (&base, "replaced.txt", Modified),
            (&base, "sneaky.txt", Modified),
        ])
    );
}

#[test]
fn a_change_right_after_the_snapshot_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.txt");
    for n in 0..scale(10, 100) {
        write(&file, &format!("{n:03}"));
        let taken = ContextSnapshot::take(&[context(dir.path(), true, &[])], None).unwrap();
        let time = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "xxx").unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        assert_eq!(taken.compare().unwrap(), writes(&[(dir.path(), "a.txt", Modified)]));
    }
}

#[test]
fn nested_context_paths_report_a_file_once() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path();
    write(&base.join("p/sub/a.txt"), "a");
    let paths = [context(&base.join("p"), true, &[]), context(&base.join("p/sub"), true, &[])];
    let taken = ContextSnapshot::take(&paths, None).unwrap();
    write(&base.join("p/sub/b.txt"), "b");
    write(&base.join("p/c.txt"), "c");
    assert_eq!(taken.compare().unwrap(), writes(&[(base, "p/c.txt", New), (base, "p/sub/b.txt", New)]));
}

#[test]
fn a_context_path_that_cannot_be_read_is_listed_and_hides_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path();
    write(&base.join("gone/a.txt"), "a");
    write(&base.join("p/b.txt"), "b");
    let paths = [context(&base.join("gone"), true, &[]), context(&base.join("p"), true, &[])];
    let taken = ContextSnapshot::take(&paths, None).unwrap();
    fs::remove_dir_all(base.join("gone")).unwrap();
    write(&base.join("p/c.txt"), "c");
    let mut listed = taken.compare().unwrap();
    let note = listed.first_mut().and_then(|write| write.note.take()).unwrap();
    assert!(note.starts_with("what changed here could not be determined: No such file"), "{note}");
    assert_eq!(listed, writes(&[(base, "gone/", Modified), (base, "p/c.txt", New)]));
}

#[test]
fn among_many_files_exactly_the_changed_ones_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("big");
    let count = scale(5_000, 100_000);
    for n in 0..count {
        let path = base.join(format!("d{}/e{}", n % 100, n % 1000));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(format!("{n}.txt")), "x").unwrap();
    }
    let taken = ContextSnapshot::take(&[context(&base, true, &[])], None).unwrap();
    let mut expected: Vec<(std::path::PathBuf, FileChange)> = Vec::new();
    for n in (0..count).step_by(997) {
        let path = base.join(format!("d{}/e{}/{n}.txt", n % 100, n % 1000));
        let change = match n % 3 {
            0 => fs::remove_file(&path).map(|()| Deleted),
            _ => fs::write(&path, "y").map(|()| Modified),
        };
        expected.push((path, change.unwrap()));
    }
    expected.sort_by(|a, b| crate::confine::by_bytes(&a.0, &b.0));
    let found: Vec<_> = taken.compare().unwrap().into_iter().map(|w| (w.path.into(), w.change)).collect();
    assert_eq!(found, expected);
}

fn many(count: usize, change: FileChange) -> Vec<FileWrite> {
    (1..=count).map(|n| FileWrite { path: format!("/p/{n}.txt"), change, note: None }).collect()
}

// spec: modes/context-path-write-tracking/display-written-files-in-final-answer-many-files
#[test]
fn more_than_five_changed_files_are_listed_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    for few in [Vec::new(), many(5, New), many(5, Deleted)] {
        assert_eq!(write_change_list(&few, dir.path()).unwrap(), None);
        assert!(!dir.path().join(WRITES_FILE).exists());
    }
    let mut list = many(6, New);
    list.extend(many(2, Deleted));
    let path = write_change_list(&list, dir.path()).unwrap().unwrap();
    assert_eq!(path, dir.path().join("context_path_writes.txt"));
    let kept = fs::read_to_string(path).unwrap();
    assert_eq!(kept.lines().filter(|line| line.starts_with("+ /p/")).count(), 6);
    assert_eq!(kept.lines().filter(|line| line.starts_with("- /p/")).count(), 2);
    let json = serde_json::to_value(many(1, New)).unwrap();
    assert_eq!(json, serde_json::json!([{"path": "/p/1.txt", "change": "new"}]), "no note, no field");
}
