//! Serializes spans as OTLP JSON: the protobuf messages of `opentelemetry/proto` in the JSON mapping that OTLP
//! prescribes, with ids in hex, 64-bit numbers as strings, and enums as numbers.

use crate::span::{Attributes, Span, SpanEvent, SpanKind, Value};
use serde_json::{Map, Value as Json, json};

/// The version of the semantic conventions that names and attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// The attributes that all spans of this process share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// For duplicate names, the first entry wins.
    pub attributes: Vec<(String, String)>,
}

/// Builds an `ExportTraceServiceRequest` with these spans.
pub fn request(resource: &Resource, spans: &[Span]) -> Json {
    let mut known: Vec<&str> = Vec::new();
    let mut attributes = Vec::new();
    for (key, text) in &resource.attributes {
        if !known.contains(&key.as_str()) {
            known.push(key);
            attributes.push(json!({"key": key, "value": {"stringValue": text}}));
        }
    }
    let spans: Vec<Json> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{
            "scope": {"name": "althing", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
            "schemaUrl": SCHEMA,
        }],
        "schemaUrl": SCHEMA,
    }]})
}

fn span(span: &Span) -> Json {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Client => 3,
    };
    let mut json = Map::new();
    json.insert("traceId".into(), span.trace.to_string().into());
    json.insert("spanId".into(), span.id.to_string().into());
    if let Some(parent) = span.parent {
        json.insert("parentSpanId".into(), parent.to_string().into());
    }
    json.insert("name".into(), span.name.as_str().into());
    json.insert("kind".into(), kind.into());
    json.insert("startTimeUnixNano".into(), nanos(span.start.0));
    json.insert("endTimeUnixNano".into(), nanos(span.end.0));
    json.insert("attributes".into(), attributes(&span.attributes));
    if !span.events.is_empty() {
        json.insert("events".into(), span.events.iter().map(event).collect());
    }
    if span.dropped_events > 0 {
        json.insert("droppedEventsCount".into(), span.dropped_events.into());
    }
    if span.failed {
        let mut status = Map::from_iter([("code".to_owned(), 2.into())]);
        status.extend(span.message.as_ref().map(|message| ("message".to_owned(), message.as_str().into())));
        json.insert("status".into(), status.into());
    }
    json.into()
}

fn event(event: &SpanEvent) -> Json {
    json!({
        "timeUnixNano": nanos(event.at.0),
        "name": event.name,
        "attributes": attributes(&event.attributes),
    })
}

fn attributes(attributes: &Attributes) -> Json {
    attributes.iter().map(|(key, of)| json!({"key": key, "value": value(of)})).collect()
}

fn value(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Texts(texts) => {
            let values: Vec<Json> = texts.iter().map(|text| json!({"stringValue": text})).collect();
            json!({"arrayValue": {"values": values}})
        }
        Value::Int(number) => json!({"intValue": number.to_string()}),
        Value::Double(number) => json!({"doubleValue": number}),
        Value::Bool(yes) => json!({"boolValue": yes}),
    }
}

fn nanos(millis: u64) -> Json {
    (u128::from(millis) * 1_000_000).to_string().into()
}
