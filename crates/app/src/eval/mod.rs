//! Evaluations: teams answer tasks with known solutions, so that teams and decision rules can be compared. Each
//! answer is a run in its own session; rules are compared by counting the recorded ballots again. The same command
//! resumes an interrupted evaluation.

mod checks;
mod command_check;
mod outcome;
mod record;
mod report;
pub mod stats;
mod tasks;

pub use checks::CheckedAnswer;
pub use outcome::{NamedRule, RULES, RunOutcome};
pub use record::Cell;
pub use report::{CellReport, EvalReport, RuleRow, TeamReport};
pub use tasks::{Check, EvalTask, read_tasks};

use crate::context::AppContext;
use crate::failure::{Failure, FailureKind};
use crate::prepare::RunDraft;
use crate::service::{LocalSessions, SessionService};
use crate::session;
use crate::session_launch::SessionRequest;
use crate::team::{self, Team};
use crate::trust;
use althing_engine::{CostAccount, OnRefusal};
use althing_protocol::{Event, Interest, JournalErrorKind, Seq, SessionId, TaskId};
use command_check::CommandChecks;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use record::Record;
use std::cell::{Cell as Shared, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to evaluate.
pub struct EvalRequest {
    /// The file of tasks.
    pub tasks: PathBuf,
    /// The configs of the teams; if empty, the team of the settings is used.
    pub teams: Vec<PathBuf>,
    /// How often each team answers each task.
    pub repeat: u32,
    /// How many runs are in progress at a time.
    pub jobs: usize,
    /// Whether to ignore the runs of an earlier evaluation.
    pub fresh: bool,
}

struct EvalTeam {
    /// The config file as named, or where the team comes from.
    name: String,
    app: AppContext,
}

#[derive(Default)]
struct Stopping {
    is_stopped: Shared<bool>,
    notify: tokio::sync::Notify,
}

impl Stopping {
    fn stop(&self) {
        self.is_stopped.set(true);
        self.notify.notify_waiters();
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.get()
    }
}

/// The progress of an evaluation.
#[derive(Clone, Copy, Debug)]
pub struct EvalProgress {
    /// The number of runs that are over.
    pub done: usize,
    /// The number of all runs.
    pub total: usize,
    /// The cost of all runs so far, in US dollars.
    pub cost_usd: f64,
    /// The estimated remaining time; `None` while nothing is known.
    pub left: Option<Duration>,
}

/// An evaluation whose tasks and teams were read.
pub struct Eval {
    /// A digest of the tasks, the teams and the modes.
    pub id: String,
    tasks: Vec<EvalTask>,
    teams: Vec<EvalTeam>,
    cells: Vec<Cell>,
    jobs: usize,
    /// The cost limit of all runs together; infinite without `--max-cost`.
    account: Arc<CostAccount>,
    record: RefCell<Record>,
    fresh: bool,
}

/// Why an evaluation stopped before all runs were over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalStop {
    /// The user asked for it.
    Asked,
    /// The cost limit was reached.
    Cost,
}

impl Eval {
    /// Reads the tasks and the teams. Starts nothing.
    pub fn prepare(request: &EvalRequest, app: &AppContext) -> Result<Self, Failure> {
        let tasks = read_tasks(&request.tasks)?;
        let with_config = |config: &PathBuf| {
            let mut app = app.clone();
            app.settings.config = Some(config.clone());
            app
        };
        let apps: Vec<AppContext> = if request.teams.is_empty() {
            vec![app.clone()]
        } else {
            request.teams.iter().map(with_config).collect()
        };
        let limit = app.settings.max_cost.unwrap_or(f64::INFINITY);
        let account = Arc::new(CostAccount::new(limit, OnRefusal::StopSession));
        let (mut teams, mut identity) = (Vec::new(), String::new());
        for app in apps {
            let team = team::assemble(&app)?;
            team.announce(&app);
            identity.push_str(&team.digest);
            identity.push('\n');
            let name = name_of(&team, &app);
            let mut app = app;
            app.account = Some(account.clone());
            teams.push(EvalTeam { name, app });
        }
        let settings = &app.settings;
        let modes = (&settings.quick, &settings.single_agent, &settings.agents, &settings.offline);
        let modes = format!("{modes:?}");
        identity.push_str(&modes);
        for task in &tasks {
            identity.extend(["\n", &task.line.to_string()]);
        }
        let id: String = team::digest(&identity).chars().take(16).collect();
        let record = RefCell::new(Record::open(&id, app)?);
        // The teams are in the innermost loop, so that a stopped evaluation has compared all teams on the same tasks.
        let mut cells = Vec::new();
        for repeat in 1..=request.repeat {
            for task in &tasks {
                cells.extend((0..teams.len()).map(|team| Cell { team, task: task.id.clone(), repeat }));
            }
        }
        let (jobs, fresh) = (request.jobs.max(1), request.fresh);
        Ok(Self { id, tasks, teams, cells, jobs, account, record, fresh })
    }

    /// Runs what is missing, checks all answers and reports. When `stop` ends, the running sessions stop; they can be
    /// continued later.
    pub async fn run(
        &self,
        stop: impl Future<Output = ()>,
        on_progress: &dyn Fn(EvalProgress),
        rules: &[NamedRule],
    ) -> Result<(EvalReport, Option<EvalStop>), Failure> {
        let commands = if self.tasks.iter().any(|task| matches!(task.check, Check::Command { .. })) {
            let app = self.teams.first().map(|team| &team.app);
            Some(CommandChecks::new(app.ok_or_else(|| Failure::usage("there is no team"))?).await?)
        } else {
            None
        };
        let (outcomes, stopped) = self.run_cells(stop, on_progress).await?;
        let report = self.report(&outcomes, rules, commands.as_ref()).await?;
        Ok((report, stopped))
    }

    async fn run_cells(
        &self,
        stop: impl Future<Output = ()>,
        on_progress: &dyn Fn(EvalProgress),
    ) -> Result<(BTreeMap<Cell, (SessionId, RunOutcome)>, Option<EvalStop>), Failure> {
        let account = &*self.account;
        let (mut outcomes, mut missing) = (BTreeMap::new(), Vec::new());
        for cell in &self.cells {
            match self.recorded(cell)? {
                Some((id, outcome)) => {
                    account.add_recorded(&id, outcome.usage.cost_usd);
                    if outcome.is_over() {
                        outcomes.insert(cell.clone(), (id, outcome));
                    } else {
                        missing.push((cell, Some(id)));
                    }
                }
                None => missing.push((cell, None)),
            }
        }
        let stopping = Stopping::default();
        let (mut waiting, mut running) = (missing.into_iter(), FuturesUnordered::new());
        let (began, mut measured) = (Instant::now(), 0_u32);
        let (mut why, mut failure) = (None, None);
        tokio::pin!(stop);
        loop {
            // After a refused call, the other runs continue as long as the rest of the money allows their calls.
            if (account.is_used_up() || account.has_refused()) && why.is_none() && failure.is_none() {
                why = Some(EvalStop::Cost);
            }
            while why.is_none() && failure.is_none() && running.len() < self.jobs {
                let Some((cell, begun)) = waiting.next() else { break };
                let stopping = &stopping;
                running.push(async move { (cell, self.run_cell(cell, begun, stopping).await) });
            }
            tokio::select! {
                ended = running.next() => match ended {
                    None => break,
                    Some((cell, Ok(done))) => {
                        if let Some((session, outcome)) = done {
                            measured += 1;
                            outcomes.insert(cell.clone(), (session, outcome));
                        }
                        let (done, total) = (outcomes.len(), self.cells.len());
                        let each = began.elapsed().checked_div(measured);
                        let missing = u32::try_from(total - done).unwrap_or(u32::MAX);
                        let left = each.map(|each| each.saturating_mul(missing));
                        on_progress(EvalProgress { done, total, cost_usd: account.spent_usd(), left });
                    }
                    Some((_, Err(error))) => {
                        failure.get_or_insert(error);
                        stopping.stop();
                    }
                },
                () = &mut stop, if why != Some(EvalStop::Asked) => {
                    why = Some(EvalStop::Asked);
                    stopping.stop();
                }
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None if outcomes.len() == self.cells.len() => Ok((outcomes, None)),
            None => Ok((outcomes, why)),
        }
    }

    /// `None` if nothing was recorded, or if the evaluation ignores earlier runs.
    fn recorded(&self, cell: &Cell) -> Result<Option<(SessionId, RunOutcome)>, Failure> {
        let known = self.record.borrow().session(cell).cloned().filter(|_| !self.fresh);
        let (Some(id), Some(team)) = (known, self.teams.get(cell.team)) else { return Ok(None) };
        Ok(read(&id, &team.app)?.map(|outcome| (id, outcome)))
    }

    /// Starts a run, or continues the session `begun`. `None` if the run was stopped before its end.
    async fn run_cell(
        &self,
        cell: &Cell,
        begun: Option<SessionId>,
        stopping: &Stopping,
    ) -> Result<Option<(SessionId, RunOutcome)>, Failure> {
        let (Some(team), Some(task)) = (self.teams.get(cell.team), self.task(&cell.task)) else {
            return Ok(None);
        };
        if stopping.is_stopped() {
            return Ok(None);
        }
        if let Some(id) = begun {
            let sessions = LocalSessions::new(team.app.clone());
            let request = SessionRequest::Resume { id: id.clone(), can_ask: false };
            return self.follow(id, &sessions, request, team, stopping).await;
        }
        let mut draft = RunDraft::of(&team.app, None)?;
        draft.set_untyped_task(task.task.clone());
        let (sessions, mut request) = draft.finish()?;
        let id = unused_id(session::random_id, |id| {
            self.record.borrow().has(id) || team.app.session_dir(id).exists()
        });
        self.record.borrow_mut().add(cell.clone(), id.clone())?;
        request.session = Some(id.clone());
        self.follow(id, &sessions, SessionRequest::Run(Box::new(request)), team, stopping).await
    }

    async fn follow(
        &self,
        id: SessionId,
        sessions: &LocalSessions,
        request: SessionRequest,
        team: &EvalTeam,
        stopping: &Stopping,
    ) -> Result<Option<(SessionId, RunOutcome)>, Failure> {
        let stopped = stopping.notify.notified();
        tokio::pin!(stopped);
        // From here on, a notification is not missed even if nothing polls the future yet.
        stopped.as_mut().enable();
        sessions.launch(request).await?;
        let mut events = sessions.follow(&id, Seq(0), Interest::Facts).await?;
        loop {
            tokio::select! {
                item = events.next() => match item {
                    // When all the money is spent, calls that are still running would only cost more.
                    Some(Ok(_)) if self.account.is_used_up() => stopping.stop(),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => break,
                },
                () = &mut stopped => {
                    sessions.close().await;
                    break;
                }
            }
        }
        sessions.close().await;
        let outcome = read(&id, &team.app)?;
        Ok(outcome.filter(RunOutcome::is_over).map(|outcome| (id, outcome)))
    }

    fn task(&self, id: &str) -> Option<&EvalTask> {
        self.tasks.iter().find(|task| task.id == id)
    }
}

/// `None` if the session does not exist or has recorded nothing.
fn read(id: &SessionId, app: &AppContext) -> Result<Option<RunOutcome>, Failure> {
    let Some(store) = app.existing_store()? else { return Ok(None) };
    if store.summary(id).map_err(Failure::stored)?.is_none() {
        return Ok(None);
    }
    let events: Vec<Arc<Event>> = match store.read(id, Seq(0)) {
        // The evaluation was killed after it had created the session.
        Err(error) if error.kind == JournalErrorKind::Blank => return Ok(None),
        read => read.map_err(Failure::stored)?.events,
    };
    if events.is_empty() {
        return Ok(None);
    }
    trust::require_known_session(&app.session_dir(id), app)?;
    Ok(RunOutcome::of(id, &TaskId::run(1), &events))
}

fn name_of(team: &Team, app: &AppContext) -> String {
    let named = app.settings.config.as_ref().map(|config| config.display().to_string());
    named.unwrap_or_else(|| team.source.clone())
}

impl EvalStop {
    /// The kind of failure, which decides the exit status.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Asked => FailureKind::Interrupted,
            Self::Cost => FailureKind::Limit,
        }
    }
}

/// Many runs of an evaluation may begin in the same second. Ids of the same second differ only in 16 bits, so the next
/// id may be in use already.
fn unused_id(mut next: impl FnMut() -> SessionId, is_used: impl Fn(&SessionId) -> bool) -> SessionId {
    loop {
        let id = next();
        if !is_used(&id) {
            return id;
        }
    }
}
