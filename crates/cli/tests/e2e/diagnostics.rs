//! `--log`: diagnostics as JSON lines, in a file that only its owner can read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use althing_testkit::{Fault, FaultMoment, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, althing, run};

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| -> Value {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["at", "level", "from", "message"] {
            assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {line}");
        }
        assert!(line["from"].as_str().unwrap().starts_with("althing"), "{line}");
        line
    };
    text.lines().map(line).collect()
}

fn of<'a>(lines: &'a [Value], message: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["message"] == message).collect()
}

#[test]
fn the_log_has_the_start_the_config_every_call_with_its_retries_and_the_end() {
    let fixture = Fixture::new(
        2,
        Script::parliament().on("model-b").fault_once(Fault::Status(500), FaultMoment::BeforeHeaders),
    );
    let args = ["--log", "althing.log", "Weigh the heron against the kingfisher"];
    let output = fixture.run(&args).expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
    let path = fixture.althing.work_dir().join("althing.log");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let log = lines(&path);

    let started = &log[0];
    assert_eq!(
        (&started["message"], &started["version"]),
        (&json!("started"), &json!(env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(started["args"], "--config team.yaml --automation --log althing.log (38 characters)");
    let ended = log.last().unwrap();
    assert_eq!((&ended["message"], &ended["status"]), (&json!("ended"), &json!(0)));
    let config = of(&log, "config read");
    assert!(config[0]["source"].as_str().unwrap().ends_with("team.yaml"), "{config:?}");
    assert_eq!(of(&log, "session opened")[0]["session"], fixture.session_id());
    assert!(!of(&log, "said").is_empty(), "what is said on stderr is in it, too");

    let failed = of(&log, "model call failed");
    assert_eq!(failed.len(), 1);
    let failed = failed[0];
    assert_eq!(
        (&failed["level"], &failed["status"], &failed["kind"]),
        (&json!("warn"), &json!(500), &json!("Server"))
    );
    assert_eq!((&failed["model"], &failed["host"]), (&json!("model-b"), &json!("127.0.0.1")));
    let calls = of(&log, "model call");
    assert_eq!(calls.len() + 1, fixture.server.request_count());
    let again: Vec<&&Value> = calls.iter().filter(|call| call["retries"] == 1).collect();
    assert_eq!((again.len(), &again[0]["model"]), (1, &json!("model-b")));
    assert!(calls.iter().all(|call| call["status"] == 200 && call["ms"].is_u64()));

    let text = std::fs::read_to_string(&path).unwrap();
    for words in ["heron", "Answer of", "votes for"] {
        assert!(!text.contains(words), "{words} is in the log: {text}");
    }
}

#[test]
fn the_log_has_every_program_and_how_it_ended() {
    let althing = althing();
    let task = json!({"id": "t", "agent": "command", "command": ["sh", "-c", "exit 7"], "executionMode": "headless", "prompt": ""});
    let flow = json!({"name": "f", "goal": "g", "stages": [{"name": "s", "tasks": [task]}]});
    althing.file("flow.yaml", flow.to_string());
    run(&althing, &["workflow", "run", "flow.yaml", "--offline", "--automation", "--log", "l"])
        .expect_code(2);
    let log = lines(&althing.work_dir().join("l"));
    let ended: Vec<&Value> = of(&log, "program ended").into_iter().filter(|line| line["code"] == 7).collect();
    assert_eq!(ended.len(), 1, "{log:#?}");
    let started: Vec<&Value> =
        of(&log, "program started").into_iter().filter(|line| line["guard"] == ended[0]["guard"]).collect();
    assert!(started[0]["program"].as_str().unwrap().ends_with("sh"), "{started:?}");
    assert!(!of(&log, "where programs run").is_empty());
    assert_eq!(log.last().unwrap()["status"], 2);
}

#[test]
fn a_log_is_appended_to_at_the_requested_level() {
    let althing = althing();
    let offline = ["--offline", "--automation", "--log", "l"];
    run(&althing, &[&offline as &[&str], &["task"]].concat()).expect_code(0);
    run(&althing, &["sessions", "--log", "l"]).expect_code(0);
    let path = althing.work_dir().join("l");
    let log = lines(&path);
    assert_eq!((of(&log, "started").len(), of(&log, "ended").len()), (2, 2));
    run(&althing, &[&offline as &[&str], &["--log-level", "warn", "task"]].concat()).expect_code(0);
    assert_eq!(lines(&path).len(), log.len(), "nothing went wrong");
}

#[test]
fn a_log_that_cannot_be_written_is_an_error_before_anything_starts() {
    let fixture = Fixture::new(1, Script::parliament());
    for (args, words) in [
        (["--log", "no/such/place/l", "task"], "cannot be written"),
        (["--log", ".", "task"], "cannot be written"),
        (["--log-level", "debug", "task"], "--log FILE"),
    ] {
        let output = fixture.run(&args).expect_code(1);
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    assert_eq!(fixture.server.request_count(), 0);
    assert!(!fixture.althing.state_dir().join("sessions").exists());
}

#[test]
fn a_full_disk_for_the_log_is_a_warning_and_stops_no_run() {
    let command = althing().args(["--offline", "--automation", "--log", "/dev/full", "task"]);
    let output = command.spawn().wait(LIMIT).expect_code(0);
    assert!(output.stderr.contains("warning: the --log file could not be written"), "{}", output.stderr);
}

#[test]
fn addresses_among_the_arguments_are_logged_without_anything_but_their_host() {
    let althing = althing();
    let address = "http://canary-user:canary-word@127.0.0.1:1/canary-path?token=canary-query#canary-end";
    for (number, otlp) in [vec!["--otlp", address], vec![&format!("--otlp={address}")]].iter().enumerate() {
        let log = format!("log-{number}");
        run(&althing, &[&["--offline", "--automation", "--log", &log, "task"], &otlp[..]].concat());
        let log = lines(&althing.work_dir().join(&log));
        let started = of(&log, "started")[0]["args"].as_str().unwrap();
        assert!(started.contains("://(23 characters)@127.0.0.1:1/("), "{started}");
        assert!(!started.contains("canary"), "{started}");
        let all = json!(log).to_string();
        assert!(!all.contains("canary-word") && !all.contains("canary-query"), "{all}");
    }
}
