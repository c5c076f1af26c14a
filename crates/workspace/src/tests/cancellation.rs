//! A file operation continues after its caller was cancelled; the next operation on the same files must wait for its
//! end.

use super::agent_files::{RunFixture, put};
use super::fixture::{tree, write};
use super::scale;
use crate::exclusive::hold::{Gate, holders_and_waiters};
use crate::{AgentFiles, ProjectHost, ProjectWorkspace, TaskHost};
use althing_protocol::{AnswerLabel, BoxFuture, ContextAccess, ToolCall, ToolHost, ToolOutcome};
use serde_json::{Value, json};
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn label(agent: u32, nth: u32) -> AnswerLabel {
    AnswerLabel { agent, nth }
}

/// The engine aborts a model call in this way when newer answers arrive.
async fn start_and_cancel<T: Send + 'static>(
    operation: impl Future<Output = T> + Send + 'static,
    steps: u32,
) {
    let started = tokio::spawn(operation);
    for _ in 0..steps {
        tokio::task::yield_now().await;
    }
    started.abort();
    let _ = started.await;
}

fn fill_workspace(files: &AgentFiles, count: usize, text: &str) {
    for n in 0..count {
        write(&Path::new(files.path()).join(format!("d{}/{n}.txt", n % 9)), text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_operations_at_random_moments_spoil_nothing_that_follows() {
    let fixture = RunFixture::writable();
    let others = [fixture.files(0), fixture.files(1)];
    for (agent, other) in (1..).zip(&others) {
        for nth in 1..=3 {
            fill_workspace(other, 100, &format!("agent {agent} answer {nth}"));
            other.take_snapshot(label(agent, nth)).await.unwrap();
        }
    }
    let judge = Arc::new(fixture.files(2));
    fill_workspace(&judge, 50, "the judge's own");
    let own = tree(Path::new(judge.path()));
    for round in 0..scale(25, 1000) as u32 {
        let (newest, answer) = (label(1, 1 + round % 3), label(3, 1 + round));
        let moment = fastrand::u32(0..2000);
        let (at, shown) = (judge.clone(), vec![label(1, 1 + (round + 1) % 3), label(2, 1 + round % 3)]);
        start_and_cancel(async move { at.show_snapshots(shown).await }, moment).await;
        judge.show_snapshots(vec![newest, label(2, 3)]).await.unwrap();
        let seen = tree(Path::new(&judge.view_of(1)));
        assert_eq!(seen.len(), 100, "round {round}");
        let wanted = format!("agent 1 answer {}", newest.nth);
        assert!(seen.values().all(|text| *text == wanted), "round {round}: not {wanted}");

        let at = judge.clone();
        start_and_cancel(async move { at.take_snapshot(answer).await }, moment).await;
        judge.take_snapshot(answer).await.unwrap();
        let snapshot = fixture.run.join("snapshots").join(answer.to_string()).canonicalize().unwrap();
        assert_eq!(tree(&snapshot), own, "round {round}");

        let (at, from) = (judge.clone(), snapshot.to_str().unwrap().to_owned());
        let again = from.clone();
        start_and_cancel(async move { at.import_dir(&from, "taken").await }, moment).await;
        judge.import_dir(&again, "taken").await.unwrap();
        assert_eq!(tree(&Path::new(judge.path()).join("taken")), own, "round {round}");
        assert!(!put(&judge, "taken/more.txt", "more").await.is_error);
        crate::ConfinedDir::open(Path::new(judge.path())).unwrap().remove_tree("taken".as_ref()).unwrap();
    }
}

#[tokio::test]
async fn a_copy_of_a_second_snapshot_has_the_files_that_did_not_change_since_the_first() {
    let fixture = RunFixture::writable();
    let (subagent, agent) = (fixture.files(0), fixture.files(1));
    fill_workspace(&subagent, 20, "unchanged");
    super::snapshots::let_time_pass(&fixture.base);
    subagent.take_snapshot(label(1, 1)).await.unwrap();
    write(&Path::new(subagent.path()).join("new.txt"), "new");
    subagent.take_snapshot(label(1, 2)).await.unwrap();
    let snapshot = fixture.run.join("snapshots/agent1.2");
    let shared = std::fs::metadata(snapshot.join("d0/0.txt")).unwrap().nlink();
    assert!(shared > 1, "an unchanged file is a hard link");
    agent.import_dir(snapshot.to_str().unwrap(), "taken").await.unwrap();
    assert_eq!(tree(&Path::new(agent.path()).join("taken")), tree(Path::new(subagent.path())));
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// An operation that can be started repeatedly, and the path whose lock it takes.
struct Operation {
    name: &'static str,
    path: PathBuf,
    start: Box<dyn Fn() -> BoxFuture<'static, Result<(), String>>>,
}

fn on_files<F>(
    name: &'static str,
    files: &Arc<AgentFiles>,
    start: impl Fn(Arc<AgentFiles>) -> F + 'static,
) -> Operation
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let (path, files) = (PathBuf::from(files.path()), files.clone());
    Operation { name, path, start: Box::new(move || Box::pin(start(files.clone()))) }
}

fn judged(outcome: ToolOutcome) -> Result<(), String> {
    if outcome.is_error { Err(outcome.content) } else { Ok(()) }
}

fn on_host(host: impl ToolHost + 'static, path: &Path, tool: &'static str, arguments: Value) -> Operation {
    let host = Arc::new(host);
    let start = move || {
        let call = ToolCall { id: "c".into(), name: tool.into(), arguments: arguments.to_string() };
        let host = host.clone();
        let run = async move { judged(host.call(&call, ContextAccess::Writable).await) };
        Box::pin(run) as BoxFuture<'static, _>
    };
    Operation { name: tool, path: path.to_owned(), start: Box::new(start) }
}

fn operations(fixture: &RunFixture, files: &Arc<AgentFiles>) -> Vec<Operation> {
    let from = fixture.at("project/src");
    let project = ProjectWorkspace::open(&fixture.base.join("a project")).unwrap();
    let project_dir = project.dir().to_owned();
    let tasks = TaskHost::open(Path::new(files.path()), 10).unwrap();
    let list = Path::new(files.path()).join("tasks/plan.json");
    vec![
        on_files("take_snapshot", files, |files| async move { files.take_snapshot(label(1, 1)).await }),
        on_files(
            "show_snapshots",
            files,
            |files| async move { files.show_snapshots(vec![label(2, 1)]).await },
        ),
        on_files("import_dir", files, move |files| {
            let from = from.clone();
            async move { files.import_dir(&from, "taken").await }
        }),
        on_files("open_context", files, |files| async move { files.open_context().await }),
        on_files("write_file", files, |files| async move { judged(put(&files, "a.txt", "text").await) }),
        on_files("close_context", files, |files| async move { files.close_context().await.map(drop) }),
        on_host(tasks, &list, "create_task_plan", json!({"tasks": ["one", "two"]})),
        on_host(
            ProjectHost::new(project),
            &project_dir,
            "describe_path",
            json!({"path": ".", "description": "it"}),
        ),
    ]
}

#[tokio::test]
async fn an_operation_waits_for_the_cancelled_one_before_it() {
    let fixture = RunFixture::writable();
    let (files, other) = (Arc::new(fixture.files(0)), fixture.files(1));
    fill_workspace(&files, 20, "mine");
    fill_workspace(&other, 20, "the other's");
    other.take_snapshot(label(2, 1)).await.unwrap();
    for Operation { name, path, start } in operations(&fixture, &files) {
        let gate = Gate::close(&path);
        let first = tokio::spawn(start());
        until("the first operation begins", || gate.began() == 1).await;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled(), "{name}");
        let cancelled_in_the_queue = tokio::spawn(start());
        until("a second one waits", || gate.began() == 2 || holders_and_waiters(&path) == 2).await;
        cancelled_in_the_queue.abort();
        assert!(cancelled_in_the_queue.await.unwrap_err().is_cancelled(), "{name}");
        let next = tokio::spawn(start());
        until("the next one waits", || gate.began() == 3 || holders_and_waiters(&path) == 2).await;
        assert_eq!(gate.began(), 1, "{name} began while the cancelled one was at work");
        gate.open();
        next.await.unwrap().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((gate.began(), gate.most_at_once()), (2, 1), "{name}: began, most at once");
    }
    assert_eq!(tree(Path::new(&files.view_of(2))).len(), 20);
    assert_eq!(tree(&Path::new(files.path()).join("taken")).len(), 1);
}

#[tokio::test]
async fn context_paths_stay_locked_while_a_cancelled_opening_still_reads_them() {
    let fixture = RunFixture::writable();
    let (files, other) = (Arc::new(fixture.files(0)), Arc::new(fixture.files(1)));
    let is_locked = || {
        let project = File::open(fixture.base.join("project")).unwrap();
        matches!(project.try_lock(), Err(TryLockError::WouldBlock))
    };
    let gate = Gate::close(Path::new(files.path()));
    let at = files.clone();
    let opening = tokio::spawn(async move { at.open_context().await });
    until("the opening begins", || gate.began() == 1).await;
    opening.abort();
    let _ = opening.await;
    assert!(is_locked(), "another session could write while the pre-images are copied");
    gate.open();
    files.open_context().await.unwrap();
    assert!(!put(&files, &fixture.at("project/b.txt"), "b after\n").await.is_error);

    let gate = Gate::close(Path::new(files.path()));
    let at = files.clone();
    let closing = tokio::spawn(async move { at.close_context().await });
    until("the closing begins", || gate.began() == 1).await;
    closing.abort();
    let _ = closing.await;
    gate.open();
    // The paths are free, although closing them for the first agent was cancelled.
    other.open_context().await.unwrap();
    assert!(is_locked());
    let writes = other.close_context().await.unwrap();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert!(!is_locked());
}
