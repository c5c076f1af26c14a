//! How much of an open dialog was on the screen. A dialog can be answered with a grant only after everything that it
//! grants was shown.
//!
//! Only drawing a frame marks rows as shown, and scrolling never skips a row that was not shown. So keys that arrive
//! before the next frame cannot grant what is further down.

use super::{App, Modal, PickerAction};
use crate::line::Line;
use althing_protocol::InteractionId;
use crossterm::event::{KeyCode, KeyEvent};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub(crate) struct DialogReading {
    /// A hash of what the drawn dialog would grant.
    subject: u64,
    /// A hash of the drawn lines. If the text or the width changes, no row counts as shown any more.
    content: u64,
    top: usize,
    /// How many rows, counted from the first, were shown without a gap.
    seen: usize,
    /// How many rows, counted from the first, must be shown before a grant.
    needed: usize,
    rows: usize,
    /// How many rows fit on the screen; 0 if the window is too small for a whole row.
    room: usize,
    revealed: Option<usize>,
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HiddenRows {
    pub(crate) above: usize,
    pub(crate) below: usize,
    pub(crate) unread: bool,
    pub(crate) refused: bool,
}

fn hashed(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Modal {
    /// A hash of what the modal would grant: the question and, for a run, the launch as edited; for a confirmation, the
    /// action; for the picker of sessions, the session that would be deleted.
    pub(crate) fn subject(&self) -> u64 {
        match self {
            Self::RunApproval { id, edited, .. } => hashed((id.as_str(), format!("{edited:?}"))),
            Self::Confirm(action) => hashed(format!("{action:?}")),
            Self::Trust { would } => hashed(would),
            Self::Sessions(picker) => {
                let deletes = picker.action == PickerAction::Delete;
                hashed((deletes, picker.selected().map(|entry| entry.id.as_str())))
            }
            _ => hashed(self.question().map(InteractionId::as_str)),
        }
    }

    fn scrolls(&self) -> bool {
        match self {
            Self::RunApproval { .. }
            | Self::PlanApproval { .. }
            | Self::EditApproval { .. }
            | Self::Program { .. }
            | Self::Interrupted { .. }
            | Self::Budget { .. }
            | Self::Trust { .. }
            | Self::Confirm(_) => true,
            Self::Override { .. }
            | Self::Sessions(_)
            | Self::Pick { .. }
            | Self::Problems
            | Self::Cost
            | Self::Agents
            | Self::Help => false,
        }
    }
}

impl DialogReading {
    /// Records a frame and returns the range of rows to draw, at most `room`. The first `needed` lines must be shown
    /// before a grant. `follow` is a row that has to be visible, such as the row of the cursor. While the user edits a
    /// part of the text (`edits`), no row counts as shown.
    pub(crate) fn show(
        &mut self,
        modal: &Modal,
        lines: &[Line],
        needed: usize,
        room: usize,
        (follow, edits): (Option<usize>, bool),
    ) -> Range<usize> {
        let content = hashed(lines.iter().map(Line::text).collect::<Vec<_>>());
        if (self.subject, self.content) != (modal.subject(), content) {
            *self = Self { subject: modal.subject(), content, ..Self::default() };
        }
        (self.needed, self.rows, self.room) = (needed, lines.len(), room);
        if let Some(row) = follow.filter(|row| edits || self.revealed != Some(*row)) {
            self.top = self.top.min(row).max((row + 1).saturating_sub(room));
            self.revealed = Some(row);
        }
        if !edits {
            self.top = self.top.min(self.seen).min(self.rows.saturating_sub(room));
            self.seen = self.seen.max(self.top + room);
        }
        self.top..(self.top + room).min(self.rows)
    }

    /// Scrolls, but never past a row that was not shown yet.
    fn scroll(&mut self, rows: isize) {
        self.refused = false;
        let last = self.rows.saturating_sub(self.room).min(self.seen);
        self.top = self.top.saturating_add_signed(rows).min(last);
    }

    pub(crate) fn hidden(&self) -> HiddenRows {
        HiddenRows {
            above: self.top,
            below: self.rows.saturating_sub(self.top + self.room),
            unread: self.seen < self.needed,
            refused: self.refused,
        }
    }
}

impl App {
    pub(crate) fn is_read(&self) -> bool {
        let subject = self.modal.as_ref().map(Modal::subject);
        subject == Some(self.reading.subject) && self.reading.seen >= self.reading.needed.max(1)
    }

    /// Whether a grant may be given now. If not, the dialog or a message says why.
    pub(crate) fn may_grant(&mut self) -> bool {
        let is_left_over = self.is_left_over();
        let is_read = self.is_read();
        self.reading.refused = !is_read;
        is_read && !is_left_over
    }

    pub(crate) fn scroll_dialog(&mut self, rows: isize) -> bool {
        let scrolls = self.modal.as_ref().is_some_and(Modal::scrolls);
        if scrolls {
            self.reading.scroll(rows);
        }
        scrolls
    }

    pub(crate) fn dialog_scroll_key(&mut self, key: KeyEvent) -> bool {
        let page = isize::try_from(self.reading.room.saturating_sub(1).max(1)).unwrap_or(1);
        let all = isize::try_from(self.reading.rows).unwrap_or(isize::MAX);
        let edits = self.box_field_has_focus();
        // After a program's question was shown whole, the arrow keys choose one of its options.
        let chooses = matches!(&self.modal, Some(Modal::Program { ask, .. }) if !ask.options.is_empty());
        let arrows = !(edits || chooses && self.is_read());
        match key.code {
            KeyCode::PageUp => self.scroll_dialog(-page),
            KeyCode::PageDown => self.scroll_dialog(page),
            KeyCode::Home if !edits => self.scroll_dialog(-all),
            KeyCode::End if !edits => self.scroll_dialog(all),
            KeyCode::Up if arrows => self.scroll_dialog(-1),
            KeyCode::Down if arrows => self.scroll_dialog(1),
            _ => false,
        }
    }
}
