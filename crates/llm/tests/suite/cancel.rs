//! Cancellation: dropping a call closes its connection at any stage.

use super::support::{LONG, model, request};
use althing_protocol::Delta;
use althing_testkit::{Action, FakeModel, Fault, FaultMoment, Gate, Reply, RequestOutcome, Script};
use serde_json::json;

/// Drops the call after `until`, and waits until the server sees the connection close.
async fn dropped(action: Action, until: impl AsyncFnOnce(&FakeModel)) {
    let server = FakeModel::start(Script::always(action)).await;
    let backend = model(&server.base_url(), json!({}));
    let request = request("hi");
    let mut sink = |_: Delta<'_>| {};
    {
        let call = backend.call(&request, &mut sink);
        tokio::select! {
            result = call => panic!("the call ended by itself: {result:?}"),
            () = until(&server) => {}
        }
    }
    let seen = server
        .wait_until(LONG, |calls| calls.iter().all(|call| call.outcome() != RequestOutcome::Underway))
        .await;
    assert!(seen.iter().all(althing_testkit::RecordedRequest::hung_up), "{seen:?}");
    assert_eq!(seen.len(), 1, "nothing is tried again after a cancel");
}

#[tokio::test]
async fn a_call_dropped_before_the_headers_hangs_up() {
    dropped(Action::Hang, async |server| {
        server.wait_for_requests(1, LONG).await;
    })
    .await;
}

#[tokio::test]
async fn a_call_dropped_in_the_middle_of_the_stream_hangs_up() {
    let gate = Gate::new();
    gate.release(3);
    dropped(Action::gated(Reply::text("one two three four").chunks(8), &gate), async |_| {
        gate.wait_sent(3, LONG).await;
    })
    .await;
}

#[tokio::test]
async fn a_call_dropped_while_it_waits_to_try_again_makes_no_further_request() {
    let server = FakeModel::start(Script::always(Reply::text("ok")).fault_always(
        Fault::RateLimited(althing_testkit::RetryAfter::Seconds(30)),
        FaultMoment::BeforeHeaders,
    ))
    .await;
    let backend = model(&server.base_url(), json!({}));
    let request = request("hi");
    let (retrying, waiting) = tokio::sync::oneshot::channel();
    let mut retrying = Some(retrying);
    let mut sink = |delta: Delta<'_>| {
        if let (Delta::RateLimited { .. }, Some(retrying)) = (delta, retrying.take()) {
            retrying.send(()).unwrap();
        }
    };
    {
        let call = backend.call(&request, &mut sink);
        tokio::select! {
            result = call => panic!("the call ended by itself: {result:?}"),
            _ = waiting => {}
        }
    }
    assert_eq!(server.request_count(), 1);
}
