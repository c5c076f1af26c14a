//! Interprets a provider's error response: status, message, requested wait. The message is raw here; the backend
//! cleans it before it is shown.

use crate::error::{CallFailure, RetryPolicy};
use crate::limits::{ERROR_BODY_BYTES, ERROR_BODY_TIME, MAX_RETRIES};
use crate::rate_limits::{reset_wait, wait_in_words};
use crate::retry::requested_wait;
use crate::transport::read_body;
use althing_protocol::BackendErrorKind as Kind;
use reqwest::{Response, StatusCode};
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// A body that exceeds the size limit or the time limit is ignored.
pub(crate) async fn read(response: Response, deadline: Instant) -> CallFailure {
    let status = response.status();
    let after = requested_wait(response.headers(), now()).or_else(|| {
        reset_wait(response.headers(), now()).filter(|_| status == StatusCode::TOO_MANY_REQUESTS)
    });
    let by = (Instant::now() + ERROR_BODY_TIME).min(deadline);
    let body = read_body(response, ERROR_BODY_BYTES, by).await.unwrap_or_default();
    failure_from(status, after, &body)
}

/// `after` is the wait that the headers request; if they request none, the body may.
pub(crate) fn failure_from(status: StatusCode, after: Option<Duration>, body: &[u8]) -> CallFailure {
    let body = String::from_utf8_lossy(body);
    let message = provider_message(&body);
    let in_words = || wait_in_words(&message).filter(|_| status == StatusCode::TOO_MANY_REQUESTS);
    let after = after.or_else(|| retry_delay(&body)).or_else(in_words);
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    let what = if message.is_empty() {
        format!("{}{reason}", status.as_u16())
    } else {
        format!("{}{reason}: {message}", status.as_u16())
    };
    let judged = classify(status.as_u16(), what, &message);
    // Google words a per-minute quota like an exhausted one; only a requested wait distinguishes them.
    let passing = judged.kind == Kind::RateLimited && after.is_some();
    let judged = if passing {
        CallFailure { retry: RetryPolicy::AtMost(MAX_RETRIES), hint: None, ..judged }
    } else {
        judged
    };
    let mut failure = CallFailure { after, status: Some(status.as_u16()), ..judged };
    if failure.retry == RetryPolicy::Never {
        failure.after = None;
    }
    failure
}

#[expect(
    clippy::disallowed_methods,
    reason = "a wait until a Retry-After date needs the wall clock; the wait is capped, and the time is not recorded"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

fn classify(status: u16, what: String, message: &str) -> CallFailure {
    let message = message.to_ascii_lowercase();
    match status {
        401 | 403 => CallFailure::new(Kind::Auth, what),
        // Some providers answer 400 to an invalid key.
        400 if message.contains("api key") || message.contains("api_key") => {
            CallFailure::new(Kind::Auth, what)
        }
        402 => CallFailure::new(Kind::BadRequest, what).with_hint(
            "the account has no credit left with this provider: add credit, or use another provider",
        ),
        404 | 405 | 410 => CallFailure::new(Kind::NotFound, what),
        413 => {
            let hint = "the request is too large for this server: start a session with less history, or use a \
                        model or server that accepts larger requests";
            CallFailure::new(Kind::BadRequest, what).with_hint(hint)
        }
        408 => CallFailure::new(Kind::Timeout, what)
            .with_hint("the server did not get the whole request in time: check the network, then try again"),
        // Waiting does not restore credit.
        429 if message.contains("insufficient_quota") || message.contains("exceeded your current quota") => {
            CallFailure::new(Kind::RateLimited, what)
                .with_hint(
                    "the account's quota is used up: check your plan and billing details with the provider",
                )
                .permanent()
        }
        425 | 429 => CallFailure::new(Kind::RateLimited, what),
        300..=399 => CallFailure::new(Kind::NotFound, format!("{what} (redirects are not followed)"))
            .with_hint("set `base_url` to the address that the server redirects to"),
        400..=499 => CallFailure::new(Kind::BadRequest, what),
        501 | 505 => CallFailure::new(Kind::Server, what).permanent(),
        500..=599 => CallFailure::new(Kind::Server, what),
        _ => CallFailure::new(Kind::Protocol, what),
    }
}

/// An error object inside a stream whose response had a success status.
pub(crate) fn stream_error(error: &str) -> CallFailure {
    let value: Value = serde_json::from_str(error).unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = value.get("code").and_then(Value::as_u64).or_else(|| field("code").parse().ok());
    let words = format!("{} {}", field("code"), field("type")).to_ascii_lowercase();
    let message = value.get("message").and_then(Value::as_str).or(value.as_str()).unwrap_or(error);
    let what = format!("the provider failed during the reply: {message}");
    let says = |word: &str| words.contains(word);
    if let Some(status @ 400..=599) = number {
        return classify(status as u16, what, message);
    }
    CallFailure::new(
        if says("rate_limit") {
            Kind::RateLimited
        } else if says("too_large") || says("billing") || says("invalid_prompt") {
            Kind::BadRequest
        } else if says("api_key") || says("auth") || says("permission") {
            Kind::Auth
        } else if says("not_found") {
            Kind::NotFound
        } else if says("invalid_request") || says("context_length") {
            Kind::BadRequest
        } else {
            Kind::Server
        },
        what,
    )
}

/// Google requests a wait in an error's details: `"retryDelay": "34.5s"`.
fn retry_delay(body: &str) -> Option<Duration> {
    let value: Value = serde_json::from_str(body).ok()?;
    let value = value.get(0).unwrap_or(&value);
    let details = value.get("error")?.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay"))?.as_str()?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

fn provider_message(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(body) else { return without_tags(body) };
    // Some providers wrap the error in a list.
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error").unwrap_or(value);
    let sentence = error
        .as_str()
        .or_else(|| error.get("message").and_then(Value::as_str))
        .or_else(|| value.get("message").and_then(Value::as_str))
        .or_else(|| value.get("detail").and_then(Value::as_str));
    let code = error.get("code").and_then(Value::as_str).filter(|code| !code.is_empty());
    match (sentence, code) {
        (Some(sentence), Some(code)) if !sentence.contains(code) => format!("{sentence} ({code})"),
        (Some(sentence), _) => sentence.to_owned(),
        (None, _) => body.to_owned(),
    }
}

/// Proxies answer with HTML pages.
fn without_tags(body: &str) -> String {
    if !body.trim_start().starts_with('<') {
        return body.to_owned();
    }
    let mut text = String::new();
    let mut in_tag = false;
    for c in body.chars() {
        match c {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                text.push(' ');
            }
            _ if !in_tag => text.push(c),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_providers_message_is_found_in_every_known_format() {
        let table = [
            (
                r#"{"error":{"message":"No such model","code":"model_not_found"}}"#,
                "No such model (model_not_found)",
            ),
            (r#"{"error":{"message":"No such model","code":404}}"#, "No such model"),
            (r#"{"error":"nope"}"#, "nope"),
            (r#"{"object":"error","message":"bad"}"#, "bad"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            (r#"[{"error":{"message":"listed"}}]"#, "listed"),
            (r#"{"weird":1}"#, r#"{"weird":1}"#),
            ("plain", "plain"),
            ("", ""),
        ];
        for (body, sentence) in table {
            assert_eq!(provider_message(body), sentence, "{body}");
        }
        assert_eq!(provider_message("<html><b>502</b> Bad Gateway</html>").trim(), "502  Bad Gateway");
    }

    #[test]
    fn each_status_has_its_kind_and_only_transient_errors_are_retried() {
        let judged = |status| {
            let failure = classify(status, String::new(), "");
            (failure.kind, failure.retry != RetryPolicy::Never)
        };
        let table = [
            (400, Kind::BadRequest, false),
            (401, Kind::Auth, false),
            (403, Kind::Auth, false),
            (404, Kind::NotFound, false),
            (408, Kind::Timeout, true),
            (413, Kind::BadRequest, false),
            (422, Kind::BadRequest, false),
            (429, Kind::RateLimited, true),
            (500, Kind::Server, true),
            (502, Kind::Server, true),
            (503, Kind::Server, true),
            (529, Kind::Server, true),
            (307, Kind::NotFound, false),
        ];
        for (status, kind, retry) in table {
            assert_eq!(judged(status), (kind, retry), "{status}");
        }
    }

    #[test]
    fn an_error_in_the_stream_is_classified_by_its_code_and_is_a_server_error_without_one() {
        let table = [
            (r#"{"message":"x","code":429}"#, Kind::RateLimited),
            (r#"{"message":"x","code":"502"}"#, Kind::Server),
            (r#"{"message":"x","type":"invalid_request_error","code":"invalid_api_key"}"#, Kind::Auth),
            (r#"{"message":"x","type":"invalid_request_error","code":"model_not_found"}"#, Kind::NotFound),
            (r#"{"message":"x","type":"requests","code":"rate_limit_exceeded"}"#, Kind::RateLimited),
            (r#"{"message":"x","type":"invalid_request_error","code":null}"#, Kind::BadRequest),
            (r#"{"message":"x","type":"server_error"}"#, Kind::Server),
            (r#"{"type":"overloaded_error","message":"Overloaded"}"#, Kind::Server),
            (r#"{"type":"authentication_error","message":"invalid x-api-key"}"#, Kind::Auth),
            (r#"{"type":"rate_limit_error","message":"x"}"#, Kind::RateLimited),
            (r#"{"code":503,"message":"x","status":"UNAVAILABLE"}"#, Kind::Server),
            (r#"{"type":"error","code":"server_error","message":"x"}"#, Kind::Server),
            ("null", Kind::Server),
            (r#""overloaded""#, Kind::Server),
        ];
        for (error, kind) in table {
            assert_eq!(stream_error(error).kind, kind, "{error}");
        }
    }

    #[test]
    fn the_wait_in_googles_error_is_found() {
        let body = r#"[{"error":{"code":429,"details":[{"@type":"x"},{"retryDelay":"34.5s"}]}}]"#;
        assert_eq!(retry_delay(body), Some(Duration::from_millis(34_500)));
        assert_eq!(retry_delay(r#"{"error":{"details":[{"retryDelay":"soon"}]}}"#), None);
        assert_eq!(retry_delay("no JSON"), None);
    }

    #[test]
    fn an_exhausted_quota_is_not_retried() {
        assert_eq!(classify(429, String::new(), "… (insufficient_quota)").retry, RetryPolicy::Never);
    }
}
