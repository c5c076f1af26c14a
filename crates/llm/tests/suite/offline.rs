//! The offline model, driven as the engine drives it: answers, refines, votes, presents.

use super::support::{Called, build, call, config};
use althing_protocol::{Backend, BackendConfig, Message, ModelRequest, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;

const LABEL: &str = "[offline model: not an AI]";
const TASK: &str = "Compare three ways to cache HTTP responses";

fn agent(model: &str) -> Arc<dyn Backend> {
    let section = config("", json!({}));
    build(&BackendConfig {
        kind: "offline".into(),
        model: Some(model.into()),
        base_url: None,
        api_key: None,
        ..section
    })
}

fn tool(name: &str, properties: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": properties}),
    }
}

fn new_answer() -> ToolSpec {
    tool("new_answer", json!({"content": {"type": "string"}}))
}

fn vote(ids: &[&str]) -> ToolSpec {
    tool("vote", json!({"agent_id": {"type": "string", "enum": ids}, "reason": {"type": "string"}}))
}

fn asked(text: String, tools: Vec<ToolSpec>) -> ModelRequest {
    ModelRequest { system: "system".into(), messages: vec![Message::User(text)], tools, call_context: None }
}

fn task(task: &str) -> String {
    format!("<ORIGINAL MESSAGE 7a>\n{task}\n<END OF ORIGINAL MESSAGE 7a>")
}

/// The agent's own answer is last.
fn shown(answers: &[(usize, usize, String)], member_index: usize, mark: &str) -> String {
    let own = answers.iter().filter(|(agent, ..)| *agent == member_index);
    let listed: String = answers
        .iter()
        .filter(|(agent, ..)| *agent != member_index)
        .chain(own)
        .map(|(agent, version, text)| {
            format!("<agent{agent}.{version} 7a>\n{text}\n<end of agent{agent}.{version} 7a>\n")
        })
        .collect();
    format!("{}\n\n{mark}:\n{listed}", task(TASK))
}

fn argument(called: &Called, tool: &str, name: &str) -> Option<String> {
    let call = called.reply().tool_calls.first()?;
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
    (call.name == tool).then(|| arguments[name].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn three_agents_answer_differently_one_refines_once_and_all_vote_for_the_same() {
    let agents = ["offline-a", "offline-b", "offline-c"].map(agent);
    let mut answers = Vec::new();
    for (member_index, agent) in agents.iter().enumerate() {
        let called = call(&**agent, &asked(task(TASK), vec![new_answer()])).await;
        let content = argument(&called, "new_answer", "content").unwrap();
        assert!(content.starts_with(LABEL), "{content}");
        assert!(content.contains("cache HTTP responses"), "{content}");
        answers.push((member_index + 1, 1, content));
    }
    assert!(answers[0].2 != answers[1].2 && answers[1].2 != answers[2].2 && answers[0].2 != answers[2].2);
    let tools = || vec![new_answer(), vote(&["agent1", "agent2", "agent3"])];
    let mut rounds = 0;
    let targets = loop {
        rounds += 1;
        assert!(rounds <= 3, "it goes on for ever");
        let (before, mut targets) = (answers.clone(), Vec::new());
        for (member_index, agent) in agents.iter().enumerate() {
            let called =
                call(&**agent, &asked(shown(&before, member_index + 1, "CURRENT ANSWERS"), tools())).await;
            match argument(&called, "new_answer", "content") {
                Some(content) => {
                    assert_eq!(content.matches(LABEL).count(), 1, "{content}");
                    assert!(content != answers[member_index].2);
                    answers[member_index] = (member_index + 1, answers[member_index].1 + 1, content);
                }
                None => targets.extend(argument(&called, "vote", "agent_id")),
            }
        }
        if targets.len() == 3 {
            break targets;
        }
    };
    assert_eq!(rounds, 2, "exactly one round of refinement");
    assert_eq!(targets, ["agent1"; 3], "the refined answer wins");
    let called = call(&*agents[0], &asked(shown(&answers, 1, "ANSWERS"), Vec::new())).await;
    let text = &called.reply().text;
    assert!(text.starts_with(LABEL) && text.matches(LABEL).count() == 1, "{text}");
    assert!(text.contains("cache HTTP responses"), "{text}");
    assert_eq!(&called.text, text, "it streams");
}

#[tokio::test]
async fn the_same_request_gets_the_same_reply_and_costs_nothing() {
    let request = asked(task(TASK), vec![new_answer()]);
    let (one, two) = (call(&*agent("offline-c"), &request).await, call(&*agent("offline-c"), &request).await);
    assert_eq!(one.result, two.result);
    let usage = one.reply().usage;
    assert!(usage.input_tokens > 0 && usage.output_tokens > 0 && usage.calls == 1, "{usage:?}");
    assert!(usage.cost_usd.abs() < f64::EPSILON);
    assert!(agent("offline-c").info().offline);
}

#[tokio::test]
async fn a_vote_is_only_for_whom_the_tool_allows_and_needs_no_answers() {
    let answers = [(1, 2, "long\n".repeat(9)), (2, 1, "short".into())];
    let called =
        call(&*agent("offline-a"), &asked(shown(&answers, 2, "CURRENT ANSWERS"), vec![vote(&["agent2"])]))
            .await;
    assert_eq!(argument(&called, "vote", "agent_id").as_deref(), Some("agent2"));
    let called = call(&*agent("offline-b"), &asked("?".into(), vec![vote(&["agent7"])])).await;
    assert_eq!(argument(&called, "vote", "agent_id").as_deref(), Some("agent7"));
}

#[tokio::test]
async fn a_rejected_answer_is_not_given_again() {
    let first = call(&*agent("offline"), &asked(task(TASK), vec![new_answer()])).await;
    let mut request = asked(task(TASK), vec![new_answer()]);
    let reply = first.reply().clone();
    request.messages.push(Message::Assistant { text: reply.text, tool_calls: reply.tool_calls.clone() });
    let call_id = reply.tool_calls[0].id.clone();
    request.messages.push(Message::Tool { call: call_id, content: "a duplicate".into(), is_error: true });
    let second = call(&*agent("offline"), &request).await;
    assert_ne!(argument(&first, "new_answer", "content"), argument(&second, "new_answer", "content"));
}

#[tokio::test]
async fn without_tools_or_answers_it_answers_in_plain_text() {
    let called = call(&*agent("offline-a"), &asked(task("What is 2+2?"), Vec::new())).await;
    assert!(called.reply().text.starts_with(LABEL));
    assert!(called.reply().text.contains("What is 2+2"));
}

#[tokio::test]
async fn a_file_in_the_task_is_read_first_when_that_is_offered() {
    let read = tool("read_file", json!({"path": {"type": "string"}}));
    let mut request = asked(task("Review src/main.rs"), vec![read, new_answer()]);
    let called = call(&*agent("offline-a"), &request).await;
    assert_eq!(argument(&called, "read_file", "path").as_deref(), Some("src/main.rs"));
    request
        .messages
        .push(Message::Assistant { text: String::new(), tool_calls: called.reply().tool_calls.clone() });
    let id = called.reply().tool_calls[0].id.clone();
    request.messages.push(Message::Tool { call: id, content: "fn main() {}".into(), is_error: false });
    let content = argument(&call(&*agent("offline-a"), &request).await, "new_answer", "content").unwrap();
    assert!(content.contains("fn main() {}"), "{content}");
}

#[tokio::test]
async fn as_chat_agent_it_proposes_runs_for_work_and_answers_the_rest() {
    let launch =
        || vec![tool("launch_run", json!({"task": {"type": "string"}, "context": {"type": "string"}}))];
    let mut request = asked("Please refactor the parser.".into(), launch());
    let called = call(&*agent("offline"), &request).await;
    assert_eq!(argument(&called, "launch_run", "task").as_deref(), Some("Please refactor the parser."));
    request
        .messages
        .push(Message::Assistant { text: String::new(), tool_calls: called.reply().tool_calls.clone() });
    let id = called.reply().tool_calls[0].id.clone();
    let result = json!({"status": "completed", "final_answer": format!("{LABEL}\nDone so.")}).to_string();
    request.messages.push(Message::Tool { call: id, content: result, is_error: false });
    let reply = call(&*agent("offline"), &request).await;
    assert!(reply.reply().tool_calls.is_empty() && reply.reply().text.contains("Done so."), "{reply:?}");
    assert_eq!(reply.reply().text.matches(LABEL).count(), 1);
    let chat = call(&*agent("offline"), &asked("Hello, who are you?".into(), launch())).await;
    assert!(chat.reply().tool_calls.is_empty() && chat.reply().text.starts_with(LABEL), "{chat:?}");
}

#[tokio::test]
async fn as_chat_agent_it_accepts_a_rejection_and_proposes_later_work_again() {
    let launch = vec![tool("launch_run", json!({"task": {"type": "string"}}))];
    let mut request = asked("Refactor the parser".into(), launch);
    let says = async |request: &mut ModelRequest| {
        let reply = call(&*agent("offline"), request).await.reply().clone();
        let calls = reply.tool_calls.clone();
        request.messages.push(Message::Assistant { text: reply.text.clone(), tool_calls: calls.clone() });
        (reply.text, calls.first().map(|call| call.id.clone()))
    };
    let tool_result = |call: Option<String>, content: String, is_error| Message::Tool {
        call: call.unwrap(),
        content,
        is_error,
    };
    let (_, launched) = says(&mut request).await;
    let refused =
        json!({"status": "cancelled", "final_answer": null, "error": "the user did not approve this run"});
    request.messages.push(tool_result(launched, refused.to_string(), false));
    let (text, again) = says(&mut request).await;
    assert!(again.is_none() && text.contains("did not approve"), "{text}");
    request.messages.push(Message::User("Write a poem".into()));
    let (_, launched) = says(&mut request).await;
    request.messages.push(tool_result(launched, "there is no parameter".into(), true));
    let (text, again) = says(&mut request).await;
    assert!(again.is_none() && text.starts_with(LABEL), "{text}");
    request.messages.push(Message::User("Build a bridge".into()));
    let (_, launched) = says(&mut request).await;
    assert!(launched.is_some(), "an old error is forgotten");
    let partial =
        json!({"status": "partial", "final_answer": "Half a bridge.", "error": "the time limit passed"});
    request.messages.push(tool_result(launched, partial.to_string(), false));
    let (text, _) = says(&mut request).await;
    assert!(
        text.contains("partial") && text.contains("time limit") && text.contains("Half a bridge."),
        "{text}"
    );
}

#[tokio::test]
async fn a_conversation_is_summarized_by_the_users_messages() {
    let talk = "The older part:\n<user 7a>\nBuild a bridge\n<end of user 7a>\n<assistant 7a>\nYes.\n<end of assistant 7a>\n\
        <user 7a>\nFor trains\n<end of user 7a>";
    let called = call(&*agent("offline"), &asked(talk.into(), Vec::new())).await;
    let text = &called.reply().text;
    assert!(text.contains("- Build a bridge\n- For trains") && !text.contains("Yes."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_pace_can_be_set_for_demonstrations() {
    let mut section = config("", json!({"chunk_delay_ms": 100}));
    section.kind = "offline".into();
    let started = tokio::time::Instant::now();
    let called = call(&*build(&section), &asked(task(TASK), Vec::new())).await;
    assert!(
        started.elapsed().as_millis() as usize >= called.reply().text.len() / 100 * 100,
        "{:?}",
        started.elapsed()
    );
    assert!(started.elapsed().as_secs() >= 1);
}
