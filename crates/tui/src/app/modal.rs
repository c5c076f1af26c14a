//! Questions, pickers and information on top of the screen: when they open and close.

use super::dialog_typing::TOO_SOON;
use super::{App, Effect, SessionPicker, TuiScreen};
use crate::editor::Editor;
use crate::host::{ProjectEntry, TuiExit};
use crate::theme::Theme;
use althing_protocol::{
    Ask, Candidate, Decision, EditPreview, InteractionId, InteractionKind, LaunchRun, Op, PlanRef, Proposal,
    TaskId,
};
use althing_view::Question;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// No text field: letters are shortcuts of the buttons.
    Buttons,
    Task,
    Context,
    Instructions,
    Changes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmedAction {
    Cancel(TaskId),
    Undo(TaskId),
    /// Ends a program that has finished its turn.
    End(TaskId),
    /// Starts a task of a workflow again, which may cost again.
    Retry(TaskId),
    /// Leaves the screen while something works.
    Leave(TuiExit),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picker {
    Projects(Vec<ProjectEntry>),
    /// The theme that Esc restores.
    Themes(Theme),
}

impl Picker {
    pub fn len(&self) -> usize {
        match self {
            Self::Projects(entries) => entries.len(),
            Self::Themes(_) => Theme::ALL.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Modal {
    RunApproval {
        id: InteractionId,
        proposal: Box<Proposal>,
        edited: Box<LaunchRun>,
        field: Field,
        editor: Editor,
        problem: Option<String>,
    },
    PlanApproval {
        id: InteractionId,
        plan: PlanRef,
        /// One line per task of the plan.
        preview: Vec<String>,
        field: Field,
        instructions: Editor,
        changes: Editor,
    },
    /// A change of files that the chat agent wants to make.
    EditApproval {
        id: InteractionId,
        /// The changes.
        preview: EditPreview,
    },
    /// Choice of the presenter.
    Override {
        id: InteractionId,
        candidates: Vec<Candidate>,
        chosen: usize,
    },
    /// A question of a program.
    Program {
        id: InteractionId,
        task: Option<TaskId>,
        ask: Ask,
        chosen: usize,
    },
    /// A program was interrupted: the user restarts it or marks it as failed.
    Interrupted {
        id: InteractionId,
        task: Option<TaskId>,
    },
    /// The session has reached its budget, or is about to exceed it.
    Budget {
        id: InteractionId,
        /// In micro-USD, like `budget` and `raised`.
        spent: u64,
        budget: u64,
        /// The budget after an approval.
        raised: Option<u64>,
    },
    /// Something was found in the working directory. Each line of `would` says what it would do.
    Trust {
        would: Vec<String>,
    },
    Confirm(ConfirmedAction),
    /// The picker of sessions.
    Sessions(SessionPicker),
    /// Another picker.
    Pick {
        picker: Picker,
        chosen: usize,
    },
    /// Problems of the config.
    Problems,
    Cost,
    Agents,
    Help,
}

impl Modal {
    pub fn question(&self) -> Option<&InteractionId> {
        match self {
            Self::RunApproval { id, .. }
            | Self::PlanApproval { id, .. }
            | Self::EditApproval { id, .. }
            | Self::Override { id, .. }
            | Self::Program { id, .. }
            | Self::Interrupted { id, .. }
            | Self::Budget { id, .. } => Some(id),
            Self::Trust { .. }
            | Self::Confirm(_)
            | Self::Sessions(_)
            | Self::Pick { .. }
            | Self::Problems
            | Self::Cost
            | Self::Agents
            | Self::Help => None,
        }
    }

    /// The text field that has the focus.
    pub(crate) fn text_field(&mut self) -> Option<&mut Editor> {
        match self {
            Self::RunApproval { editor, field: Field::Task | Field::Context, .. } => Some(editor),
            Self::PlanApproval { instructions, field: Field::Instructions, .. } => Some(instructions),
            Self::PlanApproval { changes, field: Field::Changes, .. } => Some(changes),
            Self::Sessions(picker) => picker.text_field(),
            _ => None,
        }
    }

    pub fn for_question(question: &Question) -> Self {
        let id = question.interaction.id.clone();
        match question.interaction.kind.clone() {
            InteractionKind::WinnerOverride { winner, candidates } => {
                let chosen = candidates.iter().position(|one| one.agent == winner).unwrap_or_default();
                Self::Override { id, candidates, chosen }
            }
            InteractionKind::RunApproval { proposal } => Self::RunApproval {
                id,
                edited: Box::new(proposal.launch.clone()),
                proposal,
                field: Field::Buttons,
                editor: Editor::default(),
                problem: None,
            },
            InteractionKind::PlanApproval { plan, preview } => Self::PlanApproval {
                id,
                plan,
                preview,
                field: Field::Buttons,
                instructions: Editor::default(),
                changes: Editor::default(),
            },
            InteractionKind::EditApproval { preview, .. } => Self::EditApproval { id, preview },
            InteractionKind::Budget { spent_micro_usd, budget_micro_usd, raised_micro_usd } => Self::Budget {
                id,
                spent: spent_micro_usd,
                budget: budget_micro_usd,
                raised: raised_micro_usd,
            },
            InteractionKind::Program(ask) => {
                Self::Program { id, task: question.task.clone(), ask, chosen: 0 }
            }
            InteractionKind::Interrupted => Self::Interrupted { id, task: question.task.clone() },
        }
    }
}

/// Whether a question opens its dialog by itself. Questions of programs wait in the tasks panel, and the override of a
/// vote has a line above the mode bar.
fn comes_by_itself(kind: &InteractionKind) -> bool {
    match kind {
        InteractionKind::RunApproval { .. }
        | InteractionKind::PlanApproval { .. }
        | InteractionKind::EditApproval { .. }
        | InteractionKind::Budget { .. } => true,
        InteractionKind::WinnerOverride { .. }
        | InteractionKind::Program(_)
        | InteractionKind::Interrupted => false,
    }
}

impl App {
    pub(crate) fn sync_modal(&mut self) {
        if let Some(id) = self.modal.as_ref().and_then(Modal::question)
            && !self.model.questions.iter().any(|question| question.interaction.id == *id)
        {
            self.modal = None;
        }
        if let Some(Modal::Confirm(action)) = &self.modal
            && let Some(why) = self.why_outdated(action)
        {
            (self.modal, self.toast) = (None, Some(why.into()));
        }
        if self.modal.is_none() && self.attached_task().is_none() {
            let next = self.model.questions.iter().find(|question| {
                comes_by_itself(&question.interaction.kind)
                    && !self.dismissed.contains(&question.interaction.id)
            });
            self.modal = next.map(Modal::for_question);
        }
    }

    pub(crate) fn confirm(&mut self, action: ConfirmedAction) {
        if self.options.replay {
            self.refuse_in_recording();
        } else {
            self.modal = Some(Modal::Confirm(action));
        }
    }

    /// Whether leaving would stop a run, a program or a workflow.
    fn has_live_work(&self) -> bool {
        let works = self.model.live_run().is_some()
            || self.model.tasks.iter().any(althing_view::TaskView::is_running_program)
            || self.options.workflow;
        works && !self.model.closed && !self.options.replay
    }

    pub(crate) fn leave_or_ask(&mut self, exit: TuiExit) {
        if self.has_live_work() {
            // If Ctrl+D is held down, it does not answer the question that it opens.
            self.note_typed();
            self.confirm(ConfirmedAction::Leave(exit));
        } else {
            self.leave(exit);
        }
    }

    /// Ctrl+D leaves, unless it may still be held down after it deleted text or ended the input of a program.
    pub(crate) fn leave_by_key(&mut self) {
        if self.is_repeated() {
            self.toast = Some(TOO_SOON.into());
        } else {
            self.leave_or_ask(TuiExit::Quit);
        }
    }

    /// Why there is nothing left to confirm, if what the action is about has ended meanwhile.
    fn why_outdated(&self, action: &ConfirmedAction) -> Option<&'static str> {
        let (is_outdated, why) = match action {
            ConfirmedAction::Cancel(task) => {
                let is_over = self.model.task(task).is_some_and(|task| task.status.is_final());
                (is_over, "the task has already ended")
            }
            ConfirmedAction::End(task) => {
                (self.ending(task).is_none(), "the program is no longer waiting for you")
            }
            ConfirmedAction::Retry(task) => {
                let is_failed = self.model.task(task).is_some_and(super::is_retryable);
                (!is_failed, "the task is no longer failed or cancelled")
            }
            ConfirmedAction::Leave(_) => (!self.has_live_work(), "the work has ended: leaving stops nothing"),
            ConfirmedAction::Undo(_) => (false, ""),
        };
        is_outdated.then_some(why)
    }

    pub(crate) fn execute(&mut self, action: ConfirmedAction) {
        let leaves = matches!(action, ConfirmedAction::Leave(_));
        if let Some(why) = self.why_outdated(&action).filter(|_| !leaves) {
            self.toast = Some(why.into());
            return;
        }
        match action {
            ConfirmedAction::Cancel(task) => self.submit(Op::Cancel { task }),
            ConfirmedAction::Undo(run) => self.effects.push(Effect::Undo(run)),
            ConfirmedAction::End(task) => self.end_program(&task),
            ConfirmedAction::Retry(task) => self.retry_task(task),
            ConfirmedAction::Leave(exit) => self.leave(exit),
        }
    }

    /// Answers the question of the open dialog, unless the key or click came too soon to be meant for it.
    pub(crate) fn answer(&mut self, decision: Decision) {
        if self.is_left_over() {
            return;
        }
        let Some(interaction) = self.modal.as_ref().and_then(Modal::question).cloned() else { return };
        // If the key is held down, it does not answer the next question.
        self.note_typed();
        self.dismissed.push(interaction.clone());
        self.answered = self.modal.take();
        self.submit(Op::Answer { interaction, decision });
    }

    pub(crate) fn reopen_refused(&mut self) {
        let Some((id, why)) = self.model.refused.take() else { return };
        let Some(question) = self.model.questions.iter().find(|question| question.interaction.id == id)
        else {
            return;
        };
        self.dismissed.retain(|dismissed| *dismissed != id);
        let asks_something_else =
            self.modal.as_ref().and_then(Modal::question).is_some_and(|other| *other != id);
        if asks_something_else || self.attached_task().is_some() {
            return;
        }
        let before = self.answered.take().filter(|modal| modal.question() == Some(&id));
        let mut modal = before.unwrap_or_else(|| Modal::for_question(question));
        match &mut modal {
            Modal::RunApproval { problem, .. } => *problem = Some(why),
            _ => self.toast = Some(why),
        }
        self.modal = Some(modal);
    }

    pub(crate) fn open_override(&mut self) {
        match self.model.override_question() {
            Some(question) => self.modal = Some(Modal::for_question(question)),
            None => self.toast = Some("there is no vote to override now".into()),
        }
    }

    pub(crate) fn keep_winner(&mut self) {
        if let Some(question) = self.model.override_question() {
            let interaction = question.interaction.id.clone();
            self.submit(Op::Answer { interaction, decision: Decision::Continue });
        }
    }

    pub(crate) fn open_question(&mut self) {
        let shown = match self.screens.last() {
            Some(TuiScreen::Run(screen)) => Some(screen.id.clone()),
            Some(TuiScreen::Task(task, _)) => Some(task.clone()),
            _ => None,
        };
        let below = |question: &&Question| match (&shown, &question.task) {
            (Some(shown), Some(task)) => shown.covers(task),
            (None, _) => true,
            (Some(_), None) => false,
        };
        match self.model.questions.iter().find(below) {
            Some(question) => self.modal = Some(Modal::for_question(question)),
            None => self.toast = Some("nothing is waiting for you here".into()),
        }
    }
}
