//! Access checks of a request head. A web page can send requests to the loopback interface and, through DNS
//! rebinding, make them look local; but it can neither set the Host header that a direct client sends nor know the
//! token, so both are required.

use althing_protocol::Secret;
use http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;

/// The token is stored as a digest, so that comparison time does not depend on the token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) fn digest(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// 256 random bits, as text.
    pub(crate) fn generate() -> Result<Secret, String> {
        let mut bits = [0u8; 32];
        // The secure random source that the dependency tree already contains on every platform.
        rustls::crypto::ring::default_provider()
            .secure_random
            .fill(&mut bits)
            .map_err(|_| "could not generate a random token".to_owned())?;
        Ok(Secret::new(althing_text::hex(&bits)))
    }
}

/// Returns the request's token, which the router checks.
pub(super) fn check(parts: &Parts, address: SocketAddr) -> Result<Token, StatusCode> {
    let host = only(&parts.headers, &HOST).ok_or(StatusCode::FORBIDDEN)?;
    if !is_ours(host, address) {
        return Err(StatusCode::FORBIDDEN);
    }
    if let Some(authority) = parts.uri.authority()
        && !is_ours(authority.as_str(), address)
    {
        return Err(StatusCode::FORBIDDEN);
    }
    if parts.headers.contains_key(ORIGIN) {
        let origin = only(&parts.headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        if !origin.is_some_and(|authority| is_ours(authority, address)) {
            return Err(StatusCode::FORBIDDEN);
        }
    }
    let credentials = only(&parts.headers, &AUTHORIZATION).ok_or(StatusCode::UNAUTHORIZED)?;
    match credentials.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Token::digest(token.trim())),
        _ => Err(StatusCode::UNAUTHORIZED),
    }
}

/// `None` unless the header occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn is_ours(authority: &str, address: SocketAddr) -> bool {
    let authority = authority.to_ascii_lowercase();
    let port = address.port();
    authority == address.to_string() || authority == format!("localhost:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn checked(headers: &[(&str, &str)], uri: &str) -> Result<Token, StatusCode> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap().into_parts().0, "127.0.0.1:4000".parse().unwrap())
    }

    #[test]
    fn a_request_with_our_host_and_a_token_is_admitted() {
        for host in ["127.0.0.1:4000", "localhost:4000", "LocalHost:4000"] {
            let token = checked(&[("host", host), ("authorization", "bearer abc")], "/mcp");
            assert!(token == Ok(Token::digest("abc")), "{host}");
        }
        let own =
            [("host", "127.0.0.1:4000"), ("origin", "http://localhost:4000"), ("authorization", "Bearer a")];
        assert!(checked(&own, "/mcp").is_ok());
    }

    #[test]
    fn foreign_hosts_and_origins_are_forbidden() {
        let token = ("authorization", "Bearer abc");
        for host in ["evil.example", "evil.example:4000", "127.0.0.1", "127.0.0.1:4001", "localhost", ""] {
            assert_eq!(
                checked(&[("host", host), token], "/mcp").err(),
                Some(StatusCode::FORBIDDEN),
                "{host}"
            );
        }
        assert_eq!(checked(&[token], "/mcp").err(), Some(StatusCode::FORBIDDEN));
        let twice = [("host", "127.0.0.1:4000"), ("host", "127.0.0.1:4000"), token];
        assert_eq!(checked(&twice, "/mcp").err(), Some(StatusCode::FORBIDDEN));
        let host = ("host", "127.0.0.1:4000");
        for origin in
            ["null", "http://evil.example", "https://localhost:4000", "http://localhost", "", "file://"]
        {
            let refused = checked(&[host, token, ("origin", origin)], "/mcp").err();
            assert_eq!(refused, Some(StatusCode::FORBIDDEN), "{origin}");
        }
        assert_eq!(checked(&[host, token], "http://evil.example/mcp").err(), Some(StatusCode::FORBIDDEN));
    }

    #[test]
    fn without_a_bearer_token_nobody_is_authorized() {
        let host = ("host", "127.0.0.1:4000");
        let without =
            [checked(&[host], "/mcp?token=abc"), checked(&[host, ("authorization", "Basic abc")], "/mcp")];
        assert!(without.iter().all(|checked| checked.as_ref().err() == Some(&StatusCode::UNAUTHORIZED)));
    }

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let (one, two) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert!(one != two && one.reveal().len() == 64);
    }
}
