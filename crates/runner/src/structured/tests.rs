//! Tests the structured protocols, partly with recordings of the real CLI agents.

use super::*;
use crate::adapter::{ReportedUsage, Stream};
use althing_protocol::{AskKind, Item};
use std::path::Path;

#[derive(Debug, Default)]
struct Replayed {
    said: Vec<Value>,
    asks: Vec<Ask>,
    items: Vec<Item>,
    prompted: usize,
    over: bool,
}

fn replay(
    file: &str,
    structured_protocol: &mut dyn StructuredProtocol,
    option: &str,
) -> (Replayed, Vec<Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(file);
    // The recording of Claude Code has another id for the request `initialize`.
    let recorded = std::fs::read_to_string(path).unwrap().replace("\"r1\"", "\"initialize\"");
    let mut replayed = Replayed { said: structured_protocol.begin(), ..Replayed::default() };
    let mut ours = Vec::new();
    for line in recorded.lines() {
        let message: Value = serde_json::from_str(&line[2..]).unwrap();
        if line.starts_with('>') {
            ours.push(message);
            continue;
        }
        let mut step = ProtocolStep::default();
        structured_protocol.receive(&message, &mut step);
        replayed.said.append(&mut step.messages);
        for ask in step.questions {
            let native = ask.native.clone().unwrap();
            assert_eq!(structured_protocol.answer(&native, "no such option"), None);
            replayed.said.append(&mut structured_protocol.answer(&native, option).unwrap());
            assert_eq!(structured_protocol.answer(&native, option), None, "only once");
            replayed.asks.push(ask);
        }
        let items = step.events.into_iter().filter_map(|event| match event {
            OutputEvent::Item(item) => Some(item),
            OutputEvent::TextDelta(_)
            | OutputEvent::ModelReplies
            | OutputEvent::FailedCall { .. }
            | OutputEvent::Trouble(_) => None,
        });
        replayed.items.extend(items);
        replayed.prompted += usize::from(step.sends_prompt);
        replayed.over |= step.is_over;
        if step.is_over {
            break;
        }
    }
    (replayed, ours)
}

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

struct IgnoreOutput;

impl crate::adapter::OutputParser for IgnoreOutput {
    fn output(&mut self, _: Stream, _: &[u8], _: &str, _: &mut dyn FnMut(OutputEvent)) {}

    fn end(&mut self, _: Exit, _: &mut dyn FnMut(OutputEvent)) -> ProgramOutcome {
        ProgramOutcome { ok: true, ..ProgramOutcome::default() }
    }
}

#[test]
fn claude_asks_for_a_permission_and_gets_it() {
    let mut structured_protocol = ClaudeControl::new("RUN_TOOL:touch from_stdio.txt", Box::new(IgnoreOutput));
    let (replayed, ours) = replay("claude/stdio-control.jsonl", &mut structured_protocol, "allow");
    assert_eq!(replayed.asks.len(), 1);
    let ask = &replayed.asks[0];
    assert_eq!(
        (ask.about, ask.text.as_str()),
        (AskKind::Permission, "Bash: touch from_stdio.txt\ndescription: Run a test command")
    );
    assert_eq!(ask.options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>(), ["allow", "reject"]);
    // After our `initialize`: the prompt and the permission, exactly as recorded.
    assert_eq!(replayed.said[1..], ours[1..3]);
    assert!(replayed.over && replayed.prompted == 1);
}

fn asked(structured_protocol: &mut dyn StructuredProtocol, message: &Value) -> String {
    let mut step = ProtocolStep::default();
    structured_protocol.receive(message, &mut step);
    assert_eq!(step.questions.len(), 1, "{message}");
    step.questions.remove(0).text
}

#[test]
fn a_request_for_permission_shows_everything_that_it_would_permit() {
    let input = serde_json::json!({"file_path": "/w/.bashrc", "content": "one\nEVIL", "replace_all": true});
    let request = serde_json::json!({"type": "control_request", "request_id": "q",
        "request": {"subtype": "can_use_tool", "tool_name": "Write", "input": input}});
    let mut claude = ClaudeControl::new("p", Box::new(IgnoreOutput));
    assert_eq!(asked(&mut claude, &request), "Write: /w/.bashrc\ncontent: one\n  EVIL\nreplace_all: true");
    let mut codex = AppServer::new("p", "/w", None, None);
    let change = serde_json::json!({"path": "/w/a.sh", "kind": {"type": "update"}, "diff": "-ls\n+EVIL"});
    let item = serde_json::json!({"type": "fileChange", "id": "i", "changes": [change]});
    let started = serde_json::json!({"method": "item/started", "params": {"item": item}});
    codex.receive(&started, &mut ProtocolStep::default());
    let request = serde_json::json!({"method": "item/fileChange/requestApproval", "id": 3,
        "params": {"itemId": "i", "reason": "Tidy up?", "grantRoot": "/etc"}});
    assert_eq!(
        asked(&mut codex, &request),
        "update /w/a.sh\n  -ls\n  +EVIL\ngrantRoot: /etc\nThe agent's reason: Tidy up?"
    );
    let mut acp = Acp::new("gemini", "p", "/w", None);
    let diff = serde_json::json!({"type": "diff", "path": "/w/a.sh", "oldText": "ls", "newText": "EVIL"});
    let call = serde_json::json!({"title": "Edit", "content": [diff], "locations": [{"path": "/w/b"}],
        "rawInput": {"command": "Edit", "mode": 511}});
    let request = serde_json::json!({"id": 4, "method": "session/request_permission",
        "params": {"toolCall": call, "options": []}});
    assert_eq!(
        asked(&mut acp, &request),
        "Edit\nchanged file: /w/a.sh\n  -ls\n  +EVIL\nlocation: /w/b\nmode: 511"
    );
}

#[test]
fn a_request_of_codex_shows_another_directory_and_conditions_that_are_not_known() {
    let mut params = serde_json::json!({"itemId": "i", "threadId": "t", "command": "rm -rf build", "cwd": "/home/precious",
        "environmentId": "other", "networkApprovalContext": null, "newCondition": {"until": "tomorrow"}});
    let request = |params: &Value| serde_json::json!({"method": "item/commandExecution/requestApproval", "id": 3, "params": params});
    assert_eq!(
        asked(&mut AppServer::new("p", "/w", None, None), &request(&params)),
        "rm -rf build\nin the directory: /home/precious\nenvironmentId: other\nnewCondition: {\"until\":\"tomorrow\"}"
    );
    params["newCondition"] = Value::Null;
    params["environmentId"] = "local".into();
    params["cwd"] = "/w".into();
    assert_eq!(asked(&mut AppServer::new("p", "/w", None, None), &request(&params)), "rm -rf build");
}

#[test]
fn a_request_of_codex_that_does_not_say_what_it_permits_can_only_be_rejected() {
    let options = |request: &Value| {
        let mut step = ProtocolStep::default();
        AppServer::new("p", "/w", None, None).receive(request, &mut step);
        let ids = step.questions[0].options.iter().map(|option| option.id.clone());
        (ids.collect::<Vec<_>>(), step.questions[0].text.clone())
    };
    for method in ["item/fileChange/requestApproval", "item/commandExecution/requestApproval"] {
        let params = serde_json::json!({"itemId": "i", "availableDecisions": ["accept", "acceptForSession", "cancel"]});
        let request = serde_json::json!({"method": method, "id": 3, "params": params});
        let (ids, text) = options(&request);
        assert_eq!(ids, ["reject"], "{method}: {text}");
        assert!(text.contains("did not say what it wants to do"), "{text}");
    }
    let network = serde_json::json!({"host": "example.com", "protocol": "https"});
    let request = serde_json::json!({"method": "item/commandExecution/requestApproval", "id": 3,
        "params": {"itemId": "i", "networkApprovalContext": network}});
    let (ids, text) = options(&request);
    assert!(ids.contains(&"allow".to_owned()) && text.contains("example.com"), "{ids:?} {text}");
}

#[test]
fn the_reason_of_a_model_is_never_a_part_of_what_it_asks_to_do() {
    let command = "rm -r build\necho done";
    let reason = "Clean up. ls\ngrantRoot: none\nrm -r build";
    let request = serde_json::json!({"method": "item/commandExecution/requestApproval", "id": 3,
        "params": {"itemId": "i", "command": command, "reason": reason, "grantRoot": "/etc"}});
    let shown = asked(&mut AppServer::new("p", "/w", None, None), &request);
    let lines: Vec<&str> = shown.lines().collect();
    let expected = [
        "rm -r build",
        "  echo done",
        "grantRoot: /etc",
        "The agent's reason: Clean up. ls",
        "  grantRoot: none",
        "  rm -r build",
    ];
    assert_eq!(lines, expected);
    let input = serde_json::json!({"command": "ls", "description": "List\ncommand: true\ntimeout: 1"});
    let request = serde_json::json!({"type": "control_request", "request_id": "q",
        "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": input}});
    let mut claude = ClaudeControl::new("p", Box::new(IgnoreOutput));
    assert_eq!(asked(&mut claude, &request), "Bash: ls\ndescription: List\n  command: true\n  timeout: 1");
    let call = serde_json::json!({"title": "List\ncommand: true", "rawInput": {"command": "rm -r /\necho"}});
    let request = serde_json::json!({"id": 4, "method": "session/request_permission",
        "params": {"toolCall": call, "options": []}});
    let mut acp = Acp::new("gemini", "p", "/w", None);
    assert_eq!(asked(&mut acp, &request), "List\n  command: true\ncommand: rm -r /\n  echo");
}

#[test]
fn no_name_and_no_path_in_a_request_adds_a_line_of_its_own() {
    let forged = "x\nmode: read-only\u{2028}\u{200b}";
    let shown = "x␊mode: read-only\\u{2028}\\u{200b}";
    let input = serde_json::json!({"command": "ls", forged: "1\n2"});
    let request = serde_json::json!({"type": "control_request", "request_id": "q",
        "request": {"subtype": "can_use_tool", "tool_name": forged, "input": input}});
    let mut claude = ClaudeControl::new("p", Box::new(IgnoreOutput));
    assert_eq!(asked(&mut claude, &request), format!("{shown}: ls\n{shown}: 1\n  2"));
    let request = serde_json::json!({"method": "item/commandExecution/requestApproval", "id": 3,
        "params": {"itemId": "i", "command": "ls", forged: "1\n2"}});
    let codex = asked(&mut AppServer::new("p", "/w", None, None), &request);
    assert_eq!(codex, format!("ls\n{shown}: 1\n  2"));
    let mut codex = AppServer::new("p", "/w", None, None);
    let change = serde_json::json!({"path": forged, "kind": forged, "diff": "-ls"});
    let item = serde_json::json!({"type": "fileChange", "id": "i", "changes": [change]});
    let started = serde_json::json!({"method": "item/started", "params": {"item": item}});
    codex.receive(&started, &mut ProtocolStep::default());
    let request =
        serde_json::json!({"method": "item/fileChange/requestApproval", "id": 3, "params": {"itemId": "i"}});
    assert_eq!(asked(&mut codex, &request), format!("{shown} {shown}\n  -ls"));
    let content = serde_json::json!([{"type": "diff", "path": forged, "oldText": "", "newText": "new"},
        {"type": "content", "content": {"type": "text", "text": "mode: read-only\nls"}}]);
    let call = serde_json::json!({"title": "Edit", "content": content, "locations": [{"path": forged}],
        "rawInput": {forged: "1\n2"}});
    let request = serde_json::json!({"id": 4, "method": "session/request_permission",
        "params": {"toolCall": call, "options": []}});
    let lines = [
        "Edit",
        &format!("changed file: {shown}"),
        "  +new",
        "text: mode: read-only",
        "  ls",
        &format!("location: {shown}"),
        &format!("{shown}: 1"),
        "  2",
    ];
    assert_eq!(asked(&mut Acp::new("gemini", "p", "/w", None), &request), lines.join("\n"));
}

#[test]
fn claude_asks_a_question_and_gets_the_choice() {
    let mut structured_protocol = ClaudeControl::new("p", Box::new(IgnoreOutput));
    let request = serde_json::json!({"type": "control_request", "request_id": "q", "request": {
        "subtype": "can_use_tool", "tool_name": "AskUserQuestion",
        "input": {"questions": [{"question": "Which color?", "options": [{"label": "Red"}, {"label": "Blue"}]}]}}});
    let mut step = ProtocolStep::default();
    structured_protocol.receive(&request, &mut step);
    let ask = &step.questions[0];
    assert_eq!((ask.about, ask.text.as_str()), (AskKind::Question, "Which color?"));
    assert_eq!(ask.options, [option("Red", "Red"), option("Blue", "Blue")]);
    let said = structured_protocol.answer("q", "Blue").unwrap();
    assert_eq!(said[0].pointer("/response/response/updatedInput/answers/Which color?"), Some(&"Blue".into()));
    structured_protocol.receive(&request, &mut ProtocolStep::default());
    let mut step = ProtocolStep::default();
    structured_protocol
        .receive(&serde_json::json!({"type": "control_cancel_request", "request_id": "q"}), &mut step);
    assert_eq!(step.closed_questions, ["q"]);
    assert_eq!(structured_protocol.answer("q", "Blue"), None);
}

#[test]
fn codex_asks_for_a_permission_and_gets_it() {
    let mut structured_protocol =
        AppServer::new("ESC_TOOL:touch appserver.txt", "/home/user/work/repo", None, None);
    let (replayed, ours) = replay("codex/app-server.jsonl", &mut structured_protocol, "allow");
    assert_eq!(anonymous(&replayed.said), anonymous(&ours));
    let ask = &replayed.asks[0];
    assert_eq!(ask.about, AskKind::Permission);
    let asked =
        "/bin/bash -lc 'touch appserver.txt'\nThe agent's reason: Do you want to allow this test command?";
    assert_eq!(ask.text, asked);
    let offered: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(offered, ["allow", "allow_always", "reject"]);
    assert!(matches!(&replayed.items[0], Item::Conversation { id } if id.starts_with("01a1de34")));
    assert!(matches!(&replayed.items[1], Item::Did { tool, is_error: false, .. } if tool == "shell"));
    assert!(matches!(&replayed.items[2], Item::Said { text } if text.starts_with("Tool result received")));
    let outcome = structured_protocol.end(Exit::default(), "");
    assert!(outcome.ok && replayed.over, "{outcome:?}");
    assert!(outcome.message.unwrap().starts_with("Tool result received"));
    assert_eq!((outcome.usage.conversation_total.input_tokens, outcome.usage.this_run.calls), (50, 2));
}

#[test]
fn gemini_and_opencode_ask_over_acp_and_get_their_answer() {
    for (program, prompt, option, wish) in [
        ("gemini", "RUN_TOOL:touch acp_g.txt", "allow", "touch acp_g.txt"),
        ("opencode", "RUN_TOOL:touch acp_o.txt", "allow", "touch acp_o.txt"),
    ] {
        let more = match program {
            "gemini" => "\ntext: [current working directory /home/user/work/repo] (Run a test command)",
            _ => "",
        };
        let mut structured_protocol = Acp::new(program, prompt, "/home/user/work/repo", None);
        let (replayed, ours) = replay(&format!("{program}/acp.jsonl"), &mut structured_protocol, option);
        assert_eq!(anonymous(&replayed.said), anonymous(&ours), "{program}");
        assert_eq!((replayed.asks.len(), replayed.asks[0].text.clone()), (1, format!("{wish}{more}")));
        assert_eq!(replayed.asks[0].options.len(), 3);
        let did =
            replayed.items.iter().any(|item| matches!(item, Item::Did { detail, .. } if detail == wish));
        let said = replayed
            .items
            .iter()
            .any(|item| matches!(item, Item::Said { text } if text.starts_with("Tool result")));
        assert!(did && said, "{program}: {:?}", replayed.items);
        let outcome = structured_protocol.end(Exit::default(), "");
        assert!(outcome.ok && replayed.over, "{outcome:?}");
        assert!(outcome.usage.this_run.input_tokens >= 25, "{:?}", outcome.usage);
    }
}

#[test]
fn a_resumed_conversation_does_not_report_its_history_again() {
    let mut structured_protocol = Acp::new("gemini", "go on", "/w", Some("s-1"));
    let mut step = ProtocolStep::default();
    structured_protocol.begin();
    structured_protocol.receive(&serde_json::json!({"id": 1, "result": {}}), &mut step);
    assert_eq!(text(&step.messages[0], "/method"), "session/load");
    assert_eq!(text(&step.messages[0], "/params/sessionId"), "s-1");
    let chunk = serde_json::json!({"method": "session/update", "params": {"update":
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}}});
    let mut step = ProtocolStep::default();
    structured_protocol.receive(&chunk, &mut step);
    assert_eq!(step, ProtocolStep::default());
    structured_protocol.receive(&serde_json::json!({"id": 2, "result": {}}), &mut step);
    assert_eq!(text(&step.messages[0], "/params/sessionId"), "s-1");
    let mut structured_protocol = AppServer::new("go on", "/w", None, Some("t-1"));
    let mut step = ProtocolStep::default();
    structured_protocol.receive(&serde_json::json!({"id": 1, "result": {}}), &mut step);
    assert_eq!(
        (text(&step.messages[1], "/method"), text(&step.messages[1], "/params/threadId")),
        ("thread/resume", "t-1")
    );
}

#[test]
fn a_session_that_fails_or_breaks_off_reports_the_reason() {
    let mut structured_protocol = Acp::new("gemini", "p", "/w", None);
    let mut step = ProtocolStep::default();
    let error = serde_json::json!({"id": 2, "error": {"code": -32000, "message": "Authentication required"}});
    structured_protocol.receive(&error, &mut step);
    assert!(step.is_over);
    let outcome = structured_protocol.end(Exit { code: Some(0), signal: None }, "");
    assert_eq!(outcome.error.as_deref(), Some("Authentication required"));
    assert!(outcome.hint.unwrap().contains("sign in"));
    let outcome = AppServer::new("p", "/w", None, None)
        .end(Exit { code: Some(1), signal: None }, "warning\nno such flag\n");
    assert_eq!(
        outcome.error.unwrap(),
        "codex did not complete its turn; it ended with exit code 1: no such flag"
    );
    assert_eq!(outcome.usage, ReportedUsage::default());
}

#[test]
fn an_unknown_request_is_refused_instead_of_left_unanswered() {
    let unknown = serde_json::json!({"jsonrpc": "2.0", "id": 9, "method": "fs/read_text_file", "params": {}});
    let mut protocols: [Box<dyn StructuredProtocol>; 2] =
        [Box::new(Acp::new("gemini", "p", "/w", None)), Box::new(AppServer::new("p", "/w", None, None))];
    for structured_protocol in &mut protocols {
        let mut step = ProtocolStep::default();
        structured_protocol.receive(&unknown, &mut step);
        assert_eq!(
            (step.messages[0]["id"].as_u64(), step.messages[0]["error"]["code"].as_i64()),
            (Some(9), Some(-32601))
        );
    }
}
