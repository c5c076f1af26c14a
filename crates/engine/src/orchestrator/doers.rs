//! The model calls under way: started, told apart, stopped.

use super::feed::Feed;
use super::{Backend, Input};
use crate::coordination::CallKey;
use althing_protocol::{
    BackendError, BackendErrorKind, Delta, DeltaKind, ModelRequest, Progress, Reply, TaskId, Usage,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// Which call of which run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DoerKey {
    pub(crate) run: TaskId,
    pub(crate) call: CallKey,
}

/// The calls under way. Dropping it stops them all.
pub(super) struct Doers {
    runtime: Handle,
    feed: Feed,
    inbox: Sender<Input>,
    under_way: HashMap<DoerKey, AbortHandle>,
}

impl Doers {
    pub(super) fn new(runtime: Handle, feed: Feed, inbox: Sender<Input>) -> Self {
        Self { runtime, feed, inbox, under_way: HashMap::new() }
    }

    pub(super) fn has(&self, key: &DoerKey) -> bool {
        self.under_way.contains_key(key)
    }

    /// Takes note that a call ended; false if it was not under way any more.
    pub(super) fn finished(&mut self, key: &DoerKey) -> bool {
        self.under_way.remove(key).is_some()
    }

    /// Stops the calls of a run that are not wanted any more.
    pub(super) fn keep_only(&mut self, run: &TaskId, wanted: &[CallKey]) {
        self.under_way.retain(|key, call| {
            let keep = key.run != *run || wanted.contains(&key.call);
            if !keep {
                call.abort();
            }
            keep
        });
    }

    pub(super) fn stop_all(&mut self) {
        for (_, call) in self.under_way.drain() {
            call.abort();
        }
    }

    pub(super) fn start(
        &mut self,
        key: DoerKey,
        work: TaskId,
        request: ModelRequest,
        backend: Option<Arc<dyn Backend>>,
    ) {
        let feed = self.feed.clone();
        let report = Report { inbox: self.inbox.clone(), key: key.clone(), result: Some(Err(broken())) };
        let call = self.runtime.spawn(async move {
            let mut on_delta = |delta: Delta<'_>| pass_on(&feed, &work, delta);
            let result = match backend {
                Some(backend) => backend.call(&request, &mut on_delta).await,
                None => Err(no_backend()),
            };
            report.send(result);
        });
        self.under_way.insert(key, call.abort_handle());
    }
}

impl Drop for Doers {
    fn drop(&mut self) {
        self.stop_all();
    }
}

/// Reports the end of a call whatever ended it: a backend that panics must not leave its run waiting for ever.
struct Report {
    inbox: Sender<Input>,
    key: DoerKey,
    result: Option<Result<Reply, BackendError>>,
}

impl Report {
    fn send(mut self, result: Result<Reply, BackendError>) {
        self.result = Some(result);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            // The session may be gone already; then nobody waits for this.
            let _ = self.inbox.send(Input::CallEnded { key: self.key.clone(), result });
        }
    }
}

fn broken() -> BackendError {
    BackendError {
        kind: BackendErrorKind::Protocol,
        message: "the call broke off inside Althing".into(),
        hint: Some("please report this, with the session's log".into()),
        usage: Usage::default(),
    }
}

fn pass_on(feed: &Feed, work: &TaskId, delta: Delta<'_>) {
    // Retries are rare and always worth telling.
    if !feed.is_watched() && !matches!(delta, Delta::Retry { .. }) {
        return;
    }
    let (kind, text) = match delta {
        Delta::Text(text) => (DeltaKind::Text, text.to_owned()),
        Delta::Reasoning(text) => (DeltaKind::Reasoning, text.to_owned()),
        Delta::ToolCall(name) => (DeltaKind::ToolCall, name.to_owned()),
        Delta::Retry { attempt, after, reason } => {
            (DeltaKind::Retry, format!("retry {attempt} in {:.1} s: {reason}", after.as_secs_f64()))
        }
    };
    feed.pass(|after| Progress::Delta { after, task: work.clone(), kind, text });
}

fn no_backend() -> BackendError {
    BackendError {
        kind: BackendErrorKind::NotFound,
        message: "this agent has no backend in this configuration".into(),
        hint: Some("resume with the configuration that the run was started with".into()),
        usage: Usage::default(),
    }
}
