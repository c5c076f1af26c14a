//! `althing mcp` with an MCP client on its stdin and stdout.

use althing_testkit::{Althing, RunningProcess};
use serde_json::{Value, json};

use super::support::{LIMIT, althing};

/// An MCP client that exchanges lines with `althing mcp`.
pub struct Client {
    pub running: RunningProcess,
    next: u64,
    /// The number of questions that the client was asked.
    questions: usize,
}

impl Client {
    pub fn start(althing: &Althing, args: &[&str]) -> Self {
        Self::with(althing, args, &json!({}))
    }

    /// A client with these capabilities.
    pub fn with(althing: &Althing, args: &[&str], capabilities: &Value) -> Self {
        let running = althing.new_command().arg("mcp").args(args).open_stdin().spawn();
        let mut client = Self { running, next: 1, questions: 0 };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
        let welcome = client.call("initialize", &hello);
        assert!(welcome["result"]["instructions"].as_str().unwrap().contains("launch_run"), "{welcome}");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&self, message: &Value) {
        self.running.write_stdin(format!("{message}\n"));
    }

    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answers = |line: &str| {
            let value = serde_json::from_str::<Value>(line).unwrap_or_default();
            value["id"] == id && value.get("method").is_none()
        };
        serde_json::from_str(&self.running.wait_for_stdout(answers, LIMIT)).unwrap()
    }

    /// Calls a tool that asks the user a question, and answers the question with this action. Returns the question and
    /// the result of the call.
    pub fn tool_with_question(&mut self, name: &str, arguments: &Value, action: &str) -> (Value, Value) {
        let id = self.next;
        self.next += 1;
        let params = json!({"name": name, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        self.questions += 1;
        let seen = std::cell::Cell::new(0);
        let is_newest = |line: &str| {
            seen.set(seen.get() + usize::from(line.contains("elicitation/create")));
            seen.get() == self.questions
        };
        let question: Value = serde_json::from_str(&self.running.wait_for_stdout(is_newest, LIMIT)).unwrap();
        let answer = json!({"action": action, "content": {}});
        self.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
        let answers = |line: &str| {
            let value = serde_json::from_str::<Value>(line).unwrap_or_default();
            value["id"] == id && value.get("method").is_none()
        };
        let returned: Value = serde_json::from_str(&self.running.wait_for_stdout(answers, LIMIT)).unwrap();
        (question, returned["result"].clone())
    }

    pub fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        self.call("tools/call", &json!({"name": name, "arguments": arguments}))["result"].clone()
    }
}

#[test]
fn a_client_launches_a_run_and_gets_the_same_result_object_as_everyone() {
    let althing = althing();
    let mut client = Client::start(&althing, &["--offline"]);
    let tools = client.call("tools/list", &json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for name in ["launch_run", "run_status", "run_result", "list_runs", "cancel_run", "answer_interaction"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let launched = client.tool("launch_run", &json!({"task": "Compare two ways to sort"}));
    let result = launched["structuredContent"].clone();
    assert_eq!(result["status"], "completed", "{launched}");
    assert!(result["final_answer"].as_str().unwrap().contains("offline model"));
    let run_id = result["run_id"].as_str().unwrap().to_owned();
    // The run is a session like any other, with the same log and result.
    let (session, task) = run_id.split_once('.').unwrap();
    let dir = althing.state_dir().join("sessions").join(session);
    let kept = std::fs::read_to_string(dir.join("tasks").join(task).join("result.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap()["run_id"], run_id.as_str());
    let again = client.tool("run_result", &json!({"run_id": run_id}));
    assert_eq!(again["structuredContent"], result, "{again}");
    let wrong = client.tool("launch_run", &json!({"tsak": "x"}));
    assert_eq!(wrong["isError"], true);
    assert!(wrong["content"][0]["text"].as_str().unwrap().contains("task"), "{wrong}");
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_client_that_asks_for_a_plan_and_its_execution_gets_the_results_of_both_runs() {
    let althing = althing();
    let mut client = Client::start(&althing, &["--offline"]);
    let both = json!({"task": "Write a word counter", "planning_mode": true, "execute_after_planning": true});
    let launched = client.tool("launch_run", &both);
    let planned = launched["structuredContent"].clone();
    assert_eq!((&planned["status"], &planned["modes"]["planning"]), (&json!("completed"), &json!(true)));
    let run_id = planned["run_id"].as_str().unwrap().to_owned();
    let follow_up = planned["follow_up"].as_str().unwrap_or_else(|| panic!("{launched}")).to_owned();
    let execution = planned["execution"].clone();
    assert_eq!(execution["run_id"], follow_up.as_str());
    assert_eq!((&execution["status"], &execution["modes"]["planning"]), (&json!("completed"), &json!(false)));
    let plan = std::path::Path::new(planned["plan"]["path"].as_str().unwrap()).join("plan.md");
    let shown = std::fs::read_to_string(plan).unwrap();
    assert_eq!(shown.matches("- [x] **").count(), 3, "every task of the plan is done: {shown}");
    // Both results can be requested again, each by its own id.
    assert_eq!(client.tool("run_result", &json!({"run_id": run_id}))["structuredContent"], planned);
    assert_eq!(client.tool("run_result", &json!({"run_id": follow_up}))["structuredContent"], execution);
    let status = client.tool("run_status", &json!({"run_id": run_id}));
    assert_eq!(status["structuredContent"]["status"], "completed");
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
    let events = althing.events();
    assert_eq!(events.last().unwrap()["type"], "session_closed", "the session waits for the execution");
    let finished = events.iter().filter(|event| event["data"]["verdict"] == "finished");
    let tasks: Vec<&str> = finished.map(|event| event["task"].as_str().unwrap()).collect();
    assert_eq!(tasks, ["r1", "r1.execution"]);
}
