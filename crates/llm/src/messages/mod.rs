//! Anthropic's Messages wire format. Thoughts before a tool call are sent back unchanged; if they are not available,
//! such a request is sent without a thinking budget, because with a budget the API requires them.

mod model;
mod read;
mod request;

pub(crate) use request::KNOWN;

use crate::BuildError;
use crate::local::RequestShape;
use crate::params::{Section, UnsupportedFields};
use crate::provider_state::ProviderStates;
use crate::providers::Provider;
use crate::wire::{Wire, WireInfo, address, headers, with_path};
use althing_protocol::{BackendConfig, ModelRequest, Reply};
use model::Thinking;
use read::MessagesReader;
use request::MessagesParams;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

static INFO: WireInfo = WireInfo { path: "/v1/messages", base: ".com", api: "an Anthropic Messages API" };

const VERSION: &str = "2023-06-01";
/// The code-execution tool requires this header value.
const CODE_EXECUTION_BETA: &str = "code-execution-2025-08-25";

/// Fields that not every model accepts and that a request can omit.
const OPTIONAL: &[&str] =
    &["output_config.effort", "top_p", "temperature", "top_k", "service_tier", "thinking.display"];

pub(crate) struct Messages {
    params: MessagesParams,
    unsupported: UnsupportedFields,
    states: ProviderStates,
    /// The form of thinking is the configured one until a rejection shows what the model accepts.
    thinking: Mutex<Thinking>,
}

impl Messages {
    pub(crate) fn new(
        config: &BackendConfig,
        provider: &'static Provider,
    ) -> Result<(Self, Url, HeaderMap), BuildError> {
        let params = MessagesParams::new(config)?;
        let thinking = Mutex::new(params.thinking);
        let wire = Self {
            params,
            unsupported: UnsupportedFields::default(),
            states: ProviderStates::default(),
            thinking,
        };
        let url = address(config)?;
        // `base_url` may or may not include the version.
        let tail = if url.path().trim_end_matches('/').ends_with("/v1") { "/messages" } else { INFO.path };
        let own = own_headers(Section(&config.params))?;
        Ok((wire, with_path(url, tail), headers(config, provider.key_header, &own)?))
    }
}

fn own_headers(section: Section<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, BuildError> {
    let mut own = vec![(HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION))];
    let asked =
        section.get("betas").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let code = section.is_on("enable_code_execution").then_some(CODE_EXECUTION_BETA);
    let betas: Vec<&str> = asked.chain(code).collect();
    if !betas.is_empty() {
        let value = HeaderValue::from_str(&betas.join(","))
            .map_err(|_| BuildError::BadParam { name: "betas", expected: "a list of names" })?;
        own.push((HeaderName::from_static("anthropic-beta"), value));
    }
    Ok(own)
}

impl Wire for Messages {
    type StreamReader = MessagesReader;

    fn wire_info(&self) -> &'static WireInfo {
        &INFO
    }

    fn body(&self, model: &str, request: &ModelRequest, _: &RequestShape) -> serde_json::Result<Vec<u8>> {
        let thinking = *self.thinking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut body = self.params.body(model, request, thinking, &self.states);
        self.unsupported.strip(&mut body);
        serde_json::to_vec(&body)
    }

    fn reader(&self) -> MessagesReader {
        MessagesReader::default()
    }

    fn learn(&self, refusal: &str) -> bool {
        let mut thinking = self.thinking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = thinking.learn(refusal) {
            *thinking = other;
            return true;
        }
        self.unsupported.learn(refusal, OPTIONAL)
    }

    fn store_provider_state(&self, reply: &Reply, provider_state: Value) {
        self.states.store(&reply.tool_calls, provider_state);
    }
}
