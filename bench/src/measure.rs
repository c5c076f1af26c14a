//! Measures one command: wall time, CPU time including threads, peak memory.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub const ONE: &str = "--measure-one";

#[derive(Clone, Copy, Debug, Default)]
pub struct Measurement {
    pub wall_ms: f64,
    pub cpu_ms: f64,
    pub peak_mb: f64,
}

pub struct Programs {
    pub althing: PathBuf,
    pub floor: PathBuf,
    pub server: PathBuf,
    /// The load of the machine before anything was built or measured.
    pub load: String,
}

impl Programs {
    /// Builds the measured programs with the profile of this program. Results without `--release` are only good for
    /// testing the benchmarks.
    pub fn build() -> Self {
        let load = crate::table::load();
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
        let (althing, floor) = (named("althing"), named("bench-floor"));
        Self { althing, floor, server: named("fake-model-server"), load }
    }
}

/// Unlike `current_exe`, this path stays valid if building has replaced the file.
fn me() -> PathBuf {
    let name = std::env::args_os().next().map(PathBuf::from).unwrap();
    std::env::current_dir().unwrap().join(name)
}

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
    let code = status.unwrap().code().expect("it exits by itself");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let cpu = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    println!("{} {} {} {code}", wall.as_micros(), cpu, usage.max_rss());
}

/// Measures a command in a separate process, which runs [`one`]. Panics unless the command succeeds.
pub fn measure(program: &Path, args: &[&str], dir: &Path) -> Measurement {
    measure_exit(program, args, dir, 0)
}

/// The command must exit with the status `code`.
pub fn measure_exit(program: &Path, args: &[&str], dir: &Path, code: i32) -> Measurement {
    let output = Command::new(me()).arg(ONE).arg(program).args(args).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (numbers, exited) = text.trim().rsplit_once(' ').unwrap();
    assert_eq!(exited.parse(), Ok(code), "{} {args:?}", program.display());
    let numbers: Vec<f64> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
    Measurement { wall_ms: numbers[0] / 1000.0, cpu_ms: numbers[1] / 1000.0, peak_mb: numbers[2] / 1024.0 }
}

/// The time of some work in seconds, and its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let began = Instant::now();
    let value = work();
    (began.elapsed().as_secs_f64(), value)
}

pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// The time below which this percentage of the times lie.
pub fn percentile(mut times: Vec<f64>, hundredth: usize) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() * hundredth / 100]
}

pub fn medians(all: &[Measurement]) -> Measurement {
    let of = |field: fn(&Measurement) -> f64| median(all.iter().map(field).collect());
    Measurement { wall_ms: of(|t| t.wall_ms), cpu_ms: of(|t| t.cpu_ms), peak_mb: of(|t| t.peak_mb) }
}

/// Least squares: slope and intercept.
pub fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let (x, y) =
        (points.iter().map(|p| p.0).sum::<f64>() / count, points.iter().map(|p| p.1).sum::<f64>() / count);
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let slope = covariance / variance;
    (slope, y - slope * x)
}

/// In ms, including ended threads.
pub fn cpu_of(process: u32) -> f64 {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(process).unwrap())).unwrap();
    clock.now().unwrap().num_nanoseconds() as f64 / 1e6
}

pub fn resident_mb(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

/// In ms, including ended threads.
pub fn own_cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e3
}

/// Without certificates, because the requests use plain HTTP and a client would load the system's certificates.
pub fn no_tls() -> rustls::ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
}
