//! Rate limits per key: agents that share a key share its limits, others do not, and waiting counts toward the call's
//! time limit.

use super::support::{KINDS, call, config_of, http, request};
use althing_llm::{HttpClient, PriceTable, backend};
use althing_protocol::{Backend, BackendErrorKind as Kind, Delta, Secret};
use althing_testkit::{Action, FakeModel, Reply, Script};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn agent(kind: &str, server: &FakeModel, key: &str, http: &HttpClient, params: Value) -> Arc<dyn Backend> {
    let mut section = config_of(kind, &server.base_url(), params);
    section.api_key = Some(Secret::new(key));
    backend(&section, http, &PriceTable::default()).unwrap()
}

/// Returns the highest number of concurrent connections to the server.
async fn peak(agents: Vec<Arc<dyn Backend>>, server: &FakeModel) -> usize {
    let calls: Vec<_> = agents
        .into_iter()
        .map(|agent| tokio::spawn(async move { call(&*agent, &request("hi")).await.result.unwrap() }))
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    server.peak_connections()
}

fn slow() -> Script {
    Script::always(Action::after(Duration::from_millis(60), Reply::text("ok")))
}

#[tokio::test]
async fn agents_with_one_key_share_its_limits_in_every_format() {
    for kind in KINDS {
        let (server, http) = (FakeModel::start(slow()).await, http());
        // One config's limit applies to all configs with the same key.
        let params = |n: usize| if n == 0 { json!({"max_concurrent_requests": 2}) } else { json!({}) };
        let agents = (0..6).map(|n| agent(kind, &server, "one", &http, params(n))).collect();
        assert_eq!(peak(agents, &server).await, 2, "{kind}");
    }
}

#[tokio::test]
async fn agents_with_keys_of_their_own_do_not_wait_for_each_other() {
    let (server, http) = (FakeModel::start(slow()).await, http());
    let agents = ["a", "b", "c"]
        .iter()
        .map(|key| agent("claude", &server, key, &http, json!({"max_concurrent_requests": 1})))
        .collect();
    assert_eq!(peak(agents, &server).await, 3);
}

#[tokio::test]
async fn a_permit_that_is_not_granted_in_time_is_a_timeout_without_a_call() {
    let (server, http) = (FakeModel::start(Script::always(Reply::text("ok"))).await, http());
    let params = json!({"requests_per_minute": 1, "request_timeout_seconds": 4});
    let agent = agent("gemini", &server, "one", &http, params);
    call(&*agent, &request("hi")).await.result.unwrap();
    let called = call(&*agent, &request("hi")).await;
    let error = called.error();
    assert_eq!((error.kind, error.usage.calls, server.request_count()), (Kind::Timeout, 0, 1));
    assert!(
        error.message.contains("still waiting because of `max_concurrent_requests` or `requests_per_minute`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_rate_limit_is_waited_for_by_all_calls_with_the_key_and_by_no_other() {
    use althing_testkit::{Fault, FaultMoment, RetryAfter};
    let fault = Fault::RateLimited(RetryAfter::Seconds(2));
    let script = Script::always(Reply::text("ok")).fault_once(fault, FaultMoment::BeforeHeaders);
    let (server, http) = (FakeModel::start(script).await, http());
    let first = agent("openai", &server, "one", &http, json!({}));
    let (retrying, waiting) = tokio::sync::oneshot::channel();
    let refused = tokio::spawn(async move {
        let mut retrying = Some(retrying);
        let mut sink = |delta: Delta<'_>| {
            if let (Delta::RateLimited { .. }, Some(retrying)) = (delta, retrying.take()) {
                retrying.send(()).unwrap();
            }
        };
        first.call(&request("hi"), &mut sink).await
    });
    waiting.await.unwrap();
    let others: Vec<_> = (0..3)
        .map(|_| {
            let same = agent("openai", &server, "one", &http, json!({}));
            tokio::spawn(async move { call(&*same, &request("hi")).await })
        })
        .collect();
    let other = agent("openai", &server, "two", &http, json!({}));
    call(&*other, &request("hi")).await.result.unwrap();
    assert_eq!(server.request_count(), 2, "the rejected call, and the one with another key");
    for called in others {
        let called = called.await.unwrap();
        assert_eq!(called.reply().usage.calls, 1, "it waited before its only request: {called:?}");
        assert!(called.retries[0].after.as_secs_f64() > 0.0, "and said so");
    }
    assert_eq!(refused.await.unwrap().unwrap().usage.calls, 2);
    assert_eq!(server.request_count(), 6);
}
