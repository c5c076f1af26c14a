//! The backend types that speak the chat-completions wire, and the little in which they differ.
//!
//! Addresses, keys and default models are `config`'s to know; the variable names here are only for advice. Where a
//! provider refuses one of our fields the wire learns it from the refusal, so this table stays short.

/// One type that speaks this wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Provider {
    /// The config's `backend.type`.
    pub(crate) kind: &'static str,
    /// The variable that usually holds the key; none where servers are usually the user's own.
    pub(crate) key_variable: Option<&'static str>,
    /// How `reasoning: {effort: …}` is said.
    pub(crate) reasoning: Reasoning,
    /// How the output limit is called.
    pub(crate) output_limit: OutputLimit,
}

/// How a provider is told to reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reasoning {
    /// `reasoning_effort: "low"`.
    Effort,
    /// `reasoning: {"effort": "low", …}`, as the config has it.
    Object,
}

/// What a provider calls the limit on output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputLimit {
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`: reasoning counts too, and reasoning models take nothing else.
    MaxCompletionTokens,
}

const fn hosted(kind: &'static str, key_variable: &'static str) -> Provider {
    Provider {
        kind,
        key_variable: Some(key_variable),
        reasoning: Reasoning::Effort,
        output_limit: OutputLimit::MaxTokens,
    }
}

const fn own(kind: &'static str) -> Provider {
    Provider { kind, key_variable: None, reasoning: Reasoning::Effort, output_limit: OutputLimit::MaxTokens }
}

/// Every type of this wire.
pub(crate) static PROVIDERS: &[Provider] = &[
    Provider { output_limit: OutputLimit::MaxCompletionTokens, ..hosted("openai", "OPENAI_API_KEY") },
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
    own("lmstudio"),
    own("vllm"),
    own("sglang"),
    own("inference"),
];

/// The type called `kind`.
pub(crate) fn provider(kind: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.kind == kind)
}
