//! Shared code: an agent with its files, and files around them that it must not touch.

use althing_protocol::{ContextAccess, ToolCall, ToolHost, ToolOutcome};
use althing_runner::{
    AcceptedByUser, AvailableSandboxes, CommandHost, CommandLimits, CommandPolicy, ContextMount,
    GuardLauncher, Sandbox, SandboxKind, SandboxPaths, detect_sandboxes,
};
pub use althing_testkit::docker::is_excluded;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The executable with the hidden modes.
pub const HELPER: &str = env!("CARGO_BIN_EXE_althing-runner-helper");

pub fn launcher() -> GuardLauncher {
    GuardLauncher::of(PathBuf::from(HELPER))
}

pub async fn available() -> AvailableSandboxes {
    let scratch = tempfile::tempdir().unwrap();
    detect_sandboxes(&launcher(), scratch.path()).await
}

/// A sandbox of this kind, or `None` if the tests were told to skip it.
pub async fn sandbox(kind: SandboxKind) -> Option<Sandbox> {
    match kind {
        SandboxKind::Bubblewrap if is_excluded("bubblewrap") => None,
        SandboxKind::Bubblewrap => {
            let found = available().await.bubblewrap;
            Some(Sandbox::Bubblewrap(
                found.works.unwrap_or_else(|| panic!("run tests/setup.sh: {}", found.note)),
            ))
        }
        SandboxKind::Landlock if is_excluded("landlock") => None,
        SandboxKind::Landlock => {
            let found = available().await.landlock;
            assert!(found.works.is_some(), "{}", found.note);
            Some(Sandbox::Landlock)
        }
        SandboxKind::Unconfined => Some(Sandbox::Unconfined(AcceptedByUser::explicitly())),
        SandboxKind::Docker | SandboxKind::Refused => panic!("not one of these"),
    }
}

/// The sandboxes that need no daemon.
pub const SANDBOXES: [SandboxKind; 2] = [SandboxKind::Bubblewrap, SandboxKind::Landlock];

/// A directory tree for one agent.
///
/// ```text
/// workspace/                 the agent's workspace
/// project/                   context path, writable
///   .git/                    with config and hooks/
///   notes.txt  src/main.rs
///   vendor/locked/           protected path
///   .althing/                Althing's state directory, with outputs/
/// reference/book.txt         context path, read-only
/// home/.ssh/id               not accessible to the agent
/// ```
pub struct AgentFixture {
    pub dir: TempDir,
}

impl AgentFixture {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent_files = Self { dir };
        let files = [
            ("workspace/own.txt", "own"),
            ("project/notes.txt", "notes"),
            ("project/src/main.rs", "fn main() {}"),
            ("project/.git/config", "[core]"),
            ("project/.git/hooks/sample", "#"),
            ("project/vendor/locked/file", "locked"),
            ("project/.althing/log", "CANARY-state"),
            ("reference/book.txt", "book"),
            ("home/.ssh/id", "CANARY-key"),
        ];
        for (path, text) in files {
            let path = agent_files.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        agent_files
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(inside)
    }

    pub fn read(&self, inside: &str) -> String {
        std::fs::read_to_string(self.path(inside)).unwrap_or_default()
    }

    pub fn sandbox_paths(&self) -> SandboxPaths {
        SandboxPaths {
            workspace: self.path("workspace"),
            readable: Vec::new(),
            context: vec![
                ContextMount {
                    path: self.path("project"),
                    writable: true,
                    protected: vec![PathBuf::from("vendor/locked")],
                },
                ContextMount { path: self.path("reference"), writable: false, protected: Vec::new() },
            ],
            state_dir: Some(self.path("project/.althing")),
            output_dir: self.path("project/.althing/outputs"),
            planning: false,
        }
    }

    pub fn host(&self, sandbox: Sandbox) -> CommandHost {
        self.host_with(sandbox, |_| ())
    }

    pub fn host_with(&self, sandbox: Sandbox, change: impl FnOnce(&mut CommandPolicy)) -> CommandHost {
        let mut policy = CommandPolicy::new(self.sandbox_paths(), sandbox);
        policy.limits =
            CommandLimits { default_timeout: Duration::from_secs(30), ..CommandLimits::default() };
        change(&mut policy);
        CommandHost::new(policy, launcher()).unwrap()
    }
}

pub fn call(arguments: &serde_json::Value) -> ToolCall {
    ToolCall { id: "1".to_owned(), name: "run_command".to_owned(), arguments: arguments.to_string() }
}

pub async fn run(host: &CommandHost, command: &str) -> ToolOutcome {
    run_as(host, command, ContextAccess::ReadOnly).await
}

pub async fn run_as(host: &CommandHost, command: &str, access: ContextAccess) -> ToolOutcome {
    host.call(&call(&serde_json::json!({ "command": command })), access).await
}

/// Processes whose command line contains `needle`.
pub fn processes_with(needle: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if pid != std::process::id() && line.contains(needle) {
            found.push(pid);
        }
    }
    found
}

/// Children of this process that ended and were not reaped.
pub fn zombies() -> Vec<u32> {
    let is_ours = |stat: &str| {
        let mut fields = stat.rsplit_once(')').unwrap_or_default().1.split_whitespace();
        fields.next() == Some("Z") && fields.next() == Some(&std::process::id().to_string())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_ours(&stat)))
        .collect()
}

/// Waits until `done` holds, or fails after `limit` with the last observed value.
pub fn wait_until<T: std::fmt::Debug>(
    limit: Duration,
    mut look: impl FnMut() -> T,
    done: impl Fn(&T) -> bool,
) -> Duration {
    let start = Instant::now();
    loop {
        let seen = look();
        if done(&seen) {
            return start.elapsed();
        }
        assert!(start.elapsed() < limit, "after {limit:?} still {seen:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A number of seconds for `sleep` that identifies this test's processes.
pub fn unique_seconds() -> String {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("3{:07}{next:03}", std::process::id())
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
