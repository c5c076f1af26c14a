//! Snapshots of workspaces are complete, immutable and cheap to repeat; other agents see them in views.

use super::fixture::{Temp, temp, tree, write};
use super::scale;
use crate::{SnapshotIssue, Workspace};
use althing_protocol::AnswerLabel;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

fn label(agent: u32, nth: u32) -> AnswerLabel {
    AnswerLabel { agent, nth }
}

fn workspace(dir: &Temp, name: &str) -> Workspace {
    let run = dir.path().join("run");
    Workspace::open(&run, &run.join("workspaces").join(name)).unwrap()
}

pub(super) fn let_time_pass(dir: &Path) {
    let probe = dir.join("probe");
    let stamp = || {
        fs::write(&probe, "").unwrap();
        let meta = fs::metadata(&probe).unwrap();
        meta.ctime() * 1_000_000_000 + meta.ctime_nsec()
    };
    let start = stamp();
    while stamp() < start + 2 * crate::confine::CLOCK_TICK {
        std::thread::yield_now();
    }
    fs::remove_file(&probe).unwrap();
}

#[test]
fn the_snapshots_of_an_agent_together_have_a_limit() {
    let dir = temp();
    let run = dir.path().join("run");
    let open = |name: &str| workspace(&dir, name).with_disk_limit(1 << 20);
    let (one, two) = (open("one"), open("two"));
    let change = |workspace: &Workspace, text: &str| {
        let_time_pass(dir.path());
        write(&workspace.path().join("file"), &text.repeat(900_000));
    };
    for (nth, text) in [(1, "a"), (2, "b")] {
        change(&one, text);
        assert_eq!(one.take_snapshot(label(1, nth)).unwrap().copied, 1);
    }
    change(&one, "c");
    // Also after a restart.
    for workspace in [&one, &open("one")] {
        let refused = workspace.take_snapshot(label(1, 3)).unwrap_err().to_string();
        assert!(
            refused.contains("all snapshots of this agent together would contain more than 2 MiB"),
            "{refused}"
        );
        assert!(!run.join("snapshots/agent1.3").exists());
    }
    // Files that an earlier snapshot already contains do not count again.
    write(&one.path().join("file"), "small");
    let_time_pass(dir.path());
    assert_eq!(one.take_snapshot(label(1, 3)).unwrap().copied, 1);
    assert_eq!(one.take_snapshot(label(1, 4)).unwrap().copied, 0);
    change(&two, "d");
    assert_eq!(two.take_snapshot(label(2, 1)).unwrap().copied, 1, "another agent has its own limit");
}

#[test]
fn a_snapshot_is_complete_and_immutable() {
    let dir = temp();
    let workspace = workspace(&dir, "me");
    assert_eq!(fs::metadata(workspace.path()).unwrap().mode() & 0o777, 0o700);
    write(&workspace.path().join("a/b/c.txt"), "one");
    write(&workspace.path().join("run.sh"), "#!/bin/sh");
    fs::set_permissions(workspace.path().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(workspace.path().join("empty")).unwrap();
    symlink("a/b/c.txt", workspace.path().join("inside")).unwrap();
    symlink("/etc/hostname", workspace.path().join("outside")).unwrap();
    symlink("a/../../up", workspace.path().join("up")).unwrap();
    let snapshot = workspace.take_snapshot(label(1, 1)).unwrap();
    let before = tree(workspace.path());
    assert_eq!(tree(&snapshot.path), before);
    assert!(snapshot.path.join("empty").is_dir());
    let mut left = snapshot.issues;
    left.sort_by_key(|left| format!("{left:?}"));
    assert_eq!(left, [SnapshotIssue::LinkOutside("outside".into()), SnapshotIssue::LinkOutside("up".into())]);
    let mode = |path: &str| fs::symlink_metadata(snapshot.path.join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode("a/b/c.txt"), mode("run.sh"), mode("a/b"), mode("")), (0o400, 0o500, 0o500, 0o500));

    write(&workspace.path().join("a/b/c.txt"), "two");
    fs::remove_file(workspace.path().join("run.sh")).unwrap();
    assert_eq!(tree(&snapshot.path), before, "changes in the workspace do not affect the snapshot");
    let again = workspace.take_snapshot(label(1, 1)).unwrap();
    assert_eq!((tree(&again.path), again.copied), (before, 0), "an existing label is not changed");
}

#[test]
fn only_changed_files_are_copied_and_no_file_is_shared_with_the_workspace() {
    let dir = temp();
    let workspace = workspace(&dir, "me");
    for n in 0..100 {
        write(&workspace.path().join(format!("d{}/{n}.txt", n % 7)), &format!("text {n}"));
    }
    let_time_pass(dir.path());
    assert_eq!(workspace.take_snapshot(label(1, 1)).unwrap().copied, 100);
    write(&workspace.path().join("d3/3.txt"), "changed");
    write(&workspace.path().join("new.txt"), "new");
    fs::remove_file(workspace.path().join("d4/4.txt")).unwrap();
    let_time_pass(dir.path());
    let second = workspace.take_snapshot(label(1, 2)).unwrap();
    assert_eq!((second.copied, second.shared), (2, 98));
    assert_eq!(tree(&second.path), tree(workspace.path()));
    for path in tree(workspace.path()).keys() {
        assert_eq!(fs::metadata(workspace.path().join(path)).unwrap().nlink(), 1, "{}", path.display());
    }
    let third = workspace.take_snapshot(label(1, 3)).unwrap();
    assert_eq!(third.copied, 0);
    assert!(fs::symlink_metadata(&third.path).unwrap().is_symlink(), "an unchanged tree becomes an alias");
    assert_eq!(tree(&third.path.canonicalize().unwrap()), tree(workspace.path()));
    write(&workspace.path().join("d0/0.txt"), "after an unchanged one");
    let fourth = workspace.take_snapshot(label(1, 4)).unwrap();
    assert_eq!((fourth.copied, tree(&fourth.path)), (1, tree(workspace.path())));
}

#[test]
fn a_rewrite_that_restores_size_and_time_is_still_copied() {
    let dir = temp();
    let workspace = workspace(&dir, "me");
    let file = workspace.path().join("a.txt");
    write(&file, "aaaa");
    let_time_pass(dir.path());
    workspace.take_snapshot(label(1, 1)).unwrap();
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, "bbbb").unwrap();
    fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
    let snapshot = workspace.take_snapshot(label(1, 2)).unwrap();
    assert_eq!(fs::read_to_string(snapshot.path.join("a.txt")).unwrap(), "bbbb");
}

#[test]
fn a_change_right_after_a_snapshot_is_detected() {
    let dir = temp();
    let workspace = workspace(&dir, "me");
    let file = workspace.path().join("a.txt");
    for nth in 1..=scale(50, 500) as u32 {
        let text = format!("{nth:04}");
        fs::write(&file, &text).unwrap();
        let snapshot = workspace.take_snapshot(label(1, nth)).unwrap();
        assert_eq!(fs::read_to_string(snapshot.path.join("a.txt")).unwrap(), text);
    }
}

#[test]
fn with_a_damaged_or_missing_manifest_everything_is_copied() {
    for (which, damage) in [
        ("manifest", Some("")),
        ("manifest", Some("[]")),
        ("manifest", Some("[]\n00000000\n")),
        ("manifest", None),
        ("summary", Some("{}")),
        ("summary", None),
    ] {
        let dir = temp();
        let workspace = workspace(&dir, "me");
        write(&workspace.path().join("a.txt"), "a");
        write(&workspace.path().join("b.txt"), "b");
        let_time_pass(dir.path());
        workspace.take_snapshot(label(1, 1)).unwrap();
        let list = dir.path().join(format!("run/snapshots/agent1.1.{which}"));
        match damage {
            Some(text) => fs::write(&list, text).unwrap(),
            None => fs::remove_file(&list).unwrap(),
        }
        write(&workspace.path().join("c.txt"), "c");
        let snapshot = workspace.take_snapshot(label(1, 2)).unwrap();
        assert_eq!((snapshot.copied, snapshot.shared), (3, 0), "{which} {damage:?}");
        assert_eq!(tree(&snapshot.path), tree(workspace.path()));
    }
}

#[test]
fn a_snapshot_is_complete_while_its_agent_keeps_writing() {
    let dir = temp();
    let workspace = workspace(&dir, "me");
    for n in 0..300 {
        write(&workspace.path().join(format!("still/{n}.txt")), "still");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0_u64;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                let made = workspace.path().join(format!("busy/{}/{}.txt", n % 5, n % 50));
                write(&made, &"x".repeat((n % 5000) as usize));
                if n.is_multiple_of(3) {
                    let _ = fs::remove_file(&made);
                }
                if n.is_multiple_of(40) {
                    let _ = fs::remove_dir_all(workspace.path().join("busy"));
                }
            }
        });
        for nth in 1..=scale(20, 200) as u32 {
            let snapshot = workspace.take_snapshot(label(1, nth)).unwrap();
            let whole = tree(&snapshot.path);
            let still =
                whole.iter().filter(|(path, text)| path.starts_with("still") && *text == "still").count();
            assert_eq!(still, 300);
            assert_eq!(tree(&snapshot.path), whole);
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_crash_leaves_no_partial_snapshot() {
    let dir = temp();
    let workspace = workspace(&dir, "me");
    write(&workspace.path().join("a.txt"), "a");
    // The state after a killed process: a partial copy, possibly a manifest, but no final name.
    let half = dir.path().join("run/snapshots/.tmp-agent1.1");
    write(&half.join("deep/half.txt"), "ha");
    fs::set_permissions(half.join("deep"), fs::Permissions::from_mode(0o500)).unwrap();
    fs::write(dir.path().join("run/snapshots/agent1.1.manifest"), "ha").unwrap();
    assert!(!workspace.snapshot_dir(label(1, 1)).exists());
    let snapshot = workspace.take_snapshot(label(1, 1)).unwrap();
    assert_eq!(tree(&snapshot.path), tree(workspace.path()));
    assert!(!half.exists());
}

#[test]
fn files_that_cannot_be_stored_are_reported() {
    let dir = temp();
    let workspace = workspace(&dir, "me");
    write(&dir.path().join("elsewhere.txt"), "not the agent's");
    fs::hard_link(dir.path().join("elsewhere.txt"), workspace.path().join("foreign.txt")).unwrap();
    write(&workspace.path().join("one.txt"), "own");
    fs::hard_link(workspace.path().join("one.txt"), workspace.path().join("two.txt")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        workspace.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let snapshot = workspace.take_snapshot(label(1, 1)).unwrap();
    assert_eq!(
        snapshot.issues,
        [SnapshotIssue::HardLink("foreign.txt".into()), SnapshotIssue::Special("pipe".into())]
    );
    let names: Vec<PathBuf> = tree(&snapshot.path).into_keys().collect();
    assert_eq!(names, [PathBuf::from("one.txt"), PathBuf::from("two.txt")]);
}

#[test]
fn others_see_snapshots_under_anonymous_names_and_only_those_shown_to_them() {
    let dir = temp();
    let (one, two, three) = (workspace(&dir, "gem"), workspace(&dir, "gpt"), workspace(&dir, "sol"));
    write(&one.path().join("a/one.txt"), "first");
    write(&two.path().join("two.txt"), "second");
    one.take_snapshot(label(1, 1)).unwrap();
    two.take_snapshot(label(2, 1)).unwrap();
    three.show_snapshots(&[label(1, 1), label(2, 1), label(9, 1)]).unwrap();
    let seen = |agent: u32| tree(&three.view_of(agent));
    assert_eq!(seen(1).get(Path::new("a/one.txt")).map(String::as_str), Some("first"));
    assert_eq!(seen(2).len(), 1);
    assert!(!three.view_of(9).exists(), "that answer has no snapshot");
    assert_eq!(fs::metadata(three.view_of(1)).unwrap().mode() & 0o777, 0o500);
    assert!(three.view_of(1).ends_with("views/sol/agent1"));

    write(&one.path().join("a/one.txt"), "better");
    one.take_snapshot(label(1, 2)).unwrap();
    assert_eq!(seen(1)[Path::new("a/one.txt")], "first", "not shown yet");
    three.show_snapshots(&[label(1, 1), label(1, 2)]).unwrap();
    assert_eq!(seen(1)[Path::new("a/one.txt")], "better");
    assert!(!three.view_of(2).exists(), "new views replace the earlier ones");
    let inode = fs::metadata(three.view_of(1).join("a/one.txt")).unwrap().ino();
    assert_eq!(
        inode,
        fs::metadata(one.snapshot_dir(label(1, 2)).join("a/one.txt")).unwrap().ino(),
        "nothing is copied"
    );
    three.show_snapshots(&[]).unwrap();
    assert_eq!(fs::read_dir(three.view_dir()).unwrap().count(), 0);
    assert_eq!(tree(&one.snapshot_dir(label(1, 2)))[Path::new("a/one.txt")], "better");
}

#[test]
fn the_snapshot_of_an_unchanged_workspace_can_be_shown() {
    let dir = temp();
    let (one, two) = (workspace(&dir, "gem"), workspace(&dir, "gpt"));
    write(&one.path().join("one.txt"), "text");
    let_time_pass(dir.path());
    one.take_snapshot(label(1, 1)).unwrap();
    one.take_snapshot(label(1, 2)).unwrap();
    two.show_snapshots(&[label(1, 2)]).unwrap();
    assert_eq!(tree(&two.view_of(1)).len(), 1);
}

#[test]
fn a_session_with_read_only_snapshots_can_be_deleted() {
    let dir = temp();
    let (one, two) = (workspace(&dir, "gem"), workspace(&dir, "gpt"));
    write(&one.path().join("deep/down/one.txt"), "text");
    one.take_snapshot(label(1, 1)).unwrap();
    two.show_snapshots(&[label(1, 1)]).unwrap();
    althing_disk::files::remove_tree(&althing_disk::RealDisk, &dir.path().join("run")).unwrap();
    assert!(!dir.path().join("run").exists());
}
