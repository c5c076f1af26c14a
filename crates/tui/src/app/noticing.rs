//! Notifications of the terminal, for a user who looks at another window.

use super::{App, Effect};
use crate::line;
use althing_protocol::{FileDiff, InteractionKind, TaskId};

impl App {
    pub(crate) fn notice_changes(&mut self) {
        let live = self.model.live_run().map(|run| run.id.clone());
        let before = std::mem::replace(&mut self.live_before, live.clone());
        let asked = std::mem::replace(&mut self.asked_before, self.model.questions.len());
        if self.has_focus || self.options.replay || self.options.notifications.is_none() {
            return;
        }
        let ended = before.filter(|id| live.as_ref() != Some(id));
        let text = match ended {
            Some(id) => self.ended_text(&id),
            None if self.model.questions.len() > asked => self.question_text(),
            None => None,
        };
        if let Some(text) = text {
            self.effects.push(Effect::Notify(text));
        }
    }

    fn ended_text(&self, id: &TaskId) -> Option<String> {
        let run = self.model.runs.get(id)?;
        Some(format!("{}: {}", run.status_label(), line::first_line(&run.task)))
    }

    fn question_text(&self) -> Option<String> {
        let question = self.model.questions.last()?;
        Some(match &question.interaction.kind {
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
        })
    }
}
