//! Servers that die: what the running call returns, and how the server is restarted.

use super::support::{call, fake, good, is_alive, notices, options, started, until};
use althing_mcp::{McpToolHost, NoticeKind, StartError};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_running_call_reports_how_the_server_died_and_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("calls");
    let (host, _) = started(&[]).await;
    let outcome = call(&host, "append", json!({"file": file, "die": true})).await;
    assert!(outcome.is_error);
    assert!(outcome.content.contains("exited with status 4 during the call"), "{outcome:?}");
    assert!(outcome.content.contains("not repeated"), "{outcome:?}");
    assert!(matches!(&notices(&host)[..], [NoticeKind::Died { how }] if how.contains("status 4")));
    let next = call(&host, "echo", json!({"text": "back"})).await;
    assert!(!next.is_error && next.content.ends_with("back"), "{next:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "called\n");
}

#[tokio::test]
async fn every_running_call_is_notified() {
    let (host, recorder) = started(&[]).await;
    let second = async {
        until("the first call", || recorder.said("hanging")).await;
        call(&host, "die", json!({})).await
    };
    let (first, second) = tokio::join!(call(&host, "hang", json!({})), second);
    for outcome in [first, second] {
        assert!(outcome.is_error && outcome.content.contains("exited with status 3"), "{outcome:?}");
        assert!(outcome.content.contains("dying as asked"), "the last words are missing: {outcome:?}");
    }
    assert_eq!(notices(&host).len(), 1, "the death is noted once");
}

#[tokio::test]
async fn the_next_call_starts_the_server_again_and_says_so() {
    let (host, _) = started(&[]).await;
    call(&host, "die", json!({})).await;
    until("the end", || !host.servers()[0].up).await;
    let back = call(&host, "echo", json!({"text": "back"})).await;
    assert!(!back.is_error);
    assert!(back.content.starts_with("[MCP server fake exited with status 3"), "{back:?}");
    assert!(back.content.contains("was started again before this call") && back.content.ends_with("\nback"));
    assert!(notices(&host).contains(&NoticeKind::Restarted { restart: 1 }));
    assert_eq!(call(&host, "echo", json!({"text": "quiet"})).await, good("quiet"));
}

#[tokio::test]
async fn a_server_that_keeps_dying_is_restarted_a_limited_number_of_times_with_backoff() {
    let (mut options, _) = options();
    options.max_restarts = 2;
    options.restart_pause = Duration::from_millis(300);
    let host = McpToolHost::start(vec![fake("fake", &[])], options).await;
    let begin = Instant::now();
    for _ in 0..3 {
        let outcome = call(&host, "die", json!({})).await;
        assert!(outcome.content.contains("during the call"), "{outcome:?}");
        until("the end", || !host.servers()[0].up).await;
    }
    assert!(begin.elapsed() >= Duration::from_millis(300), "there was no pause");
    for _ in 0..2 {
        let outcome = call(&host, "echo", json!({})).await;
        assert!(outcome.is_error && outcome.content.contains("too often to be started again"), "{outcome:?}");
    }
    let given_up = notices(&host).iter().filter(|kind| matches!(kind, NoticeKind::GivenUp { .. })).count();
    assert_eq!(given_up, 1);
}

#[tokio::test]
async fn a_failed_restart_is_reported_and_a_later_one_may_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("needed");
    std::fs::write(&file, "").unwrap();
    let (host, _) = started(&["--exit-unless", file.to_str().unwrap()]).await;
    call(&host, "die", json!({})).await;
    until("the end", || !host.servers()[0].up).await;
    std::fs::remove_file(&file).unwrap();
    let failed = call(&host, "echo", json!({})).await;
    assert!(failed.is_error && failed.content.contains("could not be started again"), "{failed:?}");
    assert!(failed.content.contains("the file is missing"), "{failed:?}");
    let is_told = |kind: &NoticeKind| matches!(kind, NoticeKind::RestartFailed(StartError::Ended { .. }));
    assert!(notices(&host).iter().any(is_told));
    std::fs::write(&file, "").unwrap();
    let back = call(&host, "echo", json!({"text": "back"})).await;
    assert!(!back.is_error && back.content.ends_with("\nback"), "{back:?}");
}

#[tokio::test]
async fn calls_that_wait_for_a_restart_share_one() {
    let (host, _) = started(&[]).await;
    call(&host, "die", json!({})).await;
    until("the end", || !host.servers()[0].up).await;
    let both = tokio::join!(call(&host, "echo", json!({})), call(&host, "echo", json!({})));
    assert!(!both.0.is_error && !both.1.is_error, "{both:?}");
    let restarts = notices(&host).iter().filter(|kind| matches!(kind, NoticeKind::Restarted { .. })).count();
    assert_eq!(restarts, 1);
}

#[tokio::test]
async fn a_server_that_closes_its_stdout_is_dead() {
    let (host, _) = started(&["--stubborn"]).await;
    let outcome = call(&host, "close_stdout", json!({})).await;
    assert!(outcome.is_error && outcome.content.contains("during the call"), "{outcome:?}");
}

#[tokio::test]
async fn a_server_that_is_renewed_ends_at_once_and_the_next_call_starts_it_again() {
    let (mut options, _) = options();
    options.max_restarts = 0;
    let host = McpToolHost::start(vec![fake("fake", &[])], options).await;
    for _ in 0..2 {
        host.renew().await;
        assert!(!host.servers()[0].up, "it can still act");
        host.renew().await;
        let back = call(&host, "echo", json!({"text": "back"})).await;
        assert!(!back.is_error && back.content.ends_with("back"), "{back:?}");
    }
    let again = call(&host, "echo", json!({"text": "again"})).await;
    assert_eq!(again, good("again"), "the process of the last call is still there");
    host.renew().await;
    let told = call(&host, "echo", json!({"text": "told"})).await;
    assert!(told.content.contains("the paths that it may write to have changed"), "{told:?}");
    assert_eq!(notices(&host), [], "nothing went wrong");
    host.close().await;
    host.renew().await;
    assert!(call(&host, "echo", json!({})).await.is_error, "a closed host stays closed");
}

#[tokio::test]
async fn a_closed_host_refuses_calls_and_starts_nothing() {
    let (host, _) = started(&[]).await;
    host.close().await;
    let outcome = call(&host, "echo", json!({})).await;
    assert!(outcome.is_error && outcome.content.contains("is closed"), "{outcome:?}");
}

#[tokio::test]
async fn a_server_whose_orphans_hold_its_pipes_counts_as_dead() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let (host, _) = started(&[]).await;
    let outcome = call(&host, "daemon", json!({"file": file})).await;
    assert!(outcome.content.contains("exited with status 6 during the call"), "{outcome:?}");
    let daemon = std::fs::read_to_string(file).unwrap();
    assert!(is_alive(&daemon), "the daemon is gone: nothing is proved");
    std::process::Command::new("kill").arg(daemon.trim()).status().unwrap();
}

#[tokio::test]
async fn the_restart_count_is_reset_after_a_long_uptime() {
    let (mut options, _) = options();
    options.max_restarts = 1;
    options.restarts_forgiven_after = Duration::ZERO;
    let host = McpToolHost::start(vec![fake("fake", &[])], options).await;
    for _ in 0..3 {
        let outcome = call(&host, "die", json!({})).await;
        assert!(outcome.content.contains("during the call"), "{outcome:?}");
        until("the end", || !host.servers()[0].up).await;
    }
}

#[tokio::test]
async fn a_call_running_at_close_reports_it_without_a_notice() {
    let (host, recorder) = started(&[]).await;
    let close = async {
        until("the call", || recorder.said("hanging")).await;
        host.close().await;
    };
    let (outcome, ()) = tokio::join!(call(&host, "hang", json!({})), close);
    assert!(outcome.is_error && outcome.content.contains("was closed during the call"), "{outcome:?}");
    assert_eq!(notices(&host), []);
}

#[tokio::test]
async fn notices_reach_the_listener_as_they_arise() {
    let (mut options, _) = options();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let ear = heard.clone();
    options.on_notice = Some(Arc::new(move |notice| ear.lock().unwrap().push(notice.to_string())));
    let host = McpToolHost::start(vec![fake("fake", &[])], options).await;
    call(&host, "die", json!({})).await;
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard, ["MCP server fake exited with status 3 (its last output was: dying as asked)"]);
}
