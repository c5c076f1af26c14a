//! OpenAI's Responses wire format. Nothing is stored at the provider (unless the config sets `store`); tool calls are
//! sent back without their item ids, so that the API does not require the reasoning items that belong to them.

mod read;
mod request;

pub(crate) use request::KNOWN;

use crate::BuildError;
use crate::local::RequestShape;
use crate::params::UnsupportedFields;
use crate::providers::Provider;
use crate::wire::{Wire, WireInfo, address, headers, with_path};
use althing_protocol::{BackendConfig, ModelRequest};
use read::ResponsesReader;
use request::ResponsesParams;
use reqwest::Url;
use reqwest::header::HeaderMap;

static INFO: WireInfo = WireInfo { path: "/responses", base: "/v1", api: "an OpenAI Responses API" };

/// Fields that not every model accepts and that a request can omit.
const OPTIONAL: &[&str] = &[
    "reasoning.summary",
    "reasoning.effort",
    "text.verbosity",
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
];

pub(crate) struct Responses {
    params: ResponsesParams,
    unsupported: UnsupportedFields,
}

impl Responses {
    pub(crate) fn new(
        config: &BackendConfig,
        provider: &'static Provider,
    ) -> Result<(Self, Url, HeaderMap), BuildError> {
        let wire = Self { params: ResponsesParams::new(config), unsupported: UnsupportedFields::default() };
        let url = with_path(address(config)?, INFO.path);
        Ok((wire, url, headers(config, provider.key_header, &[])?))
    }
}

impl Wire for Responses {
    type StreamReader = ResponsesReader;

    fn wire_info(&self) -> &'static WireInfo {
        &INFO
    }

    fn body(&self, model: &str, request: &ModelRequest, _: &RequestShape) -> serde_json::Result<Vec<u8>> {
        let mut body = self.params.body(model, request);
        self.unsupported.strip(&mut body);
        serde_json::to_vec(&body)
    }

    fn reader(&self) -> ResponsesReader {
        ResponsesReader::default()
    }

    fn learn(&self, refusal: &str) -> bool {
        self.unsupported.learn(refusal, OPTIONAL)
    }
}
