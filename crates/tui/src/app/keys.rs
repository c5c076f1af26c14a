//! Turns key presses into actions: `on_key` passes a key to the open dialog or to the focused part of the screen. Key
//! bindings by screen.

use super::answer::wants_newline;
use super::dialog_typing::TOO_SOON;
use super::screen::{diff_answers, timeline_text};
use super::{App, ConfirmedAction, Effect, Field, Modal, TextReader, TuiScreen};
use crate::editor::{Editor, Motion};
use crate::host::TuiExit;
use althing_protocol::{ChatState, Op, TaskId};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WelcomeChoice {
    Start,
    Offline,
    Config,
    Help,
}

pub(crate) const WELCOME_CHOICES: &[(WelcomeChoice, &str)] = &[
    (WelcomeChoice::Start, "start with what was found"),
    (WelcomeChoice::Offline, "try it with the offline model (not an AI, no network)"),
    (WelcomeChoice::Config, "first write a config (althing.yaml) to this directory"),
    (WelcomeChoice::Help, "what is this"),
];

/// Keys that follow each other within this many milliseconds count as continuous typing.
pub(crate) const TYPING_PAUSE_MS: u64 = 1000;

/// The messages of Ctrl+C.
const STOPPING_RUN: &str = "stopping the run · Ctrl+C again leaves";
const STOPPING_REPLY: &str = "stopping · Ctrl+C again leaves";
const AGAIN_LEAVES: &str = "Ctrl+C again leaves";
const CLEARED: &str = "cleared · ctrl+_ brings it back";

/// Applies a key to an editor.
pub(crate) fn apply_editor_key(editor: &mut Editor, key: KeyEvent, width: usize) {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    let motion = match key.code {
        KeyCode::Enter => return editor.insert("\n"),
        KeyCode::Char('j') if control => return editor.insert("\n"),
        KeyCode::Char('a') if control => Motion::LineStart,
        KeyCode::Char('e') if control => Motion::LineEnd,
        KeyCode::Char('w') if control => Motion::DeleteWord,
        KeyCode::Char('u') if control => Motion::DeleteToStart,
        KeyCode::Char('k') if control => Motion::DeleteToEnd,
        KeyCode::Char('b') if control => Motion::Left,
        KeyCode::Char('f') if control => Motion::Right,
        KeyCode::Char('h') if control => Motion::Backspace,
        KeyCode::Char('y') if control => return editor.yank(),
        // Terminals send Ctrl+_ and Ctrl+/ as the byte that is also Ctrl+7.
        KeyCode::Char('_' | '/' | '7') if control => {
            editor.undo();
            return;
        }
        KeyCode::Char('d') if alt => Motion::DeleteNextWord,
        KeyCode::Char('b') if alt => Motion::WordLeft,
        KeyCode::Char('f') if alt => Motion::WordRight,
        KeyCode::Char(c) if !control && !alt => return editor.insert(c.encode_utf8(&mut [0; 4])),
        KeyCode::Left if control || alt => Motion::WordLeft,
        KeyCode::Right if control || alt => Motion::WordRight,
        KeyCode::Left => Motion::Left,
        KeyCode::Right => Motion::Right,
        KeyCode::Home => Motion::LineStart,
        KeyCode::End => Motion::LineEnd,
        KeyCode::Backspace if control || alt => Motion::DeleteWord,
        KeyCode::Backspace => Motion::Backspace,
        KeyCode::Delete => Motion::Delete,
        KeyCode::Up => {
            editor.vertical(-1, width);
            return;
        }
        KeyCode::Down => {
            editor.vertical(1, width);
            return;
        }
        _ => return,
    };
    editor.key(motion);
}

impl App {
    /// An attached program gets every key but the one that detaches. Otherwise Ctrl+C, Ctrl+Z and Ctrl+L act
    /// everywhere, and other keys go to the open dialog or, without a dialog, to the focused part of the screen.
    pub(crate) fn on_key(&mut self, key: KeyEvent) {
        let control = |c: char| key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char(c);
        if let Some(TuiScreen::Attached(task)) = self.screens.last() {
            let task = task.clone();
            self.note_typed();
            return self.attached_key(&task, key);
        }
        self.toast = None;
        if control('c') {
            return self.interrupt();
        }
        self.leaving = false;
        if control('z') {
            return self.effects.push(Effect::Suspend);
        }
        if control('l') {
            return self.effects.push(Effect::Redraw);
        }
        if self.modal.is_some() {
            return self.dialog_key(key);
        }
        if self.settle_pending_letter(key) {
            return;
        }
        self.note_typed();
        let welcomes = self.welcome.is_some() && matches!(self.screens.last(), Some(TuiScreen::Conversation));
        if welcomes && self.input.is_empty() && self.welcome_key(key) {
            return;
        }
        if control('t') {
            return self.toggle_tasks();
        }
        if control('o') {
            return self.open_override();
        }
        if control('g') {
            self.modal = Some(Modal::Help);
            return;
        }
        if self.finding.is_some() {
            return self.find_key(key);
        }
        match self.screens.last() {
            Some(TuiScreen::Conversation | TuiScreen::Attached(_)) | None => self.conversation_key(key),
            Some(_) if self.input_has_focus() => self.input_below_panel_key(key),
            Some(_) => self.panel_key(key),
        }
    }

    /// Ctrl+C while a dialog is open: drops a letter that waits, or clears the text field that has the focus; if there
    /// is neither, closes the dialog as Esc does. In an approval dialog, Ctrl+C again leaves, as it does without a
    /// dialog. In the question about trust, Ctrl+C declines at once.
    fn interrupt_dialog(&mut self) {
        let was_leaving = std::mem::take(&mut self.leaving);
        if matches!(self.modal, Some(Modal::Trust { .. })) {
            return self.decline_trust();
        }
        if self.pending_letter.take().is_some() {
            return;
        }
        if self.input_has_focus_under_box() {
            self.clear_input();
            self.toast = Some(CLEARED.into());
            return;
        }
        if let Some(field) = self.modal.as_mut().and_then(Modal::text_field)
            && !field.is_empty()
        {
            field.clear();
            self.toast = Some(CLEARED.into());
            return;
        }
        if was_leaving && self.has_approval_box() {
            return self.leave(TuiExit::Quit);
        }
        if self.is_repeated() {
            self.toast = Some(TOO_SOON.into());
            return;
        }
        self.leaving = self.has_approval_box();
        if let Some(Modal::RunApproval { field, .. } | Modal::PlanApproval { field, .. }) = &mut self.modal {
            *field = Field::Buttons;
        }
        self.modal_key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        if self.leaving {
            self.toast.get_or_insert_with(|| AGAIN_LEAVES.into());
        }
    }

    /// Ctrl+C: acts on the open dialog, if it was drawn; otherwise clears the input. If there is nothing to clear,
    /// cancels the live run or, without one, the chat agent's turn, but never a workflow; Ctrl+C again leaves.
    fn interrupt(&mut self) {
        if self.modal.is_some() && !(self.has_approval_box() && self.box_is_unseen) {
            return self.interrupt_dialog();
        }
        self.type_pending_letter();
        if !self.input.is_empty() {
            self.clear_input();
            self.toast = Some(CLEARED.into());
            return;
        }
        if self.leaving {
            return self.leave(TuiExit::Quit);
        }
        self.leaving = true;
        if self.options.workflow {
            self.toast = Some(if self.model.closed || self.options.replay {
                "Ctrl+C again leaves".into()
            } else {
                "Ctrl+C again leaves: the workflow stops and can be resumed".into()
            });
            return;
        }
        let live = self.model.live_run().map(|run| run.id.clone());
        match live {
            Some(task) => {
                self.submit(Op::Cancel { task });
                self.toast = Some(STOPPING_RUN.into());
            }
            None if self.model.state != ChatState::Idle => {
                self.submit(Op::Cancel { task: TaskId::chat() });
                self.toast = Some(STOPPING_REPLY.into());
            }
            None => self.toast = Some(AGAIN_LEAVES.into()),
        }
    }

    /// Removes the message of `interrupt` once what it stops has ended. Then another Ctrl+C asks again before it
    /// leaves.
    pub(crate) fn forget_stopping(&mut self) {
        let is_over = match self.toast.as_deref() {
            Some(STOPPING_RUN) => self.model.live_run().is_none(),
            Some(STOPPING_REPLY) => self.model.state == ChatState::Idle,
            _ => false,
        };
        if is_over {
            (self.toast, self.leaving) = (None, false);
        }
    }

    /// Handles a key on the welcome screen while the input is empty. Returns false for keys of the input, such as
    /// letters.
    fn welcome_key(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Up => self.welcome_choice = self.welcome_choice.saturating_sub(1),
            KeyCode::Down => self.welcome_choice = (self.welcome_choice + 1).min(WELCOME_CHOICES.len() - 1),
            KeyCode::Enter if !wants_newline(key) => self.take_welcome(self.welcome_choice),
            KeyCode::Esc => self.welcome = None,
            _ => return false,
        }
        true
    }

    pub(crate) fn take_welcome(&mut self, choice: usize) {
        self.welcome_choice = choice;
        match WELCOME_CHOICES.get(choice).map(|(choice, _)| choice) {
            Some(WelcomeChoice::Offline) => self.leave(TuiExit::UseOffline),
            Some(WelcomeChoice::Config) => self.effects.push(Effect::WriteConfig),
            Some(WelcomeChoice::Help) => self.modal = Some(Modal::Help),
            Some(WelcomeChoice::Start) | None => self.welcome = None,
        }
    }

    pub(crate) fn page(&self) -> isize {
        isize::try_from(self.size.height.saturating_sub(6).max(1)).unwrap_or(1)
    }

    pub(crate) fn reader_key(&mut self, key: KeyEvent) {
        let page = self.page();
        let Some(TuiScreen::TextReader(reader)) = self.screens.last_mut() else { return };
        if reader.typing {
            match key.code {
                KeyCode::Char(c) => reader.search.get_or_insert_default().push(c),
                KeyCode::Backspace => {
                    reader.search.get_or_insert_default().pop();
                }
                KeyCode::Enter => {
                    reader.typing = false;
                    self.find_in_text(1);
                }
                KeyCode::Esc => (reader.typing, reader.search) = (false, None),
                _ => {}
            }
            return;
        }
        match key.code {
            KeyCode::Up => reader.scroll.by(-1),
            KeyCode::Down => reader.scroll.by(1),
            KeyCode::PageUp => reader.scroll.by(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => reader.scroll.by(page),
            KeyCode::Home | KeyCode::Char('g') => reader.scroll.go_top(),
            KeyCode::End | KeyCode::Char('G') => reader.scroll.go_end(),
            KeyCode::Char('/') => {
                (reader.typing, reader.search) = (true, Some(String::new()));
                reader.scroll.end_search();
            }
            KeyCode::Char('n') => self.find_in_text(1),
            KeyCode::Char('N') => self.find_in_text(-1),
            KeyCode::Esc if reader.scroll.search_label().is_some() => reader.scroll.end_search(),
            KeyCode::Char('c') => {
                let text = reader.whole();
                self.copy(text);
            }
            KeyCode::Char('o') => {
                let text = reader.whole();
                self.effects.push(Effect::Page(text));
            }
            KeyCode::Esc | KeyCode::Char('q') => self.back(),
            _ => self.note_stray(key),
        }
    }

    pub(crate) fn copy(&mut self, text: String) {
        self.effects.push(Effect::Copy(text));
    }

    fn search_key(&mut self, key: KeyEvent) {
        let Some(TuiScreen::Run(screen)) = self.screens.last_mut() else { return };
        match key.code {
            KeyCode::Char(c) => screen.search.get_or_insert_default().push(c),
            KeyCode::Backspace => {
                screen.search.get_or_insert_default().pop();
            }
            KeyCode::Enter => {
                screen.typing = false;
                self.find_timeline_entry(1);
            }
            KeyCode::Esc => (screen.typing, screen.search) = (false, None),
            _ => {}
        }
    }

    pub(crate) fn run_screen_key(&mut self, key: KeyEvent) {
        let page = self.page();
        let Some(TuiScreen::Run(screen)) = self.screens.last_mut() else { return };
        let Some(run) = self.model.runs.get(&screen.id) else { return };
        let tabs = run.agents.len() + usize::from(run.result.is_some());
        let entries = run.agents.get(screen.tab).map_or(0, |agent| agent.timeline.len());
        if screen.typing {
            return self.search_key(key);
        }
        let id = screen.id.clone();
        let tab = screen.tab;
        let back_tab = (tab + tabs.saturating_sub(1)) % tabs.max(1);
        match key.code {
            KeyCode::Tab | KeyCode::Right => screen.tab = (tab + 1) % tabs.max(1),
            KeyCode::BackTab | KeyCode::Left => screen.tab = back_tab,
            KeyCode::Char(digit @ '1'..='9') => {
                let wanted = digit as usize - '1' as usize;
                if wanted < tabs {
                    self.choose_tab(wanted);
                }
            }
            KeyCode::Char('f') if run.result.is_some() => screen.tab = run.agents.len(),
            KeyCode::Up | KeyCode::Down if tab < run.agents.len() => {
                let Some(scroll) = screen.scroll() else { return };
                let last = entries.saturating_sub(1);
                let next = match (scroll.selected, key.code) {
                    (None, _) => last,
                    (Some(at), KeyCode::Up) => at.saturating_sub(1),
                    (Some(at), _) => (at + 1).min(last),
                };
                scroll.select(next);
            }
            KeyCode::Up => self.scroll_top_screen(-1),
            KeyCode::Down => self.scroll_top_screen(1),
            KeyCode::PageUp => self.scroll_top_screen(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll_top_screen(page),
            KeyCode::Home | KeyCode::Char('g') => {
                screen.scroll().into_iter().for_each(super::super::list::Scroll::go_top)
            }
            KeyCode::End | KeyCode::Char('G') => {
                screen.scroll().into_iter().for_each(super::super::list::Scroll::go_end)
            }
            KeyCode::Char('/') => {
                (screen.typing, screen.search) = (true, Some(String::new()));
                screen.scroll().into_iter().for_each(crate::list::Scroll::end_search);
            }
            KeyCode::Char('n') => self.find_timeline_entry(1),
            KeyCode::Char('N') => self.find_timeline_entry(-1),
            KeyCode::Char('d') => {
                let reader = self.model.runs.get(&id).and_then(|run| diff_answers(run, tab));
                match reader {
                    Some(reader) => self.open_reader(reader),
                    None => self.run_diff(&id),
                }
            }
            KeyCode::Char('x') if run.is_live() => self.confirm(ConfirmedAction::Cancel(id)),
            KeyCode::Char('u') if run.result.is_some() => self.confirm(ConfirmedAction::Undo(id)),
            KeyCode::Char('a') => self.open_question(),
            KeyCode::Enter => self.open_timeline_entry(),
            KeyCode::Char('c') => {
                if let Some((_, text)) = self.shown_text() {
                    self.copy(text);
                }
            }
            KeyCode::Char('o') => {
                if let Some((_, text)) = self.shown_text() {
                    self.effects.push(Effect::Page(text));
                }
            }
            KeyCode::Esc if screen.scroll().is_some_and(|scroll| scroll.search_label().is_some()) => {
                screen.scroll().into_iter().for_each(crate::list::Scroll::end_search);
            }
            KeyCode::Esc | KeyCode::Char('q') => self.back(),
            _ => self.note_stray(key),
        }
    }

    pub(crate) fn run_diff(&mut self, id: &TaskId) {
        match self.host.diff(id) {
            Ok(diff) if diff.is_empty() => {
                self.toast = Some("this run has changed no files in context paths".into())
            }
            Ok(diff) => {
                let mut reader = TextReader::plain("changes", &diff);
                reader.text = super::ReaderText::Diff(reader.parts().to_vec());
                self.open_reader(reader);
            }
            Err(reason) => self.toast = Some(reason),
        }
    }

    fn shown_text(&self) -> Option<(String, String)> {
        let Some(TuiScreen::Run(screen)) = self.screens.last() else { return None };
        let run = self.model.runs.get(&screen.id)?;
        let Some(agent) = run.agents.get(screen.tab) else {
            let answer = run.result.as_ref()?.final_answer.clone()?;
            return Some(("final answer".into(), answer));
        };
        let selected = screen.scrolls.get(screen.tab)?.selected;
        let entry = selected.map_or(agent.timeline.last(), |at| agent.timeline.get(at))?;
        Some(timeline_text(entry))
    }

    pub(crate) fn open_timeline_entry(&mut self) {
        if let Some((title, text)) = self.shown_text() {
            let reader = match title.as_str() {
                "text" | "final answer" => TextReader::markdown(&title, &text),
                label if label.starts_with("agent") => TextReader::markdown(&title, &text),
                _ => TextReader::plain(&title, &text),
            };
            self.open_reader(reader);
        }
    }

    pub(crate) fn conversation_key(&mut self, key: KeyEvent) {
        if self.browsing {
            return self.browse_key(key);
        }
        if !wants_newline(key) && self.queue_key(key.code) {
            return;
        }
        if key.code == KeyCode::Enter && !wants_newline(key) {
            return self.enter();
        }
        self.write_key(key);
    }
}
