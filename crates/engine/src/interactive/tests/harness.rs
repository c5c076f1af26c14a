//! A test harness that simulates the environment of a conversation: the user, the model, the runs, the disk.

use crate::Consequence;
use crate::coordination::tests::harness::{call, member};
use crate::interactive::InteractiveSession;
use crate::launch::execution_run;
use althing_protocol::{
    AttemptOutcome, ChatLimits, ChatSpec, ChatState, ContextCompaction, CoordinationSummary, Decision,
    EditPreview, Event, Fact, FileChange, FileDiff, FinalAnswerStrategy, Interaction, InteractiveAgent, Item,
    Message, Millis, ModeChoice, ModelRequest, Op, Origin, Phase, Reply, RunEnd, RunResult, RunRules,
    RunSpec, RunStatus, Seq, TaskId, TaskSpec, TeamSpec, Timestamp, Usage, Verdict,
};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) fn team(agents: &[&str]) -> TeamSpec {
    let members = agents.iter().map(|id| member(id)).collect();
    let (context_paths, readable_dirs) = (Vec::new(), Vec::new());
    let not_signed_in = BTreeMap::new();
    TeamSpec { members, rules: RunRules::default(), context_paths, readable_dirs, costs: None, not_signed_in }
}

pub(crate) fn agent() -> InteractiveAgent {
    InteractiveAgent {
        member: member("host"),
        require_approval: true,
        append_system_prompt: None,
        compaction: ContextCompaction::default(),
        can_ask: false,
        budget_micro_usd: None,
        limits: ChatLimits::default(),
    }
}

pub(crate) fn chat() -> ChatSpec {
    ChatSpec {
        agent: Some(agent()),
        team: team(&["gem", "gpt", "cc"]),
        project: None,
        modes: ModeChoice::default(),
        history: Vec::new(),
        branch_of: None,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "tests write the arguments in place")]
pub(crate) fn launches(arguments: Value) -> Reply {
    Reply { tool_calls: vec![call("launch_run", &arguments.to_string())], ..Reply::default() }
}

/// What a change of one file would do.
pub(crate) fn preview(ask: bool) -> EditPreview {
    let (path, diff) = ("notes.txt".into(), "@@ -1 +1 @@\n-old\n+new\n".into());
    let change = FileChange::Modified;
    let file = FileDiff { path, change, added: 1, removed: 1, diff, omitted: 0, note: None };
    EditPreview { project: "/project".into(), files: vec![file], ask, digest: "d1".into() }
}

pub(crate) fn result(run: &TaskId, spec: &RunSpec, status: RunStatus) -> RunResult {
    RunResult {
        run_id: format!("s1.{run}"),
        task: spec.task.clone(),
        status,
        modes: spec.modes,
        final_answer: Some(format!("the answer of {run}")),
        workspace_path: Some(format!("/logs/{run}/workspaces/gem")),
        coordination_summary: CoordinationSummary {
            winner: Some("gem".into()),
            presenter: Some("gem".into()),
            strategy: FinalAnswerStrategy::WinnerPresent,
            overridden: false,
            rounds: 2,
            restarts: 0,
            votes: BTreeMap::from([("gem".into(), 2)]),
            ballots: Vec::new(),
            decision: None,
            agents: Vec::new(),
        },
        context_path_writes: Vec::new(),
        unchanged_paths: Vec::new(),
        plan: None,
        follow_up: (spec.execution.is_some() && status == RunStatus::Completed)
            .then(|| format!("s1.{}", run.execution())),
        usage: Usage { cost_usd: 0.25, calls: 7, ..Usage::default() },
        duration: Millis(9000),
        log_dir: format!("/logs/{run}"),
        error: None,
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) chat: InteractiveSession,
    pub(crate) log: Vec<Event>,
    spec: ChatSpec,
    now: u64,
    batch: usize,
}

impl World {
    pub(crate) fn new(spec: ChatSpec) -> Self {
        let chat = InteractiveSession::new("s1".into(), TaskId::chat(), spec.clone());
        let mut world = Self { chat, log: Vec::new(), spec: spec.clone(), now: 0, batch: 0 };
        let spec = TaskSpec::Chat(Box::new(spec));
        world.happens(TaskId::chat(), Fact::TaskCreated { id: TaskId::chat(), parent: None, spec });
        world
    }

    pub(crate) fn happens(&mut self, task: TaskId, fact: Fact) {
        self.batch = self.log.len();
        self.record(Some(task), fact);
        self.settle();
    }

    fn record(&mut self, task: Option<TaskId>, fact: Fact) {
        self.now += 10;
        let seq = Seq(self.log.len() as u64 + 1);
        let event = Event { seq, at: Timestamp(self.now), task, cause: None, fact };
        self.chat.apply(&event);
        self.log.push(event);
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..1000 {
            // The runs' deciders come first, as in a session.
            let mut facts = self.executions();
            facts.extend(self.chat.consequences());
            if facts.is_empty() {
                return;
            }
            for (task, fact) in facts {
                self.record(Some(task), fact);
            }
        }
        let story: Vec<String> =
            self.log.iter().take(60).map(|event| serde_json::to_string(event).unwrap()).collect();
        panic!("the consequences never end:\n{}", story.join("\n"));
    }

    /// The facts with which planning runs start the runs that execute their plans.
    fn executions(&self) -> Vec<Consequence> {
        let is_there = |run: &TaskId| {
            self.log.iter().any(|event| matches!(&event.fact, Fact::TaskCreated { id, .. } if id == run))
        };
        let is_cancelled = |run: &TaskId| {
            self.log.iter().any(|event| matches!(&event.fact, Fact::OpAccepted { op: Op::Cancel { task }, .. } if task == run))
        };
        let due = self.log.iter().filter_map(|event| match (&event.fact, &event.task) {
            (Fact::Decided(Verdict::Finished { result, .. }), Some(run)) if result.follow_up.is_some() => {
                Some((run, result))
            }
            _ => None,
        });
        let due = due.filter(|(run, _)| !is_there(&run.execution()) && !is_cancelled(run));
        due.map(|(run, result)| {
            let spec = self.run_spec(run).execution.clone().expect("a run to follow");
            let (id, parent) = (run.execution(), Some(TaskId::chat()));
            let spec = TaskSpec::Run(Box::new(execution_run(*spec, result)));
            (id.clone(), Fact::TaskCreated { id, parent, spec })
        })
        .collect()
    }

    pub(crate) fn op(&mut self, op: Op) -> Seq {
        self.batch = self.log.len();
        self.record(None, Fact::accepted(op, Origin::User));
        let seq = Seq(self.log.len() as u64);
        self.settle();
        seq
    }

    pub(crate) fn user(&mut self, text: &str) -> Seq {
        self.op(Op::SendMessage { text: text.into(), modes: ModeChoice::default(), grants: Vec::new() })
    }

    pub(crate) fn says(&mut self, reply: Reply) {
        let calls = self.chat.wanted().calls;
        let [call] = calls.as_slice() else { panic!("the agent is not asked:\n{}", self.story()) };
        self.happens(TaskId::chat(), Fact::ItemAdded { attempt: call.attempt, item: Item::Reply(reply) });
    }

    pub(crate) fn answers(&mut self, text: &str) {
        self.says(Reply { text: text.into(), ..Reply::default() });
    }

    pub(crate) fn fails(&mut self) {
        let calls = self.chat.wanted().calls;
        let [call] = calls.as_slice() else { panic!("the agent is not asked:\n{}", self.story()) };
        let outcome = AttemptOutcome::Failed { error: "HTTP 500".into(), hint: None, kind: None };
        let ended =
            Fact::AttemptEnded { attempt: call.attempt, outcome, usage: Usage::default(), call: None };
        self.happens(TaskId::chat(), ended);
    }

    pub(crate) fn run_ends(&mut self, status: RunStatus) {
        let run = self.chat.current_run().cloned().unwrap_or_else(|| panic!("no run:\n{}", self.story()));
        let result = result(&run, self.run_spec(&run), status);
        self.run_ends_with(result);
    }

    pub(crate) fn run_ends_with(&mut self, result: RunResult) {
        let run = self.chat.current_run().cloned().expect("a run is under way");
        let end = if result.status == RunStatus::Completed { RunEnd::Answered } else { RunEnd::Limit };
        self.happens(run, Fact::Decided(Verdict::Finished { end, result: Box::new(result) }));
    }

    pub(crate) fn run_spec(&self, run: &TaskId) -> &RunSpec {
        let spec = self.log.iter().find_map(|event| match &event.fact {
            Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } if id == run => Some(&**spec),
            _ => None,
        });
        spec.expect("the run was created")
    }

    pub(crate) fn open(&self) -> Option<Interaction> {
        let mut open = None;
        for event in &self.log {
            match &event.fact {
                Fact::InteractionOpened(interaction) => open = Some(interaction.clone()),
                Fact::InteractionClosed { .. } => open = None,
                _ => {}
            }
        }
        open
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests write the decision in place")]
    pub(crate) fn decides(&mut self, decision: Decision) -> Result<(), String> {
        let id = self.open().expect("a question is open").id;
        let facts = self.chat.answer(&id, &decision)?;
        self.batch = self.log.len();
        for (task, fact) in facts {
            self.record(Some(task), fact);
        }
        self.settle();
        Ok(())
    }

    pub(crate) fn approves(&mut self) {
        let digest = self.proposal().digest;
        self.decides(Decision::Approve { digest: Some(digest), edited: None, instructions: None }).unwrap();
    }

    pub(crate) fn proposal(&self) -> althing_protocol::Proposal {
        match self.open().expect("a question is open").kind {
            althing_protocol::InteractionKind::RunApproval { proposal } => *proposal,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn request(&self) -> ModelRequest {
        self.chat.request().unwrap_or_else(|| panic!("nothing is asked:\n{}", self.story()))
    }

    pub(crate) fn last_result(&self) -> (String, bool) {
        let request = self.request();
        let found = request.messages.iter().rev().find_map(|message| match message {
            Message::Tool { content, is_error, .. } => Some((content.clone(), *is_error)),
            _ => None,
        });
        found.expect("a tool result")
    }

    pub(crate) fn states(&self) -> Vec<ChatState> {
        let state = |event: &Event| match event.fact {
            Fact::PhaseChanged { phase: Phase::Chat(state) } => Some(state),
            _ => None,
        };
        self.log.iter().filter_map(state).collect()
    }

    pub(crate) fn runs(&self) -> Vec<TaskId> {
        let run = |event: &Event| match &event.fact {
            Fact::TaskCreated { id, spec: TaskSpec::Run(_), parent } => {
                assert_eq!(*parent, Some(TaskId::chat()));
                Some(id.clone())
            }
            _ => None,
        };
        self.log.iter().filter_map(run).collect()
    }

    pub(crate) fn folded(&self) -> InteractiveSession {
        let mut chat = InteractiveSession::new("s1".into(), TaskId::chat(), self.spec.clone());
        self.log.iter().for_each(|event| chat.apply(event));
        chat
    }

    /// A crash: only the log survives, with the first `left` events of the last batch.
    pub(crate) fn crashes(&mut self, left: usize) {
        self.crashes_and(left, |_| Vec::new());
    }

    /// Like `crashes`, but records additional facts before the decider is asked what follows.
    pub(crate) fn crashes_and(&mut self, left: usize, more: impl FnOnce(&Self) -> Vec<Consequence>) {
        self.log.truncate((self.batch + left).max(1));
        self.chat = self.folded();
        self.batch = self.log.len();
        self.record(None, Fact::accepted(Op::Resume, Origin::User));
        for (task, fact) in more(self) {
            self.record(Some(task), fact);
        }
        self.settle();
    }

    pub(crate) fn last_batch(&self) -> usize {
        self.log.len() - self.batch
    }

    pub(crate) fn story(&self) -> String {
        self.log.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect()
    }
}
