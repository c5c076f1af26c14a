//! A real CLI agent asks before it writes or changes a file, in a terminal or over its structured protocol: the
//! question shows the path and the content or the changes, and a rejection is obeyed.

use althing_testkit::process::Signal;
use althing_testkit::{Althing, FakeModel, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::programs::{
    START_TIMEOUT, internal_reply, option_ids, passed, programs, send_op, shell_call, start_workflow,
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

/// Changes the line of an existing file once, with the CLI agent's own tool, which may require that the file was read.
fn editing_reply(request: &RecordedRequest) -> Reply {
    if let Some(internal_reply) = internal_reply(request) {
        return internal_reply;
    }
    let body = request.body().to_string();
    let tools = request.tool_names();
    let has = |name: &str| tools.contains(&name);
    if body.contains(NEW_LINE) {
        return Reply::text("All of it is done.");
    }
    let was_read = body.contains(OLD_LINE);
    if has("Edit") {
        let cwd = body.split("working directory: ").nth(1).and_then(|rest| rest.split("\\n").next());
        let path = format!("{}/notes.txt", cwd.unwrap_or_default().trim());
        if !was_read {
            return Reply::call("Read", &json!({ "file_path": path }));
        }
        return Reply::call(
            "Edit",
            &json!({"file_path": path, "old_string": OLD_LINE, "new_string": NEW_LINE}),
        );
    }
    if has("replace") {
        let change = json!({"file_path": "notes.txt", "old_string": OLD_LINE, "new_string": NEW_LINE,
            "instruction": "Change the line"});
        return Reply::call("replace", &change);
    }
    if has("edit") {
        if !was_read {
            return Reply::call("read", &json!({"filePath": "notes.txt"}));
        }
        let change = json!({"filePath": "notes.txt", "oldString": OLD_LINE, "newString": NEW_LINE});
        return Reply::call("edit", &change);
    }
    let codex = json!({"sandbox_permissions": "require_escalated", "justification": "Change the file?"});
    let patch = format!(
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: notes.txt\n@@\n-{OLD_LINE}\n+{NEW_LINE}\n*** End Patch\nEOF"
    );
    shell_call(request, &patch, Some(&codex)).unwrap_or_else(|| Reply::text("A title"))
}

const AGENTS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];
const OLD_LINE: &str = "the first wording";
const NEW_LINE: &str = "a better wording";

/// A task of each CLI agent in a directory of its own, which has a file `notes.txt`.
fn tasks(althing: &Althing, mode: &str) -> [Value; 4] {
    AGENTS.map(|agent| {
        let cwd = althing.work_dir().join(agent);
        std::fs::create_dir(&cwd).unwrap();
        std::fs::write(cwd.join("notes.txt"), format!("{OLD_LINE}\n")).unwrap();
        let mut task =
            json!({"id": agent, "agent": agent, "executionMode": mode, "prompt": "Do the work", "cwd": cwd});
        if mode == "headless" {
            task["approvals"] = true.into();
            task["timeout_seconds"] = 150.into();
        }
        task
    })
}

/// Starts the CLI agents, checks that each asks one question with these texts, and rejects it. In a terminal, opencode
/// always draws a change of a file in a box of full height, which does not show whether rows are missing: this question
/// can be answered only in opencode's own terminal.
fn reject_each(althing: &Althing, mode: &str, texts: &[&str]) {
    let running = start_workflow(althing, &tasks(althing, mode));
    let can_answer = |agent: &str| mode == "headless" || agent != "opencode";
    for agent in AGENTS {
        let task = format!("w1.{agent}");
        let ask = if can_answer(agent) {
            wait_for_question(&running, &task, "reject")
        } else {
            let is = |line: &str| {
                ["interaction_opened", "permission", &task]
                    .iter()
                    .all(|part| line.contains(&format!("\"{part}\"")))
            };
            let line = running.wait_for_stdout(is, START_TIMEOUT);
            serde_json::from_str::<Value>(&line).unwrap()["data"].clone()
        };
        let text = ask["text"].as_str().unwrap();
        for part in texts {
            assert!(text.contains(part), "{agent}: no `{part}`: {ask:#}");
        }
        if !can_answer(agent) {
            assert!(ask["options"].is_null(), "{agent}: {ask:#}");
            continue;
        }
        let mut ids = option_ids(&ask);
        if mode == "headless" {
            ids.retain(|id| id != "allow_always");
        }
        assert_eq!(ids, ["allow", "reject"], "{agent}: {ask:#}");
        let decision = json!({"decision": "choose", "option": "reject"});
        send_op(&running, &json!({"op": "answer", "interaction": ask["id"], "decision": decision}));
    }
    for agent in AGENTS.into_iter().filter(|agent| can_answer(agent)) {
        let of_task = format!(r#""task":"w1.{agent}""#);
        running.wait_for_stdout(
            |line| line.contains(r#""type":"interaction_closed""#) && line.contains(&of_task),
            START_TIMEOUT,
        );
    }
    if mode == "headless" {
        running.wait(START_TIMEOUT);
    } else {
        running.signal(Signal::TERM);
        running.wait(LIMIT).expect_code(4);
    }
    for agent in AGENTS {
        let dir = althing.work_dir().join(agent);
        assert!(!dir.join("made.txt").exists(), "{agent} wrote it anyway");
        let notes = std::fs::read_to_string(dir.join("notes.txt")).unwrap();
        assert_eq!(notes, format!("{OLD_LINE}\n"), "{agent} changed it anyway");
    }
    let events = althing.events();
    let asked = of_type(&events, "interaction_opened");
    let asked: Vec<_> =
        asked.iter().map(|event| &event["data"]).filter(|ask| ask["about"] != "your_turn").collect();
    assert_eq!(asked.len(), 4, "each asks once: {asked:#?}");
    AGENTS.into_iter().for_each(passed);
}

#[test]
fn a_question_in_a_terminal_shows_the_path_and_the_content_and_can_be_rejected() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(writing_reply));
    reject_each(&with_programs(&dir, &server), "interactive", &["made.txt", CONTENT]);
}

#[test]
fn a_question_in_a_terminal_about_an_existing_file_shows_the_path_and_the_changes_and_can_be_rejected() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(editing_reply));
    reject_each(&with_programs(&dir, &server), "interactive", &["notes.txt", OLD_LINE, NEW_LINE]);
}

#[test]
fn a_question_over_a_structured_protocol_shows_the_path_and_the_content_and_can_be_rejected() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(writing_reply));
    reject_each(&with_programs(&dir, &server), "headless", &["made.txt", CONTENT]);
}

#[test]
fn a_question_over_a_structured_protocol_about_an_existing_file_shows_the_path_and_the_changes_and_can_be_rejected()
 {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(editing_reply));
    reject_each(&with_programs(&dir, &server), "headless", &["notes.txt", OLD_LINE, NEW_LINE]);
}
