//! A project outlives sessions: its files are created once, and deliverables that the user edited are not
//! overwritten.

use super::fixture::{temp, write};
use crate::{PathKind, ProjectError, ProjectHost, ProjectRegistry, ProjectWorkspace};
use althing_disk::{Disk, Lock, RealDisk};
use althing_protocol::{
    ContextAccess, CoordinationSummary, FinalAnswerStrategy, Millis, Modes, RunResult, RunStatus, Timestamp,
    ToolCall, ToolHost, ToolOutcome, Usage,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

const AT: Timestamp = Timestamp(1_763_200_000_000);

fn result(id: &str, status: RunStatus) -> RunResult {
    RunResult {
        run_id: id.into(),
        task: "Write the notes".into(),
        status,
        modes: Modes::default(),
        final_answer: Some("Done.".into()),
        workspace_path: Some("/w".into()),
        coordination_summary: CoordinationSummary {
            winner: None,
            presenter: None,
            strategy: FinalAnswerStrategy::WinnerPresent,
            overridden: false,
            rounds: 1,
            restarts: 0,
            votes: BTreeMap::new(),
            ballots: Vec::new(),
            decision: None,
            agents: Vec::new(),
        },
        context_path_writes: Vec::new(),
        unchanged_paths: Vec::new(),
        plan: None,
        follow_up: None,
        usage: Usage::default(),
        duration: Millis(5),
        log_dir: "/logs/r1".into(),
        error: None,
    }
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

// spec: interactive/project-based-workspace/workspace-structure
#[test]
fn a_new_project_gets_its_four_parts_and_existing_files_stay() {
    let dir = temp();
    let path = dir.path().join("deep/my-app");
    let project = ProjectWorkspace::open(&path).unwrap();
    assert_eq!(project.name(), "my-app");
    assert!(path.join("CONTEXT.md").is_file() && path.join("filepaths.json").is_file());
    assert!(path.join("runs").is_dir() && path.join("deliverables").is_dir());
    fs::write(path.join("CONTEXT.md"), "Mine.\n").unwrap();
    fs::write(
        path.join("filepaths.json"),
        r#"[{"path": "src", "kind": "directory", "description": "Code"}]"#,
    )
    .unwrap();
    let again = ProjectWorkspace::open(&path).unwrap();
    assert_eq!(again.context().unwrap().text, "Mine.\n");
    assert_eq!(again.paths().unwrap()[0].description, "Code");
}

// spec: design/project/filepaths
#[test]
fn paths_are_described_individually_and_never_listed() {
    let dir = temp();
    let project = ProjectWorkspace::open(dir.path()).unwrap();
    for n in 0..50 {
        write(&project.dir().join(format!("src/file{n}.rs")), "");
    }
    write(&project.dir().join("notes.md"), "");
    project.describe("src", "The code").unwrap();
    project.describe("notes.md", "What was\nsaid").unwrap();
    project.describe(&project.dir().join("src").display().to_string(), "All the code").unwrap();
    let outside = temp();
    project.describe(&outside.path().display().to_string(), "Elsewhere").unwrap();
    let output = json_of(&project.dir().join("filepaths.json"));
    assert_eq!(
        output,
        json!([
            { "path": "src", "kind": "directory", "description": "All the code" },
            { "path": "notes.md", "kind": "file", "description": "What was said" },
            { "path": outside.path(), "kind": "directory", "description": "Elsewhere" },
        ])
    );
    assert_eq!(project.paths().unwrap()[1].kind, PathKind::File);
    assert!(project.describe("nowhere", "x").unwrap_err().to_string().contains("nowhere"));
    assert!(project.describe("src", " ").is_err());
    assert!(project.forget("src").unwrap() && !project.forget("src").unwrap());
    fs::write(project.dir().join("filepaths.json"), "[{").unwrap();
    let broken = project.describe("src", "x").unwrap_err();
    assert!(
        matches!(&broken, ProjectError::Broken { .. }) && broken.hint().unwrap().contains("filepaths.json")
    );
    assert_eq!(fs::read_to_string(project.dir().join("filepaths.json")).unwrap(), "[{");
}

// spec: interactive/project-based-workspace/run-association
// spec: design/project/run-description
#[test]
fn a_run_has_a_description_from_its_start_that_names_its_log() {
    let dir = temp();
    let project = ProjectWorkspace::open(dir.path()).unwrap();
    let id = "20261115-120000-0001.r1";
    project.begin_run(id, "Write the notes", Modes::default(), "/logs/r1", AT).unwrap();
    let file = project.dir().join("runs").join(id).join("run_description.json");
    let begun = json_of(&file);
    assert_eq!((&begun["status"], &begun["log_dir"]), (&json!("running"), &json!("/logs/r1")));
    project.begin_run("20261115-130000-0001.r1", "Later", Modes::default(), "/logs/r2", AT).unwrap();
    project.end_run(&result(id, RunStatus::Completed)).unwrap();
    let ended = json_of(&file);
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["started_at"], begun["started_at"]);
    let as_result: RunResult = serde_json::from_value(ended).unwrap();
    assert_eq!(as_result, result(id, RunStatus::Completed));
    let runs: Vec<(String, String)> =
        project.runs().unwrap().into_iter().map(|run| (run.task, run.status)).collect();
    assert_eq!(runs, [("Later".into(), "running".into()), ("Write the notes".into(), "completed".into())]);
    for bad in ["../escape", "", ".hidden", "a/b"] {
        assert!(project.begin_run(bad, "x", Modes::default(), "/l", AT).is_err(), "{bad}");
    }
    assert!(!dir.path().parent().unwrap().join("escape").exists());
}

// spec: design/project/deliverables
#[test]
fn deliverables_are_copied_and_edited_files_stay_with_the_new_version_next_to_them() {
    let dir = temp();
    let project = ProjectWorkspace::open(&dir.path().join("project")).unwrap();
    let run = |n: u32, files: &[(&str, &str)]| {
        let workspace = dir.path().join(format!("run{n}"));
        fs::create_dir_all(&workspace).unwrap();
        for (name, text) in files {
            write(&workspace.join("deliverables").join(name), text);
        }
        project.deliver(&workspace, &format!("s.r{n}")).unwrap()
    };
    let read = |name: &str| fs::read_to_string(project.deliverables_dir().join(name)).unwrap_or_default();
    assert_eq!(run(0, &[]), crate::DeliveryReport::default(), "a run need not deliver anything");
    let first = run(1, &[("report.md", "one"), ("data/a.csv", "1"), ("data/b.csv", "1")]);
    assert_eq!(first.copied, ["data/a.csv", "data/b.csv", "report.md"]);
    fs::write(project.deliverables_dir().join("report.md"), "one, and mine").unwrap();
    write(&project.deliverables_dir().join("data/own.csv"), "never ours");
    let second =
        run(2, &[("report.md", "two"), ("data/a.csv", "2"), ("data/b.csv", "1"), ("data/own.csv", "2")]);
    assert_eq!(second.copied, ["data/a.csv"], "b did not change");
    let beside = |name: &str, new: &str| (name.to_owned(), new.to_owned());
    assert_eq!(
        second.beside,
        [beside("data/own.csv", "data/own.s.r2.csv"), beside("report.md", "report.s.r2.md")]
    );
    assert_eq!((read("report.md"), read("report.s.r2.md")), ("one, and mine".into(), "two".into()));
    assert_eq!((read("data/a.csv"), read("data/own.csv")), ("2".into(), "never ours".into()));
    let again = run(2, &[("report.md", "two")]);
    assert_eq!(again.beside, second.beside);
    assert_eq!(
        fs::read_dir(project.deliverables_dir()).unwrap().count(),
        3,
        "report, its other version, data"
    );
}

#[test]
fn no_deliverable_leads_out_of_the_workspace_or_the_project() {
    let dir = temp();
    let project = ProjectWorkspace::open(&dir.path().join("project")).unwrap();
    write(&dir.path().join("outside/secret.txt"), "secret");
    write(&dir.path().join("run/deliverables/sub/fine.txt"), "fine");
    write(&dir.path().join("run/deliverables/taken/x.txt"), "x");
    symlink(dir.path().join("outside/secret.txt"), dir.path().join("run/deliverables/link.txt")).unwrap();
    symlink(dir.path().join("outside"), project.deliverables_dir().join("taken")).unwrap();
    let delivered = project.deliver(&dir.path().join("run"), "r1").unwrap();
    assert_eq!(delivered.copied, ["sub/fine.txt"]);
    assert_eq!(delivered.left_out.len(), 2, "{delivered:?}");
    assert!(!project.deliverables_dir().join("link.txt").exists());
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 1);
    fs::create_dir(dir.path().join("run2")).unwrap();
    symlink(dir.path().join("outside"), dir.path().join("run2/deliverables")).unwrap();
    assert!(project.deliver(&dir.path().join("run2"), "r2").is_err());
}

#[test]
fn no_deliverable_that_runs_code_later_reaches_the_project() {
    let dir = temp();
    let project = ProjectWorkspace::open(&dir.path().join("project")).unwrap();
    write(&project.deliverables_dir().join(".git/HEAD"), "ref: refs/heads/main");
    let deliver = |run: &str, names: &[&str]| {
        for name in names {
            write(&dir.path().join(run).join("deliverables").join(name), "code");
        }
        project.deliver(&dir.path().join(run), run).unwrap()
    };
    let names = [
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".envrc",
        ".env",
        ".mcp.json",
        ".claude/settings.json",
        ".vscode/tasks.json",
        ".althing/config.yaml",
        "bare/HEAD",
        "bare/objects/x",
        "bare/refs/x",
        "half/HEAD",
        "half/objects/x",
        "report.md",
        "Makefile",
    ];
    let delivered = deliver("r1", &names);
    assert_eq!(delivered.copied, ["Makefile", "half/HEAD", "half/objects/x", "report.md"]);
    let left_out: Vec<&str> = delivered.left_out.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        left_out,
        [
            ".althing",
            ".claude",
            ".env",
            ".envrc",
            ".git",
            ".mcp.json",
            ".vscode/tasks.json",
            "bare",
            "sub/.git"
        ]
    );
    assert_eq!(deliver("r2", &["half/refs/x", "half/hooks/pre-commit"]).copied, Vec::<String>::new());
    assert!(!project.deliverables_dir().join(".git/hooks").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn no_text_that_a_person_wrote_is_lost(steps in prop::collection::vec((any::<bool>(), 0..3usize, 0..4u32), 1..12)) {
        let dir = temp();
        let project = ProjectWorkspace::open(&dir.path().join("project")).unwrap();
        let mut written: BTreeMap<usize, String> = BTreeMap::new();
        for (n, (by_person, file, text)) in steps.into_iter().enumerate() {
            let name = format!("f{file}.txt");
            if by_person {
                let text = format!("person {text} {n}");
                fs::write(project.deliverables_dir().join(&name), &text).unwrap();
                written.insert(file, text);
            } else {
                let workspace = dir.path().join(format!("run{n}"));
                write(&workspace.join("deliverables").join(&name), &format!("run {text}"));
                project.deliver(&workspace, &format!("r{n}")).unwrap();
                let new = format!("run {text}");
                let kept = fs::read_dir(project.deliverables_dir()).unwrap().any(|entry| fs::read_to_string(entry.unwrap().path()).unwrap() == new);
                prop_assert!(kept, "what a run delivers is there under some name");
            }
            for (file, text) in &written {
                let there = fs::read_to_string(project.deliverables_dir().join(format!("f{file}.txt"))).unwrap();
                prop_assert_eq!(&there, text);
            }
        }
    }
}

#[test]
fn only_one_session_uses_a_project_and_a_released_lock_is_free() {
    let dir = temp();
    let project = ProjectWorkspace::open(dir.path()).unwrap();
    let lock = project.lock().unwrap();
    let second = ProjectWorkspace::open(dir.path()).unwrap();
    let refused = second.lock().map(drop).unwrap_err();
    assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
    assert!(refused.hint().unwrap().contains("--project"));
    drop(lock);
    drop(second.lock().unwrap());
}

#[test]
fn projects_are_listed_most_recently_used_first() {
    let dir = temp();
    let registry = ProjectRegistry::of(&dir.path().join("config"));
    assert!(registry.list().unwrap().is_empty());
    let open = |name: &str| ProjectWorkspace::open(&dir.path().join(name)).unwrap();
    let (one, two) = (open("one"), open("two"));
    registry.note(&one, Timestamp(1000)).unwrap();
    registry.note(&two, Timestamp(2000)).unwrap();
    registry.note(&one, Timestamp(3000)).unwrap();
    let names: Vec<String> = registry.list().unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(registry.find("two").unwrap().unwrap().path, two.dir());
    fs::remove_dir_all(two.dir()).unwrap();
    assert!(!registry.find("two").unwrap().unwrap().exists());
    registry.forget(two.dir()).unwrap();
    assert_eq!(registry.list().unwrap().len(), 1);
    fs::write(dir.path().join("config/projects.json"), "{").unwrap();
    assert!(registry.note(&one, Timestamp(4000)).unwrap_err().to_string().contains("projects.json"));
}

#[tokio::test]
async fn the_chat_agent_updates_context_and_paths_through_its_tools() {
    let dir = temp();
    let project = ProjectWorkspace::open(&dir.path().join("my-app")).unwrap();
    let host = ProjectHost::new(project.clone());
    let call = async |tool: &str, arguments: Value| -> ToolOutcome {
        let call = ToolCall { id: "1".into(), name: tool.into(), arguments: arguments.to_string() };
        host.call(&call, ContextAccess::ReadOnly).await
    };
    let names: Vec<String> = host.tools(ContextAccess::ReadOnly).into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["get_project", "update_project_context", "describe_path"]);
    assert!(!call("update_project_context", json!({ "content": "We use Paseto." })).await.is_error);
    write(&project.dir().join("src/main.rs"), "");
    assert!(!call("describe_path", json!({ "path": "src", "description": "The code" })).await.is_error);
    write(&project.deliverables_dir().join("report.md"), "");
    project.begin_run("s.r1", "Compare\ntokens", Modes::default(), "/logs", AT).unwrap();
    let output = call("get_project", json!({})).await.content;
    for part in [
        "Project my-app",
        "We use Paseto.",
        "- src/: The code",
        "deliverables/report.md",
        "- s.r1 (running): Compare tokens",
    ] {
        assert!(output.contains(part), "{part}: {output}");
    }
    for (tool, arguments) in [
        ("update_project_context", json!({ "content": "" })),
        ("update_project_context", json!({ "content": "x".repeat(100_000) })),
        ("update_project_context", json!({ "text": "x" })),
        ("describe_path", json!({ "path": "nowhere", "description": "x" })),
        ("delete_project", json!({})),
    ] {
        assert!(call(tool, arguments).await.is_error, "{tool}");
    }
    assert_eq!(fs::read_to_string(project.dir().join("CONTEXT.md")).unwrap(), "We use Paseto.\n");
    assert!(!call("describe_path", json!({ "path": "src" })).await.is_error);
    assert!(project.paths().unwrap().is_empty());
}

#[test]
fn a_project_path_that_is_not_utf8_does_not_destroy_the_list() {
    let dir = temp();
    let registry = ProjectRegistry::of(&dir.path().join("config"));
    let plain = ProjectWorkspace::open(&dir.path().join("plain")).unwrap();
    registry.note(&plain, Timestamp::default()).unwrap();
    let odd = dir.path().join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    let odd = ProjectWorkspace::open(&odd).unwrap();
    let refused = registry.note(&odd, Timestamp::default());
    assert!(matches!(refused, Err(ProjectError::Disk(_))), "{refused:?}");
    let known: Vec<_> = registry.list().unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(known, [plain.dir()]);
}

#[test]
fn a_list_of_projects_that_another_process_holds_is_called_a_list() {
    let dir = temp();
    let list = dir.path().join("config");
    let registry = ProjectRegistry::of(&list);
    let project = ProjectWorkspace::open(&dir.path().join("one")).unwrap();
    registry.note(&project, Timestamp(1000)).unwrap();
    let held = RealDisk.lock(&list.join(".projects.lock")).unwrap();
    assert!(matches!(held, Lock::Taken(_)));
    let refused = registry.note(&project, Timestamp(2000)).unwrap_err();
    assert!(refused.to_string().contains("the list of projects"), "{refused}");
    assert!(!refused.to_string().contains("in use by another session"), "{refused}");
}
