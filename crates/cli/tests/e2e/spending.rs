//! `althing sessions cost`: what was spent.

use std::collections::BTreeSet;

use althing_testkit::{RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::hostile::{HOSTILE, first_terminal_control};
use super::reports::{TASK, json_of, told};
use super::scripted_claude;
use super::support::{Fixture, LIMIT, run};

#[test]
fn costs_are_grouped_by_model_agent_project_and_day() {
    let fixture = Fixture::with(3, Script::parliament(), |team| {
        ["model-a", "model-b", "model-c"].into_iter().fold(team, |team, model| team.price(model, 1000.0))
    });
    let one = fixture.result(&[TASK])["usage"].clone();
    let two = fixture.result(&[TASK])["usage"].clone();
    let dollars = one["cost_usd"].as_f64().unwrap() + two["cost_usd"].as_f64().unwrap();
    let by = |group: &str| json_of(&told(&fixture, &["cost", "--by", group, "--json"]));
    let names = |costs: &Value, group: &str| -> BTreeSet<String> {
        let rows = costs["rows"].as_array().unwrap().iter();
        rows.map(|row| row[group].as_str().unwrap().to_owned()).collect()
    };
    let models = by("model");
    assert_eq!(names(&models, "model"), ["model-a", "model-b", "model-c"].map(String::from).into());
    assert_eq!(names(&by("agent"), "agent"), ["a", "b", "c"].map(String::from).into());
    let here = fixture.althing.work_dir().canonicalize().unwrap().display().to_string();
    assert_eq!(names(&by("project"), "project"), [here].into());
    assert_eq!(by("day")["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(models["sessions"], 2);
    let total = models["total"]["cost_usd"].as_f64().unwrap();
    assert!((total - dollars).abs() < 1e-9, "{total} {dollars}");
    assert_eq!(models["total"]["calls"], one["calls"].as_u64().unwrap() + two["calls"].as_u64().unwrap());
    let shown = told(&fixture, &["cost"]);
    for part in ["model-b", "total", &format!("${dollars:.4}"), "█", "2 sessions"] {
        assert!(shown.contains(part), "`{part}` is missing:\n{shown}");
    }
}

#[test]
fn only_what_was_spent_since_the_given_time_counts() {
    let fixture = Fixture::new(1, Script::parliament());
    assert_eq!(told(&fixture, &["cost"]), "no model calls\n");
    fixture.run(&[TASK]).expect_code(0);
    let calls = |args: &[&str]| {
        let costs = json_of(&told(&fixture, &[&["cost", "--json"], args].concat()));
        costs["total"]["calls"].as_u64().unwrap()
    };
    assert!(calls(&["--since", "1d"]) > 0);
    assert_eq!(calls(&["--since", "0m"]), 0);
    let wrong = run(&fixture.althing, &["sessions", "cost", "--since", "yesterday"]).expect_code(1);
    assert!(wrong.stderr.contains("7d"), "{}", wrong.stderr);
}

#[test]
fn a_cost_that_is_not_known_is_called_unknown_and_never_zero() {
    // A CLI agent that reports no cost, and whose model has no known price.
    let mut fixture = Fixture::with(1, Script::parliament(), |team| {
        team.price("model-a", 1000.0)
            .agent("helper", &json!({"type": "claude_code", "model": "secret-model"}))
    });
    fixture.althing = scripted_claude::on_pipes(&fixture.althing);
    fixture.run(&[TASK]).expect_code(0);
    let costs = json_of(&told(&fixture, &["cost", "--by", "agent", "--json"]));
    let row = |agent: &str| {
        let rows = costs["rows"].as_array().unwrap();
        rows.iter().find(|row| row["agent"] == agent).unwrap_or_else(|| panic!("{agent}: {costs}")).clone()
    };
    assert!(row("a")["cost_usd"].as_f64().unwrap() > 0.0, "{costs}");
    assert_eq!(row("helper")["cost_usd"], Value::Null, "{costs}");
    assert!(row("helper")["unpriced_calls"].as_u64().unwrap() > 0, "{costs}");
    let shown = told(&fixture, &["cost", "--by", "agent"]);
    let line = shown.lines().find(|line| line.contains("helper")).unwrap_or_default();
    assert!(line.contains("unknown") && !line.contains('$'), "{shown}");
    assert!(shown.contains("The price is not known for"), "{shown}");
    assert!(
        told(&fixture, &["show", "latest"]).contains("unknown for"),
        "{}",
        told(&fixture, &["show", "latest"])
    );
}

#[test]
fn answers_reach_the_terminal_only_as_text() {
    let fixture = Fixture::new(1, Script::from_fn(|_: &RecordedRequest| Reply::new_answer(HOSTILE)));
    fixture.run(&["--quick", HOSTILE]);
    for args in
        [&["show", "latest"][..], &["prompt", "latest", "a"], &["cost"], &["show", "latest", "--json"]]
    {
        let command = fixture.althing.new_command().arg("sessions").args(args).env("NO_COLOR", "1");
        let mut terminal = command.terminal(200, 50);
        terminal.wait(LIMIT);
        let shown = String::from_utf8_lossy(&terminal.raw()).replace("\r\n", "\n");
        assert_eq!(first_terminal_control(&shown), None, "{args:?}: {shown:?}");
    }
    let report = std::fs::read_to_string(fixture.session().join("tasks/r1/report.md")).unwrap();
    assert_eq!(first_terminal_control(&report), None, "{report:?}");
}
