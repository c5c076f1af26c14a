//! Builds a reply from the chunks of a streamed response body; each provider's `read.rs` parses its events. No network
//! and no clock, so that any bytes, split anywhere, can be tested.

use crate::error::CallFailure;
use crate::partial_reply::StreamEnd;
use crate::sse::{SseItem, SseReader};
use crate::wire::{FinishedReply, StreamReader};
use althing_protocol::DeltaSink;

pub(crate) struct ReplyStream<R> {
    events: SseReader,
    reply: R,
}

impl<R: StreamReader> ReplyStream<R> {
    pub(crate) fn new(reply: R) -> Self {
        Self { events: SseReader::default(), reply }
    }

    /// Returns whether the chunk completed an event or a comment.
    pub(crate) fn take(&mut self, bytes: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<bool, CallFailure> {
        let mut moved = false;
        let reply = &mut self.reply;
        self.events.feed(bytes, |item| {
            moved = true;
            match item {
                // Data after the end marker is ignored even within one chunk, so that the result does not depend on
                // how the network splits the data.
                SseItem::Data(_) if reply.is_done() => Ok(()),
                SseItem::Data(data) => reply.event(data, on_delta),
                SseItem::Comment => Ok(()),
            }
        })?;
        Ok(moved)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.reply.is_done()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.reply.is_finished()
    }

    pub(crate) fn end(
        self,
        ended: StreamEnd,
        on_delta: &mut DeltaSink<'_>,
        input_estimate: u64,
    ) -> Result<FinishedReply, CallFailure> {
        let Self { events, mut reply } = self;
        if !reply.is_done()
            && let Some(rest) = events.finish()
        {
            // A truncated event does not parse; the reply is then finished without it.
            let _ = reply.event(&rest, on_delta);
        }
        reply.end(ended, input_estimate)
    }
}
