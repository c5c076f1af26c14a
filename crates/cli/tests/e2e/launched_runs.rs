//! What a launch adds for one run, the sections of the chat agent's prompt, and the defaults of `interactive_mode`,
//! each as seen in the requests that models and a stand-in for Claude Code received.

use std::path::PathBuf;

use althing_testkit::process::wait_for_event;
use althing_testkit::{Action, Althing, FakeModel, Parliament, RecordedRequest, Reply, Script, Usage};
use serde_json::{Value, json};

use super::mcp::Client;
use super::scripted_claude;
use super::support::{Fixture, LIMIT, Team, of_type, texts};

const CHAT_MODEL: &str = "talker";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrontEnd {
    Chat,
    Workflow,
    Mcp,
}

fn tool_results(request: &RecordedRequest) -> Vec<String> {
    let results = request.messages().iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The chat agent launches one run after the other; the model in the runs first tries to read these files.
fn launching(launches: [Value; 2], files: [PathBuf; 2]) -> Script {
    Script::from_fn(move |request: &RecordedRequest| -> Action {
        let done = tool_results(request).len();
        if request.model() == CHAT_MODEL {
            let next = launches.get(done).map(|launch| Reply::call("launch_run", launch));
            return next.unwrap_or_else(|| Reply::text("Done.")).into();
        }
        if done == 0 && request.tool_names().contains(&"read_file") {
            let [first, second] = files.each_ref().map(|file| json!({"path": file}));
            return Reply::call("read_file", &first).and_call("read_file", &second).into();
        }
        Parliament::default().reply(request).into()
    })
}

fn launch_both(front_end: FrontEnd, althing: &Althing, launches: &[Value; 2]) {
    match front_end {
        FrontEnd::Chat => {
            let args = ["chat", "--config", "team.yaml", "--approve", "always"];
            let output =
                althing.new_command().args(args).stdin("Do both\n").spawn().wait(LIMIT).expect_code(0);
            assert!(output.stdout.ends_with("Done.\n"), "{output:?}");
        }
        FrontEnd::Workflow => {
            let stages: Vec<Value> = (1..)
                .zip(launches)
                .map(|(n, launch)| json!({"name": format!("s{n}"), "tasks": [{"id": format!("t{n}"), "run": launch}]}))
                .collect();
            althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
            let args = ["workflow", "run", "flow.yaml", "--config", "team.yaml"];
            althing.new_command().args(args).spawn().wait(LIMIT).expect_code(0);
        }
        FrontEnd::Mcp => {
            let mut client = Client::start(althing, &["--config", "team.yaml"]);
            for launch in launches {
                let launched = client.tool("launch_run", launch);
                assert_eq!(launched["structuredContent"]["status"], "completed", "{launched}");
            }
            client.running.close_stdin();
            client.running.wait(LIMIT).expect_code(0);
        }
    }
}

// spec: design/launch-run/agent-system-prompts
// spec: design/launch-run/context-paths
#[test]
fn additional_prompts_and_context_paths_reach_the_agents_of_that_run_only() {
    for front_end in [FrontEnd::Chat, FrontEnd::Workflow, FrontEnd::Mcp] {
        let althing = scripted_claude::on_pipes(&super::support::althing());
        // The directories are outside the working directory, so that no agent may read them unless the config or the
        // launch adds them. Over MCP nobody approves the launch, so the directory that it adds has to be inside.
        let work = althing.work_dir().canonicalize().unwrap();
        let outside = work.parent().unwrap().to_owned();
        let base = outside.join("base");
        let extra = if front_end == FrontEnd::Mcp { work.join("extra") } else { outside.join("extra") };
        for (dir, file, text) in
            [(&base, "base.txt", "the common note\n"), (&extra, "note.txt", "the hidden note\n")]
        {
            std::fs::create_dir(dir).unwrap();
            std::fs::write(dir.join(file), text).unwrap();
        }
        let first = json!({"task": "The first task.", "refinement": false, "context_paths": [{"path": extra}],
            "agent_system_prompts": {"a": "Always rhyme.", "b": "Always whisper."}});
        let launches = [first, json!({"task": "The second task.", "refinement": false})];
        let files = [base.join("base.txt"), extra.join("note.txt")];
        let server = FakeModel::start_on_thread(launching(launches.clone(), files));
        let chat = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": server.base_url()});
        let team = Team::on(&server.base_url(), 1)
            .every_backend("cwd", "work")
            .agent("b", &json!({"type": "claude_code"}))
            .rule("context_paths", json!([{"path": base, "permission": "read"}]))
            .rule(
                "interactive_mode",
                json!({"backend": chat, "require_approval": front_end != FrontEnd::Mcp}),
            );
        althing.file("team.yaml", team.text());
        launch_both(front_end, &althing, &launches);

        let [inherited_line, added_line] = [&base, &extra].map(|dir| format!("- {} (", dir.display()));
        for (task, is_first) in [("The first task.", true), ("The second task.", false)] {
            let requests: Vec<RecordedRequest> = server.requests_of("model-a");
            let of_run: Vec<&RecordedRequest> =
                requests.iter().filter(|request| texts(request).contains(task)).collect();
            assert!(of_run.len() >= 3, "{front_end:?}: an answer with tool calls, and a vote");
            for request in of_run {
                let system = request.system_text();
                assert_eq!(system.contains("Always rhyme."), is_first, "{front_end:?}, {task}: {system}");
                assert!(!system.contains("whisper"), "{front_end:?}, {task}: {system}");
                assert!(system.contains(&inherited_line), "{front_end:?}, {task}: {system}");
                assert_eq!(system.contains(&added_line), is_first, "{front_end:?}, {task}: {system}");
                let read = tool_results(request).join("\n");
                assert!(
                    read.is_empty()
                        || (read.contains("the common note") && read.contains("the hidden note") == is_first),
                    "{front_end:?}, {task}: {read}"
                );
            }
            let calls = scripted_claude::calls(&althing);
            let of_run: Vec<&Value> =
                calls.iter().filter(|call| call["prompt"].as_str().unwrap().contains(task)).collect();
            let prompt = of_run[0]["prompt"].as_str().unwrap();
            assert_eq!(prompt.contains("Always whisper."), is_first, "{front_end:?}, {task}: {prompt}");
            assert!(prompt.contains(&inherited_line), "{front_end:?}, {task}: {prompt}");
            assert_eq!(prompt.contains(&added_line), is_first, "{front_end:?}, {task}: {prompt}");
            let mut readable = if is_first { vec![&base, &extra] } else { vec![&base] };
            readable.sort();
            for call in of_run {
                assert!(!call["prompt"].as_str().unwrap().contains("rhyme"), "{front_end:?}, {task}: {call}");
                assert_eq!(call["readable"], json!(readable), "{front_end:?}, {task}");
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Identity,
    Skills,
    Memory,
    TaskPlanning,
    Workspace,
    Gpt5,
    Grok,
    ClaudeModel,
}

impl Section {
    const ALL: [Self; 8] = [
        Self::Identity,
        Self::Skills,
        Self::Memory,
        Self::TaskPlanning,
        Self::Workspace,
        Self::Gpt5,
        Self::Grok,
        Self::ClaudeModel,
    ];

    fn model(self) -> Option<&'static str> {
        match self {
            Self::Gpt5 => Some("gpt-5-mini"),
            Self::Grok => Some("grok-4"),
            Self::ClaudeModel => Some("claude-opus-4-5"),
            _ => None,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Identity => "You are Ada, the host.",
            Self::Skills => "- pdf: Reads PDF. (",
            Self::Memory => "Your notes outlast this run.",
            Self::TaskPlanning => "create_task_plan before you begin",
            Self::Workspace => "You work in the project workspace ",
            Self::Gpt5 => "Continue until the request is complete",
            Self::Grok => "never write a tool call as text",
            Self::ClaudeModel => "Do what was asked and no more",
        }
    }
}

/// Runs `althing chat` with a chat agent that uses the first agent's backend, and with a config that turns on at most
/// one section of the prompt. Returns the chat agent's prompt, and the names of its tools or, for a CLI agent, the
/// arguments of its program.
fn chat_prompt(is_cli_agent: bool, configured: Option<Section>) -> (String, Vec<String>) {
    let server = FakeModel::start_on_thread(Script::always(Reply::text("Hello.")));
    let althing = scripted_claude::on_pipes(&super::support::althing());
    althing.file("my-skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDF.\n---\nUse pdftotext.\n");
    let model = configured.and_then(Section::model);
    let mut backend = json!({"type": "claude_code"});
    if !is_cli_agent {
        backend = json!({"type": "chatcompletion", "model": "model-a", "base_url": server.base_url()});
    }
    if let Some(model) = model {
        backend["model"] = model.into();
    }
    let mut config =
        json!({"agents": [{"id": "a", "backend": backend}], "orchestrator": {"interactive_mode": {}}});
    let coordination = &mut config["orchestrator"]["coordination"];
    let mut args = vec!["chat", "--config", "team.yaml"];
    match configured {
        Some(Section::Identity) => config["agents"][0]["system_message"] = Section::Identity.text().into(),
        Some(Section::Skills) => *coordination = json!({"use_skills": true, "skills_directory": "my-skills"}),
        Some(Section::Memory) => *coordination = json!({"enable_memory_filesystem_mode": true}),
        Some(Section::TaskPlanning) => *coordination = json!({"enable_agent_task_planning": true}),
        Some(Section::Workspace) => args.extend(["--project", "my-app"]),
        Some(Section::Gpt5 | Section::Grok | Section::ClaudeModel) | None => {}
    }
    if config["orchestrator"]["coordination"].is_null() {
        config["orchestrator"].as_object_mut().unwrap().remove("coordination");
    }
    althing.file("team.yaml", config.to_string());
    althing.new_command().args(args).stdin("Good morning\n").spawn().wait(LIMIT).expect_code(0);
    if is_cli_agent {
        let call = scripted_claude::calls(&althing).remove(0);
        let arguments =
            call["arguments"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
        return (call["prompt"].as_str().unwrap().to_owned(), arguments.collect());
    }
    let request = server.requests().remove(0);
    (request.system_text(), request.tool_names().into_iter().map(str::to_owned).collect())
}

// spec: interactive/interactive-agent-system-prompt/reused-system-prompt-sections
#[test]
fn the_chat_agents_prompt_has_each_section_if_and_only_if_it_is_configured() {
    for is_cli_agent in [false, true] {
        for configured in Section::ALL.map(Some).into_iter().chain([None]) {
            let (prompt, tools) = chat_prompt(is_cli_agent, configured);
            let place = format!("CLI agent: {is_cli_agent}, {configured:?}:\n{prompt}");
            for always in ["Do what the user asks rather than describe", "Call several tools at once"] {
                assert!(prompt.contains(always), "{place}");
            }
            for section in Section::ALL {
                // The list of agents repeats an agent's identity, so only the beginning of the prompt counts.
                let is_there = match section {
                    Section::Identity => prompt.starts_with(section.text()),
                    _ => prompt.contains(section.text()),
                };
                assert_eq!(is_there, configured == Some(section), "{section:?}; {place}");
            }
            let has_task_tools = tools.iter().any(|tool| tool.contains("create_task_plan"));
            assert_eq!(has_task_tools, configured == Some(Section::TaskPlanning), "{tools:?}");
        }
    }
}

/// A chat agent that launches a run if asked to, and reports this many tokens with every reply.
fn counting(tokens: u64) -> Script {
    Script::from_fn(move |request: &RecordedRequest| {
        let wants_run = request.last_user_text().contains("Launch it")
            && request.messages().last().is_some_and(|message| message["role"] == "user");
        let reply = if wants_run && request.tool_names().contains(&"launch_run") {
            Reply::call("launch_run", &json!({"task": "Count."}))
        } else {
            Reply::text("Noted.")
        };
        reply.usage(Usage { input: tokens, ..Usage::default() })
    })
}

fn empty_section(tokens: u64) -> (Fixture, FakeModel) {
    let second = FakeModel::start_on_thread(Script::parliament());
    let other = second.base_url();
    let fixture = Fixture::with(2, counting(tokens), |team| {
        team.backend(1, "base_url", other).rule("interactive_mode", json!({}))
    });
    (fixture, second)
}

// spec: interactive/interactive-mode-configuration/default-values
#[test]
fn an_empty_interactive_mode_section_talks_to_the_first_agents_backend_and_asks_before_a_run() {
    let (fixture, second) = empty_section(100);
    let mut terminal = fixture.althing.new_command().args(["--config", "team.yaml"]).terminal(120, 40);
    let screen = terminal.wait_for("Type a message...", LIMIT);
    assert!(screen.contains("Interactive") && !screen.contains("Interactive off"), "{screen}");
    terminal.keys("Launch it\r");
    terminal.wait_for("Launch this run?", LIMIT);
    let asked =
        wait_for_event(&fixture.althing.state_dir(), LIMIT, |event| event["type"] == "interaction_opened");
    assert_eq!(asked["data"]["kind"], "run_approval", "{asked}");
    let requests = fixture.server.requests();
    assert_eq!(requests.len(), 1, "only the chat agent was called");
    assert_eq!(requests[0].model(), "model-a");
    assert!(requests[0].tool_names().contains(&"launch_run"));
    assert_eq!(second.request_count(), 0);
    terminal.keys("\x1b");
    terminal.wait_for("Noted.", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    assert_eq!(second.request_count(), 0, "the run was not approved");
    assert!(fixture.server.requests().iter().all(|request| request.tool_names().contains(&"launch_run")));
}

// spec: interactive/interactive-mode-configuration/default-values
#[test]
fn an_empty_interactive_mode_section_compacts_conversations_of_more_than_100000_tokens() {
    for (tokens, compacts) in [(99_000, false), (101_000, true)] {
        let (fixture, _second) = empty_section(tokens);
        let lines: Vec<String> = (1..=13).map(|n| format!("Message number {n}.\n")).collect();
        let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
        command.stdin(lines.concat()).spawn().wait(LIMIT).expect_code(0);
        let events = fixture.althing.events();
        let compacted =
            of_type(&events, "decided").iter().any(|event| event["data"]["verdict"] == "compacted");
        assert_eq!(compacted, compacts, "{tokens} tokens");
        let last = texts(&fixture.server.requests().pop().unwrap());
        for recent in 4..=13 {
            assert!(last.contains(&format!("Message number {recent}.")), "the newest ten stay: {last}");
        }
        assert_eq!(last.contains("Message number 2."), !compacts, "{tokens} tokens: {last}");
    }
}
