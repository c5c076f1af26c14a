//! A value that tests can wait on, from async code and from plain threads, instead of polling.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// A shared value. Every `update` wakes all waiters.
#[derive(Debug, Default)]
pub(crate) struct Signal<T> {
    value: Mutex<T>,
    threads: Condvar,
    tasks: Notify,
}

impl<T> Signal<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), threads: Condvar::new(), tasks: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        // A poisoned lock is ignored: its error would hide the message of the test that panicked.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read<R>(&self, check: impl FnOnce(&T) -> R) -> R {
        check(&self.lock())
    }

    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let out = change(&mut self.lock());
        self.threads.notify_all();
        self.tasks.notify_waiters();
        out
    }

    pub(crate) async fn wait<R>(&self, mut check: impl FnMut(&T) -> Option<R>) -> R {
        loop {
            let mut changed = std::pin::pin!(self.tasks.notified());
            // Registered before the check, so that a change between the check and the await is not missed.
            changed.as_mut().enable();
            if let Some(found) = self.read(&mut check) {
                return found;
            }
            changed.await;
        }
    }

    /// `None` if `limit` passes first.
    pub(crate) async fn wait_for<R>(&self, limit: Duration, check: impl FnMut(&T) -> Option<R>) -> Option<R> {
        tokio::time::timeout(limit, self.wait(check)).await.ok()
    }

    pub(crate) fn wait_for_blocking<R>(
        &self,
        limit: Duration,
        mut check: impl FnMut(&T) -> Option<R>,
    ) -> Option<R> {
        let end = Instant::now() + limit;
        let mut guard = self.lock();
        loop {
            if let Some(found) = check(&guard) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            guard = self.threads.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
