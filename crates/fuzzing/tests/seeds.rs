//! Every seed and every earlier crash is checked on every change; so are simple mutations of the seeds.
#![expect(clippy::disallowed_methods, reason = "it reads the seeds")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use althing_fuzzing::TARGETS;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the panics of detached tasks too.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = fuzz().join("corpus").join(target);
    let files = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
}

fn replay(name: &str, variations: usize) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        usual(info);
    }));
    let seeds = seeds(name);
    assert!(seeds.len() >= 5, "{name} has seeds");
    let mut number = 0_u64;
    for (file, seed) in &seeds {
        for variation in 0..=variations {
            let mut bytes = seed.clone();
            if variation > 0 && !bytes.is_empty() {
                number =
                    number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (number >> 33) as usize % bytes.len();
                match variation % 3 {
                    0 => bytes[at] ^= (number >> 24) as u8 | 1,
                    1 => bytes.truncate(at),
                    _ => drop(bytes.drain(at..(at + 7).min(seed.len()))),
                }
            }
            let held = std::panic::catch_unwind(|| (target.check)(&bytes));
            assert!(
                held.is_ok() && PANICS.load(Ordering::SeqCst) == 0,
                "{} (variation {variation}) does not hold: {:?}",
                file.display(),
                String::from_utf8_lossy(&bytes)
            );
        }
    }
}

#[test]
fn programs_output_becomes_plain_text() {
    replay("ansi", 200);
}

#[test]
fn any_config_gives_a_report() {
    replay("config", 20);
}

#[test]
fn no_argument_leads_a_file_tool_astray() {
    replay("files", 20);
}

#[test]
fn any_log_keeps_what_is_whole_and_loses_no_byte() {
    replay("log", 20);
}

#[test]
fn the_mcp_server_answers_after_any_earlier_input() {
    replay("mcp", 20);
}

#[test]
fn no_text_acts_on_the_terminal() {
    replay("screen", 5);
}

#[test]
fn no_program_controls_the_terminal_of_an_attached_user() {
    replay("terminal", 10);
}

#[test]
fn any_stream_of_a_model_means_the_same_wherever_it_is_cut() {
    replay("wires", 50);
}

#[test]
fn every_target_has_a_fuzzer_seeds_and_a_test() {
    let here = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds.rs")).unwrap();
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for target in TARGETS {
        let name = target.name;
        let fuzzer = std::fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(fuzzer.contains(&format!("check({name:?}")), "fuzz_targets/{name}.rs checks something else");
        assert!(manifest.contains(&format!("name = {name:?}")), "fuzz/Cargo.toml does not build {name}");
        assert!(here.contains(&format!("replay({name:?}")), "nothing replays the seeds of {name}");
    }
}
