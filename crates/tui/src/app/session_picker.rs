//! The picker of sessions: the list is filtered as the user types; the selected session can be resumed, renamed and
//! deleted. A deletion is asked once, and only `y` confirms it.

use super::answer::wants_newline;
use super::{App, Effect, Modal};
use crate::editor::Editor;
use crate::host::{SessionEntry, TuiExit};
use althing_protocol::SessionId;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::sync::Arc;

/// How far `PgUp` and `PgDn` move.
const PAGE: usize = 10;

/// Columns of the fields. They have one line, so the value has no effect.
const FIELD_WIDTH: usize = 60;

/// What the keys of the picker do.
#[derive(Clone, Debug, PartialEq)]
pub enum PickerAction {
    /// They change the filter and the selection.
    Choose,
    /// They write the title of the selected session.
    Rename(Editor),
    /// They answer whether the selected session is deleted: `y` deletes it, any other key does not.
    Delete,
}

/// The picker of sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPicker {
    /// All sessions, newest first. Shared, because a modal is cloned for each frame.
    pub entries: Arc<Vec<SessionEntry>>,
    /// The words that the shown sessions contain.
    pub filter: Editor,
    /// The selected session, as an index into `matches`.
    pub chosen: usize,
    pub action: PickerAction,
}

impl SessionPicker {
    fn new(entries: Vec<SessionEntry>) -> Self {
        let (filter, action) = (Editor::default(), PickerAction::Choose);
        Self { entries: Arc::new(entries), filter, chosen: 0, action }
    }

    /// The sessions that contain every word of the filter: in the title, in the directory or in what was said.
    pub fn matches(&self) -> Vec<&SessionEntry> {
        let words: Vec<String> = self.filter.text().split_whitespace().map(str::to_lowercase).collect();
        let fits = |entry: &&SessionEntry| {
            let said = entry.preview.iter().map(|message| message.text.as_str());
            let all: Vec<&str> =
                [entry.title.as_str(), entry.directory.as_str()].into_iter().chain(said).collect();
            let all = all.join("\n").to_lowercase();
            words.iter().all(|word| all.contains(word))
        };
        self.entries.iter().filter(fits).collect()
    }

    /// The selected session.
    pub fn selected(&self) -> Option<&SessionEntry> {
        self.matches().get(self.chosen).copied()
    }

    /// Pastes into the field that receives the keys, on one line.
    pub(crate) fn paste(&mut self, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        if self.action == PickerAction::Choose {
            self.chosen = 0;
        }
        if let Some(field) = self.text_field() {
            field.insert(&words.join(" "));
        }
    }

    /// The field that receives the keys.
    pub(crate) fn text_field(&mut self) -> Option<&mut Editor> {
        match &mut self.action {
            PickerAction::Choose => Some(&mut self.filter),
            PickerAction::Rename(editor) => Some(editor),
            PickerAction::Delete => None,
        }
    }

    fn change(&mut self, id: &SessionId, change: impl FnOnce(&mut SessionEntry)) {
        let entries = Arc::make_mut(&mut self.entries);
        if let Some(entry) = entries.iter_mut().find(|entry| entry.id == *id) {
            change(entry);
        }
    }
}

impl App {
    /// Opens the picker of sessions.
    pub(crate) fn pick_session(&mut self) {
        match self.host.sessions() {
            Ok(entries) if entries.is_empty() => {
                self.toast = Some("there is no other conversation to open".into());
            }
            Ok(entries) => self.modal = Some(Modal::Sessions(SessionPicker::new(entries))),
            Err(error) => self.toast = Some(error),
        }
    }

    pub(crate) fn session_picker_key(&mut self, key: KeyEvent) {
        let Some(Modal::Sessions(picker)) = &mut self.modal else { return };
        match &mut picker.action {
            PickerAction::Choose => self.choose_session_key(key),
            PickerAction::Rename(editor) => match key.code {
                KeyCode::Esc => picker.action = PickerAction::Choose,
                KeyCode::Enter if !wants_newline(key) => {
                    let title = editor.take();
                    self.rename_selected(&title);
                }
                _ => field_key(editor, key),
            },
            PickerAction::Delete => {
                let is_yes = key.code == KeyCode::Char('y') && !super::dialog_typing::is_chord(key);
                // A `y` that was typed without reading the question leaves the question open.
                if is_yes && self.is_left_over() {
                    return;
                }
                let Some(Modal::Sessions(picker)) = &mut self.modal else { return };
                picker.action = PickerAction::Choose;
                if let Some(entry) = picker.selected().filter(|_| is_yes) {
                    let id = entry.id.clone();
                    self.effects.push(Effect::RemoveSession(id));
                }
            }
        }
    }

    fn choose_session_key(&mut self, key: KeyEvent) {
        let Some(Modal::Sessions(picker)) = &mut self.modal else { return };
        let control = |c: char| key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char(c);
        let last = picker.matches().len().saturating_sub(1);
        let selected = picker.selected().map(|entry| (entry.id.clone(), entry.title.clone()));
        match key.code {
            KeyCode::Up => picker.chosen = picker.chosen.saturating_sub(1),
            KeyCode::Down => picker.chosen = (picker.chosen + 1).min(last),
            KeyCode::Home => picker.chosen = 0,
            KeyCode::End => picker.chosen = last,
            KeyCode::PageUp => picker.chosen = picker.chosen.saturating_sub(PAGE),
            KeyCode::PageDown => picker.chosen = (picker.chosen + PAGE).min(last),
            KeyCode::Esc if !picker.filter.is_empty() => {
                picker.filter.clear();
                picker.chosen = 0;
            }
            KeyCode::Esc => self.modal = None,
            KeyCode::Enter => {
                if let Some((id, _)) = selected {
                    self.modal = None;
                    self.leave_or_ask(TuiExit::OpenSession(id));
                }
            }
            _ if control('r') => {
                if let Some((_, title)) = selected {
                    picker.action = PickerAction::Rename(Editor::with(&title));
                }
            }
            _ if control('x') => {
                if selected.is_some() {
                    picker.action = PickerAction::Delete;
                }
            }
            _ => {
                let before = picker.filter.text().to_owned();
                field_key(&mut picker.filter, key);
                if picker.filter.text() != before {
                    picker.chosen = 0;
                }
            }
        }
    }

    fn rename_selected(&mut self, title: &str) {
        let Some(Modal::Sessions(picker)) = &mut self.modal else { return };
        picker.action = PickerAction::Choose;
        let Some(id) = picker.selected().map(|entry| entry.id.clone()) else { return };
        match self.host.rename_session(Some(&id), title) {
            Ok(title) => {
                picker.change(&id, |entry| entry.title = title);
                // The new title may not match the filter any more.
                picker.chosen = picker.matches().iter().position(|entry| entry.id == id).unwrap_or_default();
                self.toast = Some("renamed".into());
            }
            Err(reason) => self.toast = Some(reason),
        }
    }

    /// `/rename TITLE`: gives this session a title.
    pub(crate) fn rename_this_session(&mut self, title: &str) {
        if title.is_empty() {
            self.toast = Some("write the title after the command: /rename TITLE".into());
            return;
        }
        self.toast = Some(match self.host.rename_session(None, title) {
            Ok(title) => format!("this session is now called: {title}"),
            Err(reason) => reason,
        });
    }

    /// Updates the picker after a session was deleted, or was not.
    pub(crate) fn session_removed(&mut self, id: &SessionId, removed: Result<(), String>) {
        if let Err(reason) = removed {
            self.toast = Some(reason);
            return;
        }
        self.toast = Some("deleted".into());
        let Some(Modal::Sessions(picker)) = &mut self.modal else { return };
        Arc::make_mut(&mut picker.entries).retain(|entry| entry.id != *id);
        picker.chosen = picker.chosen.min(picker.matches().len().saturating_sub(1));
        if picker.entries.is_empty() {
            self.modal = None;
        }
    }

    /// Selects a session with a click; a second click resumes it.
    pub(crate) fn click_session(&mut self, at: usize) {
        let Some(Modal::Sessions(picker)) = &mut self.modal else { return };
        if picker.action != PickerAction::Choose {
            return;
        }
        if picker.chosen == at {
            return self.choose_session_key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        }
        picker.chosen = at;
    }
}

/// Applies a key to a field with one line.
fn field_key(field: &mut Editor, key: KeyEvent) {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let is_newline = key.code == KeyCode::Enter || control && key.code == KeyCode::Char('j');
    if !is_newline {
        super::keys::apply_editor_key(field, key, FIELD_WIDTH);
    }
}
