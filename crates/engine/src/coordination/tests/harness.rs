//! A test harness that simulates the environment of a run's decider: numbers and times its facts, stores the log, and
//! answers its calls.

use crate::coordination::Coordination;
use crate::decider::{CallKey, SideTask, SideTaskKind};
use althing_protocol::{
    AgentId, AttemptOutcome, Event, Fact, Item, Member, Modes, Op, Origin, PlanRef, PlanRun, Purpose, Reply,
    RunRules, RunSpec, Seq, TaskId, TaskSpec, Timer, Timestamp, ToolCall, Usage,
};
use std::collections::BTreeMap;

pub(crate) fn member(id: &str) -> Member {
    Member {
        id: id.into(),
        backend: "chatcompletion".into(),
        model: format!("model-{id}"),
        offline: false,
        system_message: None,
        has_tools: false,
        voting_sensitivity: None,
    }
}

pub(crate) fn spec(agents: &[&str], mut rules: RunRules) -> RunSpec {
    rules.override_window = None;
    RunSpec {
        task: "Why is the sky blue?".into(),
        context: None,
        history: Vec::new(),
        members: agents.iter().map(|id| member(id)).collect(),
        context_paths: Vec::new(),
        modes: Modes::default(),
        rules,
        subagent_of: None,
        plan: None,
        execution: None,
        unapproved_paths: Vec::new(),
        tie_break_seed: 7,
    }
}

pub(crate) fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: format!("call-{name}"), name: name.into(), arguments: arguments.into() }
}

pub(crate) fn answer(text: &str) -> Reply {
    let arguments = serde_json::json!({ "content": text }).to_string();
    Reply { tool_calls: vec![call("new_answer", &arguments)], ..Reply::default() }
}

pub(crate) fn vote(target: &str) -> Reply {
    let arguments = serde_json::json!({"agent_id": target, "reason": "it is right"}).to_string();
    Reply { tool_calls: vec![call("vote", &arguments)], ..Reply::default() }
}

pub(crate) fn text(words: &str) -> Reply {
    Reply { text: words.into(), ..Reply::default() }
}

fn fold(event: &Event, run: &mut Coordination, subagents: &mut BTreeMap<TaskId, Coordination>) {
    if let Fact::TaskCreated { id, spec: TaskSpec::Run(spec), .. } = &event.fact
        && *id != run.task
    {
        let log_dir = format!("/logs/{id}");
        let subagent = Coordination::new("s1".into(), id.clone(), (**spec).clone(), log_dir);
        subagents.insert(id.clone(), subagent);
    }
    run.apply(event);
    for run in subagents.values_mut() {
        run.apply(event);
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) run: Coordination,
    /// The subagent runs, and the run that executes the main run's plan.
    pub(crate) subagents: BTreeMap<TaskId, Coordination>,
    pub(crate) log: Vec<Event>,
    now: u64,
    batch: usize,
}

impl World {
    pub(crate) fn new(spec: RunSpec) -> Self {
        let run = Coordination::new("s1".into(), "r1".into(), spec.clone(), "/logs".into());
        let mut world = Self { run, subagents: BTreeMap::new(), log: Vec::new(), now: 0, batch: 0 };
        let created =
            Fact::TaskCreated { id: "r1".into(), parent: None, spec: TaskSpec::Run(Box::new(spec)) };
        world.happens("r1".into(), created);
        world
    }

    pub(crate) fn start(agents: &[&str], rules: RunRules) -> Self {
        Self::new(spec(agents, rules))
    }

    pub(crate) fn happens(&mut self, task: TaskId, fact: Fact) {
        self.batch = self.log.len();
        self.record(Some(task), fact);
        self.settle();
    }

    pub(crate) fn record(&mut self, task: Option<TaskId>, fact: Fact) {
        self.now += 10;
        let event =
            Event { seq: Seq(self.log.len() as u64 + 1), at: Timestamp(self.now), task, cause: None, fact };
        fold(&event, &mut self.run, &mut self.subagents);
        self.log.push(event);
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..1000 {
            let mut facts = self.run.consequences();
            facts.extend(self.subagents.values().flat_map(Coordination::consequences));
            if facts.is_empty() {
                return;
            }
            for (task, fact) in facts {
                self.record(Some(task), fact);
            }
        }
        panic!("the consequences never end:\n{:#?}", self.log.iter().rev().take(6).collect::<Vec<_>>());
    }

    pub(crate) fn op(&mut self, op: Op) {
        self.batch = self.log.len();
        self.record(None, Fact::accepted(op, Origin::User));
        self.settle();
    }

    pub(crate) fn fires(&mut self, timer: Timer) {
        self.happens("r1".into(), Fact::TimerFired(timer));
    }

    /// The run with this task id; the main run if no other run has it.
    pub(crate) fn run_of(&self, task: &TaskId) -> &Coordination {
        self.subagents.get(task).unwrap_or(&self.run)
    }

    pub(crate) fn subagent_says(&mut self, task: &str, member_index: usize, reply: Reply) {
        let run = self.run_of(&task.into());
        let call = run.wanted().calls.into_iter().find(|call| call.member_index == member_index);
        let call = call.unwrap_or_else(|| panic!("{task} is not asked:\n{}", self.story()));
        let work = run.work(member_index);
        self.happens(work, Fact::ItemAdded { attempt: call.attempt, item: Item::Reply(reply) });
    }

    pub(crate) fn call_of(&self, member_index: usize) -> Option<CallKey> {
        self.run.wanted().calls.into_iter().find(|call| call.member_index == member_index)
    }

    pub(crate) fn says(&mut self, member_index: usize, reply: Reply) {
        let call = self
            .call_of(member_index)
            .unwrap_or_else(|| panic!("member {member_index} is not asked:\n{}", self.story()));
        self.happens(
            self.run.work(member_index),
            Fact::ItemAdded { attempt: call.attempt, item: Item::Reply(reply) },
        );
    }

    pub(crate) fn stores_plan(&mut self, error: Option<&str>) {
        let side_tasks = self.run.wanted().side_tasks;
        let side_task = side_tasks.iter().find(|side_task| side_task.kind == SideTaskKind::StorePlan);
        let side_task = side_task.unwrap_or_else(|| panic!("no plan is to be stored:\n{}", self.story()));
        let plan = error.is_none().then(|| PlanRef { id: "p1".into(), path: "/plans/p1".into() });
        let item = Item::PlanStored { plan, error: error.map(str::to_owned) };
        self.happens(
            self.run.work(side_task.member_index),
            Fact::ItemAdded { attempt: side_task.attempt, item },
        );
    }

    /// Reading the stored plan ends with this plan; None: it failed.
    pub(crate) fn opens_plan(&mut self, plan: Option<PlanRun>) {
        assert_eq!(
            self.run.wanted().side_tasks,
            [SideTask { member_index: 0, attempt: 0, kind: SideTaskKind::OpenPlan }]
        );
        let error = plan.is_none().then(|| "the disk said no".to_owned());
        let item = Item::PlanOpened { plan, error };
        self.happens("r1.a1".into(), Fact::ItemAdded { attempt: 0, item });
    }

    pub(crate) fn fails(&mut self, member_index: usize) {
        let call = self.call_of(member_index).expect("the member is asked");
        let outcome = AttemptOutcome::Failed { error: "HTTP 500".into(), hint: None, kind: None };
        self.happens(
            self.run.work(member_index),
            Fact::AttemptEnded { attempt: call.attempt, outcome, usage: Usage::default(), call: None },
        );
    }

    /// Whether the member evaluates (not judges) the final answer.
    pub(crate) fn is_judged_by(&self, member_index: usize) -> bool {
        let attempt = self.run.state.members.get(member_index).and_then(|member| member.attempt.as_ref());
        attempt.is_some_and(|attempt| attempt.purpose == Purpose::Evaluate)
    }

    pub(crate) fn asked(&self) -> Vec<usize> {
        self.run.wanted().calls.into_iter().map(|call| call.member_index).collect()
    }

    pub(crate) fn tools_of(&self, member_index: usize) -> Vec<String> {
        self.run.request(member_index).expect("asked").tools.into_iter().map(|tool| tool.name).collect()
    }

    pub(crate) fn shown_to(&self, member_index: usize) -> String {
        let request = self.run.request(member_index).expect("asked");
        format!("{}\n{:#?}", request.system, request.messages)
    }

    pub(crate) fn wants_timer(&self, timer: &Timer) -> bool {
        self.run.wanted().timers.iter().any(|(wanted, _)| wanted == timer)
    }

    pub(crate) fn winner(&self) -> Option<&AgentId> {
        self.run.state.post_vote.winner.as_ref()
    }

    pub(crate) fn folded(&self) -> Coordination {
        self.all_folded().0
    }

    pub(crate) fn all_folded(&self) -> (Coordination, BTreeMap<TaskId, Coordination>) {
        let Some(Fact::TaskCreated { spec: TaskSpec::Run(spec), .. }) =
            self.log.first().map(|event| &event.fact)
        else {
            panic!("the log begins with the run");
        };
        let mut run = Coordination::new("s1".into(), "r1".into(), (**spec).clone(), "/logs".into());
        let mut subagents = BTreeMap::new();
        self.log.iter().for_each(|event| fold(event, &mut run, &mut subagents));
        (run, subagents)
    }

    /// A crash: only the log survives, with the first `left` events of the last batch.
    pub(crate) fn crashes(&mut self, left: usize) {
        self.log.truncate((self.batch + left).max(1));
        (self.run, self.subagents) = self.all_folded();
    }

    pub(crate) fn last_batch(&self) -> usize {
        self.log.len() - self.batch
    }

    pub(crate) fn story(&self) -> String {
        self.log.iter().map(|event| serde_json::to_string(event).unwrap() + "\n").collect()
    }
}
