//! Questions and pickers that lie on top of everything, and their keys.
//!
//! One press answers: Enter takes the default, Esc is the way out.

use super::{App, Effect, Screen};
use crate::editor::Editor;
use crate::model::Question;
use crate::outside::{ProjectEntry, SessionEntry, TuiExit};
use crate::theme::Theme;
use althing_protocol::{
    AgentMode, Ask, Candidate, Decision, InteractionId, InteractionKind, LaunchRun, Op, PlanRef, Proposal,
    TaskId,
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

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
            Self::Pick { .. } | Self::Problems | Self::Cost | Self::Agents | Self::Help => None,
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
        if let Some(id) = self.modal.as_ref().and_then(Modal::question) {
            if !self.model.questions.iter().any(|question| question.interaction.id == *id) {
                self.modal = None;
            }
        }
        if self.modal.is_none() && self.attached_task().is_none() {
            let next = self.model.questions.iter().find(|question| {
                comes_by_itself(&question.interaction.kind)
                    && !self.dismissed.contains(&question.interaction.id)
            });
            self.modal = next.map(Modal::for_question);
        }
    }

    /// Answers the question on top.
    fn answer(&mut self, decision: Decision) {
        let Some(interaction) = self.modal.as_ref().and_then(Modal::question).cloned() else { return };
        self.dismissed.push(interaction.clone());
        self.modal = None;
        self.submit(Op::Answer { interaction, decision });
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

    /// A key while a modal is on top.
    pub(crate) fn modal_key(&mut self, key: KeyEvent) {
        match &self.modal {
            Some(Modal::Run { .. }) => self.run_key(key),
            Some(Modal::Plan { .. }) => self.plan_key(key),
            Some(Modal::Override { .. }) => self.override_key(key),
            Some(Modal::Program { .. }) => self.program_key(key),
            Some(Modal::Interrupted { .. }) => match key.code {
                KeyCode::Enter | KeyCode::Char('r') => {
                    self.answer(Decision::Choose { option: "restart".into() })
                }
                KeyCode::Char('f') => self.answer(Decision::Choose { option: "fail".into() }),
                KeyCode::Esc => self.modal = None,
                _ => {}
            },
            Some(Modal::Budget { .. }) => match key.code {
                KeyCode::Enter | KeyCode::Char('a') => self.answer(approve()),
                KeyCode::Esc | KeyCode::Char('c') => self.answer(Decision::Reject { reason: None }),
                _ => {}
            },
            Some(Modal::Pick { .. }) => self.pick_key(key),
            Some(Modal::Problems | Modal::Cost | Modal::Agents | Modal::Help) => {
                if matches!(key.code, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q')) {
                    self.modal = None;
                }
            }
            None => {}
        }
    }

    fn run_key(&mut self, key: KeyEvent) {
        let Some(Modal::Run { proposal, edited, field, editor, .. }) = &mut self.modal else { return };
        if *field != Field::Buttons {
            match key.code {
                KeyCode::Esc | KeyCode::Tab | KeyCode::Enter if !wants_newline(key) => {
                    let text = editor.take();
                    if *field == Field::Task {
                        edited.task = text;
                    } else {
                        edited.context = Some(text).filter(|text| !text.trim().is_empty());
                    }
                    let next = if key.code == KeyCode::Tab && *field == Field::Task {
                        editor.set(edited.context.as_deref().unwrap_or_default());
                        Field::Context
                    } else {
                        Field::Buttons
                    };
                    *field = next;
                }
                _ => super::keys::edit(editor, key, 60),
            }
            return;
        }
        match key.code {
            KeyCode::Enter | KeyCode::Char('a') => {
                let changed = **edited != proposal.launch;
                let decision = Decision::Approve {
                    digest: Some(proposal.digest.clone()),
                    edited: changed.then(|| edited.clone()),
                    instructions: None,
                };
                self.answer(decision);
            }
            KeyCode::Char('e') => {
                *field = Field::Task;
                editor.set(&edited.task);
            }
            KeyCode::Char('m') => {
                edited.agent_mode = Some(match edited.agent_mode.unwrap_or(proposal.modes.agent_mode) {
                    AgentMode::Multi => AgentMode::Single,
                    AgentMode::Single => AgentMode::Multi,
                });
            }
            KeyCode::Char('r') => {
                edited.refinement = Some(!edited.refinement.unwrap_or(proposal.modes.refinement));
            }
            KeyCode::Esc | KeyCode::Char('c') => self.answer(Decision::Reject { reason: None }),
            _ => {}
        }
    }

    fn plan_key(&mut self, key: KeyEvent) {
        let Some(Modal::Plan { plan, field, instructions, changes, preview, top, .. }) = &mut self.modal
        else {
            return;
        };
        match (*field, key.code) {
            (Field::Changes, KeyCode::Enter) if !wants_newline(key) => {
                let text = changes.take();
                if text.trim().is_empty() {
                    *field = Field::Buttons;
                } else {
                    self.answer(Decision::Change { text });
                }
            }
            (Field::Instructions | Field::Buttons, KeyCode::Enter) if !wants_newline(key) => {
                let words = instructions.take();
                let instructions = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
                self.answer(Decision::Approve { digest: None, edited: None, instructions });
            }
            (Field::Instructions | Field::Changes, KeyCode::Esc | KeyCode::Tab) => *field = Field::Buttons,
            (Field::Instructions, _) => super::keys::edit(instructions, key, 60),
            (Field::Changes, _) => super::keys::edit(changes, key, 60),
            (_, KeyCode::Char('a')) => self.answer(approve()),
            (_, KeyCode::Tab | KeyCode::Char('i')) => *field = Field::Instructions,
            (_, KeyCode::Char('c')) => *field = Field::Changes,
            (_, KeyCode::Char('e')) => {
                let plan = plan.clone();
                self.effects.push(Effect::EditPlan(plan));
            }
            (_, KeyCode::Down) => *top = (*top + 1).min(preview.len().saturating_sub(1)),
            (_, KeyCode::Up) => *top = top.saturating_sub(1),
            (_, KeyCode::Esc) => self.answer(Decision::Reject { reason: None }),
            _ => {}
        }
    }

    fn override_key(&mut self, key: KeyEvent) {
        let Some(Modal::Override { candidates, chosen, id }) = &mut self.modal else { return };
        match key.code {
            KeyCode::Up => *chosen = chosen.saturating_sub(1),
            KeyCode::Down => *chosen = (*chosen + 1).min(candidates.len().saturating_sub(1)),
            KeyCode::Enter => {
                if let Some(agent) = candidates.get(*chosen).map(|one| one.agent.clone()) {
                    self.answer(Decision::Presenter { agent });
                }
            }
            KeyCode::Char(' ') => {
                let id = id.clone();
                let Some(one) = candidates.get(*chosen) else { return };
                let (title, preview) = (format!("{} · {}", one.agent, one.label), one.preview.clone());
                let label = one.label;
                let run = self.model.questions.iter().find(|question| question.interaction.id == id);
                let run = run.and_then(|question| self.model.runs.get(question.task.as_ref()?));
                let whole = run.and_then(|run| {
                    let mut answers = run.agents.iter().flat_map(crate::model::Agent::answers);
                    answers.find(|(other, _)| *other == label).map(|(_, text)| text.to_owned())
                });
                self.modal = None;
                self.read(super::Reader::markdown(&title, &whole.unwrap_or(preview)));
            }
            KeyCode::Esc => self.modal = None,
            _ => {}
        }
    }

    fn program_key(&mut self, key: KeyEvent) {
        let Some(Modal::Program { ask, chosen, task, .. }) = &mut self.modal else { return };
        let pick = match key.code {
            KeyCode::Up => {
                *chosen = chosen.saturating_sub(1);
                None
            }
            KeyCode::Down => {
                *chosen = (*chosen + 1).min(ask.options.len().saturating_sub(1));
                None
            }
            KeyCode::Char(digit @ '1'..='9') => Some(digit as usize - '1' as usize),
            KeyCode::Char('a') => Some(0),
            KeyCode::Enter => Some(*chosen),
            KeyCode::Esc => {
                self.modal = None;
                return;
            }
            _ => None,
        };
        let Some(pick) = pick else { return };
        if let Some(option) = ask.options.get(pick) {
            let option = option.id.clone();
            self.answer(Decision::Choose { option });
        } else if ask.options.is_empty() {
            let task = task.clone();
            self.modal = None;
            if let Some(task) = task {
                self.open_task(&task);
            }
        }
    }

    fn pick_key(&mut self, key: KeyEvent) {
        let Some(Modal::Pick { picker, chosen }) = &mut self.modal else { return };
        let last = picker.len().saturating_sub(1);
        match key.code {
            KeyCode::Up => *chosen = chosen.saturating_sub(1),
            KeyCode::Down => *chosen = (*chosen + 1).min(last),
            KeyCode::Home => *chosen = 0,
            KeyCode::End => *chosen = last,
            KeyCode::PageUp => *chosen = chosen.saturating_sub(10),
            KeyCode::PageDown => *chosen = (*chosen + 10).min(last),
            KeyCode::Enter => {
                let exit = match picker {
                    Picker::Sessions(entries) => {
                        entries.get(*chosen).map(|entry| TuiExit::OpenSession(entry.id.clone()))
                    }
                    Picker::Projects(entries) => {
                        entries.get(*chosen).map(|entry| TuiExit::OpenProject(entry.path.clone()))
                    }
                    Picker::Themes(_) => None,
                };
                self.modal = None;
                if let Some(exit) = exit {
                    self.leave(exit);
                }
                return;
            }
            KeyCode::Esc => {
                if let Picker::Themes(before) = picker {
                    self.theme = *before;
                }
                self.modal = None;
                return;
            }
            _ => {}
        }
        // A theme shows itself while it is chosen.
        if let Some(Modal::Pick { picker: Picker::Themes(_), chosen }) = &self.modal {
            self.theme = Theme::ALL.get(*chosen).copied().unwrap_or_default();
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

fn approve() -> Decision {
    Decision::Approve { digest: None, edited: None, instructions: None }
}

/// Whether Enter is meant as a new line.
pub fn wants_newline(key: KeyEvent) -> bool {
    key.code == KeyCode::Enter && key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT)
}
