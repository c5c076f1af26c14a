//! Mouse clicks and the wheel. Whatever a click does, a key does as well. A click acts when the button is let go,
//! because until then it may become a selection.

use super::{App, Modal, Target, TuiScreen, keys};
use crate::attach;
use althing_protocol::{Op, Timestamp};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

const NOTCH: isize = 3;

impl App {
    pub(crate) fn on_mouse(&mut self, mouse: MouseEvent) {
        if let Some(TuiScreen::Attached(task)) = self.screens.last() {
            // An attached program receives the wheel as arrow keys.
            let code = match mouse.kind {
                MouseEventKind::ScrollUp => KeyCode::Up,
                MouseEventKind::ScrollDown => KeyCode::Down,
                _ => return,
            };
            let application = self.attached.as_ref().is_some_and(|screen| screen.application_cursor);
            let bytes = attach::encode(KeyEvent::new(code, KeyModifiers::NONE), application);
            let task = task.clone();
            return self.submit(Op::Input { task, bytes });
        }
        let at = Position { x: mouse.column, y: mouse.row };
        match mouse.kind {
            MouseEventKind::ScrollUp => self.wheel(-NOTCH),
            MouseEventKind::ScrollDown => self.wheel(NOTCH),
            MouseEventKind::Down(MouseButton::Left) => self.begin_selection(at),
            MouseEventKind::Drag(MouseButton::Left) => self.drag_selection(at),
            MouseEventKind::Up(MouseButton::Left) if self.end_selection(at) => {
                let hit = self.targets.iter().rev().find(|(area, _)| area.contains(at));
                let recent = |at: Timestamp| self.now.since(at).0 < keys::TYPING_PAUSE_MS;
                self.is_click_left_over = self.box_is_unseen || self.last_click.is_some_and(recent);
                self.last_click = Some(self.now);
                if let Some(target) = hit.map(|(_, target)| target.clone()) {
                    self.toast = None;
                    self.pending_letter = None;
                    self.click(&target);
                }
                self.is_click_left_over = false;
            }
            _ => {}
        }
    }

    fn wheel(&mut self, lines: isize) {
        if self.scroll_dialog(lines) {
            return;
        }
        if self.modal.is_some() {
            let code = if lines < 0 { KeyCode::Up } else { KeyCode::Down };
            return self.modal_key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        self.scroll_top_screen(lines);
    }

    pub(crate) fn click(&mut self, target: &Target) {
        let press = |code: KeyCode| KeyEvent::new(code, KeyModifiers::NONE);
        match target {
            Target::Mode(word) => self.toggle_mode(*word),
            Target::Agent(member_index) => self.choose_agent(*member_index),
            Target::Tab(tab) => {
                self.panel_has_keys = true;
                self.choose_tab(*tab);
            }
            Target::Item(at) => self.click_item(*at),
            Target::Key(key) => {
                let code = match key {
                    '\n' => KeyCode::Enter,
                    '\x1b' => KeyCode::Esc,
                    key => KeyCode::Char(*key),
                };
                match (&self.modal, self.screens.last()) {
                    (Some(_), _) => self.modal_key(press(code)),
                    (None, Some(TuiScreen::Run(_))) => self.run_screen_key(press(code)),
                    (None, _) => self.on_key(press(code)),
                }
            }
            Target::Override => self.open_override(),
            Target::Back => self.back(),
            Target::Tasks => self.toggle_tasks(),
            Target::Input => self.focus_input(),
            // In an empty input, Enter keeps the winner of a vote; a click on this button must not do that.
            Target::Send if self.input.text().trim().is_empty() => self.focus_input(),
            Target::Send => {
                self.focus_input();
                self.enter();
            }
            Target::CancelEntry(at) => self.cancel_entry(*at),
            Target::Welcome(choice) => self.take_welcome(*choice),
        }
    }

    fn click_item(&mut self, at: usize) {
        match &mut self.modal {
            Some(
                Modal::Override { chosen, .. } | Modal::Program { chosen, .. } | Modal::Pick { chosen, .. },
            ) => {
                if *chosen == at {
                    return self.modal_key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
                }
                *chosen = at;
                return;
            }
            Some(Modal::Sessions(_)) => return self.click_session(at),
            Some(_) => return,
            None => {}
        }
        self.panel_has_keys = true;
        match self.screens.last_mut() {
            Some(TuiScreen::Run(screen)) => {
                if let Some(scroll) = screen.scroll() {
                    scroll.select(at);
                    self.open_timeline_entry();
                }
            }
            Some(TuiScreen::Tasks(chosen)) => {
                *chosen = at;
                if let Some(id) = self.task_rows().get(at).cloned() {
                    self.open_task(&id);
                }
            }
            Some(TuiScreen::Conversation) => self.open_entry(at),
            _ => {}
        }
    }
}
