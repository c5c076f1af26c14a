//! Keys and types that wait for machinery: what they are before it is there, and after.

use althing_config::{BACKENDS, Landed, Purpose, Report, Source, check_in, schema_in};
use althing_protocol::HandsConfig;

use super::support::{backend, env, messages, with};

fn both(text: &str) -> (Report, Report) {
    let source = Source { name: "team.yaml", text };
    let read = |landed| check_in(source, &env(&[]), Purpose::Check, landed);
    (read(Landed::NONE), read(Landed::ALL))
}

/// Keys of a backend that wait for something.
const WAITING: &[&str] = &[
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
    "permission_mode: plan",
    "disallowed_tools: [Bash]",
    "append_system_prompt: x",
    "system_prompt: x",
];

/// Keys of `orchestrator.coordination` that wait for something.
const WAITING_TO_COORDINATE: &[&str] = &[
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
fn a_key_gives_one_warning_before_its_machinery_is_there_and_none_after() {
    for key in WAITING {
        let (before, after) = both(&backend(&format!("{{type: offline, {key}}}")));
        assert_eq!(before.warnings.len(), 1, "{key}: {:?}", messages(&before));
        assert!(before.warnings[0].message.contains("is not supported yet and does nothing"), "{key}");
        assert_eq!(messages(&after), Vec::<String>::new(), "{key}");
    }
    for key in WAITING_TO_COORDINATE {
        let (before, after) = both(&with(&format!("orchestrator: {{coordination: {{{key}}}}}\n")));
        assert_eq!(before.warnings.len(), 1, "{key}: {:?}", messages(&before));
        assert_eq!(messages(&after), Vec::<String>::new(), "{key}");
    }
    let commands = "{type: offline, enable_mcp_command_line: true, command_line_allowed_commands: [ls]}";
    let (before, after) = both(&backend(commands));
    assert_eq!((before.warnings.len(), messages(&after)), (2, Vec::new()));
    for more in [
        "orchestrator: {project_instructions: true}",
        "orchestrator: {context_paths: [docs]}",
        "orchestrator: {max_orchestration_restarts: 1}",
        "orchestrator: {coordination: {max_orchestration_restarts: 1}}",
        "ui: {display_type: simple}",
        "ui: {display_type: rich_terminal}",
    ] {
        let (before, after) = both(&with(&format!("{more}\n")));
        assert_eq!(before.warnings.len(), 1, "{more}: {:?}", messages(&before));
        assert_eq!(messages(&after), Vec::<String>::new(), "{more}");
    }
}

#[test]
fn what_is_said_to_do_nothing_does_nothing() {
    let text = backend(
        "{type: openai, cwd: work, enable_mcp_command_line: true, context_paths: [docs], enable_web_search: true, mcp_servers: {a: {command: b}}}",
    );
    let (before, after) = both(&text);
    let before = before.config.expect("settings").config;
    assert_eq!(before.agents[0].hands, HandsConfig::default());
    assert_eq!(before.context_paths, []);
    assert!(before.agents[0].backend.params.is_empty());
    let after = after.config.expect("settings").config;
    assert!(after.agents[0].hands.files && after.agents[0].hands.commands.is_some());
    assert_eq!((after.context_paths.len(), after.agents[0].hands.mcp_servers.len()), (1, 1));
    assert_eq!(after.agents[0].backend.params["enable_web_search"], true);
}

#[test]
fn a_wrong_value_is_an_error_on_both_sides() {
    for flow in [
        "{type: offline, context_paths: ['']}",
        "{type: offline, mcp_servers: [{name: a}]}",
        "{type: offline, command_line_docker_network_mode: brige}",
        "{type: offline, command_line_docker_memory_limit: lots}",
    ] {
        let (before, after) = both(&backend(flow));
        assert_eq!((before.errors.len(), after.errors.len()), (1, 1), "{flow}");
        assert_eq!(before.errors, after.errors);
    }
}

#[test]
fn the_schema_calls_a_key_deprecated_only_before() {
    let cwd = |landed| schema_in(landed)["$defs"]["backend"]["properties"]["cwd"]["deprecated"].clone();
    assert_eq!(cwd(Landed::NONE), true);
    assert_eq!(cwd(Landed::ALL), serde_json::Value::Null);
}

#[test]
fn a_type_that_is_not_spoken_yet_is_refused_for_a_run_and_taken_after() {
    let programs = ["claude_code", "codex", "gemini_cli", "opencode"];
    for kind in ["claude", "gemini", "azure_openai", "ollama"].into_iter().chain(programs) {
        assert!(BACKENDS.iter().any(|backend| backend.name == kind), "{kind}");
        let text = backend(&format!(
            "{{type: {kind}, model: m, api_key: '${{K:-k}}', base_url: 'http://127.0.0.1:1'}}"
        ));
        let run =
            |landed| check_in(Source { name: "team.yaml", text: &text }, &env(&[]), Purpose::Run, landed);
        assert!(run(Landed::NONE).errors[0].message.contains("is not supported yet"), "{kind}");
        assert_eq!(messages(&run(Landed::ALL)), Vec::<String>::new(), "{kind}");
    }
}
