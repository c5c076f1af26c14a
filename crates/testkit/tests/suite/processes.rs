//! The harness around a binary, tested with a shell and the fake model server.

use std::time::Duration;

use althing_testkit::process::{Signal, wait_for_event};
use althing_testkit::{Althing, read_events, wait};

use crate::client::{SOON, ask, request};

fn shell(script: &str) -> Althing {
    Althing::new("/bin/sh").arg("-c").arg(script)
}

#[test]
fn output_code_and_time_are_collected() {
    let output = shell("echo out; echo err >&2; exit 3").spawn().wait(SOON);
    assert_eq!((output.code, output.signal), (Some(3), None));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
    assert!(output.elapsed < SOON);
}

#[test]
fn the_environment_is_clean_and_the_directories_are_its_own() {
    let althing = shell("env; pwd").env("EXTRA", "1");
    let output = althing.spawn().wait(SOON);
    let mut names: Vec<&str> = output.stdout.lines().filter_map(|l| Some(l.split_once('=')?.0)).collect();
    names.retain(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["ALTHING_LOCAL_SERVERS", "ALTHING_STATE_DIR", "EXTRA", "HOME", "PATH"]);
    assert!(output.stdout.contains(&althing.work_dir().display().to_string()));
}

#[test]
fn stdin_is_given_or_open_or_empty() {
    assert_eq!(shell("cat").stdin("hello").spawn().wait(SOON).stdout, "hello");
    assert_eq!(shell("cat").spawn().wait(SOON).stdout, "");
    let running = shell("read a; echo got $a; cat").open_stdin().spawn();
    running.write_stdin("x\n");
    assert_eq!(running.wait_for_stdout(|line| line.starts_with("got"), SOON), "got x");
    running.close_stdin();
    running.wait(SOON).expect_code(0);
}

#[test]
fn signals_reach_the_process() {
    let running =
        shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do read x; done").open_stdin().spawn();
    running.wait_for_stdout(|line| line == "ready", SOON);
    assert!(running.is_running());
    running.signal(Signal::TERM);
    running.close_stdin();
    let output = running.wait(SOON);
    assert!(output.code == Some(7) && output.stdout.ends_with("bye\n"), "{output:?}");
    let running = shell("echo ready; exec sleep 100").spawn();
    running.wait_for_stdout(|line| line == "ready", SOON);
    running.signal(Signal::KILL);
    assert_eq!(running.wait(SOON).signal, Some(9));
}

#[test]
#[should_panic(expected = "is still running after 50ms\n--- stdout\nsaid\n")]
fn a_process_that_outlives_its_deadline_is_killed_and_shown() {
    let running = shell("echo said; exec sleep 100").spawn();
    running.wait_for_stdout(|line| line == "said", SOON);
    running.wait(Duration::from_millis(50));
}

#[test]
#[should_panic(expected = "stdout ended without the line")]
fn a_line_that_cannot_come_any_more_is_not_waited_for() {
    shell("echo other").spawn().wait_for_stdout(|line| line == "wanted", SOON);
}

#[test]
fn descendants_of_a_process_end_with_it() {
    let running = shell("sleep 100 & echo $!; wait").spawn();
    let child = running.wait_for_stdout(|line| !line.is_empty(), SOON);
    drop(running);
    let status = format!("/proc/{child}/stat");
    wait::until(SOON, || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z ")));
}

#[test]
fn an_orphan_can_be_seen_until_the_run_is_dropped() {
    let running = shell("sleep 100 >/dev/null 2>&1 & echo $!").spawn();
    let output = running.wait(SOON).expect_code(0);
    let status = format!("/proc/{}/stat", output.stdout.trim());
    assert!(std::fs::exists(&status).unwrap());
    drop(running);
    wait::until(SOON, || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z ")));
}

#[test]
#[should_panic(expected = "something it started still holds its output open")]
fn an_orphan_that_holds_the_output_is_distinguished_from_a_hang() {
    let running = shell("sleep 100 &").spawn();
    running.wait(Duration::from_millis(200));
}

#[test]
fn events_of_the_newest_session_are_read_without_a_torn_last_line() {
    let script = r#"d=$ALTHING_STATE_DIR/sessions/s1; mkdir -p $d
        printf '{"seq":0}\n{"seq":1,"type":"x"}\n{"se' > $d/events.jsonl"#;
    let althing = shell(script);
    althing.spawn().wait(SOON).expect_code(0);
    assert_eq!(read_events(&althing.state_dir()).len(), 2);
    let event = wait_for_event(&althing.state_dir(), SOON, |event| event["type"] == "x");
    assert_eq!(event["seq"], 1);
    assert_eq!(althing.new_command().state_dir(), althing.state_dir());
}

#[tokio::test]
async fn the_server_program_listens_records_and_counts() {
    let althing = Althing::new(env!("CARGO_BIN_EXE_fake-model-server"));
    let record = althing.work_dir().join("record.jsonl");
    let running = althing.args(["--chunks", "20", "--record"]).arg(&record).spawn();
    let line = running.wait_for_stdout(|line| line.starts_with("listening on "), SOON);
    let address = line["listening on ".len()..].parse().unwrap();
    let response = ask(address, &request("m", &[])).await;
    assert_eq!(response.chunks.len(), 24);
    ask(address, &request("n", &["vote"])).await;
    running.signal(Signal::TERM);
    running.wait_for_stdout(|line| line == "requests: 2, connections: 2", SOON);
    let recorded = std::fs::read_to_string(record).unwrap();
    assert_eq!(recorded.lines().count(), 2);
    running.wait(SOON).expect_code(0);
}
