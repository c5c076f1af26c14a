//! Rate limits per key: agents that share a key share its limits, others do not, and waiting counts toward the call's
//! time limit.

use super::support::{KINDS, LONG, call, config_of, http, request};
use althing_llm::{HttpClient, PriceTable, backend};
use althing_protocol::{Backend, BackendErrorKind as Kind, Secret};
use althing_testkit::{Action, FakeModel, Reply, Script};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn agent(kind: &str, server: &FakeModel, key: &str, http: &HttpClient, params: Value) -> Arc<dyn Backend> {
    let mut section = config_of(kind, &server.base_url(), params);
    section.api_key = Some(Secret::new(key));
    backend(&section, http, &PriceTable::default()).unwrap()
}

/// Makes one call with each agent at the same time. Returns the highest number of concurrent connections to the
/// server.
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
        // One config's limit applies to all configs with the same key, including those without a limit.
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
    let params = json!({"requests_per_minute": 1, "request_timeout_seconds": 0.3});
    let agent = agent("gemini", &server, "one", &http, params);
    call(&*agent, &request("hi")).await.result.unwrap();
    let called = call(&*agent, &request("hi")).await;
    let error = called.error();
    assert_eq!((error.kind, error.usage.calls, server.request_count()), (Kind::Timeout, 0, 1));
    assert!(error.message.contains("still waiting for the rate limit of the API key"), "{error}");
    assert!(called.took < LONG / 10);
}

#[tokio::test]
async fn a_waiting_retry_lets_other_requests_run() {
    use althing_testkit::{Fault, FaultMoment, RetryAfter};
    let fault = Fault::RateLimited(RetryAfter::Seconds(1));
    let script = Script::always(Reply::text("ok")).fault_once(fault, FaultMoment::BeforeHeaders);
    let (server, http) = (FakeModel::start(script).await, http());
    let limited = json!({"max_concurrent_requests": 1});
    let first = agent("openai", &server, "one", &http, limited.clone());
    let second = agent("openai", &server, "one", &http, limited);
    let refused = tokio::spawn(async move { call(&*first, &request("hi")).await });
    server.wait_for_requests(1, LONG).await;
    let called = call(&*second, &request("hi")).await;
    assert!(called.took < Duration::from_millis(900), "{:?}", called.took);
    assert_eq!(refused.await.unwrap().reply().usage.calls, 2);
}
