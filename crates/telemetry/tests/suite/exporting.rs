//! Exporting to a collector that works, is slow, is overloaded, rejects spans, or is absent.

use std::time::Duration;

use althing_protocol::Seq;
use althing_telemetry::{ContentCapture, Endpoint, ExportReport, Exporter, ExporterSettings, Resource};
use althing_testkit::collector::{Collector, CollectorReply};
use althing_testkit::refused_base_url;

use super::support::{RUN, recorded, replayed};

const LIMIT: Duration = althing_testkit::wait::PATIENCE;
const NEVER: Duration = Duration::from_secs(3600);
const SPANS: u64 = 21;

fn exporter(url: &str) -> Exporter {
    // Only the first call in a process succeeds. The error of a later call does no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = ExporterSettings {
        endpoint: Endpoint::parse(url).unwrap(),
        headers: vec![("x-key".into(), "mine".into())],
        resource: Resource { attributes: vec![("service.name".into(), "althing".into())] },
        content: ContentCapture::Omit,
        client: reqwest::Client::builder().no_proxy().build().unwrap(),
    };
    Exporter::new(settings).unwrap()
}

fn export_run(url: &str, limit: Duration) -> ExportReport {
    let exporter = exporter(url);
    let (_, feed) = replayed(&recorded(RUN));
    exporter.follow(feed, Seq(0));
    exporter.finish(limit).unwrap()
}

#[test]
fn all_finished_spans_arrive_with_headers_and_resource() {
    let collector = Collector::start(CollectorReply::Take);
    let report = export_run(&collector.url(), LIMIT);
    assert_eq!(report, ExportReport { sent: SPANS, lost: 0, why: None });
    let spans = collector.spans();
    assert_eq!(spans.len() as u64, SPANS);
    assert_eq!(spans[0].resource["service.name"], "althing");
    assert_eq!(collector.requests()[0].headers["x-key"], "mine");
}

#[test]
fn spans_that_were_already_exported_are_not_sent_again() {
    let events = recorded(RUN);
    let collector = Collector::start(CollectorReply::Take);
    let exporter = exporter(&collector.url());
    let (before, after) = events.split_at(40);
    let (_, feed) = replayed(before);
    exporter.follow(feed, Seq(0));
    let (_, feed) = replayed(&events);
    exporter.follow(feed, before.last().unwrap().seq);
    let report = exporter.finish(LIMIT).unwrap();
    assert_eq!(report.sent, SPANS);
    let collected = collector.spans();
    let ids: std::collections::BTreeSet<&str> = collected.iter().map(|span| span.id.as_str()).collect();
    assert_eq!((ids.len() as u64, collected.len() as u64), (SPANS, SPANS), "each once");
    assert!(collected.iter().all(|span| span.trace == collected[0].trace));
    assert!(!after.is_empty());
}

#[test]
fn an_absent_collector_costs_a_message_and_no_time() {
    let report = export_run(&refused_base_url(), NEVER);
    assert_eq!((report.sent, report.lost), (0, SPANS));
    assert!(report.why.unwrap().contains("listening"), "the reason says what to check");
}

#[test]
fn a_collector_that_never_responds_is_not_waited_for() {
    let collector = Collector::start(CollectorReply::Never);
    // Enough time to read the run on a busy machine.
    let report = export_run(&collector.url(), Duration::from_secs(3));
    assert_eq!((report.sent, report.lost), (0, SPANS));
    assert_eq!(report.why.as_deref(), Some("it did not respond before the process ended"));
}

#[test]
fn permanently_rejected_spans_are_counted_and_not_retried() {
    for (answer, sent) in [
        (CollectorReply::Status(400), 0),
        (CollectorReply::Status(401), 0),
        (CollectorReply::TakeAllBut(2), SPANS - 2),
    ] {
        let collector = Collector::start(answer.clone());
        let report = export_run(&collector.url(), LIMIT);
        assert_eq!((report.sent, report.lost), (sent, SPANS - sent), "{answer:?}");
        assert!(report.why.is_some());
        assert_eq!(collector.requests().len(), 1, "{answer:?}");
    }
}

#[test]
fn a_recovered_collector_receives_the_queued_spans() {
    let collector = Collector::start(CollectorReply::Status(503));
    let exporter = exporter(&collector.url());
    let (more, feed) = replayed(&recorded(RUN)[..52]);
    exporter.follow(feed, Seq(0));
    collector.wait_for_requests(1, LIMIT);
    collector.answer(CollectorReply::Take);
    collector.wait_for_requests(2, LIMIT);
    drop(more);
    let report = exporter.finish(LIMIT).unwrap();
    assert_eq!((report.sent, report.lost), (SPANS, 0));
    assert_eq!(collector.spans().len() as u64, SPANS);
}

#[test]
fn finish_does_not_wait_for_an_active_session_beyond_its_limit() {
    let collector = Collector::start(CollectorReply::Take);
    let exporter = exporter(&collector.url());
    let (_more, feed) = replayed(&recorded(RUN)[..30]);
    exporter.follow(feed, Seq(0));
    // `finish` returns at its limit, although the session continues.
    exporter.finish(Duration::from_secs(3)).unwrap();
    assert!(!collector.wait_for_requests(1, LIMIT).is_empty(), "the spans of the active session are sent");
}

#[test]
fn without_sessions_nothing_is_started() {
    let collector = Collector::start(CollectorReply::Take);
    assert_eq!(exporter(&collector.url()).finish(LIMIT), None);
    assert!(collector.requests().is_empty());
}
