//! Programs to run, and the ways to read their output: a bare reader as the baseline, and our runner.

use crate::measure::Programs;
use althing_protocol::{
    ExecutionMode, ProgramEnd, ProgramJob, ProgramReport, Programs as _, ReportSink, TaskId,
};
use althing_runner::adapter::Adapters;
use althing_runner::{
    AcceptedByUser, GuardLauncher, PatternTable, ProgramLimits, ProgramRunner, ProgramStarter, Sandbox,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of pipes and reads: as large as in the runner, so that the comparison is fair.
const CHUNK: usize = 256 * 1024;

pub fn runner(programs: &Programs) -> Arc<ProgramRunner> {
    let starter = ProgramStarter {
        adapters: Adapters::default(),
        launcher: GuardLauncher::of(programs.althing.clone()),
        sandbox: Sandbox::Unconfined(AcceptedByUser::explicitly()),
        state_dir: None,
        settings_dir: None,
        trusts_project_settings: false,
        limits: ProgramLimits::default(),
        output_masking: None,
    };
    Arc::new(ProgramRunner::new(Arc::new(starter), PatternTable::default()))
}

pub fn job(name: &str, mode: ExecutionMode, command: &[String], dir: &Path) -> ProgramJob {
    let mode = if mode == ExecutionMode::Headless { "headless" } else { "interactive" };
    let spec =
        serde_json::json!({"adapter": "command", "command": command, "mode": mode, "prompt": "", "cwd": dir});
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir).unwrap();
    ProgramJob {
        task: TaskId::from(name),
        attempt: 1,
        spec: serde_json::from_value(spec).unwrap(),
        resume: None,
        dir: dir.display().to_string(),
    }
}

#[derive(Default)]
pub struct OutputCounts {
    pub raw: AtomicU64,
    pub clean: AtomicU64,
}

pub fn counting() -> (Arc<OutputCounts>, ReportSink) {
    let counts = Arc::new(OutputCounts::default());
    let count = Arc::clone(&counts);
    let sink: ReportSink = Arc::new(move |report| {
        if let ProgramReport::Output { raw, clean } = report {
            count.raw.fetch_add(raw.len() as u64, Ordering::Relaxed);
            count.clean.fetch_add(clean.len() as u64, Ordering::Relaxed);
        }
    });
    (counts, sink)
}

/// Runs a task to its end on its own runtime, as a session does. Returns how much output was reported.
pub fn run(runner: &Arc<ProgramRunner>, job: &ProgramJob) -> (ProgramEnd, Arc<OutputCounts>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (counts, sink) = counting();
    (runtime.block_on(runner.run(job, sink)), counts)
}

pub fn flood(programs: &Programs, mebibytes: usize, colors: bool) -> Vec<String> {
    let kind = if colors { "colored" } else { "plain" };
    vec![programs.floor.display().to_string(), "flood".into(), mebibytes.to_string(), kind.into()]
}

/// Discards everything that a command writes to a pipe. Returns the number of bytes.
pub fn read_pipe(command: &[String]) -> u64 {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    let _ = rustix::pipe::fcntl_setpipe_size(&to, CHUNK);
    let mut child =
        std::process::Command::new(&command[0]).args(&command[1..]).stdout(to).spawn().expect("the program");
    let read = read_all(&from);
    child.wait().unwrap();
    read
}

/// Discards everything that a command writes to a terminal. Returns the number of bytes.
pub fn read_terminal(command: &[String]) -> u64 {
    let (ours, mut child) = in_terminal(command);
    let read = read_all(&ours);
    child.wait().unwrap();
    read
}

pub fn in_terminal(command: &[String]) -> (rustix::fd::OwnedFd, std::process::Child) {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let ours = rustix::pty::openpt(flags | rustix::pty::OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&ours).unwrap();
    rustix::pty::unlockpt(&ours).unwrap();
    let name = rustix::pty::ptsname(&ours, Vec::new()).unwrap();
    let theirs = std::fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let child = std::process::Command::new(&command[0])
        .args(&command[1..])
        .stdout(theirs)
        .spawn()
        .expect("the program");
    (ours, child)
}

/// Discards everything until the end of the stream. Returns the number of bytes.
pub fn read_all(from: impl rustix::fd::AsFd) -> u64 {
    let mut buffer = vec![0; CHUNK];
    let mut all = 0;
    while let Ok(read @ 1..) = rustix::io::read(&from, &mut buffer[..]) {
        all += read as u64;
    }
    all
}
