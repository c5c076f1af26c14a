//! The real CLI agents are found with their versions and logins, work where Landlock is the only sandbox, and wait
//! while their service limits the rate of requests.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use althing_testkit::{
    Action, FakeModel, Fault, FaultMoment, Machine, RecordedRequest, Reply, RetryAfter, Script,
};
use serde_json::{Value, json};

use super::programs::{
    START_TIMEOUT, cli_agent_of, headless, internal_reply, passed, programs, shell_call, with_programs,
};
use super::support::{bare, run};

const CLIS: [(&str, &str); 4] = [
    ("claude_code", "@anthropic-ai/claude-code"),
    ("codex", "@openai/codex"),
    ("gemini_cli", "@google/gemini-cli"),
    ("opencode", "opencode-ai"),
];

fn installed_version(dir: &Path, package: &str) -> String {
    let file = dir.parent().unwrap().join(package).join("package.json");
    let about: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    about["version"].as_str().unwrap().to_owned()
}

#[test]
fn each_real_cli_agent_is_found_with_its_version_and_login() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::parliament());
    let signed_in = with_programs(&dir, &server);
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    let unknown = bare().env("PATH", path);
    for (althing, is_signed_in) in [(signed_in, true), (unknown, false)] {
        let found: Value =
            serde_json::from_str(&run(&althing, &["agents", "--json"]).expect_code(0).stdout).unwrap();
        for (kind, package) in CLIS {
            let rows = found["backends"].as_array().unwrap();
            let row = rows.iter().find(|row| row["name"] == kind).unwrap();
            let version = row["version"].as_str().unwrap_or_default();
            assert!(version.contains(&installed_version(&dir, package)), "{row}");
            assert_eq!((&row["usable"], &row["signed_in"]), (&json!(true), &json!(is_signed_in)), "{row}");
        }
    }
    for (kind, _) in CLIS {
        passed(kind);
    }
}

fn report(althing: &althing_testkit::Althing, tasks: &[Value]) -> Value {
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": tasks}]});
    althing.file("flow.yaml", flow.to_string());
    let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--json"]);
    let output = command.spawn().wait(START_TIMEOUT);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn real_cli_agents_that_landlock_confines_write_to_the_directories_that_exist() {
    let Some(dir) = programs() else { return };
    let script = Script::from_fn(|request: &RecordedRequest| {
        let name = cli_agent_of(request);
        let is_done = request.body().to_string().contains("tried-it");
        let command = format!("echo x > kept/{name}.txt; echo x > ../home/{name}.txt; echo tried-''it");
        let call = || shell_call(request, &command, None).filter(|_| !is_done);
        internal_reply(request).or_else(call).unwrap_or_else(|| Reply::text("all done"))
    });
    let server = FakeModel::start_on_thread(script);
    let althing = with_programs(&dir, &server);
    let althing = althing.on(Machine { bubblewrap: false, ..Machine::from_environment() });
    std::fs::create_dir(althing.work_dir().join("kept")).unwrap();
    // Without bubblewrap, Gemini CLI is refused before it starts.
    let clis = ["claude", "codex", "opencode"];
    let report = report(&althing, &clis.map(|cli| headless(cli, cli, "Write it")));
    for task in report["stages"][0]["tasks"].as_array().unwrap() {
        assert_eq!((&task["status"], &task["output"]), (&json!("DONE"), &json!("all done")), "{task}");
    }
    for cli in clis {
        let file = format!("{cli}.txt");
        assert!(althing.work_dir().join("kept").join(&file).exists(), "{cli} wrote nothing: {report:#}");
        assert!(!althing.home_dir().join(&file).exists(), "{cli} wrote outside its sandbox");
        passed(cli);
    }
}

#[test]
fn a_rate_limit_that_passes_does_not_fail_the_task_of_a_cli_agent() {
    let Some(dir) = programs() else { return };
    let limited = Mutex::new(BTreeSet::new());
    let script = Script::from_fn(move |request: &RecordedRequest| {
        if limited.lock().unwrap().insert(cli_agent_of(request)) {
            return Action::Fault(Fault::RateLimited(RetryAfter::Seconds(1)), FaultMoment::BeforeHeaders);
        }
        Action::from(internal_reply(request).unwrap_or_else(|| Reply::text("all done")))
    });
    let server = FakeModel::start_on_thread(script);
    let althing = with_programs(&dir, &server);
    let clis = ["claude", "codex", "gemini", "opencode"];
    let report = report(&althing, &clis.map(|cli| headless(cli, cli, "Do it")));
    for task in report["stages"][0]["tasks"].as_array().unwrap() {
        assert_eq!((&task["status"], &task["output"]), (&json!("DONE"), &json!("all done")), "{task}");
    }
    clis.into_iter().for_each(passed);
}
