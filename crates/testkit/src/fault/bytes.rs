//! The bytes of each fault: a fault, a moment and the affected reply become a plan.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::Value;

use super::{BadArguments, Fault, FaultMoment, RetryAfter};
use crate::plan::{Plan, Step};
use crate::reply::{Reply, ToolCall};
use crate::wire::{Context, Frame, Part, Wire};

/// What [`Fault::Utf8Split`] adds to the reply's last text: characters of two, three and four bytes.
pub const UTF8_SAMPLE: &str = " æøå 漢字 🦀";

const PING: &[u8] = b": ping\n\n";
const PAGE: &str =
    "<!DOCTYPE html>\n<html><head><title>Welcome</title></head><body>Please sign in.</body></html>\n";

/// Bytes of text per frame of an endless stream. With the pause of [`ENDLESS_PACE`], a client that buffers everything
/// is detected within seconds, and the machine stays responsive.
const ENDLESS_TEXT: usize = 16 << 10;
const ENDLESS_PACE: Duration = Duration::from_millis(1);

pub(crate) fn plan(fault: Fault, moment: FaultMoment, reply: Reply, wire: Wire, context: &Context) -> Plan {
    let faulty = FaultyReply::new(fault, moment, reply, wire, context);
    match fault {
        Fault::RateLimited(after) => faulty.status(429, after),
        Fault::Status(code) => faulty.status(code, RetryAfter::Absent),
        Fault::Refused => faulty.sent().step(Step::Refuse(Fault::REFUSED_FOR)),
        Fault::Reset => faulty.sent().step(Step::Reset),
        Fault::HeaderStall => faulty.sent().step(Step::Stall),
        Fault::IdleStall => faulty.streamed().step(Step::Stall),
        Fault::Dribble(pause) => faulty.dribble(pause),
        Fault::CutEnded => faulty.streamed().end(),
        Fault::CutAbrupt => faulty.sent().step(Step::Close),
        Fault::MalformedJson => {
            let broken = wire.malformed_frame(context);
            faulty.streamed().frame(broken).frames(faulty.rest().to_vec()).end()
        }
        Fault::ErrorInStream => faulty.error_in_stream(500),
        Fault::WrongContentType => faulty.page(),
        Fault::EndlessStream => faulty.endless(),
        Fault::Comments => faulty.comments(),
        Fault::Utf8Split => faulty.split(&utf8_cuts(&faulty.body())),
        Fault::OddSplits(size) => {
            let cuts: Vec<usize> = (0..faulty.body().len()).step_by(size.max(1)).skip(1).collect();
            faulty.split(&cuts)
        }
        Fault::CrlfLines => faulty.crlf(),
        Fault::BadArguments(_) | Fault::EmptyReply | Fault::RepeatedIds | Fault::MissingUsage => {
            Plan::default().head(context).frames(faulty.frames).end()
        }
    }
}

struct FaultyReply<'a> {
    moment: FaultMoment,
    wire: Wire,
    context: &'a Context,
    frames: Vec<Frame>,
    cut: usize,
}

impl<'a> FaultyReply<'a> {
    fn new(fault: Fault, moment: FaultMoment, reply: Reply, wire: Wire, context: &'a Context) -> Self {
        let frames = wire.frames(&with_content_fault(fault, reply), context);
        let cut = cut(&frames, moment);
        Self { moment, wire, context, frames, cut }
    }

    fn rest(&self) -> &[Frame] {
        &self.frames[self.cut..]
    }

    /// What is sent before the fault, always including the headers.
    fn streamed(&self) -> Plan {
        Plan::default().head(self.context).frames(self.frames[..self.cut].to_vec())
    }

    /// What is sent before the fault: nothing if it occurs before the headers.
    fn sent(&self) -> Plan {
        match self.moment {
            FaultMoment::BeforeHeaders => Plan::default(),
            FaultMoment::MidStream | FaultMoment::AfterToolCall => self.streamed(),
        }
    }

    fn status(&self, code: u16, after: RetryAfter) -> Plan {
        if self.moment != FaultMoment::BeforeHeaders {
            return self.error_in_stream(code);
        }
        let headers: Vec<_> = retry_after(after).into_iter().map(|value| ("retry-after", value)).collect();
        let body = self.wire.error_body(code, self.context);
        Plan::document(code, "application/json", &headers, &body)
    }

    fn error_in_stream(&self, code: u16) -> Plan {
        let error = self.wire.error_frame(code, self.context);
        self.streamed().frame(error).end()
    }

    fn dribble(&self, pause: Duration) -> Plan {
        let before = self.sent();
        let whole = Plan::default().head(self.context).frames(self.frames.clone()).end().bytes();
        let rest = whole.slice(before.bytes().len()..);
        before.step(Step::Dribble(rest, pause))
    }

    fn page(&self) -> Plan {
        match self.moment {
            FaultMoment::BeforeHeaders => Plan::document(200, "text/html; charset=utf-8", &[], PAGE),
            FaultMoment::MidStream | FaultMoment::AfterToolCall => {
                self.streamed().step(Step::UngatedChunk(PAGE.into())).end()
            }
        }
    }

    fn endless(&self) -> Plan {
        let more = match self.moment {
            FaultMoment::BeforeHeaders => Bytes::from_static(PING),
            FaultMoment::MidStream | FaultMoment::AfterToolCall => {
                let text = Reply::text("and so on ".repeat(ENDLESS_TEXT / 10));
                let mut frames = self.wire.frames(&text, self.context);
                frames.retain(|frame| frame.part == Part::Text);
                frames.swap_remove(0).bytes
            }
        };
        self.streamed().step(Step::Repeat(more, ENDLESS_PACE))
    }

    fn comments(&self) -> Plan {
        let ping = Step::UngatedChunk(Bytes::from_static(PING));
        let plan = self
            .rest()
            .iter()
            .fold(self.streamed(), |plan, frame| plan.step(ping.clone()).frame(frame.clone()));
        plan.end()
    }

    fn body(&self) -> Bytes {
        self.frames.iter().flat_map(|frame| frame.bytes.to_vec()).collect()
    }

    fn split(&self, cuts: &[usize]) -> Plan {
        let body = self.body();
        let mut plan = Plan::default().head(self.context);
        let mut from = 0;
        for &to in cuts.iter().chain([&body.len()]) {
            plan = plan.step(Step::Chunk(body.slice(from..to))).step(Step::Flush);
            from = to;
        }
        plan.end()
    }

    fn crlf(&self) -> Plan {
        let frames: Vec<Frame> = self
            .frames
            .iter()
            .map(|frame| Frame {
                part: frame.part,
                // JSON escapes newlines in strings, so every newline here belongs to the framing.
                bytes: String::from_utf8_lossy(&frame.bytes).replace('\n', "\r\n").into(),
            })
            .collect();
        Plan::default().head(self.context).frames(frames).end()
    }
}

/// Applies the faults that change the reply itself rather than how it is sent.
fn with_content_fault(fault: Fault, mut reply: Reply) -> Reply {
    // Text of one chunk is split. Otherwise a fault in mid-stream would come before or after the whole text, never
    // within it.
    if reply.text.len() == 1 && reply.reasoning.is_empty() {
        reply = reply.chunks(2);
    }
    match fault {
        Fault::Utf8Split => with_sample(reply),
        Fault::BadArguments(kind) => with_bad_arguments(kind, reply),
        Fault::EmptyReply => Reply::empty(),
        Fault::RepeatedIds => {
            let calls = reply.calls.iter().map(|call| call.clone().id("call_same"));
            reply.calls = calls.clone().chain(calls).collect();
            reply
        }
        Fault::MissingUsage => reply.without_usage(),
        Fault::RateLimited(_)
        | Fault::Status(_)
        | Fault::Refused
        | Fault::Reset
        | Fault::HeaderStall
        | Fault::IdleStall
        | Fault::Dribble(_)
        | Fault::CutEnded
        | Fault::CutAbrupt
        | Fault::MalformedJson
        | Fault::OddSplits(_)
        | Fault::EndlessStream
        | Fault::WrongContentType
        | Fault::ErrorInStream
        | Fault::CrlfLines
        | Fault::Comments => reply,
    }
}

fn with_bad_arguments(kind: BadArguments, mut reply: Reply) -> Reply {
    if reply.calls.is_empty() {
        reply = reply.and_call("new_answer", &serde_json::json!({ "content": "Answer" }));
    }
    for call in &mut reply.calls {
        let good = call.arguments();
        let bad = match kind {
            BadArguments::NotJson => good[..good.floor_char_boundary(good.len() / 2)].to_owned(),
            BadArguments::MissingField => "{}".to_owned(),
            BadArguments::UnknownTool => {
                "no_such_tool".clone_into(&mut call.name);
                good
            }
            BadArguments::WrongType => changed(&good, |_| Value::from(42)),
            BadArguments::Huge => changed_last(&good, |_| "x".repeat(BadArguments::HUGE)),
        };
        *call = ToolCall { id: call.id.take(), ..ToolCall::new(call.name.clone(), &bad).split(2) };
    }
    reply
}

fn with_sample(mut reply: Reply) -> Reply {
    for call in &mut reply.calls {
        let arguments = changed_last(&call.arguments(), |text| format!("{text}{UTF8_SAMPLE}"));
        call.fragments = ToolCall::new("", &arguments).split(2).fragments;
    }
    if let Some(last) = reply.text.last_mut() {
        last.push_str(UTF8_SAMPLE);
    }
    reply
}

fn changed(arguments: &str, change: impl Fn(&Value) -> Value) -> String {
    let mut object: Value = serde_json::from_str(arguments).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        fields.values_mut().for_each(|value| *value = change(value));
    }
    object.to_string()
}

/// Changes the last string of an arguments object. In a vote that is the reason, so the vote stays valid.
fn changed_last(arguments: &str, change: impl Fn(&str) -> String) -> String {
    let mut object: Value = serde_json::from_str(arguments).unwrap_or_default();
    let last = object.as_object_mut().and_then(|fields| fields.values_mut().rfind(|value| value.is_string()));
    if let Some(value) = last {
        *value = change(value.as_str().unwrap_or_default()).into();
    }
    object.to_string()
}

fn cut(frames: &[Frame], moment: FaultMoment) -> usize {
    let end = frames.iter().position(|frame| frame.part == Part::End).unwrap_or(frames.len());
    let start = frames[..end].iter().position(|frame| frame.part != Part::Frame).unwrap_or(end);
    match moment {
        FaultMoment::BeforeHeaders => 0,
        FaultMoment::MidStream => start + (end - start) / 2,
        FaultMoment::AfterToolCall => end,
    }
}

/// One cut before every byte of a character but its first.
fn utf8_cuts(body: &[u8]) -> Vec<usize> {
    (1..body.len()).filter(|&at| body[at] & 0b1100_0000 == 0b1000_0000).collect()
}

fn retry_after(after: RetryAfter) -> Option<String> {
    match after {
        RetryAfter::Absent => None,
        RetryAfter::Seconds(seconds) => Some(seconds.to_string()),
        RetryAfter::Date(seconds) => {
            let date = SystemTime::now() + Duration::from_secs(u64::from(seconds) + 1);
            Some(httpdate::fmt_http_date(date))
        }
    }
}
