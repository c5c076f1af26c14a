//! What a backend needs: a model, an address, a key; and that a key is never sent to a wrong address.

use althing_config::{BACKENDS, ConfigReport, LoadPurpose, Severity, Source, load_config};
use althing_protocol::BackendConfig;

use super::support::{backend, checked, env, messages};

fn run(flow: &str, variables: &[(&str, &str)]) -> ConfigReport {
    load_config(Source { name: "team.yaml", text: &backend(flow) }, &env(variables), LoadPurpose::Run)
}

fn resolved(flow: &str, variables: &[(&str, &str)]) -> BackendConfig {
    let report = run(flow, variables);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    report.config.expect("settings").config.agents[0].backend.clone()
}

fn key(flow: &str, variables: &[(&str, &str)]) -> Option<String> {
    resolved(flow, variables).api_key.map(|key| key.reveal().to_owned())
}

#[test]
fn every_supported_type_gets_its_address_and_the_key_of_its_variable() {
    for kind in BACKENDS.iter().filter(|kind| kind.is_supported() && kind.base_url.is_some()) {
        let variables: Vec<(&str, &str)> =
            kind.key_variables.first().map(|name| (*name, "the-key")).into_iter().collect();
        let variables =
            if kind.name == "chatcompletion" { vec![("OPENAI_API_KEY", "the-key")] } else { variables };
        let backend = resolved(&format!("{{type: {}, model: m}}", kind.name), &variables);
        assert_eq!(backend.base_url.as_deref(), kind.base_url, "{}", kind.name);
        assert_eq!(backend.api_key.is_some(), !variables.is_empty(), "{}", kind.name);
    }
}

#[test]
fn a_missing_key_is_a_warning_for_the_file_and_an_error_for_a_run() {
    let text = backend("{type: groq, model: m}");
    let judged = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Check);
    assert_eq!((judged.errors.len(), judged.warnings.len()), (0, 1));
    let report = run("{type: groq, model: m}", &[("GROQ_API_KEY", " ")]);
    assert_eq!(report.errors[0].message, "no API key for Groq: `GROQ_API_KEY` is not set");
    assert_eq!(
        (report.errors[0].location.as_str(), report.errors[0].line, report.errors[0].column),
        ("agents[0].backend", 3, 21)
    );
}

#[test]
fn the_backends_own_key_takes_precedence_over_the_environment() {
    let variables = [("OPENAI_API_KEY", "from-env"), ("MINE", "from-mine")];
    assert_eq!(key("{type: openai}", &variables).as_deref(), Some("from-env"));
    assert_eq!(key("{type: openai, api_key: '${MINE}'}", &variables).as_deref(), Some("from-mine"));
    assert_eq!(key("{type: moonshot}", &[("KIMI_API_KEY", "kimi")]).as_deref(), Some("kimi"));
}

#[test]
fn the_generic_type_uses_only_the_key_of_the_provider_at_its_address() {
    let variables = [
        ("OPENAI_API_KEY", "openai"),
        ("CEREBRAS_API_KEY", "cerebras"),
        ("ZAI_API_KEY", "zai"),
        ("XAI_API_KEY", "xai"),
    ];
    let at = |url: &str| key(&format!("{{type: chatcompletion, model: m, base_url: '{url}'}}"), &variables);
    assert_eq!(at("https://api.cerebras.ai/v1").as_deref(), Some("cerebras"));
    assert_eq!(at("https://api.z.ai/api/paas/v4/").as_deref(), Some("zai"));
    assert_eq!(at("https://open.bigmodel.cn/api").as_deref(), Some("zai"));
    assert_eq!(key("{type: chatcompletion, model: m}", &variables).as_deref(), Some("openai"));
    for stranger in [
        "https://example.test/v1",
        "https://api.openai.com.example.test/v1",
        "https://notopenai.com/v1",
        "https://api.openai.com@example.test/v1",
        "https://example.test/api.openai.com",
        "https://example.test\\@api.openai.com/",
        "http://127.0.0.1:8080/v1",
    ] {
        assert_eq!(at(stranger), None, "{stranger}");
    }
}

#[test]
fn a_custom_server_may_need_no_key() {
    assert!(run("{type: openai, base_url: 'http://127.0.0.1:1/v1'}", &[]).warnings.is_empty());
    let proxy = run("{type: openai, base_url: 'https://proxy.example.test/v1'}", &[]);
    assert_eq!((proxy.errors.len(), proxy.warnings.len()), (0, 1));
    assert_eq!(proxy.warnings[0].severity, Severity::Warning);
}

#[test]
fn an_unencrypted_address_for_a_key_is_a_warning() {
    let report =
        run("{type: openai, base_url: 'http://proxy.example.test/v1', api_key: '${K}'}", &[("K", "k")]);
    assert_eq!(report.warnings[0].message, "the key would be sent over the network unencrypted");
}

#[test]
fn an_address_must_be_a_url() {
    for wrong in ["example.test/v1", "ftp://example.test", "https://", "https://a b"] {
        let report = run(&format!("{{type: vllm, model: m, base_url: '{wrong}'}}"), &[]);
        assert_eq!(report.errors[0].location, "agents[0].backend.base_url", "{wrong}");
    }
}

#[test]
fn a_model_is_needed_where_the_provider_has_no_default() {
    for kind in ["chatcompletion", "lmstudio", "vllm", "sglang", "inference", "openrouter", "poe"] {
        let report = run(&format!("{{type: {kind}, api_key: '${{K:-key}}'}}"), &[]);
        assert_eq!(report.errors[0].message, format!("a backend of type `{kind}` needs `model`"));
    }
    assert!(resolved("{type: openai}", &[("OPENAI_API_KEY", "k")]).model.is_some());
}

#[test]
fn only_parameters_are_passed_on_as_written() {
    let flow = "{type: openai, model: m, api_key: '${K}', temperature: 0.5, reasoning: {effort: low}, text: {verbosity: high}, \
        stop: [a, b], extra_body: {x: {y: [1, true, null]}}, cwd: here, default_headers: {X-A: 1a, X-B: b}, extra_headers: {x-a: 2a}, request_timeout_seconds: 30, max_retries: '${TRIES}', store: no}";
    let backend = resolved(flow, &[("K", "k"), ("TRIES", "2")]);
    assert_eq!(
        serde_json::Value::from(backend.params),
        serde_json::json!({
            "temperature": 0.5, "reasoning": {"effort": "low"}, "text": {"verbosity": "high"}, "stop": ["a", "b"],
            "extra_body": {"x": {"y": [1, true, null]}}, "request_timeout_seconds": 30,
            "max_retries": 2, "store": false
        })
    );
    let headers: Vec<_> =
        backend.headers.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
    assert_eq!(headers, [("X-B", "b"), ("x-a", "2a")]);
}

#[test]
fn a_missing_api_key_is_reported_once_for_all_agents() {
    let agents = ["a", "b", "c"].map(|id| format!("  - {{id: {id}, backend: {{type: openai}}}}\n")).concat();
    let text = format!("agents:\n{agents}");
    let report = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Run);
    assert_eq!(report.errors.len(), 1);
}

#[test]
fn blank_models_are_missing_and_blanks_around_keys_are_removed() {
    assert_eq!(
        run("{type: openai, model: ' ', api_key: '${K:-k}'}", &[]).errors[0].location,
        "agents[0].backend.model"
    );
    assert_eq!(key("{type: openai, api_key: ''}", &[("OPENAI_API_KEY", " k\n")]).as_deref(), Some("k"));
    assert_eq!(
        key("{type: moonshot}", &[("MOONSHOT_API_KEY", ""), ("KIMI_API_KEY", "kimi")]).as_deref(),
        Some("kimi")
    );
}

#[test]
fn a_header_that_http_does_not_allow_is_an_error() {
    for headers in ["{'a b': c}", "{'': c}", "{a: \"b\\nc\"}", "{'a:': c}"] {
        let report = run(&format!("{{type: vllm, model: m, extra_headers: {headers}}}"), &[]);
        assert_eq!(report.errors[0].message, "HTTP does not allow this header", "{headers}");
    }
}

#[test]
fn a_check_suggests_winner_reuse_for_a_team_of_small_local_models() {
    let suggestions = |agents: &[&str], more: &str| {
        let agents = (0..).zip(agents).map(|(n, flow)| format!("  - {{id: a{n}, backend: {flow}}}\n"));
        let text = format!("agents:\n{}{more}", agents.collect::<String>());
        let found = messages(&checked(&text));
        assert!(found.iter().all(|message| message.contains("winner_reuse")), "{found:#?}");
        found
    };
    let (qwen, smol) =
        ("{type: ollama, model: 'qwen2.5-coder:1.5b'}", "{type: lmstudio, model: smollm2-135m}");
    assert_eq!(
        suggestions(&[qwen, smol], ""),
        [
            "Warning 2:45 orchestrator.final_answer_strategy | all agents are small models; rewriting the winner's \
          answer may spoil it | add `final_answer_strategy: winner_reuse` to `orchestrator`: the winner's answer is \
          used unchanged"
        ]
    );
    assert_eq!(suggestions(&[qwen], "").len(), 1, "one agent presents, too");
    let server =
        "{type: chatcompletion, base_url: 'http://127.0.0.1:8080/v1', model: Qwen2.5-Coder-1.5B-Instruct}";
    assert_eq!(suggestions(&[server, qwen], "").len(), 1);
    let large = "{type: ollama, model: 'llama3.1:8b'}";
    let elsewhere = "{type: chatcompletion, base_url: 'https://models.example/v1', model: tiny-1b}";
    for team in [&[qwen, large][..], &[large], &[elsewhere], &["{type: offline}", qwen]] {
        assert!(suggestions(team, "").is_empty(), "{team:?}");
    }
    for chosen in [
        "final_answer_strategy: winner_present",
        "final_answer_strategy: winner_reuse",
        "skip_final_presentation: true",
    ] {
        assert!(suggestions(&[qwen], &format!("orchestrator: {{{chosen}}}\n")).is_empty(), "{chosen}");
    }
    let run = run(qwen, &[]);
    assert!(run.warnings.is_empty(), "a run does not repeat it: {:?}", run.warnings);
}
