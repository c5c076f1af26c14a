//! A reply that is being written, the messages that wait for its end, and a sent message that is edited.

use super::{App, TuiScreen};
use althing_protocol::{ChatState, Op, Seq};
use althing_view::EntryBody;

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
        self.submit(Op::Unqueue { message });
        let typed = self.typed_text(sent);
        self.input.set(&typed);
        true
    }

    /// The text as it was typed: the sent text may name paths instead of the `@path` that grants access. What was typed
    /// in an earlier process is not known.
    fn typed_text(&self, sent: String) -> String {
        let typed = self.sent_as.iter().rev().find(|(text, _)| *text == sent).map(|(_, typed)| typed.clone());
        typed.unwrap_or(sent)
    }

    /// Puts a message of the conversation into the input, to send it again in a branch of the conversation.
    pub(crate) fn edit_sent(&mut self, at: usize) {
        let Some((seq, sent)) = self.model.entries.get(at).and_then(|entry| match &entry.body {
            EntryBody::User { text, .. } => Some((entry.seq, text.clone())),
            _ => None,
        }) else {
            self.toast = Some("only your own messages can be edited".into());
            return;
        };
        if seq == Seq(0) {
            self.toast = Some("this message is of an earlier session: /sessions opens it".into());
        } else if self.options.replay || self.options.workflow {
            self.toast = Some("this can only be shown".into());
        } else if self.model.is_busy() || self.model.state != ChatState::Idle {
            self.toast = Some("agents are working: stop them or wait, then edit the message".into());
        } else if !self.input.is_empty() {
            self.toast = Some("send or clear what you have written first".into());
        } else {
            let typed = self.typed_text(sent);
            self.stop_browsing();
            self.input.set(&typed);
            self.resending = Some(seq);
        }
    }

    /// Stops editing an earlier message. Returns false if none is edited.
    pub(crate) fn stop_resending(&mut self) -> bool {
        let was_edited = self.resending.take().is_some();
        if was_edited {
            self.input.clear();
        }
        was_edited
    }
}
