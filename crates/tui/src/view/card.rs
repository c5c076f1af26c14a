//! Cards of runs and programs, and the final answer.

use super::{count, spread, tokens};
use crate::line::{self, Line};
use crate::markdown;
use crate::theme::Tone;
use althing_protocol::{AgentId, FileWrite, MAX_NAMED_FILES, RunResult, RunStatus, TaskStatus, Timestamp};
use althing_view::labels::{self, file_write};
use althing_view::money::{cost, has_cost};
use althing_view::{ChangedFiles, RunView, SessionView, TaskView};
use std::borrow::Cow;

/// Below this width, a card is one line.
const NARROW: usize = 60;

const CANCEL: &str = "[Cancel]";

/// A card of one line has the button only if at least this many columns remain for the title.
const LEAST_TITLE: usize = 26;

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
                (None, false) => agent.live_activity(),
            };
            let numbers = format!(
                "round {}  {:>7}  {:>11} ",
                agent.round.max(1),
                tokens(&agent.usage),
                cost(&agent.usage)
            );
            let left = Line::of(Tone::Plain, &format!("   {}  ", line::pad(agent.member.id.as_str(), names)))
                .with(if waits { Tone::Warn } else { Tone::Dim }, line::first_line(&activity));
            lines.push(spread(&left, &Line::of(Tone::Dim, &numbers), width));
        }
    } else {
        lines.push(Line::of(Tone::Dim, &line::cut(&details, width)));
    }
}

fn run_question(model: &SessionView, run: &RunView, agent: &str) -> Option<String> {
    let member_index = run.agents.iter().position(|other| other.member.id.as_str() == agent)?;
    let question = model.question_of(&run.id.work(member_index as u32 + 1))?;
    match &question.interaction.kind {
        althing_protocol::InteractionKind::Program(ask) => Some(line::first_line(&ask.text).to_owned()),
        _ => None,
    }
}

pub fn details(run: &RunView, now: Timestamp) -> String {
    let mut details = vec![run.agents_label()];
    let rounds = run.rounds();
    if run.is_live() {
        details.push(format!("round {}", rounds.max(1)));
    } else {
        details.push(count(rounds as usize, "round"));
    }
    details.push(elapsed(run, now));
    let usage = run.usage();
    if has_cost(&usage) {
        let what = if usage.cost_usd > 0.0 { "" } else { "cost " };
        details.push(format!("{what}{}", cost(&usage)));
    }
    if let (Some(vote), false) = (&run.vote, run.is_live()) {
        details.extend(vote.in_short());
    }
    if let Some(result) = &run.result {
        let files = ChangedFiles::of(result);
        match (files.written.len(), files.deleted.len()) {
            (0, 0) => {}
            (0, deleted) => details.push(format!("{} deleted", count(deleted, "file"))),
            (written, _) => details.push(format!("{} written", count(written, "file"))),
        }
        if run.is_undone {
            details.push("undone".into());
        }
        if let Some(error) = &result.error {
            details.push(line::first_line(error).to_owned());
        }
    }
    details.join(" · ")
}

pub fn elapsed(run: &RunView, now: Timestamp) -> String {
    labels::elapsed(run.elapsed(now), run.is_live())
}

pub fn rejected(task: &str, reason: Option<&str>, width: usize, lines: &mut Vec<Line>) {
    let left = Line::of(Tone::Dim, " ▸ ").with(Tone::Bold, &format!("Run: {}", line::first_line(task)));
    lines.push(spread(&left, &Line::of(Tone::Warn, "Not started "), width));
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    lines.push(Line::of(Tone::Dim, &line::cut(&format!("   rejected{reason}"), width)));
}

pub fn presenter_head(run: &RunView, presenter: &AgentId) -> Line {
    head(run, &format!("{presenter} presents"))
}

fn head(run: &RunView, who: &str) -> Line {
    let head = Line::of(Tone::Accent, " ● ").with(Tone::Bold, who);
    let offline = run.agents.iter().any(|agent| agent.member.offline);
    if offline { head.with(Tone::Dim, " (offline, not an AI)") } else { head }
}

pub fn final_answer(run: &RunView, width: usize, lines: &mut Vec<Line>) {
    let Some(result) = &run.result else { return };
    let presenter = result.coordination_summary.presenter.as_ref();
    let left = presenter.map_or_else(|| head(run, "Althing"), |agent| presenter_head(run, agent));
    let mut right = elapsed(run, Timestamp(0));
    if has_cost(&result.usage) {
        let what = if result.usage.cost_usd > 0.0 { "" } else { "cost " };
        right = format!("{right} · {what}{}", cost(&result.usage));
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
    footer(&files, run.is_undone, width, lines);
}

/// The answer of a planning run without the fenced JSON of its plan, because the approval shows the plan's tasks.
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

/// The files that a run wrote to context paths, and those that it deleted: few are named, many are counted. Omitted if
/// nothing was written.
pub fn footer(files: &ChangedFiles<'_>, is_undone: bool, width: usize, lines: &mut Vec<Line>) {
    let Some(heading) = files.heading() else { return };
    lines.push(Line::default());
    if is_undone {
        let text =
            format!("{} Undone: the files are as before.", heading.trim_end_matches(':').to_owned() + ".");
        let wrapped = line::wrap_text(Tone::Dim, &text, width.saturating_sub(4));
        return lines.extend(wrapped.into_iter().map(|line| line.indented(3)));
    }
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
