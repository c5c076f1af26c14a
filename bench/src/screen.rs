//! The terminal UI, from outside: its first frame, keys while agents stream, what it costs to do nothing, a long
//! transcript.

use crate::conversation::config;
use crate::measure::{Programs, median, timed};
use crate::verdict::{below_ms, say};
use althing_testkit::process::newest_session;
use althing_testkit::{Althing, FakeModel, Reply, Script, Terminal};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// What a screen that can be used shows.
const READY: &str = "Type a message...";
/// Agents that stream while somebody types, and the pause between two tokens of each: 200 a second.
const AGENTS: usize = 16;
const PACE: Duration = Duration::from_millis(5);
/// Keys that are pressed meanwhile.
const KEYS: usize = 600;
/// Replies of the long transcript, and lines of each.
const REPLIES: usize = 100;
const LINES: usize = 1000;

pub fn all(programs: &Programs, rounds: usize) {
    first_frame(programs, rounds);
    let mut terminal = Althing::new(programs.althing.clone()).arg("--offline").terminal(120, 40);
    terminal.wait_for(READY, LIMIT);
    below_ms("key to frame, p99, nothing else happening", press(&mut terminal), 16.0);
    drop(terminal);
    streaming(programs);
    idle(programs);
    transcript(programs);
}

fn first_frame(programs: &Programs, rounds: usize) {
    let times = (0..rounds).map(|_| {
        let althing = Althing::new(programs.althing.clone()).arg("--offline");
        let show = || {
            let terminal = althing.terminal(120, 40);
            terminal.wait_for(READY, LIMIT);
            terminal
        };
        timed(show).0
    });
    below_ms("start to first usable frame", median(times.collect()), 50.0);
}

/// Presses keys one after the other, each once the one before shows; gives the 99th percentile of what that took.
fn press(terminal: &mut Terminal) -> f64 {
    let mut typed = "qz".to_owned();
    terminal.keys(&typed);
    terminal.wait_for(&typed, LIMIT);
    let mut times = Vec::new();
    while times.len() < KEYS {
        // Forth and back, so that the text stays on one line.
        for letter in ('a'..='z').chain('a'..='j') {
            typed.push(letter);
            times.push(timed(|| drop(terminal.keys(&letter.to_string()).wait_for(&typed, LIMIT))).0);
            pause(times.len());
        }
        while typed.len() > 2 {
            times.push(timed(|| drop(terminal.keys("\x7f").wait_gone(&typed, LIMIT))).0);
            typed.pop();
            pause(times.len());
        }
    }
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

/// As a quick typist would, and never in step with the frames.
fn pause(n: usize) {
    std::thread::sleep(Duration::from_millis(25) + Duration::from_micros((n as u64 * 7919) % 30_000));
}

fn streaming(programs: &Programs) {
    let text = "word ".repeat(12_000);
    let reply = move |_: &althing_testkit::Recorded| Reply::text(text.clone()).chunks(12_000).pace(PACE);
    let server = FakeModel::start_on_thread(Script::from_fn(reply));
    let althing = Althing::new(programs.althing.clone());
    let team = config(&server.base_url(), AGENTS).replace("\"enabled\":true", "\"enabled\":false");
    althing.file("team.yaml", team);
    let mut terminal = althing.again().args(["--config", "team.yaml", "Say much"]).terminal(120, 40);
    server.wait_for_requests_blocking(AGENTS, LIMIT);
    terminal.wait_for("Run: Say much", LIMIT);
    let late = press(&mut terminal);
    let under_way = server.requests().iter().filter(|request| request.ended().is_none()).count();
    assert_eq!(under_way, AGENTS, "all of them streamed to the end of the measurement");
    below_ms(&format!("key to frame, p99, while {AGENTS} agents stream"), late, 16.0);
}

fn idle(programs: &Programs) {
    let terminal = Althing::new(programs.althing.clone()).arg("--offline").terminal(120, 40);
    terminal.wait_for(READY, LIMIT);
    std::thread::sleep(Duration::from_secs(2));
    let before = cpu_ms(&terminal);
    std::thread::sleep(Duration::from_secs(10));
    let used = cpu_ms(&terminal) - before;
    say("CPU in 10 s of nothing", format!("{used:.2} ms"), "under 1 ms", used < 1.0);
}

/// The CPU time of all threads so far.
fn cpu_ms(terminal: &Terminal) -> f64 {
    let threads = std::fs::read_dir(Path::new("/proc").join(terminal.id().to_string()).join("task")).unwrap();
    let of = |path: &Path| -> f64 {
        let stat = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        stat.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()).unwrap_or_default() / 1e6
    };
    threads.map(|thread| of(&thread.unwrap().path())).sum()
}

fn transcript(programs: &Programs) {
    let lines = "A line of a long reply, with some words in it.\n\n".repeat(LINES);
    let reply = move |request: &althing_testkit::Recorded| {
        Reply::text(format!("{lines}Re: {}", request.last_user_text()))
    };
    let server = FakeModel::start_on_thread_with(
        althing_testkit::Options { keep_requests: false, ..althing_testkit::Options::default() },
        Script::from_fn(reply),
    );
    let althing = Althing::new(programs.althing.clone());
    althing.file("team.yaml", config(&server.base_url(), 1));
    let chat = althing.again().args(["chat", "--config", "team.yaml"]).open_stdin().spawn();
    for n in 0..REPLIES {
        chat.write_stdin(format!("Message {n}.\n"));
        let last = format!("Re: Message {n}.");
        chat.wait_for_stdout(|line| line.ends_with(&last), LIMIT);
    }
    chat.close_stdin();
    chat.wait(LIMIT).expect_code(0);
    let session = newest_session(&althing.state_dir()).unwrap();
    let id = session.file_name().unwrap().to_string_lossy().into_owned();
    let mut terminal = althing.again().args(["--config", "team.yaml", "--session", &id]).terminal(120, 40);
    terminal.wait_for(&format!("Re: Message {}.", REPLIES - 1), LIMIT);
    let late = press(&mut terminal);
    let status = std::fs::read_to_string(format!("/proc/{}/status", terminal.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident = line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0;
    let what = format!("memory with a transcript of {} lines", REPLIES * LINES);
    say(&what, format!("{resident:.1} MB"), "under 60 MB", resident < 60.0);
    below_ms("key to frame, p99, with that transcript", late, 16.0);
}
