//! Skills, memories, task lists, planning, subagents, and CLI agents: from keys to settings.

use althing_config::{LoadPurpose, Source, load_config};
use althing_protocol::{
    AGENT_KINDS, Config, Millis, PlanningConfig, SkillsConfig, SubagentsConfig, TaskPlanning,
};
use serde_json::json;

use super::support::{backend, checked, env, loaded, messages, with};

fn coordinated(flow: &str) -> Config {
    loaded(&with(&format!("orchestrator: {{coordination: {flow}}}\n"))).config
}

#[test]
fn without_their_switches_all_abilities_are_off() {
    for flow in [
        "{}",
        "{skills_directory: x, max_tasks_per_plan: 3, planning_mode_instruction: x, subagent_max_concurrent: 9}",
    ] {
        let config = coordinated(flow);
        assert_eq!((config.skills, config.file_memory, config.task_planning), (None, false, None));
        assert_eq!((config.planning, config.subagents), (None, None));
    }
}

#[test]
fn skills_use_massgens_directory_by_default() {
    let skills = |config: Config| config.skills.map(|SkillsConfig { directory }| directory);
    assert_eq!(skills(coordinated("{use_skills: true}")).as_deref(), Some(".agent/skills"));
    assert_eq!(skills(coordinated("{use_skills: true, skills_directory: mine}")).as_deref(), Some("mine"));
    let team = loaded(&with("orchestrator: {skills_directory: ours, coordination: {use_skills: true}}\n"));
    assert_eq!(skills(team.config).as_deref(), Some("ours"));
    let report = checked(&with("orchestrator: {coordination: {use_skills: true, skills_directory: ' '}}\n"));
    assert_eq!(report.errors[0].message, "`skills_directory` is blank");
}

#[test]
fn task_lists_memories_and_planning_are_switched_on() {
    let config = coordinated(
        "{enable_agent_task_planning: true, max_tasks_per_plan: 30, task_planning_filesystem_mode: true, enable_memory_filesystem_mode: true, enable_planning_mode: true, planning_mode_instruction: only think}",
    );
    assert_eq!(config.task_planning, Some(TaskPlanning { max_tasks: 30, as_files: true }));
    assert!(config.file_memory);
    assert_eq!(config.planning, Some(PlanningConfig { instruction: Some("only think".into()) }));
    let config = coordinated("{enable_agent_task_planning: true, enable_planning_mode: true}");
    assert_eq!(config.task_planning, Some(TaskPlanning { max_tasks: 10, as_files: false }));
    assert_eq!(config.planning, Some(PlanningConfig { instruction: None }));
}

#[test]
fn subagent_timeouts_are_consistent() {
    let of = |flow: &str| coordinated(flow).subagents.expect("subagents");
    assert_eq!(of("{enable_subagents: true}"), SubagentsConfig::default());
    let all = of(
        "{enable_subagents: true, subagent_default_timeout: 200, subagent_min_timeout: 100, subagent_max_timeout: 300, subagent_max_concurrent: 7, background_subagents: {enabled: false}}",
    );
    let expected = SubagentsConfig {
        default_timeout: Millis::from_secs(200),
        min_timeout: Millis::from_secs(100),
        max_timeout: Millis::from_secs(300),
        max_concurrent: 7,
        background: false,
    };
    assert_eq!(all, expected);
    let times = |flow: &str| {
        let one = of(&format!("{{enable_subagents: true, {flow}}}"));
        (one.min_timeout.0 / 1000, one.default_timeout.0 / 1000, one.max_timeout.0 / 1000)
    };
    assert_eq!(times("subagent_default_timeout: 900"), (60, 900, 900));
    assert_eq!(times("subagent_default_timeout: 5"), (5, 5, 600));
    assert_eq!(times("subagent_max_timeout: 30"), (30, 30, 30));
    assert_eq!(times("subagent_min_timeout: 700"), (700, 700, 700));

    let told = |flow: &str| messages(&checked(&with(&format!("orchestrator: {{coordination: {flow}}}\n"))));
    let crossed = told("{subagent_min_timeout: 9, subagent_max_timeout: 3}");
    assert!(
        crossed[0].starts_with("Error 4:53 orchestrator.coordination.subagent_min_timeout"),
        "{crossed:?}"
    );
    let outside = told("{enable_subagents: true, subagent_default_timeout: 700, subagent_max_timeout: 600}");
    assert!(
        outside[0].starts_with("Warning") && outside[0].contains("the nearer limit is used"),
        "{outside:?}"
    );
}

#[test]
fn project_instructions_are_on_unless_switched_off() {
    assert!(loaded(&with("")).config.project_instructions);
    assert!(!loaded(&with("orchestrator: {project_instructions: false}\n")).config.project_instructions);
}

#[test]
fn the_size_of_snapshots_is_an_amount_of_memory() {
    let size = |value: &str| {
        loaded(&with(&format!("orchestrator: {{max_snapshot_size: {value}}}\n"))).config.max_snapshot_bytes
    };
    assert_eq!(loaded(&with("")).config.max_snapshot_bytes, None);
    assert_eq!(size("512m"), Some(512 << 20));
    assert_eq!(size("2g"), Some(2 << 30));
    for wrong in ["lots", "-1", "0", "[2g]"] {
        let report = checked(&with(&format!("orchestrator: {{max_snapshot_size: {wrong}}}\n")));
        let found: Vec<_> = report.errors.iter().map(|one| one.location.as_str()).collect();
        assert_eq!(found, ["orchestrator.max_snapshot_size"], "{wrong}");
    }
}

#[test]
fn command_patterns_reach_the_settings_and_an_invalid_one_is_an_error() {
    let flow = |list: &str| {
        backend(&format!(
            "{{type: offline, enable_mcp_command_line: true, command_line_blocked_commands: [{list}], command_line_allowed_commands: ['git .*']}}"
        ))
    };
    let tools = loaded(&flow("'rm .*', 'sudo'")).config.agents[0].tools.clone();
    let commands = tools.commands.expect("commands");
    assert_eq!(
        (commands.allowed, commands.blocked),
        (vec!["git .*".to_owned()], vec!["rm .*".into(), "sudo".into()])
    );
    let report = checked(&flow("ok, '(?!x)'"));
    assert_eq!(report.errors.len(), 1);
    assert_eq!(report.errors[0].location, "agents[0].backend.command_line_blocked_commands[1]");
    assert!(report.errors[0].message.contains("look-around"), "{}", report.errors[0].message);
}

#[test]
fn the_call_timeout_of_a_server_comes_from_the_config() {
    let text =
        backend("{type: offline, mcp_servers: {s: {command: p, timeout_seconds: 2.5}, t: {command: p}}}");
    let servers = loaded(&text).config.agents[0].tools.mcp_servers.clone();
    assert_eq!((servers[0].call_timeout, servers[1].call_timeout), (Some(Millis(2500)), None));
}

#[test]
fn a_cli_agent_needs_neither_model_nor_api_key_and_keeps_its_own_options() {
    let text = backend("{type: claude_code, cwd: work, reasoning_effort: high}");
    let report = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Run);
    assert_eq!(messages(&report), Vec::<String>::new());
    let agent = report.config.expect("settings").config.agents[0].clone();
    assert_eq!(
        (agent.backend.kind.as_str(), agent.backend.model, agent.backend.base_url),
        ("claude_code", None, None)
    );
    assert_eq!(json!(agent.backend.params), json!({"reasoning_effort": "high"}));
    assert_eq!(agent.backend.options.reasoning_effort.as_deref(), Some("high"));
    assert!(agent.tools.files);
    assert_eq!(agent.tools.excluded_tools, Vec::<String>::new());
}

const OPTIONS: [&str; 7] = [
    "permission_mode: plan",
    "permission_mode: bypassPermissions",
    "allowed_tools: [Read]",
    "allowed_tools: []",
    "disallowed_tools: [Bash]",
    "system_prompt: x",
    "append_system_prompt: x",
];

#[test]
fn an_option_of_a_cli_agent_reaches_its_settings_or_is_an_error_with_an_alternative() {
    for row in AGENT_KINDS {
        for entry in OPTIONS {
            let key = entry.split(':').next().unwrap();
            let agent = |id: &str| format!("{{id: {id}, backend: {{type: {}, {entry}}}}}", row.kind);
            let text = format!("agents:\n  - {}\n  - {}\n", agent("a"), agent("b"));
            let read = |purpose| load_config(Source { name: "team.yaml", text: &text }, &env(&[]), purpose);
            let (run, checked) = (read(LoadPurpose::Run), read(LoadPurpose::Check));
            assert_eq!(messages(&read(LoadPurpose::Offline)), Vec::<String>::new(), "no program is started");
            let Some(instead) = row.instead_of(key) else {
                assert_eq!((messages(&run), messages(&checked)), (Vec::new(), Vec::new()), "{entry}");
                let config = run.config.expect("settings").config;
                assert!(!config.agents[0].backend.options.is_empty(), "{} {entry}", row.kind);
                continue;
            };
            let places: Vec<&str> = run.errors.iter().map(|error| error.location.as_str()).collect();
            let expected = [0, 1].map(|n| format!("agents[{n}].backend.{key}"));
            assert_eq!(places, expected, "{} {entry}: {:?}", row.kind, messages(&run));
            assert_eq!(run.errors[0].message, format!("{} does not support `{key}`", row.title));
            assert!(run.errors[0].suggestion.as_deref().unwrap().contains(instead));
            assert!(checked.is_valid(), "the file is right: {:?}", messages(&checked));
            assert_eq!(checked.warnings.len(), 1, "one for all agents: {:?}", messages(&checked));
        }
    }
}

#[test]
fn the_reasoning_effort_reaches_a_cli_agent_in_both_spellings_or_gives_a_warning() {
    for row in AGENT_KINDS {
        for (entry, location) in
            [("reasoning_effort: low", "reasoning_effort"), ("reasoning: {effort: low}", "reasoning.effort")]
        {
            let text = backend(&format!("{{type: {}, {entry}}}", row.kind));
            let report = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Run);
            assert!(report.is_valid(), "{:?}", messages(&report));
            let warnings: Vec<(&str, &str)> = report
                .warnings
                .iter()
                .map(|warning| (warning.location.as_str(), warning.message.as_str()))
                .collect();
            let location = format!("agents[0].backend.{location}");
            let message = format!("{} does not support `reasoning_effort`", row.title);
            let expected = row.instead_of("reasoning_effort").map(|_| (location.as_str(), message.as_str()));
            assert_eq!(warnings, expected.into_iter().collect::<Vec<_>>(), "{} {entry}", row.kind);
            let options = report.config.expect("settings").config.agents[0].backend.options.clone();
            assert_eq!(options.reasoning_effort.as_deref(), Some("low"), "{} {entry}", row.kind);
        }
    }
    for entry in ["reasoning_effort: low", "reasoning: {effort: low}"] {
        let report = checked(&backend(&format!("{{type: offline, {entry}}}")));
        assert_eq!(messages(&report), Vec::<String>::new(), "a model's parameter");
    }
}

#[test]
fn a_parameter_that_a_cli_agent_cannot_use_is_a_warning_at_its_key() {
    let entries = [
        ("temperature: 0.2", "temperature"),
        ("max_tokens: 100", "max_tokens"),
        ("reasoning: {effort: low, max_tokens: 5}", "reasoning.max_tokens"),
        ("request_timeout_seconds: 5", "request_timeout_seconds"),
        ("base_url: 'https://a.example'", "base_url"),
        ("api_key: k", "api_key"),
    ];
    for (entry, key) in entries {
        let agent = |id: &str, kind: &str| format!("  - {{id: {id}, backend: {{type: {kind}, {entry}}}}}\n");
        let text =
            ["agents:\n".to_owned(), agent("a", "claude_code"), agent("b", "codex"), agent("c", "codex")];
        let text = text.concat();
        let read = |purpose| load_config(Source { name: "team.yaml", text: &text }, &env(&[]), purpose);
        let report = read(LoadPurpose::Run);
        assert!(report.is_valid(), "{:?}", messages(&report));
        let message = |kind: &str| format!("`{key}` has no effect on {kind}");
        let found: Vec<(String, String)> = report
            .warnings
            .iter()
            .filter(|warning| warning.message.contains("has no effect"))
            .map(|warning| (warning.location.clone(), warning.message.clone()))
            .collect();
        let at = |index: usize| format!("agents[{index}].backend.{key}");
        let expected = [(at(0), message("claude_code")), (at(1), message("codex"))];
        assert_eq!(found, expected, "once for each kind");
        let offline = read(LoadPurpose::Offline);
        assert!(!messages(&offline).iter().any(|message| message.contains("has no effect")), "{offline:?}");
    }
    let report = checked(&backend("{type: claude_code, temperature: null}"));
    assert_eq!(messages(&report), Vec::<String>::new(), "an empty key asks for nothing");
}

#[test]
fn empty_options_of_cli_agents_and_options_of_models_are_accepted() {
    for entry in [
        "type: claude_code, disallowed_tools: []",
        "type: codex, append_system_prompt: ''",
        "type: gemini_cli, system_prompt: ''",
        "type: offline, allowed_tools: [read_file]",
    ] {
        let text = backend(&format!("{{{entry}}}"));
        let report = load_config(Source { name: "team.yaml", text: &text }, &env(&[]), LoadPurpose::Run);
        assert_eq!(messages(&report), Vec::<String>::new(), "{entry}");
    }
}

#[test]
fn a_key_for_cli_agents_is_a_warning_for_every_other_agent() {
    for key in
        ["permission_mode: plan", "disallowed_tools: [Bash]", "system_prompt: x", "append_system_prompt: x"]
    {
        let report = checked(&backend(&format!("{{type: offline, {key}}}")));
        assert!(report.is_valid(), "{key}: {:?}", messages(&report));
        let said: Vec<&str> = report.warnings.iter().map(|warning| warning.message.as_str()).collect();
        let name = key.split(':').next().unwrap();
        assert_eq!(said, [format!("`{name}` has no effect for an agent that is a model")]);
        assert!(report.config.expect("settings").config.agents[0].backend.params.is_empty(), "{key}");
    }
}
