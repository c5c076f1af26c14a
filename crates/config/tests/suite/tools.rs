//! Files, commands and containers: the tools of an agent.

use althing_protocol::{CommandsConfig, DockerConfig, DockerPackages, Millis, ToolsConfig};

use super::support::{backend, checked, env, loaded, messages, with};
use althing_config::{LoadPurpose, Source, load_config};

fn tools(flow: &str) -> ToolsConfig {
    loaded(&backend(flow)).config.agents[0].tools.clone()
}

fn commands(flow: &str) -> CommandsConfig {
    tools(&format!("{{type: offline, enable_mcp_command_line: true, {flow}}}")).commands.expect("commands")
}

fn problems(flow: &str) -> Vec<String> {
    messages(&checked(&backend(flow)))
}

#[test]
fn an_agent_without_tool_keys_has_no_tools() {
    assert_eq!(tools("{type: offline}"), ToolsConfig::default());
    assert_eq!(
        tools("{type: offline, enable_mcp_command_line: false, mcp_servers: []}"),
        ToolsConfig::default()
    );
    assert!(!tools("{type: offline, cwd: ''}").any());
}

#[test]
fn a_working_directory_gives_a_workspace_and_files() {
    assert_eq!(
        tools("{type: offline, cwd: workspace1}"),
        ToolsConfig { files: true, ..ToolsConfig::default() }
    );
}

#[test]
fn context_paths_give_every_agent_files() {
    let text = "agents:\n  - {id: a, backend: {type: offline}}\n  - {id: b, backend: {type: offline}}\norchestrator: {context_paths: [docs]}\n";
    let agents = loaded(text).config.agents;
    assert!(agents.iter().all(|agent| agent.tools.files));
}

#[test]
fn commands_run_here_confined_and_without_network_unless_the_config_says_otherwise() {
    assert_eq!(commands("command_line_execution_mode: local"), CommandsConfig::default());
    let asked = CommandsConfig { network: true, timeout: Some(Millis(1500)), ..CommandsConfig::default() };
    assert_eq!(commands("command_line_network: true, command_line_timeout_seconds: 1.5"), asked);
}

#[test]
fn commands_in_a_container_have_its_settings() {
    let docker = commands(
        "command_line_execution_mode: docker, command_line_docker_image: 'mine:v1', command_line_docker_network_mode: bridge, command_line_docker_memory_limit: 2G, command_line_docker_cpu_limit: 1.5, command_line_docker_credentials: {env_vars: [GH_TOKEN], env_file: tokens.env, env_vars_from_file: [NPM_TOKEN]}",
    );
    let expected = DockerConfig {
        image: "mine:v1".to_owned(),
        network_mode: "bridge".to_owned(),
        memory_limit: Some("2g".to_owned()),
        cpu_limit: Some(1.5),
        env_vars: vec!["GH_TOKEN".to_owned()],
        env_file: Some("tokens.env".to_owned()),
        env_vars_from_file: Some(vec!["NPM_TOKEN".to_owned()]),
        packages: DockerPackages { network_mode: "bridge".to_owned(), ..DockerPackages::default() },
    };
    assert_eq!(docker, CommandsConfig { docker: Some(expected), network: true, ..CommandsConfig::default() });
    let usual = commands("command_line_execution_mode: docker");
    assert!(!usual.network);
    let usual = usual.docker.expect("a container");
    assert_eq!((usual.network_mode.as_str(), usual.memory_limit, usual.cpu_limit), ("none", None, None));
    assert_eq!(usual.image, "ghcr.io/massgen/mcp-runtime:latest");
}

#[test]
fn the_network_switch_means_the_same_in_a_container_unless_its_mode_is_named() {
    let mode = |flow: &str| {
        let commands =
            commands(&format!("command_line_execution_mode: docker, command_line_network: true{flow}"));
        (commands.network, commands.docker.expect("a container").network_mode)
    };
    assert_eq!(mode(""), (true, "bridge".to_owned()));
    assert_eq!(mode(", command_line_docker_network_mode: none"), (false, "none".to_owned()));
}

#[test]
fn packages_are_installed_with_a_network_even_if_commands_have_none() {
    let packages = |flow: &str| {
        let commands = commands(&format!("command_line_execution_mode: docker{flow}"));
        commands.docker.expect("a container").packages
    };
    let lists = "preinstall: {system: [vim], python: ['numpy>=2', pytest], npm: [typescript]}";
    let expected = DockerPackages {
        system: vec!["vim".to_owned()],
        python: vec!["numpy>=2".to_owned(), "pytest".to_owned()],
        npm: vec!["typescript".to_owned()],
        network_mode: "bridge".to_owned(),
    };
    assert_eq!(packages(&format!(", command_line_docker_packages: {{{lists}}}")), expected);
    let network = |flow: &str| packages(flow).network_mode;
    assert_eq!(network(", command_line_docker_network_mode: host"), "host");
    let named = ", command_line_docker_network_mode: none, command_line_docker_packages: {network: host}";
    assert_eq!(network(named), "host");
}

#[test]
fn an_option_is_not_the_name_of_a_package() {
    let docker = "type: offline, cwd: w, enable_mcp_command_line: true, command_line_execution_mode: docker";
    for (list, is_right) in [
        ("python: ['requests>=2.31', 'https://example.com/a.whl']", true),
        ("python: ['--index-url=http://example.com']", false),
        ("npm: ['-g']", false),
        ("system: ['  ']", false),
        ("system: [\"a\\nb\"]", false),
    ] {
        let text = format!(
            "agents: [{{id: a, backend: {{{docker}, command_line_docker_packages: {{preinstall: {{{list}}}}}}}}}]\n"
        );
        let report = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Run);
        assert_eq!(report.is_valid(), is_right, "{list}: {:?}", report.errors);
        assert!(report.warnings.is_empty(), "{list}: {:?}", report.warnings);
    }
}

#[test]
fn memory_is_an_amount_that_docker_can_give() {
    let problem = |value: &str| {
        problems(&format!(
            "{{type: offline, enable_mcp_command_line: true, command_line_execution_mode: docker, command_line_docker_memory_limit: {value}}}"
        ))
    };
    for right in ["2g", "512m", "512MB", "1.5g", "'1073741824'", "1073741824", "1 GiB"] {
        assert_eq!(problem(right), Vec::<String>::new(), "{right}");
    }
    for wrong in ["2x", "g", "-1g", "0", "1k", "'1.2.3g'", "[2g]", "99999999t", "true"] {
        assert_eq!(problem(wrong).len(), 1, "{wrong}");
    }
    assert!(problem("2x")[0].ends_with(
        "`command_line_docker_memory_limit` must be an amount of memory such as `512m` or `2g`, not the text \"2x\" | write an amount of memory such as `512m` or `2g`"
    ));
    assert_eq!(althing_config::memory_bytes("1.5g"), Some(3 << 29));
    assert_eq!(althing_config::memory_bytes("512MB"), Some(512 << 20));
}

#[test]
fn a_key_that_needs_another_one_gives_one_warning() {
    let agents = ["a", "b"]
        .map(|id| {
            format!("  - {{id: {id}, backend: {{type: offline, enable_mcp_command_line: true, command_line_docker_image: x}}}}\n")
        })
        .concat();
    assert_eq!(
        messages(&checked(&format!("agents:\n{agents}"))),
        [
            "Warning 2:69 agents[0].backend.command_line_docker_image | `command_line_docker_image` has no effect without `command_line_execution_mode: docker` | add `command_line_execution_mode: docker`, or remove the key"
        ]
    );
    assert_eq!(
        problems("{type: offline, command_line_execution_mode: docker}"),
        [
            "Warning 3:30 agents[0].backend.command_line_execution_mode | `command_line_execution_mode` has no effect without `enable_mcp_command_line: true` | add `enable_mcp_command_line: true`, or remove the key"
        ]
    );
}

#[test]
fn a_cli_agent_runs_its_own_commands() {
    let told = problems("{type: codex, command_line_execution_mode: docker}");
    assert_eq!(
        told,
        [
            "Warning 3:28 agents[0].backend.command_line_execution_mode | `command_line_execution_mode` has no effect for a CLI agent | a CLI agent runs commands with its own tools; remove the key"
        ]
    );
    assert_eq!(problems("{type: codex, cwd: work}"), Vec::<String>::new());
}

#[test]
fn wrong_words_and_numbers_are_errors_with_their_positions() {
    for (wrong, location) in [
        ("command_line_execution_mode: podman", "command_line_execution_mode"),
        ("command_line_docker_network_mode: brige", "command_line_docker_network_mode"),
        ("command_line_docker_cpu_limit: 0", "command_line_docker_cpu_limit"),
        ("command_line_docker_cpu_limit: many", "command_line_docker_cpu_limit"),
        ("command_line_docker_image: ' '", "command_line_docker_image"),
        ("command_line_timeout_seconds: 0", "command_line_timeout_seconds"),
        ("command_line_network: maybe", "command_line_network"),
    ] {
        let text = backend(&format!("{{type: offline, enable_mcp_command_line: true, {wrong}}}"));
        let report = checked(&text);
        assert_eq!(report.errors.len(), 1, "{wrong}");
        assert_eq!(report.errors[0].location, format!("agents[0].backend.{location}"));
    }
}

#[test]
fn sudo_is_not_supported_and_srt_means_our_sandbox() {
    let sudo = problems("{type: offline, command_line_docker_enable_sudo: true}");
    assert_eq!(sudo.len(), 1);
    assert!(sudo[0].contains("run as your user, never as root"), "{sudo:?}");
    assert_eq!(problems("{type: offline, command_line_docker_enable_sudo: false}"), Vec::<String>::new());
    let report =
        checked(&backend("{type: offline, enable_mcp_command_line: true, command_line_execution_mode: srt}"));
    assert_eq!(report.warnings[0].suggestion.as_deref(), Some("`local` is used instead"));
    let commands = report.config.expect("settings").config.agents[0].tools.commands.clone();
    assert_eq!(commands, Some(CommandsConfig::default()));
}

#[test]
fn tools_are_excluded_by_our_names_and_by_massgens() {
    let excluded = |flow: &str| tools(&format!("{{type: offline, cwd: w, {flow}}}")).excluded_tools;
    assert_eq!(excluded("exclude_tools: [delete_file, post_search]"), ["delete_file", "post_search"]);
    assert_eq!(
        excluded("exclude_tools: [mcp__command_line__execute_command]"),
        ["mcp__command_line__execute_command", "run_command"]
    );
    assert_eq!(
        excluded("exclude_file_operation_mcps: true"),
        ["read_file", "list_directory", "glob", "search", "apply_patch", "delete_file"]
    );
    assert_eq!(
        excluded("allowed_tools: [read_file, glob, search, list_directory, mcp__x__y]"),
        ["write_file", "edit_file", "apply_patch", "delete_file", "run_command"]
    );
}

#[test]
fn the_chat_agent_works_on_the_project_and_has_no_workspace_keys() {
    let report = checked(&with(
        "orchestrator:\n  interactive_mode:\n    backend: {type: offline, cwd: w, enable_mcp_command_line: false}\n",
    ));
    assert_eq!(
        messages(&report),
        [
            "Warning 6:30 orchestrator.interactive_mode.backend.cwd | `cwd` has no effect for the chat agent | the chat agent works on the files of the current directory or project, and launches runs for other work"
        ]
    );
}

#[test]
fn the_chat_agents_own_mcp_servers_are_checked_like_any_other() {
    let text = |server: &str| {
        with(&format!(
            "orchestrator:\n  interactive_mode:\n    backend: {{type: offline, mcp_servers: [{server}], exclude_tools: [glob]}}\n"
        ))
    };
    let loaded = loaded(&text("{name: sky, type: stdio, command: python3}"));
    let tools = loaded.config.interactive.expect("the section").tools;
    assert_eq!(tools.mcp_servers.first().map(|server| server.name.as_str()), Some("sky"));
    assert_eq!(tools.excluded_tools, ["glob"]);
    let wrong = messages(&checked(&text("{name: 'a b', type: stdio, command: python3}")));
    assert!(wrong[0].contains("orchestrator.interactive_mode.backend.mcp_servers[0].name"), "{wrong:?}");
}

#[test]
fn what_a_container_cannot_get_is_refused_before_a_run_and_a_warning_in_a_check() {
    let docker = "type: offline, cwd: w, enable_mcp_command_line: true, command_line_execution_mode: docker";
    for (keys, location) in [
        ("command_line_docker_credentials: {mount: [ssh_keys]}", "command_line_docker_credentials.mount"),
        (
            "command_line_docker_credentials: {additional_mounts: {/a: {bind: /b}}}",
            "command_line_docker_credentials.additional_mounts",
        ),
        (
            "command_line_docker_credentials: {pass_all_env: true}",
            "command_line_docker_credentials.pass_all_env",
        ),
    ] {
        let text = format!("agents: [{{id: a, backend: {{{docker}, {keys}}}}}]\n");
        let location = format!("agents[0].backend.{location}");
        let load = |purpose| load_config(Source { name: "team.yaml", text: &text }, &env(&[]), purpose);
        let run = load(LoadPurpose::Run);
        assert_eq!(
            run.errors.iter().map(|one| one.location.as_str()).collect::<Vec<_>>(),
            [location.as_str()]
        );
        let check = load(LoadPurpose::Check);
        assert!(check.is_valid(), "{keys}");
        let warned = check.warnings.iter().map(|one| one.location.as_str()).collect::<Vec<_>>();
        assert_eq!(warned, [location.as_str()]);
    }
    let text = format!(
        "agents: [{{id: a, backend: {{{docker}, command_line_docker_credentials: {{mount: [], pass_all_env: false}}}}}}]\n"
    );
    let report = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Run);
    assert!(report.is_valid() && report.warnings.is_empty(), "what asks for nothing is not reported");
}
