//! A scripted CLI agent for tests: it executes its prompt line by line and records every step in a journal.
//!
//! The script is read from standard input or, with `--script FILE`, from a file. Every step is appended to the journal
//! (`FAKE_AGENT_DIARY`) with `O_APPEND` before it is executed, so that a test has independent evidence. `--like
//! claude` and similar options select the output format of that CLI agent.
//!
//! | step | effect |
//! |---|---|
//! | `say TEXT`, `complain TEXT` | writes a line to standard output or standard error |
//! | `write TEXT` | writes to standard output without a newline |
//! | `note TEXT` | only writes the journal |
//! | `touch FILE`, `wait FILE` | creates a file; waits until a file exists |
//! | `sleep MS` | is silent for a while |
//! | `ignore-term` | ignores TERM from now on |
//! | `close-output` | closes standard output and continues |
//! | `child SECONDS`, `setsid SECONDS`, `double-fork SECONDS` | leaves a `sleep` running, each harder to find |
//! | `hold SECONDS` | starts a child that holds the agent's output open |
//! | `flood MIB`, `line MIB`, `escapes COUNT` | much output: lines, one line, escape sequences |
//! | `sh COMMAND` | runs a shell command and waits for its end |
//! | `env NAME` | prints an environment variable |
//! | `size` | prints the size of the agent's terminal |
//! | `read` | prints the next input line |
//! | `exit CODE`, `kill SIGNAL` | exits with a code; sends itself a signal |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test program fails by panicking"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods, reason = "it is a program")]

use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| args.iter().position(|arg| arg == flag).and_then(|at| args.get(at + 1));
    let mut script = String::new();
    if let Some(file) = after("--script") {
        script = std::fs::read_to_string(file).unwrap();
    } else {
        std::io::stdin().read_to_string(&mut script).unwrap();
    }
    journal(&format!("start {} {}", std::process::id(), args.join(" ")));
    let like = after("--like").map_or("", String::as_str);
    let session = after("--session-id").or_else(|| after("--resume")).cloned();
    let mut output = OutputFormat { like: like.to_owned(), said: String::new() };
    output.begin(&session.unwrap_or_else(|| "fake-conversation".to_owned()));
    for line in script.lines() {
        journal(line);
        let (step, rest) = line.split_once(' ').unwrap_or((line, ""));
        execute_step(step, rest, &mut output);
    }
    output.end();
    journal("end");
}

fn execute_step(step: &str, rest: &str, output: &mut OutputFormat) {
    let number = || rest.parse::<u64>().expect("a number");
    match step {
        "say" => output.say(rest),
        "complain" => eprintln!("{rest}"),
        "write" => {
            print!("{rest}");
            std::io::stdout().flush().unwrap();
        }
        "touch" => std::fs::write(rest, "").unwrap(),
        "wait" => {
            while !std::path::Path::new(rest).exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        "sleep" => std::thread::sleep(Duration::from_millis(number())),
        "ignore-term" => ignore_term(),
        "close-output" => {
            let null = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
            rustix::stdio::dup2_stdout(&null).unwrap();
        }
        "child" => sleeper("sleep", &[rest], true),
        "setsid" => sleeper("setsid", &["sleep", rest], true),
        "sh" => drop(Command::new("sh").args(["-c", rest]).stdin(Stdio::null()).status()),
        "double-fork" => sleeper("sh", &["-c", &format!("setsid sleep {rest} & sleep {rest} &")], true),
        "hold" => sleeper("sleep", &[rest], false),
        "flood" => flood(&format!("{}\n", "a line of a flood ".repeat(4)), number() << 20),
        "line" => flood(&"x".repeat(1024), number() << 20),
        "escapes" => flood("\x1b[31m", number() * 5),
        "env" => println!("{rest}={}", std::env::var(rest).unwrap_or_else(|_| "(not set)".to_owned())),
        "size" => {
            let size = rustix::termios::tcgetwinsize(std::io::stdout()).unwrap();
            println!("{}x{}", size.ws_col, size.ws_row);
        }
        "read" => {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).unwrap();
            println!("read: {}", line.trim_end());
        }
        "exit" => {
            journal("exit");
            std::process::exit(i32::try_from(number()).unwrap());
        }
        "kill" => {
            let status = Command::new("kill").args([rest, &std::process::id().to_string()]).status();
            assert!(status.unwrap().success());
        }
        _ => {}
    }
}

fn ignore_term() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _in_it = runtime.enter();
    // TERM stays ignored after the drop, because Tokio never restores the default handler of a signal.
    drop(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap());
}

#[expect(clippy::zombie_processes, reason = "it is meant to be left behind")]
fn sleeper(program: &str, args: &[&str], quiet: bool) {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).process_group(0);
    if quiet {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn().unwrap();
}

fn flood(piece: &str, bytes: u64) {
    let block = piece.repeat((256 * 1024 / piece.len()).max(1));
    let mut out = std::io::stdout().lock();
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap().min(block.len());
        out.write_all(block.as_bytes().get(..length).unwrap()).unwrap();
        left -= length as u64;
    }
    out.flush().unwrap();
}

fn journal(line: &str) {
    if let Some(path) = std::env::var_os("FAKE_AGENT_DIARY") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        // One write, so that lines of several agents never interleave.
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

struct OutputFormat {
    like: String,
    said: String,
}

impl OutputFormat {
    fn begin(&self, session: &str) {
        match self.like.as_str() {
            "claude" => {
                println!(
                    "{}",
                    serde_json::json!({"type": "system", "subtype": "init", "session_id": session})
                );
            }
            "codex" => println!("{}", serde_json::json!({"type": "thread.started", "thread_id": session})),
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        text.clone_into(&mut self.said);
        match self.like.as_str() {
            "claude" => println!(
                "{}",
                serde_json::json!({"type": "assistant", "message": {"id": text, "content": [{"type": "text", "text": text}]}})
            ),
            "codex" => println!(
                "{}",
                serde_json::json!({"type": "item.completed", "item": {"type": "agent_message", "text": text}})
            ),
            _ => println!("{text}"),
        }
    }

    fn end(&self) {
        match self.like.as_str() {
            "claude" => println!(
                "{}",
                serde_json::json!({"type": "result", "is_error": false, "result": self.said, "total_cost_usd": 0.01, "usage": {"input_tokens": 10, "output_tokens": 5}})
            ),
            "codex" => println!(
                "{}",
                serde_json::json!({"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 5}})
            ),
            _ => {}
        }
    }
}
