//! A reply that is being written, the messages that wait for its end, and a sent message that is edited.

use super::{App, TuiScreen};
use althing_protocol::{ChatState, Op, Seq};
use althing_view::EntryBody;
use crossterm::event::KeyCode;

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

    /// The messages that wait for the end of the reply go back to the input, because the user who stops a reply decides
    /// what is sent next.
    pub(crate) fn stop_reply(&mut self) {
        let queued: Vec<(Seq, String)> = self
            .model
            .queue
            .iter()
            .map(|queued| (queued.seq, self.editable(&queued.text, queued.sent.as_deref())))
            .collect();
        if !queued.is_empty() {
            let draft = Some(self.input.whole()).filter(|draft| !draft.is_empty());
            let texts: Vec<String> = queued.iter().map(|(_, text)| text.clone()).chain(draft).collect();
            self.put_into_input(&texts.join("\n\n"));
            self.selected_queued = None;
            self.toast = Some("what was queued is in the input: enter sends it".into());
        }
        // They are withdrawn first, so that none of them starts a turn when the reply has stopped.
        for (message, _) in queued {
            self.submit(Op::Unqueue { message });
        }
        self.submit(Op::StopReply);
        self.scroll.go_end();
    }

    /// The selected queued message, as an index into the queue.
    pub(crate) fn selected_queued(&self) -> Option<usize> {
        let selected = self.selected_queued?;
        self.model.queue.iter().position(|queued| queued.seq == selected)
    }

    /// Removes the selected queued message; without a selection, the newest.
    pub(crate) fn unqueue(&mut self) {
        let at = self.selected_queued().or_else(|| self.model.queue.len().checked_sub(1));
        let queued = at.and_then(|at| self.model.queue.get(at)).map(|queued| queued.seq);
        if let Some(message) = queued {
            // The one before it is selected next, so that several can be removed.
            let next = self.selected_queued.and(at).map(|at| at.saturating_sub(1));
            self.selected_queued = next.and_then(|at| self.model.queue.get(at)).map(|queued| queued.seq);
            self.selected_queued.take_if(|selected| *selected == message);
            self.submit(Op::Unqueue { message });
        }
    }

    /// Handles a key that selects, edits or leaves a queued message, while the input is empty. Returns false if the key
    /// does something else.
    pub(crate) fn queue_key(&mut self, code: KeyCode) -> bool {
        let waits = self.input.is_empty() && self.model.queue_waits_for().is_some() && !self.options.replay;
        let selected = self.selected_queued().filter(|_| waits);
        if selected.is_none() {
            self.selected_queued = None;
        }
        let last = self.model.queue.len().checked_sub(1).filter(|_| waits);
        let next = match (code, selected, last) {
            (KeyCode::Up, None, Some(last)) => Some(last),
            (KeyCode::Up, Some(at), _) => Some(at.saturating_sub(1)),
            (KeyCode::Down, Some(at), Some(last)) if at < last => Some(at + 1),
            (KeyCode::Down | KeyCode::Esc, Some(_), _) => None,
            (KeyCode::Enter, Some(at), _) => {
                self.edit_queued(at);
                None
            }
            _ => {
                if code != KeyCode::Delete {
                    self.selected_queued = None;
                }
                return false;
            }
        };
        self.selected_queued = next.and_then(|at| self.model.queue.get(at)).map(|queued| queued.seq);
        true
    }

    /// Moves a queued message into the input, so that the user can change it.
    fn edit_queued(&mut self, at: usize) {
        let Some(queued) = self.model.queue.get(at) else { return };
        let (message, text) = (queued.seq, self.editable(&queued.text, queued.sent.as_deref()));
        self.submit(Op::Unqueue { message });
        self.put_into_input(&text);
    }

    /// The text to edit: the typed text, if its mentions still mean the paths that were sent. After a resume from another
    /// directory, they may not.
    fn editable(&self, typed: &str, sent: Option<&str>) -> String {
        match sent {
            Some(sent) if self.host.mentions(typed).0 != sent => sent.to_owned(),
            _ => typed.to_owned(),
        }
    }

    /// Puts a message of the conversation into the input, to send it again in a branch of the conversation.
    pub(crate) fn edit_sent(&mut self, at: usize) {
        let Some((seq, text)) = self.model.entries.get(at).and_then(|entry| match &entry.body {
            EntryBody::User { text, sent, .. } => Some((entry.seq, self.editable(text, sent.as_deref()))),
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
            self.stop_browsing();
            self.put_into_input(&text);
            self.resending = Some(seq);
        }
    }

    /// Stops editing an earlier message. Returns false if none is edited.
    pub(crate) fn stop_resending(&mut self) -> bool {
        let was_edited = self.resending.is_some();
        if was_edited {
            self.clear_input();
        }
        was_edited
    }
}
