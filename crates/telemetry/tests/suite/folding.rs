//! The spans of recorded sessions: their tree, names and times, and what they leave out.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::{
    AttemptOutcome, BackendErrorKind, Event, Fact, Item, Purpose, Reply, Seq, SubagentOf, TaskId, TaskSpec,
    ToolCall, Usage, Verdict,
};
use althing_telemetry::ContentCapture;
use althing_testkit::collector::CollectedSpan;
use serde_json::json;

use super::support::{CHAT, RUN, WORKFLOW, collected, named, recorded, spans};

fn count(collected: &[CollectedSpan]) -> BTreeMap<&str, usize> {
    let mut count = BTreeMap::new();
    for span in collected {
        *count.entry(span.name.as_str()).or_default() += 1;
    }
    count
}

fn children<'a>(collected: &'a [CollectedSpan], parent: &CollectedSpan) -> Vec<&'a CollectedSpan> {
    collected.iter().filter(|span| span.parent.as_ref() == Some(&parent.id)).collect()
}

#[test]
fn a_run_is_one_trace_with_agents_model_calls_and_tools() {
    let collected = collected(&recorded(RUN), ContentCapture::Omit);
    let traces: BTreeSet<&str> = collected.iter().map(|span| span.trace.as_str()).collect();
    assert_eq!(traces.len(), 1);
    let ids: BTreeSet<&str> = collected.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), collected.len(), "span ids are unique");
    let expected = [
        ("invoke_workflow run", 1),
        ("invoke_agent one", 4),
        ("invoke_agent two", 2),
        ("invoke_agent three", 2),
        ("chat offline-a", 4),
        ("chat offline-b", 3),
        ("chat offline-c", 3),
        ("execute_tool vote", 2),
    ];
    assert_eq!(count(&collected), BTreeMap::from(expected));

    let run = named(&collected, "invoke_workflow run");
    assert_eq!((run.parent.as_ref(), run.kind, run.failed), (None, 1, false));
    assert_eq!(run.text("gen_ai.operation.name"), "invoke_workflow");
    assert_eq!(run.text("gen_ai.conversation.id"), RUN);
    assert_eq!((run.text("althing.winner"), run.text("althing.status")), ("one", "completed"));
    assert_eq!(run.attributes["althing.agents"], json!(["one", "two", "three"]));
    let winner = run.events.iter().find(|(name, _)| name == "althing.winner").expect("the vote is an event");
    assert_eq!(winner.1["althing.votes"], json!(["one=3"]));

    let agents = children(&collected, run);
    assert_eq!(agents.len(), 8, "a run consists of the agents' attempts");
    for agent in agents {
        assert_eq!(agent.text("gen_ai.operation.name"), "invoke_agent");
        assert_eq!(agent.name, format!("invoke_agent {}", agent.text("gen_ai.agent.name")));
        assert!(agent.time.0 >= run.time.0 && agent.time.1 <= run.time.1);
        for below in children(&collected, agent) {
            assert!(below.time.0 >= agent.time.0 && below.time.1 <= agent.time.1, "{below:?}");
        }
    }
    let voted = collected.iter().filter(|span| span.text("althing.outcome") == "voted");
    for span in voted {
        let (_, vote) = span.events.iter().find(|(name, _)| name == "althing.vote").expect("its vote");
        assert_eq!(vote["althing.target"], "one");
    }
}

#[test]
fn a_model_call_has_its_model_its_usage_and_its_time() {
    let events = recorded(RUN);
    let collected = collected(&events, ContentCapture::Omit);
    let calls: Vec<&CollectedSpan> = collected.iter().filter(|span| span.name == "chat offline-b").collect();
    let first = calls[0];
    assert_eq!(first.kind, 3, "a call to another service");
    assert_eq!(first.text("gen_ai.operation.name"), "chat");
    assert_eq!(
        (first.text("gen_ai.provider.name"), first.text("gen_ai.request.model")),
        ("offline", "offline-b")
    );
    assert_eq!(first.attributes["gen_ai.response.finish_reasons"], json!(["tool_call"]));
    let reply = events.iter().find_map(|event| match (&event.fact, &event.task) {
        (Fact::ItemAdded { item: Item::Reply(reply), .. }, Some(task)) if task.as_str() == "r1.a2" => {
            Some((reply.usage, event.at.0 * 1_000_000))
        }
        _ => None,
    });
    let (usage, at) = reply.unwrap();
    assert_eq!(first.attributes["gen_ai.usage.input_tokens"], usage.input_tokens);
    assert_eq!(first.attributes["gen_ai.usage.output_tokens"], usage.output_tokens);
    assert!(usage.output_tokens > 0 && first.time.1 == at && first.time.0 < at);
}

#[test]
fn a_conversation_turn_is_a_trace_and_its_run_is_below_the_launching_call() {
    let collected = collected(&recorded(CHAT), ContentCapture::Omit);
    let turns: Vec<&CollectedSpan> = collected.iter().filter(|span| span.parent.is_none()).collect();
    assert_eq!(turns.len(), 2);
    assert_ne!(turns[0].trace, turns[1].trace);
    for turn in &turns {
        assert_eq!(
            (turn.name.as_str(), turn.text("althing.purpose")),
            ("invoke_agent interactive", "converse")
        );
        assert_eq!(turn.text("gen_ai.conversation.id"), CHAT);
    }
    let launch = named(&collected, "execute_tool launch_run");
    assert_eq!(launch.parent.as_ref(), Some(&turns[1].id));
    let run = named(&collected, "invoke_workflow run");
    assert_eq!((run.parent.as_ref(), &run.trace), (Some(&launch.id), &turns[1].trace));
    let asked: Vec<&str> = turns[1].events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(asked, ["althing.asked", "althing.decided"]);
}

#[test]
fn workflow_tasks_are_below_the_workflow_and_a_command_is_not_an_agent() {
    let collected = collected(&recorded(WORKFLOW), ContentCapture::Omit);
    let one = named(&collected, "execute_task one");
    assert_eq!(one.text("althing.outcome"), "exited");
    assert_eq!(one.attributes["process.exit.code"], 0);
    assert_eq!(one.text("gen_ai.operation.name"), "");
    assert!(one.parent.is_some(), "the parent is known although the workflow has not ended");
    assert_eq!(collected.len(), 1, "nothing else has ended");
}

#[test]
fn the_same_log_always_gives_the_same_spans() {
    for session in [RUN, CHAT, WORKFLOW] {
        let events = recorded(session);
        assert_eq!(spans(&events, ContentCapture::Omit), spans(&events, ContentCapture::Omit));
    }
    // A session with the same id that began in another directory gets other trace ids.
    let mut elsewhere = recorded(RUN);
    if let Fact::SessionOpened(opened) = &mut elsewhere[0].fact {
        opened.cwd = "/somewhere/else".to_owned();
    }
    let (here, there) =
        (collected(&recorded(RUN), ContentCapture::Omit), collected(&elsewhere, ContentCapture::Omit));
    assert_ne!(here[0].trace, there[0].trace);
}

#[test]
fn text_is_exported_only_if_content_capture_is_on() {
    for session in [RUN, CHAT, WORKFLOW] {
        let events = recorded(session);
        let wrote = ["sort", "Good morning", "Options", "fewest questions", "rearrange", "first\\n"];
        let without = format!("{:?}", spans(&events, ContentCapture::Omit));
        for words in wrote {
            assert!(!without.contains(words), "{words} is exported: {without}");
        }
    }
    let collected = collected(&recorded(RUN), ContentCapture::Include);
    let run = named(&collected, "invoke_workflow run");
    assert!(run.text("gen_ai.input.messages").contains("Compare two ways to sort"));
    let call = collected.iter().find(|span| span.name == "chat offline-a").unwrap();
    let said: serde_json::Value = serde_json::from_str(call.text("gen_ai.output.messages")).unwrap();
    assert_eq!((&said[0]["role"], &said[0]["finish_reason"]), (&json!("assistant"), &json!("tool_call")));
    assert_eq!(said[0]["parts"][0], json!({"type": "text", "content": "Here is my answer."}));
    assert_eq!(said[0]["parts"][1]["name"], "new_answer");
    let tool = collected.iter().find(|span| span.name == "execute_tool vote").unwrap();
    assert!(tool.text("gen_ai.tool.call.arguments").contains("agent1"));
    assert!(tool.text("gen_ai.tool.call.result").contains("Not counted"));
}

/// The recorded run up to the first attempts, followed by these facts of the first agent.
fn spans_after_start(facts: Vec<Fact>) -> Vec<CollectedSpan> {
    let mut events: Vec<Event> = recorded(RUN).into_iter().take(12).collect();
    let last = events[11].clone();
    for (n, fact) in (1..).zip(facts) {
        let mut at = last.at;
        at.0 += n * 1000;
        events.push(Event { seq: Seq(12 + n), at, task: Some(TaskId::from("r1.a1")), cause: None, fact });
    }
    collected(&events, ContentCapture::Omit)
}

fn ended(outcome: AttemptOutcome) -> Fact {
    Fact::AttemptEnded { attempt: 1, outcome, usage: Usage { calls: 3, ..Usage::default() }, call: None }
}

#[test]
fn a_failed_model_call_has_an_error_type_but_no_provider_text() {
    let outcome = AttemptOutcome::Failed {
        error: "the key sk-1 was refused".into(),
        hint: None,
        kind: Some(BackendErrorKind::Auth),
    };
    let collected = spans_after_start(vec![ended(outcome)]);
    let (call, agent) = (named(&collected, "chat offline-a"), named(&collected, "invoke_agent one"));
    assert_eq!((call.failed, call.text("error.type")), (true, "auth"));
    assert_eq!((agent.failed, agent.text("error.type")), (true, "auth"));
    assert_eq!(call.attributes["althing.calls"], 3);
    assert_eq!(call.parent.as_ref(), Some(&agent.id));
    assert!(!format!("{collected:?}").contains("sk-1"));
}

#[test]
fn a_tool_span_ends_with_its_result_and_the_next_model_call_starts_there() {
    let reply = |calls: &[(&str, &str)]| {
        let call = |(id, name): &(&str, &str)| ToolCall {
            id: (*id).into(),
            name: (*name).into(),
            arguments: "{}".into(),
        };
        let reply = Reply { tool_calls: calls.iter().map(call).collect(), ..Reply::default() };
        Fact::ItemAdded { attempt: 1, item: Item::Reply(reply) }
    };
    let result = |call: &str, is_error| {
        let item = Item::ToolResult { call: call.into(), content: "x".into(), is_error };
        Fact::ItemAdded { attempt: 1, item }
    };
    let cut = Reply { text: "And so".into(), cut: true, ..Reply::default() };
    let collected = spans_after_start(vec![
        reply(&[("t1", "read_file"), ("t2", "no such tool\n"), ("t3", "never_run")]),
        result("t1", false),
        result("t2", true),
        Fact::ItemAdded { attempt: 1, item: Item::Reply(cut) },
        ended(AttemptOutcome::TimedOut),
    ]);
    let second = 1_000_000_000;
    let read = named(&collected, "execute_tool read_file");
    assert_eq!((read.time.1 - read.time.0, read.failed), (second, false));
    assert_eq!((read.text("gen_ai.tool.name"), read.text("gen_ai.tool.call.id")), ("read_file", "t1"));
    let bad = named(&collected, "execute_tool unknown");
    assert_eq!((bad.time.1 - bad.time.0, bad.text("error.type")), (2 * second, "tool_error"));
    let calls: Vec<&CollectedSpan> = collected.iter().filter(|span| span.name == "chat offline-a").collect();
    assert_eq!(calls[1].time.0, bad.time.1);
    assert_eq!(calls[1].attributes["gen_ai.response.finish_reasons"], json!(["length"]));
    assert_eq!(named(&collected, "invoke_agent one").text("error.type"), "timeout");
    assert!(
        !collected.iter().any(|span| span.name.contains("never_run")),
        "a tool call without a result has no span"
    );
}

#[test]
fn an_interrupted_turn_continues_in_the_same_trace() {
    let mut events: Vec<Event> = recorded(CHAT).into_iter().take(7).collect();
    let (seq, at) = (events[6].seq, events[6].at);
    let facts = [
        ended(AttemptOutcome::Interrupted),
        Fact::AttemptStarted { attempt: 2, purpose: Purpose::Converse, continues: Some(1) },
        Fact::AttemptEnded {
            attempt: 2,
            outcome: AttemptOutcome::Interrupted,
            usage: Usage::default(),
            call: None,
        },
        Fact::AttemptStarted { attempt: 3, purpose: Purpose::Converse, continues: Some(2) },
        Fact::AttemptEnded { attempt: 3, outcome: AttemptOutcome::Said, usage: Usage::default(), call: None },
        Fact::AttemptStarted { attempt: 4, purpose: Purpose::Converse, continues: None },
        Fact::AttemptEnded { attempt: 4, outcome: AttemptOutcome::Said, usage: Usage::default(), call: None },
    ];
    for (n, fact) in (1..).zip(facts) {
        events.push(Event { seq: Seq(seq.0 + n), at, task: Some(TaskId::chat()), cause: None, fact });
    }
    let collected = collected(&events, ContentCapture::Omit);
    let traces: Vec<&str> = collected.iter().map(|span| span.trace.as_str()).collect();
    assert!(traces[0] == traces[1] && traces[1] == traces[2] && traces[2] != traces[3], "{traces:?}");
    assert_eq!((collected[0].failed, collected[2].failed), (true, false));
}

#[test]
fn a_subagent_run_is_below_the_call_that_started_it() {
    let mut events: Vec<Event> = recorded(RUN).into_iter().take(12).collect();
    let Fact::TaskCreated { spec: TaskSpec::Run(spec), .. } = &events[1].fact else { panic!("it is a run") };
    let mut errand = spec.clone();
    let (seq, at, work) = (events[11].seq, events[11].at, TaskId::from("r1.a1"));
    errand.subagent_of = Some(SubagentOf {
        work: work.clone(),
        attempt: 1,
        step: 1,
        call: "t1".into(),
        nth: 1,
        background: false,
        workspace: None,
    });
    let call = ToolCall { id: "t1".into(), name: "spawn_subagents".into(), arguments: "{}".into() };
    let reply = Reply { tool_calls: vec![call], ..Reply::default() };
    let Some(Event { fact: finished, .. }) =
        recorded(RUN).into_iter().find(|event| matches!(event.fact, Fact::Decided(Verdict::Finished { .. })))
    else {
        panic!("it ends")
    };
    let sub = TaskId::from("r1.s1");
    let result = Item::ToolResult { call: "t1".into(), content: "x".into(), is_error: false };
    let facts = [
        (work.clone(), Fact::ItemAdded { attempt: 1, item: Item::Reply(reply) }),
        (
            sub.clone(),
            Fact::TaskCreated { id: sub.clone(), parent: Some(work.clone()), spec: TaskSpec::Run(errand) },
        ),
        (sub, finished),
        (work.clone(), Fact::ItemAdded { attempt: 1, item: result }),
        (work, ended(AttemptOutcome::Answered)),
    ];
    for (n, (task, fact)) in (1..).zip(facts) {
        events.push(Event { seq: Seq(seq.0 + n), at, task: Some(task), cause: None, fact });
    }
    let collected = collected(&events, ContentCapture::Omit);
    let (call, run) =
        (named(&collected, "execute_tool spawn_subagents"), named(&collected, "invoke_workflow run"));
    assert_eq!((run.parent.as_ref(), &run.trace), (Some(&call.id), &call.trace));
    assert_eq!(call.parent.as_ref(), Some(&named(&collected, "invoke_agent one").id));
}
