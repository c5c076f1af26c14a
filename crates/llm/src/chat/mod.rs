//! The OpenAI-compatible chat-completions wire.
//!
//! Decides how one call of the port becomes attempts on the wire, and what its caller is told. The parts: `request`
//! writes, `transport` sends and reads, `frame`, `calls` and `assemble` understand the stream, `refusal` the errors.
//! Later wires (Responses, Anthropic, Gemini) stand beside this one and share everything outside this folder.

mod assemble;
mod calls;
mod frame;
mod refusal;
mod request;
mod shortcut;
mod transport;

use crate::error::{BuildError, Failure, clean};
use crate::http::HttpClient;
use crate::limits::Limits;
use crate::prices::{PriceTable, cost};
use crate::providers::Provider;
use crate::retry::{Next, next};
use althing_protocol::{
    Backend, BackendConfig, BackendError, BackendErrorKind, BackendInfo, BoxFuture, Delta, DeltaSink,
    ModelRequest, Price, Reply, Secret, Usage,
};
use bytes::Bytes;
use request::{Body, Dialect, Params};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use std::sync::{Mutex, PoisonError};
use tokio::time::{Instant, sleep};
use transport::Attempt;

/// How often one call may be said another way because the provider refused a field.
const CORRECTIONS: u32 = 3;

/// One agent's way to a model behind this wire.
pub(crate) struct ChatBackend {
    info: BackendInfo,
    provider: &'static Provider,
    client: reqwest::Client,
    url: Url,
    /// All marked sensitive, so that no `Debug` shows them.
    headers: HeaderMap,
    /// What no message may contain.
    secrets: Vec<Secret>,
    params: Params,
    limits: Limits,
    price: Option<Price>,
    /// Learnt once, kept for the later calls.
    dialect: Mutex<Dialect>,
}

impl ChatBackend {
    /// Checks the whole section, so that a call can only fail for what happens on the wire.
    pub(crate) fn new(
        config: &BackendConfig,
        provider: &'static Provider,
        http: &HttpClient,
        prices: &PriceTable,
    ) -> Result<Self, BuildError> {
        let kind = || config.kind.clone();
        let model = config.model.clone().filter(|model| !model.trim().is_empty());
        let model = model.ok_or_else(|| BuildError::NoModel { kind: kind() })?;
        let base = config.base_url.as_deref().ok_or_else(|| BuildError::NoAddress { kind: kind() })?;
        let limits = Limits::from_params(&config.params)?;
        let mut secrets: Vec<Secret> = config.headers.iter().map(|(_, value)| value.clone()).collect();
        secrets.extend(config.api_key.as_ref().map(|key| Secret::new(key.reveal().trim())));
        Ok(Self {
            provider,
            client: http.connecting_within(limits.connect)?,
            url: endpoint(base).ok_or_else(|| BuildError::BadAddress { kind: kind() })?,
            headers: headers(config)?,
            secrets,
            params: Params::new(&config.params, provider),
            limits,
            price: prices.price(&model),
            dialect: Mutex::new(Dialect { stream_options: true, output_limit: provider.output_limit }),
            info: BackendInfo { kind: kind(), model, offline: false },
        })
    }

    async fn run(&self, request: &ModelRequest, mut on_delta: DeltaSink<'_>) -> Result<Reply, BackendError> {
        let deadline = Instant::now() + self.limits.whole;
        let mut body = self.body(request)?;
        let input_estimate = (body.len() as u64).div_ceil(4);
        let (mut retries, mut corrections) = (0, 0);
        let mut spent = Usage::default();
        loop {
            spent.calls += 1;
            let attempt = Attempt { client: &self.client, limits: &self.limits, deadline, input_estimate };
            let mut failure = match attempt.make(self.http_request(&body), &mut on_delta).await {
                Ok(mut reply) => {
                    spent += self.priced(reply.usage);
                    reply.usage = spent;
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            spent += self.priced(failure.usage);
            if corrections < CORRECTIONS && self.learn(&failure) {
                corrections += 1;
                body = self.body(request)?;
                continue;
            }
            failure.what = clean(&failure.what, self.secrets.iter().map(Secret::reveal));
            let left = deadline.saturating_duration_since(Instant::now());
            match next(&failure, &self.limits, retries, left, fastrand::f64()) {
                Next::Retry(after) => {
                    retries += 1;
                    on_delta(Delta::Retry { attempt: retries, after, reason: &failure.what });
                    sleep(after).await;
                }
                Next::GiveUp(remark) => return Err(self.error(failure, remark, spent)),
            }
        }
    }

    fn body(&self, request: &ModelRequest) -> Result<Bytes, BackendError> {
        let dialect = *self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        let body = Body { model: &self.info.model, request, params: &self.params, dialect };
        serde_json::to_vec(&body).map(Bytes::from).map_err(|error| {
            let failure = Failure::new(BackendErrorKind::BadRequest, format!("cannot be written: {error}"));
            self.error(failure, None, Usage::default())
        })
    }

    fn http_request(&self, body: &Bytes) -> Request {
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(body.clone().into());
        request
    }

    /// Takes note if the provider refused a field that can be said another way or left out.
    fn learn(&self, failure: &Failure) -> bool {
        if !matches!(failure.status, Some(400 | 422)) {
            return false;
        }
        let mut dialect = self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        dialect.learn(&failure.what).is_some_and(|learnt| {
            *dialect = learnt;
            true
        })
    }

    fn priced(&self, usage: Usage) -> Usage {
        Usage { cost_usd: self.price.map_or(0.0, |price| cost(&price, &usage)), ..usage }
    }

    fn error(&self, failure: Failure, remark: Option<String>, usage: Usage) -> BackendError {
        let Failure { kind, what, hint, .. } = failure;
        let remark = remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
        let message = format!("{} {}: {what}{remark}", self.info.kind, self.info.model);
        BackendError { kind, message, hint: hint.map(String::from).or_else(|| self.hint(kind)), usage }
    }

    /// What a person can do about a kind of failure.
    fn hint(&self, kind: BackendErrorKind) -> Option<String> {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        match kind {
            BackendErrorKind::Auth => Some(match self.provider.key_variable {
                Some(variable) => format!("check the key in {variable}, and that it may use this model"),
                None => format!("check the `api_key` for {host}"),
            }),
            BackendErrorKind::NotFound => Some(format!(
                "check the model name `{}` and `base_url` ({host}{port}{})",
                self.info.model,
                self.url.path().trim_end_matches("/chat/completions")
            )),
            BackendErrorKind::Connect => Some(if is_local(host) {
                format!("is the server running at {host}{port}? Else check `base_url`")
            } else {
                format!("check the network and, behind one, the proxy; {host}{port} could not be reached")
            }),
            BackendErrorKind::RateLimited => {
                Some("wait, use fewer agents on this provider, or another model".to_owned())
            }
            BackendErrorKind::BadRequest => {
                Some("check the backend's parameters against what this model accepts".to_owned())
            }
            BackendErrorKind::Timeout => Some(
                "raise `first_byte_timeout_seconds` or `idle_timeout_seconds` if the model really needs that long"
                    .to_owned(),
            ),
            BackendErrorKind::Protocol => {
                Some("check that `base_url` is an OpenAI-compatible chat-completions API".to_owned())
            }
            BackendErrorKind::Server
            | BackendErrorKind::Cut
            | BackendErrorKind::TooLarge
            | BackendErrorKind::Empty => None,
        }
    }
}

impl Backend for ChatBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_delta: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Reply, BackendError>> {
        Box::pin(self.run(request, on_delta))
    }
}

/// `base_url` with the wire's own path behind it; a query stays where it belongs.
fn endpoint(base: &str) -> Option<Url> {
    let mut url = Url::parse(base.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.host_str()?;
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    if path.ends_with("/chat/completions") {
        url.set_path(&path);
    } else {
        url.set_path(&format!("{path}/chat/completions"));
    }
    Some(url)
}

fn headers(config: &BackendConfig) -> Result<HeaderMap, BuildError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(key) = &config.api_key {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", key.reveal().trim()))
            .map_err(|_| BuildError::BadKey { kind: config.kind.clone() })?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    for (name, value) in &config.headers {
        let bad = || BuildError::BadHeader { name: name.clone() };
        let mut value = HeaderValue::from_str(value.reveal().trim()).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::try_from(name.as_str()).map_err(|_| bad())?, value);
    }
    Ok(headers)
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.starts_with("127.") || host == "[::1]"
}
