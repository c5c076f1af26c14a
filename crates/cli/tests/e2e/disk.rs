//! A full disk: nothing is shown or started that could not be recorded, the user is notified, and the run continues
//! when there is space again (row D4). Needs a mounted file system; where mounting is not allowed, the test reports
//! that it was skipped, or fails with `CI=true`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use althing_testkit::process::Signal;
use althing_testkit::{Action, Gate, Reply, Script, skip_unless_ci};

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

    /// Fills the disk to the last byte.
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

/// The fixture of a run of three agents in which `c` waits at a gate while `a` and `b` answer; the answers are long,
/// so that they need space. None if no file system can be mounted.
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
    let notice =
        running.wait_for_stderr(|line| line.contains("cannot save at the moment"), Duration::from_secs(5));
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
    running.wait_for_stderr(|line| line.contains("cannot save at the moment"), Duration::from_secs(5));
    running.signal(Signal::TERM);
    let output = running.wait(Duration::from_secs(5)).expect_code(4);
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
    let line = stuck.wait_for_stderr(|line| line.contains("No space left"), Duration::from_secs(5));
    assert!(!line.contains("panicked"), "{line}");
    stuck.signal(Signal::TERM);
    stuck.wait(Duration::from_secs(5));
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
