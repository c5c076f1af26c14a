//! Keys of the tasks panel, of a program's output, and of a program's terminal. For a workflow, the tasks panel is the
//! lowest screen.

use super::{App, ConfirmedAction, Effect, Modal, TuiScreen};
use crate::attach;
use crate::host::TuiExit;
use althing_protocol::{AskKind, Decision, InteractionKind, Op, TaskId, TaskStatus};
use althing_view::{TaskKind, TaskView};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub(crate) fn is_retryable(task: &TaskView) -> bool {
    matches!(task.status, TaskStatus::Failed | TaskStatus::Cancelled) && task.stage.is_some()
}

impl App {
    pub(crate) fn attached_key(&mut self, task: &TaskId, key: KeyEvent) {
        if attach::detaches(key) {
            self.back();
            self.attached = None;
            return;
        }
        let application = self.attached.as_ref().is_some_and(|screen| screen.application_cursor);
        let bytes = attach::encode(key, application);
        if !bytes.is_empty() {
            self.submit(Op::Input { task: task.clone(), bytes });
        }
    }

    pub(crate) fn toggle_tasks(&mut self) {
        if self.options.workflow {
            self.screens.truncate(1);
        } else if matches!(self.screens.last(), Some(TuiScreen::Tasks(_))) {
            self.back();
        } else {
            let waits = self.task_rows().iter().position(|id| self.model.question_of(id).is_some());
            self.panel_has_keys = true;
            self.screens.push(TuiScreen::Tasks(waits.unwrap_or_default()));
        }
    }

    /// The rows of the panel: all tasks except the workflow itself and the conversation.
    pub(crate) fn task_rows(&self) -> Vec<TaskId> {
        let shown = |kind: &TaskKind| !matches!(kind, TaskKind::Workflow(_) | TaskKind::Chat);
        self.model.tasks.iter().filter(|task| shown(&task.kind)).map(|task| task.id.clone()).collect()
    }

    pub(crate) fn tasks_key(&mut self, key: KeyEvent) {
        let rows = self.task_rows();
        let home = self.screens.len() == 1;
        let Some(TuiScreen::Tasks(chosen)) = self.screens.last_mut() else { return };
        let last = rows.len().saturating_sub(1);
        *chosen = (*chosen).min(last);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('d') if control && home => self.leave_by_key(),
            KeyCode::Up => *chosen = chosen.saturating_sub(1),
            KeyCode::Down => *chosen = (*chosen + 1).min(last),
            KeyCode::Home => *chosen = 0,
            KeyCode::End => *chosen = last,
            KeyCode::Enter => {
                if let Some(id) = rows.get(*chosen).cloned() {
                    self.open_task(&id);
                }
            }
            KeyCode::Char('x') => {
                if let Some(id) = rows.get(*chosen).cloned() {
                    self.cancel_task(id);
                }
            }
            KeyCode::Char('e') => {
                if let Some(id) = rows.get(*chosen).cloned() {
                    self.ask_end(id);
                }
            }
            KeyCode::Char('r') => {
                if let Some(id) = rows.get(*chosen).cloned() {
                    self.ask_retry(id);
                }
            }
            KeyCode::Char('a') => {
                let asks = |id: &&TaskId| self.model.question_of(id).is_some();
                let chosen = rows.get(*chosen).filter(asks).or_else(|| rows.iter().find(asks));
                match chosen.cloned() {
                    Some(id) => self.answer_task(&id),
                    None => self.toast = Some("nothing is waiting for you".into()),
                }
            }
            KeyCode::Esc | KeyCode::Char('q') if !home => self.back(),
            // Leaving a finished workflow or a recording stops no work, so one key is enough.
            KeyCode::Esc | KeyCode::Char('q') if self.model.closed || self.options.replay => {
                self.leave(TuiExit::Quit);
            }
            KeyCode::Esc | KeyCode::Char('q') => {
                self.toast =
                    Some("Ctrl+D leaves: the workflow stops, and `althing resume` resumes it".into());
            }
            _ => self.note_stray(key),
        }
    }

    fn ask_retry(&mut self, task: TaskId) {
        if self.model.task(&task).is_some_and(is_retryable) {
            self.confirm(ConfirmedAction::Retry(task));
        } else {
            self.toast = Some("only a failed or cancelled task of a workflow can be retried".into());
        }
    }

    /// Retries a failed or cancelled task of a workflow. If the workflow has ended, the screen is left so that the
    /// session is opened again.
    pub(crate) fn retry_task(&mut self, task: TaskId) {
        if self.model.closed {
            self.leave(TuiExit::Retry(task));
        } else {
            self.submit(Op::Retry { task });
        }
    }

    pub(crate) fn cancel_task(&mut self, task: TaskId) {
        let status = self.model.task(&task).map(|task| task.status);
        match status {
            Some(TaskStatus::Pending) => self.toast = Some("the task has not started yet".into()),
            Some(status) if status.is_final() => self.toast = Some("the task has already ended".into()),
            _ => self.confirm(ConfirmedAction::Cancel(task)),
        }
    }

    /// The answer that ends a program that has finished its turn: the first option of its question.
    pub(crate) fn ending(&self, id: &TaskId) -> Option<Op> {
        let interaction = &self.model.question_of(id)?.interaction;
        match &interaction.kind {
            InteractionKind::Program(ask) if ask.about == AskKind::YourTurn => {
                let option = ask.options.first()?.id.clone();
                let decision = Decision::Choose { option };
                Some(Op::Answer { interaction: interaction.id.clone(), decision })
            }
            _ => None,
        }
    }

    fn ask_end(&mut self, id: TaskId) {
        if self.ending(&id).is_some() {
            self.confirm(ConfirmedAction::End(id));
        } else {
            self.toast = Some("only a program that has finished its turn can be ended; x cancels".into());
        }
    }

    pub(crate) fn end_program(&mut self, id: &TaskId) {
        if let Some(op) = self.ending(id) {
            self.submit(op);
        }
    }

    /// Opens a task's question. Opens the task itself if it asks nothing, or if its question is answered in its
    /// terminal.
    fn answer_task(&mut self, id: &TaskId) {
        let there = |kind: &InteractionKind| match kind {
            InteractionKind::Program(ask) => ask.options.is_empty() || ask.about == AskKind::YourTurn,
            _ => false,
        };
        match self.model.question_of(id) {
            Some(question) if !there(&question.interaction.kind) => {
                self.modal = Some(Modal::for_question(question));
            }
            _ => self.open_task(id),
        }
    }

    pub(crate) fn task_key(&mut self, key: KeyEvent) {
        let page = self.page();
        let Some(TuiScreen::Task(id, scroll)) = self.screens.last_mut() else { return };
        match key.code {
            KeyCode::Up => scroll.by(-1),
            KeyCode::Down => scroll.by(1),
            KeyCode::PageUp => scroll.by(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => scroll.by(page),
            KeyCode::Home => scroll.go_top(),
            KeyCode::End => scroll.go_end(),
            KeyCode::Char('a') => self.open_question(),
            KeyCode::Char('e') => {
                let task = id.clone();
                self.ask_end(task);
            }
            KeyCode::Char('x') => {
                let task = id.clone();
                self.cancel_task(task);
            }
            KeyCode::Char('r') => {
                let task = id.clone();
                self.ask_retry(task);
            }
            KeyCode::Char('o') => {
                let id = id.clone();
                let output = self.model.task(&id).map(|task| task.output.clone()).unwrap_or_default();
                self.effects.push(Effect::Page(output));
            }
            KeyCode::Esc | KeyCode::Char('q') => self.back(),
            _ => self.note_stray(key),
        }
    }
}
