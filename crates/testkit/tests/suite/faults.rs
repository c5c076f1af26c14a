//! Each fault produces the promised bytes, at each moment, once and repeatedly.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use althing_testkit::{
    BadArguments, FakeModel, Fault, FaultCase, FaultExpectation, FaultMoment, RequestOutcome, RetryAfter,
    Script, UTF8_SAMPLE, wait,
};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::client::{Client, End, MOMENT, Response, SOON, ask, request};

async fn spoilt_with(fault: Fault, moment: FaultMoment, tools: &[&str]) -> Response {
    let server = FakeModel::start(Script::parliament().fault_always(fault, moment)).await;
    ask_spoilt(&server, fault, &request("m", tools)).await
}

async fn ask_spoilt(server: &FakeModel, fault: Fault, body: &Value) -> Response {
    let mut client = Client::connect(server.address()).await;
    client.post(body).await;
    server.wait_for_requests(1, SOON).await;
    let falls_silent = match fault {
        Fault::HeaderStall | Fault::IdleStall => true,
        Fault::Dribble(pause) => !pause.is_zero(),
        _ => false,
    };
    if falls_silent {
        client.patience = MOMENT;
    }
    client.response().await
}

async fn spoilt(fault: Fault, moment: FaultMoment) -> Response {
    spoilt_with(fault, moment, &["new_answer"]).await
}

fn good_arguments() -> String {
    json!({ "content": "Answer of m" }).to_string()
}

/// Checks how much of the reply the client has at each moment.
fn assert_progress(response: &Response, moment: FaultMoment, case: &str) {
    let calls = response.calls();
    match moment {
        FaultMoment::BeforeHeaders => assert!(calls.is_empty(), "{case}"),
        FaultMoment::MidStream => {
            assert_eq!(calls.len(), 1, "{case}");
            assert!(calls[0].1.len() < good_arguments().len(), "{case}");
        }
        FaultMoment::AfterToolCall => assert_eq!(calls[0].1, good_arguments(), "{case}"),
    }
    assert_eq!(response.finish(), "", "{case}");
}

#[tokio::test]
async fn every_case_ends_as_its_expectation_says_and_the_next_request_is_good() {
    for case in FaultCase::all() {
        let server = FakeModel::start(Script::parliament().on("m").fault_once(case.fault, case.moment)).await;
        if case.fault == Fault::EndlessStream {
            continue; // has its own test: it never ends
        }
        let response = ask_spoilt(&server, case.fault, &request("m", &["new_answer"])).await;
        let good = response.end == End::Complete && response.status == 200 && response.is_done();
        match case.expectation() {
            FaultExpectation::HarmlessVariation | FaultExpectation::Recovers => assert!(good, "{case}"),
            // Malformed JSON is the one failure whose stream ends normally.
            FaultExpectation::Fails { .. } => assert!(!good || case.fault == Fault::MalformedJson, "{case}"),
        }
        wait::until_async(SOON, || std::net::TcpStream::connect(server.address()).is_ok()).await;
        let again = ask(server.address(), &request("m", &["new_answer"])).await;
        assert_eq!(again.calls(), [("new_answer".into(), good_arguments())], "{case}");
    }
}

#[test]
fn the_table_names_every_case_once() {
    let names: Vec<String> = FaultCase::all().map(|case| case.to_string()).collect();
    let unique: HashSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    assert!(Fault::ALL.len() >= 20);
    assert!(Fault::ALL.iter().all(|fault| !fault.moments().is_empty()));
}

#[tokio::test]
async fn statuses_come_with_openai_bodies_and_then_as_objects_in_the_stream() {
    for (code, error_code) in
        [(401, json!("invalid_api_key")), (404, json!("model_not_found")), (529, Value::Null)]
    {
        let response = spoilt(Fault::Status(code), FaultMoment::BeforeHeaders).await;
        assert_eq!((response.status, response.end), (code, End::Complete));
        let body: Value = serde_json::from_str(&response.body()).unwrap();
        assert_eq!(body["error"]["code"], error_code);
        for moment in [FaultMoment::MidStream, FaultMoment::AfterToolCall] {
            let response = spoilt(Fault::Status(code), moment).await;
            assert_eq!((response.status, response.end), (200, End::Complete));
            assert_progress(&response, moment, "status");
            assert_eq!(response.events().last().unwrap()["error"]["code"], error_code);
            assert!(!response.is_done());
        }
    }
}

#[tokio::test]
async fn rate_limits_carry_seconds_or_a_date() {
    let seconds = spoilt(Fault::RateLimited(RetryAfter::Seconds(3)), FaultMoment::BeforeHeaders).await;
    assert_eq!((seconds.status, seconds.header("retry-after")), (429, Some("3")));
    let date = spoilt(Fault::RateLimited(RetryAfter::Date(3)), FaultMoment::BeforeHeaders).await;
    let at = httpdate::parse_http_date(date.header("retry-after").unwrap()).unwrap();
    let ahead = at.duration_since(SystemTime::now()).unwrap();
    assert!(ahead <= Duration::from_secs(4) && ahead > Duration::from_secs(1), "{ahead:?}");
    let none = spoilt(Fault::RateLimited(RetryAfter::Absent), FaultMoment::BeforeHeaders).await;
    assert_eq!((none.status, none.header("retry-after")), (429, None));
}

#[tokio::test]
async fn connections_end_as_promised_at_each_moment() {
    for (fault, end) in [
        (Fault::Reset, End::Reset),
        (Fault::Refused, End::Reset),
        (Fault::CutAbrupt, End::Closed),
        (Fault::CutEnded, End::Complete),
        (Fault::IdleStall, End::Silent),
        (Fault::HeaderStall, End::Silent),
        (Fault::Dribble(Duration::from_secs(1)), End::Silent),
    ] {
        for moment in FaultMoment::ALL {
            let case = format!("{fault} {moment}");
            let response = spoilt(fault, moment).await;
            assert_eq!(response.end, end, "{case}");
            assert_progress(&response, moment, &case);
            assert!(!response.is_done(), "{case}");
        }
    }
    assert_eq!(spoilt(Fault::HeaderStall, FaultMoment::BeforeHeaders).await.status, 0);
    assert_eq!(spoilt(Fault::IdleStall, FaultMoment::BeforeHeaders).await.status, 200);
}

#[tokio::test]
async fn a_refusing_server_keeps_its_port_to_itself() {
    let server = FakeModel::start(Script::parliament()).await;
    server.refuse().await;
    let taken = tokio::net::TcpListener::bind(server.address()).await;
    assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    server.listen_again().await;
    assert!(ask(server.address(), &request("m", &[])).await.is_done());
}

#[tokio::test]
async fn a_refusing_server_refuses_and_then_listens_again() {
    let server =
        FakeModel::start(Script::parliament().fault_once(Fault::Refused, FaultMoment::BeforeHeaders)).await;
    let mut client = Client::connect(server.address()).await;
    client.post(&request("m", &[])).await;
    assert_eq!(client.response().await.end, End::Reset);
    let refused = TcpStream::connect(server.address()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    wait::until_async(SOON, || std::net::TcpStream::connect(server.address()).is_ok()).await;
}

#[tokio::test]
async fn a_fast_dribble_is_complete_in_the_end() {
    let response = spoilt(Fault::Dribble(Duration::ZERO), FaultMoment::MidStream).await;
    assert_eq!((response.end, response.is_done()), (End::Complete, true));
    assert_eq!(response.calls()[0].1, good_arguments());
}

#[tokio::test]
async fn broken_frames_and_errors_come_inside_a_good_stream() {
    for moment in FaultMoment::ALL {
        let broken = spoilt(Fault::MalformedJson, moment).await;
        assert!(broken.is_done());
        assert_eq!(broken.data().len(), broken.events().len() + 2, "one bad frame and the end mark");
        let error = spoilt(Fault::ErrorInStream, moment).await;
        assert_eq!(error.status, 200);
        assert_progress(&error, moment, "error in stream");
        assert_eq!(error.events().last().unwrap()["error"]["type"], "server_error");
    }
    let page = spoilt(Fault::WrongContentType, FaultMoment::BeforeHeaders).await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.body().starts_with("<!DOCTYPE html>"));
}

#[tokio::test]
async fn split_characters_and_odd_pieces_join_to_the_whole_reply() {
    let text = spoilt_with(Fault::Utf8Split, FaultMoment::MidStream, &[]).await;
    assert_eq!(text.text(), format!("Final answer of m{UTF8_SAMPLE}"));
    assert!(text.chunks.iter().any(|chunk| std::str::from_utf8(chunk).is_err()));
    let vote = spoilt_with(Fault::Utf8Split, FaultMoment::MidStream, &["vote"]).await;
    let arguments: Value = serde_json::from_str(&vote.calls()[0].1).unwrap();
    assert_eq!(arguments["agent_id"], "agent1");
    assert!(arguments["reason"].as_str().unwrap().ends_with(UTF8_SAMPLE));
    let odd = spoilt(Fault::OddSplits(7), FaultMoment::MidStream).await;
    assert_eq!(odd.calls()[0].1, good_arguments());
    assert!(odd.chunks.iter().all(|chunk| chunk.len() <= 7));
}

#[tokio::test]
async fn bad_arguments_are_bad_in_the_way_they_say() {
    let arguments = async |kind| {
        let response = spoilt(Fault::BadArguments(kind), FaultMoment::MidStream).await;
        assert!(response.is_done());
        response.calls().remove(0)
    };
    let (_, cut) = arguments(BadArguments::NotJson).await;
    assert!(serde_json::from_str::<Value>(&cut).is_err());
    let wrong = arguments(BadArguments::WrongType).await;
    assert_eq!(wrong, ("new_answer".into(), r#"{"content":42}"#.into()));
    let unknown = arguments(BadArguments::UnknownTool).await;
    assert_eq!(unknown, ("no_such_tool".into(), good_arguments()));
    let (_, huge) = arguments(BadArguments::Huge).await;
    assert!(huge.len() > BadArguments::HUGE && serde_json::from_str::<Value>(&huge).is_ok());
    assert_eq!(arguments(BadArguments::MissingField).await.1, "{}");
}

#[tokio::test]
async fn replies_can_be_empty_doubled_or_without_usage() {
    let empty = spoilt(Fault::EmptyReply, FaultMoment::MidStream).await;
    assert_eq!((empty.text().as_str(), empty.calls().len(), empty.finish().as_str()), ("", 0, "stop"));
    let doubled = spoilt(Fault::RepeatedIds, FaultMoment::MidStream).await;
    let calls = doubled.calls();
    assert_eq!((calls.len(), &calls[0]), (2, &calls[1]));
    assert_eq!(doubled.body().matches(r#""id":"call_same""#).count(), 2);
    let silent = spoilt(Fault::MissingUsage, FaultMoment::MidStream).await;
    assert_eq!((silent.is_done(), silent.usage()), (true, None));
}

#[tokio::test]
async fn line_ends_and_comments_vary_without_changing_the_reply() {
    let crlf = spoilt(Fault::CrlfLines, FaultMoment::MidStream).await;
    assert_eq!(crlf.body().matches('\n').count(), crlf.body().matches("\r\n").count());
    assert_eq!(crlf.calls()[0].1, good_arguments());
    let pings: Vec<usize> = {
        let mut counts = Vec::new();
        for moment in FaultMoment::ALL {
            let response = spoilt(Fault::Comments, moment).await;
            assert_eq!(response.calls()[0].1, good_arguments());
            counts.push(response.body().matches(": ping\n\n").count());
        }
        counts
    };
    assert!(pings[0] > pings[1] && pings[1] > pings[2] && pings[2] > 0, "{pings:?}");
}

#[tokio::test]
async fn an_endless_stream_continues_until_the_client_disconnects() {
    use tokio::io::AsyncReadExt;

    for moment in FaultMoment::ALL {
        let server = FakeModel::start(Script::parliament().fault_always(Fault::EndlessStream, moment)).await;
        let mut client = Client::connect(server.address()).await;
        client.post(&request("m", &["new_answer"])).await;
        let mut read = 0;
        let enough = if moment == FaultMoment::BeforeHeaders { 500 } else { 200_000 };
        let mut buffer = vec![0; 64 << 10];
        while read < enough {
            read += client.stream.read(&mut buffer).await.unwrap();
        }
        assert_eq!(server.requests()[0].outcome(), RequestOutcome::Underway);
        drop(client);
        server.wait_until(SOON, |calls| calls[0].hung_up()).await;
    }
}
