//! Malicious and broken servers.

use super::support::{call, good, names, notices, started, until};
use althing_mcp::NoticeKind;
use serde_json::json;

#[tokio::test]
async fn noise_on_stdout_is_logged_and_does_no_harm() {
    let (host, recorder) = started(&["--noise-at-start", "100"]).await;
    assert_eq!(call(&host, "noise", json!({"lines": 1000})).await, good("after the noise"));
    assert!(recorder.said("Server running, {not json}"));
}

#[tokio::test]
async fn a_server_with_endless_noise_is_stopped_with_a_notice() {
    let (host, _) = started(&["--noise-at-start", "20000"]).await;
    let notices = host.notices();
    assert!(notices[0].to_string().contains("too much on stdout that is not MCP"), "{notices:?}");
}

#[tokio::test]
async fn a_message_of_more_than_16_mib_drops_the_connection_and_says_why() {
    let (host, _) = started(&[]).await;
    for tool in ["huge_frame", "endless_frame"] {
        let outcome = call(&host, tool, json!({})).await;
        assert!(outcome.is_error && outcome.content.contains("more than 16 MiB"), "{tool}: {outcome:?}");
        until("the end", || !host.servers()[0].up).await;
        let back = call(&host, "echo", json!({"text": "back"})).await;
        assert!(back.content.ends_with("\nback"), "{back:?}");
    }
}

#[tokio::test]
async fn only_512_tools_of_a_server_are_offered_with_a_notice() {
    let (host, _) = started(&["--many-tools", "5000"]).await;
    assert_eq!(names(&host).len(), 512);
    assert_eq!(notices(&host), [NoticeKind::TooManyTools { kept: 512 }]);
}

#[tokio::test]
async fn an_endless_tool_list_is_cut() {
    let (host, _) = started(&["--endless-pages"]).await;
    let mut offered = names(&host);
    offered.sort();
    offered.dedup();
    assert_eq!(offered.len(), names(&host).len());
    assert_eq!(call(&host, "echo", json!({"text": "hi"})).await, good("hi"));
}

#[tokio::test]
async fn malformed_tools_are_left_out_one_by_one_and_the_rest_is_offered() {
    let (host, _) = started(&["--bad-tools"]).await;
    assert!(!call(&host, "echo", json!({"text": "I"})).await.is_error);
    let mut left_out: Vec<String> = notices(&host)
        .into_iter()
        .map(|kind| match kind {
            NoticeKind::ToolLeftOut { tool, .. } => tool,
            other => panic!("{other:?}"),
        })
        .collect();
    left_out.sort();
    let wanted = ["", "(without a name)", "echo", "schema_is_missing", "schema_is_text", "schema_of_array"];
    assert_eq!(left_out, wanted);
}

#[tokio::test]
async fn control_characters_in_names_reach_neither_providers_nor_people() {
    let (host, _) = started(&["--bad-tools"]).await;
    assert!(names(&host).contains(&"mcp__fake__bell___31m_name".to_owned()), "{:?}", names(&host));
    for notice in host.notices() {
        assert!(!notice.to_string().contains(char::is_control), "{notice}");
    }
}

#[tokio::test]
async fn messages_in_a_batch_are_understood() {
    let (host, _) = started(&[]).await;
    assert_eq!(call(&host, "batch", json!({})).await, good("in a batch"));
}

#[tokio::test]
async fn a_server_that_sends_requests_and_does_not_take_the_replies_is_stopped() {
    let (host, _) = started(&[]).await;
    let outcome = call(&host, "pings", json!({"count": 500})).await;
    assert_eq!(outcome, good("pinged"), "replies that are taken have no limit");
    let outcome = call(&host, "pings", json!({"count": 20_000, "stuck": true})).await;
    let reason = "more than 64 requests without taking the replies";
    assert!(outcome.is_error && outcome.content.contains(reason), "{outcome:?}");
    until("the end", || !host.servers()[0].up).await;
    let back = call(&host, "echo", json!({"text": "back"})).await;
    assert!(back.content.ends_with("\nback"), "{back:?}");
}
