//! `althing chat`: the conversation without a screen. Messages are lines on stdin and replies go to stdout; with `--json`,
//! ops and events do.

use crate::args::{Approve, Options};
use crate::exit::Exit;
use crate::ops;
use crate::show::{self, print};
use crate::stop::{Asked, StopSignals};
use althing_app::choice::Choice;
use althing_app::{AppContext, ChatRequest, Failure, LocalSessions, SessionRequest, SessionService, Stopped};
use althing_app::{context_paths, project, session, team};
use althing_protocol::{
    AttemptOutcome, ChatState, Decision, Event, EventStream, Fact, FeedItem, Interaction, InteractionKind,
    Interest, Item, LaunchRun, ModeChoice, NoticeLevel, Op, OpId, Origin, Phase, Proposal, RunResult,
    RunStatus, Seq, SessionId, Submission, TaskId, TaskSpec, Verdict,
};
use althing_text::count;
use althing_text::sanitize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

pub fn run(options: &Options, approve: Approve, app: &AppContext) -> Result<Exit, Failure> {
    let runtime = session::runtime()?;
    let signals = crate::stop::signals(&runtime)?;
    let (sessions, request, history) = if let Some(id) = session::to_go_on_with(app)? {
        let sessions = LocalSessions::new(app.clone());
        let history = runtime.block_on(sessions.read(&id))?.events;
        (sessions, SessionRequest::Resume(id), history)
    } else {
        let mut team = team::assemble(app)?;
        let choice = Choice::without_task(app, &team)?;
        choice.narrow(&mut team);
        team.announce(app);
        let sessions = LocalSessions::with_team(app.clone(), Arc::new(team), project::named(app)?);
        let chat = ChatRequest { choice, goal: "conversation".to_owned(), attended: false };
        (sessions, SessionRequest::Chat(chat), Vec::new())
    };
    let id = runtime.block_on(sessions.launch(request))?;
    let mut chat = Chat {
        json: options.json,
        cwd: app.environment.cwd.clone(),
        approve,
        sessions: &sessions,
        id: id.clone(),
        lines: Some(ops::lines()),
        state: ChatState::Idle,
        unheard: 0,
        sent: 0,
        ids: BTreeSet::new(),
        asked: None,
        asked_by: Seq(0),
        answered: false,
        failed: false,
        leaving: false,
        direct: false,
    };
    for event in &history {
        chat.fold(event);
    }
    chat.consider();
    let from = history.last().map_or(Seq(0), |event| event.seq);
    let ended = runtime.block_on(async {
        let mut events = sessions.follow(&id, from, Interest::Facts).await?;
        chat.converse(&mut *events, signals).await
    });
    let Ok((signalled, failed)) = ended else {
        runtime.block_on(sessions.abandon());
        return ended.map(|_| Exit::NoAnswer);
    };
    let stopped = runtime.block_on(sessions.ended(&id));
    runtime.block_on(sessions.close());
    match stopped {
        Ok(Stopped::Disk(error)) => {
            let message = format!("nothing more can be saved: {}", error.message);
            Err(Failure::no_answer(message).maybe_hint(error.hint))
        }
        Ok(Stopped::Finished | Stopped::Halted(_)) => {
            if signalled {
                show::say(&format!("interrupted; go on with `althing chat --session {id}`"));
                return Ok(Exit::Interrupted);
            }
            Ok(if failed { Exit::NoAnswer } else { Exit::Answered })
        }
        Err(failure) => Err(failure),
    }
}

/// The conversation as a script sees it.
struct Chat<'a> {
    json: bool,
    /// Where the paths begin that messages mention.
    cwd: PathBuf,
    approve: Approve,
    sessions: &'a LocalSessions,
    id: SessionId,
    /// None once stdin has ended.
    lines: Option<UnboundedReceiver<String>>,
    state: ChatState,
    /// Messages that were sent and are not yet answered.
    unheard: usize,
    /// Messages of ours that the session has not accepted yet.
    sent: usize,
    /// The ids that messages had.
    ids: BTreeSet<OpId>,
    /// What waits for an answer of the user's.
    asked: Option<Interaction>,
    /// The fact that opened it.
    asked_by: Seq,
    /// Whether it was answered, and only its closing is still to come.
    answered: bool,
    /// Whether the last turn came to nothing.
    failed: bool,
    leaving: bool,
    /// Whether each message is a run, since there is no agent to talk to.
    direct: bool,
}

impl Chat<'_> {
    /// True if a signal ended it; and whether its last turn failed.
    async fn converse(
        mut self,
        events: &mut dyn EventStream,
        mut signals: StopSignals,
    ) -> Result<(bool, bool), Failure> {
        let mut signalled = false;
        loop {
            if self.is_done() && !self.leaving {
                self.leaving = true;
                self.submit(Op::Shutdown);
            }
            let next_line = async {
                match &mut self.lines {
                    Some(lines) => lines.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                item = events.next() => match item {
                    None => return Ok((signalled, self.failed)),
                    Some(Ok(FeedItem::Event(event))) => self.take(&event),
                    Some(Ok(FeedItem::Progress(_))) => {}
                    Some(Err(error)) => return Err(error.into()),
                },
                line = next_line => if let Some(line) = line {
                    self.hear(&line);
                } else {
                    self.lines = None;
                    self.nobody_answers();
                },
                asked = signals.asked() => match asked {
                    Asked::Stop(name) => {
                        (signalled, self.leaving) = (true, true);
                        show::say(&format!("{name}: stopping …"));
                        self.send(Submission::new(Op::Shutdown, Origin::Signal));
                    }
                    Asked::End(why) => return Err(Failure::usage(why).kind(Exit::Interrupted.into())),
                },
            }
        }
    }

    /// Whether everything that was said is answered, and nobody will say more.
    fn is_done(&self) -> bool {
        self.lines.is_none() && self.unheard == 0 && self.state == ChatState::Idle && self.asked.is_none()
    }

    fn submit(&mut self, op: Op) {
        self.send(Submission::new(op, Origin::User));
    }

    fn send(&mut self, submission: Submission) {
        // Counted when it is sent: it must not look as if nothing were to come before it is accepted.
        if let Op::SendMessage { .. } = &submission.op {
            // A message that is delivered again under its id is accepted once, and answered once.
            if let Some(id) = &submission.id
                && !self.ids.insert(id.clone())
            {
                return;
            }
            self.unheard += 1;
            self.sent += 1;
        }
        // A session that has ended says so itself.
        let _ = self.sessions.submit(&self.id, submission);
    }

    /// Takes a line of stdin.
    fn hear(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        if self.json {
            match ops::read(line) {
                Ok(submission) => self.send(submission),
                Err(why) => show::say(&why),
            }
            return;
        }
        if self.asked.is_some() && !self.answered {
            self.answer(line);
            return;
        }
        match line.trim() {
            "/pin" => self.submit(Op::Pin { message: None }),
            "/compact" => self.submit(Op::Compact),
            "/cancel" => self.submit(Op::Cancel { task: TaskId::chat() }),
            "/quit" => self.lines = None,
            _ => {
                let (text, grants) = context_paths::mentions(line, &self.cwd);
                self.submit(Op::SendMessage { text, modes: ModeChoice::default(), grants });
            }
        }
    }

    /// A line that answers what was asked.
    fn answer(&mut self, line: &str) {
        let Some(asked) = self.asked.clone() else { return };
        let decision = match line.trim().to_lowercase().as_str() {
            "y" | "yes" | "a" | "approve" => approval(&asked.kind),
            "n" | "no" | "c" | "cancel" => Decision::Reject { reason: None },
            _ => match serde_json::from_str(line) {
                // The changed values are what runs.
                Ok(launch) => with_changes(&asked.kind, launch),
                Err(_) => return show::say("answer with y, n, or the changed run as JSON"),
            },
        };
        self.submit(Op::Answer { interaction: asked.id, decision });
        self.answered = true;
    }

    /// Stdin has ended: what waits for an answer gets none.
    fn nobody_answers(&mut self) {
        if let Some(asked) = self.asked.clone().filter(|_| !self.answered) {
            self.answered = true;
            let reason = Some("nobody is there to approve it".to_owned());
            self.submit(Op::Answer { interaction: asked.id, decision: Decision::Reject { reason } });
        }
    }

    /// Takes note of where the conversation stands.
    fn fold(&mut self, event: &Event) {
        match &event.fact {
            Fact::TaskCreated { spec: TaskSpec::Chat(spec), .. } => self.direct = spec.agent.is_none(),
            Fact::OpAccepted { op: Op::SendMessage { .. }, id, .. } => {
                self.ids.extend(id.clone());
                match self.sent.checked_sub(1) {
                    Some(left) => self.sent = left,
                    None => self.unheard += 1,
                }
            }
            Fact::OpAccepted { op: Op::Unqueue { .. }, .. } => self.unheard = self.unheard.saturating_sub(1),
            Fact::PhaseChanged { phase: Phase::Chat(state) } => {
                // A message is taken up by the step away from idle, in the order in which they were sent.
                if self.state == ChatState::Idle && *state != ChatState::Idle {
                    self.unheard = self.unheard.saturating_sub(1);
                    self.failed = false;
                }
                self.state = *state;
            }
            Fact::InteractionOpened(interaction)
                if !matches!(interaction.kind, InteractionKind::WinnerOverride { .. }) =>
            {
                self.asked = Some(interaction.clone());
                self.asked_by = event.seq;
                self.answered = false;
            }
            Fact::InteractionClosed { id, .. } => {
                self.asked.take_if(|asked| asked.id == *id);
            }
            _ => {}
        }
    }

    fn take(&mut self, event: &Event) {
        self.fold(event);
        if self.json {
            match serde_json::to_string(event) {
                Ok(line) => print(&line),
                Err(error) => show::say(&format!("event {} cannot be shown: {error}", event.seq)),
            }
        }
        let of_chat = event.task.as_ref() == Some(&TaskId::chat());
        match &event.fact {
            Fact::InteractionOpened(_) => self.consider(),
            Fact::AttemptEnded { outcome: AttemptOutcome::Failed { error, hint, .. }, .. } if of_chat => {
                self.failed = true;
                let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                show::say(&format!("no reply: {error}{hint}"));
            }
            Fact::Notice(notice) => {
                let word = if notice.level == NoticeLevel::Info { "note" } else { "warning" };
                show::say(&format!("{word}: {}", notice.text));
                // An answer that was not taken is asked for again.
                if event.cause == Some(self.asked_by) && std::mem::take(&mut self.answered) {
                    self.consider();
                }
            }
            _ if self.json => {}
            Fact::ItemAdded { item: Item::Reply(reply), .. } if of_chat && !reply.text.trim().is_empty() => {
                print(&sanitize::output(reply.text.trim_end()));
            }
            Fact::TaskCreated { spec: TaskSpec::Run(spec), parent: Some(parent), .. }
                if *parent == TaskId::chat() =>
            {
                show::say(&format!("Run: {}  Running...", first_line(&spec.task)));
            }
            Fact::Decided(Verdict::Finished { result, .. }) => self.finished(event, result),
            _ => {}
        }
    }

    fn finished(&self, event: &Event, result: &RunResult) {
        if event.task.as_ref().is_none_or(TaskId::is_part) {
            return;
        }
        let how = match result.status {
            RunStatus::Completed => "Complete ✓",
            RunStatus::Cancelled => "Cancelled",
            RunStatus::Partial | RunStatus::Failed => "Failed ✗",
        };
        let summary = &result.coordination_summary;
        let agents = count(summary.agents.len() as u64, "agent");
        let rounds = count(summary.rounds.into(), "round");
        show::say(&format!(
            "Run: {}  {how}  {agents} · {rounds} · {}",
            first_line(&result.task),
            result.duration
        ));
        // Without an agent to talk about it, the answer itself is the reply.
        if let Some(answer) = result.final_answer.as_ref().filter(|_| self.direct || result.modes.planning) {
            print(&sanitize::output(answer.trim_end()));
        }
    }

    /// Answers what is asked, or asks the user.
    fn consider(&mut self) {
        let Some(asked) = &self.asked else { return };
        let (interaction, kind) = (asked.id.clone(), asked.kind.clone());
        let decision = match self.approve {
            Approve::Always => approval(&kind),
            Approve::Never => Decision::Reject { reason: Some("not approved: --approve never".to_owned()) },
            Approve::Ask if self.lines.is_none() => return self.nobody_answers(),
            Approve::Ask if self.json => return,
            Approve::Ask => return ask(&kind),
        };
        self.answered = true;
        self.submit(Op::Answer { interaction, decision });
    }
}

/// Yes, with these values instead of the ones shown.
fn with_changes(kind: &InteractionKind, launch: LaunchRun) -> Decision {
    match approval(kind) {
        Decision::Approve { digest, instructions, .. } => {
            Decision::Approve { digest, edited: Some(Box::new(launch)), instructions }
        }
        other => other,
    }
}

/// Yes, to exactly what was shown.
fn approval(kind: &InteractionKind) -> Decision {
    let digest = match kind {
        InteractionKind::RunApproval { proposal } => Some(proposal.digest.clone()),
        _ => None,
    };
    Decision::Approve { digest, edited: None, instructions: None }
}

fn ask(kind: &InteractionKind) {
    match kind {
        InteractionKind::RunApproval { proposal } => {
            let Proposal { launch, members, modes, may_read, may_write, .. } = &**proposal;
            let agents: Vec<&str> = members.iter().map(|member| member.id.as_str()).collect();
            let context = launch.context.as_deref().unwrap_or("none");
            show::say(&format!(
                "Launch this run?\n  Task      {}\n  Context   {context}\n  Agents    {}\n  Modes     {}",
                launch.task,
                agents.join(", "),
                althing_view::labels::modes(*modes),
            ));
            if !may_read.is_empty() {
                show::say(&format!("  Reads     {}", may_read.join(", ")));
            }
            if !may_write.is_empty() {
                show::say(&format!("  May write {}", may_write.join(", ")));
            }
            show::say("  y approve, n cancel, or the changed run as JSON");
        }
        InteractionKind::Budget { spent_micro_usd, budget_micro_usd } => show::say(&format!(
            "This session has cost ${:.2} and is about to pass its budget of ${:.2}. Go on? y or n",
            *spent_micro_usd as f64 / 1e6,
            *budget_micro_usd as f64 / 1e6
        )),
        InteractionKind::PlanApproval { plan, preview } => {
            show::say(&format!("Execute the plan {}?\n  {}\n  y or n", plan.path, preview.join("\n  ")));
        }
        InteractionKind::Program(ask) => show::say(&format!("{} (y or n)", ask.text)),
        InteractionKind::WinnerOverride { .. } | InteractionKind::Interrupted => {}
    }
}

fn first_line(text: &str) -> String {
    sanitize::line(text.lines().next().unwrap_or_default()).into_owned()
}
