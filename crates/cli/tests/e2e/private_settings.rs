//! Nothing that a real CLI agent plants in its own settings while it is confined acts later, when its user starts it.
//! The files are those of the product's own table, in the user's directories and in the private copy.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use althing_runner::adapter::{Adapters, AgentAdapter};
use althing_testkit::process::Signal;
use althing_testkit::{Althing, FakeModel, Machine, RecordedRequest, Reply, Script, User, scale, wait};
use serde_json::{Value, json};

use super::programs::{
    START_TIMEOUT, cli_agent_of, headless, internal_reply, passed, programs, send_op, shell_call,
    start_workflow, wait_for_question, with_programs,
};
use super::scripted_claude;
use super::support::{LIMIT, althing};

/// Writes the files that `plant.json` names, each with its text. Variables in the paths are expanded; a path with an
/// unknown variable is skipped. What is in the way is removed.
const PLANT: &str = r#"
import json, os, shutil
planted = 0
for path, text in json.load(open("plant.json")):
    path = os.path.expandvars(path)
    if "$" in path:
        continue
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.islink(path) or os.path.isfile(path):
            os.remove(path)
        elif os.path.isdir(path):
            shutil.rmtree(path)
        if text.startswith("-> "):
            os.symlink(os.path.expandvars(text[3:]), path)
        else:
            open(path, "w").write(text)
            os.chmod(path, 0o755)
        planted += 1
    except OSError as error:
        print(error)
print("planted", planted)
"#;

/// The text to plant as the settings file `name`: a CLI agent that acts on it creates a file in `marks`.
fn mark(name: &str, marks: &Path, kept: &Value) -> String {
    let file = marks.join(name.replace('/', "-")).display().to_string();
    let touch = format!("touch {file}");
    let hook = json!([{"hooks": [{"type": "command", "command": touch}]}]);
    let server = json!({"command": "touch", "args": [file]});
    let mut settings = kept.clone();
    let kind = Path::new(name).extension().and_then(std::ffi::OsStr::to_str);
    match name {
        "claude/settings.json" | "claude/settings.local.json" => {
            json!({"hooks": {"SessionStart": hook}}).to_string()
        }
        "claude/.claude.json" => {
            json!({"hasCompletedOnboarding": true, "mcpServers": {"x": server}}).to_string()
        }
        "codex/config.toml" => format!("notify = [\"touch\", \"{file}\"]\n{}", kept.as_str().unwrap()),
        "codex/hooks.json" => json!({"hooks": {"SessionStart": hook}}).to_string(),
        "gemini/settings.json" => {
            settings["mcpServers"] = json!({"x": server});
            settings.to_string()
        }
        "opencode/opencode.json" | "opencode/opencode.jsonc" | "opencode/config.json" => {
            settings["mcp"] = json!({"x": {"type": "local", "command": ["touch", file]}});
            settings.to_string()
        }
        _ if kind == Some("js") => {
            format!("require('fs').writeFileSync('{file}', ''); export const X = async () => ({{}});")
        }
        // opencode refuses to start with settings that it does not know.
        _ if kind == Some("json") && name.starts_with("opencode/") => "{}".to_owned(),
        _ if kind == Some("json") => json!({"hooks": {"SessionStart": hook}}).to_string(),
        _ => format!("#!/bin/sh\n{touch}\n"),
    }
}

/// What one CLI agent plants: every row of the table and what its directories contain, in the user's own directory and
/// in the private copy; and files that no table names.
fn plants(adapter: &dyn AgentAdapter, marks: &Path, home: &Path) -> Value {
    let cli = adapter.name();
    let kept = match cli {
        "codex" => fs::read_to_string(home.join(".codex/config.toml")).unwrap().into(),
        "gemini" => parsed(&home.join(".gemini/settings.json")),
        "opencode" => parsed(&home.join(".config/opencode/opencode.json")),
        _ => Value::Null,
    };
    let unnamed = [
        "shell-snapshots/x.sh",
        "session-env/x.sh",
        "shell_snapshots/x.sh",
        "tmp/arg0/x",
        ".bashrc",
        "new.json",
    ];
    let mut all: Vec<[String; 2]> = Vec::new();
    for dir in adapter.own_dirs() {
        let user = format!("$HOME/{}", dir.in_home);
        let copy = Path::new(&format!("${}", dir.variable)).join(dir.below).display().to_string();
        for place in [user, copy] {
            let mut plant = |name: &str| {
                all.push([format!("{place}/{name}"), mark(&format!("{cli}/{name}"), marks, &kept)]);
            };
            for name in dir.files.iter().flat_map(|files| files.names).map(|name| name.replace('*', "x")) {
                let is_file = name.contains('.');
                let inside: &[&str] = if is_file { &[""] } else { &["/x.js", "/x.md", "/x/x.sh", "/rg"] };
                for inside in inside {
                    plant(&format!("{name}{inside}"));
                }
            }
            for name in unnamed {
                plant(name);
            }
            all.push([format!("{place}/sessions/link.jsonl"), "-> $HOME/.bashrc".to_owned()]);
        }
    }
    all.push(["$HOME/.claude.json".to_owned(), mark("claude/.claude.json", marks, &kept)]);
    all.push(["$HOME/.bashrc".to_owned(), format!("touch {}/bashrc\n", marks.display())]);
    json!(all)
}

fn parsed(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(contents(&path));
        } else if kind.is_symlink() {
            found.insert(path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

/// The files in the home directory, without those of Althing itself.
fn users_files(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let own = home.join(".local/state/althing");
    contents(home).into_iter().filter(|(path, _)| !path.starts_with(&own)).collect()
}

/// Starts a CLI agent as its user does, on pipes and without a sandbox. Returns whether it asked its model.
fn start_plainly(dir: &Path, cli: &str, althing: &Althing, server: &FakeModel) -> bool {
    let arguments: &[&str] = match cli {
        "claude" => &["-p", "--output-format", "json"],
        "codex" => &["exec", "--json", "--skip-git-repo-check", "-"],
        "gemini" => &["-o", "json"],
        _ => &["run", "--format", "json"],
    };
    let origin = server.base_url().trim_end_matches("/v1").to_owned();
    let before = server.request_count();
    let mut command = Command::new(dir.join(cli));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", format!("{}:{}", dir.display(), std::env::var("PATH").unwrap()))
        .env("HOME", althing.home_dir())
        .env("ANTHROPIC_BASE_URL", &origin)
        .env("ANTHROPIC_API_KEY", "sk-ant-test-key-for-claude")
        .env("OPENAI_API_KEY", "sk-test-key-for-codex")
        .env("GEMINI_API_KEY", "test-key-for-gemini")
        .env("GOOGLE_GEMINI_BASE_URL", &origin)
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .env("DISABLE_TELEMETRY", "1")
        // Claude Code would install its newest version for all users of the machine.
        .env("DISABLE_AUTOUPDATER", "1")
        .current_dir(althing.work_dir())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"Good morning").unwrap();
    wait::until(START_TIMEOUT, || child.try_wait().unwrap().is_some());
    server.request_count() > before
}

fn planting_model(request: &RecordedRequest) -> Reply {
    if let Some(internal_reply) = internal_reply(request) {
        return internal_reply;
    }
    let all = request.body().to_string();
    let call = shell_call(request, "/usr/bin/python3 plant.py; echo tried-''it", None);
    call.filter(|_| all.contains("PLANT") && !all.contains("tried-it"))
        .unwrap_or_else(|| Reply::text("Done."))
}

fn plants_nothing(cli: &str, machine: Machine) {
    let Some(dir) = programs() else { return };
    let adapters = Adapters::default();
    let adapter: &Arc<dyn AgentAdapter> = adapters.get(cli).unwrap();
    let server = FakeModel::start_on_thread(Script::from_fn(planting_model));
    let althing = with_programs(&dir, &server).on(machine);
    let (home, work) = (althing.home_dir(), althing.work_dir());
    let marks = home.join("marks");
    fs::create_dir_all(&marks).unwrap();
    // Codex trusts the repository in which it works.
    let made = Command::new("git").args(["init", "-q"]).current_dir(&work).env("HOME", &home).status();
    assert!(made.unwrap().success());
    fs::write(home.join(".bashrc"), "# the user's\n").unwrap();
    althing.file("plant.py", PLANT);
    althing.file("plant.json", plants(&**adapter, &marks, &home).to_string());
    let stages = json!([{"name": "s", "tasks": [headless("t", cli, "PLANT it")]}]);
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let before = users_files(&home);
    let output = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline", "--json"]).spawn();
    let output = output.wait(START_TIMEOUT).expect_code(0);
    let planted = server.requests().iter().any(|request| request.body().to_string().contains("planted "));
    assert!(planted, "{cli} planted nothing: {}", output.stdout);
    let after = users_files(&home);
    let changed: Vec<&PathBuf> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(changed.is_empty(), "{cli} changed files of its user: {changed:?}");
    assert!(start_plainly(&dir, cli, &althing, &server), "{cli} asked no model");
    let fired: Vec<_> = contents(&marks).into_keys().collect();
    assert!(fired.is_empty(), "{cli} ran what it had planted: {fired:?}");
    // The same files act if they are planted without a sandbox.
    let mut plant = Command::new("/usr/bin/python3");
    plant.arg("plant.py").current_dir(&work).env_clear().env("HOME", &home);
    plant.env("PATH", std::env::var("PATH").unwrap()).stdout(Stdio::null());
    assert!(plant.status().unwrap().success());
    start_plainly(&dir, cli, &althing, &server);
    assert!(!contents(&marks).is_empty(), "{cli}: nothing that is planted acts, so this test proves nothing");
    passed(cli);
}

fn in_every_sandbox(cli: &str) {
    in_bubblewrap(cli);
    if scale(0, 1) == 1 {
        plants_nothing(cli, Machine { user: User::Current, bubblewrap: false });
    }
}

fn in_bubblewrap(cli: &str) {
    plants_nothing(cli, Machine { user: User::Current, bubblewrap: true });
}

#[test]
fn nothing_that_claude_code_plants_in_its_settings_acts_later() {
    in_every_sandbox("claude");
}

#[test]
fn nothing_that_codex_plants_in_its_settings_acts_later() {
    in_every_sandbox("codex");
}

#[test]
fn nothing_that_gemini_cli_plants_in_its_settings_acts_later() {
    // In Landlock, Gemini CLI waits forever for the lock of its list of projects and never runs a command.
    in_bubblewrap("gemini");
}

#[test]
fn nothing_that_opencode_plants_in_its_settings_acts_later() {
    in_every_sandbox("opencode");
}

#[test]
fn codex_does_not_make_a_project_trusted_in_its_users_settings() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(planting_model));
    let althing = with_programs(&dir, &server);
    let work = althing.work_dir();
    fs::create_dir_all(work.join("sub")).unwrap();
    assert!(Command::new("git").args(["init", "-q"]).current_dir(&work).status().unwrap().success());
    let config = althing.home_dir().join(".codex/config.toml");
    let before = fs::read_to_string(&config).unwrap();
    let task = |id: &str, cwd: &Path| {
        let mut task = headless(id, "codex", "Good morning");
        task["cwd"] = json!(cwd);
        task
    };
    let tasks = [task("one", &work), task("two", &work.join("sub"))];
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": tasks}]});
    althing.file("flow.yaml", flow.to_string());
    for unconfined in [&["--unconfined"] as &[&str], &[]] {
        let args = ["workflow", "run", "flow.yaml", "--offline"];
        althing.new_command().args(args).args(unconfined).spawn().wait(START_TIMEOUT).expect_code(0);
        assert_eq!(fs::read_to_string(&config).unwrap(), before, "{unconfined:?}");
    }
    passed("codex");
}

#[test]
fn codex_in_a_terminal_without_a_sandbox_does_not_make_a_project_trusted_in_its_users_settings() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(planting_model));
    let althing = with_programs(&dir, &server);
    let work = althing.work_dir();
    assert!(Command::new("git").args(["init", "-q"]).current_dir(&work).status().unwrap().success());
    let config = althing.home_dir().join(".codex/config.toml");
    let before = fs::read_to_string(&config).unwrap();
    let task = json!({"id": "t", "agent": "codex", "executionMode": "interactive", "prompt": "Good morning"});
    let running = start_workflow(&althing, &[task]);
    let turn = wait_for_question(&running, "w1.t", "end");
    let decision = json!({"decision": "choose", "option": "end"});
    send_op(&running, &json!({"op": "answer", "interaction": turn["id"], "decision": decision}));
    running.wait(START_TIMEOUT).expect_code(0);
    assert!(server.request_count() > 0);
    // Codex itself remembers in its section `tui` what it has shown to its user.
    let after = fs::read_to_string(&config).unwrap();
    let added = after.strip_prefix(&before).unwrap_or_else(|| panic!("{after}"));
    let tables: Vec<&str> = added.lines().filter(|line| line.starts_with('[')).collect();
    assert!(tables.iter().all(|table| table.starts_with("[tui")), "{after}");
    assert!(!after.contains("projects") && !after.contains("trust"), "{after}");
    passed("codex");
}

#[test]
fn real_cli_agents_in_a_terminal_and_a_sandbox_work_with_their_users_settings_and_change_none() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(planting_model));
    let althing = with_programs(&dir, &server);
    let before = users_files(&althing.home_dir());
    let clis = ["claude", "codex", "gemini", "opencode"];
    let tasks = clis.map(|cli| {
        json!({"id": cli, "agent": cli, "executionMode": "interactive", "sandbox": true, "prompt": format!("Greet {cli} well")})
    });
    let running = start_workflow(&althing, &tasks);
    for cli in clis {
        // The CLI agent asks this server only if it uses its user's settings, which name the server and the login.
        let asked = |request: &RecordedRequest| {
            cli_agent_of(request) == cli && request.body().to_string().contains(&format!("Greet {cli} well"))
        };
        wait::until(START_TIMEOUT, || server.requests().iter().any(asked));
    }
    running.signal(Signal::TERM);
    running.wait(START_TIMEOUT);
    let after = users_files(&althing.home_dir());
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after, "the settings have changed");
    clis.into_iter().for_each(passed);
}

/// Refreshes its token as Claude Code does, plants a hook, and tells whether it sees what an earlier start planted.
const REFRESHES: &str = r#"#!/usr/bin/env python3
import json, os, sys
sys.stdin.read()
own = os.environ["CLAUDE_CONFIG_DIR"]
file, settings = own + "/.credentials.json", own + "/settings.json"
secret = json.load(open(file))
secret["claudeAiOauth"]["accessToken"] += "+"
json.dump(secret, open(file + ".new", "w"))
os.rename(file + ".new", file)
said = open(settings).read()
open(settings, "w").write("planted")
session = sys.argv[sys.argv.index("--session-id") + 1]
print(json.dumps({"type": "system", "subtype": "init", "session_id": session}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": said, "session_id": session}))
"#;

#[test]
fn new_tokens_of_a_confined_cli_agent_reach_its_users_file_and_no_copy_of_them_remains() {
    let althing = scripted_claude::install(&althing(), REFRESHES);
    let own = althing.home_dir().join(".claude");
    let credentials = own.join(".credentials.json");
    let secret =
        |token: &str| json!({"claudeAiOauth": {"accessToken": token, "refreshToken": "r", "expiresAt": 1}});
    fs::write(&credentials, secret("CANARY").to_string()).unwrap();
    fs::write(own.join("settings.json"), "{}").unwrap();
    let task = json!({"id": "t", "agent": "claude", "executionMode": "headless", "prompt": "Do it"});
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": [task]}]});
    althing.file("flow.yaml", flow.to_string());
    for token in ["CANARY+", "CANARY++"] {
        let output = althing.new_command().args(["workflow", "run", "flow.yaml", "--json"]).spawn();
        let result: Value = serde_json::from_str(&output.wait(LIMIT).expect_code(0).stdout).unwrap();
        assert_eq!(result["stages"][0]["tasks"][0]["output"], "{}", "{result}");
        assert_eq!(parsed(&credentials), secret(token));
        assert_eq!(fs::metadata(&credentials).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(fs::read_to_string(own.join("settings.json")).unwrap(), "{}");
    let copies = contents(&althing.state_dir());
    let copies: Vec<_> =
        copies.iter().filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains("CANARY")).collect();
    assert!(copies.is_empty(), "{copies:?}");
}
