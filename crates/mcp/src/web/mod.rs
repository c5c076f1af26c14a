//! Listening: one small HTTP/1.1 server under everything that Althing offers over HTTP.
//!
//! Only ever on the loopback, and nobody is heard without the right token, Host and Origin. It knows nothing of tools:
//! a `Site` says who answers at a path. It exists because `rmcp` checks neither tokens nor (by itself) origins, and
//! leaves slow and countless connections to others.

mod connection;
mod early;
mod gate;
mod limits;
mod listen;

pub(crate) use gate::Token;
pub use limits::WebLimits;
pub(crate) use listen::Listener;

use althing_protocol::BoxFuture;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::ServerHandler;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::SessionManager;
use std::convert::Infallible;
use std::sync::Arc;

/// An answer, whole or streaming.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Says who answers where.
pub(crate) trait Site: Send + Sync + 'static {
    /// Who answers at this path to a bearer of this token; None: nobody does, whatever the reason.
    fn find(&self, path: &str, token: &Token) -> Option<Arc<dyn Service>>;
}

/// Answers requests that were let in. Dropping the future, or the answer's body, cancels what the request began.
pub(crate) trait Service: Send + Sync {
    /// Answers one.
    fn answer(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, Answer>;
}

impl<S: ServerHandler, M: SessionManager> Service for StreamableHttpService<S, M> {
    fn answer(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, Answer> {
        let service = self.clone();
        Box::pin(async move { service.handle(request).await.map(BodyExt::boxed_unsync) })
    }
}
