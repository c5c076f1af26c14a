//! Finds a running Ollama and what it has, so that people need not write it down.

use crate::http::HttpClient;
use crate::limits::{ERROR_BODY_BYTES, Limits, OLLAMA_CONNECT, OLLAMA_WHOLE};
use crate::transport::{read_body, transport_failure};
use althing_protocol::{BackendError, BackendErrorKind, Usage};
use reqwest::Url;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

/// The models of the Ollama at `base_url` (its own address, or that of its OpenAI-compatible API, which ends in `/v1`).
/// Meant for looking whether one is there at all: it gives up within a fifth of a second where nobody listens, and
/// within a second in any case.
pub async fn ollama_models(http: &HttpClient, base_url: &str) -> Result<Vec<String>, BackendError> {
    let by = Instant::now() + OLLAMA_WHOLE;
    let failed = |kind, what: &str| BackendError {
        kind,
        message: format!("ollama: {what}"),
        hint: Some("start it with `ollama serve`, or set `base_url`".to_owned()),
        usage: Usage::default(),
    };
    let bad = || failed(BackendErrorKind::NotFound, "`base_url` is not an http or https address");
    let mut url = Url::parse(base_url.trim()).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad());
    }
    let path = url.path().trim_end_matches('/');
    let path = format!("{}/api/tags", path.strip_suffix("/v1").unwrap_or(path));
    url.set_path(&path);
    url.set_query(None);
    let local = crate::http::is_local(url.host_str().unwrap_or_default());
    let client = http
        .client(OLLAMA_CONNECT, local)
        .map_err(|error| failed(BackendErrorKind::Connect, &error.to_string()))?;
    let late = || failed(BackendErrorKind::Timeout, "no answer within a second");
    let broken = |error: &reqwest::Error| {
        let limits = Limits { connect: OLLAMA_CONNECT, ..Limits::default() };
        let failure = transport_failure(error, &limits);
        failed(failure.kind, &failure.what)
    };
    let response = timeout_at(by, client.get(url).send()).await.map_err(|_| late())?;
    let response = response.map_err(|error| broken(&error))?;
    if !response.status().is_success() {
        return Err(failed(BackendErrorKind::Protocol, &format!("answered {}", response.status().as_u16())));
    }
    let unread = || failed(BackendErrorKind::Protocol, "its list of models could not be read");
    let body = read_body(response, ERROR_BODY_BYTES * 16, by).await.map_err(|_| unread())?;
    let tags: Tags = serde_json::from_slice(&body).map_err(|_| unread())?;
    Ok(tags.models.into_iter().map(|model| model.name).collect())
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    name: String,
}
