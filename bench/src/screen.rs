//! The terminal UI: its first frame, keys while agents stream, the cost of idling, a long transcript.

use crate::conversation::{ChatSession, config};
use crate::measure::{Programs, cpu_of, median, percentile, resident_mb, timed};
use crate::verdict::{below_mb, below_ms, report};
use althing_testkit::{Althing, FakeModel, Reply, Script, Terminal};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
pub const READY: &str = "Type a message...";
const AGENTS: usize = 16;
/// The pause between two tokens of an agent: 200 tokens per second.
const PACE: Duration = Duration::from_millis(5);
const KEYS: usize = 600;
const REPLIES: usize = 100;
pub const LINES: usize = 1000;
const FEW: usize = 100;

pub fn all(programs: &Programs, rounds: usize) {
    first_frame(programs, rounds);
    let mut terminal = Althing::new(programs.althing.clone()).arg("--offline").terminal(120, 40);
    terminal.wait_for(READY, LIMIT);
    let times = press(&mut terminal);
    below_ms("key to frame, p99, while idle", percentile(times, 99), 16.0);
    drop(terminal);
    streaming(programs);
    idle(programs);
    long(programs);
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

/// Presses keys one after the other, each after the previous one took effect on the screen. Returns how long each took.
fn press(terminal: &mut Terminal) -> Vec<f64> {
    let mut typed = "qz".to_owned();
    terminal.keys(&typed);
    terminal.wait_for(&typed, LIMIT);
    let mut times = Vec::new();
    while times.len() < KEYS {
        // Letters are typed and deleted again, so that the text stays on one line.
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
    times
}

/// Pauses like a fast typist, never in step with the frames.
fn pause(n: usize) {
    std::thread::sleep(Duration::from_millis(25) + Duration::from_micros((n as u64 * 7919) % 30_000));
}

fn streaming(programs: &Programs) {
    let text = "word ".repeat(12_000);
    let reply =
        move |_: &althing_testkit::RecordedRequest| Reply::text(text.clone()).chunks(12_000).pace(PACE);
    let server = FakeModel::start_on_thread(Script::from_fn(reply));
    let althing = Althing::new(programs.althing.clone());
    let team = config(&server.base_url(), AGENTS).replace("\"enabled\":true", "\"enabled\":false");
    althing.file("team.yaml", team);
    let mut terminal = althing.new_command().args(["--config", "team.yaml", "Say much"]).terminal(120, 40);
    server.wait_for_requests_blocking(AGENTS, LIMIT);
    terminal.wait_for("Run: Say much", LIMIT);
    let (frames, began) = (frames_of(&terminal), Instant::now());
    let late = press(&mut terminal);
    let rate = (frames_of(&terminal) - frames) as f64 / began.elapsed().as_secs_f64();
    let under_way = server.requests().iter().filter(|request| request.ended().is_none()).count();
    assert_eq!(under_way, AGENTS, "all of them streamed to the end of the measurement");
    below_ms(&format!("key to frame, p99, while {AGENTS} agents stream"), percentile(late, 99), 16.0);
    let what = format!("frames per second while {AGENTS} agents stream");
    report(&what, format!("{rate:.1}"), "at most 60", rate <= 60.0);
}

/// Each frame begins with a synchronized-update sequence.
fn frames_of(terminal: &Terminal) -> usize {
    let mark = b"\x1b[?2026h";
    terminal.raw().windows(mark.len()).filter(|piece| piece == mark).count()
}

fn idle(programs: &Programs) {
    let terminal = Althing::new(programs.althing.clone()).arg("--offline").terminal(120, 40);
    terminal.wait_for(READY, LIMIT);
    std::thread::sleep(Duration::from_secs(2));
    let before = cpu_of(terminal.id());
    std::thread::sleep(Duration::from_secs(10));
    let used = cpu_of(terminal.id()) - before;
    report("CPU while idle for 10 s", format!("{used:.2} ms"), "under 1 ms", used < 1.0);
}

pub fn transcript(programs: &Programs, replies: usize, lines: usize) -> (Althing, String) {
    let lines = "A line of a long reply, with some words in it.\n\n".repeat(lines);
    let mut chat_session = ChatSession::begin(
        programs,
        Script::from_fn(move |request| Reply::text(format!("{lines}Re: {}", request.last_user_text()))),
    );
    chat_session.go_on_until(replies);
    let id = chat_session.pause();
    (chat_session.althing, id)
}

fn long(programs: &Programs) {
    let open = |replies: usize, lines: usize| {
        let (althing, id) = transcript(programs, replies, lines);
        let terminal =
            althing.new_command().args(["--config", "team.yaml", "--session", &id]).terminal(120, 40);
        terminal.wait_for(&format!("Re: Message {}.", replies - 1), LIMIT);
        terminal
    };
    let (mut short, mut long) = (open(1, FEW), open(REPLIES, LINES));
    let what = format!("a transcript of {} lines", REPLIES * LINES);
    let late = press(&mut long);
    below_mb(&format!("memory with {what}"), resident_mb(long.id()), 60.0);
    below_ms(&format!("key to frame, p99, with {what}"), percentile(late, 99), 16.0);
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        few.push(frame_cpu(&mut short));
        many.push(frame_cpu(&mut long));
    }
    let least = |costs: Vec<f64>| costs.into_iter().fold(f64::MAX, f64::min);
    let (few, many) = (least(few), least(many));
    let got = format!("{:.2} ({many:.2} ms, with {FEW} lines {few:.2} ms)", many / few);
    report("CPU of a key and its frame, with that transcript", got, "at most 1.2", many <= 1.2 * few);
}

/// The average CPU time in ms of a key and the frame that shows it.
fn frame_cpu(terminal: &mut Terminal) -> f64 {
    const FRAMES: usize = 40;
    let mut typed = "qz".to_owned();
    terminal.keys(&typed).wait_for(&typed, LIMIT);
    let before = cpu_of(terminal.id());
    for letter in ('a'..='z').cycle().take(FRAMES) {
        typed.push(letter);
        terminal.keys(&letter.to_string()).wait_for(&typed, LIMIT);
    }
    let used = cpu_of(terminal.id()) - before;
    terminal.keys(&"\x7f".repeat(typed.len())).wait_gone(&typed, LIMIT);
    used / FRAMES as f64
}
