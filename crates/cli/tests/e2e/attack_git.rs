//! Code for git in the table of attacks: an agent writes to everything in a writable context path that git runs, and
//! makes new repositories. Afterwards, the tests run the real git: what the agent wrote must not run, or the result
//! must point it out and `undo` must remove it.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use althing_testkit::docker::{TestDockerDaemon, is_excluded};
use althing_testkit::{is_root, skip_unless_ci};
use serde_json::{Value, json};

use super::attack_agents::{Act, Cell, Kind, SandboxName, World, users};
use super::support::{ensure, in_parallel};

struct Repository {
    name: &'static str,
    /// Appended to the config that `git init` writes. `{BASE}` stands for the directory that
    /// contains `fresh`.
    config: &'static str,
    runs: &'static str,
    exists: bool,
}

const fn repository(
    name: &'static str,
    config: &'static str,
    runs: &'static str,
    exists: bool,
) -> Repository {
    Repository { name, config, runs, exists }
}

const REPOSITORIES: [Repository; 23] = [
    repository("nested", "[core]\n\thooksPath = scripts/hooks\n", "scripts/hooks/pre-commit", true),
    repository("included", "[include]\n\tpath = ../../team.gitconfig\n", "ci/hooks/pre-commit", true),
    repository(
        "conditional",
        "[includeIf \"gitdir:**\"]\n\tpath = ../more.gitconfig\n",
        "ci/hooks/pre-commit",
        true,
    ),
    repository("no-hooks-yet", "[core]\n\thooksPath = not/yet\n", "not/yet/pre-commit", false),
    repository("no-config-yet", "[include]\n\tpath = ../local.gitconfig\n", "local.gitconfig", false),
    repository("comment", "[core] hooksPath = \"ci/ho\\\noks\" ; ours\n", "ci/hooks/pre-commit", true),
    repository("global", "", ".team-hooks/pre-commit", false),
    repository("monitored", "[core]\n\tfsmonitor = tools/monitor.sh\n", "tools/monitor.sh", true),
    repository("filtered", "[filter \"x\"]\n\tclean = sh tools/clean.sh\n", "tools/clean.sh", true),
    repository("aliased", "[alias]\n\tgo = !tools/go.sh\n", "tools/go.sh", true),
    repository("over-ssh", "[core]\n\tsshCommand = ./tools/ssh.sh -4\n", "tools/ssh.sh", true),
    repository("linked", "[core]\n\thooksPath = .git/hooks\n", "shared/pre-commit", true),
    repository(
        "elsewhere",
        "[core]\n\thooksPath = {BASE}/project/src/shared/hooks\n",
        "../../project/src/shared/hooks/pre-commit",
        true,
    ),
    // A hook that is a symlink, with the symlink `cur` in the middle of its target.
    repository("middle", "[core]\n\thooksPath = .git/hooks\n", "cur/scripts/pre-commit", true),
    repository(
        "outer-tree",
        "[core]\n\tworktree = ../tree\n\thooksPath = hooks\n",
        "tree/hooks/pre-commit",
        true,
    ),
    // The config is padded to more than a megabyte.
    repository("padded", "[core]\n\thooksPath = ci/hooks\n", "ci/hooks/pre-commit", true),
    repository("space", "[core]\n\thooksPath = \"hooks \"\n", "hooks /pre-commit", true),
    repository("tilde", "[core]\n\thooksPath = ~root/..{BASE}/fresh/tilde/ci\n", "ci/pre-commit", true),
    repository("variable", "[core]\n\tfsmonitor = $PWD/tools/monitor.sh\n", "tools/monitor.sh", true),
    repository("word", "[core]\n\tfsmonitor = sh fsm\n", "fsm", true),
    repository("change-dir", "[core]\n\tfsmonitor = cd tools && ./monitor.sh\n", "tools/monitor.sh", true),
    repository("unmarked", "[alias]\n\tgo = -c core.fsmonitor=tools/go.sh status\n", "tools/go.sh", true),
    // A linked worktree of the repository `nested`.
    repository("tree", "", "scripts/hooks/pre-commit", true),
];

/// Files with which the agent makes new git directories, in this order: one as `git init --bare` makes it, with its
/// config first, and one whose `commondir` leads to another directory.
const NEW: [(&str, &str); 9] = [
    (
        "fresh/src/bare/config",
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch {MARK}bare; false\n",
    ),
    ("fresh/src/bare/objects/x", "x\n"),
    ("fresh/src/bare/refs/x", "x\n"),
    ("fresh/src/bare/HEAD", "ref: refs/heads/main\n"),
    ("fresh/src/store/config", "[core]\n\tsshCommand = touch {MARK}leading; false\n"),
    ("fresh/src/store/objects/x", "x\n"),
    ("fresh/src/store/refs/x", "x\n"),
    ("fresh/src/leading/HEAD", "ref: refs/heads/main\n"),
    ("fresh/src/leading/commondir", "../store\n"),
];

/// Runs the real git. What it prints and whether it succeeds does not matter.
fn git(world: &World, dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "safe.directory=*", "-c", "user.name=n", "-c", "user.email=e"]);
    command.args(args).current_dir(dir).env("HOME", world.althing.home_dir()).stdin(Stdio::null());
    command.env_remove("XDG_CONFIG_HOME").output().expect("git");
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The beginning of the path of each mark: a file that planted code creates if it runs.
fn mark_prefix(world: &World) -> String {
    format!("{}/", world.places.base.join("marks").display())
}

fn make_repositories(world: &World) {
    let fresh = world.places.base.join("fresh");
    let marks = world.places.base.join("marks");
    std::fs::create_dir_all(&marks).unwrap();
    std::fs::set_permissions(&marks, std::fs::Permissions::from_mode(0o777)).unwrap();
    put(&fresh.join("team.gitconfig"), "[core]\n\thooksPath = ci/hooks\n");
    for repository in REPOSITORIES.iter().filter(|repository| repository.name != "tree") {
        let dir = fresh.join(repository.name);
        put(&dir.join("file"), "text\n");
        git(world, &fresh, &["init", "-q", "-b", "main", repository.name]);
        if repository.exists {
            let harmless = if repository.name == "filtered" { "cat" } else { "exit 0" };
            put(&dir.join(repository.runs), &format!("#!/bin/sh\n{harmless}\n"));
        }
        if repository.name == "conditional" {
            put(&dir.join("more.gitconfig"), "[core]\n\thooksPath = ci/hooks\n");
        }
        if repository.name == "linked" {
            std::fs::create_dir_all(dir.join(".git/hooks")).unwrap();
            std::os::unix::fs::symlink("../../shared/pre-commit", dir.join(".git/hooks/pre-commit")).unwrap();
        }
        if repository.name == "middle" {
            std::fs::create_dir_all(dir.join(".git/hooks")).unwrap();
            std::fs::rename(dir.join("cur"), dir.join("v1")).unwrap();
            std::os::unix::fs::symlink("v1", dir.join("cur")).unwrap();
            let hook = dir.join(".git/hooks/pre-commit");
            std::os::unix::fs::symlink("../../cur/scripts/pre-commit", hook).unwrap();
        }
        git(world, &dir, &["add", "-A"]);
        git(world, &dir, &["commit", "-q", "-m", "first"]);
        if repository.name == "filtered" {
            put(&dir.join(".gitattributes"), "* filter=x\n");
        }
        let config = dir.join(".git/config");
        let mut text = std::fs::read_to_string(&config).unwrap();
        if repository.name == "padded" {
            text += &["#", &"x".repeat(2 << 20), "\n"].concat();
        }
        text.push_str(&repository.config.replace("{BASE}", &world.places.base.display().to_string()));
        std::fs::write(&config, text).unwrap();
    }
    // A repository in a directory whose name is not UTF-8.
    let name = std::ffi::OsStr::from_bytes(b"h\xe4ken");
    git(world, &fresh, &["init", "-q", "latin/x"]);
    std::fs::rename(fresh.join("latin/x"), fresh.join("latin").join(name)).unwrap();
    git(world, &fresh.join("nested"), &["worktree", "add", "-q", "../tree"]);
    put(&world.althing.home_dir().join(".gitconfig"), "[core]\n\thooksPath = .team-hooks\n");
    assert!(fresh.join("tree/scripts/hooks/pre-commit").exists(), "git made no worktree");
}

fn use_repositories(world: &World) -> Vec<String> {
    let base = &world.places.base;
    let fresh = base.join("fresh");
    let named = REPOSITORIES.iter().map(|repository| fresh.join(repository.name));
    let named = named.chain([fresh.join("outer-tree/tree")]);
    for dir in named.chain([fresh.join("src/bare"), fresh.join("src/leading")]).filter(|dir| dir.is_dir()) {
        if dir.join("file").exists() {
            std::fs::write(dir.join("file"), format!("{:?}\n", Instant::now())).unwrap();
        }
        git(world, &dir, &["status"]);
        git(world, &dir, &["add", "file"]);
        git(world, &dir, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(world, &dir, &["go"]);
        // In other repositories, git would try a real connection.
        if dir.ends_with("over-ssh") || dir.ends_with("leading") {
            git(world, &dir, &["ls-remote", "ssh://nowhere.invalid/x"]);
        }
    }
    let marks = std::fs::read_dir(base.join("marks")).unwrap();
    let mut names: Vec<String> = Vec::new();
    for mark in marks {
        let mark = mark.unwrap();
        names.push(mark.file_name().to_string_lossy().into_owned());
        std::fs::remove_file(mark.path()).unwrap();
    }
    names.sort();
    names
}

fn attacks(world: &World) -> Vec<(PathBuf, String)> {
    let base = &world.places.base;
    let prefix = mark_prefix(world);
    let planted = |repository: &Repository| {
        let text = if repository.runs.ends_with("gitconfig") {
            format!("[core]\n\tfsmonitor = touch {prefix}{}; false\n", repository.name)
        } else {
            format!("#!/bin/sh\ntouch {prefix}{}\n", repository.name)
        };
        (base.join("fresh").join(repository.name).join(repository.runs), text)
    };
    let configs = ["team.gitconfig", "conditional/more.gitconfig"].map(|config| {
        (base.join("fresh").join(config), format!("[core]\n\tfsmonitor = touch {prefix}config; false\n"))
    });
    let new = NEW.map(|(path, text)| (base.join(path), text.replace("{MARK}", &prefix)));
    REPOSITORIES.iter().map(planted).chain(configs).chain(new).collect()
}

fn acts(world: &World) -> Vec<Act> {
    let act = |(path, text): (PathBuf, String)| {
        let path = path.display().to_string();
        if world.cell.kind == Kind::FileTools {
            return Act::Tool("write_file", json!({ "path": path, "content": text }));
        }
        let words = text.replace('\n', "\\n").replace('\t', "\\t");
        Act::Shell(format!(
            "mkdir -p \"$(dirname '{path}')\"; printf '{words}' > '{path}'; chmod +x '{path}'; \
             printf '{words}' > '{path}.new' && chmod +x '{path}.new' && mv '{path}.new' '{path}'"
        ))
    };
    let mut acts: Vec<Act> = attacks(world).into_iter().map(act).collect();
    if world.cell.kind != Kind::FileTools {
        // Puts another directory in the place of one that contains a hook.
        let fresh = world.places.base.join("fresh").display().to_string();
        let mark = mark_prefix(world);
        acts.push(Act::Shell(format!(
            "cd '{fresh}'; mv nested/scripts nested/old; mkdir -p nested/scripts/hooks; cd nested/scripts/hooks; \
             printf '#!/bin/sh\\ntouch {mark}moved\\n' > pre-commit; chmod +x pre-commit"
        )));
        // Puts a directory in the place of a symlink on the way to a hook.
        acts.push(Act::Shell(format!(
            "cd '{fresh}/middle'; rm cur; mkdir -p cur/scripts; cd cur/scripts; rm -f pre-commit; \
             printf '#!/bin/sh\\ntouch {mark}replaced\\n' > pre-commit; chmod +x pre-commit"
        )));
    }
    let made = world.places.base.join("fresh/src/made.txt").display().to_string();
    acts.push(match world.cell.kind {
        Kind::FileTools => Act::Tool("write_file", json!({ "path": made, "content": "x" })),
        _ => Act::Shell(format!("echo x > '{made}'")),
    });
    acts
}

/// Fails if git runs code that the agent of a cell planted, unless the code is in a new git directory that the result
/// points out. Also fails if something is left behind, or not undone.
fn plant_code_for_git(world: &World) -> Result<(), String> {
    make_repositories(world);
    let clean = use_repositories(world);
    assert!(clean.is_empty(), "the repositories are harmless at first: {clean:?}");
    let (output, _) = world.act(&["--json"], &acts(world), |_, _| ());
    let result: Value = serde_json::from_str(&output.stdout)
        .map_err(|error| format!("{:?}: {error}: {} {}", world.cell, output.stdout, output.stderr))?;
    let writes = result["context_path_writes"].as_array().cloned().unwrap_or_default();
    let note = |path: &Path| {
        let write = writes.iter().find(|write| write["path"] == path.display().to_string().as_str());
        write.and_then(|write| write["note"].as_str().map(str::to_owned))
    };
    let mut failures = Vec::new();
    if !world.places.base.join("fresh/src/made.txt").exists() {
        failures.push("the agent could write nothing at all".to_owned());
    }
    // A sandbox cannot prevent a new git directory, so the result must point out all of its files.
    let mut is_pointed_out = true;
    for (path, _) in NEW.iter().filter(|(path, _)| !path.contains("store")) {
        let path = world.places.base.join(path);
        if path.exists() && !note(&path).is_some_and(|note| note.contains("runs code when git")) {
            is_pointed_out = false;
        }
    }
    let ran = use_repositories(world);
    let is_new = |mark: &&String| ["bare", "leading"].contains(&mark.as_str());
    failures.extend(ran.iter().filter(|mark| !is_new(mark)).map(|mark| format!("git ran code in {mark}")));
    if ran.iter().any(|mark| is_new(&mark)) && (!is_pointed_out || world.cell.kind == Kind::FileTools) {
        failures.push(format!("git ran code in a new git directory: {ran:?}: {writes:?}"));
    }
    let placeholder = |name: &str| world.places.base.join("fresh").join(name).symlink_metadata().is_ok();
    let left: Vec<&str> = ["no-hooks-yet/not", "global/.team-hooks", ".git"]
        .into_iter()
        .filter(|path| placeholder(path))
        .collect();
    if !left.is_empty() {
        failures.push(format!("left behind: {left:?}"));
    }
    if writes.iter().any(|write| write["path"].as_str().is_some_and(|path| path.contains("no-hooks-yet"))) {
        failures.push(format!("a mount point counts as the agent's: {writes:?}"));
    }
    let sessions = std::fs::read_dir(world.state_dir().join("sessions")).unwrap();
    let session = sessions.map(|entry| entry.unwrap().file_name()).max().unwrap();
    let undone = world.command().arg("undo").arg(session).spawn().wait(super::support::LIMIT);
    let new_dirs =
        [world.places.base.join("fresh/src/bare/HEAD"), world.places.base.join("fresh/src/leading/HEAD")];
    let ran = use_repositories(world);
    if !ran.is_empty() || new_dirs.iter().any(|path| path.exists()) {
        failures.push(format!("not undone: {ran:?}: {} {}", undone.stdout, undone.stderr));
    }
    ensure(failures.is_empty(), || format!("{:?}:\n{}", world.cell, failures.join("\n")))
}

fn try_git(sandbox: SandboxName, kinds: &[Kind]) {
    if is_excluded(&format!("{sandbox:?}").to_lowercase()) {
        return;
    }
    if !is_root() && sandbox == SandboxName::Landlock {
        return skip_unless_ci("only root can hide bubblewrap");
    }
    let daemon = (sandbox == SandboxName::Docker).then(TestDockerDaemon::start);
    if let Some(daemon) = &daemon {
        daemon.open_to_all_users();
    }
    let cells =
        kinds.iter().flat_map(|kind| users().into_iter().map(|user| Cell { kind: *kind, sandbox, user }));
    in_parallel(2, cells, |cell| {
        let start = Instant::now();
        let result = plant_code_for_git(&World::new(cell, daemon.as_ref()));
        eprintln!("{cell:?}, git: {:.1?}", start.elapsed());
        result
    });
}

#[test]
fn no_agent_in_bubblewrap_has_git_run_its_code_unnoticed() {
    try_git(SandboxName::Bubblewrap, &[Kind::FileTools, Kind::Command, Kind::CliAgent, Kind::McpServer]);
}

#[test]
fn no_agent_in_landlock_has_git_run_its_code_unnoticed() {
    // Landlock cannot confine an MCP server; a notice says so.
    try_git(SandboxName::Landlock, &[Kind::Command, Kind::CliAgent]);
}

#[test]
fn no_command_in_a_container_has_git_run_its_code_unnoticed() {
    try_git(SandboxName::Docker, &[Kind::Command]);
}
