//! The dialogues against recordings of the real programs: what they said is said again, and we must say the same.

use super::*;
use crate::adapter::{Spent, Stream};
use althing_protocol::{AskKind, Item};
use std::path::Path;

/// What a recorded dialogue came to.
#[derive(Debug, Default)]
struct Played {
    said: Vec<Value>,
    asks: Vec<Ask>,
    items: Vec<Item>,
    prompted: usize,
    over: bool,
}

/// Plays what a program said; every question is answered with the option of this id.
fn play(file: &str, dialogue: &mut dyn Dialogue, option: &str) -> (Played, Vec<Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(file);
    // Ours has a name instead.
    let recorded = std::fs::read_to_string(path).unwrap().replace("\"r1\"", "\"initialize\"");
    let mut played = Played { said: dialogue.begin(), ..Played::default() };
    let mut ours = Vec::new();
    for line in recorded.lines() {
        let message: Value = serde_json::from_str(&line[2..]).unwrap();
        if line.starts_with('>') {
            ours.push(message);
            continue;
        }
        let mut turn = Turn::default();
        dialogue.hear(&message, &mut turn);
        played.said.append(&mut turn.say);
        for ask in turn.asks {
            let native = ask.native.clone().unwrap();
            assert_eq!(dialogue.answer(&native, "no such option"), None);
            played.said.append(&mut dialogue.answer(&native, option).unwrap());
            assert_eq!(dialogue.answer(&native, option), None, "only once");
            played.asks.push(ask);
        }
        let items = turn.meanings.into_iter().filter_map(|meaning| match meaning {
            Meaning::Item(item) => Some(item),
            Meaning::Saying(_) => None,
        });
        played.items.extend(items);
        played.prompted += usize::from(turn.prompted);
        played.over |= turn.over;
        if turn.over {
            break;
        }
    }
    (played, ours)
}

/// Without what names us, which the recording was not made by.
fn anonymous(messages: &[Value]) -> Vec<Value> {
    let strip = |message: &Value| {
        let mut message = message.clone();
        if let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) {
            params.remove("clientInfo");
        }
        message
    };
    messages.iter().map(strip).collect()
}

/// The parser of the headless output is tested where it is.
struct Ignoring;

impl crate::adapter::OutputParser for Ignoring {
    fn output(&mut self, _: Stream, _: &[u8], _: &str, _: &mut dyn FnMut(Meaning)) {}

    fn end(&mut self, _: Exit, _: &mut dyn FnMut(Meaning)) -> Ending {
        Ending { ok: true, ..Ending::default() }
    }
}

#[test]
fn claude_asks_for_a_permission_and_gets_it() {
    let mut dialogue = ClaudeControl::new("RUN_TOOL:touch from_stdio.txt", Box::new(Ignoring));
    let (played, ours) = play("claude/stdio-control.jsonl", &mut dialogue, "allow");
    assert_eq!(played.asks.len(), 1);
    let ask = &played.asks[0];
    assert_eq!((ask.about, ask.text.as_str()), (AskKind::Permission, "Bash: touch from_stdio.txt"));
    assert_eq!(ask.options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>(), ["allow", "deny"]);
    // After our own greeting: the prompt, then the permission, exactly as they were said.
    assert_eq!(played.said[1..], ours[1..3]);
    assert!(played.over && played.prompted == 1);
}

#[test]
fn claude_asks_a_question_and_is_told_the_choice() {
    let mut dialogue = ClaudeControl::new("p", Box::new(Ignoring));
    let request = serde_json::json!({"type": "control_request", "request_id": "q", "request": {
        "subtype": "can_use_tool", "tool_name": "AskUserQuestion",
        "input": {"questions": [{"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}]}}});
    let mut turn = Turn::default();
    dialogue.hear(&request, &mut turn);
    let ask = &turn.asks[0];
    assert_eq!((ask.about, ask.text.as_str()), (AskKind::Question, "Which colour?"));
    assert_eq!(ask.options, [option("Red", "Red"), option("Blue", "Blue")]);
    let said = dialogue.answer("q", "Blue").unwrap();
    assert_eq!(
        said[0].pointer("/response/response/updatedInput/answers/Which colour?"),
        Some(&"Blue".into())
    );
    // A question that is withdrawn needs no answer.
    dialogue.hear(&request, &mut Turn::default());
    let mut turn = Turn::default();
    dialogue.hear(&serde_json::json!({"type": "control_cancel_request", "request_id": "q"}), &mut turn);
    assert_eq!(turn.settled, ["q"]);
    assert_eq!(dialogue.answer("q", "Blue"), None);
}

#[test]
fn codex_asks_for_a_permission_and_gets_it() {
    let mut dialogue = AppServer::new("ESC_TOOL:touch appserver.txt", "/home/user/work/repo", None, None);
    let (played, ours) = play("codex/app-server.jsonl", &mut dialogue, "accept");
    assert_eq!(anonymous(&played.said), anonymous(&ours));
    let ask = &played.asks[0];
    assert_eq!(ask.about, AskKind::Permission);
    assert_eq!(ask.text, "Do you want to allow this test command? /bin/bash -lc 'touch appserver.txt'");
    let offered: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(offered, ["accept", "acceptWithExecpolicyAmendment", "cancel"]);
    assert!(matches!(&played.items[0], Item::Conversation { id } if id.starts_with("01a1de34")));
    assert!(matches!(&played.items[1], Item::Did { tool, is_error: false, .. } if tool == "shell"));
    assert!(matches!(&played.items[2], Item::Said { text } if text.starts_with("Tool result received")));
    let ending = dialogue.end(Exit::default(), "");
    assert!(ending.ok && played.over, "{ending:?}");
    assert!(ending.message.unwrap().starts_with("Tool result received"));
    assert_eq!((ending.usage.so_far.input_tokens, ending.usage.now.calls), (50, 2));
}

#[test]
fn gemini_and_opencode_ask_over_acp_and_get_their_answer() {
    for (program, prompt, option, wish) in [
        ("gemini", "RUN_TOOL:touch acp_g.txt", "proceed_once", "touch acp_g.txt"),
        ("opencode", "RUN_TOOL:touch acp_o.txt", "once", "touch acp_o.txt"),
    ] {
        let mut dialogue = Acp::new(program, prompt, "/home/user/work/repo", None);
        let (played, ours) = play(&format!("{program}/acp.jsonl"), &mut dialogue, option);
        assert_eq!(anonymous(&played.said), anonymous(&ours), "{program}");
        assert_eq!((played.asks.len(), played.asks[0].text.as_str()), (1, wish));
        assert_eq!(played.asks[0].options.len(), 3);
        let did = played.items.iter().any(|item| matches!(item, Item::Did { detail, .. } if detail == wish));
        let said = played
            .items
            .iter()
            .any(|item| matches!(item, Item::Said { text } if text.starts_with("Tool result")));
        assert!(did && said, "{program}: {:?}", played.items);
        let ending = dialogue.end(Exit::default(), "");
        assert!(ending.ok && played.over, "{ending:?}");
        assert!(ending.usage.now.input_tokens >= 25, "{:?}", ending.usage);
    }
}

#[test]
fn a_conversation_is_gone_on_with_and_its_history_is_not_told_again() {
    let mut dialogue = Acp::new("gemini", "go on", "/w", Some("s-1"));
    let mut turn = Turn::default();
    dialogue.begin();
    dialogue.hear(&serde_json::json!({"id": 1, "result": {}}), &mut turn);
    assert_eq!(text(&turn.say[0], "/method"), "session/load");
    assert_eq!(text(&turn.say[0], "/params/sessionId"), "s-1");
    let chunk = serde_json::json!({"method": "session/update", "params": {"update":
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}}});
    let mut turn = Turn::default();
    dialogue.hear(&chunk, &mut turn);
    assert_eq!(turn, Turn::default());
    dialogue.hear(&serde_json::json!({"id": 2, "result": {}}), &mut turn);
    assert_eq!(text(&turn.say[0], "/params/sessionId"), "s-1");
    let mut dialogue = AppServer::new("go on", "/w", None, Some("t-1"));
    let mut turn = Turn::default();
    dialogue.hear(&serde_json::json!({"id": 1, "result": {}}), &mut turn);
    assert_eq!(
        (text(&turn.say[1], "/method"), text(&turn.say[1], "/params/threadId")),
        ("thread/resume", "t-1")
    );
}

#[test]
fn a_dialogue_that_fails_or_breaks_off_says_why() {
    let mut dialogue = Acp::new("gemini", "p", "/w", None);
    let mut turn = Turn::default();
    let error = serde_json::json!({"id": 2, "error": {"code": -32000, "message": "Authentication required"}});
    dialogue.hear(&error, &mut turn);
    assert!(turn.over);
    let ending = dialogue.end(Exit { code: Some(0), signal: None }, "");
    assert_eq!(ending.error.as_deref(), Some("Authentication required"));
    assert!(ending.hint.unwrap().contains("sign in"));
    let ending = AppServer::new("p", "/w", None, None)
        .end(Exit { code: Some(1), signal: None }, "warning\nno such flag\n");
    assert_eq!(
        ending.error.unwrap(),
        "codex did not complete its turn; it ended with exit code 1: no such flag"
    );
    assert_eq!(ending.usage, Spent::default());
}

#[test]
fn a_request_that_we_do_not_know_is_refused_rather_than_left_waiting() {
    let unknown = serde_json::json!({"jsonrpc": "2.0", "id": 9, "method": "fs/read_text_file", "params": {}});
    let mut dialogues: [Box<dyn Dialogue>; 2] =
        [Box::new(Acp::new("gemini", "p", "/w", None)), Box::new(AppServer::new("p", "/w", None, None))];
    for dialogue in &mut dialogues {
        let mut turn = Turn::default();
        dialogue.hear(&unknown, &mut turn);
        assert_eq!(
            (turn.say[0]["id"].as_u64(), turn.say[0]["error"]["code"].as_i64()),
            (Some(9), Some(-32601))
        );
    }
}
