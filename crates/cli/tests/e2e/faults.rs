//! Row A1 of docs/reliability.md end to end: for every fault of a model server, the run ends within its limits, the
//! other agents answer, and the failure is reported.

use std::time::Duration;

use althing_testkit::{BadArguments, FakeModel, Fault, FaultCase, FaultExpectation, Output, Script};
use serde_json::Value;

use super::support::{Fixture, LIMIT, Team, ensure, in_parallel, items, of_type};

const MAX_DURATION: Duration = LIMIT;
const RETRIES: usize = 2;
/// How many calls an agent gets if none of its replies ends its turn.
const ATTEMPTS: usize = 3;
const THREADS: usize = 4;

/// Only the faulty agent has short timeouts: the others must not fail because the machine is busy.
fn with_short_timeouts(team: Team) -> Team {
    team.backend(0, "connect_timeout_seconds", 5)
        .backend(0, "first_byte_timeout_seconds", 2)
        .backend(0, "idle_timeout_seconds", 2)
        .backend(0, "request_timeout_seconds", 30)
        .backend(0, "max_retries", RETRIES)
        // The delay before a refused connection is retried, longer than the port stays closed.
        .backend(0, "retry_base_ms", 250)
}

struct FaultRun {
    output: Output,
    result: Value,
    asked: usize,
    events: Vec<Value>,
}

/// The faulty agent has a server of its own, so that closing the port affects only this agent.
fn run(script: impl Into<Script>) -> Result<FaultRun, String> {
    let faulty = FakeModel::start_on_thread(script);
    let url = faulty.base_url();
    let fixture =
        Fixture::with(3, Script::parliament(), |team| with_short_timeouts(team).backend(0, "base_url", url));
    let output = fixture.command(&["--json", "task"]).spawn().wait(MAX_DURATION);
    ensure(output.code == Some(0), || format!("exit {:?}:\n{}", output.code, output.stderr))?;
    let result =
        serde_json::from_str(&output.stdout).map_err(|error| format!("{error}: {}", output.stdout))?;
    let asked = faulty.request_count();
    Ok(FaultRun { output, result, asked, events: fixture.althing.events() })
}

impl FaultRun {
    fn status(&self) -> &str {
        self.result["coordination_summary"]["agents"][0]["status"].as_str().unwrap_or_default()
    }

    fn failure_is_reported(&self) -> bool {
        let named =
            |line: &str| line.starts_with("a ") && (line.contains("failed: ") || line.contains("out: "));
        self.output.stderr.lines().any(named)
    }

    fn check_invariants(&self) -> Result<(), String> {
        let answer = self.result["final_answer"].as_str().unwrap_or_default();
        ensure(answer.starts_with("Final answer of model-"), || format!("the answer is `{answer}`"))?;
        ensure(self.result["status"] == "completed", || format!("status {}", self.result["status"]))?;
        for task in ["r1.a1", "r1.a2", "r1.a3"] {
            let own: Vec<Value> = self.events.iter().filter(|event| event["task"] == task).cloned().collect();
            ensure(items(&own, "answer").len() <= 1, || format!("{task} answered twice"))?;
            ensure(items(&own, "vote").len() <= 1, || format!("{task} voted twice"))?;
        }
        ensure(of_type(&self.events, "session_closed").len() == 1, || "not closed once".into())
    }

    fn has_taken_part(&self) -> Result<(), String> {
        ensure(self.status() == "voted", || format!("`a` has {}", self.status()))?;
        ensure(!self.failure_is_reported(), || "a failure is named where there was none".into())
    }

    fn check_failed(&self, asked: std::ops::RangeInclusive<usize>) -> Result<(), String> {
        ensure(self.status() == "failed", || format!("`a` has {}", self.status()))?;
        ensure(self.failure_is_reported(), || "the failure is not named".into())?;
        let why = self.result["coordination_summary"]["agents"][0]["error"].as_str().unwrap_or_default();
        ensure(!why.is_empty(), || "the result does not say why".into())?;
        ensure(asked.contains(&self.asked), || format!("asked {} times, not {asked:?}", self.asked))
    }
}

/// Whether the fault is only a very long reply, which is a valid answer.
fn is_only_long(case: FaultCase) -> bool {
    case.fault == Fault::BadArguments(BadArguments::Huge)
}

fn once(case: FaultCase) -> Result<(), String> {
    let ran = run(Script::parliament().on("model-a").fault_once(case.fault, case.moment))?;
    let judged = match case.expectation() {
        FaultExpectation::Fails { retryable: false } => ran.check_failed(1..=1),
        // A reply that is too long is not requested again: the next one would be as long.
        FaultExpectation::Fails { .. } if case.fault == Fault::EndlessStream && ran.asked == 1 => {
            ran.check_failed(1..=1)
        }
        FaultExpectation::Fails { .. } | FaultExpectation::HarmlessVariation | FaultExpectation::Recovers => {
            ran.has_taken_part()
        }
    };
    judged.and_then(|()| ran.check_invariants()).map_err(|what| describe("once", case, &what, &ran))
}

fn always(case: FaultCase) -> Result<(), String> {
    let ran = run(Script::parliament().on("model-a").fault_always(case.fault, case.moment))?;
    let judged = match case.expectation() {
        FaultExpectation::HarmlessVariation => ran.has_taken_part(),
        FaultExpectation::Recovers if is_only_long(case) => ran.has_taken_part(),
        FaultExpectation::Recovers if case.fault == Fault::EmptyReply => {
            ran.check_failed(1..=ATTEMPTS * (RETRIES + 1))
        }
        FaultExpectation::Recovers => ran.check_failed(ATTEMPTS..=ATTEMPTS),
        FaultExpectation::Fails { retryable: false } => ran.check_failed(1..=1),
        FaultExpectation::Fails { .. } if case.fault == Fault::EndlessStream => {
            ran.check_failed(1..=RETRIES + 1)
        }
        // The port stays closed for a while, so not every attempt reaches the server.
        FaultExpectation::Fails { .. } if case.fault == Fault::Refused => ran.check_failed(1..=RETRIES + 1),
        FaultExpectation::Fails { .. } => ran.check_failed(RETRIES + 1..=RETRIES + 1),
    };
    judged.and_then(|()| ran.check_invariants()).map_err(|what| describe("always", case, &what, &ran))
}

fn describe(how: &str, case: FaultCase, what: &str, ran: &FaultRun) -> String {
    let (took, stderr) = (ran.output.elapsed, &ran.output.stderr);
    format!("{case} {how}: {what} ({took:?}, asked {} times)\n{stderr}", ran.asked)
}

#[test]
fn a_fault_that_happens_once_fails_at_most_one_agent_and_never_the_run() {
    in_parallel(THREADS, FaultCase::all(), |case| once(case).map_err(|what| format!("{case}: {what}")));
}

#[test]
fn a_permanent_fault_fails_the_agent_and_never_the_run() {
    in_parallel(THREADS, FaultCase::all(), |case| always(case).map_err(|what| format!("{case}: {what}")));
}

#[test]
fn if_every_agent_has_the_fault_the_run_fails_with_a_reason_for_each() {
    let fatal = FaultCase::all().filter(|case| match case.expectation() {
        FaultExpectation::Fails { .. } => true,
        FaultExpectation::Recovers => !is_only_long(*case),
        FaultExpectation::HarmlessVariation => false,
    });
    in_parallel(THREADS, fatal, |case| {
        let script = Script::parliament().fault_always(case.fault, case.moment);
        let fixture = Fixture::with(2, script, |team| {
            let limits = [
                ("first_byte_timeout_seconds", 2.0),
                ("idle_timeout_seconds", 2.0),
                ("request_timeout_seconds", 30.0),
            ];
            limits
                .into_iter()
                .fold(team, |team, (key, value)| team.every_backend(key, value))
                .every_backend("max_retries", 1)
        });
        let output = fixture.spawn(&["task"]).wait(MAX_DURATION);
        let complain = |what: &str| format!("{case}: {what}, exit {:?}\n{}", output.code, output.stderr);
        ensure(output.code == Some(2), || complain("wrong end"))?;
        ensure(output.stdout.is_empty(), || complain("something was printed as an answer"))?;
        let reasons = output.stderr.split("no agent gave an answer").nth(1).unwrap_or_default();
        for agent in ["a: ", "b: "] {
            let describe = reasons
                .lines()
                .any(|line| line.trim_start().starts_with(agent) && line.trim().len() > agent.len());
            ensure(describe, || complain("an agent's reason is missing"))?;
        }
        Ok(())
    });
}
