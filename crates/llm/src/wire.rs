//! What a wire is: it writes a request and understands a stream. Everything else (connections, limits, retries, errors,
//! cost) is the same for all of them and lies in `call`, `transport` and `draft`.

use crate::draft::{Draft, Ended};
use crate::error::{BuildError, Failure};
use crate::prices::Counted;
use crate::providers::KeyHeader;
use althing_protocol::{BackendConfig, BackendErrorKind, DeltaSink, ModelRequest, Reply};
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// What people call a wire.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// What stands behind `base_url`.
    pub(crate) path: &'static str,
    /// What `base_url` usually ends in.
    pub(crate) base: &'static str,
    /// What the server must speak.
    pub(crate) api: &'static str,
}

/// One wire, set up for one backend's section.
pub(crate) trait Wire: Send + Sync + 'static {
    /// What understands its streams.
    type Reader: Reader;

    /// What people call it.
    fn words(&self) -> &'static Words;

    /// The body of a request.
    fn body(&self, model: &str, request: &ModelRequest) -> serde_json::Result<Vec<u8>>;

    /// A fresh reader for one attempt.
    fn reader(&self) -> Self::Reader;

    /// Takes note if the provider refused a field that can be said another way or left out. True where it is worth
    /// saying the request again at once.
    fn learn(&self, _refusal: &str) -> bool {
        false
    }

    /// Keeps what the provider wants back with the next request and the port has no room for.
    fn keep(&self, _reply: &Reply, _keepsake: Value) {}
}

/// Understands one stream.
pub(crate) trait Reader: Send {
    /// Takes the data of one event, and tells `on_delta` what is new.
    fn event(&mut self, data: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<(), Failure>;

    /// What has come so far.
    fn draft(&self) -> &Draft;

    /// Whether the provider has said that the stream is over.
    fn is_done(&self) -> bool {
        self.draft().done
    }

    /// Whether the reply itself is complete, whatever may still follow.
    fn is_finished(&self) -> bool {
        self.draft().is_finished()
    }

    /// The reply, if it ended well.
    fn end(self, ended: Ended, input_estimate: u64) -> Result<Finished, Failure>;
}

/// A reply that ended well.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) reply: Reply,
    pub(crate) counted: Counted,
    /// For [`Wire::keep`].
    pub(crate) keepsake: Option<Value>,
}

/// The failure that a frame is which is not the wire's.
pub(crate) fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::new(BackendErrorKind::Protocol, format!("a frame of the stream is not understood: {error}"))
}

/// `base_url` as an address, without the last slash.
pub(crate) fn address(config: &BackendConfig) -> Result<Url, BuildError> {
    let kind = || config.kind.clone();
    let base = config.base_url.as_deref().ok_or_else(|| BuildError::NoAddress { kind: kind() })?;
    let url = Url::parse(base.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let mut url =
        url.filter(|url| url.host_str().is_some()).ok_or_else(|| BuildError::BadAddress { kind: kind() })?;
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// The address with `path` behind it, unless it stands there already; a query stays where it belongs.
pub(crate) fn with_path(mut url: Url, path: &str) -> Url {
    let base = url.path().trim_end_matches('/').to_owned();
    if !base.ends_with(path) {
        url.set_path(&format!("{base}{path}"));
    }
    url
}

/// The headers of every request. A header of the user's own goes before ours.
pub(crate) fn headers(
    config: &BackendConfig,
    key_header: KeyHeader,
    own: &[(HeaderName, HeaderValue)],
) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.extend(own.iter().cloned());
    if let Some(key) = &config.api_key {
        let key = key.reveal().trim();
        let (name, value) = match key_header {
            KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {key}")),
            KeyHeader::Named(name) => (HeaderName::from_static(name), key.to_owned()),
        };
        let mut value =
            HeaderValue::from_str(&value).map_err(|_| BuildError::BadKey { kind: config.kind.clone() })?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    for (name, value) in &config.headers {
        let bad = || BuildError::BadHeader { name: name.clone() };
        let mut value = HeaderValue::from_str(value.reveal().trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name.as_str()).map_err(|_| bad())?, value);
    }
    Ok(headers)
}
