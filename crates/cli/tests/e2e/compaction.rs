//! Compaction of a conversation, end to end: between turns and within a turn, what the model is sent afterwards, and
//! what the user is told.

use althing_testkit::{Action, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::chat_kinds::{ChatAgentKind, Conversation, DELEGATE};
use super::support::{Fixture, LIMIT, Team, of_type, paths_below, texts};

const CHAT_MODEL: &str = "talker";
const THRESHOLD: usize = 10_000;
/// The number of files that the chat agent reads in one turn. Each has about 3,000 tokens.
const FILES: usize = 8;

fn is_summary_request(request: &RecordedRequest) -> bool {
    request.tool_names().is_empty()
}

/// About 12,000 bytes, recognizable by the number of the file.
fn content(n: usize) -> String {
    let line = |line: usize| format!("file {n}, line {line}: {}", "abc ".repeat(5));
    let lines: Vec<String> = (0..300).map(line).collect();
    lines.join("\n")
}

fn reader(request: &RecordedRequest) -> Reply {
    if is_summary_request(request) {
        return Reply::text("THE SUMMARY of what was read.").without_usage();
    }
    let all = texts(request);
    if !all.contains("Read all files") {
        // `/pin` pins the newest message: this reply, which repeats the user's message.
        return Reply::text(format!("Noted: {}.", request.last_user_text())).without_usage();
    }
    let read = (0..FILES).filter(|n| all.contains(&format!("file {n}, line 0"))).max();
    // After a compaction, the newest file whose content is still in the request says where to continue.
    match read.map_or(0, |n| n + 1) {
        n if n < FILES => Reply::call("read_file", &json!({"path": format!("f{n}.txt")}))
            .and_text(format!("Reading number {n}."))
            .without_usage(),
        _ => Reply::text("All files are read.").without_usage(),
    }
}

fn fixture(
    preserve_recent: u32,
    talker: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static,
) -> Fixture {
    let fixture = Fixture::new(1, Script::parliament().on(CHAT_MODEL).always(Action::with(talker)));
    let base = fixture.server.base_url();
    let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base});
    let compaction = json!({"threshold_tokens": THRESHOLD, "preserve_recent": preserve_recent});
    let interactive = json!({"backend": backend, "context_compaction": compaction});
    fixture.althing.file("team.yaml", Team::on(&base, 1).rule("interactive_mode", interactive).text());
    for n in 0..FILES {
        fixture.althing.file(&format!("f{n}.txt"), content(n));
    }
    fixture
}

fn requests(fixture: &Fixture) -> (Vec<RecordedRequest>, Vec<RecordedRequest>) {
    let of_chat = fixture.server.requests().into_iter().filter(|request| request.model() == CHAT_MODEL);
    of_chat.partition(|request| !is_summary_request(request))
}

fn compactions(fixture: &Fixture) -> Vec<Value> {
    let events = fixture.althing.events();
    let decided = of_type(&events, "decided").into_iter().map(|event| event["data"].clone());
    decided.filter(|verdict| verdict["verdict"] == "compacted").collect()
}

/// Checks that each tool result follows the call that it answers, and that no call is without a result.
#[track_caller]
fn check_pairs(request: &RecordedRequest) {
    let mut open: Vec<String> = Vec::new();
    for message in request.messages() {
        match message["role"].as_str().unwrap() {
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap();
                let at = open.iter().position(|open| open == id);
                open.remove(
                    at.unwrap_or_else(|| panic!("a result without a call: {:?}", request.messages())),
                );
            }
            role => {
                assert!(open.is_empty(), "a call without a result before a message of {role}");
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                open.extend(calls.map(|call| call["id"].as_str().unwrap().to_owned()));
            }
        }
    }
    assert!(open.is_empty(), "a call without a result");
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
// spec: design/compaction/pinned
#[test]
fn one_long_turn_with_tool_calls_is_compacted_before_its_next_call_and_the_user_is_told() {
    let fixture = fixture(10, reader);
    let lines = "The goal: a bridge for trains\nIt must be blue\n/pin\nRead all files\n";
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let output = command.stdin(lines).spawn().wait(LIMIT).expect_code(0);
    assert_eq!(
        output.stdout.lines().last().unwrap(),
        "All files are read.",
        "the summary is not a reply: {}",
        output.stdout
    );
    assert!(!output.stdout.contains("THE SUMMARY"), "{}", output.stdout);
    let (replies, summaries) = requests(&fixture);
    assert!(!summaries.is_empty(), "{}", output.stderr);
    for request in &replies {
        check_pairs(request);
        // A token is estimated at four bytes. A request may exceed the threshold by its prompt and its newest step.
        let size = texts(request).len() / 4;
        assert!(size < THRESHOLD + 5_000, "a request of {size} tokens");
    }
    let last = replies.last().unwrap();
    let all = texts(last);
    for kept in [
        "The goal: a bridge for trains",
        "Noted: It must be blue.",
        "Read all files",
        "THE SUMMARY of what was read.",
    ] {
        assert!(all.contains(kept), "{kept} is missing");
    }
    let newest = content(FILES - 1);
    let result = last.messages().iter().rfind(|message| message["role"] == "tool").unwrap();
    let newest_lines =
        newest.lines().filter(|line| result["content"].as_str().unwrap().contains(line)).count();
    assert_eq!(newest_lines, 300, "the newest step is verbatim");
    assert!(!all.contains("file 0, line 0"), "the oldest step is replaced");
    let asked = texts(&summaries[0]);
    let (_, current) = asked.split_once("The assistant is working on this message now:\n<user ").unwrap();
    assert!(current.contains(">\nRead all files\n<end of user "), "{asked}");
    let compactions = compactions(&fixture);
    assert_eq!(compactions.len(), summaries.len());
    assert_eq!(compactions[0]["exchanges"], 2);
    assert!(compactions.iter().all(|one| one["steps"].as_u64().unwrap() > 0), "{compactions:?}");
    for one in &compactions {
        let (before, after) = (one["tokens"][0].as_u64().unwrap(), one["tokens"][1].as_u64().unwrap());
        assert!(before > THRESHOLD as u64 && after < before, "{before} to {after}");
        let told = format!("compacted from {before} to {after} tokens: a summary replaces ");
        assert!(output.stderr.contains(&told), "{told}\n{}", output.stderr);
    }
    // Every file was read once: nothing is repeated because of a compaction.
    let events = fixture.althing.events();
    let replied = of_type(&events, "item_added").into_iter().map(|event| event["data"]["item"].to_string());
    let reads = replied.filter(|item| item.contains(r#""kind":"tool_result""#)).count();
    assert_eq!(reads, FILES);
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
#[test]
fn a_few_very_long_exchanges_are_compacted_although_there_are_fewer_than_preserve_recent() {
    let fixture = fixture(10, |request| {
        let summary = Reply::text("THE SUMMARY").without_usage();
        if is_summary_request(request) { summary } else { Reply::text("word ".repeat(5_000)).without_usage() }
    });
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    command.stdin("The goal\nTell me more\nAnd now?\n").spawn().wait(LIMIT).expect_code(0);
    let (replies, summaries) = requests(&fixture);
    assert!(!summaries.is_empty());
    let all = texts(replies.last().unwrap());
    for kept in ["The goal", "THE SUMMARY", "And now?"] {
        assert!(all.contains(kept), "{kept} is missing");
    }
    assert!(all.len() / 4 < THRESHOLD + 5_000, "{} bytes", all.len());
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
// spec: design/compaction/pinned
#[test]
fn a_cli_chat_agent_is_compacted_into_a_new_conversation_of_its_program() {
    for launches in [&[][..], &[json!({"task": "Build it"})]] {
        let has_run = !launches.is_empty();
        let conversation =
            Conversation::new(ChatAgentKind::ClaudeCode, 2, Script::parliament(), launches, |config| {
                config["orchestrator"]["interactive_mode"]["context_compaction"] =
                    json!({"threshold_tokens": THRESHOLD, "preserve_recent": 1});
            });
        let project = conversation.fixture.althing.work_dir();
        let files_before = paths_below(&project);
        let goal =
            if has_run { format!("The goal: a bridge, {DELEGATE}") } else { "The goal: a bridge".into() };
        let lines = format!("{goal}\nIt must be blue\n/pin\nTell me 1\nTell me 2\nTell me 3\nAnd now?\n");
        let output = conversation.chat(&lines, &[]);
        assert!(!output.stdout.contains("THE SUMMARY"), "the summary is not a reply: {}", output.stdout);
        assert!(output.stderr.contains("compacted from "), "{}", output.stderr);
        // The summary is made outside the chat agent's conversation: in another directory, without tools.
        let summaries = conversation.claude_calls(false);
        let summaries: Vec<_> =
            summaries.iter().filter(|call| call.prompt.starts_with("You summarize ")).collect();
        assert_eq!(summaries.len(), 2, "{}", output.stderr);
        for call in &summaries {
            assert!(call.tools.is_empty() && call.argument("--mcp-config").is_none(), "{call:?}");
            assert!(call.argument("--resume").is_none(), "{call:?}");
        }
        for text in [goal.as_str(), "It must be blue", "Tell me 1"] {
            assert!(summaries[0].prompt.contains(text), "{text}: {}", summaries[0].prompt);
        }
        let mut calls = conversation.chat_calls();
        let last = calls.pop().unwrap();
        assert!(last.argument("--resume").is_none(), "the program's own conversation is left: {last:?}");
        let id = last.argument("--session-id").unwrap();
        for call in calls.iter().chain(summaries.iter().copied()) {
            let used = [call.argument("--session-id"), call.argument("--resume")];
            assert!(!used.contains(&Some(id)), "the conversation is new: {call:?}");
        }
        assert!(
            calls[1].argument("--resume").is_some(),
            "before the compaction, the conversation is resumed"
        );
        assert!(last.tool_names().contains(&"launch_run"), "{last:?}");
        let (_, recent) =
            last.prompt.split_once("\nTell me 3\n<end of message of the user ").expect("a message");
        let words = "word ".repeat(4000);
        assert!(
            recent.split_once("\n\n<your earlier message ").unwrap().1.contains(words.trim_end()),
            "{recent}"
        );
        for kept in [goal.as_str(), "Noted: It must be blue", "THE SUMMARY of what was said.", "And now?"] {
            assert!(last.prompt.contains(kept), "`{kept}` is missing: {}", last.prompt);
        }
        for older in ["Tell me 1", "Tell me 2"] {
            assert!(!last.prompt.contains(older), "the older exchanges are replaced: {}", last.prompt);
        }
        if has_run {
            let run = format!("run {}.r1 (completed): Build it", conversation.fixture.session_id());
            assert!(last.prompt.contains(&run), "{run}: {}", last.prompt);
            assert!(summaries[0].prompt.contains("Final answer of model-a"), "{}", summaries[0].prompt);
        }
        assert_eq!(paths_below(&project), files_before, "the user's directory is unchanged");
    }
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
#[test]
fn the_screen_and_the_plain_screen_say_that_the_conversation_was_compacted() {
    for plain in [false, true] {
        let fixture = fixture(10, reader);
        let command = fixture.althing.new_command().args(["--config", "team.yaml"]);
        let command = if plain { command.env("ALTHING_PLAIN", "1") } else { command };
        let mut terminal = command.terminal(120, 50);
        terminal.wait_for(if plain { "Write a message" } else { "Type a message..." }, LIMIT);
        terminal.keys("Read all files\r");
        let screen = terminal.wait_for("All files are read.", LIMIT);
        assert!(screen.contains("the conversation was compacted from"), "plain {plain}:\n{screen}");
        assert!(!screen.contains("THE SUMMARY"), "plain {plain}:\n{screen}");
    }
}

// spec: interactive/interactive-session-lifecycle/session-context-compaction
#[test]
fn a_failed_summary_does_not_make_the_conversation_fail() {
    let fixture =
        fixture(10, |request| if is_summary_request(request) { Reply::empty() } else { reader(request) });
    let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
    let output = command.stdin("The goal: a bridge\nRead all files\n").spawn().wait(LIMIT).expect_code(0);
    assert!(output.stdout.ends_with("All files are read.\n"), "{}", output.stdout);
    assert!(!requests(&fixture).1.is_empty(), "a summary was asked for");
    assert!(compactions(&fixture).is_empty(), "and failed");
}
