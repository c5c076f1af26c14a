//! Starts, identifies and stops the effects of a session: model calls, side tasks and programs.

use super::call_record::{CallTimes, request_digest, sent_digest};
use super::ending::{self, Alive, AliveObserver, Ending};
use super::envs::AgentEnvHandle;
use super::feed::Feed;
use super::program_reports;
use super::progress::ProgressStream;
use super::silence::SpokenCalls;
use super::{Backend, EventMasker, Input};
use crate::decider::{EffectKey, SideTaskKind, Visibility};
use althing_protocol::{
    AgentEnv, BackendError, BackendErrorKind, Briefing, CallRecord, Clock, ContextAccess, Delta, EditPreview,
    FileWrite, Item, LateNotices, ModelRequest, PlanDraft, PlanRef, PlanRun, Plans, ProgramEnd, ProgramJob,
    Programs, Reply, ReportSink, TaskId, ToolOutcome, Usage,
};
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// Reported if Althing's own code for an effect panics.
const INTERNAL_ERROR: &str = "the operation failed because of an internal error in Althing";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EffectId {
    pub(crate) owner: TaskId,
    pub(crate) key: EffectKey,
}

pub(crate) enum EffectOutcome {
    Replied(Box<CallOutcome>),
    ItemAdded(Item),
    Exited(ProgramEnd),
}

pub(crate) struct CallOutcome {
    pub(crate) result: Result<Reply, BackendError>,
    /// The record of the call; None if nothing was sent, or after an internal error.
    pub(crate) record: Option<CallRecord>,
    pub(crate) briefing: Option<Briefing>,
}

impl CallOutcome {
    /// The outcome of a call that sent nothing, or ended with an internal error.
    fn unsent(error: BackendError) -> EffectOutcome {
        EffectOutcome::Replied(Box::new(Self { result: Err(error), record: None, briefing: None }))
    }
}

pub(super) struct Call {
    pub(super) work: TaskId,
    pub(super) request: ModelRequest,
    pub(super) backend: Option<Arc<dyn Backend>>,
    /// The agent's environment, and what the agent may see there; None if the agent has no tools.
    pub(super) env: Option<(AgentEnvHandle, Visibility)>,
}

/// Dropping this stops all running effects of the session.
pub(super) struct Effects {
    runtime: Handle,
    feed: Feed,
    inbox: Sender<Input>,
    mask: Arc<dyn EventMasker>,
    clock: Arc<dyn Clock>,
    pub(super) spoken: SpokenCalls,
    running: HashMap<TaskId, HashMap<EffectKey, (AbortHandle, AliveObserver)>>,
    ending: Ending,
    next_serial: u64,
}

impl Effects {
    pub(super) fn new(
        runtime: Handle,
        feed: Feed,
        inbox: Sender<Input>,
        mask: Arc<dyn EventMasker>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (running, ending) = (HashMap::new(), Ending::default());
        let spoken = SpokenCalls::default();
        Self { runtime, feed, inbox, mask, clock, spoken, running, ending, next_serial: 0 }
    }

    pub(super) fn is_running(&self, id: &EffectId) -> bool {
        self.is_running_key(&id.owner, &id.key)
    }

    fn is_running_key(&self, owner: &TaskId, key: &EffectKey) -> bool {
        self.running.get(owner).is_some_and(|keys| keys.contains_key(key))
    }

    /// A fast path, checked after every reply: whether all wanted effects are model calls and exactly these run.
    pub(super) fn match_exactly(&self, owner: &TaskId, wanted: &[EffectKey]) -> bool {
        let all_there =
            wanted.iter().all(|key| matches!(key, EffectKey::Call(_)) && self.is_running_key(owner, key));
        // No call is listed twice, so equal counts mean that nothing else is running.
        all_there && self.running.get(owner).map_or(0, HashMap::len) == wanted.len()
    }

    /// False if the effect was removed before, for example because it was aborted.
    pub(super) fn remove(&mut self, id: &EffectId) -> bool {
        self.running.get_mut(&id.owner).is_some_and(|keys| keys.remove(&id.key).is_some())
    }

    pub(super) fn abort_unwanted(&mut self, owner: &TaskId, wanted: &[EffectKey]) {
        let Some(keys) = self.running.get_mut(owner) else { return };
        let (wanted, ending): (HashSet<&EffectKey>, _) = (wanted.iter().collect(), &mut self.ending);
        keys.retain(|key, (handle, observer)| {
            let keep = wanted.contains(key);
            if !keep {
                let id = EffectId { owner: owner.clone(), key: key.clone() };
                ending.add(id, observer.clone());
                handle.abort();
            }
            keep
        });
    }

    pub(super) fn stop_all(&mut self) {
        for (owner, keys) in self.running.drain() {
            for (key, (handle, observer)) in keys {
                self.ending.add(EffectId { owner: owner.clone(), key }, observer);
                handle.abort();
            }
        }
    }

    pub(super) fn gone(&mut self, serial: u64) {
        self.ending.remove(serial);
    }

    pub(super) fn is_ending(&self) -> bool {
        !self.ending.is_empty()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ending.is_empty() && self.running.values().all(HashMap::is_empty)
    }

    fn new_alive(&mut self) -> (Arc<Alive>, AliveObserver) {
        self.next_serial += 1;
        let (alive, observer) = ending::alive(self.next_serial, self.inbox.clone());
        (Arc::new(alive), observer)
    }

    fn spawn(
        &mut self,
        id: EffectId,
        if_aborted: EffectOutcome,
        effect: impl Future<Output = EffectOutcome> + Send + 'static,
    ) {
        let (alive, observer) = self.new_alive();
        self.spawn_alive(id, if_aborted, (alive, observer), effect);
    }

    fn spawn_alive(
        &mut self,
        id: EffectId,
        if_aborted: EffectOutcome,
        (alive, observer): (Arc<Alive>, AliveObserver),
        effect: impl Future<Output = EffectOutcome> + Send + 'static,
    ) {
        let guard = OutcomeGuard { inbox: self.inbox.clone(), id: id.clone(), outcome: Some(if_aborted) };
        let before = self.ending.before(&id);
        let handle = self.runtime.spawn(async move {
            // This copy is dropped only after the effect.
            let _alive = alive;
            if !before.is_empty() {
                ending::wait_for(before).await;
            }
            guard.send(effect.await);
        });
        self.running.entry(id.owner).or_default().insert(id.key, (handle.abort_handle(), observer));
    }

    pub(super) fn call(&mut self, id: EffectId, call: Call) {
        let (feed, mask, clock) = (self.feed.clone(), self.mask.clone(), self.clock.clone());
        self.spoken.keep(|id| self.is_running(id));
        let (spoken, call_id) = (self.spoken.clone(), id.clone());
        let (alive, observer) = self.new_alive();
        let late_notices = LateNotices::new({
            let (id, inbox, alive) = (id.clone(), self.inbox.clone(), Arc::clone(&alive));
            move |notice| {
                let _held = &alive;
                // Sending fails if the session has ended; then nobody reads the notice.
                let _ = inbox.send(Input::Noticed { id: id.clone(), notice });
            }
        });
        let if_aborted = CallOutcome::unsent(internal_error());
        self.spawn_alive(id, if_aborted, (alive, observer), async move {
            let Call { work, mut request, backend, env } = call;
            if let Some(call_context) = &mut request.call_context {
                call_context.late_notices = late_notices;
            }
            let (digest, briefing) = match env {
                None => (request_digest(&request), None),
                Some((env_handle, visibility)) => {
                    let plain = request.clone();
                    match env_handle.add_context(&mut request, visibility).await {
                        Err(error) => return CallOutcome::unsent(env_unavailable(&error)),
                        Ok(briefing) => (sent_digest(&plain, briefing.as_ref(), &*mask), briefing),
                    }
                }
            };
            let Some(backend) = backend else { return CallOutcome::unsent(no_backend()) };
            let mut progress = ProgressStream::new(feed, work, mask);
            let mut times = CallTimes::begin(clock);
            let mut on_delta = |delta: Delta<'_>| {
                spoken.hear(&call_id, &delta);
                times.hear(&delta);
                progress.push(delta);
            };
            let result = backend.call(&request, &mut on_delta).await;
            progress.finish();
            let record = Some(times.end(digest));
            EffectOutcome::Replied(Box::new(CallOutcome { result, record, briefing }))
        });
    }

    /// Ends a model call without making it.
    pub(super) fn refuse_call(&mut self, id: EffectId, error: BackendError) {
        self.spawn(id, CallOutcome::unsent(internal_error()), async move { CallOutcome::unsent(error) });
    }

    /// Starts a program.
    pub(super) fn program(&mut self, id: EffectId, job: ProgramJob, programs: Option<Arc<dyn Programs>>) {
        let (inbox, feed, mask) = (self.inbox.clone(), self.feed.clone(), self.mask.clone());
        let (alive, observer) = self.new_alive();
        let sink = program_reports::report_sink(id.clone(), job.task.clone(), inbox, feed, mask);
        // The program may report something as long as the sink exists, so the effect ends only when the sink is
        // dropped.
        let held = Arc::clone(&alive);
        let sink: ReportSink = Arc::new(move |report| {
            let _held = &held;
            sink(report);
        });
        let failed = |error: &str| ProgramEnd { error: Some(error.into()), ..ProgramEnd::default() };
        let if_aborted = EffectOutcome::Exited(failed(INTERNAL_ERROR));
        self.spawn_alive(id, if_aborted, (alive, observer), async move {
            EffectOutcome::Exited(match programs {
                Some(programs) => programs.run(&job, sink).await,
                None => failed("this session cannot run programs"),
            })
        });
    }

    pub(super) fn plan(&mut self, id: EffectId, plans: Option<Arc<dyn Plans>>, effect: PlanEffect) {
        let failed = |error: &str| EffectOutcome::ItemAdded(effect.outcome_item(Err(error.into())));
        let aborted = failed(INTERNAL_ERROR);
        let Some(plans) = plans else {
            let nowhere = failed("this session can neither store nor read plans");
            return self.spawn(id, aborted, async move { nowhere });
        };
        self.spawn(id, failed(INTERNAL_ERROR), async move {
            // `run` blocks while it waits for the disk.
            let stored = tokio::task::spawn_blocking(move || effect.run(&*plans)).await;
            stored.map_or(aborted, EffectOutcome::ItemAdded)
        });
    }

    pub(super) fn side_task(
        &mut self,
        id: EffectId,
        kind: SideTaskKind,
        access: ContextAccess,
        env_handle: Option<AgentEnvHandle>,
    ) {
        self.spawn(
            id,
            EffectOutcome::ItemAdded(outcome_item(&kind, Err(INTERNAL_ERROR.into()))),
            async move {
                let env = match env_handle {
                    Some(env_handle) => env_handle.env().await,
                    None => Ok(None),
                };
                let result = match env {
                    Ok(Some(env)) => run_side_task(&*env, &kind, access).await,
                    Ok(None) => Err("this agent has no such tool".into()),
                    Err(error) => Err(error),
                };
                EffectOutcome::ItemAdded(outcome_item(&kind, result))
            },
        );
    }
}

impl Drop for Effects {
    fn drop(&mut self) {
        self.stop_all();
    }
}

pub(super) enum PlanEffect {
    Store(PlanDraft),
    Open(PlanRun),
}

impl PlanEffect {
    fn run(&self, plans: &dyn Plans) -> Item {
        match self {
            Self::Store(draft) => self.outcome_item(plans.store(draft).map(SideTaskOutput::PlanStored)),
            Self::Open(plan) => self.outcome_item(plans.open(plan).map(SideTaskOutput::PlanOpened)),
        }
    }

    fn outcome_item(&self, result: Result<SideTaskOutput, String>) -> Item {
        let kind = match self {
            Self::Store(_) => SideTaskKind::StorePlan,
            Self::Open(_) => SideTaskKind::OpenPlan,
        };
        outcome_item(&kind, result)
    }
}

enum SideTaskOutput {
    Nothing,
    Tool(ToolOutcome),
    Preview(EditPreview),
    Writes(Vec<FileWrite>),
    PlanStored(PlanRef),
    PlanOpened(PlanRun),
}

async fn run_side_task(
    env: &dyn AgentEnv,
    kind: &SideTaskKind,
    access: ContextAccess,
) -> Result<SideTaskOutput, String> {
    Ok(match kind {
        SideTaskKind::Tool(call) => SideTaskOutput::Tool(env.tool_host().call(call, access).await),
        SideTaskKind::PreviewEdit(call) => match env.tool_host().preview(call, access).await {
            Ok(preview) => SideTaskOutput::Preview(preview),
            Err(refusal) => SideTaskOutput::Tool(refusal),
        },
        SideTaskKind::Edit { call, digest } => {
            SideTaskOutput::Tool(env.tool_host().call_previewed(call, access, digest).await)
        }
        SideTaskKind::Snapshot(label) => {
            env.snapshot(*label).await?;
            SideTaskOutput::Nothing
        }
        SideTaskKind::ImportFiles { from, name, .. } => {
            env.import_dir(from, name).await?;
            SideTaskOutput::Nothing
        }
        SideTaskKind::OpenContext => {
            env.open_context().await?;
            SideTaskOutput::Nothing
        }
        SideTaskKind::CloseContext => SideTaskOutput::Writes(env.close_context().await?),
        SideTaskKind::StorePlan | SideTaskKind::OpenPlan => {
            return Err("internal error: an agent's environment can neither store nor read plans".into());
        }
    })
}

fn outcome_item(kind: &SideTaskKind, result: Result<SideTaskOutput, String>) -> Item {
    let (output, error) = match result {
        Ok(output) => (output, None),
        Err(error) => (SideTaskOutput::Nothing, Some(error)),
    };
    match (kind, output) {
        (SideTaskKind::PreviewEdit(call), SideTaskOutput::Preview(preview)) => {
            Item::EditProposed { call: call.id.clone(), preview }
        }
        (
            SideTaskKind::Tool(call) | SideTaskKind::PreviewEdit(call) | SideTaskKind::Edit { call, .. },
            SideTaskOutput::Tool(ToolOutcome { content, is_error }),
        ) => Item::ToolResult { call: call.id.clone(), content, is_error },
        (SideTaskKind::Tool(call) | SideTaskKind::PreviewEdit(call) | SideTaskKind::Edit { call, .. }, _) => {
            let content = error.unwrap_or_else(|| "the tool returned no result".into());
            Item::ToolResult { call: call.id.clone(), content, is_error: true }
        }
        (SideTaskKind::Snapshot(_), _) => Item::WorkspaceKept { error },
        (SideTaskKind::ImportFiles { subagent, .. }, _) => Item::FilesTaken { from: subagent.clone(), error },
        (SideTaskKind::OpenContext, _) => Item::ContextOpened { error },
        (SideTaskKind::CloseContext, SideTaskOutput::Writes(writes)) => Item::ContextClosed { writes, error },
        (SideTaskKind::CloseContext, _) => Item::ContextClosed { writes: Vec::new(), error },
        (SideTaskKind::StorePlan, SideTaskOutput::PlanStored(plan)) => {
            Item::PlanStored { plan: Some(plan), error }
        }
        (SideTaskKind::StorePlan, _) => Item::PlanStored { plan: None, error },
        (SideTaskKind::OpenPlan, SideTaskOutput::PlanOpened(plan)) => {
            Item::PlanOpened { plan: Some(plan), error }
        }
        (SideTaskKind::OpenPlan, _) => Item::PlanOpened { plan: None, error },
    }
}

/// Reports an effect's outcome on drop. After a panic in the effect, it reports an internal error, so that the task
/// does not wait forever.
struct OutcomeGuard {
    inbox: Sender<Input>,
    id: EffectId,
    outcome: Option<EffectOutcome>,
}

impl OutcomeGuard {
    fn send(mut self, outcome: EffectOutcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for OutcomeGuard {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            // Sending fails if the session has ended; then nobody waits for the outcome.
            let _ = self.inbox.send(Input::EffectEnded { id: self.id.clone(), outcome });
        }
    }
}

fn internal_error() -> BackendError {
    BackendError {
        kind: BackendErrorKind::Protocol,
        message: "the call ended because of an internal error inside Althing".into(),
        hint: Some("please report this bug, with the session's log".into()),
        usage: Usage::default(),
    }
}

fn no_backend() -> BackendError {
    BackendError {
        kind: BackendErrorKind::NotFound,
        message: "the config of this session has no backend for this agent".into(),
        hint: Some("start a new run with a config that defines the agent".into()),
        usage: Usage::default(),
    }
}

fn env_unavailable(error: &str) -> BackendError {
    BackendError {
        kind: BackendErrorKind::BadRequest,
        message: format!("the agent's environment cannot be used: {error}"),
        hint: None,
        usage: Usage::default(),
    }
}
