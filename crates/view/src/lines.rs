//! Progress of a session as plain text: one line per event worth showing.

use crate::labels;
use crate::session::SessionView;
use althing_protocol::{
    AttemptOutcome, DeltaKind, Event, Fact, FeedItem, Item, Op, Phase, Progress, TaskStatus, Verdict,
};
use althing_text::{count, sanitize};

const LINE_CHARS: usize = 300;

#[derive(Clone, Debug)]
pub struct ProgressLines {
    session: SessionView,
}

impl Default for ProgressLines {
    fn default() -> Self {
        Self { session: SessionView::without_transcript() }
    }
}

impl ProgressLines {
    /// The folded session, without its transcript.
    pub fn session(&self) -> &SessionView {
        &self.session
    }

    /// Folds an item into the view without formatting it.
    pub fn follow(&mut self, item: &FeedItem) {
        self.session.apply(item);
    }

    /// Folds an item into the view and returns it as one aligned line; None if it is not worth a line.
    pub fn line(&mut self, item: &FeedItem) -> Option<String> {
        let (who, what) = self.describe(item)?;
        let width = self.session.name_width();
        Some(format!("{who:width$}  {what}"))
    }

    /// Folds an item into the view and returns who did what, sanitized for a terminal; None if it is not worth a line.
    pub fn describe(&mut self, item: &FeedItem) -> Option<(String, String)> {
        self.session.apply(item);
        let (who, what) = match item {
            FeedItem::Event(event) => self.describe_event(event),
            FeedItem::Progress(progress) => self.describe_progress(progress),
        }?;
        let short: String = what.chars().take(LINE_CHARS).collect();
        Some((sanitize::line(&who).into_owned(), sanitize::line(&short).into_owned()))
    }

    fn describe_event(&self, event: &Event) -> Option<(String, String)> {
        let agent = event.task.as_ref().and_then(|task| self.session.worker(task)).map(|worker| worker.name);
        // The name of a workflow's run is the name of its task.
        let run = || match event.task.as_ref().and_then(|task| task.as_str().split_once('.')) {
            Some((_, name)) => name.to_owned(),
            None => "run".to_owned(),
        };
        Some(match &event.fact {
            Fact::AttemptStarted { .. }
            | Fact::StatusChanged { status: TaskStatus::WaitingForUser, .. }
            | Fact::ItemAdded { item: Item::Said { .. } | Item::Did { .. }, .. } => {
                let worker = self.session.worker(event.task.as_ref()?)?;
                (worker.name.clone(), worker.activity())
            }
            Fact::PhaseChanged { phase: Phase::Stage(stage) } => {
                ("workflow".into(), format!("stage {} begins", stage + 1))
            }
            Fact::ItemAdded { item: Item::Answer(answer), .. } => {
                (agent?, format!("answered: {}", answer.label))
            }
            Fact::ItemAdded { item: Item::Vote(ballot), .. } => {
                (agent?, format!("votes for {}: {}", ballot.target, ballot.reason))
            }
            Fact::ItemAdded { item: Item::StaleVote(_), .. } => {
                (agent?, "vote not counted: newer answers arrived".into())
            }
            Fact::ItemAdded { item: Item::Update { .. }, .. } => (agent?, "received newer answers".into()),
            Fact::ItemAdded { item: Item::Reminder { text, .. }, .. } => {
                (agent?, format!("reminded: {text}"))
            }
            Fact::AttemptEnded { outcome, .. } => (agent?, ended(outcome)?),
            Fact::Decided(verdict) => (run(), decided(verdict)),
            Fact::PhaseChanged { phase: Phase::Voting } => (run(), "the first answers are in".into()),
            Fact::Notice(notice) => {
                let text = labels::with_hint(notice.text.clone(), notice.hint.as_deref());
                (labels::notice_level(notice.level).into(), text)
            }
            Fact::OpAccepted { op: Op::Resume, .. } => (run(), "resumed".into()),
            _ => return None,
        })
    }

    fn describe_progress(&self, progress: &Progress) -> Option<(String, String)> {
        match progress {
            Progress::Delta { task, kind: DeltaKind::Retry, text, .. } => {
                Some((self.session.worker(task)?.name, text.clone()))
            }
            Progress::Delta { task, kind: DeltaKind::Waiting, text, .. } => {
                Some((self.session.worker(task)?.name, format!("waiting: {text}")))
            }
            Progress::Stalled { reason, hint, .. } => {
                let text = format!("cannot save at the moment: {reason}");
                Some(("warning".into(), labels::with_hint(text, hint.as_deref())))
            }
            Progress::Delta { .. }
            | Progress::Gap { .. }
            | Progress::Output { .. }
            | Progress::ScreenChanged { .. } => None,
        }
    }
}

/// How an attempt ended; None if that needs no line of its own.
fn ended(outcome: &AttemptOutcome) -> Option<String> {
    match outcome {
        AttemptOutcome::Voted
        | AttemptOutcome::Evaluated { restart: Some(_) }
        | AttemptOutcome::Said
        | AttemptOutcome::Paused
        | AttemptOutcome::Cancelled
        | AttemptOutcome::Interrupted => None,
        outcome => labels::outcome(outcome),
    }
}

fn decided(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Winner { decision: Some(decision), .. } => decision.explanation.clone(),
        Verdict::Winner { winner, votes, ballots, tie_break, .. } => {
            let mine = votes.get(winner).copied().unwrap_or_default();
            let tie = tie_break.as_ref().map(|how| format!(" ({how})")).unwrap_or_default();
            if ballots.is_empty() {
                format!("{winner} is chosen{tie}")
            } else {
                format!("{winner} wins with {mine} of {} votes{tie}", ballots.len())
            }
        }
        Verdict::Override { presenter } => format!("overridden: {presenter} presents"),
        Verdict::Restarted { reason, .. } => format!("restarts: {reason}"),
        Verdict::Compacted { tokens, exchanges, steps, .. } => {
            labels::compaction(*exchanges, *steps, *tokens)
        }
        Verdict::Finished { result, .. } => {
            let rounds = count(result.coordination_summary.rounds.into(), "round");
            let calls = count(result.usage.calls, "call");
            format!("{rounds} · {calls} · {} · {}", labels::tokens(&result.usage), result.duration)
        }
    }
}
