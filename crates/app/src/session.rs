//! Wires up a session: journal, backends, agents' environments and engine.

use crate::agent_env::{self, Sandboxes, SessionEnvs, TeamTools};
use crate::context::AppContext;
use crate::edit_trust::{EditTrust, EditTrustRecorder};
use crate::environment::{Environment, SystemClock};
use crate::failure::Failure;
use crate::known_costs;
use crate::otlp_export;
use crate::plans::StoredPlans;
use crate::programs;
use crate::project::Project;
use crate::project_recorder::ProjectRecorder;
use crate::reports;
use crate::secrets;
use crate::team::Team;
use crate::trust;
use crate::work_dirs::SessionDirs;
use althing_engine::{Backends, Orchestrator, SessionDeps};
use althing_llm::{HttpClient, HttpOptions, PriceTable};
use althing_mcp::{AgentEndpoints, WebLimits};
use althing_protocol::{
    AgentId, AgentKind, Backend, BackendConfig, Clock, ContextPath, Event, JournalError, JournalErrorKind,
    LOG_SCHEMA, Member, Op, OwnedSession, Programs, Seq, SessionId, SessionKind, SessionOpened, SessionStore,
    TaskId,
};
use althing_runner::adapter::Adapters;
use althing_runner::{AcceptedByUser, CliAgentConfig, CliBackend, PlantedCode, ProgramStarter, Sandbox};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::SignalKind;

/// How long a session may take to end, and how long its containers and MCP servers may take to close after that. A
/// Docker daemon on a busy machine is slow, and a container left behind is worse than a slow exit.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for a disk that accepts no writes.
const DISK_TIMEOUT: Duration = Duration::from_secs(60);

/// A team's agents as members of a run, with their backends and tools.
#[derive(Default)]
pub struct TeamBackends {
    /// The agents as members of a run.
    pub members: Vec<Member>,
    /// The backends of the agents.
    pub backends: Backends,
    /// The tools of the agents.
    pub tools: TeamTools,
    /// Whether the client was made with [`http_options`] (for TLS), and the client.
    http: Option<(bool, HttpClient)>,
    /// What agents and programs of the session write that could run code.
    pub planted: Arc<PlantedCode>,
    /// How CLI agents are started, and the MCP endpoints with Althing's tools for them.
    programs: Option<(Arc<ProgramStarter>, Arc<AgentEndpoints>)>,
}

const MAX_CA_BYTES: u64 = 20_000_000;

/// The HTTP options for models and for the OpenTelemetry collector: trusts the certificate authorities of
/// `SSL_CERT_FILE` in addition to the public ones.
pub fn http_options(environment: &Environment) -> Result<HttpOptions, Failure> {
    let Some(file) = environment.variable("SSL_CERT_FILE") else { return Ok(HttpOptions::default()) };
    let pem = althing_disk::read_regular(Path::new(&file), MAX_CA_BYTES).map_err(|error| {
        Failure::usage(format!("{file} (from SSL_CERT_FILE) cannot be read: {error}"))
            .hint("unset SSL_CERT_FILE, or set it to a readable PEM file")
    })?;
    Ok(HttpOptions { extra_ca_pem: Some(pem) })
}

/// Makes the members and backends of a team. `context_paths` are those of the run; an agent needs tools to read them.
pub fn team_backends(
    team: &Team,
    context_paths: Option<&[ContextPath]>,
    app: &AppContext,
) -> Result<TeamBackends, Failure> {
    let mut backends = TeamBackends { tools: TeamTools::of(&team.config), ..TeamBackends::default() };
    backends.tools.code_in_use.files.extend(team.file().map(Path::to_owned));
    backends.tools.server_dir = team.file().and_then(agent_env::server_dir);
    backends.tools.simulated = team.is_simulated();
    for agent in &team.config.agents {
        let member = backends.add(&agent.id, &agent.backend, team, app)?;
        let member = Member {
            system_message: agent.system_message.clone(),
            // A CLI agent always works in a workspace.
            has_tools: member.has_tools
                || backends.tools.has(&agent.id)
                || context_paths.is_some_and(|paths| !paths.is_empty()),
            voting_sensitivity: agent.voting_sensitivity,
            ..member
        };
        backends.members.push(member);
        let docker = agent.tools.commands.as_ref().and_then(|commands| commands.docker.as_ref());
        if let Some(docker) = docker.filter(|_| !team.is_simulated()) {
            let variables = agent_env::container_variables(docker, &app.environment).map_err(|failure| {
                Failure { message: format!("agent {}: {}", agent.id, failure.message), ..failure }
            })?;
            backends.tools.container_variables.insert(agent.id.clone(), variables);
        }
    }
    Ok(backends)
}

impl TeamBackends {
    /// Adds an agent's backend, and returns the agent as a member of a run.
    pub fn add(
        &mut self,
        id: &AgentId,
        config: &BackendConfig,
        team: &Team,
        app: &AppContext,
    ) -> Result<Member, Failure> {
        if AgentKind::of(&config.kind).is_some() {
            return self.add_program(id, config, team, app);
        }
        // Reading the certificates takes milliseconds, so it is done only if TLS is used.
        let tls = config.base_url.as_ref().is_some_and(|url| url.starts_with("https:"));
        let http = match &self.http {
            Some((with_tls, http)) if *with_tls || !tls => http.clone(),
            _ => {
                let options = if tls { http_options(&app.environment)? } else { HttpOptions::default() };
                let http = HttpClient::new(&options)?;
                self.http = Some((tls, http.clone()));
                http
            }
        };
        let prices = PriceTable::new(&team.config.prices);
        let mut config = Cow::Borrowed(config);
        // `OLLAMA_NUM_PARALLEL` is the number of calls of one model that Ollama serves at once.
        if config.kind == "ollama"
            && !config.params.contains_key("max_concurrent")
            && let Some(at_once) =
                app.environment.variable("OLLAMA_NUM_PARALLEL").and_then(|n| n.parse::<u32>().ok())
            && at_once > 0
        {
            config.to_mut().params.insert("max_concurrent".into(), at_once.into());
        }
        let config = &*config;
        let backend = althing_llm::backend(config, &http, &prices)
            .map_err(|error| Failure { message: format!("agent {id}: {error}"), ..Failure::from(error) })?;
        for warning in althing_llm::warnings(config) {
            app.notify(&format!("agent {id}: {warning}"));
        }
        let info = backend.info().clone();
        if !info.offline {
            known_costs::check(id, config, Some(&info.model), team, app)?;
        }
        self.backends.insert(id.clone(), backend);
        Ok(Member {
            id: id.clone(),
            backend: info.kind,
            model: info.model,
            offline: info.offline,
            system_message: None,
            has_tools: false,
            voting_sensitivity: None,
        })
    }
}

impl TeamBackends {
    fn add_program(
        &mut self,
        id: &AgentId,
        config: &BackendConfig,
        team: &Team,
        app: &AppContext,
    ) -> Result<Member, Failure> {
        known_costs::check(id, config, config.model.as_deref(), team, app)?;
        let adapter = AgentKind::of(&config.kind).map(|kind| kind.adapter);
        if let Some(hint) = adapter.and_then(|adapter| programs::sign_in_hint(adapter, app)) {
            app.notify(&format!(
                "agent {id}: it seems that you are not signed in to {}: {hint}",
                config.kind
            ));
        }
        let (starter, endpoints) = self.programs.get_or_insert_with(|| {
            let starter = programs::program_starter(Adapters::default(), team.config.process_limits, app);
            (starter, Arc::new(AgentEndpoints::new(WebLimits::default())))
        });
        if let Some(problem) = adapter.and_then(|adapter| starter.problem_with(adapter)) {
            return Err(Failure::usage(format!("agent {id}: {problem}")));
        }
        let is_confined = matches!(starter.sandbox, Sandbox::Bubblewrap(_) | Sandbox::Landlock);
        self.tools.has_trusting_agents |= starter.trusts_project_settings && !is_confined;
        let dir = app.cli_agents_dir().join(id.as_str());
        let member = CliAgentConfig {
            kind: config.kind.clone(),
            model: config.model.clone(),
            options: config.options.clone(),
            dir,
            prices: known_costs::model_prices(team),
            planted: Arc::clone(&self.planted),
            ..CliAgentConfig::default()
        };
        let backend = CliBackend::new(starter.clone(), endpoints.clone(), member);
        let backend = backend
            .ok_or_else(|| Failure::usage(format!("agent {id}: `{}` is not a CLI agent", config.kind)))?;
        let info = backend.info().clone();
        self.backends.insert(id.clone(), Arc::new(backend));
        Ok(Member {
            id: id.clone(),
            backend: info.kind,
            model: info.model,
            offline: false,
            system_message: None,
            has_tools: true,
            voting_sensitivity: None,
        })
    }
}

/// The kernel sends this signal to a process that writes beyond its limit on file sizes (`ulimit -f`). The number is
/// the same on Linux and macOS.
const SIGXFSZ: i32 = 25;

/// How long the end of a runtime waits for its threads.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// A runtime whose end waits only for a while for threads that are blocked, for example by a file system that does not
/// answer: by then, the results are told and everything is flushed.
pub struct EndingRuntime {
    runtime: Arc<Runtime>,
    /// Dropped after `runtime`, so that this is then the only reference.
    _last: LastReference,
}

struct LastReference(Option<Arc<Runtime>>);

impl Drop for LastReference {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take().and_then(Arc::into_inner) {
            runtime.shutdown_timeout(LAST_WAIT);
        }
    }
}

impl std::ops::Deref for EndingRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// A single-threaded Tokio runtime. Also makes this process survive `SIGXFSZ`: a write beyond the limit on file sizes
/// fails with an error, like a write to a full disk. Programs that Althing starts still get the signal's default
/// action.
pub fn runtime() -> Result<EndingRuntime, Failure> {
    let failed =
        |error: std::io::Error| Failure::no_answer(format!("could not start the async runtime: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let inside = runtime.enter();
    // Tokio's handler stays installed although nobody listens.
    drop(tokio::signal::unix::signal(SignalKind::from_raw(SIGXFSZ)).map_err(failed)?);
    drop(inside);
    let runtime = Arc::new(runtime);
    Ok(EndingRuntime { _last: LastReference(Some(Arc::clone(&runtime))), runtime })
}

/// Runs a future on a separate thread, because the caller may already be inside a Tokio runtime. None if the runtime
/// cannot be started or the future panics.
pub fn block_on_thread<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let waiting = std::thread::spawn(move || Some(runtime().ok()?.block_on(work)));
    waiting.join().ok().flatten()
}

pub(crate) async fn session_envs(
    id: &SessionId,
    tools: TeamTools,
    project: Option<Arc<Project>>,
    state_dir: &Path,
    (dirs, planted): (SessionDirs, Arc<PlantedCode>),
    app: &AppContext,
) -> Arc<SessionEnvs> {
    let notify = app.notifier();
    let mut sandboxes = if tools.runs_commands() || tools.starts_servers() {
        let accepted = app.settings.unconfined.then(AcceptedByUser::explicitly);
        Sandboxes::detect(&std::env::temp_dir(), accepted).await.with_limits(tools.limits)
    } else {
        Sandboxes::none()
    };
    if tools.needs_docker() {
        let socket = agent_env::docker_socket(app.environment.variable("DOCKER_HOST").as_deref());
        sandboxes.docker = agent_env::connect_docker(&notify, &socket).await;
    }
    if tools.runs_commands() {
        let docker = sandboxes.docker.is_some();
        tracing::info!(confinement = ?sandboxes.local.kind(), docker, "where commands run");
    }
    match &sandboxes.local {
        Sandbox::Unconfined(_) if tools.runs_commands() => {
            app.notify("commands run without a sandbox (--unconfined): agents can do everything that you can")
        }
        Sandbox::Refused { why } if tools.runs_commands() => {
            app.notify(&format!(
                "commands are refused because there is no working sandbox: {why} (--unconfined runs them without a sandbox)"
            ));
        }
        _ => {}
    }
    let (id, state_dir) = (id.clone(), state_dir.to_owned());
    let envs = SessionEnvs::new(id, state_dir, tools, project, sandboxes, &app.environment, notify);
    Arc::new(envs.with_dirs(dirs).with_planted_code(planted))
}

pub(crate) struct NewSession {
    /// `None` means a new id.
    pub id: Option<SessionId>,
    pub kind: SessionKind,
    pub goal: String,
    pub op: Op,
    pub project: Option<Arc<Project>>,
}

pub(crate) struct StartedSession {
    pub id: SessionId,
    pub orchestrator: Orchestrator,
    pub envs: Arc<SessionEnvs>,
    /// The recorded events; empty for a new session.
    pub recorded: Vec<Arc<Event>>,
}

/// A random id may be in use already: ids of the same second differ only in 16 bits.
fn create_session(
    store: &dyn SessionStore,
    mut next: impl FnMut() -> SessionId,
) -> Result<(SessionId, OwnedSession), JournalError> {
    loop {
        let id = next();
        match store.create(&id) {
            // The id is used: the session with this id has ended (`Exists`) or is still running (`OwnedElsewhere`).
            Err(error)
                if matches!(error.kind, JournalErrorKind::Exists | JournalErrorKind::OwnedElsewhere) => {}
            created => return created.map(|owned| (id, owned)),
        }
    }
}

pub(crate) fn random_id() -> SessionId {
    althing_journal::new_session_id(SystemClock.now(), fastrand::u64(..))
}

pub(crate) async fn start(
    new: NewSession,
    team: &Team,
    TeamBackends { backends, tools, planted, .. }: TeamBackends,
    programs: Option<Arc<dyn Programs>>,
    app: &AppContext,
) -> Result<StartedSession, Failure> {
    if let Some(place) = secrets::session_mask().secret_place(&new.op) {
        return Err(secret_in_op(&place));
    }
    let store = app.store()?;
    let (id, owned) = match new.id {
        Some(id) => store.create(&id).map(|owned| (id, owned)),
        None => create_session(&*store, random_id),
    }
    .map_err(Failure::stored)?;
    trust::remember_own(&app.session_dir(&id), &app.environment);
    let opening = SessionOpened {
        schema: LOG_SCHEMA,
        session: id.clone(),
        kind: new.kind,
        goal: new.goal,
        cwd: app.environment.cwd.display().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        config_source: team.source.clone(),
        config_text: team.text.clone(),
        config_digest: team.digest.clone(),
        state_dir: app.state_dir().to_str().map(str::to_owned),
        project: new.project.as_deref().map(Project::dir),
        op: Some(new.op),
    };
    let (op, project) = (opening.op.as_ref(), new.project.as_deref());
    let dirs = SessionDirs::new(op, &app.environment.cwd, project, &app.environment);
    let envs = session_envs(&id, tools, new.project.clone(), &app.state_dir(), (dirs, planted), app).await;
    let dependencies = Dependencies { backends, envs: envs.clone(), programs, project: new.project };
    let orchestrator = start_orchestrator(id.clone(), owned, dependencies, Some(opening), app)?;
    Ok(StartedSession { id, orchestrator, envs, recorded: Vec::new() })
}

/// The refusal of an op that contains a secret at `place`. Althing acts on the op as it is recorded, and secrets are
/// masked in the record, so the op could not work.
pub(crate) fn secret_in_op(place: &str) -> Failure {
    Failure::usage(format!(
        "`{place}` contains one of your secrets. Secrets are masked in the session's log, and Althing does not act on a \
         command, variable or path with a mask in it.\nNothing was started or sent."
    ))
    .hint(
        "let the program read the secret from a file or from a variable (in `env`, write it as ${VARIABLE}); if it is no \
         secret, rename the variable that contains it, or start Althing without that variable",
    )
}

pub(crate) struct Dependencies {
    pub backends: Backends,
    pub envs: Arc<SessionEnvs>,
    /// Runs the CLI agents and commands of a workflow.
    pub programs: Option<Arc<dyn Programs>>,
    pub project: Option<Arc<Project>>,
}

/// `opening` is None for a resumed session.
pub(crate) fn start_orchestrator(
    id: SessionId,
    owned: OwnedSession,
    dependencies: Dependencies,
    opening: Option<SessionOpened>,
    app: &AppContext,
) -> Result<Orchestrator, Failure> {
    let OwnedSession { journal, reader, events: history, .. } = owned;
    programs::clean_left_settings(app);
    let state_dir = app.state_dir();
    let dir = app.session_dir(&id);
    let (name, log_dir) = (id.clone(), dir.display().to_string());
    let known = history.last().map_or(Seq(0), |event| event.seq);
    let watch = dependencies.envs.delivery_watch();
    let mut recorder = ProjectRecorder::new(
        id.clone(),
        state_dir.clone(),
        dependencies.project.map(|project| (project, watch)),
        app.notifier(),
        &history,
    );
    let edit_trust = EditTrust::of(&app.environment);
    let mut edit_recorder = EditTrustRecorder::new(edit_trust, app.notifier(), &history);
    let parts = SessionDeps {
        session: id,
        reader,
        journal,
        history,
        backends: dependencies.backends,
        agent_envs: Some(dependencies.envs),
        programs: dependencies.programs,
        plans: Some(Arc::new(StoredPlans { state_dir, environment: app.environment.clone() })),
        observer: Some(Box::new(move |event| {
            crate::failpoint::hit("fact");
            recorder.observe(event);
            edit_recorder.observe(event);
        })),
        reporter: Some(reports::reporter(name.clone(), app.store()?, app)),
        account: app.account.clone(),
        clock: Arc::new(SystemClock),
        mask: secrets::session_mask(),
        task_dir: Box::new(move |task: &TaskId| {
            crate::failpoint::hit("session");
            althing_journal::task_dir(&dir, task).display().to_string()
        }),
        runtime: Handle::current(),
        journal_retry_timeout: DISK_TIMEOUT,
    };
    let orchestrator = Orchestrator::open(parts, opening)
        .map_err(|error| Failure::no_answer(format!("could not start a thread: {error}")))?;
    tracing::info!(session = %name, dir = %log_dir, facts_before = known.0, "session opened");
    otlp_export::follow(&orchestrator, known);
    Ok(orchestrator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_in_use_is_not_given_to_a_new_session() {
        let dir = tempfile::tempdir().unwrap();
        let store = althing_journal::open_state(dir.path(), althing_journal::Owners::Me).unwrap();
        let mut ids = ["20261119-163104-0851", "20261119-163104-0851", "20261119-163104-0852"].into_iter();
        let mut next = || SessionId::new(ids.next().unwrap());
        let (first, _owned) = create_session(&store, &mut next).unwrap();
        let (second, _owned) = create_session(&store, &mut next).unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn a_thread_that_waits_for_ever_does_not_keep_the_runtime() {
        let (stay, wait) = std::sync::mpsc::channel::<()>();
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = runtime().unwrap();
            drop(runtime.spawn_blocking(move || wait.recv()));
            drop(runtime);
            let _ = ended.send(());
        });
        end.recv_timeout(Duration::from_secs(60)).unwrap();
        drop(stay);
    }
}
