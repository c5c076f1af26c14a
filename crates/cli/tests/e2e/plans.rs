//! Plans from the command line: made, kept, carried out.

use serde_json::Value;

use super::support::{althing, run};

fn result(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

#[test]
fn a_plan_is_kept_and_carried_out_by_id_or_as_the_latest() {
    let althing = althing();
    let planned = run(&althing, &["--offline", "--plan", "--json", "Write a word counter"]).expect_code(0);
    let planned = result(&planned.stdout);
    assert_eq!(planned["modes"]["planning"], true);
    let (id, path) = (planned["plan"]["id"].as_str().unwrap(), planned["plan"]["path"].as_str().unwrap());
    let on_disk: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{path}/plan.json")).unwrap()).unwrap();
    assert_eq!(on_disk["tasks"][0]["id"], "goal");
    for which in [id, path, "latest"] {
        let done = run(&althing, &["--offline", "--execute-plan", which, "--json"]).expect_code(0);
        let done = result(&done.stdout);
        assert_eq!(done["modes"]["planning"], false);
        assert_eq!(done["task"], "Write a word counter");
    }
    let events = althing.events();
    let created = events.iter().find(|event| event["data"]["spec"]["kind"] == "run").unwrap();
    assert!(created["data"]["spec"]["context"].as_str().unwrap().contains("first-version"));
}

#[test]
fn planning_and_execution_follow_each_other_and_one_answer_is_printed() {
    let althing = althing();
    let output =
        run(&althing, &["--offline", "--plan-and-execute", "--json", "Write a word counter"]).expect_code(0);
    assert_eq!(output.stdout.lines().count(), 1, "{}", output.stdout);
    assert_eq!(result(&output.stdout)["modes"]["planning"], false);
    assert!(output.stderr.contains("plan kept in"), "{}", output.stderr);
}

#[test]
fn a_plan_that_is_not_there_is_said_and_nothing_starts() {
    let althing = althing();
    for which in ["latest", "no-such-plan"] {
        let output = run(&althing, &["--offline", "--execute-plan", which, "--automation"]).expect_code(1);
        assert!(output.stderr.contains("there is no plan"), "{}", output.stderr);
    }
    assert!(!althing.state_dir().join("sessions").exists());
}
