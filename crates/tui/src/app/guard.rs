//! Decides whether a key belongs to an approval box or to the input below it. The box opens by itself, possibly while
//! the user is typing.
//!
//! The input keeps what is typed. While it contains text it receives the keys: Enter sends the text, and the box waits.
//! While it is empty the box receives Enter, Esc and the arrow keys at once, and a letter shortcut of the box acts only
//! if no other letter follows it within a short time (one second for letters that answer). Otherwise the letter starts
//! a message. Time is passed in with every key and by `wake`.

use super::{App, Field, Modal, keys};
use althing_protocol::{InteractionId, Timestamp};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// How long no other letter may follow a letter that answers, in milliseconds.
const ALONE_MS: u64 = 1000;

/// The same for a letter that only changes what the box shows.
const BRIEFLY_MS: u64 = 500;

/// A pending letter: either a shortcut of the box or the start of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    letter: char,
    question: InteractionId,
    /// When it acts.
    due: Timestamp,
    /// Whether it answers the question.
    answers: bool,
}

fn press(letter: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)
}

/// Whether a key is a letter with Ctrl or Alt, which is never a letter shortcut.
pub fn is_chord(key: KeyEvent) -> bool {
    let chord = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    chord && matches!(key.code, KeyCode::Char(_))
}

impl App {
    /// Whether the open modal is a box that opened by itself.
    pub(crate) fn is_guarded(&self) -> bool {
        matches!(self.modal, Some(Modal::Run { .. } | Modal::Plan { .. } | Modal::Budget { .. }))
    }

    /// Whether a text field of the box has the focus.
    pub(crate) fn box_is_written(&self) -> bool {
        match &self.modal {
            Some(Modal::Run { field, .. } | Modal::Plan { field, .. }) => *field != Field::Buttons,
            _ => false,
        }
    }

    /// Whether the input receives keys although a box is open.
    pub(crate) fn writes_under_box(&self) -> bool {
        self.is_guarded() && !self.box_is_written() && self.writes() && !self.input.is_empty()
    }

    /// A note in the box when keys do not act as its buttons say.
    pub(crate) fn box_note(&self) -> Option<&'static str> {
        match &self.held {
            Some(Held { letter: 'a', .. }) => Some("approving, or type on"),
            Some(Held { answers: true, .. }) => Some("cancelling, or type on"),
            _ if self.writes_under_box() => Some("enter sends your message"),
            _ => None,
        }
    }

    /// When the pending letter acts.
    pub fn due(&self) -> Option<Timestamp> {
        self.held.as_ref().map(|held| held.due)
    }

    /// Acts on the pending letter if its time has come.
    pub(crate) fn settle_held(&mut self) {
        if let Some(held) = self.held.take_if(|held| held.due <= self.now) {
            self.act(&held);
        }
    }

    /// Applies the letter to its box, or types it if the box is gone.
    fn act(&mut self, held: &Held) {
        if self.modal.as_ref().and_then(Modal::question) == Some(&held.question) {
            self.modal_key(press(held.letter));
        } else {
            self.write_under(press(held.letter));
        }
    }

    /// Types the pending letter into the input.
    pub(crate) fn keep_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.write_under(press(held.letter));
        }
    }

    fn write_under(&mut self, key: KeyEvent) {
        if self.writes() {
            self.typed = self.now;
            self.talk_key(key);
        }
    }

    /// How long a letter shortcut waits, and whether it answers; None if it is not a shortcut of this box.
    fn wait_of(&self, letter: char) -> Option<(u64, bool)> {
        match (&self.modal, letter) {
            (Some(Modal::Run { .. } | Modal::Budget { .. }), 'a' | 'c') => Some((ALONE_MS, true)),
            (Some(Modal::Run { .. }), 'e' | 'm' | 'r') => Some((BRIEFLY_MS, false)),
            (Some(Modal::Plan { .. }), 'a') => Some((ALONE_MS, true)),
            (Some(Modal::Plan { .. }), 'c' | 'e' | 'i') => Some((BRIEFLY_MS, false)),
            _ => None,
        }
    }

    /// Handles a key while a box that opened by itself is open.
    pub(crate) fn guarded_key(&mut self, key: KeyEvent) {
        if self.box_is_written() {
            return self.modal_key(key);
        }
        let letter = match key.code {
            KeyCode::Char(letter) if !is_chord(key) => Some(letter),
            _ => None,
        };
        let recently = self.now.since(self.typed).0 < keys::TYPING_PAUSE_MS;
        // Without an input below the box, letters are shortcuts of the box, except right after a key for the screen
        // below.
        if !self.writes() {
            if letter.is_none() || !recently {
                self.modal_key(key);
            }
            return;
        }
        if let Some(held) = self.held.take() {
            match (letter, key.code) {
                // Repeating the same letter presses the shortcut again.
                (Some(next), _) if next == held.letter && !held.answers => self.act(&held),
                (Some(_), _) => self.write_under(press(held.letter)),
                (None, KeyCode::Backspace | KeyCode::Esc) => {
                    if key.code == KeyCode::Backspace {
                        return;
                    }
                }
                (None, _) => {
                    self.act(&held);
                    if held.answers || !self.is_guarded() || self.box_is_written() {
                        return;
                    }
                }
            }
        }
        if self.input.is_empty() {
            return match letter {
                Some(letter) => self.hold(letter),
                None => self.modal_key(key),
            };
        }
        match key.code {
            KeyCode::Esc if self.completion.is_none() && !recently => self.modal_key(key),
            KeyCode::Tab if self.completion.is_none() => self.modal_key(key),
            KeyCode::BackTab => {}
            _ => self.write_under(key),
        }
    }

    fn hold(&mut self, letter: char) {
        let question = self.modal.as_ref().and_then(Modal::question).cloned();
        match (self.wait_of(letter), question) {
            (Some((wait, answers)), Some(question)) => {
                let due = Timestamp(self.now.0 + wait);
                self.held = Some(Held { letter, question, due, answers });
            }
            _ => self.write_under(press(letter)),
        }
    }
}
