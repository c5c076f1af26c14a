//! The choice of the presenter in the override window: its keys and texts, and the pause of the countdown while it is
//! open.

use super::{App, Modal, TextReader};
use althing_protocol::{Candidate, Decision, InteractionId, Op};
use althing_view::{RunView, TimelineEvent};
use crossterm::event::{KeyCode, KeyEvent};

/// The choice of the presenter while the screen shows the whole answer of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChooserBelow {
    chooser: Modal,
    depth: usize,
}

impl App {
    fn voted_run(&self, id: &InteractionId) -> Option<&RunView> {
        let question = self.model.questions.iter().find(|question| question.interaction.id == *id)?;
        self.model.runs.get(question.task.as_ref()?)
    }

    pub(crate) fn candidate_answer(&self, id: &InteractionId, candidate: &Candidate) -> String {
        let whole = self.voted_run(id).and_then(|run| {
            let mut answers = run.agents.iter().flat_map(althing_view::MemberView::answers);
            answers.find(|(label, _)| *label == candidate.label).map(|(_, text)| text.to_owned())
        });
        whole.unwrap_or_else(|| candidate.preview.clone())
    }

    pub(crate) fn reasons_for(&self, id: &InteractionId, candidate: &Candidate) -> Vec<(String, String)> {
        let Some(run) = self.voted_run(id) else { return Vec::new() };
        let voters = run.agents.iter().filter(|agent| agent.vote.as_ref() == Some(&candidate.agent));
        let reason = |entry: &TimelineEvent| match entry {
            TimelineEvent::Vote { target, reason, stale: false } if *target == candidate.agent => {
                Some(reason.clone())
            }
            _ => None,
        };
        voters
            .map(|agent| {
                let reason = agent.timeline.iter().rev().find_map(|entry| reason(&entry.event));
                (agent.member.id.to_string(), reason.unwrap_or_default())
            })
            .collect()
    }

    pub(super) fn override_key(&mut self, key: KeyEvent) {
        let page = self.page();
        let Some(Modal::Override { candidates, chosen, id }) = &mut self.modal else { return };
        let before = *chosen;
        match key.code {
            KeyCode::Up => *chosen = chosen.saturating_sub(1),
            KeyCode::Down => *chosen = (*chosen + 1).min(candidates.len().saturating_sub(1)),
            KeyCode::PageUp => self.info_scroll = self.info_scroll.saturating_sub(page.unsigned_abs() / 2),
            KeyCode::PageDown => self.info_scroll += page.unsigned_abs() / 2,
            KeyCode::Enter => {
                if let Some(agent) = candidates.get(*chosen).map(|one| one.agent.clone()) {
                    self.info_scroll = 0;
                    self.answer(Decision::Presenter { agent });
                }
                return;
            }
            KeyCode::Char(' ') => {
                let (id, Some(one)) = (id.clone(), candidates.get(*chosen).cloned()) else { return };
                let title = format!("{} · {}", one.agent, one.label);
                let text = self.candidate_answer(&id, &one);
                if let Some(chooser) = self.modal.take() {
                    self.chooser_below = Some(ChooserBelow { chooser, depth: self.screens.len() });
                }
                return self.open_reader(TextReader::markdown(&title, &text));
            }
            KeyCode::Esc => {
                self.info_scroll = 0;
                self.modal = None;
                return;
            }
            _ => return self.note_stray(key),
        }
        if *chosen != before {
            self.info_scroll = 0;
        }
    }

    pub(crate) fn return_to_chooser(&mut self) {
        let is_open = |below: &ChooserBelow| {
            let id = below.chooser.question();
            self.model.questions.iter().any(|question| Some(&question.interaction.id) == id)
        };
        let Some(below) =
            self.chooser_below.take_if(|below| !is_open(below) || below.depth >= self.screens.len())
        else {
            return;
        };
        if is_open(&below) && self.modal.is_none() {
            self.modal = Some(below.chooser);
        }
    }

    /// Pauses the countdown while the choice of the presenter is open, also while a whole answer is shown.
    pub(crate) fn sync_countdown(&mut self) {
        self.return_to_chooser();
        let open = match (&self.modal, &self.chooser_below) {
            (Some(modal @ Modal::Override { .. }), _) | (_, Some(ChooserBelow { chooser: modal, .. })) => {
                modal.question().cloned()
            }
            _ => None,
        };
        if open == self.paused || self.options.replay {
            return;
        }
        for (interaction, paused) in
            [(std::mem::replace(&mut self.paused, open.clone()), false), (open, true)]
        {
            let is_open = |id: &InteractionId| {
                let mut open = self.model.questions.iter();
                open.any(|question| question.interaction.id == *id) && !self.dismissed.contains(id)
            };
            if let Some(interaction) = interaction.filter(is_open) {
                self.submit(Op::PauseCountdown { interaction, paused });
            }
        }
    }
}
