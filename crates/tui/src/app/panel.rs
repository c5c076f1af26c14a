//! The focus while a run, a text, the tasks or a program's output is open: it is either there or in the input below.
//! Letters go where the focus is, and Tab moves it.

use super::dialog_typing::is_chord;
use super::{App, ModeToggle, TuiScreen};
use crate::view;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

impl App {
    /// Whether there is an input for messages. A workflow has no chat agent.
    pub(crate) fn has_input(&self) -> bool {
        !self.options.workflow
    }

    pub(crate) fn is_split(&self) -> bool {
        self.size.width >= view::WIDE
            && self.has_input()
            && matches!(self.screens.last(), Some(TuiScreen::Run(_)))
    }

    pub(crate) fn input_has_focus(&self) -> bool {
        match self.screens.last() {
            Some(TuiScreen::Conversation) | None => !self.browsing,
            Some(
                TuiScreen::Run(_) | TuiScreen::TextReader(_) | TuiScreen::Tasks(_) | TuiScreen::Task(..),
            ) => self.has_input() && !self.panel_has_keys,
            Some(TuiScreen::Attached(_)) => false,
        }
    }

    pub(crate) fn focus_input(&mut self) {
        self.panel_has_keys = false;
        if self.browsing {
            self.stop_browsing();
        }
    }

    pub(crate) fn input_below_panel_key(&mut self, key: KeyEvent) {
        let completing = self.completion.is_some();
        match key.code {
            KeyCode::Esc if !completing => self.back(),
            KeyCode::Tab if !completing => self.panel_has_keys = true,
            // If a run is shown beside the conversation, these keys scroll the conversation.
            KeyCode::PageUp if !self.is_split() => self.scroll_top_screen(-self.page()),
            KeyCode::PageDown if !self.is_split() => self.scroll_top_screen(self.page()),
            _ => self.conversation_key(key),
        }
    }

    pub(crate) fn panel_key(&mut self, key: KeyEvent) {
        if self.has_input() && !self.is_typing_search() {
            match key.code {
                KeyCode::Tab => return self.focus_input(),
                KeyCode::BackTab => return self.toggle_mode(ModeToggle::Plan),
                _ if is_chord(key) => return self.panel_chord(key),
                _ => {}
            }
        }
        if !self.is_typing_search() && self.is_stray_in_panel(key) {
            return;
        }
        match self.screens.last() {
            Some(TuiScreen::Run(_)) => self.run_screen_key(key),
            Some(TuiScreen::TextReader(_)) => self.reader_key(key),
            Some(TuiScreen::Tasks(_)) => self.tasks_key(key),
            Some(TuiScreen::Task(..)) => self.task_key(key),
            Some(TuiScreen::Conversation | TuiScreen::Attached(_)) | None => {}
        }
    }

    /// Letters and digits with Ctrl or Alt are never shortcuts of what is open. Alt+A, Alt+R, Alt+1 to Alt+9, Ctrl+R
    /// and, with an empty input, Ctrl+D work as in the conversation; others are ignored.
    fn panel_chord(&mut self, key: KeyEvent) {
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let works = match key.code {
            KeyCode::Char('a' | 'r' | '1'..='9') if alt => true,
            KeyCode::Char('r') => true,
            KeyCode::Char('d') => !alt && self.input.is_empty(),
            _ => false,
        };
        if works {
            self.write_key(key);
        }
    }

    pub(crate) fn is_typing_search(&self) -> bool {
        match self.screens.last() {
            Some(TuiScreen::Run(screen)) => screen.typing,
            Some(TuiScreen::TextReader(reader)) => reader.typing,
            _ => false,
        }
    }

    /// In the list of tasks, moves the selection by one task instead.
    pub(crate) fn scroll_top_screen(&mut self, lines: isize) {
        match self.screens.last_mut() {
            Some(TuiScreen::Run(screen)) => {
                if let Some(scroll) = screen.scroll() {
                    scroll.by(lines);
                }
            }
            Some(TuiScreen::TextReader(reader)) => reader.scroll.by(lines),
            Some(TuiScreen::Task(_, scroll)) => scroll.by(lines),
            Some(TuiScreen::Tasks(chosen)) => *chosen = chosen.saturating_add_signed(lines.signum()),
            Some(TuiScreen::Conversation | TuiScreen::Attached(_)) | None => self.scroll.by(lines),
        }
    }
}
