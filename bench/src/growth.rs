//! Measures how costs grow with the size of the work: the exponent of a power law, fitted by least squares to the
//! logarithms of at least four sizes and their costs.
//!
//! An exponent of up to 1.15 passes as linear. Linear work usually measures between 0.9 and 1.15 here, because caches get
//! worse and buffers double; less where a part of the cost does not grow. If the largest size is sixteen times the
//! smallest, an exponent of 1.15 means that a quadratic part makes up more than a third of the cost of the largest size.
//!
//! Costs are CPU time, the minimum of several rounds, because wall time would hide the growth. Fixed costs would hide
//! it as well, so where each measurement starts a process, a fixed cost is subtracted: for costs that must be linear,
//! the cost of the smallest size (see `increments`), otherwise the cost of a minimal size.

use crate::build_log::block;
use crate::conversation::{ChatSession, echo};
use crate::log::LogOnDisk;
use crate::measure::{Programs, cpu_of, line, measure, own_cpu};
use crate::programs::{flood, job, run, runner};
use crate::screen;
use crate::team::{Server, config};
use crate::verdict::report;
use althing_protocol::ExecutionMode;
use althing_runner::Cleaner;
use althing_testkit::{Althing, FakeModel, Reply, Script};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(120);
const LINEAR: f64 = 1.15;
/// Measured together, because a single turn is too short for the clock.
const TURNS: usize = 20;

pub fn all(programs: &Programs, rounds: usize) {
    let rounds = rounds.clamp(1, 5);
    agents(programs, rounds);
    stream(programs, rounds);
    conversation_growth(programs, rounds);
    replay(rounds);
    cleaning(rounds);
    output(programs, rounds.min(3));
}

pub fn on_the_screen(programs: &Programs, rounds: usize) {
    transcript(programs, rounds.clamp(1, 5));
    streamed_message(programs, rounds.clamp(1, 2));
}

/// The minimum, because other load on the machine only adds time.
fn minimum(rounds: usize, mut measured: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| measured()).fold(f64::MAX, f64::min)
}

fn exponent(points: &[(usize, f64)]) -> f64 {
    let logarithms: Vec<(f64, f64)> =
        points.iter().map(|(size, cost)| ((*size as f64).ln(), cost.max(1e-3).ln())).collect();
    line(&logarithms).0
}

fn report_exponent(what: &str, unit: &str, points: &[(usize, f64)], at_most: f64) {
    assert!(points.len() >= 4, "an exponent over fewer sizes says little");
    let exponent = exponent(points);
    let sizes: Vec<String> = points.iter().map(|(size, cost)| format!("{size}: {cost:.1}")).collect();
    let got = format!("{exponent:.2} (ms of CPU for {unit} {})", sizes.join(", "));
    report(what, got, &format!("at most {at_most:.2}"), exponent <= at_most);
}

/// Measures the sizes in turn in every round, so that other load on the machine hits them alike.
fn minima<const N: usize>(
    rounds: usize,
    sizes: [usize; N],
    mut cpu: impl FnMut(usize) -> f64,
) -> Vec<(usize, f64)> {
    let mut points = sizes.map(|size| (size, f64::MAX));
    for _ in 0..rounds {
        for (size, least) in &mut points {
            *least = least.min(cpu(*size));
        }
    }
    points.to_vec()
}

/// What each size costs more than the smallest, by how much it is larger. The cost of a minimal size, such as a
/// conversation of one reply, is not subtracted: an error of a few milliseconds in this one number would change the
/// logarithm of the smallest cost, and with it the exponent, more than a real growth of the larger ones.
fn increments(points: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let Some(((smallest, fixed), larger)) = points.split_first() else { return Vec::new() };
    larger.iter().map(|(size, cost)| (size - smallest, cost - fixed)).collect()
}

fn minus_fixed(fixed: f64, points: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    points.into_iter().map(|(size, cost)| (size, cost - fixed)).collect()
}

/// If each agent only answers, the cost grows linearly. If each agent judges all answers, the requests grow
/// quadratically; the bare client that sends the same bytes shows by how much.
fn agents(programs: &Programs, rounds: usize) {
    const TEAMS: [usize; 5] = [32, 64, 128, 256, 512];
    let dir = TempDir::new().unwrap();
    let server = Server::start(programs, 8, None);
    let once = |agents: usize, extra: &str| {
        let file = config(dir.path(), agents, &server.url);
        let text = std::fs::read_to_string(&file).unwrap() + extra;
        std::fs::write(&file, text).unwrap();
        measure(&programs.althing, &["--config", &file, "--automation", "task"], dir.path()).cpu_ms
    };
    let alone = "orchestrator: {skip_voting: true}\n";
    let points = minima(rounds, TEAMS, |agents| once(agents, alone));
    report_exponent("agents that answer and do not vote: a run", "agents", &increments(&points), LINEAR);
    let points = minima(rounds, TEAMS, |agents| once(agents, ""));
    let ours = minus_fixed(minimum(rounds, || once(1, "")), points);
    let bare = |agents: usize| {
        let recorded = dir.path().join("requests.jsonl");
        let recording = Server::start(programs, 8, Some(&recorded));
        let file = config(dir.path(), agents, &recording.url);
        measure(&programs.althing, &["--config", &file, "--automation", "task"], dir.path());
        drop(recording);
        let (recorded, count) = (recorded.display().to_string(), agents.to_string());
        minimum(rounds, || {
            measure(&programs.floor, &["requests", &server.url, &recorded, &count], dir.path()).cpu_ms
        })
    };
    let floor = exponent(&minus_fixed(bare(1), TEAMS.map(|agents| (agents, bare(agents))).to_vec()));
    let what = format!("agents that judge each other: a run (the bare client: {floor:.2})");
    report_exponent(&what, "agents", &ours, floor.max(1.0) + 0.15);
}

fn stream(programs: &Programs, rounds: usize) {
    let dir = TempDir::new().unwrap();
    let points = minima(rounds, [4000, 8000, 16_000, 32_000, 64_000], |chunks| {
        let server = Server::start(programs, chunks, None);
        let file = config(dir.path(), 1, &server.url);
        let args = ["--config", &file, "--automation", "--quick", "task"];
        measure(&programs.althing, &args, dir.path()).cpu_ms
    });
    report_exponent("length of a stream: a quick run of one agent", "chunks", &increments(&points), LINEAR);
}

/// The cost of one more turn, which sends the whole conversation to the model, and of opening the conversation again.
fn conversation_growth(programs: &Programs, rounds: usize) {
    let mut chat_session = ChatSession::begin(programs, echo());
    let (mut turns, mut opened) = (Vec::new(), Vec::new());
    let mut first = None;
    for history in [1, 500, 1000, 2000, 4000] {
        chat_session.go_on_until(history);
        let id = chat_session.process_id();
        let turn = minimum(rounds, || {
            let before = cpu_of(id);
            (0..TURNS).for_each(|_| chat_session.turn());
            (cpu_of(id) - before) / TURNS as f64
        });
        let session = chat_session.pause();
        let state = chat_session.althing.state_dir().display().to_string();
        let file = chat_session.althing.work_dir().join("team.yaml").display().to_string();
        let args = ["chat", "--config", &file, "--state-dir", &state, "--session", &session];
        let open =
            minimum(rounds, || measure(&programs.althing, &args, &chat_session.althing.work_dir()).cpu_ms);
        chat_session.resume(&session);
        match first {
            None => first = Some((turn, open)),
            Some((fixed_turn, fixed_open)) => {
                turns.push((history, turn - fixed_turn));
                opened.push((chat_session.events(), open - fixed_open));
            }
        }
    }
    report_exponent("length of a conversation: one more turn", "turns", &turns, LINEAR);
    report_exponent("length of a session: opening it", "events", &opened, LINEAR);
}

fn transcript(programs: &Programs, rounds: usize) {
    const REPLIES: [usize; 5] = [20, 40, 80, 160, 320];
    let stored = REPLIES.map(|replies| (replies, screen::transcript(programs, replies, screen::LINES)));
    let points = minima(rounds, REPLIES, |replies| {
        let (_, (althing, id)) = stored.iter().find(|(size, _)| *size == replies).expect("it is stored");
        let terminal =
            althing.new_command().args(["--config", "team.yaml", "--session", id]).terminal(120, 40);
        terminal.wait_for(&format!("Re: Message {}.", replies - 1), LIMIT);
        settled_cpu(terminal.id())
    });
    let points: Vec<_> = points.into_iter().map(|(replies, cost)| (replies * screen::LINES, cost)).collect();
    report_exponent(
        "length of a transcript: opening it on the screen",
        "lines",
        &increments(&points),
        LINEAR,
    );
}

/// The CPU time of a process after it has become idle, so that work after the first frame counts, however soon the frame
/// is noticed.
fn settled_cpu(process: u32) -> f64 {
    const QUIET: Duration = Duration::from_millis(150);
    let mut before = cpu_of(process);
    loop {
        std::thread::sleep(QUIET);
        let now = cpu_of(process);
        if now - before < 0.5 {
            return now;
        }
        before = now;
    }
}

/// The cost of a reply on the screen while it is being written. The pace is the same for every length, so that a longer
/// reply takes more frames, and each frame must cost the same.
fn streamed_message(programs: &Programs, rounds: usize) {
    let once = |chunks: usize| {
        let text = |n: usize| if n % 12 == 11 { format!("word{n}\n\n") } else { format!("word{n} ") };
        let reply = move || {
            let text = (0..chunks).map(text).chain(["The end.".to_owned()]);
            Reply::default().text_chunks(text).pace(Duration::from_millis(1))
        };
        let server = FakeModel::start_on_thread(Script::from_fn(move |_| reply()));
        let althing = Althing::new(programs.althing.clone());
        althing.file("team.yaml", crate::conversation::config(&server.base_url(), 1));
        let mut terminal = althing.new_command().args(["--config", "team.yaml"]).terminal(120, 40);
        terminal.wait_for(screen::READY, LIMIT);
        let before = settled_cpu(terminal.id());
        terminal.keys("go\r").wait_for("The end.", LIMIT);
        settled_cpu(terminal.id()) - before
    };
    let points = minima(rounds, [1000, 2000, 4000, 8000, 16_000], once);
    report_exponent(
        "length of a message: showing it while it is written",
        "chunks",
        &increments(&points),
        LINEAR,
    );
}

fn replay(rounds: usize) {
    let cpu = |events: u64| {
        let log = LogOnDisk::with(events);
        minimum(rounds, || {
            let before = own_cpu();
            log.replay();
            own_cpu() - before
        })
    };
    let points = [62_500, 125_000, 250_000, 500_000, 1_000_000].map(|events| (events, cpu(events as u64)));
    report_exponent("length of a log: reading it", "events", &points, LINEAR);
}

fn cleaning(rounds: usize) {
    const MEBIBYTE: usize = 1024 * 1024;
    let kinds: [(&str, Vec<u8>); 4] = [
        ("a colored log", block(true)),
        ("one line without end", vec![b'x'; MEBIBYTE]),
        ("one line drawn again and again", b"working, 50% \r".repeat(MEBIBYTE / 14)),
        ("a sequence without end", [b"\x1b]0;".to_vec(), vec![b'x'; MEBIBYTE - 4]].concat()),
    ];
    for (what, piece) in kinds {
        let cpu = |mebibytes: usize| {
            minimum(rounds, || {
                let mut cleaner = Cleaner::default();
                let before = own_cpu();
                for n in 0..mebibytes {
                    // The endless sequence is started once; later pieces only continue it.
                    let start = if n > 0 && piece.starts_with(b"\x1b]") { 4 } else { 0 };
                    for part in piece[start..].chunks(64 * 1024) {
                        black_box(cleaner.push(black_box(part)));
                    }
                }
                black_box(cleaner.flush());
                own_cpu() - before
            })
        };
        let points = [8, 16, 32, 64, 128].map(|mebibytes| (mebibytes, cpu(mebibytes)));
        report_exponent(&format!("length of output: cleaning {what}"), "MiB", &points, LINEAR);
    }
}

fn output(programs: &Programs, rounds: usize) {
    let dir = TempDir::new().unwrap();
    let cpu = |mode: ExecutionMode, mebibytes: usize| taken(programs, dir.path(), mode, mebibytes);
    let (pipe, terminal) = (ExecutionMode::Headless, ExecutionMode::Interactive);
    let points = minima(rounds, [16, 32, 64, 128, 256], |mebibytes| cpu(pipe, mebibytes));
    report_exponent("length of output: a program on a pipe", "MiB", &increments(&points), LINEAR);
    let points = minima(rounds, [4, 8, 16, 32, 64], |mebibytes| cpu(terminal, mebibytes));
    report_exponent("length of output: a program in a terminal", "MiB", &increments(&points), LINEAR);
}

fn taken(programs: &Programs, dir: &Path, mode: ExecutionMode, mebibytes: usize) -> f64 {
    let runner = runner(programs);
    let job = job("t", mode, &flood(programs, mebibytes, true), dir);
    let before = own_cpu();
    let (end, _) = run(&runner, &job);
    assert!(end.ok, "{end:?}");
    own_cpu() - before
}
