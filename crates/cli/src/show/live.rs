//! Progress as a block of lines that is redrawn in place on a terminal: one line per agent.
//!
//! The only control codes are cursor-up, clear-to-end and carriage return; text from agents is sanitized.

use super::PlainProgress;
use althing_protocol::{Fact, FeedItem, Op, Progress, Timestamp, Verdict};
use althing_text::sanitize;
use althing_view::{SessionView, labels};
use std::fmt::Write as _;
use std::io::Write as _;

const DEFAULT_WIDTH: usize = 80;
/// The maximum number of agents with a line of their own. One more line counts the others.
const MAX_ROWS: usize = 16;

#[derive(Default)]
pub struct LiveProgress {
    /// Folds the session's events into a view, and prints what is not in the block: notices, decisions.
    plain: PlainProgress,
    drawn: usize,
    dirty: bool,
    began: Option<Timestamp>,
    over: bool,
}

impl LiveProgress {
    pub fn take(&mut self, item: &FeedItem) {
        self.dirty = true;
        if let FeedItem::Event(event) = item {
            self.began.get_or_insert(event.at);
            let whole = event.task.as_ref().is_some_and(|task| !task.is_subtask());
            self.over |= whole
                && match &event.fact {
                    // If the plan is executed next, the progress continues after the end of the planning run.
                    Fact::Decided(Verdict::Finished { result, .. }) => result.follow_up.is_none(),
                    Fact::StatusChanged { status, .. } => status.is_final(),
                    _ => false,
                };
        }
        if has_own_line(item) {
            self.erase();
            self.plain.take(item);
            self.draw(self.plain.session().at);
        } else {
            self.plain.follow(item);
        }
    }

    pub fn session(&self) -> &SessionView {
        self.plain.session()
    }

    pub fn follow(&mut self, item: &FeedItem) {
        self.plain.follow(item);
    }

    pub fn note(&mut self, text: &str) {
        self.erase();
        super::notice(text);
        self.draw(self.plain.session().at);
    }

    pub fn tick(&mut self, now: Timestamp) {
        let busy = self.session().workers().iter().any(|worker| worker.view.since.is_some());
        if !self.over && (self.dirty || busy) {
            self.erase();
            self.draw(now);
        }
    }

    /// Draws the block a last time, unless the run is over. What is then on the terminal is not erased later.
    pub fn finish(&mut self, now: Timestamp) {
        if !self.over {
            self.erase();
            self.draw(now);
        }
        self.drawn = 0;
    }

    fn erase(&mut self) {
        let mut out = String::new();
        if self.drawn > 0 {
            let _ = write!(out, "\x1b[{}A\r\x1b[J", self.drawn);
        }
        self.drawn = 0;
        let _ = std::io::stderr().write_all(out.as_bytes());
    }

    fn draw(&mut self, now: Timestamp) {
        if self.over {
            return;
        }
        let (mut out, rows) = (String::new(), self.session().workers());
        let (width, names) = (terminal_width(), self.session().name_width());
        for row in rows.iter().take(MAX_ROWS) {
            let time = row.view.since.map(|since| now.since(since).to_string()).unwrap_or_default();
            let head = format!("{:names$}  ", sanitize::line(&row.name));
            let round = if row.program { String::new() } else { format!("round {}  ", row.view.round) };
            let tail = format!("  {round}{}  {time}", labels::tokens(&row.view.usage));
            let room = width.saturating_sub(head.chars().count() + tail.chars().count() + 1).max(8);
            let activity: String = sanitize::line(&row.activity()).chars().take(room).collect();
            let line: String =
                format!("{head}{activity:room$}{tail}").chars().take(width.saturating_sub(1)).collect();
            let _ = writeln!(out, "{line}");
        }
        if rows.len() > MAX_ROWS {
            let _ = writeln!(out, "… and {} more", rows.len() - MAX_ROWS);
        }
        self.drawn = out.lines().count();
        self.dirty = false;
        let _ = std::io::stderr().write_all(out.as_bytes());
    }
}

fn has_own_line(item: &FeedItem) -> bool {
    match item {
        FeedItem::Event(event) => match &event.fact {
            Fact::Decided(_) | Fact::Notice(_) | Fact::OpAccepted { op: Op::Resume, .. } => true,
            Fact::ItemAdded { item: althing_protocol::Item::Vote(_), .. } => true,
            Fact::AttemptEnded { outcome, .. } => {
                matches!(
                    outcome,
                    althing_protocol::AttemptOutcome::Failed { .. }
                        | althing_protocol::AttemptOutcome::GaveUp { .. }
                )
            }
            _ => false,
        },
        FeedItem::Progress(progress) => matches!(**progress, Progress::Stalled { .. }),
    }
}

pub(super) fn terminal_width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(DEFAULT_WIDTH)
}
