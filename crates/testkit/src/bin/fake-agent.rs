//! A scripted agent program for tests: does what its prompt says, line by line, and keeps a diary of it.
//!
//! The script comes over standard input (or, with `--script FILE`, from a file); every step is written to the diary
//! (`FAKE_AGENT_DIARY`) with `O_APPEND` before it is done, so that a test has a second witness. With `--like claude` and
//! so on it speaks as that program does.
//!
//! | step | what it does |
//! |---|---|
//! | `say TEXT`, `complain TEXT` | writes a line to standard output, or to standard error |
//! | `write TEXT` | the same without an end of the line |
//! | `note TEXT` | only the diary |
//! | `touch FILE`, `wait FILE` | makes a file; waits until it exists |
//! | `sleep MS` | says nothing for a while |
//! | `ignore-term` | from now on TERM is ignored |
//! | `close-output` | closes standard output and goes on |
//! | `child SECONDS`, `setsid SECONDS`, `double-fork SECONDS` | starts a `sleep` that lives on, each less easy to find |
//! | `hold SECONDS` | a child that holds our output open |
//! | `flood MIB`, `line MIB`, `escapes COUNT` | much output: lines, one line, escape sequences |
//! | `env NAME` | says what is in its environment |
//! | `size` | says how large its terminal is |
//! | `read` | says the next line that is typed |
//! | `exit CODE`, `kill SIGNAL` | ends |
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
    diary(&format!("start {} {}", std::process::id(), args.join(" ")));
    let like = after("--like").map_or("", String::as_str);
    let session = after("--session-id").or_else(|| after("--resume")).cloned();
    let mut speaker = Speaker { like: like.to_owned(), said: String::new() };
    speaker.begin(&session.unwrap_or_else(|| "fake-conversation".to_owned()));
    for line in script.lines() {
        diary(line);
        let (step, rest) = line.split_once(' ').unwrap_or((line, ""));
        act(step, rest, &mut speaker);
    }
    speaker.end();
    diary("end");
}

fn act(step: &str, rest: &str, speaker: &mut Speaker) {
    let number = || rest.parse::<u64>().expect("a number");
    match step {
        "say" => speaker.say(rest),
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
            diary("exit");
            std::process::exit(i32::try_from(number()).unwrap());
        }
        "kill" => {
            let status = Command::new("kill").args([rest, &std::process::id().to_string()]).status();
            assert!(status.unwrap().success());
        }
        _ => {}
    }
}

/// Takes TERM itself from now on, and does nothing about it.
fn ignore_term() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _in_it = runtime.enter();
    // Once taken, a signal is never given back.
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

fn diary(line: &str) {
    if let Some(path) = std::env::var_os("FAKE_AGENT_DIARY") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        // One write, so that the lines of several agents never mix.
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Says things as the program does that it is like.
struct Speaker {
    like: String,
    said: String,
}

impl Speaker {
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
