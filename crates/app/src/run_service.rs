//! Runs as a service for MCP clients. Each run is a session of its own, started here or found in the state directory.

use crate::context::AppContext;
use crate::context_paths;
use crate::conversation;
use crate::failure::Failure;
use crate::past_runs;
use crate::project;
use crate::run_account::RunAccount;
use crate::service::{self, LocalSessions, SessionService};
use crate::session;
use crate::session_launch::{self, RunRequest, SessionRequest};
use crate::team::{self, Team};
use crate::trust;
use althing_engine::{Consent, check_texts, launch_run_spec, result_for_client};
use althing_mcp::{RunDir, RunFeed, RunFile, RunOutcome, RunService, RunSummary, RunUpdate};
use althing_protocol::{
    BoxFuture, Decision, Event, EventStream, Fact, FeedItem, InteractionId, Interest, LaunchRun, Op, Origin,
    RunStatus, Seq, SessionId, SessionKind, Submission, TaskId, TaskStatus, TeamSpec, ToolSpec,
};
use althing_text::sanitize;
use althing_view::{ProgressLines, SessionView};
use althing_workspace::PathContents;
use std::path::PathBuf;
use std::sync::Arc;

const MAX_FILE_BYTES: u64 = 4 << 20;

/// Starts runs for MCP clients, and finds earlier ones.
pub struct LocalRunService {
    app: AppContext,
    team_spec: TeamSpec,
    sessions: Arc<LocalSessions>,
    account: Arc<RunAccount>,
}

impl LocalRunService {
    /// A service that starts runs of this team.
    pub fn new(team: Team, mut app: AppContext) -> Result<Self, Failure> {
        let project = project::from_settings(&app)?;
        let context_paths = conversation::team_context_paths(&team, project.as_deref(), &app)?;
        let backends = session::team_backends(&team, Some(&context_paths), &app)?;
        let mut team_spec =
            conversation::team_spec(&team, &backends, context_paths, project.as_deref(), &app);
        past_runs::add(&mut team_spec, &app);
        let budget = team.interactive().and_then(|interactive| interactive.budget_usd).map(team::micro_usd);
        let account = Arc::new(RunAccount::new(team::max_cost(&app).into_iter().chain(budget).min()));
        app.account = account.common();
        let sessions = Arc::new(LocalSessions::with_team(app.clone(), Arc::new(team), project));
        Ok(Self { app, team_spec, sessions, account })
    }

    /// The team that runs use.
    pub fn team(&self) -> &TeamSpec {
        &self.team_spec
    }

    /// `None` if `run` is not a run id, if its session cannot be read, or if this user neither started nor trusts the
    /// session: its log could name any directory as a workspace.
    async fn events(&self, run: &str) -> Option<Vec<Arc<Event>>> {
        let (session, _) = split_run_id(run)?;
        let session = SessionId::new(session);
        trust::require_known_session(&self.app.session_dir(&session), &self.app).ok()?;
        Some(self.sessions.read(&session).await.ok()?.events)
    }

    async fn start(&self, launch: LaunchRun, approved: bool) -> Result<String, Failure> {
        check_texts(&launch).map_err(Failure::usage)?;
        if let Some(problem) = self.account.problem() {
            return Err(Failure::usage(problem));
        }
        let context_paths = self.team_spec.context_paths.clone();
        let consent = if approved { Consent::Person } else { Consent::Nobody };
        let cost_micro_usd = self.account.left();
        let (plan, history, session) = (None, Vec::new(), None);
        let request = RunRequest { launch, context_paths, plan, history, consent, cost_micro_usd, session };
        let id = self.sessions.launch(SessionRequest::Run(Box::new(request))).await?;
        self.count_costs(&id).await?;
        let mut events = self.sessions.follow(&id, Seq(0), Interest::Facts).await?;
        // A run can be looked up once its `TaskCreated` is on disk.
        while let Some(Ok(item)) = events.next().await {
            if matches!(&item, FeedItem::Event(event) if matches!(event.fact, Fact::TaskCreated { .. })) {
                break;
            }
        }
        Ok(format!("{id}.{}", TaskId::run(1)))
    }

    /// If the common limit is reached, runs whose own limits are too high are cancelled.
    async fn count_costs(&self, id: &SessionId) -> Result<(), Failure> {
        if self.account.common().is_none() {
            return Ok(());
        }
        self.account.add(id);
        let events = self.sessions.follow(id, Seq(0), Interest::Facts).await?;
        let (account, sessions, id) = (self.account.clone(), self.sessions.clone(), id.clone());
        tokio::spawn(async move {
            let cancel = |id: &SessionId| {
                let cancel = Submission::new(Op::Cancel { task: TaskId::run(1) }, Origin::Client);
                // Fails only if the run has ended.
                let _ = sessions.submit(id, cancel);
            };
            account.watch(id, events, cancel).await;
        });
        Ok(())
    }

    /// Shuts down all sessions that were started here, and waits for a limited time until they have ended.
    pub async fn close(&self) {
        self.sessions.close().await;
    }

    async fn list(&self, most: usize) -> Vec<RunSummary> {
        let sessions = self.sessions.newest(most, SessionKind::Run).await.unwrap_or_default();
        let mut views = Vec::new();
        for session in sessions {
            let run = format!("{}.{}", session.id, TaskId::run(1));
            views.extend(self.events(&run).await.and_then(|events| summary(&run, &events)));
        }
        views
    }

    async fn file(&self, run: &str, dir: RunDir, path: &str) -> Result<RunFile, String> {
        let unknown = || "no such run".to_owned();
        let events = self.events(run).await.ok_or_else(unknown)?;
        let (session, task) = split_run_id(run).ok_or_else(unknown)?;
        let (lines, _) = fold(&events);
        let known = lines.session().runs.get(&TaskId::from(task)).ok_or_else(unknown)?;
        let root = match dir {
            RunDir::Log => self.app.task_dir(&SessionId::new(session), &TaskId::from(task)),
            RunDir::Workspace => {
                let result = known.result.as_ref();
                let result =
                    result.ok_or_else(|| format!("run {run} has not ended; try again when it has"))?;
                let path = result.workspace_path.clone();
                let path = path.ok_or_else(|| {
                    format!("run {run} has no workspace: there is no answer, or the agent that gave it has no file tools")
                })?;
                // The path is from the log, which may name any directory if the session was copied here.
                let tasks = self.app.session_dir(&SessionId::new(session)).join("tasks");
                let inside = service::blocking(move || {
                    Ok((tasks.canonicalize().ok(), PathBuf::from(path).canonicalize().ok()))
                });
                match inside.await.map_err(|failure| failure.message)? {
                    (Some(tasks), Some(path)) if path.starts_with(&tasks) => path,
                    _ => return Err(format!("run {run} has no workspace in its session's directory")),
                }
            }
        };
        let path = path.to_owned();
        let read = service::blocking(move || {
            let found = althing_workspace::read_confined_path(&root, &path, MAX_FILE_BYTES);
            found.map_err(|error| Failure::usage(format!("`{path}` cannot be read: {error}")))
        });
        Ok(match read.await.map_err(|failure| failure.message)? {
            PathContents::Text(text) => RunFile::Text(text),
            PathContents::Names(names) => RunFile::Directory(names),
        })
    }
}

fn split_run_id(run: &str) -> Option<(&str, &str)> {
    run.split_once('.').filter(|(session, task)| !session.is_empty() && !task.is_empty())
}

fn fold(events: &[Arc<Event>]) -> (ProgressLines, Option<String>) {
    let (mut lines, mut progress) = (ProgressLines::default(), None);
    for event in events {
        if let Some((who, what)) = lines.describe(&FeedItem::Event(event.clone())) {
            progress = Some(format!("{who}: {what}"));
        }
    }
    (lines, progress)
}

/// `None` if the session has no such run, or if the run is not over. A planning run whose plan is to be executed is
/// over only when the execution is over, or counts as cancelled if it was cancelled before the execution started.
fn outcome(session: &SessionView, task: &TaskId) -> Option<RunOutcome> {
    let mut result = session.result(task)?.clone();
    let execution = session.result(&task.execution()).cloned().map(Box::new);
    if result.follow_up.is_some() && execution.is_none() {
        let will_not_start = !session.runs.contains_key(&task.execution())
            && session.task(task).is_some_and(|task| task.status == TaskStatus::Cancelled);
        if !will_not_start {
            return None;
        }
        (result.status, result.follow_up) = (RunStatus::Cancelled, None);
    }
    Some(RunOutcome { result, execution })
}

fn summary(run: &str, events: &[Arc<Event>]) -> Option<RunSummary> {
    let task = TaskId::from(split_run_id(run)?.1);
    let (lines, progress) = fold(events);
    let session = lines.session();
    let known = session.runs.get(&task)?;
    Some(RunSummary {
        run_id: run.to_owned(),
        task: known.task.clone(),
        has_workspace: known.result.as_ref().is_some_and(|result| result.workspace_path.is_some()),
        status: outcome(session, &task).map(|outcome| outcome.status()),
        progress,
        interactions: session.questions.iter().map(|question| question.interaction.clone()).collect(),
    })
}

impl RunService for LocalRunService {
    fn launch_tool(&self) -> ToolSpec {
        launch_run_spec(&self.team_spec)
    }

    fn resolve_links(&self, launch: LaunchRun) -> BoxFuture<'_, LaunchRun> {
        Box::pin(async move {
            let named = launch.clone();
            let resolved = service::blocking(move || Ok(context_paths::with_real_paths(launch))).await;
            resolved.unwrap_or(named)
        })
    }

    fn needs_approval<'a>(&'a self, launch: &'a LaunchRun) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let resolve = |consent| session_launch::resolve(&self.team_spec, launch, consent);
            let team = self.team_spec.clone();
            let refused = match resolve(Consent::Nobody) {
                Err(reason) => Some(reason),
                Ok(spec) => {
                    let check = move || session_launch::check_links(&team, &spec).map_err(Failure::usage);
                    service::blocking(check).await.err().map(|failure| failure.message)
                }
            };
            // No approval is asked for if the launch would fail even with it.
            refused.filter(|_| check_texts(launch).is_ok() && resolve(Consent::Person).is_ok())
        })
    }

    fn approval_question(&self, launch: &LaunchRun) -> Result<String, String> {
        check_texts(launch)?;
        let proposal = session_launch::proposal(&self.team_spec, launch)?;
        Ok(sanitize::text(&althing_view::conversation::launch_question(&proposal)).into_owned())
    }

    fn launch(&self, launch: LaunchRun, approved: bool) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.start(launch, approved).await.map_err(|failure| failure.message) })
    }

    fn view<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunSummary>> {
        Box::pin(async move { summary(run, &self.events(run).await?) })
    }

    fn list(&self, most: usize) -> BoxFuture<'_, Vec<RunSummary>> {
        Box::pin(Self::list(self, most))
    }

    fn follow<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<Box<dyn RunFeed>>> {
        Box::pin(async move {
            let (session, task) = split_run_id(run)?;
            // The feed is subscribed before reading from disk: if the run ends in between, one of the two shows its
            // end.
            let id = SessionId::new(session);
            let live = self.sessions.follow(&id, Seq(0), Interest::Everything).await.ok();
            let events = self.events(run).await?;
            let task = TaskId::from(task);
            let (recorded, _) = fold(&events);
            recorded.session().runs.get(&task)?;
            let outcome = outcome(recorded.session(), &task);
            let feed = RunFollower { live, lines: ProgressLines::default(), task, outcome };
            Some(Box::new(feed) as Box<dyn RunFeed>)
        })
    }

    fn result<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunOutcome>> {
        Box::pin(async move {
            let events = self.events(run).await?;
            outcome(fold(&events).0.session(), &TaskId::from(split_run_id(run)?.1))
        })
    }

    fn for_tool_result(&self, outcome: &RunOutcome) -> RunOutcome {
        let execution = outcome.execution.as_ref();
        RunOutcome {
            result: result_for_client(&outcome.result),
            execution: execution.map(|result| Box::new(result_for_client(result))),
        }
    }

    fn cancel<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (session, task) = split_run_id(run).ok_or("no such run")?;
            let cancel = Submission::new(Op::Cancel { task: TaskId::from(task) }, Origin::Client);
            if self.sessions.submit(&SessionId::new(session), cancel).is_ok() {
                return Ok(());
            }
            let ended = self.result(run).await.is_some();
            ended.then_some(()).ok_or_else(|| {
                format!("run {run} does not run in this process; cancel it in the process that runs it")
            })
        })
    }

    fn answer<'a>(
        &'a self,
        run: &'a str,
        interaction: InteractionId,
        decision: Decision,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (session, _) = split_run_id(run).ok_or("no such run")?;
            let answer = Submission::new(Op::Answer { interaction, decision }, Origin::Client);
            let answered = self.sessions.submit(&SessionId::new(session), answer);
            answered.map_err(|_| format!("run {run} does not run in this process"))
        })
    }

    fn file<'a>(
        &'a self,
        run: &'a str,
        dir: RunDir,
        path: &'a str,
    ) -> BoxFuture<'a, Result<RunFile, String>> {
        Box::pin(Self::file(self, run, dir, path))
    }
}

struct RunFollower {
    /// `None` if the session cannot be followed, or if no more events will arrive.
    live: Option<Box<dyn EventStream>>,
    lines: ProgressLines,
    task: TaskId,
    outcome: Option<RunOutcome>,
}

impl RunFeed for RunFollower {
    fn next(&mut self) -> BoxFuture<'_, RunUpdate> {
        Box::pin(async move {
            loop {
                if let Some(outcome) = &self.outcome {
                    return RunUpdate::Ended(Box::new(outcome.clone()));
                }
                let item = match &mut self.live {
                    Some(live) => live.next().await,
                    // No more events will arrive, so this call never returns.
                    None => std::future::pending().await,
                };
                let Some(Ok(item)) = item else {
                    self.live = None;
                    continue;
                };
                let line = self.lines.describe(&item);
                self.outcome = outcome(self.lines.session(), &self.task);
                if self.outcome.is_some() {
                    continue;
                }
                if let FeedItem::Event(event) = &item
                    && let Fact::InteractionOpened(open) = &event.fact
                {
                    return RunUpdate::Question(Box::new(open.clone()));
                }
                if let Some((who, what)) = line {
                    return RunUpdate::Line(format!("{who}: {what}"));
                }
            }
        })
    }
}
