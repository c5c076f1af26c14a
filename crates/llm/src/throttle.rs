//! Rate limits per API key: concurrent requests, requests per minute, and pauses after a provider's rejection. After
//! a pause, one request goes first (the probe); if the provider accepts it, the others follow, spread over a second.
//! Every attempt needs a permit, because providers count retries, too.

use crate::BuildError;
use crate::limits::whole_number;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

const MINUTE: Duration = Duration::from_mins(1);

/// The time over which the requests that waited for the same probe are spread.
const SPREAD: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateLimits {
    pub(crate) at_once: Option<usize>,
    pub(crate) per_minute: Option<usize>,
}

impl RateLimits {
    pub(crate) fn from_params(params: &Map<String, Value>) -> Result<Self, BuildError> {
        let count = |name| match whole_number(params, name)? {
            Some(0) => Err(BuildError::BadParam { name, expected: "a whole number above 0" }),
            n => Ok(n.map(|n| usize::try_from(n).unwrap_or(usize::MAX))),
        };
        Ok(Self { at_once: count("max_concurrent_requests")?, per_minute: count("requests_per_minute")? })
    }
}

#[derive(Debug)]
pub(crate) struct Throttle {
    running: Arc<Semaphore>,
    /// The latest start times, oldest first; unused without `requests_per_minute`. The lock is held while waiting, so
    /// that permits are granted in order.
    started: Mutex<VecDeque<Instant>>,
    allowed: SyncMutex<RateLimits>,
    pause: SyncMutex<Pause>,
    /// Notified when a probe has ended: the pause may be over, or another request should become the probe.
    pause_changed: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// `None` if the provider accepts requests.
    until: Option<Instant>,
    probed: bool,
}

#[derive(Debug)]
pub(crate) struct Permit<'t> {
    _running: Option<OwnedSemaphorePermit>,
    probes: Option<&'t Throttle>,
    pub(crate) paused: Duration,
}

impl Permit<'_> {
    /// The request was not rejected because of the rate limit.
    pub(crate) fn accepted(&self) {
        if let Some(throttle) = self.probes {
            throttle.lock_pause().until = None;
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(throttle) = self.probes {
            throttle.lock_pause().probed = false;
            throttle.pause_changed.notify_waiters();
        }
    }
}

impl Throttle {
    pub(crate) fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            started: Mutex::new(VecDeque::new()),
            allowed: SyncMutex::new(RateLimits::default()),
            pause: SyncMutex::default(),
            pause_changed: Notify::new(),
        }
    }

    fn lock_pause(&self) -> MutexGuard<'_, Pause> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If a longer pause is under way, it stays.
    pub(crate) fn pause(&self, wait: Duration) {
        let mut pause = self.lock_pause();
        pause.until = pause.until.max(Instant::now().checked_add(wait));
    }

    pub(crate) fn paused_for(&self) -> Option<Duration> {
        let left = self.lock_pause().until?.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }

    async fn wait_for_pause(&self) -> bool {
        let mut waited_for_probe = false;
        loop {
            let changed = self.pause_changed.notified();
            tokio::pin!(changed);
            // The notification is enabled before the state is read, so that none is missed.
            changed.as_mut().enable();
            let until = {
                let mut pause = self.lock_pause();
                match pause.until {
                    None => break,
                    Some(until) if until > Instant::now() => Some(until),
                    Some(_) if pause.probed => None,
                    Some(_) => {
                        pause.probed = true;
                        return true;
                    }
                }
            };
            if let Some(until) = until {
                sleep_until(until).await;
            } else {
                waited_for_probe = true;
                changed.await;
            }
        }
        if waited_for_probe {
            sleep(SPREAD.mul_f64(fastrand::f64())).await;
        }
        false
    }

    /// If backends that share this throttle have different limits, the strictest applies to all of them.
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

    pub(crate) async fn acquire(&self) -> Permit<'_> {
        let running = Arc::clone(&self.running).acquire_owned().await.ok();
        let began = Instant::now();
        let probes = self.wait_for_pause().await.then_some(self);
        let permit = Permit { _running: running, probes, paused: began.elapsed() };
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
        permit
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
            async move { drop(throttle.acquire().await) }
        });
        sleep(Duration::from_secs(5)).await;
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

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_one_request_goes_first_and_the_others_follow_only_if_it_is_accepted() {
        let throttle = Arc::new(Throttle::new());
        let start = Instant::now();
        throttle.pause(Duration::from_secs(42));
        throttle.pause(Duration::from_secs(10));
        assert_eq!(throttle.paused_for(), Some(Duration::from_secs(42)), "the longer pause counts");
        let probe = throttle.acquire().await;
        assert_eq!((start.elapsed().as_secs(), probe.paused.as_secs()), (42, 42));
        let followers: Vec<_> = (0..5)
            .map(|_| {
                let throttle = Arc::clone(&throttle);
                tokio::spawn(async move {
                    let permit = throttle.acquire().await;
                    permit.accepted();
                    (Instant::now(), permit.probes.is_some())
                })
            })
            .collect();
        sleep(Duration::from_secs(3)).await;
        assert!(followers.iter().all(|follower| !follower.is_finished()), "they wait for the first");
        throttle.pause(Duration::from_secs(30));
        drop(probe);
        let mut at = Vec::new();
        for follower in followers {
            at.push(follower.await.unwrap());
        }
        at.sort();
        let seconds: Vec<f64> = at.iter().map(|(at, _)| (*at - start).as_secs_f64()).collect();
        assert_eq!(at[0].0 - start, Duration::from_secs(75), "one goes first: {seconds:?}");
        assert!(seconds.iter().skip(1).all(|at| (75.0..76.1).contains(at)), "the others follow: {seconds:?}");
        assert_eq!(at.iter().filter(|(_, probes)| *probes).count(), 1);
        assert_eq!(throttle.paused_for(), None);
        assert!(throttle.acquire().await.probes.is_none(), "the pause is over");
    }

    #[tokio::test(start_paused = true)]
    async fn if_the_first_request_after_a_pause_is_dropped_another_goes_first() {
        let throttle = Throttle::new();
        throttle.pause(Duration::from_secs(1));
        drop(throttle.acquire().await);
        assert!(throttle.acquire().await.probes.is_some());
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
