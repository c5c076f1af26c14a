//! Child processes: their environment, their output, and that none is left behind.

use super::local::LocalSpawner;
use super::support::{call, fake, is_alive, options, started, until};
use althing_mcp::{McpToolHost, ServerTransport, SpawnRequest, SpawnedProcess, Spawner};
use althing_protocol::{BoxFuture, Secret};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn a_child_gets_only_allow_listed_variables_and_the_configured_ones() {
    let mut spec = fake("fake", &[]);
    let ServerTransport::Stdio { env, .. } = &mut spec.transport else { unreachable!() };
    env.push(("API_KEY".to_owned(), Secret::new("configured")));
    env.push(("LANG".to_owned(), Secret::new("xx")));
    let (mut options, _) = options();
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "ours"),
        ("LD_PRELOAD", ""),
        ("LC_TIME", "C"),
        ("LANG", "C"),
        ("NO_COLOR", "1"),
        ("XDG_STATE_HOME", "/state"),
    ] {
        options.environment.push((name.into(), value.into()));
    }
    let host = McpToolHost::start(vec![spec], options).await;
    let seen: Value = serde_json::from_str(&call(&host, "environment", json!({})).await.content).unwrap();
    assert_eq!(seen["API_KEY"], "configured");
    assert_eq!(seen["LANG"], "xx");
    assert_eq!(seen["LC_TIME"], "C");
    assert_eq!((&seen["NO_COLOR"], &seen["XDG_STATE_HOME"]), (&json!("1"), &json!("/state")));
    assert!(seen.get("PATH").is_some());
    assert_eq!((seen.get("ANTHROPIC_API_KEY"), seen.get("LD_PRELOAD")), (None, None));
    assert_eq!(seen.get("CARGO_MANIFEST_DIR"), None);
}

#[tokio::test]
async fn a_child_runs_in_its_configured_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = fake("fake", &[]);
    let ServerTransport::Stdio { cwd, .. } = &mut spec.transport else { unreachable!() };
    *cwd = Some(dir.path().canonicalize().unwrap());
    let host = McpToolHost::start(vec![spec], options().0).await;
    assert_eq!(
        call(&host, "cwd", json!({})).await.content,
        dir.path().canonicalize().unwrap().display().to_string()
    );
}

#[tokio::test]
async fn stderr_reaches_the_sink_line_by_line_with_the_servers_name() {
    let (host, recorder) = started(&["--stderr-lines", "3"]).await;
    until("three lines", || recorder.lines().len() >= 3).await;
    assert_eq!(recorder.lines()[..3], ["line 0", "line 1", "line 2"]);
    assert!(recorder.servers().iter().all(|server| server == "fake"));
    drop(host);
}

#[tokio::test]
async fn a_child_that_floods_stderr_neither_blocks_nor_fills_the_log() {
    let (host, recorder) = started(&["--stderr-lines", "600000"]).await;
    assert!(!call(&host, "echo", json!({})).await.is_error);
    let total: usize = recorder.lines().iter().map(String::len).sum();
    assert!(total < 5 * 1024 * 1024, "{total}");
    assert!(recorder.said("further output of this server is dropped"));
}

#[tokio::test]
async fn closing_closes_stdin_first_and_a_well_behaved_child_ends_by_itself() {
    let (host, recorder) = started(&[]).await;
    host.close().await;
    until("the last word", || recorder.said("my input has ended")).await;
}

#[tokio::test]
async fn a_child_that_ignores_its_stdin_and_term_is_killed_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let (host, recorder) = started(&["--stubborn", "--pid-file", file.to_str().unwrap()]).await;
    let grandchild = call(&host, "grandchild", json!({})).await.content;
    let child = std::fs::read_to_string(file).unwrap();
    assert!(is_alive(&child) && is_alive(&grandchild));
    host.close().await;
    assert!(
        recorder.said("my input has ended") && recorder.said("I do not want to"),
        "{:?}",
        recorder.lines()
    );
    until("their end", || !is_alive(&child) && !is_alive(&grandchild)).await;
}

#[tokio::test]
async fn dropping_the_host_ends_the_children_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let (host, _) = started(&["--stubborn", "--pid-file", file.to_str().unwrap()]).await;
    let child = std::fs::read_to_string(file).unwrap();
    let grandchild = call(&host, "grandchild", json!({})).await.content;
    drop(host);
    until("their end", || !is_alive(&child) && !is_alive(&grandchild)).await;
}

#[tokio::test]
async fn orphans_of_a_dead_child_are_killed() {
    let (host, _) = started(&[]).await;
    let grandchild = call(&host, "grandchild", json!({})).await.content;
    assert!(is_alive(&grandchild));
    call(&host, "die", json!({})).await;
    until("its end", || !is_alive(&grandchild)).await;
}

#[tokio::test]
async fn an_aborted_start_stops_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let spec = fake("fake", &["--deaf", "--stubborn", "--pid-file", file.to_str().unwrap()]);
    let pid = || std::fs::read_to_string(&file).unwrap_or_default();
    tokio::select! {
        host = McpToolHost::start(vec![spec], options().0) => panic!("{:?}", host.notices()),
        () = until("the child", || !pid().is_empty()) => {}
    }
    until("its end", || !is_alive(&pid())).await;
}

#[test]
fn children_do_not_outlive_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let host = runtime.block_on(async {
        let (host, _) = started(&["--stubborn", "--pid-file", file.to_str().unwrap()]).await;
        host
    });
    let child = std::fs::read_to_string(file).unwrap();
    assert!(is_alive(&child));
    drop(runtime);
    let begin = std::time::Instant::now();
    while is_alive(&child) {
        assert!(begin.elapsed() < super::support::DEADLINE);
        std::thread::yield_now();
    }
    drop(host);
}

#[tokio::test]
async fn processes_are_started_through_the_spawner_that_is_handed_in() {
    struct Watching(Mutex<Vec<String>>);
    impl Spawner for Watching {
        fn spawn<'a>(&'a self, launch: &'a SpawnRequest) -> BoxFuture<'a, std::io::Result<SpawnedProcess>> {
            self.0.lock().unwrap().push(format!("{launch:?}"));
            LocalSpawner.spawn(launch)
        }
    }
    let watching = Arc::new(Watching(Mutex::default()));
    let mut spec = fake("fake", &[]);
    let ServerTransport::Stdio { env, .. } = &mut spec.transport else { unreachable!() };
    env.push(("API_KEY".to_owned(), Secret::new("sesame")));
    assert!(!format!("{spec:?}").contains("sesame"));
    let (mut options, _) = options();
    options.spawner = watching.clone();
    let host = McpToolHost::start(vec![spec], options).await;
    assert!(!call(&host, "echo", json!({})).await.is_error);
    let seen = watching.0.lock().unwrap().clone();
    assert_eq!(seen.len(), 1);
    assert!(
        seen[0].contains("python3") && seen[0].contains("API_KEY") && !seen[0].contains("sesame"),
        "{seen:?}"
    );
}
