//! A span: the output of the fold and the input of the OTLP serialization.

use althing_protocol::Timestamp;
use althing_text::hex;
use sha2::{Digest, Sha256};
use std::fmt;

/// The maximum number of events in a span, as in the OpenTelemetry SDKs. Further events are only counted.
const MAX_EVENTS: usize = 128;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A list of strings.
    Texts(Vec<String>),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Double(f64),
    /// A boolean.
    Bool(bool),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

/// The attributes of a span or an event.
pub type Attributes = Vec<(&'static str, Value)>;

/// A trace id. Displays as hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// A span id. Displays as hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The seed of a session's trace and span ids: the same log always gives the same ids.
#[derive(Clone, Debug)]
pub(crate) struct Seed([u8; 32]);

impl Seed {
    pub(crate) fn new(parts: &[&str]) -> Self {
        Self(digest(&[], parts))
    }

    pub(crate) fn trace(&self, parts: &[&str]) -> TraceId {
        TraceId(front(digest(&self.0, &[&["trace"], parts].concat())))
    }

    pub(crate) fn span(&self, parts: &[&str]) -> SpanId {
        SpanId(front(digest(&self.0, &[&["span"], parts].concat())))
    }
}

/// Each part follows its length, so that different lists of parts are different inputs of the hash function.
fn digest(seed: &[u8], parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(seed);
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

fn front<const N: usize>(bytes: [u8; 32]) -> [u8; N] {
    let mut front = [0; N];
    front.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    front
}

/// The OpenTelemetry kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work inside this process.
    Internal,
    /// A call to another service.
    Client,
}

/// An event within a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    /// When the event happened.
    pub at: Timestamp,
    /// The name of the event.
    pub name: &'static str,
    /// The attributes of the event.
    pub attributes: Attributes,
}

/// A span. While it is open, its end equals its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace that the span belongs to.
    pub trace: TraceId,
    /// The id of the span.
    pub id: SpanId,
    /// The parent span; `None` at the root of a trace.
    pub parent: Option<SpanId>,
    /// The name of the span.
    pub name: String,
    /// The kind of the span.
    pub kind: SpanKind,
    /// When the span began.
    pub start: Timestamp,
    /// When the span ended.
    pub end: Timestamp,
    /// The attributes of the span.
    pub attributes: Attributes,
    /// The events within the span.
    pub events: Vec<SpanEvent>,
    /// The number of events dropped because the span already had the maximum number.
    pub dropped_events: u32,
    /// Whether the work failed.
    pub failed: bool,
    /// The error message, if content is captured.
    pub message: Option<String>,
}

impl Span {
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.set(key, value);
        self
    }

    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.attributes.push((key, value.into()));
    }

    pub(crate) fn add_event(&mut self, event: SpanEvent) {
        if self.events.len() < MAX_EVENTS {
            self.events.push(event);
        } else {
            self.dropped_events += 1;
        }
    }

    pub(crate) fn fail(&mut self, class: &str) {
        self.failed = true;
        self.set("error.type", class);
    }

    /// A span never ends before it began, even if the clock was set back.
    pub(crate) fn ended(mut self, at: Timestamp) -> Self {
        self.end = at.max(self.start);
        self
    }
}
