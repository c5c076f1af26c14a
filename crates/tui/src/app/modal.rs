//! Questions and pickers that lie on top of everything: when they open and close.

use super::{App, Effect, Screen};
use crate::editor::Editor;
use crate::outside::{ProjectEntry, SessionEntry};
use crate::theme::Theme;
use althing_protocol::{
    Ask, Candidate, Decision, InteractionId, InteractionKind, LaunchRun, Op, PlanRef, Proposal, TaskId,
};
use althing_view::Question;

/// The field of a question that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// None: letters are buttons.
    Buttons,
    /// A run's task.
    Task,
    /// A run's context.
    Context,
    /// More words for a plan's execution.
    Instructions,
    /// What to change about a plan.
    Changes,
}

/// What cannot be taken back, and is asked about before it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Stop a run or a program.
    Cancel(TaskId),
    /// Put back the files that a run changed.
    Undo(TaskId),
}

/// What a picker offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picker {
    /// Sessions to go on with.
    Sessions(Vec<SessionEntry>),
    /// Project workspaces.
    Projects(Vec<ProjectEntry>),
    /// Colours; the one before, to go back to.
    Themes(Theme),
}

impl Picker {
    /// How many offers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Sessions(entries) => entries.len(),
            Self::Projects(entries) => entries.len(),
            Self::Themes(_) => Theme::ALL.len(),
        }
    }

    /// Whether there is nothing to pick.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What lies on top.
#[derive(Clone, Debug, PartialEq)]
pub enum Modal {
    /// May this run be launched?
    Run {
        /// The question.
        id: InteractionId,
        /// What would be started.
        proposal: Box<Proposal>,
        /// The same, as the user changed it.
        edited: Box<LaunchRun>,
        /// The field being edited.
        field: Field,
        /// What is written in it.
        editor: Editor,
        /// Why the answer before was not taken.
        problem: Option<String>,
    },
    /// May this plan be carried out?
    Plan {
        /// The question.
        id: InteractionId,
        /// Which plan.
        plan: PlanRef,
        /// Its tasks in brief.
        preview: Vec<String>,
        /// The field being written.
        field: Field,
        /// More words for its execution.
        instructions: Editor,
        /// What to change about it.
        changes: Editor,
        /// How far the preview is scrolled.
        top: usize,
    },
    /// Who presents?
    Override {
        /// The question.
        id: InteractionId,
        /// Everyone who may.
        candidates: Vec<Candidate>,
        /// The chosen one.
        chosen: usize,
    },
    /// What a program asks.
    Program {
        /// The question.
        id: InteractionId,
        /// Whose.
        task: Option<TaskId>,
        /// What it asks.
        ask: Ask,
        /// The chosen answer.
        chosen: usize,
    },
    /// A program was cut off: start it over, or count it as failed?
    Interrupted {
        /// The question.
        id: InteractionId,
        /// Whose.
        task: Option<TaskId>,
    },
    /// The session costs more than it may.
    Budget {
        /// The question.
        id: InteractionId,
        /// What it has cost.
        spent: u64,
        /// What it may cost.
        budget: u64,
    },
    /// Is it really to be done?
    Confirm(Deed),
    /// Something to pick.
    Pick {
        /// What.
        picker: Picker,
        /// The chosen one.
        chosen: usize,
    },
    /// Problems of the config.
    Problems,
    /// What everything has cost.
    Cost,
    /// Who takes part.
    Agents,
    /// Keys and commands.
    Help,
}

impl Modal {
    /// The question it asks, if it asks one.
    pub fn question(&self) -> Option<&InteractionId> {
        match self {
            Self::Run { id, .. }
            | Self::Plan { id, .. }
            | Self::Override { id, .. }
            | Self::Program { id, .. }
            | Self::Interrupted { id, .. }
            | Self::Budget { id, .. } => Some(id),
            Self::Confirm(_)
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
            InteractionKind::RunApproval { proposal } => Self::Run {
                id,
                edited: Box::new(proposal.launch.clone()),
                proposal,
                field: Field::Buttons,
                editor: Editor::default(),
                problem: None,
            },
            InteractionKind::PlanApproval { plan, preview } => Self::Plan {
                id,
                plan,
                preview,
                field: Field::Buttons,
                instructions: Editor::default(),
                changes: Editor::default(),
                top: 0,
            },
            InteractionKind::Budget { spent_micro_usd, budget_micro_usd } => {
                Self::Budget { id, spent: spent_micro_usd, budget: budget_micro_usd }
            }
            InteractionKind::Program(ask) => {
                Self::Program { id, task: question.task.clone(), ask, chosen: 0 }
            }
            InteractionKind::Interrupted => Self::Interrupted { id, task: question.task.clone() },
        }
    }
}

/// Whether a question comes to the user by itself. A program's waits in the tasks panel, the vote's in its own line.
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
    /// Closes a modal whose question is answered, and opens the next.
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

    /// Asks before something is done that cannot be taken back.
    pub(crate) fn ask_first(&mut self, deed: Deed) {
        self.modal = Some(Modal::Confirm(deed));
    }

    /// Does what was asked about.
    pub(crate) fn carry_out(&mut self, deed: Deed) {
        match deed {
            Deed::Cancel(task) if self.model.task(&task).is_some_and(|task| task.status.is_final()) => {
                self.toast = Some("it has ended already".into());
            }
            Deed::Cancel(task) => self.submit(Op::Cancel { task }),
            Deed::Undo(run) => self.effects.push(Effect::Undo(Some(run))),
        }
    }

    /// Answers the question on top.
    pub(crate) fn answer(&mut self, decision: Decision) {
        let Some(interaction) = self.modal.as_ref().and_then(Modal::question).cloned() else { return };
        self.dismissed.push(interaction.clone());
        self.answered = self.modal.take();
        self.submit(Op::Answer { interaction, decision });
    }

    /// Opens a box again whose answer was refused: as the user left it, with the reason.
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
            Modal::Run { problem, .. } => *problem = Some(why),
            _ => self.toast = Some(why),
        }
        self.modal = Some(modal);
    }

    /// Opens the choice of who presents.
    pub(crate) fn open_override(&mut self) {
        match self.model.override_question() {
            Some(question) => self.modal = Some(Modal::for_question(question)),
            None => self.toast = Some("there is no vote to override now".into()),
        }
    }

    /// Keeps the winner of the vote.
    pub(crate) fn keep_winner(&mut self) {
        if let Some(question) = self.model.override_question() {
            let interaction = question.interaction.id.clone();
            self.submit(Op::Answer { interaction, decision: Decision::Continue });
        }
    }

    /// Opens the question of the task that is on top, or of the first that waits.
    pub(crate) fn open_question(&mut self) {
        let shown = match self.screens.last() {
            Some(Screen::Run(screen)) => Some(screen.id.clone()),
            Some(Screen::Task(task, _)) => Some(task.clone()),
            _ => None,
        };
        let below = |question: &&Question| match (&shown, &question.task) {
            (Some(shown), Some(task)) => task.as_str().starts_with(shown.as_str()),
            (None, _) => true,
            (Some(_), None) => false,
        };
        match self.model.questions.iter().find(below) {
            Some(question) => self.modal = Some(Modal::for_question(question)),
            None => self.toast = Some("nothing waits for you here".into()),
        }
    }
}
