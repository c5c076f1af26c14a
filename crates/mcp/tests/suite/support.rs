//! Shared test helpers: the fake server, a recorder of server output, and waiting for conditions.

use super::local::LocalSpawner;
use althing_mcp::{ClientOptions, McpToolHost, NoticeKind, ServerSpec};
use althing_protocol::{ContextAccess, ToolCall, ToolHost, ToolOutcome};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const DEADLINE: Duration = Duration::from_secs(120);

pub fn scale(usual: usize, nightly: usize) -> usize {
    if std::env::var("ALTHING_TEST_SCALE").is_ok_and(|scale| scale == "nightly") { nightly } else { usual }
}

pub fn script() -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fake_server.py").display().to_string()
}

pub fn fake(name: &str, flags: &[&str]) -> ServerSpec {
    let args = std::iter::once(script()).chain(flags.iter().map(|flag| (*flag).to_owned())).collect();
    ServerSpec::stdio(name, "python3", args)
}

/// Records stderr, and stdout that is not MCP.
#[derive(Clone, Default)]
pub struct Recorder {
    lines: Arc<Mutex<Vec<(String, String)>>>,
}

impl Recorder {
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
    }

    pub fn said(&self, text: &str) -> bool {
        self.lines.lock().unwrap().iter().any(|(_, line)| line.contains(text))
    }

    pub fn servers(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().map(|(server, _)| server.clone()).collect()
    }
}

pub fn options() -> (ClientOptions, Recorder) {
    let recorder = Recorder::default();
    let lines = recorder.lines.clone();
    let mut options = ClientOptions::new(std::env::vars_os(), Arc::new(LocalSpawner));
    options.stderr = Some(Arc::new(move |server, line| {
        lines.lock().unwrap().push((server.to_owned(), line.to_owned()));
    }));
    options.restart_pause = Duration::from_millis(20);
    options.grace = Duration::from_millis(500);
    (options, recorder)
}

pub async fn started(flags: &[&str]) -> (McpToolHost, Recorder) {
    let (options, recorder) = options();
    (McpToolHost::start(vec![fake("fake", flags)], options).await, recorder)
}

pub fn names(host: &McpToolHost) -> Vec<String> {
    host.tools(ContextAccess::ReadOnly).into_iter().map(|tool| tool.name).collect()
}

pub async fn call(host: &McpToolHost, tool: &str, arguments: Value) -> ToolOutcome {
    call_named(host, &format!("mcp__fake__{tool}"), &arguments.to_string()).await
}

pub async fn call_named(host: &McpToolHost, name: &str, arguments: &str) -> ToolOutcome {
    let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    host.call(&call, ContextAccess::ReadOnly).await
}

pub fn good(content: &str) -> ToolOutcome {
    ToolOutcome { content: content.to_owned(), is_error: false }
}

pub fn notices(host: &McpToolHost) -> Vec<NoticeKind> {
    host.notices().into_iter().map(|notice| notice.kind).collect()
}

pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A zombie is not alive.
pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}
