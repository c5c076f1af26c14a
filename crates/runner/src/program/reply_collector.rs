//! Streams the messages of a CLI agent and collects its reply.

use super::excerpt::OutputExcerpt;
use super::pipes::ProgramEvent;
use super::troubles::ReportedTroubles;
use super::unfinished_turn::UnfinishedTurn;
use crate::adapter::OutputEvent;
use althing_protocol::{Delta, DeltaSink, Item, LateNotices, ModelRequest};

pub(super) struct ReplyCollector<'a> {
    turn: &'a mut UnfinishedTurn,
    on_delta: DeltaSink<'a>,
    pub(super) native: Option<String>,
    pub(super) text: String,
    model_has_replied: bool,
    has_streamed: bool,
    /// The streamed text, used if the program sends no complete message.
    pub(super) streamed_text: OutputExcerpt,
    kind: &'static str,
    notices: LateNotices,
    /// The tool and the arguments of the last call that failed in the program.
    pub(super) failed_call: Option<(String, String)>,
    pub(super) trouble: Option<String>,
    troubles: ReportedTroubles,
}

impl<'a> ReplyCollector<'a> {
    pub(super) fn new(
        request: &ModelRequest,
        native: Option<&str>,
        kind: &'static str,
        turn: &'a mut UnfinishedTurn,
        on_delta: DeltaSink<'a>,
    ) -> Self {
        let notices = request.call_context.as_ref().map(|context| context.late_notices.clone());
        Self {
            turn,
            on_delta,
            native: native.map(str::to_owned),
            text: String::new(),
            model_has_replied: false,
            has_streamed: false,
            streamed_text: OutputExcerpt::default(),
            kind,
            notices: notices.unwrap_or_default(),
            failed_call: None,
            trouble: None,
            troubles: ReportedTroubles::default(),
        }
    }

    pub(super) fn on_event(&mut self, event: ProgramEvent<'_>) {
        self.model_has_replied |= matches!(
            &event,
            ProgramEvent::Parsed(
                OutputEvent::TextDelta(_)
                    | OutputEvent::ModelReplies
                    | OutputEvent::Item(Item::Said { .. } | Item::Did { .. })
            )
        );
        match event {
            ProgramEvent::Parsed(OutputEvent::TextDelta(piece)) => {
                self.has_streamed = true;
                (self.on_delta)(Delta::Text(&piece));
                self.streamed_text.push(&piece);
            }
            ProgramEvent::Parsed(OutputEvent::Item(Item::Said { text })) => {
                if !self.has_streamed {
                    (self.on_delta)(Delta::Text(&text));
                    (self.on_delta)(Delta::Text("\n"));
                }
                self.text = text;
            }
            ProgramEvent::Parsed(OutputEvent::Trouble(trouble)) => {
                if let Some(notice) = self.troubles.notice(self.kind, trouble.text.clone()) {
                    self.notices.add(notice);
                }
                self.trouble = Some(trouble.text);
            }
            ProgramEvent::Parsed(OutputEvent::FailedCall { tool, arguments }) => {
                self.failed_call = Some((tool, arguments));
            }
            ProgramEvent::Parsed(OutputEvent::Item(Item::Conversation { id })) => self.native = Some(id),
            // A model that reasons or uses tools is not silent, even if it writes no text for a long time.
            ProgramEvent::Parsed(OutputEvent::ModelReplies) => (self.on_delta)(Delta::Reasoning("")),
            ProgramEvent::Parsed(OutputEvent::Item(Item::Did { tool, .. })) => {
                (self.on_delta)(Delta::ToolCall(&tool));
            }
            ProgramEvent::Parsed(OutputEvent::Item(_))
            | ProgramEvent::Output(..)
            | ProgramEvent::PromptSent(_)
            | ProgramEvent::Waiting(_)
            | ProgramEvent::MovedOn => {}
        }
        if let Some(conversation) = self.native.as_deref().filter(|_| self.model_has_replied) {
            self.turn.begun(conversation);
        }
    }
}
