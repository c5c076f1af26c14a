//! Programs that are called by their names: no agent puts a program, or a module of one, where the user, a task of a
//! workflow, the editor or an MCP server finds it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use althing_testkit::{Althing, Machine, User, is_root, skip_unless_ci};
use serde_json::{Value, json};

use super::server_code::calling;
use super::support::{Fixture, LIMIT, Team, althing};

/// A program that creates a file in the home directory. No agent may write there, so the file shows that the program
/// ran outside the sandbox.
fn planted(home: &Path) -> String {
    format!("#!/bin/sh\necho ran > {}\necho planted\n", home.join("PWNED").display())
}

fn program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Makes the user's program `tell`, a program of the same name to plant, and an activated virtual environment in the
/// working directory. Returns the value of `PATH`, which has a directory that does not exist.
fn with_programs(althing: &Althing) -> String {
    let (home, work) = (althing.home_dir(), althing.work_dir());
    program(&home.join("bin/tell"), "#!/bin/sh\necho the own program\n");
    program(&work.join("evil/tell"), &planted(&home));
    program(&work.join(".venv/bin/pip"), "#!/bin/sh\n");
    let dirs = [work.join(".venv/bin"), work.join("missing/bin"), home.join("bin")];
    let dirs = dirs.map(|dir| dir.display().to_string());
    format!("{}:/usr/bin:/bin", dirs.join(":"))
}

const PLANT: &str = "for dir in .venv/bin missing/bin; do mkdir -p $dir; cp evil/tell $dir/tell; cp evil/tell $dir/pip; done; true";

fn machines() -> Vec<Machine> {
    if !is_root() {
        skip_unless_ci("only root can act as another user, and hide bubblewrap");
        return vec![Machine::from_environment()];
    }
    let users = [User::Current, User::Ordinary];
    users.into_iter().flat_map(|user| [true, false].map(|bubblewrap| Machine { user, bubblewrap })).collect()
}

#[test]
fn no_task_in_a_sandbox_plants_a_program_for_a_later_command() {
    for machine in machines() {
        let althing = althing().on(machine);
        let path = with_programs(&althing);
        let plant = json!({"id": "plant", "agent": "planter", "prompt": "p"});
        let boxed = json!({"id": "boxed", "agent": "command", "command": ["sh", "-c", PLANT], "prompt": "",
            "sandbox": true, "continue_on_failure": true});
        let tell = json!({"id": "tell", "agent": "command", "command": ["tell"], "prompt": ""});
        let shell =
            json!({"id": "shell", "agent": "command", "command": ["sh", "-c", "tell; pip"], "prompt": ""});
        let flow = json!({"name": "n", "goal": "g",
            "adapters": {"planter": {"program": "sh", "headless_args": ["-c", PLANT]}},
            "stages": [{"name": "one", "tasks": [plant, boxed]}, {"name": "two", "tasks": [tell, shell]}]});
        althing.file("flow.yaml", flow.to_string());
        let command = althing.new_command().env("PATH", path).args(["workflow", "run", "flow.yaml"]);
        let output = command.spawn().wait(LIMIT);
        assert!(!althing.home_dir().join("PWNED").exists(), "{machine:?}: the planted program ran");
        let output = output.expect_code(0);
        assert!(output.stdout.contains("the own program"), "{machine:?}: {}", output.stdout);
    }
}

#[test]
fn no_agent_of_a_run_and_no_chat_agent_writes_to_a_directory_of_path() {
    for is_chat in [false, true] {
        let calls = Arc::<OnceLock<_>>::default();
        let fixture = Fixture::new(1, calling(&calls, is_chat));
        let path = with_programs(&fixture.althing);
        let work = fixture.althing.work_dir().canonicalize().unwrap();
        let write = |file: &str| ("write_file", json!({"path": work.join(file), "content": "#!/bin/sh\n"}));
        let line = format!("cd {} && {PLANT}", work.display());
        let mut all = vec![write(".venv/bin/tell"), write("missing/bin/tell"), write("free/bin/tell")];
        all.extend(Some(("run_command", json!({"command": line}))).filter(|_| !is_chat));
        calls.set(all).unwrap();
        let base = fixture.server.base_url();
        let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
        let team = Team::on(&base, 1)
            .every_backend("cwd", "w")
            .every_backend("enable_mcp_command_line", true)
            .rule("context_paths", json!([{"path": ".", "permission": "write"}]))
            .rule("interactive_mode", json!({"enabled": true, "backend": backend}));
        fixture.althing.file("team.yaml", team.text());
        let command = if is_chat {
            fixture.althing.new_command().args(["chat", "--config", "team.yaml"]).stdin("hello\n")
        } else {
            fixture.command(&["--quick", "task"])
        };
        command.env("PATH", path).spawn().wait(LIMIT).expect_code(0);
        let text = |file: &str| std::fs::read_to_string(work.join(file)).unwrap_or_default();
        assert_eq!(text(".venv/bin/pip"), "#!/bin/sh\n", "chat agent: {is_chat}");
        let exists = |file: &str| work.join(file).exists();
        let found = [".venv/bin/tell", "missing/bin/tell", "free/bin/tell"].map(exists);
        assert_eq!(
            found,
            [false, false, true],
            "chat agent: {is_chat}: only where nothing is called by its name"
        );
    }
}

#[test]
fn the_editor_is_not_started_from_a_directory_where_agents_may_write() {
    for has_own in [true, false] {
        let althing = althing();
        let (home, work) = (althing.home_dir(), althing.work_dir());
        program(&work.join("edit-it"), &planted(&home));
        if has_own {
            let own = format!("#!/bin/sh\necho opened > {}\n", home.join("OWN").display());
            program(&home.join("bin/edit-it"), &own);
        }
        let path = format!("{}:{}:/usr/bin:/bin", work.display(), home.join("bin").display());
        let command = althing.new_command().arg("--offline").env("EDITOR", "edit-it").env("PATH", path);
        let mut terminal = command.terminal(100, 30);
        terminal.wait_for("Type a message...", LIMIT);
        terminal.keys("\x18");
        if has_own {
            terminal.wait_until(LIMIT, "the editor", |_| home.join("OWN").exists());
        } else {
            terminal.wait_for("edit-it is not started", LIMIT);
        }
        assert!(!home.join("PWNED").exists(), "the planted editor ran");
        terminal.keys("\x03\x03");
        terminal.wait(LIMIT);
    }
}

/// An MCP server that loads a module which may be missing, as many packages do.
const SERVER: &str = r"
try { require('extra') } catch (error) {}
require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const ask = JSON.parse(line);
  if (!('id' in ask)) return;
  const results = {
    initialize: () => ({ protocolVersion: ask.params.protocolVersion, capabilities: { tools: {} },
      serverInfo: { name: 'sky', version: '1' } }),
    'tools/list': () => ({ tools: [{ name: 'weather', inputSchema: { type: 'object' } }] }),
    'tools/call': () => ({ content: [{ type: 'text', text: 'Sunny in Hof' }] }),
  };
  const result = (results[ask.method] || (() => ({})))();
  console.log(JSON.stringify({ jsonrpc: '2.0', id: ask.id, result }));
});
";

/// The name of a planted file, and its text. Without a text, it has code that leaves a file in the home directory.
type PlantedFile<'a> = (&'a str, Option<&'a str>);

#[test]
fn no_agent_adds_a_module_to_a_server() {
    let node = Path::new("/usr/bin/node");
    if !node.exists() {
        return skip_unless_ci("node is not installed");
    }
    let package = json!({"name": "extra", "exports": "./extra.js"}).to_string();
    let cases: [(&str, &[PlantedFile<'_>], Value); 4] = [
        ("a package above it", &[("node_modules/extra/index.js", None)], json!({})),
        ("its package", &[("extra.js", None), ("package.json", Some(package.as_str()))], json!({})),
        ("a directory of NODE_PATH", &[("lib/extra.js", None)], json!({"NODE_PATH": "@work/lib"})),
        (
            "a file of NODE_OPTIONS",
            &[("lib/hook.js", None)],
            json!({"NODE_OPTIONS": "--require=@work/lib/hook.js"}),
        ),
    ];
    for (what, files, env) in cases {
        for by_command in [false, true] {
            let calls = Arc::<OnceLock<_>>::default();
            let fixture = Fixture::new(1, calling(&calls, false));
            let (home, althing) = (fixture.althing.home_dir(), &fixture.althing);
            let work = althing.work_dir().canonicalize().unwrap();
            althing.file("tools/server.js", SERVER);
            althing.file("lib/hook.js", "");
            let evil =
                format!("require('fs').writeFileSync({:?}, 'ran')", home.join("PWNED").display().to_string());
            let mut all: Vec<(&'static str, Value)> = Vec::new();
            for (file, text) in files {
                let (path, text) = (work.join(file), text.unwrap_or(&evil));
                all.push(if by_command {
                    let line = format!(
                        "mkdir -p $(dirname {0}); printf %s '{1}' > {0}",
                        path.display(),
                        text.replace('\'', "'\\''")
                    );
                    ("run_command", json!({"command": line}))
                } else {
                    ("write_file", json!({"path": path, "content": text}))
                });
            }
            all.push(("mcp__sky__weather", json!({})));
            calls.set(all).unwrap();
            let env: Value =
                serde_json::from_str(&env.to_string().replace("@work", &work.display().to_string())).unwrap();
            let servers = json!([{"name": "sky", "type": "stdio", "command": node,
                "args": [work.join("tools/server.js")], "env": env}]);
            let team = Team::on(&fixture.server.base_url(), 1)
                .every_backend("mcp_servers", servers)
                .every_backend("enable_mcp_command_line", true)
                .every_backend("cwd", "w")
                .rule("context_paths", json!([{"path": ".", "permission": "write"}]));
            althing.file("team.yaml", team.text());
            for _ in 0..2 {
                fixture.run(&["--quick", "task"]).expect_code(0);
            }
            assert!(!home.join("PWNED").exists(), "an agent added {what}, with a command: {by_command}");
            let requests = fixture.server.requests();
            let is_sunny =
                requests.iter().any(|request| format!("{:?}", request.messages()).contains("Sunny in Hof"));
            assert!(is_sunny, "{what}: the server works");
        }
    }
}

#[test]
fn no_directory_of_another_user_makes_a_sandbox_seem_broken() {
    let althing = althing();
    let binary = env!("CARGO_BIN_EXE_althing");
    let temporary = althing.home_dir().join("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    // The names of Althing's trial directories contain its process id, which another user would have to guess. This
    // shell knows the id, because it becomes Althing with `exec`.
    let line = "for n in 0 1 2 3 4 5 6 7; do mkdir $TMPDIR/trial-$$-$n && ln -s /usr $TMPDIR/trial-$$-$n/workspace; done; \
                exec \"$0\" agents";
    let command = althing.program("/bin/sh").args(["-c", line, binary]).env("TMPDIR", &temporary);
    let output = command.spawn().wait(LIMIT).expect_code(0);
    assert!(!output.stdout.contains("was replaced by a symbolic link"), "{}", output.stdout);
    let left = std::fs::read_dir(&temporary).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| !name.to_string_lossy().starts_with("trial-")).collect();
    assert!(left.is_empty(), "{left:?}");
}
