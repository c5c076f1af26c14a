//! Runs of small models: a text that is no answer does not become the final answer, and the run still has a final
//! answer.

use althing_testkit::{FakeModel, RecordedRequest, Reply, Script};

use super::support::{Fixture, LIMIT, bare, items, of_type, run, task_of, texts};

const TASK: &str = "Write a Python function that reverses a string.";
const CODE: &str = "A function that reverses a string:\n\n```python\ndef reverse(text):\n    \"\"\"Return the text in reverse \
                    order.\"\"\"\n    return text[::-1]\n\nprint(reverse(\"hello\"))\n```";

fn has(request: &RecordedRequest, tool: &str) -> bool {
    request.tool_names().contains(&tool)
}

fn second_presents(presented: &'static str) -> Script {
    Script::from_fn(move |request| {
        if has(request, "vote") {
            Reply::vote("agent2", "it works")
        } else if has(request, "new_answer") {
            let code = if request.model() == "model-b" { CODE } else { "Use slicing." };
            Reply::new_answer(code)
        } else {
            Reply::text(presented)
        }
    })
}

#[test]
fn a_weak_presentation_does_not_replace_the_winners_answer() {
    let cases = [
        ("...", "is empty", 1),
        ("<END OF VOTES>", "repeats the markup of the prompt", 1),
        ("<|im_end|>", "repeats the markup of the prompt", 1),
        (
            "{\"name\": \"new_answer\", \"arguments\": {\"content\": \"x\"}}",
            "is a tool call written as text",
            1,
        ),
        ("I'm sorry, but I can't assist with that.", "apologizes or refuses instead of answering", 1),
        ("I am ready to assist you.", "offers help instead of answering", 1),
        ("Here is the final answer:", "announces an answer", 1),
        ("The function reverses a string by slicing it.", "has lost the code", 1),
    ];
    for (presented, reason, calls) in cases {
        let fixture = Fixture::new(2, second_presents(presented));
        let output = fixture.run(&[TASK]).expect_code(0);
        assert_eq!(output.stdout, format!("{CODE}\n"), "{presented:?}");
        let notice = format!("the presentation by b {reason}");
        assert!(output.stderr.contains(&notice), "{presented:?}: {}", output.stderr);
        assert!(output.stderr.contains("its own answer is used instead"), "{}", output.stderr);
        let presentations =
            fixture.server.requests().iter().filter(|request| request.tool_names().is_empty()).count();
        assert_eq!(presentations, calls, "{presented:?}");
        let events = fixture.althing.events();
        let ended = of_type(&events, "attempt_ended");
        let ended = &ended.last().unwrap()["data"];
        assert!(ended["rejected"].as_str().unwrap().starts_with(reason), "{ended}");
        let report = run(&fixture.althing, &["sessions", "show", "latest"]).expect_code(0).stdout;
        assert!(report.contains(reason), "{report}");
    }
}

#[test]
fn a_presenter_that_writes_nothing_does_not_replace_the_winners_answer() {
    // The model API sends an empty reply, which is retried and then fails.
    let fixture = Fixture::new(2, second_presents(""));
    let output = fixture.run(&[TASK]).expect_code(0);
    assert_eq!(output.stdout, format!("{CODE}\n"));
    let notice = "b could not present (chatcompletion model-b: the reply was empty";
    assert!(output.stderr.contains(notice), "{}", output.stderr);
    // The model calls a tool that does not exist, and writes nothing. It is reminded once.
    let script = Script::from_fn(|request| {
        if !has(request, "new_answer") && !has(request, "vote") {
            return Reply::call("open_browser", &serde_json::json!({}));
        }
        match (has(request, "vote"), request.model()) {
            (true, _) => Reply::vote("agent2", "it works"),
            (false, "model-b") => Reply::new_answer(CODE),
            (false, _) => Reply::new_answer("Use slicing."),
        }
    });
    let fixture = Fixture::new(2, script);
    let output = fixture.run(&[TASK]).expect_code(0);
    assert_eq!(output.stdout, format!("{CODE}\n"));
    assert!(output.stderr.contains("the presentation by b is empty"), "{}", output.stderr);
    assert_eq!(fixture.calls()["model-b"], 4, "an answer, a vote, a presentation and a reminder");
}

#[test]
fn a_presentation_in_other_words_is_the_final_answer() {
    let honest = "```python\ndef reversed_text(value):\n    return \"\".join(reversed(value))\n```";
    let fixture = Fixture::new(2, second_presents(honest));
    let output = fixture.run(&[TASK]).expect_code(0);
    assert_eq!(output.stdout, format!("{honest}\n"));
    assert!(!output.stderr.contains("is used instead"), "{}", output.stderr);
}

#[test]
fn a_critique_in_place_of_the_code_is_questioned_once() {
    let critique = "agent2's answer is correct, but it should handle empty strings.";
    let script = second_presents(CODE).on("model-b").each([
        Reply::new_answer(CODE),
        Reply::new_answer(critique),
        Reply::vote("agent2", "it works"),
    ]);
    let fixture = Fixture::new(2, script);
    let output = fixture.run(&[TASK]).expect_code(0);
    assert_eq!(output.stdout, format!("{CODE}\n"));
    let reminded = fixture.server.requests_of("model-b")[2].clone();
    let shown = texts(&reminded);
    assert!(shown.contains("has lost the code"), "{shown}");
    assert_eq!(shown.matches("<ORIGINAL MESSAGE ").count(), 2, "the task stands there again: {shown}");
    assert_eq!(items(&fixture.althing.events(), "answer").len(), 2, "the critique was not stored");
}

#[test]
fn a_reminder_shows_the_task_again_and_says_what_to_do() {
    let script = Script::from_fn(|request: &RecordedRequest| {
        // A model that answers only what it read last.
        let last = request.last_user_text();
        match task_of(&last) {
            Some(task) if last.contains("write that answer") => Reply::text(format!("The answer to: {task}")),
            Some(_) => Reply::text("Let me think."),
            None => Reply::text("I am ready to assist you."),
        }
    });
    let fixture = Fixture::with(1, script, |team| team.rule("final_answer_strategy", "winner_reuse"));
    let output = fixture.run(&[TASK]).expect_code(0);
    assert_eq!(output.stdout, format!("The answer to: {TASK}\n"));
}

#[test]
fn a_text_that_answers_the_reminder_does_not_replace_the_answer_before_it() {
    let script =
        Script::always(Reply::text("I am ready to assist you.")).on("model-a").nth(0, Reply::text(CODE));
    let fixture = Fixture::new(1, script);
    let output = fixture.run(&[TASK]).expect_code(0);
    assert_eq!(output.stdout, format!("{CODE}\n"), "{}", output.stderr);
}

#[test]
fn config_check_suggests_to_reuse_the_winners_answer_and_a_starter_config_does() {
    let althing = bare();
    let team = "agents:\n  - {id: a, backend: {type: ollama, model: 'qwen2.5-coder:1.5b'}}\n  - {id: b, backend: {type: \
                ollama, model: 'smollm2:135m'}}\n";
    althing.file("small.yaml", team);
    let output = run(&althing, &["config", "check", "small.yaml"]).expect_code(0);
    assert!(output.stderr.contains("final_answer_strategy: winner_reuse"), "{}", output.stderr);
    run(&althing, &["config", "check", "--strict", "small.yaml"]).expect_code(1);
    let server = FakeModel::start_on_thread(Script::parliament());
    let host = server.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let init = bare().env("OLLAMA_HOST", host);
    init.new_command().args(["config", "init"]).spawn().wait(LIMIT).expect_code(0);
    let text = std::fs::read_to_string(init.work_dir().join("althing.yaml")).unwrap();
    assert!(text.contains("# final_answer_strategy: winner_present"), "{text}");
}
