//! Workflows of headless tasks: stages, templates, runs as tasks, failures, and what survives a `kill -9`.

use std::path::PathBuf;
use std::time::Duration;

use althing_testkit::process::{Signal, newest_session, wait_for_event};
use althing_testkit::{Action, Althing, Gate, Script, wait};
use serde_json::{Value, json};

use super::scripted_claude;
use super::support::{Fixture, LIMIT, althing, run};

/// How long nothing may happen before the test concludes that nothing will.
const QUIET_TIME: Duration = Duration::from_millis(700);

fn script(id: &str, script: &str) -> Value {
    json!({"id": id, "agent": "command", "command": ["sh", "-c", script], "executionMode": "headless", "prompt": ""})
}

fn workflow(althing: &Althing, stages: &[Vec<Value>]) -> PathBuf {
    let stages: Vec<Value> = stages
        .iter()
        .enumerate()
        .map(|(n, tasks)| json!({"name": format!("stage-{n}"), "tasks": tasks}))
        .collect();
    let file = json!({"name": "release", "goal": "Ship 2.0", "stages": stages});
    althing.file("flow.yaml", format!("{file:#}"))
}

fn report(althing: &Althing, code: i32) -> Value {
    let output = run(althing, &["workflow", "run", "flow.yaml", "--offline", "--json"]).expect_code(code);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

fn checkpoint(althing: &Althing) -> Value {
    let session = newest_session(&althing.state_dir()).expect("a session");
    serde_json::from_str(&std::fs::read_to_string(session.join("session.json")).unwrap()).unwrap()
}

// spec: core/session-context/goal-persistence
#[test]
fn stages_run_in_order_and_outputs_go_into_later_prompts() {
    let althing = althing();
    let mut second = script("use", "cat");
    second["prompt"] = "got [{{count.output}}] for {{goal}}".into();
    workflow(&althing, &[vec![script("count", "echo three"), script("other", "true")], vec![second]]);
    let report = report(&althing, 0);
    assert_eq!(report["status"], "DONE");
    assert_eq!(report["goal"], "Ship 2.0");
    assert_eq!(report["stages"][0]["tasks"][0]["output"], "three\n");
    assert_eq!(report["stages"][1]["tasks"][0]["output"], "got [three] for Ship 2.0");
    assert_eq!(report["stages"][1]["tasks"][0]["exitCode"], 0);
    assert!(report["session_id"].is_string() && report["log_dir"].is_string());
    let checkpoint = checkpoint(&althing);
    assert_eq!(checkpoint["goal"], "Ship 2.0");
    assert_eq!(checkpoint["kind"], "workflow");
    assert_eq!(checkpoint["state"], "DONE");
}

// spec: core/session-context/goal-persistence
#[test]
fn the_goal_is_in_the_prompts_of_tasks_of_every_kind_and_still_after_a_resume() {
    let fixture = Fixture::new(1, Script::parliament());
    let althing = &fixture.althing;
    let file = |name: &str| althing.work_dir().join(name);
    let listens = "echo Ready for your command; IFS= read -r line; echo \"$line\" > $NOTES";
    let listener = json!({"program": "bash", "args": ["-c", listens], "ready": "Ready for your command",
        "env": {"NOTES": file("typed")}});
    let team =
        json!({"task": "Write about {{goal}}", "context": "We want to: {{goal}}", "agent_mode": "single"});
    let in_terminal = json!({"id": "terminal", "agent": "listener", "executionMode": "interactive",
        "prompt": "build {{goal}}"});
    let waits = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done",
        file("begun").display(),
        file("go").display()
    );
    let mut last = script("last", "cat");
    last["prompt"] = "still: {{goal}}".into();
    let stages = [json!({"id": "team", "run": team}), in_terminal, script("held", &waits), last];
    let stages: Vec<Value> = stages.iter().map(|task| json!({"name": task["id"], "tasks": [task]})).collect();
    let flow =
        json!({"name": "release", "goal": "Ship 2.0", "adapters": {"listener": listener}, "stages": stages});
    althing.file("flow.yaml", flow.to_string());
    let running = fixture.spawn(&["workflow", "run", "flow.yaml"]);
    wait::until(LIMIT, || file("begun").exists());
    let request = &fixture.server.requests()[0];
    let text = super::support::texts(request);
    assert_eq!(super::support::task_of(&text), Some("Write about Ship 2.0"), "{text}");
    assert!(text.contains(">\nWe want to: Ship 2.0\n<END OF CONTEXT "), "{text}");
    assert_eq!(std::fs::read_to_string(file("typed")).unwrap(), "build Ship 2.0\n");
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    std::fs::write(file("go"), "").unwrap();
    let resumed = run(althing, &["resume", "--json"]).expect_code(0);
    let report: Value = serde_json::from_str(&resumed.stdout).unwrap();
    assert_eq!((&report["status"], &report["goal"]), (&json!("DONE"), &json!("Ship 2.0")), "{report}");
    assert_eq!(report["stages"][3]["tasks"][0]["output"], "still: Ship 2.0", "{report}");
}

// spec: core/session-persistence/checkpoint-saving
// spec: core/configurable-stage-based-pipeline/parallel-task-execution
#[test]
fn the_checkpoint_follows_every_change_of_a_task() {
    let althing = althing();
    let go = althing.work_dir().join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.02; done", go.display());
    workflow(
        &althing,
        &[vec![script("first", "true")], vec![script("second", &wait), script("third", "exit 7")]],
    );
    let running = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]).spawn();
    let of = |checkpoint: &Value, id: &str| {
        let tasks = checkpoint["stages"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|stage| stage["tasks"].as_array().unwrap());
        tasks.into_iter().find(|task| task["id"] == id).unwrap().clone()
    };
    wait::until(LIMIT, || {
        newest_session(&althing.state_dir()).is_some_and(|session| session.join("session.json").exists()) && {
            let now = checkpoint(&althing);
            of(&now, "third")["status"] == "FAILED" && of(&now, "second")["status"] == "RUNNING"
        }
    });
    let now = checkpoint(&althing);
    assert_eq!(now["currentStageIndex"], 1);
    assert_eq!(now["state"], "RUNNING");
    assert_eq!(of(&now, "first")["status"], "DONE");
    assert_eq!(of(&now, "third")["exitCode"], 7);
    std::fs::write(go, "").unwrap();
    running.wait(LIMIT).expect_code(2);
    assert_eq!(checkpoint(&althing)["state"], "FAILED");
}

// spec: core/configurable-stage-based-pipeline/parallel-task-execution
#[test]
fn the_programs_of_a_stage_run_at_the_same_time_and_the_next_stage_begins_after_the_last_has_ended() {
    let althing = althing();
    let file = |name: &str| althing.work_dir().join(name).display().to_string();
    let wait_for = |name: &str| {
        let limit = "n=$((n+1)); [ $n -lt 6000 ] || exit 9";
        format!("n=0; while [ ! -e {} ]; do sleep 0.02; {limit}; done", file(name))
    };
    // Each task ends only after the other has begun. The slow task continues for a while after the fast task has ended,
    // but stops early if the next stage begins.
    let go_on =
        format!("n=0; while [ ! -e {} ] && [ $n -lt 35 ]; do sleep 0.02; n=$((n+1)); done", file("next"));
    let end = |name: &str| format!("echo {name} >> {}; touch {}", file("ends"), file(&format!("{name}-end")));
    let slow = [format!("touch {}", file("slow")), wait_for("fast-end"), go_on, end("slow")].join("; ");
    let mut slow = script("slow", &slow);
    slow["executionMode"] = "interactive".into();
    let fast = [format!("touch {}", file("fast")), wait_for("slow"), end("fast")].join("; ");
    let next = format!("touch {}; echo next >> {1}; cat {1}", file("next"), file("ends"));
    let (fast, next) = (script("fast", &fast), script("next", &next));
    workflow(&althing, &[vec![slow, fast], vec![next]]);
    let report = report(&althing, 0);
    assert_eq!(report["stages"][1]["tasks"][0]["output"], "fast\nslow\nnext\n", "{report}");
}

// spec: core/configurable-stage-based-pipeline/parallel-task-execution
#[test]
fn the_runs_of_a_stage_work_at_the_same_time_and_the_next_stage_waits_for_all_of_them() {
    let gates = [Gate::before_headers(), Gate::before_headers()];
    let held = |gate: &Gate| Action::gated(Action::Usual, gate);
    let script_of_models =
        Script::parliament().on("model-a").nth(0, held(&gates[0])).on("model-b").nth(0, held(&gates[1]));
    let fixture = Fixture::new(2, script_of_models);
    let run = |id: &str, agent: &str| {
        let run = json!({"task": format!("Task of {agent}"), "agent_mode": "single", "agents": [agent], "refinement": false});
        json!({"id": id, "run": run})
    };
    let mut next = script("next", "cat");
    next["prompt"] = "<{{one.output}}> <{{two.output}}>".into();
    workflow(&fixture.althing, &[vec![run("one", "a"), run("two", "b")], vec![next]]);
    let running = fixture.spawn(&["workflow", "run", "flow.yaml", "--json"]);
    for gate in &gates {
        gate.wait_waiting_blocking(1, LIMIT);
    }
    gates[0].release_all();
    let state_dir = fixture.althing.state_dir();
    wait_for_event(&state_dir, LIMIT, |event| event["task"] == "w1.one" && event["data"]["status"] == "DONE");
    let begun = || fixture.althing.events().iter().any(|event| event["task"] == "w1.next");
    assert!(!wait::holds_within(QUIET_TIME, begun), "the next stage began before the second run had ended");
    gates[1].release_all();
    let output = running.wait(LIMIT).expect_code(0);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let output = &report["stages"][1]["tasks"][0]["output"];
    assert_eq!(output, "<Final answer of model-a> <Final answer of model-b>", "{report}");
}

#[test]
fn a_failed_task_stops_the_stages_after_it_unless_it_may_fail() {
    let althing = althing();
    let stages = |first: Value| [vec![first], vec![script("next", "echo on")]];
    workflow(&althing, &stages(script("bad", "echo oh no >&2; exit 3")));
    let failed = report(&althing, 2);
    assert_eq!(failed["status"], "FAILED");
    assert_eq!(failed["stages"][1]["tasks"][0]["status"], "PENDING");
    assert!(failed["error"].as_str().unwrap().contains("bad"), "{failed}");
    let mut may_fail = script("bad", "exit 3");
    may_fail["continue_on_failure"] = true.into();
    workflow(&althing, &stages(may_fail));
    let went_on = report(&althing, 2);
    assert_eq!(went_on["stages"][1]["tasks"][0]["output"], "on\n");
}

#[test]
fn no_task_in_a_sandbox_writes_to_a_protected_path_of_the_config_headless_or_in_a_terminal() {
    let althing = althing();
    let file = |name: &str| althing.work_dir().join("project").join(name);
    for name in ["locked/file", "kept"] {
        std::fs::create_dir_all(file(name).parent().unwrap()).unwrap();
        std::fs::write(file(name), "before").unwrap();
    }
    // A link to the directory in which the task works does not bypass the protection.
    std::os::unix::fs::symlink(althing.work_dir().join("project"), althing.work_dir().join("link")).unwrap();
    let team = json!({
        "agents": [{"id": "a", "backend": {"type": "offline"}}],
        "orchestrator": {"context_paths": [{"path": "project", "permission": "write", "protected_paths": ["locked"]}]},
    });
    althing.file("team.yaml", team.to_string());
    for (mode, cwd) in [("headless", "project"), ("interactive", "project"), ("headless", "link")] {
        let mut task = script("act", "printf changed > kept; printf changed > locked/file; true");
        for (key, value) in [("executionMode", json!(mode)), ("cwd", json!(cwd)), ("sandbox", json!(true))] {
            task[key] = value;
        }
        workflow(&althing, &[vec![task]]);
        run(&althing, &["workflow", "run", "flow.yaml", "--config", "team.yaml", "--json"]).expect_code(0);
        let text = |name: &str| std::fs::read_to_string(file(name)).unwrap();
        assert_eq!([text("kept"), text("locked/file")], ["changed", "before"], "{mode} in {cwd}");
        std::fs::write(file("kept"), "before").unwrap();
    }
}

// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn a_run_that_plans_and_executes_gives_the_executions_answer_to_the_next_stage() {
    let althing = althing();
    let run = json!({"task": "Write a word counter", "planning_mode": true, "execute_after_planning": true});
    let mut next = script("use", "cat");
    next["prompt"] = "got [{{team.output}}]".into();
    workflow(&althing, &[vec![json!({"id": "team", "run": run})], vec![next]]);
    let report = report(&althing, 0);
    assert_eq!(report["status"], "DONE");
    let events = althing.events();
    let finished = |task: &str| {
        let found =
            events.iter().find(|event| event["data"]["verdict"] == "finished" && event["task"] == task);
        found.unwrap_or_else(|| panic!("{task} has not ended"))["data"]["result"].clone()
    };
    let (planned, executed) = (finished("w1.team"), finished("w1.team.execution"));
    assert!(planned["plan"]["path"].is_string() && planned["follow_up"] == executed["run_id"], "{planned}");
    let team = &report["stages"][0]["tasks"][0];
    assert_eq!((&team["status"], &team["output"]), (&json!("DONE"), &executed["final_answer"]));
    let used = report["stages"][1]["tasks"][0]["output"].as_str().unwrap();
    assert_eq!(used, format!("got [{}]", executed["final_answer"].as_str().unwrap().trim_end()));
    assert_eq!(checkpoint(&althing)["state"], "DONE");
}

// spec: core/strict-output-isolation/silent-execution
#[test]
fn nothing_that_a_task_prints_reaches_our_own_output_and_all_of_it_is_in_the_events() {
    let althing = althing();
    let noisy = r"printf 'one\033[31mRED\033[0m\n'; echo canary-err >&2; sleep 0.05";
    let mut in_terminal =
        script("terminal", r"printf 'two\033[32mGREEN\033[0m\n'; echo canary-tty > /dev/tty");
    in_terminal["executionMode"] = "interactive".into();
    workflow(&althing, &[vec![script("noisy", noisy), in_terminal], vec![script("quiet", "true")]]);
    let output = run(&althing, &["workflow", "run", "flow.yaml", "--offline"]).expect_code(0);
    for text in ["RED", "canary-err", "GREEN", "canary-tty"] {
        assert!(!output.stdout.contains(text) && !output.stderr.contains(text), "{text}: {output:?}");
    }
    let streamed =
        run(&althing, &["workflow", "run", "flow.yaml", "--offline", "--stream-events=all"]).expect_code(0);
    let lines: Vec<Value> = streamed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let joined = |task: &str, field: &str| -> String {
        let outputs = lines.iter().filter(|line| line["type"] == "output" && line["task"] == task);
        outputs.filter_map(|line| line[field].as_str()).collect()
    };
    assert!(joined("w1.noisy", "raw").contains("\u{1b}[31mRED"), "{lines:?}");
    let clean = joined("w1.noisy", "clean");
    assert!(clean.contains("oneRED") && clean.contains("canary-err"), "{clean}");
    assert!(joined("w1.terminal", "raw").contains("\u{1b}[32mGREEN"), "{lines:?}");
    let clean = joined("w1.terminal", "clean");
    assert!(clean.contains("twoGREEN") && clean.contains("canary-tty"), "{clean}");
}

#[test]
fn a_task_cannot_lead_a_later_task_to_another_directory() {
    let althing = althing();
    for dir in ["sub", "elsewhere"] {
        std::fs::create_dir(althing.work_dir().join(dir)).unwrap();
    }
    let replace = script("replace", "rmdir sub; ln -s elsewhere sub");
    let mut later = script("later", "touch here");
    later["cwd"] = "sub".into();
    workflow(&althing, &[vec![replace], vec![later]]);
    let output = run(&althing, &["workflow", "run", "flow.yaml"]).expect_code(2);
    let told = format!("{}{}", output.stdout, output.stderr);
    assert!(told.contains("was replaced by a symbolic link"), "{told}");
    assert!(!althing.work_dir().join("elsewhere/here").exists());
}

#[test]
fn a_run_of_agents_is_a_task_and_its_answer_is_passed_on() {
    let fixture = Fixture::new(2, Script::parliament());
    let mut after = script("after", "cat");
    after["prompt"] = "<{{team.output}}>".into();
    let team = json!({"id": "team", "run": {"task": "Write about {{before.output}}", "refinement": true}});
    workflow(&fixture.althing, &[vec![script("before", "echo the log")], vec![team], vec![after]]);
    let output =
        fixture.command(&["workflow", "run", "flow.yaml", "--json"]).spawn().wait(LIMIT).expect_code(0);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let answer = report["stages"][1]["tasks"][0]["output"].as_str().unwrap().to_owned();
    assert!(!answer.is_empty(), "{report}");
    assert_eq!(report["stages"][2]["tasks"][0]["output"], format!("<{}>", answer.trim_end()));
    assert_eq!(fixture.server.requests().len(), 5, "2N + 1, as every run");
    let first = super::support::texts(&fixture.server.requests()[0]);
    let (_, task) = first.split_once("Write about \n<output of before ").expect("the template is filled in");
    let (token, task) = task.split_once(">\n").unwrap();
    assert!(task.starts_with(&format!("the log\n<end of output of before {token}>\n")), "{first}");
}

#[test]
fn the_limits_of_the_command_line_apply_to_the_runs_of_a_workflow() {
    let fixture = Fixture::new(1, Script::parliament());
    workflow(&fixture.althing, &[vec![json!({"id": "team", "run": {"task": "Write"}})]]);
    let limits = ["--orchestrator-timeout", "77", "--max-cost", "0.5"];
    fixture.command(&["workflow", "run", "flow.yaml"]).args(limits).spawn().wait(LIMIT).expect_code(0);
    let events = fixture.althing.events();
    let run = events.iter().find(|event| event["data"]["spec"]["kind"] == "run").unwrap();
    let limits = &run["data"]["spec"]["rules"]["limits"];
    assert_eq!((&limits["orchestrator"], &limits["cost_micro_usd"]), (&json!(77_000), &json!(500_000)));
}

/// Each call costs 30 cents. If its prompt says so, the CLI agent waits forever.
const COSTLY_CLAUDE: &str = r#"#!/bin/sh
case "$(cat)" in *forever*) sleep 3000;; esac
id=$(cat /proc/sys/kernel/random/uuid)
echo '{"type":"system","subtype":"init","session_id":"'$id'"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"'$id'","total_cost_usd":0.3}'
"#;

fn claude(id: &str, prompt: &str) -> Value {
    json!({"id": id, "agent": "claude", "executionMode": "headless", "prompt": prompt})
}

#[test]
fn the_cost_limit_of_a_workflow_applies_to_all_its_tasks_together() {
    let mut fixture = Fixture::new(1, Script::parliament());
    fixture.althing = scripted_claude::install(&fixture.althing, COSTLY_CLAUDE);
    let (first, team) = (claude("first", "go"), json!({"id": "team", "run": {"task": "Write"}}));
    let parallel = vec![claude("second", "go"), claude("waits", "wait forever")];
    workflow(&fixture.althing, &[vec![first], vec![team], parallel, vec![script("last", "touch ran")]]);
    let command = fixture.command(&["workflow", "run", "flow.yaml", "--max-cost", "0.5", "--json"]);
    let output = command.spawn().wait(LIMIT).expect_code(2);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    // A run may spend what is left when it starts.
    let events = fixture.althing.events();
    let run = events.iter().find(|event| event["data"]["spec"]["kind"] == "run").unwrap();
    assert_eq!(run["data"]["spec"]["rules"]["limits"]["cost_micro_usd"], 200_000);
    let task = |stage: usize, task: usize| &report["stages"][stage]["tasks"][task];
    assert_eq!(
        (&task(2, 0)["status"], &task(2, 1)["status"]),
        (&json!("DONE"), &json!("FAILED")),
        "{report}"
    );
    let limit = "reached its cost limit (`--max-cost`)";
    for error in [&task(2, 1)["error"], &report["error"]] {
        assert!(error.as_str().is_some_and(|error| error.contains(limit)), "{report}");
    }
    assert_eq!(task(3, 0)["status"], "PENDING", "{report}");
    assert!(!fixture.althing.work_dir().join("ran").exists());
    // If no task is running when the limit is reached, the error of the workflow says why it ended.
    let stages = ["a", "b", "c"].map(|id| vec![claude(id, "go")]);
    workflow(&fixture.althing, &stages);
    let command = fixture.command(&["workflow", "run", "flow.yaml", "--max-cost", "0.5"]);
    let output = command.spawn().wait(LIMIT).expect_code(2);
    let told = format!("{}{}", output.stdout, output.stderr);
    assert!(told.contains(limit) && told.contains("$0.6000 of $0.5000"), "{told}");
    let started = fixture.althing.events().into_iter().filter(|event| event["type"] == "attempt_started");
    assert_eq!(started.count(), 2, "the third task is not started");
}

#[test]
fn a_limit_on_cost_is_refused_for_a_task_whose_cost_cannot_be_known() {
    let mut in_terminal = claude("t", "go");
    in_terminal["executionMode"] = "interactive".into();
    let mut codex = claude("t", "go");
    codex["agent"] = "codex".into();
    let mut own = claude("t", "go");
    own["agent"] = "own".into();
    for (task, why) in [(in_terminal, "in a terminal"), (codex, "prices: {codex:"), (own, "custom adapter")] {
        let althing = scripted_claude::install(&althing(), COSTLY_CLAUDE);
        let adapters = json!({"own": {"program": "true", "headless_args": ["{prompt}"]}});
        let stages = json!([{"name": "s", "tasks": [task]}]);
        let file = json!({"name": "n", "goal": "g", "stages": stages, "adapters": adapters});
        althing.file("flow.yaml", file.to_string());
        let output = run(&althing, &["workflow", "run", "flow.yaml", "--max-cost", "1"]).expect_code(1);
        let stderr = &output.stderr;
        assert!(
            stderr.contains("task t: `--max-cost` cannot limit its cost") && stderr.contains(why),
            "{stderr}"
        );
        assert!(!althing.state_dir().join("sessions").exists(), "nothing was started");
    }
}

// spec: core/session-persistence/resume-capability
#[test]
fn after_kill_9_in_stage_two_nothing_is_left_running_and_resume_finishes_without_repeating_stage_one() {
    let althing = althing();
    let diary = althing.work_dir().join("diary");
    let (go, pids) = (althing.work_dir().join("go"), althing.work_dir().join("pids"));
    let write = |what: &str| format!("echo {what} >> {}", diary.display());
    // A child that left the process session and process group must be ended as well.
    let lives = format!(
        "{}; echo $$ >> {pids}; setsid sh -c 'echo $$ >> {pids}; exec sleep 3000' & sleep 3000 & echo $! >> {pids}; \
         while [ ! -e {go} ]; do sleep 0.02; done",
        write("two"),
        pids = pids.display(),
        go = go.display()
    );
    workflow(
        &althing,
        &[
            vec![script("one", &write("one"))],
            vec![script("two", &lives)],
            vec![script("three", &write("three"))],
        ],
    );
    let running = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]).spawn();
    let started = || std::fs::read_to_string(&pids).unwrap_or_default().lines().count() >= 3;
    wait::until(LIMIT, started);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let alive = || {
        let all = std::fs::read_to_string(&pids).unwrap_or_default();
        all.lines().filter(|pid| is_alive(pid)).map(str::to_owned).collect::<Vec<_>>()
    };
    wait::until(LIMIT, || alive().is_empty());
    std::fs::write(&go, "").unwrap();
    let resumed = run(&althing, &["resume", "--json"]).expect_code(0);
    let report: Value = serde_json::from_str(&resumed.stdout).unwrap();
    assert_eq!(report["status"], "DONE");
    assert_eq!(
        std::fs::read_to_string(&diary).unwrap(),
        "one\ntwo\ntwo\nthree\n",
        "only the cut task is repeated"
    );
    let stages: Vec<Value> = althing
        .events()
        .into_iter()
        .filter(|event| event["type"] == "phase_changed")
        .map(|event| event["data"]["phase"]["stage"].clone())
        .collect();
    assert_eq!(stages, [json!(0), json!(1), json!(2)], "the stage never goes back");
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_signal_stops_the_tasks_and_the_workflow_can_be_resumed() {
    let althing = althing();
    let go = althing.work_dir().join("go");
    let waits = format!("echo begun; while [ ! -e {} ]; do sleep 0.02; done; echo done", go.display());
    workflow(&althing, &[vec![script("slow", &waits)]]);
    let running = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]).spawn();
    wait_for_event(&althing.state_dir(), LIMIT, |event| event["type"] == "attempt_started");
    running.signal(Signal::TERM);
    let stopped = running.wait(LIMIT).expect_code(4);
    assert!(stopped.stderr.contains("althing resume"), "{}", stopped.stderr);
    std::fs::write(&go, "").unwrap();
    run(&althing, &["resume"]).expect_code(0);
    let again = run(&althing, &["resume", "--json"]).expect_code(0);
    assert!(again.stdout.contains("\"DONE\""), "{}", again.stdout);
}

// spec: core/execution-modes/headless-prompt-requirement
#[test]
fn a_headless_task_without_a_prompt_is_an_error_with_its_position_and_nothing_starts() {
    let althing = althing();
    althing.file(
        "bad.yaml",
        "name: n\ngoal: g\nstages:\n  - name: s\n    tasks:\n      - {id: a, agent: claude, executionMode: headless}\n",
    );
    for args in [["workflow", "run", "bad.yaml", "--offline"], ["workflow", "check", "bad.yaml", "--offline"]]
    {
        let output = run(&althing, &args).expect_code(1);
        assert!(
            output.stderr.contains("prompt") && output.stderr.contains("bad.yaml:6:"),
            "{}",
            output.stderr
        );
    }
    assert!(newest_session(&althing.state_dir()).is_none(), "nothing was begun");
    let json = run(&althing, &["workflow", "check", "bad.yaml", "--offline", "--json"]).expect_code(1);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["valid"], false);
    assert_eq!(report["errors"][0]["line"], 6);
}

// spec: core/event-driven-ui-interface/ui-notification
#[test]
fn running_and_every_change_of_a_tasks_status_are_events() {
    let althing = althing();
    workflow(&althing, &[vec![script("a", "true"), script("b", "exit 1")]]);
    let streamed =
        run(&althing, &["workflow", "run", "flow.yaml", "--offline", "--stream-events"]).expect_code(2);
    let events: Vec<Value> =
        streamed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let statuses = |task: &str| -> Vec<String> {
        let of = events.iter().filter(|event| event["type"] == "status_changed" && event["task"] == task);
        of.map(|event| event["data"]["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses("w1"), ["RUNNING", "FAILED"]);
    assert_eq!(statuses("w1.a"), ["RUNNING", "DONE"]);
    assert_eq!(statuses("w1.b"), ["RUNNING", "FAILED"]);
}

#[test]
fn a_script_can_answer_a_waiting_task_over_stdin() {
    let althing = althing();
    let mut asks = script("asks", "echo Your name?; read name; echo Hello $name");
    asks["executionMode"] = "interactive".into();
    workflow(&althing, &[vec![asks]]);
    let args = ["workflow", "run", "flow.yaml", "--offline", "--stream-events=all", "--take-ops"];
    let running = althing.new_command().args(args).open_stdin().spawn();
    let early = json!({"op": "input", "task": "w1.nobody", "bytes": b"Ada\r"});
    running.write_stdin(format!("{early}\n"));
    running.wait_for_stdout(|line| line.contains("w1.nobody has no terminal"), LIMIT);
    running.wait_for_stdout(|line| line.contains("\"output\"") && line.contains("Your name?"), LIMIT);
    running.write_stdin("{\"op\": \"inputs\"}\n\n");
    running.wait_for_stderr(|line| line.contains("not an op") && line.contains("inputs"), LIMIT);
    let typed = json!({"op": "input", "task": "w1.asks", "bytes": b"Ada\r"});
    running.write_stdin(format!("{typed}\n"));
    running.wait_for_stdout(|line| line.contains("Hello Ada"), LIMIT);
    running.wait(LIMIT).expect_code(0);
}

#[test]
fn a_program_in_a_terminal_that_ends_before_its_prompt_was_typed_has_failed() {
    // A `claude` whose screen Althing does not recognize, such as a version that must be updated first.
    let althing = scripted_claude::install(&althing(), "#!/bin/sh\necho Please update\n");
    let key = "bash -c 'read -n 1 -p \"Press any key: \"; echo'";
    let cases = [
        ("command", "true", "go", "FAILED"),
        ("own", "true", "go", "FAILED"),
        ("claude", "", "go", "FAILED"),
        ("command", "true", "", "DONE"),
        // This program ends as soon as the first key was typed.
        ("command", key, "y", "DONE"),
    ];
    let task = |(n, (agent, script, prompt, _)): (usize, &(&str, &str, &str, &str))| {
        let mut task = json!({"id": format!("t{n}"), "agent": agent, "executionMode": "interactive", "prompt": prompt, "continue_on_failure": true});
        if *agent == "command" {
            task["command"] = json!(["sh", "-c", script]);
        }
        task
    };
    let tasks: Vec<Value> = cases.iter().enumerate().map(task).collect();
    let file = json!({"name": "n", "goal": "g", "adapters": {"own": {"program": "true"}}, "stages": [{"name": "s", "tasks": tasks}]});
    althing.file("flow.yaml", file.to_string());
    let report = report(&althing, 2);
    for (n, case) in cases.into_iter().enumerate() {
        let task = &report["stages"][0]["tasks"][n];
        assert_eq!((&task["status"], &task["exitCode"]), (&json!(case.3), &json!(0)), "{case:?}: {task}");
        if case.3 == "FAILED" {
            let error = task["error"].as_str().unwrap();
            assert!(error.contains("it ended before its prompt was typed"), "{case:?}: {task}");
        }
    }
}

/// A CLI agent that is killed after a message of 100,000 input tokens, which cost 40 cents.
const CUT_OFF_CLAUDE: &str = r#"#!/bin/sh
cat > /dev/null
echo '{"type":"system","subtype":"init","session_id":"s"}'
echo '{"type":"assistant","message":{"id":"m","model":"claude-opus-5-5","usage":{"input_tokens":100000,"output_tokens":1},"content":[{"type":"text","text":"I begin."}]}}'
kill -9 $$
"#;

#[test]
fn a_turn_of_claude_code_that_was_cut_off_counts_toward_the_cost_limit() {
    let althing = scripted_claude::install(&althing(), CUT_OFF_CLAUDE);
    let stages = ["a", "b", "c"].map(|id| {
        let mut task = claude(id, "go");
        task["continue_on_failure"] = true.into();
        vec![task]
    });
    workflow(&althing, &stages);
    run(&althing, &["workflow", "run", "flow.yaml", "--max-cost", "0.5"]).expect_code(2);
    let events = althing.events();
    let ended: Vec<&Value> = events.iter().filter(|event| event["type"] == "attempt_ended").collect();
    assert_eq!(ended.len(), 2, "the third task is not started");
    // The interrupted call may have cost something, too.
    let usage = &ended[0]["data"]["usage"];
    assert_eq!((&usage["calls"], &usage["unpriced_calls"]), (&json!(2), &json!(1)), "{usage}");
    // 100,000 tokens at $4 and two estimated tokens at $20 per million.
    assert!((usage["cost_usd"].as_f64().unwrap() - 0.400_04).abs() < 1e-9, "{usage}");
}
