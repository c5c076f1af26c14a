//! The mode matrix: every combination of modes through every door, compared with one table. A door is a way to start a
//! run: the options of the command line, a message with modes as the screen sends it, `launch_run` of the chat agent, a
//! `run:` task of a workflow, and `launch_run` of an MCP client.
//!
//! Two things differ between the doors, because a door cannot express them:
//! - The strategy is a parameter of `launch_run` and of workflow tasks; for the command line and a message, only the
//!   config sets it.
//! - After a message, a person approves the plan when the planning run has ended, so the planning run has no
//!   `follow_up`. Everywhere else the launch itself asks for the execution.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_testkit::{Action, Althing, FakeModel, RecordedRequest, Reply, Script, scale};
use serde_json::{Value, json};

use super::matrix_table::{Cell, Phase, Planning, all_cells};
use super::mcp::Client;
use super::support::{Team, althing, ensure, files_below, in_parallel, task_of, texts};

const LONG: Duration = Duration::from_secs(240);

const TALKER: &str = "talker";

const COORDINATION: [&str; 2] = ["new_answer", "vote"];

const ACTING: [&str; 6] =
    ["write_file", "edit_file", "apply_patch", "delete_file", "run_command", "spawn_subagents"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    CommandLine,
    Message,
    ChatAgent,
    Workflow,
    Mcp,
}

const DOORS: [Door; 5] = [Door::CommandLine, Door::Message, Door::ChatAgent, Door::Workflow, Door::Mcp];

fn cell_in(text: &str) -> Option<usize> {
    let after = task_of(text)?.strip_prefix("Matrix cell ")?;
    after.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

fn phase_in(cell: Cell, text: &str) -> Phase {
    // The run that executes a plan is told which run made it.
    let acts = cell.planning == Planning::No || text.contains("made by run");
    if acts { Phase::Act } else { Phase::Plan }
}

/// What an agent does in a request, judged by the tools that it is offered.
fn purpose(cell: Cell, request: &RecordedRequest) -> &'static str {
    let tools = request.tool_names();
    match (tools.contains(&"vote"), tools.contains(&"new_answer")) {
        (true, _) => "judge",
        (false, true) => "answer",
        // A quick single agent may answer in plain text.
        (false, false) if cell.is_single && !cell.refinement => "answer",
        (false, false) => "present",
    }
}

fn is_first(request: &RecordedRequest) -> bool {
    request.messages().iter().all(|message| message["role"] != "assistant")
}

fn answer(purpose: &str, who: &str, phase: Phase) -> String {
    let said = if purpose == "present" { format!("Presented by {who}") } else { format!("Answer of {who}") };
    match phase {
        Phase::Act => said,
        Phase::Plan => json!({"tasks": [{"id": "one", "description": said}]}).to_string(),
    }
}

/// An agent that first tries to write to its context path, whether or not it may, and then takes part as expected.
fn member(cells: &[Cell], paths: &Path, request: &RecordedRequest) -> Reply {
    let text = texts(request);
    let Some(cell) = cell_in(&text).and_then(|number| cells.get(number)).copied() else {
        return Reply::text("A message without a cell.");
    };
    let (phase, purpose, who) = (phase_in(cell, &text), purpose(cell, request), request.model());
    if cell.has_path && is_first(request) {
        let file = cell.dir(paths).join(format!("{}-{purpose}-{who}.txt", phase.name()));
        return Reply::call("write_file", &json!({"path": file, "content": "written\n"}));
    }
    let answer = answer(purpose, who, phase);
    match purpose {
        "judge" => Reply::vote(cell.favorite(), "the best"),
        _ if request.tool_names().contains(&"new_answer") => Reply::new_answer(&answer),
        _ => Reply::text(answer),
    }
}

fn talker(cells: &[Cell], paths: &Path, request: &RecordedRequest) -> Reply {
    let last = request.messages().last().cloned().unwrap_or_default();
    if last["role"] == "tool" {
        return Reply::text(format!("Returned: {}", last["content"].as_str().unwrap_or_default()));
    }
    let text = request.last_user_text();
    let number = text.rsplit_once("Matrix cell ").and_then(|(_, number)| number.trim().parse::<usize>().ok());
    match number.and_then(|number| cells.get(number)) {
        Some(cell) => Reply::call("launch_run", &cell.launch(paths)),
        None => Reply::text("Which cell?"),
    }
}

/// What a door is tried with: a model server, the program, and the directories of the context paths.
struct Doorway {
    server: FakeModel,
    althing: Althing,
    paths: PathBuf,
    second: Option<Value>,
}

impl Doorway {
    fn new() -> Self {
        Self::with(member)
    }

    fn with(member: fn(&[Cell], &Path, &RecordedRequest) -> Reply) -> Self {
        let althing = althing();
        let paths = althing.work_dir().join("paths");
        std::fs::create_dir_all(&paths).unwrap();
        let paths = paths.canonicalize().unwrap();
        for cell in all_cells() {
            std::fs::create_dir(cell.dir(&paths)).unwrap();
            std::fs::write(cell.dir(&paths).join("note.txt"), "the note says forty-two").unwrap();
        }
        let (cells, dir) = (all_cells(), paths.clone());
        let script = Script::from_fn(move |request: &RecordedRequest| {
            Action::from(if request.model() == TALKER {
                talker(&cells, &dir, request)
            } else {
                member(&cells, &dir, request)
            })
        });
        Self { server: FakeModel::start_on_thread(script), althing, paths, second: None }
    }

    fn config(&self, name: &str, strategy: &str, change: impl FnOnce(Team) -> Team) -> String {
        let mut team = change(Team::on(&self.server.base_url(), 2));
        if strategy != "default" {
            team = team.rule("final_answer_strategy", strategy);
        }
        let mut config: Value = serde_json::from_str(&team.text()).unwrap();
        if let Some(backend) = &self.second {
            config["agents"][1]["backend"] = backend.clone();
        }
        let name = format!("{name}-{strategy}.yaml");
        self.althing.file(&name, config.to_string());
        name
    }

    fn open(&self, door: Door, cells: &[Cell]) {
        match door {
            Door::CommandLine => self.command_line(cells),
            Door::Message => by_strategy(cells, |strategy, cells| self.messages(strategy, cells)),
            Door::ChatAgent => {
                // The config is written once, because a process may read it while other processes are started.
                let backend =
                    json!({"type": "chatcompletion", "model": TALKER, "base_url": self.server.base_url()});
                let rule = json!({"backend": backend});
                let config = self.config("chat", "default", |team| team.rule("interactive_mode", rule));
                by_strategy(cells, |_, cells| self.chat_agent(&config, cells));
            }
            Door::Workflow => self.workflow(cells),
            Door::Mcp => {
                let (with, without): (Vec<Cell>, Vec<Cell>) = cells.iter().partition(|cell| cell.has_path);
                in_parallel(2, [with, without], |cells| self.mcp(&cells));
            }
        }
    }

    fn command_line(&self, cells: &[Cell]) {
        for strategy in ["default", "winner_reuse", "winner_present", "synthesize"] {
            self.config("line", strategy, |team| team);
        }
        in_parallel(3, cells.iter().copied(), |cell| {
            let config = format!("line-{}.yaml", cell.strategy);
            let mut command =
                self.althing.new_command().args(["--config", &config, "--automation", "--json"]);
            if cell.is_single {
                command = command.args(["--single-agent", "b"]);
            }
            if !cell.refinement {
                command = command.arg("--quick");
            }
            command = match cell.planning {
                Planning::No => command,
                Planning::Plan => command.arg("--plan"),
                Planning::PlanAndExecute => command.arg("--plan-and-execute"),
            };
            if cell.has_path {
                command =
                    command.arg("--context-path").arg(format!("{}:rw", cell.dir(&self.paths).display()));
            }
            let output = command.arg(cell.task()).spawn().wait(LONG);
            ensure(output.code == Some(0), || format!("{cell:?}: {output:?}"))?;
            // The printed result is that of the last run.
            let printed: Value = serde_json::from_str(&output.stdout).map_err(|error| error.to_string())?;
            ensure(printed["modes"]["planning"] == (cell.planning == Planning::Plan), || format!("{printed}"))
        });
    }

    /// Sends a message with modes and granted paths for each cell, as the screen does. There is no chat agent, so that
    /// each message starts a run with the message's modes.
    fn messages(&self, strategy: &str, cells: &[Cell]) -> Result<(), String> {
        let config = self.config("screen", strategy, |team| team);
        let command = self.althing.new_command().args(["chat", "--json", "--config", &config]);
        let running = command.open_stdin().spawn();
        let mut questions = 0;
        for cell in cells {
            let mut modes = json!({
                "agent_mode": if cell.is_single { "single" } else { "multi" },
                "refinement": cell.refinement,
                "planning": cell.planning != Planning::No,
            });
            if cell.is_single {
                modes["agent"] = "b".into();
            }
            let mut message = json!({"op": "send_message", "text": cell.task(), "modes": modes});
            if cell.has_path {
                message["grants"] = json!([{"path": cell.dir(&self.paths), "permission": "write"}]);
            }
            running.write_stdin(format!("{message}\n"));
            if cell.planning == Planning::No {
                continue;
            }
            questions += 1;
            let id = format!("c1.plan{questions}");
            let opened = format!(r#""id":"{id}""#);
            running
                .wait_for_stdout(|line| line.contains("interaction_opened") && line.contains(&opened), LONG);
            let decision = match cell.planning {
                Planning::PlanAndExecute => json!({"decision": "approve"}),
                _ => json!({"decision": "reject"}),
            };
            let answer = json!({"op": "answer", "interaction": id, "decision": decision});
            running.write_stdin(format!("{answer}\n"));
        }
        running.close_stdin();
        let output = running.wait(LONG);
        ensure(output.code == Some(0), || format!("{strategy}: {}", output.stderr))
    }

    fn chat_agent(&self, config: &str, cells: &[Cell]) -> Result<(), String> {
        let lines = cells.iter().fold(String::new(), |mut lines, cell| {
            let _ = writeln!(lines, "{}", cell.task());
            lines
        });
        let command = self.althing.new_command().args(["chat", "--config", config, "--approve", "always"]);
        let output = command.stdin(lines).spawn().wait(LONG);
        ensure(output.code == Some(0), || output.stderr.clone())?;
        let told = output.stdout.matches("Returned: ").count();
        ensure(told == cells.len(), || format!("{told} results for {} runs: {}", cells.len(), output.stdout))
    }

    fn workflow(&self, cells: &[Cell]) {
        let config = self.config("flow", "default", |team| team);
        let task = |cell: &Cell| json!({"id": format!("t{}", cell.number), "run": cell.launch(&self.paths)});
        let stages: Vec<Value> = cells
            .chunks(3)
            .enumerate()
            .map(|(n, cells)| {
                json!({"name": format!("stage {n}"), "tasks": cells.iter().map(task).collect::<Vec<_>>()})
            })
            .collect();
        let flow = json!({"name": "matrix", "goal": "all of it", "stages": stages});
        self.althing.file("flow.yaml", flow.to_string());
        let command =
            self.althing.new_command().args(["workflow", "run", "flow.yaml", "--config", &config, "--json"]);
        let output = command.spawn().wait(LONG).expect_code(0);
        let report: Value = serde_json::from_str(&output.stdout).unwrap();
        for task in
            report["stages"].as_array().unwrap().iter().flat_map(|stage| stage["tasks"].as_array().unwrap())
        {
            assert_eq!(task["status"], "DONE", "{task}");
        }
    }

    /// Nobody approves the runs of an MCP client, so the config opens the context paths for writing.
    fn mcp(&self, cells: &[Cell]) -> Result<(), String> {
        let Some(first) = cells.first() else { return Ok(()) };
        let name = if first.has_path { "mcp-paths" } else { "mcp" };
        let open = json!([{"path": self.paths, "permission": "write"}]);
        let config = self.config(name, "default", |team| {
            if first.has_path { team.rule("context_paths", open) } else { team }
        });
        let mut client = Client::start(&self.althing, &["--config", &config]);
        for cell in cells {
            let returned = client.tool("launch_run", &cell.launch(&self.paths));
            let result = &returned["structuredContent"];
            ensure(result["status"] == "completed", || format!("{cell:?}: {returned}"))?;
            let execution = &result["execution"];
            let follows = if cell.planning == Planning::PlanAndExecute {
                execution["run_id"] == result["follow_up"] && execution["status"] == "completed"
            } else {
                execution.is_null()
            };
            ensure(follows, || format!("{cell:?}: {returned}"))?;
        }
        client.running.close_stdin();
        let output = client.running.wait(LONG);
        ensure(output.code == Some(0), || output.stderr.clone())
    }

    fn runs(&self) -> Vec<RunRecord> {
        let mut runs = Vec::new();
        for entry in std::fs::read_dir(self.althing.state_dir().join("sessions")).unwrap() {
            let log = std::fs::read_to_string(entry.unwrap().path().join("events.jsonl")).unwrap();
            let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            runs.extend(recorded_runs(&events));
        }
        runs
    }

    fn compare(&self, door: Door, cells: &[Cell]) {
        let (runs, requests) = (self.runs(), self.server.requests());
        let offered = self.second.as_ref().map(|_| self.offered_to_cli_agent());
        let complaints: Vec<String> = cells
            .iter()
            .filter_map(|cell| {
                let runs: Vec<&RunRecord> = runs.iter().filter(|run| run.task == cell.task()).collect();
                let checks = [
                    self.check_runs(door, *cell, &runs),
                    match &offered {
                        None => check_requests(*cell, &requests),
                        Some(offered) => check_cli_agent(*cell, &runs, offered),
                    },
                    self.check_files(*cell),
                ];
                let wrong: Vec<String> = checks.into_iter().filter_map(Result::err).collect();
                (!wrong.is_empty()).then(|| format!("{door:?} {cell:?}\n  {}", wrong.join("\n  ")))
            })
            .collect();
        assert!(complaints.is_empty(), "{} cells differ:\n{}", complaints.len(), complaints.join("\n"));
    }

    fn offered_to_cli_agent(&self) -> Vec<Value> {
        let files =
            files_below(&self.althing.home_dir()).into_iter().chain(files_below(&self.althing.state_dir()));
        let logs: BTreeSet<PathBuf> =
            files.map(|(path, _)| path).filter(|path| path.ends_with("offered.jsonl")).collect();
        let texts = logs.iter().map(|log| std::fs::read_to_string(log).unwrap());
        texts
            .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>())
            .collect()
    }

    fn check_runs(&self, door: Door, cell: Cell, runs: &[&RunRecord]) -> Result<(), String> {
        let phases: Vec<Phase> = runs.iter().map(|run| run.phase()).collect();
        ensure(phases == cell.phases(), || format!("the runs are {phases:?}"))?;
        for run in runs {
            let (phase, result) = (run.phase(), &run.result);
            let wanted = cell.attempts(phase);
            ensure(
                run.attempts.iter().map(|(purpose, count)| (purpose.as_str(), *count)).eq(wanted.clone()),
                || format!("{phase:?}: the attempts are {:?} instead of {wanted:?}", run.attempts),
            )?;
            ensure(result["status"] == "completed", || format!("{phase:?}: {result}"))?;
            let summary = &result["coordination_summary"];
            ensure(summary["winner"] == "b", || format!("{phase:?}: {summary}"))?;
            if let Some(used) = cell.row().used {
                ensure(summary["strategy"] == used, || format!("{phase:?}: {summary} instead of {used}"))?;
            }
            let modes = json!({
                "agent_mode": if cell.is_single { "single" } else { "multi" },
                "refinement": cell.refinement,
                "planning": phase == Phase::Plan,
            });
            ensure(result["modes"] == modes, || format!("{phase:?}: {}", result["modes"]))?;
            let who = if self.second.is_some() { "claude" } else { "model-b" };
            let said = answer(if cell.is_presented(phase) { "present" } else { "answer" }, who, phase);
            ensure(result["final_answer"] == said.as_str(), || {
                format!("{phase:?}: {result} instead of {said}")
            })?;
            let follows =
                phase == Phase::Plan && cell.planning == Planning::PlanAndExecute && door != Door::Message;
            ensure(result["follow_up"].is_string() == follows, || {
                format!("{phase:?}: follow_up is {}", result["follow_up"])
            })?;
            let written = usize::from(cell.has_path && phase == Phase::Act);
            let listed = result["context_path_writes"].as_array().map_or(0, Vec::len);
            ensure(listed == written, || format!("{phase:?}: {}", result["context_path_writes"]))?;
        }
        Ok(())
    }

    /// If the cell acts, its presenter or quick single agent wrote one file to the context path.
    fn check_files(&self, cell: Cell) -> Result<(), String> {
        let mut found: Vec<String> = files_below(&cell.dir(&self.paths))
            .into_iter()
            .map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned())
            .filter(|name| name != "note.txt")
            .collect();
        found.sort();
        let who = if self.second.is_some() { "claude" } else { "model-b" };
        let purpose = if cell.is_presented(Phase::Act) { "present" } else { "answer" };
        let acts = cell.has_path && cell.phases().contains(&Phase::Act);
        let wanted: Vec<String> = acts.then(|| format!("act-{purpose}-{who}.txt")).into_iter().collect();
        ensure(found == wanted, || format!("written: {found:?} instead of {wanted:?}"))
    }
}

fn by_strategy(cells: &[Cell], work: impl Fn(&'static str, &[Cell]) -> Result<(), String> + Sync) {
    let strategies = ["default", "winner_reuse", "winner_present", "synthesize"];
    in_parallel(4, strategies, |strategy| {
        let cells: Vec<Cell> = cells.iter().filter(|cell| cell.strategy == strategy).copied().collect();
        if cells.is_empty() { Ok(()) } else { work(strategy, &cells) }
    });
}

struct RunRecord {
    task: String,
    planning: bool,
    attempts: BTreeMap<String, usize>,
    attempts_of_last: BTreeMap<String, usize>,
    result: Value,
}

impl RunRecord {
    fn phase(&self) -> Phase {
        if self.planning { Phase::Plan } else { Phase::Act }
    }
}

fn recorded_runs(events: &[Value]) -> Vec<RunRecord> {
    let created = events.iter().filter(|event| event["type"] == "task_created");
    let runs = created.filter(|event| event["data"]["spec"]["kind"] == "run");
    runs.map(|created| {
        let (id, spec) = (created["data"]["id"].as_str().unwrap(), &created["data"]["spec"]);
        let (mut attempts, mut attempts_of_last) = (BTreeMap::new(), BTreeMap::new());
        let last = format!("{id}.a{}", spec["members"].as_array().unwrap().len());
        for event in events.iter().filter(|event| event["type"] == "attempt_started") {
            let work = event["task"].as_str().unwrap_or_default();
            if work.rsplit_once(".a").is_some_and(|(run, _)| run == id) {
                let purpose = event["data"]["purpose"].as_str().unwrap_or_default().to_owned();
                if work == last {
                    *attempts_of_last.entry(purpose.clone()).or_default() += 1;
                }
                *attempts.entry(purpose).or_default() += 1;
            }
        }
        let ended = events.iter().find(|event| event["task"] == id && event["data"]["verdict"] == "finished");
        RunRecord {
            task: spec["task"].as_str().unwrap().to_owned(),
            planning: spec["modes"]["planning"] == true,
            attempts,
            attempts_of_last,
            result: ended.map(|event| event["data"]["result"].clone()).unwrap_or_default(),
        }
    })
    .collect()
}

fn check_requests(cell: Cell, requests: &[RecordedRequest]) -> Result<(), String> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for request in requests.iter().filter(|request| cell_in(&texts(request)) == Some(cell.number)) {
        let (phase, purpose) = (phase_in(cell, &texts(request)), purpose(cell, request));
        let offered = request.tool_names();
        let about = || format!("{phase:?} {purpose}: {offered:?}");
        if is_first(request) {
            *counts.entry((phase.name(), purpose)).or_default() += 1;
        }
        let of_run: Vec<&str> = offered.iter().filter(|tool| COORDINATION.contains(tool)).copied().collect();
        let wanted: &[&[&str]] = match purpose {
            // A quick single agent never votes; it is offered `new_answer` or no coordination tool.
            "answer" if cell.is_single && !cell.refinement => &[&[], &["new_answer"]],
            "answer" => &[&["new_answer"]],
            // With refinement a judge may also improve its answer; without refinement it may only vote.
            "judge" if cell.refinement => &[&["new_answer", "vote"]],
            "judge" => &[&["vote"]],
            _ => &[&[]],
        };
        ensure(wanted.contains(&of_run.as_slice()), about)?;
        let acts = offered.iter().any(|tool| ACTING.contains(tool));
        ensure(acts == (cell.has_path && phase == Phase::Act), about)?;
        ensure(offered.contains(&"read_file") == cell.has_path, about)?;
    }
    let mut wanted = BTreeMap::new();
    for phase in cell.phases() {
        wanted.extend(
            cell.attempts(*phase).into_iter().map(|(purpose, count)| ((phase.name(), purpose), count)),
        );
    }
    ensure(counts == wanted, || format!("the calls are {counts:?} instead of {wanted:?}"))
}

fn check_cli_agent(cell: Cell, runs: &[&RunRecord], offered: &[Value]) -> Result<(), String> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for call in offered.iter().filter(|call| call["cell"] == cell.number) {
        let (phase, purpose) = (call["phase"].as_str().unwrap(), call["purpose"].as_str().unwrap());
        *counts.entry((phase, purpose)).or_default() += 1;
        let wanted = match purpose {
            "answer" if cell.is_single && !cell.refinement => json!([]),
            "answer" => json!(["new_answer"]),
            "judge" if cell.refinement => json!(["new_answer", "vote"]),
            "judge" => json!(["vote"]),
            _ => json!([]),
        };
        ensure(call["tools"] == wanted, || format!("the CLI agent was offered {call}"))?;
    }
    let mut wanted = BTreeMap::new();
    for run in runs {
        for (purpose, count) in &run.attempts_of_last {
            wanted.insert((run.phase().name(), purpose.as_str()), *count);
        }
    }
    ensure(counts == wanted, || format!("the CLI agent's calls are {counts:?} instead of {wanted:?}"))
}

fn try_door(door: Door) {
    let (doorway, cells) = (Doorway::new(), all_cells());
    doorway.open(door, &cells);
    doorway.compare(door, &cells);
}

// spec: design/launch-run/mode-matrix
// spec: modes/refinement-mode-toggle/refinement-off-with-single-agent
#[test]
fn the_options_of_the_command_line_give_the_runs_of_the_table() {
    try_door(Door::CommandLine);
}

// spec: design/launch-run/mode-matrix
#[test]
fn messages_with_modes_give_the_runs_of_the_table() {
    try_door(Door::Message);
}

// spec: design/launch-run/mode-matrix
// spec: interactive/launch-run-tool/planning-mode-run
#[test]
fn launch_run_of_the_chat_agent_gives_the_runs_of_the_table() {
    try_door(Door::ChatAgent);
}

// spec: design/launch-run/mode-matrix
#[test]
fn run_tasks_of_a_workflow_give_the_runs_of_the_table() {
    try_door(Door::Workflow);
}

// spec: design/launch-run/mode-matrix
// spec: interactive/launch-run-tool/planning-then-execution
#[test]
fn launch_run_of_an_mcp_client_gives_the_runs_of_the_table() {
    try_door(Door::Mcp);
}

/// A stand-in for Claude Code. It tries to write to its context path and to its workspace, reads the context path, and
/// takes part as expected.
const CLAUDE: &str = r#"#!/usr/bin/env python3
import json, os, re, sys
if "--version" in sys.argv:
    print("2.1.325 (Claude Code)")
    sys.exit()
prompt = sys.stdin.read()
paths, plans, singles, readers = json.loads(r'''CELLS''')
def after(flag):
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else None
session = after("--session-id") or after("--resume")
memory = os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "projects", session + ".txt")
told = re.findall(r"<ORIGINAL MESSAGE \w+>\nMatrix cell (\d+)", prompt)
if told:
    known = [int(told[-1]), "made by run" in prompt]
    os.makedirs(os.path.dirname(memory), exist_ok=True)
    open(memory, "w").write(json.dumps(known))
else:
    known = json.load(open(memory))
cell, executes = known
phase = "plan" if cell in plans and not executes else "act"
offered = prompt[prompt.rfind("offered to you by the MCP server"):] if "offered to you by the MCP server" in prompt else ""
quick = cell in singles
purpose = "judge" if "__vote" in offered else "answer" if "__new_answer" in offered or quick else "present"
for file in [f"{paths}/{cell}/{phase}-{purpose}-claude.txt", f"workspace-{phase}-{purpose}.txt"]:
    try:
        open(file, "w").write("written\n")
    except OSError:
        pass
if cell in readers:
    assert "forty-two" in open(f"{paths}/{cell}/note.txt").read()
tools = sorted(set(re.findall(r"mcp__althingtools__(new_answer|vote)\b", offered)))
with open(os.path.join(os.path.dirname(memory), "offered.jsonl"), "a") as log:
    log.write(json.dumps({"cell": cell, "phase": phase, "purpose": purpose, "tools": tools}) + "\n")
said = f"Presented by claude" if purpose == "present" else f"Answer of claude"
if purpose == "judge":
    multi = "agent2" in prompt
    said = json.dumps({"agent_id": "agent2" if multi else "agent1", "reason": "the best"})
elif phase == "plan":
    said = json.dumps({"tasks": [{"id": "one", "description": said}]}, separators=(",", ":"))
print(json.dumps({"type": "system", "subtype": "init", "session_id": session}))
print(json.dumps({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": said}]}}))
print(json.dumps({"type": "result", "is_error": False, "result": said, "total_cost_usd": 0.01, "usage": {"input_tokens": 10, "output_tokens": 5}}))
"#;

/// The cells that are tried with a CLI agent: all cells on the command line and in nightly tests, otherwise only those
/// that have a writable context path and name no strategy.
fn cli_cells(door: Door) -> Vec<Cell> {
    let all = door == Door::CommandLine || scale(0, 1) == 1;
    all_cells().into_iter().filter(|cell| all || (cell.strategy == "default" && cell.has_path)).collect()
}

fn with_cli_agent(mut doorway: Doorway) -> Doorway {
    let numbers = |is: fn(&Cell) -> bool| -> Vec<usize> {
        all_cells().iter().filter(|cell| is(cell)).map(|cell| cell.number).collect()
    };
    let plans = numbers(|cell| cell.planning != Planning::No);
    let quick = numbers(|cell| cell.is_single && !cell.refinement);
    let readers = numbers(|cell| cell.has_path);
    let source = CLAUDE.replace("CELLS", &json!([doorway.paths, plans, quick, readers]).to_string());
    let dir = doorway.althing.home_dir().join("bin");
    std::fs::create_dir_all(&dir).unwrap();
    let program = dir.join("claude");
    std::fs::write(&program, source).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default());
    doorway.althing = doorway.althing.env("PATH", path).env("ANTHROPIC_API_KEY", "sk-ant-test-key");
    doorway.second = Some(json!({"type": "claude_code"}));
    doorway
}

// spec: interactive/launch-run-tool/planning-mode-run
// spec: design/launch-run/mode-matrix
#[test]
fn a_cli_agent_takes_part_as_the_table_says_through_every_door() {
    in_parallel(2, DOORS, |door| {
        let (doorway, cells) = (with_cli_agent(Doorway::new()), cli_cells(door));
        doorway.open(door, &cells);
        doorway.compare(door, &cells);
        // A planning agent writes nothing, not even in its workspace.
        let written = files_below(&doorway.althing.state_dir());
        let planned = written.iter().filter(|(path, _)| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("workspace-plan"))
        });
        ensure(planned.count() == 0, || format!("{door:?}: a planning agent wrote to its workspace"))?;
        let acted = written.iter().any(|(path, _)| path.ends_with("workspace-act-answer.txt"));
        ensure(acted, || format!("{door:?}: nobody wrote to a workspace"))
    });
}

fn cell(is_single: bool, refinement: bool, planning: Planning) -> Cell {
    let wanted = (is_single, refinement, planning);
    let fits = |cell: &Cell| (cell.is_single, cell.refinement, cell.planning) == wanted;
    cli_cells(Door::Message).into_iter().find(fits).unwrap()
}

fn both_kinds(member: fn(&[Cell], &Path, &RecordedRequest) -> Reply) -> [Doorway; 2] {
    [Doorway::with(member), with_cli_agent(Doorway::with(member))]
}

fn workspace_files(doorway: &Doorway) -> Vec<String> {
    let files = files_below(&doorway.althing.state_dir()).into_iter();
    let names = files.map(|(path, _)| path.file_name().unwrap().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("workspace-")).collect();
    names.sort();
    names.dedup();
    names
}

// spec: modes/plan-mode/plan-mode-submission
// spec: interactive/launch-run-tool/planning-mode-run
#[test]
fn chat_with_plan_first_plans_without_acting_and_executes_only_an_approved_plan() {
    for (planning, line) in [(Planning::Plan, "n"), (Planning::PlanAndExecute, "y")] {
        for doorway in both_kinds(member) {
            let cell = cell(false, true, planning);
            let config = doorway.config("plan", "default", |team| team);
            let path = format!("{}:rw", cell.dir(&doorway.paths).display());
            let args = ["chat", "--plan", "--config", &config, "--context-path", &path];
            let command = doorway.althing.new_command().args(args);
            command.stdin(format!("{}\n{line}\n", cell.task())).spawn().wait(LONG).expect_code(0);
            doorway.compare(Door::Message, &[cell]);
            assert!(workspace_files(&doorway).iter().all(|name| !name.starts_with("workspace-plan")));
        }
    }
}

// spec: interactive/launch-run-tool/planning-mode-run
#[test]
fn agents_that_plan_first_act_only_when_they_present() {
    for doorway in both_kinds(member) {
        let cell = cell(false, true, Planning::No);
        let config = doorway.config("first", "default", |team| {
            team.rule("coordination", json!({"enable_planning_mode": true}))
        });
        let path = format!("{}:rw", cell.dir(&doorway.paths).display());
        let args = ["--config", &config, "--automation", "--json", "--context-path", &path];
        doorway.althing.new_command().args(args).arg(cell.task()).spawn().wait(LONG).expect_code(0);
        doorway.check_files(cell).unwrap();
        let wrote = workspace_files(&doorway);
        let wanted: &[&str] = if doorway.second.is_some() { &["workspace-act-present.txt"] } else { &[] };
        assert_eq!(wrote, wanted, "nobody else wrote to a workspace");
        for request in doorway.server.requests() {
            let presents = purpose(cell, &request) == "present";
            let acts = request.tool_names().iter().any(|tool| ACTING.contains(tool));
            assert_eq!(acts, presents, "{:?}", request.tool_names());
        }
    }
}

fn parent_and_subagent() -> (Cell, Cell) {
    (cell(false, false, Planning::Plan), cell(false, true, Planning::Plan))
}

/// A member of a planning run that first starts all agents of the run as subagents.
fn delegates(cells: &[Cell], paths: &Path, request: &RecordedRequest) -> Reply {
    let (parent, subagent) = parent_and_subagent();
    let is_parent = cell_in(&texts(request)) == Some(parent.number);
    if is_parent && is_first(request) && request.tool_names().contains(&"spawn_subagents") {
        let task = json!({"task": subagent.task(), "team": true});
        return Reply::call("spawn_subagents", &json!({"tasks": [task]}));
    }
    member(cells, paths, request)
}

// spec: interactive/launch-run-tool/planning-mode-run
#[test]
fn subagents_of_a_planning_run_only_plan() {
    for doorway in both_kinds(delegates) {
        let (parent, subagent) = parent_and_subagent();
        let config = doorway
            .config("sub", "default", |team| team.rule("coordination", json!({"enable_subagents": true})));
        let path = format!("{}:rw", doorway.paths.display());
        let args = ["--config", &config, "--automation", "--quick", "--plan", "--context-path", &path];
        doorway.althing.new_command().args(args).arg(parent.task()).spawn().wait(LONG).expect_code(0);
        let started = doorway.runs();
        let started: Vec<&RunRecord> = started.iter().filter(|run| run.task == subagent.task()).collect();
        assert!(!started.is_empty() && started.iter().all(|run| run.planning), "{}", started.len());
        assert!(started.iter().all(|run| run.attempts["answer"] == 2), "both agents took part");
        for cell in [parent, subagent] {
            doorway.check_files(cell).unwrap();
        }
        assert_eq!(workspace_files(&doorway), [] as [&str; 0]);
        for request in doorway.server.requests() {
            let acts = |tool: &&str| ACTING.contains(tool) && *tool != "spawn_subagents";
            assert!(!request.tool_names().iter().any(acts), "{:?}", request.tool_names());
        }
    }
}
