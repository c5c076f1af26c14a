//! MCP servers: how they are reached, their names, and which of their tools are used.

use althing_config::{LoadPurpose, Source, WORKSPACE_PLACEHOLDER, load_config};
use althing_protocol::{McpServerConfig, McpTransport, Secret};

use super::support::{backend, checked, env, loaded};

fn servers(flow: &str) -> Vec<McpServerConfig> {
    loaded(&backend(&format!("{{type: offline, {flow}}}"))).config.agents[0].tools.mcp_servers.clone()
}

fn stdio(command: &str, args: &[&str]) -> McpTransport {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    McpTransport::Stdio { command: command.to_owned(), args, env: Vec::new(), cwd: None }
}

fn bare(name: &str, transport: McpTransport) -> McpServerConfig {
    McpServerConfig {
        name: name.to_owned(),
        transport,
        allowed_tools: None,
        exclude_tools: Vec::new(),
        call_timeout: None,
    }
}

#[test]
fn servers_can_be_a_list_or_a_map() {
    let expected = [bare("one", stdio("npx", &["-y", "server", "3", "true"]))];
    assert_eq!(
        servers("mcp_servers: [{name: one, type: stdio, command: npx, args: [-y, server, 3, true]}]"),
        expected
    );
    assert_eq!(servers("mcp_servers: {one: {command: npx, args: [-y, server, 3, true]}}"), expected);
}

#[test]
fn a_command_is_a_program_a_line_or_a_list() {
    let expected = [bare("one", stdio("npx", &["-y", "server", "x"]))];
    assert_eq!(servers("mcp_servers: {one: {command: 'npx -y server', args: [x]}}"), expected);
    assert_eq!(servers("mcp_servers: {one: {command: [npx, -y, server], args: [x]}}"), expected);
}

#[test]
fn a_server_gets_its_environment_and_directory_and_a_variable_stays_one_word() {
    let text = backend(
        "{type: offline, mcp_servers: {one: {command: '${BIN}', env: {TOKEN: '${TOKEN}', N: 1, OFF: false}, cwd: sub}}}",
    );
    let lookup = env(&[("BIN", "/opt/my program"), ("TOKEN", "canary-token")]);
    let report = load_config(Source { name: "team.yaml", text: &text }, &lookup, LoadPurpose::Run);
    let loaded = report.config.expect("settings");
    let pair = |name: &str, value: &str| (name.to_owned(), Secret::new(value));
    let expected = McpTransport::Stdio {
        command: "/opt/my program".to_owned(),
        args: Vec::new(),
        env: vec![pair("TOKEN", "canary-token"), pair("N", "1"), pair("OFF", "false")],
        cwd: Some("sub".to_owned()),
    };
    assert_eq!(loaded.config.agents[0].tools.mcp_servers, [bare("one", expected)]);
    assert!(report.secrets.iter().any(|secret| secret.reveal() == "canary-token"));
}

#[test]
fn a_server_address_has_headers_which_are_secret() {
    let text = backend(
        "{type: offline, mcp_servers: [{name: a, type: streamable-http, url: 'https://h/mcp', headers: {X-Team: canary-team}}, {name: b, url: 'https://h/mcp'}, {name: c, type: http, url: 'https://h/mcp'}]}",
    );
    let report = checked(&text);
    let found = report.config.expect("settings").config.agents[0].tools.mcp_servers.clone();
    let url = "https://h/mcp".to_owned();
    let headers = vec![("X-Team".to_owned(), Secret::new("canary-team"))];
    assert_eq!(found[0].transport, McpTransport::Http { url: url.clone(), headers });
    for other in [&found[1], &found[2]] {
        assert_eq!(other.transport, McpTransport::Http { url: url.clone(), headers: Vec::new() });
    }
    assert!(report.secrets.iter().any(|secret| secret.reveal() == "canary-team"));
}

#[test]
fn the_agents_tool_lists_apply_to_its_servers() {
    let found = servers(
        "allowed_tools: [a, mcp__two__b], exclude_tools: [x], mcp_servers: {one: {command: p, allowed_tools: [c], exclude_tools: [y, x]}, two: {command: p}}",
    );
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (&found[0].allowed_tools, &found[0].exclude_tools),
        (&Some(texts(&["c"])), &texts(&["y", "x"]))
    );
    assert_eq!(
        (&found[1].allowed_tools, &found[1].exclude_tools),
        (&Some(texts(&["a", "mcp__two__b"])), &texts(&["x"]))
    );
    let program =
        checked(&backend("{type: claude_code, allowed_tools: [Read], mcp_servers: {one: {command: p}}}"));
    let tools = program.config.expect("settings").config.agents[0].tools.clone();
    assert_eq!((tools.mcp_servers[0].allowed_tools.clone(), tools.excluded_tools), (None, Vec::new()));
}

#[test]
fn a_missing_key_of_a_server_is_an_error_with_its_position() {
    for (server, location, message) in [
        ("{command: p}", "[0].name", "an MCP server in a list needs `name`"),
        ("{name: a}", "[0].command", "the MCP server needs `command`"),
        ("{name: a, command: ' '}", "[0].command", "the MCP server needs `command`"),
        ("{name: a, command: []}", "[0].command", "the MCP server needs `command`"),
        ("{name: a, type: http, command: p}", "[0].url", "the MCP server needs `url`"),
        ("{name: a, url: 'ftp://h'}", "[0].url", "`url` is not an http or https address"),
        (
            "{name: a b, command: p}",
            "[0].name",
            "an MCP server's name may contain only letters, digits, `-` and `_`, at most 64 characters",
        ),
        (
            "{name: '', command: p}",
            "[0].name",
            "an MCP server's name may contain only letters, digits, `-` and `_`, at most 64 characters",
        ),
        (
            "{name: a, command: p, env: {'A=B': c}}",
            "[0].env",
            "an environment variable cannot have this name or value",
        ),
        (
            "{name: a, command: p, args: [[x]]}",
            "[0].args[0]",
            "`args[0]` must be a text or `true` or `false` or a whole number or a number, not a list",
        ),
        (
            "{name: a, url: 'https://h', headers: {'a b': c}}",
            "[0].headers",
            "HTTP does not allow this header",
        ),
    ] {
        let report = checked(&backend(&format!("{{type: offline, mcp_servers: [{server}]}}")));
        let found: Vec<_> =
            report.errors.iter().map(|one| (one.location.as_str(), one.message.as_str())).collect();
        let location = format!("agents[0].backend.mcp_servers{location}");
        assert_eq!(found, [(location.as_str(), message)], "{server}");
        assert!(report.errors[0].suggestion.is_some());
    }
    let report =
        checked(&backend("{type: offline, mcp_servers: [{name: a, command: p}, {name: a, command: q}]}"));
    assert_eq!(report.errors[0].message, "two MCP servers of this agent are called `a`");
    assert_eq!(report.errors[0].location, "agents[0].backend.mcp_servers[1].name");
    let agents = ["a", "b"].map(|id| {
        format!("  - {{id: {id}, backend: {{type: offline, mcp_servers: {{s: {{command: p}}}}}}}}\n")
    });
    loaded(&format!("agents:\n{}", agents.concat()));
}

#[test]
fn a_server_key_without_effect_is_a_warning() {
    for (server, location, message) in [
        (
            "{command: p, http_read_timeout: 5}",
            "http_read_timeout",
            "`http_read_timeout` is not supported yet and has no effect",
        ),
        ("{command: p, url: 'https://h'}", "url", "`url` has no effect on this kind of MCP server"),
        ("{type: http, url: 'https://h', cwd: x}", "cwd", "`cwd` has no effect on this kind of MCP server"),
        ("{type: sse, url: 'https://h'}", "type", "`type: sse` is not supported yet"),
        (
            "{url: 'http://h', headers: {A: b}}",
            "url",
            "the headers would be sent over the network unencrypted",
        ),
    ] {
        let report = checked(&backend(&format!("{{type: offline, mcp_servers: {{s: {server}}}}}")));
        assert!(report.is_valid(), "{server}");
        let found: Vec<_> =
            report.warnings.iter().map(|one| (one.location.as_str(), one.message.as_str())).collect();
        let location = format!("agents[0].backend.mcp_servers.s.{location}");
        assert_eq!(found, [(location.as_str(), message)], "{server}");
    }
}

#[test]
fn a_key_whose_purpose_is_fulfilled_gives_no_warning() {
    let report =
        checked(&backend("{type: offline, mcp_servers: {s: {command: p, security: {level: high}}}}"));
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    for (mode, warnings) in [("auto", 0), ("isolated", 0), ("legacy", 0), ("worktree", 1)] {
        let coordination = format!("orchestrator: {{coordination: {{write_mode: {mode}}}}}\n");
        let report = checked(&format!("{}{coordination}", backend("{type: offline}")));
        assert_eq!(report.warnings.len(), warnings, "{mode}: {:?}", report.warnings);
    }
}

#[test]
fn an_unset_variable_of_a_server_stops_a_run() {
    let text = backend("{type: offline, mcp_servers: {s: {command: p, env: {TOKEN: '${NOT_SET}'}}}}");
    let report = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Run);
    assert_eq!(report.errors[0].location, "agents[0].backend.mcp_servers.s.env.TOKEN");
    assert_eq!(report.errors[0].message, "the environment variable `NOT_SET` is not set");
}

#[test]
fn the_workspace_placeholder_stays_until_the_server_is_started() {
    let text = backend(
        "{type: offline, cwd: w, mcp_servers: {s: {command: p, args: ['--output-dir=${cwd}/out'], env: {HOME: '${cwd}'}}}}",
    );
    let lookup = env(&[("cwd", "/elsewhere")]);
    let report = load_config(Source { name: "team.yaml", text: &text }, &lookup, LoadPurpose::Run);
    let server = report.config.expect("settings").config.agents[0].tools.mcp_servers[0].clone();
    let expected = McpTransport::Stdio {
        command: "p".to_owned(),
        args: vec![format!("--output-dir={WORKSPACE_PLACEHOLDER}/out")],
        env: vec![("HOME".to_owned(), Secret::new(WORKSPACE_PLACEHOLDER))],
        cwd: None,
    };
    assert_eq!(server.transport, expected);
}
