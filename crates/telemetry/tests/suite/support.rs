//! Recorded sessions, and a feed that replays them.

use std::path::Path;
use std::sync::Arc;

use althing_protocol::{BoxFuture, Event, EventStream, FeedItem, JournalError};
use althing_telemetry::{ContentCapture, Resource, Span, SpanFold, request};
use althing_testkit::collector::{CollectedSpan, read_spans};
use tokio::sync::mpsc;

pub const RUN: &str = "20261115-180955-1189";
pub const CHAT: &str = "20261115-180955-7711";
pub const WORKFLOW: &str = "20261115-180955-8b2e";

/// The facts of a session that version 0.1.0 recorded.
pub fn recorded(session: &str) -> Vec<Event> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/golden/0.1.0");
    let text = std::fs::read_to_string(golden.join(session).join("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn spans(events: &[Event], content: ContentCapture) -> Vec<Span> {
    let mut fold = SpanFold::new(content);
    events.iter().flat_map(|event| fold.apply(event)).collect()
}

pub fn collected(events: &[Event], content: ContentCapture) -> Vec<CollectedSpan> {
    read_spans(&request(&Resource::default(), &spans(events, content)))
}

/// Panics unless exactly one span has this name.
#[track_caller]
pub fn named<'a>(collected: &'a [CollectedSpan], name: &str) -> &'a CollectedSpan {
    let found: Vec<&CollectedSpan> = collected.iter().filter(|span| span.name == name).collect();
    let names: Vec<&str> = collected.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(found.len(), 1, "one {name} among {names:?}");
    found[0]
}

pub struct Replayed(pub mpsc::UnboundedReceiver<Arc<Event>>);

impl EventStream for Replayed {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<FeedItem, JournalError>>> {
        Box::pin(async { self.0.recv().await.map(|event| Ok(FeedItem::Event(event))) })
    }
}

pub fn replayed(events: &[Event]) -> (mpsc::UnboundedSender<Arc<Event>>, Box<dyn EventStream>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    for event in events {
        sender.send(Arc::new(event.clone())).unwrap();
    }
    (sender, Box::new(Replayed(receiver)))
}
