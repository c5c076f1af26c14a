//! Long texts of a conversation in requests to a model: passed on whole, or shortened with a marker that says how much
//! is missing and where the whole text is. Checks the requests that the model server received.

use althing_testkit::{Action, Output, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, texts};

const CHAT_MODEL: &str = "talker";

/// A text of about this many bytes on one line, in which every part is unique.
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

/// Answers with this text, in the way that the request asks for.
fn answer(request: &RecordedRequest, text: &str) -> Reply {
    if request.tool_names().contains(&"new_answer") { Reply::new_answer(text) } else { Reply::text(text) }
}

fn chat(fixture: &Fixture, lines: &str, args: &[&str]) -> Output {
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml", "--quick"]).args(args);
    command.stdin(lines).spawn().wait(LIMIT).expect_code(0)
}

/// The run's request that contains this message.
fn run_request_with(fixture: &Fixture, message: &str) -> String {
    let own = format!("<ORIGINAL MESSAGE>\n{message}\n");
    let requests = fixture.server.requests();
    requests.iter().map(texts).find(|text| text.contains(&own)).expect("the run asked a model")
}

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
    assert!(run_request_with(&fixture, "And later?").contains("User: And now?"));
}

#[test]
fn messages_that_do_not_fit_are_omitted_with_a_marker_that_counts_them() {
    let reply = long("answer", 60_000);
    let said = reply.clone();
    let fixture = Fixture::new(1, Script::from_fn(move |request: &RecordedRequest| answer(request, &said)));
    let messages: Vec<String> = (1..=6).map(|n| long(&format!("message{n}x"), 60_000)).collect();
    chat(&fixture, &format!("{}\nAnd now?\n", messages.join("\n")), &[]);
    let text = run_request_with(&fixture, "And now?");
    let shown: Vec<&String> = messages.iter().filter(|message| text.contains(message.as_str())).collect();
    assert!(shown.len() >= 3, "{} messages are shown", shown.len());
    assert!(text.contains(messages[5].as_str()), "the newest is among them");
    let missing: Vec<&String> = messages.iter().filter(|message| !shown.contains(message)).collect();
    assert!(missing.len() > 1 && missing.iter().all(|one| !text.contains(&one[..100])), "{}", missing.len());
    let bytes: usize = missing.iter().map(|one| one.len() + reply.len()).sum();
    let marker = format!(
        "[{} older messages and their answers, {bytes} bytes, are left out here; the whole text is in the log of session {}]",
        missing.len(),
        fixture.session_id()
    );
    assert!(text.contains(&marker), "{marker}\n{}", &text[..1000]);
}

/// A chat agent that launches a run with this answer, and then says that it is done.
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

#[test]
fn a_long_result_is_returned_as_excerpts_with_headings_and_the_path_of_the_whole() {
    let body = |name: &str| long(name, 30_000).replace(' ', "\n");
    let whole = format!("# Summary\n{}\n## Costs\n{}\n## Risks\n{}", body("a"), body("b"), body("c"));
    let fixture = chat_agent_launching(&whole);
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    command.stdin("Have it written\n").spawn().wait(LIMIT).expect_code(0);
    let requests = fixture.server.requests();
    let last = requests.iter().rfind(|request| request.model() == CHAT_MODEL).unwrap();
    let told = last.messages().iter().find(|message| message["role"] == "tool").unwrap()["content"].clone();
    let result: Value = serde_json::from_str(told.as_str().unwrap()).unwrap();
    let answer = result["final_answer"].as_str().unwrap();
    assert!(answer.len() < 20_000, "{}", answer.len());
    assert!(answer.starts_with("# Summary\nbegin-a\n") && answer.ends_with("end-c"), "{answer}");
    assert!(answer.contains("\n## Costs\n## Risks]\n"), "{answer}");
    let (before, rest) = answer.split_once("\n[").unwrap();
    let (marker, after) = rest.split_once("]\n").unwrap();
    let missing = whole.len() - before.len() - after.len();
    let count = format!("{missing} of {} bytes are left out here; the whole text is in ", whole.len());
    let path = marker.strip_prefix(&count).expect(marker).split(';').next().unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap().trim_end(), whole);
}
