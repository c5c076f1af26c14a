//! `althing mcp` with an MCP client on its stdin and stdout.

use althing_testkit::process::wait_for_event;
use althing_testkit::{Action, Althing, Gate, Parliament, RecordedRequest, Reply, RunningProcess, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, althing};

pub struct Client {
    pub running: RunningProcess,
    next: u64,
    questions: usize,
}

impl Client {
    pub fn start(althing: &Althing, args: &[&str]) -> Self {
        Self::with(althing, args, &json!({}))
    }

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

    pub fn result_of(&mut self, run_id: &Value) -> Value {
        let deadline = std::time::Instant::now() + LIMIT;
        loop {
            let returned = self.tool("run_result", &json!({"run_id": run_id}));
            let result = &returned["structuredContent"];
            if result["status"] != "running" {
                return result.clone();
            }
            assert!(std::time::Instant::now() < deadline, "{returned}");
        }
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
    for unknown in [format!("{run_id}/../.."), format!("{session}.r7")] {
        let refused = client.tool("run_result", &json!({"run_id": unknown}));
        assert_eq!(refused["isError"], true, "{unknown}: {refused}");
    }
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

// spec: interactive/run-approval-flow/approval-cancelled
#[test]
fn a_run_that_the_clients_user_does_not_approve_is_not_started_and_the_client_hears_of_it() {
    for (action, reason) in
        [("decline", "the user declined"), ("cancel", "the user gave no answer"), ("accept", "")]
    {
        let fixture =
            Fixture::with(2, Script::from_fn(|request| Parliament::default().reply(request)), |team| {
                team.rule("interactive_mode", json!({}))
            });
        let can_ask = json!({"elicitation": {"form": {}}});
        let mut client = Client::with(&fixture.althing, &["--config", "team.yaml"], &can_ask);
        let launch = json!({"task": "Compare two ways to sort"});
        let (question, returned) = client.tool_with_question("launch_run", &launch, action);
        let message = question["params"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("Compare two ways to sort"), "{question}");
        let is_approved = action == "accept";
        assert_eq!(returned["isError"] == true, !is_approved, "{action}: {returned}");
        if !is_approved {
            let text = returned["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.contains(reason), "{action}: {returned}");
        }
        assert_eq!(fixture.server.request_count() > 0, is_approved, "{action}: {returned}");
        let runs = client.tool("list_runs", &json!({}));
        let count = runs["structuredContent"]["runs"].as_array().unwrap_or_else(|| panic!("{runs}")).len();
        assert_eq!(count, usize::from(is_approved), "{action}: {runs}");
    }
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_client_that_cancels_the_execution_of_a_plan_gets_the_plan_and_a_cancelled_execution() {
    let gate = Gate::before_headers();
    let held = gate.clone();
    let plan = json!({"tasks": [{"id": "t1", "description": "The only part"}]});
    let answer = format!("```json\n{plan}\n```");
    let script = Script::from_fn(move |request: &RecordedRequest| {
        let executes = request.tool_names().contains(&"update_plan_task");
        let action = Action::from(Reply::new_answer(&answer));
        if executes { Action::gated(action, &held) } else { action }
    });
    let fixture = Fixture::new(1, script);
    let mut client = Client::start(&fixture.althing, &["--config", "team.yaml", "--wait", "0"]);
    let both = json!({"task": "Write a book", "agent_mode": "single", "refinement": false, "planning_mode": true,
        "execute_after_planning": true});
    let launched = client.tool("launch_run", &both);
    let run_id = launched["structuredContent"]["run_id"].clone();
    gate.wait_waiting_blocking(1, LIMIT);
    let cancelled = client.tool("cancel_run", &json!({"run_id": run_id}));
    assert_ne!(cancelled["isError"], true, "{cancelled}");
    let result = client.result_of(&run_id);
    assert_eq!(result["status"], "completed", "the plan was made: {result}");
    assert_eq!(result["execution"]["status"], "cancelled", "{result}");
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
    let plan = std::path::Path::new(result["plan"]["path"].as_str().unwrap()).join("plan.md");
    let shown = std::fs::read_to_string(plan).unwrap();
    assert!(!shown.contains("- [x]"), "no task of the plan is done: {shown}");
}

// spec: design/state/partial-results
#[test]
fn a_client_whose_run_is_cancelled_or_times_out_gets_the_answer_so_far_and_the_reason() {
    for (status, reason) in [("cancelled", "the run was cancelled"), ("partial", "time limit")] {
        let script = Script::parliament().on("model-b").always(Action::Hang);
        let fixture = Fixture::with(2, script, |team| {
            if status == "partial" { team.timeout("orchestrator_timeout_seconds", 10) } else { team }
        });
        let mut client = Client::start(&fixture.althing, &["--config", "team.yaml", "--wait", "0"]);
        let launched = client.tool("launch_run", &json!({"task": "Build it"}));
        let run_id = launched["structuredContent"]["run_id"].clone();
        wait_for_event(&fixture.althing.state_dir(), LIMIT, |event| {
            event["data"]["item"]["kind"] == "answer"
        });
        if status == "cancelled" {
            let cancelled = client.tool("cancel_run", &json!({"run_id": run_id}));
            assert_ne!(cancelled["isError"], true, "{cancelled}");
        }
        let result = client.result_of(&run_id);
        assert_eq!(result["status"], status, "{result}");
        assert_eq!(result["final_answer"], "Answer of model-a", "{status}: {result}");
        assert!(result["error"].as_str().is_some_and(|error| error.contains(reason)), "{status}: {result}");
        client.running.close_stdin();
        client.running.wait(LIMIT).expect_code(0);
    }
}

#[test]
fn the_server_ends_after_its_client_has_left_even_during_a_run() {
    let gate = Gate::before_headers();
    let fixture = Fixture::new(1, Script::parliament().nth(0, Action::gated(Action::Usual, &gate)));
    let client = Client::start(&fixture.althing, &["--config", "team.yaml"]);
    let launch = json!({"name": "launch_run", "arguments": {"task": "A long task"}});
    client.send(&json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": launch}));
    gate.wait_waiting_blocking(1, LIMIT);
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
}

/// A run of this team costs more than a cent.
fn expensive(script: Script, change: impl FnOnce(Team) -> Team) -> Fixture {
    Fixture::with(1, script, |team| change(team.output_price("model-a", 1000.0)))
}

#[test]
fn the_cost_limit_of_a_server_applies_to_all_its_runs_together() {
    let budget = json!({"require_approval": false, "budget_usd": 0.01});
    let cases = [(&["--max-cost", "0.01"][..], json!({"require_approval": false})), (&[][..], budget)];
    for (args, interactive) in cases {
        let fixture = expensive(Script::parliament(), |team| team.rule("interactive_mode", interactive));
        let mut client = Client::start(&fixture.althing, &[&["--config", "team.yaml"], args].concat());
        let first = client.tool("launch_run", &json!({"task": "Build it"}));
        let error = first["structuredContent"]["error"].as_str().unwrap_or_default();
        assert!(error.contains("cost limit"), "{args:?}: {first}");
        let requests = fixture.server.requests().len();
        let second = client.tool("launch_run", &json!({"task": "Build it again"}));
        let text = second["content"][0]["text"].as_str().unwrap();
        assert!(
            second["isError"] == true && text.contains("no further run is started"),
            "{args:?}: {second}"
        );
        assert_eq!(fixture.server.requests().len(), requests, "{args:?}: nothing was sent");
        client.running.close_stdin();
        client.running.wait(LIMIT).expect_code(0);
    }
}

#[test]
fn runs_at_the_same_time_reserve_the_cost_of_their_calls_together() {
    let team = |script: Script| Fixture::with(1, script, |team| team.price("model-a", 1000.0));
    let refused = team(Script::parliament());
    let mut client = Client::start(&refused.althing, &["--config", "team.yaml", "--max-cost", "0.001"]);
    let launched = client.tool("launch_run", &json!({"task": "Build it"}));
    let least = super::limits::least_cost(launched["structuredContent"]["error"].as_str().unwrap());
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
    let limit = (1.5 * least).to_string();
    let gate = Gate::before_headers();
    let fixture = team(Script::parliament().on("model-a").always(Action::gated(Action::Usual, &gate)).into());
    let args = ["--config", "team.yaml", "--wait", "0", "--max-cost", &limit];
    let mut client = Client::start(&fixture.althing, &args);
    let launched = client.tool("launch_run", &json!({"task": "Build it"}));
    let first = launched["structuredContent"]["run_id"].clone();
    gate.wait_waiting_blocking(1, LIMIT);
    let launched = client.tool("launch_run", &json!({"task": "Build on"}));
    let second = client.result_of(&launched["structuredContent"]["run_id"].clone());
    assert!(second["error"].as_str().unwrap_or_default().contains("was not made"), "{second}");
    assert_eq!(fixture.server.request_count(), 1, "only the first run made a call");
    gate.release_all();
    assert!(client.result_of(&first)["final_answer"].is_string());
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
}

#[test]
fn runs_at_the_same_time_are_cancelled_when_their_costs_together_reach_the_limit() {
    let script = Script::from_fn(|request: &RecordedRequest| -> Action {
        let hangs = super::support::texts(request).contains("a task that hangs");
        if hangs { Action::Hang } else { Parliament::default().reply(request).into() }
    });
    let fixture = expensive(script, |team| team);
    let args = ["--config", "team.yaml", "--wait", "0", "--max-cost", "0.01"];
    let mut client = Client::start(&fixture.althing, &args);
    let mut launch = |task: &str| {
        let launched = client.tool("launch_run", &json!({"task": task}));
        launched["structuredContent"]["run_id"].clone()
    };
    let (hanging, spending) = (launch("a task that hangs"), launch("a task that spends"));
    for (run, status) in [(spending, "partial"), (hanging, "cancelled")] {
        let result = client.result_of(&run);
        assert_eq!(result["status"], status, "{result}");
    }
    client.running.close_stdin();
    client.running.wait(LIMIT).expect_code(0);
}
