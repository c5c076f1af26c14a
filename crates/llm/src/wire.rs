//! The interface of a wire format: it writes a request and parses a stream. Connections, limits, retries, errors and
//! costs are common to all formats.

use crate::error::{BuildError, CallFailure};
use crate::local::RequestShape;
use crate::partial_reply::{PartialReply, StreamEnd};
use crate::prices::TokenCounts;
use crate::providers::KeyHeader;
use althing_protocol::{BackendConfig, BackendErrorKind, DeltaSink, ModelRequest, Reply};
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WireInfo {
    /// The path that is appended to `base_url`, or its beginning.
    pub(crate) path: &'static str,
    pub(crate) base: &'static str,
    pub(crate) api: &'static str,
}

pub(crate) trait Wire: Send + Sync + 'static {
    type StreamReader: StreamReader;

    fn wire_info(&self) -> &'static WireInfo;

    /// Only the chat-completions format supports a `shape` other than the default.
    fn body(&self, model: &str, request: &ModelRequest, shape: &RequestShape) -> serde_json::Result<Vec<u8>>;

    fn reader(&self) -> Self::StreamReader;

    /// Learns from a rejection that names a field which can be omitted or expressed differently. Returns whether the
    /// request should be sent again at once.
    fn learn(&self, _refusal: &str) -> bool {
        false
    }

    /// Stores data that the provider requires back with the next request and that the `Backend` port does not carry.
    fn store_provider_state(&self, _reply: &Reply, _state: Value) {}
}

pub(crate) trait StreamReader: Send {
    fn event(&mut self, data: &[u8], on_delta: &mut DeltaSink<'_>) -> Result<(), CallFailure>;

    fn partial_reply(&self) -> &PartialReply;

    fn is_done(&self) -> bool {
        self.partial_reply().done
    }

    /// Whether the provider has said why the model stopped, or that the stream ended. The stream may still send
    /// events such as token counts.
    fn is_finished(&self) -> bool {
        self.partial_reply().is_finished()
    }

    fn end(self, ended: StreamEnd, input_estimate: u64) -> Result<FinishedReply, CallFailure>;
}

#[derive(Debug)]
pub(crate) struct FinishedReply {
    pub(crate) reply: Reply,
    pub(crate) counted: TokenCounts,
    /// The state is passed to [`Wire::store_provider_state`].
    pub(crate) provider_state: Option<Value>,
}

pub(crate) fn unreadable(error: &serde_json::Error) -> CallFailure {
    CallFailure::new(
        BackendErrorKind::Protocol,
        format!("a frame of the stream could not be parsed: {error}"),
    )
}

/// The address has no trailing slash.
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

/// Special characters in a segment are encoded, so that `?` starts no query and `/` no new segment. A segment that is
/// blank, `.` or `..`, or contains control characters, is an error.
pub(crate) fn with_model(mut url: Url, segments: &[&str]) -> Result<Url, BuildError> {
    let is_wrong =
        |part: &&&str| matches!(part.trim(), "" | "." | "..") || part.chars().any(char::is_control);
    if let Some(part) = segments.iter().find(is_wrong) {
        return Err(BuildError::BadModel { part: (*part).to_owned() });
    }
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    Ok(url)
}

pub(crate) fn with_path(mut url: Url, path: &str) -> Url {
    let base = url.path().trim_end_matches('/').to_owned();
    if !base.ends_with(path) {
        url.set_path(&format!("{base}{path}"));
    }
    url
}

/// The user's headers override those of Althing.
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
