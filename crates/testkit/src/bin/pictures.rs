//! Screenshots of the main screens, made with the real program and its offline model: `pictures PROGRAM DIRECTORY`.
//! Each scene is played in a terminal, and its final screen becomes an SVG. `scripts/pictures` creates those of the
//! README.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for papers fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_testkit::{Althing, Terminal, svg};

const LIMIT: Duration = Duration::from_secs(60);
const TASK: &str = "Compare three ways to cache HTTP responses";
/// A workflow whose second task waits for an answer.
const WORKFLOW: &str = r#"
name: release-notes
goal: Draft the release notes of 2.0
adapters:
  reviewer:
    program: sh
    args: ["-c", "printf 'Notes of 2.0\n\n  \\033[32m+ runs can be resumed\\033[0m\n  \\033[32m+ workflows on the screen\\033[0m\n  \\033[31m- the old log format\\033[0m\n\n\\033[1mPublish these? (yes / no)\\033[0m '; read answer"]
    interactions: [{pattern: '(?P<text>Publish these\?) \(yes / no\)', about: question}]
stages:
  - name: gather
    tasks:
      - {id: log, agent: command, command: [sh, -c, "echo 42 commits; sleep 1"], executionMode: headless, prompt: ""}
      - {id: review, agent: reviewer, executionMode: interactive, prompt: ""}
  - name: decide
    tasks:
      - {id: notes, run: {task: "Write the notes from {{log.output}}", refinement: true}}
  - name: publish
    tasks:
      - {id: tag, agent: command, command: [git, tag, v2.0], executionMode: headless, prompt: ""}
"#;

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(program), Some(directory)) = (arguments.next(), arguments.next()) else {
        panic!("say which program, and where the pictures go: pictures PROGRAM DIRECTORY");
    };
    std::fs::create_dir_all(&directory).expect("could not create the directory for the pictures");
    let program = program.canonicalize().expect("could not find the program");
    conversation(&program, &directory);
    workflow(&program, &directory);
}

fn take(terminal: &Terminal, directory: &Path, name: &str) {
    let picture = terminal.with_screen(svg::picture);
    let file = directory.join(format!("{name}.svg"));
    std::fs::write(&file, picture).expect("could not write the picture");
    println!("{}", file.display());
}

fn conversation(program: &Path, directory: &Path) {
    let mut terminal = Althing::new(program).arg("--offline").terminal(100, 28);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.keys(TASK).keys("\r");
    terminal.wait_for("Approve", LIMIT);
    take(&terminal, directory, "approval");
    terminal.keys("\r");
    terminal.wait_for("Press Ctrl+O to override, Enter to continue", LIMIT);
    take(&terminal, directory, "vote");
    terminal.keys("\r");
    terminal.wait_for("Status: Idle", LIMIT);
    terminal.keys("\x12");
    terminal.wait_for("f final answer", LIMIT);
    terminal.keys("\t2");
    terminal.wait_for("/ search · tab input", LIMIT);
    take(&terminal, directory, "run");
}

fn workflow(program: &Path, directory: &Path) {
    let althing = Althing::new(program);
    althing.file("notes.yaml", WORKFLOW);
    let command = althing.new_command().args(["workflow", "run", "notes.yaml", "--offline", "--unconfined"]);
    let mut terminal = command.terminal(100, 20);
    terminal.wait_until(LIMIT, "the review waits", |screen| {
        screen.contains("1 waits for you") && screen.contains("done ✓")
    });
    take(&terminal, directory, "workflow");
    terminal.keys("a");
    terminal.wait_for("Publish these? (yes / no)", LIMIT);
    terminal.wait_for("^] detach", LIMIT);
    take(&terminal, directory, "attached");
}
