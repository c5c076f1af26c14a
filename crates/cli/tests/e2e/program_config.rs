//! What keys of the config do for the real CLI agents: `prices` and `--max-cost`, `mcp_servers`, `permission_mode` and
//! the lists of tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use althing_testkit::{FakeModel, RecordedRequest, Reply, Script, skip_unless_ci, wait};
use serde_json::{Value, json};

use super::programs::{
    START_TIMEOUT, has_sandbox, headless, internal_reply, member, passed, programs, send_op, with_programs,
};
use super::support::{LIMIT, SKY, althing};

#[test]
fn the_tokens_of_each_real_cli_agent_are_priced_by_its_model() {
    let Some(dir) = programs() else { return };
    // Claude Code reports what its calls cost, and this counts, although the config names a price. The others report
    // only tokens.
    // opencode prefixes the names of its models with their provider. The fake server reports 100 input and 20 output
    // tokens per call in its OpenAI formats. How a CLI agent adds up tokens is up to that agent, so only the ratio is
    // checked.
    for (kind, model) in [
        ("claude_code", "claude-opus-4-6"),
        ("codex", "codex-model"),
        ("gemini_cli", "gemini-model"),
        ("opencode", "fake/opencode-model"),
    ] {
        let server = FakeModel::start_on_thread(Script::from_fn(member));
        let althing = with_programs(&dir, &server);
        let agent = json!({"id": "a", "backend": {"type": kind, "model": model}});
        let price =
            json!({"input_per_million": 1000, "output_per_million": 1000, "cached_input_per_million": 1000});
        let name = model.rsplit('/').next().unwrap();
        althing.file("team.yaml", json!({"agents": [agent], "prices": {name: price}}).to_string());
        let args = ["--config", "team.yaml", "--quick", "--max-cost", "5", "--json", "Which is best?"];
        let output = althing.new_command().args(args).spawn().wait(START_TIMEOUT).expect_code(0);
        let result: Value = serde_json::from_str(&output.stdout).unwrap();
        let usage = &result["usage"];
        let tokens = usage["input_tokens"].as_f64().unwrap() + usage["output_tokens"].as_f64().unwrap();
        assert!(tokens > 0.0, "{kind}: {usage}");
        let dollars = usage["cost_usd"].as_f64().unwrap();
        if kind == "claude_code" {
            assert!(dollars > 0.0 && dollars < tokens / 2000.0, "its own cost: {usage}");
        } else {
            assert!((dollars - tokens / 1000.0).abs() < 1e-9, "{kind}: {usage}");
        }
        assert_eq!(usage["unpriced_calls"].as_u64().unwrap_or_default(), 0, "{kind}: {usage}");
        passed(kind);
    }
}

#[test]
fn a_limit_on_cost_is_refused_for_an_agent_whose_cost_cannot_be_known() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let price = json!({"input_per_million": 1, "output_per_million": 2});
    // Each case: the backend, its price if the config has one, and what the error names (`None`: the run is not
    // refused).
    let cases = [
        (json!({"type": "codex"}), None, Some("prices: {codex:")),
        (json!({"type": "codex", "model": "gpt-0-unheard-of"}), None, Some("prices: {gpt-0-unheard-of:")),
        (json!({"type": "gemini_cli"}), None, Some("prices: {gemini_cli:")),
        (json!({"type": "openai", "model": "gpt-0-unheard-of"}), None, Some("prices: {gpt-0-unheard-of:")),
        (json!({"type": "codex"}), Some("codex"), None),
        (json!({"type": "codex", "model": "gpt-0-unheard-of"}), Some("gpt-0-unheard-of"), None),
        (json!({"type": "claude_code"}), None, None),
        (json!({"type": "chatcompletion", "model": "m", "base_url": server.base_url()}), None, None),
    ];
    for (backend, priced, refused) in cases {
        let althing = althing().env("OPENAI_API_KEY", "sk-test-key-of-nobody");
        let mut config = json!({"agents": [{"id": "a", "backend": backend}]});
        if let Some(name) = priced {
            config["prices"] = json!({name: price});
        }
        althing.file("team.yaml", config.to_string());
        let args = ["--config", "team.yaml", "--quick", "--max-cost", "1", "Which is best?"];
        let output = althing.new_command().args(args).spawn().wait(LIMIT);
        match refused {
            Some(hint) => {
                let output = output.expect_code(1);
                let stderr = &output.stderr;
                assert!(stderr.contains("`--max-cost` cannot limit its cost"), "{backend}: {stderr}");
                assert!(stderr.contains(hint), "{backend}: {stderr}");
                assert!(!althing.state_dir().join("sessions").exists(), "{backend}: nothing was started");
            }
            // The CLI agents are not installed here, so the run fails; but `--max-cost` must not be the reason.
            None => assert!(!output.stderr.contains("--max-cost"), "{backend}: {}", output.stderr),
        }
    }
}

fn asks_the_weather(request: &RecordedRequest) -> Reply {
    let weather = request.tool_names().into_iter().find(|name| name.ends_with("mcp__sky__weather"));
    match weather.map(str::to_owned) {
        Some(weather) if !request.body().to_string().contains("End your turn now") => {
            Reply::call(weather, &json!({"city": "Hof"}))
        }
        _ => member(request),
    }
}

#[test]
fn each_real_cli_agent_in_a_run_calls_the_mcp_servers_of_its_config_through_us() {
    let Some(dir) = programs() else { return };
    let servers = json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["sky.py"]}]);
    for kind in ["claude_code", "codex", "gemini_cli", "opencode"] {
        let server = FakeModel::start_on_thread(Script::from_fn(asks_the_weather));
        let althing = with_programs(&dir, &server);
        althing.file("sky.py", SKY);
        let agent = json!({"id": "a", "backend": {"type": kind, "mcp_servers": servers}});
        althing.file("team.yaml", json!({"agents": [agent]}).to_string());
        let args = ["--config", "team.yaml", "--quick", "What is the weather in Hof?"];
        let output = althing.new_command().args(args).spawn().wait(START_TIMEOUT).expect_code(0);
        let told = |request: &RecordedRequest| request.body().to_string().contains("Sunny in Hof");
        assert!(server.requests().iter().any(told), "{kind}: {}", output.stderr);
        let own_tool = |request: &RecordedRequest| {
            request.tool_names().iter().any(|name| name.ends_with("althingtools_read_file"))
        };
        assert!(!server.requests().iter().any(own_tool), "{kind} gets no second set of file tools");
        passed(kind);
    }
}

const KINDS: [(&str, &str); 4] =
    [("claude_code", "claude"), ("codex", "codex"), ("gemini_cli", "gemini"), ("opencode", "opencode")];

/// A model that writes one file with a command and another one with a tool for files, whether these are offered or not.
/// Codex has only the command, to which `codex` is added. The prompt names the working directory between `<` and `>`.
fn writer(codex: Value) -> impl Fn(&RecordedRequest) -> Reply + Send + Sync {
    let turns = Mutex::new(BTreeMap::<String, usize>::new());
    move |request: &RecordedRequest| {
        if let Some(internal_reply) = internal_reply(request) {
            return internal_reply;
        }
        let body = request.body().to_string();
        let Some((_, task)) = body.split_once("Write into <").filter(|_| !request.tool_names().is_empty())
        else {
            return Reply::text("A title");
        };
        let task = task.split('>').next().unwrap().to_owned();
        let written = format!("{task}/written.txt");
        let mut turns = turns.lock().unwrap();
        let turn = turns.entry(task).or_default();
        *turn += 1;
        let command = json!({"command": "echo x > ran.txt", "description": "d"});
        let path = request.path();
        let (command, file) = if path.contains("/responses") {
            let mut input = codex.clone();
            input["cmd"] = "echo x > ran.txt".into();
            (Reply::call("exec_command", &input), Reply::text("all done"))
        } else if path.contains("/messages") {
            let file = json!({"file_path": written, "content": "x"});
            (Reply::call("Bash", &command), Reply::call("Write", &file))
        } else if path.contains("GenerateContent") {
            let file = json!({"file_path": written, "content": "x"});
            (Reply::call("run_shell_command", &command), Reply::call("write_file", &file))
        } else {
            let file = json!({"filePath": written, "content": "x"});
            (Reply::call("bash", &command), Reply::call("write", &file))
        };
        match *turn {
            1 => command,
            2 => file,
            _ => Reply::text("all done"),
        }
    }
}

#[test]
fn each_permission_mode_and_list_of_tools_decides_what_a_real_cli_agent_can_write() {
    let Some(dir) = programs() else { return };
    let server = FakeModel::start_on_thread(Script::from_fn(writer(json!({}))));
    let althing = with_programs(&dir, &server);
    if !has_sandbox(&althing) {
        skip_unless_ci("no sandbox works here");
        return;
    }
    let denied = |kind: &str| match kind {
        "claude_code" => ["Bash", "Write"],
        "gemini_cli" => ["run_shell_command", "write_file"],
        _ => ["bash", "write"],
    };
    // Each case: the options, and whether a command and a tool for files can write.
    let cases = |kind: &str| {
        let [shell, write] = denied(kind);
        let mode = |mode: &str| json!({ "permission_mode": mode });
        // Codex edits files with commands.
        let is_codex = kind == "codex";
        let modes = [
            ("bypass", mode("bypassPermissions"), true, !is_codex),
            ("accept", mode("acceptEdits"), is_codex, !is_codex),
            ("default", mode("default"), false, false),
            ("plan", mode("plan"), false, false),
        ];
        let lists = [
            ("without-shell", json!({"disallowed_tools": [shell]}), false, true),
            ("only-write", json!({"allowed_tools": [write]}), false, true),
        ];
        modes.into_iter().chain(lists.into_iter().filter(|_| !is_codex)).collect::<Vec<_>>()
    };
    let (mut agents, mut tasks) = (Vec::new(), Vec::new());
    for (kind, name) in KINDS {
        for (case, options, _, _) in cases(kind) {
            let id = format!("{name}-{case}");
            let mut backend = json!({"type": kind});
            backend.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
            agents.push(json!({"id": id, "backend": backend}));
            let cwd = althing.work_dir().join(&id);
            std::fs::create_dir(&cwd).unwrap();
            let mut task = headless(&id, &id, &format!("Write into <{}>", cwd.display()));
            task["cwd"] = json!(cwd);
            tasks.push(task);
        }
    }
    // All at once would need much memory.
    let stages = tasks.chunks(6).enumerate();
    let stages: Vec<Value> =
        stages.map(|(at, tasks)| json!({"name": at.to_string(), "tasks": tasks})).collect();
    althing.file("team.yaml", json!({"agents": agents}).to_string());
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let args = ["workflow", "run", "flow.yaml", "--config", "team.yaml", "--json"];
    let output = althing.new_command().args(args).spawn().wait(START_TIMEOUT);
    for (kind, name) in KINDS {
        for (case, _, runs, writes) in cases(kind) {
            let wrote = |file: &str| althing.work_dir().join(format!("{name}-{case}")).join(file).exists();
            let found = (wrote("ran.txt"), wrote("written.txt"));
            assert_eq!(found, (runs, writes), "{name} {case}: {}\n{}", output.stdout, output.stderr);
        }
        passed(kind);
    }
}

#[test]
fn with_approvals_a_permission_mode_decides_what_a_real_cli_agent_asks_and_can_write() {
    let Some(dir) = programs() else { return };
    let codex = json!({"sandbox_permissions": "require_escalated", "justification": "Write it?"});
    let server = FakeModel::start_on_thread(Script::from_fn(writer(codex)));
    let althing = with_programs(&dir, &server);
    let (mut agents, mut tasks) = (Vec::new(), Vec::new());
    for (mode, (kind, name)) in
        ["acceptEdits", "plan"].into_iter().flat_map(|mode| KINDS.map(|kind| (mode, kind)))
    {
        let id = format!("{name}-{mode}");
        agents.push(json!({"id": id, "backend": {"type": kind, "permission_mode": mode}}));
        let cwd = althing.work_dir().join(&id);
        std::fs::create_dir(&cwd).unwrap();
        let mut task = headless(&id, &id, &format!("Write into <{}>", cwd.display()));
        (task["cwd"], task["approvals"]) = (json!(cwd), json!(true));
        tasks.push(task);
    }
    althing.file("team.yaml", json!({"agents": agents}).to_string());
    // One CLI agent of each kind at a time: if two Codex processes create their databases at the same time, one may
    // fail.
    let (first, second) = tasks.split_at(KINDS.len());
    let stages = json!([{"name": "a", "tasks": first}, {"name": "b", "tasks": second}]);
    althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
    let args = ["workflow", "run", "flow.yaml", "--config", "team.yaml", "--stream-events=all", "--take-ops"];
    let running = althing.new_command().args(args).open_stdin().spawn();
    // Every question is answered with yes.
    let mut asked = BTreeMap::<String, Vec<String>>::new();
    let mut answered = BTreeSet::new();
    wait::until(START_TIMEOUT, || {
        let lines = running.stdout();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for event in events.filter(|event| event["type"] == "interaction_opened") {
            let (task, ask) = (event["task"].as_str().unwrap(), &event["data"]);
            if answered.insert(ask["id"].to_string()) {
                asked.entry(task.to_owned()).or_default().push(ask["text"].to_string());
                let decision = json!({"decision": "choose", "option": "allow"});
                send_op(&running, &json!({"op": "answer", "interaction": ask["id"], "decision": decision}));
            }
        }
        !running.is_running()
    });
    let output = running.wait(LIMIT);
    // In `acceptEdits`, each CLI agent writes `written.txt` without asking, and asks before it runs the command that
    // writes `ran.txt`. There are two exceptions: Claude Code does not ask about a command that only writes files, and
    // Codex has no tool for writing files, so it does not write `written.txt`.
    let cases = [("claude", (true, true), false), ("codex", (true, false), true)];
    let cases = cases.into_iter().chain(["gemini", "opencode"].map(|name| (name, (true, true), true)));
    for (name, could, asks_to_run) in cases {
        let wrote =
            |mode: &str, file: &str| althing.work_dir().join(format!("{name}-{mode}")).join(file).exists();
        let found = |mode: &str| (wrote(mode, "ran.txt"), wrote(mode, "written.txt"));
        let asked = |mode: &str| asked.get(&format!("w1.{name}-{mode}")).cloned().unwrap_or_default();
        assert_eq!(found("acceptEdits"), could, "{name}: {}", output.stderr);
        let asks = asked("acceptEdits");
        assert_eq!(asks.len(), usize::from(asks_to_run), "{name}: {asks:?}");
        assert!(asks.iter().all(|ask| ask.contains("ran.txt")), "{name}: {asks:?}");
        assert_eq!(found("plan"), (false, false), "{name}: {}", output.stderr);
        assert_eq!(asked("plan"), [""; 0], "{name} asks to write");
        passed(name);
    }
}
