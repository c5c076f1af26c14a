//! The starter config that `config init` writes.

use althing_config::{
    BACKENDS, ConfigReport, DetectedBackends, DetectedModel, DetectedServer, LoadPurpose, Source, Style,
    backend_type, detect_cli_agents, detect_providers, load_config, starter_config,
};

use althing_protocol::{AGENT_KINDS, FinalAnswerStrategy, InteractiveConfig, RunRules};

use super::support::env;

fn without_a_word(text: &str, variables: &[(&str, &str)]) -> ConfigReport {
    right(text, load_config(Source { name: "althing.yaml", text }, &env(variables), LoadPurpose::Run))
}

fn right(text: &str, report: ConfigReport) -> ConfigReport {
    assert!(
        report.errors.is_empty() && report.warnings.is_empty(),
        "{text}\n{}",
        report.render(Style::Plain)
    );
    report
}

fn keys(variables: &[(&str, &str)]) -> DetectedBackends {
    DetectedBackends { providers: detect_providers(&env(variables)), ..DetectedBackends::default() }
}

#[test]
fn without_keys_the_starter_has_three_offline_agents() {
    let found = keys(&[("OPENAI_API_KEY", "")]);
    assert!(found.is_empty());
    let report = without_a_word(&starter_config(&found), &[]);
    let config = report.config.expect("settings").config;
    let kinds: Vec<&str> = config.agents.iter().map(|agent| agent.backend.kind.as_str()).collect();
    assert_eq!(kinds, ["offline", "offline", "offline"]);
    // The starter config is also used where there is no config file, so it must mean the defaults.
    assert_eq!(config.rules, RunRules::default());
    assert_eq!(config.interactive, Some(InteractiveConfig::default()));
}

#[test]
fn with_every_key_the_starter_has_one_agent_each_and_contains_no_key() {
    let variables: Vec<(&str, &str)> =
        BACKENDS.iter().filter_map(|backend| Some((*backend.key_variables.first()?, "canary-key"))).collect();
    let found = keys(&variables);
    let text = starter_config(&found);
    assert!(!text.contains("canary"));
    let agents = without_a_word(&text, &variables).config.expect("settings").config.agents;
    assert_eq!(agents.len(), found.len());
    assert!(agents.len() > 10);
    for one in &found.providers {
        without_a_word(
            &starter_config(&DetectedBackends { providers: vec![*one], ..DetectedBackends::default() }),
            &variables,
        );
    }
}

#[test]
fn with_cli_agents_and_ollama_the_starter_has_an_agent_for_each() {
    let models = ["llama3.2:latest", "a\"b: c", "qwen3", "phi4"];
    let models = models.map(|name| DetectedModel { name: name.to_owned(), ..DetectedModel::default() });
    let ollama = |base_url: &str| {
        let base_url = base_url.to_owned();
        vec![DetectedServer { kind: "ollama", title: "Ollama", base_url, models: models.to_vec() }]
    };
    let found = DetectedBackends {
        programs: detect_cli_agents(&|_| true),
        servers: ollama("http://localhost:11434/v1"),
        ..keys(&[("OPENAI_API_KEY", "k")])
    };
    let text = starter_config(&found);
    let lookup = env(&[("OPENAI_API_KEY", "k")]);
    let report = load_config(Source { name: "althing.yaml", text: &text }, &lookup, LoadPurpose::Run);
    let agents = right(&text, report).config.expect("settings").config.agents;
    let told: Vec<(&str, &str, Option<&str>)> = agents
        .iter()
        .map(|agent| (agent.id.as_str(), agent.backend.kind.as_str(), agent.backend.model.as_deref()))
        .collect();
    let mut expected = vec![("openai", "openai", Some("gpt-6-sol"))];
    expected.extend(AGENT_KINDS.iter().map(|row| (row.kind, row.kind, None)));
    expected.extend([
        ("ollama", "ollama", Some("llama3.2:latest")),
        ("ollama-2", "ollama", Some("a\"b: c")),
        ("ollama-3", "ollama", Some("qwen3")),
    ]);
    assert_eq!(told, expected);
    assert_eq!(found.len(), agents.len());
    let programs: Vec<&str> = AGENT_KINDS.iter().map(|row| row.program).collect();
    assert_eq!(
        found.describe(),
        format!(
            "API keys (OPENAI_API_KEY), programs ({}), Ollama (llama3.2:latest, a\"b: c, qwen3)",
            programs.join(", ")
        )
    );
    let elsewhere =
        DetectedBackends { servers: ollama("http://127.0.0.1:9/v1"), ..DetectedBackends::default() };
    let agents = without_a_word(&starter_config(&elsewhere), &[]).config.expect("settings").config.agents;
    assert_eq!(agents[0].backend.base_url.as_deref(), Some("http://127.0.0.1:9/v1"));
}

#[test]
fn a_starter_team_of_small_models_only_uses_the_winners_answer() {
    let strategy = |models: &[&str], variables: &[(&str, &str)]| {
        let named = |name: &&str| DetectedModel { name: (*name).to_owned(), ..DetectedModel::default() };
        let models = models.iter().map(named).collect();
        let base_url = "http://localhost:11434/v1".to_owned();
        let servers = vec![DetectedServer { kind: "ollama", title: "Ollama", base_url, models }];
        let text = starter_config(&DetectedBackends { servers, ..keys(variables) });
        let report =
            load_config(Source { name: "althing.yaml", text: &text }, &env(variables), LoadPurpose::Check);
        right(&text, report).config.expect("settings").config.rules.final_answer_strategy
    };
    let reuse = Some(FinalAnswerStrategy::WinnerReuse);
    assert_eq!(strategy(&["qwen2.5-coder:1.5b", "smollm2:135m"], &[]), reuse);
    assert_eq!(strategy(&["llama3.2:latest"], &[]), reuse);
    assert_eq!(strategy(&["qwen2.5-coder:1.5b", "llama3.1:8b"], &[]), None, "a larger model can present");
    assert_eq!(strategy(&["qwen2.5-coder:1.5b"], &[("OPENAI_API_KEY", "k")]), None);
    assert_eq!(strategy(&[], &[]), None, "the offline model");
}

#[test]
fn only_installed_and_supported_cli_agents_are_detected() {
    assert!(detect_cli_agents(&|_| false).is_empty());
    let found = detect_cli_agents(&|name| name == "codex" || name == "sh");
    let can_run = backend_type("codex").is_some_and(althing_config::BackendType::is_supported);
    assert_eq!(found.len(), usize::from(can_run));
}

#[test]
fn a_small_local_model_gets_three_agents_with_different_approaches_and_its_answer_is_used_unchanged() {
    let model = DetectedModel {
        name: "qwen/coder".into(),
        bytes: Some(1_100_000_000),
        parameters: Some(1_500_000_000),
        is_loaded: true,
    };
    let base_url = "http://localhost:8080/v1".to_owned();
    let server =
        DetectedServer { kind: "chatcompletion", title: "llama-server", base_url, models: vec![model] };
    let found = DetectedBackends { servers: vec![server], memory: Some(1), ..DetectedBackends::default() };
    assert_eq!(found.describe(), "llama-server (qwen/coder 1.1 GB)");
    let text = starter_config(&found);
    let config = without_a_word(&text, &[]).config.expect("settings").config;
    let ids: Vec<&str> = config.agents.iter().map(|agent| agent.id.as_str()).collect();
    assert_eq!(ids, ["llama-server", "llama-server-2", "llama-server-3"]);
    assert!(config.agents.iter().all(|agent| agent.backend.model.as_deref() == Some("qwen/coder")), "{text}");
    assert_eq!(config.agents[0].backend.base_url.as_deref(), Some("http://localhost:8080/v1"));
    assert!(text.contains("\n  final_answer_strategy: winner_reuse\n"), "{text}");
}

#[test]
fn the_name_of_a_detected_model_inserts_no_variable() {
    let name = "x-${AWS_SECRET_ACCESS_KEY}-$${HOME}".to_owned();
    let models = vec![DetectedModel { name: name.clone(), ..DetectedModel::default() }];
    let base_url = "http://localhost:11434/v1".to_owned();
    let servers = vec![DetectedServer { kind: "ollama", title: "Ollama", base_url, models }];
    let text = starter_config(&DetectedBackends { servers, ..DetectedBackends::default() });
    let variables = [("AWS_SECRET_ACCESS_KEY", "secret"), ("HOME", "/home/me")];
    let agents = without_a_word(&text, &variables).config.expect("settings").config.agents;
    assert_eq!(agents[0].backend.model.as_deref(), Some(name.as_str()));
}
