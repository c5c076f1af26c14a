//! Entries of the conversation: the agent's text and cards on the left, the user's messages on the right.

use super::card;
use crate::line::{self, Line};
use crate::list::ListItems;
use crate::markdown;
use crate::theme::Tone;
use althing_protocol::{ChatState, NoticeLevel, TaskStatus, Timestamp};
use althing_view::{ConversationEntry, EntryBody, SessionView, labels};

/// The conversation as a list.
pub struct ConversationList<'a> {
    pub model: &'a SessionView,
    pub now: Timestamp,
}

impl ConversationList<'_> {
    /// Whether the chat agent is working, so that its streaming text or activity is shown at the end.
    fn is_replying(&self) -> bool {
        let busy = match self.model.state {
            ChatState::Chatting
            | ChatState::ProcessingResults
            | ChatState::ProcessingPartial
            | ChatState::ProcessingCancelled => true,
            ChatState::Idle | ChatState::AwaitingApproval | ChatState::Running => false,
        };
        !self.model.streaming.is_empty() || (busy && self.model.chat_agent.is_some())
    }

    /// What a queued message waits for; None if its turn starts at once, and then no note is shown.
    fn waits_for(&self) -> Option<&'static str> {
        if self.model.live_run().is_some() {
            return Some("run");
        }
        (self.model.state != ChatState::Idle).then_some("turn")
    }

    fn head(&self, pinned: bool) -> Line {
        let mut head = Line::of(Tone::Accent, " ● ").with(Tone::Bold, "Althing");
        if self.model.chat_agent.as_ref().is_some_and(|member| member.offline) {
            head.push(Tone::Dim, " (offline, not an AI)");
        }
        if pinned {
            head.push(Tone::Dim, " · pinned");
        }
        head
    }
}

impl ListItems for ConversationList<'_> {
    fn len(&self) -> usize {
        self.model.entries.len() + usize::from(self.is_replying())
    }

    fn version(&self, at: usize) -> Option<u64> {
        let entry = self.model.entries.get(at)?;
        let pinned = u64::from(entry.pinned);
        let mut call_id = "";
        let looks = match &entry.body {
            EntryBody::User { queued, .. } => {
                let waits_for = self.waits_for().filter(|_| *queued);
                2 + pinned + 4 * waits_for.map_or(0, |what| what.len() as u64)
            }
            EntryBody::Agent { .. } | EntryBody::Notice { .. } | EntryBody::Compacted { .. } => 2 + pinned,
            EntryBody::Tool { result, call, .. } => {
                call_id = call;
                2 + u64::from(result.is_some())
            }
            EntryBody::Run(id) => self.model.runs.get(id).filter(|run| !run.is_live()).map(|_| 1)?,
            EntryBody::Final(_) => 1,
            EntryBody::Program(_) => return None,
        };
        // Removing a queued message shifts all later entries, so the version also identifies the entry.
        Some(super::list_id(&[&entry.seq.to_string(), &looks.to_string(), call_id]))
    }

    fn layout(&self, at: usize, width: usize) -> Vec<Line> {
        let mut lines = vec![Line::default()];
        if let Some(entry) = self.model.entries.get(at) {
            self.entry(entry, width, &mut lines)
        } else {
            let activity = self.model.streaming.activity().unwrap_or_else(|| "thinking".into());
            lines.push(self.head(false).with(Tone::Dim, &format!("  {activity}…")));
        }
        lines
    }

    fn grows(&self, at: usize) -> Option<(&str, Line)> {
        let text = &self.model.streaming.text;
        (at == self.model.entries.len() && !text.is_empty()).then(|| (text.as_str(), self.head(false)))
    }
}

impl ConversationList<'_> {
    fn entry(&self, entry: &ConversationEntry, width: usize, lines: &mut Vec<Line>) {
        match &entry.body {
            EntryBody::User { text, queued, .. } => {
                user(text, self.waits_for().filter(|_| *queued), entry.pinned, width, lines)
            }
            EntryBody::Agent { text } => {
                lines.push(self.head(entry.pinned));
                let words = markdown::lines(text, width.saturating_sub(3));
                lines.extend(words.into_iter().map(|line| line.indented(3)));
            }
            EntryBody::Tool { name, arguments, result, .. } => {
                let mut line = Line::of(Tone::Dim, " ▸ ").with(Tone::Plain, name);
                let about = line::first_line(arguments).to_owned();
                let state = match result {
                    None => (TaskStatus::Running, Tone::Dim),
                    Some((_, true)) => (TaskStatus::Failed, Tone::Bad),
                    Some((_, false)) => (TaskStatus::Done, Tone::Dim),
                };
                line.push(Tone::Dim, &format!("  {about}"));
                lines.push(super::spread(
                    &line,
                    &Line::of(state.1, &format!("{} ", labels::task_status(state.0))),
                    width,
                ));
            }
            EntryBody::Run(id) => {
                if let Some(run) = self.model.runs.get(id) {
                    card::run(run, self.model, self.now, width, lines);
                }
            }
            EntryBody::Final(id) => {
                if let Some(run) = self.model.runs.get(id) {
                    card::final_answer(run, width, lines);
                }
            }
            EntryBody::Program(id) => {
                if let Some(task) = self.model.task(id) {
                    card::program(task, self.model, self.now, width, lines);
                }
            }
            EntryBody::Notice { level, text } => {
                let tone = match level {
                    NoticeLevel::Info => Tone::Dim,
                    NoticeLevel::Warning => Tone::Warn,
                    NoticeLevel::Error => Tone::Bad,
                };
                let word = labels::notice_level(*level);
                let wrapped =
                    line::wrap(&[(tone, word), (Tone::Plain, &format!(": {text}"))], width.saturating_sub(4));
                lines.extend(wrapped.into_iter().map(|line| line.indented(3)));
            }
            EntryBody::Compacted { what, .. } => {
                let wrapped = line::wrap(&[(Tone::Dim, what)], width.saturating_sub(4));
                lines.extend(wrapped.into_iter().map(|line| line.indented(3)));
            }
        }
    }
}

/// A message of the user: right-aligned as a block. If the message is queued, `queued` says what it waits for.
fn user(text: &str, queued: Option<&str>, pinned: bool, width: usize, lines: &mut Vec<Line>) {
    let room = (width * 3 / 5).max(width.saturating_sub(24).min(40)).min(width.saturating_sub(7)).max(4);
    let mut words = line::wrap_text(Tone::Plain, text, room);
    let mut note = String::new();
    if let Some(after) = queued {
        note = format!("queued, delivered after this {after} · del removes");
    }
    if pinned {
        note.push_str(if note.is_empty() { "pinned" } else { " · pinned" });
    }
    if !note.is_empty() {
        words.push(Line::of(Tone::Dim, &line::cut(&note, width.saturating_sub(7))));
    }
    let widest = words.iter().map(Line::width).max().unwrap_or_default();
    let left = width.saturating_sub(widest + 6);
    for (n, line) in words.into_iter().enumerate() {
        let used = line.width();
        let mut line = line.indented(left);
        if n == 0 {
            line.push(Tone::Plain, &" ".repeat(widest - used + 2));
            line.push(Tone::Bold, "You");
        }
        lines.push(line);
    }
}
