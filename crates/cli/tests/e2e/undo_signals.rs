//! An interrupted `althing undo` says what it restored and what it did not, and the next `undo` completes the work.

use std::path::{Path, PathBuf};

use althing_testkit::process::Signal;
use althing_testkit::{Althing, FakeModel, Output, RecordedRequest, Reply, Script, wait};
use serde_json::{Value, json};

use super::support::{LIMIT, Team, althing};

/// Enough files that an undo takes a while, because each file is synced.
const FILES: usize = 1_500;

fn file(dir: &Path, n: usize) -> PathBuf {
    dir.join(format!("file-{n}.txt"))
}

fn restored(dir: &Path) -> Vec<usize> {
    let is_restored =
        |n: &usize| std::fs::read_to_string(file(dir, *n)).is_ok_and(|text| text == format!("before {n}\n"));
    (0..FILES).filter(is_restored).collect()
}

fn changed() -> (Althing, PathBuf) {
    let althing = althing();
    let dir = project(&althing);
    for n in 0..FILES {
        std::fs::write(file(&dir, n), format!("before {n}\n")).unwrap();
    }
    run_command(&althing, &dir, "for file in *; do echo changed > $file; done");
    assert!(restored(&dir).is_empty());
    (althing, dir)
}

fn project(althing: &Althing) -> PathBuf {
    let dir = althing.work_dir().canonicalize().unwrap().join("project");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Lets an agent run the command in its writable context path `dir`.
fn run_command(althing: &Althing, dir: &Path, command: &str) -> Output {
    let command = format!("cd {}; {command}", dir.display());
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let acted = request.messages().iter().any(|message| message["role"] == "tool");
        if acted { Reply::text("done") } else { Reply::call("run_command", &json!({ "command": command })) }
    });
    let server = FakeModel::start_on_thread(script);
    let team = Team::on(&server.base_url(), 1).backend(0, "enable_mcp_command_line", true);
    let team = team.backend(0, "cwd", "here");
    let team = team.rule("context_paths", json!([{"path": dir, "permission": "write"}]));
    althing.file("team.yaml", team.text());
    let command = althing.new_command().args(["--config", "team.yaml", "--json", "--quick", "task"]);
    command.spawn().wait(LIMIT).expect_code(0)
}

fn undo(althing: &Althing) -> Althing {
    let session = althing_testkit::process::newest_session(&althing.state_dir()).unwrap();
    althing.new_command().arg("undo").arg(session.file_name().unwrap())
}

fn is_first_restored(dir: &Path) -> bool {
    (0..20).any(|n| std::fs::read_to_string(file(dir, n)).is_ok_and(|text| text.starts_with("before")))
}

#[test]
fn an_undo_that_gets_a_signal_names_what_it_restored_and_the_next_completes_it() {
    for signal in [Signal::INT, Signal::TERM] {
        let (althing, dir) = changed();
        let running = undo(&althing).spawn();
        wait::until(LIMIT, || is_first_restored(&dir) || !running.is_running());
        running.signal(signal);
        let output = running.wait(LIMIT).expect_code(4);
        let on_disk = restored(&dir);
        assert!(!on_disk.is_empty() && on_disk.len() < FILES, "{}", on_disk.len());
        let named = |word: &str| output.stdout.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!((named("restored"), named("not undone")), (on_disk.len(), FILES - on_disk.len()));
        for n in 0..FILES {
            let path = file(&dir, n).display().to_string();
            let expected = if on_disk.contains(&n) {
                format!("restored {path}")
            } else {
                format!("not undone {path} (still as the run left it)")
            };
            assert!(output.stdout.lines().any(|line| line == expected), "{expected}\n{}", output.stdout);
        }
        let told = format!("changes to {} of {FILES} files are undone", on_disk.len());
        assert!(output.stderr.contains(&told) && output.stderr.contains("althing undo"), "{}", output.stderr);

        let output = undo(&althing).spawn().wait(LIMIT).expect_code(0);
        assert_eq!(restored(&dir).len(), FILES);
        let told = format!("changes to {FILES} files undone, {} of them by an earlier undo", on_disk.len());
        assert!(output.stdout.contains(&told), "{}", output.stdout);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), FILES, "nothing else is left");
    }
}

#[test]
fn an_undo_that_is_killed_is_completed_by_the_next_and_leaves_nothing_else() {
    let (althing, dir) = changed();
    let running = undo(&althing).spawn();
    wait::until(LIMIT, || is_first_restored(&dir) || !running.is_running());
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let on_disk = restored(&dir);
    assert!(!on_disk.is_empty() && on_disk.len() < FILES, "{}", on_disk.len());
    let output = undo(&althing).spawn().wait(LIMIT).expect_code(0);
    assert_eq!(restored(&dir).len(), FILES);
    assert!(output.stdout.contains(&format!("changes to {FILES} files undone")), "{}", output.stdout);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), FILES, "nothing else is left");
}

#[test]
fn what_a_command_plants_is_listed_and_undone_although_it_made_many_sparse_files() {
    let althing = althing();
    let dir = project(&althing);
    std::fs::write(dir.join("Makefile"), "all:\n").unwrap();
    let plant = "echo planted > .envrc; echo planted > Makefile; mkdir holes sub; mkdir sub/.git; \
                 for n in $(seq 500); do truncate -s 1G holes/$n; done";
    let output = run_command(&althing, &dir, plant);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    let listed: Vec<&str> = result["context_path_writes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|write| write["path"].as_str())
        .collect();
    for path in [".envrc", "Makefile", "sub/.git"] {
        let path = dir.join(path);
        assert!(listed.iter().any(|listed| Path::new(listed) == path), "{} is not listed", path.display());
    }
    undo(&althing).spawn().wait(LIMIT).expect_code(0);
    assert_eq!(std::fs::read_to_string(dir.join("Makefile")).unwrap(), "all:\n");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing that the run created is left");
}
