//! The entries of the conversation: text of agents and cards on the left, the user's messages on the right.

use super::card;
use crate::line::{self, Line};
use crate::list::ListItems;
use crate::markdown;
use crate::theme::Tone;
use althing_protocol::{Millis, NoticeLevel, TaskStatus, Timestamp};
use althing_text::short_number;
use althing_view::{ConversationEntry, EntryBody, SessionView, StreamingText, labels};
use std::borrow::Cow;

pub struct ConversationList<'a> {
    pub model: &'a SessionView,
    pub now: Timestamp,
    pub esc_stops: bool,
}

/// What is being written at the end of the conversation: a final answer or the chat agent's reply.
enum Tail<'a> {
    Presenting(&'a StreamingText, Line),
    Replying,
}

impl ConversationList<'_> {
    fn tail(&self) -> Option<Tail<'_>> {
        if self.model.is_replying() {
            return Some(Tail::Replying);
        }
        let (run, agent) = self.model.presenting()?;
        let head = card::presenter_head(run, &agent.member.id);
        (!agent.streaming.text.is_empty()).then_some(Tail::Presenting(&agent.streaming, head))
    }

    /// The number of queued messages whose turn starts at once: they are shown as sent. Other queued messages are shown
    /// above the input.
    fn starting(&self) -> usize {
        if self.model.queue_waits_for().is_none() { self.model.queue.len() } else { 0 }
    }

    fn shown_entry(&self, at: usize) -> Option<Cow<'_, ConversationEntry>> {
        let entry = self.model.entries.get(at).map(Cow::Borrowed);
        let queued = || self.model.queue.iter().take(self.starting()).nth(at - self.model.entries.len());
        entry.or_else(|| queued().map(|message| Cow::Owned(message.clone().into_entry())))
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
        self.model.entries.len() + self.starting() + usize::from(self.tail().is_some())
    }

    fn version(&self, at: usize) -> Option<u64> {
        let entry = self.shown_entry(at)?;
        let pinned = u64::from(entry.pinned);
        let mut call_id = "";
        let looks = match &entry.body {
            EntryBody::User { .. }
            | EntryBody::Agent { .. }
            | EntryBody::Notice { .. }
            | EntryBody::Compacted { .. }
            | EntryBody::Rejected { .. }
            | EntryBody::Stopped { .. } => 2 + pinned,
            EntryBody::Tool { result, call, edits, is_undone, .. } => {
                call_id = call;
                2 + u64::from(result.is_some()) + 2 * u64::from(!edits.is_empty()) + 4 * u64::from(*is_undone)
            }
            EntryBody::Run(id) => {
                let ended = self.model.runs.get(id).filter(|run| !run.is_live());
                ended.map(|run| 1 + u64::from(run.is_undone))?
            }
            EntryBody::Final(id) => 1 + u64::from(self.model.runs.get(id).is_some_and(|run| run.is_undone)),
            EntryBody::Program(_) => return None,
        };
        // The version also identifies the entry, because an entry can move up: a queued message is already shown while
        // its turn is starting, and disappears if it is withdrawn.
        Some(super::list_id(&[&entry.seq.to_string(), &looks.to_string(), call_id]))
    }

    fn layout(&self, at: usize, width: usize) -> Vec<Line> {
        let mut lines = vec![Line::default()];
        if let Some(entry) = self.shown_entry(at) {
            self.entry(&entry, width, &mut lines)
        } else {
            lines.push(super::spread(&self.live_head(), &Line::default(), width));
        }
        lines
    }

    fn grows(&self, at: usize) -> Option<(&str, Line)> {
        if at != self.model.entries.len() + self.starting() {
            return None;
        }
        match self.tail()? {
            Tail::Presenting(streaming, head) => Some((streaming.text.as_str(), head)),
            Tail::Replying if self.model.streaming.text.is_empty() => None,
            Tail::Replying => Some((self.model.streaming.text.as_str(), self.live_head())),
        }
    }

    fn may_contain(&self, at: usize, words: &[&str]) -> bool {
        let text = match self.model.entries.get(at).map(|entry| &entry.body) {
            Some(EntryBody::User { text, .. } | EntryBody::Agent { text }) => text.to_lowercase(),
            _ => return true,
        };
        let whole = format!("{text} you althing pinned");
        words.iter().all(|word| whole.contains(word))
    }
}

impl ConversationList<'_> {
    fn live_head(&self) -> Line {
        let streaming = &self.model.streaming;
        if self.model.awaits_edit_permission() {
            return self.head(false).with(Tone::Dim, "  waits for your answer");
        }
        let activity = streaming.activity().unwrap_or_else(|| "thinking".into());
        let since = self.model.replying_since;
        let time = since.map(|since| format!(" {}", seconds(self.now.since(since)))).unwrap_or_default();
        let mut words = vec![format!("{activity}{time}")];
        if streaming.estimated_tokens() > 0 {
            words.push(format!("~{} tokens", short_number(streaming.estimated_tokens())));
        }
        if self.esc_stops {
            words.push("esc stops".into());
        }
        self.head(false).with(Tone::Dim, &format!("  {}", words.join(" · ")))
    }

    fn entry(&self, entry: &ConversationEntry, width: usize, lines: &mut Vec<Line>) {
        match &entry.body {
            EntryBody::User { text, .. } => user(text, entry.pinned, width, lines),
            EntryBody::Rejected { task, reason } => card::rejected(task, reason.as_deref(), width, lines),
            EntryBody::Stopped { partial } => {
                if !partial.trim().is_empty() {
                    lines.push(self.head(false));
                    let words = markdown::lines(partial, width.saturating_sub(3));
                    lines.extend(words.into_iter().map(|line| line.indented(3)));
                }
                lines.push(Line::of(Tone::Dim, "   stopped by you"));
            }
            EntryBody::Agent { text } => {
                lines.push(self.head(entry.pinned));
                let words = markdown::lines(text, width.saturating_sub(3));
                lines.extend(words.into_iter().map(|line| line.indented(3)));
            }
            EntryBody::Tool { name, arguments, result, edits, rejected, is_undone, .. } => {
                let (status, tone) = match result {
                    _ if *is_undone => ("undone", Tone::Dim),
                    None => (labels::task_status(TaskStatus::Running), Tone::Dim),
                    Some((_, true)) if *rejected => ("rejected", Tone::Dim),
                    Some((_, true)) => (labels::task_status(TaskStatus::Failed), Tone::Bad),
                    Some((_, false)) => (labels::task_status(TaskStatus::Done), Tone::Dim),
                };
                let state = Line::of(tone, &format!("{status} "));
                let mut line = Line::of(Tone::Dim, " ▸ ").with(Tone::Plain, name);
                if edits.is_empty() {
                    line.push(Tone::Dim, &format!("  {}", line::first_line(arguments)));
                }
                for (n, file) in edits.iter().enumerate() {
                    line.push(Tone::Bold, &format!("{}{}", if n == 0 { "  " } else { ", " }, file.summary()));
                }
                lines.push(super::spread(&line, &state, width));
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

/// `12 s`, or `1m05s` from a minute on.
fn seconds(time: Millis) -> String {
    if time.0 < 60_000 { format!("{} s", time.0 / 1000) } else { time.to_string() }
}

fn user(text: &str, pinned: bool, width: usize, lines: &mut Vec<Line>) {
    let room = (width * 3 / 5).max(width.saturating_sub(24).min(40)).min(width.saturating_sub(7)).max(4);
    let mut words = line::wrap_text(Tone::Plain, text, room);
    if pinned {
        words.push(Line::of(Tone::Dim, "pinned"));
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
