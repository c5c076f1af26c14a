//! Directory trees that were built to do harm: very deep ones, hard links, repositories under other names.

use super::agent_files::RunFixture;
use super::fixture::{Fixture, temp, write};
use crate::access::ReadOnlyReason;
use crate::{ConfinedDir, Refusal, UndoCoverage, UndoLimits, Workspace, undo};
use althing_protocol::{AnswerLabel, FileChange};
use rustix::fs::{Mode, OFlags};
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Allows for a busy machine. An operation in quadratic time takes minutes on an idle one.
const SOON: Duration = Duration::from_secs(90);

fn dig(dir: &Path, name: &str, levels: usize) {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(dir, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, name, flags, Mode::empty()).unwrap();
        let create = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&at, "file", create, Mode::RUSR | Mode::WUSR).unwrap();
    }
}

#[track_caller]
fn soon<T>(work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = work();
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    done
}

#[test]
fn a_snapshot_of_deep_directories_is_quick_and_one_of_too_deep_directories_is_refused() {
    let dir = temp();
    let run = dir.path().join("run");
    let workspace = Workspace::open(&run, &run.join("workspaces/me")).unwrap();
    dig(workspace.path(), "d", 1_200);
    let label = |nth| AnswerLabel { agent: 1, nth };
    let snapshot = soon(|| workspace.take_snapshot(label(1))).unwrap();
    assert_eq!(snapshot.copied, 1_200);
    soon(|| workspace.show_snapshots(&[label(1)])).unwrap();
    let other = Workspace::open(&run, &run.join("workspaces/other")).unwrap();
    soon(|| other.import_dir(workspace.path(), Path::new("taken"))).unwrap();
    dig(workspace.path(), "deeper", 5_000);
    let error = soon(|| workspace.take_snapshot(label(2))).unwrap_err().to_string();
    assert!(error.contains("nested too deeply: deeper/deeper/"), "{error}");
    assert!(!run.join("snapshots/agent1.2").exists() && !run.join("snapshots/.tmp-agent1.2").exists());
}

#[test]
fn searching_deep_directories_is_quick_and_says_that_not_everything_was_searched() {
    let fixture = Fixture::new();
    let note = "nested too deeply";
    let call =
        |tool: &str, pattern: &str| soon(|| fixture.call(tool, &json!({ "pattern": pattern }))).unwrap();
    assert!(!call("search", "no such text").contains(note));
    assert!(!call("glob", "**/no-such-name").contains(note));
    dig(fixture.workspace(), "d", 5_000);
    assert!(call("search", "no such text").contains(note), "although nothing matches");
    assert!(call("glob", "**/no-such-name").contains(note), "although nothing matches");
    assert!(call("glob", "d/file").contains(note));
}

#[tokio::test]
async fn deep_directories_in_a_context_path_are_listed_and_undone_quickly() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let project = fixture.base.join("project");
    dig(&project, "old", 200);
    let files = fixture.files(0);
    let started = Instant::now();
    files.open_context().await.unwrap();
    dig(&project, "new", 5_000);
    ConfinedDir::open(&project.join("old/old")).unwrap().remove_tree(OsStr::new("old")).unwrap();
    let writes = files.close_context().await.unwrap();
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    let new =
        |path: &str| writes.iter().any(|write| write.path.ends_with(path) && write.change == FileChange::New);
    assert!(new("project/new/file") && new("new/new/file"), "{:?}", writes.first());
    assert!(new("/new/"), "the directory that is too deep is listed as a whole");
    let deleted = writes.iter().filter(|write| write.change == FileChange::Deleted).count();
    assert_eq!(deleted, 198);
    let report = soon(|| undo(&fixture.run)).unwrap();
    assert!(report.not_covered.is_empty(), "{:?}", report.not_covered);
    assert!(!project.join("new").exists());
    assert!(project.join("old/old/old/old/file").exists());
}

#[test]
fn a_file_with_many_names_is_stored_once() {
    let dir = temp();
    let run = dir.path().join("run");
    let workspace = Workspace::open(&run, &run.join("workspaces/me")).unwrap().with_max_bytes(Some(8 << 20));
    fs::write(workspace.path().join("0"), vec![7; 1 << 20]).unwrap();
    for n in 1..100 {
        fs::hard_link(workspace.path().join("0"), workspace.path().join(n.to_string())).unwrap();
    }
    let snapshot = workspace.take_snapshot(AnswerLabel { agent: 1, nth: 1 }).unwrap();
    assert!(snapshot.issues.is_empty(), "{:?}", snapshot.issues);
    let inodes: std::collections::BTreeSet<u64> =
        (0..100).map(|n| fs::metadata(snapshot.path.join(n.to_string())).unwrap().ino()).collect();
    assert!(inodes.len() <= 8, "{} copies", inodes.len());
    let live = fs::metadata(workspace.path().join("0")).unwrap().ino();
    assert!(!inodes.contains(&live), "a snapshot shares no file with the workspace");
}

#[test]
fn file_tools_write_to_no_repository_under_another_name() {
    let fixture = Fixture::new();
    let project = fixture.base.join("project");
    for file in ["bare/HEAD", "bare/objects/x", "bare/refs/x", "bare/hooks/sample", "half/HEAD"] {
        write(&project.join(file), "before");
    }
    for file in ["bare/hooks/pre-commit", "bare/config", "bare/new/deep/file"] {
        let refused = fixture.write(project.join(file).to_str().unwrap(), "x").unwrap_err();
        let is_repository = matches!(&refused, Refusal::ReadOnly { why: ReadOnlyReason::Repository, .. });
        assert!(is_repository, "{file}: {refused}");
    }
    fixture.write(project.join("half/config").to_str().unwrap(), "x").unwrap();
}

#[tokio::test]
async fn where_packages_are_too_large_to_copy_everything_else_is_undone_and_a_notice_says_so() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    fixture.limits = UndoLimits { bytes: 1 << 20, files: 50 };
    let project = fixture.base.join("project");
    for n in 0..60 {
        write(&project.join(format!("node_modules/p/{n}.js")), "before");
    }
    write(&project.join("src.txt"), "before");
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    let notices = files.take_notices();
    assert!(
        notices.iter().any(|notice| notice.contains("node_modules") && notice.contains("60 files")),
        "{notices:?}"
    );
    fs::write(project.join("node_modules/p/1.js"), "after").unwrap();
    fs::write(project.join("node_modules/p/new.js"), "after").unwrap();
    fs::write(project.join("src.txt"), "after").unwrap();
    files.close_context().await.unwrap();
    let report = undo(&fixture.run).unwrap();
    assert_eq!(fs::read_to_string(project.join("src.txt")).unwrap(), "before");
    assert!(!project.join("node_modules/p/new.js").exists());
    assert_eq!(report.not_covered, [project.join("node_modules/p/1.js").to_str().unwrap()]);
}
