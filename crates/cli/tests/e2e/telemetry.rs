//! `--otlp`: what is exported for runs, conversations, workflows and MCP clients' runs, what is never exported, and
//! that a failing collector harms no run.

use std::collections::BTreeSet;

use althing_testkit::collector::{CollectedSpan, Collector, CollectorReply};
use althing_testkit::process::Signal;
use althing_testkit::{Action, Fault, FaultMoment, Gate, Script, refused_base_url};
use serde_json::{Value, json};

use super::mcp::Client;
use super::support::{Fixture, LIMIT, althing, files_below, run, wait_for_reply_to_hello};

fn named<'a>(spans: &'a [CollectedSpan], name: &str) -> Vec<&'a CollectedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn traces(spans: &[CollectedSpan]) -> BTreeSet<&str> {
    spans.iter().map(|span| span.trace.as_str()).collect()
}

#[track_caller]
fn assert_complete(spans: &[CollectedSpan]) {
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "no span is exported twice: {spans:#?}");
    for span in spans {
        let parent = span.parent.as_deref();
        assert!(parent.is_none_or(|parent| ids.contains(parent)), "its parent is not told: {span:#?}");
    }
}

#[test]
fn a_run_is_exported_with_agents_calls_and_tokens_but_without_content() {
    let collector = Collector::start(CollectorReply::Take);
    let fixture =
        Fixture::new(2, Script::parliament().on("model-b").fault_once(Fault::Reset, FaultMoment::MidStream));
    let command = fixture.command(&["--otlp", &collector.url(), "Weigh the heron against the kingfisher"]);
    let command = command
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary-of-the-collector, x-team = birds")
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other")
        .env("OTEL_SERVICE_NAME", "parliament");
    let output = command.spawn().wait(LIMIT).expect_code(0);
    assert!(!output.stderr.contains("warning"), "{}", output.stderr);

    let spans = collector.spans();
    assert_complete(&spans);
    assert_eq!(traces(&spans).len(), 1);
    let run = named(&spans, "invoke_workflow run")[0];
    assert_eq!((run.parent.as_ref(), run.failed), (None, false));
    assert_eq!(run.text("gen_ai.conversation.id"), fixture.session_id());
    let resource = [("service.name", "parliament"), ("deployment.environment.name", "test")];
    for (key, value) in resource {
        assert_eq!(run.resource[key], value);
    }
    assert_eq!(run.resource["service.version"], env!("CARGO_PKG_VERSION"));
    let replies = fixture.althing.events();
    let replies: Vec<&Value> = super::support::items(&replies, "reply");
    let calls: Vec<&CollectedSpan> = spans.iter().filter(|span| span.kind == 3).collect();
    assert_eq!(calls.len(), replies.len(), "each reply is a call");
    let sum = |key: &str| calls.iter().map(|call| call.attributes[key].as_u64().unwrap()).sum::<u64>();
    let spent = |key: &str| replies.iter().map(|reply| reply["usage"][key].as_u64().unwrap()).sum::<u64>();
    assert!(spent("output_tokens") > 0);
    assert_eq!(sum("gen_ai.usage.output_tokens"), spent("output_tokens"));
    assert_eq!(sum("gen_ai.usage.input_tokens"), spent("input_tokens"));
    for call in &calls {
        let model = call.text("gen_ai.request.model");
        assert_eq!(call.name, format!("chat {model}"));
        assert_eq!(call.text("gen_ai.provider.name"), "chatcompletion");
        assert_eq!(model, format!("model-{}", call.text("gen_ai.agent.id")));
        let agent = spans.iter().find(|span| call.parent.as_ref() == Some(&span.id)).unwrap();
        assert_eq!(agent.name, format!("invoke_agent {}", call.text("gen_ai.agent.name")));
    }

    for request in collector.requests() {
        assert_eq!(request.headers["authorization"], "Bearer canary-of-the-collector");
        assert_eq!(request.headers["x-team"], "birds");
        for words in ["heron", "kingfisher", "Final answer", "Answer of", "canary"] {
            assert!(!request.body.contains(words), "{words} is exported: {}", request.body);
        }
    }
    for (path, content) in files_below(&fixture.althing.state_dir()) {
        let content = String::from_utf8_lossy(&content);
        assert!(!content.contains("canary-of-the-collector"), "{} holds the header", path.display());
    }
}

#[test]
fn without_the_option_nothing_is_exported_in_any_environment() {
    let collector = Collector::start(CollectorReply::Take);
    let althing = althing();
    let mut command = althing.new_command().args(["--offline", "--automation", "task"]);
    for variable in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        command = command.env(variable, collector.url());
    }
    command.env("OTEL_TRACES_EXPORTER", "otlp").spawn().wait(LIMIT).expect_code(0);
    assert!(collector.requests().is_empty());
}

#[test]
fn message_content_is_exported_if_the_standard_variable_asks_for_it() {
    let collector = Collector::start(CollectorReply::Take);
    let command =
        althing().args(["--offline", "--automation", "--otlp", &collector.url(), "Weigh the heron"]);
    let command = command.env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    command.spawn().wait(LIMIT).expect_code(0);
    let spans = collector.spans();
    assert!(named(&spans, "invoke_workflow run")[0].text("gen_ai.input.messages").contains("heron"));
    let call = spans.iter().find(|span| span.kind == 3).unwrap();
    let said: Value = serde_json::from_str(call.text("gen_ai.output.messages")).unwrap();
    assert_eq!(said[0]["role"], "assistant");
}

#[test]
fn a_failed_call_is_exported_with_its_kind() {
    let collector = Collector::start(CollectorReply::Take);
    let fixture = Fixture::new(
        2,
        Script::parliament().on("model-b").fault_always(Fault::Status(401), FaultMoment::BeforeHeaders),
    );
    fixture.run(&["--otlp", &collector.url(), "task"]).expect_code(0);
    let spans = collector.spans();
    assert_complete(&spans);
    let failed: Vec<&CollectedSpan> = spans.iter().filter(|span| span.failed).collect();
    assert!(!failed.is_empty());
    for span in failed {
        assert_eq!((span.text("error.type"), span.text("gen_ai.agent.id")), ("auth", "b"), "{span:#?}");
    }
}

#[test]
fn an_unreachable_or_slow_collector_costs_a_warning_and_a_short_delay() {
    let asleep = Collector::start(CollectorReply::Never);
    let away = refused_base_url();
    for url in [asleep.url(), away] {
        let running = althing().args(["--offline", "--automation", "--otlp", &url, "task"]).spawn();
        running.wait_for_stdout(|line| line.contains("offline model"), LIMIT);
        let output = running.wait(LIMIT).expect_code(0);
        let warnings: Vec<&str> = output.stderr.lines().filter(|line| line.contains("warning")).collect();
        assert_eq!(warnings.len(), 1, "{}", output.stderr);
        assert!(warnings[0].contains("spans did not reach the OpenTelemetry collector at http://127.0.0.1"));
    }
}

#[test]
fn a_resumed_session_continues_its_trace_and_exports_nothing_twice() {
    for signal in [Signal::TERM, Signal::KILL] {
        let collector = Collector::start(CollectorReply::Take);
        let gate = Gate::before_headers();
        let script = Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate));
        let fixture = Fixture::new(2, script);
        let running = fixture.spawn(&["--otlp", &collector.url(), "task"]);
        gate.wait_waiting_blocking(1, LIMIT);
        running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
        // Spans are exported within about a second, not only at the end.
        collector.wait_for_requests(1, LIMIT);
        running.signal(signal);
        running.wait(LIMIT);
        let before = collector.spans();
        assert!(
            !named(&before, "chat model-a").is_empty() && named(&before, "invoke_workflow run").is_empty()
        );

        run(&fixture.althing, &["resume", "--otlp", &collector.url()]).expect_code(0);
        let spans = collector.spans();
        assert_complete(&spans);
        assert_eq!(traces(&spans).len(), 1, "{spans:#?}");
        assert_eq!(named(&spans, "invoke_workflow run").len(), 1);
        let cut: Vec<&CollectedSpan> =
            spans.iter().filter(|span| span.text("error.type") == "interrupted").collect();
        assert_eq!(cut.len(), 1, "the attempt that was cut off");
        assert_eq!(cut[0].text("gen_ai.agent.id"), "b");
    }
}

#[test]
fn conversations_workflows_and_mcp_clients_runs_are_exported_too() {
    let collector = Collector::start(CollectorReply::Take);
    let althing = althing();
    let chat = ["chat", "--offline", "--approve", "always", "--otlp", &collector.url()];
    let lines = "Good morning\nWrite a short guide to sorting\n";
    althing.new_command().args(chat).stdin(lines).spawn().wait(LIMIT).expect_code(0);
    let spans = collector.spans();
    assert_complete(&spans);
    assert_eq!(traces(&spans).len(), 2, "a turn is a trace");
    let launch = named(&spans, "execute_tool launch_run")[0];
    assert_eq!(named(&spans, "invoke_workflow run")[0].parent.as_ref(), Some(&launch.id));

    let collector = Collector::start(CollectorReply::Take);
    let flow = json!({"name": "ship-it", "goal": "g", "stages": [
        {"name": "one", "tasks": [
            {"id": "fine", "agent": "command", "command": ["true"], "executionMode": "headless", "prompt": ""},
            {"id": "team", "run": {"task": "Compare two ways to sort", "refinement": false}},
        ]},
        {"name": "two", "tasks": [
            {"id": "bad", "agent": "command", "command": ["sh", "-c", "exit 7"], "executionMode": "headless", "prompt": ""},
        ]},
    ]});
    althing.file("flow.yaml", flow.to_string());
    run(&althing, &["workflow", "run", "flow.yaml", "--offline", "--automation", "--otlp", &collector.url()])
        .expect_code(2);
    let spans = collector.spans();
    assert_complete(&spans);
    let workflow = named(&spans, "invoke_workflow ship-it")[0];
    assert_eq!((workflow.failed, workflow.text("error.type")), (true, "task_failed"));
    let bad = named(&spans, "execute_task bad")[0];
    assert_eq!((bad.attributes["process.exit.code"].as_u64(), bad.text("error.type")), (Some(7), "exited"));
    for name in ["execute_task fine", "execute_task bad", "invoke_workflow run"] {
        assert_eq!(named(&spans, name)[0].parent.as_ref(), Some(&workflow.id), "{name}");
    }

    let collector = Collector::start(CollectorReply::Take);
    let mut client = Client::start(&althing, &["--offline", "--otlp", &collector.url()]);
    let launched = client.tool("launch_run", &json!({"task": "Compare two ways to sort"}));
    assert_eq!(launched["structuredContent"]["status"], "completed");
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
    let spans = collector.spans();
    assert_complete(&spans);
    assert_eq!(named(&spans, "invoke_workflow run").len(), 1);
}

#[test]
fn a_conversation_on_the_screen_is_exported_too() {
    let collector = Collector::start(CollectorReply::Take);
    let mut terminal = althing().args(["--offline", "--otlp", &collector.url()]).terminal(100, 30);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys("hello\r");
    wait_for_reply_to_hello(&terminal);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    let spans = collector.spans();
    assert_complete(&spans);
    assert_eq!(named(&spans, "invoke_agent interactive").len(), 1);
}

#[test]
fn an_unusable_address_or_header_is_an_error_before_anything_starts() {
    let althing = althing();
    let output =
        run(&althing, &["--offline", "--automation", "--otlp", "localhost:4318", "task"]).expect_code(1);
    assert!(
        output.stderr.contains("--otlp") && output.stderr.contains("http://localhost:4318"),
        "{}",
        output.stderr
    );
    let command =
        althing.new_command().args(["--offline", "--automation", "--otlp", "http://127.0.0.1:9", "task"]);
    let output =
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "no-value-here").spawn().wait(LIMIT).expect_code(1);
    assert!(output.stderr.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{}", output.stderr);
    assert!(!althing.state_dir().join("sessions").exists(), "nothing was started");
}
