//! The bell and notifications, for a user who looks at another window.
//!
//! Some terminals do not report the focus (tmux only with `focus-events on`). Until the first report, the focus is
//! unknown: then the user's own `notify` hears of what happens if no key is pressed for a while afterwards.

use super::{App, Effect};
use crate::line;
use althing_protocol::{FileDiff, InteractionId, InteractionKind, TaskId, Timestamp};
use althing_view::Question;
use std::collections::BTreeSet;

/// While the focus is unknown, this many milliseconds without a key mean that the user is not there.
const AWAY_MS: u64 = 10_000;

/// What was already reported to the user.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Whether the terminal window has the focus; `None` if the terminal has not reported it.
    pub(crate) focus: Option<bool>,
    live_runs: BTreeSet<TaskId>,
    workflow_works: bool,
    questions: BTreeSet<InteractionId>,
    /// Texts for the user's `notify`, and when they are due. Any event of the terminal, such as a key, removes them.
    waiting: Vec<(Timestamp, String)>,
}

impl App {
    /// Reports new questions, and runs and workflows that have ended.
    pub(crate) fn notice_changes(&mut self) {
        let live: BTreeSet<TaskId> =
            self.model.own_runs().filter(|run| run.is_live()).map(|run| run.id.clone()).collect();
        let before = std::mem::replace(&mut self.noticed.live_runs, live.clone());
        let mut texts: Vec<String> = before.difference(&live).filter_map(|id| self.ended_text(id)).collect();
        let works = self.model.workflow().is_some_and(|workflow| !workflow.status.is_final());
        if std::mem::replace(&mut self.noticed.workflow_works, works) && !works {
            texts.extend(self.workflow_text());
        }
        let ended = !texts.is_empty();
        let asked = self.model.questions.iter().map(|question| question.interaction.id.clone()).collect();
        let known = std::mem::replace(&mut self.noticed.questions, asked);
        let is_new = |question: &&Question| !known.contains(&question.interaction.id);
        let new: Vec<String> = self.model.questions.iter().filter(is_new).map(question_text).collect();
        if self.options.replay {
            return;
        }
        let has_focus = self.noticed.focus;
        if self.options.bell && (!new.is_empty() || ended && has_focus != Some(true)) {
            self.effects.push(Effect::Bell);
        }
        texts.extend(new);
        match has_focus {
            Some(true) => {}
            Some(false) => self.effects.extend(texts.into_iter().map(Effect::Notify)),
            None => {
                let due = Timestamp(self.now.0.max(self.last_key_at.0) + AWAY_MS);
                self.noticed.waiting.extend(texts.into_iter().map(|text| (due, text)));
            }
        }
    }

    pub(crate) fn set_focus(&mut self, has_focus: bool) {
        self.noticed.focus = Some(has_focus);
        self.note_presence();
    }

    /// Called for every event of the terminal: the user is there, so what waits need not be reported.
    pub(crate) fn note_presence(&mut self) {
        self.noticed.waiting.clear();
    }

    pub(crate) fn notice_due(&self) -> Option<Timestamp> {
        self.noticed.waiting.iter().map(|(due, _)| *due).min()
    }

    pub(crate) fn report_due(&mut self) {
        let now = self.now;
        let due = self.noticed.waiting.extract_if(.., |(due, _)| *due <= now);
        self.effects.extend(due.map(|(_, text)| Effect::NotifyUser(text)));
    }

    fn ended_text(&self, id: &TaskId) -> Option<String> {
        let run = self.model.runs.get(id)?;
        Some(format!("{}: {}", run.status_label(), line::first_line(&run.task)))
    }

    fn workflow_text(&self) -> Option<String> {
        let workflow = self.model.workflow()?;
        Some(format!("{}: {}", workflow.status_label(), workflow.name))
    }
}

fn question_text(question: &Question) -> String {
    match &question.interaction.kind {
        InteractionKind::RunApproval { proposal } => {
            format!("Launch this run? {}", line::first_line(&proposal.launch.task))
        }
        InteractionKind::PlanApproval { .. } => "A plan waits for your approval".into(),
        InteractionKind::EditApproval { preview, .. } => {
            let files: Vec<String> = preview.files.iter().map(FileDiff::summary).collect();
            format!("Change these files? {}", files.join(", "))
        }
        InteractionKind::WinnerOverride { winner, .. } => format!("{winner} wins the vote"),
        InteractionKind::Budget { .. } => "The budget is used up: go on?".into(),
        InteractionKind::Program(ask) => format!("Waits for you: {}", line::first_line(&ask.text)),
        InteractionKind::Interrupted => "A task was interrupted".into(),
    }
}
