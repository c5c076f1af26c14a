//! The collector's address and the format of the standard `OTEL_*` variables. Invalid input is rejected before a run
//! begins.

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;

/// The path that OTLP over HTTP appends to a collector's address.
const TRACES: &str = "/v1/traces";

/// An invalid collector address, or an invalid list of headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The address is not an HTTP or HTTPS URL.
    #[error("`{given}` is not a collector address: {reason}")]
    InvalidAddress {
        /// The beginning of the input or, because what is before an `@` may contain a password, of what follows the
        /// last `@`.
        given: String,
        /// What is wrong with the address.
        reason: String,
    },
    /// The input is not a list such as `name=value,name=value`.
    #[error("`{part}` is not `name=value`")]
    InvalidPair {
        /// What is before the `=` in the invalid part of the list, or the whole part if it has no `=`; at most 40
        /// characters. What is after the `=` is left out, because it may be a secret.
        part: String,
    },
    /// The name or the value is not valid in an HTTP header.
    #[error("the HTTP header `{name}` or its value is not valid")]
    InvalidHeader {
        /// The name of the header.
        name: String,
    },
}

/// A collector's address.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
}

impl Endpoint {
    /// Parses an address: a collector's base URL such as `http://localhost:4318`, or a complete URL that ends
    /// in `/v1/traces`.
    pub fn parse(given: &str) -> Result<Self, EndpointError> {
        let no = |reason: String| EndpointError::InvalidAddress { given: redacted(given), reason };
        let mut url = Url::parse(given.trim()).map_err(|error| no(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(no("it must begin with http:// or https:// and name a host".to_owned()));
        }
        url.set_fragment(None);
        let base = url.path().trim_end_matches('/').to_owned();
        if base.ends_with(TRACES) {
            url.set_path(&base);
        } else {
            url.set_path(&format!("{base}{TRACES}"));
        }
        Ok(Self { url })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The host name.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Whether the connection uses TLS.
    pub fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The password in the URL. It must be masked in all output.
    pub fn password(&self) -> Option<&str> {
        self.url.password()
    }
}

impl fmt::Display for Endpoint {
    /// The address without user name and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "{}://{}{port}{}", self.url.scheme(), self.host(), self.url.path())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The input after its last `@`, because the part before may contain a password; at most 120 characters.
fn redacted(given: &str) -> String {
    let shown = given.rsplit_once('@').map_or(given, |(_, after)| after);
    shown.chars().take(120).collect()
}

/// Parses `name=value,name=value` with percent-encoded values: the format of `OTEL_EXPORTER_OTLP_HEADERS` and
/// `OTEL_RESOURCE_ATTRIBUTES`.
pub fn parse_pairs(text: &str) -> Result<Vec<(String, String)>, EndpointError> {
    let mut pairs = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let pair = part.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = pair.filter(|(name, _)| !name.is_empty()) else {
            let part = part.split('=').next().unwrap_or_default().chars().take(40).collect();
            return Err(EndpointError::InvalidPair { part });
        };
        pairs.push((name.to_owned(), percent_decode(value)));
    }
    Ok(pairs)
}

/// Invalid sequences stay as they are.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn headers(pairs: &[(String, String)]) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let no = || EndpointError::InvalidHeader { name: name.chars().take(40).collect() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| no())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| no())?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_address_gets_the_traces_path_and_a_complete_one_is_kept() {
        for (given, meant) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otel.example.com/otlp", "https://otel.example.com/otlp/v1/traces"),
            ("https://otel.example.com/otlp/v1/traces/", "https://otel.example.com/otlp/v1/traces"),
            ("http://me:hidden@h:1", "http://h:1/v1/traces"),
        ] {
            assert_eq!(Endpoint::parse(given).unwrap().to_string(), meant);
        }
        assert_eq!(Endpoint::parse("http://me:hidden@h:1").unwrap().password(), Some("hidden"));
    }

    #[test]
    fn an_invalid_address_is_refused_without_showing_a_password() {
        for given in ["", "localhost:4318", "ftp://h", "http://", "me:hidden@h", "http://me:hidden@"] {
            let error = Endpoint::parse(given).unwrap_err().to_string();
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn pairs_are_parsed_in_the_standard_format() {
        let read = parse_pairs(" api-key = a%20b%2Cc==, x=%zz,,y= ").unwrap();
        let expected = [("api-key", "a b,c=="), ("x", "%zz"), ("y", "")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let error = parse_pairs("api-key").unwrap_err();
        assert_eq!(error, EndpointError::InvalidPair { part: "api-key".into() });
        assert!(headers(&[("a b".into(), "c".into())]).is_err());
        assert!(headers(&[("a".into(), "c\nd".into())]).is_err());
    }
}
