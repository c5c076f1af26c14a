//! A real CLI agent in a terminal asks before it writes a file: the question shows the path and the content, and a
//! rejection is obeyed.

use althing_testkit::process::Signal;
use althing_testkit::{FakeModel, RecordedRequest, Reply, Script};
use serde_json::json;

use super::programs::{
    START_TIMEOUT, internal_reply, option_ids, programs, send_op, shell_call, start_workflow,
    wait_for_question, with_programs,
};
use super::support::{LIMIT, of_type};

const CONTENT: &str = "forty-two and not more";

/// Writes a file once, with the CLI agent's own tool; or with a command for Codex, which offers no such tool to this
/// model.
fn writing_reply(request: &RecordedRequest) -> Reply {
    if let Some(internal_reply) = internal_reply(request) {
        return internal_reply;
    }
    let body = request.body().to_string();
    let tools = request.tool_names();
    let has = |name: &str| tools.contains(&name);
    // If the request contains the earlier call and its result, the file was already written or rejected.
    if body.contains(CONTENT) {
        return Reply::text("All of it is done.");
    }
    if has("Write") {
        // Claude Code requires an absolute path.
        let cwd = body.split("working directory: ").nth(1).and_then(|rest| rest.split("\\n").next());
        let path = format!("{}/made.txt", cwd.unwrap_or_default().trim());
        return Reply::call("Write", &json!({"file_path": path, "content": CONTENT}));
    }
    if has("write_file") {
        return Reply::call("write_file", &json!({"file_path": "made.txt", "content": CONTENT}));
    }
    if has("write") {
        return Reply::call("write", &json!({"filePath": "made.txt", "content": CONTENT}));
    }
    let codex = json!({"sandbox_permissions": "require_escalated", "justification": "Make a file?"});
    let call = shell_call(request, &format!("echo {CONTENT} > made.txt"), Some(&codex));
    call.unwrap_or_else(|| Reply::text("A title"))
}

#[test]
fn a_question_in_a_terminal_shows_the_path_and_the_content_and_can_be_rejected() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(writing_reply));
    let althing = with_programs(&dir, &server);
    let agents = ["claude", "codex", "gemini", "opencode"];
    let tasks = agents.map(|agent| {
        let cwd = althing.work_dir().join(agent);
        std::fs::create_dir(&cwd).unwrap();
        json!({"id": agent, "agent": agent, "executionMode": "interactive", "prompt": "Make the file", "cwd": cwd})
    });
    let running = start_workflow(&althing, &tasks);
    for agent in agents {
        let ask = wait_for_question(&running, &format!("w1.{agent}"), "reject");
        let text = ask["text"].as_str().unwrap();
        assert!(text.contains("made.txt") && text.contains(CONTENT), "{agent}: {ask:#}");
        assert_eq!(option_ids(&ask), ["allow", "reject"], "{agent}: {ask:#}");
        let decision = json!({"decision": "choose", "option": "reject"});
        send_op(&running, &json!({"op": "answer", "interaction": ask["id"], "decision": decision}));
    }
    for agent in agents {
        let of_task = format!(r#""task":"w1.{agent}""#);
        running.wait_for_stdout(
            |line| line.contains(r#""type":"interaction_closed""#) && line.contains(&of_task),
            START_TIMEOUT,
        );
        assert!(!althing.work_dir().join(agent).join("made.txt").exists(), "{agent} wrote it anyway");
    }
    let events = althing.events();
    let asked = of_type(&events, "interaction_opened");
    let asked: Vec<_> =
        asked.iter().map(|event| &event["data"]).filter(|ask| ask["about"] != "your_turn").collect();
    assert_eq!(asked.len(), 4, "each asks once: {asked:#?}");
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
}
