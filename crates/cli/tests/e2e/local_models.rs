//! Teams on local servers, as each server program answers: small models that write their calls as text, servers that
//! reject tools or schemas, and servers that are found without a config.

use althing_testkit::{
    Action, Althing, CallStyle, FakeModel, FakeModelOptions, Script, ServerProgram, SmallModel,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpListener;

use super::support::{LIMIT, Team, althing, bare};

const SMALL: u64 = 1_500_000_000;
const BIG: u64 = 30_000_000_000;

fn server(program: ServerProgram, script: impl Into<Script>) -> FakeModel {
    FakeModel::start_on_thread_with(FakeModelOptions { program, ..FakeModelOptions::default() }, script)
}

fn small_model(style: CallStyle) -> Script {
    Script::from_fn(move |request| SmallModel::new(style).reply(request))
}

#[track_caller]
fn run_team(althing: &Althing, server: &FakeModel, kind: &str) -> (Value, String) {
    let team = Team::on(&server.base_url(), 3).every_backend("type", kind);
    althing.file("team.yaml", team.text());
    let command = althing.new_command().args(["--config", "team.yaml", "--json", "What is 6 times 7?"]);
    let output = command.spawn().wait(LIMIT).expect_code(0);
    (serde_json::from_str(&output.stdout).unwrap(), output.stderr)
}

fn sources(althing: &Althing) -> Vec<Value> {
    let events = althing.events();
    let replies =
        events.iter().map(|event| &event["data"]["item"]).filter(|item| item["tool_calls"].is_array());
    replies.map(|item| item["calls_from"].clone()).collect()
}

#[track_caller]
fn assert_decided(result: &Value) {
    assert_eq!(result["status"], "completed", "{result}");
    let summary = &result["coordination_summary"];
    assert_eq!(summary["ballots"].as_array().map(Vec::len), Some(3), "{summary}");
    assert!(summary["agents"].as_array().unwrap().iter().all(|agent| agent["answers"] == 1), "{summary}");
    let answer = result["final_answer"].as_str().unwrap();
    assert!(answer.starts_with("Final answer of model-"), "{answer}");
}

#[test]
fn a_team_of_small_models_answers_votes_and_presents_on_every_kind_of_server() {
    let programs = [
        ("chatcompletion", ServerProgram::LlamaCpp { context: 16_384, slots: 2, parameters: SMALL }),
        ("ollama", ServerProgram::Ollama { context: 16_384, parameters: SMALL, tools: true, bytes: 1 }),
        ("lmstudio", ServerProgram::LmStudio { context: 16_384, tools: false }),
    ];
    for (kind, program) in programs {
        let (server, althing) = (server(program, small_model(CallStyle::Fence)), althing());
        let (result, stderr) = run_team(&althing, &server, kind);
        assert_decided(&result);
        assert_eq!(
            sources(&althing),
            [
                json!("schema"),
                json!("schema"),
                json!("schema"),
                json!("schema"),
                json!("schema"),
                json!("schema")
            ],
            "{program:?}"
        );
        assert!(!stderr.contains("\"arguments\"") && !stderr.contains("tool_calling"), "{stderr}");
        let asked = server.requests();
        assert!(asked.iter().all(|request| request.body().get("tools").is_none()), "{program:?}");
    }
}

#[test]
fn a_model_that_writes_its_calls_as_text_is_understood_at_once_and_then_asked_with_a_schema() {
    let program = ServerProgram::LlamaCpp { context: 16_384, slots: 3, parameters: BIG };
    for style in [CallStyle::Fence, CallStyle::ToolCall, CallStyle::Tools, CallStyle::Bare] {
        let (server, althing) = (server(program, small_model(style)), althing());
        let (result, stderr) = run_team(&althing, &server, "chatcompletion");
        assert_decided(&result);
        let sources = sources(&althing);
        assert_eq!(sources.iter().filter(|source| **source == "text").count(), 3, "{sources:?}");
        assert_eq!(sources.iter().filter(|source| **source == "schema").count(), 3, "{sources:?}");
        assert_eq!(stderr.matches("wrote its tool call as text").count(), 3, "{stderr}");
    }
}

#[test]
fn a_server_without_tools_and_schemas_is_used_with_calls_in_the_text() {
    let refusing = Script::from_fn(|request| match request.body() {
        body if body.get("tools").is_some() => {
            Action::refuse(400, "\"auto\" tool choice requires --enable-auto-tool-choice")
        }
        body if body.get("response_format").is_some() => {
            Action::refuse(400, "response_format is not supported")
        }
        _ => SmallModel::new(CallStyle::ToolCall).reply(request).into(),
    });
    let (server, althing) = (server(ServerProgram::Vllm { context: 16_384 }, refusing), althing());
    let (result, _) = run_team(&althing, &server, "vllm");
    assert_decided(&result);
    assert!(sources(&althing).iter().all(|source| *source == "text"));
}

#[test]
fn more_agents_than_slots_wait_for_each_other_and_are_shown_as_waiting() {
    let program = ServerProgram::LlamaCpp { context: 16_384, slots: 1, parameters: SMALL };
    let (server, althing) = (server(program, small_model(CallStyle::Fence)), althing());
    let team = Team::on(&server.base_url(), 3).every_backend("model", "model-a");
    althing.file("team.yaml", team.text());
    let command = althing.new_command().args(["--config", "team.yaml", "--stream-events=all", "task"]);
    let output = command.spawn().wait(LIMIT).expect_code(0);
    let waiting = output
        .stdout
        .lines()
        .any(|line| line.contains("\"kind\":\"waiting\"") && line.contains("busy with other calls"));
    assert!(waiting, "{}", output.stdout);
    let requests = server.requests();
    for pair in requests.windows(2) {
        assert!(pair[0].ended().unwrap() <= pair[1].arrived(), "one call at a time");
    }
}

#[test]
fn without_a_config_local_servers_are_found_with_their_models_and_sizes() {
    let llama = server(
        ServerProgram::LlamaCpp { context: 16_384, slots: 3, parameters: SMALL },
        small_model(CallStyle::Fence),
    );
    let found = |althing: Althing| {
        let output = althing.args(["--automation", "What is 6 times 7?"]).spawn().wait(LIMIT).expect_code(0);
        let line = output.stderr.lines().find(|line| line.contains("no config")).unwrap().to_owned();
        (line, output.stdout)
    };
    let (told, answer) = found(bare().env("ALTHING_LOCAL_SERVERS", llama.base_url()));
    assert!(
        told.ends_with("agents from llama-server (model-a 0.8 GB, model-b 0.8 GB, model-c 0.8 GB)"),
        "{told}"
    );
    assert!(answer.starts_with("Answer of model-"), "the winner's answer is used unchanged: {answer}");
    let vllm = server(ServerProgram::Vllm { context: 16_384 }, Script::parliament());
    let studio = server(ServerProgram::LmStudio { context: 16_384, tools: true }, Script::parliament());
    for (server, title) in [(&vllm, "vLLM"), (&studio, "LM Studio")] {
        let (told, _) = found(
            bare().env("ALTHING_LOCAL_SERVERS", format!("http://127.0.0.1:9/v1,{}", server.base_url())),
        );
        assert!(told.ends_with(&format!("agents from {title} (model-a, model-b, model-c)")), "{told}");
    }
    let plain = server(ServerProgram::Plain, Script::parliament());
    let (told, _) = found(bare().env("ALTHING_LOCAL_SERVERS", plain.base_url()));
    assert!(told.contains("using the offline model"), "an unknown server is not used: {told}");
}

#[test]
fn a_server_that_the_user_names_and_that_cannot_be_used_is_named_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let loading = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let body = r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;
            let head = "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: ";
            let _ = connection.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes());
        }
    });
    let plain = server(ServerProgram::Plain, Script::parliament());
    let silent = "http://127.0.0.1:9/v1";
    let named = format!("{loading},{silent},{}", plain.base_url());
    let expected = [
        format!("the model server at {loading} is loading its model: try again when it is ready"),
        format!("no model server answers at {silent}, which ALTHING_LOCAL_SERVERS names"),
        format!("the server at {}, which ALTHING_LOCAL_SERVERS names, is none that", plain.base_url()),
    ];
    for command in [&["--automation", "task"][..], &["config", "init"]] {
        let althing = bare().env("ALTHING_LOCAL_SERVERS", &named);
        let output = althing.args(command).spawn().wait(LIMIT).expect_code(0);
        for note in &expected {
            assert!(output.stderr.contains(note), "{command:?}: {note}: {}", output.stderr);
        }
    }
}

#[test]
fn a_model_that_does_not_fit_into_memory_is_never_proposed() {
    let program =
        ServerProgram::Ollama { context: 8192, parameters: BIG, tools: true, bytes: 900_000_000_000_000 };
    let server = server(program, Script::parliament());
    let host = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let output =
        bare().env("OLLAMA_HOST", host).args(["--automation", "task"]).spawn().wait(LIMIT).expect_code(0);
    assert!(output.stderr.contains("using the offline model"), "{}", output.stderr);
    assert!(
        output.stderr.contains("do not fit into the free memory")
            && output.stderr.contains("model-a 900000.0 GB"),
        "{}",
        output.stderr
    );
    assert_eq!(server.request_count(), 0);
}
