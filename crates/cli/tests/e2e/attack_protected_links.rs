//! Symlinks between ordinary and protected paths: an agent writes through a symlink that leads into a repository, or
//! writes to the target of a symlink with a protected name such as `.envrc`. Judged by what is on the disk.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use althing_testkit::docker::{TestDockerDaemon, is_excluded};
use althing_testkit::{is_root, skip_unless_ci};
use serde_json::json;

use super::attack_agents::{Act, Cell, Kind, SandboxName, World, users};
use super::support::{ensure, in_parallel};

/// Symlinks in the context path `project`, and what they lead to.
const LINKS: [(&str, &str); 9] = [
    ("docs", ".git/hooks"),
    ("src/notes", "../docs"),
    ("step", "conf/env.sh"),
    (".envrc", "step"),
    (".vscode", "conf/vscode"),
    (".claude", "conf/claude"),
    (".husky/pre-commit", "../conf/hook.sh"),
    (".env", "conf/secrets"),
    (".mcp.json", "conf/later.json"),
];

/// The paths to which an agent tries to write, each with the file that such a write would change.
const WRITTEN: [(&str, &str); 12] = [
    ("docs/pre-commit", ".git/hooks/pre-commit"),
    ("src/notes/pre-push", ".git/hooks/pre-push"),
    ("step", "conf/env.sh"),
    ("conf/env.sh", "conf/env.sh"),
    ("conf/vscode/tasks.json", "conf/vscode/tasks.json"),
    ("conf/vscode/mcp.json", "conf/vscode/mcp.json"),
    ("conf/claude/settings.json", "conf/claude/settings.json"),
    ("conf/claude/new.json", "conf/claude/new.json"),
    ("conf/hook.sh", "conf/hook.sh"),
    ("conf/secrets", "conf/secrets"),
    ("conf/later.json", "conf/later.json"),
    // The settings directory of a CLI agent, which an environment variable names.
    ("codex-settings/config.toml", "codex-settings/config.toml"),
];

fn make_links(project: &Path) {
    for dir in [".git/hooks", "src", "conf/vscode", "conf/claude", ".husky", "codex-settings"] {
        std::fs::create_dir_all(project.join(dir)).unwrap();
    }
    for file in ["env.sh", "vscode/tasks.json", "claude/settings.json", "hook.sh", "secrets", "plain"] {
        std::fs::write(project.join("conf").join(file), "before").unwrap();
    }
    for (link, target) in LINKS {
        let link = project.join(link);
        let _ = std::fs::remove_file(&link);
        let _ = std::fs::remove_dir_all(&link);
        symlink(target, link).unwrap();
    }
}

fn acts(world: &World, project: &Path) -> Vec<Act> {
    let write = |path: &str| {
        let path = project.join(path).display().to_string();
        if world.cell.kind == Kind::FileTools {
            Act::Tool("write_file", json!({"path": path, "content": "planted"}))
        } else {
            // Writes to the path itself, through a new symlink to its directory, and by replacing it with another file.
            Act::Shell(format!(
                "printf planted > '{path}'; ln -sfn \"$(dirname '{path}')\" '{0}/src/made'; \
                 printf planted > '{0}/src/made/'\"$(basename '{path}')\"; \
                 printf planted > '{path}.new' && mv '{path}.new' '{path}'; rm -f '{path}.new'",
                project.display()
            ))
        }
    };
    // Files next to a protected file stay writable.
    WRITTEN.iter().map(|(path, _)| write(path)).chain([write("conf/plain"), write("src/made.txt")]).collect()
}

fn write_through_links(cell: Cell, daemon: Option<&TestDockerDaemon>) -> Result<(), String> {
    let mut world = World::new(cell, daemon);
    let project = world.places.base.join("project");
    world.althing = world.althing.env("CODEX_HOME", project.join("codex-settings"));
    make_links(&project);
    let before = |file: &str| std::fs::read_to_string(project.join(file)).ok();
    let files: Vec<(&str, Option<String>)> = WRITTEN.iter().map(|(_, file)| (*file, before(file))).collect();
    let (output, _) = world.act(&[], &acts(&world, &project), |_, _| ());
    let mut changed: Vec<&str> =
        files.iter().filter(|(file, old)| before(file) != *old).map(|file| file.0).collect();
    changed.dedup();
    ensure(changed.is_empty(), || {
        format!("{cell:?}: written: {changed:?}: {} {}", output.stdout, output.stderr)
    })?;
    for (file, text) in [("conf/plain", "planted"), ("src/made.txt", "planted")] {
        ensure(before(file).as_deref() == Some(text), || format!("{cell:?}: {file} stays writable"))?;
    }
    let left = project.join("conf/later.json").symlink_metadata().is_ok();
    ensure(!left, || format!("{cell:?}: a placeholder was left behind"))
}

fn try_links(sandbox: SandboxName, kinds: &[Kind]) {
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
    in_parallel(2, cells, |cell| write_through_links(cell, daemon.as_ref()));
}

#[test]
fn no_agent_in_bubblewrap_writes_code_through_a_symlink() {
    try_links(SandboxName::Bubblewrap, &[Kind::FileTools, Kind::Command, Kind::CliAgent, Kind::McpServer]);
}

#[test]
fn no_agent_in_landlock_writes_code_through_a_symlink() {
    try_links(SandboxName::Landlock, &[Kind::Command, Kind::CliAgent]);
}

#[test]
fn no_command_in_a_container_writes_code_through_a_symlink() {
    try_links(SandboxName::Docker, &[Kind::Command]);
}

#[test]
fn no_agent_writes_in_a_context_path_inside_a_repository() {
    if is_excluded("bubblewrap") {
        return;
    }
    let cell = |kind| Cell { kind, sandbox: SandboxName::Bubblewrap, user: users()[0] };
    let kinds = [Kind::FileTools, Kind::Command, Kind::CliAgent, Kind::McpServer];
    in_parallel(2, kinds.map(cell), |cell| {
        let world = World::new(cell, None);
        let base = world.places.base.clone();
        for bare in ["HEAD", "objects/x", "refs/x", "hooks/x"] {
            let file = base.join("store").join(bare);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
        std::fs::create_dir_all(base.join("other/.git/hooks")).unwrap();
        // A working tree inside of a bare repository is an ordinary directory.
        std::fs::create_dir_all(base.join("store/tree")).unwrap();
        std::fs::write(base.join("store/tree/.git"), "gitdir: ../worktrees/tree\n").unwrap();
        let links = [("one", "other/.git/hooks"), ("two", "store/hooks"), ("three", "store/tree")];
        for (link, target) in links {
            symlink(base.join(target), base.join(link)).unwrap();
        }
        let arguments = links.map(|(link, _)| format!("{}:rw", base.join(link).display()));
        let arguments =
            arguments.iter().flat_map(|path| ["--context-path", path.as_str()]).collect::<Vec<_>>();
        let write = |(_, target): (&str, &str)| {
            let path = base.join(target).join("pre-commit").display().to_string();
            match cell.kind {
                Kind::FileTools => Act::Tool("write_file", json!({"path": path, "content": "planted"})),
                _ => Act::Shell(format!("printf planted > '{path}'")),
            }
        };
        world.act(&arguments, &links.map(write), |_, _| ());
        let is_written = |target: &str| base.join(target).join("pre-commit").exists();
        let found = links.map(|(_, target)| is_written(target));
        ensure(found == [false, false, true], || format!("{cell:?}: {found:?}"))
    });
}

/// The sandbox hides the state directory, but the command's workspace, which is below it, must stay reachable: of the
/// state directory, a command sees only the way to its workspace.
#[test]
fn a_command_in_a_container_runs_although_the_state_is_below_a_context_path() {
    if is_excluded("docker") {
        return;
    }
    let daemon = TestDockerDaemon::start();
    daemon.open_to_all_users();
    let cells =
        users().into_iter().map(|user| Cell { kind: Kind::Command, sandbox: SandboxName::Docker, user });
    in_parallel(2, cells, |cell| {
        let world = World::new(cell, Some(&daemon));
        let (project, state) = (world.places.base.join("project"), world.state_dir());
        // Althing makes it like this; then no other user may enter it.
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(state.join("hidden"), "").unwrap();
        let command = format!("ls -A '{}' > '{}/seen'; echo > mine", state.display(), project.display());
        let (output, _) = world.act(&[], &[Act::Shell(command)], |_, _| ());
        let seen = std::fs::read_to_string(project.join("seen"));
        let is_hidden = seen.as_ref().is_ok_and(|seen| seen == "sessions\n");
        ensure(is_hidden, || format!("{cell:?}: {seen:?}: {} {}", output.stdout, output.stderr))
    });
}
