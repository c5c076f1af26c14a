//! Progress as plain lines: one for each event that is worth a line.

use crate::board::Board;
use crate::labels::tokens;
use althing_protocol::{
    AttemptOutcome, DeltaKind, Event, Fact, FeedItem, Item, NoticeLevel, Op, Phase, Progress, TaskStatus,
    Verdict,
};
use althing_text::count;
use althing_text::sanitize;

/// How much of a reason or an error a line shows.
const LINE_CHARS: usize = 300;

/// Turns events into lines.
#[derive(Clone, Debug, Default)]
pub struct ProgressLines {
    board: Board,
}

impl ProgressLines {
    /// Folds an item without making a line of it.
    pub fn follow(&mut self, item: &FeedItem) {
        self.board.take(item);
    }

    /// The item as one aligned line, if it is worth one.
    pub fn line(&mut self, item: &FeedItem) -> Option<String> {
        let (who, what) = self.words(item)?;
        let width = self.board.width();
        Some(format!("{who:width$}  {what}"))
    }

    /// Who did what, if the item is worth a line. The texts are harmless for a terminal.
    pub fn words(&mut self, item: &FeedItem) -> Option<(String, String)> {
        self.board.take(item);
        let (who, what) = match item {
            FeedItem::Event(event) => self.event(event),
            FeedItem::Progress(progress) => self.passing(progress),
        }?;
        let short: String = what.chars().take(LINE_CHARS).collect();
        Some((sanitize::line(&who).into_owned(), sanitize::line(&short).into_owned()))
    }

    fn event(&self, event: &Event) -> Option<(String, String)> {
        let row = self.board.row(event.task.as_ref());
        let agent = row.map(|row| row.name.clone());
        // A workflow's runs are told apart by their names.
        let run = || match event.task.as_ref().and_then(|task| task.as_str().split_once('.')) {
            Some((_, name)) => name.to_owned(),
            None => "run".to_owned(),
        };
        Some(match &event.fact {
            Fact::AttemptStarted { .. } => (agent?, row?.doing.clone()),
            Fact::StatusChanged { status: TaskStatus::WaitingForUser, .. } => (agent?, row?.doing.clone()),
            Fact::ItemAdded { item: Item::Said { .. } | Item::Did { .. }, .. } => {
                (agent?, row?.doing.clone())
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
            Fact::ItemAdded { item: Item::Update { .. }, .. } => (agent?, "told of newer answers".into()),
            Fact::ItemAdded { item: Item::Reminder { text, .. }, .. } => {
                (agent?, format!("reminded: {text}"))
            }
            Fact::AttemptEnded { outcome, .. } => (agent?, ended(outcome)?),
            Fact::Decided(verdict) => (run(), decided(verdict)),
            Fact::PhaseChanged { phase: Phase::Voting } => (run(), "everyone has answered".into()),
            Fact::Notice(notice) => {
                let word = match notice.level {
                    NoticeLevel::Info => "note",
                    NoticeLevel::Warning => "warning",
                    NoticeLevel::Error => "error",
                };
                let hint = notice.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                (word.into(), format!("{}{hint}", notice.text))
            }
            Fact::OpAccepted { op: Op::Resume, .. } => (run(), "resumed".into()),
            _ => return None,
        })
    }

    fn passing(&self, progress: &Progress) -> Option<(String, String)> {
        match progress {
            Progress::Delta { task, kind: DeltaKind::Retry, text, .. } => {
                Some((self.board.row(Some(task))?.name.clone(), text.clone()))
            }
            Progress::Stalled { reason, hint, .. } => {
                let hint = hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
                Some(("warning".into(), format!("nothing can be saved at the moment: {reason}{hint}")))
            }
            Progress::Delta { .. }
            | Progress::Gap { .. }
            | Progress::Output { .. }
            | Progress::ScreenChanged { .. } => None,
        }
    }
}

fn ended(outcome: &AttemptOutcome) -> Option<String> {
    Some(match outcome {
        AttemptOutcome::GaveUp { reason } => format!("out: {reason}"),
        AttemptOutcome::Failed { error, hint, .. } => match hint {
            Some(hint) => format!("failed: {error} ({hint})"),
            None => format!("failed: {error}"),
        },
        AttemptOutcome::TimedOut => "out: its time limit passed".into(),
        AttemptOutcome::Presented { .. } => "presented the final answer".into(),
        AttemptOutcome::Evaluated { restart: None } => "lets the final answer stand".into(),
        // What follows says it.
        AttemptOutcome::Evaluated { restart: Some(_) } => return None,
        AttemptOutcome::Exited { ok: true, .. } => "done".into(),
        AttemptOutcome::Exited { error, .. } => {
            format!("failed: {}", error.as_deref().unwrap_or("it did not succeed"))
        }
        AttemptOutcome::Answered
        | AttemptOutcome::Voted
        | AttemptOutcome::Said
        | AttemptOutcome::Cancelled
        | AttemptOutcome::Interrupted => return None,
    })
}

fn decided(verdict: &Verdict) -> String {
    match verdict {
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
        Verdict::Restarted { reason, .. } => format!("starts over: {reason}"),
        Verdict::Compacted { tokens: (before, after), .. } => {
            format!("the conversation was shortened from {before} to {after} tokens")
        }
        Verdict::Finished { result, .. } => {
            let rounds = count(result.coordination_summary.rounds.into(), "round");
            let calls = count(result.usage.calls, "call");
            format!("{rounds} · {calls} · {} · {}", tokens(&result.usage), result.duration)
        }
    }
}
