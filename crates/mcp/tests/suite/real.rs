//! Real servers from npm and `PyPI`, installed by `tests/setup.sh` into the directory `ALTHING_MCP_SERVERS`.

use super::support::{DEADLINE, call_named, good, names, notices, options, until};
use althing_mcp::{ClientOptions, McpToolHost, ServerSpec, ServerTransport};
use althing_protocol::{Secret, ToolOutcome};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// None if `ALTHING_MCP_SERVERS` is not set; panics if it is set and the file is missing, or if it is not set
/// although `CI=true`.
pub fn installed(path: &str) -> Option<String> {
    let Some(dir) = std::env::var_os("ALTHING_MCP_SERVERS") else {
        let why = "ALTHING_MCP_SERVERS is not set: there are no real servers and clients";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why} (with CI=true, no test may be skipped)");
        eprintln!("skipped: {why}");
        return None;
    };
    let file = PathBuf::from(dir).join(path);
    assert!(
        file.exists(),
        "ALTHING_MCP_SERVERS is set but {} is missing: run tests/setup.sh",
        file.display()
    );
    Some(file.display().to_string())
}

fn npm(package: &str) -> Option<String> {
    installed(&format!("npm/node_modules/@modelcontextprotocol/{package}/dist/index.js"))
}

async fn host(spec: ServerSpec) -> McpToolHost {
    let host = McpToolHost::start(vec![spec], options().0).await;
    assert_eq!(notices(&host), [], "{:?}", host.notices());
    host
}

async fn call(host: &McpToolHost, name: &str, arguments: Value) -> ToolOutcome {
    call_named(host, name, &arguments.to_string()).await
}

#[tokio::test]
async fn everything_over_stdio() {
    let Some(script) = npm("server-everything") else { return };
    let mut spec = ServerSpec::stdio("all", "node", vec![script, "stdio".to_owned()]);
    spec.call_timeout = Duration::from_secs(8);
    let host = host(spec).await;
    assert_eq!(host.servers()[0].protocol.as_deref(), Some("2025-11-25"));
    assert_eq!(call(&host, "mcp__all__echo", json!({"message": "hi"})).await, good("Echo: hi"));
    let sum = call(&host, "mcp__all__get-sum", json!({"a": 2, "b": 3})).await;
    assert!(sum.content.contains('5') && !sum.is_error, "{sum:?}");
    let image = call(&host, "mcp__all__get-tiny-image", json!({})).await;
    assert!(image.content.contains("[image: image/png, ") && image.content.len() < 1000, "{image:?}");
    let links = call(&host, "mcp__all__get-resource-links", json!({"count": 2})).await;
    assert_eq!(links.content.matches("[link to the resource ").count(), 2, "{links:?}");
    let blob = call(&host, "mcp__all__get-resource-reference", json!({"resourceType": "Blob"})).await;
    assert!(blob.content.contains("[resource ") && blob.content.contains(" bytes, not shown]"), "{blob:?}");
    let place = json!({"location": "New York"});
    let weather = call(&host, "mcp__all__get-structured-content", place).await;
    assert!(weather.content.contains("temperature"), "{weather:?}");
    let wrong = call(&host, "mcp__all__get-sum", json!({"a": "two"})).await;
    assert!(wrong.is_error, "{wrong:?}");
    let environment = call(&host, "mcp__all__get-env", json!({})).await.content;
    assert!(environment.contains("\"PATH\"") && !environment.contains("CARGO"), "{environment}");
    lasting(&host, "mcp__all__trigger-long-running-operation").await;
}

/// Calls a tool that takes longer than `call_timeout` and is not cancelled, because it reports progress.
async fn lasting(host: &McpToolHost, name: &str) {
    let begin = Instant::now();
    let outcome = call(host, name, json!({"duration": 9, "steps": 18})).await;
    assert!(!outcome.is_error && outcome.content.contains("completed"), "{outcome:?}");
    assert!(begin.elapsed() >= Duration::from_millis(8500));
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let Some(script) = npm("server-everything") else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = tokio::process::Command::new("node");
    let mut server = command
        .args([&script, "streamableHttp"])
        .env("PORT", port.to_string())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let address = format!("127.0.0.1:{port}");
    until("the server", || std::net::TcpStream::connect(&address).is_ok()).await;
    let mut spec = ServerSpec::http("all", format!("http://{address}/mcp"));
    spec.call_timeout = Duration::from_secs(8);
    let host = host(spec).await;
    assert_eq!(call(&host, "mcp__all__echo", json!({"message": "hi"})).await, good("Echo: hi"));
    lasting(&host, "mcp__all__trigger-long-running-operation").await;
    host.close().await;
    server.kill().await.unwrap();
}

#[tokio::test]
async fn the_filesystem_server_reads_and_writes_only_where_it_may() {
    let Some(script) = npm("server-filesystem") else { return };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let mut spec = ServerSpec::stdio("files", "node", vec![script, root.display().to_string()]);
    spec.exclude_tools = vec!["move_file".to_owned(), "edit_file".to_owned()];
    let host = host(spec).await;
    assert!(names(&host).contains(&"mcp__files__read_text_file".to_owned()));
    assert!(!names(&host).contains(&"mcp__files__move_file".to_owned()));
    let file = root.join("note.txt");
    let written = call(&host, "mcp__files__write_file", json!({"path": file, "content": "kept"})).await;
    assert!(!written.is_error, "{written:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    assert_eq!(call(&host, "mcp__files__read_text_file", json!({"path": file})).await, good("kept"));
    let outside = call(&host, "mcp__files__read_text_file", json!({"path": "/etc/hostname"})).await;
    assert!(outside.is_error && outside.content.contains("denied"), "{outside:?}");
    let read_only: Vec<_> =
        host.tool_infos().into_iter().filter(|tool| tool.read_only == Some(true)).collect();
    assert!(read_only.iter().any(|tool| tool.tool == "list_directory"), "{read_only:?}");
    assert!(!read_only.iter().any(|tool| tool.tool == "write_file"), "{read_only:?}");
}

#[tokio::test]
async fn a_server_started_through_npx_works_and_leaves_nothing_behind() {
    if npm("server-filesystem").is_none() {
        return;
    }
    let prefix = PathBuf::from(installed("npm").unwrap());
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().display().to_string();
    let args = ["--offline", "--prefix", &prefix.display().to_string(), "mcp-server-filesystem", &root];
    let spec = ServerSpec::stdio("files", "npx", args.map(str::to_owned).to_vec());
    let host = host(spec).await;
    let listed = call(&host, "mcp__files__list_allowed_directories", json!({})).await;
    assert!(listed.content.contains(&root), "{listed:?}");
    assert!(processes_with(&root) > 0);
    host.close().await;
    until("their end", || processes_with(&root) == 0).await;
}

fn processes_with(argument: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(argument)
    })
    .count()
}

#[tokio::test]
async fn the_git_server_sees_a_repository() {
    let Some(program) = installed("venv/bin/mcp-server-git") else { return };
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "--quiet"]);
    git(
        dir.path(),
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "First"],
    );
    let host = host(ServerSpec::stdio("git", program, vec![])).await;
    let log = call(&host, "mcp__git__git_log", json!({"repo_path": dir.path()})).await;
    assert!(!log.is_error && log.content.contains("First"), "{log:?}");
    let nowhere = call(&host, "mcp__git__git_log", json!({"repo_path": "/nowhere"})).await;
    assert!(nowhere.is_error, "{nowhere:?}");
}

fn git(dir: &Path, args: &[&str]) {
    assert!(Command::new("git").current_dir(dir).args(args).status().unwrap().success());
}

#[tokio::test]
async fn the_time_server_converts_times_and_explains_errors() {
    let Some(program) = installed("venv/bin/mcp-server-time") else { return };
    let mut spec = ServerSpec::stdio("time", program, vec![]);
    let ServerTransport::Stdio { env, .. } = &mut spec.transport else { unreachable!() };
    env.push(("TZ".to_owned(), Secret::new("UTC")));
    let host = host(spec).await;
    let noon = json!({"source_timezone": "Etc/UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted = call(&host, "mcp__time__convert_time", noon).await;
    assert!(!converted.is_error && converted.content.contains("T21:00:00"), "{converted:?}");
    let wrong = call(&host, "mcp__time__get_current_time", json!({"timezone": "Mars/North"})).await;
    assert!(wrong.is_error && wrong.content.contains("Mars/North"), "{wrong:?}");
}

#[tokio::test]
async fn several_real_servers_start_side_by_side() {
    let (Some(everything), Some(time)) = (npm("server-everything"), installed("venv/bin/mcp-server-time"))
    else {
        return;
    };
    let specs = vec![
        ServerSpec::stdio("all", "node", vec![everything, "stdio".to_owned()]),
        ServerSpec::stdio("time", time, vec![]),
    ];
    let mut bare = ClientOptions::new(std::env::vars_os(), std::sync::Arc::new(super::local::LocalSpawner));
    bare.stderr = None;
    let begin = Instant::now();
    let host = McpToolHost::start(specs, bare).await;
    assert!(begin.elapsed() < DEADLINE);
    assert_eq!(host.servers().iter().filter(|state| state.up).count(), 2, "{:?}", host.notices());
    host.close().await;
}
