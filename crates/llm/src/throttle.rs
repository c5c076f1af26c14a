//! Rate limits per API key: concurrent requests and requests per minute.
//!
//! Providers count per key, so agents that share a key of one server share a throttle, whatever their models. Every
//! attempt needs a permit, including retries, because providers count those as well. Waiting is fair (first come,
//! first served), counts toward the call's time limit, and a call that is dropped while it waits is not counted.

use crate::BuildError;
use crate::limits::whole_number;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// The window in which request starts are counted.
const MINUTE: Duration = Duration::from_mins(1);

/// The rate limits in a config.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateLimits {
    /// `max_concurrent_requests`.
    pub(crate) at_once: Option<usize>,
    /// `requests_per_minute`.
    pub(crate) per_minute: Option<usize>,
}

impl RateLimits {
    /// Reads the limits from a backend's parameters.
    pub(crate) fn from_params(params: &Map<String, Value>) -> Result<Self, BuildError> {
        let count = |name| match whole_number(params, name)? {
            Some(0) => Err(BuildError::BadParam { name, expected: "a whole number above 0" }),
            n => Ok(n.map(|n| usize::try_from(n).unwrap_or(usize::MAX))),
        };
        Ok(Self { at_once: count("max_concurrent_requests")?, per_minute: count("requests_per_minute")? })
    }
}

/// The throttle of one API key.
#[derive(Debug)]
pub(crate) struct Throttle {
    running: Arc<Semaphore>,
    /// The latest start times of requests, oldest first; at most `requests_per_minute` many, and unused without that
    /// limit. The lock is held while waiting, so that permits are granted in order.
    started: Mutex<VecDeque<Instant>>,
    allowed: SyncMutex<RateLimits>,
}

/// A permit to run one request; returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    _running: Option<OwnedSemaphorePermit>,
}

impl Throttle {
    /// A throttle without limits.
    pub(crate) fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            started: Mutex::new(VecDeque::new()),
            allowed: SyncMutex::new(RateLimits::default()),
        }
    }

    /// Applies additional limits. If backends that share this throttle have different limits, the strictest limit
    /// applies to all of them.
    pub(crate) fn tighten(&self, to: RateLimits) {
        let mut allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        let before = allowed.at_once.unwrap_or(Semaphore::MAX_PERMITS);
        if let Some(at_once) = to.at_once.filter(|n| *n < before) {
            self.running.forget_permits(before - at_once);
            allowed.at_once = Some(at_once);
        }
        if let Some(per_minute) = to.per_minute {
            allowed.per_minute = Some(allowed.per_minute.unwrap_or(usize::MAX).min(per_minute));
        }
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self) -> Permit {
        let running = Arc::clone(&self.running).acquire_owned().await.ok();
        let per_minute = self.allowed.lock().unwrap_or_else(PoisonError::into_inner).per_minute;
        if let Some(most) = per_minute {
            let mut started = self.started.lock().await;
            while started.len() >= most {
                let Some(oldest) = started.front().copied() else { break };
                sleep_until(oldest + MINUTE).await;
                started.pop_front();
            }
            started.push_back(Instant::now());
        }
        Permit { _running: running }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn allowed(value: &Value) -> Result<RateLimits, BuildError> {
        RateLimits::from_params(value.as_object().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn no_minute_has_more_request_starts_than_allowed() {
        let throttle = Throttle::new();
        throttle.tighten(RateLimits { per_minute: Some(3), at_once: None });
        let start = Instant::now();
        let mut seconds = Vec::new();
        for _ in 0..7 {
            drop(throttle.acquire().await);
            seconds.push(start.elapsed().as_secs());
        }
        assert_eq!(seconds, [0, 0, 0, 60, 60, 60, 120]);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrency_is_limited_and_the_strictest_config_applies() {
        let throttle = Arc::new(Throttle::new());
        for at_once in [5, 2, 3] {
            throttle.tighten(RateLimits { at_once: Some(at_once), per_minute: None });
        }
        let (first, second) = (throttle.acquire().await, throttle.acquire().await);
        let third = tokio::spawn({
            let throttle = Arc::clone(&throttle);
            async move { throttle.acquire().await }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!third.is_finished());
        drop(first);
        third.await.unwrap();
        drop(second);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_waiter_takes_no_permit() {
        let throttle = Throttle::new();
        throttle.tighten(RateLimits { per_minute: Some(1), at_once: Some(1) });
        let start = Instant::now();
        drop(throttle.acquire().await);
        for _ in 0..3 {
            assert!(tokio::time::timeout(Duration::from_secs(10), throttle.acquire()).await.is_err());
        }
        drop(throttle.acquire().await);
        assert_eq!(start.elapsed().as_secs(), 60);
    }

    #[test]
    fn a_limit_of_zero_is_rejected_by_name() {
        assert_eq!(
            allowed(&json!({"requests_per_minute": 30})),
            Ok(RateLimits { at_once: None, per_minute: Some(30) })
        );
        for bad in [json!(0), json!(-1), json!("3")] {
            let error = allowed(&json!({"max_concurrent_requests": bad})).unwrap_err();
            assert!(error.to_string().contains("max_concurrent_requests"), "{error}");
        }
    }
}
