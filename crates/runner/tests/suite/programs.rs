//! Shared code for tests of programs: a runner, jobs for the fake agent, and the reports.

use super::support::{PATIENCE, launcher};
use althing_protocol::{
    AgentOptions, ExecutionMode, Item, Millis, ProcessLimits, ProgramEnd, ProgramJob, ProgramReport,
    ProgramSpec, Programs, ReportSink, TaskId,
};
use althing_runner::adapter::{Adapters, AgentAdapter, ClaudeCode, Codex, OutputParser, UserDefinedAdapter};
use althing_runner::{AcceptedByUser, PatternTable, ProgramLimits, ProgramRunner, ProgramStarter, Sandbox};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

pub const AGENT: &str = env!("CARGO_BIN_EXE_althing-runner-fake-agent");

pub struct TaskFixture {
    pub dir: TempDir,
    pub runner: ProgramRunner,
    said: Arc<Mutex<Vec<ProgramReport>>>,
}

pub fn unconfined() -> Sandbox {
    Sandbox::Unconfined(AcceptedByUser::explicitly())
}

pub fn agents() -> Vec<UserDefinedAdapter> {
    let agent = |name: &str, output: fn() -> Box<dyn OutputParser>| UserDefinedAdapter {
        name: name.to_owned(),
        program: AGENT.to_owned(),
        headless_args: Some(["--like", name, "--session-id", "{session}"].map(str::to_owned).to_vec()),
        resume_args: Some(Vec::new()),
        variables: vec!["FAKE_*".to_owned()],
        output: Some(output),
        ..UserDefinedAdapter::default()
    };
    vec![agent("claude", || ClaudeCode.parser()), agent("codex", || Codex.parser())]
}

impl TaskFixture {
    pub fn new() -> Self {
        Self::with(unconfined())
    }

    pub fn with(sandbox: Sandbox) -> Self {
        Self::limited(sandbox, ProcessLimits::default())
    }

    pub fn limited(sandbox: Sandbox, limits: ProcessLimits) -> Self {
        Self::with_limits(sandbox, limits, ProgramLimits::default())
    }

    pub fn patient() -> Self {
        let limits = ProgramLimits { grace: PATIENCE, ..ProgramLimits::default() };
        Self::with_limits(unconfined(), ProcessLimits::default(), limits)
    }

    fn with_limits(sandbox: Sandbox, processes: ProcessLimits, limits: ProgramLimits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("work")).unwrap();
        let starter = ProgramStarter {
            adapters: Adapters::with(agents()),
            launcher: launcher().with_limits(processes),
            sandbox,
            state_dir: Some(dir.path().join("state")),
            settings_dir: None,
            trusts_project_settings: false,
            limits,
            output_masking: None,
        };
        let runner = ProgramRunner::new(Arc::new(starter), PatternTable::default());
        Self { dir, runner, said: Arc::default() }
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(inside)
    }

    pub fn job(&self, name: &str, script: &str) -> ProgramJob {
        self.command(name, &[AGENT], script)
    }

    pub fn command(&self, name: &str, command: &[&str], prompt: &str) -> ProgramJob {
        ProgramJob {
            task: TaskId::from(name),
            attempt: 1,
            spec: ProgramSpec {
                adapter: "command".to_owned(),
                command: command.iter().map(|word| (*word).to_owned()).collect(),
                mode: ExecutionMode::Headless,
                prompt: prompt.to_owned(),
                cwd: self.path("work").to_str().unwrap().to_owned(),
                env: BTreeMap::from([(
                    "FAKE_AGENT_DIARY".to_owned(),
                    self.path("work/diary").to_str().unwrap().to_owned(),
                )]),
                model: None,
                on_interrupt: None,
                sandbox: None,
                idle_timeout: Some(Millis(120_000)),
                approvals: false,
                agent: None,
                options: AgentOptions::default(),
            },
            resume: None,
            dir: self.path(&format!("state/{name}")).to_str().unwrap().to_owned(),
        }
    }

    pub fn agent(&self, adapter: &str, script: &str) -> ProgramJob {
        let mut job = self.job(adapter, script);
        adapter.clone_into(&mut job.spec.adapter);
        job.spec.command = Vec::new();
        job
    }

    pub fn sink(&self) -> ReportSink {
        let said = Arc::clone(&self.said);
        Arc::new(move |report| said.lock().unwrap().push(report))
    }

    pub async fn run(&self, job: &ProgramJob) -> ProgramEnd {
        self.runner.run(job, self.sink()).await
    }

    pub fn reports(&self) -> Vec<ProgramReport> {
        self.said.lock().unwrap().clone()
    }

    pub fn items(&self) -> Vec<Item> {
        let item = |report| if let ProgramReport::Item(item) = report { Some(item) } else { None };
        self.reports().into_iter().filter_map(item).collect()
    }

    pub fn output(&self) -> (Vec<u8>, String) {
        let mut all = (Vec::new(), String::new());
        for report in self.reports() {
            if let ProgramReport::Output { raw, clean } = report {
                all.0.extend(raw);
                all.1.push_str(&clean);
            }
        }
        all
    }

    pub fn agent_log(&self) -> Vec<String> {
        read_lines(&self.path("work/diary"))
    }
}

pub fn read_lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}
