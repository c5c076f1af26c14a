//! The binary itself, and what it takes from whoever hands it a config that is meant to hurt.

use crate::measure::{Programs, measure_exit, medians};
use crate::verdict::{below_mb, below_ms};
use tempfile::TempDir;

pub fn all(programs: &Programs, rounds: usize) {
    let bytes = std::fs::metadata(&programs.althing).unwrap().len();
    below_mb("size of the binary of this build", bytes as f64 / 1e6, 35.0);
    hostile(programs, rounds.min(5));
}

/// Configs that would eat the machine.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let mut aliases = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let before = format!("*a{}", n - 1);
        aliases = format!("{aliases}a{n}: &a{n} [{}]\n", vec![before; 10].join(", "));
    }
    aliases.push_str("agents: *a11\n");
    let deep = format!("agents: {}1{}\n", "[".repeat(20_000), "]".repeat(20_000));
    let large = format!("agents:\n{}", "  - {id: a, backend: {type: offline}}\n".repeat(280_000));
    vec![
        ("an alias bomb", aliases.into_bytes()),
        ("20,000 brackets", deep.into_bytes()),
        ("10 MB", large.into_bytes()),
    ]
}

fn hostile(programs: &Programs, rounds: usize) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("bomb.yaml").display().to_string();
    for (what, content) in bombs() {
        std::fs::write(&file, content).unwrap();
        let refused =
            || measure_exit(&programs.althing, &["--config", &file, "--automation", "task"], dir.path(), 1);
        let taken = medians(&(0..rounds).map(|_| refused()).collect::<Vec<_>>());
        below_ms(&format!("{what} as a config, refused"), taken.wall_ms / 1e3, 100.0);
        below_mb(&format!("{what} as a config, peak memory"), taken.peak_mb, 50.0);
    }
}
