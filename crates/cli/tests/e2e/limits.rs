//! Time limits of a run: deadlines end silent agents too, and the best answer so far is used.

use std::time::Duration;

use althing_testkit::{Action, Fault, FaultMoment, Gate, Output, Reply, Script};
use serde_json::json;

use super::support::{Fixture, LIMIT};

/// Checks that a run did not end before its limit of at least a second. In each of these tests at least one model never
/// finishes a reply, so only the limit can end the run.
#[track_caller]
fn ended_at_its_limit(output: &Output) {
    assert!(output.elapsed >= Duration::from_secs(1), "{:?}", output.elapsed);
}

#[test]
fn a_run_in_which_nobody_ever_answers_ends_at_its_limit() {
    let fixture = Fixture::new(3, Script::always(Action::Hang));
    let output = fixture.run(&["--orchestrator-timeout", "1", "task"]).expect_code(3);
    ended_at_its_limit(&output);
    assert_eq!(output.stdout, "");
    assert!(output.stderr.contains("time limit"), "{}", output.stderr);
}

#[test]
fn at_the_limit_the_only_answer_so_far_is_printed() {
    let fixture =
        Fixture::new(3, Script::always(Action::Hang).on("model-b").nth(0, Reply::new_answer("So far.")));
    // Enough time for the one answer on a busy machine.
    let output = fixture.run(&["--orchestrator-timeout", "8", "task"]).expect_code(3);
    ended_at_its_limit(&output);
    assert_eq!(output.stdout, "So far.\n");
    let result = std::fs::read_to_string(fixture.session().join("tasks/r1/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!((&result["status"], &result["final_answer"]), (&json!("partial"), &json!("So far.")));
}

#[test]
fn the_limit_also_ends_a_stalled_stream() {
    let script = Script::parliament().fault_always(Fault::IdleStall, FaultMoment::MidStream);
    let fixture = Fixture::new(2, script);
    let output = fixture.run(&["--orchestrator-timeout", "1", "task"]).expect_code(3);
    ended_at_its_limit(&output);
}

#[test]
fn the_configs_limit_applies_without_an_option() {
    let fixture = Fixture::with(2, Script::always(Action::Hang), |team| {
        team.timeout("orchestrator_timeout_seconds", 1)
    });
    ended_at_its_limit(&fixture.run(&["task"]).expect_code(3));
}

#[test]
fn an_agent_that_exceeds_its_first_round_fails_and_the_others_answer() {
    let fixture = Fixture::with(3, Script::parliament().on("model-b").always(Action::Hang), |team| {
        team.timeout("initial_round_timeout_seconds", 8).timeout("round_timeout_grace_seconds", 0.2)
    });
    let result = fixture.result(&["task"]);
    let agents = &result["coordination_summary"]["agents"];
    assert_eq!((&agents[0]["status"], &agents[1]["status"]), (&json!("voted"), &json!("timed_out")));
    assert_eq!(result["final_answer"], "Final answer of model-a");
}

#[test]
fn a_stalled_presenter_does_not_lose_the_answer() {
    let fixture = Fixture::with(2, Script::parliament().on("model-a").nth(2, Action::Hang), |team| {
        team.timeout("subsequent_round_timeout_seconds", 8).timeout("round_timeout_grace_seconds", 0.2)
    });
    let output = fixture.run(&["task"]).expect_code(0);
    assert_eq!(output.stdout, "Answer of model-a\n");
    assert!(output.stderr.contains("could not present"), "{}", output.stderr);
}

#[test]
fn time_that_passed_before_an_interruption_counts() {
    let limit = Duration::from_secs(24);
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-a").always(Action::gated(Action::Usual, &gate));
    let fixture =
        Fixture::with(2, script, |team| team.timeout("orchestrator_timeout_seconds", limit.as_secs()));
    let running = fixture.spawn(&["task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    let before = std::time::Instant::now();
    // The limit of 24 seconds counts only the time in which the run is active; 18 seconds of it pass before the
    // interruption.
    althing_testkit::wait::until(LIMIT, || before.elapsed() > Duration::from_secs(18));
    running.signal(althing_testkit::process::Signal::TERM);
    running.wait(LIMIT).expect_code(4);
    let output = fixture.resume().expect_code(3);
    // If the time before the interruption did not count, the resumed run would take the whole limit.
    assert!(output.elapsed < limit, "{:?}", output.elapsed);
    assert_eq!(output.stdout, "Answer of model-b\n");
}

#[test]
fn a_run_at_its_cost_limit_ends_with_the_answer_so_far() {
    let fixture = Fixture::with(2, Script::parliament(), |team| {
        team.output_price("model-a", 1000.0).output_price("model-b", 1000.0)
    });
    let output = fixture.run(&["--max-cost", "0.01", "task"]).expect_code(3);
    assert!(output.stdout.starts_with("Answer of model-"), "{}", output.stdout);
    assert!(output.stderr.contains("cost limit"), "{}", output.stderr);
    let refused = fixture.run(&["--max-cost", "none", "task"]).expect_code(1);
    assert!(refused.stderr.contains("US dollars"), "{}", refused.stderr);
}

/// The least cost of the call that was not made, from the text that says so.
pub(super) fn least_cost(text: &str) -> f64 {
    let (_, rest) = text.split_once("its input alone costs about $").unwrap_or_else(|| panic!("{text}"));
    rest.split(',').next().unwrap().parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn a_call_whose_input_alone_exceeds_the_cost_limit_is_not_made() {
    let fixture =
        Fixture::with(2, Script::parliament(), |team| team.price("model-a", 1000.0).price("model-b", 1000.0));
    let output = fixture.run(&["--max-cost", "0.01", "task"]).expect_code(3);
    assert_eq!(fixture.server.request_count(), 0, "nothing was sent");
    assert!(output.stderr.contains("the run reached its cost limit ($0.0000 spent)"), "{}", output.stderr);
    assert!(output.stderr.contains("was not made"), "{}", output.stderr);
    // The limit covers only one of the two calls: the second is not made, because the first is still running, and the
    // reply of the first counts.
    let limit = format!("{:.4}", 1.5 * least_cost(&output.stderr));
    let gate = Gate::before_headers();
    let usual = || Action::gated(Action::Usual, &gate);
    let script = Script::parliament().on("model-a").always(usual()).on("model-b").always(usual());
    let fixture = Fixture::with(2, script, |team| team.price("model-a", 1000.0).price("model-b", 1000.0));
    let running = fixture.spawn(&["--max-cost", &limit, "task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    gate.release_all();
    let output = running.wait(LIMIT).expect_code(3);
    assert_eq!(fixture.server.request_count(), 1);
    assert!(output.stdout.starts_with("Answer of model-"), "{}", output.stdout);
    assert!(output.stderr.contains("was not made"), "{}", output.stderr);
}

#[test]
fn a_presentation_that_the_cost_limit_does_not_allow_leaves_the_winners_answer() {
    let team = |team: super::support::Team| team.price("model-a", 1000.0).rule("skip_voting", true);
    let expensive = Fixture::with(1, Script::parliament(), team);
    let least = least_cost(&expensive.run(&["--max-cost", "0.01", "task"]).expect_code(3).stderr);
    // The first call reports 120 tokens of $0.001 each.
    let limit = format!("{:.4}", least + 0.05);
    let fixture = Fixture::with(1, Script::parliament(), team);
    let output = fixture.run(&["--max-cost", &limit, "task"]).expect_code(3);
    assert_eq!(output.stdout, "Final answer of model-a\n", "{}", output.stderr);
    assert!(
        output.stderr.contains("cost limit") && output.stderr.contains("was not made"),
        "{}",
        output.stderr
    );
    assert_eq!(fixture.server.request_count(), 1);
}
