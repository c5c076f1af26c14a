//! Wires a session: the journal below, backends beside, the engine between them.

use crate::agent_env::{self, Places, TeamTools, Walls};
use crate::context::AppContext;
use crate::environment::{Environment, SystemClock};
use crate::failure::Failure;
use crate::observe;
use crate::plans::StoredPlans;
use crate::programs;
use crate::project::Project;
use crate::records::Records;
use crate::secrets;
use crate::team::Team;
use crate::trust;
use althing_engine::{Backends, Orchestrator, SessionDeps};
use althing_llm::{HttpClient, HttpOptions, PriceTable};
use althing_mcp::{AgentEndpoints, WebLimits};
use althing_protocol::{
    AgentId, AgentKind, Backend, BackendConfig, Clock, ContextPath, LOG_SCHEMA, Member, Op, OwnedSession,
    Programs, Seq, SessionId, SessionKind, SessionOpened, SessionSummary, TaskId,
};
use althing_runner::adapter::Adapters;
use althing_runner::{AcceptedByUser, CliAgentConfig, CliBackend, Confinement, ProgramStarter};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// How long agents' programs and containers may take to end. Mostly it is a moment, but a daemon on a busy machine takes its
/// time, and a container that is left behind is worse than a slow exit.
pub const CLOSING: Duration = Duration::from_secs(10);
/// How long a disk that takes nothing is waited for.
const DISK_PATIENCE: Duration = Duration::from_secs(60);

/// The agents of a team as members of a run, with their backends.
#[derive(Default)]
pub struct Cast {
    /// The agents, as members of a run.
    pub members: Vec<Member>,
    /// The backend of each agent.
    pub backends: Backends,
    /// The tools of each agent.
    pub tools: TeamTools,
    /// How models are reached, and whether over TLS.
    http: Option<(bool, HttpClient)>,
    /// How programs that are agents are started, and where they find our tools.
    programs: Option<(Arc<ProgramStarter>, Arc<AgentEndpoints>)>,
}

/// How to reach models from here: with the user's own certificate authorities besides the public ones.
pub fn http_options(environment: &Environment) -> Result<HttpOptions, Failure> {
    let Some(file) = environment.variable("SSL_CERT_FILE") else { return Ok(HttpOptions::default()) };
    let pem = std::fs::read(&file).map_err(|error| {
        Failure::usage(format!("{file} (from SSL_CERT_FILE) cannot be read: {error}"))
            .hint("unset it, or name a PEM file")
    })?;
    Ok(HttpOptions { extra_ca_pem: Some(pem) })
}

/// Makes the backends of a team's agents.
pub fn cast(team: &Team, about: Option<&[ContextPath]>, app: &AppContext) -> Result<Cast, Failure> {
    let mut cast = Cast { tools: TeamTools::of(&team.config), ..Cast::default() };
    for agent in &team.config.agents {
        let member = cast.add(&agent.id, &agent.backend, team, app)?;
        let member = Member {
            system_message: agent.system_message.clone(),
            // Who is to work on paths must be able to look at them.
            has_tools: cast.tools.has(&agent.id) || about.is_some_and(|paths| !paths.is_empty()),
            voting_sensitivity: agent.voting_sensitivity,
            ..member
        };
        cast.members.push(member);
    }
    Ok(cast)
}

impl Cast {
    /// Gives an agent its backend; what is known of it as a member.
    pub fn add(
        &mut self,
        id: &AgentId,
        config: &BackendConfig,
        team: &Team,
        app: &AppContext,
    ) -> Result<Member, Failure> {
        if AgentKind::of(&config.kind).is_some() {
            return self.add_program(id, config, app);
        }
        // Reading a system's certificates takes milliseconds; only those who use TLS pay for it.
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
        let backend = althing_llm::backend(config, &http, &prices)
            .map_err(|error| Failure { message: format!("agent {id}: {error}"), ..Failure::from(error) })?;
        for warning in althing_llm::warnings(config) {
            app.notify(&format!("agent {id}: {warning}"));
        }
        let info = backend.info().clone();
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

impl Cast {
    /// Gives an agent that is a program its backend.
    fn add_program(
        &mut self,
        id: &AgentId,
        config: &BackendConfig,
        app: &AppContext,
    ) -> Result<Member, Failure> {
        let (starter, endpoints) = self.programs.get_or_insert_with(|| {
            let starter = programs::starter(Adapters::default(), app);
            (starter, Arc::new(AgentEndpoints::new(WebLimits::default())))
        });
        let dir = app.state_dir().join("agents").join(id.as_str());
        let member = CliAgentConfig {
            kind: config.kind.clone(),
            model: config.model.clone(),
            options: config.options.clone(),
            dir,
            ..CliAgentConfig::default()
        };
        let backend = CliBackend::new(starter.clone(), endpoints.clone(), member);
        let backend = backend
            .ok_or_else(|| Failure::usage(format!("agent {id}: `{}` is no CLI agent", config.kind)))?;
        let info = backend.info().clone();
        self.backends.insert(id.clone(), Arc::new(backend));
        Ok(Member {
            id: id.clone(),
            backend: info.kind,
            model: info.model,
            offline: false,
            system_message: None,
            // It works in a directory of its own.
            has_tools: true,
            voting_sensitivity: None,
        })
    }
}

/// The conversation that the options name, if they name one.
pub fn to_go_on_with(app: &AppContext) -> Result<Option<SessionId>, Failure> {
    if let Some(id) = &app.settings.session {
        return Ok(Some(SessionId::new(id.as_str())));
    }
    if !app.settings.go_on {
        return Ok(None);
    }
    let sessions = match app.existing_store()? {
        Some(store) => store.list().map_err(Failure::stored)?,
        None => Vec::new(),
    };
    let is_chat = |session: &SessionSummary| {
        session.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.kind == SessionKind::Chat)
    };
    let newest = sessions.into_iter().find(|session| is_chat(session) && !session.is_owned);
    let found = newest.map(|session| session.id);
    found.map(Some).ok_or_else(|| {
        Failure::usage(format!("there is no conversation to go on with in {}", app.state_dir().display()))
            .hint("`althing sessions` lists what is there")
    })
}

/// The runtime on which model calls run: one thread, since they mostly wait.
pub fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::no_answer(format!("the system gives no event loop: {error}")))
}

/// Waits for something in a thread of its own: whoever asks may be inside an event loop already, where no other may turn.
pub fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let waiting = std::thread::spawn(move || Some(runtime().ok()?.block_on(work)));
    waiting.join().ok().flatten()
}

/// The places where a session's agents work, those of them that have tools.
pub(crate) async fn places(
    id: &SessionId,
    tools: TeamTools,
    project: Option<Arc<Project>>,
    state_dir: &Path,
    app: &AppContext,
) -> Arc<Places> {
    let tell = app.notifier();
    let mut walls = if tools.runs_commands() || tools.starts_servers() {
        let accepted = app.settings.unconfined.then(AcceptedByUser::explicitly);
        Walls::find(&std::env::temp_dir(), accepted).await
    } else {
        Walls::unneeded()
    };
    if tools.needs_docker() {
        let socket = agent_env::docker_socket(app.environment.variable("DOCKER_HOST").as_deref());
        walls.docker = agent_env::docker(&tell, &socket).await;
    }
    if tools.runs_commands() {
        let docker = walls.docker.is_some();
        tracing::info!(confinement = ?walls.local.kind(), docker, "where commands run");
    }
    match &walls.local {
        Confinement::Unconfined(_) if tools.runs_commands() => {
            app.notify("commands run unconfined, as you accepted: agents can do whatever you can")
        }
        Confinement::Refused { why } if tools.runs_commands() => {
            app.notify(&format!(
                "commands are refused, since nothing here can confine them: {why} (--unconfined accepts the risk)"
            ));
        }
        _ => {}
    }
    Arc::new(Places::new(id.clone(), state_dir.to_owned(), tools, project, walls, &app.environment, tell))
}

/// A session that is to be started.
pub(crate) struct NewSession {
    /// What kind of session it is.
    pub kind: SessionKind,
    /// What it is for, in the user's words.
    pub goal: String,
    /// What it is opened to do.
    pub op: Op,
    /// The project that it works in.
    pub project: Option<Arc<Project>>,
}

/// A session that was started, with what must be closed after it.
pub(crate) struct Started {
    /// The session's id.
    pub id: SessionId,
    /// The session under supervision.
    pub orchestrator: Orchestrator,
    /// Its agents' workspaces.
    pub places: Arc<Places>,
}

/// Starts a session: its directory, its places, its log, its first op.
pub(crate) async fn begin(
    new: NewSession,
    team: &Team,
    Cast { backends, tools, .. }: Cast,
    programs: Option<Arc<dyn Programs>>,
    app: &AppContext,
) -> Result<Started, Failure> {
    let store = app.store()?;
    let id = althing_journal::new_session_id(SystemClock.now(), fastrand::u64(..));
    let owned = store.create(&id).map_err(Failure::stored)?;
    trust::note_own(&app.session_dir(&id), &app.environment);
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
    let places = places(&id, tools, new.project.clone(), &app.state_dir(), app).await;
    let staff = Staff { backends, places: places.clone(), programs, project: new.project };
    let orchestrator = open(id.clone(), owned, staff, Some(opening), app)?;
    Ok(Started { id, orchestrator, places })
}

/// Who and what works in a session.
pub(crate) struct Staff {
    /// The backend of each agent.
    pub backends: Backends,
    /// The agents' workspaces.
    pub places: Arc<Places>,
    /// What runs the programs of a workflow.
    pub programs: Option<Arc<dyn Programs>>,
    /// The project that it works in.
    pub project: Option<Arc<Project>>,
}

/// Puts a session under supervision.
pub(crate) fn open(
    id: SessionId,
    owned: OwnedSession,
    staff: Staff,
    opening: Option<SessionOpened>,
    app: &AppContext,
) -> Result<Orchestrator, Failure> {
    let OwnedSession { journal, reader, events: history, .. } = owned;
    let state_dir = app.state_dir();
    let dir = app.session_dir(&id);
    let (name, log_dir) = (id.clone(), dir.display().to_string());
    let known = history.last().map_or(Seq(0), |event| event.seq);
    let mut records = Records::new(id.clone(), state_dir.clone(), staff.project, app.notifier(), &history);
    let parts = SessionDeps {
        session: id,
        reader,
        journal,
        history,
        backends: staff.backends,
        agent_envs: Some(staff.places),
        programs: staff.programs,
        plans: Some(Arc::new(StoredPlans { state_dir, environment: app.environment.clone() })),
        observer: Some(Box::new(move |event| {
            crate::failpoint::may_happen("fact");
            records.take(event);
        })),
        clock: Arc::new(SystemClock),
        mask: secrets::session_mask(),
        task_dir: Box::new(move |task: &TaskId| {
            crate::failpoint::may_happen("session");
            althing_journal::task_dir(&dir, task).display().to_string()
        }),
        runtime: Handle::current(),
        journal_retry_timeout: DISK_PATIENCE,
    };
    let orchestrator = Orchestrator::open(parts, opening)
        .map_err(|error| Failure::no_answer(format!("the system gives no thread: {error}")))?;
    tracing::info!(session = %name, dir = %log_dir, facts_before = known.0, "session opened");
    observe::follow(&orchestrator, known);
    Ok(orchestrator)
}
