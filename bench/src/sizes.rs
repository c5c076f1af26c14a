//! The size of the binary, and the cost of rejecting malicious configs.

use crate::measure::{Programs, measure_exit, medians};
use crate::verdict::{below_mb, below_ms};
use althing_testkit::config_bombs;
use tempfile::TempDir;

pub fn all(programs: &Programs, rounds: usize) {
    let bytes = std::fs::metadata(&programs.althing).unwrap().len();
    below_mb("size of the binary of this build", bytes as f64 / 1e6, 35.0);
    hostile(programs, rounds.min(5));
}

fn hostile(programs: &Programs, rounds: usize) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("bomb.yaml").display().to_string();
    for (what, content) in config_bombs() {
        std::fs::write(&file, content).unwrap();
        let refused =
            || measure_exit(&programs.althing, &["--config", &file, "--automation", "task"], dir.path(), 1);
        let taken = medians(&(0..rounds).map(|_| refused()).collect::<Vec<_>>());
        below_ms(&format!("{what} as a config, refused"), taken.wall_ms / 1e3, 100.0);
        below_mb(&format!("{what} as a config, peak memory"), taken.peak_mb, 50.0);
    }
}
