//! Decides whether a key belongs to an approval dialog or to the input below it. The dialog opens by itself, possibly
//! while the user is typing.
//!
//! The input keeps what is typed. While the input contains text it receives the keys: Enter sends the text, and the
//! dialog waits. Only `PgUp`, `PgDn`, Tab and, after a pause in typing, Esc go to the dialog. While the input is empty
//! the dialog receives Enter, Esc and the arrow keys at once, and a letter shortcut of the dialog acts only if no other
//! letter follows it within a short time (one second for letters that answer). Otherwise the letter starts a message.
//! Time is passed in with every key and by `wake`.
//!
//! A key that was already being pressed when the dialog appeared does not answer it, for as long as the key is held
//! down: terminals report a held key as many presses, so only a pause between two presses shows that the user let go.

use super::{App, Field, Modal, keys};
use althing_protocol::{InteractionId, Timestamp};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A shortcut letter that answers the question takes effect only if no other letter follows within this many
/// milliseconds.
const ALONE_MS: u64 = 1000;

/// A shortcut letter that only changes what the dialog shows takes effect after this many milliseconds without other
/// letters.
const BRIEFLY_MS: u64 = 500;

/// Presses of the same key that follow each other within this many milliseconds count as one key that is held down.
/// Keyboards repeat a held key every 20 to 100 ms, after a first delay that is shorter than `TYPING_PAUSE_MS`.
const REPEAT_MS: u64 = 400;

/// A letter or digit that follows another key within this many milliseconds is typed, not chosen: it is part of a word
/// that was meant for the input.
const AT_ONCE_MS: u64 = 400;

/// A pending letter: either a shortcut of the dialog or the start of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLetter {
    letter: char,
    question: InteractionId,
    /// When the letter acts as a shortcut.
    due: Timestamp,
    /// Whether the shortcut answers the question.
    answers: bool,
}

fn press(letter: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)
}

/// Whether a key is a character with Ctrl or Alt, which is never a letter shortcut.
pub fn is_chord(key: KeyEvent) -> bool {
    let chord = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
    chord && matches!(key.code, KeyCode::Char(_))
}

impl App {
    /// Whether the open modal is an approval of a run, a plan, a change of files or a higher budget: these dialogs open
    /// by themselves.
    pub(crate) fn has_approval_box(&self) -> bool {
        matches!(
            self.modal,
            Some(
                Modal::RunApproval { .. }
                    | Modal::PlanApproval { .. }
                    | Modal::EditApproval { .. }
                    | Modal::Budget { .. }
            )
        )
    }

    /// The question of the dialog that opened by itself.
    pub(crate) fn question_in_box(&self) -> Option<&InteractionId> {
        self.modal.as_ref().filter(|_| self.has_approval_box()).and_then(Modal::question)
    }

    /// Records that the current key went somewhere else than to a dialog, or has just answered one.
    pub(crate) fn note_typed(&mut self) {
        (self.last_typed, self.last_typed_key) = (self.now, self.current_key);
    }

    /// Whether the current key or click came too soon to be meant for the open dialog. If so, a message says why it
    /// does nothing. In a dialog that opened by itself, these are the clicks and keys that follow others without a
    /// pause; in a dialog that the user opened, the key that opened it. In every dialog, these are also the letters and
    /// digits of someone who types fast. While a text field of the dialog has the focus, no key comes too soon.
    pub(crate) fn is_left_over(&mut self) -> bool {
        // The user opens other dialogs with a click or a key, and may answer them with a second click at once.
        if self.is_click_left_over && self.has_approval_box() {
            self.toast = Some("that click came too soon: click again".into());
            return true;
        }
        let Some(key) = self.current_key.filter(|_| !self.box_field_has_focus()) else { return false };
        let recent = |at: Timestamp, ms: u64| self.now.since(at).0 < ms;
        let opened_by_itself = self.has_approval_box() || matches!(self.modal, Some(Modal::Trust { .. }));
        let follows = recent(self.last_typed, keys::TYPING_PAUSE_MS)
            && (opened_by_itself || self.last_typed_key == Some(key));
        let is_typed = matches!(key, KeyCode::Char(_)) && recent(self.previous_key_at, AT_ONCE_MS);
        let follows = follows || is_typed;
        let repeats = self.ignored_key.is_some_and(|(ignored, at)| ignored == key && recent(at, REPEAT_MS));
        if follows || repeats {
            self.ignored_key = Some((key, self.now));
            self.toast = Some("that key came too soon after other keys: press it again".into());
        }
        follows || repeats
    }

    /// Whether a text field of the dialog has the focus.
    pub(crate) fn box_field_has_focus(&self) -> bool {
        match &self.modal {
            Some(Modal::RunApproval { field, .. } | Modal::PlanApproval { field, .. }) => {
                *field != Field::Buttons
            }
            _ => false,
        }
    }

    /// Whether the input receives keys although a dialog is open.
    pub(crate) fn input_has_focus_under_box(&self) -> bool {
        self.has_approval_box()
            && !self.box_field_has_focus()
            && self.input_has_focus()
            && !self.input.is_empty()
    }

    /// A note for the dialog while keys do not act as the buttons of the dialog say.
    pub(crate) fn box_note(&self) -> Option<&'static str> {
        match &self.pending_letter {
            Some(PendingLetter { letter: 'a' | 'p', .. }) if !self.is_read() => None,
            Some(PendingLetter { letter: 'a', .. }) => Some("approves in a second"),
            Some(PendingLetter { letter: 'p', .. }) => Some("allows all in a second"),
            Some(PendingLetter { answers: true, .. }) => Some("cancels in a second"),
            _ if self.input_has_focus_under_box() => Some("enter sends your message"),
            _ => None,
        }
    }

    /// When the pending letter acts.
    pub fn due(&self) -> Option<Timestamp> {
        self.pending_letter.as_ref().map(|pending_letter| pending_letter.due)
    }

    /// Acts on the pending letter if its time has come.
    pub(crate) fn act_on_due_letter(&mut self) {
        if let Some(pending_letter) =
            self.pending_letter.take_if(|pending_letter| pending_letter.due <= self.now)
        {
            self.apply_letter(&pending_letter);
        }
    }

    /// Applies the letter to its dialog, or types it if the dialog is gone.
    fn apply_letter(&mut self, pending_letter: &PendingLetter) {
        if self.modal.as_ref().and_then(Modal::question) == Some(&pending_letter.question) {
            self.modal_key(press(pending_letter.letter));
        } else {
            self.type_into_input(press(pending_letter.letter));
        }
    }

    /// Types the pending letter into the input.
    pub(crate) fn type_pending_letter(&mut self) {
        if let Some(pending_letter) = self.pending_letter.take() {
            self.type_into_input(press(pending_letter.letter));
        }
    }

    fn type_into_input(&mut self, key: KeyEvent) {
        if self.input_has_focus() {
            self.note_typed();
            self.conversation_key(key);
        }
    }

    /// How long a letter shortcut waits (in ms), and whether the shortcut answers the question; None if the letter is
    /// not a shortcut of this dialog.
    fn shortcut_delay(&self, letter: char) -> Option<(u64, bool)> {
        match (&self.modal, letter) {
            (Some(Modal::RunApproval { .. } | Modal::Budget { .. }), 'a' | 'c') => Some((ALONE_MS, true)),
            (Some(Modal::EditApproval { .. }), 'a' | 'c' | 'p') => Some((ALONE_MS, true)),
            (Some(Modal::RunApproval { .. }), 'e' | 'm' | 'r') => Some((BRIEFLY_MS, false)),
            (Some(Modal::PlanApproval { .. }), 'a') => Some((ALONE_MS, true)),
            (Some(Modal::PlanApproval { .. }), 'c' | 'e' | 'i') => Some((BRIEFLY_MS, false)),
            _ => None,
        }
    }

    /// Handles a key while a dialog that opened by itself is open.
    pub(crate) fn approval_box_key(&mut self, key: KeyEvent) {
        if self.box_field_has_focus() {
            self.modal_key(key);
            // The key that ended the editing of a field does not also press a button.
            if !self.box_field_has_focus() {
                self.note_typed();
            }
            return;
        }
        let letter = match key.code {
            KeyCode::Char(letter) if !is_chord(key) => Some(letter),
            _ => None,
        };
        // The user could not see the dialog when pressing this key, so the key belongs to the input.
        if self.box_is_unseen {
            if letter.is_some() || !self.input.is_empty() {
                self.type_into_input(key);
            }
            return self.note_typed();
        }
        if matches!(key.code, KeyCode::PageUp | KeyCode::PageDown) {
            return self.modal_key(key);
        }
        if key.code == KeyCode::Esc && self.input.is_empty() && self.is_left_over() {
            return;
        }
        let recently = self.now.since(self.last_typed).0 < keys::TYPING_PAUSE_MS;
        // If the input does not have the focus, letters are shortcuts of the dialog at once, except right after a key
        // that went to the screen below.
        if !self.input_has_focus() {
            if letter.is_none() || !self.is_left_over() {
                self.modal_key(key);
            }
            return;
        }
        if let Some(pending_letter) = self.pending_letter.take() {
            match (letter, key.code) {
                // The same letter twice: the first one acts as a shortcut at once.
                (Some(next), _) if next == pending_letter.letter && !pending_letter.answers => {
                    self.apply_letter(&pending_letter)
                }
                (Some(_), _) => self.type_into_input(press(pending_letter.letter)),
                (None, KeyCode::Backspace | KeyCode::Esc) => {
                    if key.code == KeyCode::Backspace {
                        return;
                    }
                }
                // Any other key except Enter, such as one that moves the cursor, means that the user is typing.
                (None, code) if pending_letter.answers && code != KeyCode::Enter => {
                    self.type_into_input(press(pending_letter.letter));
                }
                (None, _) => {
                    self.apply_letter(&pending_letter);
                    if pending_letter.answers || !self.has_approval_box() || self.box_field_has_focus() {
                        return;
                    }
                }
            }
        }
        if self.input.is_empty() {
            return match letter {
                Some(letter) => self.hold_letter(letter),
                None => self.modal_key(key),
            };
        }
        match key.code {
            KeyCode::Esc if self.completion.is_none() && !recently => self.modal_key(key),
            KeyCode::Tab if self.completion.is_none() => self.modal_key(key),
            KeyCode::BackTab => {}
            _ => self.type_into_input(key),
        }
    }

    fn hold_letter(&mut self, letter: char) {
        let question = self.modal.as_ref().and_then(Modal::question).cloned();
        match (self.shortcut_delay(letter), question) {
            (Some((wait, answers)), Some(question)) => {
                let due = Timestamp(self.now.0 + wait);
                self.pending_letter = Some(PendingLetter { letter, question, due, answers });
            }
            _ => self.type_into_input(press(letter)),
        }
    }
}
