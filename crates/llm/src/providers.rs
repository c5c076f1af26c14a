//! The table of backend types with an HTTP API, and how they differ. The wire formats learn from rejections which
//! fields a provider does not accept, so the table stays short.

use crate::BuildError;
use althing_protocol::BackendConfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Provider {
    pub(crate) kind: &'static str,
    pub(crate) api: Api,
    pub(crate) key_header: KeyHeader,
    /// The variable that usually contains the key, for hints; `None` if users usually run the server themselves.
    pub(crate) key_variable: Option<&'static str>,
    /// How `reasoning: {effort: …}` is sent in chat completions.
    pub(crate) reasoning: Reasoning,
    /// How an output limit is sent in chat completions.
    pub(crate) output_limit: OutputLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// OpenAI's chat completions, which nearly every provider supports.
    Chat,
    /// Chat completions at Azure's URLs.
    AzureChat,
    Responses,
    Messages,
    /// Google's `streamGenerateContent`.
    Gemini,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    /// `Authorization: Bearer …`.
    Bearer,
    Named(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reasoning {
    /// `reasoning_effort: "low"`.
    Effort,
    /// `reasoning: {"effort": "low", …}`, as in the config.
    Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputLimit {
    MaxTokens,
    /// This limit includes reasoning, and is the only one that reasoning models accept.
    MaxCompletionTokens,
}

const fn own(kind: &'static str) -> Provider {
    Provider {
        kind,
        api: Api::Chat,
        key_header: KeyHeader::Bearer,
        key_variable: None,
        reasoning: Reasoning::Effort,
        output_limit: OutputLimit::MaxTokens,
    }
}

const fn hosted(kind: &'static str, key_variable: &'static str) -> Provider {
    Provider { key_variable: Some(key_variable), ..own(kind) }
}

#[rustfmt::skip] // a table with one type per line
pub(crate) static PROVIDERS: &[Provider] = &[
    Provider { api: Api::Responses, output_limit: OutputLimit::MaxCompletionTokens, ..hosted("openai", "OPENAI_API_KEY") },
    Provider { api: Api::Messages, key_header: KeyHeader::Named("x-api-key"), ..hosted("claude", "ANTHROPIC_API_KEY") },
    Provider { api: Api::Gemini, key_header: KeyHeader::Named("x-goog-api-key"), ..hosted("gemini", "GEMINI_API_KEY") },
    Provider { api: Api::AzureChat, key_header: KeyHeader::Named("api-key"), output_limit: OutputLimit::MaxCompletionTokens, ..hosted("azure_openai", "AZURE_OPENAI_API_KEY") },
    own("chatcompletion"),
    hosted("grok", "XAI_API_KEY"),
    Provider { reasoning: Reasoning::Object, ..hosted("openrouter", "OPENROUTER_API_KEY") },
    hosted("groq", "GROQ_API_KEY"),
    hosted("together", "TOGETHER_API_KEY"),
    hosted("fireworks", "FIREWORKS_API_KEY"),
    hosted("cerebras", "CEREBRAS_API_KEY"),
    hosted("moonshot", "MOONSHOT_API_KEY"),
    hosted("nebius", "NEBIUS_API_KEY"),
    hosted("nvidia_nim", "NGC_API_KEY"),
    hosted("poe", "POE_API_KEY"),
    hosted("qwen", "QWEN_API_KEY"),
    hosted("zai", "ZAI_API_KEY"),
    own("ollama"),
    own("lmstudio"),
    own("vllm"),
    own("sglang"),
    own("inference"),
];

pub(crate) fn provider(kind: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.kind == kind)
}

impl Provider {
    /// `claude`, `gemini` and `azure_openai` always use their default API. For the others: the `api` parameter, else
    /// the end of the URL, else Responses for `grok` with a search, else the default.
    pub(crate) fn api_for(&self, config: &BackendConfig) -> Result<Api, BuildError> {
        if !matches!(self.api, Api::Chat | Api::Responses) {
            return Ok(self.api);
        }
        let param = config.params.get("api").filter(|value| !value.is_null());
        let path = config.base_url.as_deref().map(|url| url.trim().trim_end_matches('/')).unwrap_or_default();
        match param.map(|value| value.as_str().unwrap_or_default()) {
            Some("chat") => Ok(Api::Chat),
            Some("responses") => Ok(Api::Responses),
            Some(_) => Err(BuildError::BadParam { name: "api", expected: "`chat` or `responses`" }),
            None if path.ends_with("/chat/completions") => Ok(Api::Chat),
            None if path.ends_with("/responses") => Ok(Api::Responses),
            // xAI supports web search only through the Responses API.
            None if self.kind == "grok"
                && ["enable_web_search", "enable_x_search"]
                    .iter()
                    .any(|key| config.params.get(*key).is_some_and(|value| value == true)) =>
            {
                Ok(Api::Responses)
            }
            None => Ok(self.api),
        }
    }
}
