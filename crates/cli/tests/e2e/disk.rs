//! A full disk (row D4 of docs/reliability.md): nothing is shown or started that could not be recorded, the user is
//! notified, and the run continues when there is space again. Where no file system can be mounted, the tests that need
//! one are skipped, or fail with `CI=true`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use althing_testkit::process::Signal;
use althing_testkit::{Action, Gate, Reply, RunningProcess, Script, skip_unless_ci};

use super::support::{Fixture, LIMIT};

/// A 1 MiB file system in memory, mounted over the state directory of a test.
struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs"]).arg(at).output();
        match mount {
            Ok(output) if output.status.success() => Some(Self { at: at.to_owned() }),
            other => {
                skip_unless_ci(&format!("no file system can be mounted here ({other:?})"));
                None
            }
        }
    }

    fn fill(&self) {
        let mut filler_file = std::fs::File::create(self.filler_file()).unwrap();
        let block = [0u8; 4096];
        while std::io::Write::write_all(&mut filler_file, &block).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.filler_file()).unwrap();
    }

    fn filler_file(&self) -> PathBuf {
        self.at.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

/// A run of three agents in which `c` waits at a gate while `a` and `b` answer. The answers are long, so that they need
/// space. `None` if no file system can be mounted.
fn run_held_at_gate() -> Option<(Fixture, SmallDisk, Gate)> {
    let gate = Gate::before_headers();
    let long = |model: &str| Reply::new_answer(&format!("Answer of {model}: {}", "long ".repeat(4000)));
    let script = Script::parliament()
        .on("model-a")
        .nth(0, long("model-a"))
        .on("model-b")
        .nth(0, long("model-b"))
        .on("model-c")
        .nth(0, Action::gated(long("model-c"), &gate));
    let fixture = Fixture::new(3, script);
    let disk = SmallDisk::mount(&fixture.althing.state_dir())?;
    Some((fixture, disk, gate))
}

#[test]
fn a_run_on_a_full_disk_waits_with_a_notice_and_continues_when_there_is_space() {
    let Some((fixture, disk, gate)) = run_held_at_gate() else { return };
    let running = fixture.spawn(&["--stream-events", "task"]);
    running.wait_for_stderr(|line| line.contains("answered: agent2.1"), LIMIT);
    gate.wait_waiting_blocking(1, LIMIT);
    disk.fill();
    gate.release_all();
    let notice = running.wait_for_stderr(|line| line.contains("cannot save at the moment"), LIMIT);
    assert!(notice.contains("No space left") && notice.contains("free"), "{notice}");
    let quiet = !althing_testkit::wait::holds_within(Duration::from_millis(700), || {
        fixture.server.request_count() > 3
    });
    assert!(quiet, "new work began on what is not safe");
    assert!(
        !running.stderr().contains("answered: agent3.1"),
        "it was shown before it was safe: {}",
        running.stderr()
    );
    disk.free();
    let output = running.wait(LIMIT).expect_code(0);
    assert_eq!(fixture.server.request_count(), 7);
    let log = std::fs::read_to_string(fixture.log()).unwrap();
    assert_eq!(output.stdout.lines().count(), log.lines().count());
}

#[test]
fn a_run_stopped_on_a_full_disk_resumes_without_loss() {
    let Some((fixture, disk, gate)) = run_held_at_gate() else { return };
    let running = fixture.spawn(&["--stream-events", "task"]);
    running.wait_for_stderr(|line| line.contains("answered: agent2.1"), LIMIT);
    gate.wait_waiting_blocking(1, LIMIT);
    disk.fill();
    gate.release_all();
    running.wait_for_stderr(|line| line.contains("cannot save at the moment"), LIMIT);
    running.signal(Signal::TERM);
    let output = running.wait(LIMIT).expect_code(4);
    assert!(output.stderr.contains("althing resume"), "{}", output.stderr);
    let shown = output.stdout.lines().count();
    disk.free();
    let resumed = fixture.resume().expect_code(0);
    assert_eq!(resumed.stdout, "Final answer of model-a\n");
    assert!(std::fs::read_to_string(fixture.log()).unwrap().lines().count() >= shown);
    assert_eq!(
        fixture.calls()["model-a"] + fixture.calls()["model-b"],
        5,
        "what was safe is not asked for again"
    );
    assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
}

#[test]
fn resume_on_a_full_disk_fails_with_a_hint_and_works_once_there_is_space() {
    let Some((fixture, disk, gate)) = run_held_at_gate() else { return };
    let running = fixture.spawn(&["task"]);
    running.wait_for_stderr(|line| line.contains("answered: agent2.1"), LIMIT);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    disk.fill();
    let stuck = fixture.althing.new_command().arg("resume").spawn();
    let line = stuck.wait_for_stderr(|line| line.contains("No space left"), LIMIT);
    assert!(!line.contains("panicked"), "{line}");
    stuck.signal(Signal::TERM);
    stuck.wait(LIMIT);
    assert!(stuck.stderr().contains("free some space"), "{}", stuck.stderr());
    disk.free();
    assert_eq!(fixture.resume().expect_code(0).stdout, "Final answer of model-a\n");
}

#[test]
fn a_run_on_a_full_disk_fails_before_it_calls_a_model() {
    let Some((fixture, disk, _gate)) = run_held_at_gate() else { return };
    disk.fill();
    let output = fixture.run(&["task"]).expect_code(1);
    assert!(output.stderr.contains("No space left"), "{}", output.stderr);
    assert!(output.stderr.contains("free some space"), "it says what to do: {}", output.stderr);
    assert_eq!(fixture.server.request_count(), 0);
}

/// A run of one agent whose last call waits at a gate: its fixture, the process, the gate, and the directory of the
/// result files.
fn run_before_its_result(args: &[&str]) -> (Fixture, RunningProcess, Gate, PathBuf) {
    let gate = Gate::before_headers();
    let last = Action::gated(Action::Usual, &gate);
    let fixture = Fixture::new(1, Script::parliament().on("model-a").nth(2, last));
    let running = fixture.spawn(args);
    gate.wait_waiting_blocking(1, LIMIT);
    let files = fixture.session().join("tasks/r1");
    std::fs::create_dir_all(&files).unwrap();
    (fixture, running, gate, files)
}

#[test]
fn a_result_whose_files_do_not_fit_on_the_disk_waits_for_space() {
    let (_fixture, running, gate, files) = run_before_its_result(&["task"]);
    let Some(disk) = SmallDisk::mount(&files) else { return };
    disk.fill();
    gate.release_all();
    running.wait_for_stderr(|line| line.contains("cannot save at the moment"), LIMIT);
    assert_eq!(running.stdout(), "", "nothing is told before it is saved");
    disk.free();
    assert_eq!(running.wait(LIMIT).expect_code(0).stdout, "Final answer of model-a\n");
    assert_eq!(std::fs::read_to_string(files.join("final_answer.md")).unwrap(), "Final answer of model-a");
}

#[test]
fn a_result_without_file_descriptors_waits_for_them() {
    let (fixture, running, gate, files) = run_before_its_result(&["task"]);
    let limit = |files: &str| {
        let pid = running.id().to_string();
        let set = Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={files}")]).status();
        assert!(set.unwrap().success());
    };
    limit("3:1024");
    gate.release_all();
    let notice = running.wait_for_stderr(|line| line.contains("cannot save at the moment"), LIMIT);
    assert!(notice.contains("ulimit -n"), "{notice}");
    limit("1024:1024");
    assert_eq!(running.wait(LIMIT).expect_code(0).stdout, "Final answer of model-a\n");
    assert_eq!(std::fs::read_to_string(files.join("final_answer.md")).unwrap(), "Final answer of model-a");
    drop(fixture);
}

#[test]
fn too_low_a_limit_on_open_files_is_reported_before_anything_starts() {
    let althing = super::support::althing();
    for files in [4, 5, 7, 9, 11, 16, 31] {
        let line =
            format!("ulimit -n {files}; exec {} --offline --automation hello", env!("CARGO_BIN_EXE_althing"));
        let output = althing.program("/bin/sh").args(["-c", &line]).spawn().wait(LIMIT).expect_code(1);
        assert!(output.stderr.contains("ulimit -n 1024"), "{files}: {}", output.stderr);
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn a_result_whose_files_cannot_be_written_says_so_and_resume_writes_them() {
    for json in [false, true] {
        let args: &[&str] = if json { &["--json", "task"] } else { &["task"] };
        let (fixture, running, gate, files) = run_before_its_result(args);
        // A directory cannot be replaced by a file, and waiting does not help.
        std::fs::create_dir_all(files.join("final_answer.md/x")).unwrap();
        gate.release_all();
        let output = running.wait(LIMIT).expect_code(2);
        assert!(output.stdout.contains("Final answer of model-a"), "the answer is kept: {}", output.stdout);
        assert!(output.stderr.contains("could not be saved"), "{}", output.stderr);
        assert!(output.stderr.contains("althing resume"), "{}", output.stderr);
        if json {
            let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
            assert!(result["error"].as_str().is_some_and(|error| error.contains("saved")), "{result}");
        }
        let stuck = fixture.resume().expect_code(2);
        assert!(stuck.stderr.contains("could not be written"), "{}", stuck.stderr);
        std::fs::remove_dir_all(files.join("final_answer.md")).unwrap();
        let again = fixture.resume().expect_code(0);
        assert_eq!(again.stdout, "Final answer of model-a\n");
        let written = std::fs::read_to_string(files.join("final_answer.md")).unwrap();
        assert_eq!(written, "Final answer of model-a");
        assert!(files.join("result.json").is_file() && files.join("answers.md").is_file());
        assert_eq!(fixture.server.request_count(), 3, "nothing is asked for again");
    }
}

#[test]
fn a_limit_on_file_sizes_kills_nothing_and_the_run_can_be_resumed() {
    let fixture = Fixture::new(3, Script::parliament());
    // Eight kilobytes, less than the log needs.
    let line =
        format!("ulimit -f 16; exec {} --config team.yaml --automation task", env!("CARGO_BIN_EXE_althing"));
    let running = fixture.althing.program("/bin/sh").args(["-c", &line]).spawn();
    let notice = running.wait_for_stderr(|line| line.contains("cannot save at the moment"), LIMIT);
    assert!(notice.contains("ulimit -f"), "{notice}");
    running.signal(Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    assert_eq!(fixture.resume().expect_code(0).stdout, "Final answer of model-a\n");
}
