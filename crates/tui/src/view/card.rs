//! Cards of runs and programs, and the final answer.

use super::{count, spread, tokens};
use crate::line::{self, Line};
use crate::markdown;
use crate::theme::Tone;
use althing_protocol::{FileWrite, MAX_NAMED_FILES, RunResult, RunStatus, TaskStatus, Timestamp};
use althing_view::labels::{self, file_write, money};
use althing_view::{ChangedFiles, RunView, SessionView, TaskView};
use std::borrow::Cow;

/// Below this width a card is one line.
const NARROW: usize = 60;

/// The button that cancels a run.
const CANCEL: &str = "[Cancel]";

/// A card of one line has the button only if at least this many columns remain for the title.
const LEAST_TITLE: usize = 26;

/// Draws a run's card.
pub fn run(run: &RunView, model: &SessionView, now: Timestamp, width: usize, lines: &mut Vec<Line>) {
    let live = run.is_live();
    let mark = if live && width >= NARROW { " ▾ " } else { " ▸ " };
    let left =
        Line::of(Tone::Accent, mark).with(Tone::Bold, &format!("Run: {}", line::first_line(&run.task)));
    let tone = match run.result.as_ref().map(|result| result.status) {
        Some(RunStatus::Completed) => Tone::Good,
        Some(RunStatus::Failed) => Tone::Bad,
        Some(RunStatus::Partial | RunStatus::Cancelled) => Tone::Warn,
        None => Tone::Accent,
    };
    let mut right = Line::of(tone, &format!("{} ", run.status_label()));
    if width < NARROW {
        if live && width >= right.width() + CANCEL.len() + LEAST_TITLE {
            right = right.with(Tone::Button, CANCEL).with(Tone::Plain, " ");
        }
        lines.push(spread(&left, &right, width));
        return;
    }
    lines.push(spread(&left, &right, width));
    let details = format!("   {}", details(run, now));
    if live {
        let cancel = Line::of(Tone::Button, CANCEL).with(Tone::Plain, " ");
        lines.push(spread(&Line::of(Tone::Dim, &details), &cancel, width));
        let names = run.agents.iter().map(|agent| line::width(agent.member.id.as_str())).max();
        let names = names.unwrap_or_default().clamp(4, 16);
        for agent in &run.agents {
            let waits = agent.waiting_for.is_some();
            let asked = run_question(model, run, agent.member.id.as_str());
            let activity = match (&asked, waits) {
                (Some(question), _) => format!("waits for you: {question}"),
                (None, true) => "waits for you".into(),
                (None, false) => agent.activity(),
            };
            let numbers = format!(
                "round {}  {:>7}  {:>11} ",
                agent.round.max(1),
                tokens(&agent.usage),
                money(agent.usage.cost_usd)
            );
            let left = Line::of(Tone::Plain, &format!("   {}  ", line::pad(agent.member.id.as_str(), names)))
                .with(if waits { Tone::Warn } else { Tone::Dim }, line::first_line(&activity));
            lines.push(spread(&left, &Line::of(Tone::Dim, &numbers), width));
        }
    } else {
        lines.push(Line::of(Tone::Dim, &line::cut(&details, width)));
    }
}

/// The first line of the open question of an agent's program; None if there is none.
fn run_question(model: &SessionView, run: &RunView, agent: &str) -> Option<String> {
    let member_index = run.agents.iter().position(|other| other.member.id.as_str() == agent)?;
    let question = model.question_of(&run.id.work(member_index as u32 + 1))?;
    match &question.interaction.kind {
        althing_protocol::InteractionKind::Program(ask) => Some(line::first_line(&ask.text).to_owned()),
        _ => None,
    }
}

/// `3 agents · 2 rounds · 4m12s` and further details.
pub fn details(run: &RunView, now: Timestamp) -> String {
    let mut details = vec![count(run.agents.len(), "agent")];
    let rounds = run.rounds();
    if run.is_live() {
        details.push(format!("round {}", rounds.max(1)));
    } else {
        details.push(count(rounds as usize, "round"));
    }
    details.push(elapsed(run, now));
    let cost = run.usage().cost_usd;
    if cost > 0.0 {
        details.push(money(cost));
    }
    if let (Some(vote), false) = (&run.vote, run.is_live()) {
        let all: u32 = vote.votes.values().sum();
        let own = vote.votes.get(&vote.winner).copied().unwrap_or_default();
        if all > 0 {
            details.push(format!("winner {}, {own} of {all} votes", vote.winner));
        }
    }
    if let Some(result) = &run.result {
        let files = ChangedFiles::of(result);
        match (files.written.len(), files.deleted.len()) {
            (0, 0) => {}
            (0, deleted) => details.push(format!("{} deleted", count(deleted, "file"))),
            (written, _) => details.push(format!("{} written", count(written, "file"))),
        }
        if let Some(error) = &result.error {
            details.push(line::first_line(error).to_owned());
        }
    }
    details.join(" · ")
}

/// The elapsed time of a run.
pub fn elapsed(run: &RunView, now: Timestamp) -> String {
    labels::elapsed(run.elapsed(now), run.is_live())
}

/// A run's final answer and the files that it wrote.
pub fn final_answer(run: &RunView, width: usize, lines: &mut Vec<Line>) {
    let Some(result) = &run.result else { return };
    let presenter = result.coordination_summary.presenter.as_ref();
    let who = presenter.map_or("Althing".to_owned(), |agent| format!("{agent} presents"));
    let mut left = Line::of(Tone::Accent, " ● ").with(Tone::Bold, &who);
    if run.agents.iter().any(|agent| agent.member.offline) {
        left.push(Tone::Dim, " (offline, not an AI)");
    }
    let mut right = elapsed(run, Timestamp(0));
    if result.usage.cost_usd > 0.0 {
        right = format!("{right} · {}", money(result.usage.cost_usd));
    }
    lines.push(spread(&left, &Line::of(Tone::Dim, &format!("{right} ")), width));
    let files = ChangedFiles::of(result);
    if let Some(note) = files.note() {
        let wrapped = line::wrap_text(Tone::Dim, &format!("note: {note}"), width.saturating_sub(4));
        lines.extend(wrapped.into_iter().map(|line| line.indented(3)));
    }
    if let Some(answer) = &result.final_answer {
        let words = markdown::lines(&readable(answer, result), width.saturating_sub(3));
        lines.extend(words.into_iter().map(|line| line.indented(3)));
    }
    if let Some(plan) = result.plan.as_ref().filter(|_| result.modes.planning) {
        let wrapped = line::wrap_text(
            Tone::Dim,
            &format!("The plan is stored in {}", plan.path),
            width.saturating_sub(4),
        );
        lines.push(Line::default());
        lines.extend(wrapped.into_iter().map(|line| line.indented(3)));
    }
    if let Some(error) = &result.error {
        let wrapped = line::wrap_text(Tone::Bad, error, width.saturating_sub(4));
        lines.extend(wrapped.into_iter().map(|line| line.indented(3)));
    }
    footer(&files, width, lines);
}

/// The answer of a planning run without the fenced JSON of its plan, whose tasks are shown in the approval.
fn readable<'a>(answer: &'a str, result: &RunResult) -> Cow<'a, str> {
    if !result.modes.planning || result.plan.is_none() {
        return Cow::Borrowed(answer);
    }
    let parts = answer.split("```").enumerate();
    // Every second part is inside a fence.
    let kept = parts.filter(|(n, part)| n % 2 == 0 || !part.contains("\"tasks\""));
    let kept = kept.map(|(n, part)| if n % 2 == 0 { part.to_owned() } else { format!("```{part}```") });
    Cow::Owned(kept.collect())
}

/// The files that a run wrote to context paths, and those that it deleted: named if there are few, counted if there
/// are many. Omitted if nothing was written: then a note at the top of the answer names the deleted files.
pub fn footer(files: &ChangedFiles<'_>, width: usize, lines: &mut Vec<Line>) {
    let Some(heading) = files.heading() else { return };
    lines.push(Line::default());
    let keys = Line::of(Tone::Dim, "d diff · u undo ");
    let list = |writes: &[&FileWrite]| {
        let words: Vec<String> = writes.iter().map(|write| file_write(write)).collect();
        words.join(" · ")
    };
    lines.push(spread(&Line::of(Tone::Bold, &format!("   {heading}")), &keys, width));
    if files.only_counts() {
        let wrapped = line::wrap_text(Tone::Dim, &files.list, width.saturating_sub(6));
        lines.extend(wrapped.into_iter().map(|line| line.indented(5)));
    }
    let named = files.named();
    let wrapped = line::wrap_text(Tone::Plain, &list(&named), width.saturating_sub(6));
    lines.extend(wrapped.into_iter().filter(|_| !named.is_empty()).map(|line| line.indented(5)));
    if !files.deleted.is_empty() {
        let text = if files.deleted.len() > MAX_NAMED_FILES {
            format!("{} files deleted", files.deleted.len())
        } else {
            format!("deleted: {}", list(&files.deleted))
        };
        let wrapped = line::wrap_text(Tone::Dim, &text, width.saturating_sub(4));
        lines.extend(wrapped.into_iter().map(|line| line.indented(3)));
    }
}

/// Draws a program's card.
pub fn program(task: &TaskView, model: &SessionView, now: Timestamp, width: usize, lines: &mut Vec<Line>) {
    let tone = match task.status {
        TaskStatus::Done => Tone::Good,
        TaskStatus::Failed => Tone::Bad,
        TaskStatus::WaitingForUser => Tone::Warn,
        TaskStatus::Pending | TaskStatus::Cancelled | TaskStatus::Interrupted => Tone::Dim,
        TaskStatus::Running => Tone::Accent,
    };
    let mut name = format!("Task: {}", task.name);
    if !task.work.member.backend.is_empty() {
        name = format!("{name} ({})", task.work.member.backend);
    }
    let left = Line::of(Tone::Accent, " ▸ ").with(Tone::Bold, &name);
    lines.push(spread(&left, &Line::of(tone, &format!("{} ", task.status_label())), width));
    if width < NARROW {
        return;
    }
    let what = super::tasks::waits_for(task, model, now);
    if !what.is_empty() {
        lines.push(Line::of(Tone::Dim, &line::cut(&format!("   {what}"), width)));
    }
}
