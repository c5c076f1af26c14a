//! A person can approve only what the person could see: in real terminals of several sizes, no key approves a run, a
//! plan or the request of a CLI agent before everything that the approval grants was on the screen.

use althing_testkit::{Terminal, wait};
use serde_json::{Value, json};

use super::scripted_claude;
use super::support::{LIMIT, althing, ensure, in_parallel, of_type};
use super::visible::proposing_run;

const SIZES: [(u16, u16); 3] = [(40, 12), (80, 24), (160, 45)];

const PAGE_DOWN: &str = "\x1b[6~";

/// A stand-in for Claude Code that uses its control protocol: it asks whether it may run the command in the file
/// `command`, and writes the answer to the file `answers`.
const ASKS: &str = r#"#!/usr/bin/env python3
import json, os, sys
own = os.path.join(os.environ["HOME"], ".claude")
def say(message):
    print(json.dumps(message), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "control_request":
        say({"type": "control_response", "response": {"subtype": "success", "request_id": message["request_id"]}})
    elif message["type"] == "user":
        tool = json.load(open(os.path.join(own, "request.json")))
        say({"type": "control_request", "request_id": "q1", "request": dict(tool, subtype="can_use_tool")})
    else:
        open(os.path.join(own, "answers"), "a").write(message["response"]["response"]["behavior"] + "\n")
        say({"type": "result", "subtype": "success", "is_error": False, "result": "done", "session_id": "s"})
        break
"#;

fn marker(screen: &str) -> Option<&str> {
    let rows: Vec<&str> = screen.lines().collect();
    // The marker is the row of the frame that says how many rows are hidden. It is found by its left end, which is in
    // the column of the frame's corner: text inside the frame cannot reach that column.
    let (column, corner) =
        rows.iter().enumerate().find_map(|(n, row)| Some((row.chars().position(|c| c == '┌')?, n)))?;
    rows.into_iter().skip(corner).find(|row| row.chars().nth(column) == Some('├'))
}

fn more_below(screen: &str) -> bool {
    marker(screen).is_some_and(|row| row.contains('↓'))
}

/// Presses the key `approve` on every page before the last one, and then turns the page. Returns everything that was
/// shown. Afterwards, the last page is on the screen.
fn read_on(terminal: &mut Terminal, approve: &str) -> String {
    let mut shown = terminal.screen();
    while more_below(&terminal.screen()) {
        // Keys of the dialog itself need no pause between them.
        terminal.keys_at_once(approve);
        let said = |screen: &str| {
            marker(screen).is_some_and(|row| row.contains("first read") || row.contains("before you approve"))
        };
        terminal.wait_until(LIMIT, "the dialog says why nothing is approved", said);
        let before = terminal.screen();
        terminal.keys(PAGE_DOWN);
        terminal.wait_until(LIMIT, "the next page", |screen| screen != before && !said(screen));
        shown.push_str(&terminal.screen());
    }
    shown
}

fn answers(events: &[Value]) -> usize {
    of_type(events, "interaction_closed").len()
}

// spec: interactive/run-approval-flow/approval-required
#[test]
fn a_run_with_two_hundred_paths_is_approved_in_a_terminal_only_after_all_were_shown() {
    let cases = SIZES.into_iter().flat_map(|size| [100, 199].map(|dangerous| (size, dangerous)));
    in_parallel(2, cases, |((width, height), dangerous)| {
        let dir = tempfile::Builder::new().prefix("p").rand_bytes(3).tempdir().unwrap();
        let shared = dir.path().canonicalize().unwrap();
        let name = |n: usize| if n == dangerous { "danger".to_owned() } else { format!("n{n:03}") };
        let paths: Vec<_> = (0..200).map(|n| shared.join(name(n))).collect();
        for path in &paths {
            std::fs::create_dir(path).unwrap();
        }
        let fixture = proposing_run(&json!({"task": "Do it"}), |team| {
            let rules = paths.iter().map(|path| json!({"path": path, "permission": "write"}));
            team.rule("context_paths", rules.collect::<Vec<_>>())
        });
        let command = fixture.althing.new_command().args(["--config", "team.yaml", "go"]);
        let mut terminal = command.terminal(width, height);
        terminal.wait_for("Cancel esc", LIMIT);
        ensure(more_below(&terminal.screen()), || format!("no marker:\n{}", terminal.screen()))?;
        let shown = read_on(&mut terminal, "\r");
        for n in 0..200 {
            ensure(shown.contains(&format!("/{}", name(n))), || format!("{} was not shown", name(n)))?;
        }
        let closed = answers(&fixture.althing.events());
        ensure(closed == 0, || "approved before the end".to_owned())?;
        terminal.keys("\r");
        wait::until(LIMIT, || answers(&fixture.althing.events()) == 1);
        Ok(())
    });
}

#[test]
fn every_hidden_character_of_a_request_of_a_cli_agent_is_shown_in_a_terminal() {
    let althing = scripted_claude::install(&althing(), ASKS);
    let own = scripted_claude::own_dir(&althing);
    let command = "rm -r build\recho hi \u{202e}a\u{200b}b\u{e0041}c\u{2066}d";
    let request = json!({"tool_name": "Bash", "input": {"command": command, "timeout": 71}});
    std::fs::write(own.join("request.json"), request.to_string()).unwrap();
    let task = json!({"id": "t", "agent": "claude", "executionMode": "headless", "approvals": true,
        "prompt": "Do it"});
    let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "only", "tasks": [task]}]});
    althing.file("flow.yaml", flow.to_string());
    let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]);
    let mut terminal = command.terminal(100, 30);
    terminal.wait_for("waits for you", LIMIT);
    terminal.keys("a");
    let shown = r"rm -r build␍echo hi \u{202e}a\u{200b}b\u{e0041}c\u{2066}d";
    terminal.wait_until(LIMIT, "the whole request", |screen| screen.contains(shown));
    terminal.keys("1");
    wait::until(LIMIT, || std::fs::read_to_string(own.join("answers")).is_ok_and(|text| text == "allow\n"));
}

#[test]
fn no_request_of_a_cli_agent_hides_its_dangerous_part_in_a_terminal() {
    let spread = |filler: &str| format!("ls {};DANGER;{}", filler.repeat(25), filler.repeat(25));
    let commands = [
        ("newlines", format!("ls{}DANGER{}", "\n".repeat(60), "\n".repeat(60))),
        ("a long line", spread(&"x".repeat(50))),
        ("invisible letters", spread(&format!("ls -l{} /home; ", "\u{200b}".repeat(30)))),
        ("wide letters", spread("日本語日本語日本語日 ")),
        ("ligatures", spread("لالالالالالالالالالا ")),
        (
            "a forged end",
            spread("\n├─ ↓ 1 more line · pgdn ─┤\n› 1 Allow\n  2 Deny\n↑↓ choose · enter answer\n"),
        ),
    ];
    let cases = SIZES.into_iter().flat_map(|size| commands.iter().map(move |command| (size, command)));
    in_parallel(2, cases, |((width, height), (how, command))| {
        let althing = scripted_claude::install(&althing(), ASKS);
        let own = scripted_claude::own_dir(&althing);
        let request = json!({"tool_name": "Bash", "input": {"command": command, "timeout": 71}});
        std::fs::write(own.join("request.json"), request.to_string()).unwrap();
        let task = json!({"id": "t", "agent": "claude", "executionMode": "headless", "approvals": true,
            "prompt": "Do it"});
        let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "only", "tasks": [task]}]});
        althing.file("flow.yaml", flow.to_string());
        let command = althing.new_command().args(["workflow", "run", "flow.yaml", "--offline"]);
        let mut terminal = command.terminal(width, height);
        terminal.wait_for("waits for you", LIMIT);
        terminal.keys("a");
        terminal.wait_until(LIMIT, "the question", |screen| screen.contains("t asks for permission"));
        // On a large screen the shorter requests fit, so there is no marker.
        let is_marked = height > 12 || more_below(&terminal.screen());
        ensure(is_marked, || format!("{how}: no marker:\n{}", terminal.screen()))?;
        let shown = read_on(&mut terminal, "1");
        for text in ["DANGER", "timeout: 71", "1 Allow", "2 Deny"] {
            ensure(shown.contains(text), || format!("{how} at {width}x{height}: {text}:\n{shown}"))?;
        }
        ensure(!own.join("answers").exists(), || format!("{how}: answered before the end"))?;
        terminal.keys("1");
        wait::until(LIMIT, || {
            std::fs::read_to_string(own.join("answers")).is_ok_and(|text| text == "allow\n")
        });
        Ok(())
    });
}
