//! Tests of a running session, with a journal and backends that the test controls.

use super::*;
use crate::coordination::Coordination;
use crate::coordination::tests::harness::{answer, spec, text, vote};
use althing_protocol::Reply;
use althing_protocol::{
    BackendError, BackendErrorKind, BackendInfo, BoxFuture, Decision, DeltaSink, Fact, FeedItem, Item,
    JournalErrorKind, Millis, ModelRequest, Op, Origin, PlanDraft, PlanRef, PlanRun, Plans, Progress,
    RunRules, RunStatus, Submission, Timestamp, Usage,
};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone)]
struct Memory {
    log: Arc<Mutex<Vec<Arc<Event>>>>,
    /// The number of appends that will fail.
    refusals: Arc<AtomicUsize>,
    refusal_kind: Arc<Mutex<JournalErrorKind>>,
    /// Blocks the first write of a result file.
    gate: Arc<Mutex<Option<Gate>>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            log: Arc::default(),
            refusals: Arc::default(),
            refusal_kind: Arc::new(Mutex::new(JournalErrorKind::Unavailable)),
            gate: Arc::default(),
        }
    }
}

struct Gate {
    arrived: tokio::sync::oneshot::Sender<()>,
    opened: mpsc::Receiver<()>,
}

impl Journal for Memory {
    fn append(&mut self, events: &[Arc<Event>]) -> Result<(), JournalError> {
        let refuse = |left: usize| left.checked_sub(1);
        if self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, refuse).is_ok() {
            return Err(JournalError {
                kind: *self.refusal_kind.lock().unwrap(),
                message: "no space left".into(),
                hint: Some("free some".into()),
            });
        }
        self.log.lock().unwrap().extend_from_slice(events);
        Ok(())
    }

    fn write_file(&mut self, _: &TaskId, _: &str, _: &str) -> Result<(), JournalError> {
        if let Some(gate) = self.gate.lock().unwrap().take() {
            gate.arrived.send(()).unwrap();
            gate.opened.recv().unwrap();
        }
        Ok(())
    }
}

impl JournalReader for Memory {
    fn read(&self, after: Seq, up_to: Seq) -> BoxFuture<'_, Result<Vec<Arc<Event>>, JournalError>> {
        let log = self.log.lock().unwrap();
        let events = log.iter().filter(|event| event.seq > after && event.seq <= up_to).cloned().collect();
        Box::pin(std::future::ready(Ok(events)))
    }
}

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "these tests use real timers")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp(since.as_millis() as u64)
    }
}

struct NoSecrets;

impl EventMasker for NoSecrets {
    fn event(&self, event: Event) -> Event {
        event
    }

    fn secret_place(&self, _: &Op) -> Option<String> {
        None
    }

    fn text(&self, text: &str) -> String {
        text.to_owned()
    }

    fn unfinished(&self, _: &str) -> usize {
        0
    }
}

struct UnstoredPlans;

impl Plans for UnstoredPlans {
    fn store(&self, draft: &PlanDraft) -> Result<PlanRef, String> {
        Ok(PlanRef { id: draft.run_id.clone(), path: "/plans/p1".into() })
    }

    fn open(&self, plan: &PlanRun) -> Result<PlanRun, String> {
        Ok(plan.clone())
    }
}

type Behavior = fn(&ModelRequest) -> Option<Result<Reply, BackendError>>;

/// A backend with scripted behavior; if the behavior returns None, the call never ends.
struct Scripted {
    info: BackendInfo,
    behavior: Behavior,
}

impl Backend for Scripted {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Reply, BackendError>> {
        Box::pin(async move {
            match (self.behavior)(request) {
                Some(result) => result,
                None => std::future::pending().await,
            }
        })
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other behaviors may hang")]
fn sensible(request: &ModelRequest) -> Option<Result<Reply, BackendError>> {
    let offered = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    Some(Ok(match () {
        () if offered("vote") => vote("agent1"),
        () if offered("new_answer") => answer("an answer"),
        () => text("final"),
    }))
}

fn open(memory: &Memory, behaviors: &[Behavior], history: Vec<Arc<Event>>) -> Orchestrator {
    open_watched(memory, behaviors, history, None)
}

fn open_watched(
    memory: &Memory,
    behaviors: &[Behavior],
    history: Vec<Arc<Event>>,
    observer: Option<Observer>,
) -> Orchestrator {
    let backends = ["a", "b", "c"].into_iter().zip(behaviors).map(|(id, behavior)| {
        let info = BackendInfo { kind: "test".into(), model: id.into(), offline: false };
        (AgentId::new(id), Arc::new(Scripted { info, behavior: *behavior }) as Arc<dyn Backend>)
    });
    let deps = SessionDeps {
        session: "s1".into(),
        journal: Box::new(memory.clone()),
        reader: Arc::new(memory.clone()),
        history,
        backends: backends.collect(),
        agent_envs: None,
        programs: None,
        plans: Some(Arc::new(UnstoredPlans)),
        observer,
        reporter: None,
        account: None,
        clock: Arc::new(SystemClock),
        mask: Arc::new(NoSecrets),
        task_dir: Box::new(ToString::to_string),
        runtime: tokio::runtime::Handle::current(),
        journal_retry_timeout: Duration::from_secs(120),
    };
    Orchestrator::open(deps, None).unwrap()
}

fn start(orchestrator: &Orchestrator, agents: &[&str], rules: RunRules) {
    let spec = Box::new(spec(agents, rules));
    orchestrator.submitter().submit(Submission::new(Op::StartRun { spec }, Origin::User)).unwrap();
}

/// Follows the session to its end; returns the run's result, and whether the journal stalled.
async fn follow(orchestrator: &Orchestrator) -> (Option<RunResult>, bool) {
    let mut events = orchestrator.feed().subscribe(Seq(0), Interest::Everything);
    let (mut result, mut stalled) = (None, false);
    while let Some(item) = events.next().await {
        match item.unwrap() {
            FeedItem::Event(event) => {
                if let Fact::Decided(althing_protocol::Verdict::Finished { result: finished, .. }) =
                    &event.fact
                {
                    result = Some((**finished).clone());
                }
            }
            FeedItem::Progress(progress) => stalled |= matches!(*progress, Progress::Stalled { .. }),
        }
    }
    (result, stalled)
}

#[tokio::test]
async fn a_run_goes_from_its_start_to_its_result() {
    let memory = Memory::default();
    let orchestrator = open(&memory, &[sensible, sensible], Vec::new());
    start(&orchestrator, &["a", "b"], RunRules::default());
    let (result, _) = follow(&orchestrator).await;
    assert_eq!(result.unwrap().final_answer.as_deref(), Some("final"));
    assert_eq!(orchestrator.join().unwrap(), SessionEnd::Finished);
    let log = memory.log.lock().unwrap();
    let numbers: Vec<u64> = log.iter().map(|event| event.seq.0).collect();
    assert_eq!(numbers, (1..=log.len() as u64).collect::<Vec<_>>());
    assert!(matches!(log.last().unwrap().fact, Fact::SessionClosed {}));
}

#[tokio::test]
async fn consequences_are_recorded_as_the_decider_returned_them_when_a_plan_is_stored() {
    let memory = Memory::default();
    let orchestrator = open(&memory, &[sensible], Vec::new());
    let mut planning = spec(&["a"], RunRules::default());
    planning.modes.planning = true;
    let op = Op::StartRun { spec: Box::new(planning.clone()) };
    orchestrator.submitter().submit(Submission::new(op, Origin::User)).unwrap();
    let result = follow(&orchestrator).await.0.unwrap();
    assert_eq!(result.plan.map(|plan| plan.id).as_deref(), Some("s1.r1"));
    let log = memory.log.lock().unwrap();
    let mut run = Coordination::new("s1".into(), "r1".into(), planning, "r1".into());
    let mut due = VecDeque::new();
    for event in log.iter() {
        if let Some((task, fact)) = due.pop_front() {
            assert_eq!((event.task.as_ref(), &event.fact), (Some(&task), &fact));
        }
        run.apply(event);
        if due.is_empty() {
            due.extend(run.consequences());
        }
    }
    assert!(due.is_empty() && run.result().is_some(), "{due:?}");
}

#[tokio::test]
async fn a_result_is_published_only_after_its_files_are_written() {
    let memory = Memory::default();
    let (arrived, at_the_gate) = tokio::sync::oneshot::channel();
    let (open_gate, opened) = mpsc::channel();
    *memory.gate.lock().unwrap() = Some(Gate { arrived, opened });
    let orchestrator = open(&memory, &[sensible], Vec::new());
    start(&orchestrator, &["a"], RunRules::default());
    at_the_gate.await.unwrap();
    let mut events = orchestrator.feed().subscribe(Seq(0), Interest::Facts);
    let mut told = Seq(0);
    let mut patience = Duration::from_secs(120);
    while let Ok(Some(Ok(item))) = tokio::time::timeout(patience, events.next()).await {
        if let FeedItem::Event(event) = item {
            told = event.seq;
            // Only waiting can show that no further message arrives.
            patience = Duration::from_millis(200);
        }
    }
    let written = memory.log.lock().unwrap().last().unwrap().seq;
    assert!(told > Seq(0) && told < written, "told up to {told:?} of {written:?}");
    open_gate.send(()).unwrap();
    assert_eq!(follow(&orchestrator).await.0.unwrap().status, RunStatus::Completed);
}

#[tokio::test]
async fn while_the_disk_is_full_nothing_is_shown_or_started_and_the_session_continues_when_there_is_space() {
    let memory = Memory::default();
    memory.refusals.store(3, Ordering::SeqCst);
    let orchestrator = open(&memory, &[sensible], Vec::new());
    start(&orchestrator, &["a"], RunRules::default());
    let (result, stalled) = follow(&orchestrator).await;
    assert!(stalled, "people are told");
    assert_eq!(result.unwrap().status, RunStatus::Completed);
}

#[tokio::test]
async fn a_backend_that_panics_fails_its_agent_and_not_the_run() {
    let memory = Memory::default();
    let broken: Behavior = |_| panic!("a bug in a backend");
    let orchestrator = open(&memory, &[broken, sensible], Vec::new());
    start(&orchestrator, &["a", "b"], RunRules::default());
    let result = follow(&orchestrator).await.0.unwrap();
    assert_eq!(result.status, RunStatus::Completed);
    assert!(result.coordination_summary.agents[0].error.as_ref().unwrap().contains("inside Althing"));
}

#[tokio::test]
async fn the_event_stream_ends_when_the_session_thread_panics() {
    let memory = Memory::default();
    let broken: Observer = Box::new(|_| panic!("a bug in what is kept beside the log"));
    let orchestrator = open_watched(&memory, &[sensible], Vec::new(), Some(broken));
    let mut events = orchestrator.feed().subscribe(Seq(0), Interest::Facts);
    start(&orchestrator, &["a"], RunRules::default());
    let rest = async { while events.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(120), rest).await.expect("the stream ends");
    assert!(orchestrator.join().is_err());
}

#[tokio::test]
async fn a_shutdown_leaves_a_log_that_a_resume_finishes() {
    let memory = Memory::default();
    let hangs: Behavior = |_| None;
    let orchestrator = open(&memory, &[sensible, hangs], Vec::new());
    start(&orchestrator, &["a", "b"], RunRules::default());
    let mut events = orchestrator.feed().subscribe(Seq(0), Interest::Facts);
    while let Some(Ok(item)) = events.next().await {
        let FeedItem::Event(event) = item else { continue };
        if let Fact::ItemAdded { item: Item::Answer(_), .. } = &event.fact {
            orchestrator.submitter().submit(Submission::new(Op::Shutdown, Origin::Signal)).unwrap();
        }
    }
    let SessionEnd::Halted(results) = orchestrator.join().unwrap() else { panic!("halted") };
    assert_eq!(results[0].final_answer.as_deref(), Some("an answer"), "what it has so far");

    let history = memory.log.lock().unwrap().clone();
    let replies = |log: &[Arc<Event>]| {
        log.iter().filter(|event| matches!(event.fact, Fact::ItemAdded { item: Item::Reply(_), .. })).count()
    };
    assert_eq!(replies(&history), 1);
    let orchestrator = open(&memory, &[sensible, sensible], history);
    orchestrator.submitter().submit(Submission::new(Op::Resume, Origin::User)).unwrap();
    let result = follow(&orchestrator).await.0.unwrap();
    assert_eq!(result.status, RunStatus::Completed);
    assert_eq!(
        replies(&memory.log.lock().unwrap()),
        5,
        "two answers, two votes, one presentation, none twice"
    );
}

#[tokio::test]
async fn a_silent_backend_is_ended_by_the_runs_limit() {
    let memory = Memory::default();
    let hangs: Behavior = |_| None;
    let mut rules = RunRules::default();
    rules.limits.orchestrator = Millis(100);
    let orchestrator = open(&memory, &[sensible, hangs], Vec::new());
    start(&orchestrator, &["a", "b"], rules);
    let result = follow(&orchestrator).await.0.unwrap();
    assert_eq!((result.status, result.final_answer.as_deref()), (RunStatus::Partial, Some("an answer")));
}

#[tokio::test]
async fn a_failing_backend_is_reported_with_its_cost() {
    let memory = Memory::default();
    let fails: Behavior = |_| {
        let usage = Usage { calls: 3, ..Usage::default() };
        Some(Err(BackendError {
            kind: BackendErrorKind::Server,
            message: "HTTP 500".into(),
            hint: None,
            usage,
        }))
    };
    let orchestrator = open(&memory, &[fails], Vec::new());
    start(&orchestrator, &["a"], RunRules::default());
    let result = follow(&orchestrator).await.0.unwrap();
    assert_eq!((result.status, result.usage.calls), (RunStatus::Failed, 3));
}

#[tokio::test]
async fn an_answer_to_a_question_that_is_not_open_is_rejected_with_a_notice() {
    let memory = Memory::default();
    let orchestrator = open(&memory, &[sensible], Vec::new());
    let op = Op::Answer { interaction: "r9.override".into(), decision: Decision::Continue };
    orchestrator.submitter().submit(Submission::new(op, Origin::User)).unwrap();
    start(&orchestrator, &["a"], RunRules::default());
    follow(&orchestrator).await;
    let log = memory.log.lock().unwrap();
    assert!(
        log.iter()
            .any(|event| matches!(&event.fact, Fact::Notice(notice) if notice.text.contains("not open")))
    );
}

#[tokio::test]
async fn an_op_that_is_delivered_again_under_its_id_is_accepted_once_even_after_a_restart() {
    let memory = Memory::default();
    let op = Op::StartRun { spec: Box::new(spec(&["a"], RunRules::default())) };
    let submission = Submission { op, by: Origin::Client, id: Some("launch-1".into()) };
    let orchestrator = open(&memory, &[sensible], Vec::new());
    // While the log is locked nothing is durable, so the session cannot end before the last delivery.
    let locked = memory.log.lock().unwrap();
    for _ in 0..3 {
        orchestrator.submitter().submit(submission.clone()).unwrap();
    }
    drop(locked);
    follow(&orchestrator).await;
    orchestrator.join().unwrap();

    let history = memory.log.lock().unwrap().clone();
    let orchestrator = open(&memory, &[sensible], history);
    let locked = memory.log.lock().unwrap();
    orchestrator.submitter().submit(submission).unwrap();
    orchestrator.submitter().submit(Submission::new(Op::Shutdown, Origin::System)).unwrap();
    drop(locked);
    orchestrator.join().unwrap();
    let log = memory.log.lock().unwrap();
    let runs = log.iter().filter(|event| {
        matches!(&event.fact, Fact::TaskCreated { spec: althing_protocol::TaskSpec::Run(_), .. })
    });
    assert_eq!(runs.count(), 1);
    let accepted = log.iter().filter(|event| matches!(&event.fact, Fact::OpAccepted { id: Some(_), .. }));
    assert_eq!(accepted.count(), 1);
}

#[tokio::test]
async fn a_session_that_another_writer_took_over_stops_at_once_with_its_error() {
    let memory = Memory::default();
    memory.refusals.store(1, Ordering::SeqCst);
    *memory.refusal_kind.lock().unwrap() = JournalErrorKind::OwnedElsewhere;
    let orchestrator = open(&memory, &[sensible], Vec::new());
    start(&orchestrator, &["a"], RunRules::default());
    let (result, stalled) = follow(&orchestrator).await;
    assert!(result.is_none() && !stalled, "nothing is waited for");
    let SessionEnd::Disk(error) = orchestrator.join().unwrap() else { panic!("it stops") };
    assert_eq!(error.kind, JournalErrorKind::OwnedElsewhere);
    assert!(memory.log.lock().unwrap().is_empty());
}
