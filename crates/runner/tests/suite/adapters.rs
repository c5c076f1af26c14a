//! Tests the adapters against recorded arguments and output of the real CLI agents.

use althing_protocol::{AGENT_KINDS, ExecutionMode, Item, ProgramSpec, Secret, Usage};
use althing_runner::adapter::{
    Adapters, AgentAdapter, Conversations, Exit, LaunchConfig, LaunchRequest, Onboarding, OutputEvent,
    PermissionLevel, ProgramOutcome, Stream, ToolEndpoint, UserDefinedAdapter, find_program,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CWD: &str = "/home/user/work/repo";

fn sample(case: &str, kind: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/samples/{case}.{kind}"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const RECORDED: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

fn recorded_adapters() -> Vec<String> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let dirs = std::fs::read_dir(dir).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir());
    let found: Vec<String> = dirs.map(|entry| entry.file_name().into_string().unwrap()).collect();
    for name in RECORDED {
        assert!(found.iter().any(|found| found == name), "no recording of {name}");
    }
    found
}

fn adapter(name: &str) -> Arc<dyn AgentAdapter> {
    Arc::clone(Adapters::default().get(name).unwrap())
}

fn spec(adapter: &str, prompt: &str) -> ProgramSpec {
    let spec = serde_json::json!({"adapter": adapter, "mode": "headless", "prompt": prompt, "cwd": CWD});
    serde_json::from_value(spec).unwrap()
}

fn assignment<'a>(
    spec: &'a ProgramSpec,
    resume: Option<&'a str>,
    permissions: PermissionLevel,
) -> LaunchRequest<'a> {
    let new_conversation_id = "50fb67d5-4fe4-4198-9469-05ba78b9fa60";
    LaunchRequest {
        spec,
        resume,
        new_conversation_id,
        permissions,
        sandboxed: false,
        readable: &[],
        dir: Path::new("/task"),
        tools: None,
        as_root: true,
        onboarding: Onboarding::LeaveToAgent,
    }
}

fn headless(name: &str, prompt: &str, resume: Option<&str>, permissions: PermissionLevel) -> LaunchConfig {
    let spec = spec(name, prompt);
    adapter(name).headless_launch_config(&assignment(&spec, resume, permissions)).unwrap()
}

fn replay(case: &str, size: usize) -> (Vec<Item>, ProgramOutcome) {
    let name = case.split('/').next().unwrap();
    let mut parser = adapter(name).parser();
    let mut items = Vec::new();
    let mut emit = |event| {
        if let OutputEvent::Item(item) = event {
            items.push(item);
        }
    };
    parser.output(Stream::Err, b"", &althing_runner::clean(&sample(case, "stderr")), &mut emit);
    for piece in sample(case, "stdout").as_bytes().chunks(size) {
        parser.output(Stream::Out, piece, "", &mut emit);
    }
    let rc = sample(case, "rc");
    let code = rc.strip_prefix("rc=").unwrap().split(' ').next().unwrap().parse().unwrap();
    let outcome = parser.end(Exit { code: Some(code), signal: None }, &mut emit);
    (items, outcome)
}

fn recorded(case: &str) -> (Vec<Item>, ProgramOutcome) {
    let whole = replay(case, usize::MAX);
    assert_eq!(replay(case, 7), whole, "{case}");
    whole
}

#[test]
fn the_reply_of_a_model_is_noticed_before_its_first_tool_is_done_and_not_before_it_begins() {
    let cases = [
        (
            "claude",
            r#"{"type":"system","subtype":"init","session_id":"s"}"#,
            r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m","content":[]}}}"#,
        ),
        (
            "claude",
            r#"{"type":"system","subtype":"api_retry","attempt":1}"#,
            r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{}}]}}"#,
        ),
        (
            "codex",
            "{\"type\":\"thread.started\",\"thread_id\":\"s\"}\n{\"type\":\"turn.started\"}",
            r#"{"type":"item.started","item":{"id":"item_0","type":"command_execution","status":"in_progress"}}"#,
        ),
        (
            "gemini",
            "{\"type\":\"init\",\"session_id\":\"s\"}\n{\"type\":\"message\",\"role\":\"user\",\"content\":\"Do it\"}",
            r#"{"type":"tool_use","tool_name":"run_shell_command","tool_id":"t","parameters":{}}"#,
        ),
        (
            "opencode",
            r#"timestamp=2026-11-15 message="stream error""#,
            r#"{"type":"step_start","sessionID":"s","part":{"type":"step-start"}}"#,
        ),
    ];
    for (name, before, first) in cases {
        let mut parser = adapter(name).parser();
        let mut replies = |lines: &str| {
            let mut found = false;
            let mut emit = |event| found |= event == OutputEvent::ModelReplies;
            parser.output(Stream::Out, format!("{lines}\n").as_bytes(), "", &mut emit);
            found
        };
        assert!(!replies(before), "{name}: {before}");
        assert!(replies(first), "{name}: {first}");
    }
    // In recordings of real CLI agents, the sign that the model replies comes before everything else that the model
    // did. There is no sign if the model could not be reached.
    for name in RECORDED {
        let failed = if name == "claude" { "fail401-noretry" } else { "fail401" };
        for (case, is_reached) in [("final-new", true), (failed, false)] {
            let mut parser = adapter(name).parser();
            let mut events = Vec::new();
            let recording = sample(&format!("{name}/{case}"), "stdout");
            parser.output(Stream::Out, recording.as_bytes(), "", &mut |event| events.push(event));
            let is_sign = |event: &OutputEvent| match event {
                OutputEvent::Item(Item::Conversation { .. }) | OutputEvent::Trouble(_) => false,
                OutputEvent::Item(_)
                | OutputEvent::TextDelta(_)
                | OutputEvent::ModelReplies
                | OutputEvent::FailedCall { .. } => true,
            };
            let first = events.iter().find(|event| is_sign(event));
            let replies = matches!(first, Some(OutputEvent::ModelReplies | OutputEvent::TextDelta(_)));
            assert_eq!(replies, is_reached, "{name}/{case}: {first:?}");
        }
    }
}

// spec: core/agent-adapter-interface/launch-configuration
#[test]
fn an_adapter_gives_its_own_command_and_arguments() {
    let expected = [
        ("claude", "--session-id 50fb67d5-4fe4-4198-9469-05ba78b9fa60 --permission-mode default"),
        ("codex", "--no-daemon -c projects={\"/home/user/work/repo\"={trust_level=\"trusted\"}}"),
        ("gemini", "--session-id 50fb67d5-4fe4-4198-9469-05ba78b9fa60"),
        ("opencode", "--log-level INFO"),
    ];
    for (name, args) in expected {
        let mut spec = spec(name, "the prompt");
        spec.mode = ExecutionMode::Interactive;
        let config = adapter(name).launch_config(&assignment(&spec, None, PermissionLevel::Ask)).unwrap();
        assert_eq!((config.program.as_str(), config.args.join(" ").as_str()), (name, args));
        let resumed =
            adapter(name).launch_config(&assignment(&spec, Some("old-one"), PermissionLevel::Ask)).unwrap();
        assert!(resumed.args.contains(&"old-one".to_owned()), "{resumed:?}");
    }
    let mut spec = spec("command", "");
    spec.command = ["make", "-j", "a b"].map(str::to_owned).to_vec();
    let config = adapter("command").launch_config(&assignment(&spec, None, PermissionLevel::Full)).unwrap();
    assert_eq!((config.program.as_str(), config.args), ("make", vec!["-j".to_owned(), "a b".to_owned()]));
}

#[test]
fn first_start_dialogs_are_skipped_with_a_key_and_incomplete_settings() {
    let started = |name: &str, onboarding: Onboarding| {
        let spec = spec(name, "");
        let task = LaunchRequest { onboarding, ..assignment(&spec, None, PermissionLevel::Ask) };
        adapter(name).launch_config(&task).unwrap()
    };
    let has = |config: &LaunchConfig, variable: &str| config.env.iter().any(|(name, _)| name == variable);
    let known = started("claude", Onboarding::LeaveToAgent);
    assert!(has(&known, "CLAUDE_CODE_SANDBOXED") && !has(&known, "IS_DEMO"), "{known:?}");
    assert!(
        !known.args.contains(&"--settings".to_owned()),
        "the user's own settings decide about signing in: {known:?}"
    );
    let keyed = started("claude", Onboarding::SkipWithKey("ANTHROPIC_API_KEY"));
    assert!(has(&keyed, "IS_DEMO"), "{keyed:?}");
    assert!(keyed.args.contains(&r#"{"apiKeyHelper":"printenv ANTHROPIC_API_KEY"}"#.to_owned()), "{keyed:?}");
    let token = started("claude", Onboarding::SkipWithKey("ANTHROPIC_AUTH_TOKEN"));
    assert!(has(&token, "IS_DEMO") && !token.args.contains(&"--settings".to_owned()), "{token:?}");
    let known = started("gemini", Onboarding::LeaveToAgent);
    assert!(known.files.is_empty() && !has(&known, "GEMINI_CLI_HOME"), "{known:?}");
    let keyed = started("gemini", Onboarding::SkipWithKey("GEMINI_API_KEY"));
    assert!(has(&keyed, "GEMINI_CLI_HOME"), "{keyed:?}");
    assert!(keyed.files.iter().all(|file| file.path.starts_with("/task")), "a generated file: {keyed:?}");
}

// spec: core/agent-adapter-interface/headless-launch-configuration
#[test]
fn headless_arguments_match_the_recorded_ones() {
    let ids = [
        ("claude", "50fb67d5-4fe4-4198-9469-05ba78b9fa60"),
        ("codex", "01a1de3a-a536-7730-9b27-5810e92cdaae"),
        ("gemini", "5f338809-3f19-4c17-bc8d-6c4d0d60f496"),
        ("opencode", "ses_e21c51433ffew3s9ghjmaqeiRu"),
    ];
    for (name, id) in ids {
        for (case, resume) in [("final-new", None), ("final-resume", Some(id))] {
            let config = headless(name, "the prompt", resume, PermissionLevel::Full);
            let mut ours = vec![config.program];
            ours.extend(config.args);
            let new_conversation_id = "50fb67d5-4fe4-4198-9469-05ba78b9fa60";
            let theirs = sample(&format!("{name}/{case}"), "argv").replace(id, new_conversation_id);
            let mut ours: Vec<String> =
                ours.into_iter().map(|word| word.replace(id, new_conversation_id)).collect();
            let mut theirs: Vec<String> = theirs.split_whitespace().map(str::to_owned).collect();
            // This argument is newer than the recordings: Codex must not trust the project for ever.
            let untrusted = r#"projects={"/home/user/work/repo"={trust_level="untrusted"}}"#;
            if name == "codex" {
                let at = ours.iter().position(|word| word == untrusted).expect("the project is untrusted");
                assert_eq!(ours.drain(at - 1..=at).next().as_deref(), Some("-c"));
            }
            // The recordings do not have these arguments yet. opencode reports only in its logs that it repeats a
            // failed request.
            if name == "opencode" {
                theirs.extend(["--print-logs", "--log-level", "ERROR"].map(str::to_owned));
            }
            // For CLI agents other than Codex, the order of the arguments does not matter.
            if name != "codex" {
                ours.sort();
                theirs.sort();
            }
            assert_eq!(ours, theirs, "{name} {case}");
        }
    }
    let env = |name, permissions| headless(name, "", None, permissions).env;
    assert_eq!(env("claude", PermissionLevel::Full), [("IS_SANDBOX".to_owned(), "1".to_owned())]);
    assert_eq!(
        env("gemini", PermissionLevel::ReadOnly),
        [("GEMINI_CLI_TRUST_WORKSPACE".to_owned(), "true".to_owned())]
    );
}

#[test]
fn no_adapter_uses_its_bypass_flag_without_a_sandbox() {
    let bypass = ["skip-permissions", "bypass", "yolo", "--auto"];
    let line = |name: &str, permissions| headless(name, "", None, permissions).args.join(" ");
    for name in AGENT_KINDS.iter().map(|row| row.adapter) {
        for permissions in [PermissionLevel::ReadOnly, PermissionLevel::Workspace, PermissionLevel::Ask] {
            let line = line(name, permissions);
            assert!(!bypass.iter().any(|word| line.contains(word)), "{name}: {line}");
        }
    }
    // A CLI agent need not have a flag that skips its permission checks; these have one.
    for name in RECORDED {
        let line = line(name, PermissionLevel::Full);
        assert!(bypass.iter().any(|word| line.contains(word)), "{name}: {line}");
    }
}

#[test]
fn a_program_that_may_only_read_has_no_tool_that_writes_and_codex_can_still_read_inside_our_sandbox() {
    let spec = spec("codex", "");
    let args = |sandboxed| {
        let task = LaunchRequest { sandboxed, ..assignment(&spec, None, PermissionLevel::ReadOnly) };
        adapter("codex").headless_launch_config(&task).unwrap().args.join(" ")
    };
    assert!(args(false).contains("-s read-only"), "{}", args(false));
    assert!(args(true).contains("bypass") && !args(true).contains("read-only"), "{}", args(true));
    for (name, flag) in [("claude", "--tools Read,Grep,Glob"), ("gemini", "--approval-mode default")] {
        let line = headless(name, "", None, PermissionLevel::ReadOnly).args.join(" ");
        assert!(line.contains(flag), "{line}");
    }
    let env = format!("{:?}", headless("opencode", "", None, PermissionLevel::ReadOnly).env);
    assert!(env.contains(r#"\"edit\":\"deny\""#) && env.contains(r#"\"bash\":\"deny\""#), "{env}");
}

fn with_options(name: &str, permissions: PermissionLevel, options: &serde_json::Value) -> LaunchConfig {
    let mut spec = spec(name, "");
    spec.options = serde_json::from_value(options.clone()).unwrap();
    let kind = AGENT_KINDS.iter().find(|row| row.adapter == name).unwrap();
    let tools = ToolEndpoint {
        url: "http://127.0.0.1:1/agent/x".to_owned(),
        token: Secret::new("t"),
        names: ["new_answer", "vote"].map(str::to_owned).to_vec(),
        kind,
    };
    let task = LaunchRequest { tools: Some(&tools), ..assignment(&spec, None, permissions) };
    adapter(name).headless_launch_config(&task).unwrap()
}

fn after<'a>(config: &'a LaunchConfig, flag: &str) -> Option<&'a str> {
    let at = config.args.iter().position(|arg| arg == flag)?;
    config.args.get(at + 1).map(String::as_str)
}

fn file<'a>(config: &'a LaunchConfig, name: &str) -> &'a str {
    &config.files.iter().find(|file| file.path.ends_with(name)).unwrap().text
}

#[test]
fn claude_code_gets_its_tool_lists_and_prompts_and_keeps_our_tools() {
    let ours = "mcp__althingtools__new_answer,mcp__althingtools__vote";
    let lists = json!({"allowed_tools": ["Read", "Write", "Bash(git *)"], "disallowed_tools": ["WebFetch", "mcp__althingtools__vote"]});
    let config = with_options("claude", PermissionLevel::Full, &lists);
    assert_eq!(after(&config, "--tools"), Some("Read,Write,Bash"));
    assert_eq!(after(&config, "--allowedTools"), Some(&*format!("{ours},Read,Write,Bash(git *)")));
    assert_eq!(after(&config, "--disallowedTools"), Some("WebFetch"));
    assert_eq!(after(&config, "--permission-mode"), Some("dontAsk"));
    assert!(!config.args.iter().any(|arg| arg.contains("skip-permissions")), "{:?}", config.args);
    // A tool list never grants more than the permission level.
    for (permissions, tools) in
        [(PermissionLevel::Workspace, "Read,Write"), (PermissionLevel::ReadOnly, "Read")]
    {
        let config = with_options("claude", permissions, &lists);
        assert_eq!(after(&config, "--tools"), Some(tools));
        assert_eq!(after(&config, "--allowedTools"), Some(ours));
    }
    let none = with_options("claude", PermissionLevel::Full, &json!({"allowed_tools": []}));
    assert_eq!((after(&none, "--tools"), after(&none, "--allowedTools")), (Some(""), Some(ours)));
    let prompts = json!({"system_prompt": "-Be\nterse", "append_system_prompt": "More"});
    let config = with_options("claude", PermissionLevel::Full, &prompts);
    assert_eq!(after(&config, "--system-prompt-file"), Some("/task/claude-system-prompt.md"));
    assert_eq!(after(&config, "--append-system-prompt-file"), Some("/task/claude-appended-prompt.md"));
    assert_eq!(file(&config, "claude-system-prompt.md"), "-Be\nterse");
    assert_eq!(file(&config, "claude-appended-prompt.md"), "More");
    assert!(
        !config.args.iter().any(|arg| arg.contains("terse") || arg.contains("More")),
        "{:?}",
        config.args
    );
}

#[test]
fn codex_is_handed_its_prompts() {
    let prompts = json!({"system_prompt": "Be terse", "append_system_prompt": "Say \"hm\"\nfirst"});
    let config = with_options("codex", PermissionLevel::Full, &prompts);
    let instructions = "model_instructions_file=\"/task/codex-instructions.md\"".to_owned();
    assert!(config.args.contains(&instructions), "{:?}", config.args);
    assert_eq!(file(&config, "codex-instructions.md"), "Be terse");
    let developer = r#"developer_instructions="Say \"hm\"\nfirst""#.to_owned();
    assert!(config.args.contains(&developer), "{:?}", config.args);
}

#[test]
fn gemini_cli_gets_its_tool_lists_as_a_policy_and_its_prompt_as_a_file() {
    let options = json!({"allowed_tools": ["read_file", "write_file", "run_shell_command(git)"], "disallowed_tools": ["glob"], "system_prompt": "Be terse"});
    let config = with_options("gemini", PermissionLevel::Full, &options);
    assert_eq!(after(&config, "--policy"), Some("/task/gemini-policy.toml"));
    let rules =
        |permissions| file(&with_options("gemini", permissions, &options), "gemini-policy.toml").to_owned();
    let rule = |condition: &str, decision: &str, priority: u16| {
        format!("[[rule]]\n{condition}\ndecision = \"{decision}\"\npriority = {priority}\n")
    };
    let ours = rule("mcpName = \"althingtools\"\ntoolName = [\"new_answer\", \"vote\"]", "allow", 950);
    let others = rule("toolName = \"*\"", "deny", 100);
    let read = rule("toolName = \"read_file\"", "allow", 200);
    let write = rule("toolName = \"write_file\"", "allow", 200);
    let git = rule("toolName = \"run_shell_command\"\ncommandPrefix = \"git\"", "allow", 200);
    let glob = rule("toolName = \"glob\"", "deny", 900);
    assert_eq!(rules(PermissionLevel::Full), [&*ours, &others, &read, &write, &git, &glob].concat());
    assert_eq!(rules(PermissionLevel::Workspace), [&*ours, &others, &read, &write, &glob].concat());
    assert_eq!(rules(PermissionLevel::ReadOnly), [&*ours, &others, &read, &glob].concat());
    assert!(config.env.contains(&("GEMINI_SYSTEM_MD".to_owned(), "/task/gemini-system.md".to_owned())));
    assert_eq!(file(&config, "gemini-system.md"), "Be terse");
}

#[test]
fn opencode_gets_its_tool_lists_as_permissions_and_its_prompts_as_files() {
    let options = json!({"allowed_tools": ["read", "write", "bash"], "disallowed_tools": ["webfetch"], "system_prompt": "Be terse", "append_system_prompt": "More"});
    let settings = |permissions, options: &serde_json::Value| -> serde_json::Value {
        opencode_settings(&with_options("opencode", permissions, options))
    };
    let full = settings(PermissionLevel::Full, &options);
    let rule =
        |settings: &serde_json::Value, tool: &str| settings["permission"][tool].as_str().map(str::to_owned);
    let rules = |settings: &serde_json::Value| {
        ["*", "read", "edit", "bash", "glob", "webfetch", "althingtools_*"]
            .map(|tool| rule(settings, tool).unwrap_or_default())
    };
    assert_eq!(rules(&full), ["deny", "allow", "allow", "allow", "deny", "deny", "allow"]);
    let first = full["permission"].as_object().unwrap().keys().next().unwrap();
    assert_eq!(first, "*", "the last rule that fits decides");
    let workspace = settings(PermissionLevel::Workspace, &options);
    assert_eq!(rules(&workspace), ["deny", "allow", "allow", "deny", "deny", "deny", "allow"]);
    let read_only = settings(PermissionLevel::ReadOnly, &options);
    assert_eq!(rules(&read_only), ["deny", "allow", "deny", "deny", "deny", "deny", "allow"]);
    assert_eq!(full["agent"]["build"]["prompt"], "{file:/task/opencode-prompt.md}");
    assert_eq!(full["instructions"], json!(["/task/opencode-instructions.md"]));
    let config = with_options("opencode", PermissionLevel::Full, &options);
    assert_eq!(file(&config, "opencode-prompt.md"), "Be terse");
    assert_eq!(file(&config, "opencode-instructions.md"), "More");
    let only_less = settings(PermissionLevel::Full, &json!({"disallowed_tools": ["bash"]}));
    assert_eq!((rule(&only_less, "bash"), rule(&only_less, "*")), (Some("deny".to_owned()), None));
}

#[test]
fn a_cli_agent_that_may_edit_its_workspace_gets_the_equivalent_permission_mode() {
    let started = |name: &str| with_options(name, PermissionLevel::Workspace, &json!({}));
    let claude = started("claude");
    assert_eq!(after(&claude, "--permission-mode"), Some("acceptEdits"));
    assert!(claude.args.contains(&"--restricted".to_owned()), "{:?}", claude.args);
    let codex = started("codex");
    assert_eq!(after(&codex, "-s"), Some("workspace-write"));
    for excluded in ["exclude_slash_tmp", "exclude_tmpdir_env_var"] {
        let setting = format!("sandbox_workspace_write.{excluded}=true");
        assert!(codex.args.contains(&setting), "{:?}", codex.args);
    }
    assert_eq!(after(&started("gemini"), "--approval-mode"), Some("auto_edit"));
    let rules = &opencode_settings(&started("opencode"))["permission"];
    assert_eq!(
        (&rules["edit"], &rules["bash"], &rules["*"]),
        (&json!("allow"), &json!("deny"), &json!("deny"))
    );
}

fn asking_a_person(name: &str, options: &serde_json::Value) -> [LaunchConfig; 2] {
    let mut spec = spec(name, "");
    spec.options = serde_json::from_value(options.clone()).unwrap();
    let task = assignment(&spec, None, PermissionLevel::Ask);
    let adapter = adapter(name);
    [adapter.launch_config(&task).unwrap(), adapter.structured_protocol(&task).unwrap().0]
}

fn opencode_settings(config: &LaunchConfig) -> serde_json::Value {
    let (_, text) = config.env.iter().find(|(name, _)| name == "OPENCODE_CONFIG_CONTENT").unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_cli_agent_that_asks_a_person_gets_the_equivalent_of_the_configs_permission_mode() {
    let modes = [
        ("default", "default", "default", ["ask", "ask"]),
        ("acceptEdits", "acceptEdits", "auto_edit", ["allow", "ask"]),
        // Where a person can be asked, `bypassPermissions` is ignored and the person is asked.
        ("bypassPermissions", "default", "default", ["ask", "ask"]),
        ("plan", "plan", "plan", ["deny", "deny"]),
    ];
    for (mode, claude, gemini, opencode) in modes {
        let options = json!({ "permission_mode": mode });
        for config in asking_a_person("claude", &options) {
            assert_eq!(after(&config, "--permission-mode"), Some(claude), "{:?}", config.args);
            let tools = (mode == "plan").then_some("Read,Grep,Glob");
            assert_eq!(after(&config, "--tools"), tools, "{:?}", config.args);
        }
        for config in asking_a_person("codex", &options) {
            for setting in ["sandbox_mode=\"read-only\"", "approval_policy=\"never\""] {
                let has_it = config.args.contains(&setting.to_owned());
                assert_eq!(has_it, mode == "plan", "{:?}", config.args);
            }
        }
        for config in asking_a_person("gemini", &options) {
            assert_eq!(after(&config, "--approval-mode"), Some(gemini), "{:?}", config.args);
        }
        for config in asking_a_person("opencode", &options) {
            let rules = &opencode_settings(&config)["permission"];
            assert_eq!([&rules["edit"], &rules["bash"]], opencode, "{mode}: {rules}");
        }
    }
}

#[test]
fn a_cli_agent_that_asks_a_person_gets_the_configs_tool_lists_and_prompts() {
    let lists = json!({"allowed_tools": ["Read", "Bash(git *)"], "disallowed_tools": ["WebFetch"], "system_prompt": "Be terse", "append_system_prompt": "More"});
    for config in asking_a_person("claude", &lists) {
        assert_eq!(after(&config, "--tools"), Some("Read,Bash"), "{:?}", config.args);
        assert_eq!(after(&config, "--disallowedTools"), Some("WebFetch"), "{:?}", config.args);
        assert_eq!(file(&config, "claude-system-prompt.md"), "Be terse");
        assert_eq!(file(&config, "claude-appended-prompt.md"), "More");
        for flag in ["--system-prompt-file", "--append-system-prompt-file"] {
            assert!(after(&config, flag).is_some(), "{:?}", config.args);
        }
    }
    for config in
        asking_a_person("codex", &json!({"system_prompt": "Be terse", "append_system_prompt": "More"}))
    {
        assert_eq!(file(&config, "codex-instructions.md"), "Be terse");
        let settings =
            ["model_instructions_file=\"/task/codex-instructions.md\"", "developer_instructions=\"More\""];
        for setting in settings {
            assert!(config.args.contains(&setting.to_owned()), "{:?}", config.args);
        }
    }
    let lists = json!({"allowed_tools": ["read_file", "run_shell_command"], "disallowed_tools": ["glob"], "system_prompt": "Be terse"});
    for config in asking_a_person("gemini", &lists) {
        assert_eq!(after(&config, "--policy"), Some("/task/gemini-policy.toml"), "{:?}", config.args);
        let rules = file(&config, "gemini-policy.toml");
        for (tool, decision) in
            [("*", "deny"), ("read_file", "allow"), ("run_shell_command", "ask_user"), ("glob", "deny")]
        {
            let rule = format!("toolName = \"{tool}\"\ndecision = \"{decision}\"\n");
            assert!(rules.contains(&rule), "{tool}: {rules}");
        }
        assert_eq!(file(&config, "gemini-system.md"), "Be terse");
        assert!(config.env.contains(&("GEMINI_SYSTEM_MD".to_owned(), "/task/gemini-system.md".to_owned())));
    }
    let lists = json!({"allowed_tools": ["read", "bash", "webfetch", "todowrite"], "disallowed_tools": ["webfetch"], "system_prompt": "Be terse", "append_system_prompt": "More"});
    for config in asking_a_person("opencode", &lists) {
        let settings = opencode_settings(&config);
        let rules =
            ["*", "read", "bash", "todowrite", "edit", "webfetch"].map(|tool| &settings["permission"][tool]);
        assert_eq!(rules, ["deny", "allow", "ask", "ask", "deny", "deny"], "{settings}");
        assert_eq!(settings["agent"]["build"]["prompt"], "{file:/task/opencode-prompt.md}");
        assert_eq!(settings["instructions"], json!(["/task/opencode-instructions.md"]));
        assert_eq!(file(&config, "opencode-prompt.md"), "Be terse");
        assert_eq!(file(&config, "opencode-instructions.md"), "More");
    }
}

#[test]
fn the_reasoning_effort_is_passed_to_every_cli_agent_that_has_an_option_for_it() {
    let options = json!({"reasoning_effort": "low"});
    for kind in AGENT_KINDS.iter().filter(|kind| kind.supports.contains(&"reasoning_effort")) {
        let name = kind.adapter;
        let headless = with_options(name, PermissionLevel::Full, &options);
        let [terminal, structured] = asking_a_person(name, &options);
        for (start, config) in [("headless", headless), ("terminal", terminal), ("structured", structured)] {
            let has_arg = |arg: &str| config.args.iter().any(|found| found == arg);
            let passed = match (name, start) {
                ("claude", _) => has_arg("--effort=low"),
                ("codex", _) => has_arg("model_reasoning_effort=\"low\""),
                ("opencode", "headless") => has_arg("--variant=low"),
                ("opencode", _) => opencode_settings(&config)["agent"]["build"]["variant"] == "low",
                _ => false,
            };
            assert!(passed, "{name}, {start}: {config:?}");
        }
    }
    let mut spec = spec("opencode", "");
    spec.model = Some("anthropic/some-model".to_owned());
    spec.options = serde_json::from_value(json!({"reasoning_effort": "low", "system_prompt": "x"})).unwrap();
    let task = assignment(&spec, None, PermissionLevel::Ask);
    let settings = opencode_settings(&adapter("opencode").launch_config(&task).unwrap());
    assert_eq!(
        settings["agent"]["build"],
        json!({"model": "anthropic/some-model", "variant": "low", "prompt": "{file:/task/opencode-prompt.md}"})
    );
}

fn prompts() -> Vec<String> {
    let mut prompts: Vec<String> = [
        "--help",
        "-h",
        "-",
        "--",
        "-rf /",
        "--version\n--model x",
        "resume",
        "; rm -rf /",
        "$(id)",
        "`id`",
        "'\"\\",
        "a\0b",
        "\u{1b}[31m",
        "ä✓🎉",
        "",
        " ",
        "\n\n--print",
    ]
    .map(str::to_owned)
    .to_vec();
    prompts.push("x".repeat(200_000));
    let words = ["-", "--", "p", "\n", "=", "yolo", " ", "'", "$", "\0", "{session}", "{model}", "🎉"];
    let mut dice = 7_u64;
    while prompts.len() < 200 {
        let mut prompt = String::new();
        for _ in 0..6 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            prompt.push_str(words[(dice >> 33) as usize % words.len()]);
        }
        prompts.push(prompt);
    }
    prompts
}

#[test]
fn no_prompt_reaches_the_arguments_the_environment_or_a_shell() {
    let custom = UserDefinedAdapter {
        name: "mine".to_owned(),
        program: "mine".to_owned(),
        headless_args: Some(vec!["--id={session}".to_owned(), "--model={model}".to_owned()]),
        ..UserDefinedAdapter::default()
    };
    let adapters = Adapters::with(vec![custom]);
    for adapter in adapters.all() {
        for resume in [None, Some("some-id")] {
            let config = |prompt: &str| {
                let mut spec = spec(adapter.name(), prompt);
                spec.command = vec!["true".to_owned()];
                adapter.headless_launch_config(&assignment(&spec, resume, PermissionLevel::Full)).unwrap()
            };
            let plain = config("");
            assert!(!["sh", "bash", "/bin/sh"].contains(&plain.program.as_str()));
            for prompt in prompts() {
                assert_eq!(config(&prompt), plain, "{} with {prompt:?}", adapter.name());
            }
        }
    }
}

#[test]
fn recorded_successes_give_message_conversation_tools_and_usage() {
    let cases = [
        ("claude", "50fb67d5-4fe4-4198-9469-05ba78b9fa60", "Bash", "(Bash completed with no output)"),
        ("codex", "01a1de3a-a536-7730-9b27-5810e92cdaae", "shell", "Process exited with code 0"),
        ("gemini", "5f338809-3f19-4c17-bc8d-6c4d0d60f496", "run_shell_command", "Output: (empty)"),
        ("opencode", "ses_e21c51433ffew3s9ghjmaqeiRu", "bash", "(no output)"),
    ];
    for (name, id, tool, words) in cases {
        let (items, outcome) = recorded(&format!("{name}/final-new"));
        assert!(outcome.ok && outcome.error.is_none(), "{name}: {outcome:?}");
        assert!(outcome.message.as_ref().unwrap().contains(words), "{name}: {outcome:?}");
        assert_eq!(items[0], Item::Conversation { id: id.to_owned() });
        let used = items.iter().any(|item| {
            matches!(item, Item::Did { tool: used, detail, is_error: false, .. }
                if used == tool && detail.contains("touch final1.txt"))
        });
        assert!(used, "{name}: {items:?}");
        let last = items
            .iter()
            .rev()
            .find_map(|item| if let Item::Said { text } = item { Some(text) } else { None });
        assert_eq!(last, outcome.message.as_ref(), "{name}");
        let mut spent = outcome.usage.this_run;
        spent += outcome.usage.conversation_total;
        assert!(
            spent.input_tokens >= 50 && spent.output_tokens >= 24 && spent.calls >= 2,
            "{name}: {spent:?}"
        );
        let (again, outcome) = recorded(&format!("{name}/final-resume"));
        assert!(outcome.ok && outcome.message.unwrap().contains("-x ECHO resumed via stdin"), "{name}");
        assert_eq!(again[0], Item::Conversation { id: id.to_owned() });
    }
}

#[test]
fn usage_of_a_whole_conversation_is_reported_separately() {
    let claude = recorded("claude/final-resume").1.usage;
    assert_eq!(
        (claude.this_run.input_tokens, claude.this_run.cost_usd, claude.conversation_total.cost_usd),
        (25, 0.0, 0.00102)
    );
    let codex = recorded("codex/final-resume").1.usage;
    assert_eq!((codex.this_run.input_tokens, codex.conversation_total.input_tokens), (0, 75));
    assert_eq!(recorded("opencode/final-resume").1.usage.conversation_total, Usage::default());
}

#[test]
fn recorded_failures_give_an_error_and_a_hint() {
    let cases = [
        ("claude/fail401-noretry", "Failed to authenticate. API Error: 401", Some("sign in")),
        ("claude/resume-bad", "No conversation found with session ID", None),
        ("claude/session-id-reuse", "is already in use", None),
        ("codex/fail401", "unexpected status 401 Unauthorized", Some("codex login")),
        ("codex/resume-bad", "no rollout found", None),
        ("gemini/fail401", "fake failure", Some("GEMINI_API_KEY")),
        ("gemini/resume-bad", "Invalid session identifier", Some("in the directory where")),
        ("opencode/fail401", "fake failure", Some("opencode auth login")),
        ("opencode/resume-bad", "Session not found", None),
        ("opencode/tool-ask", "did not finish its turn", Some("permission rules refused")),
    ];
    for (case, error, hint) in cases {
        let (_, outcome) = recorded(case);
        assert!(!outcome.ok, "{case}");
        assert!(outcome.error.as_deref().unwrap().contains(error), "{case}: {:?}", outcome.error);
        let reported = outcome.hint.as_deref().unwrap_or_default();
        assert!(hint.is_none_or(|hint| reported.contains(hint)), "{case}: {reported}");
    }
    let (items, outcome) = recorded("claude/tool-default");
    assert!(outcome.ok && outcome.hint.unwrap().contains("not allowed to use a tool"));
    assert!(items.iter().any(|item| matches!(item, Item::Did { is_error: true, .. })), "{items:?}");
}

#[test]
fn an_adapter_recognizes_only_its_own_cli_agents_error_for_a_lost_conversation() {
    for name in RECORDED {
        let error = recorded(&format!("{name}/resume-bad")).1.error.unwrap();
        for other in RECORDED {
            assert_eq!(adapter(other).is_lost_conversation(&error), other == name, "{other}: {error}");
        }
        assert!(UserDefinedAdapter::default().is_lost_conversation(&error), "a wrapper of {name}: {error}");
        assert!(!adapter("command").is_lost_conversation(&error), "{error}");
        assert!(!adapter(name).is_lost_conversation("API Error: 401"), "{name}");
    }
}

#[test]
fn a_signal_or_a_missing_final_event_is_a_failure() {
    for name in &recorded_adapters() {
        let mut parser = adapter(name).parser();
        let output = sample(&format!("{name}/final-new"), "stdout");
        parser.output(Stream::Out, output.as_bytes(), "", &mut |_| ());
        let outcome = parser.end(Exit { code: None, signal: Some(15) }, &mut |_| ());
        assert!(!outcome.ok && outcome.error.is_some(), "{name}: {outcome:?}");
        // The output without its last event, as gemini ends after SIGTERM: exit code 0 and no result.
        let (cut, _) = output.trim_end().rsplit_once('\n').unwrap();
        let mut parser = adapter(name).parser();
        parser.output(Stream::Out, cut.as_bytes(), "", &mut |_| ());
        let outcome = parser.end(Exit { code: Some(0), signal: None }, &mut |_| ());
        assert!(!outcome.ok && outcome.error.is_some(), "{name}: {outcome:?}");
    }
}

#[test]
fn the_messages_of_a_claude_turn_without_a_result_count() {
    let output = sample("claude/tool-default", "stdout");
    let (cut, _) = output.trim_end().rsplit_once('\n').unwrap();
    let mut parser = adapter("claude").parser();
    parser.output(Stream::Out, cut.as_bytes(), "", &mut |_| ());
    let usage = parser.end(Exit { code: None, signal: Some(9) }, &mut |_| ()).usage;
    let this_run = usage.this_run;
    assert_eq!((this_run.input_tokens, this_run.calls, this_run.unpriced_calls), (50, 3, 1), "{usage:?}");
    assert!(this_run.output_tokens > 10, "{usage:?}");
    let [by_model] = &usage.by_model[..] else { panic!("{usage:?}") };
    assert_eq!((by_model.model.as_str(), by_model.usage.input_tokens), ("claude-opus-5-5", 50));
}

#[test]
fn an_endless_event_is_dropped_within_bounded_memory_and_later_ones_are_read() {
    let mut parser = adapter("codex").parser();
    let mut said = Vec::new();
    let mut emit = |event| said.push(event);
    for _ in 0..20_000 {
        parser.output(Stream::Out, &[b'x'; 1024], "", &mut emit);
    }
    parser.output(Stream::Out, b"\n{\"type\":\"turn.completed\",\"usage\":{}}\n", "", &mut emit);
    assert!(parser.end(Exit { code: Some(0), signal: None }, &mut emit).ok);
}

#[test]
fn a_users_own_adapter_is_data() {
    let custom = UserDefinedAdapter {
        name: "mine".to_owned(),
        program: "my-agent".to_owned(),
        args: vec!["chat".to_owned()],
        headless_args: Some(["run", "--model={model}", "-C", "{cwd}"].map(str::to_owned).to_vec()),
        resume_args: Some(["--continue", "{session}"].map(str::to_owned).to_vec()),
        ..UserDefinedAdapter::default()
    };
    let adapters = Adapters::with(vec![custom]);
    let mine = adapters.get("mine").unwrap();
    assert_eq!(mine.conversations(), Conversations::IdReported);
    let mut spec = spec("mine", "");
    let config = |spec: &ProgramSpec, resume| {
        mine.headless_launch_config(&assignment(spec, resume, PermissionLevel::Full)).unwrap().args.join(" ")
    };
    assert_eq!(config(&spec, None), format!("run -C {CWD}"), "no model, no argument for it");
    spec.model = Some("big".to_owned());
    assert_eq!(config(&spec, Some("s1")), format!("run --model=big -C {CWD} --continue s1"));
}

#[test]
fn programs_are_found_by_path_or_in_path_but_never_in_the_current_directory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tool");
    std::fs::write(&file, "").unwrap();
    let search = format!(".::{}", dir.path().display());
    assert_eq!(find_program("tool", &search), None, "not executable");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(find_program("tool", &search), Some(file.clone()));
    assert_eq!(find_program(file.to_str().unwrap(), ""), Some(file));
    assert_eq!(find_program("Cargo.toml", "."), None);
}
