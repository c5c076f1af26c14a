//! The model calls and chores under way: started, told apart, stopped.

use super::feed::Feed;
use super::passing::Passing;
use super::places::Way;
use super::programs;
use super::{Backend, Input, Mask};
use crate::decider::{ChoreKind, Job, Sight};
use althing_protocol::{
    AgentEnv, BackendError, BackendErrorKind, ContextAccess, Delta, FileWrite, Item, ModelRequest, PlanDraft,
    PlanRef, PlanRun, Plans, ProgramEnd, ProgramJob, Programs, Reply, TaskId, ToolOutcome, Usage,
};
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// Something under way for a run or a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DoerKey {
    pub(crate) owner: TaskId,
    pub(crate) job: Job,
}

/// How it ended.
pub(crate) enum Done {
    Replied(Result<Reply, BackendError>),
    Added(Item),
    Exited(ProgramEnd),
}

/// A model call with everything it needs.
pub(super) struct Call {
    pub(super) work: TaskId,
    pub(super) request: ModelRequest,
    pub(super) backend: Option<Arc<dyn Backend>>,
    /// The way to where the agent works, if it has hands, and what it is to see there.
    pub(super) place: Option<(Way, Sight)>,
}

/// What is under way. Dropping it stops everything.
pub(super) struct Doers {
    runtime: Handle,
    feed: Feed,
    inbox: Sender<Input>,
    mask: Arc<dyn Mask>,
    under_way: HashMap<TaskId, HashMap<Job, AbortHandle>>,
}

impl Doers {
    pub(super) fn new(runtime: Handle, feed: Feed, inbox: Sender<Input>, mask: Arc<dyn Mask>) -> Self {
        Self { runtime, feed, inbox, mask, under_way: HashMap::new() }
    }

    pub(super) fn has(&self, key: &DoerKey) -> bool {
        self.does(&key.owner, &key.job)
    }

    fn does(&self, owner: &TaskId, job: &Job) -> bool {
        self.under_way.get(owner).is_some_and(|jobs| jobs.contains_key(job))
    }

    /// Whether what is under way for an owner is exactly these calls. Cheap: with hundreds of agents it is asked after
    /// every reply.
    pub(super) fn are_just(&self, owner: &TaskId, wanted: &[Job]) -> bool {
        let all_there = wanted.iter().all(|job| matches!(job, Job::Call(_)) && self.does(owner, job));
        // Calls differ in their seats, so that counting them is enough.
        all_there && self.under_way.get(owner).map_or(0, HashMap::len) == wanted.len()
    }

    /// Takes note that something ended; false if it was not under way any more.
    pub(super) fn finished(&mut self, key: &DoerKey) -> bool {
        self.under_way.get_mut(&key.owner).is_some_and(|jobs| jobs.remove(&key.job).is_some())
    }

    /// Stops what its owner does not want any more.
    pub(super) fn keep_only(&mut self, owner: &TaskId, wanted: &[Job]) {
        let Some(jobs) = self.under_way.get_mut(owner) else { return };
        let wanted: HashSet<&Job> = wanted.iter().collect();
        jobs.retain(|job, doer| {
            let keep = wanted.contains(job);
            if !keep {
                doer.abort();
            }
            keep
        });
    }

    pub(super) fn stop_all(&mut self) {
        for doer in self.under_way.drain().flat_map(|(_, jobs)| jobs.into_values()) {
            doer.abort();
        }
    }

    fn spawn(&mut self, key: DoerKey, broken: Done, doing: impl Future<Output = Done> + Send + 'static) {
        let report = Report { inbox: self.inbox.clone(), key: key.clone(), done: Some(broken) };
        let doer = self.runtime.spawn(async move { report.send(doing.await) });
        self.under_way.entry(key.owner).or_default().insert(key.job, doer.abort_handle());
    }

    /// Starts a model call.
    pub(super) fn call(&mut self, key: DoerKey, call: Call) {
        let (feed, mask) = (self.feed.clone(), self.mask.clone());
        self.spawn(key, Done::Replied(Err(broken())), async move {
            let Call { work, mut request, backend, place } = call;
            if let Some((way, sight)) = place
                && let Err(error) = way.dress(&mut request, sight).await
            {
                return Done::Replied(Err(no_place(&error)));
            }
            let mut passing = Passing::new(feed, work, mask);
            let mut on_delta = |delta: Delta<'_>| passing.take(delta);
            let result = match backend {
                Some(backend) => backend.call(&request, &mut on_delta).await,
                None => Err(no_backend()),
            };
            passing.finish();
            Done::Replied(result)
        });
    }

    /// Starts a program.
    pub(super) fn program(&mut self, key: DoerKey, job: ProgramJob, programs: Option<Arc<dyn Programs>>) {
        let (inbox, feed, mask) = (self.inbox.clone(), self.feed.clone(), self.mask.clone());
        let sink = programs::sink(key.clone(), job.task.clone(), inbox, feed, mask);
        let failed = |error: &str| ProgramEnd { error: Some(error.into()), ..ProgramEnd::default() };
        self.spawn(key, Done::Exited(failed("it broke off inside Althing")), async move {
            Done::Exited(match programs {
                Some(programs) => programs.run(&job, sink).await,
                None => failed("nothing here runs programs"),
            })
        });
    }

    /// Starts to store or to read a plan.
    pub(super) fn plan(&mut self, key: DoerKey, plans: Option<Arc<dyn Plans>>, job: PlanJob) {
        let broken = |error: &str| Done::Added(job.outcome(Err(error.into())));
        let broke_off = broken("it broke off inside Althing");
        let Some(plans) = plans else {
            let nowhere = broken("nothing here stores plans");
            return self.spawn(key, broke_off, async move { nowhere });
        };
        self.spawn(key, broken("it broke off inside Althing"), async move {
            // It waits for the disk.
            let stored = tokio::task::spawn_blocking(move || job.carry_out(&*plans)).await;
            stored.map_or(broke_off, Done::Added)
        });
    }

    /// Starts a chore.
    pub(super) fn chore(&mut self, key: DoerKey, kind: ChoreKind, access: ContextAccess, way: Option<Way>) {
        self.spawn(key, Done::Added(outcome(&kind, Err("it broke off inside Althing".into()))), async move {
            let place = match way {
                Some(way) => way.place().await,
                None => Ok(None),
            };
            let result = match place {
                Ok(Some(place)) => carry_out(&*place, &kind, access).await,
                Ok(None) => Err("there is no such tool here".into()),
                Err(error) => Err(error),
            };
            Done::Added(outcome(&kind, result))
        });
    }
}

impl Drop for Doers {
    fn drop(&mut self) {
        self.stop_all();
    }
}

/// What is done about a plan.
pub(super) enum PlanJob {
    /// It is stored.
    Store(PlanDraft),
    /// It is read as it is now.
    Open(PlanRun),
}

impl PlanJob {
    fn carry_out(&self, plans: &dyn Plans) -> Item {
        match self {
            Self::Store(draft) => self.outcome(plans.store(draft).map(Brought::Stored)),
            Self::Open(plan) => self.outcome(plans.open(plan).map(Brought::Opened)),
        }
    }

    fn outcome(&self, result: Result<Brought, String>) -> Item {
        let kind = match self {
            Self::Store(_) => ChoreKind::StorePlan,
            Self::Open(_) => ChoreKind::OpenPlan,
        };
        outcome(&kind, result)
    }
}

/// What a chore brings back.
enum Brought {
    Nothing,
    Outcome(ToolOutcome),
    Writes(Vec<FileWrite>),
    Stored(PlanRef),
    Opened(PlanRun),
}

async fn carry_out(place: &dyn AgentEnv, kind: &ChoreKind, access: ContextAccess) -> Result<Brought, String> {
    Ok(match kind {
        ChoreKind::Tool(call) => Brought::Outcome(place.tool_host().call(call, access).await),
        ChoreKind::Keep(label) => {
            place.snapshot(*label).await?;
            Brought::Nothing
        }
        ChoreKind::Take { from, name, .. } => {
            place.import_dir(from, name).await?;
            Brought::Nothing
        }
        ChoreKind::OpenContext => {
            place.open_context().await?;
            Brought::Nothing
        }
        ChoreKind::CloseContext => Brought::Writes(place.close_context().await?),
        ChoreKind::StorePlan | ChoreKind::OpenPlan => return Err("no workspace stores plans".into()),
    })
}

/// A chore's result as the log keeps it.
fn outcome(kind: &ChoreKind, result: Result<Brought, String>) -> Item {
    let (brought, error) = match result {
        Ok(brought) => (brought, None),
        Err(error) => (Brought::Nothing, Some(error)),
    };
    match (kind, brought) {
        (ChoreKind::Tool(call), Brought::Outcome(ToolOutcome { content, is_error })) => {
            Item::ToolResult { call: call.id.clone(), content, is_error }
        }
        (ChoreKind::Tool(call), _) => {
            let content = error.unwrap_or_else(|| "it gave no result".into());
            Item::ToolResult { call: call.id.clone(), content, is_error: true }
        }
        (ChoreKind::Keep(_), _) => Item::WorkspaceKept { error },
        (ChoreKind::Take { subagent, .. }, _) => Item::FilesTaken { from: subagent.clone(), error },
        (ChoreKind::OpenContext, _) => Item::ContextOpened { error },
        (ChoreKind::CloseContext, Brought::Writes(writes)) => Item::ContextClosed { writes, error },
        (ChoreKind::CloseContext, _) => Item::ContextClosed { writes: Vec::new(), error },
        (ChoreKind::StorePlan, Brought::Stored(plan)) => Item::PlanStored { plan: Some(plan), error },
        (ChoreKind::StorePlan, _) => Item::PlanStored { plan: None, error },
        (ChoreKind::OpenPlan, Brought::Opened(plan)) => Item::PlanOpened { plan: Some(plan), error },
        (ChoreKind::OpenPlan, _) => Item::PlanOpened { plan: None, error },
    }
}

/// Reports the end of a doer whatever ended it: one that panics must not leave its run waiting for ever.
struct Report {
    inbox: Sender<Input>,
    key: DoerKey,
    done: Option<Done>,
}

impl Report {
    fn send(mut self, done: Done) {
        self.done = Some(done);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            // The session may be gone already; then nobody waits for this.
            let _ = self.inbox.send(Input::Done { key: self.key.clone(), done });
        }
    }
}

fn broken() -> BackendError {
    BackendError {
        kind: BackendErrorKind::Protocol,
        message: "the call broke off inside Althing".into(),
        hint: Some("please report this, with the session's log".into()),
        usage: Usage::default(),
    }
}

fn no_backend() -> BackendError {
    BackendError {
        kind: BackendErrorKind::NotFound,
        message: "this agent has no backend in this configuration".into(),
        hint: Some("resume with the configuration that the run was started with".into()),
        usage: Usage::default(),
    }
}

fn no_place(error: &str) -> BackendError {
    BackendError {
        kind: BackendErrorKind::BadRequest,
        message: format!("the place where it works cannot be used: {error}"),
        hint: None,
        usage: Usage::default(),
    }
}
