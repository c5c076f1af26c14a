//! The HTTP client for MCP servers with a URL, and which parts of a URL or an error may be shown.

use super::limits;
use super::notice::{StartError, quote};
use althing_protocol::Secret;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{StatusCode, Url};
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

/// Headers that MCP or HTTP uses, so that a config must not set them.
const RESERVED: &[&str] = &[
    "accept",
    "content-type",
    "content-length",
    "host",
    "connection",
    "transfer-encoding",
    "last-event-id",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
];

pub(crate) fn client() -> Result<reqwest::Client, StartError> {
    let bad = |reason: String| StartError::BadSpec { reason };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("althing/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::custom(follow))
        .referer(false)
        .connect_timeout(limits::HTTP_CONNECT)
        .tcp_nodelay(true)
        .build()
        .map_err(|error| bad(error.without_url().to_string()))
}

/// Follows only a redirect that keeps method and body and stays on the same origin, because the request carries the
/// server's keys. Many servers redirect `/mcp` to `/mcp/`.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps && same && attempt.previous().len() < 5 { attempt.follow() } else { attempt.stop() }
}

pub(crate) fn address(url: &str) -> Result<Url, StartError> {
    let bad = |reason: &str| StartError::BadSpec { reason: format!("its url cannot be used: {reason}") };
    let url = Url::parse(url).map_err(|error| bad(&error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(bad(&format!("{} is not http or https", quote(other)))),
    }
}

/// Only the origin is shown, because path and query may contain a key.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The headers are marked sensitive, so that debug output does not show their values.
pub(crate) fn headers(headers: &[(String, Secret)]) -> Result<HashMap<HeaderName, HeaderValue>, StartError> {
    let bad = |name: &str, reason: &str| StartError::BadSpec {
        reason: format!("its header {} cannot be used: {reason}", quote(name)),
    };
    headers
        .iter()
        .map(|(name, value)| {
            let parsed =
                HeaderName::try_from(name.as_str()).map_err(|_| bad(name, "it is not a header name"))?;
            if RESERVED.contains(&parsed.as_str()) {
                return Err(bad(name, "Althing sets this header itself"));
            }
            let mut value = HeaderValue::try_from(value.reveal())
                .map_err(|_| bad(name, "its value contains characters that a header cannot contain"))?;
            value.set_sensitive(true);
            Ok((parsed, value))
        })
        .collect()
}

pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    quote(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_of_an_address_is_never_shown() {
        assert_eq!(
            origin(&address("https://a.example:8443/mcp?key=sesame").unwrap()),
            "https://a.example:8443"
        );
    }

    #[test]
    fn an_address_that_is_not_http_is_refused() {
        assert!(matches!(address("file:///etc/passwd"), Err(StartError::BadSpec { .. })));
        assert!(matches!(address("nonsense"), Err(StartError::BadSpec { .. })));
    }

    #[test]
    fn a_header_of_the_protocol_or_with_a_bad_value_is_refused_without_showing_the_value() {
        for (name, value) in [("Mcp-Session-Id", "sesame"), ("x y", "sesame"), ("x", "sesame\n")] {
            let error = headers(&[(name.to_owned(), Secret::new(value))]).unwrap_err();
            assert!(!format!("{error:?}").contains("sesame"), "{error:?}");
        }
        let good = headers(&[("Authorization".to_owned(), Secret::new("Bearer sesame"))]).unwrap();
        assert!(!format!("{good:?}").contains("sesame"));
    }
}
