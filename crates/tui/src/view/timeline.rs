//! An agent's timeline: one line per action, and the full text of what the agent wrote.

use super::spread;
use crate::line::{self, Line};
use crate::list::ListItems;
use crate::markdown;
use crate::theme::Tone;
use althing_protocol::{TaskStatus, Timestamp};
use althing_view::{MemberView, TimelineEntry, TimelineEvent, labels};

pub struct Timeline<'a> {
    pub agent: &'a MemberView,
    pub start: Timestamp,
}

impl ListItems for Timeline<'_> {
    fn len(&self) -> usize {
        self.agent.timeline.len() + usize::from(!self.agent.streaming.is_empty())
    }

    fn version(&self, at: usize) -> Option<u64> {
        let entry = self.agent.timeline.get(at)?;
        match &entry.event {
            TimelineEvent::Tool { result, .. } => Some(2 + u64::from(result.is_some())),
            _ => Some(1),
        }
    }

    fn layout(&self, at: usize, width: usize) -> Vec<Line> {
        match self.agent.timeline.get(at) {
            Some(entry) => self.entry(entry, width),
            None => vec![self.streaming(width)],
        }
    }

    fn grows(&self, at: usize) -> Option<(&str, Line)> {
        let streaming = &self.agent.streaming;
        let last = at == self.agent.timeline.len() && !streaming.text.is_empty();
        last.then(|| (streaming.text.as_str(), Line::of(Tone::Dim, "          ").with(Tone::Accent, "text")))
    }
}

impl Timeline<'_> {
    fn clock(&self, at: Timestamp) -> String {
        let seconds = at.since(self.start).0 / 1000;
        format!(" {:>4}:{:02}  ", seconds / 60, seconds % 60)
    }

    fn streaming(&self, width: usize) -> Line {
        let streaming = &self.agent.streaming;
        let activity = streaming.activity().unwrap_or_default();
        let last = streaming.reasoning.lines().next_back().unwrap_or_default();
        let line = Line::of(Tone::Dim, "          ").with(Tone::Accent, &activity).with(Tone::Plain, "  ");
        spread(&line.with(Tone::Dim, last), &Line::default(), width)
    }

    fn entry(&self, entry: &TimelineEntry, width: usize) -> Vec<Line> {
        let clock = self.clock(entry.at);
        let row = |word: &str, tone: Tone, text: &str, right: &str| {
            let left = Line::of(Tone::Dim, &clock)
                .with(Tone::Bold, &line::pad(word, 12))
                .with(tone, line::first_line(text));
            spread(&left, &Line::of(Tone::Dim, right), width.saturating_sub(1))
        };
        let lines_of = |text: &str| match text.lines().count() {
            0 | 1 => String::new(),
            count => format!("({count} lines)"),
        };
        match &entry.event {
            TimelineEvent::Began(what) => vec![row("began", Tone::Dim, what, "")],
            TimelineEvent::Reasoning(text) => vec![row("reasoning", Tone::Dim, text, &lines_of(text))],
            TimelineEvent::Text(text) => {
                let head = Line::of(Tone::Dim, &clock).with(Tone::Accent, "text");
                let mut lines = vec![Line::default(), head];
                let words = markdown::lines(text, width.saturating_sub(3));
                lines.extend(words.into_iter().map(|line| line.indented(3)));
                lines
            }
            TimelineEvent::Tool { name, arguments, result, .. } => {
                let right = match result {
                    None => labels::task_status(TaskStatus::Running).to_owned(),
                    Some((_, at, true)) => {
                        format!("{}  {}", labels::task_status(TaskStatus::Failed), at.since(entry.at))
                    }
                    Some((text, at, false)) => format!("{}  {}", lines_of(text), at.since(entry.at)),
                };
                let tone = if matches!(result, Some((_, _, true))) { Tone::Bad } else { Tone::Plain };
                vec![row(name, tone, &brief(arguments), right.trim())]
            }
            TimelineEvent::Answer { label, content } => {
                vec![row(
                    "answer",
                    Tone::Plain,
                    &format!("{label}   {}", line::first_line(content)),
                    &lines_of(content),
                )]
            }
            TimelineEvent::Update(labels) => {
                let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
                vec![row("update", Tone::Dim, &format!("{} arrived", labels.join(" and ")), "")]
            }
            TimelineEvent::Note(text) => vec![row("note", Tone::Dim, text, "")],
            TimelineEvent::Plan(text) => vec![row("plan", Tone::Plain, text, "")],
            TimelineEvent::Vote { target, reason, stale } => {
                let right = if *stale { "not counted: newer answers" } else { "" };
                let tone = if *stale { Tone::Dim } else { Tone::Plain };
                vec![row("vote", tone, &format!("→ {target}   \"{}\"", line::first_line(reason)), right)]
            }
            TimelineEvent::Files(writes) => {
                let words: Vec<String> = writes.iter().map(labels::file_write).collect();
                vec![row("files", Tone::Plain, &words.join(" · "), "")]
            }
            TimelineEvent::Presented(text) => vec![row("final", Tone::Good, text, &lines_of(text))],
            TimelineEvent::Ended(text) => vec![row("ended", Tone::Bad, text, "")],
        }
    }
}

fn brief(arguments: &str) -> String {
    let inner = arguments.trim().trim_start_matches('{').trim_end_matches('}');
    inner.replace("\\n", " ")
}
