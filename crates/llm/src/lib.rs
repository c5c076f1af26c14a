//! Speaks to models: the wire, its time limits, its retries, and the built-in offline model.
//!
//! The only crate that makes outgoing model HTTP. It fills the port `Backend` and knows nothing of agents, rounds or
//! files. Errors are typed values; no key ever gets into one.

mod chat;
mod error;
mod http;
pub mod limits;
mod offline;
mod prices;
mod providers;
mod retry;
mod sse;
mod tokens;

pub use error::BuildError;
pub use http::{HttpClient, HttpOptions};
pub use prices::PriceTable;
pub use tokens::estimate_tokens;

use althing_protocol::{Backend, BackendConfig};
use std::sync::Arc;

/// The backend for one agent's section.
pub fn backend(
    config: &BackendConfig,
    http: &HttpClient,
    prices: &PriceTable,
) -> Result<Arc<dyn Backend>, BuildError> {
    if config.kind == offline::KIND {
        return Ok(Arc::new(offline::OfflineBackend::new(config)?));
    }
    match providers::provider(&config.kind) {
        Some(provider) => Ok(Arc::new(chat::ChatBackend::new(config, provider, http, prices)?)),
        None => Err(BuildError::UnknownKind { kind: config.kind.clone() }),
    }
}
