//! Runs the CLI agents and commands of workflows, on pipes or in terminals.

use crate::context::AppContext;
use crate::session;
use althing_protocol::{
    BoxFuture, CustomAdapter, ProgramEnd, ProgramJob, Programs, ReportSink, Screen, TaskId,
};
use althing_runner::adapter::{self, Adapters, AskPattern, Pattern, TerminalTraits};
use althing_runner::{
    AcceptedByUser, GuardLauncher, PatternTable, ProgramLimits, ProgramRunner, ProgramStarter, Sandbox,
};
use std::path::PathBuf;
use std::sync::Arc;

/// Makes the program runner, with the custom adapters of the config and of the workflow. Programs in a sandbox cannot
/// write to `protected` paths.
pub fn assemble(custom: Vec<CustomAdapter>, protected: Vec<PathBuf>, app: &AppContext) -> Arc<dyn Programs> {
    let variables = app.environment.clone();
    let fill = move |text: &str| althing_config::fill_variables(text, &|name| variables.setting(name));
    let custom = custom.into_iter().map(|adapter| custom_adapter(adapter, &fill)).collect();
    let starter = program_starter(Adapters::with(custom), app);
    let runner = ProgramRunner::new(starter, patterns(app)).with_protected(protected);
    Arc::new(VariableFiller { runner, fill: Box::new(fill) })
}

/// What is needed to start CLI agents: adapters, launcher, sandbox.
pub fn program_starter(adapters: Adapters, app: &AppContext) -> Arc<ProgramStarter> {
    let launcher = GuardLauncher::default();
    let accepted = app.settings.unconfined.then(AcceptedByUser::explicitly);
    let probe_launcher = launcher.clone();
    let found = session::block_on_thread(async move {
        althing_runner::detect_sandboxes(&probe_launcher, &std::env::temp_dir()).await
    });
    let sandbox = match found {
        Some(available) => available.choose_sandbox(accepted),
        None => Sandbox::Refused { why: "sandbox detection failed".to_owned() },
    };
    tracing::info!(confinement = ?sandbox.kind(), "where programs run");
    Arc::new(ProgramStarter {
        adapters,
        launcher,
        sandbox,
        state_dir: Some(app.state_dir()),
        limits: ProgramLimits::default(),
        output_masking: Some(crate::secrets::output_masking()),
    })
}

/// The user's own patterns for reading CLI agents' screens; none if there is no `patterns.json`, or (with a notice) if
/// it is invalid.
fn patterns(app: &AppContext) -> PatternTable {
    let file = app.environment.config_dir().map(|dir| dir.join("patterns.json"));
    let Some(file) = file.filter(|file| file.is_file()) else { return PatternTable::default() };
    let read = std::fs::read_to_string(&file).map_err(|error| error.to_string());
    match read.and_then(|json| PatternTable::from_json(&json)) {
        Ok(own) => own,
        Err(error) => {
            app.notify(&format!("{} is ignored: {error}", file.display()));
            PatternTable::default()
        }
    }
}

/// Converts a custom adapter to the runner's type.
fn custom_adapter(
    adapter: CustomAdapter,
    fill: &dyn Fn(&str) -> Result<String, String>,
) -> adapter::UserDefinedAdapter {
    let asks = adapter.interactions.into_iter().map(|interaction| AskPattern {
        about: interaction.about,
        pattern: Pattern::screen(&interaction.pattern),
        answers: Vec::new(),
    });
    let terminal = TerminalTraits {
        ready: adapter.ready.iter().map(|ready| Pattern::screen(ready)).collect(),
        asks: asks.collect(),
        conversation: adapter.session,
        ..TerminalTraits::default()
    };
    // Unset variables were reported when the file was read.
    let env = adapter.env.into_iter().map(|(name, value)| (name, fill(&value).unwrap_or_default()));
    adapter::UserDefinedAdapter {
        name: adapter.name,
        program: adapter.program,
        args: adapter.args,
        headless_args: adapter.headless_args,
        resume_args: adapter.resume_args,
        env: env.collect(),
        terminal,
        ..adapter::UserDefinedAdapter::default()
    }
}

type Fill = dyn Fn(&str) -> Result<String, String> + Send + Sync;

/// Fills in a program's environment variables when it starts. The log contains the variables as the user wrote them,
/// with references not filled in, so that no secret gets into the log.
struct VariableFiller {
    runner: ProgramRunner,
    fill: Box<Fill>,
}

impl Programs for VariableFiller {
    fn run<'a>(&'a self, job: &'a ProgramJob, reports: ReportSink) -> BoxFuture<'a, ProgramEnd> {
        Box::pin(async move {
            let mut job = job.clone();
            for (name, value) in &mut job.spec.env {
                match (self.fill)(value) {
                    Ok(filled) => *value = filled,
                    Err(missing) => {
                        return ProgramEnd {
                            error: Some(format!(
                                "the task's variable {name} refers to {missing}, which is not set"
                            )),
                            hint: Some(format!("set {missing} in the environment or in .env")),
                            ..ProgramEnd::default()
                        };
                    }
                }
            }
            self.runner.run(&job, reports).await
        })
    }

    fn input(&self, task: &TaskId, bytes: &[u8]) -> bool {
        self.runner.input(task, bytes)
    }

    fn resize(&self, task: &TaskId, cols: u16, rows: u16) {
        self.runner.resize(task, cols, rows);
    }

    fn answer(&self, task: &TaskId, native: &str, option: &str) -> bool {
        self.runner.answer(task, native, option)
    }

    fn screen(&self, task: &TaskId) -> Option<Screen> {
        self.runner.screen(task)
    }
}
