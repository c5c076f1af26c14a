//! Decides whether a key was meant for what it would act on. A dialog opens by itself, possibly while the user is
//! typing, and a program may end while the user types into its terminal. What was typed for something else never answers
//! a question: `App::answer`, which gives all answers of dialogs, asks `is_left_over` first.
//!
//! Below an approval dialog is the input. While the input contains text and has the focus, it receives the keys, except
//! `PgUp`, `PgDn`, Tab and, after a pause in typing, Esc.
//!
//! A key that was already held down when the dialog appeared does not answer it. Terminals report a held key as many
//! presses, so only a pause between two presses shows that the user let go.

use super::letters::{plain_letter, press};
use super::{App, Field, Modal, keys};
use althing_protocol::{InteractionId, Timestamp};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Presses of the same key within this many milliseconds count as a key that is held down. Keyboards repeat a held key
/// every 20 to 100 ms, after a first delay that is shorter than `TYPING_PAUSE_MS`.
const REPEAT_MS: u64 = 400;

/// A character that follows another key within this many milliseconds does not act as a shortcut of a dialog: it is
/// ignored, because the user is probably typing. A question that has been on the screen for a shorter time is unread.
const AT_ONCE_MS: u64 = 400;

pub(crate) const TOO_SOON: &str = "that key came too soon after other keys: press it again";

/// The question in the last frame, and when it appeared there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnQuestion {
    in_dialog: bool,
    id: InteractionId,
    at: Timestamp,
}

/// A character with Ctrl or Alt is never a letter shortcut.
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

    pub(crate) fn question_in_box(&self) -> Option<&InteractionId> {
        self.modal.as_ref().filter(|_| self.has_approval_box()).and_then(Modal::question)
    }

    /// Records that the user typed just now: outside a dialog or in a text field of an approval dialog, or with a key that
    /// has just answered a dialog. Keys that follow at once must not answer the next question.
    pub(crate) fn note_typed(&mut self) {
        (self.last_typed, self.last_typed_key) = (self.now, self.current_key);
    }

    /// The question that the screen asks, and whether in a dialog. Without a dialog, it is the override of a vote, which
    /// Enter declines.
    fn question_on_screen(&self) -> Option<(bool, &InteractionId)> {
        match &self.modal {
            Some(modal) => modal.question().map(|id| (true, id)),
            None => self.model.override_question().map(|question| (false, &question.interaction.id)),
        }
    }

    /// Records which question the new frame shows.
    pub(crate) fn note_drawn_question(&mut self) {
        let question = self.question_on_screen();
        if question != self.drawn_question.as_ref().map(|drawn| (drawn.in_dialog, &drawn.id)) {
            self.drawn_question =
                question.map(|(in_dialog, id)| DrawnQuestion { in_dialog, id: id.clone(), at: self.now });
        }
    }

    /// Nobody has read a question that is not on the screen, or appeared just now.
    fn is_unread(&self) -> bool {
        self.question_on_screen().is_some_and(|question| match &self.drawn_question {
            Some(drawn) => {
                (drawn.in_dialog, &drawn.id) != question || self.now.since(drawn.at).0 < AT_ONCE_MS
            }
            None => true,
        })
    }

    /// Records a character that means nothing to the open dialog or panel: the user is typing a text, so the keys that
    /// follow without a pause belong to that text.
    pub(crate) fn note_stray(&mut self, key: KeyEvent) {
        if matches!(key.code, KeyCode::Char(_)) && !is_chord(key) {
            self.stray_key = Some((key.code, self.now));
        }
    }

    /// Whether the current key follows a stray character without a pause. The stray key itself may be pressed again.
    pub(crate) fn follows_stray(&self, key: KeyCode) -> bool {
        self.stray_key.is_some_and(|(stray, at)| stray != key && self.now.since(at).0 < keys::TYPING_PAUSE_MS)
    }

    /// Whether a key that would act on an opened panel belongs to a text that is being typed; then a message is shown.
    pub(crate) fn is_stray_in_panel(&mut self, key: KeyEvent) -> bool {
        let acts = matches!(key.code, KeyCode::Char(_) | KeyCode::Enter) && !is_chord(key);
        let is_stray = acts && self.follows_stray(key.code);
        if is_stray {
            self.note_stray(key);
            self.toast = Some(if self.has_input() {
                "letters are commands here · tab to write a message".into()
            } else {
                TOO_SOON.into()
            });
        }
        is_stray
    }

    /// Whether Enter in an empty input came too soon to be meant for the vote; then a message says so.
    pub(crate) fn is_enter_left_over(&mut self) -> bool {
        let is_left_over = self.current_key.is_some()
            && (self.is_unread() || self.now.since(self.previous_key_at).0 < keys::TYPING_PAUSE_MS);
        if is_left_over {
            self.toast = Some(TOO_SOON.into());
        }
        is_left_over
    }

    /// Whether the current key or click came too soon to be meant for the open dialog; then a message says so. In a
    /// dialog that opened by itself, these are keys and clicks that follow others without a pause; in other dialogs,
    /// the key that opened it. In every dialog, these keys come too soon: letters and digits that are typed fast, keys
    /// that follow a stray character, keys that are pressed before the question was on the screen for [`AT_ONCE_MS`],
    /// and an ignored key that is still held down. While a text field of the dialog has the focus, no key comes too
    /// soon.
    pub(crate) fn is_left_over(&mut self) -> bool {
        // The user opens other dialogs with a click, and may answer them with a second click at once.
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
        let follows = follows || is_typed || self.is_unread() || self.follows_stray(key);
        let repeats = self.ignored_key.is_some_and(|(ignored, at)| ignored == key && recent(at, REPEAT_MS));
        if follows || repeats {
            self.ignored_key = Some((key, self.now));
            self.toast = Some(TOO_SOON.into());
            if matches!(key, KeyCode::Char(_)) {
                self.stray_key = Some((key, self.now));
            }
        }
        follows || repeats
    }

    pub(crate) fn box_field_has_focus(&self) -> bool {
        match &self.modal {
            Some(Modal::RunApproval { field, .. } | Modal::PlanApproval { field, .. }) => {
                *field != Field::Buttons
            }
            _ => false,
        }
    }

    pub(crate) fn input_has_focus_under_box(&self) -> bool {
        self.has_approval_box()
            && !self.box_field_has_focus()
            && self.input_has_focus()
            && !self.input.is_empty()
    }

    /// Whether the current key was pressed just before, too, and may have been held down since.
    pub(crate) fn is_repeated(&self) -> bool {
        let same =
            |one: &KeyEvent, other: &KeyEvent| (one.code, one.modifiers) == (other.code, other.modifiers);
        self.current_key.is_some()
            && self.now.since(self.previous_key_at).0 < keys::TYPING_PAUSE_MS
            && self.previous_key.zip(self.last_key).is_some_and(|(one, other)| same(&one, &other))
    }

    pub(crate) fn approval_box_key(&mut self, key: KeyEvent) {
        if self.box_field_has_focus() {
            self.modal_key(key);
            // The next key must not press a button or, if the question was closed meanwhile, answer the next question.
            self.note_stray(key);
            return self.note_typed();
        }
        let letter = plain_letter(key);
        // The dialog was not drawn yet when the user pressed this key, so the key belongs to the input.
        if self.box_is_unseen {
            if letter.is_some() || !self.input.is_empty() {
                self.type_into_input(key);
            }
            return self.note_typed();
        }
        if matches!(key.code, KeyCode::PageUp | KeyCode::PageDown) {
            return self.modal_key(key);
        }
        let leaves_text = matches!(key.code, KeyCode::Esc | KeyCode::Tab) && self.input.is_empty();
        if leaves_text && self.is_left_over() {
            return;
        }
        let recently = self.now.since(self.last_typed).0 < keys::TYPING_PAUSE_MS;
        if !self.input_has_focus() && letter.is_some() && self.is_left_over() {
            self.pending_letter = None;
            return;
        }
        if let Some(pending_letter) = self.pending_letter.take() {
            match (letter, key.code) {
                (Some(next), _) if next == pending_letter.letter && !pending_letter.answers() => {
                    self.apply_letter(&pending_letter)
                }
                (Some(_), _) => self.type_into_input(press(pending_letter.letter)),
                (None, KeyCode::Backspace | KeyCode::Esc) => {
                    if key.code == KeyCode::Backspace {
                        return;
                    }
                }
                // Keys such as those that move the cursor mean that the user is typing.
                (None, code) if pending_letter.answers() && code != KeyCode::Enter => {
                    self.type_into_input(press(pending_letter.letter));
                }
                (None, _) => {
                    self.apply_letter(&pending_letter);
                    if pending_letter.answers() || !self.has_approval_box() || self.box_field_has_focus() {
                        return;
                    }
                }
            }
        }
        // Without the focus, the input keeps its text and gets no keys.
        if self.input.is_empty() || !self.input_has_focus() {
            return match letter {
                Some(letter) if self.hold_letter(letter) => {}
                Some(letter) => self.type_into_input(press(letter)),
                None => self.modal_key(key),
            };
        }
        match key.code {
            KeyCode::Esc if self.completion.is_none() && !recently => self.modal_key(key),
            // Tab moves the focus to a field of the dialog, where Enter would answer the question. So a Tab that
            // follows other keys at once is ignored.
            KeyCode::Tab if self.completion.is_none() => {
                if !self.is_left_over() {
                    self.modal_key(key);
                }
            }
            KeyCode::BackTab => {}
            _ => self.type_into_input(key),
        }
    }
}
