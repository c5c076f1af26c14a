//! Undo restores everything, or changes nothing and names the conflicting file; an interrupted undo can be completed.

use super::agent_files::{RunFixture, call, put};
use super::fixture::{tree, write};
use crate::context::PathLock;
use crate::{
    FileContent, FileHost, FilePolicy, ToolSet, UndoCoverage, UndoError, last_task_with_changes, review,
    undo, undo_unless_stopped,
};
use althing_protocol::ContextAccess;
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

fn project(fixture: &RunFixture) -> BTreeMap<PathBuf, String> {
    let mut all = tree(&fixture.base.join("project"));
    all.retain(|path, _| !path.starts_with(".althing"));
    all
}

fn dirs(fixture: &RunFixture) -> Vec<String> {
    let names = fs::read_dir(fixture.base.join("project")).unwrap();
    let mut names: Vec<String> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn change_by_command(fixture: &RunFixture) {
    let at = |path: &str| fixture.base.join("project").join(path);
    fs::write(at("b.txt"), "b by a command\n").unwrap();
    fs::remove_dir_all(at("src")).unwrap();
    symlink("/tmp", at("src")).unwrap();
    write(&at("made/deep/new.txt"), "new");
    fs::remove_file(at("link")).unwrap();
    symlink("elsewhere", at("link")).unwrap();
    fs::set_permissions(at("run.sh"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(at("turns")).unwrap();
    write(&at("turns/into/a/directory.txt"), "x");
    fs::remove_dir_all(at("folder")).unwrap();
    fs::write(at("folder"), "now a file").unwrap();
}

async fn run_with_changes() -> (RunFixture, BTreeMap<PathBuf, String>, Vec<String>) {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let at = |path: &str| fixture.base.join("project").join(path);
    symlink("b.txt", at("link")).unwrap();
    write(&at("run.sh"), "#!/bin/sh");
    fs::set_permissions(at("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    write(&at("turns"), "a file");
    write(&at("folder/kept.txt"), "in a folder");
    write(&at("src/deep/down.txt"), "deep");
    let (before, names) = (project(&fixture), dirs(&fixture));
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    change_by_command(&fixture);
    assert!(!put(&files, &fixture.at("project/tool.txt"), "by a tool").await.is_error);
    files.close_context().await.unwrap();
    assert_ne!(project(&fixture), before);
    (fixture, before, names)
}

#[tokio::test]
async fn changes_by_tools_are_undone() {
    let fixture = RunFixture::writable();
    let before = project(&fixture);
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    put(&files, &fixture.at("project/src/a.txt"), "1").await;
    put(&files, &fixture.at("project/src/a.txt"), "2").await;
    put(&files, &fixture.at("project/made/deep/c.txt"), "c").await;
    call(&files, "delete_file", json!({"path": fixture.at("project/b.txt")})).await;
    let writes = files.close_context().await.unwrap();
    assert_eq!(writes.len(), 3);
    let reviewed: Vec<_> =
        review(&fixture.run).unwrap().into_iter().map(|r| (r.write, r.before, r.now)).collect();
    let text = |text: &str| FileContent::Text(text.to_owned());
    let contents = [
        (text("b before\n"), FileContent::Absent),
        (FileContent::Absent, text("c")),
        (text("a before\n"), text("2")),
    ];
    let expected: Vec<_> =
        writes.into_iter().zip(contents).map(|(w, (before, now))| (w, before, now)).collect();
    assert_eq!(reviewed, expected);
    let report = undo(&fixture.run).unwrap();
    assert_eq!(project(&fixture), before);
    assert!(!fixture.base.join("project/made").exists(), "directories that the run created are removed");
    assert_eq!(report.restored.len(), 2);
    assert_eq!(report.removed, [fixture.at("project/made/deep/c.txt")]);
    assert!(matches!(undo(&fixture.run), Err(UndoError::Done { .. })));
}

#[tokio::test]
async fn changes_by_commands_are_undone() {
    let (fixture, before, names) = run_with_changes().await;
    let report = undo(&fixture.run).unwrap();
    assert_eq!(project(&fixture), before);
    assert_eq!(dirs(&fixture), names);
    assert!(report.not_covered.is_empty(), "{:?}", report.not_covered);
    assert_eq!(fs::metadata(fixture.base.join("project/run.sh")).unwrap().mode() & 0o777, 0o755);
}

#[tokio::test]
async fn the_mode_of_a_directory_and_all_names_of_a_file_are_restored() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let at = |path: &str| fixture.base.join("project").join(path);
    write(&at("kept/file.txt"), "x");
    write(&at("first.txt"), "before");
    fs::hard_link(at("first.txt"), at("kept/second.txt")).unwrap();
    let set_mode = |mode| fs::set_permissions(at("kept"), fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o750);
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    set_mode(0o777);
    fs::write(at("first.txt"), "by a command").unwrap();
    let writes = files.close_context().await.unwrap();
    let listed: Vec<&str> = writes.iter().map(|write| write.path.as_str()).collect();
    let expected =
        ["project/first.txt", "project/kept/", "project/kept/second.txt"].map(|path| fixture.at(path));
    assert_eq!(listed, expected);
    undo(&fixture.run).unwrap();
    assert_eq!(fs::metadata(at("kept")).unwrap().mode() & 0o7777, 0o750);
    let [first, second] = ["first.txt", "kept/second.txt"].map(|path| fs::metadata(at(path)).unwrap().ino());
    assert_eq!(first, second, "the file has two names");
    assert_eq!(fs::read_to_string(at("kept/second.txt")).unwrap(), "before");
}

#[tokio::test]
async fn a_restored_name_of_a_file_is_linked_to_the_name_that_the_run_left_alone() {
    for changed_later in [false, true] {
        let mut fixture = RunFixture::writable();
        fixture.coverage = UndoCoverage::Everything;
        let at = |path: &str| fixture.base.join("project").join(path);
        write(&at("first.txt"), "before");
        fs::hard_link(at("first.txt"), at("second.txt")).unwrap();
        let files = fixture.files(0);
        files.open_context().await.unwrap();
        fs::remove_file(at("first.txt")).unwrap();
        fs::write(at("first.txt"), "by a command").unwrap();
        files.close_context().await.unwrap();
        if changed_later {
            // A copy with the same content takes the place of the name that was left alone.
            fs::copy(at("second.txt"), at("copy")).unwrap();
            fs::rename(at("copy"), at("second.txt")).unwrap();
        }
        undo(&fixture.run).unwrap();
        let [first, second] = ["first.txt", "second.txt"].map(|path| fs::metadata(at(path)).unwrap().ino());
        assert_eq!(first == second, !changed_later);
        assert_eq!(fs::read_to_string(at("first.txt")).unwrap(), "before");
    }
}

#[tokio::test]
async fn the_mode_of_the_context_path_itself_is_listed_and_restored() {
    for left in [0o777, 0o000, 0o2755] {
        let mut fixture = RunFixture::writable();
        fixture.coverage = UndoCoverage::Everything;
        let root = fixture.base.join("project");
        write(&root.join("file.txt"), "x");
        fs::set_permissions(&root, fs::Permissions::from_mode(0o750)).unwrap();
        let files = fixture.files(0);
        files.open_context().await.unwrap();
        fs::write(root.join("file.txt"), "by a command").unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(left)).unwrap();
        let writes = files.close_context().await.unwrap();
        let listed: Vec<&str> = writes.iter().map(|write| write.path.as_str()).collect();
        assert_eq!(listed, [fixture.at("project/"), fixture.at("project/file.txt")], "{left:o}");
        let report = undo(&fixture.run).unwrap();
        assert!(report.not_covered.is_empty(), "{left:o}: {:?}", report.not_covered);
        assert_eq!(fs::metadata(&root).unwrap().mode() & 0o7777, 0o750, "{left:o}");
        assert_eq!(fs::read_to_string(root.join("file.txt")).unwrap(), "x");
    }
}

#[tokio::test]
async fn a_file_that_runs_with_the_rights_of_its_owner_is_pointed_out_and_undone() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let at = |path: &str| fixture.base.join("project").join(path);
    let set_mode =
        |path: &str, mode| fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    for name in ["tool", "group", "old", "plain"] {
        write(&at(name), "x");
        set_mode(name, if name == "old" { 0o4755 } else { 0o644 });
    }
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    set_mode("tool", 0o4755);
    set_mode("group", 0o2755);
    set_mode("plain", 0o755);
    fs::write(at("old"), "y").unwrap();
    set_mode("old", 0o4755);
    write(&at("new"), "z");
    set_mode("new", 0o6755);
    let writes = files.close_context().await.unwrap();
    let note = |name: &str| {
        let write = writes.iter().find(|write| write.path == fixture.at(&format!("project/{name}")));
        write.unwrap_or_else(|| panic!("{name} is not listed: {writes:?}")).note.clone().unwrap_or_default()
    };
    for name in ["tool", "group", "new"] {
        assert!(note(name).contains("set-user-id"), "{name}: {}", note(name));
    }
    for name in ["plain", "old"] {
        assert_eq!(note(name), "", "{name}");
    }
    undo(&fixture.run).unwrap();
    for (name, mode) in [("tool", 0o644), ("group", 0o644), ("plain", 0o644), ("old", 0o4755)] {
        assert_eq!(fs::metadata(at(name)).unwrap().mode() & 0o7777, mode, "{name}");
    }
    assert!(!at("new").exists());
}

#[tokio::test]
async fn only_at_protected_paths_a_placeholder_of_a_sandbox_is_no_change() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    fixture.spec.context_paths[0].protected = vec!["not/yet".to_owned(), "local.gitconfig".to_owned()];
    let at = |path: &str| fixture.base.join("project").join(path);
    let set_mode =
        |path: &str, mode| fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    for dir in ["not", "made"] {
        fs::create_dir(at(dir)).unwrap();
        set_mode(dir, 0o1555);
    }
    for file in ["local.gitconfig", "made.txt"] {
        write(&at(file), "");
        set_mode(file, 0o1444);
    }
    let writes = files.close_context().await.unwrap();
    let listed: Vec<&str> = writes.iter().map(|write| write.path.as_str()).collect();
    assert_eq!(listed, ["project/made/", "project/made.txt"].map(|path| fixture.at(path)));
}

#[tokio::test]
async fn what_existed_is_no_placeholder_even_if_a_command_makes_it_look_like_one() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let protected = ["docs/secret.md", "empty/x", "file/x", "replaced/x"];
    fixture.spec.context_paths[0].protected = protected.map(str::to_owned).to_vec();
    let at = |path: &str| fixture.base.join("project").join(path);
    let set_mode =
        |path: &str, mode| fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
    write(&at("docs/keep.md"), "x");
    write(&at("file"), "text");
    write(&at("replaced/y"), "y");
    fs::create_dir(at("empty")).unwrap();
    for (path, mode) in [("docs", 0o755), ("empty", 0o750), ("file", 0o644), ("replaced", 0o755)] {
        set_mode(path, mode);
    }
    let before = project(&fixture);
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    set_mode("docs", 0o1555);
    set_mode("empty", 0o1555);
    write(&at("file"), "");
    set_mode("file", 0o1444);
    fs::remove_dir_all(at("replaced")).unwrap();
    write(&at("replaced"), "");
    set_mode("replaced", 0o1444);
    let writes = files.close_context().await.unwrap();
    let listed: Vec<&str> = writes.iter().map(|write| write.path.as_str()).collect();
    let expected = ["docs/", "empty/", "file", "replaced", "replaced/y"];
    assert_eq!(listed, expected.map(|path| fixture.at(&format!("project/{path}"))));
    undo(&fixture.run).unwrap();
    assert_eq!(project(&fixture), before);
    let mode = |path: &str| fs::metadata(at(path)).unwrap().mode() & 0o7777;
    assert_eq!(["docs", "empty", "file", "replaced"].map(mode), [0o755, 0o750, 0o644, 0o755]);
}

#[tokio::test]
async fn an_undo_keeps_owner_group_acl_and_extended_attributes_of_a_file() {
    const ACL: &str = "system.posix_acl_access";
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let at = |path: &str| fixture.base.join("project").join(path);
    // The owner may read and write, user 4242 may read, others nothing; the mask is shown as the group's rights.
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 4, 4242), (4, 0, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        acl.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(at(path), name, value, rustix::fs::XattrFlags::empty()).unwrap();
    };
    let get = |path: &str, name: &str| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::getxattr(at(path), name, value.as_mut_slice()).ok()?;
        value.truncate(length);
        Some(value)
    };
    for path in ["own", "replaced"] {
        write(&at(path), "before");
        set(path, "user.note", b"keep me");
    }
    set("own", ACL, &acl);
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(at("own"), Some(4243), Some(4244)).unwrap();
    }
    let shown = |path: &str| {
        let data = fs::metadata(at(path)).unwrap();
        (data.uid(), data.gid(), data.mode() & 0o7777, get(path, ACL), get(path, "user.note"))
    };
    let before = shown("own");
    assert_eq!((before.2, before.3.as_ref()), (0o640, Some(&acl)));
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    write(&at("own"), "changed by the run");
    // The old file still exists when the new one is made, so the new one has another inode.
    write(&at("new"), "made by the run");
    set("new", "user.note", b"of the run");
    fs::rename(at("new"), at("replaced")).unwrap();
    files.close_context().await.unwrap();
    undo(&fixture.run).unwrap();
    for path in ["own", "replaced"] {
        assert_eq!(fs::read_to_string(at(path)).unwrap(), "before");
    }
    assert_eq!(shown("own"), before);
    assert_eq!(get("replaced", "user.note"), None);
}

#[tokio::test]
async fn if_somebody_else_changed_a_file_nothing_is_undone() {
    let (fixture, _, _) = run_with_changes().await;
    write(&fixture.base.join("project/b.txt"), "my own work");
    write(&fixture.base.join("project/made/deep/new.txt"), "mine too");
    let now = project(&fixture);
    match undo(&fixture.run) {
        Err(UndoError::Changed { paths }) => {
            assert_eq!(paths, [fixture.at("project/b.txt"), fixture.at("project/made/deep/new.txt")]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(project(&fixture), now, "nothing was changed");
}

#[tokio::test]
async fn changes_to_other_files_are_preserved() {
    let (fixture, before, _) = run_with_changes().await;
    write(&fixture.base.join("project/made/mine.txt"), "in a directory that the run made");
    undo(&fixture.run).unwrap();
    let mut expected = before;
    expected.insert("made/mine.txt".into(), "in a directory that the run made".into());
    assert_eq!(project(&fixture), expected);
}

#[tokio::test]
async fn an_undo_interrupted_at_any_step_is_completed_by_the_next() {
    for steps in 0..=6 {
        let (fixture, before, _) = run_with_changes().await;
        let at = |path: &str| fixture.base.join("project").join(path);
        let done: [&dyn Fn(); 6] = [
            &|| fs::remove_file(at("tool.txt")).unwrap(),
            &|| fs::remove_dir_all(at("made")).unwrap(),
            &|| fs::remove_file(at("src")).unwrap(),
            &|| write(&at("src/a.txt"), "a before\n"),
            &|| write(&at("b.txt"), "b before\n"),
            &|| fs::remove_dir_all(at("turns")).unwrap(),
        ];
        for step in done.iter().take(steps) {
            step();
        }
        let journal = crate::manifest::seal(&true).unwrap();
        fs::write(fixture.run.join("preimages/undo"), journal).unwrap();
        let report = undo(&fixture.run).unwrap();
        assert!(report.resumed);
        assert_eq!(project(&fixture), before, "after {steps} steps");
    }
}

#[tokio::test]
async fn a_run_that_is_active_or_wrote_nothing_is_not_undone() {
    let fixture = RunFixture::writable();
    assert!(matches!(undo(&fixture.run), Err(UndoError::Nothing { .. })));
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    put(&files, &fixture.at("project/b.txt"), "x").await;
    assert!(matches!(undo(&fixture.run), Err(UndoError::NotClosed { .. })));
    files.close_context().await.unwrap();
    fs::write(fixture.run.join("preimages/after"), "damaged").unwrap();
    assert!(matches!(undo(&fixture.run), Err(UndoError::Disk(_))));
    assert_eq!(fixture.text("project/b.txt"), "x");
}

#[tokio::test]
async fn a_file_without_a_storable_pre_image_is_not_changed() {
    let fixture = RunFixture::writable();
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    // With a file in place of this directory, no pre-image can be stored.
    fs::remove_dir_all(fixture.run.join("preimages/tree")).unwrap();
    write(&fixture.run.join("preimages/tree"), "");
    let path = fixture.at("project/b.txt");
    for (tool, arguments) in [
        ("write_file", json!({"path": path, "content": "x"})),
        ("edit_file", json!({"path": path, "old": "before", "new": "x"})),
        ("delete_file", json!({"path": path})),
        ("apply_patch", json!({"patch": format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch")})),
    ] {
        let refused = call(&files, tool, arguments).await;
        assert!(refused.is_error && refused.content.contains("could not be checked"), "{}", refused.content);
    }
    assert_eq!(fixture.text("project/b.txt"), "b before\n");
}

#[tokio::test]
async fn an_interrupted_copy_of_pre_images_is_repeated() {
    let mut fixture = RunFixture::writable();
    fixture.coverage = UndoCoverage::Everything;
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    // The state after a crash during the copy: half a file, and no record that the copy is complete.
    drop(files);
    fs::remove_file(fixture.run.join("preimages/cover")).unwrap();
    let half = fixture.run.join("preimages/tree/0/b.txt");
    fs::set_permissions(&half, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&half, "b be").unwrap();
    let files = fixture.files(0);
    files.open_context().await.unwrap();
    put(&files, &fixture.at("project/b.txt"), "x").await;
    files.close_context().await.unwrap();
    undo(&fixture.run).unwrap();
    assert_eq!(fixture.text("project/b.txt"), "b before\n");
}

fn chat_agent_tools(fixture: &RunFixture) -> FileHost {
    let dir = fixture.base.join("project/.althing/sessions/s/tasks/chat");
    fs::create_dir_all(dir.join("workspace")).unwrap();
    let policy = FilePolicy {
        workspace: dir.join("workspace"),
        context: fixture.spec.context_paths.clone(),
        state_dir: Some(fixture.base.join("project/.althing")),
        ..FilePolicy::default()
    };
    FileHost::undoable(&policy, ToolSet::All, &dir).unwrap()
}

fn does(host: &FileHost, tool: &str, arguments: &serde_json::Value) {
    host.call_blocking(tool, &arguments.to_string(), ContextAccess::Writable).unwrap();
}

#[test]
fn edits_of_the_chat_agent_are_undone_and_edits_of_people_stay() {
    let fixture = RunFixture::writable();
    let at = |path: &str| fixture.base.join("project").join(path);
    let (session, chat) = (fixture.base.join("project/.althing/sessions/s"), "tasks/chat");
    fs::create_dir(at("empty")).unwrap();
    let host = chat_agent_tools(&fixture);
    assert_eq!(last_task_with_changes(&session), None);
    let write_to = |host: &FileHost, path: &str, text: &str| {
        does(host, "write_file", &json!({"path": fixture.at(path), "content": text}));
    };
    write_to(&host, "project/src/a.txt", "by the agent");
    write_to(&host, "project/empty/made/new.txt", "by the agent");
    does(&host, "delete_file", &json!({"path": fixture.at("project/b.txt")}));
    fs::write(at("by-a-person.txt"), "mine").unwrap();
    let host = chat_agent_tools(&fixture);
    write_to(&host, "project/src/a.txt", "by the agent again");
    assert_eq!(last_task_with_changes(&session), Some("chat".into()));
    let changed: Vec<String> =
        review(&session.join(chat)).unwrap().into_iter().map(|reviewed| reviewed.write.path).collect();
    assert_eq!(
        changed,
        ["b.txt", "empty/made/new.txt", "src/a.txt"].map(|path| at(path).display().to_string())
    );
    let report = undo(&session.join(chat)).unwrap();
    assert_eq!((report.restored.len(), report.removed.len()), (2, 1));
    assert_eq!(fs::read_to_string(at("src/a.txt")).unwrap(), "a before\n");
    assert_eq!(fs::read_to_string(at("b.txt")).unwrap(), "b before\n");
    assert_eq!(fs::read_to_string(at("by-a-person.txt")).unwrap(), "mine");
    assert!(at("empty").is_dir() && !at("empty/made").exists());
    // What a person wrote between two edits of the agent is restored.
    write_to(&host, "project/b.txt", "by the agent");
    fs::write(at("b.txt"), "by a person").unwrap();
    write_to(&host, "project/b.txt", "by the agent once more");
    undo(&session.join(chat)).unwrap();
    assert_eq!(fs::read_to_string(at("b.txt")).unwrap(), "by a person");
    assert!(matches!(undo(&session.join(chat)), Err(UndoError::Done { .. })));
}

#[test]
fn a_later_edit_of_a_person_prevents_the_undo() {
    let fixture = RunFixture::writable();
    let file = fixture.base.join("project/b.txt");
    let host = chat_agent_tools(&fixture);
    does(&host, "edit_file", &json!({"path": file, "old": "before", "new": "after"}));
    fs::write(&file, "by a person").unwrap();
    let undone = undo(&fixture.base.join("project/.althing/sessions/s/tasks/chat"));
    assert!(matches!(undone, Err(UndoError::Changed { paths }) if paths == [file.display().to_string()]));
    assert_eq!(fs::read_to_string(&file).unwrap(), "by a person");
}

#[tokio::test]
async fn an_undo_that_is_stopped_before_any_file_says_what_it_did_and_is_continued() {
    let (fixture, before, names) = run_with_changes().await;
    let mut all = 0;
    let mut earlier_stops = 0;
    for allowed in 0.. {
        let start = project(&fixture);
        let asked = Cell::new(0);
        let is_stopped = || asked.replace(asked.get() + 1) >= allowed;
        match undo_unless_stopped(&fixture.run, &is_stopped) {
            Err(UndoError::Stopped) => {
                assert_eq!(project(&fixture), start, "nothing was changed");
            }
            Err(UndoError::Unfinished { report, why: None }) => {
                earlier_stops += 1;
                let done = report.restored.len() + report.removed.len() + report.earlier.len();
                all = done + report.left.len();
                for path in &report.left {
                    let path = PathBuf::from(path);
                    let name = path.strip_prefix(fixture.base.join("project")).unwrap().to_owned();
                    assert_eq!(project(&fixture).get(&name), start.get(&name), "{path:?}");
                }
                for path in report.removed.iter().filter(|path| !path.contains("folder")) {
                    let gone = !PathBuf::from(path).is_file() && !PathBuf::from(path).is_symlink();
                    assert!(gone, "{path}");
                }
                assert!(!report.left.is_empty());
            }
            Ok(report) => {
                assert_eq!(report.restored.len() + report.removed.len() + report.earlier.len(), all);
                assert!(report.resumed && report.left.is_empty(), "{report:?}");
                break;
            }
            Err(error) => panic!("stopped after {allowed}: {error}"),
        }
    }
    assert!(earlier_stops > 3, "{earlier_stops}");
    assert_eq!(project(&fixture), before);
    assert_eq!(dirs(&fixture), names);
    assert!(matches!(undo(&fixture.run), Err(UndoError::Done { .. })));
}

#[tokio::test]
async fn an_undo_removes_the_temporary_files_of_one_that_was_killed_and_no_others() {
    let (fixture, before, names) = run_with_changes().await;
    let stopped = undo_unless_stopped(&fixture.run, &{
        let asked = Cell::new(0);
        move || asked.replace(asked.get() + 1) >= 20
    });
    assert!(matches!(stopped, Err(UndoError::Unfinished { .. })), "{stopped:?}");
    let project_dir = fixture.base.join("project");
    let own = format!(".althing-{}-999999.tmp", std::process::id());
    write(&project_dir.join(&own), "half a file");
    let foreign = project_dir.join(".althing-1-2.tmp");
    write(&foreign, "of somebody else");
    undo(&fixture.run).unwrap();
    assert!(!project_dir.join(own).exists() && foreign.exists());
    fs::remove_file(foreign).unwrap();
    assert_eq!(project(&fixture), before);
    assert_eq!(dirs(&fixture), names);
}

#[tokio::test]
async fn an_undo_is_refused_while_somebody_else_may_write_to_one_of_its_paths() {
    let (fixture, before, _) = run_with_changes().await;
    let changed = project(&fixture);
    let held = PathLock::acquire(&[fixture.base.join("project/made")]).await.unwrap();
    let Err(UndoError::Busy(refused)) = undo(&fixture.run) else { panic!("the undo was not refused") };
    let told = refused.to_string();
    assert!(told.contains("another session is writing to") && told.contains("wait until it ends"), "{told}");
    assert_eq!(project(&fixture), changed);
    drop(held);
    undo(&fixture.run).unwrap();
    assert_eq!(project(&fixture), before);
}

#[tokio::test]
async fn a_second_undo_of_a_run_is_refused_while_the_first_works_and_nobody_may_write_meanwhile() {
    let (fixture, before, _) = run_with_changes().await;
    let refused = Cell::new(0);
    let report = undo_unless_stopped(&fixture.run, &|| {
        if refused.get() == 0 {
            assert!(matches!(undo(&fixture.run), Err(UndoError::Busy(_))), "a second undo");
        }
        refused.set(refused.get() + 1);
        false
    });
    assert!(report.is_ok() && refused.get() > 0, "{report:?}");
    assert_eq!(project(&fixture), before);
    assert!(matches!(undo(&fixture.run), Err(UndoError::Done { .. })));
}
