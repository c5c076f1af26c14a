//! Starting servers: which ones are left out and why, and that none delays the others.

use super::support::{call_named, fake, good, names, notices, options, started};
use althing_mcp::{McpToolHost, NoticeKind, ServerSpec, StartError};
use std::time::{Duration, Instant};

#[tokio::test]
async fn no_servers_at_all_is_fine() {
    let host = McpToolHost::start(vec![], options().0).await;
    assert_eq!((names(&host), notices(&host)), (vec![], vec![]));
    assert!(call_named(&host, "mcp__a__b", "{}").await.is_error);
}

#[tokio::test]
async fn a_server_that_cannot_start_is_left_out_with_the_reason_and_a_hint_and_the_others_work() {
    let (options, _) = options();
    let specs = vec![
        ServerSpec::stdio("missing", "no-such-program-anywhere", vec![]),
        fake("broken", &["--exit-at-start", "7"]),
        fake("good", &[]),
    ];
    let host = McpToolHost::start(specs, options).await;
    assert_eq!(call_named(&host, "mcp__good__echo", r#"{"text":"hi"}"#).await, good("hi"));
    let mut notices = host.notices();
    notices.sort_by(|a, b| a.server.cmp(&b.server));
    assert_eq!(notices.len(), 2, "{notices:?}");
    let NoticeKind::NotStarted(StartError::Ended { how, stderr_tail }) = &notices[0].kind else {
        panic!("{notices:?}")
    };
    assert_eq!(how, "exited with status 7");
    assert_eq!(stderr_tail.last().unwrap(), "I cannot start: no module named luck");
    assert!(notices[0].to_string().contains("no module named luck"));
    let missing = StartError::NotFound { program: "no-such-program-anywhere".to_owned() };
    assert_eq!(notices[1].kind, NoticeKind::NotStarted(missing));
    assert!(notices.iter().all(|notice| notice.hint().is_some()));
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_not_taken_for_a_missing_program() {
    let mut spec = fake("fake", &[]);
    let althing_mcp::ServerTransport::Stdio { cwd, .. } = &mut spec.transport else { unreachable!() };
    *cwd = Some("/no/such/directory".into());
    let host = McpToolHost::start(vec![spec], options().0).await;
    assert!(
        matches!(&notices(&host)[..], [NoticeKind::NotStarted(StartError::Spawn { reason, .. })] if reason.contains("cwd"))
    );
}

#[tokio::test]
async fn a_server_that_never_answers_is_left_out_at_its_limit_and_does_not_hold_up_the_others_longer() {
    let mut deaf = fake("deaf", &["--deaf"]);
    let limit = Duration::from_secs(8);
    deaf.start_timeout = limit;
    let mut slow = fake("slow", &["--deaf"]);
    slow.start_timeout = limit;
    let begin = Instant::now();
    let host = McpToolHost::start(vec![deaf, slow, fake("good", &[])], options().0).await;
    assert!(begin.elapsed() < limit * 2, "they are started one after the other");
    assert!(names(&host).contains(&"mcp__good__echo".to_owned()));
    for kind in notices(&host) {
        assert!(
            matches!(&kind, NoticeKind::NotStarted(StartError::Timeout { limit: notices, .. }) if *notices == limit),
            "{kind:?}"
        );
    }
    assert_eq!(notices(&host).len(), 2);
}

#[tokio::test]
async fn two_servers_of_one_name_are_not_both_started() {
    let host = McpToolHost::start(vec![fake("fake", &[]), fake("fake", &["--no-tools"])], options().0).await;
    assert_eq!(notices(&host), [NoticeKind::DuplicateServer]);
    assert!(names(&host).contains(&"mcp__fake__echo".to_owned()));
}

#[tokio::test]
async fn allow_and_exclude_lists_decide_which_tools_are_offered_and_can_be_called() {
    let mut spec = fake("fake", &[]);
    spec.allowed_tools = Some(vec!["echo".to_owned(), "fail".to_owned(), "mcp__fake__big".to_owned()]);
    spec.exclude_tools = vec!["fail".to_owned()];
    let host = McpToolHost::start(vec![spec], options().0).await;
    assert_eq!(names(&host), ["mcp__fake__echo", "mcp__fake__big"]);
    let hidden = call_named(&host, "mcp__fake__environment", "{}").await;
    assert!(hidden.is_error && hidden.content.contains("no tool"), "{hidden:?}");
}

#[tokio::test]
async fn a_server_without_tools_gives_a_notice() {
    let (host, _) = started(&["--no-tools"]).await;
    assert_eq!(notices(&host), [NoticeKind::NoTools]);
}

#[tokio::test]
async fn descriptions_schemas_and_hints_are_passed_on() {
    let (host, _) = started(&[]).await;
    let tools = althing_protocol::ToolHost::tools(&host, althing_protocol::ContextAccess::Writable);
    let echo = tools.iter().find(|tool| tool.name == "mcp__fake__echo").unwrap();
    assert_eq!(echo.description, "The tool echo.");
    assert_eq!(echo.parameters, serde_json::json!({"type": "object", "properties": {}}));
    let info = host.tool_infos().into_iter().find(|info| info.tool == "echo").unwrap();
    assert_eq!((info.read_only, info.destructive), (Some(true), Some(false)));
    let state = host.servers().remove(0);
    assert_eq!((state.up, state.instructions.as_deref()), (true, Some("Use me well.")));
}
