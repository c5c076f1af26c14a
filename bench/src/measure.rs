//! Measures one command from outside: wall time, CPU time of it and its threads, peak memory.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The argument that makes this program measure one command.
pub const ONE: &str = "--measure-one";

/// What a command took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    pub wall_ms: f64,
    pub cpu_ms: f64,
    pub peak_mb: f64,
}

/// The programs that are measured.
pub struct Programs {
    pub althing: PathBuf,
    pub floor: PathBuf,
    pub server: PathBuf,
}

impl Programs {
    /// Builds them as this program was built: what `cargo run` without `--release` measures is only good for trying this.
    pub fn build() -> Self {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let packages = ["-p", "althing", "-p", "althing-testkit", "-p", "althing-bench"];
        let built = Command::new(cargo)
            .args(["build", "--profile", if cfg!(debug_assertions) { "dev" } else { "release" }])
            .args(["--quiet", "--bins"])
            .args(packages)
            .status()
            .unwrap();
        assert!(built.success(), "the programs must build");
        let me = me();
        let dir = me.parent().unwrap();
        let named = |name: &str| dir.join(name);
        Self { althing: named("althing"), floor: named("bench-floor"), server: named("fake-model-server") }
    }
}

/// This program by its name: building may have replaced the file that it was started from.
fn me() -> PathBuf {
    let name = std::env::args_os().next().map(PathBuf::from).unwrap();
    std::env::current_dir().unwrap().join(name)
}

/// Runs the command given as arguments and prints what it took.
pub fn one(command: &[String]) {
    let (program, args) = command.split_first().expect("a command");
    let began = Instant::now();
    let status = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let wall = began.elapsed();
    assert!(status.unwrap().success(), "{command:?} must succeed");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let cpu = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    println!("{} {} {}", wall.as_micros(), cpu, usage.max_rss());
}

/// Measures a command in a process of its own.
pub fn measure(program: &Path, args: &[&str], dir: &Path) -> Taken {
    let output = Command::new(me()).arg(ONE).arg(program).args(args).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|n| n.parse().unwrap()).collect();
    Taken { wall_ms: numbers[0] / 1000.0, cpu_ms: numbers[1] / 1000.0, peak_mb: numbers[2] / 1024.0 }
}

/// How many seconds some work takes, and what it gives.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let began = Instant::now();
    let value = work();
    (began.elapsed().as_secs_f64(), value)
}

/// The middle of a list of numbers.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The medians of several measurements.
pub fn medians(all: &[Taken]) -> Taken {
    let of = |field: fn(&Taken) -> f64| median(all.iter().map(field).collect());
    Taken { wall_ms: of(|t| t.wall_ms), cpu_ms: of(|t| t.cpu_ms), peak_mb: of(|t| t.peak_mb) }
}

/// Prints a row: ours beside the floor; wall and CPU in ms.
pub fn row(what: &str, floor: &[Taken], ours: &[Taken]) {
    let (floor, ours) = (medians(floor), medians(ours));
    println!(
        "  {what:34} wall {:7.1} / {:7.1} = {:4.2}x   cpu {:7.1} / {:7.1} = {:4.2}x   peak {:5.1} MB (floor {:.1})",
        ours.wall_ms,
        floor.wall_ms,
        ours.wall_ms / floor.wall_ms,
        ours.cpu_ms,
        floor.cpu_ms,
        ours.cpu_ms / floor.cpu_ms,
        ours.peak_mb,
        floor.peak_mb,
    );
}

/// The requests go over plain HTTP; without this a client would load the system's certificates for nothing.
pub fn no_tls() -> rustls::ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}
