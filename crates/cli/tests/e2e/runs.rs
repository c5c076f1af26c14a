//! What a run costs, counted at the server: how many calls, which agent is called when, how large the requests are.

use std::time::Duration;

use althing_testkit::{Action, Gate, RecordedRequest, Reply, RequestOutcome, Script};

use super::support::{Fixture, LIMIT, items, texts};

const TASK: &str = "Compare three ways to cache HTTP responses";

#[test]
fn a_unanimous_run_of_n_agents_makes_two_n_plus_one_calls() {
    for agents in [1, 2, 3, 5, 8] {
        let fixture = Fixture::new(agents, Script::parliament());
        let output = fixture.run(&[TASK]).expect_code(0);
        assert_eq!(output.stdout, "Final answer of model-a\n");
        let mut expected: std::collections::BTreeMap<_, _> =
            ('a'..).take(agents).map(|name| (format!("model-{name}"), 2)).collect();
        expected.insert("model-a".into(), 3);
        assert_eq!(fixture.calls(), expected, "{agents} agents");
    }
}

#[test]
fn with_winner_reuse_a_unanimous_run_of_n_agents_makes_two_n_calls() {
    for agents in [1, 2, 3, 5, 8] {
        let fixture = Fixture::with(agents, Script::parliament(), |team| {
            team.rule("final_answer_strategy", "winner_reuse")
        });
        let output = fixture.run(&[TASK]).expect_code(0);
        assert_eq!(output.stdout, "Answer of model-a\n");
        assert_eq!(fixture.server.request_count(), 2 * agents, "{agents} agents: {:?}", fixture.calls());
    }
}

#[test]
fn a_quick_run_of_n_agents_makes_two_n_plus_one_calls() {
    for agents in [2, 3, 5] {
        let fixture = Fixture::new(agents, Script::parliament());
        fixture.run(&["--quick", TASK]).expect_code(0);
        assert_eq!(fixture.server.request_count(), 2 * agents + 1, "{agents} agents: {:?}", fixture.calls());
    }
}

#[test]
fn a_quick_run_of_one_agent_makes_one_call_whose_text_is_the_answer() {
    let fixture = Fixture::new(3, Script::always(Reply::text("Forty-two.")));
    let output = fixture.run(&["--quick", "--single-agent", "b", TASK]).expect_code(0);
    assert_eq!(output.stdout, "Forty-two.\n");
    let requests = fixture.server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].model(), requests[0].tool_names()), ("model-b", vec![]));
}

#[test]
fn answers_that_arrive_together_waste_no_vote() {
    let gate = Gate::before_headers();
    let held = Action::gated(Action::Usual, &gate);
    let script = Script::parliament().on("model-a").nth(0, held.clone()).on("model-b").nth(0, held);
    let fixture = Fixture::new(2, script);
    let running = fixture.spawn(&[TASK]);
    gate.wait_waiting_blocking(2, LIMIT);
    gate.release_all();
    running.wait(LIMIT).expect_code(0);
    assert_eq!(fixture.server.request_count(), 5, "{:?}", fixture.calls());
    assert!(items(&fixture.althing.events(), "stale_vote").is_empty());
}

#[test]
fn an_agent_that_has_answered_is_not_called_again_before_the_others_have() {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::new(2, script);
    let running = fixture.spawn(&[TASK]);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    assert_eq!(fixture.calls()["model-a"], 1);
    gate.release_all();
    running.wait(LIMIT).expect_code(0);
    assert_eq!(fixture.server.request_count(), 5, "{:?}", fixture.calls());
}

#[test]
fn one_slow_agent_does_not_hold_the_rest_for_longer_than_the_configured_wait() {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-c").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::with(3, script, |team| {
        team.rule("coordination", serde_json::json!({"first_answer_wait_seconds": 0.2}))
    });
    let running = fixture.spawn(&[TASK]);
    let judging = |model: &str, calls: &[RecordedRequest]| {
        calls.iter().any(|call| call.model() == model && call.tool_names().contains(&"vote"))
    };
    fixture.server.wait_until_blocking(LIMIT, |calls| judging("model-a", calls) && judging("model-b", calls));
    gate.release_all();
    running.wait(LIMIT).expect_code(0);
    let last = fixture.server.requests_of("model-b").pop().unwrap();
    assert!(texts(&last).contains("Answer of model-c"), "the late answer is judged too: {}", texts(&last));
}

#[test]
fn a_better_answer_stops_no_call_of_a_judge_whose_vote_for_its_author_counts() {
    let (judging, improving) = (Gate::before_headers(), Gate::before_headers());
    let better = Action::gated(Reply::new_answer("A better answer of model-b"), &improving);
    let script = Script::parliament()
        .on("model-a")
        .nth(1, Action::gated(Reply::vote("agent2", "It is right."), &judging))
        .on("model-b")
        .nth(1, better)
        .nth(2, Reply::vote("agent2", "It is right."));
    let fixture = Fixture::new(2, script);
    let running = fixture.spawn(&[TASK]);
    judging.wait_waiting_blocking(1, LIMIT);
    improving.release_all();
    running.wait_for_stderr(|line| line.contains("answered: agent2.2"), LIMIT);
    judging.release_all();
    let output = running.wait(LIMIT).expect_code(0);
    let of_a = fixture.server.requests_of("model-a");
    assert!(of_a.iter().all(|call| call.outcome() != RequestOutcome::HungUp), "{}", output.stderr);
    assert_eq!(of_a.len(), 2, "answer, vote for model-b: {}", output.stderr);
    assert_eq!(fixture.server.requests_of("model-b").len(), 4, "answer, better answer, vote, presentation");
    assert!(items(&fixture.althing.events(), "stale_vote").is_empty());
}

#[test]
fn a_run_is_completed_without_an_agent_that_sends_nothing_and_says_so() {
    let never = Gate::before_headers();
    let script = Script::parliament().on("model-b").nth(1, Action::gated(Action::Usual, &never));
    let fixture = Fixture::with(3, script, |team| {
        team.rule("coordination", serde_json::json!({"straggler_wait_seconds": 0.3}))
    });
    let output = fixture.run(&["--json", TASK]).expect_code(0);
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["status"], "completed");
    let agent = &result["coordination_summary"]["agents"][1];
    assert_eq!((agent["status"].as_str(), agent["answers"].as_u64()), (Some("timed_out"), Some(1)));
    assert!(
        output.stderr.contains("b sent nothing for 300ms while all others were done"),
        "{}",
        output.stderr
    );
}

#[test]
fn an_agent_that_has_sent_something_is_waited_for_until_its_rounds_limit() {
    let slow = Gate::new();
    slow.release(1);
    let vote = Reply::vote("agent1", "It is right.").text_chunks(["I", " think", " that"]);
    let script = Script::parliament().on("model-b").nth(1, Action::gated(vote, &slow));
    let fixture = Fixture::with(2, script, |team| {
        team.rule("coordination", serde_json::json!({"straggler_wait_seconds": 0.3}))
            .timeout("subsequent_round_timeout_seconds", 3)
            .timeout("round_timeout_grace_seconds", 0)
    });
    let result = fixture.result(&[TASK]);
    let agent = &result["coordination_summary"]["agents"][1];
    assert_eq!(agent["status"], "timed_out");
    assert!(agent["error"].as_str().unwrap().contains("round's time limit"), "{agent}");
}

#[test]
fn the_requests_of_a_simple_question_are_small() {
    let fixture = Fixture::new(3, Script::parliament());
    fixture.run(&[TASK]).expect_code(0);
    let requests = fixture.server.requests();
    for request in requests.iter().filter(|request| request.tool_names() == ["new_answer"]) {
        let prompt = request.system_text();
        assert!(!prompt.is_empty() && prompt.len() < 4000, "{} bytes: {prompt}", prompt.len());
    }
    let total: usize = requests.iter().map(|request| request.raw_body().len()).sum();
    assert!(total < 30_000, "{total} bytes in {} requests", requests.len());
}

fn order_shown(judging: &RecordedRequest) -> Vec<String> {
    let text = texts(judging);
    let labels = text.lines().filter_map(|line| line.strip_prefix("<agent")?.split_once(".1 "));
    labels.map(|(number, _)| format!("agent{number}")).collect()
}

#[test]
fn agents_know_each_other_by_number_only_and_each_judge_begins_with_another_answer() {
    let fixture = Fixture::new(3, Script::parliament());
    fixture.run(&[TASK]).expect_code(0);
    let mut first = Vec::new();
    for model in ["model-a", "model-b", "model-c"] {
        let judging = &fixture.server.requests_of(model)[1];
        let order = order_shown(judging);
        assert_eq!(judging.votable(), order, "the tool names the agents in the same order");
        first.extend(order.into_iter().next());
    }
    first.sort();
    assert_eq!(first, ["agent1", "agent2", "agent3"]);
}

#[test]
fn in_the_order_of_the_config_agents_see_their_own_answer_last() {
    let fixture = Fixture::with(3, Script::parliament(), |team| team.rule("judge_order", "config"));
    fixture.run(&[TASK]).expect_code(0);
    let judging = &fixture.server.requests_of("model-b")[1];
    assert_eq!(order_shown(judging), ["agent1", "agent3", "agent2"]);
    assert_eq!(judging.votable(), ["agent1", "agent2", "agent3"]);
}

#[test]
fn a_run_does_not_wait_for_a_judge_that_can_no_longer_change_the_winner() {
    let never = Gate::before_headers();
    let script = Script::parliament().on("model-b").nth(1, Action::gated(Action::Usual, &never));
    let fixture = Fixture::with(3, script, |team| {
        team.rule("stop_when_decided", true).rule("max_new_answers_per_agent", 1)
    });
    let result = fixture.result(&[TASK]);
    assert_eq!(result["status"], "completed");
    let summary = &result["coordination_summary"];
    assert_eq!((&summary["winner"], &summary["votes"]), (&"a".into(), &serde_json::json!({"a": 2})));
    let explanation = summary["decision"]["explanation"].as_str().unwrap();
    assert!(explanation.ends_with("judges whose votes could not change this were stopped"), "{explanation}");
}

#[test]
fn agents_that_conclude_the_same_are_not_asked_to_vote() {
    let concluded = |agent: &str| Reply::concluded(&format!("Forty and two, says {agent}."), "42");
    let script = Script::parliament();
    let script = script.on("model-a").nth(0, concluded("a")).on("model-b").nth(0, concluded("b"));
    let script = script.on("model-c").nth(0, concluded("c"));
    let fixture = Fixture::new(3, script);
    let result = fixture.result(&[TASK]);
    assert_eq!(fixture.server.requests().len(), 4, "three answers and the presentation");
    let summary = &result["coordination_summary"];
    assert_eq!((&summary["votes"], &summary["ballots"]), (&serde_json::json!({}), &serde_json::json!([])));
    assert_eq!(summary["decision"]["rule"], "unanimous");
    let explanation = summary["decision"]["explanation"].as_str().unwrap();
    assert!(
        explanation.starts_with("all 3 agents concluded the same (\"42\"), so nobody voted"),
        "{explanation}"
    );
    let told = fixture.althing.events();
    assert!(told.iter().any(|event| event["data"]["decision"]["rule"] == "unanimous"), "{told:?}");
}

#[test]
fn the_text_of_an_agent_that_calls_no_tool_is_its_answer_and_it_abstains() {
    let script = Script::parliament().on("model-a").always(Reply::text("I would rather chat."));
    let fixture = Fixture::new(3, script);
    let result = fixture.result(&[TASK]);
    assert_eq!(
        (&result["status"], &result["error"]),
        (&serde_json::json!("completed"), &serde_json::Value::Null)
    );
    let agent = &result["coordination_summary"]["agents"][0];
    assert_eq!((agent["status"].as_str(), agent["answers"].as_u64()), (Some("answered"), Some(1)), "{agent}");
    let asked = fixture.server.requests_of("model-a");
    assert!(asked[1].last_user_text().contains("`new_answer`"), "{}", asked[1].last_user_text());
    assert!(asked[3].last_user_text().contains("`new_answer` or `vote`"), "{}", asked[3].last_user_text());
    let events = fixture.althing.events();
    let answers = items(&events, "answer");
    assert!(answers.iter().any(|answer| answer["content"] == "I would rather chat."), "{answers:?}");
}

#[test]
fn a_tie_is_explained_and_broken_the_same_way_on_resume() {
    let own = |request: &RecordedRequest| {
        let own = if request.model() == "model-a" { "agent1" } else { "agent2" };
        match request.tool_names().as_slice() {
            ["new_answer"] => Reply::new_answer(&format!("Answer of {}", request.model())),
            [] => Reply::text(format!("Final answer of {}", request.model())),
            _ => Reply::vote(own, "mine"),
        }
    };
    let fixture = Fixture::new(2, Script::from_fn(own));
    let output = fixture.run(&[TASK]).expect_code(0);
    let line = output.stderr.lines().find(|line| line.contains(" wins by Borda count with 1 point")).unwrap();
    assert!(line.contains("a tie, broken at random"), "it says how: {line}");
    let winner = line.split(" wins by").next().and_then(|before| before.split_whitespace().last()).unwrap();
    assert_eq!(output.stdout, format!("Final answer of model-{winner}\n"));
    assert_eq!(fixture.resume().expect_code(0).stdout, output.stdout);
}

#[test]
fn an_exact_duplicate_is_rejected_and_not_stored() {
    let script = Script::parliament().on("model-a").nth(1, Reply::new_answer("Answer of model-b"));
    let fixture = Fixture::new(2, script);
    fixture.run(&[TASK]).expect_code(0);
    let events = fixture.althing.events();
    assert_eq!(items(&events, "answer").len(), 2);
    assert_eq!(items(&events, "reminder").len(), 1);
}

#[test]
fn waiting_for_a_slow_model_uses_no_processor_time() {
    let gate = Gate::before_headers();
    let fixture = Fixture::new(1, Script::parliament().nth(0, Action::gated(Action::Usual, &gate)));
    let running = fixture.spawn(&[TASK]);
    gate.wait_waiting_blocking(1, LIMIT);
    let before = processor_ticks(running.id());
    // That nothing happens can only be observed over time.
    assert!(!althing_testkit::wait::holds_within(Duration::from_secs(1), || {
        processor_ticks(running.id()) > before + 20
    }));
    gate.release_all();
    running.wait(LIMIT).expect_code(0);
}

/// The processor time of a process (user and system), in ticks of the kernel: hundredths of a second.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}
