//! A span in our own words: what the fold gives, and what OTLP is written from.

use althing_protocol::Timestamp;
use althing_text::hex;
use sha2::{Digest, Sha256};
use std::fmt;

/// The most notes that a span carries, as the SDKs of OpenTelemetry have it; those after them are only counted.
const MAX_EVENTS: usize = 128;

/// What an attribute holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// Yes or no.
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

/// The attributes of a span or a note.
pub type Attributes = Vec<(&'static str, Value)>;

/// A trace, by 16 bytes; reads as hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// A span within a trace, by 8 bytes; reads as hex.
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

/// What a session's ids are made from. The same log gives the same ids, whoever reads it and however often; two sessions
/// of the same name, on two machines, do not share any.
#[derive(Clone, Debug)]
pub(crate) struct Seed([u8; 32]);

impl Seed {
    /// Made from what tells a session from every other.
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

/// Each part with its length, so that no two lists of parts read the same.
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

/// Who a span is about, as OpenTelemetry tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Our own work.
    Internal,
    /// A call of ours to somebody else.
    Client,
}

/// Something that happened within a span, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    /// When.
    pub at: Timestamp,
    /// What.
    pub name: &'static str,
    /// More about it.
    pub attributes: Attributes,
}

/// A span. While it is open its end is its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The trace it is part of.
    pub trace: TraceId,
    /// Its own id.
    pub id: SpanId,
    /// The span it is part of.
    pub parent: Option<SpanId>,
    /// What it is called.
    pub name: String,
    /// Who it is about.
    pub kind: SpanKind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// What is known about it.
    pub attributes: Attributes,
    /// What happened meanwhile.
    pub events: Vec<SpanEvent>,
    /// How many more notes there were.
    pub dropped_events: u32,
    /// Whether it failed.
    pub failed: bool,
    /// Why, where that may be told.
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

    /// It failed, in a way that goes by this name.
    pub(crate) fn fail(&mut self, class: &str) {
        self.failed = true;
        self.set("error.type", class);
    }

    /// It is over. A clock that was set back does not make it end before it began.
    pub(crate) fn ended(mut self, at: Timestamp) -> Self {
        self.end = at.max(self.start);
        self
    }
}
