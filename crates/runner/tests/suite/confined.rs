//! Programs in sandboxes: an agent with full permissions, and a command whose task sets `sandbox: true`. Also which
//! variables programs inherit, and floods of output.

use super::programs::{AGENT, TaskFixture};
use super::support::{HELPER, sandbox};
use althing_runner::{Sandbox, SandboxKind};
use althing_testkit::scale;

async fn sandboxed_fixture() -> Option<TaskFixture> {
    Some(TaskFixture::with(sandbox(SandboxKind::Bubblewrap).await?))
}

#[tokio::test]
async fn an_agent_with_full_permissions_writes_only_in_its_working_directory() {
    let Some(fixture) = sandboxed_fixture().await else { return };
    std::fs::create_dir(fixture.path("work/.git")).unwrap();
    std::fs::write(fixture.path("outside"), "untouched").unwrap();
    let inside = format!("touch {}\nsay wrote", fixture.path("work/inside").display());
    let end = fixture.run(&fixture.agent("claude", &inside)).await;
    assert!(end.ok && fixture.path("work/inside").exists(), "{end:?}");
    for path in ["outside", "work/.git/hook", "state/log"] {
        // In the sandbox, the write may succeed in a private /tmp. Only the file outside matters.
        fixture.run(&fixture.agent("claude", &format!("touch {}", fixture.path(path).display()))).await;
    }
    assert_eq!(std::fs::read_to_string(fixture.path("outside")).unwrap(), "untouched");
    assert!(!fixture.path("work/.git/hook").exists() && !fixture.path("state/log").exists());
}

#[tokio::test]
async fn a_users_command_has_the_users_rights_unless_it_asks_for_a_sandbox() {
    let Some(fixture) = sandboxed_fixture().await else { return };
    let script = format!("touch {}", fixture.path("outside").display());
    let mut job = fixture.job("t", &script);
    job.spec.sandbox = Some(true);
    fixture.run(&job).await;
    assert!(!fixture.path("outside").exists());
    job.spec.sandbox = None;
    assert!(fixture.run(&job).await.ok && fixture.path("outside").exists());
}

#[tokio::test]
async fn what_a_program_in_the_sandbox_plants_is_not_run_by_one_outside() {
    let hook = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"sh scripts/hook.sh"}]}]}}"#;
    for (planted, is_new, is_agent) in [
        (".claude/settings.json", true, false),
        ("sub/.mcp.json", true, true),
        (".env", true, false),
        (".envrc", true, true),
        ("scripts/hook.sh", false, true),
    ] {
        let Some(fixture) = sandboxed_fixture().await else { return };
        for dir in ["work/scripts", "work/sub/deep", "other"] {
            std::fs::create_dir_all(fixture.path(dir)).unwrap();
        }
        if !is_new {
            std::fs::create_dir(fixture.path("work/.claude")).unwrap();
            std::fs::write(fixture.path("work/.claude/settings.json"), hook).unwrap();
            std::fs::write(fixture.path("work/scripts/hook.sh"), "true").unwrap();
        }
        let outside = |cwd: &str| {
            let mut job = fixture.command("outside", &["sh", "-c", "echo ran"], "");
            job.spec.cwd = fixture.path(cwd).to_str().unwrap().to_owned();
            job
        };
        assert!(fixture.run(&outside("work")).await.ok);
        let script = format!("mkdir -p .claude sub; echo '{hook}' > {planted}");
        let mut planter = fixture.command("planter", &["sh", "-c", &script], "");
        planter.spec.sandbox = Some(true);
        if is_agent {
            let path = fixture.path("work").join(planted);
            planter = fixture.agent("claude", &format!("touch {}\nsay wrote", path.display()));
        }
        let end = fixture.run(&planter).await;
        assert!(end.ok && fixture.path("work").join(planted).exists(), "{end:?} {:?}", fixture.reports());
        for cwd in ["work", "work/sub/deep"] {
            let end = fixture.run(&outside(cwd)).await;
            let named = end.error.as_deref().is_some_and(|error| error.contains(planted));
            assert!(
                !end.ok && named && end.output.is_empty(),
                "{planted} in {cwd}: {end:?} {:?}",
                fixture.reports()
            );
            assert!(end.hint.as_deref().unwrap().contains("start the workflow again"), "{end:?}");
        }
        assert!(fixture.run(&outside("other")).await.ok, "{planted}");
        let mut inside = outside("work");
        inside.spec.sandbox = Some(true);
        assert!(fixture.run(&inside).await.ok, "{planted}");
        std::fs::remove_file(fixture.path("work").join(planted)).unwrap();
        assert!(fixture.run(&outside("work")).await.ok, "{planted} was deleted");
    }
}

#[tokio::test]
async fn planted_settings_are_found_among_any_number_of_files() {
    let Some(fixture) = sandboxed_fixture().await else { return };
    // More files than are searched before and after the program runs.
    for n in 0..21_000 {
        std::fs::File::create(fixture.path("work").join(format!("{n}"))).unwrap();
    }
    let script = "mkdir .claude; echo {} > .claude/settings.json";
    let mut planter = fixture.command("planter", &["sh", "-c", script], "");
    planter.spec.sandbox = Some(true);
    assert!(fixture.run(&planter).await.ok);
    let end = fixture.run(&fixture.command("outside", &["sh", "-c", "echo ran"], "")).await;
    assert!(end.error.as_deref().is_some_and(|error| error.contains(".claude/settings.json")), "{end:?}");
}

#[tokio::test]
async fn without_a_sandbox_a_command_that_asks_for_one_is_refused() {
    let fixture = TaskFixture::with(Sandbox::Refused { why: "no sandbox works here".to_owned() });
    let mut job = fixture.job("t", "say hello");
    job.spec.sandbox = Some(true);
    let end = fixture.run(&job).await;
    assert!(end.error.as_deref().unwrap().contains("no sandbox works here"), "{end:?}");
    assert!(fixture.agent_log().is_empty(), "nothing of it ran");
    job.spec.sandbox = None;
    assert!(fixture.run(&job).await.ok);
}

#[tokio::test]
async fn without_a_sandbox_a_program_of_adapters_is_refused_unless_the_user_accepted_it() {
    let refused = TaskFixture::with(Sandbox::Refused { why: "no sandbox works here".to_owned() });
    let end = refused.run(&refused.agent("claude", "say hello")).await;
    let error = end.error.as_deref().unwrap();
    assert!(error.contains("no sandbox works here") && error.contains("--unconfined"), "{end:?}");
    assert!(refused.agent_log().is_empty(), "nothing of it ran");
    if let Some(fixture) = sandboxed_fixture().await {
        let mut job = fixture.agent("claude", "say hello");
        job.spec.sandbox = Some(false);
        let end = fixture.run(&job).await;
        assert!(end.error.as_deref().is_some_and(|error| error.contains("`sandbox: false`")), "{end:?}");
        assert!(fixture.agent_log().is_empty(), "nothing of it ran");
    }
    let accepted = TaskFixture::new();
    assert!(accepted.run(&accepted.agent("claude", "say hello")).await.ok);
}

#[tokio::test]
async fn secrets_in_our_environment_are_not_passed_on() {
    let fixture = TaskFixture::new();
    // Cargo has set this variable in every test process. Setting a variable here could affect other tests.
    let ours = "CARGO_MANIFEST_DIR";
    let end = fixture.run(&fixture.agent("claude", &format!("env {ours}"))).await;
    let raw = std::fs::read_to_string(fixture.path("state/claude/output.raw")).unwrap();
    assert!(
        end.ok && raw.contains(&format!("{ours}=(not set)")),
        "an agent gets only an allow-list of variables: {raw}"
    );
    let end = fixture.run(&fixture.job("t", &format!("env {ours}"))).await;
    assert!(
        !end.output.contains("(not set)"),
        "the user's own command gets variables that are not secret: {end:?}"
    );
}

#[test]
fn floods_cost_little_memory_and_are_kept_only_in_part() {
    let (mib, escapes) = (scale(48, 1024), scale(50_000, 1_000_000));
    for script in [format!("flood {mib}"), format!("line {mib}"), format!("escapes {escapes}")] {
        let dir = tempfile::tempdir().unwrap();
        let output = std::process::Command::new(HELPER)
            .arg("program")
            .arg(dir.path())
            .args([AGENT, &format!("{script}\nexit 5")])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("exit Some(5)"), "{script}: {text}");
        let peak = text.split("VmHWM:").nth(1).unwrap().split_whitespace().next().unwrap();
        assert!(peak.parse::<u64>().unwrap() < 64 * 1024, "{script}: {peak} kB");
        let kept = std::fs::metadata(dir.path().join("task/output.raw")).unwrap().len();
        assert!(kept <= 16 * 1024 * 1024, "{script}: {kept}");
        println!("{script}: {}", text.replace('\n', "; "));
    }
}
