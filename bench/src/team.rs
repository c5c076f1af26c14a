//! A team of agents and its model server.

use crate::measure::Programs;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A zero-latency model server in its own process, so that its CPU time is not counted.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    pub fn start(programs: &Programs, chunks: usize, record: Option<&Path>) -> Self {
        let mut command = Command::new(&programs.server);
        command.args(["--port", "0", "--chunks", &chunks.to_string()]);
        if let Some(file) = record {
            command.arg("--record").arg(file);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap();
        Self { url: format!("http://{address}/v1"), child }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a config that MassGen can read as well: this many agents, each with its own model on this server.
pub fn config(dir: &Path, agents: usize, url: &str) -> String {
    config_with(dir, agents, url, "")
}

pub fn config_with(dir: &Path, agents: usize, url: &str, keys: &str) -> String {
    let mut yaml = format!("{keys}agents:\n");
    for n in 1..=agents {
        let backend = format!("{{type: chatcompletion, model: model-{n}, base_url: \"{url}\"}}");
        writeln!(yaml, "  - id: a{n}\n    backend: {backend}").unwrap();
    }
    let file = dir.join("team.yaml");
    std::fs::write(&file, yaml).unwrap();
    file.display().to_string()
}
