//! Hand-made sessions: what an engine would send, for tests and for the demo.
#![allow(dead_code, reason = "each user of the script needs another part of it")]

use althing_protocol::{
    AgentId, AgentMode, AgentOptions, AgentOutcome, AgentSummary, Answer, AnswerLabel, Ask, AskKind,
    AskOption, AttemptOutcome, Ballot, Candidate, ChatLimits, ChatSpec, ChatState, ContextCompaction,
    CoordinationSummary, Decision, DeltaKind, EditPreview, Event, ExecutionMode, Fact, FeedItem, FileChange,
    FileDiff, FileWrite, FinalAnswerStrategy, Interaction, InteractionId, InteractionKind, InteractiveAgent,
    Item, LOG_SCHEMA, LaunchRun, Member, Millis, ModeChoice, Modes, Op, Origin, Phase, PlanRef, ProgramSpec,
    Progress, Proposal, Purpose, Reply, Revision, RunEnd, RunResult, RunRules, RunSpec, RunStatus, Seq,
    SessionKind, SessionOpened, StageBody, StageSpec, StageTask, TaskId, TaskSpec, TaskStatus, TeamSpec,
    Timestamp, ToolCall, Usage, Verdict, WorkflowSpec,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// 2026-11-15T10:31:00Z.
pub const START: Timestamp = Timestamp(1_794_738_660_000);

#[derive(Debug)]
pub struct Script {
    pub items: Vec<FeedItem>,
    pub seq: u64,
    pub now: Timestamp,
}

impl Default for Script {
    fn default() -> Self {
        Self { items: Vec::new(), seq: 0, now: START }
    }
}

pub fn member(id: &str, model: &str) -> Member {
    Member {
        id: id.into(),
        backend: "gemini".into(),
        model: model.into(),
        offline: false,
        system_message: None,
        has_tools: true,
        voting_sensitivity: None,
    }
}

pub fn team() -> Vec<Member> {
    vec![member("gem", "gemini-2.5-flash"), member("gpt", "gpt-5-mini"), member("cc", "Claude Code")]
}

pub fn usage(thousands: u64) -> Usage {
    Usage {
        input_tokens: thousands * 900,
        output_tokens: thousands * 100,
        cost_usd: thousands as f64 * 0.004,
        calls: 1,
        ..Usage::default()
    }
}

pub fn run_spec(task: &str, modes: Modes) -> RunSpec {
    RunSpec {
        task: task.into(),
        context: None,
        history: Vec::new(),
        members: team(),
        context_paths: Vec::new(),
        modes,
        rules: RunRules::default(),
        subagent_of: None,
        plan: None,
        execution: None,
        unapproved_paths: Vec::new(),
        tie_break_seed: 1,
    }
}

pub fn work(run: &str, n: u32) -> TaskId {
    TaskId::from(run).work(n)
}

impl Script {
    pub fn wait(&mut self, millis: u64) -> &mut Self {
        self.now = Timestamp(self.now.0 + millis);
        self
    }

    pub fn fact(&mut self, task: Option<&str>, fact: Fact) -> u64 {
        self.seq += 1;
        let event =
            Event { seq: Seq(self.seq), at: self.now, task: task.map(TaskId::from), cause: None, fact };
        self.items.push(FeedItem::Event(Arc::new(event)));
        self.wait(10);
        self.seq
    }

    pub fn pass(&mut self, progress: Progress) {
        self.items.push(FeedItem::Progress(Arc::new(progress)));
    }

    pub fn delta(&mut self, task: &str, kind: DeltaKind, text: &str) {
        self.pass(Progress::Delta { after: Seq(self.seq), task: task.into(), kind, text: text.into() });
    }

    pub fn opened(&mut self, kind: SessionKind) {
        let opened = SessionOpened {
            schema: LOG_SCHEMA,
            session: "2026-11-15-auth".into(),
            kind,
            goal: "Replace JWT".into(),
            cwd: "/home/me/my-app".into(),
            version: "0.1.0".into(),
            config_source: "althing.yaml".into(),
            config_text: String::new(),
            config_digest: String::new(),
            state_dir: None,
            project: None,
            op: None,
        };
        self.fact(None, Fact::SessionOpened(Box::new(opened)));
    }

    pub fn chat(&mut self, interactive: bool) {
        self.opened(SessionKind::Chat);
        let agent = InteractiveAgent {
            member: member("gem", "gemini-2.5-flash"),
            require_approval: true,
            append_system_prompt: None,
            compaction: ContextCompaction { enabled: true, threshold_tokens: 100_000, preserve_recent: 10 },
            can_ask: false,
            budget_micro_usd: Some(5_000_000),
            limits: ChatLimits::default(),
        };
        let spec = ChatSpec {
            agent: interactive.then_some(agent),
            team: TeamSpec {
                members: team(),
                rules: RunRules::default(),
                context_paths: Vec::new(),
                readable_dirs: Vec::new(),
                costs: None,
                not_signed_in: BTreeMap::new(),
            },
            project: Some("/home/me/.althing/projects/my-app".into()),
            modes: ModeChoice::default(),
            history: Vec::new(),
            branch_of: None,
        };
        let op = Op::StartChat { spec: Box::new(spec.clone()) };
        self.fact(None, Fact::accepted(op, Origin::User));
        let spec = TaskSpec::Chat(Box::new(spec));
        self.fact(None, Fact::TaskCreated { id: TaskId::chat(), parent: None, spec });
        self.fact(Some("c1"), Fact::StatusChanged { status: TaskStatus::Running, why: None });
    }

    pub fn user_sends(&mut self, text: &str) -> u64 {
        self.user_sends_with(text, ModeChoice::default())
    }

    pub fn user_sends_with(&mut self, text: &str, modes: ModeChoice) -> u64 {
        let op = Op::SendMessage { text: text.into(), modes, grants: Vec::new() };
        self.fact(Some("c1"), Fact::accepted(op, Origin::User))
    }

    pub fn state(&mut self, state: ChatState) {
        self.fact(Some("c1"), Fact::PhaseChanged { phase: Phase::Chat(state) });
    }

    pub fn turn(&mut self, attempt: u32) {
        self.state(ChatState::Chatting);
        self.fact(Some("c1"), Fact::AttemptStarted { attempt, purpose: Purpose::Converse, continues: None });
    }

    /// Does not end the turn: `turn_ends` does.
    pub fn replies(&mut self, attempt: u32, text: &str) {
        let reply = Reply { text: text.into(), usage: usage(5), ..Reply::default() };
        self.fact(Some("c1"), Fact::ItemAdded { attempt, item: Item::Reply(reply) });
    }

    /// The chat agent changes a file.
    pub fn edits(&mut self, attempt: u32, call: &str, path: &str) {
        let tool = ToolCall { id: call.into(), name: "edit_file".into(), arguments: "{}".into() };
        let reply = Reply { tool_calls: vec![tool], ..Reply::default() };
        let file = FileDiff {
            path: path.into(),
            change: FileChange::Modified,
            added: 1,
            removed: 1,
            diff: "@@ -1 +1 @@\n-a\n+b\n".into(),
            omitted: 0,
            note: None,
        };
        let (project, digest) = ("/p".into(), "d".into());
        let preview = EditPreview { project, files: vec![file], ask: false, digest };
        let result = Item::ToolResult { call: call.into(), content: "changed".into(), is_error: false };
        for item in [Item::Reply(reply), Item::EditProposed { call: call.into(), preview }, result] {
            self.fact(Some("c1"), Fact::ItemAdded { attempt, item });
        }
    }

    pub fn turn_ends(&mut self, attempt: u32) {
        let ended = Fact::AttemptEnded {
            attempt,
            outcome: AttemptOutcome::Said,
            usage: Usage::default(),
            call: None,
        };
        self.fact(Some("c1"), ended);
        self.state(ChatState::Idle);
    }

    pub fn run(&mut self, id: &str, parent: Option<&str>, task: &str) {
        self.run_with(id, parent, task, Modes::default());
    }

    pub fn run_with(&mut self, id: &str, parent: Option<&str>, task: &str, modes: Modes) {
        let spec = TaskSpec::Run(Box::new(run_spec(task, modes)));
        let created = Fact::TaskCreated { id: id.into(), parent: parent.map(TaskId::from), spec };
        self.fact(parent, created);
        for (n, agent) in (1..).zip(team()) {
            let spec = TaskSpec::Work { agent: agent.id };
            let created = Fact::TaskCreated { id: work(id, n), parent: Some(id.into()), spec };
            self.fact(Some(id), created);
        }
        self.fact(Some(id), Fact::PhaseChanged { phase: Phase::Answering });
        for n in 1..=3 {
            self.begins(id, n, 1, Purpose::Answer);
        }
    }

    pub fn begins(&mut self, run: &str, n: u32, attempt: u32, purpose: Purpose) {
        let task = work(run, n);
        self.fact(Some(task.as_str()), Fact::AttemptStarted { attempt, purpose, continues: None });
    }

    pub fn item(&mut self, run: &str, n: u32, attempt: u32, item: Item) {
        let task = work(run, n);
        self.fact(Some(task.as_str()), Fact::ItemAdded { attempt, item });
    }

    pub fn works(&mut self, run: &str, n: u32, attempt: u32) {
        let call = ToolCall {
            id: "t1".into(),
            name: "search".into(),
            arguments: r#"{"pattern": "jwt::encode"}"#.into(),
        };
        let reply = Reply {
            text: "I looked at **both** token layouts.".into(),
            reasoning: "Compared both token layouts.\nThe second is smaller.\nKeys rotate by id.".into(),
            tool_calls: vec![call],
            usage: usage(u64::from(n) * 4),
            ..Reply::default()
        };
        self.item(run, n, attempt, Item::Reply(reply));
        self.wait(22);
        let result =
            Item::ToolResult { call: "t1".into(), content: "src/a.rs:1\nsrc/b.rs:2".into(), is_error: false };
        self.item(run, n, attempt, result);
    }

    pub fn answers(&mut self, run: &str, n: u32, nth: u32, revision: u32, content: &str) {
        let answer = Answer {
            agent: team()[n as usize - 1].id.clone(),
            label: AnswerLabel { agent: n, nth },
            revision: Revision(revision),
            content: content.into(),
            conclusion: None,
        };
        self.item(run, n, nth, Item::Answer(answer));
        let ended = Fact::AttemptEnded {
            attempt: nth,
            outcome: AttemptOutcome::Answered,
            usage: Usage::default(),
            call: None,
        };
        let task = work(run, n);
        self.fact(Some(task.as_str()), ended);
    }

    pub fn votes(&mut self, run: &str, n: u32, target: &str, reason: &str) {
        let ballot = Ballot {
            voter: team()[n as usize - 1].id.clone(),
            target: target.into(),
            reason: reason.into(),
            ranking: Vec::new(),
        };
        self.item(run, n, 2, Item::Vote(ballot));
        let ended = Fact::AttemptEnded {
            attempt: 2,
            outcome: AttemptOutcome::Voted,
            usage: Usage::default(),
            call: None,
        };
        let task = work(run, n);
        self.fact(Some(task.as_str()), ended);
    }

    /// Three answers, then voting begins.
    pub fn all_answer(&mut self, run: &str) {
        for n in 1..=3 {
            self.works(run, n, 1);
        }
        self.answers(
            run,
            1,
            1,
            1,
            "Use pasetors with v4.local tokens; rotate keys by key id.\n\nKeep tests.",
        );
        self.answers(run, 2, 1, 2, "Write a thin trait and swap the implementation.");
        self.answers(run, 3, 1, 3, "Keep JWT for one release behind a feature flag, then remove it.");
        self.fact(Some(run), Fact::PhaseChanged { phase: Phase::Voting });
        for n in 1..=3 {
            self.begins(run, n, 2, Purpose::Judge { may_answer: true, knows: Revision(3) });
        }
    }

    /// Two votes for gem, one for cc.
    pub fn vote(&mut self, run: &str) {
        self.votes(run, 1, "cc", "safest to ship");
        self.votes(run, 2, "gem", "handles key rotation, tests pass");
        self.votes(run, 3, "gem", "simplest that works");
        let verdict = Verdict::Winner {
            winner: "gem".into(),
            votes: BTreeMap::from([("gem".into(), 2), ("cc".into(), 1)]),
            ballots: Vec::new(),
            tie_break: None,
            decision: None,
            strategy: FinalAnswerStrategy::WinnerPresent,
        };
        self.fact(Some(run), Fact::Decided(verdict));
    }

    pub fn override_window(&mut self, run: &str) {
        self.fact(Some(run), Fact::PhaseChanged { phase: Phase::OverrideWindow });
        let candidate = |agent: &str, n: u32, votes: u32, preview: &str| Candidate {
            agent: agent.into(),
            label: AnswerLabel { agent: n, nth: 1 },
            votes,
            preview: preview.into(),
        };
        let kind = InteractionKind::WinnerOverride {
            winner: "gem".into(),
            candidates: vec![
                candidate("gem", 1, 2, "Use pasetors with v4.local tokens; rotate keys by key id"),
                candidate("cc", 3, 1, "Keep JWT for one release behind a feature flag, then"),
                candidate("gpt", 2, 0, "Write a thin trait\n\nand swap the implementation"),
            ],
        };
        self.asks(Some(run), "i-override", kind, Some(60));
    }

    pub fn asks(&mut self, task: Option<&str>, id: &str, kind: InteractionKind, seconds: Option<u64>) {
        let countdown = seconds.map(Millis::from_secs);
        self.fact(task, Fact::InteractionOpened(Interaction { id: id.into(), kind, countdown }));
    }

    pub fn answered(&mut self, id: &str, decision: Decision) {
        self.fact(None, Fact::InteractionClosed { id: InteractionId::from(id), decision });
    }

    pub fn proposal() -> Proposal {
        Proposal {
            launch: LaunchRun {
                task: "Execute phase 1: replace JWT issue and verify with Paseto".into(),
                context: Some("plan auth, phase 1 of 3; keep the public API; tests must pass".into()),
                ..LaunchRun::default()
            },
            members: team(),
            modes: Modes::default(),
            chosen: vec!["agent_mode".into()],
            may_read: Vec::new(),
            may_write: vec!["./my-app".into()],
            costs: None,
            not_signed_in: BTreeMap::new(),
            digest: "d1g3st".into(),
        }
    }

    pub fn approval(&mut self) {
        self.state(ChatState::AwaitingApproval);
        let kind = InteractionKind::RunApproval { proposal: Box::new(Self::proposal()) };
        self.asks(Some("c1"), "i-run", kind, None);
    }

    pub fn plan_approval(&mut self) {
        let kind = InteractionKind::PlanApproval {
            plan: PlanRef { id: "auth".into(), path: ".althing/plans/2026-11-15-auth".into() },
            preview: vec![
                "Add pasetors, keep jsonwebtoken · verify: cargo test -p auth".into(),
                "Issue v4.local tokens · after 1 · verify: round-trip test".into(),
                "Remove jsonwebtoken · after 2".into(),
            ],
        };
        self.asks(Some("c1"), "i-plan", kind, None);
    }

    pub fn result(run: &str, task: &str, status: RunStatus) -> RunResult {
        RunResult {
            run_id: format!("s1.{run}"),
            task: task.into(),
            status,
            modes: Modes::default(),
            final_answer: Some(
                "Tokens are now Paseto **v4.local**.\n\n- keys rotate by id\n- tests pass\n".into(),
            ),
            workspace_path: None,
            coordination_summary: CoordinationSummary {
                winner: Some("gem".into()),
                presenter: Some("gem".into()),
                strategy: FinalAnswerStrategy::WinnerPresent,
                overridden: false,
                rounds: 2,
                restarts: 0,
                votes: BTreeMap::from([("gem".into(), 2), ("cc".into(), 1)]),
                ballots: vec![Ballot {
                    voter: "gpt".into(),
                    target: "gem".into(),
                    reason: "handles key rotation".into(),
                    ranking: Vec::new(),
                }],
                decision: None,
                agents: team()
                    .into_iter()
                    .map(|member| AgentSummary {
                        id: member.id,
                        status: AgentOutcome::Voted,
                        answers: 1,
                        error: None,
                    })
                    .collect(),
            },
            context_path_writes: Vec::new(),
            unchanged_paths: Vec::new(),
            plan: None,
            follow_up: None,
            usage: Usage { cost_usd: 0.31, calls: 9, ..usage(40) },
            duration: Millis(252_000),
            log_dir: ".althing/sessions/s1/tasks/r1".into(),
            error: None,
        }
    }

    pub fn finishes(&mut self, run: &str, result: RunResult, end: RunEnd) {
        self.fact(Some(run), Fact::Decided(Verdict::Finished { end, result: Box::new(result) }));
        let status = if end == RunEnd::Cancelled { TaskStatus::Cancelled } else { TaskStatus::Done };
        self.fact(Some(run), Fact::StatusChanged { status, why: None });
    }

    pub fn writes(count: usize) -> Vec<FileWrite> {
        let change = |n: usize| if n == 0 { FileChange::Modified } else { FileChange::New };
        (0..count)
            .map(|n| FileWrite { path: format!("my-app/src/file{n}.rs"), change: change(n), note: None })
            .collect()
    }

    pub fn program(adapter: &str, mode: ExecutionMode) -> ProgramSpec {
        ProgramSpec {
            adapter: adapter.into(),
            command: Vec::new(),
            mode,
            prompt: "Review the notes with me".into(),
            cwd: "/home/me/my-app".into(),
            env: BTreeMap::new(),
            model: None,
            on_interrupt: None,
            sandbox: None,
            idle_timeout: None,
            approvals: false,
            agent: None,
            options: AgentOptions::default(),
        }
    }

    /// A workflow whose second stage has a program that waits for the user.
    pub fn workflow(&mut self) {
        self.opened(SessionKind::Workflow);
        let task = |id: &str, adapter: &str, mode: ExecutionMode| StageTask {
            id: id.into(),
            body: StageBody::Program(Box::new(Self::program(adapter, mode))),
            timeout: None,
            continue_on_failure: false,
        };
        let spec = WorkflowSpec {
            name: "release-notes".into(),
            goal: "Draft the release notes of 2.0".into(),
            stages: vec![
                StageSpec {
                    name: "gather".into(),
                    tasks: vec![task("log", "claude", ExecutionMode::Headless)],
                },
                StageSpec {
                    name: "decide".into(),
                    tasks: vec![task("ask", "gemini", ExecutionMode::Interactive)],
                },
            ],
            source: "notes.yaml".into(),
            digest: String::new(),
            adapters: Vec::new(),
            cost_micro_usd: None,
        };
        let created = |id: &str, parent: Option<&str>, spec: TaskSpec| Fact::TaskCreated {
            id: id.into(),
            parent: parent.map(TaskId::from),
            spec,
        };
        self.fact(None, created("w1", None, TaskSpec::Workflow(Box::new(spec))));
        self.fact(Some("w1"), Fact::StatusChanged { status: TaskStatus::Running, why: None });
        let headless = TaskSpec::Program(Box::new(Self::program("claude", ExecutionMode::Headless)));
        self.fact(Some("w1"), created("w1.log", Some("w1"), headless));
        let terminal = TaskSpec::Program(Box::new(Self::program("gemini", ExecutionMode::Interactive)));
        self.fact(Some("w1"), created("w1.ask", Some("w1"), terminal));
        self.fact(Some("w1.log"), Fact::StatusChanged { status: TaskStatus::Running, why: None });
        let said = Item::Said { text: "Three changes are visible to users.".into() };
        self.fact(Some("w1.log"), Fact::ItemAdded { attempt: 1, item: said });
        let did = Item::Did {
            tool: "Bash".into(),
            detail: "git log".into(),
            result: Some("42 commits".into()),
            is_error: false,
        };
        self.fact(Some("w1.log"), Fact::ItemAdded { attempt: 1, item: did });
        self.wait(4000);
        self.fact(Some("w1.log"), Fact::StatusChanged { status: TaskStatus::Done, why: None });
        self.fact(Some("w1"), Fact::PhaseChanged { phase: Phase::Stage(1) });
        self.fact(Some("w1.ask"), Fact::StatusChanged { status: TaskStatus::Running, why: None });
    }

    pub fn program_asks(&mut self, task: &str) {
        self.fact(Some(task), Fact::StatusChanged { status: TaskStatus::WaitingForUser, why: None });
        let option = |id: &str, label: &str| AskOption { id: id.into(), label: label.into() };
        let ask = Ask {
            about: AskKind::Permission,
            text: "Run `cargo test`?".into(),
            options: vec![option("once", "Yes, once"), option("always", "Yes, always"), option("no", "No")],
            native: None,
        };
        self.asks(Some(task), "i-program", InteractionKind::Program(ask), None);
    }
}

pub fn single(agent: &str) -> ModeChoice {
    ModeChoice {
        agent_mode: Some(AgentMode::Single),
        agent: Some(AgentId::from(agent)),
        ..ModeChoice::default()
    }
}

/// A conversation with a finished run, a live one and a queued message.
pub fn conversation() -> Script {
    let mut script = Script::default();
    script.chat(true);
    script.user_sends("Replace our JWT auth with something safer. Plan it first, please.");
    script.turn(1);
    script.replies(
        1,
        "That's a significant refactor. Let me plan this out first and then delegate it to a run.",
    );
    script.state(ChatState::Running);
    script.run("r1", Some("c1"), "Plan JWT auth refactor");
    script.all_answer("r1");
    script.vote("r1");
    script.finishes(
        "r1",
        Script::result("r1", "Plan JWT auth refactor", RunStatus::Completed),
        RunEnd::Answered,
    );
    script.state(ChatState::ProcessingResults);
    script.replies(1, "The agents produced a plan with 3 phases:\n\n1. Add `pasetors`\n2. Issue **v4.local** tokens\n3. Remove the old crate\n\nI'll now execute phase 1.");
    script.state(ChatState::Running);
    script.run("r2", Some("c1"), "Execute phase 1 - JWT");
    script.wait(65_000);
    script.works("r2", 1, 1);
    script.works("r2", 2, 1);
    script.answers("r2", 2, 1, 1, "Replace jsonwebtoken with pasetors, keep the trait.");
    script.delta("r2.a1", DeltaKind::ToolCall, "write_file");
    script.user_sends("Actually, use Paseto instead of JWT");
    script
}
