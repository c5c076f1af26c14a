//! Which configs would start programs.

use althing_config::{Purpose, Source, StartsProcess, check};

use super::support::{backend, checked, env, with};

fn started(text: &str) -> Vec<StartsProcess> {
    checked(text).config.expect("settings").starts_processes().to_vec()
}

#[test]
fn a_config_of_models_starts_nothing() {
    assert_eq!(started(&with("orchestrator: {interactive_mode: {backend: {type: openai}}}\n")), []);
    assert_eq!(
        started(
            "agents: [{id: a, backend: {type: offline, mcp_servers: [{name: web, type: streamable-http, url: 'https://h/mcp'}], hooks: null}}]"
        ),
        []
    );
}

#[test]
fn servers_hooks_commands_and_programs_are_told_with_their_places() {
    let text = "\
agents:
  - id: a
    backend:
      type: claude_code
      enable_mcp_command_line: true
      mcp_servers:
        - {name: one, command: npx, args: [-y, server]}
        - {name: two, url: 'https://h/mcp'}
  - id: b
    backend:
      type: offline
      hooks: {PreToolUse: [{handler: check.py}]}
      mcp_servers:
        three: {command: [uvx, three]}
hooks: {PostToolUse: [{handler: log.py}]}
orchestrator:
  interactive_mode: {backend: {type: codex}}
";
    let found = started(text);
    let told: Vec<(&str, &str)> =
        found.iter().map(|one| (one.location.as_str(), one.what.as_str())).collect();
    assert_eq!(
        told,
        [
            ("hooks", "hooks around tool calls"),
            ("agents[0].backend.type", "the program behind Claude Code"),
            ("agents[0].backend.enable_mcp_command_line", "commands of the agent's choosing"),
            ("agents[0].backend.mcp_servers[0].command", "the MCP server `npx -y server`"),
            ("agents[1].backend.hooks", "hooks around tool calls"),
            ("agents[1].backend.mcp_servers.three.command", "the MCP server `uvx three`"),
            ("orchestrator.interactive_mode.backend.type", "the program behind Codex"),
        ]
    );
}

#[test]
fn a_command_line_is_told_without_its_secrets() {
    let text = "agents: [{id: a, backend: {type: offline, mcp_servers: [{name: n, command: srv, args: ['--api-key=canary-5f3a', '${HOME}', sk-canary0123456789abcd]}]}}]";
    let lookup = env(&[("HOME", "canary-home")]);
    let report = check(Source { name: "team.yaml", text }, &lookup, Purpose::Check);
    assert_eq!(
        report.config.expect("settings").starts_processes()[0].what,
        "the MCP server `srv --api-key=…`"
    );
}

#[test]
fn keys_that_would_go_to_an_address_of_the_configs_choosing_are_told() {
    let variables = [("OPENAI_API_KEY", "canary-openai"), ("GITHUB_TOKEN", "canary-github")];
    let sends = |flow: &str| {
        let report =
            check(Source { name: "team.yaml", text: &backend(flow) }, &env(&variables), Purpose::Check);
        let loaded = report.config.expect("settings");
        loaded
            .sends_secrets_elsewhere()
            .iter()
            .map(|one| (one.location.clone(), one.to.clone()))
            .collect::<Vec<_>>()
    };
    let told = vec![("agents[0].backend.base_url".to_owned(), "example.test".to_owned())];
    assert_eq!(sends("{type: openai, base_url: 'https://example.test/v1'}"), told);
    assert_eq!(
        sends(
            "{type: chatcompletion, model: m, base_url: 'https://example.test', api_key: '${GITHUB_TOKEN}'}"
        ),
        told
    );
    assert_eq!(
        sends(
            "{type: chatcompletion, model: m, base_url: 'https://example.test', extra_body: {a: ['${GITHUB_TOKEN}']}}"
        ),
        told
    );
    assert_eq!(sends("{type: openai}"), []);
    assert_eq!(sends("{type: openai, base_url: 'https://api.openai.com/v1'}"), []);
    assert_eq!(sends("{type: openai, base_url: 'http://127.0.0.1:9/v1'}"), []);
    assert_eq!(sends("{type: chatcompletion, model: m, base_url: 'https://example.test'}"), []);
}

#[test]
fn a_container_is_told_with_its_image() {
    let found = started(&backend(
        "{type: offline, enable_mcp_command_line: true, command_line_execution_mode: docker, command_line_docker_image: 'evil:v1'}",
    ));
    assert_eq!(found[0].what, "commands of the agent's choosing, in a container of `evil:v1`");
    let found =
        started(&backend("{type: offline, enable_mcp_command_line: true, command_line_docker_image: x}"));
    assert_eq!(found[0].what, "commands of the agent's choosing");
}

#[test]
fn what_variables_hold_and_a_server_elsewhere_would_get_is_told() {
    let sends = |server: &str| {
        let text = backend(&format!("{{type: offline, mcp_servers: {{s: {server}}}}}"));
        let loaded = checked(&text).config.expect("settings");
        loaded
            .sends_secrets_elsewhere()
            .iter()
            .map(|one| (one.location.clone(), one.to.clone()))
            .collect::<Vec<_>>()
    };
    let told = vec![("agents[0].backend.mcp_servers.s.url".to_owned(), "example.test".to_owned())];
    assert_eq!(
        sends("{url: 'https://example.test/mcp', headers: {Authorization: 'Bearer ${GITHUB_TOKEN}'}}"),
        told
    );
    assert_eq!(sends("{url: 'https://example.test/mcp?key=${GITHUB_TOKEN}'}"), told);
    assert_eq!(sends("{url: 'https://example.test/mcp'}"), []);
    assert_eq!(sends("{url: 'http://localhost:1/mcp', headers: {A: '${GITHUB_TOKEN}'}}"), []);
}

#[test]
fn paths_that_leave_the_directory_or_are_written_are_told() {
    let reached = |list: &str| {
        let loaded =
            checked(&with(&format!("orchestrator: {{context_paths: {list}}}\n"))).config.expect("settings");
        loaded.reaches_paths().iter().map(|one| (one.path.clone(), one.writable)).collect::<Vec<_>>()
    };
    assert_eq!(reached("[docs, ./src/lib.rs, .hidden, 'a..b']"), []);
    let outside = ["/etc", "~/.ssh", "../other", "a/../../b", "${HOME}", "C:\\x"];
    for path in outside {
        assert_eq!(reached(&format!("['{path}']")), [(path.to_owned(), false)], "{path}");
    }
    assert_eq!(reached("[{path: docs, permission: write}]"), [("docs".to_owned(), true)]);
}
