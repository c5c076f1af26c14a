//! An OpenTelemetry collector that stores what it receives, and that can also be slow, full or failing. Reading the
//! spans checks strictly that every accepted request is valid OTLP/HTTP JSON.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::signal::Signal;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectorReply {
    Take,
    Status(u16),
    /// Accepts the request but reports this many rejected spans.
    TakeAllBut(u64),
    Never,
}

/// Its threads end with the test process.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    state: Arc<Signal<CollectorState>>,
}

#[derive(Debug)]
struct CollectorState {
    answer: CollectorReply,
    requests: Vec<Export>,
}

#[derive(Debug, Clone)]
pub struct Export {
    pub line: String,
    /// The names are in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
    pub taken: bool,
}

impl Collector {
    pub fn start(answer: CollectorReply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the port just bound");
        let state = Arc::new(Signal::new(CollectorState { answer, requests: Vec::new() }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn answer(&self, answer: CollectorReply) {
        self.state.update(|state| state.answer = answer);
    }

    pub fn requests(&self) -> Vec<Export> {
        self.state.read(|state| state.requests.clone())
    }

    /// Panics if fewer than `n` requests arrive within `limit`.
    #[track_caller]
    pub fn wait_for_requests(&self, n: usize, limit: Duration) -> Vec<Export> {
        let enough = |state: &CollectorState| (state.requests.len() >= n).then(|| state.requests.clone());
        let found = self.state.wait_for_blocking(limit, enough);
        found.unwrap_or_else(|| panic!("{n} requests did not come: {:#?}", self.requests()))
    }

    /// The accepted spans, in order of arrival. Panics if a request violates OTLP.
    #[track_caller]
    pub fn spans(&self) -> Vec<CollectedSpan> {
        let taken = self.requests().into_iter().filter(|request| request.taken);
        taken.flat_map(|request| read_export(&request)).collect()
    }
}

fn serve(mut stream: &TcpStream, state: &Signal<CollectorState>) -> Option<()> {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes.drain(..end + 4).collect()).ok()?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        break (head, length.unwrap_or(0_usize));
    };
    while bytes.len() < length {
        let mut buffer = [0; 8192];
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
    }
    let answer = state.read(|state| state.answer.clone());
    let taken = matches!(answer, CollectorReply::Take | CollectorReply::TakeAllBut(_));
    let mut lines = head.lines();
    let export = Export {
        line: lines.next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned(),
        headers: lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect(),
        body: String::from_utf8_lossy(&bytes[..length]).into_owned(),
        taken,
    };
    state.update(|state| state.requests.push(export));
    let (status, body) = match answer {
        CollectorReply::Take => (200, "{}".to_owned()),
        CollectorReply::Status(status) => (status, "{}".to_owned()),
        CollectorReply::TakeAllBut(refused) => {
            (200, format!(r#"{{"partialSuccess":{{"rejectedSpans":"{refused}","errorMessage":"too old"}}}}"#))
        }
        CollectorReply::Never => {
            let _ = stream.read(&mut [0]);
            return None;
        }
    };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} So\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).ok()
}

#[derive(Debug, Clone, PartialEq)]
pub struct CollectedSpan {
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    /// 1 is internal work, 3 is a call to another system.
    pub kind: u64,
    /// Start and end, in nanoseconds since 1970.
    pub time: (u64, u64),
    pub attributes: BTreeMap<String, Value>,
    pub events: Vec<(String, BTreeMap<String, Value>)>,
    pub failed: bool,
    pub resource: BTreeMap<String, Value>,
}

impl CollectedSpan {
    /// A string attribute; empty if there is none.
    pub fn text(&self, key: &str) -> &str {
        self.attributes.get(key).and_then(Value::as_str).unwrap_or_default()
    }
}

#[track_caller]
pub fn read_export(request: &Export) -> Vec<CollectedSpan> {
    assert_eq!(request.line, "POST /v1/traces");
    assert_eq!(request.headers.get("content-type").map(String::as_str), Some("application/json"));
    let body: Value = serde_json::from_str(&request.body).expect("the body is JSON");
    read_spans(&body)
}

/// Parses the JSON of an `ExportTraceServiceRequest`. Panics if it violates OTLP.
#[track_caller]
pub fn read_spans(body: &Value) -> Vec<CollectedSpan> {
    let mut spans = Vec::new();
    for resource_spans in list(only(body, &["resourceSpans"]), "resourceSpans") {
        let resource_spans = only(resource_spans, &["resource", "scopeSpans", "schemaUrl"]);
        let resource =
            attributes(only(&resource_spans["resource"], &["attributes", "droppedAttributesCount"]));
        for scope_spans in list(resource_spans, "scopeSpans") {
            let scope_spans = only(scope_spans, &["scope", "spans", "schemaUrl"]);
            only(&scope_spans["scope"], &["name", "version", "attributes"]);
            spans.extend(list(scope_spans, "spans").iter().map(|span| read_span(span, &resource)));
        }
    }
    spans
}

fn read_span(span: &Value, resource: &BTreeMap<String, Value>) -> CollectedSpan {
    let span = only(
        span,
        &[
            "traceId",
            "spanId",
            "parentSpanId",
            "traceState",
            "flags",
            "name",
            "kind",
            "startTimeUnixNano",
            "endTimeUnixNano",
            "attributes",
            "droppedAttributesCount",
            "events",
            "droppedEventsCount",
            "links",
            "status",
        ],
    );
    let time = (number(&span["startTimeUnixNano"]), number(&span["endTimeUnixNano"]));
    assert!(time.0 > 0 && time.0 <= time.1, "it does not end before it begins: {span:?}");
    let kind = span["kind"].as_u64().expect("a kind is a number");
    assert!((1..=5).contains(&kind), "a span has an unknown kind: {kind}");
    let events = span.get("events").and_then(Value::as_array).cloned().unwrap_or_default();
    let events = events.iter().map(|event| {
        let event = only(event, &["timeUnixNano", "name", "attributes", "droppedAttributesCount"]);
        number(&event["timeUnixNano"]);
        (text(&event["name"]), attributes(event))
    });
    let status = span.get("status").map(|status| only(status, &["code", "message"]));
    let code = status.and_then(|status| status.get("code")).map(|code| code.as_u64().expect("a number"));
    assert!(code.is_none_or(|code| code <= 2), "a span has an unknown status: {code:?}");
    CollectedSpan {
        trace: id(&span["traceId"], 32),
        id: id(&span["spanId"], 16),
        parent: span.get("parentSpanId").map(|parent| id(parent, 16)),
        name: text(&span["name"]),
        kind,
        time,
        attributes: attributes(span),
        events: events.collect(),
        failed: code == Some(2),
        resource: resource.clone(),
    }
}

/// Panics if the object has other fields than these.
#[track_caller]
fn only<'a>(value: &'a Value, fields: &[&str]) -> &'a Map<String, Value> {
    let object = value.as_object().unwrap_or_else(|| panic!("an object was expected: {value}"));
    let unknown: Vec<&String> = object.keys().filter(|key| !fields.contains(&key.as_str())).collect();
    assert!(unknown.is_empty(), "OTLP has no fields {unknown:?} there");
    object
}

#[track_caller]
fn list<'a>(object: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).unwrap_or_else(|| panic!("{field} is a list"))
}

fn text(value: &Value) -> String {
    let text = value.as_str().unwrap_or_else(|| panic!("a text was expected: {value}"));
    assert!(!text.is_empty());
    text.to_owned()
}

/// Ids are hex, not base64, and never all zeros.
fn id(value: &Value, length: usize) -> String {
    let text = text(value);
    assert_eq!(text.len(), length, "{text}");
    assert!(text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f')), "{text} is hex");
    assert!(text.contains(|c| c != '0'), "{text} says something");
    text
}

/// OTLP encodes 64-bit numbers as strings.
fn number(value: &Value) -> u64 {
    text(value).parse().unwrap_or_else(|_| panic!("a number as text was expected: {value}"))
}

fn attributes(of: &Map<String, Value>) -> BTreeMap<String, Value> {
    let mut known = BTreeSet::new();
    let pairs = of.get("attributes").and_then(Value::as_array).cloned().unwrap_or_default();
    let read = pairs.iter().map(|pair| {
        let pair = only(pair, &["key", "value"]);
        let key = text(&pair["key"]);
        assert!(known.insert(key.clone()), "{key} is told twice");
        (key, any_value(&pair["value"]))
    });
    read.collect()
}

fn any_value(value: &Value) -> Value {
    let fields = ["stringValue", "boolValue", "intValue", "doubleValue", "arrayValue"];
    let object = only(value, &fields);
    assert_eq!(object.len(), 1, "it is one of them: {value}");
    let (kind, value) = object.iter().next().expect("there is one");
    match kind.as_str() {
        "intValue" => text(value).parse::<i64>().expect("a number as text").into(),
        "stringValue" => value.as_str().expect("a text").into(),
        "boolValue" => value.as_bool().expect("yes or no").into(),
        "doubleValue" => value.as_f64().expect("a number").into(),
        _ => list(only(value, &["values"]), "values").iter().map(any_value).collect(),
    }
}
