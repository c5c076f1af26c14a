//! Stopping a reply of the chat agent, and the messages that wait until the reply ends.

use super::{App, TuiScreen};
use althing_protocol::Op;

impl App {
    /// Esc stops the chat agent's reply only if there is nothing that Esc would close. It never stops a run.
    pub(crate) fn esc_stops_reply(&self) -> bool {
        let is_conversation = matches!(self.screens.last(), Some(TuiScreen::Conversation) | None);
        is_conversation
            && self.modal.is_none()
            && self.completion.is_none()
            && !self.browsing
            && !self.options.replay
            && self.model.can_stop_reply()
    }

    pub(crate) fn stop_reply(&mut self) {
        self.submit(Op::StopReply);
        self.scroll.go_end();
    }

    pub(crate) fn unqueue_newest(&mut self) {
        if let Some(message) = self.model.queue.last().map(|queued| queued.seq) {
            self.submit(Op::Unqueue { message });
        }
    }

    /// Moves the newest queued message into the empty input, so that the user can change it. Returns false if there is
    /// none, if the input is not empty, or in a recording.
    pub(crate) fn edit_queued(&mut self) -> bool {
        let waits = self.input.is_empty() && self.model.queue_waits_for().is_some() && !self.options.replay;
        let Some(queued) = self.model.queue.last().filter(|_| waits) else { return false };
        let (message, sent) = (queued.seq, queued.text.clone());
        // The sent text may have expanded paths instead of the typed `@path`, which grants access.
        let typed = self.sent_as.iter().rev().find(|(text, _)| *text == sent).map(|(_, typed)| typed.clone());
        self.submit(Op::Unqueue { message });
        self.input.set(&typed.unwrap_or(sent));
        true
    }
}
