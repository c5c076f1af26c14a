//! `--continue` and `--session`: a run, a conversation and the screen continue an earlier run or conversation with its
//! history.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use althing_testkit::{RecordedRequest, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, run, texts};

const FIRST: &str = "Name a bird that swims";
const SECOND: &str = "and now name its food";

fn fixture(agents: usize) -> Fixture {
    Fixture::new(agents, Script::parliament())
}

fn answer(fixture: &Fixture, args: &[&str]) -> String {
    let output = run(&fixture.althing, &[&["--automation", "--json"], args].concat()).expect_code(0);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["status"], "completed", "{result}");
    result["final_answer"].as_str().unwrap().to_owned()
}

fn later_requests(fixture: &Fixture) -> Vec<RecordedRequest> {
    let requests = fixture.server.requests();
    let later: Vec<_> = requests.into_iter().filter(|request| texts(request).contains(SECOND)).collect();
    assert!(!later.is_empty());
    later
}

fn session_dirs(fixture: &Fixture) -> BTreeSet<PathBuf> {
    let dir = fixture.althing.state_dir().join("sessions");
    let dirs = std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    dirs.filter(|dir| dir.join("events.jsonl").is_file()).collect()
}

fn started(fixture: &Fixture, start: impl FnOnce()) -> PathBuf {
    let before = session_dirs(fixture);
    start();
    session_dirs(fixture).difference(&before).next().unwrap().clone()
}

fn id_of(dir: &Path) -> String {
    dir.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_run_continues_the_newest_run_with_its_history_and_its_team() {
    let fixture = fixture(2);
    let first = answer(&fixture, &["--config", "team.yaml", FIRST]);
    // The config is not named again: the team is that of the continued run.
    let second = answer(&fixture, &["--continue", SECOND]);
    for request in later_requests(&fixture) {
        let text = texts(&request);
        assert!(text.contains(FIRST) && text.contains(&first), "{text}");
    }
    let output =
        run(&fixture.althing, &["--automation", "--continue", "finally name its enemy"]).expect_code(0);
    assert!(output.stderr.contains("continuing session"), "{}", output.stderr);
    let requests = fixture.server.requests();
    let last = requests.iter().filter(|request| texts(request).contains("finally name its enemy"));
    for text in last.map(texts) {
        for known in [FIRST, &first, SECOND, &second] {
            assert!(text.contains(known), "{known} is missing: {text}");
        }
    }
}

#[test]
fn a_named_run_is_continued_and_another_config_can_be_named() {
    let fixture = fixture(1);
    let mut first = String::new();
    let named = started(&fixture, || first = answer(&fixture, &["--config", "team.yaml", FIRST]));
    let named = id_of(&named);
    answer(&fixture, &["--config", "team.yaml", "an unrelated task"]);
    let two = Team::on(&fixture.server.base_url(), 2);
    fixture.althing.file("two.yaml", two.text());
    answer(&fixture, &["--config", "two.yaml", "--session", &named, SECOND]);
    let later = later_requests(&fixture);
    assert!(later.iter().any(|request| request.model() == "model-b"), "both agents take part");
    for text in later.iter().map(texts) {
        assert!(text.contains(&first) && !text.contains("an unrelated task"), "{text}");
    }
}

#[test]
fn a_run_continues_a_conversation_and_a_conversation_continues_a_run() {
    let config = json!({"orchestrator": {"interactive_mode": {"enabled": true}}});
    let fixture = fixture(1);
    let mut team: Value = serde_json::from_str(&Team::on(&fixture.server.base_url(), 1).text()).unwrap();
    team["orchestrator"] = config["orchestrator"].clone();
    fixture.althing.file("chat.yaml", team.to_string());
    let first = answer(&fixture, &["--config", "chat.yaml", FIRST]);
    let chat = fixture.althing.new_command().args(["chat", "--continue"]).stdin(format!("{SECOND}\n"));
    chat.spawn().wait(LIMIT).expect_code(0);
    for text in later_requests(&fixture).iter().map(texts) {
        assert!(text.contains(FIRST) && text.contains(&first), "{text}");
    }
    // The conversation itself is resumed, and still knows the run.
    let chat = fixture.althing.new_command().args(["chat", "--continue"]).stdin("which food was it?\n");
    chat.spawn().wait(LIMIT).expect_code(0);
    assert_eq!(session_dirs(&fixture).len(), 2, "the conversation goes on in its own session");
    answer(&fixture, &["--continue", "sum it up"]);
    let requests = fixture.server.requests();
    for asked in ["which food was it?", "sum it up"] {
        let of = requests.iter().filter(|request| texts(request).contains(asked)).map(texts);
        for text in of {
            assert!(
                text.contains(FIRST) && text.contains(&first) && text.contains(SECOND),
                "{asked}: {text}"
            );
        }
    }
}

#[test]
fn the_screen_continues_a_run_with_its_history() {
    let fixture = fixture(1);
    let first = answer(&fixture, &["--config", "team.yaml", FIRST]);
    let mut terminal = fixture.althing.new_command().args(["--continue", SECOND]).terminal(120, 40);
    terminal.wait_for("Complete", LIMIT);
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0);
    for text in later_requests(&fixture).iter().map(texts) {
        assert!(text.contains(FIRST) && text.contains(&first), "{text}");
    }
}

#[test]
fn where_there_is_nothing_to_continue_the_error_says_why() {
    let fixture = fixture(1);
    let refused = |args: &[&str], why: &str| {
        let output = run(&fixture.althing, &[&["--automation"], args].concat()).expect_code(1);
        assert!(output.stderr.contains(why), "{why}: {}", output.stderr);
        assert!(output.stdout.is_empty(), "{}", output.stdout);
    };
    refused(&["--continue", SECOND], "there is no run or conversation to continue");
    refused(&["--session", "20260101-000000-abcd", SECOND], "20260101-000000-abcd");
    let broken = Team::on("http://127.0.0.1:9/v1", 1).every_backend("max_retries", 0);
    fixture.althing.file("broken.yaml", broken.text());
    run(&fixture.althing, &["--automation", "--config", "broken.yaml", FIRST]).expect_code(2);
    refused(&["--continue", SECOND], "ended without an answer");
    let flow = json!({"name": "w", "stages": [{"name": "s", "tasks": [
        {"id": "t", "agent": "command", "command": ["true"], "executionMode": "headless", "prompt": ""}]}]});
    fixture.althing.file("flow.yaml", flow.to_string());
    let flow = started(&fixture, || {
        run(&fixture.althing, &["workflow", "run", "flow.yaml", "--config", "team.yaml"]).expect_code(0);
    });
    let flow = id_of(&flow);
    refused(&["--session", &flow, SECOND], "neither a run nor a conversation");
    let interrupted = started(&fixture, || drop(answer(&fixture, &["--config", "team.yaml", FIRST])));
    let log = interrupted.join("events.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let beginning: String = text.split_inclusive('\n').take(4).collect();
    std::fs::write(&log, beginning).unwrap();
    std::fs::remove_file(log.with_file_name("session.json")).unwrap();
    refused(&["--session", &id_of(&interrupted), SECOND], "has not ended");
    assert!(fixture.server.requests().iter().all(|request| !texts(request).contains(SECOND)));
}
