//! Shared code of the runner's tests: an agent with its files, and files around them that it must not touch.

use althing_protocol::{ContextAccess, ProcessLimits, ToolCall, ToolHost, ToolOutcome};
use althing_runner::{
    AcceptedByUser, AvailableSandboxes, CommandHost, CommandLimits, CommandPolicy, ContextMount,
    GuardLauncher, Sandbox, SandboxKind, SandboxPaths, detect_sandboxes,
};
use althing_testkit::attacks::FILES;
pub use althing_testkit::attacks::{processes_with, unique_seconds};
pub use althing_testkit::docker::is_excluded;
pub use althing_testkit::wait::PATIENCE;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The executable with the hidden modes.
pub const HELPER: &str = env!("CARGO_BIN_EXE_althing-runner-helper");

pub const LONG_BEFORE_THE_SLEEP_ENDS: Duration = PATIENCE;

pub fn launcher() -> GuardLauncher {
    GuardLauncher::of(PathBuf::from(HELPER))
}

pub async fn available() -> AvailableSandboxes {
    let scratch = tempfile::tempdir().unwrap();
    detect_sandboxes(&launcher(), scratch.path()).await
}

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

pub const SANDBOXES: [SandboxKind; 2] = [SandboxKind::Bubblewrap, SandboxKind::Landlock];

pub struct AgentFixture {
    pub dir: TempDir,
}

impl AgentFixture {
    pub fn new() -> Self {
        let agent_files = Self { dir: tempfile::tempdir().unwrap() };
        for (path, text) in FILES.into_iter().chain([("workspace/own.txt", "own")]) {
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
            protected_files: Vec::new(),
        }
    }

    pub fn host(&self, sandbox: Sandbox) -> CommandHost {
        self.host_with(sandbox, |_| ())
    }

    pub fn host_limited(&self, sandbox: Sandbox, limits: ProcessLimits) -> CommandHost {
        let policy = CommandPolicy::new(self.sandbox_paths(), sandbox);
        CommandHost::new(policy, launcher().with_limits(limits)).unwrap()
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

pub fn wait_until<T: std::fmt::Debug>(mut look: impl FnMut() -> T, done: impl Fn(&T) -> bool) -> Duration {
    let start = Instant::now();
    loop {
        let seen = look();
        if done(&seen) {
            return start.elapsed();
        }
        assert!(start.elapsed() < PATIENCE, "after {PATIENCE:?} still {seen:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
