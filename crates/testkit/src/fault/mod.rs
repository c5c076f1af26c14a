//! Everything that can go wrong between Althing and a model server (row A1 of the reliability table), as data: the
//! fault, the moment, and the expected behavior of the client.

mod bytes;
mod table;

use std::fmt;
use std::time::Duration;

pub use bytes::UTF8_SAMPLE;
pub(crate) use bytes::plan;
pub use table::{FaultCase, FaultExpectation};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Status 429. After the stream has started, the same error as an object in the stream.
    RateLimited(RetryAfter),
    /// Another error status. After the stream has started, the same error as an object in the stream.
    Status(u16),
    /// The connection is reset, and the port refuses new ones for [`Fault::REFUSED_FOR`].
    Refused,
    Reset,
    /// The request is read and never answered. After the stream has started, the same as [`Fault::IdleStall`].
    HeaderStall,
    IdleStall,
    /// The rest of the response arrives one byte at a time, with this pause after each.
    Dribble(Duration),
    /// The body ends correctly for HTTP, but without finish reason and end marker.
    CutEnded,
    /// The connection is closed (FIN) before the response or in the middle of its chunked body.
    CutAbrupt,
    /// A frame has truncated JSON; the rest of the stream is correct.
    MalformedJson,
    /// Multi-byte characters are split across chunks. [`UTF8_SAMPLE`] is added to the reply.
    Utf8Split,
    OddSplits(usize),
    BadArguments(BadArguments),
    EmptyReply,
    /// Every tool call arrives twice, with the same id.
    RepeatedIds,
    /// The stream continues until the client disconnects: with comments if the moment is `BeforeHeaders`, else with
    /// text.
    EndlessStream,
    WrongContentType,
    /// Status 200, then an error object in the stream.
    ErrorInStream,
    MissingUsage,
    CrlfLines,
    /// A comment precedes every frame from the moment on.
    Comments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryAfter {
    Absent,
    Seconds(u32),
    /// An HTTP date this many seconds from now, rounded up because dates have no fractions.
    Date(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BadArguments {
    NotJson,
    WrongType,
    UnknownTool,
    Huge,
    MissingField,
}

impl BadArguments {
    pub const HUGE: usize = 1 << 20;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultMoment {
    /// Before the response; for faults inside the stream, before its first frame.
    BeforeHeaders,
    MidStream,
    /// After the last tool call (or all the content), but before the end.
    AfterToolCall,
}

impl FaultMoment {
    pub const ALL: [Self; 3] = [Self::BeforeHeaders, Self::MidStream, Self::AfterToolCall];
}

impl fmt::Display for FaultMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeHeaders => "before-headers",
            Self::MidStream => "mid-stream",
            Self::AfterToolCall => "after-tool-call",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::RateLimited(RetryAfter::Absent) => "429",
            Self::RateLimited(RetryAfter::Seconds(_)) => "429-seconds",
            Self::RateLimited(RetryAfter::Date(_)) => "429-date",
            Self::Status(code) => return write!(f, "{code}"),
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::HeaderStall => "header-stall",
            Self::IdleStall => "idle-stall",
            Self::Dribble(_) => "dribble",
            Self::CutEnded => "cut-ended",
            Self::CutAbrupt => "cut-abrupt",
            Self::MalformedJson => "malformed-json",
            Self::Utf8Split => "utf8-split",
            Self::OddSplits(_) => "odd-splits",
            Self::BadArguments(BadArguments::NotJson) => "arguments-not-json",
            Self::BadArguments(BadArguments::WrongType) => "arguments-wrong-type",
            Self::BadArguments(BadArguments::UnknownTool) => "unknown-tool",
            Self::BadArguments(BadArguments::Huge) => "arguments-huge",
            Self::BadArguments(BadArguments::MissingField) => "arguments-missing-field",
            Self::EmptyReply => "empty-reply",
            Self::RepeatedIds => "repeated-ids",
            Self::EndlessStream => "endless-stream",
            Self::WrongContentType => "wrong-content-type",
            Self::ErrorInStream => "error-in-stream",
            Self::MissingUsage => "missing-usage",
            Self::CrlfLines => "crlf-lines",
            Self::Comments => "comments",
        };
        f.write_str(name)
    }
}
