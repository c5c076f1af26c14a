//! Programs that wait for a person are found although no pattern knows them, and others are left alone.

use super::support::{HELPER, PATIENCE, SANDBOXES, sandbox};
use super::terminals::{Running, native, ready_when, runner, runner_in};
use super::waiting_table::{ASKING, CALM, ENVIRONMENT};
use althing_protocol::{Ask, AskKind, ProgramReport, Programs};
use althing_runner::ProgramRunner;
use althing_runner::adapter::TerminalTraits;
use althing_testkit::scale;
use std::os::unix::fs::chown;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn start(runner: &Arc<ProgramRunner>, task: &str, script: &str, more: &serde_json::Value) -> Running {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let mut env = serde_json::json!({ "HOME": work });
    for (name, value) in ENVIRONMENT {
        env[name] = value.into();
    }
    let mut spec = serde_json::json!({
        "adapter": "command", "command": ["sh", "-c", script], "cwd": work, "env": env,
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Running::start_with(runner, &dir, task, &spec)
}

fn command(script: &str) -> Running {
    start(&runner("", TerminalTraits::default()), "t", script, &serde_json::json!({}))
}

fn asked(program: &Running) -> Vec<Ask> {
    let reports = program.reports.lock().unwrap();
    let asks = reports.iter().filter_map(|report| match report {
        ProgramReport::Waiting(ask) => Some(ask.clone()),
        _ => None,
    });
    asks.collect()
}

fn screen(program: &Running) -> String {
    program.runner.screen(&program.task).map(|screen| screen.text().join("\n")).unwrap_or_default()
}

async fn comes(program: &Running, done: impl Fn(&Running) -> bool) -> bool {
    let start = Instant::now();
    while !done(program) {
        if start.elapsed() > PATIENCE || program.end.is_finished() {
            return done(program);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_program_that_waits_is_found_with_its_question() {
    let runner = runner("", TerminalTraits::default());
    let mut problems = Vec::new();
    // Not all at once: programs such as npm take most of a second of CPU time to start.
    for rows in ASKING.chunks(6) {
        let started = rows.iter().map(|row| {
            let program = start(&runner, &row.name.replace(' ', "-"), row.script, &serde_json::json!({}));
            (row, program)
        });
        let started: Vec<_> = started.collect();
        for (row, program) in &started {
            let is_found = comes(program, |program| !asked(program).is_empty()).await;
            let (asks, screen) = (asked(program), screen(program));
            let Some(ask) = asks.first().filter(|_| is_found) else {
                problems.push(format!("{}: not found\n{}", row.name, screen.trim_end()));
                continue;
            };
            let first_line = ask.text.lines().next().unwrap_or_default();
            let options: Vec<&str> = ask.options.iter().map(|option| option.id.as_str()).collect();
            let is_right = first_line.contains(row.text)
                && ask.about == row.about
                && options.starts_with(row.options)
                && options.is_empty() == row.options.is_empty();
            if !is_right || asks.len() > 1 {
                problems.push(format!("{}: {asks:?}", row.name));
            }
        }
        for (_, program) in started {
            program.end.abort();
        }
    }
    println!("found {} of {}", ASKING.len() - problems.len(), ASKING.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_program_that_does_not_ask_is_reported() {
    let runner = runner("", TerminalTraits::default());
    let mut problems = Vec::new();
    let mut started = Vec::new();
    for rows in CALM.chunks(6) {
        let first = started.len();
        for row in rows {
            let task = row.name.replace(' ', "-");
            started.push((row, start(&runner, &task, row.script, &serde_json::json!({}))));
        }
        for (row, program) in &started[first..] {
            if !comes(program, |program| screen(program).contains(row.shows)).await {
                problems.push(format!("{}: does not run\n{}", row.name, screen(program).trim_end()));
            }
        }
    }
    // Althing looks at a quiet screen at least every five seconds, so it looks at each screen again in this time.
    let watched = Duration::from_secs(scale(7, 600) as u64);
    tokio::time::sleep(watched).await;
    for (row, program) in &started {
        if !program.interactions().is_empty() || program.end.is_finished() {
            problems.push(format!(
                "{}: {:?}\n{}",
                row.name,
                program.interactions(),
                screen(program).trim_end()
            ));
        }
    }
    println!("watched {} programs for {watched:?}, {} problems", CALM.len(), problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_found_question_is_answered_by_its_option() {
    let mut program =
        command("touch a; rm -i a; bash -c 'select x in one two; do echo took $x; break; done'; ls");
    program.until("rm asks", |program| asked(program).len() == 1).await;
    program.typed("n\r");
    program.until("select asks", |program| native(program, 1).is_some() || asked(program).len() > 1).await;
    let id = asked(&program)[1].native.clone().unwrap();
    assert!(program.runner.answer(&program.task, &id, "2"));
    assert!(program.ended().await.ok);
    assert!(program.clean().contains("took two\na\n"), "{}", program.clean());
    let interactions = program.interactions();
    assert_eq!(interactions.len(), 4, "{interactions:?}");
    assert_eq!(interactions[3], "moved on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_found_question_stays_one_question_while_a_person_types() {
    for script in
        ["bash -c 'read -e -p \"Host name: \" h; echo; sleep 1'", "printf 'Host name: '; read h; sleep 1"]
    {
        let mut program = command(script);
        program.until("it asks", |program| !program.interactions().is_empty()).await;
        for letter in ["a", "b", "?", ":", " ", "c"] {
            let before = screen(&program);
            program.typed(letter);
            program.until("the letter is shown", |program| letter == " " || screen(program) != before).await;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        assert_eq!(program.interactions(), ["waits: Host name:"]);
        program.typed("\r");
        program.until("it goes on", |program| program.interactions().len() == 2).await;
        program.ended().await;
        assert_eq!(program.interactions(), ["waits: Host name:", "moved on"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typed_password_is_neither_reported_nor_stored() {
    // The program draws nothing when it has the password, so only the end of its waiting shows that it goes on.
    let script = "stty -echo; printf 'Password: '; read secret; stty echo; sleep 6; echo; echo ${#secret}";
    let mut program = command(script);
    program.until("it asks", |program| !asked(program).is_empty()).await;
    let ask = asked(&program).remove(0);
    assert_eq!((ask.about, ask.text.as_str()), (AskKind::Password, "Password:"));
    assert_eq!((ask.options.len(), ask.native), (0, None), "it can only be typed");
    program.typed("hunter2\r");
    program.until("it goes on", |program| program.interactions().len() == 2).await;
    assert!(!program.raw().contains('7'), "it goes on before it writes");
    assert!(program.ended().await.ok);
    assert!(program.clean().contains('7'), "{}", program.clean());
    let reports = format!("{:?}", program.reports.lock().unwrap());
    assert!(!reports.contains("hunter2") && !program.raw().contains("hunter2"), "{reports}");
    let mut files = vec![program.dir.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("hunter2"), "{}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_waits_in_a_sandbox_is_found() {
    for kind in SANDBOXES {
        let Some(sandbox) = sandbox(kind).await else { continue };
        let runner = runner_in(sandbox, "", TerminalTraits::default());
        for (script, about, text) in [
            ("python3 -c 'input(\"Name: \")'", AskKind::Question, "Name:"),
            ("bash -c 'read -e -p \"Directory: \" d'", AskKind::Question, "Directory:"),
            ("bash -c 'read -s -p \"Token: \" t'", AskKind::Password, "Token:"),
        ] {
            let program = start(&runner, "t", script, &serde_json::json!({ "sandbox": true }));
            assert!(comes(&program, |program| !asked(program).is_empty()).await, "{kind:?}: {script}");
            let ask = asked(&program).remove(0);
            assert_eq!((ask.about, ask.text.as_str()), (about, text), "{kind:?}: {script}");
            program.end.abort();
        }
        let program =
            start(&runner, "t", "printf 'Go on? [y/N] '; sleep 100", &serde_json::json!({ "sandbox": true }));
        assert!(comes(&program, |program| screen(program).contains("Go on?")).await, "{kind:?}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(program.interactions(), [""; 0], "{kind:?}: the program can be seen not to wait");
        program.end.abort();
    }
}

#[test]
fn a_program_of_an_ordinary_user_that_waits_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let helper = dir.path().join("helper");
    std::fs::copy(HELPER, &helper).unwrap();
    let mut command = Command::new(&helper);
    if rustix::process::geteuid().is_root() {
        chown(dir.path(), Some(65534), Some(65534)).unwrap();
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&helper);
    }
    command.arg("waiting").arg(dir.path().join("task")).arg("bash -c 'read -e -p \"Directory: \" d'");
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "waits: Question Directory:\n", "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_prompt_of_a_command_answers_its_first_question() {
    let runner = runner("", TerminalTraits::default());
    let script =
        "printf 'Name: '; read name; echo \"hello $name\"; printf 'City: '; read city; echo \"in $city\"";
    let mut program = start(&runner, "t", script, &serde_json::json!({ "prompt": "Ada" }));
    program.until("it asks for the city", |program| !program.interactions().is_empty()).await;
    assert_eq!(program.interactions(), ["waits: City:\nName: Ada\nhello Ada"]);
    assert_eq!(program.prompts(), [("Ada".to_owned(), None)]);
    program.typed("Paris\r");
    assert!(program.ended().await.ok);
    // A password is never answered by the prompt.
    let script = "bash -c 'read -s -p \"Password: \" p; echo; printf \"%s.\" \"$p\"; read -p \"Name: \" n; echo \"hello $n\"'";
    let mut program = start(&runner, "secret", script, &serde_json::json!({ "prompt": "Ada" }));
    program.until("it asks for the password", |program| !program.interactions().is_empty()).await;
    program.typed("x\r");
    assert!(program.ended().await.ok);
    assert!(program.clean().contains("hello Ada"), "{}", program.clean());
    assert_eq!(program.interactions(), ["waits: Password:", "moved on"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_hidden_password_overrides_the_patterns_of_an_agent() {
    // If an agent has patterns, an ordinary prompt counts as its idle input box, not as a question.
    let script = "printf 'What next? '; read a; printf 'Working\n'; stty -echo; printf 'Passphrase for key: '; read b; stty echo; echo; echo end";
    let mut program = Running::start(script, "", ready_when(r"What next\? ?\z"));
    program.until("it is idle", |program| program.raw().contains("What next?")).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(program.interactions(), [""; 0]);
    program.typed("go\r");
    program.until("it asks", |program| !program.interactions().is_empty()).await;
    assert_eq!(asked(&program)[0].about, AskKind::Password);
    program.typed("x\r");
    assert!(program.ended().await.ok);
}

/// Shows `$1` above a question, replaces it by `$3` when the file `swap` exists, and writes its answer to `got`. With
/// `$4`, the replacement begins with a clock that goes on.
const CHANGES_ABOVE: &str = r#"
import os, sys, threading, time
command, question, other, clock = sys.argv[1:]
def redraw(text):
    sys.stdout.write("\x1b7\x1b[1A\r" + text + "\x1b[K\x1b8")
    sys.stdout.flush()
def swap():
    while not os.path.exists("swap"):
        time.sleep(0.02)
    redraw(other + (" 0:00" if clock else ""))
    for second in range(100000):
        if not clock:
            return
        time.sleep(1)
        redraw(other + " %d:%02d" % (second // 60, second % 60))
print("The agent wants to run:\n" + command)
sys.stdout.write(question)
sys.stdout.flush()
threading.Thread(target=swap, daemon=True).start()
answer = sys.stdin.readline()
open("got", "w").write(answer)
"#;

fn changes_above(command: &str, other: &str, clock: &str) -> (Running, std::path::PathBuf) {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let script = dir.path().join("program.py");
    std::fs::write(&script, CHANGES_ABOVE).unwrap();
    let spec = serde_json::json!({
        "adapter": "command", "cwd": dir.path(),
        "command": ["python3", script, command, "Proceed? [y/N] ", other, clock],
    });
    let work = dir.path().to_owned();
    (Running::start_with(&runner("", TerminalTraits::default()), &dir, "t", &spec), work)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_asks_about_is_shown_and_its_change_makes_a_new_question() {
    let (mut program, work) = changes_above("   ls -la", "   rm -rf ~", "");
    program.until("it asks", |program| native(program, 0).is_some()).await;
    let first = asked(&program)[0].clone();
    assert_eq!(first.text, "Proceed? [y/N]\nThe agent wants to run:\n   ls -la");
    std::fs::write(work.join("swap"), "").unwrap();
    program.until("it shows another command", |program| screen(program).contains("rm -rf")).await;
    // Althing may not have noticed the change yet. The answer is for what was shown.
    program.runner.answer(&program.task, &first.native.unwrap(), "yes");
    program.until("it asks again", |program| asked(program).len() > 1 || program.end.is_finished()).await;
    assert!(!work.join("got").exists(), "the answer to the first question was typed");
    let second = asked(&program)[1].clone();
    assert_eq!(second.text, "Proceed? [y/N]\nThe agent wants to run:\n   rm -rf ~");
    program.until("it may be answered", |program| native(program, 1).is_some()).await;
    assert!(program.runner.answer(&program.task, &second.native.unwrap(), "no"));
    assert!(program.ended().await.ok);
    assert_eq!(std::fs::read_to_string(work.join("got")).unwrap(), "n\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_above_a_question_makes_no_new_question() {
    let (mut program, work) = changes_above("waiting 0:00", "waiting", "clock");
    std::fs::write(work.join("swap"), "").unwrap();
    program.until("it asks", |program| native(program, 0).is_some()).await;
    let asked_before = asked(&program).len();
    program.until("the clock goes on", |program| screen(program).contains("0:04")).await;
    assert_eq!(asked(&program).len(), asked_before, "{:?}", asked(&program));
    let id = asked(&program).pop().unwrap().native.unwrap();
    assert!(program.runner.answer(&program.task, &id, "yes"));
    assert!(program.ended().await.ok);
    assert_eq!(std::fs::read_to_string(work.join("got")).unwrap(), "y\n");
}
