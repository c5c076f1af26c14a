//! A small HTTP/1.1 server on the loopback interface that checks token, Host and Origin. It exists because `rmcp`
//! checks neither tokens nor, by default, origins, and does not limit slow or numerous connections.

mod admitted;
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
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::ServerHandler;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::SessionManager;
use std::convert::Infallible;
use std::sync::Arc;

pub(crate) type HttpResponse = Response<UnsyncBoxBody<Bytes, Infallible>>;

pub(crate) trait Router: Send + Sync + 'static {
    /// `None` both for an unknown path and for a wrong token, so that a client cannot find out which paths exist.
    fn find(&self, path: &str, token: &Token) -> Option<Arc<dyn Service>>;
}

/// Dropping the future, or the body of the response, cancels the request.
pub(crate) trait Service: Send + Sync {
    fn answer(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, HttpResponse>;
}

impl<S: ServerHandler, M: SessionManager> Service for StreamableHttpService<S, M> {
    fn answer(&self, request: Request<Full<Bytes>>) -> BoxFuture<'static, HttpResponse> {
        let service = self.clone();
        let ends_session = request.method() == Method::DELETE;
        Box::pin(async move {
            let mut response = service.handle(request).await.map(BodyExt::boxed_unsync);
            // A client that ends its session warns about any status other than `NO_CONTENT`.
            if ends_session && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            response
        })
    }
}
