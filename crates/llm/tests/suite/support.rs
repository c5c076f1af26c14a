//! Shared test helpers: a backend for a fake server, and a call that records what streamed.

use althing_llm::{HttpClient, HttpOptions, PriceTable, backend};
use althing_protocol::{
    Backend, BackendConfig, BackendError, Delta, Message, ModelRequest, Reply, Secret, ToolSpec,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const LONG: Duration = althing_testkit::wait::PATIENCE;

/// This key may appear only in the header that carries the key.
pub(crate) const KEY: &str = "sk-test";

/// One backend type per wire format; `openai` uses Responses.
pub(crate) const KINDS: [&str; 4] = ["chatcompletion", "openai", "claude", "gemini"];

pub(crate) fn config_of(kind: &str, base_url: &str, params: Value) -> BackendConfig {
    let api = params.get("api").cloned().unwrap_or_default();
    let mut section = config(base_url, params);
    section.params.insert("api".into(), api);
    section.kind = kind.into();
    section
}

pub(crate) fn config(base_url: &str, params: Value) -> BackendConfig {
    let mut all =
        Map::from_iter([("retry_base_ms".to_owned(), json!(10)), ("api".to_owned(), json!("chat"))]);
    all.extend(params.as_object().unwrap().clone());
    BackendConfig {
        kind: "openai".into(),
        model: Some("gpt-5-mini".into()),
        base_url: Some(base_url.into()),
        api_key: Some(Secret::new(KEY)),
        headers: Vec::new(),
        params: all,
        options: althing_protocol::AgentOptions::default(),
    }
}

pub(crate) fn http() -> HttpClient {
    HttpClient::new(&HttpOptions::default()).unwrap()
}

pub(crate) fn build(config: &BackendConfig) -> Arc<dyn Backend> {
    backend(config, &http(), &PriceTable::default()).unwrap()
}

pub(crate) fn model(base_url: &str, params: Value) -> Arc<dyn Backend> {
    build(&config(base_url, params))
}

pub(crate) fn request(text: &str) -> ModelRequest {
    let parameters = json!({"type": "object", "properties": {"content": {"type": "string"}}});
    let tool = ToolSpec { name: "new_answer".into(), description: "Answers.".into(), parameters };
    ModelRequest {
        system: "You are an agent.".into(),
        messages: vec![Message::User(text.into())],
        tools: vec![tool],
        call_context: None,
    }
}

#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) result: Result<Reply, BackendError>,
    /// The text since the last retry.
    pub(crate) text: String,
    pub(crate) reasoning: String,
    /// The tools since the last retry.
    pub(crate) tools: Vec<String>,
    pub(crate) retries: Vec<Retry>,
    pub(crate) waits: Vec<String>,
    pub(crate) took: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    pub(crate) attempt: u32,
    pub(crate) after: Duration,
    pub(crate) reason: String,
}

impl Called {
    #[track_caller]
    pub(crate) fn reply(&self) -> &Reply {
        self.result.as_ref().unwrap()
    }

    #[track_caller]
    pub(crate) fn error(&self) -> &BackendError {
        self.result.as_ref().unwrap_err()
    }
}

pub(crate) async fn call(backend: &dyn Backend, request: &ModelRequest) -> Called {
    let started = Instant::now();
    let (mut text, mut reasoning, mut tools, mut retries, mut waits) =
        (String::new(), String::new(), Vec::new(), Vec::new(), Vec::new());
    let mut sink = |delta: Delta<'_>| match delta {
        Delta::Text(more) => text.push_str(more),
        Delta::Reasoning(more) => reasoning.push_str(more),
        Delta::ToolCall(name) => tools.push(name.to_owned()),
        Delta::Arguments(_) => {}
        Delta::Retry { attempt, after, reason } => {
            text.clear();
            reasoning.clear();
            tools.clear();
            retries.push(Retry { attempt, after, reason: reason.to_owned() });
        }
        Delta::Waiting { reason } => waits.push(reason.to_owned()),
        Delta::RateLimited { after, reason } => {
            text.clear();
            reasoning.clear();
            tools.clear();
            let attempt = retries.len() as u32 + 1;
            retries.push(Retry { attempt, after, reason: reason.to_owned() });
        }
    };
    let result = backend.call(request, &mut sink).await;
    Called { result, text, reasoning, tools, retries, waits, took: started.elapsed() }
}
