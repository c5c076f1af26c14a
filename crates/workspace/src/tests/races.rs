//! Row S1 of docs/reliability.md, races: directories and files are swapped for links while an agent's calls run.

use super::fixture::{Fixture, SECRET, tree, write};
use super::scale;
use crate::Workspace;
use althing_protocol::AnswerLabel;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn while_swapping(a: &Path, b: &Path, work: impl FnOnce()) -> u64 {
    let (done, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let end = SetOnDrop(&done);
        work();
        drop(end);
    });
    swaps.into_inner()
}

/// Sets the flag also when an assertion fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_directory_swapped_for_a_link_never_leads_out() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().to_owned();
    write(&workspace.join("door/secret.txt"), "inside\n");
    fixture.link("swap", fixture.base.join("outside"));
    let before = fixture.foreign();
    let rounds = scale(10_000, 100_000);
    let calls = [
        ("read_file", json!({"path": "door/secret.txt"})),
        ("write_file", json!({"path": "door/secret.txt", "content": "inside\n"})),
        ("list_directory", json!({"path": "door/dir"})),
        ("edit_file", json!({"path": "door/secret.txt", "old": SECRET, "new": "inside"})),
        ("search", json!({"path": "door", "pattern": "."})),
        ("write_file", json!({"path": "door/dir/made.txt", "content": "inside\n"})),
        ("delete_file", json!({"path": "door/dir/secret.txt"})),
    ];
    let (mut fine, mut refused) = (0, 0);
    let swaps = while_swapping(&workspace.join("door"), &workspace.join("swap"), || {
        for n in 0..rounds as usize {
            let (tool, arguments) = &calls[n % calls.len()];
            match fixture.call(tool, arguments) {
                Ok(output) => {
                    assert!(!output.contains(SECRET), "{tool}: {output}");
                    fine += 1;
                }
                Err(_) => refused += 1,
            }
        }
    });
    assert_eq!(fixture.foreign(), before);
    assert!(fine > 0 && refused > 0 && swaps > 100, "{fine} fine, {refused} refused, {swaps} swaps: no race");
}

#[test]
fn a_file_swapped_for_a_link_is_never_read_or_written_through() {
    let fixture = Fixture::new();
    let workspace = fixture.workspace().to_owned();
    write(&workspace.join("file.txt"), "inside\n");
    fixture.link("swap", fixture.base.join("outside/secret.txt"));
    let before = fixture.foreign();
    while_swapping(&workspace.join("file.txt"), &workspace.join("swap"), || {
        for n in 0..scale(3_000, 30_000) {
            let output =
                if n % 2 == 0 { fixture.read("file.txt") } else { fixture.write("file.txt", "inside\n") };
            assert!(!output.unwrap_or_default().contains(SECRET));
        }
    });
    assert_eq!(fixture.foreign(), before);
}

#[test]
fn a_snapshot_taken_during_link_swaps_contains_nothing_from_outside() {
    let fixture = Fixture::new();
    let run = fixture.base.join("run");
    let workspace = Workspace::open(&run, &run.join("workspaces/me")).unwrap();
    for n in 0..50 {
        write(&workspace.path().join(format!("door/dir/{n}.txt")), "inside\n");
        write(&fixture.base.join(format!("outside/dir/{n}.txt")), SECRET);
    }
    std::os::unix::fs::symlink(fixture.base.join("outside"), workspace.path().join("swap")).unwrap();
    let pair: [PathBuf; 2] = [workspace.path().join("door"), workspace.path().join("swap")];
    while_swapping(&pair[0], &pair[1], || {
        for nth in 1..scale(40, 400) as u32 {
            let snapshot = workspace.take_snapshot(AnswerLabel { agent: 1, nth }).unwrap();
            let whole = tree(&snapshot.path);
            assert!(whole.values().all(|text| !text.contains(SECRET)), "{nth}");
        }
    });
}
