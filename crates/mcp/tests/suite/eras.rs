//! Protocol revisions, from the first to the newest.

use super::support::{call, good, names, started, until};
use serde_json::json;

#[tokio::test]
async fn servers_of_every_revision_with_a_handshake_work() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (host, _) = started(&["--protocol", revision]).await;
        assert_eq!(host.servers()[0].protocol.as_deref(), Some(revision));
        assert_eq!(call(&host, "echo", json!({"text": revision})).await, good(revision));
    }
}

#[tokio::test]
async fn a_server_that_knows_only_the_newest_revision_works() {
    let (host, _) = started(&["--modern-only"]).await;
    assert_eq!(
        host.servers().first().and_then(|state| state.protocol.clone()).as_deref(),
        Some("2026-07-28"),
        "{:?}",
        host.notices()
    );
    assert!(names(&host).contains(&"mcp__fake__echo".to_owned()));
    assert_eq!(call(&host, "echo", json!({"text": "new"})).await, good("new"));
}

#[tokio::test]
async fn a_server_of_the_newest_revision_is_subscribed_to_for_tool_changes() {
    let (host, recorder) = started(&["--modern-only"]).await;
    until("the subscription", || recorder.said("listening")).await;
    assert_eq!(call(&host, "change", json!({})).await, good("changed"));
    until("the new tool", || names(&host).contains(&"mcp__fake__later".to_owned())).await;
}
