//! Bubblewrap that mounts something else than it was told, as it does when another agent replaces a path with a
//! symlink in the moment in which bubblewrap resolves the path. A script in place of `bwrap` does that.

use super::programs::TaskFixture;
use super::support::{AgentFixture, HELPER, run_as, sandbox};
use althing_protocol::{ContextAccess, Grant, GrantRoot, RootKind};
use althing_runner::{GuardLauncher, PipedProgram, Sandbox, SandboxKind, WriteProtection};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

/// The file `at` beside this script names the path whose mount is changed, the file `instead` what is mounted there;
/// without `instead` nothing is mounted. If there is a file `once`, only the first start is changed.
///
/// The real bubblewrap is started from a read-only mount, as Althing does, if the user is root.
const RACING_BWRAP: &str = r#"#!/bin/bash
d=$(dirname "$0")
bwrap() {
  [ "$(id -u)" = 0 ] || exec bwrap "$@"
  exec unshare -m sh -c 'b=$(command -v bwrap); mount --bind $b $b && mount -o remount,bind,ro $b && exec $b "$@"' sh "$@"
}
at=$(cat "$d/at")
[ -e "$d/raced" ] && bwrap "$@"
[ -e "$d/once" ] && touch "$d/raced"
args=()
while [ $# -gt 0 ]; do
  if [ "$2" != "$at" ]; then args+=("$1"); shift; continue; fi
  case "$1" in
    --bind|--ro-bind) [ -e "$d/instead" ] && args+=("$1" "$(cat "$d/instead")" "$3"); shift 3;;
    --tmpfs|--remount-ro) shift 2;;
    *) args+=("$1"); shift;;
  esac
done
bwrap "${args[@]}"
"#;

fn racing(found: &Sandbox, dir: &Path) -> Sandbox {
    let Sandbox::Bubblewrap(bubblewrap) = found else { panic!("not bubblewrap: {found:?}") };
    let script = dir.join("bwrap");
    std::fs::write(&script, RACING_BWRAP).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    Sandbox::Bubblewrap(bubblewrap.clone().with_program(script))
}

fn race(dir: &Path, at: &Path, instead: Option<&Path>) {
    std::fs::write(dir.join("at"), at.to_str().unwrap()).unwrap();
    if let Some(instead) = instead {
        std::fs::write(dir.join("instead"), instead.to_str().unwrap()).unwrap();
    }
}

fn victim() -> TempDir {
    let victim = tempfile::tempdir().unwrap();
    std::fs::write(victim.path().join("id"), "PRIVATE-KEY").unwrap();
    victim
}

#[tokio::test]
async fn a_command_does_not_start_if_bubblewrap_mounted_anything_else() {
    let Some(found) = sandbox(SandboxKind::Bubblewrap).await else { return };
    let victim = victim();
    let instead = victim.path().canonicalize().unwrap();
    for (path, instead) in [
        ("project", Some(&instead)),
        ("project/vendor", Some(&instead)),
        ("project/vendor", None),
        ("project/vendor/locked", Some(&instead)),
        ("project/vendor/locked", None),
        ("project/.git", None),
        ("project/.althing", None),
        ("reference", Some(&instead)),
        ("workspace", Some(&instead)),
    ] {
        let (agent, dir) = (AgentFixture::new(), tempfile::tempdir().unwrap());
        let at = agent.path(path);
        race(dir.path(), &at, instead.map(PathBuf::as_path));
        let host = agent.host(racing(&found, dir.path()));
        let command = format!(
            "cat {0}/id; touch {0}/planted; touch {1}/ran",
            at.display(),
            agent.path("workspace").display()
        );
        let outcome = run_as(&host, &command, ContextAccess::Writable).await;
        assert!(
            outcome.content.contains("was replaced while the sandbox was set up"),
            "{path} {instead:?}: {}",
            outcome.content
        );
        assert!(!outcome.content.contains("PRIVATE-KEY"), "{path}: {}", outcome.content);
        assert!(!victim.path().join("planted").exists() && !agent.path("workspace/ran").exists(), "{path}");
    }
}

#[tokio::test]
async fn a_command_is_started_again_if_a_path_was_replaced_only_once() {
    let Some(found) = sandbox(SandboxKind::Bubblewrap).await else { return };
    let (agent, dir, victim) = (AgentFixture::new(), tempfile::tempdir().unwrap(), victim());
    race(dir.path(), &agent.path("project"), Some(victim.path()));
    std::fs::write(dir.path().join("once"), "").unwrap();
    let host = agent.host(racing(&found, dir.path()));
    let outcome = run_as(&host, "echo once >> runs; cat runs", ContextAccess::Writable).await;
    assert_eq!(outcome.content, "exit code: 0\nonce\n");
}

#[tokio::test]
async fn an_agent_does_not_start_if_bubblewrap_mounted_anything_else() {
    let Some(found) = sandbox(SandboxKind::Bubblewrap).await else { return };
    let (dir, victim) = (tempfile::tempdir().unwrap(), victim());
    let fixture = TaskFixture::with(racing(&found, dir.path()));
    race(dir.path(), &fixture.path("work"), Some(victim.path()));
    let end = fixture
        .run(
            &fixture.agent("claude", &format!("touch {}\nsay wrote", fixture.path("work/planted").display())),
        )
        .await;
    assert!(
        end.error.as_deref().is_some_and(|error| error.contains("was replaced while the sandbox was set up")),
        "{end:?}"
    );
    assert!(!victim.path().join("planted").exists());
}

#[tokio::test]
async fn a_write_protected_program_does_not_start_if_bubblewrap_mounted_anything_else() {
    let Some(found) = sandbox(SandboxKind::Bubblewrap).await else { return };
    let (dir, victim) = (tempfile::tempdir().unwrap(), victim());
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("p/locked")).unwrap();
    std::fs::create_dir_all(root.join("ws")).unwrap();
    for (instead, starts) in
        [(None, false), (Some(victim.path()), false), (Some(&*root.join("p/locked")), true)]
    {
        race(&root, &root.join("p/locked"), instead);
        let context = |path: &str, writable| GrantRoot {
            path: root.join(path),
            kind: RootKind::Context,
            writable,
            protected: Vec::new(),
        };
        let grant = Grant {
            workspace: Some(root.join("ws")),
            roots: vec![context("p", true), context("p/locked", false)],
            output_dir: Some(root.join("out")),
            ..Grant::default()
        };
        let sandbox = racing(&found, &root);
        let protection = WriteProtection::new(&sandbox, &grant, ContextAccess::Writable).unwrap();
        assert!(protection.is_some());
        let program = PipedProgram {
            program: "sh".to_owned(),
            args: vec!["-c".to_owned(), format!("cat {}/id; echo ran", root.join("p/locked").display())],
            env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            cwd: root.clone(),
            grace: Duration::from_secs(60),
            protection,
        };
        match GuardLauncher::of(HELPER.into()).start_piped(program).await {
            Ok(mut piped) => {
                let mut printed = String::new();
                piped.stdout.read_to_string(&mut printed).await.unwrap();
                assert!(starts && printed == "ran\n", "{instead:?}: {printed}");
            }
            Err(error) => {
                assert!(!starts && error.to_string().contains("was replaced while"), "{instead:?}: {error}");
            }
        }
    }
}
