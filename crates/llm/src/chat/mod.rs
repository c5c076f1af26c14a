//! The OpenAI-compatible chat-completions wire format, also for Azure.

mod frame;
mod read;
mod request;

#[cfg(test)]
pub(crate) use frame::CallPiece;
pub(crate) use request::{KNOWN, OPENROUTER, SENT};

use crate::BuildError;
use crate::local::RequestShape;
use crate::providers::{Api, Provider};
use crate::wire::{Wire, WireInfo, address, headers, with_model, with_path};
use althing_protocol::{BackendConfig, ModelRequest};
use read::ChatReader;
use request::{Body, ChatParams, Dialect};
use reqwest::Url;
use reqwest::header::HeaderMap;
use std::sync::{Mutex, PoisonError};

static INFO: WireInfo =
    WireInfo { path: "/chat/completions", base: "/v1", api: "an OpenAI-compatible chat-completions API" };

/// The version if the config names none: the last one that is not a preview.
const AZURE_VERSION: &str = "2024-10-21";

pub(crate) struct Chat {
    params: ChatParams,
    /// The dialect is learned from rejections and used for later calls.
    dialect: Mutex<Dialect>,
}

impl Chat {
    pub(crate) fn new(
        config: &BackendConfig,
        provider: &'static Provider,
    ) -> Result<(Self, Url, HeaderMap), BuildError> {
        let url = match provider.api {
            Api::AzureChat => azure_url(config)?,
            _ => with_path(address(config)?, INFO.path),
        };
        let wire = Self {
            params: ChatParams::new(&config.params, provider),
            dialect: Mutex::new(Dialect { stream_options: true, output_limit: provider.output_limit }),
        };
        Ok((wire, url, headers(config, provider.key_header, &[])?))
    }
}

/// The deployment (the model name) is in the path, the version in the query. A URL whose path names a deployment
/// keeps it; a URL that ends in `/openai/v1` gets neither deployment nor version.
fn azure_url(config: &BackendConfig) -> Result<Url, BuildError> {
    let mut url = address(config)?;
    let path = url.path().trim_end_matches('/').to_owned();
    if path.ends_with("/openai/v1") || path.ends_with("/openai/v1/chat/completions") {
        return Ok(with_path(url, INFO.path));
    }
    if !path.contains("/deployments/") {
        let base = path.strip_suffix("/openai").unwrap_or(&path).to_owned();
        let deployment = crate::api_backend::model(config)?;
        url.set_path(&format!("{base}/openai/deployments"));
        url = with_model(url, &[deployment.trim()])?;
    }
    if !url.query_pairs().any(|(key, _)| key == "api-version") {
        let version = config.params.get("api_version").and_then(serde_json::Value::as_str);
        url.query_pairs_mut().append_pair("api-version", version.unwrap_or(AZURE_VERSION));
    }
    Ok(with_path(url, INFO.path))
}

impl Wire for Chat {
    type StreamReader = ChatReader;

    fn wire_info(&self) -> &'static WireInfo {
        &INFO
    }

    fn body(&self, model: &str, request: &ModelRequest, shape: &RequestShape) -> serde_json::Result<Vec<u8>> {
        let dialect = *self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_vec(&Body { model, request, params: &self.params, dialect, shape })
    }

    fn reader(&self) -> ChatReader {
        ChatReader::default()
    }

    fn learn(&self, refusal: &str) -> bool {
        let mut dialect = self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        dialect.learn(refusal).is_some_and(|learned| {
            *dialect = learned;
            true
        })
    }
}
