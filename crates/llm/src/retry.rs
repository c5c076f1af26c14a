//! Decides whether and when a failed attempt is retried, for example after a rate limit (429). Pure: randomness and time
//! are parameters.

use crate::error::{CallFailure, RetryPolicy};
use crate::limits::{CallLimits, RETRY_AFTER_CAP, RETRY_CAP};
use althing_protocol::BackendErrorKind;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::time::{Duration, SystemTime};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RetryDecision {
    Retry(Duration),
    GiveUp(Option<String>),
}

/// `retries` is the number of retries so far, `limited` how long the call has waited for rate limits, `left` the
/// remaining time of the whole call; `random` is in 0..1.
pub(crate) fn decide_retry(
    failure: &CallFailure,
    limits: &CallLimits,
    retries: u32,
    (limited, left): (Duration, Duration),
    random: f64,
) -> RetryDecision {
    let is_limited = failure.kind == BackendErrorKind::RateLimited;
    let allowed = match failure.retry {
        RetryPolicy::Never => return RetryDecision::GiveUp(None),
        RetryPolicy::AtMost(_) if is_limited => limits.rate_limit_retries,
        RetryPolicy::AtMost(n) => n.min(limits.max_retries),
    };
    if retries >= allowed {
        return RetryDecision::GiveUp((retries > 0).then(|| format!("gave up after {}", tries(retries + 1))));
    }
    if is_limited {
        let wait = rate_limit_wait(failure, limits, retries, random);
        return wait_for_limit((failure.after, wait), limits, limited, left);
    }
    let wait = match failure.after {
        Some(after) if after > RETRY_AFTER_CAP => {
            return RetryDecision::GiveUp(Some(format!(
                "the provider asks to wait {} s, more than the {} s that Althing waits",
                after.as_secs(),
                RETRY_AFTER_CAP.as_secs()
            )));
        }
        Some(after) => with_jitter(after, limits, random),
        // A restarting server needs a moment, so the upper half of the jitter range is used.
        None if failure.kind == BackendErrorKind::Connect => {
            backoff(limits.retry_base, retries, 0.5 + random / 2.0)
        }
        None => backoff(limits.retry_base, retries, random),
    };
    if wait >= left {
        return RetryDecision::GiveUp(Some("no time is left to try again".to_owned()));
    }
    RetryDecision::Retry(wait)
}

/// The wait is never shorter than requested, and calls that were rejected at the same time retry at different times.
fn with_jitter(after: Duration, limits: &CallLimits, random: f64) -> Duration {
    after + after.mul_f64(0.1 * random) + backoff(limits.retry_base, 0, random)
}

/// How long all calls with the API key wait after a rejection: as long as the provider says or, if it does not say,
/// longer after each rejection.
pub(crate) fn rate_limit_wait(
    failure: &CallFailure,
    limits: &CallLimits,
    retries: u32,
    random: f64,
) -> Duration {
    match failure.after {
        Some(after) => with_jitter(after, limits, random),
        None => backoff(limits.retry_base, retries, 0.5 + random / 2.0),
    }
}

/// `asked` is the wait that the provider requests; `wait` is the wait that would be used.
fn wait_for_limit(
    (asked, wait): (Option<Duration>, Duration),
    limits: &CallLimits,
    limited: Duration,
    left: Duration,
) -> RetryDecision {
    let most = limits.rate_limit_wait;
    if let Some(asked) = asked.filter(|asked| *asked > most) {
        return RetryDecision::GiveUp(Some(format!(
            "the provider asks to wait {} s, more than the {} s of `rate_limit_wait_seconds`",
            asked.as_secs(),
            most.as_secs()
        )));
    }
    if wait >= left {
        return RetryDecision::GiveUp(Some("no time is left to try again".to_owned()));
    }
    if limited + asked.unwrap_or(wait) > most {
        return RetryDecision::GiveUp(Some(format!(
            "gave up after waiting {} s for the rate limit: the next wait would exceed the {} s of \
             `rate_limit_wait_seconds`",
            limited.as_secs(),
            most.as_secs()
        )));
    }
    RetryDecision::Retry(wait)
}

fn tries(n: u32) -> String {
    if n == 1 { "1 try".to_owned() } else { format!("{n} tries") }
}

/// The wait grows exponentially, with full jitter.
fn backoff(base: Duration, retries: u32, random: f64) -> Duration {
    base.saturating_mul(1u32.checked_shl(retries).unwrap_or(u32::MAX)).min(RETRY_CAP).mul_f64(random)
}

/// Reads `retry-after-ms`, or `Retry-After` in seconds or as a date.
pub(crate) fn requested_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(value).ok()?;
    // A date in the past means "now".
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use althing_protocol::BackendErrorKind as Kind;

    const LEFT: Duration = Duration::from_mins(10);

    fn failure(kind: Kind, after: Option<u64>) -> CallFailure {
        CallFailure { after: after.map(Duration::from_secs), ..CallFailure::new(kind, "") }
    }

    fn wait(failure: &CallFailure, retries: u32, random: f64) -> Option<Duration> {
        match decide_retry(failure, &CallLimits::default(), retries, (Duration::ZERO, LEFT), random) {
            RetryDecision::Retry(wait) => Some(wait),
            RetryDecision::GiveUp(_) => None,
        }
    }

    #[test]
    fn the_backoff_doubles_and_is_jittered_over_its_full_range() {
        let failed = failure(Kind::Server, None);
        let most: Vec<_> = (0..4).filter_map(|retries| wait(&failed, retries, 1.0)).collect();
        assert_eq!(most, [500, 1000, 2000, 4000].map(Duration::from_millis));
        assert_eq!(wait(&failed, 3, 0.0), Some(Duration::ZERO));
        assert_eq!(wait(&failed, 3, 0.5), Some(Duration::from_secs(2)));
    }

    #[test]
    fn there_are_never_more_than_four_retries_and_two_where_each_one_is_slow() {
        let allowed = |kind| (0..20).take_while(|n| wait(&failure(kind, None), *n, 0.5).is_some()).count();
        let table = [
            Kind::RateLimited,
            Kind::Server,
            Kind::Cut,
            Kind::Protocol,
            Kind::Connect,
            Kind::Timeout,
            Kind::Empty,
            Kind::Auth,
            Kind::NotFound,
            Kind::BadRequest,
            Kind::TooLarge,
        ];
        assert_eq!(
            table.map(allowed),
            [20, 4, 4, 4, 2, 2, 2, 0, 0, 0, 0],
            "only the wait limits the retries of a rate-limited call"
        );
    }

    #[test]
    fn a_requested_wait_is_honored_and_a_too_long_one_ends_the_call() {
        let delay = wait(&failure(Kind::RateLimited, Some(10)), 0, 0.5).unwrap();
        assert!((10.0..=11.5).contains(&delay.as_secs_f64()), "{delay:?}");
        let given_up = |kind, left| {
            decide_retry(&failure(kind, Some(3600)), &CallLimits::default(), 0, (Duration::ZERO, left), 0.0)
        };
        let said = "the provider asks to wait 3600 s, more than the 60 s that Althing waits";
        assert_eq!(given_up(Kind::Server, LEFT), RetryDecision::GiveUp(Some(said.to_owned())));
        let said = "the provider asks to wait 3600 s, more than the 300 s of `rate_limit_wait_seconds`";
        let hours = Duration::from_hours(2);
        assert_eq!(given_up(Kind::RateLimited, hours), RetryDecision::GiveUp(Some(said.to_owned())));
    }

    #[test]
    fn a_rate_limit_is_waited_for_until_the_total_is_used_up() {
        let limited = failure(Kind::RateLimited, Some(60));
        let decide = |waited| {
            let waited = Duration::from_secs(waited);
            decide_retry(&limited, &CallLimits::default(), 4, (waited, LEFT), 0.0)
        };
        assert_eq!(decide(240), RetryDecision::Retry(Duration::from_mins(1)));
        let said = "gave up after waiting 241 s for the rate limit: the next wait would exceed the 300 s of \
                    `rate_limit_wait_seconds`";
        assert_eq!(decide(241), RetryDecision::GiveUp(Some(said.to_owned())));
        let set = CallLimits { rate_limit_retries: 1, ..CallLimits::default() };
        let refused = decide_retry(&limited, &set, 1, (Duration::ZERO, LEFT), 0.0);
        assert!(matches!(refused, RetryDecision::GiveUp(_)), "`max_retries` in the config counts");
    }

    #[test]
    fn no_wait_goes_past_the_end_of_the_whole_call() {
        let left = Duration::from_secs(5);
        let given_up = decide_retry(
            &failure(Kind::Server, Some(10)),
            &CallLimits::default(),
            0,
            (Duration::ZERO, left),
            0.5,
        );
        assert_eq!(given_up, RetryDecision::GiveUp(Some("no time is left to try again".to_owned())));
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        let now = httpdate::parse_http_date("Sun, 15 Nov 2026 10:00:00 GMT").unwrap();
        let read = |name: &'static str, value: &'static str| {
            requested_wait(&HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]), now)
        };
        assert_eq!(read("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(read("retry-after", " 0.5 "), Some(Duration::from_millis(500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(read("retry-after", "Sun, 15 Nov 2026 10:00:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(read("retry-after", "Sun, 15 Nov 2026 09:00:00 GMT"), Some(Duration::ZERO));
        for nonsense in ["soon", "-1", "NaN", "1e400", ""] {
            assert_eq!(read("retry-after", nonsense), None, "{nonsense}");
        }
    }
}
