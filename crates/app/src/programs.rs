//! Runs the CLI agents and commands of workflows, on pipes or in terminals.

use crate::context::AppContext;
use crate::failure::Failure;
use crate::known_costs;
use crate::session;
use crate::simulated::SimulatedPrograms;
use crate::team::Team;
use crate::work_dirs::{SessionDirs, agents_write, unwritable_dirs};
use althing_config::Variables;
use althing_protocol::{
    AgentId, AgentKind, BoxFuture, CustomAdapter, Member, ProcessLimits, ProgramEnd, ProgramJob, Programs,
    ReportSink, Screen, StageBody, TaskId, WorkflowSpec,
};
use althing_runner::adapter::{
    self, Adapters, AskPattern, Pattern, SearchPath, TerminalTraits, find_program,
};
use althing_runner::{
    AcceptedByUser, GuardLauncher, PatternTable, PlantedCode, ProgramLimits, ProgramRunner, ProgramStarter,
    ProtectedPaths, Sandbox,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// What runs the programs of a workflow's tasks. Programs in a sandbox cannot write to the `protected` paths, nor to
/// code that git runs for the session's directories. If the team is simulated, no program is started.
pub(crate) fn assemble(
    custom: Vec<CustomAdapter>,
    protected: ProtectedPaths,
    (dirs, planted): (SessionDirs, Arc<PlantedCode>),
    team: &Team,
    app: &AppContext,
) -> Arc<dyn Programs> {
    if team.is_simulated() {
        return Arc::new(SimulatedPrograms);
    }
    let variables = app.environment.clone();
    let fill = move |name: &str, text: &str| {
        let fill = |known: Variables<'_>| althing_config::fill_variables(name, text, known);
        variables.with_variables(fill).0
    };
    let custom = custom.into_iter().map(|adapter| custom_adapter(adapter, &fill)).collect();
    let starter = program_starter(Adapters::with(custom), team.config.process_limits, app);
    let search = SearchPath::without(&app.environment.path(), &dirs.agents_write);
    if dirs.has_unconfined_agents && !search.removed.is_empty() {
        app.notify(&format!(
            "CLI agents without a sandbox are not searched for in {}: agents may write there",
            search.removed_text()
        ));
    }
    let runner = ProgramRunner::new(starter, patterns(app))
        .with_protected(protected)
        .with_planted_code(planted)
        .with_work_dirs(dirs.work)
        .with_agents_write(dirs.agents_write)
        .with_unwritable_dirs(unwritable_dirs(&app.environment))
        .with_prices(known_costs::model_prices(team));
    Arc::new(VariableFiller { runner, fill: Box::new(fill) })
}

/// The executable of the user's editor or pager. It runs with all rights of the user, so it is not searched for in
/// directories of `PATH` where agents may write.
pub fn find_user_program(name: &str, app: &AppContext) -> Result<PathBuf, String> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let path = app.environment.path();
    let search = SearchPath::without(&path, &agents_write(&app.environment.cwd, None, &app.environment));
    find_program(name, &search.kept).ok_or_else(|| match find_program(name, &path) {
        Some(_) => format!(
            "{name} is not started: it is only in {}, where agents may write, so an agent could have put it there",
            search.removed_text()
        ),
        None => format!("{name} was not found in PATH"),
    })
}

/// How to sign in to this CLI agent; None if the user seems to be signed in, or if Althing cannot tell.
pub fn sign_in_hint(adapter: &str, app: &AppContext) -> Option<&'static str> {
    let home = PathBuf::from(app.environment.variable("HOME")?);
    let signs = Adapters::default().get(adapter)?.login_signs()?;
    signs.missing(&home, &|name| app.environment.variable(name).map(PathBuf::from))
}

/// How to sign in to each of these agents to which the user seems not to be signed in.
pub fn missing_sign_ins(members: &[Member], app: &AppContext) -> BTreeMap<AgentId, String> {
    let hint = |member: &Member| {
        let kind = AgentKind::of(&member.backend).filter(|_| !member.offline)?;
        Some((member.id.clone(), sign_in_hint(kind.adapter, app)?.to_owned()))
    };
    members.iter().filter_map(hint).collect()
}

/// Checks the CLI agents of a workflow's tasks before anything starts, and notifies the user of problems. Fails if a
/// CLI agent does not run in the available sandbox, or if `--max-cost` cannot limit its cost. Simulated programs are
/// not checked.
pub fn check_tasks(spec: &WorkflowSpec, team: &Team, app: &AppContext) -> Result<(), Failure> {
    let tasks = spec.stages.iter().flat_map(|stage| &stage.tasks);
    let tasks = tasks.filter_map(|task| match &task.body {
        StageBody::Program(program) => Some((task.id.as_str(), &**program)),
        StageBody::Run(_) => None,
    });
    if team.is_simulated() {
        let ids: Vec<&str> = tasks.map(|(id, _)| id).collect();
        if !ids.is_empty() {
            app.notify(&format!(
                "the programs of these tasks are simulated, not started: {}",
                ids.join(", ")
            ));
        }
        return Ok(());
    }
    let adapters = Adapters::default();
    let mut told = BTreeSet::new();
    let (mut limited, mut offline_told) = (BTreeSet::new(), BTreeSet::new());
    let mut starter = None;
    for (id, program) in tasks {
        known_costs::check_task(id, program, team, app)?;
        if !adapters.get(&program.adapter).is_some_and(|adapter| adapter.is_agent()) {
            continue;
        }
        if let Some(hint) = sign_in_hint(&program.adapter, app)
            && told.insert(&program.adapter)
        {
            app.notify(&format!("it seems that you are not signed in to {}: {hint}", program.adapter));
        }
        if app.settings.offline && offline_told.insert(&program.adapter) {
            app.notify(&format!(
                "{} is started: without --config, --offline replaces only the agents of runs",
                program.adapter
            ));
        }
        let starter = starter
            .get_or_insert_with(|| program_starter(Adapters::default(), team.config.process_limits, app));
        if let Some(problem) = starter.problem_with_task(program) {
            return Err(Failure::usage(format!("task {id}: {problem}")));
        }
        if let Some(limitation) = starter.limitation_of_task(program)
            && limited.insert(&program.adapter)
        {
            app.notify(&format!("{}: {limitation}", program.adapter));
        }
    }
    Ok(())
}

const PRIVATE_SETTINGS: &str = ".settings";

/// What is needed to start CLI agents: adapters, launcher and sandbox.
pub fn program_starter(adapters: Adapters, limits: ProcessLimits, app: &AppContext) -> Arc<ProgramStarter> {
    let launcher = GuardLauncher::default().with_limits(limits);
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
        settings_dir: Some(app.cli_agents_dir().join(PRIVATE_SETTINGS)),
        trusts_project_settings: app.settings.trust,
        limits: ProgramLimits::default(),
        output_masking: Some(crate::secrets::output_masking()),
    })
}

/// Removes the private copies of settings and credentials that Althing left behind when it was killed.
pub fn clean_left_settings(app: &AppContext) {
    for dir in app.all_cli_agents_dirs() {
        althing_runner::clean_left_settings(&dir.join(PRIVATE_SETTINGS));
    }
}

/// `patterns.json` in the user's config directory contains patterns for reading CLI agents' screens.
fn patterns(app: &AppContext) -> PatternTable {
    let file = app.environment.config_dir().map(|dir| dir.join("patterns.json"));
    let Some(file) = file.filter(|file| file.is_file()) else { return PatternTable::default() };
    match crate::team::read_text(&file)
        .map_err(|error| error.to_string())
        .and_then(|json| PatternTable::from_json(&json))
    {
        Ok(own) => own,
        Err(error) => {
            app.notify(&format!("{} is ignored: {error}", file.display()));
            PatternTable::default()
        }
    }
}

fn custom_adapter(
    adapter: CustomAdapter,
    fill: &dyn Fn(&str, &str) -> Result<String, String>,
) -> adapter::UserDefinedAdapter {
    let asks = adapter
        .interactions
        .into_iter()
        .map(|interaction| AskPattern::new(interaction.about, Pattern::screen(&interaction.pattern), &[]));
    let terminal = TerminalTraits {
        ready: adapter.ready.iter().map(|ready| Pattern::screen(ready)).collect(),
        asks: asks.collect(),
        conversation: adapter.session,
        ..TerminalTraits::default()
    };
    // Unset variables were reported when the file was read.
    let env = adapter.env.into_iter().map(|(name, value)| {
        let filled = fill(&name, &value).unwrap_or_default();
        (name, filled)
    });
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

type Fill = dyn Fn(&str, &str) -> Result<String, String> + Send + Sync;

/// Fills in a program's environment variables only when it starts, so that no secret gets into the session's log.
struct VariableFiller {
    runner: ProgramRunner,
    fill: Box<Fill>,
}

impl Programs for VariableFiller {
    fn run<'a>(&'a self, job: &'a ProgramJob, reports: ReportSink) -> BoxFuture<'a, ProgramEnd> {
        Box::pin(async move {
            let mut job = job.clone();
            for (name, value) in &mut job.spec.env {
                match (self.fill)(name, value) {
                    Ok(filled) => *value = filled,
                    Err(missing) => {
                        return ProgramEnd {
                            error: Some(format!(
                                "the task's variable {name} refers to {missing}, which is not set"
                            )),
                            hint: Some(format!(
                                "set {missing} in the environment or in ~/.config/althing/.env"
                            )),
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
