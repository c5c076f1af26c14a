//! Sends one request with spans and interprets the response. Nothing here retries, and every wait has a limit.

use crate::endpoint::Endpoint;
use crate::otlp::{self, Resource};
use crate::span::Span;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode};
use serde_json::Value as Json;
use std::error::Error;
use std::time::Duration;

/// From connecting until the response has been read.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// After this many bytes, no more of a response is read.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

pub(crate) struct Sender {
    pub(crate) client: Client,
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: HeaderMap,
    pub(crate) resource: Resource,
}

pub(crate) struct SendError {
    pub(crate) why: String,
    pub(crate) retry: Retry,
}

pub(crate) enum Retry {
    Never,
    Later(Option<Duration>),
}

pub(crate) struct Accepted {
    /// The number of spans that the collector rejected although the status says success.
    pub(crate) rejected: u64,
    /// Why spans were rejected, truncated. Only meaningful if `rejected` is not 0.
    pub(crate) why: String,
}

impl Sender {
    pub(crate) async fn send(&self, spans: &[Span]) -> Result<Accepted, SendError> {
        let body = otlp::request(&self.resource, spans).to_string();
        let request = self
            .client
            .post(self.endpoint.url().clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .timeout(REQUEST_TIMEOUT)
            .body(body);
        let response = request.send().await.map_err(|error| connection_error(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(accepted(&read(response).await));
        }
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        let hint = match status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => ": is this an OTLP/HTTP address?",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": are OTEL_EXPORTER_OTLP_HEADERS right?",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ": it does not take OTLP as JSON",
            _ => "",
        };
        let retry = match status.as_u16() {
            429 | 502 | 503 | 504 => Retry::Later(after),
            _ => Retry::Never,
        };
        Err(SendError { why: format!("it answered {status}{hint}"), retry })
    }
}

fn connection_error(error: &reqwest::Error) -> SendError {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let why = match cause.downcast_ref::<reqwest::Error>() {
        // The text of a `reqwest::Error` is not shown: it contains the URL, which may contain a password.
        Some(_) if error.is_timeout() => "no answer in time".to_owned(),
        Some(_) => "no connection".to_owned(),
        None => cause.to_string(),
    };
    let hint = if error.is_connect() { ": is a collector listening there for OTLP over HTTP?" } else { "" };
    SendError { why: format!("{why}{hint}"), retry: Retry::Later(None) }
}

/// Reads the beginning of a response. If the response breaks off, returns the part that arrived.
async fn read(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() > MAX_RESPONSE_BYTES {
            break;
        }
    }
    body
}

/// Reads `partialSuccess`: a collector may accept some spans and reject others.
fn accepted(body: &[u8]) -> Accepted {
    let answer: Json = serde_json::from_slice(body).unwrap_or_default();
    let partial = answer.get("partialSuccess");
    let rejected = partial.and_then(|partial| partial.get("rejectedSpans"));
    let rejected = rejected.and_then(|count| count.as_u64().or_else(|| count.as_str()?.parse().ok()));
    let why = partial.and_then(|partial| partial.get("errorMessage")).and_then(Json::as_str);
    let why: String = why.unwrap_or("it gave no reason").chars().take(200).collect();
    Accepted { rejected: rejected.unwrap_or_default(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_spans_are_read_as_number_and_as_string() {
        let cases: [(&[u8], u64); 4] = [
            (br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#, 3),
            (br#"{"partialSuccess":{"rejectedSpans":2}}"#, 2),
            (b"{}", 0),
            (b"not JSON", 0),
        ];
        for (body, rejected) in cases {
            assert_eq!(accepted(body).rejected, rejected);
        }
    }
}
