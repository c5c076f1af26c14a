//! Backend types other than chat completions: their addresses, keys and models, and the parameters that are passed to
//! them.

use althing_config::{
    BACKENDS, ConfigReport, DetectedBackends, DetectedProvider, LoadPurpose, Source, backend_type,
    load_config, starter_config,
};
use althing_protocol::{BackendConfig, Secret};

use super::support::{backend, env, messages};

fn run(flow: &str, variables: &[(&str, &str)]) -> ConfigReport {
    let text = backend(flow);
    load_config(Source { name: "team.yaml", text: &text }, &env(variables), LoadPurpose::Run)
}

fn resolved(flow: &str, variables: &[(&str, &str)]) -> BackendConfig {
    let report = run(flow, variables);
    assert_eq!(messages(&report), Vec::<String>::new(), "{flow}");
    report.config.expect("settings").config.agents[0].backend.clone()
}

fn told(backend: &BackendConfig) -> (Option<&str>, Option<&str>, Option<&str>) {
    (backend.base_url.as_deref(), backend.api_key.as_ref().map(Secret::reveal), backend.model.as_deref())
}

#[test]
fn each_type_has_its_address_key_and_model() {
    let claude = resolved("{type: claude}", &[("ANTHROPIC_API_KEY", "k")]);
    assert_eq!(told(&claude), (Some("https://api.anthropic.com/v1"), Some("k"), Some("claude-opus-4-6")));
    let address = Some("https://generativelanguage.googleapis.com/v1beta");
    let gemini = resolved("{type: gemini}", &[("GOOGLE_API_KEY", "google")]);
    assert_eq!(told(&gemini), (address, Some("google"), Some("gemini-3-flash-preview")));
    let gemini = resolved("{type: gemini}", &[("GOOGLE_API_KEY", "google"), ("GEMINI_API_KEY", "gemini")]);
    assert_eq!(told(&gemini).1, Some("gemini"));
    let ollama = resolved("{type: ollama, model: m}", &[]);
    assert_eq!(told(&ollama), (Some("http://localhost:11434/v1"), None, Some("m")));
    assert_eq!(run("{type: ollama}", &[]).errors[0].message, "a backend of type `ollama` needs `model`");
    assert_eq!(
        run("{type: claude}", &[]).errors[0].message,
        "no API key for Anthropic: `ANTHROPIC_API_KEY` is not set"
    );
}

#[test]
fn azure_has_its_address_from_the_backend_or_the_environment() {
    let variables = [
        ("AZURE_OPENAI_API_KEY", "k"),
        ("AZURE_OPENAI_ENDPOINT", " https://env.openai.azure.com/ "),
        ("AZURE_OPENAI_API_VERSION", "2025-01-01"),
    ];
    let azure = resolved("{type: azure_openai, model: d}", &variables);
    assert_eq!(told(&azure), (Some("https://env.openai.azure.com/"), Some("k"), Some("d")));
    assert_eq!(azure.params["api_version"], "2025-01-01");
    let named = resolved(
        "{type: azure_openai, model: d, azure_endpoint: 'https://own.test', api_version: v}",
        &variables,
    );
    assert_eq!(
        (named.base_url.as_deref(), &named.params["api_version"]),
        (Some("https://own.test"), &"v".into())
    );
    assert!(named.params.get("azure_endpoint").is_none());
    let both = "{type: azure_openai, base_url: 'https://base.test', azure_endpoint: 'https://own.test'}";
    assert_eq!(resolved(both, &variables).base_url.as_deref(), Some("https://base.test"));
    let none = run("{type: azure_openai, model: d}", &[("AZURE_OPENAI_API_KEY", "k")]);
    assert_eq!(none.errors[0].message, "no address for Azure OpenAI: `AZURE_OPENAI_ENDPOINT` is not set");
    // Every address at Azure is a custom one.
    let keyless = run("{type: azure_openai, base_url: 'https://x.openai.azure.com'}", &[]);
    assert_eq!(keyless.errors.len(), 1);
    let openai = resolved("{type: openai, azure_endpoint: 'https://own.test'}", &[("OPENAI_API_KEY", "k")]);
    assert_eq!(openai.base_url.as_deref(), Some("https://api.openai.com/v1"));
}

#[test]
fn parameters_of_the_providers_own_tools_are_passed_on() {
    let flow = "{type: openai, enable_web_search: true, enable_code_interpreter: 'yes', enable_code_execution: on, enable_x_search: false, search_context_size: low, \
        reasoning: {effort: high, summary: auto, max_tokens: 5}, text: {verbosity: low, format: {type: text}}, thinking: {type: enabled, budget_tokens: 9}, \
        max_tokens: 10, max_output_tokens: 11, api: chat, betas: [x], max_concurrent_requests: 3, requests_per_minute: 4}"
        .replace("'yes'", "yes");
    let params = resolved(&flow, &[("OPENAI_API_KEY", "k")]).params;
    assert_eq!(
        serde_json::Value::from(params),
        serde_json::json!({
            "enable_web_search": true, "enable_code_interpreter": true, "enable_code_execution": true, "enable_x_search": false,
            "search_context_size": "low", "reasoning": {"effort": "high", "summary": "auto", "max_tokens": 5},
            "text": {"verbosity": "low", "format": {"type": "text"}}, "thinking": {"type": "enabled", "budget_tokens": 9},
            "max_tokens": 10, "max_output_tokens": 11, "api": "chat", "betas": ["x"], "max_concurrent_requests": 3,
            "requests_per_minute": 4
        })
    );
    assert_eq!(
        run("{type: openai, api: chats}", &[("OPENAI_API_KEY", "k")]).errors[0].location,
        "agents[0].backend.api"
    );
}

#[test]
fn a_starter_config_for_any_provider_with_an_address_is_valid() {
    for kind in BACKENDS.iter().filter(|kind| kind.base_url.is_some() && !kind.key_variables.is_empty()) {
        let variable = kind.key_variables[0];
        let text = starter_config(&DetectedBackends {
            providers: vec![DetectedProvider { backend: backend_type(kind.name).expect("a type"), variable }],
            ..DetectedBackends::default()
        });
        let lookup = [(variable, "k")];
        let report = load_config(Source { name: "a.yaml", text: &text }, &env(&lookup), LoadPurpose::Run);
        assert_eq!(messages(&report), Vec::<String>::new(), "{}", kind.name);
    }
}
