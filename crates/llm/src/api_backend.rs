//! A model behind an HTTP API: turns one call to the `Backend` port into attempts with retries, and reports the
//! outcome. Independent of the wire format.

use crate::error::{BuildError, CallFailure, sanitize};
use crate::http::{HttpClient, is_local};
use crate::limits::{CallLimits, LOADING_WAIT};
use crate::local::{CallPlan, Finding, LocalCalls, ServerFacts, ServerKind};
use crate::prices::PriceTable;
use crate::providers::Provider;
use crate::retry::{RetryDecision, decide_retry, rate_limit_wait};
use crate::throttle::Throttle;
use crate::tool_calling::rejects;
use crate::transport::HttpAttempt;
use crate::wire::{FinishedReply, Wire};
use althing_protocol::{
    Backend, BackendConfig, BackendError, BackendErrorKind, BackendInfo, BoxFuture, Delta, DeltaSink,
    Message, ModelRequest, Notice, Price, Reply, Secret, ToolCall, ToolSpec, Usage,
};
use althing_text::estimate_tokens;
use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Request, Url};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How many times at most the request of one call is changed because the provider rejected a field.
const CORRECTIONS: u32 = 3;

pub(crate) struct ApiBackend<W> {
    info: BackendInfo,
    provider: &'static Provider,
    client: reqwest::Client,
    url: Url,
    /// The API key and the user's headers are marked sensitive, so that `Debug` output does not show them.
    headers: HeaderMap,
    secrets: Vec<Secret>,
    limits: CallLimits,
    price: Option<Price>,
    throttle: Arc<Throttle>,
    local: LocalCalls,
    wire: W,
}

struct Call<'a> {
    request: &'a ModelRequest,
    facts: Arc<ServerFacts>,
    plan: CallPlan<'a>,
    limits: CallLimits,
    deadline: Instant,
    spent: Spent,
    retries: u32,
    corrections: u32,
    notices: Vec<Notice>,
}

#[derive(Default)]
struct Spent {
    usage: Usage,
    limited: Duration,
    /// The same random number for the pause of all calls and for the retry of this call.
    random: f64,
}

pub(crate) fn model(config: &BackendConfig) -> Result<String, BuildError> {
    let model = config.model.clone().filter(|model| !model.trim().is_empty());
    model.ok_or_else(|| BuildError::NoModel { kind: config.kind.clone() })
}

impl<W: Wire> ApiBackend<W> {
    /// Problems of the config that can be found without a request are reported here, not at the first call.
    pub(crate) fn new(
        config: &BackendConfig,
        provider: &'static Provider,
        (http, prices): (&HttpClient, &PriceTable),
        (wire, url, headers): (W, Url, HeaderMap),
    ) -> Result<Self, BuildError> {
        let model = model(config)?;
        let limits = CallLimits::from_params(&config.params)?;
        let mut secrets: Vec<Secret> = config.headers.iter().map(|(_, value)| value.clone()).collect();
        secrets.extend(config.api_key.as_ref().map(|key| Secret::new(key.reveal().trim())));
        let client = http.client(limits.connect, is_local(url.host_str().unwrap_or_default()))?;
        Ok(Self {
            provider,
            throttle: http.throttle(config, &url)?,
            local: LocalCalls::new(config, provider, &client, (&url, &headers))?,
            client,
            url,
            headers,
            secrets,
            limits,
            price: prices.price(&model),
            info: BackendInfo { kind: config.kind.clone(), model, offline: false },
            wire,
        })
    }

    async fn run(&self, request: &ModelRequest, mut on_delta: DeltaSink<'_>) -> Result<Reply, BackendError> {
        let deadline = Instant::now() + self.limits.whole;
        let facts = self.local.facts().await;
        let is_local = facts.server != ServerKind::Unknown;
        let mut call = Call {
            request,
            plan: CallPlan::new(request, &self.local, &facts),
            facts,
            limits: if is_local { self.limits.for_local_server() } else { self.limits },
            deadline,
            spent: Spent::default(),
            retries: 0,
            corrections: 0,
            notices: Vec::new(),
        };
        let mut body = self.body(&call.plan)?;
        loop {
            let began = Instant::now();
            let attempted = self.attempt(&body, &mut call, &mut on_delta).await;
            let ms = began.elapsed().as_millis() as u64;
            let mut failure = match attempted {
                Ok(mut reply) => {
                    call.notices.append(&mut reply.notices);
                    reply.notices = call.notices;
                    self.log_reply(&reply, ms, call.retries);
                    return Ok(reply);
                }
                Err(failure) => failure,
            };
            if !failure.is_passing_limit() {
                call.spent.random = fastrand::f64();
            }
            call.spent.usage += failure.counted.priced(self.price.as_ref());
            if self.corrects(&mut call, &failure) {
                body = self.body(&call.plan)?;
                continue;
            }
            failure.what = sanitize(&failure.what, self.secrets.iter().map(Secret::reveal));
            self.log_failure(&failure, ms, call.retries);
            let left = call.deadline.saturating_duration_since(Instant::now());
            if is_loading(&failure) && left > LOADING_WAIT {
                on_delta(Delta::Waiting { reason: "the server is loading the model" });
                sleep(LOADING_WAIT).await;
                continue;
            }
            let times = (call.spent.limited, left);
            match decide_retry(&failure, &call.limits, call.retries, times, call.spent.random) {
                // There is no wait here: like all calls with this API key, the next attempt waits for the pause in
                // `throttle`.
                RetryDecision::Retry(after) if failure.kind == BackendErrorKind::RateLimited => {
                    call.retries += 1;
                    on_delta(Delta::RateLimited { after, reason: &failure.what });
                }
                RetryDecision::Retry(after) => {
                    call.retries += 1;
                    on_delta(Delta::Retry { attempt: call.retries, after, reason: &failure.what });
                    sleep(after).await;
                }
                RetryDecision::GiveUp(remark) => {
                    return Err(self.error(failure, remark, self.with_unpriced(call.spent.usage)));
                }
            }
        }
    }

    fn corrects(&self, call: &mut Call<'_>, failure: &CallFailure) -> bool {
        let refused = matches!(failure.status, Some(400 | 422));
        if call.corrections >= CORRECTIONS {
            return false;
        }
        let form = call.plan.form;
        let is_too_long = is_too_long(failure) && self.local.context(&call.facts).is_some();
        let has_tools = !call.request.tools.is_empty();
        let corrected = (refused && self.wire.learn(&failure.what))
            || (is_too_long && self.local.shrink())
            || (self.local.adapts && has_tools && rejects(form, failure.status, &failure.what) && {
                let why = format!("the server rejects `tool_calling: {}`", form.name());
                call.notices.extend(self.local.move_down(form, &self.name(), &why));
                self.local.has_moved(form)
            });
        if corrected {
            call.corrections += 1;
            call.plan = CallPlan::new(call.request, &self.local, &call.facts);
        }
        corrected
    }

    fn name(&self) -> String {
        format!("{} {}", self.info.kind, self.info.model)
    }

    fn log_reply(&self, reply: &Reply, ms: u64, retries: u32) {
        tracing::info!(
            provider = self.info.kind,
            model = self.info.model,
            host = self.url.host_str().unwrap_or_default(),
            status = 200,
            ms,
            retries,
            input_tokens = reply.usage.input_tokens,
            output_tokens = reply.usage.output_tokens,
            "model call"
        );
    }

    fn log_failure(&self, failure: &CallFailure, ms: u64, retries: u32) {
        tracing::warn!(
            provider = self.info.kind,
            model = self.info.model,
            host = self.url.host_str().unwrap_or_default(),
            status = failure.status,
            ms,
            retries,
            kind = ?failure.kind,
            error = failure.what,
            "model call failed"
        );
    }

    /// Counts the attempt in `spent` and adds the cost of a reply. A failure carries its own token counts, which the
    /// caller adds.
    async fn attempt(
        &self,
        body: &Bytes,
        call: &mut Call<'_>,
        on_delta: &mut DeltaSink<'_>,
    ) -> Result<Reply, CallFailure> {
        // A retry reports no wait here: if this call itself was rejected, it has already reported the wait.
        if let Some(after) = self.throttle.paused_for().filter(|_| call.retries == 0) {
            on_delta(Delta::RateLimited { after, reason: "another call with this API key was rejected" });
        }
        let slot = match self.local.try_slot(&call.facts) {
            Ok(slot) => slot,
            Err(slots) => {
                on_delta(Delta::Waiting { reason: "the server is busy with other calls" });
                let slot = slots.acquire_owned().await.ok();
                // Waiting for the earlier calls may have used up the time of this call, so its time limit starts again.
                call.deadline = call.deadline.max(Instant::now() + call.limits.whole);
                slot
            }
        };
        let is_local = call.facts.server != ServerKind::Unknown;
        let attempt = HttpAttempt {
            client: &self.client,
            limits: &call.limits,
            deadline: call.deadline,
            input_estimate: (body.len() as u64).div_ceil(4),
            wire_info: self.wire.wire_info(),
            shows_waiting: is_local,
            // An output limit ends a reply that never stops.
            unlimited_stream: is_local && !call.limits.sets_whole && call.plan.shape.max_tokens.is_some(),
        };
        let permit = timeout_at(call.deadline, self.throttle.acquire()).await.map_err(|_| {
            let overdue = attempt.overdue();
            let what = format!(
                "{}; it was still waiting because of `max_concurrent_requests` or `requests_per_minute`, or of a rate \
                 limit of the provider",
                overdue.what
            );
            let hint = "raise that limit or `request_timeout_seconds`, or use fewer agents with this API key";
            CallFailure { what, ..overdue }.with_hint(hint)
        })?;
        call.spent.usage.calls += 1;
        call.spent.limited += permit.paused;
        let mut view = call.plan.view();
        let request = self.http_request(body);
        let finished = if let Some(view) = &mut view {
            let mut shown = |delta: Delta<'_>| view.pass(delta, on_delta);
            attempt.make(request, self.wire.reader(), &mut (&mut shown as DeltaSink<'_>)).await
        } else {
            attempt.make(request, self.wire.reader(), on_delta).await
        };
        match &finished {
            Err(failure) if failure.is_passing_limit() => {
                call.spent.random = fastrand::f64();
                let wait = rate_limit_wait(failure, &call.limits, call.retries, call.spent.random);
                self.throttle.pause(wait);
            }
            _ => permit.accepted(),
        }
        drop((permit, slot));
        let FinishedReply { mut reply, counted, provider_state } =
            finished.map_err(|failure| explained(failure, &call.facts))?;
        call.spent.usage += counted.priced(self.price.as_ref());
        reply.usage = self.with_unpriced(call.spent.usage);
        if let Some(provider_state) = provider_state {
            self.wire.store_provider_state(&reply, provider_state);
        }
        if call.plan.interpret(&mut reply, view) == Finding::WroteCall {
            let why = "the model wrote its tool call as text";
            reply.notices.extend(self.local.move_down(call.plan.form, &self.name(), why));
        }
        Ok(reply)
    }

    /// Marks calls that used tokens as calls of unknown cost if the model's price is not known. A model on this
    /// machine costs nothing.
    fn with_unpriced(&self, usage: Usage) -> Usage {
        let is_unpriced = self.price.is_none()
            && !self.url.host_str().is_some_and(is_local)
            && usage.input_tokens.saturating_add(usage.output_tokens) > 0;
        Usage { unpriced_calls: if is_unpriced { usage.calls } else { 0 }, ..usage }
    }

    fn body(&self, plan: &CallPlan<'_>) -> Result<Bytes, BackendError> {
        self.wire.body(&self.info.model, &plan.request, &plan.shape).map(Bytes::from).map_err(|error| {
            let failure = CallFailure::new(
                BackendErrorKind::BadRequest,
                format!("the request cannot be serialized: {error}"),
            );
            self.error(failure, None, Usage::default())
        })
    }

    fn http_request(&self, body: &Bytes) -> Request {
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(body.clone().into());
        request
    }

    fn error(&self, failure: CallFailure, remark: Option<String>, usage: Usage) -> BackendError {
        let CallFailure { kind, what, hint, .. } = failure;
        let remark = remark.map(|remark| format!(" ({remark})")).unwrap_or_default();
        let message = format!("{} {}: {what}{remark}", self.info.kind, self.info.model);
        BackendError { kind, message, hint: hint.map(String::from).or_else(|| self.hint(kind)), usage }
    }

    fn hint(&self, kind: BackendErrorKind) -> Option<String> {
        let wire_info = self.wire.wire_info();
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        match kind {
            BackendErrorKind::Auth => Some(match self.provider.key_variable {
                Some(variable) => format!(
                    "check that the API key (the backend's `api_key`, or {variable}) is valid and has access to this \
                     model"
                ),
                None => format!("check the `api_key` for {host}"),
            }),
            BackendErrorKind::NotFound => {
                let path = self.url.path();
                let base = path.rfind(wire_info.path).and_then(|at| path.get(..at)).unwrap_or(path);
                let model = &self.info.model;
                let other = if wire_info.path == "/responses" {
                    "; a server that speaks only chat completions needs `api: chat`"
                } else {
                    ""
                };
                Some(format!("check the model name `{model}` and `base_url` ({host}{port}{base}){other}"))
            }
            BackendErrorKind::Connect => Some(if is_local(host) {
                format!("is the server running at {host}{port}? If so, check `base_url`")
            } else {
                format!("check the network and the proxy settings; {host}{port} could not be reached")
            }),
            BackendErrorKind::RateLimited => {
                Some("wait, set `requests_per_minute`, or use fewer agents on this provider".to_owned())
            }
            BackendErrorKind::BadRequest => {
                Some("check the backend's parameters against what this model accepts".to_owned())
            }
            BackendErrorKind::Timeout => Some(
                "raise `first_byte_timeout_seconds` or `idle_timeout_seconds` if the model really needs that long"
                    .to_owned(),
            ),
            BackendErrorKind::Protocol => Some(format!("check that `base_url` is {}", wire_info.api)),
            BackendErrorKind::Server
            | BackendErrorKind::Cut
            | BackendErrorKind::TooLarge
            | BackendErrorKind::Empty
            | BackendErrorKind::CostLimit => None,
        }
    }
}

fn explained(failure: CallFailure, facts: &ServerFacts) -> CallFailure {
    match (facts.server, failure.kind) {
        (ServerKind::LlamaCppPython, BackendErrorKind::Cut) => failure.with_hint(
            "llama-cpp-python ends a reply when another request arrives: start it with `--interrupt_requests false`",
        ),
        _ => failure,
    }
}

fn is_loading(failure: &CallFailure) -> bool {
    failure.status == Some(503) && failure.what.to_ascii_lowercase().contains("loading model")
}

const TOO_LONG: &[&str] = &[
    "context size",
    "context length",
    "context window",
    "exceed_context",
    "too many tokens",
    "prompt is too long",
];

fn is_too_long(failure: &CallFailure) -> bool {
    let what = failure.what.to_ascii_lowercase();
    matches!(failure.status, Some(400 | 413 | 422 | 500)) && TOO_LONG.iter().any(|words| what.contains(words))
}

/// The estimated input tokens of a request.
fn input_tokens(request: &ModelRequest) -> u64 {
    let of_call = |call: &ToolCall| estimate_tokens(&call.name) + estimate_tokens(&call.arguments);
    let of_message = |message: &Message| match message {
        Message::User(text) => estimate_tokens(text),
        Message::Assistant { text, tool_calls } => {
            estimate_tokens(text) + tool_calls.iter().map(of_call).sum::<u64>()
        }
        Message::Tool { content, .. } => estimate_tokens(content),
    };
    let of_tool = |tool: &ToolSpec| {
        let parameters = tool.parameters.to_string();
        [&tool.name, &tool.description, &parameters]
            .into_iter()
            .map(|text| estimate_tokens(text))
            .sum::<u64>()
    };
    let messages: u64 = request.messages.iter().map(of_message).sum();
    let tools: u64 = request.tools.iter().map(of_tool).sum();
    estimate_tokens(&request.system) + messages + tools
}

impl<W: Wire> Backend for ApiBackend<W> {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn least_cost_usd(&self, request: &ModelRequest) -> Option<f64> {
        self.price.map(|price| input_tokens(request) as f64 * price.input_per_million / 1e6)
    }

    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_delta: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Reply, BackendError>> {
        Box::pin(self.run(request, on_delta))
    }
}
