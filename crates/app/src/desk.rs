//! Runs for MCP clients: each a session of its own, started here or found in the state directory.

use crate::context::AppContext;
use crate::conversation;
use crate::failure::Failure;
use crate::launch::{RunRequest, SessionRequest};
use crate::project;
use crate::service::{self, LocalSessions, SessionService};
use crate::session;
use crate::team::Team;
use althing_engine::{Consent, launch_run_spec};
use althing_mcp::{RunFeed, RunFile, RunNews, RunOutcome, RunPlace, RunService, RunView};
use althing_protocol::{
    BoxFuture, Decision, Event, EventStream, Fact, FeedItem, Interaction, InteractionId, Interest, LaunchRun,
    Op, Origin, RunResult, Seq, SessionId, SessionKind, Submission, TaskId, TaskSpec, TeamSpec, ToolSpec,
    Verdict,
};
use althing_view::ProgressLines;
use althing_workspace::Below;
use std::path::PathBuf;
use std::sync::Arc;

/// The largest file that a client is given.
const MOST_FILE_BYTES: u64 = 4 << 20;

/// Starts and finds runs for MCP clients.
pub struct RunDesk {
    app: AppContext,
    team_spec: TeamSpec,
    sessions: LocalSessions,
}

impl RunDesk {
    /// A service that starts runs of this team.
    pub fn new(team: Team, app: AppContext) -> Result<Self, Failure> {
        let project = project::named(&app)?;
        let about = conversation::about(&team, project.as_deref(), &app)?;
        let cast = session::cast(&team, Some(&about), &app)?;
        let team_spec = conversation::team_spec(&team, &cast, about, false, &app);
        let sessions = LocalSessions::with_team(app.clone(), Arc::new(team), project);
        Ok(Self { app, team_spec, sessions })
    }

    /// What the runs are made of.
    pub fn team(&self) -> &TeamSpec {
        &self.team_spec
    }

    /// Everything that happened in a run's session.
    async fn events(&self, run: &str) -> Option<Vec<Arc<Event>>> {
        let (session, _) = split(run)?;
        Some(self.sessions.read(&SessionId::new(session)).await.ok()?.events)
    }

    async fn start(&self, launch: LaunchRun) -> Result<String, Failure> {
        let context_paths = self.team_spec.context_paths.clone();
        // The client stands for what it asks for; what it cannot grant stays as the config has it.
        let request = RunRequest { launch, context_paths, plan: None, consent: Consent::Nobody };
        let id = self.sessions.launch(SessionRequest::Run(Box::new(request))).await?;
        let mut events = self.sessions.follow(&id, Seq(0), Interest::Facts).await?;
        // Once it is on disk, everyone can ask for it.
        while let Some(Ok(item)) = events.next().await {
            if matches!(&item, FeedItem::Event(event) if matches!(event.fact, Fact::TaskCreated { .. })) {
                break;
            }
        }
        Ok(format!("{id}.{}", TaskId::run(1)))
    }

    /// Stops everything that is under way, and waits for its end.
    pub async fn close(&self) {
        self.sessions.close().await;
    }

    async fn list(&self, most: usize) -> Vec<RunView> {
        let sessions = self.sessions.list().await.unwrap_or_default();
        let runs = sessions.into_iter().filter(|session| {
            session.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.kind == SessionKind::Run)
        });
        let mut views = Vec::new();
        for session in runs.take(most) {
            let run = format!("{}.{}", session.id, TaskId::run(1));
            views.extend(self.events(&run).await.and_then(|events| view(&run, &events)));
        }
        views
    }

    async fn file(&self, run: &str, place: RunPlace, path: &str) -> Result<RunFile, String> {
        let unknown = || "there is no such run".to_owned();
        let events = self.events(run).await.ok_or_else(unknown)?;
        let (view, (session, task)) =
            (view(run, &events).ok_or_else(unknown)?, split(run).ok_or_else(unknown)?);
        let root = match place {
            RunPlace::Log => self.app.task_dir(&SessionId::new(session), &TaskId::from(task)),
            RunPlace::Workspace => {
                let path = finished(&events, task).and_then(|result| result.workspace_path);
                PathBuf::from(path.ok_or_else(|| format!("run {} has no workspace to read", view.run_id))?)
            }
        };
        let path = path.to_owned();
        let read = service::blocking(move || {
            let found = althing_workspace::read_below(&root, &path, MOST_FILE_BYTES);
            found.map_err(|error| Failure::usage(format!("`{path}` cannot be read: {error}")))
        });
        Ok(match read.await.map_err(|failure| failure.message)? {
            Below::Text(text) => RunFile::Text(text),
            Below::Names(names) => RunFile::Directory(names),
        })
    }
}

/// Session and task of a run's id.
fn split(run: &str) -> Option<(&str, &str)> {
    run.split_once('.').filter(|(session, task)| !session.is_empty() && !task.is_empty())
}

/// What came of a run; None as long as it, or the run that carries out its plan, is under way.
fn outcome(events: &[Arc<Event>], task: &str) -> Option<RunOutcome> {
    let result = finished(events, task)?;
    let execution = match &result.follow_up {
        None => None,
        Some(_) => Some(Box::new(finished(events, TaskId::from(task).execution().as_str())?)),
    };
    Some(RunOutcome { result, execution })
}

fn finished(events: &[Arc<Event>], task: &str) -> Option<RunResult> {
    events.iter().rev().find_map(|event| match &event.fact {
        Fact::Decided(Verdict::Finished { result, .. })
            if event.task.as_ref().is_some_and(|of| of.as_str() == task) =>
        {
            Some((**result).clone())
        }
        _ => None,
    })
}

/// A run in brief, from everything that happened.
fn view(run: &str, events: &[Arc<Event>]) -> Option<RunView> {
    let (_, task) = split(run)?;
    let spec = events.iter().find_map(|event| match &event.fact {
        Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } if id.as_str() == task => Some(spec),
        _ => None,
    })?;
    let (mut plain, mut progress) = (ProgressLines::default(), None);
    let mut interactions: Vec<Interaction> = Vec::new();
    for event in events {
        if let Some((who, what)) = plain.words(&FeedItem::Event(event.clone())) {
            progress = Some(format!("{who}: {what}"));
        }
        match &event.fact {
            Fact::InteractionOpened(open) => interactions.push(open.clone()),
            Fact::InteractionClosed { id, .. } => interactions.retain(|open| open.id != *id),
            _ => {}
        }
    }
    let status = outcome(events, task).map(|outcome| outcome.status());
    let run_id = run.to_owned();
    Some(RunView { run_id, task: spec.task.clone(), status, progress, interactions })
}

impl RunService for RunDesk {
    fn launch_tool(&self) -> ToolSpec {
        launch_run_spec(&self.team_spec)
    }

    fn launch(&self, launch: LaunchRun) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(async move { self.start(launch).await.map_err(|failure| failure.message) })
    }

    fn view<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunView>> {
        Box::pin(async move { view(run, &self.events(run).await?) })
    }

    fn list(&self, most: usize) -> BoxFuture<'_, Vec<RunView>> {
        Box::pin(Self::list(self, most))
    }

    fn follow<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<Box<dyn RunFeed>>> {
        Box::pin(async move {
            let (session, task) = split(run)?;
            // Before what is on disk: a run that ends meanwhile is on one side or the other.
            let id = SessionId::new(session);
            let live = self.sessions.follow(&id, Seq(0), Interest::Everything).await.ok();
            let events = self.events(run).await?;
            let outcome = outcome(&events, task);
            let task = TaskId::from(task);
            let feed = Following { live, plain: ProgressLines::default(), task, planned: None, outcome };
            Some(Box::new(feed) as Box<dyn RunFeed>)
        })
    }

    fn result<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunOutcome>> {
        Box::pin(async move { outcome(&self.events(run).await?, split(run)?.1) })
    }

    fn cancel<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (session, task) = split(run).ok_or("there is no such run")?;
            let cancel = Submission::new(Op::Cancel { task: TaskId::from(task) }, Origin::Client);
            if self.sessions.submit(&SessionId::new(session), cancel).is_ok() {
                return Ok(());
            }
            let ended = self.result(run).await.is_some();
            ended.then_some(()).ok_or_else(|| {
                format!("run {run} is not under way here; a run of another process is stopped there")
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
            let (session, _) = split(run).ok_or("there is no such run")?;
            let answer = Submission::new(Op::Answer { interaction, decision }, Origin::Client);
            let answered = self.sessions.submit(&SessionId::new(session), answer);
            answered.map_err(|_| format!("run {run} is not under way here"))
        })
    }

    fn file<'a>(
        &'a self,
        run: &'a str,
        place: RunPlace,
        path: &'a str,
    ) -> BoxFuture<'a, Result<RunFile, String>> {
        Box::pin(Self::file(self, run, place, path))
    }
}

/// A run's news.
struct Following {
    /// None for a run that is not under way here.
    live: Option<Box<dyn EventStream>>,
    plain: ProgressLines,
    task: TaskId,
    /// Its result, while the run that carries out its plan is under way.
    planned: Option<RunResult>,
    outcome: Option<RunOutcome>,
}

impl Following {
    /// Takes note of a run's result: the run's own, or that of the run that carried out its plan.
    fn ended(&mut self, task: &TaskId, result: &RunResult) {
        if *task == self.task && result.follow_up.is_some() {
            self.planned = Some(result.clone());
        } else if *task == self.task {
            self.outcome = Some(RunOutcome { result: result.clone(), execution: None });
        } else if *task == self.task.execution()
            && let Some(planned) = self.planned.take()
        {
            self.outcome = Some(RunOutcome { result: planned, execution: Some(Box::new(result.clone())) });
        }
    }
}

impl RunFeed for Following {
    fn next(&mut self) -> BoxFuture<'_, RunNews> {
        Box::pin(async move {
            loop {
                if let Some(outcome) = &self.outcome {
                    return RunNews::Ended(Box::new(outcome.clone()));
                }
                let item = match &mut self.live {
                    Some(live) => live.next().await,
                    // Nothing more is heard of it here.
                    None => std::future::pending().await,
                };
                let Some(Ok(item)) = item else {
                    self.live = None;
                    continue;
                };
                if let FeedItem::Event(event) = &item {
                    match (&event.fact, &event.task) {
                        (Fact::Decided(Verdict::Finished { result, .. }), Some(task)) => {
                            self.ended(task, result);
                            if self.outcome.is_some() {
                                continue;
                            }
                        }
                        (Fact::InteractionOpened(open), _) => return RunNews::Asks(Box::new(open.clone())),
                        _ => {}
                    }
                }
                if let Some((who, what)) = self.plain.words(&item) {
                    return RunNews::Line(format!("{who}: {what}"));
                }
            }
        })
    }
}
