//! A helper executable for tests. It has the hidden modes, because a test's own `main` belongs to the test harness,
//! and it serves as a parent process that tests can kill.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test program"
)]
#![allow(clippy::indexing_slicing, clippy::disallowed_methods, reason = "test program")]

use althing_protocol::{
    ContextAccess, ProcessLimits, ProgramEnd, ProgramJob, ProgramReport, ProgramSpec, Programs, ReportSink,
    ResumedConversation, TaskId, ToolCall, ToolHost, TurnProgress,
};
use althing_runner::adapter::Adapters;
use althing_runner::{
    AcceptedByUser, CommandHost, CommandPolicy, ContainerSpec, ContextMount, DockerClient, GuardLauncher,
    NetworkMode, PatternTable, ProgramLimits, ProgramRunner, ProgramStarter, Sandbox, SandboxPaths,
    detect_sandboxes,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

fn main() -> ExitCode {
    if let Some(code) = althing_runner::reexec_main(std::env::args_os()) {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        match args[0].as_str() {
            "run" => run(&args[1], Path::new(&args[2]), &args[3], args.get(4)).await,
            "terminal" => println!("clean: {}", terminal(&args[1], &args[2]).await.0.replace('\n', "\\n")),
            "waiting" => println!("waits: {}", waiting(&args[1], &args[2]).await),
            "terminal-memory" => {
                println!("exit: {:?}", terminal(&args[1], &args[2]).await.1);
                print_peak();
            }
            "agent" => agent(Path::new(&args[1]), &args[2], &args[3], args.get(4)).await,
            "program" => program(Path::new(&args[1]), &args[2], &args[3]).await,
            "container" => container(Path::new(&args[1]), &args[2], Path::new(&args[3])).await,
            other => panic!("no such mode: {other}"),
        }
    });
    ExitCode::SUCCESS
}

/// Runs one command in this kind of sandbox, in the workspace `dir/workspace` and with the read-only context path
/// `dir/context` if it exists. `limits` is JSON.
async fn run(kind: &str, dir: &Path, command: &str, limits: Option<&String>) {
    let limits: Option<ProcessLimits> = limits.map(|limits| serde_json::from_str(limits).unwrap());
    let launcher = GuardLauncher::default().with_limits(limits.unwrap_or_default());
    let (kind, network) = kind.strip_suffix("+network").map_or((kind, false), |kind| (kind, true));
    let sandbox = match kind {
        "bubblewrap" => Sandbox::Bubblewrap(detect_sandboxes(&launcher, dir).await.bubblewrap.works.unwrap()),
        "landlock" => Sandbox::Landlock,
        "unconfined" => Sandbox::Unconfined(AcceptedByUser::explicitly()),
        other => panic!("no such confinement: {other}"),
    };
    let policy = CommandPolicy { network, ..CommandPolicy::new(sandbox_paths(dir), sandbox) };
    let host = CommandHost::new(policy, launcher).unwrap();
    let arguments = serde_json::json!({ "command": command }).to_string();
    let call = ToolCall { id: "1".to_owned(), name: "run_command".to_owned(), arguments };
    println!("{}", host.call(&call, ContextAccess::ReadOnly).await.content);
    print_peak();
}

fn print_peak() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
}

async fn waiting(dir: &str, script: &str) -> String {
    let (sender, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let reports: ReportSink = Arc::new(move |report| {
        if let ProgramReport::Waiting(ask) = report {
            let _ = sender.send(format!("{:?} {}", ask.about, ask.text));
        }
    });
    tokio::select! {
        question = asked.recv() => question.unwrap(),
        end = in_terminal(dir, script, reports) => format!("nothing: {end:?}"),
    }
}

async fn terminal(dir: &str, script: &str) -> (String, Option<i32>) {
    let clean: Arc<Mutex<String>> = Arc::default();
    let reported = clean.clone();
    let reports: ReportSink = Arc::new(move |report| {
        if let ProgramReport::Output { clean, .. } = report {
            let mut reported = reported.lock().unwrap();
            if reported.len() < 1000 {
                reported.push_str(&clean);
            }
        }
    });
    let end = in_terminal(dir, script, reports).await;
    (std::mem::take(&mut *clean.lock().unwrap()), end.exit_code)
}

async fn in_terminal(dir: &str, script: &str, reports: ReportSink) -> ProgramEnd {
    let spec = serde_json::json!({
        "adapter": "command", "command": ["/bin/sh", "-c", script], "mode": "interactive", "prompt": "", "cwd": "/",
    });
    let spec: ProgramSpec = serde_json::from_value(spec).unwrap();
    let dir = dir.to_owned();
    let job = ProgramJob { task: TaskId::from("t"), attempt: 1, spec, resume: None, dir };
    let starter = ProgramStarter {
        adapters: Adapters::default(),
        launcher: GuardLauncher::default(),
        sandbox: Sandbox::Unconfined(AcceptedByUser::explicitly()),
        state_dir: None,
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    };
    ProgramRunner::new(Arc::new(starter), PatternTable::default()).run(&job, reports).await
}

async fn program(dir: &Path, program: &str, prompt: &str) {
    let starter = ProgramStarter {
        adapters: Adapters::default(),
        launcher: GuardLauncher::default(),
        sandbox: Sandbox::Unconfined(AcceptedByUser::explicitly()),
        state_dir: None,
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    };
    let spec = serde_json::json!({
        "adapter": "command", "command": [program], "mode": "headless", "prompt": prompt, "cwd": dir,
    });
    let spec: ProgramSpec = serde_json::from_value(spec).unwrap();
    let dir = dir.join("task").to_str().unwrap().to_owned();
    let job = ProgramJob { task: TaskId::from("t"), attempt: 1, spec, resume: None, dir };
    let reported = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reported);
    let sink: ReportSink = Arc::new(move |report| {
        if let ProgramReport::Output { raw, .. } = report {
            count.fetch_add(raw.len() as u64, Ordering::Relaxed);
        }
    });
    let start = std::time::Instant::now();
    let end = ProgramRunner::new(Arc::new(starter), PatternTable::default()).run(&job, sink).await;
    println!("ok {} exit {:?} in {:?}", end.ok, end.exit_code, start.elapsed());
    println!("reported {}", reported.load(Ordering::Relaxed));
    print_peak();
}

/// Runs an installed CLI agent in `dir`, in the strongest available sandbox (if any works), and prints its reports.
async fn agent(dir: &Path, adapter: &str, prompt: &str, resume: Option<&String>) {
    let launcher = GuardLauncher::default();
    let sandbox = detect_sandboxes(&launcher, dir).await.choose_sandbox(None);
    println!("inside {:?}", sandbox.kind());
    let starter = ProgramStarter {
        adapters: Adapters::default(),
        launcher,
        sandbox,
        state_dir: None,
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    };
    let spec = serde_json::json!({ "adapter": adapter, "mode": "headless", "prompt": prompt, "cwd": dir });
    let spec: ProgramSpec = serde_json::from_value(spec).unwrap();
    let task = format!("{}-task", dir.display());
    let resume = resume.map(|id| ResumedConversation { id: id.clone(), turn: TurnProgress::NotBegun });
    let job = ProgramJob { task: TaskId::from("t"), attempt: 1, spec, resume, dir: task };
    let sink: ReportSink = Arc::new(move |report| match report {
        ProgramReport::Output { clean, .. } => eprint!("{clean}"),
        other => println!("{other:?}"),
    });
    let end = ProgramRunner::new(Arc::new(starter), PatternTable::default()).run(&job, sink).await;
    println!("{end:#?}");
}

async fn container(socket: &Path, image: &str, dir: &Path) {
    let spec = ContainerSpec {
        image: image.to_owned(),
        network: NetworkMode::None,
        memory: None,
        limits: ProcessLimits::default(),
        cpus: None,
        sandbox_paths: sandbox_paths(dir),
        session: "s".to_owned(),
        run: "r".to_owned(),
        agent: "a".to_owned(),
    };
    let containers = DockerClient::connect(socket).await.unwrap();
    let container = containers.start(spec, ContextAccess::ReadOnly).await.unwrap();
    println!("{}", container.id().await.unwrap());
    std::future::pending::<()>().await;
}

fn sandbox_paths(dir: &Path) -> SandboxPaths {
    let workspace: PathBuf = dir.join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    let mut sandbox_paths = SandboxPaths::new(workspace, dir.join("output"));
    let (path, protected) = (dir.join("context"), Vec::new());
    sandbox_paths.context.extend(path.is_dir().then_some(ContextMount { path, writable: false, protected }));
    sandbox_paths
}
