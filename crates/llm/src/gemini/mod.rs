//! Google's Gemini wire format. From Gemini 3 on, a tool call must be sent back with its thought signature, so the
//! parts of a reply with calls are stored and sent back.

mod read;
mod request;
mod schema;

pub(crate) use request::KNOWN;

use crate::BuildError;
use crate::local::RequestShape;
use crate::params::UnsupportedFields;
use crate::provider_state::ProviderStates;
use crate::providers::Provider;
use crate::wire::{Wire, WireInfo, address, headers, with_model};
use althing_protocol::{BackendConfig, ModelRequest, Reply};
use read::GeminiReader;
use request::GeminiParams;
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::Value;

static INFO: WireInfo = WireInfo { path: "/models/", base: "/v1beta", api: "a Gemini API" };

pub(crate) struct Gemini {
    params: GeminiParams,
    states: ProviderStates,
    unsupported: UnsupportedFields,
}

/// How Google words the rejection of a field that a request can omit.
const REFUSALS: &[(&str, &[&str], &str)] = &[
    ("thinking", &["not supported", "only enabled"], "generationConfig.thinkingConfig"),
    ("penalty", &["not enabled", "not supported"], "generationConfig.frequencyPenalty"),
    ("penalty", &["not enabled", "not supported"], "generationConfig.presencePenalty"),
];

impl Gemini {
    pub(crate) fn new(
        config: &BackendConfig,
        provider: &'static Provider,
    ) -> Result<(Self, Url, HeaderMap), BuildError> {
        let wire = Self {
            params: GeminiParams::new(config),
            states: ProviderStates::default(),
            unsupported: UnsupportedFields::default(),
        };
        Ok((wire, url(config)?, headers(config, provider.key_header, &[])?))
    }
}

/// The model is part of the path; `alt=sse` selects an event stream.
fn url(config: &BackendConfig) -> Result<Url, BuildError> {
    let mut url = address(config)?;
    let base = url.path().trim_end_matches('/').to_owned();
    let base = if base.is_empty() { "/v1beta" } else { base.strip_suffix("/models").unwrap_or(&base) };
    url.set_path(base);
    let model = crate::api_backend::model(config)?;
    let mut segments: Vec<&str> = model.trim().split('/').collect();
    if segments.len() == 1 {
        segments.insert(0, "models");
    }
    let mut url = with_model(url, &segments)?;
    let path = format!("{}:streamGenerateContent", url.path());
    url.set_path(&path);
    url.query_pairs_mut().append_pair("alt", "sse");
    Ok(url)
}

impl Wire for Gemini {
    type StreamReader = GeminiReader;

    fn wire_info(&self) -> &'static WireInfo {
        &INFO
    }

    fn body(&self, _model: &str, request: &ModelRequest, _: &RequestShape) -> serde_json::Result<Vec<u8>> {
        let mut body = self.params.body(request, &self.states);
        self.unsupported.strip(&mut body);
        serde_json::to_vec(&body)
    }

    fn reader(&self) -> GeminiReader {
        GeminiReader::default()
    }

    fn learn(&self, refusal: &str) -> bool {
        let message = refusal.to_ascii_lowercase();
        let named = |(word, ways, _): &&(&str, &[&str], &'static str)| {
            message.contains(word) && ways.iter().any(|way| message.contains(way))
        };
        REFUSALS.iter().filter(named).any(|(_, _, field)| self.unsupported.add(field))
    }

    fn store_provider_state(&self, reply: &Reply, provider_state: Value) {
        self.states.store(&reply.tool_calls, provider_state);
    }
}
