//! Asks a local model server what it is (llama.cpp, llama-cpp-python, Ollama, LM Studio, vLLM, `SGLang`) and what it
//! knows about its models, such as their context windows. A server that does not answer, or says something unknown, is used like any other.

use crate::http::{HttpClient, is_local};
use crate::limits::{ERROR_BODY_BYTES, LOCAL_CONNECT, PROBE_WHOLE};
use crate::transport::read_body;
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, StatusCode, Url};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

/// Ollama's context length, in tokens, for a model that is not loaded and does not set one. Ollama shortens longer
/// prompts without saying so.
const OLLAMA_CONTEXT: u64 = 4096;

/// The default number of concurrent calls per model, unless `OLLAMA_NUM_PARALLEL` is set for Ollama.
const OLLAMA_SLOTS: usize = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ServerKind {
    #[default]
    Unknown,
    LlamaCpp,
    LlamaCppPython,
    Ollama,
    LmStudio,
    Vllm,
    Sglang,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ServerFacts {
    pub(crate) server: ServerKind,
    /// The context length of one call, in tokens.
    pub(crate) context: Option<u64>,
    /// How many calls the server serves at once.
    pub(crate) slots: Option<usize>,
    pub(crate) parameters: Option<u64>,
    /// Whether the model has tool calls of its own.
    pub(crate) calls_tools: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalModel {
    pub name: String,
    /// The size of the model's file.
    pub bytes: Option<u64>,
    pub parameters: Option<u64>,
    pub is_loaded: bool,
    /// False for embedding models, which write no text.
    pub is_chat: bool,
}

#[derive(Debug)]
pub(super) struct Probe {
    server: Asked,
    model: String,
}

#[derive(Debug)]
struct Asked {
    client: Client,
    /// The address of the OpenAI-compatible API; ends in `/v1`.
    base: Url,
    headers: HeaderMap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The server could not be reached, or is not ready; it may answer later.
    NotYet,
    /// llama.cpp answers this until the model is loaded.
    Loading,
    /// The server does not support the request, or answers too slowly.
    Never,
}

impl Probe {
    pub(super) fn new(client: &Client, call_url: &Url, headers: &HeaderMap, model: &str) -> Self {
        let mut base = call_url.clone();
        let path = base.path().trim_end_matches("/chat/completions").to_owned();
        base.set_path(&path);
        base.set_query(None);
        let server = Asked { client: client.clone(), base, headers: headers.clone() };
        Self { server, model: model.to_owned() }
    }

    /// `None` if the server may answer later.
    pub(super) async fn ask(&self) -> Option<ServerFacts> {
        match self.server.facts_of(&self.model).await {
            Ok(facts) => Some(facts),
            Err(NoAnswer::Never) => Some(ServerFacts::default()),
            Err(NoAnswer::NotYet | NoAnswer::Loading) => None,
        }
    }
}

pub(crate) async fn listed_ollama_models(http: &HttpClient, base_url: &str) -> Option<Vec<LocalModel>> {
    let base = Url::parse(base_url).ok()?;
    let client = http.client(LOCAL_CONNECT, is_local(base.host_str()?)).ok()?;
    let models = Asked { client, base, headers: HeaderMap::new() }.ollama_models().await?;
    Some(models.into_iter().filter(has_plain_name).collect())
}

/// Whether a model's name contains only characters that are usual in names of models. A server that was only found
/// chose the name, so it could be any text.
fn has_plain_name(model: &LocalModel) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/@+- ".contains(c);
    !model.name.is_empty() && model.name.len() <= MAX_MODEL_NAME && model.name.chars().all(is_plain)
}

const MAX_MODEL_NAME: usize = 200;

pub(crate) async fn listed_models(
    http: &HttpClient,
    base_url: &str,
) -> Result<(ServerKind, Vec<LocalModel>), NoAnswer> {
    let base = Url::parse(base_url).map_err(|_| NoAnswer::Never)?;
    let is_here = is_local(base.host_str().unwrap_or_default());
    let client = http.client(LOCAL_CONNECT, is_here).map_err(|_| NoAnswer::Never)?;
    let asked = Asked { client, base, headers: HeaderMap::new() };
    let list = asked.get("models").await?;
    let kind = server_kind(&list);
    let models = match kind {
        ServerKind::Ollama => asked.ollama_models().await.ok_or(NoAnswer::Never)?,
        ServerKind::LmStudio => {
            let own = asked.get_root("/api/v0/models").await.ok();
            entries(own.as_ref().unwrap_or(&list), "data").iter().map(lm_studio_model).collect()
        }
        _ => entries(&list, "data").iter().map(served_model).collect(),
    };
    Ok((kind, models.into_iter().filter(has_plain_name).collect()))
}

impl Asked {
    async fn facts_of(&self, model: &str) -> Result<ServerFacts, NoAnswer> {
        let list = self.get("models").await?;
        let server = server_kind(&list);
        let entry = entries(&list, "data").iter().find(|entry| text(entry, "id") == model);
        let entry = entry.or_else(|| entries(&list, "data").first()).cloned().unwrap_or_default();
        let named = parameters_in(model).or_else(|| parameters_in(text(&entry, "id")));
        let facts = ServerFacts { server, parameters: named, ..ServerFacts::default() };
        Ok(match server {
            ServerKind::Unknown => ServerFacts::default(),
            ServerKind::LlamaCpp => {
                let props = self.get_root("/props").await.unwrap_or_default();
                let count = entry.pointer("/meta/n_params").and_then(Value::as_u64);
                let per_slot = props.pointer("/default_generation_settings/n_ctx").and_then(Value::as_u64);
                let slots = props.get("total_slots").and_then(Value::as_u64).filter(|n| *n > 0);
                ServerFacts {
                    parameters: count.or(named),
                    context: per_slot.filter(|n| *n > 0),
                    slots: slots.and_then(|n| usize::try_from(n).ok()),
                    calls_tools: props.pointer("/chat_template_caps/supports_tools").and_then(Value::as_bool),
                    ..facts
                }
            }
            // By default, llama-cpp-python serves one call at a time, and cuts a reply when the next call arrives.
            ServerKind::LlamaCppPython => ServerFacts { slots: Some(1), ..facts },
            ServerKind::Ollama => self.ollama_facts(model, facts).await,
            ServerKind::LmStudio => {
                let own = self.get_root("/api/v0/models").await.unwrap_or_default();
                let entry = entries(&own, "data").iter().find(|entry| text(entry, "id") == model);
                let length = |name| entry.and_then(|entry| entry.get(name)).and_then(Value::as_u64);
                let abilities = entry.and_then(|entry| entry.get("capabilities")).and_then(Value::as_array);
                ServerFacts {
                    context: length("loaded_context_length").or_else(|| length("max_context_length")),
                    calls_tools: abilities.map(|all| all.iter().any(|one| one == "tool_use")),
                    ..facts
                }
            }
            ServerKind::Vllm | ServerKind::Sglang => {
                ServerFacts { context: entry.get("max_model_len").and_then(Value::as_u64), ..facts }
            }
        })
    }

    async fn ollama_facts(&self, model: &str, facts: ServerFacts) -> ServerFacts {
        let shown = self.post_root("/api/show", &json!({ "model": model })).await.unwrap_or_default();
        let running = self.get_root("/api/ps").await.unwrap_or_default();
        let loaded =
            entries(&running, "models").iter().find(|entry| is_same_ollama_model(text(entry, "name"), model));
        let loaded = loaded.and_then(|entry| entry.get("context_length")).and_then(Value::as_u64);
        let abilities = shown.get("capabilities").and_then(Value::as_array);
        let info = shown.get("model_info").and_then(Value::as_object);
        let longest = info.into_iter().flatten().find(|(key, _)| key.ends_with(".context_length"));
        let longest = longest.and_then(|(_, value)| value.as_u64());
        let set = text(&shown, "parameters").lines().find_map(|line| line.trim().strip_prefix("num_ctx"));
        let set = set.and_then(|value| value.trim().parse().ok());
        let count = info.and_then(|info| info.get("general.parameter_count")).and_then(Value::as_u64);
        let said = shown.pointer("/details/parameter_size").and_then(Value::as_str).and_then(parameters_in);
        ServerFacts {
            parameters: count.or(said).or(facts.parameters),
            context: loaded.or(set).or(Some(longest.unwrap_or(OLLAMA_CONTEXT).min(OLLAMA_CONTEXT))),
            calls_tools: abilities.map(|all| all.iter().any(|one| one == "tools")),
            slots: Some(OLLAMA_SLOTS),
            ..facts
        }
    }

    async fn ollama_models(&self) -> Option<Vec<LocalModel>> {
        let tags = self.get_root("/api/tags").await.ok()?;
        let running = self.get_root("/api/ps").await.unwrap_or_default();
        let is_loaded = |name: &str| {
            entries(&running, "models").iter().any(|entry| is_same_ollama_model(text(entry, "name"), name))
        };
        let models = entries(&tags, "models").iter().map(|entry| {
            let name = text(entry, "name").to_owned();
            let said = entry.pointer("/details/parameter_size").and_then(Value::as_str);
            LocalModel {
                bytes: entry.get("size").and_then(Value::as_u64),
                parameters: said.and_then(parameters_in).or_else(|| parameters_in(&name)),
                is_loaded: is_loaded(&name),
                is_chat: !name.contains("embed"),
                name,
            }
        });
        Some(models.collect())
    }

    async fn get(&self, path: &str) -> Result<Value, NoAnswer> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{path}", self.base.path().trim_end_matches('/')));
        self.send(Method::GET, url, None).await
    }

    async fn get_root(&self, path: &str) -> Result<Value, NoAnswer> {
        self.send(Method::GET, self.root(path), None).await
    }

    async fn post_root(&self, path: &str, body: &Value) -> Result<Value, NoAnswer> {
        self.send(Method::POST, self.root(path), Some(body)).await
    }

    fn root(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let above = url.path().trim_end_matches('/').trim_end_matches("/v1").to_owned();
        url.set_path(&format!("{above}{path}"));
        url
    }

    async fn send(&self, method: Method, url: Url, body: Option<&Value>) -> Result<Value, NoAnswer> {
        let by = Instant::now() + PROBE_WHOLE;
        let mut request = self.client.request(method, url).headers(self.headers.clone());
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let response = match timeout_at(by, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => return Err(NoAnswer::NotYet),
            Err(_) => return Err(NoAnswer::Never),
        };
        let status = response.status();
        if !status.is_success() && status != StatusCode::SERVICE_UNAVAILABLE {
            return Err(NoAnswer::Never);
        }
        let body = read_body(response, ERROR_BODY_BYTES * 64, by).await;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let is_loading = body.is_ok_and(|body| String::from_utf8_lossy(&body).contains("Loading model"));
            return Err(if is_loading { NoAnswer::Loading } else { NoAnswer::NotYet });
        }
        serde_json::from_slice(&body.map_err(|_| NoAnswer::Never)?).map_err(|_| NoAnswer::Never)
    }
}

fn server_kind(list: &Value) -> ServerKind {
    let owner = entries(list, "data").first().map(|entry| text(entry, "owned_by")).unwrap_or_default();
    match owner {
        "llamacpp" => ServerKind::LlamaCpp,
        "me" => ServerKind::LlamaCppPython,
        "library" => ServerKind::Ollama,
        "organization_owner" => ServerKind::LmStudio,
        "vllm" => ServerKind::Vllm,
        "sglang" => ServerKind::Sglang,
        _ => ServerKind::Unknown,
    }
}

fn served_model(entry: &Value) -> LocalModel {
    let name = text(entry, "id").to_owned();
    let count = entry.pointer("/meta/n_params").and_then(Value::as_u64);
    LocalModel {
        bytes: entry.pointer("/meta/size").and_then(Value::as_u64),
        parameters: count.or_else(|| parameters_in(&name)),
        // These servers are started with their model.
        is_loaded: true,
        is_chat: !name.contains("embed"),
        name,
    }
}

fn lm_studio_model(entry: &Value) -> LocalModel {
    let name = text(entry, "id").to_owned();
    LocalModel {
        bytes: entry.get("size_bytes").and_then(Value::as_u64),
        parameters: parameters_in(&name),
        is_loaded: text(entry, "state") == "loaded",
        is_chat: !name.contains("embed") && !text(entry, "type").starts_with("embed"),
        name,
    }
}

fn entries<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_same_ollama_model(one: &str, other: &str) -> bool {
    one.trim_end_matches(":latest") == other.trim_end_matches(":latest")
}

fn parameters_in(name: &str) -> Option<u64> {
    let lower = name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let counts = words.filter_map(|word| {
        let (number, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
        let unit = match unit {
            "b" => 1e9,
            "m" => 1e6,
            _ => return None,
        };
        let count = number.parse::<f64>().ok().filter(|n| *n > 0.0 && *n < 1e5)?;
        Some((count * unit) as u64)
    });
    counts.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_parameters_is_read_from_a_name() {
        let table = [
            ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", Some(1_500_000_000)),
            ("llama3.2:1b", Some(1_000_000_000)),
            ("SmolLM2-135M-Instruct", Some(135_000_000)),
            ("Qwen/Qwen3-30B-A3B", Some(30_000_000_000)),
            ("137.02M", Some(137_020_000)),
            ("qwen", None),
            ("mistral:latest", None),
        ];
        for (name, wanted) in table {
            assert_eq!(parameters_in(name), wanted, "{name}");
        }
    }
}
