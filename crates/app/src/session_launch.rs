//! Turns a front end's request into a session: a run, a conversation, a workflow, or a resumed session.

use crate::agent_selection::AgentSelection;
use crate::context::AppContext;
use crate::context_paths;
use crate::conversation::{self, Conversation};
use crate::failure::Failure;
use crate::programs;
use crate::project::Project;
use crate::resume;
use crate::service::LocalSessions;
use crate::session::{self, NewSession, StartedSession, TeamBackends};
use crate::team::Team;
use crate::work_dirs::SessionDirs;
use crate::workflow::Workflow;
use althing_engine::{Consent, resolve_launch};
use althing_protocol::{
    ContextPath, Exchange, LaunchRun, ModeChoice, Op, PlanRun, Proposal, RunSpec, SessionId, SessionKind,
    TaskId, TeamSpec,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a front end asks for.
pub enum SessionRequest {
    /// A run.
    Run(Box<RunRequest>),
    /// A conversation.
    Chat(ChatRequest),
    /// A workflow.
    Workflow(Box<Workflow>),
    /// Resumes a session that stopped.
    Resume {
        /// The session.
        id: SessionId,
        /// Whether a person is present now who can be asked before the chat agent changes files.
        can_ask: bool,
    },
    /// Retries a task of a workflow that is over.
    Retry(SessionId, TaskId),
}

/// A request for a run; [`crate::prepare`] makes it from the settings.
pub struct RunRequest {
    /// The arguments of `launch_run`.
    pub launch: LaunchRun,
    /// Context paths from the config, the project, and a person's grants.
    pub context_paths: Vec<ContextPath>,
    /// The stored plan to execute.
    pub plan: Option<PlanRun>,
    /// The messages and answers of the session that the run continues.
    pub history: Vec<Exchange>,
    /// Whether a person consented to the run's permissions.
    pub consent: Consent,
    /// The cost limit in millionths of a US dollar; the config and the settings may set a lower limit.
    pub cost_micro_usd: Option<u64>,
    /// The id of the new session; if this is `None`, one is generated.
    pub session: Option<SessionId>,
}

/// A request for a conversation; [`crate::prepare`] makes it from the settings.
pub struct ChatRequest {
    /// The agents and modes that the user chose.
    pub selection: AgentSelection,
    /// The title of the conversation in lists of sessions.
    pub goal: String,
    /// Whether a person is present who can override winners.
    pub attended: bool,
    /// Whether a person is present who can be asked about a run that needs more access than runs get without
    /// approval.
    pub can_ask: bool,
    /// What was said in the session that the conversation continues, if that session was a run; for a branch, what was
    /// said before it.
    pub history: Vec<Exchange>,
    /// The session of which the conversation is a branch.
    pub branch_of: Option<SessionId>,
}

pub(crate) async fn start(
    request: SessionRequest,
    sessions: &LocalSessions,
    app: &AppContext,
) -> Result<StartedSession, Failure> {
    match request {
        SessionRequest::Run(request) => {
            let team = sessions.team()?;
            let backends = session::team_backends(team, Some(&request.context_paths), app)?;
            let project = sessions.project().map(Arc::as_ref);
            let id = request.session.clone();
            let spec = run_spec(*request, team, &backends, project, app)?;
            let (goal, op) = (spec.task.clone(), Op::StartRun { spec: Box::new(spec) });
            let project = sessions.project().cloned();
            let new = NewSession { id, kind: SessionKind::Run, goal, op, project };
            session::start(new, team, backends, None, app).await
        }
        SessionRequest::Chat(request) => {
            let project = sessions.project().map(Arc::as_ref);
            let Conversation { spec, backends } =
                conversation::assemble(sessions.team()?, &request, project, app)?;
            let goal = request.goal;
            let op = Op::StartChat { spec: Box::new(spec) };
            let project = sessions.project().cloned();
            let new = NewSession { id: None, kind: SessionKind::Chat, goal, op, project };
            session::start(new, sessions.team()?, backends, None, app).await
        }
        SessionRequest::Workflow(workflow) => {
            let team = sessions.team()?;
            let project = sessions.project().map(Arc::as_ref);
            let context_paths = conversation::team_context_paths(team, project, app)?;
            let mut backends = if workflow.has_runs() {
                session::team_backends(team, Some(&context_paths), app)?
            } else {
                TeamBackends::default()
            };
            let spec = workflow
                .resolve(&conversation::team_spec(team, &backends, context_paths, project, app), app)?;
            programs::check_tasks(&spec, team, app)?;
            let adapters: Vec<_> = spec.adapters.iter().chain(&team.config.adapters).cloned().collect();
            backends.tools.code_in_use.files.push(PathBuf::from(&spec.source));
            let cwd = &app.environment.cwd;
            backends.tools.code_in_use.extend(conversation::adapter_code(&adapters, cwd, app));
            let source = Path::new(&spec.source);
            let protected = conversation::protected_paths(team, (source, &adapters), cwd, app);
            let goal = if spec.goal.is_empty() { spec.name.clone() } else { spec.goal.clone() };
            let new = NewSession {
                id: None,
                kind: SessionKind::Workflow,
                goal,
                op: Op::StartWorkflow { spec: Box::new(spec) },
                project: sessions.project().cloned(),
            };
            let dirs = SessionDirs::new(Some(&new.op), &app.environment.cwd, project, &app.environment);
            let programs =
                programs::assemble(adapters, protected, (dirs, Arc::clone(&backends.planted)), team, app);
            session::start(new, team, backends, Some(programs), app).await
        }
        SessionRequest::Resume { id, can_ask } => resume::resume(&id, Op::Resume, can_ask, app).await,
        SessionRequest::Retry(id, task) => resume::resume(&id, Op::Retry { task }, false, app).await,
    }
}

fn run_spec(
    request: RunRequest,
    team: &Team,
    backends: &TeamBackends,
    project: Option<&Project>,
    app: &AppContext,
) -> Result<RunSpec, Failure> {
    let RunRequest { launch, context_paths, plan, history, consent, cost_micro_usd, session: _ } = request;
    let team = conversation::team_spec(team, backends, context_paths, project, app);
    let mut spec = resolve(&team, &launch, consent).map_err(Failure::usage)?;
    check_links(&team, &spec).map_err(Failure::usage)?;
    spec.plan = plan;
    let limits = &mut spec.rules.limits;
    limits.cost_micro_usd = limits.cost_micro_usd.into_iter().chain(cost_micro_usd).min();
    if let Some(execution) = &mut spec.execution {
        execution.history.clone_from(&history);
    }
    spec.history = history;
    Ok(spec)
}

/// Fails if a context path that no person approved does not exist, or needs a person's approval.
pub(crate) fn check_links(team: &TeamSpec, spec: &RunSpec) -> Result<(), String> {
    let dirs: Vec<PathBuf> = team.readable_dirs.iter().map(PathBuf::from).collect();
    context_paths::confined_context(spec, &dirs).map(drop)
}

pub(crate) fn resolve(team: &TeamSpec, launch: &LaunchRun, consent: Consent) -> Result<RunSpec, String> {
    let resolved = resolve_launch(team, launch, &ModeChoice::default(), consent, fastrand::u64(..));
    resolved.map(|launch| launch.spec)
}

pub(crate) fn proposal(team: &TeamSpec, launch: &LaunchRun) -> Result<Proposal, String> {
    let resolved = resolve_launch(team, launch, &ModeChoice::default(), Consent::Person, fastrand::u64(..));
    resolved.map(|launch| launch.proposal)
}
