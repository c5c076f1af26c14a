//! Model access over HTTP: wire formats, time limits, retries, and the built-in offline model. This crate fills the
//! port `Backend`; its errors never contain a key.
#![allow(missing_docs, reason = "internal crate: names that explain themselves need no comment")]

mod api_backend;
mod chat;
mod error;
mod error_response;
mod fast_path;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gemini;
mod history;
mod http;
pub mod limits;
mod local;
mod local_servers;
mod messages;
mod offline;
mod params;
mod partial_reply;
mod prices;
mod provider_state;
mod providers;
mod rate_limits;
mod reply_stream;
mod responses;
mod retry;
mod sse;
mod text;
mod throttle;
mod tool_call_assembler;
mod tool_calling;
mod transport;
mod wire;

pub use error::BuildError;
pub use http::{HttpClient, HttpOptions};
pub use local::LocalModel;
pub use local_servers::{LocalServer, NoServer, local_server, ollama_models, ollama_server, served_models};
pub use params::{BuildWarning, warnings};
pub use prices::{PriceTable, is_known_model, similar_model};

use althing_protocol::{Backend, BackendConfig};
use providers::{Api, Provider};
use std::sync::Arc;

pub fn backend(
    config: &BackendConfig,
    http: &HttpClient,
    prices: &PriceTable,
) -> Result<Arc<dyn Backend>, BuildError> {
    if config.kind == offline::KIND {
        return Ok(Arc::new(offline::OfflineBackend::new(config)?));
    }
    let provider = providers::provider(&config.kind)
        .ok_or_else(|| BuildError::UnknownKind { kind: config.kind.clone() })?;
    let api = provider.api_for(config)?;
    Ok(match api {
        Api::Chat | Api::AzureChat => {
            built(config, provider, http, prices, chat::Chat::new(config, provider)?)?
        }
        Api::Responses => {
            built(config, provider, http, prices, responses::Responses::new(config, provider)?)?
        }
        Api::Messages => built(config, provider, http, prices, messages::Messages::new(config, provider)?)?,
        Api::Gemini => built(config, provider, http, prices, gemini::Gemini::new(config, provider)?)?,
    })
}

fn built<W: wire::Wire>(
    config: &BackendConfig,
    provider: &'static Provider,
    http: &HttpClient,
    prices: &PriceTable,
    wire: (W, reqwest::Url, reqwest::header::HeaderMap),
) -> Result<Arc<dyn Backend>, BuildError> {
    Ok(Arc::new(api_backend::ApiBackend::new(config, provider, (http, prices), wire)?))
}
