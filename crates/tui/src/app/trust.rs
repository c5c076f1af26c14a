//! The question about something that was found in the working directory. It is asked on a screen of its own, before a
//! session starts.

use super::{App, Modal};
use althing_protocol::Timestamp;
use crossterm::event::{KeyCode, KeyEvent};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustChoice {
    Once,
    Always,
    No,
}

impl App {
    /// Keys that were typed before or just after the question was drawn do not answer it.
    pub fn ask_trust(&mut self, would: Vec<String>) {
        self.welcome = None;
        self.modal = Some(Modal::Trust { would });
    }

    pub fn note_question_shown(&mut self, now: Timestamp) {
        self.last_typed = now;
    }

    pub fn trust_choice(&self) -> Option<TrustChoice> {
        self.trust_choice
    }

    pub(super) fn decline_trust(&mut self) {
        self.trust_choice = Some(TrustChoice::No);
    }

    pub(super) fn trust_key(&mut self, key: KeyEvent) {
        let choice = match key.code {
            KeyCode::Char('o') => TrustChoice::Once,
            KeyCode::Char('a') => TrustChoice::Always,
            KeyCode::Esc | KeyCode::Char('n' | 'q') => TrustChoice::No,
            _ => return self.note_stray(key),
        };
        let may_choose = if choice == TrustChoice::No { !self.is_left_over() } else { self.may_grant() };
        if may_choose {
            self.trust_choice = Some(choice);
        }
    }
}
