//! The table of attacks: every kind of agent tries every class of attack in every sandbox, as root and as an ordinary
//! user. `not_tried` lists the cells that cannot apply, with reasons; the tests print them.
//!
//! With every change, all attacks are tried in bubblewrap; in the other sandboxes, only some of the escapes and of the
//! limits. Every night, all attacks are tried in every sandbox.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use althing_testkit::attacks::{
    ATTEMPTS, Attempt, Goal, HARMLESS, Outside, file_tool_attempts, processes_with,
};
use althing_testkit::docker::{TestDockerDaemon, is_excluded};
use althing_testkit::{
    FakeModel, Output, RunningProcess, Script, User, is_root, scale, skip_unless_ci, wait,
};

use super::attack_agents::{Act, Cell, Kind, SandboxName, World, users};
use super::attack_limits::{exhaust, print_not_tried};
use super::attack_writes::write_unnoticed;
use super::support::{LIMIT, ensure, files_below, in_parallel, paths_below};
use Kind::{CliAgent, FileTools, McpServer};
use SandboxName::{Bubblewrap, Docker, Landlock};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Getting out of the sandbox, or of the directories of the file tools.
    Escapes,
    FoundDirectory,
    /// Learning the user's secrets, and having known secrets stored or shown.
    Secrets,
    /// Changing files of writable context paths so that nobody notices.
    Writes,
    Limits,
}

const KINDS: [Kind; 4] = [FileTools, Kind::Command, CliAgent, McpServer];
const CLASSES: [Class; 5] =
    [Class::Escapes, Class::FoundDirectory, Class::Secrets, Class::Writes, Class::Limits];

/// Why a kind of agent does not try a class of attacks in a sandbox. `None` if it does.
fn not_tried(kind: Kind, sandbox: SandboxName, class: Class) -> Option<&'static str> {
    match (kind, sandbox, class) {
        (CliAgent, Docker, _) => {
            Some("CLI agents do not run in containers: bubblewrap or Landlock confines them")
        }
        (McpServer, Docker, _) => Some(
            "MCP servers do not run in containers: bubblewrap protects paths from them, or a notice is given",
        ),
        (McpServer, Landlock, Class::Escapes) => Some(
            "Landlock cannot protect paths from a server that keeps the user's other rights: a notice says that the \
             server has all permissions",
        ),
        _ => None,
    }
}

/// Why a kind of agent does not try the attempts with this goal, in any sandbox. `None` if it does.
fn not_attempted(kind: Kind, goal: Goal) -> Option<&'static str> {
    match (kind, goal) {
        (FileTools, Goal::Processes | Goal::Network | Goal::Sockets | Goal::Kernel) => {
            Some("the file tools start no process and open nothing but files")
        }
        (CliAgent, Goal::Network) => Some("a CLI agent has the network, because it must reach its model"),
        (McpServer, Goal::Protected) => None,
        (McpServer, _) => Some(
            "an MCP server that the user configured has the user's rights; only what its agent may not write is \
             protected from it",
        ),
        _ => None,
    }
}

/// Whether all attacks are tried in this sandbox, or only a selection.
fn whole(sandbox: SandboxName) -> bool {
    sandbox == Bubblewrap || scale(0, 1) == 1
}

fn attempts(kind: Kind, sandbox: SandboxName) -> Vec<Attempt> {
    let mut goals = BTreeSet::new();
    let tried = |(goal, ..): &Attempt| not_attempted(kind, *goal).is_none();
    let chosen = |(goal, ..): &Attempt| goals.insert(*goal) || whole(sandbox);
    ATTEMPTS.into_iter().filter(tried).filter(chosen).collect()
}

/// What an agent does first and last, to show that it can act at all: the word is printed only if it did.
fn sign_of_life(kind: Kind, world: &World) -> (Act, &'static str) {
    if kind == FileTools {
        let path = world.places.base.join("project/notes.txt");
        return (Act::Tool("read_file", serde_json::json!({ "path": path })), "notes");
    }
    (Act::Shell("printf can-%s act".to_owned()), "can-act")
}

type Signs = Vec<(String, Vec<String>)>;

/// Has the agent of a cell try these attempts in one run. Returns the output of the program, and for each attempt the
/// signs that it succeeded. `may_read`: whether the agent may read what the user may read.
fn try_out(world: &World, outside: Outside, attempts: Vec<(String, Act)>, may_read: bool) -> (Output, Signs) {
    let (life, word) = sign_of_life(world.cell.kind, world);
    let first = ("act at all".to_owned(), life.clone());
    let all = std::iter::once(first).chain(attempts).chain([("act at the end".to_owned(), life)]);
    let (names, acts): (Vec<String>, Vec<Act>) = all.unzip();
    let last = acts.len() - 1;
    let found: Arc<Mutex<Signs>> = Arc::default();
    let judged = Arc::clone(&found);
    let mut outside = outside;
    let judge = move |n: usize, said: &str| {
        // While a CLI agent, server or container runs, its sandbox shows placeholders for missing protected paths. They
        // are remembered before the first attack, so that they do not count as success.
        if n == 0 {
            outside.remember();
        }
        let mut signs = outside.evidence(if may_read { "" } else { said });
        if (n == 0 || n == last) && !said.contains(word) {
            signs.push(format!("it cannot act: {said}"));
        }
        judged.lock().unwrap().push((names[n].clone(), signs));
    };
    let (output, _) = world.act(&[], &acts, judge);
    let found = std::mem::take(&mut *found.lock().unwrap());
    (output, found)
}

/// The targets of attacks by system calls, held by a process outside of the sandbox.
struct SystemCallTargets {
    process: RunningProcess,
    /// A command that prints the attacks that succeeded, and whether it stopped before it had tried all of them.
    command: String,
}

impl SystemCallTargets {
    /// Only in the cells whose agents have Python. The targets belong to the agent's user.
    fn new(world: &World) -> Option<Self> {
        let Cell { kind, sandbox, .. } = world.cell;
        if !matches!(kind, Kind::Command | CliAgent) || sandbox == Docker || !whole(sandbox) {
            return None;
        }
        let dir = world.places.base.join("calls");
        let program = dir.join("context/system_calls.py");
        let python = world.althing.program("/usr/bin/python3").arg(&program).arg("outside").arg(&dir);
        let process = python.open_stdin().spawn();
        let targets = process.wait_for_stdout(|line| line.starts_with('{'), LIMIT);
        let command = format!(
            "out=$(/usr/bin/python3 '{}' inside '{targets}' 2>&1); echo \"$out\" | grep CANARY; case \"$out\" in \
             *'every attack was tried'*) ;; *) echo \"CANARY: it stopped: $out\";; esac",
            program.display()
        );
        Some(Self { process, command })
    }

    fn evidence(&self) -> Vec<String> {
        self.process.write_stdin("\n");
        let line = self.process.wait_for_stdout(|line| line.starts_with('['), LIMIT);
        serde_json::from_str(&line).unwrap()
    }
}

fn escape(world: &World) -> Result<(), String> {
    let Cell { kind, sandbox, .. } = world.cell;
    let outside = Outside::new(world.places.clone());
    let mark = outside.mark().to_owned();
    let targets = SystemCallTargets::new(world);
    let mut tried: Vec<(String, Act)> = if kind == FileTools {
        let every = if whole(sandbox) { 1 } else { 10 };
        let calls = file_tool_attempts(|text| outside.fill(text)).into_iter().step_by(every);
        calls.map(|(name, tool, arguments)| (name, Act::Tool(tool, arguments))).collect()
    } else {
        let shell = |(_, name, command): Attempt| (name.to_owned(), Act::Shell(outside.fill(command)));
        attempts(kind, sandbox).into_iter().map(shell).collect()
    };
    let calls = targets.iter().map(|targets| Act::Shell(targets.command.clone()));
    tried.extend(calls.map(|act| ("attack by system calls".to_owned(), act)));
    let (output, found) = try_out(world, outside, tried, kind == McpServer);
    let mut failures: Vec<String> = found
        .into_iter()
        .flat_map(|(name, signs)| signs.into_iter().map(move |sign| format!("{name}: {sign}")))
        .collect();
    failures.extend(targets.iter().flat_map(SystemCallTargets::evidence));
    // Processes that an act left running must have ended with Althing, and must not act afterwards.
    let gone = wait::holds_within(LIMIT, || processes_with(&mark).is_empty());
    if !gone || world.places.base.join("home/late").exists() {
        failures.push("a process is left, or acted later".to_owned());
    }
    for path in paths_below(&world.state_dir()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "escaped" || name.ends_with("-evil") {
            failures.push(format!("beside a workspace: {}", path.display()));
        }
    }
    if output.code != Some(0) {
        failures.push(format!("exit code {:?}: {}", output.code, output.stderr));
    }
    ensure(failures.is_empty(), || format!("{:?}:\n{}", world.cell, failures.join("\n")))
}

/// Shows that these tests notice successful attempts: the attempts of an MCP server that nothing confines succeed.
#[test]
fn attempts_of_a_server_that_nothing_confines_succeed_and_are_noticed() {
    if !is_root() {
        return skip_unless_ci("only root can hide bubblewrap");
    }
    let cells = users().into_iter().map(|user| Cell { kind: McpServer, sandbox: Landlock, user });
    in_parallel(2, cells, |cell| {
        let world = World::new(cell, None);
        let outside = Outside::new(world.places.clone());
        // The kernel may forbid an ordinary user to trace processes that are not its own children.
        let tried = |(_, name, _): &&Attempt| {
            HARMLESS.contains(name) && (*name != "trace another" || cell.user == User::Current)
        };
        let attempts: Vec<(String, Act)> = ATTEMPTS
            .iter()
            .filter(tried)
            .map(|(_, name, command)| ((*name).to_owned(), Act::Shell(outside.fill(command))))
            .collect();
        let count = attempts.len();
        let (_, found) = try_out(&world, outside, attempts, false);
        let unnoticed: Vec<&String> =
            found[1..=count].iter().filter(|(_, signs)| signs.is_empty()).map(|(name, _)| name).collect();
        ensure(unnoticed.is_empty(), || format!("{cell:?}: these prove nothing: {unnoticed:?}"))
    });
}

/// A secret of the user that no agent is told.
const UNTOLD: (&str, &str) = ("OPENAI_API_KEY", "sk-untold-0123456789abcdef");
/// A secret of the user that the agent knows.
const KNOWN: (&str, &str) = ("DEPLOY_TOKEN", "known-deploy-token-01");
const KNOWN_FORMS: [&str; 3] =
    [KNOWN.1, "a25vd24tZGVwbG95LXRva2VuLTAx", "6b6e6f776e2d6465706c6f792d746f6b656e2d3031"];

fn look_for_secrets(mut world: World) -> Result<(), String> {
    let kind = world.cell.kind;
    let (first, word) = sign_of_life(kind, &world);
    let tool = |tool, arguments| Act::Tool(tool, arguments);
    let shell = |line: &str| Act::Shell(line.to_owned());
    let acts = if kind == FileTools {
        let mut acts = vec![
            tool("read_file", serde_json::json!({"path": "/proc/self/environ"})),
            tool("read_file", serde_json::json!({"path": world.althing.work_dir().join(".env")})),
            tool("search", serde_json::json!({"pattern": "untold", "path": world.places.base})),
        ];
        acts.extend(KNOWN_FORMS.map(|form| tool("read_file", serde_json::json!({"path": form}))));
        acts
    } else {
        let everywhere = "cat /proc/$PPID/environ /proc/[0-9]*/environ 2> /dev/null | tr '\\0' '\\n'";
        let dotenv = format!("cat '{}'", world.althing.work_dir().join(".env").display());
        let mut acts = vec![shell("env"), shell("tr '\\0' '\\n' < /proc/self/environ")];
        // A server may read what the user may read.
        if kind != McpServer {
            acts.extend([shell(everywhere), shell(&dotenv)]);
        }
        acts.push(shell(&format!("echo {0}; echo {0} >&2", KNOWN_FORMS.join(" "))));
        acts
    };
    let acts: Vec<Act> = std::iter::once(first).chain(acts).collect();
    world.althing.file(".env", format!("{}={}\n", UNTOLD.0, UNTOLD.1));
    let learned: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&learned);
    let wanted = acts.clone();
    let judge = move |n: usize, said: &str| {
        let act = &wanted[n];
        if said.contains(UNTOLD.1) || (n == 0 && !said.contains(word)) {
            heard.lock().unwrap().push(format!("{act:?}: {said}"));
        }
    };
    world.althing = world.althing.env(KNOWN.0, KNOWN.1).env(UNTOLD.0, UNTOLD.1);
    let args = ["--stream-events=all", "--log", "log", "--log-level", "debug"];
    let (output, requests) = world.act(&args, &acts, judge);
    let mut failures = learned.lock().unwrap().clone();
    if output.code != Some(0) {
        failures.push(format!("exit code {:?}: {}", output.code, output.stderr));
    }
    let log = std::fs::read(world.althing.work_dir().join("log")).unwrap_or_default();
    let mut kept = vec![
        ("stdout".to_owned(), output.stdout.into_bytes()),
        ("stderr".to_owned(), output.stderr.into_bytes()),
        ("the log".to_owned(), log),
    ];
    kept.extend(
        files_below(&world.state_dir()).into_iter().map(|(path, text)| (path.display().to_string(), text)),
    );
    if !kept.iter().any(|(path, _)| path.ends_with("events.jsonl")) {
        failures.push("there is no log of events".to_owned());
    }
    for (place, text) in kept {
        let text = String::from_utf8_lossy(&text);
        let forms = KNOWN_FORMS.iter().copied().chain([UNTOLD.1]);
        failures.extend(forms.filter(|form| text.contains(form)).map(|form| format!("{form} is in {place}")));
    }
    let sent = requests.iter().filter(|request| request.body().to_string().contains(UNTOLD.1)).count();
    if sent > 0 {
        failures.push(format!("{sent} requests contain {}", UNTOLD.1));
    }
    ensure(failures.is_empty(), || format!("{:?}:\n{}", world.cell, failures.join("\n")))
}

/// Starts the program in a directory whose config gives an agent every tool of its kind. Nothing may happen before the
/// config is trusted; with trust, the agent acts.
fn find_a_config(world: &World) -> Result<(), String> {
    let server = FakeModel::start_on_thread(Script::parliament());
    world.althing.file("althing.yaml", world.config(&server.base_url()).text());
    let own = world.althing.home_dir().join(".claude");
    // With this file, the CLI agent does nothing but answer.
    std::fs::write(own.join("end"), "").unwrap();
    let traces = || {
        let started = [own.join("claude-was-started"), world.althing.work_dir().join("server-was-started")];
        server.request_count() + started.iter().filter(|path| path.exists()).count()
    };
    let sessions = world.state_dir().join("sessions");
    for args in [&["--automation", "--quick", "task"] as &[&str], &["chat", "--approve", "always"], &["mcp"]]
    {
        let output: Output = world.command().args(args).stdin("Hello\n").spawn().wait(LIMIT);
        let refused = output.code == Some(1) && output.stderr.contains("--trust");
        ensure(refused && traces() == 0 && !sessions.exists(), || {
            format!("{:?}: {args:?}: {} traces: {}", world.cell, traces(), output.stderr)
        })?;
    }
    let output = world.command().args(["--trust", "--automation", "--quick", "task"]).spawn().wait(LIMIT);
    ensure(output.code == Some(0) && traces() > 0, || {
        format!("{:?}: the config is no danger: {}", world.cell, output.stderr)
    })
}

fn try_all(sandbox: SandboxName) {
    if is_excluded(&format!("{sandbox:?}").to_lowercase()) {
        return;
    }
    if !is_root() {
        skip_unless_ci("only root can act as another user, and hide bubblewrap");
        if sandbox == Landlock {
            return;
        }
    }
    let daemon = (sandbox == Docker).then(TestDockerDaemon::start);
    if let Some(daemon) = &daemon {
        daemon.open_to_all_users();
    }
    let mut cells = Vec::new();
    for kind in KINDS {
        let tries = not_tried(kind, sandbox, Class::Escapes).is_none();
        for goal in ATTEMPTS.iter().map(|(goal, ..)| *goal).collect::<BTreeSet<_>>() {
            if let Some(why) = not_attempted(kind, goal).filter(|_| tries) {
                eprintln!("not tried: {kind:?}, {sandbox:?}, {goal:?}: {why}");
            }
        }
        print_not_tried(kind, sandbox);
        for class in CLASSES {
            match not_tried(kind, sandbox, class) {
                Some(why) => eprintln!("not tried: {kind:?}, {sandbox:?}, {class:?}: {why}"),
                None => cells.extend(users().into_iter().map(|user| (Cell { kind, sandbox, user }, class))),
            }
        }
    }
    in_parallel(2, cells, |(cell, class)| {
        let start = Instant::now();
        let world = World::new(cell, daemon.as_ref());
        let result = match class {
            Class::Escapes => escape(&world),
            Class::FoundDirectory => find_a_config(&world),
            Class::Secrets => look_for_secrets(world),
            Class::Writes => write_unnoticed(&world),
            Class::Limits => exhaust(|| World::new(cell, daemon.as_ref()), whole(sandbox)),
        };
        eprintln!("{cell:?}, {class:?}: {:.1?}", start.elapsed());
        result.map_err(|why| format!("{class:?}: {why}"))
    });
}

#[test]
fn no_attack_of_any_agent_succeeds_in_bubblewrap_as_root_or_as_an_ordinary_user() {
    try_all(Bubblewrap);
}

#[test]
fn no_attack_of_any_agent_succeeds_in_landlock_as_root_or_as_an_ordinary_user() {
    try_all(Landlock);
}

#[test]
fn no_attack_of_any_agent_succeeds_in_docker_as_root_or_as_an_ordinary_user() {
    try_all(Docker);
}

/// The suites of attacks that do not depend on the kind of agent, each with the test that runs with every change.
const SUITES: [(&str, &str); 7] = [
    ("hostile::", "hostile::a_config_that_was_found_starts_nothing_before_it_is_trusted"),
    ("secrets::", "secrets::secrets_that_a_model_repeats_reach_neither_a_file_nor_the_terminal"),
    ("injected::", "injected::fifty_obeyed_injections_do_nothing_that_the_role_does_not_allow"),
    ("forged::", "forged::a_hundred_hostile_answers_are_recovered_exactly_and_speak_as_nobody_else"),
    (
        "launch_paths::",
        "launch_paths::without_approval_an_mcp_clients_run_reads_in_the_working_directory_and_nowhere_else",
    ),
    ("server_endings::", "server_endings::"),
    ("limits::", "limits::a_run_at_its_cost_limit_ends_with_the_answer_so_far"),
];

#[test]
fn the_suites_of_attacks_pass_for_an_ordinary_user_and_without_bubblewrap() {
    if !is_root() {
        return skip_unless_ci("only root can act as another user, and hide bubblewrap");
    }
    let nightly = scale(0, 1) == 1;
    for (user, sandbox) in
        [(User::Ordinary, Bubblewrap), (User::Current, Landlock), (User::Ordinary, Landlock)]
    {
        let start = Instant::now();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(SUITES.map(|(suite, test)| if nightly { suite } else { test }));
        // Even in the nightly run, each test runs at its usual size.
        command.args(["--test-threads", "2"]).env_remove("ALTHING_TEST_SCALE");
        if user == User::Ordinary {
            command.env("ALTHING_TEST_USER", "ordinary");
        }
        if sandbox == Landlock {
            command.env("ALTHING_TEST_SANDBOX", "landlock");
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let passed =
            text.lines().find(|line| line.starts_with("test result:")).unwrap_or_default().to_owned();
        eprintln!("{user:?}, {sandbox:?}, {:.1?}: {passed}", start.elapsed());
        assert!(output.status.success(), "{user:?}, {sandbox:?}:\n{text}");
        assert!(!passed.contains(" 0 passed"), "{user:?}, {sandbox:?}: no test ran:\n{text}");
    }
}
