//! The scenarios of a conversation, nearly all with a model behind an API and with a CLI agent as chat agent: what the
//! chat agent is told and offered, which runs it launches, and what comes back from them.

use std::path::Path;

use althing_testkit::process::wait_for_event;
use althing_testkit::{Action, Fault, FaultMoment, Gate, Parliament, RecordedRequest, Reply, Script, wait};
use serde_json::{Value, json};

use super::chat_kinds::{
    AgentCall, BOTH_KINDS, ChatAgentKind, Conversation, DELEGATE, first_json, initialize, mcp_answers,
    model_call, recorded_calls, set_every_backend,
};
use super::support::{LIMIT, SKY, of_type, texts};

fn is_answering(request: &RecordedRequest) -> bool {
    request.tool_names().contains(&"new_answer")
}

fn is_voting(request: &RecordedRequest) -> bool {
    request.tool_names().contains(&"vote")
}

fn tool_results(request: &RecordedRequest) -> usize {
    request.messages().iter().filter(|message| message["role"] == "tool").count()
}

/// The vote names the second agent, so that the winner is not the one that a tie would give.
pub fn votes_for_the_second(request: &RecordedRequest) -> Reply {
    if is_voting(request) {
        return Reply::vote("agent2", "clear");
    }
    Parliament::default().reply(request)
}

// spec: design/state/partial-results
#[test]
fn a_run_that_times_out_fails_or_is_cancelled_hands_what_it_has_to_the_chat_agent() {
    let one_hangs = || Script::from(Script::parliament().on("model-b").always(Action::Hang));
    let all_fail = || {
        let fault = (Fault::Status(500), FaultMoment::BeforeHeaders);
        Script::from(
            Script::parliament()
                .on("model-a")
                .fault_always(fault.0, fault.1)
                .on("model-b")
                .fault_always(fault.0, fault.1),
        )
    };
    let so_far = json!("Answer of model-a");
    for kind in BOTH_KINDS {
        for (status, state, script, answer, error) in [
            ("partial", "processing_partial", one_hangs(), &so_far, "time limit"),
            ("failed", "processing_partial", all_fail(), &Value::Null, "no agent gave an answer\na: "),
            ("cancelled", "processing_cancelled", one_hangs(), &so_far, "the run was cancelled"),
        ] {
            let conversation = Conversation::new(kind, 2, script, &[json!({"task": "Build it"})], |config| {
                if status == "partial" {
                    config["timeout_settings"]["orchestrator_timeout_seconds"] = 10.into();
                }
            });
            let althing = &conversation.fixture.althing;
            if status == "cancelled" {
                let running = conversation.command(&["--json"]).open_stdin().spawn();
                let message = json!({"op": "send_message", "text": format!("Build it, {DELEGATE}")});
                running.write_stdin(format!("{message}\n"));
                wait_for_event(&althing.state_dir(), LIMIT, |event| {
                    event["data"]["item"]["kind"] == "answer"
                });
                running.write_stdin(format!("{}\n", json!({"op": "cancel", "task": "r1"})));
                running.close_stdin();
                running.wait(LIMIT).expect_code(0);
            } else {
                let output = conversation.chat(&format!("Build it, {DELEGATE}\n"), &[]);
                assert!(
                    output.stdout.ends_with("Done.\n"),
                    "{kind:?}, {status}: the turn goes on: {output:?}"
                );
            }
            let told = conversation.result();
            assert_eq!(
                (&told["status"], &told["final_answer"]),
                (&json!(status), answer),
                "{kind:?}: {told}"
            );
            assert!(told["error"].as_str().unwrap().contains(error), "{kind:?}: {told}");
            let events = althing.events();
            let phases: Vec<String> = of_type(&events, "phase_changed")
                .into_iter()
                .map(|event| event["data"]["phase"].to_string().to_lowercase())
                .collect();
            assert!(phases.iter().any(|phase| phase.contains(state)), "{kind:?}, {status}: {phases:?}");
            assert!(phases.last().unwrap().contains("idle"), "{kind:?}, {status}: {phases:?}");
        }
    }
}

// spec: interactive/run-approval-flow/approval-cancelled
#[test]
fn a_chat_agent_of_each_kind_hears_that_its_run_was_not_approved_and_continues() {
    for kind in BOTH_KINDS {
        for (answer, args) in [("n\n", &[][..]), ("", &["--approve", "never"])] {
            let launch = json!({"task": "Do it"});
            let conversation = Conversation::new(kind, 2, Script::parliament(), &[launch], |config| {
                config["orchestrator"]["interactive_mode"]["require_approval"] = true.into();
            });
            let output = conversation.chat(&format!("Do it, {DELEGATE}\n{answer}"), args);
            let place = format!("{kind:?}, {args:?}");
            assert!(output.stdout.ends_with("Done.\n"), "{place}: the turn goes on: {output:?}");
            let told = conversation.result();
            assert_eq!(told["status"], "cancelled", "{place}: {told}");
            assert!(told.to_string().contains("the user did not approve this run"), "{place}: {told}");
            let calls = conversation.chat_calls();
            assert_eq!(calls.len(), 2, "{place}: the answer is no message: {calls:?}");
            assert!(conversation.runs().is_empty() && conversation.worker_requests().is_empty(), "{place}");
            assert!(
                conversation.claude_calls(false).is_empty(),
                "{place}: no CLI agent of the team was started"
            );
            let events = conversation.fixture.althing.events();
            let phases = of_type(&events, "phase_changed");
            let last = phases.last().unwrap()["data"]["phase"].to_string().to_lowercase();
            assert!(last.contains("idle"), "{place}: {last}");
        }
    }
}

// spec: interactive/interactive-session-lifecycle/session-persistence-across-runs
#[test]
fn the_result_of_a_run_is_known_in_later_messages_and_after_the_conversation_was_left() {
    for kind in BOTH_KINDS {
        let conversation =
            Conversation::new(kind, 2, Script::parliament(), &[json!({"task": "Build it"})], |_| ());
        conversation.chat(&format!("Build it, {DELEGATE}\nWhat was the outcome?\n"), &[]);
        conversation.chat("And what was the outcome again?\n", &["--continue"]);
        let told = conversation.result();
        let run_id = format!("{}.r1", conversation.fixture.session_id());
        assert_eq!(
            (&told["run_id"], &told["final_answer"]),
            (&json!(run_id), &json!("Final answer of model-a"))
        );
        let calls = conversation.chat_calls();
        assert_eq!(calls.len(), 4, "{kind:?}: {calls:?}");
        for (call, question) in
            calls[2..].iter().zip(["What was the outcome?", "And what was the outcome again?"])
        {
            assert!(call.prompt.contains(question), "{kind:?}: {call:?}");
            match kind {
                ChatAgentKind::Model => {
                    let known = [run_id.as_str(), "Final answer of model-a", "Build it, all of you"];
                    assert!(known.iter().all(|text| call.prompt.contains(text)), "{call:?}");
                }
                // Claude Code keeps the conversation, with the result that it was told, under this id.
                ChatAgentKind::ClaudeCode => {
                    assert_eq!(call.argument("--resume"), calls[0].argument("--session-id"), "{call:?}");
                }
            }
        }
        assert_eq!(conversation.runs().len(), 1, "{kind:?}: no run is repeated");
    }
}

// spec: design/context-flow/one-way
// spec: interactive/context-flow-between-interactive-and-runs/context-injection
// spec: interactive/launch-run-tool/run-execution-via-tool
#[test]
fn agents_of_a_run_get_nothing_of_the_conversation_and_cannot_call_back() {
    for (kind, context) in BOTH_KINDS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let script = Script::from_fn(|request: &RecordedRequest| {
            if request.nth_of_model() == 0 {
                return Reply::call("launch_run", &json!({"task": "Call back"}));
            }
            votes_for_the_second(request)
        });
        let mut launch = json!({"task": "Clean the parser up"});
        if context {
            launch["context"] = "Keep the public API".into();
        }
        let conversation = Conversation::new(kind, 2, script, &[launch], |config| {
            config["agents"][1]["backend"] = json!({"type": "claude_code"});
        });
        conversation.chat(&format!("My parser is a mess\nPlease mend it, {DELEGATE}\n"), &[]);
        assert_eq!(conversation.result()["status"], "completed", "{kind:?}");
        let requests = conversation.worker_requests();
        let members = conversation.claude_calls(false);
        assert!(requests.len() >= 3 && members.len() >= 2, "{kind:?}: {requests:?} {members:?}");
        // The message of the run: the context, if there is one, and then the task.
        let first = |call: &AgentCall| {
            let task = call.prompt.find("Clean the parser up");
            let given = call.prompt.find(">\nKeep the public API\n<END OF CONTEXT ");
            let is_marked = call.prompt.contains("<CONTEXT ");
            task.is_some() && is_marked == context && given.is_some() == context && given < task
        };
        let of_model: Vec<AgentCall> = requests.iter().map(model_call).collect();
        assert!(of_model.iter().all(first) && first(&members[0]), "{kind:?}: {of_model:?} {members:?}");
        for call in of_model.iter().chain(&members) {
            for said in ["is a mess", "mend it", "Noted."] {
                assert!(
                    !call.prompt.contains(said),
                    "{kind:?}: `{said}` was said in the conversation: {call:?}"
                );
            }
            let tools = call.tool_names();
            assert!(tools.iter().all(|tool| ["new_answer", "vote"].contains(tool)), "{kind:?}: {tools:?}");
            assert!(!call.arguments.join(" ").contains("launch_run"), "{kind:?}: {call:?}");
        }
        let attempts = recorded_calls(&conversation.fixture.althing).into_iter();
        let refused: Vec<Value> =
            attempts.map(|call| call["refused"].clone()).filter(|refused| !refused.is_null()).collect();
        assert!(!refused.is_empty(), "{kind:?}: the CLI agent tried");
        assert!(
            refused.iter().all(|text| text.as_str().unwrap().contains("no tool `launch_run`")),
            "{kind:?}: {refused:?}"
        );
        assert_eq!(conversation.runs().len(), 1, "{kind:?}");
    }
}

// spec: design/launch-run/mcp-server
#[test]
fn mcp_clients_and_chat_agents_of_each_kind_get_the_same_guidance() {
    for kind in BOTH_KINDS {
        let conversation = Conversation::new(kind, 2, Script::parliament(), &[], |config| {
            config["agents"][1]["system_message"] = "You check proofs.".into();
        });
        conversation.chat("Good morning\n", &[]);
        let answers = mcp_answers(&conversation.fixture.althing, &[initialize()]);
        let guidance = answers[0]["instructions"].as_str().unwrap();
        assert!(guidance.len() > 1000 && guidance.contains("You check proofs."), "{guidance}");
        let prompt = &conversation.chat_calls()[0].prompt;
        assert!(prompt.contains(guidance), "{kind:?}: {prompt}\n---\n{guidance}");
    }
}

// spec: interactive/launch-run-tool/tool-schema-definition
#[test]
fn launch_run_has_one_schema_for_models_cli_agents_and_mcp_clients() {
    let mut schemas = Vec::new();
    for kind in BOTH_KINDS {
        let conversation = Conversation::new(kind, 2, Script::parliament(), &[], |_| ());
        conversation.chat("Good morning\n", &[]);
        schemas.push(conversation.chat_calls()[0].tool("launch_run")["inputSchema"].clone());
        let answers = mcp_answers(&conversation.fixture.althing, &[initialize(), ("tools/list", json!({}))]);
        let tools = answers[1]["tools"].as_array().unwrap();
        let launch = tools.iter().find(|tool| tool["name"] == "launch_run").unwrap();
        schemas.push(launch["inputSchema"].clone());
    }
    for schema in &schemas {
        assert_eq!(*schema, schemas[0]);
    }
    let schema = &schemas[0];
    let properties = schema["properties"].as_object().unwrap();
    let expected = [
        ("task", "string", ""),
        ("context", "string", ""),
        ("agent_mode", "string", "One agent or several. Default: multi."),
        ("agents", "array", "Default: all"),
        ("refinement", "boolean", "Default: true for multi, false for single."),
        ("planning_mode", "boolean", "Default: false."),
        ("execute_after_planning", "boolean", "Default: false."),
        ("context_paths", "array", ""),
        ("agent_system_prompts", "object", ""),
        ("coordination_overrides", "object", ""),
    ];
    for (name, kind, default) in expected {
        let property = &properties[name];
        assert_eq!(property["type"], kind, "{name}: {property}");
        assert!(property["description"].as_str().unwrap().contains(default), "{name}: {property}");
    }
    assert_eq!(properties.len(), expected.len(), "{properties:?}");
    assert_eq!(schema["required"], json!(["task"]));
    assert_eq!(properties["agent_mode"]["enum"], json!(["single", "multi"]));
    assert_eq!(properties["agents"]["items"], json!({"type": "string", "enum": ["a", "b"]}));
}

// spec: interactive/launch-run-tool/tool-schema-definition
#[test]
fn a_launch_with_only_a_task_is_a_refining_run_of_all_agents_and_a_single_one_does_not_refine() {
    let all = json!({"task": "The first job"});
    let single = json!({"task": "The second job", "agent_mode": "single"});
    let launches = [all, single];
    let expected = [
        json!({"agent_mode": "multi", "refinement": true, "planning": false}),
        json!({"agent_mode": "single", "refinement": false, "planning": false}),
    ];
    let check = |what: &str, results: &[Value], requests: &[RecordedRequest]| {
        assert_eq!(results.len(), 2, "{what}");
        for (result, modes) in results.iter().zip(&expected) {
            assert_eq!(result["modes"], *modes, "{what}: {result}");
            assert!(result["plan"].is_null() && result["follow_up"].is_null(), "{what}: {result}");
        }
        let of_task = |task: &str| -> Vec<&RecordedRequest> {
            requests.iter().filter(|request| texts(request).contains(task)).collect()
        };
        // The first run has refinement, so an agent that may vote may also improve its answer.
        let first = of_task("The first job");
        let refines = first.iter().filter(|request| is_voting(request) && is_answering(request));
        let mut models: Vec<&str> = refines.map(|request| request.model()).collect();
        models.sort_unstable();
        models.dedup();
        assert_eq!(models, ["model-a", "model-b"], "{what}");
        let second = of_task("The second job");
        assert_eq!(second.iter().map(|request| request.model()).collect::<Vec<_>>(), ["model-a"], "{what}");
        assert!(!is_voting(second[0]), "{what}");
    };
    for kind in BOTH_KINDS {
        let conversation = Conversation::new(kind, 2, Script::parliament(), &launches, |_| ());
        conversation.chat(&format!("Do both, {DELEGATE}\n"), &[]);
        let results: Vec<Value> = conversation.results().iter().map(|text| first_json(text)).collect();
        check(&format!("{kind:?}"), &results, &conversation.worker_requests());
    }
    let conversation = Conversation::new(ChatAgentKind::Model, 2, Script::parliament(), &launches, |_| ());
    let calls =
        launches.iter().map(|launch| ("tools/call", json!({"name": "launch_run", "arguments": launch})));
    let requests: Vec<(&str, Value)> = std::iter::once(initialize()).chain(calls).collect();
    let answers = mcp_answers(&conversation.fixture.althing, &requests);
    let results: Vec<Value> = answers[1..].iter().map(|answer| answer["structuredContent"].clone()).collect();
    check("an MCP client", &results, &conversation.worker_requests());
}

// spec: interactive/interactive-agent-delegation-behavior/simple-task-handling
// spec: interactive/interactive-agent-delegation-behavior/complex-task-delegation
#[test]
fn a_chat_agent_of_each_kind_knows_when_to_delegate_answers_small_things_and_launches_a_run_for_work() {
    for kind in BOTH_KINDS {
        let launch = json!({"task": "Compare three ways to cache"});
        let conversation = Conversation::new(kind, 2, Script::parliament(), &[launch], |_| ());
        let output = conversation.chat("What is six times seven?\n", &[]);
        assert_eq!(output.stdout, "Noted.\n", "{kind:?}");
        assert!(conversation.runs().is_empty() && conversation.worker_requests().is_empty(), "{kind:?}");
        let output =
            conversation.chat(&format!("Compare three ways to cache, {DELEGATE}\n"), &["--continue"]);
        assert!(output.stdout.ends_with("Done.\n"), "{kind:?}: {output:?}");
        let calls = conversation.chat_calls();
        for text in [
            "Answer directly: greetings, questions you can answer well",
            "Launch a run: work with several steps or files, code to be written or changed, research, comparisons",
        ] {
            assert!(calls[0].prompt.contains(text), "{kind:?}: {text}\n{}", calls[0].prompt);
        }
        assert!(calls.iter().all(|call| call.tool_names().contains(&"launch_run")), "{kind:?}: {calls:?}");
        let tasks: Vec<Value> = conversation.runs().iter().map(|run| run["task"].clone()).collect();
        assert_eq!(tasks, ["Compare three ways to cache"], "{kind:?}");
        for model in ["model-a", "model-b"] {
            assert!(
                !conversation.fixture.server.requests_of(model).is_empty(),
                "{kind:?}: {model} takes part"
            );
        }
        assert_eq!(conversation.result()["final_answer"], "Final answer of model-a", "{kind:?}");
    }
}

// spec: interactive/interactive-agent-delegation-behavior/context-efficient-operation
#[test]
fn an_oversized_context_is_refused_with_advice_and_its_summary_is_accepted() {
    for kind in BOTH_KINDS {
        let pasted = "pasted word ".repeat(6000);
        let launches = [
            json!({"task": "Build it", "context": pasted}),
            json!({"task": "Build it", "context": "A summary"}),
        ];
        let conversation = Conversation::new(kind, 2, Script::parliament(), &launches, |_| ());
        conversation.chat(&format!("Build it, {DELEGATE}\n"), &[]);
        let results = conversation.results();
        assert_eq!(results.len(), 2, "{kind:?}: {results:?}");
        let refused = &results[0];
        for text in ["`context` is too long", "Sum it up", "`context_paths`"] {
            assert!(refused.contains(text), "{kind:?}: {text}: {refused}");
        }
        assert_eq!(first_json(&results[1])["status"], "completed", "{kind:?}");
        let contexts: Vec<Value> = conversation.runs().iter().map(|run| run["context"].clone()).collect();
        assert_eq!(contexts, ["A summary"], "{kind:?}: only the second launch started a run");
        let requests = conversation.worker_requests();
        assert!(
            !requests.is_empty() && requests.iter().all(|request| !texts(request).contains("pasted word"))
        );
    }
    let conversation = Conversation::new(ChatAgentKind::Model, 2, Script::parliament(), &[], |_| ());
    let arguments = json!({"task": "Build it", "context": "pasted word ".repeat(6000)});
    let call = ("tools/call", json!({"name": "launch_run", "arguments": arguments}));
    let refused = mcp_answers(&conversation.fixture.althing, &[initialize(), call]).remove(1);
    let text = refused["content"][0]["text"].as_str().unwrap_or_default();
    assert_eq!(refused["isError"], true, "an MCP client: {refused}");
    for advice in ["`context` is too long", "Sum it up", "`context_paths`"] {
        assert!(text.contains(advice), "an MCP client: {advice}: {text}");
    }
    assert!(!conversation.fixture.althing.state_dir().join("sessions").exists(), "no run was started");
    assert_eq!(conversation.fixture.server.request_count(), 0);
}

// spec: interactive/interactive-agent-system-prompt/added-interactive-orchestrator-section
#[test]
fn the_chat_agent_is_told_its_role_its_agents_when_and_how_to_launch_runs_and_what_flows() {
    for kind in BOTH_KINDS {
        let conversation = Conversation::new(kind, 3, Script::parliament(), &[], |config| {
            config["agents"][0]["backend"]["cwd"] = "work".into();
            config["agents"][1]["system_message"] = "You check proofs.\nTrust nobody.".into();
            config["agents"][2]["backend"] = json!({"type": "offline"});
        });
        conversation.chat("Good morning\n", &[]);
        let prompt = &conversation.chat_calls()[0].prompt;
        let section = |from: &str, to: &str| {
            let text = prompt.split_once(from).unwrap_or_else(|| panic!("{kind:?}: no `{from}`: {prompt}")).1;
            text.split_once(to).unwrap_or_else(|| panic!("{kind:?}: no `{to}`: {prompt}")).0.to_owned()
        };
        let role = section("# Your role\n", "\n\n");
        assert!(role.contains("the user's interface to Althing") && role.contains("`launch_run`"), "{role}");
        let agents = section("# Agents\n", "\n\n");
        let lines: Vec<&str> = agents.lines().collect();
        assert_eq!(lines[0], "- a: model-a; works with files and tools", "{kind:?}");
        assert_eq!(
            lines[1], "- b: model-b; answers in text only; You check proofs. Trust nobody.",
            "{kind:?}"
        );
        assert!(
            lines[2].starts_with("- c: ") && lines[2].contains("(offline model, not an AI)"),
            "{}",
            lines[2]
        );
        assert_eq!(lines.len(), 3, "{kind:?}: {agents}");
        let when = section("# When to launch a run, and when not\n", "\n\n");
        assert!(when.contains("Answer directly: ") && when.contains("Launch a run: "), "{when}");
        let how = section("# How to set up a run\n", "\n\n");
        for setting in [
            "- agent_mode: single: ",
            "- agent_mode: single, refinement: true: ",
            "- agent_mode: multi, refinement: false: ",
            "- agent_mode: multi (the default): ",
            "- planning_mode: true: ",
            "- planning_mode: true, execute_after_planning: true: ",
        ] {
            assert!(how.contains(setting), "{kind:?}: {setting}\n{how}");
        }
        let flow = section("# What a run knows, and what comes back\n", "\n\n");
        for text in [
            "do not see this conversation",
            "`task` and `context`",
            "`context_paths`",
            "final_answer, workspace_path",
            "coordination_summary",
        ] {
            assert!(flow.contains(text), "{kind:?}: {text}\n{flow}");
        }
    }
}

/// The first call of a chat agent that uses the first agent's backend, with every section of its prompt configured.
fn fully_configured(kind: ChatAgentKind, require_approval: bool) -> AgentCall {
    let skill = "---\nname: pdf\ndescription: Reads PDF.\n---\nUse pdftotext.\n";
    let conversation = Conversation::new(kind, 2, Script::always(Reply::text("Hello.")), &[], |config| {
        let backend = &mut config["agents"][0]["backend"];
        match kind {
            ChatAgentKind::Model => backend["model"] = "gpt-5-mini".into(),
            ChatAgentKind::ClaudeCode => *backend = json!({"type": "claude_code"}),
        }
        backend["mcp_servers"] =
            json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["sky.py"]}]);
        config["agents"][0]["system_message"] = "You are Ada, the host.".into();
        config["orchestrator"]["interactive_mode"] = json!({"require_approval": require_approval, "append_system_prompt": "Always answer in English."});
        config["orchestrator"]["coordination"] = json!({
            "use_skills": true, "skills_directory": "my-skills", "enable_memory_filesystem_mode": true,
            "enable_agent_task_planning": true,
        });
        config["orchestrator"]["voting_sensitivity"] = "strict".into();
    });
    let althing = &conversation.fixture.althing;
    althing.file("my-skills/pdf/SKILL.md", skill);
    althing.file("sky.py", SKY);
    conversation.chat("Good morning\n", &["--project", "my-app"]);
    let call = match kind {
        ChatAgentKind::Model => model_call(&conversation.fixture.server.requests()[0]),
        ChatAgentKind::ClaudeCode => {
            let mut calls = conversation.claude_calls(true);
            calls.extend(conversation.claude_calls(false));
            calls.remove(0)
        }
    };
    // The prompt has every section; if one were missing, the absence of a tool's name would prove nothing.
    for text in [
        "You are Ada, the host.",
        "Do what the user asks rather than describe",
        "- pdf: Reads PDF. (",
        "Your notes outlast this run.",
        "create_task_plan before you begin",
        "You work in the project workspace ",
        "# Your role",
        "Always answer in English.",
    ] {
        assert!(call.prompt.contains(text), "{kind:?}: {text}\n{}", call.prompt);
    }
    call
}

const COORDINATION_TOOLS: [&str; 3] = ["new_answer", "vote", "ask_others"];

// spec: interactive/interactive-agent-system-prompt/excluded-system-prompt-sections
#[test]
fn no_section_of_a_chat_agents_prompt_names_a_tool_of_the_agents_of_a_run() {
    for kind in BOTH_KINDS {
        for require_approval in [true, false] {
            let call = fully_configured(kind, require_approval);
            for name in COORDINATION_TOOLS {
                assert!(!call.prompt.contains(name), "{kind:?}: {name}\n{}", call.prompt);
            }
        }
    }
}

// spec: interactive/interactive-agent-system-prompt/no-coordination-tools
#[test]
fn a_chat_agent_of_each_kind_is_offered_launch_run_and_no_tool_of_the_agents_of_a_run() {
    for kind in BOTH_KINDS {
        let call = fully_configured(kind, true);
        let tools = call.tool_names();
        for name in ["launch_run", "mcp__sky__weather", "create_task_plan"] {
            assert!(tools.contains(&name), "{kind:?}: {tools:?}");
        }
        let offered = format!("{} {}", json!(call.tools), call.arguments.join(" "));
        for name in COORDINATION_TOOLS {
            assert!(!offered.contains(name), "{kind:?}: {name}\n{offered}");
        }
    }
}

// spec: interactive/launch-run-tool/multi-agent-run-without-refinement
#[test]
fn without_refinement_agents_answer_once_and_unseen_and_the_agent_that_the_vote_chose_presents() {
    for kind in BOTH_KINDS {
        let gate = Gate::before_headers();
        let held = gate.clone();
        let script = Script::from_fn(move |request: &RecordedRequest| {
            let reply = Action::from(votes_for_the_second(request));
            let is_held = request.model() == "model-b" && is_answering(request);
            if is_held { Action::gated(reply, &held) } else { reply }
        });
        let launch = json!({"task": "Name it", "agent_mode": "multi", "refinement": false});
        let conversation = Conversation::new(kind, 2, script, &[launch], |_| ());
        let running = conversation.command(&[]).stdin(format!("Name it, {DELEGATE}\n")).spawn();
        let state = conversation.fixture.althing.state_dir();
        wait_for_event(&state, LIMIT, |event| event["data"]["item"]["kind"] == "answer");
        gate.wait_waiting_blocking(1, LIMIT);
        gate.release_all();
        running.wait(LIMIT).expect_code(0);
        let requests = conversation.worker_requests();
        let (answering, rest): (Vec<_>, Vec<_>) = requests.iter().partition(|request| is_answering(request));
        let mut models: Vec<&str> = answering.iter().map(|request| request.model()).collect();
        models.sort_unstable();
        assert_eq!(models, ["model-a", "model-b"], "{kind:?}: each answers once");
        for request in answering {
            assert_eq!(request.tool_names(), ["new_answer"], "{kind:?}");
            assert!(!texts(request).contains("Answer of model"), "{kind:?}: {}", texts(request));
        }
        for request in rest {
            let all = texts(request);
            let both = ["Answer of model-a", "Answer of model-b"];
            assert!(both.iter().all(|answer| all.contains(answer)), "{kind:?}: it came too early: {all}");
        }
        let told = conversation.result();
        let summary = &told["coordination_summary"];
        assert_eq!((&summary["winner"], &summary["presenter"]), (&json!("b"), &json!("b")), "{kind:?}");
        assert_eq!(summary["votes"]["b"], 2, "{kind:?}: {summary}");
        assert_eq!(told["final_answer"], "Final answer of model-b", "{kind:?}");
    }
}

fn plan_of(model: &str) -> String {
    let task = |id: &str, text: &str| json!({"id": id, "description": text});
    let tasks = match model {
        "model-a" => json!([task("a1", "The only step of a")]),
        _ => json!([task("b1", "The first step of b"), task("b2", "The second step of b")]),
    };
    json!({"tasks": tasks}).to_string()
}

fn plans_and_executes(request: &RecordedRequest) -> Reply {
    let (model, executes) = (request.model(), request.tool_names().contains(&"update_plan_task"));
    if is_voting(request) {
        return Reply::vote("agent2", "clear");
    }
    if let (true, Some(id)) = (executes, ["b1", "b2"].get(tool_results(request))) {
        return Reply::call("update_plan_task", &json!({"id": id, "status": "completed"}));
    }
    let text = if executes { format!("Executed by {model}") } else { plan_of(model) };
    if is_answering(request) { Reply::new_answer(&text) } else { Reply::text(text) }
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn the_plan_that_won_the_vote_is_stored_and_executed_and_no_other() {
    for (kind, refinement) in [(ChatAgentKind::Model, true), (ChatAgentKind::ClaudeCode, false)] {
        let launch = json!({
            "task": "Write a book", "refinement": refinement, "planning_mode": true, "execute_after_planning": true,
        });
        let script = Script::from_fn(plans_and_executes);
        let conversation = Conversation::new(kind, 2, script, &[launch], |_| ());
        conversation.chat(&format!("Write a book, {DELEGATE}\n"), &[]);
        let told = conversation.result();
        assert_eq!(told["coordination_summary"]["winner"], "b", "{kind:?}: {told}");
        let plan = Path::new(told["plan"]["path"].as_str().unwrap()).join("plan.json");
        let plan: Value = serde_json::from_slice(&std::fs::read(plan).unwrap()).unwrap();
        let ids: Vec<&Value> = plan["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
        assert_eq!(ids, ["b1", "b2"], "{kind:?}: {plan}");
        let requests = conversation.worker_requests();
        let is_executing = |request: &RecordedRequest| request.tool_names().contains(&"update_plan_task");
        let start = requests.iter().position(is_executing).unwrap();
        let planning = requests[..start].iter().map(texts).collect::<String>();
        assert!(planning.contains("The only step of a"), "{kind:?}: the other plan was voted on");
        for request in &requests[start..] {
            let all = texts(request);
            assert!(
                all.contains("The first step of b") && !all.contains("The only step of a"),
                "{kind:?}: {all}"
            );
        }
        let execution = &told["execution"];
        assert_eq!((&execution["status"], &execution["run_id"]), (&json!("completed"), &told["follow_up"]));
        assert!(
            execution["final_answer"].as_str().unwrap().starts_with("Executed by "),
            "{kind:?}: {execution}"
        );
        let runs = conversation.runs();
        assert_eq!(
            runs.iter().map(|run| run["modes"]["planning"] == true).collect::<Vec<_>>(),
            [true, false]
        );
    }
}

// spec: interactive/launch-run-tool/results-returned-to-agent
#[test]
fn the_chat_agent_gets_the_answer_the_workspace_with_its_files_and_the_votes() {
    for kind in BOTH_KINDS {
        let script = Script::from_fn(|request: &RecordedRequest| {
            if is_answering(request) && !is_voting(request) && tool_results(request) == 0 {
                let report =
                    json!({"path": "report.md", "content": format!("written by {}", request.model())});
                return Reply::call("write_file", &report);
            }
            votes_for_the_second(request)
        });
        let conversation =
            Conversation::new(kind, 2, script, &[json!({"task": "Write a report"})], |config| {
                set_every_backend(config, "cwd", &json!("work"));
            });
        conversation.chat(&format!("Write a report, {DELEGATE}\n"), &[]);
        let told = conversation.result();
        let outcome = (&told["status"], &told["final_answer"]);
        assert_eq!(outcome, (&json!("completed"), &json!("Final answer of model-b")), "{kind:?}");
        let workspace = Path::new(told["workspace_path"].as_str().unwrap());
        let report = std::fs::read_to_string(workspace.join("report.md")).unwrap();
        assert_eq!(report, "written by model-b", "{kind:?}");
        let summary = &told["coordination_summary"];
        assert_eq!((&summary["winner"], &summary["votes"]), (&json!("b"), &json!({"b": 2})), "{kind:?}");
        assert_eq!(summary["rounds"], 2, "{kind:?}: {summary}");
        assert_eq!(summary["ballots"].as_array().unwrap().len(), 2, "{kind:?}: {summary}");
    }
}

// spec: interactive/run-approval-flow/approval-granted
#[test]
fn an_approved_run_starts_with_the_task_context_agents_and_modes_that_the_dialog_shows() {
    for kind in BOTH_KINDS {
        let launch = json!({"task": "Sort the list", "context": "Keep it stable", "agents": ["b", "c"], "refinement": false});
        let conversation = Conversation::new(kind, 3, Script::parliament(), &[launch], |config| {
            config["orchestrator"]["interactive_mode"]["require_approval"] = true.into();
        });
        let mut terminal = conversation.screen_command(&[]).terminal(120, 40);
        terminal.wait_for("Type a message...", LIMIT);
        terminal.keys(&format!("Sort the list, {DELEGATE}\r"));
        let screen = terminal.wait_for("Cancel esc", LIMIT);
        for row in ["Task      Sort the list", "Context   Keep it stable", "Agents    b model-b · c model-c"]
        {
            assert!(screen.contains(row), "{kind:?}: {row}\n{screen}");
        }
        let modes = screen.lines().find(|line| line.contains("Modes ")).unwrap();
        assert!(modes.contains("Multi") && modes.contains("Quick"), "{kind:?}: {modes}");
        assert!(conversation.runs().is_empty() && conversation.worker_requests().is_empty(), "{kind:?}");
        let (column, row) = terminal.find("Approve ⏎").unwrap();
        terminal.click(column, row);
        wait::until(LIMIT, || {
            let models = ["model-b", "model-c"];
            models.iter().all(|model| !conversation.fixture.server.requests_of(model).is_empty())
        });
        let runs = conversation.runs();
        assert_eq!(runs.len(), 1, "{kind:?}");
        let run = &runs[0];
        assert_eq!((&run["task"], &run["context"]), (&json!("Sort the list"), &json!("Keep it stable")));
        let members: Vec<&Value> =
            run["members"].as_array().unwrap().iter().map(|member| &member["id"]).collect();
        assert_eq!(members, ["b", "c"], "{kind:?}");
        assert_eq!(run["modes"], json!({"agent_mode": "multi", "refinement": false, "planning": false}));
        for request in conversation.worker_requests() {
            let all = texts(&request);
            assert!(all.contains("Sort the list") && all.contains("Keep it stable"), "{kind:?}: {all}");
        }
        assert!(conversation.fixture.server.requests_of("model-a").is_empty(), "{kind:?}: a was not chosen");
    }
}
