//! The class `Limits` of the table of attacks (`attacks.rs`): an agent uses up processes, memory, open files or the
//! disk, or never ends. The limits of these tests are low, so that the attacks are harmless.

use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};

use althing_testkit::attacks::{processes_with, unique_seconds};
use althing_testkit::wait;
use serde_json::{Value, json};

use super::attack_agents::{Act, Kind, SandboxName, World};
use super::support::{ensure, paths_below};

/// A limit: its key, its value in these tests, and a shell command that goes far beyond it and then prints `CANARY`.
/// `{MARK}` is a number of seconds to sleep.
const ATTACKS: [(&str, &str, &str); 4] = [
    (
        "processes",
        "100",
        "n=0; while [ $n -lt 400 ]; do sleep {MARK} & n=$((n + 1)); done; sleep 4; jobs -r | grep -c . > count; \
         [ $(cat count) -gt 300 ] && echo CANARY processes",
    ),
    (
        "memory",
        "\"256m\"",
        "(head -c 1200000000 /dev/zero; sleep 4; echo) | tail > /dev/null && echo CANARY memory",
    ),
    (
        "open_files",
        "128",
        "n=$(ulimit -n); { [ $n = unlimited ] || [ $n -gt 128 ]; } && echo CANARY $n files; \
         ulimit -n 4096 2> /dev/null && echo CANARY more files; true",
    ),
    (
        "disk",
        "\"64m\"",
        "head -c 400000000 /dev/zero > big; sleep 6; [ $(wc -c < big) -gt 390000000 ] && echo CANARY disk",
    ),
];

/// Why a kind of agent does not try to exceed a limit. `None` if it does.
pub fn not_tried(kind: Kind, key: &str) -> Option<&'static str> {
    match (kind, key) {
        (Kind::FileTools, "processes" | "memory" | "open_files") => {
            Some("the file tools start no process; Althing opens and closes one file at a time for them")
        }
        (Kind::FileTools, "disk") => {
            Some("what a model writes with the file tools is limited by the number of its tool calls")
        }
        (Kind::McpServer, "disk") => {
            Some("a server may write wherever the user may write, so what it writes is not measured")
        }
        _ => None,
    }
}

pub fn print_not_tried(kind: Kind, sandbox: SandboxName) {
    for (key, ..) in ATTACKS {
        if let Some(why) = not_tried(kind, key) {
            eprintln!("not tried: {kind:?}, {sandbox:?}, the limit `{key}`: {why}");
        }
    }
}

/// Fails if an agent exceeds a limit, or if it reaches one (except that on open files) and nobody is told. Without
/// `whole`, only the first attack is tried.
pub fn exhaust(world: impl Fn() -> World, whole: bool) -> Result<(), String> {
    let kind = world().cell.kind;
    if kind == Kind::FileTools {
        return never_end(world());
    }
    let tried = ATTACKS.iter().filter(|(key, ..)| not_tried(kind, key).is_none());
    for (key, value, command) in tried.take(if whole { ATTACKS.len() } else { 1 }) {
        let mut world = world();
        let limit: Value = serde_json::from_str(value).unwrap();
        world.rules.push(("limits", json!({ *key: limit })));
        let mark = unique_seconds();
        // The second act shows whether the agent survived the attack. If not, the run must end with a message.
        let acts = [Act::Shell(command.replace("{MARK}", &mark)), Act::Shell("echo still here".to_owned())];
        let said: Arc<Mutex<String>> = Arc::default();
        let heard = Arc::clone(&said);
        let judge = move |_: usize, output: &str| heard.lock().unwrap().push_str(output);
        let (output, requests, _) = world.act_while_possible(&[], &acts, judge);
        let printed = format!("{}{}{}", said.lock().unwrap(), output.stdout, output.stderr);
        ensure(!printed.contains("CANARY "), || format!("{:?}: {key}: {printed}", world.cell))?;
        let bodies: String = requests.iter().map(|request| request.body().to_string()).collect();
        let said = format!("{printed}{bodies}");
        // The kernel enforces the limit on open files; whether Althing reports it is not checked here. In a container,
        // the kernel refuses to start more processes, and the shell says so.
        let refused = world.cell.sandbox == SandboxName::Docker && printed.contains("can't fork");
        let told = *key == "open_files" || refused || said.contains(&format!("limits.{key}"));
        ensure(told, || format!("{:?}: nobody is told of the limit `{key}`: {printed}", world.cell))?;
        let gone = wait::holds_within(wait::PATIENCE, || processes_with(&mark).is_empty());
        ensure(gone, || format!("{:?}: {key}: processes are left", world.cell))?;
    }
    sparse(&world())
}

fn never_end(mut world: World) -> Result<(), String> {
    let limits = json!({"tool_calls_per_agent": 30, "model_calls_per_run": 60});
    world.rules.push(("limits", limits));
    let path = world.places.base.join("project/notes.txt");
    let acts = vec![Act::Tool("read_file", json!({ "path": path })); 400];
    let (output, requests, _) = world.act_while_possible(&[], &acts, |_, _| ());
    let bodies: String = requests.iter().map(|request| request.body().to_string()).collect();
    let said = format!("{}{}{bodies}", output.stdout, output.stderr);
    ensure(requests.len() <= 62 && said.contains("limits."), || {
        format!("{:?}: {} requests: {}", world.cell, requests.len(), output.stderr)
    })
}

/// A sparse file of four tebibytes costs nothing, also in the snapshot of the answer.
fn sparse(world: &World) -> Result<(), String> {
    let acts = [Act::Shell("truncate -s 4T big && echo made-''it".to_owned())];
    let made = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&made);
    let judge = move |_: usize, output: &str| *seen.lock().unwrap() = output.contains("made-it");
    let (output, _) = world.act(&[], &acts, judge);
    let blocks: u64 = paths_below(&world.places.base)
        .iter()
        .filter_map(|path| path.symlink_metadata().ok())
        .map(|data| data.blocks())
        .sum();
    let made = *made.lock().unwrap() || world.cell.sandbox == SandboxName::Docker;
    ensure(made && output.code == Some(0) && blocks * 512 < 100_000_000, || {
        format!("{:?}: {} bytes on disk, {:?}: {}", world.cell, blocks * 512, output.code, output.stderr)
    })
}
