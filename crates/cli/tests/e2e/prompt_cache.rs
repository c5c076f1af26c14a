//! Prompt caching: each call of an agent begins with all of its previous call, so that a provider can reuse what it has
//! cached, and Anthropic is told where to look for it.

use std::collections::BTreeMap;

use althing_testkit::{Action, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::Fixture;
use super::tools::member_action;

/// How many tools each agent calls in each attempt, one after the other.
const TOOL_CALLS: usize = 4;

fn replies(request: &RecordedRequest) -> usize {
    request.messages().iter().filter(|message| message["role"] == "assistant").count()
}

/// Calls a tool a few times in every attempt, then behaves like any member.
fn uses_tools(request: &RecordedRequest) -> Action {
    let nth = replies(request);
    if nth < TOOL_CALLS && request.tool_names().contains(&"list_directory") {
        return Reply::call("list_directory", &json!({"path": "."})).into();
    }
    member_action(request)
}

/// What a provider reads, in the order in which Anthropic and OpenAI cache it: tools, system prompt, messages. Cache marks
/// are left out, because they are no part of the prompt.
fn prompt(request: &RecordedRequest) -> String {
    let body = request.body();
    let parts = [&body["tools"], &body["system"]].into_iter().chain(request.messages());
    parts.map(|part| without_marks(part).to_string()).collect()
}

fn without_marks(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(without_marks).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| *key != "cache_control");
            Value::Object(kept.map(|(key, value)| (key.clone(), without_marks(value))).collect())
        }
        other => other.clone(),
    }
}

/// The indexes of the messages with a cache mark.
fn marked(request: &RecordedRequest) -> Vec<usize> {
    let has_mark = |message: &Value| {
        message["content"]
            .as_array()
            .is_some_and(|blocks| blocks.last().is_some_and(|block| block.get("cache_control").is_some()))
    };
    let messages = request.messages().iter().enumerate();
    messages.filter(|(_, message)| has_mark(message)).map(|(index, _)| index).collect()
}

/// The requests of each agent's attempts, in order.
fn attempts(requests: &[RecordedRequest]) -> Vec<Vec<&RecordedRequest>> {
    let mut attempts: Vec<Vec<&RecordedRequest>> = Vec::new();
    let mut newest: BTreeMap<&str, usize> = BTreeMap::new();
    for request in requests {
        if replies(request) == 0 {
            newest.insert(request.model(), attempts.len());
            attempts.push(Vec::new());
        }
        attempts[newest[request.model()]].push(request);
    }
    attempts
}

#[test]
fn every_call_of_an_attempt_begins_with_all_of_the_call_before() {
    for kind in ["claude", "chatcompletion"] {
        let fixture = Fixture::with(2, Script::from_fn(uses_tools), |team| {
            team.every_backend("type", kind).every_backend("api_key", "a-key").every_backend("cwd", "work")
        });
        fixture.run(&["task"]).expect_code(0);
        let requests = fixture.server.requests();
        let (mut all, mut shared) = (0, 0);
        for attempt in attempts(&requests) {
            for calls in attempt.windows(2) {
                let (before, after) = (prompt(calls[0]), prompt(calls[1]));
                assert!(after.starts_with(&before), "{kind}: the prefix has changed:\n{before}\n\n{after}");
                all += after.len();
                shared += before.len();
            }
        }
        // What every call after the first adds is the last reply and the result of its tool.
        assert!(all > 0 && shared * 10 > all * 8, "{kind}: {shared} of {all} bytes were sent before");
    }
}

#[test]
fn the_mark_of_the_call_before_is_repeated_so_that_anthropic_finds_the_cached_prefix() {
    let fixture = Fixture::with(2, Script::from_fn(uses_tools), |team| {
        team.every_backend("type", "claude").every_backend("api_key", "a-key").every_backend("cwd", "work")
    });
    fixture.run(&["task"]).expect_code(0);
    let requests = fixture.server.requests();
    let mut pairs = 0;
    for attempt in attempts(&requests) {
        for calls in attempt.windows(2) {
            let (before, after) = (marked(calls[0]), marked(calls[1]));
            assert!(after.contains(before.last().unwrap()), "{before:?} {after:?}");
            assert!(after.len() <= 3, "with the system prompt, four marks are allowed: {after:?}");
            pairs += 1;
        }
    }
    assert!(pairs >= 4 * TOOL_CALLS, "{pairs} calls with a call before");
}

/// What an agent is asked for, by the tools that it is offered.
fn role(request: &RecordedRequest) -> &'static str {
    let tools = request.tool_names();
    match () {
        () if tools.contains(&"vote") => "judge",
        () if tools.contains(&"new_answer") => "answer",
        () => "present",
    }
}

/// How many bytes two texts have in common at their beginning.
fn shared_prefix(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// Providers cache nothing shorter than about 1,024 tokens, which is about this many bytes.
const CACHED_FROM: usize = 4096;

// docs/performance.md shows the numbers that this test prints.
#[test]
fn what_an_agents_calls_share_across_its_roles_is_measured() {
    let task = "Compare three ways to cache HTTP responses. ".repeat(100);
    let mut table = Vec::new();
    for (team_kind, with_tools) in [("text only", false), ("with files", true)] {
        for kind in ["claude", "chatcompletion"] {
            let fixture = Fixture::with(2, Script::from_fn(member_action), |team| {
                let team = team.every_backend("type", kind).every_backend("api_key", "a-key");
                if with_tools { team.every_backend("cwd", "work") } else { team }
            });
            fixture.run(&[&task]).expect_code(0);
            let requests = fixture.server.requests();
            let mut last: BTreeMap<&str, &RecordedRequest> = BTreeMap::new();
            let mut steps = BTreeMap::new();
            for request in &requests {
                if let Some(before) = last.insert(request.model(), request)
                    && role(before) != role(request)
                {
                    let (one, other) = (prompt(before), prompt(request));
                    let step = (role(before), role(request));
                    steps.entry(step).or_insert((shared_prefix(&one, &other), other.len()));
                }
            }
            for step in [("answer", "judge"), ("judge", "present")] {
                let (shared, all) = steps[&step];
                table.push(format!("| {team_kind} | {kind} | {} → {} | {shared} of {all} |", step.0, step.1));
                // If the roles share more one day, docs/performance.md has to say so.
                assert!(shared < CACHED_FROM, "{}", table.join("\n"));
            }
        }
    }
    println!("{}", table.join("\n"));
}
