//! `althing agents` reports what is installed and what is missing, and never hangs.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use althing_testkit::{Althing, FakeModel, Machine, Script, skip_unless_ci, wait};
use serde_json::Value;

use super::support::{LIMIT, bare, run};

fn programs(althing: &Althing) -> PathBuf {
    let dir = althing.home_dir().join("bin");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn program(dir: &Path, name: &str, script: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn rows(althing: &Althing) -> Value {
    let output = run(althing, &["agents", "--json"]).expect_code(0);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

#[track_caller]
fn backend(rows: &Value, name: &str) -> Value {
    let row = rows["backends"].as_array().unwrap().iter().find(|row| row["name"] == name);
    row.unwrap_or_else(|| panic!("no {name} in {rows:#}")).clone()
}

#[test]
fn a_cli_agent_is_usable_if_it_is_on_the_path() {
    let althing = bare();
    let dir = programs(&althing);
    let claude = program(&dir, "claude", "echo '9.8.7 (Claude Code)'");
    std::fs::write(dir.join("gemini"), "not a program").unwrap();
    let althing = althing.env("PATH", &dir);
    let rows = rows(&althing);
    let found = backend(&rows, "claude_code");
    assert_eq!(found["usable"], true);
    assert_eq!(found["version"], "9.8.7 (Claude Code)");
    assert_eq!(found["path"], claude.display().to_string());
    for (name, program, package) in [
        ("codex", "codex", "@openai/codex"),
        ("gemini_cli", "gemini", "@google/gemini-cli"),
        ("opencode", "opencode", "opencode-ai"),
    ] {
        let row = backend(&rows, name);
        assert_eq!(row["usable"], false, "{row}");
        let note = row["note"].as_str().unwrap();
        let missing = format!("missing: `{program}` is not on PATH; install with `npm install -g {package}`");
        assert!(note.contains(&missing), "{note}");
    }
    let told = run(&althing, &["agents"]).expect_code(0).stdout;
    let line = |name: &str| told.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    assert!(line("claude_code").contains("usable") && line("claude_code").contains("9.8.7"), "{told}");
    assert!(!line("codex").contains("usable") && line("codex").contains("npm install"), "{told}");
}

#[test]
fn the_version_of_a_cli_agent_from_npm_is_known_even_if_it_does_not_print_it() {
    let althing = bare();
    let package = althing.home_dir().join("lib/node_modules/@google/gemini-cli");
    std::fs::create_dir_all(package.join("bundle")).unwrap();
    let program = program(&package.join("bundle"), "gemini.js", "/bin/sleep 600");
    let about = serde_json::json!({"version": "7.6.5", "bin": {"gemini": "bundle/gemini.js"}});
    std::fs::write(package.join("package.json"), about.to_string()).unwrap();
    let dir = programs(&althing);
    std::os::unix::fs::symlink(program, dir.join("gemini")).unwrap();
    assert_eq!(backend(&rows(&althing.env("PATH", &dir)), "gemini_cli")["version"], "7.6.5");
}

#[test]
fn a_cli_agent_that_nobody_signed_in_to_is_named_before_a_run() {
    let althing = bare();
    let dir = programs(&althing);
    for name in ["claude", "codex", "gemini", "opencode"] {
        program(&dir, name, "echo 1.2.3");
    }
    let althing = althing.env("PATH", &dir);
    let kinds = [
        ("claude_code", "ANTHROPIC_API_KEY", "run `claude` once to sign in"),
        ("codex", "CODEX_API_KEY", "run `codex login`"),
        ("gemini_cli", "GEMINI_API_KEY", "run `gemini` once to sign in"),
        ("opencode", "OPENROUTER_API_KEY", "run `opencode auth login`"),
    ];
    let found = rows(&althing);
    for (kind, _, hint) in kinds {
        let row = backend(&found, kind);
        assert_eq!(row["signed_in"], false, "{row}");
        assert!(row["note"].as_str().unwrap().contains(hint), "{row}");
    }
    let team =
        |kind: &str| serde_json::json!({"agents": [{"id": "a", "backend": {"type": kind}}]}).to_string();
    althing.file("team.yaml", team("codex"));
    let told = run(&althing, &["--config", "team.yaml", "--quick", "Do it"]).stderr;
    assert!(
        told.contains("agent a: it seems that you are not signed in to codex: run `codex login`"),
        "{told}"
    );
    let flow = serde_json::json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": [
        {"id": "t", "agent": "codex", "executionMode": "headless", "prompt": "Do it"}]}]});
    althing.file("flow.yaml", flow.to_string());
    let told = run(&althing, &["workflow", "run", "flow.yaml"]).stderr;
    assert!(told.contains("it seems that you are not signed in to codex"), "{told}");
    // A file with credentials or a key in the environment is enough.
    std::fs::create_dir_all(althing.home_dir().join(".codex")).unwrap();
    let credentials = althing.home_dir().join(".codex/auth.json");
    for nothing in ["", "{", "{}", r#"{"OPENAI_API_KEY": null, "tokens": null}"#] {
        std::fs::write(&credentials, nothing).unwrap();
        assert_eq!(backend(&rows(&althing), "codex")["signed_in"], false, "{nothing}");
    }
    std::fs::write(&credentials, r#"{"tokens": {"access_token": "t"}}"#).unwrap();
    let mut signed_in = althing;
    for (_, variable, _) in kinds.into_iter().filter(|(kind, ..)| *kind != "codex") {
        signed_in = signed_in.env(variable, "k");
    }
    let found = rows(&signed_in);
    for (kind, ..) in kinds {
        assert_eq!(backend(&found, kind)["signed_in"], true, "{kind}: {found:#}");
    }
    let told = run(&signed_in, &["--config", "team.yaml", "--quick", "Do it"]).stderr;
    assert!(!told.contains("signed in"), "{told}");
}

#[test]
fn gemini_cli_is_refused_before_anything_starts_if_landlock_is_the_only_sandbox() {
    let althing = bare();
    let (dir, started) = (programs(&althing), althing.work_dir().join("started"));
    for name in ["gemini", "codex"] {
        program(
            &dir,
            name,
            &format!("[ \"$1\" = --version ] && exec echo 1.2.3; /bin/touch {}", started.display()),
        );
    }
    let path = format!("{}:/usr/bin:/bin", dir.display());
    let althing = althing.env("PATH", path).env("GEMINI_API_KEY", "k").env("CODEX_API_KEY", "k");
    let althing = althing.on(Machine { bubblewrap: false, ..Machine::from_environment() });
    let found = rows(&althing);
    let sandbox = |name: &str| {
        let all = found["confinement"].as_array().unwrap();
        all.iter().any(|sandbox| sandbox["name"] == name && sandbox["usable"] == true)
    };
    if !sandbox("landlock") || sandbox("bubblewrap") {
        skip_unless_ci("this machine cannot be one whose only sandbox is Landlock");
        return;
    }
    let row = backend(&found, "gemini_cli");
    assert_eq!(row["usable"], false, "{row}");
    assert!(row["note"].as_str().unwrap().contains("in Landlock") && row["version"] == "1.2.3", "{row}");
    assert_eq!(backend(&found, "codex")["usable"], true, "{found:#}");
    let team = serde_json::json!({"agents": [{"id": "c", "backend": {"type": "codex"}},
        {"id": "g", "backend": {"type": "gemini_cli"}}]});
    althing.file("team.yaml", team.to_string());
    let told = run(&althing, &["--config", "team.yaml", "Do it"]).expect_code(1).stderr;
    assert!(told.contains("agent g: Gemini CLI") && told.contains("install `bubblewrap`"), "{told}");
    let task = |id: &str, agent: &str| serde_json::json!({"id": id, "agent": agent, "executionMode": "headless", "prompt": "Do it"});
    let stages = serde_json::json!([{"name": "1", "tasks": [task("c", "codex")]}, {"name": "2", "tasks": [task("g", "gemini")]}]);
    althing.file("flow.yaml", serde_json::json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let told = run(&althing, &["workflow", "run", "flow.yaml"]).expect_code(1).stderr;
    assert!(told.contains("task g: Gemini CLI") && told.contains("install `bubblewrap`"), "{told}");
    assert!(!started.exists(), "a program was started");
    let stages = serde_json::json!([{"name": "1", "tasks": [task("c", "codex")]}]);
    althing.file("flow.yaml", serde_json::json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let told = run(&althing, &["workflow", "run", "flow.yaml"]).stderr;
    assert!(
        told.contains("codex: Landlock, the only sandbox") && told.contains("working directory"),
        "{told}"
    );
}

#[test]
fn servers_that_answer_are_usable() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let host = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let found = backend(&rows(&bare().env("OLLAMA_HOST", &host)), "ollama");
    assert_eq!(found["usable"], true, "{found}");
    assert_eq!(found["models"], serde_json::json!(["model-a", "model-b", "model-c"]));
    assert!(found["note"].as_str().unwrap().contains("with model-a, model-b, model-c"), "{found}");
    let rows = rows(&bare());
    let missing = backend(&rows, "ollama");
    assert_eq!(missing["usable"], false, "{missing}");
    let note = missing["note"].as_str().unwrap();
    assert!(note.contains("nothing answers at http://127.0.0.1:9/v1"), "{note}");
    assert!(note.contains("ollama serve"), "{note}");
    for (name, port) in [("lmstudio", 1234), ("vllm", 8000), ("sglang", 30000)] {
        if TcpListener::bind(("127.0.0.1", port)).is_ok() && TcpListener::bind(("::1", port)).is_ok() {
            let row = backend(&rows, name);
            assert_eq!(row["usable"], false, "{row}");
            assert!(row["note"].as_str().unwrap().contains(&format!("http://localhost:{port}/v1")), "{row}");
        }
    }
}

#[test]
fn unresponsive_servers_do_not_delay_the_listing() {
    let althing = bare();
    let (dir, alive) = (programs(&althing), althing.work_dir().join("alive"));
    let stuck = format!("/bin/sleep 600 &\necho $! > {}\nwait", alive.display());
    let codex = program(&dir, "codex", &stuck);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = althing.home_dir().join("docker.sock");
    let _daemon = UnixListener::bind(&socket).unwrap();
    let althing = althing
        .env("PATH", &dir)
        .env("OLLAMA_HOST", server.local_addr().unwrap().to_string())
        .env("DOCKER_HOST", format!("unix://{}", socket.display()));
    // Without time limits, the program would block the command for ten minutes, and each of the two servers would block
    // it forever.
    let rows = rows(&althing);
    let found = backend(&rows, "codex");
    assert_eq!((&found["usable"], &found["version"]), (&Value::Bool(true), &Value::Null), "{found}");
    assert_eq!(found["path"], codex.display().to_string());
    assert_eq!(backend(&rows, "ollama")["usable"], false);
    let docker = rows["confinement"].as_array().unwrap().iter().find(|row| row["name"] == "docker").unwrap();
    assert!(docker["note"].as_str().unwrap().contains("does not answer"), "{docker}");
    // The child of the program that was asked for its version is not left behind.
    let sleeper = std::fs::read_to_string(&alive).unwrap();
    let proc = Path::new("/proc").join(sleeper.trim()).join("cmdline");
    wait::until(LIMIT, || !std::fs::read(&proc).is_ok_and(|line| line.starts_with(b"/bin/sleep")));
}

#[test]
fn no_child_of_a_version_check_is_left_behind() {
    let althing = bare();
    let (dir, alive) = (programs(&althing), althing.work_dir().join("alive"));
    // The child runs in a process session of its own, with none of our files open, so that only the guard can find it.
    let script = format!(
        "/usr/bin/setsid /bin/sh -c 'echo $$ > {}; exec /bin/sleep 600' > /dev/null 2>&1 < /dev/null &\n\
         while [ ! -s {} ]; do :; done\necho 1.2.3",
        alive.display(),
        alive.display()
    );
    program(&dir, "codex", &script);
    let althing = althing.env("PATH", &dir);
    assert_eq!(backend(&rows(&althing), "codex")["version"], "1.2.3");
    let sleeper = std::fs::read_to_string(&alive).unwrap();
    let proc = Path::new("/proc").join(sleeper.trim()).join("cmdline");
    wait::until(LIMIT, || !std::fs::read(&proc).is_ok_and(|line| line.starts_with(b"/bin/sleep")));
}

#[test]
fn a_program_that_printed_its_version_is_not_asked_again_until_it_changes() {
    let althing = bare();
    let (dir, asked) = (programs(&althing), althing.work_dir().join("asked"));
    let script = |version: &str| format!("echo x >> {}\necho {version}", asked.display());
    program(&dir, "codex", &script("1.2.3"));
    let althing = althing.env("PATH", &dir);
    let times = || std::fs::read_to_string(&asked).unwrap().lines().count();
    for _ in 0..3 {
        assert_eq!(backend(&rows(&althing), "codex")["version"], "1.2.3");
        assert_eq!(times(), 1);
    }
    program(&dir, "codex", &script("1.2.34"));
    for _ in 0..2 {
        assert_eq!(backend(&rows(&althing), "codex")["version"], "1.2.34");
        assert_eq!(times(), 2);
    }
    let stored = althing.home_dir().join(".local/state/althing/cli-versions.json");
    std::fs::write(&stored, "not JSON").unwrap();
    assert_eq!(backend(&rows(&althing), "codex")["version"], "1.2.34");
    assert_eq!(times(), 3);
    assert_eq!(stored.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_version_check_gets_no_api_keys() {
    let althing = bare();
    let dir = programs(&althing);
    program(&dir, "codex", "echo \"1.2.3 key=$A_SERVICE_API_KEY lang=$LANG\"");
    let althing = althing.env("PATH", &dir).env("A_SERVICE_API_KEY", "secret").env("LANG", "C");
    assert_eq!(backend(&rows(&althing), "codex")["version"], "1.2.3 key= lang=C");
}
