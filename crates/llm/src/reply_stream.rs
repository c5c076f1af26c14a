//! Builds a reply from the chunks of a response body.
//!
//! No network and no clock, so that any bytes, split anywhere, can be tested. Data after the end of a reply never
//! changes that reply.

use crate::error::CallFailure;
use crate::partial_reply::StreamEnd;
use crate::sse::{SseItem, SseReader};
use crate::wire::{FinishedReply, StreamReader};
use althing_protocol::DeltaSink;

/// One stream being read.
pub(crate) struct ReplyStream<R> {
    events: SseReader,
    reply: R,
}

impl<R: StreamReader> ReplyStream<R> {
    pub(crate) fn new(reply: R) -> Self {
        Self { events: SseReader::default(), reply }
    }

    /// Processes the next chunk. Returns whether it completed an event or a comment.
    pub(crate) fn take(&mut self, bytes: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<bool, CallFailure> {
        let mut moved = false;
        let reply = &mut self.reply;
        self.events.feed(bytes, |item| {
            moved = true;
            match item {
                // Ignore data after the end marker even within one chunk, so that the result does not depend on how
                // the network splits the data.
                SseItem::Data(_) if reply.is_done() => Ok(()),
                SseItem::Data(data) => reply.event(data, on_delta),
                SseItem::Comment => Ok(()),
            }
        })?;
        Ok(moved)
    }

    /// Whether the provider signaled the end of the stream.
    pub(crate) fn is_done(&self) -> bool {
        self.reply.is_done()
    }

    /// Whether the provider has said why the model stopped, or that the stream ended. The model may have stopped
    /// because of the output limit, and the stream may still send events such as token counts.
    pub(crate) fn is_finished(&self) -> bool {
        self.reply.is_finished()
    }

    /// Finishes the reply once the body has ended.
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
