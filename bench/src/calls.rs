//! The cost of an answer: model calls, and the bytes sent with them.

use crate::measure::Programs;
use crate::verdict::{exactly, report};
use althing_testkit::{Althing, FakeModel, RecordedRequest, Script};
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

pub fn all(programs: &Programs) {
    let plain = |_: &mut Value| {};
    let reuse =
        |config: &mut Value| config["orchestrator"] = json!({"final_answer_strategy": "winner_reuse"});
    exactly("2 agents agree: model calls (2N + 1)", run(programs, 2, plain, &[]).len(), 5);
    let agreed = run(programs, 3, plain, &[]);
    exactly("3 agents agree: model calls (2N + 1)", agreed.len(), 7);
    exactly("3 agents agree, winner_reuse: model calls (2N)", run(programs, 3, reuse, &[]).len(), 6);
    exactly("3 agents, --quick: model calls (2N + 1)", run(programs, 3, plain, &["--quick"]).len(), 7);
    let alone = ["--quick", "--single-agent", "a1"];
    exactly("1 agent, --quick: model calls", run(programs, 3, plain, &alone).len(), 1);
    let sent: usize = agreed.iter().map(|request| request.raw_body().len()).sum();
    below("3 agents agree: bytes of all requests", sent, 30_000);
    below("system prompt of a text-only agent, bytes", longest_prompt(&agreed), 4_000);
    let with_tools = |config: &mut Value| {
        config["agents"][0]["backend"]["cwd"] = json!("workspace");
        config["agents"][0]["backend"]["enable_mcp_command_line"] = json!(true);
    };
    let able = run(programs, 1, with_tools, &["--quick", "--unconfined"]);
    assert!(able[0].tool_names().contains(&"run_command"), "{:?}", able[0].tool_names());
    below("system prompt with files and commands, bytes", longest_prompt(&able), 8_000);
}

fn below(what: &str, got: usize, limit: usize) {
    report(what, got, &format!("under {limit}"), got < limit);
}

fn longest_prompt(requests: &[RecordedRequest]) -> usize {
    let first = requests.iter().filter(|request| request.nth_of_model() == 0);
    first.map(|request| request.system_text().len()).max().unwrap()
}

fn run(
    programs: &Programs,
    agents: usize,
    change: impl Fn(&mut Value),
    args: &[&str],
) -> Vec<RecordedRequest> {
    let server = FakeModel::start_on_thread(Script::parliament());
    let backend = |n: usize| json!({"type": "chatcompletion", "model": format!("model-{n}"), "base_url": server.base_url()});
    let agents: Vec<Value> =
        (1..=agents).map(|n| json!({"id": format!("a{n}"), "backend": backend(n)})).collect();
    let mut config = json!({ "agents": agents });
    change(&mut config);
    let althing = Althing::new(programs.althing.clone());
    althing.file("team.yaml", config.to_string());
    let command =
        althing.new_command().args(["--config", "team.yaml", "--automation"]).args(args).arg("What is 2+2?");
    command.spawn().wait(LIMIT).expect_code(0);
    server.requests()
}
