//! Detects running model servers and lists their models, with short time limits.

use crate::http::HttpClient;
use crate::limits::{CallLimits, ERROR_BODY_BYTES, LOCAL_CONNECT, LOCAL_WHOLE};
use crate::local::{LocalModel, NoAnswer, ServerKind, listed_models, listed_ollama_models};
use crate::transport::{read_body, transport_failure};
use althing_protocol::{BackendError, BackendErrorKind, BoxFuture, Usage};
use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// `base_url` is Ollama's own URL, or that of its OpenAI-compatible API, which ends in `/v1`.
pub fn ollama_models<'a>(
    http: &'a HttpClient,
    base_url: &'a str,
) -> BoxFuture<'a, Result<Vec<String>, BackendError>> {
    Box::pin(async move {
        let server = ModelServer { who: "ollama", hint: "start it with `ollama serve`, or set `base_url`" };
        let path = |path: &str| format!("{}/api/tags", path.strip_suffix("/v1").unwrap_or(path));
        let tags: Tags = server.read(http, base_url, path).await?;
        Ok(tags.models.into_iter().map(|model| model.name).collect())
    })
}

pub fn served_models<'a>(
    http: &'a HttpClient,
    base_url: &'a str,
) -> BoxFuture<'a, Result<Vec<String>, BackendError>> {
    Box::pin(async move {
        let server = ModelServer { who: "server", hint: "start it, or set `base_url`" };
        let list: List = server.read(http, base_url, |path| format!("{path}/models")).await?;
        Ok(list.data.into_iter().map(|model| model.id).collect())
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalServer {
    pub kind: &'static str,
    pub title: &'static str,
    /// The models that write text.
    pub models: Vec<LocalModel>,
}

/// Why there is no usable model server at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoServer {
    /// Nothing answers, or only with an error.
    Silent,
    /// The server is loading its model, and answers only this.
    Loading,
    /// What answers is no known server program.
    Unknown,
}

/// `base_url` ends in `/v1`.
pub fn local_server<'a>(
    http: &'a HttpClient,
    base_url: &'a str,
) -> BoxFuture<'a, Result<LocalServer, NoServer>> {
    Box::pin(async move {
        let listed = listed_models(http, base_url).await;
        let (kind, mut models) = listed.map_err(|no_answer| match no_answer {
            NoAnswer::Loading => NoServer::Loading,
            NoAnswer::NotYet | NoAnswer::Never => NoServer::Silent,
        })?;
        models.retain(|model| model.is_chat);
        let (kind, title) = match kind {
            ServerKind::Unknown => return Err(NoServer::Unknown),
            ServerKind::LlamaCpp => ("chatcompletion", "llama-server"),
            ServerKind::LlamaCppPython => ("chatcompletion", "llama-cpp-python"),
            ServerKind::Ollama => ("ollama", "Ollama"),
            ServerKind::LmStudio => ("lmstudio", "LM Studio"),
            ServerKind::Vllm => ("vllm", "vLLM"),
            ServerKind::Sglang => ("sglang", "SGLang"),
        };
        Ok(LocalServer { kind, title, models })
    })
}

/// The Ollama server with the sizes of its models; `None` if it does not answer.
pub fn ollama_server<'a>(http: &'a HttpClient, base_url: &'a str) -> BoxFuture<'a, Option<LocalServer>> {
    Box::pin(async move {
        let mut models = listed_ollama_models(http, base_url).await?;
        models.retain(|model| model.is_chat);
        Some(LocalServer { kind: "ollama", title: "Ollama", models })
    })
}

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

struct ModelServer {
    who: &'static str,
    hint: &'static str,
}

impl ModelServer {
    fn failed(&self, kind: BackendErrorKind, what: &str) -> BackendError {
        let message = format!("{}: {what}", self.who);
        BackendError { kind, message, hint: Some(self.hint.to_owned()), usage: Usage::default() }
    }

    async fn read<T: DeserializeOwned>(
        &self,
        http: &HttpClient,
        base_url: &str,
        place: impl Fn(&str) -> String,
    ) -> Result<T, BackendError> {
        let by = Instant::now() + LOCAL_WHOLE;
        let bad = || self.failed(BackendErrorKind::NotFound, "`base_url` is not an http or https address");
        let mut url = Url::parse(base_url.trim()).map_err(|_| bad())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(bad());
        }
        url.set_path(&place(url.path().trim_end_matches('/')));
        url.set_query(None);
        let local = crate::http::is_local(url.host_str().unwrap_or_default());
        let client = http
            .client(LOCAL_CONNECT, local)
            .map_err(|error| self.failed(BackendErrorKind::Connect, &error.to_string()))?;
        let late = || self.failed(BackendErrorKind::Timeout, "no answer within a second");
        let broken = |error: &reqwest::Error| {
            let limits = CallLimits { connect: LOCAL_CONNECT, ..CallLimits::default() };
            let failure = transport_failure(error, &limits);
            self.failed(failure.kind, &failure.what)
        };
        let response = timeout_at(by, client.get(url).send()).await.map_err(|_| late())?;
        let response = response.map_err(|error| broken(&error))?;
        if !response.status().is_success() {
            let what = format!("answered {}", response.status().as_u16());
            return Err(self.failed(BackendErrorKind::Protocol, &what));
        }
        let unread = || self.failed(BackendErrorKind::Protocol, "its list of models could not be read");
        let body = read_body(response, ERROR_BODY_BYTES * 16, by).await.map_err(|_| unread())?;
        serde_json::from_slice(&body).map_err(|_| unread())
    }
}
