//! The table for docs/performance.md: the results, the machine and the command.

use crate::measure::Programs;
use crate::verdict::ResultLine;
use std::fmt::Write as _;
use std::process::Command;

pub fn markdown(programs: &Programs, lines: &[ResultLine], rounds: usize) -> String {
    let mut text = String::new();
    writeln!(text, "{}\n", circumstances(programs, rounds)).unwrap();
    text.push_str("| group | what | wanted | got | |\n| --- | --- | --- | --- | --- |\n");
    for line in lines {
        let (wanted, verdict) = match &line.promise {
            Some((wanted, true)) => (wanted.as_str(), "met"),
            Some((wanted, false)) => (wanted.as_str(), "**MISSED**"),
            None => ("", ""),
        };
        writeln!(text, "| `{}` | {} | {wanted} | {} | {verdict} |", line.group, line.what, line.got).unwrap();
    }
    let missed: Vec<&ResultLine> =
        lines.iter().filter(|line| line.promise.as_ref().is_some_and(|(_, met)| !met)).collect();
    if missed.is_empty() {
        text.push_str("\nNo target is missed.\n");
    } else {
        text.push_str("\n**Missed:**\n\n");
        for line in missed {
            let wanted = &line.promise.as_ref().unwrap().0;
            writeln!(text, "- `{}`: {}: {}, wanted {wanted}.", line.group, line.what, line.got).unwrap();
        }
    }
    text
}

pub fn circumstances(programs: &Programs, rounds: usize) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words = if words.is_empty() { String::new() } else { format!(" -- {}", words.join(" ")) };
    let profile = if cfg!(debug_assertions) { "" } else { " --release" };
    format!(
        "{} ({}), {cores} cores ({}), {}, load {} at the start; {}; medians of {rounds} unless it says otherwise; \
         `cargo run{profile} -p althing-bench{words}`",
        first_line(&programs.althing.display().to_string(), &["--version"]),
        first_line("git", &["rev-parse", "--short", "HEAD"]),
        processor(),
        first_line("uname", &["-sr"]),
        programs.load,
        first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
    )
}

pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, n)| n));
    name.unwrap_or("unknown").to_owned()
}

fn first_line(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or("unknown").to_owned()
}
