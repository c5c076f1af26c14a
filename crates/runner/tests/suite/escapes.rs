//! Attempts to escape a sandbox. Every attempt runs in bubblewrap and in Landlock. It succeeded if it printed something
//! secret or had an effect outside the sandbox.

use super::support::{AgentFixture, SANDBOXES, processes_with, run_as, sandbox, wait_until};
use althing_protocol::ContextAccess;
use althing_runner::{ContextMount, SandboxKind};
use althing_testkit::attacks::{ATTEMPTS, HARMLESS, Outside, Places};

fn outside(agent_files: &AgentFixture) -> Outside {
    Outside::new(Places {
        base: agent_files.path(""),
        workspace: agent_files.path("workspace").display().to_string(),
        changing: ["workspace", "project/src", "fresh/src"].map(|path| agent_files.path(path)).to_vec(),
        uid: None,
    })
}

async fn no_attempt_succeeds(kind: SandboxKind) {
    let Some(sandbox) = sandbox(kind).await else { return };
    let agent_files = AgentFixture::new();
    let mut outside = outside(&agent_files);
    let host = agent_files.host_with(sandbox, |policy| {
        let fresh = ContextMount { path: agent_files.path("fresh"), writable: true, protected: Vec::new() };
        policy.sandbox_paths.context.push(fresh);
    });
    outside.remember();
    let mut failures = Vec::new();
    for (_, name, command) in ATTEMPTS {
        let outcome = run_as(&host, &outside.fill(command), ContextAccess::Writable).await;
        if name.starts_with("stay behind") {
            wait_until(|| processes_with(outside.mark()), Vec::is_empty);
        }
        // If the sandbox did not start, no attempt would have an effect, and the test would prove nothing.
        assert!(
            !outcome.content.contains("could not be run") && !outcome.content.contains("bwrap:"),
            "{}",
            outcome.content
        );
        let evidence = outside.evidence(&outcome.content);
        failures.extend(evidence.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(failures.is_empty(), "{kind:?}:\n{}", failures.join("\n"));
    println!("{kind:?}: {} attempts, 0 succeeded", ATTEMPTS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_to_get_out_of_bubblewrap_succeeds() {
    no_attempt_succeeds(SANDBOXES[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_to_get_out_of_landlock_succeeds() {
    no_attempt_succeeds(SANDBOXES[1]).await;
}

/// Without a sandbox, the harmless attempts must succeed and be noticed; otherwise the other tests prove nothing.
#[tokio::test(flavor = "multi_thread")]
async fn harmless_attempts_succeed_without_a_sandbox() {
    let sandbox = sandbox(SandboxKind::Unconfined).await.unwrap();
    for (_, name, command) in ATTEMPTS.iter().filter(|(_, name, _)| HARMLESS.contains(name)) {
        let agent_files = AgentFixture::new();
        let mut outside = outside(&agent_files);
        let host = agent_files.host(sandbox.clone());
        let outcome = run_as(&host, &outside.fill(command), ContextAccess::Writable).await;
        assert!(!outside.evidence(&outcome.content).is_empty(), "{name} proves nothing: {}", outcome.content);
    }
}
