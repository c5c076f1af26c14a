//! What conversations and runs cost: counted separately, for models by their prices and for CLI agents by what they
//! report.

use althing_testkit::{RecordedRequest, Script};
use serde_json::{Value, json};

use super::chat_kinds::{
    CHAT_MODEL, ChatAgentKind, Conversation, DELEGATE, first_json, initialize, mcp_answers,
};
use super::chat_scenarios::votes_for_the_second;
use super::support::{LIMIT, texts};

// spec: design/cost/per-run
#[test]
fn costs_that_a_cli_agent_reports_belong_to_the_conversation_or_to_the_run_that_caused_them() {
    const PRICE_OF_CLAUDE: f64 = 0.25;
    const PRICE_OF_MODEL: f64 = 0.12;
    let tasks = ["The first job", "The second job"];
    let launches = tasks.map(|task| json!({"task": task, "refinement": false}));
    let team = || {
        let script = Script::from_fn(votes_for_the_second);
        let conversation = Conversation::new(ChatAgentKind::ClaudeCode, 2, script, &launches, |config| {
            config["agents"][1]["backend"] = json!({"type": "claude_code"});
            // Every call of the model has 120 tokens.
            let price = PRICE_OF_MODEL / 120.0 * 1e6;
            config["prices"]["model-a"] = json!({"input_per_million": price, "output_per_million": price});
        });
        let own = conversation.fixture.althing.home_dir().join(".claude");
        std::fs::write(own.join("price"), PRICE_OF_CLAUDE.to_string()).unwrap();
        conversation
    };
    let expected = |conversation: &Conversation, task: &str| {
        let requests = conversation.worker_requests();
        let of_model = requests.iter().filter(|request| texts(request).contains(task)).count();
        let calls = conversation.claude_calls(false);
        let of_claude = calls.iter().filter(|call| call.prompt.contains(task)).count();
        assert!(of_model >= 2 && of_claude >= 3, "{task}: {of_model}, {of_claude}");
        (of_model + of_claude, of_model as f64 * PRICE_OF_MODEL + of_claude as f64 * PRICE_OF_CLAUDE)
    };
    let check = |what: &str, usage: &Value, (calls, dollars): (usize, f64)| {
        assert_eq!(usage["calls"], calls, "{what}: {usage}");
        assert!(
            (usage["cost_usd"].as_f64().unwrap() - dollars).abs() < 1e-6,
            "{what}: {usage}, not {dollars}"
        );
    };
    let conversation = team();
    conversation.chat(&format!("Do both, {DELEGATE}\n"), &[]);
    // The next process resumes the chat agent's conversation, so the total that the program reports includes the calls
    // of the process before.
    conversation.chat("And now?\n", &["--continue"]);
    let own = conversation.claude_calls(true).len();
    assert_eq!(own, 4, "two launches, a reply after the runs, and a reply to the second message");
    let mut shown = vec![("the conversation", own, own as f64 * PRICE_OF_CLAUDE)];
    for (task, result) in tasks.into_iter().zip(conversation.results()) {
        let (calls, dollars) = expected(&conversation, task);
        check(task, &first_json(&result)["usage"], (calls, dollars));
        shown.push((task, calls, dollars));
    }
    assert_eq!(shown.len(), 3, "two results");
    let mut terminal = conversation.screen_command(&["--continue"]).terminal(120, 40);
    terminal.wait_for("Type a message...", LIMIT);
    terminal.wait_for("Noted.", LIMIT);
    terminal.keys("/cost\r");
    let screen = terminal.wait_for("everything", LIMIT);
    for (row, calls, dollars) in shown {
        let line =
            screen.lines().find(|line| line.contains(row) && line.contains("tokens")).unwrap_or_default();
        assert!(
            line.contains(&format!("{calls} calls")) && line.contains(&format!("${dollars:.2}")),
            "{row}: {calls} calls, {dollars}\n{screen}"
        );
    }
    let conversation = team();
    let call = ("tools/call", json!({"name": "launch_run", "arguments": launches[0]}));
    let answers = mcp_answers(&conversation.fixture.althing, &[initialize(), call]);
    check("an MCP client", &answers[1]["structuredContent"]["usage"], expected(&conversation, tasks[0]));
}

// spec: design/cost/per-run
#[test]
fn the_cost_of_the_conversation_and_of_each_run_is_counted_apart() {
    let launches = [
        json!({"task": "The first job", "agent_mode": "single", "agents": ["a"]}),
        json!({"task": "The second job", "refinement": false}),
    ];
    // What each call of a model costs, in dollars. Every call has 120 tokens.
    let prices = [(CHAT_MODEL, 1.2), ("model-a", 0.12), ("model-b", 0.24)];
    let script = Script::from_fn(votes_for_the_second);
    let conversation = Conversation::new(ChatAgentKind::Model, 2, script, &launches, |config| {
        for (model, dollars) in prices {
            let price = dollars / 120.0 * 1e6;
            config["prices"][model] = json!({"input_per_million": price, "output_per_million": price});
        }
    });
    conversation.chat(&format!("Do both, {DELEGATE}\n"), &[]);
    let price = |request: &RecordedRequest| {
        prices.iter().find(|(model, _)| *model == request.model()).map_or(0.0, |(_, dollars)| *dollars)
    };
    let results = conversation.results();
    let mut shown = vec![("the conversation", 3, 3.6)];
    for (launch, result) in launches.iter().zip(&results) {
        let task = launch["task"].as_str().unwrap();
        let requests = conversation.worker_requests();
        let own: Vec<&RecordedRequest> =
            requests.iter().filter(|request| texts(request).contains(task)).collect();
        let dollars: f64 = own.iter().map(|request| price(request)).sum();
        let usage = &first_json(result)["usage"];
        assert_eq!(usage["calls"], own.len(), "{task}: {usage}");
        assert!(
            (usage["cost_usd"].as_f64().unwrap() - dollars).abs() < 1e-6,
            "{task}: {usage}, not {dollars}"
        );
        shown.push((task, own.len(), dollars));
    }
    assert_eq!((shown[1].1, results.len()), (1, 2), "one call in the first run");
    assert!(shown[2].1 >= 5, "two answers, two votes and a presentation in the second run");
    // A later process shows the same amounts on the screen, each in a row of its own.
    let mut terminal = conversation.screen_command(&["--continue"]).terminal(120, 40);
    terminal.wait_for("Type a message...", LIMIT);
    // When the last reply is on the screen, the whole conversation has been read.
    terminal.wait_for("Done.", LIMIT);
    terminal.keys("/cost\r");
    let screen = terminal.wait_for("everything", LIMIT);
    for (row, calls, dollars) in shown {
        let line =
            screen.lines().find(|line| line.contains(row) && line.contains("tokens")).unwrap_or_default();
        let expected = if calls == 1 { "1 call ".to_owned() } else { format!("{calls} calls") };
        assert!(
            line.contains(&expected) && line.contains(&format!("${dollars:.2}")),
            "{row}: {dollars}\n{screen}"
        );
    }
}
