//! When a provider's rate limit ends, as reported in headers other than `Retry-After` and in the text of the error.

use reqwest::header::HeaderMap;
use std::time::{Duration, SystemTime};

/// Headers of OpenAI and compatible servers (`x-ratelimit-reset-requests: 6m0s`), of Anthropic
/// (`anthropic-ratelimit-tokens-reset`, a time), and of others (`x-ratelimit-reset`: seconds, or the time since
/// 1970). A limit counts as exhausted unless its `…remaining…` header says that something is left.
pub(crate) fn reset_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let is_used_up = |remaining: &str| text(remaining).is_none_or(|left| left.parse() == Ok(0.0));
    let openai = ["requests", "tokens"].map(|what| {
        let wait = text(&format!("x-ratelimit-reset-{what}")).and_then(duration);
        wait.filter(|_| is_used_up(&format!("x-ratelimit-remaining-{what}")))
    });
    let anthropic = ["requests", "tokens", "input-tokens", "output-tokens"].map(|what| {
        let reset = text(&format!("anthropic-ratelimit-{what}-reset")).and_then(time);
        let reset = reset.filter(|_| is_used_up(&format!("anthropic-ratelimit-{what}-remaining")));
        Some(reset?.duration_since(now).unwrap_or_default())
    });
    let plain = text("x-ratelimit-reset").and_then(|reset| since_or_after(reset, now));
    let plain = plain.filter(|_| is_used_up("x-ratelimit-remaining"));
    openai.into_iter().chain(anthropic).chain([plain]).flatten().max()
}

/// Reads OpenAI's "Please try again in 1m12.5s".
pub(crate) fn wait_in_words(message: &str) -> Option<Duration> {
    let (_, rest) = message.split_once("try again in ").or_else(|| message.split_once("retry in "))?;
    let word = rest.split_whitespace().next()?;
    let seconds = rest.split_whitespace().nth(1).is_some_and(|unit| unit.starts_with("second"));
    let word = word.trim_end_matches(['.', ',', ';', ')']);
    if seconds { duration(&format!("{word}s")) } else { duration(word) }
}

/// Reads `20ms`, `7.66s`, `6m0s` or `1h2m3s`; a bare number counts seconds.
fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit_and_rest) = rest.split_at_checked(end)?;
        let end = unit_and_rest.find(|c: char| c.is_ascii_digit()).unwrap_or(unit_and_rest.len());
        let (unit, after) = unit_and_rest.split_at_checked(end)?;
        let scale = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// Reads a duration, or a time since 1970 in seconds or milliseconds.
fn since_or_after(text: &str, now: SystemTime) -> Option<Duration> {
    let number = text.parse::<f64>().ok();
    let Some(number) = number.filter(|number| *number > 1e9) else { return duration(text) };
    let seconds = if number > 1e12 { number / 1000.0 } else { number };
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// Reads `2026-01-31T23:59:59Z`, with or without fractions of a second, in UTC.
fn time(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.strip_suffix('Z').or_else(|| text.strip_suffix("+00:00"))?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let mut clock = clock.splitn(3, ':').map(str::parse::<f64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_date {
        return None;
    }
    // Days since 1970 in the Gregorian calendar. The year is counted from March, so that the leap day is its last
    // day.
    let year = if month <= 2 { year - 1 } else { year };
    let months = (month + 9) % 12;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * months + 2) / 5 + day - 1 - 719_468;
    let seconds = days as f64 * 86_400.0 + hour * 3600.0 + minute * 60.0 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        httpdate::parse_http_date("Sun, 15 Nov 2026 10:00:00 GMT").unwrap()
    }

    fn reset(headers: &[(&'static str, &'static str)]) -> Option<f64> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        reset_wait(&headers.collect::<HeaderMap>(), now()).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn the_reset_of_the_limit_that_is_used_up_is_read_in_every_form() {
        assert_eq!(reset(&[("x-ratelimit-reset-requests", "6m0s")]), Some(360.0));
        let both = [
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-remaining-requests", "12"),
            ("x-ratelimit-reset-tokens", "7.5s"),
            ("x-ratelimit-remaining-tokens", "0"),
        ];
        assert_eq!(reset(&both), Some(7.5), "requests are left");
        let anthropic = [
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-15T10:00:42Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-11-15T11:00:00Z"),
            ("anthropic-ratelimit-requests-remaining", "49"),
        ];
        assert_eq!(reset(&anthropic), Some(42.0));
        assert_eq!(reset(&[("x-ratelimit-reset", "1794736830")]), Some(30.0));
        assert_eq!(reset(&[("x-ratelimit-reset", "1794736830000")]), Some(30.0));
        assert_eq!(reset(&[("x-ratelimit-reset", "12")]), Some(12.0));
        for nonsense in ["", "soon", "-1", "1e400", "5 parsecs", "1x"] {
            assert_eq!(reset(&[("x-ratelimit-reset-tokens", nonsense)]), None, "{nonsense}");
        }
        assert_eq!(reset(&[("anthropic-ratelimit-tokens-reset", "2026-99-15T10:00:42Z")]), None);
    }

    #[test]
    fn a_time_is_that_of_the_calendar() {
        let table = [
            ("1970-01-01T00:00:00Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("2000-02-29T12:30:01Z", "Tue, 29 Feb 2000 12:30:01 GMT"),
            ("2026-11-15T10:00:00+00:00", "Sun, 15 Nov 2026 10:00:00 GMT"),
        ];
        for (text, same) in table {
            assert_eq!(time(text), httpdate::parse_http_date(same).ok(), "{text}");
        }
    }

    #[test]
    fn a_wait_in_words_is_read() {
        let seconds = |text| wait_in_words(text).map(|wait| wait.as_secs_f64());
        assert_eq!(seconds("Rate limit reached for gpt-5. Please try again in 1m12.5s. Visit"), Some(72.5));
        assert_eq!(seconds("Please try again in 350ms."), Some(0.35));
        assert_eq!(seconds("Please retry in 42.5 seconds."), Some(42.5));
        assert_eq!(seconds("Please try again in a moment"), None);
        assert_eq!(seconds("Rate limit reached"), None);
    }
}
