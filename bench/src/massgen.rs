//! The same work by MassGen, in its automation mode: the same config, and the same scripted models on the same server.
//!
//! Every model answers once, then votes for the first answer it is shown, then presents if asked. The two programs do
//! not do the same along the way: MassGen writes more logs and sends longer prompts; Althing syncs a log to disk. Most
//! of MassGen's time is its interpreter and imports, so the time from the first request to the end is listed
//! separately.

use crate::measure::{Measurement, Programs, measure, median, medians};
use crate::team::config_with;
use crate::verdict::{print_line, report_value};
use althing_testkit::{FakeModel, FakeModelOptions, Parliament, RecordedRequest, Reply, Script};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tempfile::TempDir;

const VARIABLE: &str = "ALTHING_BENCH_MASSGEN";
const WORK: [(usize, usize); 6] = [(1, 8), (3, 8), (8, 8), (16, 8), (64, 8), (3, 2000)];

pub fn all(programs: &Programs, rounds: usize) {
    let Some(massgen) = find() else {
        print_line(&format!(
            "  skipped: no MassGen here; `pip install massgen`, or name its program in {VARIABLE}"
        ));
        return;
    };
    report_value("every pair: ours / MassGen's; its version", version(&massgen));
    let rounds = rounds.min(3);
    help(programs, &massgen, rounds);
    for (agents, chunks) in WORK {
        beside(programs, &massgen, agents, chunks, rounds);
    }
}

pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        let named = PathBuf::from(named);
        assert!(named.is_file(), "{VARIABLE} names {}, which is no file", named.display());
        return Some(named);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join("massgen")).find(|file| file.is_file())
}

/// The version of MassGen's package, because the program has no option for it.
pub fn version(massgen: &Path) -> String {
    let python = massgen.with_file_name("python3");
    let code = "import sys; from importlib.metadata import version; print(version('massgen'), 'on Python', sys.version.split()[0])";
    let output =
        Command::new(python).args(["-c", code]).output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output).trim().to_owned();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

fn help(programs: &Programs, massgen: &Path, rounds: usize) {
    let dir = TempDir::new().unwrap();
    let of = |program: &Path| {
        medians(&(0..rounds).map(|_| measure(program, &["--help"], dir.path())).collect::<Vec<_>>())
    };
    let (ours, theirs) = (of(&programs.althing), of(massgen));
    report_value(
        "--help: wall; peak memory",
        format!("{}; {}", pair(ours.wall_ms, theirs.wall_ms, "ms"), pair(ours.peak_mb, theirs.peak_mb, "MB")),
    );
}

fn pair(ours: f64, theirs: f64, unit: &str) -> String {
    format!("{ours:.1} / {theirs:.0} {unit} ({:.0}x)", theirs / ours)
}

#[derive(Default)]
pub struct Observed {
    taken: Vec<Measurement>,
    first_ms: Vec<f64>,
    /// The times from the first request to the end of the last reply.
    pub rest_ms: Vec<f64>,
    calls: Vec<f64>,
    sent_kb: Vec<f64>,
    pub unanswered: usize,
}

impl Observed {
    pub fn most_calls(&self) -> f64 {
        self.calls.iter().copied().fold(0.0, f64::max)
    }

    /// The number of calls, or the lowest and the highest number if the runs differ.
    pub fn calls(&self) -> String {
        let of = |pick: fn(f64, f64) -> f64, start: f64| self.calls.iter().copied().fold(start, pick);
        let (least, most) = (of(f64::min, f64::MAX), of(f64::max, 0.0));
        if least < most { format!("{least:.0} to {most:.0}") } else { format!("{most:.0}") }
    }
}

fn beside(programs: &Programs, massgen: &Path, agents: usize, chunks: usize, rounds: usize) {
    let answered: Arc<Mutex<HashSet<String>>> = Arc::default();
    let server = FakeModel::start_on_thread_with(FakeModelOptions::default(), script(&answered, chunks));
    let (mut ours, mut theirs) = (Observed::default(), Observed::default());
    for _ in 0..rounds {
        for (program, observed) in [(programs.althing.as_path(), &mut ours), (massgen, &mut theirs)] {
            answered.lock().unwrap().clear();
            once(program, &server, agents, "", observed);
        }
    }
    let what = if chunks > 8 {
        format!("{agents} agents, {chunks} chunks per reply")
    } else {
        format!("{agents} agents")
    };
    let (mine, other) = (medians(&ours.taken), medians(&theirs.taken));
    let middle =
        |ours: &[f64], theirs: &[f64], unit| pair(median(ours.to_vec()), median(theirs.to_vec()), unit);
    let got = [
        format!("wall {}", pair(mine.wall_ms, other.wall_ms, "ms")),
        format!("CPU {}", pair(mine.cpu_ms, other.cpu_ms, "ms")),
        format!("peak memory {}", pair(mine.peak_mb, other.peak_mb, "MB")),
        format!("first request after {}", middle(&ours.first_ms, &theirs.first_ms, "ms")),
        format!("from there to the end of the last reply {}", middle(&ours.rest_ms, &theirs.rest_ms, "ms")),
        format!("model calls {} / {} ({} would do)", ours.calls(), theirs.calls(), 2 * agents + 1),
        format!("sent {}", middle(&ours.sent_kb, &theirs.sent_kb, "kB")),
    ];
    report_value(&what, got.join("; "));
    if ours.unanswered + theirs.unanswered > 0 {
        report_value(
            &format!("{what}: runs without an answer"),
            format!("{} / {}", ours.unanswered, theirs.unanswered),
        );
    }
}

/// Each model answers once, regardless of what it is shown, and votes from then on.
fn script(answered: &Arc<Mutex<HashSet<String>>>, chunks: usize) -> Script {
    let answered = Arc::clone(answered);
    Script::from_fn(move |request: &RecordedRequest| {
        let may_answer = request.tool_names().contains(&"new_answer");
        let first = may_answer && answered.lock().unwrap().insert(request.model().to_owned());
        if first {
            let spoken = (0..chunks).map(|n| format!("word {n} of the reply; "));
            return Reply::new_answer(&format!("Answer of {}", request.model())).text_chunks(spoken);
        }
        Parliament::chatter(chunks).reply(request)
    })
}

/// One run in its own directories, with `keys` before the agents of its config. The answer file decides whether there
/// is an answer, because the exit status does not tell.
pub fn once(program: &Path, server: &FakeModel, agents: usize, keys: &str, observed: &mut Observed) {
    let dir = TempDir::new().unwrap();
    let file = config_with(dir.path(), agents, &server.base_url(), keys);
    let answer = dir.path().join("answer.txt");
    let before = server.request_count();
    let began = Instant::now();
    let (home, answer_text) = (format!("HOME={}", dir.path().display()), answer.display().to_string());
    // MassGen requires a key even if the server does not.
    let program_text = program.display().to_string();
    let mut args = vec![home.as_str(), "OPENAI_API_KEY=unused", &program_text, "--config", &file];
    args.extend(["--automation", "--output-file", &answer_text, "What is 2+2?"]);
    observed.taken.push(measure(Path::new("env"), &args, dir.path()));
    // In lower case, because with one agent MassGen writes the agent's answer unchanged, which begins with a capital
    // letter.
    let text = std::fs::read_to_string(&answer).unwrap_or_default().to_lowercase();
    observed.unanswered += usize::from(!text.contains("answer of model-"));
    let requests = server.requests().split_off(before);
    let ms = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e3;
    let Some(first) = requests.first().map(RecordedRequest::arrived) else { return };
    let last = requests.iter().filter_map(RecordedRequest::ended).max().unwrap_or(first);
    observed.first_ms.push(ms(began, first));
    observed.rest_ms.push(ms(first, last));
    observed.calls.push(requests.len() as f64);
    observed
        .sent_kb
        .push(requests.iter().map(|request| request.raw_body().len()).sum::<usize>() as f64 / 1e3);
}
