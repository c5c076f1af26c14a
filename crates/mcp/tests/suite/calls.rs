//! Calls: arguments, results, time limits and cancellation.

use super::support::{call, call_named, fake, good, names, notices, options, started, until};
use althing_mcp::McpToolHost;
use serde_json::json;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_call_reaches_the_tool_and_its_text_comes_back() {
    let (host, _) = started(&[]).await;
    assert_eq!(call(&host, "echo", json!({"text": "héllo\n"})).await, good("héllo\n"));
    assert_eq!(call_named(&host, "mcp__fake__echo", "").await, good("nothing"));
}

#[tokio::test]
async fn arguments_that_are_no_object_are_refused_without_calling() {
    let (host, _) = started(&[]).await;
    for bad in ["[1]", "\"text\"", "{", "null", "42", "not json"] {
        let outcome = call_named(&host, "mcp__fake__die", bad).await;
        assert!(
            outcome.is_error && outcome.content.contains("the tool was not called"),
            "{bad}: {outcome:?}"
        );
    }
    assert!(host.servers()[0].up);
}

#[tokio::test]
async fn errors_of_tools_and_of_the_protocol_are_reported_as_errors() {
    let (host, _) = started(&[]).await;
    let failed = call(&host, "fail", json!({})).await;
    assert_eq!((failed.content.as_str(), failed.is_error), ("it did not work", true));
    let refused = call(&host, "refuse", json!({})).await;
    assert!(refused.is_error && refused.content.contains("not with these arguments (error -32602)"));
}

#[tokio::test]
async fn what_is_not_text_is_described() {
    let (host, _) = started(&[]).await;
    assert_eq!(call(&host, "picture", json!({})).await, good("[image: image/png, 3 bytes, not shown]"));
    assert_eq!(call(&host, "structured", json!({})).await, good("{\n  \"answer\": 42\n}"));
    let odd = call(&host, "odd_content", json!({})).await;
    assert!(odd.content.contains("hologram") && odd.content.ends_with("beside it"), "{odd:?}");
}

#[tokio::test]
async fn a_long_result_is_cut_and_kept_whole_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (mut options, _) = options();
    options.output_dir = Some(dir.path().to_owned());
    let host = McpToolHost::start(vec![fake("fake", &[])], options).await;
    let outcome = call(&host, "big", json!({"bytes": 1_000_000})).await;
    assert!(outcome.content.len() < 66_000 && !outcome.is_error);
    assert!(outcome.content.starts_with("<x") && outcome.content.ends_with("x>"));
    let kept = dir.path().join("mcp__fake__big-1.txt");
    assert!(outcome.content.contains(&kept.display().to_string()));
    assert_eq!(std::fs::metadata(kept).unwrap().len(), 1_000_002);
}

#[tokio::test]
async fn calls_of_one_server_run_side_by_side() {
    let (host, recorder) = started(&[]).await;
    let hanging = call(&host, "hang", json!({}));
    tokio::pin!(hanging);
    let during = async {
        until("the first call", || recorder.said("hanging")).await;
        call(&host, "echo", json!({"text": "meanwhile"})).await
    };
    tokio::select! {
        outcome = during => assert_eq!(outcome, good("meanwhile")),
        outcome = &mut hanging => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn a_call_without_a_response_times_out_and_is_cancelled_at_the_server() {
    let mut spec = fake("fake", &[]);
    spec.call_timeout = Duration::from_secs(4);
    let (options, recorder) = options();
    let host = McpToolHost::start(vec![spec], options).await;
    let begin = Instant::now();
    let outcome = call(&host, "hang", json!({})).await;
    assert!(begin.elapsed() >= Duration::from_secs(4));
    assert!(outcome.is_error && outcome.content.contains("did not answer within 4 s"), "{outcome:?}");
    until("the cancellation", || recorder.said("stopped")).await;
    assert_eq!(call(&host, "echo", json!({"text": "still here"})).await, good("still here"));
}

#[tokio::test]
async fn progress_extends_the_limit() {
    let mut spec = fake("fake", &[]);
    spec.call_timeout = Duration::from_secs(5);
    let host = McpToolHost::start(vec![spec], options().0).await;
    let begin = Instant::now();
    let outcome = call(&host, "progress", json!({"steps": 24, "pause": 0.25})).await;
    assert_eq!(outcome, good("arrived"));
    assert!(begin.elapsed() >= Duration::from_millis(5500), "the limit was never passed: nothing is proved");
}

#[tokio::test]
async fn progress_extends_the_limit_only_up_to_the_cap() {
    let mut spec = fake("fake", &[]);
    spec.call_timeout = Duration::from_secs(4);
    let (mut options, _) = options();
    options.progress_cap = Duration::from_secs(6);
    let host = McpToolHost::start(vec![spec], options).await;
    let outcome = call(&host, "progress", json!({"steps": 10_000, "pause": 0.02})).await;
    assert!(outcome.is_error && outcome.content.contains("within 6 s"), "{outcome:?}");
}

#[tokio::test]
async fn dropping_a_call_cancels_it_at_the_server() {
    let (host, recorder) = started(&[]).await;
    {
        let hanging = call(&host, "hang", json!({}));
        tokio::select! {
            outcome = hanging => panic!("{outcome:?}"),
            () = until("the call", || recorder.said("hanging")) => {}
        }
    }
    until("the cancellation", || recorder.said("cancelled") && recorder.said("stopped")).await;
    assert_eq!(call(&host, "echo", json!({"text": "still here"})).await, good("still here"));
}

#[tokio::test]
async fn changed_tools_are_offered_the_next_time() {
    let (host, _) = started(&[]).await;
    let later = "mcp__fake__later".to_owned();
    assert!(!names(&host).contains(&later));
    assert_eq!(call(&host, "change", json!({})).await, good("changed"));
    until("the new tool", || names(&host).contains(&later)).await;
    assert_eq!(call(&host, "later", json!({})).await, good("I am new"));
}

#[tokio::test]
async fn a_flood_of_change_notices_does_no_harm() {
    let (host, _) = started(&[]).await;
    assert_eq!(call(&host, "change", json!({"times": 20_000})).await, good("changed"));
    until("the new tool", || names(&host).contains(&"mcp__fake__later".to_owned())).await;
    assert_eq!(notices(&host), []);
}
