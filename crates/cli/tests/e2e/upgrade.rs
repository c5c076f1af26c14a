//! Sessions that older versions wrote (`tests/golden/<version>`) can be read, shown and resumed by this version. The
//! stored sessions are never changed; each release adds its own.

use std::path::{Path, PathBuf};

use althing_testkit::Althing;
use serde_json::{Value, json};

use super::support::{althing, ensure, in_parallel, run};

const RUN: &str = "20261115-180955-1189";
const CHAT: &str = "20261115-180955-7711";
/// A workflow that was interrupted after its second stage had started.
const WORKFLOW: &str = "20261115-180955-8b2e";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/0.1.0")
}

fn with_old_sessions() -> Althing {
    let althing = althing();
    for session in std::fs::read_dir(golden()).unwrap() {
        let session = session.unwrap();
        let to = althing.state_dir().join("sessions").join(session.file_name());
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(session.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    althing
}

fn log(althing: &Althing, session: &str) -> String {
    std::fs::read_to_string(althing.state_dir().join("sessions").join(session).join("events.jsonl")).unwrap()
}

fn old_log(session: &str) -> String {
    std::fs::read_to_string(golden().join(session).join("events.jsonl")).unwrap()
}

#[test]
fn old_sessions_are_listed_with_their_status() {
    let althing = with_old_sessions();
    let listed: Value =
        serde_json::from_str(&run(&althing, &["sessions", "--json"]).expect_code(0).stdout).unwrap();
    for (id, state) in [(RUN, "DONE"), (CHAT, "IDLE"), (WORKFLOW, "RUNNING")] {
        let session = listed.as_array().unwrap().iter().find(|session| session["id"] == id);
        let session = session.unwrap_or_else(|| panic!("{id} is missing: {listed}"));
        assert_eq!(session["state"], state, "{session}");
    }
    let told = run(&althing, &["sessions"]).expect_code(0).stdout;
    for goal in ["Compare two ways to sort", "conversation", "Sort things"] {
        assert!(told.contains(goal), "{told}");
    }
}

#[test]
fn the_report_and_the_prompts_of_old_sessions_are_shown_and_unknown_costs_and_digests_are_named() {
    let althing = with_old_sessions();
    for (session, part) in [(RUN, "Decision"), (CHAT, "Conversation"), (WORKFLOW, "Tasks")] {
        let shown = run(&althing, &["sessions", "show", session]).expect_code(0).stdout;
        assert!(shown.contains(part) && shown.contains(session), "{shown}");
    }
    let whole = run(&althing, &["sessions", "show", RUN, "--json"]).expect_code(0).stdout;
    let whole: Value = serde_json::from_str(&whole).unwrap();
    let agent = whole["report"]["runs"][0]["agents"][0]["id"].as_str().unwrap();
    let shown = run(&althing, &["sessions", "prompt", RUN, agent]).expect_code(0).stdout;
    assert!(shown.contains("contains no digest") && shown.contains("Compare two ways to sort"), "{shown}");
    run(&althing, &["sessions", "cost"]).expect_code(0);
}

#[test]
fn the_result_of_an_old_run_is_read_from_its_log() {
    let althing = with_old_sessions();
    let told = run(&althing, &["resume", RUN, "--json"]).expect_code(0);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let finished = old_log(RUN)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find_map(|event| (event["data"]["verdict"] == "finished").then(|| event["data"]["result"].clone()));
    assert_eq!(Some(told), finished);
    assert_eq!(log(&althing, RUN), old_log(RUN), "nothing was written to what is over");
}

#[test]
fn an_old_conversation_is_resumed() {
    let althing = with_old_sessions();
    let talk = althing.new_command().args(["chat", "--session", CHAT]).stdin("And in the evening?\n");
    let output = talk.spawn().wait(super::support::LIMIT).expect_code(0);
    assert!(output.stdout.contains("And in the evening"), "{}", output.stdout);
    assert!(log(&althing, CHAT).starts_with(&old_log(CHAT)), "what was there stays as it was");
}

#[test]
fn an_interrupted_old_workflow_resumes_without_repeating_anything() {
    let althing = with_old_sessions();
    let report = run(&althing, &["resume", WORKFLOW, "--json"]).expect_code(0);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["status"], "DONE", "{report}");
    let log = log(&althing, WORKFLOW);
    assert!(log.starts_with(&old_log(WORKFLOW)), "what was there stays as it was");
    let attempts = log.lines().filter(|line| line.contains("attempt_started") && line.contains("\"w1.one\""));
    assert_eq!(attempts.count(), 1, "the first stage ran once");
}

/// A state directory in which an old session's log ends after this many events, as after a crash.
fn truncated_session(session: &str, events: usize) -> Althing {
    let althing = althing();
    let dir = althing.state_dir().join("sessions").join(session);
    std::fs::create_dir_all(&dir).unwrap();
    let log: String = old_log(session).split_inclusive('\n').take(events).collect();
    std::fs::write(dir.join("events.jsonl"), log).unwrap();
    althing
}

#[test]
fn an_old_run_is_resumed_from_any_event() {
    let whole = old_log(RUN).lines().count();
    in_parallel(3, 1..whole, |events| {
        let althing = truncated_session(RUN, events);
        let before = log(&althing, RUN);
        let output = run(&althing, &["resume", RUN, "--json"]);
        ensure(output.code == Some(0), || format!("cut after {events}: {}", output.stderr))?;
        let result: Value = serde_json::from_str(&output.stdout).unwrap();
        ensure(result["status"] == "completed", || format!("cut after {events}: {result}"))?;
        let after = log(&althing, RUN);
        ensure(after.starts_with(&before), || format!("cut after {events}: what was there has changed"))?;
        let decided = after.lines().filter(|line| line.contains(r#""verdict":"finished""#)).count();
        ensure(decided == 1, || format!("cut after {events}: it finished {decided} times"))
    });
}

/// The data of the fact that says who won.
fn verdict(log: &str) -> Value {
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut verdicts = events.filter(|event| event["data"]["verdict"] == "winner");
    verdicts.next().expect("somebody won")["data"].clone()
}

#[test]
fn an_old_run_that_stopped_in_mid_vote_is_resumed_with_the_rules_and_prompts_of_0_1() {
    // The log ends before anybody judges, and after the reply of the first judge, while the two others still judge.
    for (events, last) in [(22, "phase_changed"), (38, "vote")] {
        let althing = truncated_session(RUN, events);
        let old = log(&althing, RUN);
        assert!(old.lines().last().unwrap().contains(last), "{old}");
        run(&althing, &["resume", RUN]).expect_code(0);
        let resumed = log(&althing, RUN);
        let (now, then) = (verdict(&resumed), verdict(&old_log(RUN)));
        assert_eq!(now["decision"]["rule"], "plurality", "{now}");
        if events == 38 {
            assert_eq!((&now["winner"], &now["votes"]), (&then["winner"], &then["votes"]));
            let targets = |verdict: &Value| -> Vec<Value> {
                let ballots = verdict["ballots"].as_array().unwrap().iter();
                ballots.map(|ballot| json!([ballot["voter"], ballot["target"]])).collect()
            };
            assert_eq!(targets(&now), targets(&then));
        }
        // The newest call in which the second agent judges: in 0.1, its second or, after newer answers, its third.
        let step = if events == 38 { "3" } else { "2" };
        let sent = run(&althing, &["sessions", "prompt", RUN, "two", step]).expect_code(0).stdout;
        assert!(!sent.contains("contains no digest"), "this version made the call: {sent}");
        for words in
            ["Judge them by how well they serve the original message", "do not polish what is good enough"]
        {
            assert!(sent.contains(words), "`{words}` of the first prompts is missing: {sent}");
        }
        let place = |agent: &str| {
            sent.find(&format!("<{agent}.1 ")).unwrap_or_else(|| panic!("{agent} is missing: {sent}"))
        };
        assert!(place("agent1") < place("agent3") && place("agent3") < place("agent2"), "own last: {sent}");
        assert!(!sent.contains("ranking"), "0.1 knew no rankings: {sent}");
    }
}

#[test]
fn the_votes_of_an_old_run_are_counted_again() {
    let althing = with_old_sessions();
    let counted = run(&althing, &["recount", RUN, "--rules", "plurality,borda", "--json"]).expect_code(0);
    let counted: Value = serde_json::from_str(&counted.stdout).unwrap();
    let old = verdict(&old_log(RUN));
    assert_eq!(counted[0]["winner"], old["winner"]);
    for rule in counted[0]["rules"].as_array().unwrap() {
        assert_eq!((&rule["winner"], &rule["votes"]), (&old["winner"], &old["votes"]), "{rule}");
    }
    assert_eq!(log(&althing, RUN), old_log(RUN), "nothing was written to what is over");
}

#[test]
fn an_old_conversation_is_resumed_from_any_event() {
    let whole = old_log(CHAT).lines().count();
    in_parallel(3, (1..whole).step_by(3), |events| {
        let althing = truncated_session(CHAT, events);
        let before = log(&althing, CHAT);
        let talk = althing.new_command().args(["chat", "--session", CHAT, "--approve", "always"]);
        let output = talk.stdin("And in the evening?\n").spawn().wait(super::support::LIMIT);
        ensure(output.code == Some(0), || format!("cut after {events}: {}", output.stderr))?;
        ensure(output.stdout.contains("And in the evening"), || format!("{events}: {}", output.stdout))?;
        ensure(log(&althing, CHAT).starts_with(&before), || format!("cut after {events}: it has changed"))
    });
}

#[test]
fn an_old_log_can_be_replayed() {
    let althing = with_old_sessions();
    let file = golden().join(CHAT).join("events.jsonl").display().to_string();
    let output = althing.new_command().env("ALTHING_PLAIN", "1").args(["replay", &file, "--speed", "1000"]);
    // The terminal is tall enough for the whole conversation, so nothing scrolls away before it is looked at.
    let terminal = output.terminal(100, 200);
    terminal.wait_for("Good morning", super::support::LIMIT);
    terminal.wait_for("The run has ended", super::support::LIMIT);
}
