//! Long texts of a conversation in requests to a model: passed on whole, or summarized with a marker that says how much
//! is missing and where the whole text is. Checks the requests that the model server received.

use althing_testkit::{Action, Output, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::chat_kinds::{BOTH_KINDS, Conversation, DELEGATE};
use super::mcp::Client;
use super::support::{Fixture, LIMIT, Team, texts};

const CHAT_MODEL: &str = "talker";

/// About this many bytes on one line, in which every part is unique.
fn long(name: &str, bytes: usize) -> String {
    let words: String = (0..)
        .map(|n| format!("{name}{n} "))
        .scan(0, |length, word| take_within(length, word, bytes))
        .collect();
    format!("begin-{name} {words}end-{name}")
}

fn take_within(length: &mut usize, word: String, most: usize) -> Option<String> {
    *length += word.len();
    (*length <= most).then_some(word)
}

fn answer(request: &RecordedRequest, text: &str) -> Reply {
    if request.tool_names().contains(&"new_answer") { Reply::new_answer(text) } else { Reply::text(text) }
}

fn chat(fixture: &Fixture, lines: &str, args: &[&str]) -> Output {
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml", "--quick"]).args(args);
    command.stdin(lines).spawn().wait(LIMIT).expect_code(0)
}

fn run_request_with(fixture: &Fixture, message: &str) -> String {
    let own = format!(">\n{message}\n<END OF ORIGINAL MESSAGE ");
    let requests = fixture.server.requests();
    requests.iter().map(texts).find(|text| text.contains(&own)).expect("the run asked a model")
}

// spec: modes/agent-mode-toggle/context-preservation-across-agent-switches
#[test]
fn a_run_in_a_conversation_gets_every_earlier_message_and_answer_whole() {
    let reply = long("answer", 40_000);
    let said = reply.clone();
    let fixture = Fixture::new(1, Script::from_fn(move |request: &RecordedRequest| answer(request, &said)));
    let (first, second) = (long("first", 9_000), long("second", 50_000));
    chat(&fixture, &format!("{first}\n{second}\nAnd now?\n"), &[]);
    chat(&fixture, "And later?\n", &["--continue"]);
    for question in ["And now?", "And later?"] {
        let text = run_request_with(&fixture, question);
        for whole in [&first, &second, &reply] {
            assert!(
                text.contains(whole.as_str()),
                "{question}: a text of {} bytes is not whole",
                whole.len()
            );
        }
        assert!(!text.contains("left out"), "{question}");
    }
    assert!(run_request_with(&fixture, "And later?").contains(">\nAnd now?\n<end of user "));
}

// spec: modes/agent-mode-toggle/context-preservation-across-agent-switches
#[test]
fn messages_that_do_not_fit_are_replaced_by_one_exchange_that_sums_them_up() {
    let reply = long("answer", 60_000);
    let said = reply.clone();
    let fixture = Fixture::new(1, Script::from_fn(move |request: &RecordedRequest| answer(request, &said)));
    let messages: Vec<String> = (1..=6)
        .map(|n| {
            format!("Question {n}: why? We decided: use rope {n}. {}", long(&format!("message{n}x"), 60_000))
        })
        .collect();
    chat(&fixture, &format!("{}\nAnd now?\n", messages.join("\n")), &[]);
    let text = run_request_with(&fixture, "And now?");
    let shown: Vec<&String> = messages.iter().filter(|message| text.contains(message.as_str())).collect();
    assert!(shown.len() >= 2, "{} messages are shown", shown.len());
    assert!(text.contains(messages[5].as_str()), "the newest is among them");
    let missing: Vec<&String> = messages.iter().filter(|message| !shown.contains(message)).collect();
    let bytes: usize = missing.iter().map(|one| one.len() + reply.len()).sum();
    let marker = format!(
        "[{} older messages and their answers ({bytes} bytes) are summarized here; the whole text is in the log of session {}]",
        missing.len(),
        fixture.session_id()
    );
    assert!(missing.len() > 1 && text.contains(&marker), "{marker}\n{}", &text[..1000]);
    assert_eq!(text.matches("are summarized here").count(), 1);
    for n in 1..=missing.len() {
        assert!(text.contains(&format!("The user: Question {n}: why?\nThe answer: begin-answer")), "{n}");
    }
    let first = text.find("The conversation so far:\n<user ").expect("the summary comes first");
    assert!(text[first..].find("Question 1").unwrap() < text[first..].find(messages[5].as_str()).unwrap());
    assert!(text.contains(">\nQuestion 1: why?"), "the first message is the goal");
}

fn chat_agent_launching(answer_of_the_run: &str) -> Fixture {
    let said = answer_of_the_run.to_owned();
    let talker = Action::with(|request: &RecordedRequest| {
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return Reply::text("done");
        }
        Reply::call("launch_run", &json!({"task": "Write it", "agent_mode": "single", "refinement": false}))
    });
    let run = Script::from_fn(move |request: &RecordedRequest| answer(request, &said));
    let fixture = Fixture::new(1, run.on(CHAT_MODEL).always(talker));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let interactive = json!({"backend": backend, "require_approval": false});
    fixture.althing.file("team.yaml", Team::on(&base, 1).rule("interactive_mode", interactive).text());
    fixture
}

fn report() -> String {
    let body = |name: &str| long(name, 30_000).replace(' ', "\n");
    format!(
        "# Report\n\nThe opening: it can be done. Details follow.\n\n## Costs\n\nIt costs 5 dollars. No more.\n{}\n\n\
         ## Risks\n\n- The roof leaks. Badly.\n- {}\n\n{}\n\nThe closing: buy it.",
        body("a"),
        body("b"),
        body("c")
    )
}

fn check_summary(result: &Value, whole: &str) {
    let answer = result["final_answer"].as_str().unwrap();
    assert!(answer.len() < 20_000, "{}", answer.len());
    let (head, body) = answer.split_once("]\n").unwrap();
    let sizes = format!(
        "[a summary of {} bytes; the full text has {} bytes; the whole text is in ",
        body.len(),
        whole.len()
    );
    let path = head.strip_prefix(&sizes).unwrap_or_else(|| panic!("{sizes}\n{head}"));
    assert_eq!(std::fs::read_to_string(path).unwrap().trim_end(), whole);
    assert!(body.starts_with("The opening: it can be done. Details follow.\n\n# Report\n"), "{body}");
    assert!(body.contains("\n## Costs\nIt costs 5 dollars.\n## Risks\nThe roof leaks.\n"), "{body}");
    assert!(body.ends_with("The closing: buy it."), "{body}");
    assert!(!body.contains("a100\n"), "no section is quoted");
}

// spec: interactive/interactive-agent-delegation-behavior/context-efficient-operation
#[test]
fn a_long_result_is_returned_as_a_summary_of_its_structure_with_the_path_of_the_whole() {
    let whole = report();
    for kind in BOTH_KINDS {
        let said = whole.clone();
        let member = Script::from_fn(move |request: &RecordedRequest| answer(request, &said));
        let launch = json!({"task": "Write it", "agent_mode": "single", "refinement": false});
        let conversation = Conversation::new(kind, 1, member, &[launch], |_| ());
        conversation.chat(&format!("Have it written, {DELEGATE}\n"), &[]);
        check_summary(&conversation.result(), &whole);
    }

    let fixture = chat_agent_launching(&whole);
    let mut client = Client::start(&fixture.althing, &["--config", "team.yaml"]);
    let launched = client.tool("launch_run", &json!({"task": "Write it", "refinement": false}));
    let result = launched["structuredContent"].clone();
    check_summary(&result, &whole);
    let uri = format!("althing://runs/{}/result", result["run_id"].as_str().unwrap());
    let resource = client.call("resources/read", &json!({ "uri": uri }));
    let resource = resource["result"]["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{resource}"));
    let resource: Value = serde_json::from_str(resource).unwrap();
    assert_eq!(resource["final_answer"].as_str().unwrap(), whole, "the resource is the whole result");
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
}

#[test]
fn a_short_result_is_returned_verbatim() {
    let whole = "# Report\n\nShort.\n\n## Costs\n\nNone. Really.";
    let fixture = chat_agent_launching(whole);
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    command.stdin("Have it written\n").spawn().wait(LIMIT).expect_code(0);
    let requests = fixture.server.requests();
    let last = requests.iter().rfind(|request| request.model() == CHAT_MODEL).unwrap();
    let told = last.messages().iter().find(|message| message["role"] == "tool").unwrap()["content"].clone();
    let result: Value = serde_json::from_str(told.as_str().unwrap()).unwrap();
    assert_eq!(result["final_answer"], whole);
}
