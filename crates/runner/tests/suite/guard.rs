//! Tests that all our descendants are killed when we are killed.

use super::support::{HELPER, is_excluded, processes_with, unique_seconds, wait_until};
use althing_testkit::scale;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::time::Duration;

fn family(mark: &str) -> String {
    format!(
        "sleep {mark} & setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &); \
         sh -c 'trap \"\" TERM HUP INT; sleep {mark}' & sleep {mark}"
    )
}

fn killed_with(signal: Signal, kind: &str) {
    if is_excluded(kind) {
        return;
    }
    let mark = unique_seconds();
    let dir = tempfile::tempdir().unwrap();
    // The test's parent may ignore signals (`nohup`), which children inherit.
    let mut parent = Command::new("env")
        .args(["--default-signal=HUP,TERM", HELPER, "run", kind])
        .arg(dir.path())
        .arg(family(&mark))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| processes_with(&format!("sleep {mark}")), |pids| pids.len() >= 7);
    let pid = Pid::from_raw(i32::try_from(parent.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    parent.wait().unwrap();
    wait_until(|| processes_with(&mark), Vec::is_empty);
}

#[test]
fn no_process_is_left_after_we_are_killed() {
    for kind in ["unconfined", "bubblewrap", "landlock"] {
        for signal in [Signal::KILL, Signal::TERM, Signal::HUP] {
            for _ in 0..scale(1, 20) {
                killed_with(signal, kind);
            }
        }
    }
}

#[test]
fn no_process_is_left_when_the_guard_itself_is_killed_in_a_sandbox() {
    if is_excluded("bubblewrap") {
        return;
    }
    let mark = unique_seconds();
    let dir = tempfile::tempdir().unwrap();
    let mut parent = Command::new(HELPER)
        .args(["run", "bubblewrap"])
        .arg(dir.path())
        .arg(family(&mark))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| processes_with(&format!("sleep {mark}")), |pids| pids.len() >= 7);
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", parent.id())).unwrap_or_default();
    let guards: Vec<u32> = processes_with("__guard");
    let ours = guards.into_iter().find(|pid| parent_of(*pid) == Some(parent.id())).expect(&children);
    kill_process(Pid::from_raw(i32::try_from(ours).unwrap()).unwrap(), Signal::KILL).unwrap();
    wait_until(|| processes_with(&format!("sleep {mark}")), Vec::is_empty);
    parent.wait().unwrap();
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A child with a parent-death signal dies when the thread that started it ends; a guard must survive that.
#[test]
fn a_command_started_from_a_pool_thread_outlives_the_thread() {
    // In the nightly run, idle threads end after ten seconds (the default), and the command runs a minute longer.
    let (idle, works) =
        if scale(0, 1) == 1 { (Duration::from_secs(10), 70) } else { (Duration::from_millis(50), 2) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_keep_alive(idle)
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(async {
        let handle = tokio::runtime::Handle::current();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let agent_files = super::support::AgentFixture::new();
            let sandbox = althing_runner::Sandbox::Unconfined(althing_runner::AcceptedByUser::explicitly());
            let patient = |policy: &mut althing_runner::CommandPolicy| {
                policy.limits.default_timeout = Duration::from_secs(120);
            };
            let host = agent_files.host_with(sandbox, patient);
            let command = format!("sleep {works}; echo alive");
            let mut work = Box::pin(async move { (super::support::run(&host, &command).await, agent_files) });
            handle.block_on(async {
                let begun = tokio::time::timeout(Duration::from_millis(300), &mut work).await;
                assert!(begun.is_err());
            });
            let _ = sender.send(work);
        })
        .await
        .unwrap();
        receiver.await.unwrap().await.0
    });
    assert_eq!(outcome.content, "exit code: 0\nalive\n");
}
