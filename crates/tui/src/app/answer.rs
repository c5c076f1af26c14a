//! Keys of questions and pickers.
//!
//! In most dialogs Enter takes the default. Esc rejects a run, a plan, a change of files or a higher budget; it closes any other dialog
//! without an answer. A key that grants something acts only after everything that it grants was shown (see `reading`).

use super::dialog_typing::is_chord;
use super::{App, ConfirmedAction, Effect, Field, Modal, Picker, approval_members};
use crate::host::TuiExit;
use crate::theme::Theme;
use althing_protocol::{ALWAYS_IN_PROJECT, Decision};
use althing_view::shown;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

impl App {
    pub(crate) fn modal_key(&mut self, key: KeyEvent) {
        if matches!(self.modal, Some(Modal::Sessions(_))) {
            return self.session_picker_key(key);
        }
        if is_chord(key) && !self.box_field_has_focus() {
            return self.leave_again(key);
        }
        if self.dialog_scroll_key(key) {
            return;
        }
        match &self.modal {
            Some(Modal::RunApproval { .. }) => self.run_key(key),
            Some(Modal::PlanApproval { .. }) => self.plan_key(key),
            Some(Modal::Override { .. }) => self.override_key(key),
            Some(Modal::Program { .. }) => self.program_key(key),
            Some(Modal::Interrupted { .. }) => match key.code {
                KeyCode::Enter | KeyCode::Char('a') => self.grant(approve()),
                KeyCode::Char('f') => self.answer(Decision::Reject { reason: None }),
                KeyCode::Esc => self.modal = None,
                _ => self.note_stray(key),
            },
            Some(Modal::Budget { .. }) => match key.code {
                KeyCode::Enter | KeyCode::Char('a') => self.grant(approve()),
                KeyCode::Esc | KeyCode::Char('c') => self.answer(Decision::Reject { reason: None }),
                _ => self.note_stray(key),
            },
            Some(Modal::EditApproval { preview, .. }) => {
                let digest = Some(preview.digest.clone());
                match key.code {
                    KeyCode::Enter | KeyCode::Char('a') => {
                        self.grant(Decision::Approve { digest, edited: None, instructions: None })
                    }
                    KeyCode::Char('p') => self.grant(Decision::Choose { option: ALWAYS_IN_PROJECT.into() }),
                    KeyCode::Esc | KeyCode::Char('c') => self.answer(Decision::Reject { reason: None }),
                    _ => self.note_stray(key),
                }
            }
            Some(Modal::Trust { .. }) => self.trust_key(key),
            Some(Modal::Confirm(action)) => match key.code {
                KeyCode::Char('y') => {
                    let action = action.clone();
                    if self.may_grant() {
                        self.modal = None;
                        self.execute(action);
                    }
                }
                // Only `y` confirms: neither Enter alone nor the key that opened the question does.
                KeyCode::Esc | KeyCode::Enter | KeyCode::Char('n') => self.modal = None,
                KeyCode::Char(_) => {
                    self.modal = None;
                    // The user has begun to write a message, and no letter of it may be lost.
                    if self.input_has_focus() && !is_chord(key) {
                        self.on_key(key);
                    }
                }
                _ => {}
            },
            Some(Modal::Sessions(_)) => self.session_picker_key(key),
            Some(Modal::Pick { .. }) => self.pick_key(key),
            Some(Modal::Problems | Modal::Cost | Modal::Agents | Modal::Help) => match key.code {
                KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q') => {
                    self.modal = None;
                    self.info_scroll = 0;
                }
                KeyCode::Down => self.info_scroll += 1,
                KeyCode::Up => self.info_scroll = self.info_scroll.saturating_sub(1),
                KeyCode::PageDown => self.info_scroll += 10,
                KeyCode::PageUp => self.info_scroll = self.info_scroll.saturating_sub(10),
                _ => {}
            },
            None => {}
        }
    }

    /// A second Ctrl+D leaves, unless the first is still held down.
    fn leave_again(&mut self, key: KeyEvent) {
        let is_ctrl_d = key.code == KeyCode::Char('d') && key.modifiers.contains(KeyModifiers::CONTROL);
        if let Some(Modal::Confirm(ConfirmedAction::Leave(exit))) = &self.modal
            && is_ctrl_d
        {
            let exit = exit.clone();
            if self.may_grant() {
                self.leave(exit);
            }
        }
    }

    fn grant(&mut self, decision: Decision) {
        if self.may_grant() {
            self.answer(decision);
        }
    }

    fn run_key(&mut self, key: KeyEvent) {
        let Some(Modal::RunApproval { proposal, edited, field, editor, .. }) = &mut self.modal else {
            return;
        };
        if *field != Field::Buttons {
            match key.code {
                KeyCode::Esc | KeyCode::Tab | KeyCode::Enter if !wants_newline(key) => {
                    let text = editor.take();
                    let shown = shown::launch(edited);
                    let before = match *field {
                        Field::Task => shown.task.as_str(),
                        _ => shown.context.as_deref().unwrap_or_default(),
                    };
                    // What the person did not change stays as it was.
                    if text != before {
                        let (text, grants) = approval_members::typed_mentions(&*self.host, text, before);
                        if *field == Field::Task {
                            edited.task = text;
                        } else {
                            edited.context = Some(text).filter(|text| !text.trim().is_empty());
                        }
                        approval_members::change_grants(proposal, edited, grants);
                    }
                    let next = if key.code == KeyCode::Tab && *field == Field::Task {
                        editor.set(shown.context.as_deref().unwrap_or_default());
                        Field::Context
                    } else {
                        Field::Buttons
                    };
                    *field = next;
                }
                _ => super::keys::apply_editor_key(editor, key, 60),
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
                self.grant(decision);
            }
            KeyCode::Char('e') => {
                *field = Field::Task;
                editor.set(&shown::launch(edited).task);
            }
            KeyCode::Char('m') => approval_members::next_mode(proposal, edited, &self.model.team),
            KeyCode::Left => approval_members::select_neighbor(proposal, edited, &self.model.team, -1),
            KeyCode::Right => approval_members::select_neighbor(proposal, edited, &self.model.team, 1),
            KeyCode::Char('r') => {
                edited.refinement = Some(!edited.refinement.unwrap_or(proposal.modes.refinement));
            }
            KeyCode::Esc | KeyCode::Char('c') => self.answer(Decision::Reject { reason: None }),
            _ => self.note_stray(key),
        }
    }

    fn plan_key(&mut self, key: KeyEvent) {
        let approves = matches!(
            &self.modal,
            Some(Modal::PlanApproval { field: Field::Instructions | Field::Buttons, .. })
        );
        if approves && key.code == KeyCode::Enter && !wants_newline(key) && !self.may_grant() {
            return;
        }
        let Some(Modal::PlanApproval { plan, field, instructions, changes, .. }) = &mut self.modal else {
            return;
        };
        match (*field, key.code) {
            (Field::Changes, KeyCode::Enter) if !wants_newline(key) => {
                let text = changes.take();
                if text.trim().is_empty() {
                    *field = Field::Buttons;
                } else {
                    let ungranted = self.mentions_in(&text);
                    self.answer(Decision::Change { text });
                    self.say_ungranted(ungranted);
                }
            }
            (Field::Instructions | Field::Buttons, KeyCode::Enter) if !wants_newline(key) => {
                let words = instructions.take();
                let instructions = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
                let ungranted = instructions.as_deref().and_then(|text| self.mentions_in(text));
                self.answer(Decision::Approve { digest: None, edited: None, instructions });
                self.say_ungranted(ungranted);
            }
            (Field::Instructions | Field::Changes, KeyCode::Esc | KeyCode::Tab) => *field = Field::Buttons,
            (Field::Instructions, _) => super::keys::apply_editor_key(instructions, key, 60),
            (Field::Changes, _) => super::keys::apply_editor_key(changes, key, 60),
            (_, KeyCode::Char('a')) => self.grant(approve()),
            (_, KeyCode::Tab | KeyCode::Char('i')) => *field = Field::Instructions,
            (_, KeyCode::Char('c')) => *field = Field::Changes,
            (_, KeyCode::Char('e')) => {
                let plan = plan.clone();
                self.effects.push(Effect::EditPlan(plan));
            }
            (_, KeyCode::Esc) => self.answer(Decision::Reject { reason: None }),
            _ => self.note_stray(key),
        }
    }

    /// The first mention of a path in a text that cannot grant access to it.
    fn mentions_in(&self, text: &str) -> Option<String> {
        let mut words = text.split_whitespace();
        let mention = words.find(|word| word.starts_with('@') && !self.host.mentions(word).1.is_empty());
        mention.map(str::to_owned)
    }

    fn say_ungranted(&mut self, mention: Option<String>) {
        if let Some(mention) = mention {
            self.toast =
                Some(format!("{mention} gives no access here: mention the path in a message instead"));
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
            _ => return self.note_stray(key),
        };
        let Some(pick) = pick else { return };
        if let Some(option) = ask.options.get(pick) {
            let option = option.id.clone();
            self.grant(Decision::Choose { option });
        } else if ask.options.is_empty() {
            let task = task.clone();
            // What is typed after the task was opened goes to the program.
            if self.is_left_over() {
                return;
            }
            self.modal = None;
            if let Some(task) = task {
                self.open_task(&task);
            }
        } else {
            self.note_stray(key);
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
                if self.follows_stray(key.code) {
                    return;
                }
                let Some(Modal::Pick { picker, chosen }) = &self.modal else { return };
                let exit = match picker {
                    Picker::Projects(entries) => {
                        entries.get(*chosen).map(|entry| TuiExit::OpenProject(entry.path.clone()))
                    }
                    Picker::Themes(_) => None,
                };
                self.modal = None;
                if let Some(exit) = exit {
                    self.leave_or_ask(exit);
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
            _ => self.note_stray(key),
        }
        if let Some(Modal::Pick { picker: Picker::Themes(_), chosen }) = &self.modal {
            self.theme = Theme::ALL.get(*chosen).copied().unwrap_or_default();
        }
    }
}

fn approve() -> Decision {
    Decision::Approve { digest: None, edited: None, instructions: None }
}

pub fn wants_newline(key: KeyEvent) -> bool {
    key.code == KeyCode::Enter && key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT)
}
