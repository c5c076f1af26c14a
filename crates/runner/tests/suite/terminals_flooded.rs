//! A flood of output in a terminal costs little memory.

use super::support::HELPER;
use althing_testkit::scale;
use std::io::Read;
use std::process::{Command, Stdio};

/// The peak memory in KiB of a process that runs this script in a terminal, and its output.
fn flooded(script: &str) -> (u64, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut helper = Command::new(HELPER);
    helper.arg("terminal-memory").arg(dir.path()).arg(script).stdout(Stdio::piped());
    let mut helper = helper.spawn().unwrap();
    let mut said = String::new();
    helper.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(helper.wait().unwrap().success());
    let peak = said.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = peak.trim().trim_end_matches(" kB").trim().parse().unwrap();
    (peak, said)
}

#[test]
fn a_flood_of_any_kind_costs_no_more_than_64_mebibytes_and_the_exit_code_is_kept() {
    // With the smaller flood, a tighter bound still detects memory that grows with the output.
    let (size, bound) = if scale(0, 1) == 1 { ("1G", 64 * 1024) } else { ("12M", 8 * 1024) };
    let sequences = scale(30_000, 1_000_000);
    let (calm, _) = flooded("exit 5");
    for flood in [
        format!("yes 'a line of the flood' | head -c {size}; exit 5"),
        format!("head -c {size} /dev/zero | tr '\\0' x; exit 5"),
        format!("printf '\\033]0;'; head -c {size} /dev/zero | tr '\\0' x; exit 5"),
        format!("yes | head -n {sequences} | sed 's/.*/\\x1b[31m\\x1b[5;5Hred\\x1b[K\\x1b[6n/' ; exit 5"),
        format!("printf e; yes '\\xcc\\x81' | tr -d '\\n' | head -c {size}; exit 5")
            .replace("\\xcc\\x81", "\u{301}"),
    ] {
        let (peak, said) = flooded(&flood);
        println!("{flood}: {peak} KiB, {calm} KiB without");
        assert!(peak < calm + bound, "{flood}: {peak} KiB, {calm} KiB without");
        assert!(said.contains("exit: Some(5)"), "{flood}: {said}");
    }
}
