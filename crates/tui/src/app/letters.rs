//! Letters and digits that are shortcuts of a dialog or of the conversation. They act only if no other letter follows
//! within a short time (Enter makes them act at once): otherwise they begin a text, which goes into the input if the
//! input has the focus. So no sentence answers a question.

use super::dialog_typing::is_chord;
use super::{App, Modal, PickerAction};
use althing_protocol::Timestamp;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A shortcut letter that answers the question acts after this many milliseconds, unless another letter follows.
const ALONE_MS: u64 = 1000;

/// A shortcut letter that only changes or closes the dialog acts after this many milliseconds, unless another letter
/// follows.
const BRIEFLY_MS: u64 = 500;

/// What a shortcut letter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LetterEffect {
    /// Answers, but only after everything that it grants was shown.
    Grants,
    Answers,
    /// Changes the dialog, or opens a field or a program.
    Changes,
}

/// A shortcut letter of the open dialog or of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shortcut {
    effect: LetterEffect,
    wait: u64,
    /// What the dialog says while the letter waits; may be empty.
    note: &'static str,
}

/// What a pending letter acts on, unless it is the start of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActsOn {
    /// The dialog with this `Modal::subject`.
    Dialog(u64),
    /// The selected entry of the conversation.
    Entry(usize),
    /// Nothing: it came too soon.
    Nothing,
}

/// A letter that is either a shortcut or the start of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLetter {
    pub(crate) letter: char,
    acts_on: ActsOn,
    due: Timestamp,
    shortcut: Shortcut,
}

impl PendingLetter {
    pub(crate) fn answers(&self) -> bool {
        self.shortcut.effect != LetterEffect::Changes
    }
}

pub fn press(letter: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE)
}

/// The character of a key without Ctrl and Alt.
pub fn plain_letter(key: KeyEvent) -> Option<char> {
    match key.code {
        KeyCode::Char(letter) if !is_chord(key) => Some(letter),
        _ => None,
    }
}

impl App {
    pub(crate) fn box_note(&self) -> Option<&'static str> {
        match self.pending_letter.as_ref().filter(|pending| pending.acts_on != ActsOn::Nothing) {
            Some(PendingLetter { shortcut: Shortcut { effect: LetterEffect::Grants, .. }, .. })
                if !self.is_read() =>
            {
                None
            }
            Some(PendingLetter { shortcut: Shortcut { note, .. }, .. }) if !note.is_empty() => Some(note),
            _ if self.input_has_focus_under_box() => Some("enter sends your message"),
            _ => None,
        }
    }

    pub fn due(&self) -> Option<Timestamp> {
        let letter = self.pending_letter.as_ref().map(|pending_letter| pending_letter.due);
        letter.into_iter().chain(self.notice_due()).min()
    }

    pub(crate) fn act_on_due_letter(&mut self) {
        if let Some(pending_letter) =
            self.pending_letter.take_if(|pending_letter| pending_letter.due <= self.now)
        {
            self.apply_letter(&pending_letter);
        }
    }

    pub(crate) fn apply_letter(&mut self, pending_letter: &PendingLetter) {
        let letter = press(pending_letter.letter);
        match pending_letter.acts_on {
            ActsOn::Dialog(subject) if self.modal.as_ref().map(Modal::subject) == Some(subject) => {
                self.modal_key(letter);
            }
            ActsOn::Entry(at) if self.modal.is_none() && self.browsing && self.selected_entry() == at => {
                self.entry_key(letter.code, at);
            }
            ActsOn::Entry(_) | ActsOn::Nothing => {}
            ActsOn::Dialog(_) => self.type_into_input(letter),
        }
    }

    /// Decides what becomes of a pending letter when the next key is pressed and no dialog is open. Returns true if the
    /// key needs no further handling.
    pub(crate) fn settle_pending_letter(&mut self, key: KeyEvent) -> bool {
        let Some(pending_letter) = self.pending_letter.take() else { return false };
        if !matches!(pending_letter.acts_on, ActsOn::Entry(_)) {
            // Its dialog is gone.
            self.type_into_input(press(pending_letter.letter));
            return false;
        }
        match (plain_letter(key), key.code) {
            (Some(_), _) => {
                self.stop_browsing();
                self.type_into_input(press(pending_letter.letter));
                false
            }
            (None, KeyCode::Backspace) => true,
            (None, KeyCode::Esc) => false,
            (None, code) => {
                let screens = self.screens.len();
                self.apply_letter(&pending_letter);
                code == KeyCode::Enter
                    || self.modal.is_some()
                    || !self.browsing
                    || screens != self.screens.len()
            }
        }
    }

    /// A letter acts on the selected entry of the conversation only if no other letter follows.
    pub(crate) fn hold_entry_letter(&mut self, letter: char, at: usize) {
        let shortcut = Shortcut { effect: LetterEffect::Changes, wait: BRIEFLY_MS, note: "" };
        let due = Timestamp(self.now.0 + shortcut.wait);
        self.pending_letter = Some(PendingLetter { letter, acts_on: ActsOn::Entry(at), due, shortcut });
    }

    pub(crate) fn type_pending_letter(&mut self) {
        if let Some(pending_letter) = self.pending_letter.take() {
            self.type_into_input(press(pending_letter.letter));
        }
    }

    pub(crate) fn type_into_input(&mut self, key: KeyEvent) {
        if self.input_has_focus() {
            self.note_typed();
            self.conversation_key(key);
        } else {
            self.note_stray(key);
        }
    }

    /// What the letter does in the open dialog. `None` if the letter is no shortcut of this dialog, or only moves
    /// something.
    fn shortcut(&self, letter: char) -> Option<Shortcut> {
        use LetterEffect::{Answers, Changes, Grants};
        let (effect, wait, note) = match (self.modal.as_ref()?, letter) {
            (
                Modal::RunApproval { .. }
                | Modal::Budget { .. }
                | Modal::EditApproval { .. }
                | Modal::PlanApproval { .. },
                'a',
            ) => (Grants, ALONE_MS, "approves in a second"),
            (Modal::EditApproval { .. }, 'p') => (Grants, ALONE_MS, "allows all in a second"),
            (Modal::RunApproval { .. } | Modal::Budget { .. } | Modal::EditApproval { .. }, 'c') => {
                (Answers, ALONE_MS, "cancels in a second")
            }
            (Modal::RunApproval { .. }, 'e' | 'm' | 'r') => (Changes, BRIEFLY_MS, ""),
            // These letters wait as long as an answer does, because in the fields that `c` and `i` open, Enter answers
            // the question.
            (Modal::PlanApproval { .. }, 'c' | 'e' | 'i') => (Changes, ALONE_MS, ""),
            (Modal::Confirm(_), 'y') => (Grants, ALONE_MS, "confirms in a second"),
            (Modal::Confirm(_), 'n') => (Answers, BRIEFLY_MS, ""),
            (Modal::Trust { .. }, 'o') => (Grants, ALONE_MS, "once in a second"),
            (Modal::Trust { .. }, 'a') => (Grants, ALONE_MS, "always in a second"),
            (Modal::Trust { .. }, 'n' | 'q') => (Answers, ALONE_MS, "declines in a second"),
            (Modal::Program { ask, .. }, 'a' | '1') if ask.options.is_empty() => {
                (Changes, ALONE_MS, "opens it in a second")
            }
            (Modal::Program { ask, .. }, 'a' | '1'..='9') => {
                let number = letter.to_digit(10).unwrap_or(1) as usize;
                ask.options.get(number - 1)?;
                (Grants, ALONE_MS, "answers in a second")
            }
            (Modal::Interrupted { .. }, 'a') => (Grants, ALONE_MS, "starts over in a second"),
            (Modal::Interrupted { .. }, 'f') => (Answers, ALONE_MS, "failed in a second"),
            (Modal::Sessions(picker), 'y') if picker.action == PickerAction::Delete => {
                (Answers, ALONE_MS, "deletes it in a second")
            }
            _ => return None,
        };
        Some(Shortcut { effect, wait, note })
    }

    /// Passes a key to the open dialog.
    pub(crate) fn dialog_key(&mut self, key: KeyEvent) {
        if self.has_approval_box() {
            return self.approval_box_key(key);
        }
        let letter = plain_letter(key);
        if let Some(pending_letter) = self.pending_letter.take() {
            match (letter, key.code) {
                (Some(_), _) => return self.type_on(&pending_letter, key),
                (None, KeyCode::Enter) if pending_letter.acts_on != ActsOn::Nothing => {
                    return self.apply_letter(&pending_letter);
                }
                (None, KeyCode::Backspace) => return,
                (None, _) => {}
            }
        }
        if !letter.is_some_and(|letter| self.hold_letter(letter)) {
            self.modal_key(key);
        }
    }

    /// The user typed on after a letter that would have answered a dialog: it was the start of a text.
    fn type_on(&mut self, pending_letter: &PendingLetter, key: KeyEvent) {
        let is_confirmation = matches!(self.modal, Some(Modal::Confirm(_)));
        if is_confirmation {
            self.modal = None;
        } else if matches!(self.modal, Some(Modal::Sessions(_))) {
            return self.modal_key(key);
        }
        if is_confirmation && self.input_has_focus() {
            self.type_into_input(press(pending_letter.letter));
            self.on_key(key);
        } else {
            self.note_stray(press(pending_letter.letter));
            self.note_stray(key);
        }
    }

    /// Holds a shortcut letter back until it is clear that it begins no text. Returns false if the letter is no shortcut
    /// of the open dialog.
    pub(crate) fn hold_letter(&mut self, letter: char) -> bool {
        let Some(shortcut) = self.shortcut(letter) else { return false };
        let is_confirmation = matches!(self.modal, Some(Modal::Confirm(_)));
        let refuses_unread = matches!(self.modal, Some(Modal::Program { .. } | Modal::Trust { .. }));
        if refuses_unread && shortcut.effect == LetterEffect::Grants && !self.is_read() {
            // Not held back, so that the dialog says at once what must be read before this letter acts.
            return false;
        }
        // Above the input, the next letters show whether an approval dialog is meant. Any letter may close a
        // confirmation.
        let never_too_soon = self.has_approval_box() && self.input_has_focus()
            || is_confirmation && shortcut.effect == LetterEffect::Answers;
        let is_left_over = !never_too_soon && self.is_left_over();
        let begins_message = is_confirmation && self.input_has_focus();
        if is_left_over && !begins_message {
            return true;
        }
        let subject = self.modal.as_ref().map(Modal::subject).filter(|_| !is_left_over);
        let acts_on = subject.map_or(ActsOn::Nothing, ActsOn::Dialog);
        let due = Timestamp(self.now.0 + shortcut.wait);
        self.pending_letter = Some(PendingLetter { letter, acts_on, due, shortcut });
        true
    }
}
