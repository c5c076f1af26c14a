//! Runs for MCP clients: each a session of its own, started here or found in the state directory.

use crate::context::AppContext;
use crate::conversation;
use crate::failure::Failure;
use crate::place::Places;
use crate::project::{self, Project};
use crate::session::{self, Begun, NewSession};
use crate::team::Team;
use althing_engine::{Consent, Front, Orchestrator, launch_run_spec, resolve_launch};
use althing_journal::SessionManager;
use althing_mcp::{RunFeed, RunFile, RunNews, RunPlace, RunService, RunView};
use althing_protocol::{
    BoxFuture, Decision, Engine, Event, EventStream, Fact, FeedItem, Interaction, InteractionId, LaunchRun,
    ModeChoice, Op, Origin, RunResult, Seq, SessionId, SessionKind, TaskId, TaskSpec, TeamSpec, ToolSpec,
    Verdict,
};
use althing_view::ProgressLines;
use althing_workspace::Below;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinSet;

/// The largest file that a client is given.
const MOST_FILE_BYTES: u64 = 4 << 20;

/// What the desk starts runs with.
pub struct RunDesk {
    team: Team,
    app: AppContext,
    team_spec: TeamSpec,
    /// The project of all of them.
    project: Option<Arc<Project>>,
    /// Runs that are under way here, by session.
    started: Arc<Mutex<BTreeMap<String, Front>>>,
    /// Waits for their ends.
    ending: Mutex<JoinSet<()>>,
}

impl RunDesk {
    /// A service that starts runs of this team.
    pub fn new(team: Team, app: AppContext) -> Result<Self, Failure> {
        let project = project::named(&app)?;
        let about = conversation::about(&team, project.as_deref(), &app)?;
        let cast = session::cast(&team, Some(&about), &app)?;
        let team_spec = conversation::team_spec(&team, &cast, about, false, &app);
        Ok(Self { team, app, team_spec, project, started: Arc::default(), ending: Mutex::default() })
    }

    /// What the runs are made of.
    pub fn team(&self) -> &TeamSpec {
        &self.team_spec
    }

    /// Looks at what is on disk where waiting for it is no harm: model calls run beside.
    async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SessionManager) -> T + Send + 'static,
    ) -> Result<T, String> {
        let dir = self.app.state_dir();
        let looked = tokio::task::spawn_blocking(move || {
            let state = althing_journal::open_state(&dir).map_err(|error| error.to_string())?;
            Ok(work(&state))
        });
        looked.await.map_err(|error| error.to_string())?
    }

    fn started(&self, session: &str) -> Option<Front> {
        lock(&self.started).get(session).cloned()
    }

    /// Everything that happened in a run's session.
    async fn events(&self, run: &str) -> Option<Vec<Arc<Event>>> {
        let run = run.to_owned();
        self.look(move |state| events(state, &run)).await.ok()?
    }

    async fn start(&self, launch: LaunchRun) -> Result<String, String> {
        let choice = ModeChoice::default();
        // The client stands for what it asks for; what it cannot grant stays as the config has it.
        let launch = resolve_launch(&self.team_spec, &launch, &choice, Consent::Nobody, fastrand::u64(..))?;
        let cast = session::cast(&self.team, Some(&launch.spec.context_paths), &self.app)
            .map_err(|failure| failure.message)?;
        let goal = launch.spec.task.clone();
        let op = Op::StartRun { spec: Box::new(launch.spec) };
        let new = NewSession { kind: SessionKind::Run, goal, op, project: self.project.clone() };
        let begun = session::begin(new, &self.team, cast, None, &self.app).await;
        let Begun { id, orchestrator, places } = begun.map_err(|failure| failure.message)?;
        let mut events = orchestrator.front().subscribe(Seq(0));
        lock(&self.started).insert(id.to_string(), orchestrator.front());
        self.attend(id.to_string(), orchestrator, places);
        // Once it is on disk, everyone can ask for it.
        while let Some(Ok(item)) = events.next().await {
            if matches!(&item, FeedItem::Event(event) if matches!(event.fact, Fact::TaskCreated { .. })) {
                break;
            }
        }
        Ok(format!("{id}.{}", TaskId::run(1)))
    }

    /// Waits for a run's end, beside everything else.
    fn attend(&self, session: String, orchestrator: Orchestrator, places: Arc<Places>) {
        let all = Arc::clone(&self.started);
        let mut ending = lock(&self.ending);
        while ending.try_join_next().is_some() {}
        ending.spawn(async move {
            // However it ended, all that was shown of it is on disk.
            let _ = tokio::task::spawn_blocking(move || orchestrator.join()).await;
            places.close().await;
            lock(&all).remove(&session);
        });
    }

    /// Stops everything that is under way, and waits for its end.
    pub async fn close(&self) {
        for one in lock(&self.started).values() {
            one.submit(Op::Shutdown, Origin::System);
        }
        let mut ending = std::mem::take(&mut *lock(&self.ending));
        let ended = async { while ending.join_next().await.is_some() {} };
        if tokio::time::timeout(session::CLOSING, ended).await.is_err() {
            self.app.notify("some runs did not end in time; they end with this process");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn events(state: &SessionManager, run: &str) -> Option<Vec<Arc<Event>>> {
    let (session, _) = split(run)?;
    Some(state.read(&SessionId::new(session)).ok()?.events)
}

fn read(state: &SessionManager, run: &str, place: RunPlace, path: &str) -> Result<RunFile, String> {
    let unknown = || "there is no such run".to_owned();
    let events = events(state, run).ok_or_else(unknown)?;
    let (view, (session, task)) = (view(run, &events).ok_or_else(unknown)?, split(run).ok_or_else(unknown)?);
    let root = match place {
        RunPlace::Log => {
            althing_journal::task_dir(&state.session_dir(&SessionId::new(session)), &TaskId::from(task))
        }
        RunPlace::Workspace => {
            let path = finished(&events, task).and_then(|result| result.workspace_path);
            PathBuf::from(path.ok_or_else(|| format!("run {} has no workspace to read", view.run_id))?)
        }
    };
    let found = althing_workspace::read_below(&root, path, MOST_FILE_BYTES);
    Ok(match found.map_err(|error| format!("`{path}` cannot be read: {error}"))? {
        Below::Text(text) => RunFile::Text(text),
        Below::Names(names) => RunFile::Directory(names),
    })
}

/// Session and task of a run's id.
fn split(run: &str) -> Option<(&str, &str)> {
    run.split_once('.').filter(|(session, task)| !session.is_empty() && !task.is_empty())
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
    let status = finished(events, task).map(|result| result.status);
    let run_id = run.to_owned();
    Some(RunView { run_id, task: spec.task.clone(), status, progress, interactions })
}

impl RunService for RunDesk {
    fn launch_tool(&self) -> ToolSpec {
        launch_run_spec(&self.team_spec)
    }

    fn launch(&self, launch: LaunchRun) -> BoxFuture<'_, Result<String, String>> {
        Box::pin(self.start(launch))
    }

    fn view<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunView>> {
        Box::pin(async move { view(run, &self.events(run).await?) })
    }

    fn list(&self, most: usize) -> BoxFuture<'_, Vec<RunView>> {
        let list = move |state: &SessionManager| {
            let runs = state.list().unwrap_or_default().into_iter().filter(|session| {
                session.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.kind == SessionKind::Run)
            });
            let ids = runs.take(most).map(|session| format!("{}.{}", session.id, TaskId::run(1)));
            ids.filter_map(|run| view(&run, &events(state, &run)?)).collect()
        };
        Box::pin(async move { self.look(list).await.unwrap_or_default() })
    }

    fn follow<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<Box<dyn RunFeed>>> {
        Box::pin(async move {
            let (session, task) = split(run)?;
            // Before what is on disk: a run that ends meanwhile is on one side or the other.
            let live = self.started(session).map(|front| front.subscribe(Seq(0)));
            let result = finished(&self.events(run).await?, task);
            let feed = Following { live, plain: ProgressLines::default(), task: TaskId::from(task), result };
            Some(Box::new(feed) as Box<dyn RunFeed>)
        })
    }

    fn result<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Option<RunResult>> {
        Box::pin(async move { finished(&self.events(run).await?, split(run)?.1) })
    }

    fn cancel<'a>(&'a self, run: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (session, task) = split(run).ok_or("there is no such run")?;
            if let Some(front) = self.started(session) {
                front.submit(Op::Cancel { task: TaskId::from(task) }, Origin::Client);
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
            let started = self.started(session).ok_or_else(|| format!("run {run} is not under way here"))?;
            started.submit(Op::Answer { interaction, decision }, Origin::Client);
            Ok(())
        })
    }

    fn file<'a>(
        &'a self,
        run: &'a str,
        place: RunPlace,
        path: &'a str,
    ) -> BoxFuture<'a, Result<RunFile, String>> {
        let (run, path) = (run.to_owned(), path.to_owned());
        Box::pin(async move { self.look(move |state| read(state, &run, place, &path)).await? })
    }
}

/// A run's news.
struct Following {
    /// None for a run that is not under way here.
    live: Option<Box<dyn EventStream>>,
    plain: ProgressLines,
    task: TaskId,
    result: Option<RunResult>,
}

impl RunFeed for Following {
    fn next(&mut self) -> BoxFuture<'_, RunNews> {
        Box::pin(async move {
            loop {
                if let Some(result) = &self.result {
                    return RunNews::Ended(Box::new(result.clone()));
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
                    match &event.fact {
                        Fact::Decided(Verdict::Finished { result, .. })
                            if event.task.as_ref() == Some(&self.task) =>
                        {
                            self.result = Some((**result).clone());
                            continue;
                        }
                        Fact::InteractionOpened(open) => return RunNews::Asks(Box::new(open.clone())),
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
