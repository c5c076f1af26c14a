//! Exports sessions to an OpenTelemetry collector, only if the user asks for it.
//!
//! The exporter uses only facts: before it sees a fact, the secrets of the fact are masked and the fact is on disk.
//! Text that people, models and tools wrote is left out unless the user asks for it, too. Exporting must never slow
//! down a run or make it fail, and may delay the exit only up to a given limit.

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
