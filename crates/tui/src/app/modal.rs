//! Questions and pickers on top of the screen: when they open and close.

use super::{App, Effect, SessionPicker, TuiScreen};
use crate::editor::Editor;
use crate::host::ProjectEntry;
use crate::theme::Theme;
use althing_protocol::{
    Ask, Candidate, Decision, InteractionId, InteractionKind, LaunchRun, Op, PlanRef, Proposal, TaskId,
};
use althing_view::Question;

/// The text field of a question that has the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// No text field has the focus: letters are shortcuts of the buttons.
    Buttons,
    Task,
    Context,
    /// Additional instructions for executing a plan.
    Instructions,
    /// Requested changes to a plan.
    Changes,
}

/// An irreversible action that requires confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfirmedAction {
    /// Cancel a run or a program.
    Cancel(TaskId),
    /// Restore the files that a run changed.
    Undo(TaskId),
}

/// What a picker offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picker {
    Projects(Vec<ProjectEntry>),
    /// Themes, with the previous one to restore on Esc.
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

/// What is open on top of the screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Modal {
    /// Approval of a run.
    RunApproval {
        id: InteractionId,
        proposal: Box<Proposal>,
        /// The proposal as edited by the user.
        edited: Box<LaunchRun>,
        field: Field,
        /// The text being edited.
        editor: Editor,
        /// Why the previous answer was rejected.
        problem: Option<String>,
    },
    /// Approval of a plan.
    PlanApproval {
        id: InteractionId,
        plan: PlanRef,
        /// One line per task.
        preview: Vec<String>,
        field: Field,
        /// Additional instructions for the execution of the plan.
        instructions: Editor,
        /// Requested changes.
        changes: Editor,
    },
    /// Choice of the presenter.
    Override { id: InteractionId, candidates: Vec<Candidate>, chosen: usize },
    /// A question of a program.
    Program {
        id: InteractionId,
        /// The task that asks.
        task: Option<TaskId>,
        ask: Ask,
        chosen: usize,
    },
    /// A program was interrupted: restart it or mark it as failed.
    Interrupted { id: InteractionId, task: Option<TaskId> },
    /// The session has reached its budget, or is about to exceed it.
    Budget {
        id: InteractionId,
        /// Cost so far, in micro-USD.
        spent: u64,
        /// The budget, in micro-USD.
        budget: u64,
        /// The budget after an approval, in micro-USD.
        raised: Option<u64>,
    },
    /// Something that was found in the working directory: what it would do, one line each.
    Trust { would: Vec<String> },
    /// Confirmation of an irreversible action.
    Confirm(ConfirmedAction),
    /// The picker of sessions.
    Sessions(SessionPicker),
    /// Another picker.
    Pick { picker: Picker, chosen: usize },
    /// Problems of the config.
    Problems,
    /// The cost overview.
    Cost,
    /// The list of agents.
    Agents,
    /// Keys and commands.
    Help,
}

impl Modal {
    /// The question that the modal asks, if any.
    pub fn question(&self) -> Option<&InteractionId> {
        match self {
            Self::RunApproval { id, .. }
            | Self::PlanApproval { id, .. }
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

    /// The modal for an open question.
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

/// Whether a question opens a modal by itself. Questions about programs wait in the tasks panel; the
/// override of a vote has its own line above the mode bar.
fn comes_by_itself(kind: &InteractionKind) -> bool {
    match kind {
        InteractionKind::RunApproval { .. }
        | InteractionKind::PlanApproval { .. }
        | InteractionKind::Budget { .. } => true,
        InteractionKind::WinnerOverride { .. }
        | InteractionKind::Program(_)
        | InteractionKind::Interrupted => false,
    }
}

impl App {
    /// Closes a modal whose question is no longer open, and opens the next question that opens by itself.
    pub(crate) fn sync_modal(&mut self) {
        if let Some(id) = self.modal.as_ref().and_then(Modal::question)
            && !self.model.questions.iter().any(|question| question.interaction.id == *id)
        {
            self.modal = None;
        }
        if self.modal.is_none() && self.attached_task().is_none() {
            let next = self.model.questions.iter().find(|question| {
                comes_by_itself(&question.interaction.kind)
                    && !self.dismissed.contains(&question.interaction.id)
            });
            self.modal = next.map(Modal::for_question);
        }
    }

    /// Asks the user to confirm an action.
    pub(crate) fn confirm(&mut self, action: ConfirmedAction) {
        self.modal = Some(Modal::Confirm(action));
    }

    /// Executes a confirmed action.
    pub(crate) fn execute(&mut self, action: ConfirmedAction) {
        match action {
            ConfirmedAction::Cancel(task)
                if self.model.task(&task).is_some_and(|task| task.status.is_final()) =>
            {
                self.toast = Some("the task has already ended".into());
            }
            ConfirmedAction::Cancel(task) => self.submit(Op::Cancel { task }),
            ConfirmedAction::Undo(run) => self.effects.push(Effect::Undo(Some(run))),
        }
    }

    /// Answers the open question.
    pub(crate) fn answer(&mut self, decision: Decision) {
        let Some(interaction) = self.modal.as_ref().and_then(Modal::question).cloned() else { return };
        // The same key, if it is held down, does not answer the next question.
        self.note_typed();
        self.dismissed.push(interaction.clone());
        self.answered = self.modal.take();
        self.submit(Op::Answer { interaction, decision });
    }

    /// Reopens a dialog whose answer was rejected, as the user left it, with the reason.
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

    /// Opens the presenter choice.
    pub(crate) fn open_override(&mut self) {
        match self.model.override_question() {
            Some(question) => self.modal = Some(Modal::for_question(question)),
            None => self.toast = Some("there is no vote to override now".into()),
        }
    }

    /// Keeps the winner of the vote as the presenter.
    pub(crate) fn keep_winner(&mut self) {
        if let Some(question) = self.model.override_question() {
            let interaction = question.interaction.id.clone();
            self.submit(Op::Answer { interaction, decision: Decision::Continue });
        }
    }

    /// Opens the first question of the shown run or program; if none is shown, the first open question.
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
