//! Row A1 of the table in `docs/reliability.md`: every fault of a model server, at every moment, once and
//! permanently, ends in success or in a typed failure within its limit.

use super::support::{Called, KINDS, call, config_of, http, request};
use althing_llm::{HttpClient, PriceTable, backend};
use althing_protocol::BackendErrorKind as Kind;
use althing_testkit::{
    FakeModel, Fault, FaultCase, FaultExpectation, FaultMoment, Reply, Script, UTF8_SAMPLE,
};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const ANSWER: &str = "An answer of some length.";
const TEXT: &str = "Let me think about this for a while.";

fn usual() -> Reply {
    Reply::new_answer(ANSWER).and_text(TEXT).chunks(6)
}

async fn run(kind: &str, case: FaultCase, always: bool, http: HttpClient) -> (Called, usize) {
    let script = Script::always(usual());
    let script = if always {
        script.fault_always(case.fault, case.moment)
    } else {
        script.fault_once(case.fault, case.moment)
    };
    let server = FakeModel::start(script).await;
    let limits = json!({
        "connect_timeout_seconds": 5, "first_byte_timeout_seconds": 2, "idle_timeout_seconds": 2,
        "request_timeout_seconds": if case.fault == Fault::EndlessStream { 2 } else { 20 },
        // With this wait, a port that refuses for 150 ms is open again within the allowed retries.
        "retry_base_ms": 300, "max_retries": 4,
    });
    let backend =
        backend(&config_of(kind, &server.base_url(), limits), &http, &PriceTable::default()).unwrap();
    let called = call(&*backend, &request("Do it")).await;
    (called, server.request_count())
}

/// The slots of all tests of this file together. With more on few processors, slow cases would be mistaken for
/// silence.
static SLOTS: Semaphore = Semaphore::const_new(64);

async fn complaints(
    kind: &'static str,
    always: bool,
    judge: fn(FaultCase, &Called, usize) -> Result<(), String>,
) -> Vec<String> {
    let http = http();
    let mut running = JoinSet::new();
    for case in FaultCase::all() {
        let http = http.clone();
        running.spawn(async move {
            // Nearly all cases only wait; an endless stream keeps a processor busy.
            let slots = if case.fault == Fault::EndlessStream { 20 } else { 1 };
            let _places = SLOTS.acquire_many(slots).await;
            let (called, requests) = run(kind, case, always, http).await;
            judge(case, &called, requests)
                .err()
                .or_else(|| wrong_sender(kind, &called))
                .map(|complaint| format!("{kind}: {case}: {complaint}: {requests} requests, {called:#?}"))
        });
    }
    let mut found = Vec::new();
    while let Some(complaint) = running.join_next().await {
        found.extend(complaint.unwrap());
    }
    found
}

fn ensure(holds: bool, complaint: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(complaint.to_owned()) }
}

fn is_whole(case: FaultCase, called: &Called) -> Result<(), String> {
    let reply = called.result.as_ref().map_err(|error| format!("failed: {error}"))?;
    let sample = if case.fault == Fault::Utf8Split { UTF8_SAMPLE } else { "" };
    ensure(reply.text == format!("{TEXT}{sample}"), "text")?;
    ensure(called.text == reply.text, "what streamed is not the text")?;
    let calls = if case.fault == Fault::RepeatedIds { 2 } else { 1 };
    ensure(reply.tool_calls.len() == calls, "number of tool calls")?;
    ensure(called.tools == vec!["new_answer"; calls], "announced tools")?;
    for call in &reply.tool_calls {
        let arguments: serde_json::Value =
            serde_json::from_str(&call.arguments).map_err(|e| e.to_string())?;
        ensure(arguments == json!({"content": format!("{ANSWER}{sample}")}), "arguments")?;
    }
    ensure(calls == 1 || reply.tool_calls[0].id != reply.tool_calls[1].id, "ids")?;
    ensure(reply.usage.input_tokens > 0 && reply.usage.output_tokens > 0, "tokens")
}

fn kinds(fault: Fault) -> &'static [Kind] {
    match fault {
        Fault::RateLimited(_) => &[Kind::RateLimited],
        Fault::Status(401) => &[Kind::Auth],
        Fault::Status(404) => &[Kind::NotFound],
        Fault::Status(_) | Fault::ErrorInStream => &[Kind::Server],
        Fault::Refused => &[Kind::Connect, Kind::Cut],
        Fault::Reset | Fault::CutEnded | Fault::CutAbrupt => &[Kind::Cut],
        Fault::HeaderStall | Fault::IdleStall | Fault::Dribble(_) => &[Kind::Timeout],
        Fault::MalformedJson | Fault::WrongContentType => &[Kind::Protocol],
        Fault::EndlessStream => &[Kind::TooLarge, Kind::Timeout],
        Fault::EmptyReply => &[Kind::Empty],
        Fault::Utf8Split
        | Fault::OddSplits(_)
        | Fault::BadArguments(_)
        | Fault::RepeatedIds
        | Fault::MissingUsage
        | Fault::CrlfLines
        | Fault::Comments => &[],
    }
}

/// Differs from the fault table: an endless stream is not retried, because the tokens up to the limit would have to
/// be paid for again; an empty reply is retried.
fn is_retried(case: FaultCase) -> bool {
    match (case.fault, case.expectation()) {
        (Fault::EndlessStream, _) => false,
        (Fault::EmptyReply, _) => true,
        (_, FaultExpectation::Fails { retryable }) => retryable,
        (_, FaultExpectation::HarmlessVariation | FaultExpectation::Recovers) => false,
    }
}

fn wrong_sender(kind: &str, called: &Called) -> Option<String> {
    let error = called.result.as_ref().err()?;
    (!error.message.starts_with(&format!("{kind} gpt-5-mini: "))).then(|| "message".to_owned())
}

fn failed_typed(case: FaultCase, called: &Called, requests: usize) -> Result<(), String> {
    let Err(error) = &called.result else { return Err("succeeded".into()) };
    ensure(kinds(case.fault).contains(&error.kind), "kind")?;
    ensure(error.message.chars().count() < 500, "message is too long")?;
    ensure(called.retries.len() <= 4, "more than 4 retries")?;
    ensure(error.usage.calls == called.retries.len() as u64 + 1, "calls counted")?;
    ensure(requests <= 5, "more than 5 requests")
}

async fn survives_once(kind: &'static str) {
    let found = complaints(kind, false, |case, called, requests| {
        if matches!(case.fault, Fault::BadArguments(_)) {
            // The wire format only has to pass the arguments on unchanged.
            ensure(called.result.as_ref().is_ok_and(|reply| reply.tool_calls.len() == 1), "no call")?;
            return ensure(requests == 1, "requests");
        }
        let again = is_retried(case);
        if kinds(case.fault).is_empty() || again {
            is_whole(case, called)?;
            ensure(requests == 1 + usize::from(again), "requests")?;
            let usage = called.result.as_ref().map(|reply| reply.usage.calls).unwrap_or_default();
            ensure(usage == called.retries.len() as u64 + 1, "calls counted")?;
            // The first retry may find the port still closed. Such a retry does not reach the server.
            let most = if case.fault == Fault::Refused { 2 } else { 1 };
            return ensure(called.retries.len() <= most * usize::from(again), "retries");
        }
        failed_typed(case, called, requests)?;
        ensure(requests == 1, "requests")
    })
    .await;
    assert!(found.is_empty(), "{}", found.join("\n"));
}

async fn ends_typed(kind: &'static str) {
    let found = complaints(kind, true, |case, called, requests| {
        if kinds(case.fault).is_empty() {
            return if matches!(case.fault, Fault::BadArguments(_)) {
                Ok(())
            } else {
                is_whole(case, called)
            };
        }
        failed_typed(case, called, requests)?;
        ensure((called.retries.len() >= 2) == is_retried(case), "retries")
    })
    .await;
    assert!(found.is_empty(), "{}", found.join("\n"));
}

macro_rules! table_on {
    ($wire:ident, $kind:literal) => {
        mod $wire {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_fault_that_happens_once_is_survived_or_ends_typed() {
                super::survives_once($kind).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_fault_that_stays_ends_typed_within_its_limit_after_at_most_four_retries() {
                super::ends_typed($kind).await;
            }
        }
    };
}

table_on!(chat, "chatcompletion");
table_on!(responses, "openai");
table_on!(messages, "claude");
table_on!(gemini, "gemini");

#[tokio::test]
async fn a_requested_wait_is_honored_as_seconds_and_as_a_date() {
    use althing_testkit::RetryAfter;
    for (kind, (after, least)) in KINDS.into_iter().zip([
        (RetryAfter::Seconds(1), 1.0),
        (RetryAfter::Date(1), 0.5),
        (RetryAfter::Seconds(1), 1.0),
        (RetryAfter::Date(1), 0.5),
    ]) {
        let case = FaultCase { fault: Fault::RateLimited(after), moment: FaultMoment::BeforeHeaders };
        let (called, requests) = run(kind, case, false, http()).await;
        let asked = called.retries[0].after.as_secs_f64();
        assert!((least..2.5).contains(&asked), "{after:?}: {asked}");
        assert!(called.took.as_secs_f64() >= asked, "did not wait");
        assert_eq!((called.retries.len(), requests), (1, 2));
        assert!(
            called.retries[0].reason.starts_with("429 Too Many Requests: Rate limit reached"),
            "{called:?}"
        );
    }
}

#[tokio::test]
async fn a_requested_wait_that_is_too_long_fails_at_once() {
    use althing_testkit::RetryAfter;
    let fault = Fault::RateLimited(RetryAfter::Seconds(3600));
    let (called, requests) =
        run(KINDS[0], FaultCase { fault, moment: FaultMoment::BeforeHeaders }, false, http()).await;
    let error = called.error();
    assert_eq!((error.kind, requests), (Kind::RateLimited, 1));
    assert!(error.message.contains("asks to wait 3600 s, more than the 300 s"), "{error}");
    assert!(called.retries.is_empty(), "it did not wait: {called:?}");
}
