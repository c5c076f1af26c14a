//! Stand-ins for the program `claude`: one on pipes that takes part in runs and conversations, and one in a terminal.
//! Both record what they received in a directory that they share with the test.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use althing_testkit::Althing;
use serde_json::Value;

use super::support::claude_dir;

/// Answers and presents with a text, and votes for the agent that the file `vote` names (without it, for `agent2`). In
/// each call it tries to write a file into every context path that any of its prompts ever named, and records which of
/// these paths it can read. If the file `count` exists, it also writes its content to `count.txt` in its workspace.
const ON_PIPES: &str = r#"#!/usr/bin/env python3
import json, os, sys
own = os.path.join(os.environ["HOME"], ".claude")
log, vote = os.path.join(own, "calls.jsonl"), os.path.join(own, "vote")
prompt, arguments = sys.stdin.read(), " ".join(sys.argv[1:])
earlier = [json.loads(line) for line in open(log)] if os.path.exists(log) else []
offered = [tool for tool in ("vote", "new_answer", "launch_run") if "mcp__althingtools__" + tool in arguments]
phase = offered[0] if offered else "present"
named = [line[2:].split(" (")[0] for line in prompt.splitlines() if line.startswith("- /")]
paths = sorted(set(named + [path for call in earlier for path in call["paths"]]))
readable = [path for path in paths if os.path.isdir(path) and os.listdir(path)]
for path in paths:
    try:
        open(os.path.join(path, "claude-%s.txt" % phase), "w").write("by claude\n")
    except OSError:
        pass
count = os.path.join(own, "count")
if os.path.exists(count):
    open("count.txt", "w").write(open(count).read())
call = {"arguments": sys.argv[1:], "prompt": prompt, "phase": phase, "paths": paths, "readable": readable}
open(log, "a").write(json.dumps(call) + "\n")
target = open(vote).read() if os.path.exists(vote) else "agent2"
said = json.dumps({"agent_id": target, "reason": "clear"}) if phase == "vote" else "Text of claude"
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": said, "session_id": "s"}))
"#;

/// Records every key until the file `ready` exists, and then shows the input box of Claude Code. Reads a line, shows
/// the box again and waits a second for another line, asks for a permission, reads one key, and ends once the file
/// `end` exists.
const IN_TERMINAL: &str = r#"#!/bin/bash
own="$HOME/.claude"
note() { echo "$1" >> "$own/notes"; }
box() { printf '\033[2J\033[H──────────────\n❯ \n──────────────\n'; }
echo starting; note started
stty -icanon
while [ ! -e "$own/ready" ]; do if IFS= read -r -t 0.02 -n 1 key; then note "early: $key"; fi; done
stty icanon; note ready; box
IFS= read -r line; note "line: $line"
box; if IFS= read -r -t 1 line; then note "another line: $line"; fi
printf '\033[2J\033[H──────────────\n\n Do you want to write made.txt?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel · Tab to amend'
stty -icanon; key=$(head -c 1); stty icanon; note "key: $key"
printf '\033[2J\033[Hgoing on\n'
while [ ! -e "$own/end" ]; do sleep 0.02; done
"#;

pub fn own_dir(althing: &Althing) -> PathBuf {
    althing.home_dir().join(".claude")
}

pub fn on_pipes(althing: &Althing) -> Althing {
    install(althing, ON_PIPES)
}

pub fn in_terminal(althing: &Althing) -> Althing {
    install(althing, IN_TERMINAL)
}

pub fn install(althing: &Althing, script: &str) -> Althing {
    let bin = althing.home_dir().join("bin");
    let program = bin.join("claude");
    std::fs::create_dir_all(&bin).unwrap();
    claude_dir(althing);
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    althing.new_command().env("PATH", path)
}

pub fn calls(althing: &Althing) -> Vec<Value> {
    lines(&own_dir(althing).join("calls.jsonl"))
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub fn notes(althing: &Althing) -> Vec<String> {
    lines(&own_dir(althing).join("notes"))
}

fn lines(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}
