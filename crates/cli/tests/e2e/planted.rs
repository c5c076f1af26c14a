//! Commands that plant code or change files where nobody looks: everything that a command writes in a writable context
//! path is refused, or listed and undone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use althing_testkit::process::{Signal, wait_for_event};
use althing_testkit::{
    Action, FakeModel, Machine, Output, Parliament, RecordedRequest, Reply, Script, User, wait,
};
use serde_json::{Value, json};

use super::scripted_claude;
use super::support::{Fixture, LIMIT, Team, althing};

/// What is at every path below a directory: the type, the mode and content of a file, the target of a link.
fn state_of(dir: &Path) -> BTreeMap<PathBuf, String> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let data = fs::symlink_metadata(&path).unwrap();
            let mode = data.permissions().mode() & 0o777;
            let text = if data.is_dir() {
                dirs.push(path.clone());
                "directory".to_owned()
            } else if data.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if data.is_file() {
                format!("{mode:o} {}", String::from_utf8_lossy(&fs::read(&path).unwrap()))
            } else {
                assert!(data.file_type().is_fifo(), "{}", path.display());
                "fifo".to_owned()
            };
            found.insert(path, text);
        }
    }
    found
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn commander(command: String) -> Fixture {
    let script = Script::from_fn(move |request: &RecordedRequest| -> Action {
        let called = request.messages().iter().any(|message| message["role"] == "tool");
        if called {
            return Parliament::default().reply(request).into();
        }
        Reply::call("run_command", &json!({ "command": command })).into()
    });
    Fixture::with(1, script, |team| {
        team.every_backend("enable_mcp_command_line", true).every_backend("cwd", "here")
    })
}

fn run_in(fixture: &Fixture, project: &Path) -> Vec<String> {
    let path = format!("{}:rw", project.display());
    let output = fixture.run(&["--json", "--quick", "--context-path", &path, "task"]).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    let writes = result["context_path_writes"].as_array().cloned().unwrap_or_default();
    writes.iter().map(|write| write["path"].as_str().unwrap().to_owned()).collect()
}

/// Existing files that must be unchanged, or listed and undone.
const EXISTING: &[&str] = &[
    ".git/hooks/pre-commit",
    "sub/.git/hooks/pre-commit",
    "node_modules/pkg/.git/hooks/pre-commit",
    "node_modules/pkg/index.js",
    ".venv/bin/activate",
    ".env",
    "sub/.althing/config.yaml",
    ".bare/hooks/pre-commit",
    "store.git/config",
    "tools/githooks/pre-commit",
    ".envrc",
    ".zed/tasks.json",
    ".devcontainer.json",
    ".devcontainer/devcontainer.json",
    ".roo/mcp.json",
    ".windsurf/mcp.json",
    ".cursor/mcp.json",
    ".husky/pre-commit",
    ".githooks/pre-commit",
    "lefthook.yml",
    ".pre-commit-config.yaml",
    "src/main.rs",
];

/// Whether this file of [`EXISTING`] is one that no command may change at all.
fn must_stay(path: &str) -> bool {
    !["node_modules/pkg/index.js", ".venv/bin/activate", "src/main.rs"].contains(&path)
}

/// Files that the command tries to create. Either the write is refused, or the result lists the file and `althing undo`
/// removes it.
const NEW: &[&str] = &[
    "new/.git/hooks/pre-commit",
    "new/.git/config",
    "node_modules/other/.git/hooks/post-checkout",
    "node_modules/other/install.js",
    ".venv/lib/sitecustomize.py",
    "other/.env",
    "other/.althing/config.yaml",
    "other/.envrc",
    "other/.zed/tasks.json",
    "other/.mcp.json",
    "other/althing.yaml",
];

#[test]
fn everything_that_a_command_writes_in_a_context_path_is_refused_or_listed_and_undone() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (project, outside) = (root.join("project"), root.join("outside"));
    for path in EXISTING {
        put(&project.join(path), "before\n");
    }
    for (bare, file) in
        [(".bare", "HEAD"), (".bare", "objects/x"), (".bare", "refs/x"), ("store.git", "HEAD")]
    {
        put(&project.join(bare).join(file), "before\n");
    }
    put(&project.join("store.git/objects/x"), "before\n");
    put(&project.join("store.git/refs/x"), "before\n");
    put(&project.join(".git/config"), "[core]\n\thooksPath = tools/githooks\n");
    put(&project.join("tree/.git"), "gitdir: ../split/worktree\n");
    put(&project.join("split/worktree/config"), "before\n");
    fs::create_dir(project.join("empty")).unwrap();
    put(&outside.join("linked"), "before\n");
    fs::hard_link(outside.join("linked"), project.join("linked")).unwrap();
    fs::create_dir_all(project.join("packages/node_modules/p")).unwrap();
    fs::hard_link(outside.join("linked"), project.join("packages/node_modules/p/linked.js")).unwrap();
    let mut command = format!("cd {}\n", project.display());
    let write = |path: &str| {
        let parent = Path::new(path).parent().unwrap().display().to_string();
        format!(
            "mkdir -p ./{parent}; echo after > {path}; chmod 777 {path}; rm -f {path}.x; echo after > {path}.x; rm {path}.x\n"
        )
    };
    let more = ["linked", "packages/node_modules/p/linked.js", "split/worktree/config", "tree/.git"];
    for path in EXISTING.iter().chain(NEW).chain(&more) {
        command.push_str(&write(path));
    }
    command.push_str("mkfifo fifo; mkdir -p made/empty; rmdir empty; ln -s /etc/passwd link; mv sub moved; mv .bare gone\n");
    command.push_str("true");
    let before = state_of(&project);
    let fixture = commander(command);
    let listed = run_in(&fixture, &project);
    let after = state_of(&project);
    assert_eq!(
        fs::read_to_string(outside.join("linked")).unwrap(),
        "before\n",
        "written through a hard link"
    );
    assert_eq!(fs::metadata(outside.join("linked")).unwrap().mode() & 0o777, 0o644, "through a hard link");
    for path in EXISTING.iter().filter(|path| must_stay(path)).chain(&more) {
        let path = project.join(path);
        assert_eq!(after.get(&path), before.get(&path), "{} is protected", path.display());
    }
    let is_listed = |path: &Path| {
        let shown = path.display().to_string();
        listed
            .iter()
            .any(|one| *one == shown || one.strip_suffix('/').is_some_and(|dir| path.starts_with(dir)))
    };
    let changed = before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path));
    for path in changed {
        // A directory is listed by what is in it.
        let below =
            || after.keys().chain(before.keys()).any(|other| other != path && other.starts_with(path));
        assert!(is_listed(path) || below(), "{} is not listed: {listed:?}", path.display());
    }
    assert!(is_listed(&project.join("new/.git/hooks/pre-commit")), "the commands did run: {listed:?}");
    assert!(is_listed(&project.join("fifo")) && is_listed(&project.join("made/empty")), "{listed:?}");
    let session = fixture.session().file_name().unwrap().to_string_lossy().into_owned();
    let undone = fixture.althing.new_command().args(["undo", &session]).spawn().wait(LIMIT).expect_code(0);
    let restored = state_of(&project);
    let left: Vec<_> =
        restored.iter().chain(&before).filter(|(path, _)| restored.get(*path) != before.get(*path)).collect();
    assert!(left.is_empty(), "not undone: {left:?}\n{}{}", undone.stdout, undone.stderr);
}

fn modes_of(dir: &Path) -> BTreeMap<PathBuf, u32> {
    let paths = state_of(dir).into_keys().chain([dir.to_owned()]);
    paths.map(|path| (path.clone(), fs::symlink_metadata(&path).unwrap().mode() & 0o7777)).collect()
}

#[test]
fn an_unreadable_file_or_directory_hides_nothing_that_an_ordinary_users_run_wrote() {
    // What the command does in the first context path, and the paths there that the result must list.
    let cases: [(&str, &[&str]); 6] = [
        ("echo PWNED > d/f; chmod 000 d", &["d/", "d/f"]),
        ("echo PWNED > d/f; chmod 111 d/e d; chmod 000 .", &["", "d/", "d/e/", "d/f"]),
        ("echo PWNED > d/f; chmod 000 d/f", &["d/f"]),
        ("mkdir -p n/m; echo PWNED > n/m/f; chmod 000 n/m n", &["n/m/f"]),
        ("echo PWNED > d/f; echo PWNED > d/e/new; chmod 555 d/e d .", &["", "d/", "d/e/", "d/e/new", "d/f"]),
        ("mkdir n; echo PWNED > n/f; chmod 000 n/f; chmod 111 n", &["n/f"]),
    ];
    for (act, expected) in cases {
        let slot = Arc::new(OnceLock::new());
        let given = Arc::clone(&slot);
        let script = Script::from_fn(move |request: &RecordedRequest| -> Action {
            if request.messages().iter().any(|message| message["role"] == "tool") {
                return Parliament::default().reply(request).into();
            }
            let base: &PathBuf = given.get().unwrap();
            let command = format!("cd {}; echo PWNED > p2/x; cd p1; {act}; true", base.display());
            Reply::call("run_command", &json!({ "command": command })).into()
        });
        let mut fixture = Fixture::with(1, script, |team| {
            team.every_backend("enable_mcp_command_line", true).every_backend("cwd", "here")
        });
        fixture.althing = fixture.althing.clone().on(Machine { user: User::Ordinary, bubblewrap: true });
        let base = fixture.althing.home_dir().canonicalize().unwrap().parent().unwrap().join("paths");
        slot.set(base.clone()).unwrap();
        let (first, second) = (base.join("p1"), base.join("p2"));
        put(&first.join("d/f"), "before\n");
        put(&first.join("d/e/g"), "before\n");
        put(&second.join("x"), "before\n");
        let (before, modes) = (state_of(&base), modes_of(&base));
        let paths = [&first, &second].map(|path| format!("{}:rw", path.display()));
        let args = ["--quick", "--context-path", &paths[0], "--context-path", &paths[1], "task"];
        let result = fixture.result(&args);
        let writes = result["context_path_writes"].as_array().cloned().unwrap_or_default();
        let listed: Vec<&str> = writes.iter().filter_map(|write| write["path"].as_str()).collect();
        let shown = |path: &&str| format!("{}/{path}", first.display());
        let mut expected: Vec<String> = expected.iter().map(shown).collect();
        expected.push(second.join("x").display().to_string());
        assert_eq!(listed, expected, "{act}");
        let session = fixture.session_id();
        let undone =
            fixture.althing.new_command().args(["undo", &session]).spawn().wait(LIMIT).expect_code(0);
        // The sandbox cannot remove its empty placeholder from a context path that the command made read-only.
        if act.ends_with(" .") {
            let _ = fs::remove_dir(first.join(".git"));
        }
        assert_eq!(state_of(&base), before, "{act}: {}{}", undone.stdout, undone.stderr);
        assert_eq!(modes_of(&base), modes, "{act}");
    }
}

#[test]
fn a_warning_says_that_the_changes_in_context_paths_could_not_be_determined() {
    let state = Arc::new(OnceLock::<PathBuf>::new());
    let given = Arc::clone(&state);
    let script = Script::from_fn(move |request: &RecordedRequest| -> Action {
        // A directory in the place of the file that records the changes.
        let session = althing_testkit::process::newest_session(given.get().unwrap()).unwrap();
        for task in fs::read_dir(session.join("tasks")).unwrap() {
            let preimages = task.unwrap().path().join("preimages");
            if preimages.is_dir() {
                fs::create_dir_all(preimages.join("after/in-the-way")).unwrap();
            }
        }
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return Parliament::default().reply(request).into();
        }
        Reply::call("run_command", &json!({ "command": "true" })).into()
    });
    let fixture = Fixture::with(1, script, |team| {
        team.every_backend("enable_mcp_command_line", true).every_backend("cwd", "here")
    });
    state.set(fixture.althing.state_dir()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = format!("{}:rw", dir.path().display());
    let output = fixture.run(&["--json", "--quick", "--context-path", &path, "task"]).expect_code(0);
    let warning = "what the run changed in the context paths could not be determined";
    assert!(output.stderr.contains(warning), "{}", output.stderr);
}

#[test]
fn a_file_that_runs_code_is_named_among_many_files_of_packages() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().canonicalize().unwrap().join("project");
    put(&project.join("node_modules/a/index.js"), "before\n");
    let command = format!(
        "cd {}/node_modules && for n in $(seq 40); do echo $n > a/$n.js; done; mkdir a/.vscode; \
         echo code > a/.vscode/tasks.json",
        project.display()
    );
    let fixture = commander(command);
    let path = format!("{}:rw", project.display());
    let output = fixture.run(&["--json", "--quick", "--context-path", &path, "task"]).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    let writes = result["context_path_writes"].as_array().unwrap();
    let notes: Vec<&str> = writes.iter().filter_map(|write| write["note"].as_str()).collect();
    assert!(notes.contains(&"41 files changed here"), "{writes:#?}");
    assert!(notes.contains(&"runs code when VS Code opens the directory"), "{writes:#?}");
}

#[test]
fn many_files_that_a_command_writes_to_packages_are_counted_and_undone() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().canonicalize().unwrap().join("project");
    put(&project.join("node_modules/a/index.js"), "before\n");
    let before = state_of(&project);
    let command = format!(
        "cd {}/node_modules && echo after > a/index.js && mkdir b && for n in $(seq 40); do echo $n > b/$n.js; done",
        project.display()
    );
    let fixture = commander(command);
    let path = format!("{}:rw", project.display());
    let output = fixture.run(&["--json", "--quick", "--context-path", &path, "task"]).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    let modules = format!("{}/node_modules/", project.display());
    assert_eq!(
        result["context_path_writes"],
        json!([{ "path": modules, "change": "modified", "note": "41 files changed here" }])
    );
    let session = fixture.session().file_name().unwrap().to_string_lossy().into_owned();
    fixture.althing.new_command().args(["undo", &session]).spawn().wait(LIMIT).expect_code(0);
    assert_eq!(state_of(&project), before);
}

/// A CLI agent that writes into its working directory: files that run code later, among them a `Makefile`, and an
/// ordinary file.
const PLANTING_CLAUDE: &str = r#"#!/usr/bin/env python3
import json, os, sys
sys.stdin.read()
for path in (".envrc", ".vscode/tasks.json", ".mcp.json", "althing.yaml", "sub/.git/hooks/pre-commit", "Makefile", "made.txt"):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    open(path, "w").write("planted\n")
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s"}))
"#;

/// Checks that the notice in a session's log names the written files that run code later, but neither build files
/// (`Makefile`) nor other files, and that the output shows the notice.
#[track_caller]
fn assert_pointed_out(output: &Output, events: &[Value], dir: &Path) {
    let mut events = events.iter().map(Value::to_string);
    let notice = events.find(|event| event.contains("files that run code later")).unwrap();
    for path in [".envrc", ".vscode/tasks.json", ".mcp.json", "althing.yaml", "sub/.git"] {
        let named = format!("{} (runs code when", dir.join(path).display());
        assert!(notice.contains(&named), "{path} is not named: {notice}");
    }
    for path in ["Makefile", "made.txt"] {
        assert!(dir.join(path).exists() && !notice.contains(path), "{path}: {notice}");
    }
    let shown = format!("{}{}", output.stdout, output.stderr);
    assert!(shown.contains("files that run code later") && shown.contains(".envrc"), "{shown}");
}

#[test]
fn what_a_cli_agent_plants_is_pointed_out_in_workflows_and_conversations() {
    let workflow = scripted_claude::install(&althing(), PLANTING_CLAUDE);
    let task = json!({"id": "t", "agent": "claude", "executionMode": "headless", "prompt": "Do it"});
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": [task]}]});
    workflow.file("flow.yaml", flow.to_string());
    let output =
        workflow.new_command().args(["workflow", "run", "flow.yaml"]).spawn().wait(LIMIT).expect_code(0);
    let dir = workflow.work_dir().canonicalize().unwrap();
    assert_pointed_out(&output, &workflow.events(), &dir);

    let chat = scripted_claude::install(&althing(), PLANTING_CLAUDE);
    let config = json!({
        "agents": [{"id": "a", "backend": {"type": "claude_code"}}],
        "orchestrator": {"interactive_mode": {}},
    });
    chat.file("team.yaml", config.to_string());
    let command = chat.new_command().args(["chat", "--config", "team.yaml"]).stdin("Good morning\n");
    let output = command.spawn().wait(LIMIT).expect_code(0);
    assert_pointed_out(&output, &chat.events(), &chat.work_dir().canonicalize().unwrap());
}

#[test]
fn the_chat_agents_file_tools_refuse_or_point_out_files_that_run_code_later() {
    let calls =
        [".envrc", ".vscode/tasks.json", ".mcp.json", ".claude/settings.json", "Makefile", "althing.yaml"];
    let script = Script::from_fn(move |request: &RecordedRequest| -> Action {
        let done = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match calls.get(done) {
            Some(path) => Reply::call("write_file", &json!({ "path": path, "content": "x\n" })).into(),
            None => Reply::text("Done.").into(),
        }
    });
    let server = FakeModel::start_on_thread(script);
    let althing = althing();
    althing.file("team.yaml", Team::on(&server.base_url(), 1).rule("interactive_mode", json!({})).text());
    let command = althing.new_command().args(["chat", "--config", "team.yaml"]).stdin("Good morning\n");
    let output = command.spawn().wait(LIMIT).expect_code(0);
    for refused in [".envrc", ".vscode", ".mcp.json", ".claude"] {
        assert!(!althing.work_dir().join(refused).exists(), "{refused}");
    }
    assert!(althing.work_dir().join("Makefile").exists() && althing.work_dir().join("althing.yaml").exists());
    let shown = format!("{}{}", output.stdout, output.stderr);
    let notice = "the chat agent wrote a file that runs code later";
    assert_eq!(shown.matches(notice).count(), 1, "{shown}");
    assert!(shown.contains("althing.yaml (2 bytes). This file runs code when"), "{shown}");
    let events = format!("{:?}", althing.events());
    assert!(events.contains(notice), "{events}");
}

/// A CLI agent that plants hooks in the repository in its working directory, and a whole git directory, which is not
/// named `.git`, in `target`, where builds write their output.
const CLAUDE_FOR_GIT: &str = r##"#!/usr/bin/env python3
import json, os, sys
sys.stdin.read()
marks = os.environ["HOME"] + "/.claude"
hook = "#!/bin/sh\ntouch %s/mark\n" % marks
bare = {"config": "[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch %s/bare; false\n" % marks,
        "objects/x": "x", "refs/x": "x", "HEAD": "ref: refs/heads/main\n"}
files = {"tools/hooks/pre-commit": hook, "sub/not/yet/pre-commit": hook}
files.update({"target/bare/" + name: text for name, text in bare.items()})
for path, text in files.items():
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        open(path, "w").write(text)
        os.chmod(path, 0o755)
    except OSError as error:
        print(error, file=sys.stderr)
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s"}))
"##;

fn git(dir: &Path, home: &Path, args: &[&str]) {
    let mut command = std::process::Command::new("git");
    command.args(["-c", "user.name=n", "-c", "user.email=e", "-c", "safe.directory=*"]).args(args);
    command.current_dir(dir).env("HOME", home).output().expect("git");
}

fn repository_with_hooks(dir: &Path, home: &Path) {
    fs::create_dir_all(dir).unwrap();
    for (path, hooks) in [(".", "tools/hooks"), ("sub", "not/yet")] {
        git(dir, home, &["init", "-q", path]);
        git(&dir.join(path), home, &["config", "core.hooksPath", hooks]);
    }
    put(&dir.join("tools/hooks/pre-commit"), "#!/bin/sh\n");
    fs::set_permissions(dir.join("tools/hooks/pre-commit"), fs::Permissions::from_mode(0o755)).unwrap();
    put(&dir.join("target/output"), "built\n");
}

/// Checks that git runs nothing that the agent wrote to hooks and, if `point_out`, that a notice names the new
/// repository.
#[track_caller]
fn assert_hooks_hold(dir: &Path, home: &Path, events: &[Value], point_out: bool) {
    for path in [dir, &dir.join("sub")] {
        git(path, home, &["commit", "-q", "--allow-empty", "-m", "x"]);
    }
    assert!(dir.join(".git/HEAD").exists() && !home.join(".claude/mark").exists(), "git ran a planted hook");
    let bare = dir.join("target/bare");
    if point_out {
        let named = format!("{} (runs code when git", bare.display());
        let events = format!("{events:?}");
        assert!(bare.join("HEAD").exists() && events.contains(&named), "{named}: {events}");
    }
}

#[test]
fn what_git_runs_in_the_directory_of_a_task_or_conversation_is_protected_or_pointed_out() {
    let task = |id: &str, cwd: &Path| json!({"id": id, "agent": "claude", "executionMode": "headless", "prompt": "Do it", "cwd": cwd});
    // The task works in another repository than the one in which Althing is started.
    let workflow = scripted_claude::install(&althing(), CLAUDE_FOR_GIT);
    let home = workflow.home_dir();
    let dir = workflow.work_dir().parent().unwrap().canonicalize().unwrap().join("other");
    repository_with_hooks(&dir, &home);
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": [task("t", &dir)]}]});
    workflow.file("flow.yaml", flow.to_string());
    workflow.new_command().args(["workflow", "run", "flow.yaml"]).spawn().wait(LIMIT).expect_code(0);
    assert_hooks_hold(&dir, &home, &workflow.events(), true);

    let command = scripted_claude::install(&althing(), CLAUDE_FOR_GIT);
    let home = command.home_dir();
    let dir = command.work_dir().parent().unwrap().canonicalize().unwrap().join("other");
    repository_with_hooks(&dir, &home);
    let line =
        format!("printf '#!/bin/sh\\ntouch {}/.claude/mark\\n' > tools/hooks/pre-commit", home.display());
    let task = json!({"id": "t", "agent": "command", "command": ["sh", "-c", line], "prompt": "", "cwd": dir,
                      "sandbox": true});
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": [task]}]});
    command.file("flow.yaml", flow.to_string());
    command.new_command().args(["workflow", "run", "flow.yaml"]).spawn().wait(LIMIT);
    assert_hooks_hold(&dir, &home, &command.events(), false);

    // A CLI agent as the chat agent, in a directory that contains the repository.
    let chat = scripted_claude::install(&althing(), CLAUDE_FOR_GIT);
    let (home, dir) = (chat.home_dir(), chat.work_dir().canonicalize().unwrap());
    repository_with_hooks(&dir, &home);
    let config = json!({
        "agents": [{"id": "a", "backend": {"type": "claude_code"}}],
        "orchestrator": {"interactive_mode": {}},
    });
    chat.file("team.yaml", config.to_string());
    let command = chat.new_command().args(["chat", "--config", "team.yaml"]).stdin("Good morning\n");
    command.spawn().wait(LIMIT).expect_code(0);
    assert_hooks_hold(&dir, &home, &chat.events(), true);
}

#[test]
fn the_chat_agents_file_tools_write_nothing_that_git_runs() {
    let hook =
        json!({"path": "work/tools/hooks/pre-commit", "content": "#!/bin/sh\ntouch ../../.claude/mark\n"});
    let patch = "*** Begin Patch\n*** Add File: bare/HEAD\n+ref: refs/heads/main\n*** Add File: bare/objects/x\n+x\n\
                 *** Add File: bare/refs/x\n+x\n*** Add File: bare/config\n+[core]\n+\tbare = false\n*** End Patch\n";
    let write = |path: &str| ("write_file", json!({"path": path, "content": "x\n"}));
    let calls = [
        ("write_file", hook),
        ("apply_patch", json!({ "patch": patch })),
        write("one/HEAD"),
        write("one/objects/x"),
        write("one/config"),
        write("one/refs/x"),
        write("two/commondir"),
        write("two/HEAD"),
        write("made.txt"),
    ];
    let script = Script::from_fn(move |request: &RecordedRequest| -> Action {
        let done = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match calls.get(done) {
            Some((tool, arguments)) => Reply::call(*tool, arguments).into(),
            None => Reply::text("Done.").into(),
        }
    });
    let server = FakeModel::start_on_thread(script);
    let althing = althing();
    let dir = althing.work_dir();
    repository_with_hooks(&dir.join("work"), &althing.home_dir());
    althing.file("team.yaml", Team::on(&server.base_url(), 1).rule("interactive_mode", json!({})).text());
    let command = althing.new_command().args(["chat", "--config", "team.yaml"]).stdin("Good morning\n");
    command.spawn().wait(LIMIT).expect_code(0);
    assert!(dir.join("made.txt").exists() && dir.join("one/objects/x").exists());
    assert_eq!(fs::read_to_string(dir.join("work/tools/hooks/pre-commit")).unwrap(), "#!/bin/sh\n");
    for refused in ["bare", "one/config", "one/refs", "two/HEAD"] {
        assert!(!dir.join(refused).exists(), "{refused}");
    }
}

/// A missing `.git` stays protected in one process when another process that protected it, too, ends first.
#[test]
fn a_missing_repository_stays_protected_while_any_process_protects_it() {
    let first = althing();
    let dir = first.work_dir().parent().unwrap().canonicalize().unwrap().join("shared");
    fs::create_dir(&dir).unwrap();
    let start = |name: &str, act: &str| {
        let line = format!("touch {name}-runs; until [ -e {name}-go ]; do sleep 0.02; done; {act} true");
        let task = json!({"id": "t", "agent": "command", "command": ["sh", "-c", line], "prompt": "",
                          "cwd": dir, "sandbox": true});
        let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": [task]}]});
        first.file(&format!("{name}.yaml"), flow.to_string());
        let command = first.new_command().args(["workflow", "run", &format!("{name}.yaml")]);
        let running = command.spawn();
        let is_running = || dir.join(format!("{name}-runs")).exists();
        assert!(wait::holds_within(LIMIT, is_running), "{name} did not start: {}", running.stderr());
        running
    };
    let ends_first = start("first", "");
    let ends_last = start("last", "mkdir -p .git/hooks; echo planted > .git/hooks/pre-commit;");
    fs::write(dir.join("first-go"), "").unwrap();
    ends_first.wait(LIMIT).expect_code(0);
    fs::write(dir.join("last-go"), "").unwrap();
    ends_last.wait(LIMIT).expect_code(0);
    assert!(!dir.join(".git/hooks").exists(), "a repository was created");
    assert!(!dir.join(".git").exists(), "a mount point is left behind");
}

/// Started in `~/.config` or `~/.local`, agents write neither what runs code when the user logs in nor Althing's own
/// configs and records.
#[test]
fn no_agent_writes_what_runs_at_login_or_althings_own_files() {
    let refused = [
        ".config/autostart/e.desktop",
        ".config/systemd/user/e.service",
        ".config/fish/config.fish",
        ".config/environment.d/x.conf",
        ".config/git/config",
        ".config/althing/config.yaml",
        ".config/althing/.env",
        ".local/state/althing/trusted",
        ".local/state/althing/begun",
        ".local/share/systemd/user/e.service",
        // The user's config is a symlink to this file.
        ".config/dotfiles/patterns.json",
    ];
    for dir in [".config", ".local"] {
        let below: Vec<&str> =
            refused.iter().filter_map(|path| path.strip_prefix(dir)?.strip_prefix('/')).collect();
        let calls: Vec<String> = below.iter().chain(&["made.txt"]).map(|path| (*path).to_owned()).collect();
        let script = Script::from_fn(move |request: &RecordedRequest| -> Action {
            let done = request.messages().iter().filter(|message| message["role"] == "tool").count();
            match calls.get(done) {
                Some(path) => Reply::call("write_file", &json!({ "path": path, "content": "EVIL" })).into(),
                None => Reply::text("Done.").into(),
            }
        });
        let server = FakeModel::start_on_thread(script);
        let althing = althing();
        let started_in = althing.home_dir().join(dir);
        put(&althing.home_dir().join(".config/dotfiles/patterns.json"), "{}");
        put(&althing.home_dir().join(".config/althing/keep"), "");
        let link = althing.home_dir().join(".config/althing/patterns.json");
        std::os::unix::fs::symlink("../dotfiles/patterns.json", link).unwrap();
        fs::create_dir_all(&started_in).unwrap();
        let team = Team::on(&server.base_url(), 1).rule("interactive_mode", json!({})).text();
        let team = althing.file("team.yaml", team);
        let command = althing.program("/usr/bin/env").arg("-C").arg(&started_in);
        let command = command.arg(env!("CARGO_BIN_EXE_althing")).args(["chat", "--config"]).arg(&team);
        command.stdin("Good morning\n").spawn().wait(LIMIT).expect_code(0);
        assert!(started_in.join("made.txt").exists(), "{dir}");
        for path in below {
            let text = fs::read_to_string(started_in.join(path)).unwrap_or_default();
            assert!(!text.contains("EVIL"), "{dir}/{path}");
        }
    }
}

/// For a command in a sandbox, what exists is read-only, and Althing's own directories cannot be made.
#[test]
fn no_command_writes_what_runs_at_login_or_althings_own_files() {
    let althing = althing();
    let home = althing.home_dir().canonicalize().unwrap();
    let line = format!(
        "cd {}/.config; for f in fish/config.fish althing/config.yaml dotfiles/patterns.json; do \
         mkdir -p \"$(dirname $f)\"; echo EVIL > $f; done; echo x > made.txt; \
         cd ../.local; mkdir -p state/althing; echo EVIL > state/althing/trusted",
        home.display()
    );
    let script = Script::from_fn(move |request: &RecordedRequest| -> Action {
        let called = request.messages().iter().any(|message| message["role"] == "tool");
        if called {
            return Parliament::default().reply(request).into();
        }
        Reply::call("run_command", &json!({ "command": line })).into()
    });
    let server = FakeModel::start_on_thread(script);
    put(&home.join(".config/dotfiles/patterns.json"), "{}");
    put(&home.join(".config/althing/keep"), "");
    std::os::unix::fs::symlink("../dotfiles/patterns.json", home.join(".config/althing/patterns.json"))
        .unwrap();
    put(&home.join(".config/fish/config.fish"), "");
    fs::create_dir_all(home.join(".local")).unwrap();
    let team = Team::on(&server.base_url(), 1).every_backend("enable_mcp_command_line", true);
    let paths = [".config", ".local"].map(|dir| json!({"path": home.join(dir), "permission": "write"}));
    let team = team.every_backend("cwd", "here").rule("context_paths", json!(paths));
    althing.file("team.yaml", team.text());
    let command = althing.new_command().args(["--config", "team.yaml", "--automation", "--quick", "task"]);
    command.spawn().wait(LIMIT).expect_code(0);
    assert!(home.join(".config/made.txt").exists());
    for path in [
        ".config/fish/config.fish",
        ".config/althing/config.yaml",
        ".config/dotfiles/patterns.json",
        ".local/state/althing/trusted",
    ] {
        let text = fs::read_to_string(home.join(path)).unwrap_or_default();
        assert!(!text.contains("EVIL"), "{path}");
    }
}

/// A workflow whose first task plants settings in the sandbox and whose last task runs in the same directory without a
/// sandbox. Althing is killed: while the first task runs (which is then started again, or fails), or after it ended and
/// its notice was given.
#[test]
fn after_kill_9_a_resume_starts_nothing_on_code_that_no_notice_named() {
    for (case, is_named) in [("restarted", false), ("failed", false), ("ended", true)] {
        let althing = althing();
        let dir = althing.work_dir().canonicalize().unwrap();
        let elsewhere = dir.parent().unwrap().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let task = |id: &str, line: &str| json!({"id": id, "agent": "command", "command": ["sh", "-c", line], "prompt": ""});
        let waits = "while [ ! -e go ]; do sleep 0.02; done";
        let plants = "[ -e go ] || { mkdir .claude; echo '{}' > .claude/settings.json; }";
        let end = if case == "ended" { "true" } else { waits };
        let mut planter = task("planter", &format!("{plants}; {end}"));
        planter["sandbox"] = true.into();
        if case == "failed" {
            planter["on_interrupt"] = "fail".into();
            planter["continue_on_failure"] = true.into();
        }
        let mut slow = task("slow", waits);
        slow["cwd"] = elsewhere.to_str().unwrap().into();
        let last = task("last", "touch ran");
        let stages = [planter, slow, last].map(|task| json!({"name": task["id"], "tasks": [task]}));
        althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
        let running = althing.new_command().args(["workflow", "run", "flow.yaml"]).spawn();
        let planted = dir.join(".claude/settings.json");
        assert!(wait::holds_within(LIMIT, || planted.exists()), "{case}: {}", running.stderr());
        if case == "ended" {
            wait_for_event(&althing.state_dir(), LIMIT, |event| {
                event["type"] == "attempt_started" && event["task"].as_str().unwrap().ends_with("slow")
            });
        }
        running.signal(Signal::KILL);
        running.wait(LIMIT);
        fs::write(dir.join("go"), "").unwrap();
        fs::write(elsewhere.join("go"), "").unwrap();
        let resumed = althing.new_command().arg("resume").spawn().wait(LIMIT);
        let said = format!("{case}: {}{}", resumed.stdout, resumed.stderr);
        assert_eq!(dir.join("ran").exists(), is_named, "{said}");
        let named = format!("{} (runs code when", planted.display());
        let notices: Vec<Value> =
            althing.events().into_iter().filter(|event| event["type"] == "notice").collect();
        assert!(format!("{notices:?}").contains(&named), "{said} {notices:?}");
        if !is_named {
            let error = "wrote files that could run code here outside the sandbox";
            assert!(said.contains(error) && said.contains(&named), "{said}");
            // A new start of the workflow accepts what is there.
            let again = althing.new_command().args(["workflow", "run", "flow.yaml"]).spawn().wait(LIMIT);
            assert!(dir.join("ran").exists(), "{case}: {}{}", again.stdout, again.stderr);
        }
    }
}

/// A command that writes through a shared mapping of the file. On tmpfs, such a write changes no time stamp.
fn mapped_write(file: &Path, text: &str) -> String {
    let file = file.display();
    format!(
        "python3 -c \"
import mmap, os
m = mmap.mmap(os.open('{file}', os.O_RDWR), 0)
m[0]
m[0:{}] = b'{text}'
\"",
        text.len()
    )
}

#[test]
fn a_change_without_a_new_time_stamp_is_listed_and_undone() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let project = dir.path().canonicalize().unwrap();
    for name in ["Makefile", "node_modules/a/index.js", "other"] {
        put(&project.join(name), "before\n");
    }
    let (makefile, package) = (project.join("Makefile"), project.join("node_modules/a/index.js"));
    let before = fs::metadata(&makefile).unwrap();
    let fixture =
        commander(format!("{}\n{}", mapped_write(&makefile, "AFTER"), mapped_write(&package, "AFTER")));
    let listed = run_in(&fixture, &project);
    let after = fs::metadata(&makefile).unwrap();
    let same = (before.ctime(), before.ctime_nsec()) == (after.ctime(), after.ctime_nsec());
    assert!(same && fs::read_to_string(&makefile).unwrap() == "AFTERe\n", "the command wrote no such change");
    assert_eq!(listed, [&makefile, &package].map(|path| path.display().to_string()));
    let session = fixture.session().file_name().unwrap().to_string_lossy().into_owned();
    fixture.althing.new_command().args(["undo", &session]).spawn().wait(LIMIT).expect_code(0);
    for path in [makefile, package] {
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\n", "{}", path.display());
    }
}

#[test]
fn a_script_that_was_changed_without_a_new_time_stamp_does_not_run_outside_the_sandbox() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let project = dir.path().canonicalize().unwrap();
    let script = project.join("hook.sh");
    put(&script, "before\n");
    let hook = json!([{"hooks": [{"type": "command", "command": "sh hook.sh"}]}]);
    put(&project.join(".claude/settings.json"), &json!({"hooks": {"SessionStart": hook}}).to_string());
    let task = |id: &str, line: &str| {
        json!({"id": id, "agent": "command", "command": ["sh", "-c", line], "prompt": "",
            "cwd": project.to_str().unwrap()})
    };
    let mut planter = task("planter", &mapped_write(&script, "AFTER"));
    planter["sandbox"] = true.into();
    let stages =
        [planter, task("last", "touch ran")].map(|task| json!({"name": task["id"], "tasks": [task]}));
    let althing = althing();
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let output = althing.new_command().args(["workflow", "run", "flow.yaml"]).spawn().wait(LIMIT);
    assert_eq!(fs::read_to_string(&script).unwrap(), "AFTERe\n", "{output:?}");
    assert!(!project.join("ran").exists(), "{output:?}");
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains("could run code here outside the sandbox") && said.contains("hook.sh"), "{said}");
}
