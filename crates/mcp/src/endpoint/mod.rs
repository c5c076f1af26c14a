//! Endpoints: offer one agent's tools over streamable HTTP to the CLI agent that works as that agent. A token is
//! valid only for its endpoint and only while the endpoint is open, so that an agent can neither act as another agent
//! nor after its endpoint was closed.

mod tools;

use crate::web::{Listener, Router, Service, Token, WebLimits};
use althing_protocol::{BoxFuture, Endpoint, EndpointHandler, Endpoints, Secret, ToolSpec};
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::{CancellationToken, DropGuard};
use tools::Tools;

pub(crate) use tools::offer;

/// Listens on a free port from the first endpoint on; dropping this value closes the port and every connection.
pub struct AgentEndpoints {
    limits: WebLimits,
    routes: Arc<Routes>,
    /// An async lock, so that concurrent first callers bind only once.
    listener: tokio::sync::Mutex<Option<Listener>>,
}

impl AgentEndpoints {
    pub fn new(limits: WebLimits) -> Self {
        Self { limits, routes: Arc::default(), listener: tokio::sync::Mutex::new(None) }
    }

    async fn address(&self) -> Result<SocketAddr, String> {
        let mut listener = self.listener.lock().await;
        if let Some(listener) = listener.as_ref().filter(|listener| listener.is_up()) {
            return Ok(listener.address());
        }
        let routes = self.routes.clone();
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let bound = Listener::bind(anywhere, self.limits, |_| routes).await?;
        Ok(listener.insert(bound).address())
    }

    async fn open_one(
        &self,
        specs: Vec<ToolSpec>,
        calls: Arc<dyn EndpointHandler>,
    ) -> Result<OpenEndpoint, String> {
        let address = self.address().await?;
        let (path, token) = (format!("/agent/{}", Token::generate()?.reveal()), Token::generate()?);
        let (listed, end) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let tools = Tools::new(specs, calls, listed.clone(), end.clone(), self.limits.keep_alive);
        let config = StreamableHttpServerConfig::default()
            // Without sessions nothing can expire, and a lost connection ends its call.
            .with_legacy_session_mode(false)
            .with_sse_keep_alive(Some(self.limits.keep_alive))
            .with_sse_retry(None)
            .with_max_request_body_bytes(self.limits.body_bytes)
            .with_allowed_hosts([address.to_string(), format!("localhost:{}", address.port())])
            .with_cancellation_token(end.clone());
        let service = StreamableHttpService::new(
            move || Ok(tools.clone()),
            Arc::<NeverSessionManager>::default(),
            config,
        );
        let route = Route { token: Token::digest(token.reveal()), service: Arc::new(service) };
        self.routes.all().insert(path.clone(), route);
        let url = format!("http://{address}{path}");
        Ok(OpenEndpoint { url, path, token, listed, routes: self.routes.clone(), _end: end.drop_guard() })
    }
}

impl Default for AgentEndpoints {
    fn default() -> Self {
        Self::new(WebLimits::default())
    }
}

impl Endpoints for AgentEndpoints {
    fn open(
        &self,
        tools: Vec<ToolSpec>,
        calls: Arc<dyn EndpointHandler>,
    ) -> BoxFuture<'_, Result<Box<dyn Endpoint>, String>> {
        Box::pin(async move {
            let open = self.open_one(tools, calls).await?;
            Ok(Box::new(open) as Box<dyn Endpoint>)
        })
    }
}

#[derive(Default)]
struct Routes {
    open: Mutex<HashMap<String, Route>>,
}

struct Route {
    token: Token,
    service: Arc<dyn Service>,
}

impl Routes {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Route>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Router for Routes {
    fn find(&self, path: &str, token: &Token) -> Option<Arc<dyn Service>> {
        self.all().get(path).filter(|route| route.token == *token).map(|route| route.service.clone())
    }
}

struct OpenEndpoint {
    url: String,
    path: String,
    token: Secret,
    listed: Arc<AtomicBool>,
    routes: Arc<Routes>,
    /// Dropping the guard cancels running calls.
    _end: DropGuard,
}

impl Endpoint for OpenEndpoint {
    fn url(&self) -> &str {
        &self.url
    }

    fn token(&self) -> &Secret {
        &self.token
    }

    fn is_connected(&self) -> bool {
        self.listed.load(Ordering::Relaxed)
    }
}

impl Drop for OpenEndpoint {
    fn drop(&mut self) {
        self.routes.all().remove(&self.path);
    }
}
