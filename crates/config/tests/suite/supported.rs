//! Supported keys and backend types load without a warning and reach the settings.

use althing_config::{BACKENDS, LoadPurpose, Source, load_config, schema};
use althing_protocol::AGENT_KINDS;

use super::support::{backend, checked, env, loaded, messages, with};

const OF_BACKEND: &[&str] = &[
    "cwd: work",
    "context_paths: [docs]",
    "mcp_servers: [{name: a, command: b}]",
    "enable_mcp_command_line: true",
    "allowed_tools: [read_file]",
    "exclude_tools: [search]",
    "exclude_file_operation_mcps: true",
    "enable_web_search: true",
    "enable_x_search: true",
    "enable_code_interpreter: true",
    "enable_code_execution: true",
    "search_context_size: low",
    "max_output_tokens: 100",
    "api: chat",
    "api_version: v1",
    "betas: [one]",
    "max_concurrent_requests: 2",
    "requests_per_minute: 30",
    "engine: exa",
    "max_results: 3",
    "search_prompt: x",
];

const OF_COORDINATION: &[&str] = &[
    "enable_planning_mode: true",
    "planning_mode_instruction: x",
    "enable_agent_task_planning: true",
    "max_tasks_per_plan: 3",
    "task_planning_filesystem_mode: true",
    "enable_memory_filesystem_mode: true",
    "use_skills: true",
    "skills_directory: x",
    "enable_subagents: true",
    "subagent_default_timeout: 100",
    "subagent_min_timeout: 10",
    "subagent_max_timeout: 1000",
    "subagent_max_concurrent: 2",
    "background_subagents: {enabled: true}",
];

#[test]
fn a_supported_key_gives_no_warning() {
    for key in OF_BACKEND {
        loaded(&backend(&format!("{{type: offline, {key}}}")));
    }
    for key in OF_COORDINATION {
        loaded(&with(&format!("orchestrator: {{coordination: {{{key}}}}}\n")));
    }
    loaded(&backend("{type: offline, enable_mcp_command_line: true, command_line_allowed_commands: [ls]}"));
    for more in [
        "orchestrator: {project_instructions: true}",
        "orchestrator: {context_paths: [docs]}",
        "orchestrator: {max_orchestration_restarts: 1}",
        "orchestrator: {coordination: {max_orchestration_restarts: 1}}",
        "ui: {display_type: simple}",
        "ui: {display_type: rich_terminal}",
    ] {
        loaded(&with(&format!("{more}\n")));
    }
}

#[test]
fn tools_paths_and_searches_reach_the_settings() {
    let text = backend(
        "{type: openai, cwd: work, enable_mcp_command_line: true, context_paths: [docs], enable_web_search: true, mcp_servers: {a: {command: b}}}",
    );
    let config = checked(&text).config.expect("settings").config;
    assert!(config.agents[0].tools.files && config.agents[0].tools.commands.is_some());
    assert_eq!((config.context_paths.len(), config.agents[0].tools.mcp_servers.len()), (1, 1));
    assert_eq!(config.agents[0].backend.params["enable_web_search"], true);
}

#[test]
fn a_wrong_value_of_a_tool_setting_is_one_error() {
    for flow in [
        "{type: offline, context_paths: ['']}",
        "{type: offline, mcp_servers: [{name: a}]}",
        "{type: offline, command_line_docker_network_mode: brige}",
        "{type: offline, command_line_docker_memory_limit: lots}",
    ] {
        assert_eq!(checked(&backend(flow)).errors.len(), 1, "{flow}");
    }
}

#[test]
fn the_schema_calls_only_unsupported_keys_deprecated() {
    let schema = schema();
    let deprecated = |key: &str| schema["$defs"]["backend"]["properties"][key]["deprecated"].clone();
    assert_eq!(deprecated("cwd"), serde_json::Value::Null);
    assert_eq!(deprecated("output_schema"), true);
}

#[test]
fn every_backend_type_with_its_own_protocol_or_program_is_accepted_for_a_run() {
    let api = ", api_key: '${K:-k}', base_url: 'http://127.0.0.1:1'";
    let models = ["claude", "gemini", "azure_openai", "ollama"].map(|kind| (kind, api));
    // A CLI agent has its own key and address.
    for (kind, api) in models.into_iter().chain(AGENT_KINDS.iter().map(|row| (row.kind, ""))) {
        assert!(BACKENDS.iter().any(|backend| backend.name == kind), "{kind}");
        let text = backend(&format!("{{type: {kind}, model: m{api}}}"));
        let report = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Run);
        assert_eq!(messages(&report), Vec::<String>::new(), "{kind}");
    }
}
