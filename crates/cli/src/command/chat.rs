//! `althing chat`: the conversation without a screen. Messages are lines on stdin, and replies go to stdout. With
//! `--json`, stdin has ops and stdout has events.

use crate::args::{Approve, Options};
use crate::exit::Exit;
use crate::ops::{self, TimedLine};
use crate::show::{self, print};
use crate::stop::{StopRequest, StopSignals};
use althing_app::{AppContext, Failure, LocalSessions, SessionEnd, SessionRequest, SessionService};
use althing_app::{context_paths, continuation, prepare, session};
use althing_protocol::{
    AttemptOutcome, ChatState, Decision, Event, EventStream, Fact, FeedItem, Interaction, InteractionId,
    InteractionKind, Interest, ModeChoice, Op, OpId, Origin, Purpose, Seq, SessionId, Submission, TaskId,
};
use althing_text::sanitize;
use althing_view::conversation::{Audience, ConversationLine, ConversationLines, answer, approval, ask};
use althing_view::{Question, SessionView};
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// Stops the current work. It takes effect at once, even while other lines wait.
const CANCEL: &str = "/cancel";

pub fn run(options: &Options, approve: Approve, app: &AppContext) -> Result<Exit, Failure> {
    let runtime = session::runtime()?;
    let signals = crate::stop::signals(&runtime)?;
    let can_ask = app.environment.stdin_is_terminal && !options.json;
    let (sessions, request) = if let Some(id) = continuation::conversation_to_resume(app)? {
        (LocalSessions::new(app.clone()), SessionRequest::Resume { id, can_ask })
    } else {
        // The first message is passed as empty and not as missing, so that the word after `--single-agent` has to be an
        // agent id. Without a first message, the word could be the message.
        let (sessions, mut chat) = prepare::conversation(app, Some(String::new()), false)?;
        chat.can_ask = can_ask;
        sessions.team()?.announce(app);
        (sessions, SessionRequest::Chat(chat))
    };
    let id = runtime.block_on(sessions.launch(request))?;
    let history = sessions.take_recorded(&id);
    let mut chat = Chat {
        json: options.json,
        cwd: app.environment.cwd.clone(),
        approve,
        sessions: &sessions,
        id: id.clone(),
        lines: Some(ops::timed_lines()),
        held: VecDeque::new(),
        from_terminal: app.environment.stdin_is_terminal,
        shown_at: None,
        session: SessionView::default(),
        updates: ConversationLines::new(Audience::Script),
        sent: 0,
        ids: BTreeSet::new(),
        asked: None,
        answered: false,
        failed: false,
        is_compacting: false,
        leaving: false,
    };
    for event in &history {
        chat.fold(event);
    }
    // Discards the lines that an earlier process has already printed.
    chat.updates.updates(&chat.session);
    chat.failed = false;
    chat.handle_question();
    let from = history.last().map_or(Seq(0), |event| event.seq);
    let ended = runtime.block_on(async {
        let mut events = sessions.follow(&id, from, Interest::Facts).await?;
        chat.run(&mut *events, signals).await
    });
    let Ok((signalled, failed)) = ended else {
        runtime.block_on(sessions.abandon());
        return ended.map(|_| Exit::NoAnswer);
    };
    let stopped = runtime.block_on(sessions.ended(&id));
    runtime.block_on(sessions.close());
    match stopped {
        Ok(SessionEnd::Disk(error)) => {
            let message = format!("nothing more can be saved: {}", error.message);
            let state_dir = app.settings.state_dir_option();
            Err(Failure::no_answer(message)
                .maybe_hint(error.hint)
                .hint(format!("once that is solved, resume with `althing chat --session {id}{state_dir}`")))
        }
        Ok(SessionEnd::Finished | SessionEnd::Halted(_)) => {
            if signalled {
                let state_dir = app.settings.state_dir_option();
                show::notice(&format!("interrupted; resume with `althing chat --session {id}{state_dir}`"));
                return Ok(Exit::Interrupted);
            }
            Ok(if failed { Exit::NoAnswer } else { Exit::Answered })
        }
        Err(failure) => Err(failure),
    }
}

struct Chat<'a> {
    json: bool,
    cwd: PathBuf,
    approve: Approve,
    sessions: &'a LocalSessions,
    id: SessionId,
    /// The lines of stdin; None once stdin has ended.
    lines: Option<UnboundedReceiver<TimedLine>>,
    /// Lines that wait because `holds_lines` was true when they were read.
    held: VecDeque<TimedLine>,
    from_terminal: bool,
    /// When the question in `asked` was handled.
    shown_at: Option<Instant>,
    session: SessionView,
    updates: ConversationLines,
    sent: usize,
    /// The op ids of all messages so far: a message with a known id is a repeat.
    ids: BTreeSet<OpId>,
    /// The open question that was already shown to the user, or answered automatically.
    asked: Option<InteractionId>,
    /// Whether the question in `asked` was answered; its closing event is still to come.
    answered: bool,
    failed: bool,
    /// Whether the chat agent's newest attempt makes a summary of the conversation.
    is_compacting: bool,
    leaving: bool,
}

impl Chat<'_> {
    async fn run(
        mut self,
        events: &mut dyn EventStream,
        mut signals: StopSignals,
    ) -> Result<(bool, bool), Failure> {
        let mut signalled = false;
        loop {
            self.handle_held_lines();
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
                    Some(Ok(FeedItem::Event(event))) => self.handle_event(&event),
                    Some(Ok(FeedItem::Progress(_))) => {}
                    Some(Err(error)) => return Err(error.into()),
                },
                line = next_line => match line {
                    Some(line) if self.holds_lines() && line.text.trim() != CANCEL => self.held.push_back(line),
                    Some(line) => self.handle_line(&line),
                    None => self.lines = None,
                },
                asked = signals.next_request() => match asked {
                    StopRequest::Stop(name) => {
                        (signalled, self.leaving) = (true, true);
                        show::notice(&format!("{name}: stopping …"));
                        self.send(Submission::new(Op::Shutdown, Origin::Signal));
                    }
                    StopRequest::End(why) => return Err(Failure::usage(why).kind(Exit::Interrupted.into())),
                },
            }
        }
    }

    fn is_done(&self) -> bool {
        let delivered = self.sent == 0 && self.session.queued() == 0 && self.held.is_empty();
        self.lines.is_none()
            && delivered
            && self.session.state == ChatState::Idle
            && self.question().is_none()
    }

    fn submit(&mut self, op: Op) {
        self.send(Submission::new(op, Origin::User));
    }

    fn send(&mut self, submission: Submission) {
        // Counted before the session accepts the message, so that the conversation does not look idle in between.
        if let Op::SendMessage { .. } = &submission.op {
            if let Some(id) = &submission.id
                && !self.ids.insert(id.clone())
            {
                return;
            }
            self.sent += 1;
        }
        // Fails only if the session has ended, and then its events say so.
        let _ = self.sessions.submit(&self.id, submission);
    }

    /// Whether a new line from a script has to wait. The line after a message answers the question that the message
    /// leads to, if there is one. So a line waits until the message before it is answered or a question is open.
    fn holds_lines(&self) -> bool {
        if self.json || self.from_terminal || self.approve != Approve::Ask {
            return false;
        }
        let is_open = self
            .question()
            .is_some_and(|question| !self.answered && self.asked.as_ref() == Some(&question.interaction.id));
        let is_idle = self.sent == 0 && self.session.queued() == 0 && self.session.state == ChatState::Idle;
        !self.held.is_empty() || !(is_open || (is_idle && self.question().is_none()))
    }

    /// Handles lines that waited, until one must still wait. If stdin has ended and no line is left, rejects the open
    /// question.
    fn handle_held_lines(&mut self) {
        while let Some(line) = self.held.pop_front() {
            let later = std::mem::take(&mut self.held);
            let must_wait = self.holds_lines();
            self.held = later;
            if must_wait {
                self.held.push_front(line);
                return;
            }
            self.handle_line(&line);
        }
        if self.lines.is_none() {
            self.reject_question();
        }
    }

    /// Whether a line answers the open question. A line that a person typed before the question was shown never does.
    fn answers(&self, line: &TimedLine) -> bool {
        let is_open = self.question().is_some() && !self.answered;
        is_open && (!self.from_terminal || self.shown_at.is_some_and(|shown_at| line.read_at > shown_at))
    }

    fn handle_line(&mut self, timed_line: &TimedLine) {
        let line = timed_line.text.as_str();
        if line.trim().is_empty() {
            return;
        }
        if self.json {
            match ops::read(line) {
                Ok(submission) => self.send(submission),
                Err(why) => show::notice(&why),
            }
            return;
        }
        let question = self.question().filter(|_| line.trim() != CANCEL && self.answers(timed_line));
        if let Some(question) = question {
            match answer(question, line) {
                Some(op) => {
                    // Text typed into a CLI agent's terminal is not a decision yet.
                    self.answered = matches!(op, Op::Answer { .. });
                    self.submit(op);
                }
                None => {
                    show::notice("this line does not answer the open question; answer as the question says")
                }
            }
            return;
        }
        match line.trim() {
            "/pin" => self.submit(Op::Pin { message: None }),
            "/compact" => self.submit(Op::Compact),
            CANCEL => self.submit(Op::Cancel { task: TaskId::chat() }),
            "/quit" => {
                self.lines = None;
                self.held.clear();
            }
            _ => {
                let (mut text, mut grants) = context_paths::mentions(line, &self.cwd);
                // Text from a pipe may be somebody else's, so only text typed at a terminal grants access to paths.
                if !self.from_terminal && !grants.is_empty() {
                    show::notice(
                        "@path in text from a pipe grants no access; name the path with --context-path",
                    );
                    (text, grants) = (line.to_owned(), Vec::new());
                }
                self.submit(Op::SendMessage { text, modes: ModeChoice::default(), grants });
            }
        }
    }

    /// The open question that the user has to answer. A question about overriding a winner is skipped, because it
    /// closes by itself.
    fn question(&self) -> Option<&Question> {
        let mut open = self.session.questions.iter();
        open.find(|one| !matches!(one.interaction.kind, InteractionKind::WinnerOverride { .. }))
    }

    fn reject_question(&mut self) {
        let asked =
            self.question().filter(|_| !self.answered).map(|question| question.interaction.id.clone());
        if let Some(interaction) = asked {
            self.answered = true;
            let reason = Some("nobody is present to approve it".to_owned());
            self.submit(Op::Answer { interaction, decision: Decision::Reject { reason } });
        }
    }

    fn fold(&mut self, event: &Arc<Event>) {
        let was_idle = self.session.state == ChatState::Idle;
        self.session.apply(&FeedItem::Event(Arc::clone(event)));
        match &event.fact {
            Fact::OpAccepted { op: Op::SendMessage { .. }, id, .. } => {
                self.ids.extend(id.clone());
                self.sent = self.sent.saturating_sub(1);
            }
            Fact::AttemptStarted { purpose, .. } if event.task.as_ref() == Some(&TaskId::chat()) => {
                self.is_compacting = *purpose == Purpose::Compact;
            }
            // A failed summary is not a failed turn: the conversation continues without the summary.
            Fact::AttemptEnded { outcome: AttemptOutcome::Failed { .. }, .. }
                if event.task.as_ref() == Some(&TaskId::chat()) && !self.is_compacting =>
            {
                self.failed = true;
            }
            // The session rejected the answer: forgetting `asked` makes the question be asked again.
            Fact::Notice(_)
                if event.cause.is_some() && event.cause == self.question().map(|one| one.opened) =>
            {
                self.asked.take_if(|_| self.answered);
            }
            _ if was_idle && self.session.state != ChatState::Idle => self.failed = false,
            _ => {}
        }
    }

    fn handle_event(&mut self, event: &Arc<Event>) {
        self.fold(event);
        if self.json {
            match serde_json::to_string(event) {
                Ok(line) => show::print_json(&line),
                Err(error) => show::notice(&format!("event {} cannot be shown: {error}", event.seq)),
            }
        }
        for line in self.updates.updates(&self.session) {
            match line {
                ConversationLine::Notice(text) => show::notice(&text),
                ConversationLine::Question(_) => {}
                _ if self.json => {}
                ConversationLine::Reply(text) => print(&sanitize::output(&text)),
                ConversationLine::Progress(text) => show::progress(&text),
            }
        }
        self.handle_question();
    }

    /// Answers a new question as `--approve` says. With `ask`, shows the question, except with `--json` (its event is
    /// enough) and after the end of stdin (then `handle_held_lines` rejects the question).
    fn handle_question(&mut self) {
        let Some(Interaction { id, kind, .. }) = self.question().map(|question| &question.interaction) else {
            return;
        };
        if self.asked.as_ref() == Some(id) {
            return;
        }
        let interaction = id.clone();
        let decision = match self.approve {
            Approve::Always => Some(approval(kind)),
            Approve::Never => {
                Some(Decision::Reject { reason: Some("not approved: --approve never".to_owned()) })
            }
            Approve::Ask => {
                let question = ask(kind, Audience::Script);
                if self.from_terminal && !self.json {
                    // Discard a line that is only half typed, so that it does not become part of an answer.
                    let _ =
                        rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
                }
                self.shown_at = Some(Instant::now());
                if !self.json && (self.lines.is_some() || !self.held.is_empty()) {
                    show::question(&question);
                }
                None
            }
        };
        self.asked = Some(interaction.clone());
        self.answered = decision.is_some();
        if let Some(decision) = decision {
            self.submit(Op::Answer { interaction, decision });
        }
    }
}
