//! OpenAI's Responses format: `request` writes, `read` parses the stream.
//!
//! Nothing is stored at the provider (`store: false`), and reasoning is not carried from call to call: tool calls are
//! sent back without their item ids, so that the API does not require the reasoning items that belong to them.

mod read;
mod request;

pub(crate) use request::KNOWN;

use crate::BuildError;
use crate::params::LeftOut;
use crate::providers::Provider;
use crate::wire::{Wire, Words, address, headers, with_path};
use althing_protocol::{BackendConfig, ModelRequest};
use read::ResponsesReader;
use request::Params;
use reqwest::Url;
use reqwest::header::HeaderMap;

static WORDS: Words = Words { path: "/responses", base: "/v1", api: "an OpenAI Responses API" };

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

/// The wire format with one agent's parameters.
pub(crate) struct Responses {
    params: Params,
    left_out: LeftOut,
}

impl Responses {
    /// Creates the wire format, with its URL and headers.
    pub(crate) fn new(
        config: &BackendConfig,
        provider: &'static Provider,
    ) -> Result<(Self, Url, HeaderMap), BuildError> {
        let wire = Self { params: Params::new(config), left_out: LeftOut::default() };
        let url = with_path(address(config)?, WORDS.path);
        Ok((wire, url, headers(config, provider.key_header, &[])?))
    }
}

impl Wire for Responses {
    type Reader = ResponsesReader;

    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn body(&self, model: &str, request: &ModelRequest) -> serde_json::Result<Vec<u8>> {
        let mut body = self.params.body(model, request);
        self.left_out.strip(&mut body);
        serde_json::to_vec(&body)
    }

    fn reader(&self) -> ResponsesReader {
        ResponsesReader::default()
    }

    fn learn(&self, refusal: &str) -> bool {
        self.left_out.learn(refusal, OPTIONAL)
    }
}
