//! `althing sessions show` and `report.md`: the report of a session.

use althing_testkit::process::Signal;
use althing_testkit::{Action, Gate, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, althing, run};
use super::tools::call_once;

pub const TASK: &str = "Name three good cheeses";

pub fn json_of(stdout: &str) -> Value {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: {stdout}"))
}

#[track_caller]
pub fn told(fixture: &Fixture, args: &[&str]) -> String {
    run(&fixture.althing, &[&["sessions"], args].concat()).expect_code(0).stdout
}

/// Three agents; `b` improves its answer once, and everybody votes for `b`. A call costs $0.12.
fn three_agents() -> Fixture {
    let vote = || Reply::vote("agent2", "It names real cheeses");
    let script = Script::parliament()
        .on("model-b")
        .nth(0, Reply::new_answer("Brie\nGouda\nCheddar"))
        .nth(1, Reply::new_answer("Brie\nGouda\nStilton"))
        .nth(2, vote())
        .nth(3, Reply::text("Brie, Gouda and Stilton"))
        .on("model-a")
        .nth(0, Reply::new_answer("Butter"))
        .always(Action::from(vote()))
        .on("model-c")
        .nth(0, Reply::new_answer("Milk"))
        .always(Action::from(vote()));
    Fixture::with(3, script, |team| {
        ["model-a", "model-b", "model-c"].into_iter().fold(team, |team, model| team.price(model, 1000.0))
    })
}

#[test]
fn the_report_says_who_won_and_why_what_it_cost_what_changed_and_what_each_agent_said() {
    let fixture = three_agents();
    let result = fixture.result(&[TASK]);
    let id = fixture.session_id();
    let shown = told(&fixture, &["show", &id]);
    let dir = fixture.session();
    let cost = format!("${:.4}", result["usage"]["cost_usd"].as_f64().unwrap());
    let calls = format!("{} calls", result["usage"]["calls"]);
    for part in [
        TASK,
        "Multi · Refine",
        "the answer with the most points wins",
        "b wins by Borda count with 6 points",
        "b wrote the final answer.",
        "Its winning answer is agent2.2, the newest of 2 answers.",
        "What the final answer changed in the newest answer of b",
        "agent1.1 agent2.1 agent3.1",
        "It names real cheeses",
        "Brie, Gouda and Stilton",
        "No changes outside the run's workspaces",
        "Answer agent2.1",
        "-Cheddar\n",
        "+Stilton\n",
        "shown to the others as agent3",
        "answered: agent1.1",
        "first token",
        &cost,
        &calls,
        &dir.join("tasks/r1/report.md").display().to_string(),
        &dir.join("events.jsonl").display().to_string(),
    ] {
        assert!(shown.contains(part), "`{part}` is missing:\n{shown}");
    }
    assert_eq!(told(&fixture, &["show", "latest"]), shown);
}

#[test]
fn the_report_explains_votes_that_were_not_counted_and_names_that_only_agents_knew() {
    let judging = Gate::before_headers();
    let own = Reply::vote("agent3", "agent2 forgets Stilton");
    let vote = || Reply::vote("agent2", "agent2 names real cheeses");
    let script = Script::parliament()
        .on("model-b")
        .nth(0, Reply::new_answer("Brie\nGouda\nCheddar"))
        .nth(1, Reply::new_answer("Brie\nGouda\nStilton"))
        .nth(2, vote())
        .nth(3, Reply::text("Brie!\nGouda\nStilton \n"))
        .on("model-a")
        .nth(0, Reply::new_answer("Butter"))
        .always(Action::from(vote()))
        .on("model-c")
        .nth(0, Reply::new_answer("Milk"))
        .nth(1, Action::gated(own, &judging))
        .always(Action::from(vote()));
    let fixture = Fixture::new(3, script);
    let running = fixture.spawn(&[TASK]);
    running.wait_for_stderr(|line| line.contains("answered: agent2.2"), LIMIT);
    judging.release_all();
    running.wait(LIMIT).expect_code(0);
    let shown = told(&fixture, &["show", "latest"]);
    let line =
        shown.lines().find(|line| line.contains("forgets Stilton")).unwrap_or_else(|| panic!("{shown}"));
    assert!(
        line.contains("c (agent3)") && line.contains("no: the voter had not seen a newer answer"),
        "{line}"
    );
    assert!(shown.contains("b (agent2)") && shown.contains("known as"), "{shown}");
    let diff = shown
        .split("What the final answer changed")
        .nth(1)
        .and_then(|rest| rest.split("Files changed").next());
    let diff = diff.unwrap_or_else(|| panic!("{shown}"));
    assert!(diff.contains("+Brie!") && !diff.contains("-Stilton"), "a blank at the end is no change: {diff}");
    let run = &json_of(&told(&fixture, &["show", "latest", "--json"]))["report"]["runs"][0];
    let ballots = run["decision"]["ballots"].as_array().unwrap();
    let reasons: Vec<&Value> = ballots.iter().map(|ballot| &ballot["not_counted_because"]).collect();
    assert_eq!(
        reasons.iter().filter(|reason| ***reason == json!("the voter had not seen a newer answer")).count(),
        1
    );
    assert_eq!(reasons.iter().filter(|reason| reason.is_null()).count(), 3, "{ballots:?}");
}

#[test]
fn the_report_beside_the_run_is_the_one_that_is_rendered_again_from_the_log() {
    let fixture = three_agents();
    fixture.run(&[TASK]).expect_code(0);
    let file = fixture.session().join("tasks/r1/report.md");
    let written =
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let run = format!("{}.r1", fixture.session_id());
    assert!(written.starts_with(&format!("# Run {run}\n")), "{written}");
    assert_eq!(told(&fixture, &["show", &run, "--markdown"]), written);
}

#[test]
fn a_program_reads_the_report_as_json() {
    let fixture = three_agents();
    let result = fixture.result(&[TASK]);
    let id = fixture.session_id();
    let whole = json_of(&told(&fixture, &["show", &id, "--json"]));
    assert_eq!((&whole["id"], &whole["state"]), (&json!(id), &json!("DONE")), "the fields of 0.1 stay");
    let run = &whole["report"]["runs"][0];
    assert_eq!(run["final_answer"], result["final_answer"]);
    assert_eq!(run["decision"]["winner"], "b");
    assert_eq!(run["status"], "completed");
    assert_eq!(run["usage"]["calls"], result["usage"]["calls"]);
    assert_eq!(run["usage"]["cost_usd"], result["usage"]["cost_usd"]);
    let agent = &run["agents"][1];
    assert_eq!((&agent["id"], &agent["anonymous"]), (&json!("b"), &json!("agent2")));
    assert_eq!(agent["answers"].as_array().map(Vec::len), Some(2));
    assert!(agent["answers"][1]["diff"].as_str().unwrap().contains("+Stilton"), "{agent}");
    for attempt in agent["attempts"].as_array().unwrap() {
        assert!(attempt["first_token_ms"].is_u64() && attempt["time_ms"].is_u64(), "{attempt}");
        assert!(attempt["usage"]["input_tokens"].as_u64().unwrap() > 0, "{attempt}");
    }
    let counted = |ballot: &&Value| ballot["counted"] == true;
    let ballots = run["decision"]["ballots"].as_array().unwrap();
    assert_eq!(ballots.iter().filter(counted).count(), 3, "{ballots:?}");
    assert_eq!(json_of(&told(&fixture, &["show", &format!("{id}.r1"), "--json"])), *run);
}

#[test]
fn a_run_that_changed_files_lists_them_with_the_command_that_shows_the_changes() {
    let script = Script::from_fn(|request: &RecordedRequest| {
        let line = request.system_text().lines().find_map(|line| line.strip_prefix("- ").map(str::to_owned));
        let dir = line.as_deref().and_then(|line| line.split(" (").next()).unwrap_or("/nowhere").to_owned();
        call_once(request, "write_file", &json!({"path": format!("{dir}/new.txt"), "content": "new\n"}))
    });
    let fixture = Fixture::new(1, script);
    let project = fixture.althing.work_dir().join("project");
    std::fs::create_dir_all(&project).unwrap();
    let path = format!("{}:rw", project.canonicalize().unwrap().display());
    fixture.run(&["--context-path", &path, TASK]).expect_code(0);
    let id = fixture.session_id();
    let shown = told(&fixture, &["show", &id]);
    let new = project.canonicalize().unwrap().join("new.txt");
    for part in [format!("{} (new)", new.display()), format!("althing undo {id}.r1 --diff")] {
        assert!(shown.contains(&part), "`{part}` is missing:\n{shown}");
    }
}

#[test]
fn a_run_that_was_killed_has_a_report_too() {
    let gate = Gate::before_headers();
    let script = Script::parliament().on("model-b").nth(0, Action::gated(Action::Usual, &gate));
    let fixture = Fixture::new(2, script);
    let running = fixture.spawn(&[TASK]);
    gate.wait_waiting_blocking(1, LIMIT);
    running.wait_for_stderr(|line| line.contains("answered: agent1.1"), LIMIT);
    running.signal(Signal::KILL);
    running.wait(LIMIT);
    let shown = told(&fixture, &["show", "latest"]);
    for part in ["Nothing is decided yet.", "There is no final answer.", "Answer agent1.1", "not over"] {
        assert!(shown.contains(part), "`{part}` is missing:\n{shown}");
    }
    gate.release_all();
    fixture.resume().expect_code(0);
    let shown = told(&fixture, &["show", "latest"]);
    assert!(shown.contains("resumed") && shown.contains("wrote the final answer"), "{shown}");
}

#[test]
fn the_report_of_a_conversation_has_its_messages_and_its_runs() {
    let althing = althing();
    let talk = althing.new_command().args(["chat", "--offline", "--approve", "always"]);
    let talk = talk.stdin("Good morning\nCompare two parsers\n");
    talk.spawn().wait(LIMIT).expect_code(0);
    let shown = run(&althing, &["sessions", "show", "latest"]).expect_code(0).stdout;
    for part in ["Conversation", "Good morning", "run 20", "Decision", "conversation"] {
        assert!(shown.contains(part), "`{part}` is missing:\n{shown}");
    }
    assert_eq!(run(&althing, &["sessions", "show"]).expect_code(0).stdout, shown, "the newest by default");
    let whole = run(&althing, &["sessions", "show", "latest", "--json"]).expect_code(0).stdout;
    let report = &json_of(&whole)["report"];
    assert_eq!(report["conversation"][0]["text"], "Good morning");
    assert!(report["chat_usage"]["calls"].as_u64() < report["usage"]["calls"].as_u64(), "{report}");
}

#[test]
fn the_report_of_a_workflow_has_its_tasks_and_is_stored_beside_it() {
    let althing = althing();
    let flow = "name: two\ngoal: Two things\nstages:\n  - name: only\n    tasks:\n      - {id: hello, agent: command, command: [echo, hello from a task], executionMode: headless, prompt: \"\"}\n      - {id: team, run: {task: Compare two parsers, refinement: false}}\n";
    althing.file("flow.yaml", flow);
    run(&althing, &["workflow", "run", "flow.yaml", "--offline", "--automation"]).expect_code(0);
    let shown = run(&althing, &["sessions", "show", "latest"]).expect_code(0).stdout;
    for part in ["Tasks", "hello from a task", "done ✓", "Compare two parsers", "Decision"] {
        assert!(shown.contains(part), "`{part}` is missing:\n{shown}");
    }
    let session = althing_testkit::process::newest_session(&althing.state_dir()).unwrap();
    for task in ["w1", "w1.team"] {
        let file = session.join("tasks").join(task).join("report.md");
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(text.contains("Compare two parsers"), "{text}");
    }
}

#[test]
fn automation_says_where_the_session_is() {
    let fixture = Fixture::new(1, Script::parliament());
    let output = fixture.run(&[TASK]).expect_code(0);
    let line = format!("session: {}", fixture.session().display());
    assert!(output.stderr.lines().any(|told| told == line), "{line}\n{}", output.stderr);
}
