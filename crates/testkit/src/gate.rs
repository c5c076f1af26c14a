//! A gate in a stream: the test controls when each chunk is sent, so that "while A is still answering" is
//! deterministic.

use std::sync::Arc;
use std::time::Duration;

use crate::signal::Signal;

/// Holds back a reply chunk by chunk. Clones are the same gate, and share its permits.
///
/// Headers and the start of the stream are sent at once (unless [`Gate::before_headers`]). Then every chunk of content
/// needs one permit, and the end of the stream (finish reason, usage, end marker) one more.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    inner: Arc<Signal<GateState>>,
    before_headers: bool,
}

#[derive(Debug, Default)]
struct GateState {
    permits: usize,
    open: bool,
    waiting: usize,
    sent: usize,
}

impl Gate {
    pub fn new() -> Self {
        Self::default()
    }

    /// A closed gate that also holds the response headers, which need their own permit.
    pub fn before_headers() -> Self {
        Self { before_headers: true, ..Self::default() }
    }

    pub fn release(&self, n: usize) {
        self.inner.update(|state| state.permits += n);
    }

    pub fn release_all(&self) {
        self.inner.update(|state| state.open = true);
    }

    pub fn sent(&self) -> usize {
        self.inner.read(|state| state.sent)
    }

    /// Waits until `n` chunks in total were written to the socket. Panics after `limit`.
    pub async fn wait_sent(&self, n: usize, limit: Duration) {
        let done = self.inner.wait_for(limit, enough(n)).await;
        assert!(done.is_some(), "{}", self.complaint("chunks sent", n));
    }

    /// As `wait_sent`, for a thread without a runtime.
    pub fn wait_sent_blocking(&self, n: usize, limit: Duration) {
        let done = self.inner.wait_for_blocking(limit, enough(n));
        assert!(done.is_some(), "{}", self.complaint("chunks sent", n));
    }

    /// Waits until `n` streams wait at the closed gate. Panics after `limit`.
    pub async fn wait_waiting(&self, n: usize, limit: Duration) {
        let done = self.inner.wait_for(limit, |state| (state.waiting >= n).then_some(())).await;
        assert!(done.is_some(), "{}", self.complaint("streams waiting", n));
    }

    /// As `wait_waiting`, for a thread without a runtime.
    pub fn wait_waiting_blocking(&self, n: usize, limit: Duration) {
        let done = self.inner.wait_for_blocking(limit, |state| (state.waiting >= n).then_some(()));
        assert!(done.is_some(), "{}", self.complaint("streams waiting", n));
    }

    fn complaint(&self, what: &str, wanted: usize) -> String {
        self.inner.read(|state| format!("gate: {wanted} {what} wanted, but it is at {state:?}"))
    }

    pub(crate) fn holds_headers(&self) -> bool {
        self.before_headers
    }

    /// Takes one permit, waiting if necessary. Cancel-safe.
    pub(crate) async fn pass(&self) {
        // Counted by a guard, so that the count is right even if the client disconnects, which drops this future.
        let _waiting = WaitingGuard::new(&self.inner);
        loop {
            self.inner.wait(|state| (state.open || state.permits > 0).then_some(())).await;
            let taken = self.inner.update(|state| {
                let may = state.open || state.permits > 0;
                if may && !state.open {
                    state.permits -= 1;
                }
                may
            });
            if taken {
                return;
            }
        }
    }

    pub(crate) fn note_sent(&self) {
        self.inner.update(|state| state.sent += 1);
    }
}

fn enough(n: usize) -> impl FnMut(&GateState) -> Option<()> {
    move |state| (state.sent >= n).then_some(())
}

struct WaitingGuard<'a>(&'a Signal<GateState>);

impl<'a> WaitingGuard<'a> {
    fn new(signal: &'a Signal<GateState>) -> Self {
        signal.update(|state| state.waiting += 1);
        Self(signal)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.update(|state| state.waiting -= 1);
    }
}
