//! The table of backend types (providers): how each is reached, its default model, and which variables hold its API
//! key. The supported CLI agents are added from the protocol's table of agent kinds.

use althing_protocol::{AGENT_KINDS, AgentKind};
use std::ops::Deref;
use std::sync::LazyLock;

/// How a backend type is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendApi {
    /// The built-in offline model, which is not an AI.
    Offline,
    /// The OpenAI-compatible chat-completions API.
    ChatCompletions,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
    /// Chat completions at the addresses of Azure.
    Azure,
    /// An API that MassGen supports and Althing does not support yet.
    OtherApi,
    /// A CLI agent on this machine.
    Program,
}

/// A row of the table of backend types.
#[derive(Clone, Copy, Debug)]
pub struct BackendType {
    /// The value of `backend.type`.
    pub name: &'static str,
    /// The name shown to people.
    pub title: &'static str,
    /// How the backend is reached.
    pub api: BackendApi,
    /// The address if the config names none.
    pub base_url: Option<&'static str>,
    /// The environment variable with the address if the config names none.
    pub url_variable: Option<&'static str>,
    /// The provider's domain: an address on it or on a subdomain is the provider's.
    pub host: Option<&'static str>,
    /// The environment variables that may hold the key, in the order in which they are read.
    pub key_variables: &'static [&'static str],
    /// The model if the config names none. If this is `None`, the config must name one, except for a CLI agent.
    pub default_model: Option<&'static str>,
    /// Set if this is a CLI agent that Althing supports.
    pub agent: Option<&'static AgentKind>,
}

const fn basic(name: &'static str, title: &'static str, api: BackendApi) -> BackendType {
    BackendType {
        name,
        title,
        api,
        base_url: None,
        url_variable: None,
        host: None,
        key_variables: &[],
        default_model: None,
        agent: None,
    }
}

const fn compatible(
    name: &'static str,
    title: &'static str,
    base_url: &'static str,
    host: &'static str,
    key_variables: &'static [&'static str],
    default_model: Option<&'static str>,
) -> BackendType {
    let base_url = Some(base_url);
    let host = Some(host);
    BackendType {
        base_url,
        host,
        key_variables,
        default_model,
        ..basic(name, title, BackendApi::ChatCompletions)
    }
}

const fn local(name: &'static str, title: &'static str, base_url: &'static str) -> BackendType {
    BackendType { base_url: Some(base_url), ..basic(name, title, BackendApi::ChatCompletions) }
}

const fn unsupported(
    name: &'static str,
    title: &'static str,
    api: BackendApi,
    key_variables: &'static [&'static str],
) -> BackendType {
    BackendType { key_variables, ..basic(name, title, api) }
}

#[rustfmt::skip] // a table: one type a line
static BUILT_IN_TYPES: &[BackendType] = &[
    BackendType { default_model: Some("offline"), ..basic("offline", "Offline model (not an AI)", BackendApi::Offline) },
    BackendType { api: BackendApi::Responses, ..compatible("openai", "OpenAI", "https://api.openai.com/v1", "openai.com", &["OPENAI_API_KEY"], Some("gpt-5.4")) },
    BackendType { api: BackendApi::Anthropic, ..compatible("claude", "Anthropic", "https://api.anthropic.com/v1", "anthropic.com", &["ANTHROPIC_API_KEY"], Some("claude-opus-4-6")) },
    // All of googleapis.com would be too much: anyone can have a storage bucket there.
    BackendType { api: BackendApi::Gemini, ..compatible("gemini", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta", "generativelanguage.googleapis.com", &["GEMINI_API_KEY", "GOOGLE_API_KEY"], Some("gemini-3-flash-preview")) },
    // There is no `host`, because anyone can get a host name at Azure.
    BackendType { url_variable: Some("AZURE_OPENAI_ENDPOINT"), key_variables: &["AZURE_OPENAI_API_KEY"], default_model: Some("gpt-4o"), ..basic("azure_openai", "Azure OpenAI", BackendApi::Azure) },
    local("chatcompletion", "OpenAI-compatible API", "https://api.openai.com/v1"),
    compatible("grok", "xAI", "https://api.x.ai/v1", "x.ai", &["XAI_API_KEY"], Some("grok-4.20-0309-reasoning")),
    compatible("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", "openrouter.ai", &["OPENROUTER_API_KEY"], None),
    compatible("groq", "Groq", "https://api.groq.com/openai/v1", "groq.com", &["GROQ_API_KEY"], Some("llama-3.3-70b-versatile")),
    compatible("cerebras", "Cerebras", "https://api.cerebras.ai/v1", "cerebras.ai", &["CEREBRAS_API_KEY"], Some("llama-3.3-70b")),
    compatible("together", "Together AI", "https://api.together.xyz/v1", "together.xyz", &["TOGETHER_API_KEY"], Some("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8")),
    compatible("fireworks", "Fireworks AI", "https://api.fireworks.ai/inference/v1", "fireworks.ai", &["FIREWORKS_API_KEY"], Some("accounts/fireworks/models/llama-v3p3-70b-instruct")),
    compatible("moonshot", "Moonshot AI", "https://api.moonshot.cn/v1", "moonshot.cn", &["MOONSHOT_API_KEY", "KIMI_API_KEY"], Some("moonshot-v1-128k")),
    compatible("nvidia_nim", "NVIDIA NIM", "https://integrate.api.nvidia.com/v1", "nvidia.com", &["NGC_API_KEY"], Some("moonshotai/kimi-k2.5")),
    compatible("nebius", "Nebius", "https://api.studio.nebius.ai/v1", "nebius.ai", &["NEBIUS_API_KEY"], Some("Qwen/Qwen3-4B-fast")),
    compatible("poe", "Poe", "https://api.poe.com/v1", "poe.com", &["POE_API_KEY"], None),
    compatible("qwen", "Qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope-intl.aliyuncs.com", &["QWEN_API_KEY"], Some("qwen-max")),
    compatible("zai", "Z.AI", "https://api.z.ai/api/paas/v4", "z.ai", &["ZAI_API_KEY"], Some("glm-4.5")),
    local("ollama", "Ollama", "http://localhost:11434/v1"),
    local("lmstudio", "LM Studio", "http://localhost:1234/v1"),
    local("vllm", "vLLM", "http://localhost:8000/v1"),
    local("sglang", "SGLang", "http://localhost:30000/v1"),
    local("inference", "vLLM or SGLang", "http://localhost:8000/v1"),
    unsupported("ag2", "AG2", BackendApi::OtherApi, &[]),
    unsupported("uitars", "UI-TARS", BackendApi::OtherApi, &["UI_TARS_API_KEY"]),
    unsupported("antigravity_cli", "Antigravity CLI", BackendApi::Program, &[]),
    unsupported("copilot", "GitHub Copilot", BackendApi::Program, &[]),
];

/// All backend types, including those that Althing does not support.
#[derive(Clone, Debug)]
pub struct BackendTypes {
    all: Vec<BackendType>,
    kinds: &'static [AgentKind],
}

/// The backend types of this release.
pub static BACKENDS: LazyLock<BackendTypes> = LazyLock::new(|| BackendTypes::with_agents(AGENT_KINDS));

impl BackendTypes {
    /// The built-in types, and the CLI agents `kinds`.
    pub fn with_agents(kinds: &'static [AgentKind]) -> Self {
        let agent = |row: &'static AgentKind| BackendType {
            agent: Some(row),
            ..basic(row.kind, row.title, BackendApi::Program)
        };
        let (unsupported, known): (Vec<BackendType>, Vec<BackendType>) =
            BUILT_IN_TYPES.iter().partition(|backend| backend.api == BackendApi::Program);
        Self { all: known.into_iter().chain(kinds.iter().map(agent)).chain(unsupported).collect(), kinds }
    }

    /// The supported CLI agents.
    pub fn kinds(&self) -> &'static [AgentKind] {
        self.kinds
    }

    /// The type called `name`.
    pub fn named(&self, name: &str) -> Option<&BackendType> {
        self.iter().find(|backend| backend.name == name)
    }

    pub(crate) fn nearest(&self, name: &str) -> Option<&'static str> {
        althing_text::nearest(name, self.iter().map(|backend| backend.name))
    }
}

impl Deref for BackendTypes {
    type Target = [BackendType];

    fn deref(&self) -> &[BackendType] {
        &self.all
    }
}

const OTHER_HOSTS: &[(&str, &str)] = &[
    ("moonshot.ai", "moonshot"),
    ("bigmodel.cn", "zai"),
    ("nebius.com", "nebius"),
    ("together.ai", "together"),
];

impl BackendType {
    pub(crate) fn starter_model(&self) -> &'static str {
        // Newer than MassGen's default models, which a config without a model gets.
        match self.name {
            "openai" => "gpt-6-sol",
            "claude" => "claude-sonnet-5-5",
            "gemini" => "gemini-3.5-flash",
            "openrouter" => "openai/gpt-6-luna",
            // A provider without a default model resells many models.
            _ => self.default_model.unwrap_or("gpt-6-luna"),
        }
    }

    /// The name of the adapter, if this is a CLI agent that Althing supports.
    pub fn adapter(&self) -> Option<&'static str> {
        self.agent.map(|agent| agent.adapter)
    }

    /// Whether the default address is on this machine.
    pub fn is_local(&self) -> bool {
        self.base_url.is_some_and(is_loopback)
    }

    /// Whether Althing supports this backend type.
    pub fn is_supported(&self) -> bool {
        match self.api {
            BackendApi::OtherApi => false,
            BackendApi::Program => self.agent.is_some(),
            BackendApi::Offline
            | BackendApi::ChatCompletions
            | BackendApi::Responses
            | BackendApi::Anthropic
            | BackendApi::Gemini
            | BackendApi::Azure => true,
        }
    }
}

/// The backend type called `name`, in this release.
pub fn backend_type(name: &str) -> Option<&'static BackendType> {
    BACKENDS.named(name)
}

/// `api.openai.com` is OpenAI; `openai.com.evil.test` is no provider.
pub(crate) fn provider_at(url: &str) -> Option<&'static BackendType> {
    let host = host_of(url)?.to_ascii_lowercase();
    let matches_host =
        |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|front| front.ends_with('.'));
    let by_own_host = BUILT_IN_TYPES.iter().find(|backend| backend.host.is_some_and(matches_host));
    by_own_host.or_else(|| {
        OTHER_HOSTS.iter().find(|(domain, _)| matches_host(domain)).and_then(|(_, name)| backend_type(name))
    })
}

/// Whether an address is on this machine.
pub fn is_loopback(url: &str) -> bool {
    host_of(url).is_some_and(|host| {
        host == "localhost" || host.ends_with(".localhost") || host == "[::1]" || {
            host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        }
    })
}

pub(crate) fn host_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host_and_port = authority.rsplit('@').next()?;
    let host = match host_and_port.strip_prefix('[') {
        Some(v6) => host_and_port.get(..v6.find(']')? + 2)?,
        None => host_and_port.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}
