//! One small HTTP/1.1 server for everything that Althing offers over HTTP.
//!
//! It listens on the loopback interface only and requires the right token, Host and Origin. It knows nothing about
//! tools: a `Router` maps paths to services. It exists because `rmcp` checks neither tokens nor, by default, origins,
//! and does not limit slow or numerous connections.

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

/// A response, complete or streaming.
pub(crate) type HttpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Maps requests to services.
pub(crate) trait Router: Send + Sync + 'static {
    /// The service for this path and token; None, without a reason, if there is none.
    fn find(&self, path: &str, token: &Token) -> Option<Arc<dyn Service>>;
}

/// Answers admitted requests. Dropping the future, or the body of the response, cancels the request.
pub(crate) trait Service: Send + Sync {
    fn answer(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, HttpResponse>;
}

impl<S: ServerHandler, M: SessionManager> Service for StreamableHttpService<S, M> {
    fn answer(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, HttpResponse> {
        let service = self.clone();
        Box::pin(async move { service.handle(request).await.map(BodyExt::boxed_unsync) })
    }
}
