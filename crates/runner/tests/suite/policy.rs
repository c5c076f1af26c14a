//! Calls and policies that are refused before anything runs.

use super::support::{AgentFixture, call, launcher, run};
use althing_protocol::{ContextAccess, ToolCall, ToolHost};
use althing_runner::{
    AcceptedByUser, AvailableSandboxes, CommandHost, CommandLists, CommandPolicy, PolicyError, Sandbox,
    SandboxKind, SandboxPaths, SandboxProbe,
};
use std::path::PathBuf;

fn nothing_works() -> AvailableSandboxes {
    AvailableSandboxes {
        bubblewrap: SandboxProbe { works: None, note: "not installed (package `bubblewrap`)".to_owned() },
        landlock: SandboxProbe { works: None, note: "this kernel has no Landlock".to_owned() },
    }
}

#[tokio::test]
async fn without_a_sandbox_every_call_is_refused_and_says_why() {
    let agent_files = AgentFixture::new();
    let host = agent_files.host(nothing_works().choose_sandbox(None));
    let outcome = run(&host, "echo ran > proof").await;
    assert!(outcome.is_error);
    assert!(outcome.content.contains("not installed (package `bubblewrap`)"), "{}", outcome.content);
    assert!(outcome.content.contains("the user did not allow commands"), "{}", outcome.content);
    assert!(host.tools(ContextAccess::Writable).is_empty());
    assert!(!agent_files.path("workspace/proof").exists());
}

#[test]
fn unconfined_is_never_chosen_while_something_better_works() {
    let accepted = Some(AcceptedByUser::explicitly());
    assert_eq!(nothing_works().choose_sandbox(accepted).kind(), SandboxKind::Unconfined);
    let landlock = AvailableSandboxes {
        landlock: SandboxProbe { works: Some(6), note: String::new() },
        ..nothing_works()
    };
    assert_eq!(landlock.choose_sandbox(accepted).kind(), SandboxKind::Landlock);
}

#[test]
fn a_policy_that_grants_too_much_is_refused() {
    let agent_files = AgentFixture::new();
    let new = |change: &dyn Fn(&mut SandboxPaths)| {
        let mut sandbox_paths = agent_files.sandbox_paths();
        change(&mut sandbox_paths);
        CommandHost::new(CommandPolicy::new(sandbox_paths, Sandbox::Landlock), launcher()).map(|_| ())
    };
    assert!(new(&|_| ()).is_ok());
    assert!(matches!(
        new(&|sandbox_paths| sandbox_paths.workspace = PathBuf::from("/")),
        Err(PolicyError::TooWide { .. })
    ));
    assert!(matches!(
        new(&|sandbox_paths| sandbox_paths.readable.push(PathBuf::from("/proc"))),
        Err(PolicyError::TooWide { .. })
    ));
    assert!(matches!(
        new(&|sandbox_paths| sandbox_paths.output_dir = sandbox_paths.workspace.join("out")),
        Err(PolicyError::OutputWritable { .. })
    ));
    assert!(matches!(
        new(&|sandbox_paths| {
            sandbox_paths.state_dir = None;
            sandbox_paths.output_dir = sandbox_paths.context[0].path.join("out");
        }),
        Err(PolicyError::OutputWritable { .. })
    ));
    assert!(matches!(
        new(&|sandbox_paths| sandbox_paths.workspace.push("none")),
        Err(PolicyError::Unusable { .. })
    ));
}

#[tokio::test]
async fn invalid_calls_are_refused_with_a_message() {
    let agent_files = AgentFixture::new();
    let host = agent_files.host(Sandbox::Unconfined(AcceptedByUser::explicitly()));
    let other = ToolCall { id: "1".to_owned(), name: "rm".to_owned(), arguments: "{}".to_owned() };
    assert!(host.call(&other, ContextAccess::ReadOnly).await.is_error);
    for arguments in [serde_json::json!({}), serde_json::json!([]), serde_json::json!({ "command": "" })] {
        assert!(host.call(&call(&arguments), ContextAccess::ReadOnly).await.is_error);
    }
}

#[tokio::test]
async fn a_command_that_the_configs_lists_do_not_allow_is_refused_in_words_and_never_run() {
    let agent_files = AgentFixture::new();
    let texts = |patterns: &[&str]| patterns.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let host = agent_files.host_with(Sandbox::Unconfined(AcceptedByUser::explicitly()), |policy| {
        policy.lists = CommandLists::new(&texts(&["echo", "touch .*"]), &texts(&[".*secret"])).unwrap();
    });
    assert!(!run(&host, "  echo fine").await.is_error, "leading space does not change the command");
    let blocked = run(&host, "touch a\ntouch secret").await;
    assert!(
        blocked.is_error && blocked.content.contains("blocks what matches `.*secret`"),
        "{}",
        blocked.content
    );
    let other = run(&host, "ls; touch other").await;
    assert!(other.is_error && other.content.contains("`echo` or `touch .*`"), "{}", other.content);
    assert!(!agent_files.path("workspace/a").exists() && !agent_files.path("workspace/other").exists());
    let broken = CommandLists::new(&texts(&["(unclosed"]), &[]).unwrap_err();
    assert!(broken.to_string().contains("`(unclosed`") && broken.hint().contains("config"), "{broken}");
}

#[tokio::test]
async fn each_sandbox_is_described_in_one_line() {
    let scratch = tempfile::tempdir().unwrap();
    let lines =
        althing_runner::availability(&launcher(), scratch.path(), &scratch.path().join("no.sock")).await;
    println!("{lines:#?}");
    assert_eq!(lines.each_ref().map(|line| line.name), ["bubblewrap", "landlock", "docker"]);
    assert!(lines[2].note.contains("start Docker"), "{}", lines[2].note);
    assert!(std::fs::read_dir(scratch.path()).unwrap().next().is_none(), "the probes left files behind");
}
