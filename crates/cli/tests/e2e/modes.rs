//! The modes and coordination rules of the specification: which tools and prompts agents get, when agents are called,
//! and what becomes the final answer.

use std::time::Duration;

use althing_testkit::{Action, Gate, RecordedRequest, Reply, RequestOutcome, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, items, of_type, texts, tools_text};

/// How long nothing may happen before the test concludes that nothing will.
const QUIET_TIME: Duration = Duration::from_millis(700);

fn second_wins() -> Script {
    Script::from_fn(|request| {
        if request.tool_names().contains(&"vote") {
            Reply::vote("agent2", "the clearest")
        } else if request.tool_names().contains(&"new_answer") {
            Reply::new_answer(&format!("Answer of {}", request.model()))
        } else {
            Reply::text(format!("Presentation by {}", request.model()))
        }
    })
}

fn may_vote(request: &RecordedRequest) -> bool {
    request.tool_names().contains(&"vote")
}

fn rules(fixture: &Fixture) -> Value {
    let events = fixture.althing.events();
    let created = of_type(&events, "task_created");
    created[0]["data"]["spec"]["rules"].clone()
}

fn purposes(fixture: &Fixture) -> Vec<String> {
    let events = fixture.althing.events();
    let started = of_type(&events, "attempt_started");
    started.iter().map(|event| event["data"]["purpose"].as_str().unwrap().to_owned()).collect()
}

fn strategy(name: &'static str) -> impl FnOnce(super::support::Team) -> super::support::Team {
    move |team| team.rule("final_answer_strategy", name)
}

// spec: modes/final-answer-strategy/winner-reuse-strategy
#[test]
fn winner_reuse_returns_the_winners_text_without_another_call() {
    let fixture = Fixture::with(3, second_wins(), strategy("winner_reuse"));
    let output = fixture.run(&["task"]).expect_code(0);
    assert_eq!(output.stdout, "Answer of model-b\n");
    assert_eq!(fixture.server.request_count(), 6);
    assert!(fixture.server.requests().iter().all(|request| !request.tool_names().is_empty()));
    assert!(!purposes(&fixture).contains(&"present".to_owned()));
}

// spec: modes/final-answer-strategy/winner-reuse-strategy
#[test]
fn winner_reuse_makes_a_presentation_only_if_the_winner_still_has_to_write_files() {
    // Several agents may write only in the presentation, so it cannot be skipped.
    for quick in [&["--quick"][..], &[]] {
        let fixture = Fixture::with(3, second_wins(), strategy("winner_reuse"));
        fixture.althing.file("project/old.txt", "old\n");
        let result = fixture.result(&[quick, &["--context-path", "project:rw", "task"]].concat());
        assert_eq!(result["final_answer"], "Presentation by model-b", "{quick:?}");
        assert_eq!(purposes(&fixture).iter().filter(|purpose| *purpose == "present").count(), 1);
        let last = fixture.server.requests().pop().unwrap();
        assert_eq!(last.model(), "model-b");
        assert!(last.tool_names().contains(&"write_file"), "{:?}", last.tool_names());
    }
    // The paths are only read, or a single agent has already written: the winner's answer is final.
    let cases: [(&str, &[&str], &str); 3] = [
        ("project", &[], "Answer of model-b"),
        ("project", &["--quick"], "Answer of model-b"),
        ("project:rw", &["--quick", "--single-agent", "b"], "Presentation by model-b"),
    ];
    for (access, modes, answer) in cases {
        let fixture = Fixture::with(3, second_wins(), strategy("winner_reuse"));
        fixture.althing.file("project/old.txt", "old\n");
        let result = fixture.result(&[modes, &["--context-path", access, "task"]].concat());
        assert_eq!(result["final_answer"], answer, "{access}, {modes:?}");
        assert!(!purposes(&fixture).contains(&"present".to_owned()), "{access}, {modes:?}");
        assert_eq!(fixture.calls()["model-b"], if access == "project" { 2 } else { 1 });
    }
}

// spec: modes/final-answer-strategy/winner-present-strategy
#[test]
fn winner_present_lets_the_winner_write_the_final_answer() {
    let fixture = Fixture::with(3, second_wins(), strategy("winner_present"));
    let result = fixture.result(&["task"]);
    assert_eq!(result["final_answer"], "Presentation by model-b");
    let summary = &result["coordination_summary"];
    assert_eq!((&summary["winner"], &summary["presenter"]), (&json!("b"), &json!("b")));
    let last = fixture.server.requests().pop().unwrap();
    assert_eq!((last.model(), last.tool_names()), ("model-b", vec![]));
    assert!(texts(&last).contains("Answer of model-b"), "{}", texts(&last));
    assert_eq!(purposes(&fixture).iter().filter(|purpose| *purpose == "present").count(), 1);
}

// spec: modes/final-answer-strategy/synthesize-strategy
#[test]
fn synthesize_shows_the_presenter_every_answer_and_asks_for_one_from_all() {
    let synthesis = Fixture::with(3, second_wins(), strategy("synthesize"));
    let result = synthesis.result(&["task"]);
    assert_eq!(result["final_answer"], "Presentation by model-b");
    assert_eq!(result["coordination_summary"]["strategy"], "synthesize");
    let shown = synthesis.server.requests().pop().unwrap();
    for answer in ["Answer of model-a", "Answer of model-b", "Answer of model-c"] {
        assert!(texts(&shown).contains(answer), "{answer} is missing: {}", texts(&shown));
    }
    let combine = "Combine the strongest relevant parts of all the answers below into one";
    assert!(shown.system_text().contains(combine), "{}", shown.system_text());
    let presentation = Fixture::with(3, second_wins(), strategy("winner_present"));
    presentation.run(&["task"]).expect_code(0);
    let other = presentation.server.requests().pop().unwrap();
    assert!(!other.system_text().contains(combine), "{}", other.system_text());
    // With a writable context path, the answers are synthesized in the same way.
    let writable = Fixture::with(3, second_wins(), strategy("synthesize"));
    writable.althing.file("project/old.txt", "old\n");
    let result = writable.result(&["--context-path", "project:rw", "task"]);
    assert_eq!(result["coordination_summary"]["strategy"], "synthesize");
    assert_eq!(result["final_answer"], "Presentation by model-b");
    let shown = writable.server.requests().pop().unwrap();
    for answer in ["Answer of model-a", "Answer of model-b", "Answer of model-c"] {
        assert!(texts(&shown).contains(answer), "{answer} is missing: {}", texts(&shown));
    }
    assert!(shown.system_text().contains(combine), "{}", shown.system_text());
}

// spec: modes/final-answer-strategy/multi-agent-quick-mode-defaults-to-synthesis
// spec: modes/context-path-write-access-in-quick-mode/multi-agent-synthesis-without-write-context-paths
#[test]
fn a_quick_run_of_several_agents_synthesizes_instead_of_reusing_the_winners_answer() {
    let fixture = Fixture::new(3, second_wins());
    let result = fixture.result(&["--quick", "task"]);
    assert_eq!(result["coordination_summary"]["strategy"], "synthesize");
    assert_eq!(result["coordination_summary"]["winner"], "b");
    assert_eq!(result["final_answer"], "Presentation by model-b");
    let shown = texts(&fixture.server.requests().pop().unwrap());
    for answer in ["Answer of model-a", "Answer of model-b", "Answer of model-c"] {
        assert!(shown.contains(answer), "{answer} is missing: {shown}");
    }
}

// spec: modes/context-path-write-access-in-quick-mode/multi-agent-with-refinement-off-and-no-write-context-paths
#[test]
fn a_quick_run_that_asks_for_winner_reuse_makes_no_presentation() {
    let fixture = Fixture::with(3, second_wins(), strategy("winner_reuse"));
    let output = fixture.run(&["--quick", "task"]).expect_code(0);
    assert_eq!((output.stdout.as_str(), fixture.server.request_count()), ("Answer of model-b\n", 6));
}

// spec: modes/independent-agent-execution/injection-disabled
#[test]
fn independent_agents_neither_see_nor_restart_for_other_answers() {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-c").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::with(3, script, |team| {
        // Without the wait for first answers, an agent that may see other answers would see them immediately.
        team.rule("disable_injection", true).rule("coordination", json!({"first_answer_wait_seconds": 0}))
    });
    let running = fixture.spawn(&["task"]);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    running.wait_for_stderr(|line| line.contains("answered: agent2.1"), LIMIT);
    assert!(
        !althing_testkit::wait::holds_within(QUIET_TIME, || fixture.server.request_count() > 3),
        "someone was asked again: {:?}",
        fixture.calls()
    );
    gate.release_all();
    running.wait(LIMIT).expect_code(0);

    let requests = fixture.server.requests();
    assert!(
        requests.iter().all(|request| request.outcome() == RequestOutcome::Served),
        "nobody was restarted"
    );
    for request in requests.iter().filter(|request| request.tool_names().contains(&"new_answer")) {
        assert!(!texts(request).contains("Answer of model-"), "{}", texts(request));
        assert!(texts(request).contains("task"));
    }
    let events = fixture.althing.events();
    assert!(items(&events, "update").is_empty() && items(&events, "stale_vote").is_empty());
}

// spec: modes/deferred-voting/deferred-voting-enabled
#[test]
fn with_deferred_voting_nobody_votes_before_everybody_has_answered() {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-c").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::with(3, script, |team| {
        // Without the wait for first answers, an agent that need not defer its vote would vote immediately.
        team.rule("defer_voting_until_all_answered", true)
            .rule("coordination", json!({"first_answer_wait_seconds": 0}))
    });
    let running = fixture.spawn(&["task"]);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    running.wait_for_stderr(|line| line.contains("answered: agent2.1"), LIMIT);
    assert!(
        !althing_testkit::wait::holds_within(QUIET_TIME, || fixture.server.request_count() > 3),
        "someone was asked before the last had answered: {:?}",
        fixture.calls()
    );
    gate.release_all();
    running.wait(LIMIT).expect_code(0);

    let requests = fixture.server.requests();
    assert_eq!(requests.iter().filter(|request| may_vote(request)).count(), 3, "no vote was wasted");
    for request in requests.iter().filter(|request| may_vote(request)) {
        assert!(texts(request).contains("Answer of model-c"), "{}", texts(request));
    }
    let events = fixture.althing.events();
    let place = |wanted: &dyn Fn(&Value) -> bool| events.iter().position(wanted).unwrap();
    let voting = place(&|event| event["type"] == "phase_changed" && event["data"]["phase"] == "voting");
    let last_answer = place(&|event| event["data"]["item"]["label"] == "agent3.1");
    assert!(voting > last_answer);
}

// spec: modes/deferred-voting/single-agent-with-refinement-on
#[test]
fn a_single_agent_may_refine_until_it_votes_that_it_is_done() {
    let script = Script::always(Reply::text("Presented.")).on("model-a").each([
        Reply::new_answer("First try"),
        Reply::new_answer("Second try"),
        Reply::vote("agent1", "good enough"),
    ]);
    let fixture = Fixture::new(1, script);
    let output = fixture.run(&["task"]).expect_code(0);
    let requests = fixture.server.requests();
    let offered: Vec<Vec<&str>> = requests.iter().map(RecordedRequest::tool_names).collect();
    assert_eq!(offered, [vec!["new_answer"], vec!["new_answer", "vote"], vec!["new_answer", "vote"], vec![]]);
    assert!(texts(&requests[2]).contains("Second try"));
    let events = fixture.althing.events();
    assert_eq!((items(&events, "answer").len(), items(&events, "vote").len()), (2, 1));
    assert_eq!(output.stdout, "Presented.\n");
}

// spec: modes/skip-voting-configuration/skip-voting-enabled
#[test]
fn with_voting_skipped_no_vote_is_offered_or_required() {
    let fixture = Fixture::with(3, second_wins(), |team| team.rule("skip_voting", true));
    let result = fixture.result(&["task"]);
    let requests = fixture.server.requests();
    assert_eq!(requests.len(), 4, "three answers, one presentation");
    for request in &requests {
        assert!(!may_vote(request));
        let said = format!("{}\n{}", texts(request), tools_text(request)).to_lowercase();
        assert!(!said.contains("vote") && !said.contains("voting"), "{said}");
    }
    let events = fixture.althing.events();
    assert!(items(&events, "reminder").is_empty(), "nobody was asked to vote");
    assert!(requests[3].tool_names().is_empty());
    assert_eq!(result["final_answer"], format!("Presentation by {}", requests[3].model()));
    assert_eq!(result["coordination_summary"]["ballots"], json!([]));
}

// spec: modes/refinement-mode-toggle/refinement-off-with-single-agent
#[test]
fn refinement_off_with_a_single_agent_goes_straight_from_the_answer_to_the_user() {
    // An agent that answers with the tool `new_answer` has given its one answer, like one that answers with a text.
    for reply in [Reply::text("The answer."), Reply::new_answer("The answer.")] {
        let fixture = Fixture::new(3, Script::always(reply));
        let output = fixture.run(&["--quick", "--single-agent", "a", "task"]).expect_code(0);
        assert_eq!(output.stdout, "The answer.\n");
        let requests = fixture.server.requests();
        assert_eq!(requests.len(), 1);
        assert!(!may_vote(&requests[0]) && !texts(&requests[0]).to_lowercase().contains("vote"));
        assert_eq!(rules(&fixture)["skip_voting"], true);
        assert_eq!(purposes(&fixture), ["answer"]);
    }
}

// spec: modes/refinement-mode-toggle/refinement-off-with-multi-agent
#[test]
fn refinement_off_with_several_agents_is_one_independent_answer_each_and_a_synthesis() {
    let gate = Gate::before_headers();
    let script = second_wins().on("model-c").nth(0, Action::gated(Action::Usual, &gate));
    let fixture =
        Fixture::with(3, script, |team| team.rule("coordination", json!({"first_answer_wait_seconds": 0})));
    let running = fixture.spawn(&["--quick", "task"]);
    running.wait_for_stderr(|line| line.contains("answered: agent2.1"), LIMIT);
    assert!(
        !althing_testkit::wait::holds_within(QUIET_TIME, || fixture.server.request_count() > 3),
        "{:?}",
        fixture.calls()
    );
    gate.release_all();
    let output = running.wait(LIMIT).expect_code(0);
    assert_eq!(output.stdout, "Presentation by model-b\n");

    let rules = rules(&fixture);
    assert_eq!(rules["max_new_answers_per_agent"], 1);
    assert_eq!(rules["disable_injection"], true);
    assert_eq!(rules["defer_voting_until_all_answered"], true);
    assert_eq!(rules["final_answer_strategy"], "synthesize");
    let requests = fixture.server.requests();
    for request in &requests {
        match request.tool_names().as_slice() {
            ["new_answer"] => assert!(!texts(request).contains("Answer of model-"), "{}", texts(request)),
            ["vote"] => assert!(texts(request).contains("Answer of model-c"), "{}", texts(request)),
            other => assert!(other.is_empty(), "one answer each: {other:?}"),
        }
    }
    assert_eq!(requests.len(), 7);
}

#[test]
fn an_agent_at_its_cap_of_answers_can_only_vote() {
    let fixture = Fixture::with(2, Script::parliament(), |team| team.rule("max_new_answers_per_agent", 1));
    fixture.run(&["task"]).expect_code(0);
    let judging: Vec<RecordedRequest> = fixture.server.requests().into_iter().filter(may_vote).collect();
    assert_eq!(judging.len(), 2);
    assert!(judging.iter().all(|request| request.tool_names() == ["vote"]));
}

#[test]
fn once_the_run_has_its_cap_of_answers_everyone_only_votes() {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-c").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::with(3, script, |team| team.rule("max_new_answers_global", 2));
    let output = fixture.run(&["task"]).expect_code(0);
    let events = fixture.althing.events();
    assert_eq!(items(&events, "answer").len(), 2, "{}", output.stderr);
    assert!(
        fixture
            .server
            .requests()
            .iter()
            .filter(|request| may_vote(request))
            .all(|request| { request.tool_names() == ["vote"] })
    );
}
