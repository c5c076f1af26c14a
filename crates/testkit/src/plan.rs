//! A response as a list of steps, which faults and gates change. Building a plan does no I/O; the connection executes
//! it.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::gate::Gate;
use crate::reply::Reply;
use crate::wire::{Context, Frame, Part, Wire};

pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Raw bytes. Consecutive writes are combined into one.
    Send(Bytes),
    Chunk(Bytes),
    UngatedChunk(Bytes),
    /// Writes out the buffer, so that the next bytes are sent separately.
    Flush,
    Pause(Duration),
    Pass(Gate),
    Passed(Gate),
    Dribble(Bytes, Duration),
    /// Sends nothing more. The connection stays open until the client closes it.
    Stall,
    /// Repeats these bytes as a chunk, with this pause in between, until the client disconnects.
    Repeat(Bytes, Duration),
    Close,
    Reset,
    /// Resets the connection and refuses new ones for this time.
    Refuse(Duration),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
}

impl Plan {
    pub(crate) fn reply(wire: Wire, reply: &Reply, context: &Context, streamed: bool) -> Self {
        if !streamed {
            return Self::document(200, "application/json", &[], &wire.whole(reply, context));
        }
        let frames = wire.frames(reply, context);
        Self::default().head(context).frames(frames).end().paced(reply.pace)
    }

    /// A response with a body of known length, after which the connection can be reused.
    pub(crate) fn document(status: u16, content_type: &str, headers: &[(&str, String)], body: &str) -> Self {
        let mut out = BytesMut::with_capacity(body.len() + 256);
        let reason = reason(status);
        out.put_slice(format!("HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\n").as_bytes());
        for (name, value) in headers {
            out.put_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        out.put_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        out.put_slice(body.as_bytes());
        Self::default().send(out.freeze())
    }

    pub(crate) fn head(self, context: &Context) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n\
             x-request-id: req_{}\r\ntransfer-encoding: chunked\r\n\r\n",
            context.seq
        );
        self.send(Bytes::from(head))
    }

    pub(crate) fn frame(self, frame: Frame) -> Self {
        self.step(match frame.part {
            Part::Frame | Part::Tail => Step::UngatedChunk(frame.bytes),
            Part::Reasoning | Part::Text | Part::Tool | Part::End => Step::Chunk(frame.bytes),
        })
    }

    pub(crate) fn frames(self, frames: impl IntoIterator<Item = Frame>) -> Self {
        frames.into_iter().fold(self, Self::frame)
    }

    pub(crate) fn send(self, bytes: Bytes) -> Self {
        self.step(Step::Send(bytes))
    }

    pub(crate) fn end(self) -> Self {
        self.send(Bytes::from_static(LAST_CHUNK))
    }

    pub(crate) fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The bytes of raw writes and chunks; all other steps are ignored.
    pub(crate) fn bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        for step in &self.steps {
            match step {
                Step::Send(bytes) => out.put_slice(bytes),
                Step::Chunk(bytes) | Step::UngatedChunk(bytes) => put_chunk(&mut out, bytes),
                _ => {}
            }
        }
        out.freeze()
    }

    pub(crate) fn gated(mut self, gate: &Gate) -> Self {
        if gate.holds_headers() {
            self.steps.insert(0, Step::Pass(gate.clone()));
        }
        self.around_chunks(|chunk| [Step::Pass(gate.clone()), chunk, Step::Passed(gate.clone())])
    }

    fn paced(self, pace: Duration) -> Self {
        if pace.is_zero() { self } else { self.around_chunks(|chunk| [Step::Pause(pace), chunk]) }
    }

    fn around_chunks<const N: usize>(self, surround: impl Fn(Step) -> [Step; N]) -> Self {
        let mut steps = Vec::with_capacity(self.steps.len() * N);
        for step in self.steps {
            match step {
                Step::Chunk(_) => steps.extend(surround(step)),
                _ => steps.push(step),
            }
        }
        Self { steps }
    }

    pub(crate) fn after(mut self, delay: Duration) -> Self {
        if delay > Duration::ZERO {
            self.steps.insert(0, Step::Pause(delay));
        }
        self
    }
}

pub(crate) fn put_chunk(out: &mut BytesMut, bytes: &[u8]) {
    // The length is written digit by digit, because the standard formatting is slow for thousands of chunks.
    let digits = (usize::BITS - bytes.len().leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.put_u8(b"0123456789abcdef"[(bytes.len() >> (4 * place)) & 0xf]);
    }
    out.put_slice(b"\r\n");
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        529 => "Site is overloaded",
        _ => "Status",
    }
}
