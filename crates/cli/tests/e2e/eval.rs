//! `althing eval` and `althing recount`: teams answer tasks with known solutions, votes are counted again under other
//! rules, and an evaluation that is killed continues without repeating a call whose reply was recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use althing_testkit::process::Signal;
use althing_testkit::{Action, Gate, RecordedRequest, Reply, Script, Usage, scale};
use fastrand::Rng;
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team, althing, run, task_of, texts};

fn sums(count: usize) -> String {
    let line = |n| json!({"id": format!("sum-{n}"), "task": format!("What is 1 + {n}?"), "check": {"number": n + 1}});
    (0..count).map(|n| line(n).to_string() + "\n").collect()
}

/// Model `a` is right on all tasks, `b` on even numbers, `c` on none; `b` and `c` agree on wrong sums. Every judge
/// ranks agent2 first, so that agent2 wins wherever there are several agents.
fn arithmetic(request: &RecordedRequest) -> Reply {
    let prompt = texts(request);
    let task = task_of(&prompt).unwrap_or_default();
    let n: u64 = task.trim_start_matches("What is 1 + ").trim_end_matches('?').parse().unwrap_or(0);
    let right = request.model() == "model-a" || (request.model() == "model-b" && n.is_multiple_of(2));
    let sum = if right { n + 1 } else { n + 100 };
    let tools = request.tool_names();
    if tools.contains(&"vote") {
        let mut agents = request.votable();
        agents.sort_unstable_by_key(|agent| (*agent != "agent2", *agent));
        Reply::ranking(&agents, "agent2 first")
    } else if tools.contains(&"new_answer") {
        Reply::new_answer(&format!("The sum is {sum}"))
    } else {
        Reply::text(format!("The sum is {sum}"))
    }
}

fn fixture(agents: usize, tasks: usize) -> Fixture {
    let fixture = Fixture::with(agents, Script::from_fn(arithmetic), |team| {
        team.rule("final_answer_strategy", "winner_reuse")
    });
    fixture.althing.file("tasks.jsonl", sums(tasks));
    fixture
}

#[track_caller]
fn evaluate(fixture: &Fixture, args: &[&str]) -> Value {
    let args = [&["eval", "tasks.jsonl", "--json"], args].concat();
    let output = run(&fixture.althing, &args).expect_code(0);
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn an_evaluation_reports_each_team_under_each_rule() {
    let fixture = fixture(3, 6);
    fixture.althing.file("alone.yaml", Team::on(&fixture.server.base_url(), 1).text());
    let report = evaluate(&fixture, &["--teams", "team.yaml,alone.yaml", "--rules", "borda,plurality"]);
    assert_eq!((&report["tasks"], &report["runs"]), (&json!(6), &json!(12)));
    let team = &report["teams"][0];
    // agent2 wins every vote, and is right on 0, 2 and 4.
    for (row, rule) in [(0, "presented"), (1, "borda"), (2, "plurality")] {
        assert_eq!(team["rows"][row]["rule"], rule);
        assert_eq!(team["rows"][row]["right_count"], 3, "{rule}: {team:#}");
    }
    assert_eq!(team["best_member"]["agent"], "a");
    assert_eq!(team["best_member"]["right"]["share"], 1.0);
    assert_eq!(team["somebody_right"]["share"], 1.0);
    assert_eq!(team["rows"][1]["selection_loss"], 0.5);
    let own = team["own_votes"].as_f64().unwrap();
    assert!((own - 1.0 / 3.0).abs() < 1e-9, "one of three judges ranks itself first: {own}");
    let alone = &report["teams"][1];
    assert_eq!(alone["rows"][0]["right_count"], 6);
    let compared = &alone["rows"][0]["compared_with_first_row"];
    assert_eq!((&compared["only_this_right"], &compared["only_first_right"]), (&json!(3), &json!(0)));

    // The same command reads the recorded runs: nothing is called again, whatever rules are named.
    let calls = fixture.server.request_count();
    let args = ["eval", "tasks.jsonl", "--teams", "team.yaml,alone.yaml", "--rules", "plurality-merged"];
    let table = run(&fixture.althing, &args).expect_code(0).stdout;
    assert_eq!(fixture.server.request_count(), calls);
    for text in ["plurality-merged", "50.0 % (3 of 6)", "selection loss", "McNemar"] {
        assert!(table.contains(text), "{text} is missing in\n{table}");
    }
    let csv = run(&fixture.althing, &["eval", "tasks.jsonl", "--teams", "team.yaml,alone.yaml", "--csv"])
        .expect_code(0)
        .stdout;
    assert!(csv.starts_with("team,task,repeat,session,rule,winner,right\n"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 12 * 3);
    // A further repetition adds runs and keeps the others; --fresh begins again.
    evaluate(&fixture, &["--teams", "alone.yaml", "--repeat", "2"]);
    let before = fixture.server.request_count();
    evaluate(&fixture, &["--teams", "alone.yaml", "--repeat", "3"]);
    let more = fixture.server.request_count() - before;
    evaluate(&fixture, &["--teams", "alone.yaml", "--repeat", "3", "--fresh"]);
    assert_eq!(fixture.server.request_count() - before - more, 3 * more);
}

#[test]
fn a_command_checks_answers_in_the_sandbox() {
    let fixture = fixture(1, 0);
    let task = |id: &str, command: Value| {
        json!({"id": id, "task": "What is 1 + 1?", "sum": 2, "check": {"command": command, "timeout_seconds": 20}}).to_string()
    };
    let marker = fixture.althing.work_dir().join("escaped");
    let tasks = [
        task("right", json!(["grep", "-qx", "The sum is 2", "answer.txt"])),
        task("wrong", json!("grep -q 'The sum is 3' answer.txt")),
        task("task", json!("grep -q '\"sum\":2' task.json")),
        task("escape", json!(format!("touch {}; true", marker.display()))),
        task("ends", json!("kill -9 $$")),
    ];
    fixture.althing.file("tasks.jsonl", tasks.join("\n"));
    let report = evaluate(&fixture, &["--teams", "team.yaml"]);
    let right: BTreeMap<&str, bool> = report["teams"][0]["runs_in_detail"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["task"].as_str().unwrap(), run["rules"][0]["right"].as_bool().unwrap()))
        .collect();
    let expected = [("right", true), ("wrong", false), ("task", true), ("escape", true), ("ends", false)];
    assert_eq!(right, BTreeMap::from(expected));
    assert!(!marker.exists(), "a check wrote outside its sandbox");
}

#[test]
fn a_cost_limit_stops_an_evaluation_before_the_call_that_exceeds_it_and_a_higher_one_continues_it() {
    let usage = Usage { input: 1000, output: 0, ..Usage::default() };
    let script = Script::from_fn(move |request: &RecordedRequest| arithmetic(request).usage(usage));
    let fixture = Fixture::with(1, script, |team| {
        team.rule("final_answer_strategy", "winner_reuse").price("model-a", 1000.0)
    });
    fixture.althing.file("tasks.jsonl", sums(8));
    // Each call costs a dollar, and each run has two calls.
    let limited = ["eval", "tasks.jsonl", "--teams", "team.yaml", "--jobs", "1", "--max-cost", "5"];
    let output = run(&fixture.althing, &limited).expect_code(3);
    let why = "the limit on the cost was reached: 2 of 8 runs ended";
    assert!(output.stderr.contains(why), "{}", output.stderr);
    assert_eq!(fixture.server.request_count(), 5, "calls of a dollar each under a limit of $5");
    // Nothing is left of the limit, so nothing is called.
    run(&fixture.althing, &limited).expect_code(3);
    assert_eq!(fixture.server.request_count(), 5);
    let report = evaluate(&fixture, &["--teams", "team.yaml", "--max-cost", "100"]);
    assert_eq!(report["teams"][0]["runs"], 8);
    assert_eq!(report["teams"][0]["rows"][0]["right_count"], 8, "{report:#}");
    assert_eq!(fixture.server.request_count(), 16, "no call was repeated");
}

#[test]
fn runs_of_an_evaluation_reserve_the_cost_of_their_calls_together() {
    let expensive = |script: Script| {
        let fixture = Fixture::with(3, script, |team| {
            let models = ["model-a", "model-b", "model-c"];
            let team = team.rule("final_answer_strategy", "winner_reuse");
            models.into_iter().fold(team, |team, model| team.price(model, 1000.0))
        });
        fixture.althing.file("tasks.jsonl", sums(4));
        fixture
    };
    let priced = expensive(Script::from_fn(arithmetic));
    let refused = priced.run(&["--max-cost", "0.001", "What is 1 + 0?"]).expect_code(3);
    let least = super::limits::least_cost(&refused.stderr);
    assert_eq!(priced.server.request_count(), 0);
    // Four runs want to make twelve calls at once; the limit allows two. Both cost twice as much as their input.
    let gate = Gate::before_headers();
    let tokens = (2.0 * least * 1000.0) as u64;
    let gated = gate.clone();
    let fixture = expensive(Script::from_fn(move |request: &RecordedRequest| {
        let usage = Usage { input: tokens, output: 0, ..Usage::default() };
        Action::gated(arithmetic(request).usage(usage), &gated)
    }));
    let limit = (2.5 * least).to_string();
    let limited = ["eval", "tasks.jsonl", "--teams", "team.yaml", "--jobs", "4", "--max-cost", &limit];
    let running = fixture.althing.new_command().args(limited).spawn();
    gate.wait_waiting_blocking(2, LIMIT);
    gate.release_all();
    let output = running.wait(LIMIT).expect_code(3);
    assert!(output.stderr.contains("the limit on the cost was reached"), "{}", output.stderr);
    assert_eq!(fixture.server.request_count(), 2);
    let report = evaluate(&fixture, &["--teams", "team.yaml", "--max-cost", "100000"]);
    assert_eq!(
        (&report["teams"][0]["runs"], &report["teams"][0]["runs_without_answer"]),
        (&json!(4), &json!(0))
    );
    assert_eq!(fixture.server.request_count(), 4 * 6, "no call was repeated");
}

#[test]
fn bad_tasks_are_all_reported_and_nothing_starts() {
    let fixture = fixture(1, 0);
    fixture.althing.file("tasks.jsonl", "{\"id\": \"a\"}\nno json\n");
    let output = run(&fixture.althing, &["eval", "tasks.jsonl", "--teams", "team.yaml"]).expect_code(1);
    for text in ["line 1: `check` is missing", "line 2: this is not JSON", "nothing was started"] {
        assert!(output.stderr.contains(text), "{text} is missing in {}", output.stderr);
    }
    let output = run(&fixture.althing, &["eval", "tasks.jsonl", "--rules", "bordar"]).expect_code(1);
    assert!(output.stderr.contains("did you mean `borda`?"), "{}", output.stderr);
    let output = run(&fixture.althing, &["eval", "missing.jsonl", "--teams", "team.yaml"]).expect_code(1);
    assert!(output.stderr.contains("missing.jsonl cannot be read"), "{}", output.stderr);
    assert_eq!(fixture.server.request_count(), 0);
}

#[test]
fn a_killed_evaluation_continues_and_repeats_no_recorded_call() {
    let tasks = scale(12, 200);
    let kills = scale(4, 20);
    let fixture = fixture(3, tasks);
    fixture.althing.file(
        "pair.yaml",
        Team::on(&fixture.server.base_url(), 2).rule("final_answer_strategy", "winner_reuse").text(),
    );
    let jobs = 4;
    let args = ["eval", "tasks.jsonl", "--teams", "team.yaml,pair.yaml", "--jobs", "4", "--json"];
    let mut rng = Rng::with_seed(20_261_118);
    // Three agents answer and vote: six calls; two agents: four.
    let ideal = tasks * 10;
    for kill in 0..kills {
        let running = fixture.althing.new_command().args(args).spawn();
        let share = ideal / (kills + 1);
        let target = fixture.server.request_count() + rng.usize(1..=share.max(2));
        let end = Instant::now() + LIMIT;
        while running.is_running() && fixture.server.request_count() < target && Instant::now() < end {
            std::thread::yield_now();
        }
        assert!(running.is_running(), "the evaluation ended before kill {kill}");
        running.signal(Signal::KILL);
        running.wait(LIMIT);
    }
    let output = run(&fixture.althing, &args).expect_code(0);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let mut recorded = 0;
    for (team, runs) in report["teams"].as_array().unwrap().iter().zip([tasks, tasks]) {
        assert_eq!(team["runs"], runs, "{team:#}");
        assert_eq!(team["runs_without_answer"], 0);
        recorded += team["usage"]["calls"].as_u64().unwrap() as usize;
    }
    // Every recorded call was needed, and every other call was in flight when the process was killed.
    assert_eq!(recorded, ideal);
    let repeated = fixture.server.request_count() - ideal;
    assert!(repeated <= kills * jobs * 3, "{repeated} calls were repeated after {kills} kills");
    let mut sent: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    for request in fixture.server.requests() {
        *sent.entry(request.raw_body().to_vec()).or_default() += 1;
    }
    assert_eq!(sent.len(), ideal, "a call was repeated with another request");
}

#[test]
fn a_run_that_was_killed_before_it_recorded_anything_begins_again() {
    let fixture = fixture(1, 2);
    let first = evaluate(&fixture, &["--teams", "team.yaml"]);
    let calls = fixture.server.request_count();
    let session = first["teams"][0]["runs_in_detail"][0]["session"].as_str().unwrap();
    let log = fixture.althing.state_dir().join("sessions").join(session).join("events.jsonl");
    assert!(log.metadata().unwrap().len() > 0);
    std::fs::write(&log, "").unwrap();
    let again = evaluate(&fixture, &["--teams", "team.yaml"]);
    assert_eq!(again["teams"][0]["rows"], first["teams"][0]["rows"]);
    assert_ne!(again["teams"][0]["runs_in_detail"][0]["session"], session);
    assert_eq!(fixture.server.request_count() - calls, calls / 2, "only this run began again");
}

#[test]
fn recorded_votes_can_be_counted_by_other_rules() {
    // Three judges rank a first and b second; two judges rank b first and a last.
    let script = Script::from_fn(|request: &RecordedRequest| {
        if !request.tool_names().contains(&"vote") {
            return Reply::new_answer(&format!("Answer of {}", request.model()));
        }
        match request.model() {
            "model-a" | "model-b" => {
                Reply::ranking(&["agent1", "agent2", "agent3", "agent4", "agent5"], "first")
            }
            "model-c" => Reply::ranking(&["agent1", "agent2"], "first"),
            _ => Reply::ranking(&["agent2", "agent3", "agent4", "agent5", "agent1"], "second"),
        }
    });
    let fixture = Fixture::with(5, script, |team| team.rule("final_answer_strategy", "winner_reuse"));
    let result = fixture.result(&["task"]);
    // Borda: a has 4 + 4 + 4 + 0 + 0 points, b has 3 + 3 + 3 + 4 + 4.
    assert_eq!(result["coordination_summary"]["winner"], "b");
    let calls = fixture.server.request_count();
    let args = ["recount", "latest", "--rules", "plurality,borda", "--json"];
    let output = run(&fixture.althing, &args).expect_code(0);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let rules = &report[0]["rules"];
    assert_eq!(
        (&rules[0]["rule"], &rules[0]["winner"], &rules[0]["changed"]),
        (&json!("plurality"), &json!("a"), &json!(true))
    );
    assert_eq!(rules[0]["votes"], json!({"a": 3, "b": 2}));
    assert_eq!((&rules[1]["winner"], &rules[1]["changed"]), (&json!("b"), &json!(false)));
    assert_eq!(rules[1]["decision"]["points"]["b"], 17);
    let text = run(&fixture.althing, &["recount", "latest"]).expect_code(0).stdout;
    assert!(text.contains("b won") && text.contains("plurality: a wins by plurality"), "{text}");
    assert_eq!(fixture.server.request_count(), calls);
    run(&fixture.althing, &["recount", "nothing-like-that"]).expect_code(1);
}

/// All files of this name below a directory.
fn find_files(dir: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries
        .flat_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => find_files(&entry.path(), name),
            _ if entry.file_name() == name => vec![entry.path()],
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn the_record_of_an_evaluation_that_somebody_planted_is_not_written() {
    let althing = althing();
    let evaluate = |home: &Path| {
        let command = althing.new_command().env("ALTHING_STATE_DIR", "").env("HOME", home);
        let command = command.env("XDG_STATE_HOME", home.join("state"));
        command.args(["eval", "tasks.jsonl"]).spawn().wait(LIMIT).expect_code(0);
    };
    althing.file("tasks.jsonl", sums(1));
    let agents = json!([{"id": "one", "backend": {"type": "offline", "model": "offline-a"}}]);
    althing.file("althing.yaml", json!({"agents": agents}).to_string());
    // The author of the working directory learns the id of the evaluation, and plants links to a file of the user where
    // the evaluation's record and lock will be written.
    let author = althing.work_dir().join("author");
    evaluate(&author);
    let state_dir = althing.work_dir().join(".althing");
    let records = [find_files(&author, "runs.jsonl"), find_files(&state_dir, "runs.jsonl")].concat();
    let id = records[0].parent().unwrap().file_name().unwrap().to_owned();
    std::fs::remove_dir_all(&state_dir).unwrap();
    let (planted, victim) = (state_dir.join("evals").join(id), althing.work_dir().join("profile"));
    std::fs::create_dir_all(&planted).unwrap();
    std::fs::write(&victim, "own\n").unwrap();
    for name in ["runs.jsonl", "lock"] {
        std::os::unix::fs::symlink(&victim, planted.join(name)).unwrap();
    }
    evaluate(&althing.work_dir().join("user"));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "own\n");
}
