//! Tells an OpenTelemetry collector what happens in sessions, where the user asks for it and nowhere else.
//!
//! It reads facts, and nothing but facts: they are masked and on disk before it sees them. What people and models wrote is
//! left out of them unless that is asked for, too. It must never slow a run, fail one, or hold up the exit.

mod endpoint;
mod exporter;
mod fold;
mod otlp;
mod send;
mod span;

pub use endpoint::{Endpoint, EndpointError, parse_pairs};
pub use exporter::{ExportReport, Exporter, ExporterSettings};
pub use fold::{ContentCapture, SpanFold};
pub use otlp::{Resource, request};
pub use span::{Span, SpanEvent, SpanId, SpanKind, TraceId, Value};
