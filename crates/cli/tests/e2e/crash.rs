//! `kill -9` at any moment (row D2 of docs/reliability.md): every session can be resumed, nothing that was shown is
//! lost, and no call whose reply is in the log is made again. The checks use only the log and the requests that the
//! server recorded.

use std::path::Path;
use std::time::{Duration, Instant};

use althing_testkit::process::{Signal, newest_session};
use althing_testkit::{Action, Gate, Parliament, RecordedRequest, Reply, RunningProcess, Script, scale};
use fastrand::Rng;
use serde_json::Value;

use super::support::{Fixture, LIMIT, ensure, in_parallel, items, of_type, run, texts};

const SEED: u64 = 20_261_115;
const AGENTS: usize = 3;
/// In a plain run, every agent answers and votes, and one presents.
const REPLIES: usize = 2 * AGENTS + 1;

/// When to kill the process: at a moment that is defined by the run's progress, not by a clock.
#[derive(Debug, Clone, Copy)]
enum KillMoment {
    Requests(usize),
    Facts(usize),
    Shown(usize),
}

impl KillMoment {
    fn random(rng: &mut Rng) -> Self {
        match rng.usize(0..3) {
            0 => Self::Requests(rng.usize(1..=REPLIES)),
            1 => Self::Facts(rng.usize(1..=45)),
            _ => Self::Shown(rng.usize(1..=45)),
        }
    }

    /// Waits for this moment, or for the end of the process if that comes first, and kills the process. The first
    /// `made` requests and `log_before` facts do not count.
    fn kill(self, fixture: &Fixture, running: &RunningProcess, made: usize, log_before: usize) {
        let end = Instant::now() + LIMIT;
        let reached = || match self {
            Self::Requests(n) => fixture.server.request_count() >= made + n,
            Self::Facts(n) => facts_on_disk(&fixture.althing.state_dir()) >= log_before + n,
            Self::Shown(n) => running.stdout().lines().count() >= log_before + n,
        };
        while running.is_running() && !reached() && Instant::now() < end {
            std::thread::yield_now();
        }
        running.signal(Signal::KILL);
    }
}

fn facts_on_disk(state: &Path) -> usize {
    let log = newest_session(state).and_then(|session| std::fs::read(session.join("events.jsonl")).ok());
    log.map_or(0, |bytes| bytes.split(|byte| *byte == b'\n').count() - 1)
}

/// The delays of the replies differ, so that the agents are not all in the same step when the process is killed.
fn script() -> Script {
    Script::from_fn(|request: &RecordedRequest| {
        let delay = Duration::from_millis(3 + (request.seq() as u64 * 7) % 11);
        Action::after(delay, Parliament::default().reply(request))
    })
}

/// A run with more events: `b` has to be reminded of its tools, and `c` improves its answer, so that votes go stale.
/// Replies depend only on the request, so that a repeated call gets the same reply.
fn script_with_more_events() -> Script {
    Script::from_fn(|request: &RecordedRequest| {
        let delay = Duration::from_millis(3 + (request.seq() as u64 * 7) % 11);
        let asked_before = request.messages().iter().any(|message| message["role"] == "assistant");
        let (tools, text) = (request.tool_names(), texts(request));
        let reply = if request.model() == "model-b" && tools == ["new_answer"] && !asked_before {
            Reply::text("Let me think.")
        } else if request.model() == "model-c" && tools.contains(&"vote") && !text.contains("A better answer")
        {
            Reply::new_answer("A better answer of model-c")
        } else {
            Parliament::default().reply(request)
        };
        Action::after(delay, reply)
    })
}

fn facts(fixture: &Fixture) -> Vec<Value> {
    let strip = |mut event: Value| {
        let fields = event.as_object_mut().expect("an object");
        fields.retain(|name, _| name != "crc" && name != "batch");
        event
    };
    fixture.althing.events().into_iter().map(strip).collect()
}

fn complete_lines(stdout: &str) -> Vec<Value> {
    let whole = stdout.rfind('\n').map_or("", |end| &stdout[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

type LogCheck = fn(&Fixture, &[Value], usize) -> Result<(), String>;

fn one_round(round: usize, script: Script, check: LogCheck) -> Result<(), String> {
    let mut rng = Rng::with_seed(SEED + round as u64);
    let fixture = Fixture::new(AGENTS, script);
    let mut strikes = Vec::new();
    let mut seen = Vec::new();
    let mut running = fixture.spawn(&["--stream-events", "task"]);
    // Most sessions are killed once; some are killed again while they are resumed.
    for _ in 0..1 + usize::from(rng.u8(0..4) == 0) + usize::from(rng.u8(0..8) == 0) {
        let strike = if strikes.is_empty() {
            KillMoment::random(&mut rng)
        } else {
            KillMoment::Facts(rng.usize(1..=20))
        };
        let (made, before) = if strikes.is_empty() {
            (0, 0)
        } else {
            (fixture.server.request_count(), facts_on_disk(&fixture.althing.state_dir()))
        };
        strike.kill(&fixture, &running, made, before);
        strikes.push(strike);
        seen.push(complete_lines(&running.wait(LIMIT).stdout));
        running = fixture.althing.new_command().args(["resume", "--stream-events"]).spawn();
        running.wait_for_stderr(|_| true, LIMIT);
    }
    let output = running.wait(LIMIT);
    let complain = |what: String| {
        format!(
            "round {round} {strikes:?}: {what}\n--- stdout\n{}\n--- stderr\n{}",
            output.stdout, output.stderr
        )
    };
    ensure(output.code == Some(0), || complain(format!("exit {:?}", output.code)))?;
    let facts = facts(&fixture);
    let lost = seen.iter().any(|complete_lines| !facts.starts_with(complete_lines));
    ensure(!lost, || complain("something was shown that is not in the log".into()))?;
    ended_once(&facts).and_then(|()| check(&fixture, &facts, strikes.len())).map_err(complain)
}

fn ended_once(facts: &[Value]) -> Result<(), String> {
    ensure(facts.iter().zip(1u64..).all(|(fact, n)| fact["seq"] == n), || "a gap in the log".into())?;
    ensure(of_type(facts, "session_closed").len() == 1, || "not closed exactly once".into())?;
    let finished: Vec<&Value> =
        of_type(facts, "decided").into_iter().filter(|fact| fact["data"]["verdict"] == "finished").collect();
    ensure(finished.len() == 1, || format!("finished {} times", finished.len()))?;
    let answer = finished[0]["data"]["result"]["final_answer"].as_str().unwrap_or_default();
    ensure(answer.starts_with("Final answer of model-"), || format!("the answer is `{answer}`"))
}

fn count(fixture: &Fixture, facts: &[Value], agent: usize, kind: &str) -> (usize, usize) {
    let task = format!("r1.a{}", agent + 1);
    let own: Vec<Value> = facts.iter().filter(|fact| fact["task"] == task.as_str()).cloned().collect();
    let model = ["model-a", "model-b", "model-c"][agent];
    (items(&own, kind).len(), fixture.server.requests_of(model).len())
}

/// Checks that every reply is in the log once, and that each kill wasted at most one call per agent.
fn repeats_nothing(fixture: &Fixture, facts: &[Value], kills: usize) -> Result<(), String> {
    for (agent, expected) in [3, 2, 2].into_iter().enumerate() {
        let (replies, made) = count(fixture, facts, agent, "reply");
        ensure(replies == expected, || format!("agent {agent} has {replies} replies, not {expected}"))?;
        ensure(made <= replies + kills, || {
            format!("agent {agent} was asked {made} times for {replies} replies and {kills} kills")
        })?;
    }
    Ok(())
}

/// Like `repeats_nothing`, but an agent may also have started over for each newer answer that it was shown.
fn repeats_only_what_went_stale(fixture: &Fixture, facts: &[Value], kills: usize) -> Result<(), String> {
    for agent in 0..AGENTS {
        let (replies, made) = count(fixture, facts, agent, "reply");
        let (updates, _) = count(fixture, facts, agent, "update");
        ensure(made <= replies + updates + kills, || {
            format!(
                "agent {agent} was asked {made} times for {replies} replies, {updates} updates and {kills} kills"
            )
        })?;
    }
    let (answers, reminders) = (items(facts, "answer").len(), items(facts, "reminder").len());
    ensure(answers == AGENTS + 1, || format!("{answers} answers"))?;
    ensure(reminders == 1, || format!("{reminders} reminders"))
}

#[test]
fn a_killed_run_resumes_without_repeating_finished_calls() {
    in_parallel(3, 0..scale(100, 1000), |round| one_round(round, script(), repeats_nothing));
}

#[test]
fn a_killed_run_resumes_also_during_reminders_and_newer_answers() {
    in_parallel(3, 0..scale(100, 1000), |round| {
        one_round(round, script_with_more_events(), repeats_only_what_went_stale)
    });
}

#[test]
fn a_run_killed_before_its_first_event_leaves_nothing_behind() {
    let fixture = Fixture::new(1, Script::parliament());
    let running = fixture.spawn(&["task"]);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let sessions = run(&fixture.althing, &["sessions"]).expect_code(0);
    assert!(!sessions.stderr.contains("panicked"), "{}", sessions.stderr);
    let output = fixture.run(&["task"]).expect_code(0);
    assert_eq!(output.stdout, "Final answer of model-a\n");
}

#[test]
fn a_session_owned_by_another_process_cannot_be_resumed() {
    let gate = Gate::before_headers();
    let fixture =
        Fixture::new(2, Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate)));
    let running = fixture.spawn(&["task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    let log = std::fs::read(fixture.log()).unwrap();
    let id = fixture.session_id();
    for args in [vec!["resume"], vec!["resume", &id]] {
        let output = run(&fixture.althing, &args).expect_code(1);
        let pid = running.id().to_string();
        assert!(output.stderr.contains(&id) && output.stderr.contains("in use"), "{}", output.stderr);
        assert!(output.stderr.contains(&pid), "it says who has it: {}", output.stderr);
        assert_eq!(output.stdout, "");
    }
    assert_eq!(std::fs::read(fixture.log()).unwrap(), log);
    gate.release_all();
    let output = running.wait(LIMIT).expect_code(0);
    assert_eq!((output.stdout.as_str(), fixture.server.request_count()), ("Final answer of model-a\n", 5));
}

#[test]
fn exactly_one_of_many_concurrent_resumes_succeeds() {
    let gate = Gate::before_headers();
    let fixture =
        Fixture::new(2, Script::parliament().on("model-b").always(Action::gated(Action::Usual, &gate)));
    let running = fixture.spawn(&["task"]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let id = fixture.session_id();
    let all: Vec<RunningProcess> =
        (0..6).map(|_| fixture.althing.new_command().args(["resume", &id]).spawn()).collect();
    let refused = || all.iter().filter(|running| !running.is_running()).count();
    althing_testkit::wait::until(LIMIT, || refused() == all.len() - 1);
    gate.release_all();
    let mut codes: Vec<Option<i32>> = all.iter().map(|running| running.wait(LIMIT).code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1), Some(1), Some(1), Some(1), Some(1)]);
}
