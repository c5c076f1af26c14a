//! `althing agents` reports what is installed and what is missing, and never hangs.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use althing_testkit::{Althing, FakeModel, Script, wait};
use serde_json::Value;

use super::support::{LIMIT, bare, run};

/// A directory for the programs of a test, to be used as the `PATH`.
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
    // If one of these local model servers is not running, it is not reported as usable.
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
    let began = Instant::now();
    let rows = rows(&althing);
    // The command takes 1.5 s on an idle machine; without its time limits, the program and each of the two servers
    // would block it for minutes.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
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
    // The child runs in a session of its own, with none of our files open, so that only the guard can find
    // it.
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
fn a_version_check_gets_no_api_keys() {
    let althing = bare();
    let dir = programs(&althing);
    program(&dir, "codex", "echo \"1.2.3 key=$A_SERVICE_API_KEY lang=$LANG\"");
    let althing = althing.env("PATH", &dir).env("A_SERVICE_API_KEY", "secret").env("LANG", "C");
    assert_eq!(backend(&rows(&althing), "codex")["version"], "1.2.3 key= lang=C");
}
