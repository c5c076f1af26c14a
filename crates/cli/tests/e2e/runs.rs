//! What a run costs, counted at the server: how many calls, which agent is called when, how large the requests are.

use std::time::Duration;

use althing_testkit::{Action, Gate, Reply, RequestOutcome, Script};

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
    let judging = |model: &str, calls: &[althing_testkit::RecordedRequest]| {
        calls.iter().any(|call| call.model() == model && call.tool_names().contains(&"vote"))
    };
    fixture.server.wait_until_blocking(LIMIT, |calls| judging("model-a", calls) && judging("model-b", calls));
    gate.release_all();
    running.wait(LIMIT).expect_code(0);
    let last = fixture.server.requests_of("model-b").pop().unwrap();
    assert!(texts(&last).contains("Answer of model-c"), "the late answer is judged too: {}", texts(&last));
}

#[test]
fn a_judge_whose_answers_go_stale_starts_over_instead_of_voting_twice() {
    let (judging, improving) = (Gate::before_headers(), Gate::before_headers());
    let better = Action::gated(Reply::new_answer("A better answer of model-b"), &improving);
    let script = Script::parliament()
        .on("model-a")
        .nth(1, Action::gated(Action::Usual, &judging))
        .on("model-b")
        .nth(1, better);
    let fixture = Fixture::new(2, script);
    let running = fixture.spawn(&[TASK]);
    judging.wait_waiting_blocking(1, LIMIT);
    improving.release_all();
    let output = running.wait(LIMIT).expect_code(0);
    let of_a = fixture.server.requests_of("model-a");
    let judged: Vec<_> = of_a.iter().filter(|call| call.tool_names().contains(&"vote")).collect();
    assert_eq!(judged.len(), 2, "{}", output.stderr);
    assert_eq!(judged[0].outcome(), RequestOutcome::HungUp, "the stale call was given up");
    assert!(texts(judged[1]).contains("A better answer of model-b"), "{}", texts(judged[1]));
    assert_eq!(fixture.server.requests_of("model-b").len(), 3, "answer, better answer, vote");
    assert!(items(&fixture.althing.events(), "stale_vote").is_empty());
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

#[test]
fn agents_know_each_other_by_number_only_and_see_their_own_answer_last() {
    let fixture = Fixture::new(3, Script::parliament());
    fixture.run(&[TASK]).expect_code(0);
    let judging = &fixture.server.requests_of("model-b")[1];
    let text = texts(judging);
    let place = |answer: &str| text.find(answer).unwrap_or_else(|| panic!("no {answer} in {text}"));
    assert!(place("<agent1.1 ") < place("<agent3.1 ") && place("<agent3.1 ") < place("<agent2.1 "), "{text}");
    let ids = &judging.tool_parameters("vote").unwrap()["properties"]["agent_id"]["enum"];
    assert_eq!(*ids, serde_json::json!(["agent1", "agent2", "agent3"]));
}

#[test]
fn an_agent_that_calls_no_tool_is_reminded_and_dropped_after_three_attempts() {
    let script = Script::parliament().on("model-a").always(Reply::text("I would rather chat."));
    let fixture = Fixture::new(3, script);
    let output = fixture.run(&[TASK]).expect_code(0);
    let asked = fixture.server.requests_of("model-a");
    assert_eq!(asked.len(), 3);
    assert!(asked[1].last_user_text().contains("new_answer"), "{}", asked[1].last_user_text());
    assert!(
        output.stderr.lines().any(|line| line.starts_with("a ") && line.contains("out:")),
        "{}",
        output.stderr
    );
    assert_eq!(output.stdout, "Final answer of model-b\n");
}

#[test]
fn a_tie_is_explained_and_broken_the_same_way_on_resume() {
    let own = |request: &althing_testkit::RecordedRequest| {
        let own = if request.model() == "model-a" { "agent1" } else { "agent2" };
        match request.tool_names().as_slice() {
            ["new_answer"] => Reply::new_answer(&format!("Answer of {}", request.model())),
            [] => Reply::text(format!("Final answer of {}", request.model())),
            _ => Reply::vote(own, "mine"),
        }
    };
    let fixture = Fixture::new(2, Script::from_fn(own));
    let output = fixture.run(&[TASK]).expect_code(0);
    let line = output.stderr.lines().find(|line| line.contains("wins with 1 of 2 votes")).unwrap();
    assert!(line.contains('(') && line.contains(')'), "it says how: {line}");
    let winner = line.split_whitespace().nth(1).unwrap();
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
