//! Valid workflow files and the resulting stages.

use std::collections::BTreeMap;

use althing_config::{
    ConfigReport, LoadPurpose, Source, Style, TaskBody, Variables, WorkflowAgent, WorkflowContext,
    WorkflowFile, fill_variables, load_config, load_workflow, workflow_agents, workflow_schema,
};
use althing_protocol::{
    AGENT_KINDS, AgentId, AgentMode, AgentOptions, AskKind, CustomAdapter, ExecutionMode, InteractionPattern,
    LaunchRun, Millis, Modes, OnInterrupt, PathGrant, Permission, PermissionMode, ProgramSpec, RunRules,
    RunSpec, StageBody,
};
use serde_json::json;

use super::support::{env, messages};

pub(crate) fn read(
    text: &str,
    variables: &[(&str, &str)],
    purpose: LoadPurpose,
) -> (Option<WorkflowFile>, ConfigReport) {
    let options = AgentOptions { system_prompt: Some("Be terse.".to_owned()), ..AgentOptions::default() };
    let program =
        WorkflowAgent::Program { adapter: "codex".to_owned(), model: Some("gpt-5".to_owned()), options };
    let agents = [
        (AgentId::new("writer"), WorkflowAgent::Model),
        (AgentId::new("critic"), WorkflowAgent::Model),
        (AgentId::new("coder"), program),
    ];
    let env = env(variables);
    let surroundings = WorkflowContext {
        purpose,
        cwd: "/start",
        env: Variables::all_own(&env),
        kinds: AGENT_KINDS,
        custom: &[],
        agents: &agents,
    };
    load_workflow(Source { name: "flows/release.yaml", text }, &surroundings)
}

fn right(text: &str) -> WorkflowFile {
    let (file, report) = read(text, &[], LoadPurpose::Run);
    assert!(report.errors.is_empty() && report.warnings.is_empty(), "{}", report.render(Style::Plain));
    file.expect("a workflow")
}

fn program(file: &WorkflowFile) -> ProgramSpec {
    match &file.stages[0].tasks[0].body {
        TaskBody::Program(spec) => (**spec).clone(),
        other => unreachable!("{other:?}"),
    }
}

fn one(keys: &str) -> String {
    format!("goal: g\nstages:\n  - tasks:\n      - {{id: a, {keys}}}\n")
}

const EXAMPLE: &str = r#"
name: release-notes
goal: Draft the release notes of 2.0
stages:
  - name: gather
    tasks:
      - {id: log,  agent: claude, executionMode: headless, prompt: "List the user-visible changes since 1.9"}
      - {id: lint, agent: command, command: [cargo, clippy], executionMode: headless, prompt: ""}
  - name: decide
    tasks:
      - {id: team, run: {task: "Write the notes from {{log.output}}", agent_mode: multi, refinement: true}}
      - {id: ask,  agent: gemini, executionMode: interactive, prompt: "Review the notes with me"}
"#;

#[test]
fn the_example_has_two_stages_of_two_tasks() {
    let file = right(EXAMPLE);
    assert_eq!((file.name.as_str(), file.goal.as_str()), ("release-notes", "Draft the release notes of 2.0"));
    let names: Vec<&str> = file.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["gather", "decide"]);
    let log = program(&file);
    let expected = ProgramSpec {
        adapter: "claude".into(),
        command: vec![],
        mode: ExecutionMode::Headless,
        prompt: "List the user-visible changes since 1.9".into(),
        cwd: "/start".into(),
        env: BTreeMap::new(),
        model: None,
        on_interrupt: None,
        sandbox: None,
        idle_timeout: None,
        approvals: false,
        agent: None,
        options: AgentOptions::default(),
    };
    assert_eq!(log, expected);
    let lint = &file.stages[0].tasks[1].body;
    let command = ["cargo", "clippy"].map(str::to_owned).to_vec();
    let lint_expected =
        ProgramSpec { adapter: "command".into(), command, prompt: String::new(), ..expected.clone() };
    assert_eq!(*lint, TaskBody::Program(Box::new(lint_expected)));
    let launch = LaunchRun {
        task: "Write the notes from {{log.output}}".into(),
        agent_mode: Some(AgentMode::Multi),
        refinement: Some(true),
        ..LaunchRun::default()
    };
    assert_eq!(file.stages[1].tasks[0].body, TaskBody::Run(Box::new(launch)));
    let TaskBody::Program(ask) = &file.stages[1].tasks[1].body else { unreachable!() };
    assert_eq!(ask.mode, ExecutionMode::Interactive);
}

#[test]
fn every_key_of_a_program_reaches_its_settings() {
    let file = right(&one(
        "agent: claude, execution_mode: headless, prompt: 'for {{ goal }}', model: opus, cwd: sub, env: {A: 1, B: x}, \
         timeout_seconds: 90, idle_timeout_seconds: 1.5, continue_on_failure: true, on_interrupt: ask, sandbox: false, approvals: true",
    ));
    let task = &file.stages[0].tasks[0];
    assert_eq!((task.timeout, task.continue_on_failure), (Some(Millis(90_000)), true));
    let spec = program(&file);
    assert_eq!((spec.model.as_deref(), spec.cwd.as_str()), (Some("opus"), "sub"));
    assert_eq!(spec.env, BTreeMap::from([("A".into(), "1".into()), ("B".into(), "x".into())]));
    assert_eq!((spec.idle_timeout, spec.on_interrupt), (Some(Millis(1500)), Some(OnInterrupt::Ask)));
    assert_eq!((spec.sandbox, spec.approvals, spec.prompt.as_str()), (Some(false), true, "for {{ goal }}"));
}

#[test]
fn omitted_keys_have_sensible_defaults() {
    let file = right(
        "stages: [{tasks: [{id: a, agent: codex, prompt: p}]}, {tasks: [{id: b, agent: codex, prompt: p}]}]",
    );
    assert_eq!((file.name.as_str(), file.goal.as_str()), ("release", ""));
    assert_eq!((file.stages[0].name.as_str(), file.stages[1].name.as_str()), ("stage 1", "stage 2"));
    assert_eq!(program(&file).mode, ExecutionMode::Headless);
}

#[test]
fn an_agent_of_the_config_is_a_cli_agent_or_a_quick_run_of_its_model() {
    let spec = program(&right(&one("agent: coder, prompt: p")));
    assert_eq!((spec.adapter.as_str(), spec.model.as_deref()), ("codex", Some("gpt-5")));
    assert_eq!(spec.agent, Some(AgentId::new("coder")));
    let file = right(&one("agent: writer, prompt: 'about {{goal}}'"));
    let body = TaskBody::Agent { id: AgentId::new("writer"), prompt: "about {{goal}}".into() };
    assert_eq!(file.stages[0].tasks[0].body, body);

    let mut asked = Vec::new();
    let run = |launch: LaunchRun| {
        asked.push(launch);
        Ok::<_, String>(RunSpec {
            task: "t".into(),
            context: None,
            history: vec![],
            members: vec![],
            context_paths: vec![],
            modes: Modes::default(),
            rules: RunRules::default(),
            subagent_of: None,
            plan: None,
            execution: None,
            unapproved_paths: Vec::new(),
            tie_break_seed: 0,
        })
    };
    let spec = file.into_spec("/x/release.yaml", "digest", run).expect("a spec");
    assert!(matches!(spec.stages[0].tasks[0].body, StageBody::Run(_)));
    assert_eq!(
        (spec.source.as_str(), spec.digest.as_str(), spec.goal.as_str()),
        ("/x/release.yaml", "digest", "g")
    );
    assert_eq!((asked[0].agent_mode, asked[0].refinement), (Some(AgentMode::Single), Some(false)));
    assert_eq!(asked[0].agents, Some(vec![AgentId::new("writer")]));
}

#[test]
fn the_agents_of_a_config_are_told_apart_by_their_types() {
    let text = "agents: [{id: a, backend: {type: offline}}, {id: b, backend: {type: claude_code, model: m}}, {id: c, backend: {type: gemini_cli}}]";
    let report = load_config(Source { name: "team.yaml", text }, &env(&[]), LoadPurpose::Check);
    let agents = workflow_agents(&report.config.expect("settings").config, AGENT_KINDS);
    let program = |adapter: &str, model: Option<&str>| WorkflowAgent::Program {
        adapter: adapter.into(),
        model: model.map(str::to_owned),
        options: AgentOptions::default(),
    };
    let expected =
        [("a", WorkflowAgent::Model), ("b", program("claude", Some("m"))), ("c", program("gemini", None))];
    assert_eq!(agents, expected.map(|(id, agent)| (AgentId::new(id), agent)));
}

#[test]
fn a_task_of_a_configs_cli_agent_has_the_permissions_tools_and_prompt_that_the_config_gives_it() {
    let text =
        "agents: [{id: b, backend: {type: claude_code, permission_mode: plan, disallowed_tools: [Bash]}}]";
    let report = load_config(Source { name: "team.yaml", text }, &env(&[]), LoadPurpose::Run);
    let agents = workflow_agents(&report.config.expect("settings").config, AGENT_KINDS);
    let expected = AgentOptions {
        permission_mode: Some(PermissionMode::Plan),
        disallowed_tools: vec!["Bash".to_owned()],
        ..AgentOptions::default()
    };
    assert!(
        matches!(&agents[0].1, WorkflowAgent::Program { options, .. } if *options == expected),
        "{agents:?}"
    );
    let of = |agent: &str| {
        let file = right(&one(&format!("agent: {agent}, executionMode: headless, prompt: p")));
        program(&file).options.system_prompt
    };
    assert_eq!((of("coder").as_deref(), of("codex")), (Some("Be terse."), None));
}

#[test]
fn every_key_of_a_run_reaches_its_request() {
    let file = right(&one(
        "run: {task: t, context: 'so that {{goal}}', agent_mode: single, agents: [critic], refinement: false, planning_mode: true, \
         execute_after_planning: yes, context_paths: [docs, {path: out, permission: write}], agent_system_prompts: {critic: be kind}, \
         coordination_overrides: {voting_sensitivity: strict, max_new_answers_per_agent: 2, skip_voting: on, orchestrator_timeout_seconds: 60}}",
    ));
    let TaskBody::Run(launch) = &file.stages[0].tasks[0].body else { unreachable!() };
    let grant = |path: &str, permission| PathGrant { path: path.into(), permission };
    let overrides = json!({"voting_sensitivity": "strict", "max_new_answers_per_agent": 2, "skip_voting": true, "orchestrator_timeout_seconds": 60});
    let expected = LaunchRun {
        task: "t".into(),
        context: Some("so that {{goal}}".into()),
        agent_mode: Some(AgentMode::Single),
        agents: Some(vec![AgentId::new("critic")]),
        refinement: Some(false),
        planning_mode: true,
        execute_after_planning: true,
        context_paths: vec![grant("docs", Permission::Read), grant("out", Permission::Write)],
        agent_system_prompts: BTreeMap::from([(AgentId::new("critic"), "be kind".into())]),
        coordination_overrides: overrides.as_object().expect("an object").clone(),
    };
    assert_eq!(**launch, expected);
}

const ADAPTERS: &str = r#"
adapters:
  aider:
    program: aider
    args: [--no-auto-commits, 3]
    headless_args: [--yes, --message-file, "-"]
    resume_args: [--session, "{session}"]
    session: 'session ([0-9a-f-]+)'
    ready: '^> $'
    interactions:
      - {pattern: '\(Y\)es/\(N\)o', about: permission}
      - {pattern: 'Which file'}
    env: {AIDER_KEY: "${KEY}"}
"#;

fn aider() -> CustomAdapter {
    let pattern = |pattern: &str, about| InteractionPattern { pattern: pattern.into(), about };
    CustomAdapter {
        name: "aider".into(),
        program: "aider".into(),
        args: vec!["--no-auto-commits".into(), "3".into()],
        headless_args: Some(["--yes", "--message-file", "-"].map(str::to_owned).to_vec()),
        resume_args: Some(vec!["--session".into(), "{session}".into()]),
        session: Some("session ([0-9a-f-]+)".into()),
        ready: Some("^> $".into()),
        interactions: vec![
            pattern(r"\(Y\)es/\(N\)o", AskKind::Permission),
            pattern("Which file", AskKind::Other),
        ],
        env: BTreeMap::from([("AIDER_KEY".into(), "${KEY}".into())]),
    }
}

#[test]
fn tasks_can_use_an_adapter_of_the_file() {
    let text = format!("stages: [{{tasks: [{{id: a, agent: aider, prompt: p}}]}}]\n{ADAPTERS}");
    let (file, report) = read(&text, &[("KEY", "canary-0123")], LoadPurpose::Run);
    assert_eq!(messages(&report), Vec::<String>::new());
    let file = file.expect("a workflow");
    assert_eq!(program(&file).adapter, "aider");
    assert_eq!(file.adapters, [aider()]);
}

#[test]
fn tasks_can_use_an_adapter_of_the_config() {
    let text = format!("agents: [{{id: a, backend: {{type: offline}}}}]\n{ADAPTERS}");
    let config =
        load_config(Source { name: "team.yaml", text: &text }, &env(&[("KEY", "k")]), LoadPurpose::Run);
    assert_eq!(messages(&config), Vec::<String>::new());
    let custom = config.config.expect("settings").config.adapters;
    assert_eq!(custom, [aider()]);
    let env = env(&[]);
    let surroundings = WorkflowContext {
        purpose: LoadPurpose::Run,
        cwd: "/start",
        env: Variables::all_own(&env),
        kinds: AGENT_KINDS,
        custom: &custom,
        agents: &[],
    };
    let text = one("agent: aider, prompt: p");
    let (file, report) = load_workflow(Source { name: "w.yaml", text: &text }, &surroundings);
    assert_eq!(messages(&report), Vec::<String>::new());
    assert_eq!(program(&file.expect("a workflow")).adapter, "aider");
}

#[test]
fn variables_stay_in_the_environment_as_written_and_their_values_are_masked() {
    let text = one(
        "agent: command, command: [sh, -c, 'echo ${NOT_OURS}'], prompt: '${NOR_THIS}', cwd: '${ROOT}/x', env: {TOKEN: 'Bearer ${MY_TOKEN}', D: '${UNSET:-d}'}",
    );
    let variables = [("MY_TOKEN", "canary-token-1"), ("ROOT", "/root-dir")];
    let (file, report) = read(&text, &variables, LoadPurpose::Run);
    assert_eq!(messages(&report), Vec::<String>::new());
    let spec = program(&file.expect("a workflow"));
    assert_eq!((spec.command[2].as_str(), spec.prompt.as_str()), ("echo ${NOT_OURS}", "${NOR_THIS}"));
    assert_eq!(spec.cwd, "/root-dir/x");
    assert_eq!(spec.env["TOKEN"], "Bearer ${MY_TOKEN}");
    assert!(!format!("{spec:?}").contains("canary"));
    assert!(report.secrets.iter().any(|secret| secret.reveal() == "canary-token-1"));

    let env = env(&variables);
    let filled = |text: &str| fill_variables("NAME", text, Variables::all_own(&env));
    assert_eq!(filled(&spec.env["TOKEN"]).as_deref(), Ok("Bearer canary-token-1"));
    assert_eq!(filled(&spec.env["D"]).as_deref(), Ok("d"));
    assert_eq!(filled("a $${X} $5"), Ok("a ${X} $5".to_owned()));
    assert_eq!(filled("${NONE}"), Err("NONE".to_owned()));
}

#[test]
fn the_programs_that_would_start_are_listed_without_secrets() {
    let text = one("agent: command, command: [curl, '--token=canary-1234'], prompt: ''");
    let file = right(&text);
    let told: Vec<(&str, &str)> =
        file.starts_processes().iter().map(|one| (one.location.as_str(), one.what.as_str())).collect();
    assert_eq!(told, [("stages[0].tasks[0]", "the command `curl --token=…`")]);
    assert_eq!(right(EXAMPLE).starts_processes()[0].what, "the agent `claude`");
    assert_eq!(right(&one("agent: writer, prompt: p")).starts_processes(), []);
}

#[test]
fn the_schema_of_workflows_comes_from_the_same_table() {
    let schema = workflow_schema();
    assert_eq!(schema["title"], "Althing workflow");
    assert_eq!(schema["required"], json!(["stages"]));
    let task = &schema["$defs"]["task"];
    assert_eq!(task["required"], json!(["id"]));
    assert_eq!(task["properties"]["executionMode"]["enum"], json!(["headless", "interactive", null]));
    assert_eq!(schema["$defs"]["adapter"]["properties"]["ready"]["format"], "regex");
}
