//! The hidden modes as a program of their own, because a test's own `main` belongs to the test harness; and a parent
//! that tests can kill.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test program"
)]
#![allow(clippy::indexing_slicing, clippy::disallowed_methods, reason = "test program")]

use althing_protocol::{ContextAccess, ToolCall, ToolHost};
use althing_runner::{
    AcceptedByUser, CommandHost, CommandPolicy, Confinement, ContainerSpec, Containers, Launcher,
    NetworkMode, Reach, detect,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = althing_runner::hidden_main(std::env::args_os()) {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        match args[0].as_str() {
            "run" => run(&args[1], Path::new(&args[2]), &args[3]).await,
            "container" => container(Path::new(&args[1]), &args[2], Path::new(&args[3])).await,
            other => panic!("no such mode: {other}"),
        }
    });
    ExitCode::SUCCESS
}

/// Runs one command in `dir` and prints its outcome, then the memory that this process used at most.
async fn run(kind: &str, dir: &Path, command: &str) {
    let launcher = Launcher::default();
    let confinement = match kind {
        "bubblewrap" => Confinement::Bubblewrap(detect(&launcher, dir).await.bubblewrap.works.unwrap()),
        "landlock" => Confinement::Landlock,
        "unconfined" => Confinement::Unconfined(AcceptedByUser::explicitly()),
        other => panic!("no such confinement: {other}"),
    };
    let host = CommandHost::new(CommandPolicy::new(reach(dir), confinement), launcher).unwrap();
    let arguments = serde_json::json!({ "command": command }).to_string();
    let call = ToolCall { id: "1".to_owned(), name: "run_command".to_owned(), arguments };
    println!("{}", host.call(&call, ContextAccess::ReadOnly).await.content);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
}

/// Starts a container, prints its id and waits to be killed.
async fn container(socket: &Path, image: &str, dir: &Path) {
    let spec = ContainerSpec {
        image: image.to_owned(),
        network: NetworkMode::None,
        memory: None,
        cpus: None,
        reach: reach(dir),
        session: "s".to_owned(),
        run: "r".to_owned(),
        agent: "a".to_owned(),
    };
    let containers = Containers::connect(socket).await.unwrap();
    let container = containers.start(spec, ContextAccess::ReadOnly).await.unwrap();
    println!("{}", container.id().await.unwrap());
    std::future::pending::<()>().await;
}

fn reach(dir: &Path) -> Reach {
    let workspace: PathBuf = dir.join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    Reach::new(workspace, dir.join("output"))
}
