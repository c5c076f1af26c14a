//! The table of backend types: what each is, where it is reached, and which variable holds its key.
//!
//! Facts only, and the only copy of them; those of CLI agents are the protocol's table of agent kinds. A key is never sent to an address that it was not made for: an address of
//! the user's own gets a key only if the backend's type or its `api_key` says which.

use althing_protocol::{AGENT_KINDS, AgentKind};
use std::ops::Deref;
use std::sync::LazyLock;

/// How a backend type is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The built-in model that is not an AI.
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
    /// A type that MassGen knows and Althing does not yet: an API of another kind.
    OtherApi,
    /// A program on this machine.
    Program,
}

/// One backend type.
#[derive(Clone, Copy, Debug)]
pub struct BackendType {
    /// The word for `backend.type`.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// How it is reached.
    pub reach: Reach,
    /// Address of its API where the config names none.
    pub base_url: Option<&'static str>,
    /// Variable that may hold the address where the config names none.
    pub url_variable: Option<&'static str>,
    /// Part of a host name that tells the provider by its address, for `chatcompletion`.
    pub host: Option<&'static str>,
    /// Variables that may hold its key, in order; empty when it needs none.
    pub key_variables: &'static [&'static str],
    /// The model where the config names none; `None` means that it must.
    pub default_model: Option<&'static str>,
    /// The CLI agent that it is, if Althing drives it.
    pub agent: Option<&'static AgentKind>,
}

/// A type about which nothing else is known.
const fn bare(name: &'static str, title: &'static str, reach: Reach) -> BackendType {
    BackendType {
        name,
        title,
        reach,
        base_url: None,
        url_variable: None,
        host: None,
        key_variables: &[],
        default_model: None,
        agent: None,
    }
}

/// An OpenAI-compatible provider.
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
    BackendType { base_url, host, key_variables, default_model, ..bare(name, title, Reach::ChatCompletions) }
}

/// An OpenAI-compatible server that needs no key by itself: one on this machine, usually.
const fn local(name: &'static str, title: &'static str, base_url: &'static str) -> BackendType {
    BackendType { base_url: Some(base_url), ..bare(name, title, Reach::ChatCompletions) }
}

/// A type that Althing does not have yet.
const fn lacking(
    name: &'static str,
    title: &'static str,
    reach: Reach,
    key_variables: &'static [&'static str],
) -> BackendType {
    BackendType { key_variables, ..bare(name, title, reach) }
}

/// Every backend type that is no CLI agent of Althing's.
#[rustfmt::skip] // a table: one type a line
static OTHERS: &[BackendType] = &[
    BackendType { default_model: Some("offline"), ..bare("offline", "Offline model (not an AI)", Reach::Offline) },
    BackendType { reach: Reach::Responses, ..compatible("openai", "OpenAI", "https://api.openai.com/v1", "openai.com", &["OPENAI_API_KEY"], Some("gpt-5.4")) },
    BackendType { reach: Reach::Anthropic, ..compatible("claude", "Anthropic", "https://api.anthropic.com/v1", "anthropic.com", &["ANTHROPIC_API_KEY"], Some("claude-opus-4-6")) },
    // Not all of googleapis.com: anyone may have a bucket there.
    BackendType { reach: Reach::Gemini, ..compatible("gemini", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta", "generativelanguage.googleapis.com", &["GEMINI_API_KEY", "GOOGLE_API_KEY"], Some("gemini-3-flash-preview")) },
    // No host: anyone may have one at Azure, so an address that a config names is always its own choice.
    BackendType { url_variable: Some("AZURE_OPENAI_ENDPOINT"), key_variables: &["AZURE_OPENAI_API_KEY"], default_model: Some("gpt-4o"), ..bare("azure_openai", "Azure OpenAI", Reach::Azure) },
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
    compatible("qwen", "Qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "aliyuncs.com", &["QWEN_API_KEY"], Some("qwen-max")),
    compatible("zai", "Z.AI", "https://api.z.ai/api/paas/v4", "z.ai", &["ZAI_API_KEY"], Some("glm-4.5")),
    local("ollama", "Ollama", "http://localhost:11434/v1"),
    local("lmstudio", "LM Studio", "http://localhost:1234/v1"),
    local("vllm", "vLLM", "http://localhost:8000/v1"),
    local("sglang", "SGLang", "http://localhost:30000/v1"),
    local("inference", "vLLM or SGLang", "http://localhost:8000/v1"),
    lacking("ag2", "AG2", Reach::OtherApi, &[]),
    lacking("uitars", "UI-TARS", Reach::OtherApi, &["UI_TARS_API_KEY"]),
    lacking("antigravity_cli", "Antigravity CLI", Reach::Program, &[]),
    lacking("copilot", "GitHub Copilot", Reach::Program, &[]),
];

/// The backend types that a config may name.
#[derive(Clone, Debug)]
pub struct Backends {
    all: Vec<BackendType>,
    kinds: &'static [AgentKind],
}

/// The backend types of this release.
pub static BACKENDS: LazyLock<Backends> = LazyLock::new(|| Backends::with_agents(AGENT_KINDS));

impl Backends {
    /// Every provider, and these CLI agents.
    pub fn with_agents(kinds: &'static [AgentKind]) -> Self {
        let agent = |row: &'static AgentKind| BackendType {
            agent: Some(row),
            ..bare(row.kind, row.title, Reach::Program)
        };
        let (lacking, known): (Vec<BackendType>, Vec<BackendType>) =
            OTHERS.iter().partition(|backend| backend.reach == Reach::Program);
        Self { all: known.into_iter().chain(kinds.iter().map(agent)).chain(lacking).collect(), kinds }
    }

    /// The CLI agents among them.
    pub fn kinds(&self) -> &'static [AgentKind] {
        self.kinds
    }

    /// The type called `name`.
    pub fn named(&self, name: &str) -> Option<&BackendType> {
        self.iter().find(|backend| backend.name == name)
    }

    /// The type whose name is nearest to a wrong one.
    pub(crate) fn nearest(&self, name: &str) -> Option<&'static str> {
        althing_text::nearest(name, self.iter().map(|backend| backend.name))
    }
}

impl Deref for Backends {
    type Target = [BackendType];

    fn deref(&self) -> &[BackendType] {
        &self.all
    }
}

/// Hosts that belong to a provider under another name than its own API's.
const ALSO: &[(&str, &str)] = &[
    ("moonshot.ai", "moonshot"),
    ("bigmodel.cn", "zai"),
    ("nebius.com", "nebius"),
    ("together.ai", "together"),
];

impl BackendType {
    /// A model to begin with, for a config that is written without asking.
    pub(crate) fn first_model(&self) -> &'static str {
        // A config that names no model gets MassGen's; a new one begins with what its provider will not soon shut down.
        match self.name {
            "openai" => "gpt-6-sol",
            "claude" => "claude-sonnet-5-5",
            "gemini" => "gemini-3.5-flash",
            "openrouter" => "openai/gpt-6-luna",
            // Providers without a default of their own are those that resell many models.
            _ => self.default_model.unwrap_or("gpt-6-luna"),
        }
    }

    /// The adapter that drives it, for a program that Althing can drive.
    pub fn adapter(&self) -> Option<&'static str> {
        self.agent.map(|agent| agent.adapter)
    }

    /// Whether it is a server that is looked for on this machine.
    pub fn is_local(&self) -> bool {
        self.base_url.is_some_and(is_loopback)
    }

    /// Whether Althing can run it.
    pub fn is_supported(&self) -> bool {
        match self.reach {
            Reach::OtherApi => false,
            Reach::Program => self.agent.is_some(),
            Reach::Offline
            | Reach::ChatCompletions
            | Reach::Responses
            | Reach::Anthropic
            | Reach::Gemini
            | Reach::Azure => true,
        }
    }
}

/// The type called `name`.
pub fn backend_type(name: &str) -> Option<&'static BackendType> {
    BACKENDS.named(name)
}

/// The provider at an address, told by its host. The whole end of the host must fit: `openai.com.evil.test` is
/// nobody's, and gets nobody's key.
pub(crate) fn provider_at(url: &str) -> Option<&'static BackendType> {
    let host = host_of(url)?.to_ascii_lowercase();
    let fits =
        |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|front| front.ends_with('.'));
    let by_own_host = OTHERS.iter().find(|backend| backend.host.is_some_and(fits));
    by_own_host
        .or_else(|| ALSO.iter().find(|(domain, _)| fits(domain)).and_then(|(_, name)| backend_type(name)))
}

/// Whether an address stays on this machine.
pub(crate) fn is_loopback(url: &str) -> bool {
    host_of(url).is_some_and(|host| {
        host == "localhost" || host.ends_with(".localhost") || host == "[::1]" || {
            host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        }
    })
}

/// The host of an `http` or `https` address, without user and port.
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
