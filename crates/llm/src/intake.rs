//! A reply as its stream comes in: pieces of bytes in, the judgement out.
//!
//! Knows neither network nor clock, so that what a stream means can be tried on any bytes, cut anywhere. Must never let
//! what follows the end of a reply change it.

use crate::draft::Ended;
use crate::error::Failure;
use crate::sse::{SseItem, SseReader};
use crate::wire::{Finished, Reader};
use althing_protocol::DeltaSink;

/// One stream being read.
pub(crate) struct Intake<R> {
    events: SseReader,
    reply: R,
}

impl<R: Reader> Intake<R> {
    pub(crate) fn new(reply: R) -> Self {
        Self { events: SseReader::default(), reply }
    }

    /// Takes the next piece of the body; gives whether anything whole, and be it a comment, was completed by it.
    pub(crate) fn take(&mut self, bytes: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<bool, Failure> {
        let mut moved = false;
        let reply = &mut self.reply;
        self.events.feed(bytes, |item| {
            moved = true;
            match item {
                // A server may say more in the same breath; what it means must not depend on where the network cut.
                SseItem::Data(_) if reply.is_done() => Ok(()),
                SseItem::Data(data) => reply.event(data, on_delta),
                SseItem::Comment => Ok(()),
            }
        })?;
        Ok(moved)
    }

    /// Whether the provider has said that the stream is over.
    pub(crate) fn is_done(&self) -> bool {
        self.reply.is_done()
    }

    /// Whether the reply itself is complete, whatever may still follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.reply.is_finished()
    }

    /// Judges the reply once the body is over.
    pub(crate) fn end(
        self,
        ended: Ended,
        on_delta: &mut DeltaSink<'_>,
        input_estimate: u64,
    ) -> Result<Finished, Failure> {
        let Self { events, mut reply } = self;
        if !reply.is_done()
            && let Some(rest) = events.finish()
        {
            // A torn event is not understood, and then the reply is judged without it.
            let _ = reply.event(&rest, on_delta);
        }
        reply.end(ended, input_estimate)
    }
}
