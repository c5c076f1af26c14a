//! A state directory that was found in the working directory, with sessions, plans and links of somebody else's choice:
//! it leads to no other directory, and showing its sessions writes nothing (row S13 of docs/reliability.md).

use std::os::unix::fs::symlink;

use althing_testkit::{Althing, RecordedRequest, Reply, Script};
use serde_json::json;

use super::mcp::Client;
use super::scripted_claude;
use super::support::{Fixture, LIMIT, althing, files_below, paths_below, run};

const ANSWERS: &str = r#"#!/bin/sh
cat > /dev/null
echo '{"type": "system", "subtype": "init", "session_id": "s"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "Text of claude", "session_id": "s"}'
"#;

const CHECKSUM_FIELD: usize = 18;

/// The checksum of a line, as a stranger would compute it.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

fn forged(log: &str, change: impl Fn(&str) -> String) -> String {
    let line = |line: &str| {
        let head = change(&line[..line.len() - CHECKSUM_FIELD]);
        format!("{head},\"crc\":\"{:08x}\"}}\n", crc32c(head.as_bytes()))
    };
    log.lines().map(line).collect()
}

#[test]
fn showing_the_result_of_a_found_session_writes_nothing() {
    let fixture = Fixture::new(1, Script::parliament());
    let here = || fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
    here().args(["--config", "team.yaml", "--automation", "task"]).spawn().wait(LIMIT).expect_code(0);
    let state = fixture.althing.work_dir().join(".althing");
    let session = althing_testkit::process::newest_session(&state).unwrap();
    let id = session.file_name().unwrap().to_str().unwrap().to_owned();
    let victim = fixture.althing.work_dir().join("victim");
    std::fs::create_dir(&victim).unwrap();

    let log = std::fs::read_to_string(session.join("events.jsonl")).unwrap();
    assert_eq!(forged(&log, str::to_owned), log, "the checksums are computed as Althing does");
    let writes: Vec<_> =
        (0..100).map(|n| json!({"path": format!("/tmp/file{n}"), "change": "new"})).collect();
    let planted = forged(&log, |line| {
        let (before, after) = (json!(session.join("tasks/r1")).to_string(), json!(victim).to_string());
        let line = line.replace(&format!("\"log_dir\":{before}"), &format!("\"log_dir\":{after}"));
        line.replace("\"context_path_writes\":[]", &format!("\"context_path_writes\":{}", json!(writes)))
    });
    assert_ne!(planted, log);
    std::fs::write(session.join("events.jsonl"), planted).unwrap();
    std::fs::remove_file(session.join("session.json")).unwrap();
    std::fs::remove_dir_all(session.join("tasks")).unwrap();

    let another = fixture.althing.work_dir().join("home-of-another");
    let output = here().env("HOME", &another).args(["resume", &id]).spawn().wait(LIMIT).expect_code(0);
    assert!(output.stdout.contains("Final answer of model-a"), "{}", output.stdout);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0, "nothing is written where the log says");
    assert!(!session.join("tasks").exists(), "nothing is written in the session of somebody else");
}

#[test]
fn a_found_session_is_not_served_over_mcp() {
    let fixture = Fixture::new(1, Script::parliament());
    let here = || fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
    here().args(["--config", "team.yaml", "--automation", "task"]).spawn().wait(LIMIT).expect_code(0);
    let state = fixture.althing.work_dir().join(".althing");
    let session = althing_testkit::process::newest_session(&state).unwrap();
    let run_id = format!("{}.r1", session.file_name().unwrap().to_str().unwrap());
    let another = fixture.althing.work_dir().join("home-of-another");
    for (user, args, is_own) in [
        (here(), &["--offline"] as &[&str], true),
        (here().env("HOME", &another), &["--offline"], false),
        // `--trust` may be meant for the config: it accepts no session that the command does not name.
        (here().env("HOME", &another), &["--offline", "--trust"], false),
    ] {
        let mut client = Client::start(&user, args);
        let listed = client.tool("list_runs", &json!({}));
        assert_eq!(listed.to_string().contains(&run_id), is_own, "{listed}");
        let resources = client.call("resources/list", &json!({}));
        assert_eq!(resources.to_string().contains(&run_id), is_own, "{resources}");
        for path in ["result", "log/result.json"] {
            let uri = format!("althing://runs/{run_id}/{path}");
            let read = client.call("resources/read", &json!({"uri": uri}));
            assert_eq!(read.get("error").is_none(), is_own, "{uri}: {read}");
        }
        let result = client.tool("run_result", &json!({"run_id": run_id}));
        assert_eq!(result["isError"] != true, is_own, "{result}");
    }
}

#[test]
fn a_workspace_that_a_log_names_elsewhere_is_not_served() {
    let fixture = Fixture::new(1, Script::parliament());
    let secret = fixture.althing.file("home-of-another/.ssh/id", "PRIVATE");
    let another = secret.parent().unwrap().parent().unwrap().to_owned();
    let here = || fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
    here().args(["--config", "team.yaml", "--automation", "task"]).spawn().wait(LIMIT).expect_code(0);
    let state = fixture.althing.work_dir().join(".althing");
    let session = althing_testkit::process::newest_session(&state).unwrap();
    let log = std::fs::read_to_string(session.join("events.jsonl")).unwrap();
    let planted = forged(&log, |line| {
        let Some((before, rest)) = line.split_once("\"workspace_path\":") else { return line.to_owned() };
        let end = rest.find([',', '}']).unwrap();
        format!("{before}\"workspace_path\":{}{}", json!(another), &rest[end..])
    });
    assert!(planted.contains(&format!("\"workspace_path\":{}", json!(another))), "{planted}");
    std::fs::write(session.join("events.jsonl"), planted).unwrap();
    std::fs::remove_file(session.join("session.json")).unwrap();
    // The session is this user's own, so the only reason for a refusal is the path in its log.
    let mut client = Client::start(&here(), &["--offline"]);
    let run_id = format!("{}.r1", session.file_name().unwrap().to_str().unwrap());
    let uri = |path: &str| json!({"uri": format!("althing://runs/{run_id}/{path}")});
    let result = client.call("resources/read", &uri("result"));
    assert!(result.get("error").is_none(), "the run itself can be read: {result}");
    let read = client.call("resources/read", &uri("workspace/.ssh/id"));
    assert!(read.get("error").is_some() && !read.to_string().contains("PRIVATE"), "{read}");
}

#[test]
fn a_session_that_changed_since_it_was_accepted_must_be_accepted_again() {
    let fixture = Fixture::new(1, super::hostile::overwrites_a_file());
    let file = fixture.althing.file("project/file.txt", "before");
    let path = format!("{}:rw", file.parent().unwrap().display());
    let here = || fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
    let written =
        here().args(["--config", "team.yaml", "--automation", "--quick", "--context-path", &path, "task"]);
    written.spawn().wait(LIMIT).expect_code(0);
    let session =
        althing_testkit::process::newest_session(&fixture.althing.work_dir().join(".althing")).unwrap();
    let id = session.file_name().unwrap().to_str().unwrap();
    let another = fixture.althing.work_dir().join("home-of-another");
    let undo = |more: &[&str]| {
        let command = here().env("HOME", &another).args(["undo", id]).args(more.iter().copied());
        command.spawn().wait(LIMIT).expect_code(i32::from(!more.contains(&"--diff")))
    };
    assert!(undo(&["--diff", "--trust"]).stdout.contains("by the run"));
    assert!(undo(&["--diff"]).stdout.contains("by the run"), "it is still accepted");
    // The undo of a changed version could write to any file, so it is refused. A refused undo does not accept the
    // version.
    std::fs::write(session.join("tasks/more"), "").unwrap();
    for _ in 0..3 {
        let refused = undo(&[]);
        assert!(refused.stderr.contains("changed since you accepted it"), "{}", refused.stderr);
    }
    let resumed = here().env("HOME", &another).args(["resume", id]).spawn().wait(LIMIT);
    assert!(undo(&[]).stderr.contains("changed since you accepted it"), "{resumed:?}");
    // A command that fails accepts nothing.
    let kept = fixture.althing.work_dir().join("kept");
    std::fs::rename(session.join("tasks"), &kept).unwrap();
    assert!(undo(&["--trust"]).stderr.contains("changed a file"), "there is nothing to undo");
    let refused = undo(&[]);
    assert!(refused.stderr.contains("changed since you accepted it"), "{}", refused.stderr);
    std::fs::rename(&kept, session.join("tasks")).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "by the run");
    let accepted = here().env("HOME", &another).args(["undo", id, "--trust"]).spawn().wait(LIMIT);
    accepted.expect_code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
    // The last undo itself changed the session. That is no reason to ask again.
    let again = undo(&[]);
    assert!(!again.stderr.contains("changed since"), "{}", again.stderr);
}

#[test]
fn trust_on_the_command_line_accepts_no_session_that_is_opened_later_on_the_screen() {
    let althing = althing();
    let here = || althing.new_command().env("ALTHING_STATE_DIR", "");
    let chat = |text: &str| {
        here().args(["chat", "--offline"]).stdin(format!("{text}\n")).spawn().wait(LIMIT).expect_code(0);
        let session = althing_testkit::process::newest_session(&althing.work_dir().join(".althing")).unwrap();
        session.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let (_planted, named) = (chat("the planted one"), chat("the named one"));
    let another = althing.work_dir().join("home-of-another");
    let command = here().env("HOME", &another).args(["--offline", "--trust", "--session", &named]);
    let mut terminal = command.terminal(100, 30);
    terminal.wait_for("the named one", LIMIT);
    terminal.keys("/sessions\r");
    terminal.wait_for("the planted one", LIMIT);
    terminal.keys("\r");
    terminal.wait_for("Use what was found here?", LIMIT);
    terminal.keys("\x1b");
    // The screen returns to the conversation in which the user chose the other one.
    terminal.wait_for("you did not accept it", LIMIT);
    let screen = terminal.wait_for("the named one", LIMIT);
    assert!(!screen.contains("the planted one"), "{screen}");
    terminal.keys("\x04");
    assert_eq!(terminal.wait(LIMIT), 0, "{}", terminal.screen());
}

#[test]
fn a_session_planted_in_the_place_of_an_own_one_is_not_the_users() {
    let fixture = Fixture::new(1, super::hostile::overwrites_a_file());
    let file = fixture.althing.file("project/file.txt", "before");
    let path = format!("{}:rw", file.parent().unwrap().display());
    let here = || fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
    let state = fixture.althing.work_dir().join(".althing");
    let kept = fixture.althing.work_dir().join("kept");
    // How the user's own session is deleted, and whether the copy that is planted in its place contains its token.
    for (how, with_token) in [("remove", true), ("prune", true), ("by hand", false)] {
        std::fs::write(&file, "before").unwrap();
        let args = ["--config", "team.yaml", "--automation", "--quick", "--context-path", &path, "task"];
        here().args(args).spawn().wait(LIMIT).expect_code(0);
        let session = althing_testkit::process::newest_session(&state).unwrap();
        let id = session.file_name().unwrap().to_str().unwrap().to_owned();
        let undo = |more: &[&str]| here().args(["undo", &id]).args(more.iter().copied()).spawn().wait(LIMIT);
        assert!(undo(&["--diff"]).expect_code(0).stdout.contains("by the run"), "it is the user's own");
        run(&here(), &["sessions"]).expect_code(0);
        let copied = std::process::Command::new("cp").arg("-a").arg(&session).arg(&kept).status().unwrap();
        assert!(copied.success());
        match how {
            "remove" => drop(run(&here(), &["sessions", "remove", &id]).expect_code(0)),
            "prune" => drop(run(&here(), &["sessions", "prune", "--older-than", "0"]).expect_code(0)),
            _ => std::fs::remove_dir_all(&session).unwrap(),
        }
        assert!(!session.exists(), "{how}");
        if !with_token {
            std::fs::remove_file(kept.join("token")).unwrap();
        }
        std::fs::rename(&kept, &session).unwrap();
        let refused = undo(&[]).expect_code(1);
        assert!(refused.stderr.contains("not started by you"), "{how}: {}", refused.stderr);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "by the run", "{how}: nothing was written");
        std::fs::remove_dir_all(&session).unwrap();
    }
}

#[test]
fn the_damaged_log_of_a_found_session_is_not_repaired_before_the_session_is_accepted() {
    let althing = althing();
    let here = || althing.new_command().env("ALTHING_STATE_DIR", "");
    here().args(["chat", "--offline"]).stdin("a planted goal\n").spawn().wait(LIMIT).expect_code(0);
    let state = althing.work_dir().join(".althing");
    let session = althing_testkit::process::newest_session(&state).unwrap();
    let id = session.file_name().unwrap().to_str().unwrap().to_owned();
    let log = session.join("events.jsonl");
    let mut torn = std::fs::read(&log).unwrap();
    torn.extend_from_slice(b"{torn");
    std::fs::write(&log, &torn).unwrap();
    let before = files_below(&state);
    let another = althing.work_dir().join("home-of-another");
    let there = || here().env("HOME", &another).args(["--offline"]);
    let refused = there().args(["--continue", "--automation", "more"]).spawn().wait(LIMIT);
    assert_ne!(refused.code, Some(0), "{}", refused.stderr);
    let mut terminal = there().args(["resume", &id]).terminal(100, 30);
    terminal.wait_for("Not at all esc", LIMIT);
    assert!(files_below(&state) == before, "the session was changed before anybody was asked");
    terminal.keys("\x1b");
    assert_ne!(terminal.wait(LIMIT), 0);
    assert!(files_below(&state) == before, "the session was changed although it was refused");
    there().args(["chat", "--session", &id, "--trust"]).stdin("more\n").spawn().wait(LIMIT).expect_code(0);
    let repaired = std::fs::read(&log).unwrap();
    assert!(repaired.len() > torn.len() && !repaired.starts_with(&torn));
}

#[test]
fn a_link_in_the_place_of_a_log_is_not_read_and_one_in_the_place_of_a_lock_keeps_no_session() {
    let fixture = Fixture::new(1, Script::parliament());
    let here = || fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
    here().args(["--config", "team.yaml", "--automation", "task"]).spawn().wait(LIMIT).expect_code(0);
    let state = fixture.althing.work_dir().join(".althing");
    let session = althing_testkit::process::newest_session(&state).unwrap();
    let id = session.file_name().unwrap().to_str().unwrap().to_owned();
    let elsewhere = fixture.althing.work_dir().join("elsewhere.jsonl");
    std::fs::rename(session.join("events.jsonl"), &elsewhere).unwrap();
    symlink(&elsewhere, session.join("events.jsonl")).unwrap();
    std::fs::remove_file(session.join("session.json")).unwrap();
    let before = std::fs::read(&elsewhere).unwrap();
    for action in ["show", "repair"] {
        let refused = run(&here(), &["sessions", action, &id]).expect_code(1);
        assert!(refused.stderr.contains("is a symbolic link"), "{action}: {}", refused.stderr);
        assert!(!refused.stdout.contains("Final answer"), "{action}: {}", refused.stdout);
    }
    // Whatever is in the place of the lock, the session can be deleted.
    std::fs::remove_file(session.join("lock")).unwrap();
    symlink("/etc/passwd", session.join("lock")).unwrap();
    run(&here(), &["sessions", "remove", &id]).expect_code(0);
    assert!(!session.exists());
    assert_eq!(std::fs::read(&elsewhere).unwrap(), before);
}

#[test]
fn a_recording_can_only_be_shown() {
    let fixture = Fixture::new(1, super::hostile::overwrites_a_file());
    let file = fixture.althing.file("project/file.txt", "before");
    let path = format!("{}:rw", file.parent().unwrap().display());
    let here = || fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
    let written =
        here().args(["--config", "team.yaml", "--automation", "--quick", "--context-path", &path, "task"]);
    written.spawn().wait(LIMIT).expect_code(0);
    let state = fixture.althing.work_dir().join(".althing");
    let session = althing_testkit::process::newest_session(&state).unwrap();
    let another = fixture.althing.work_dir().join("home-of-another");
    for user in [here(), here().env("HOME", &another)] {
        let mut terminal = user.args(["replay", session.to_str().unwrap(), "--speed", "0"]).terminal(100, 30);
        terminal.wait_for("task", LIMIT);
        terminal.keys("/undo\r");
        terminal.wait_for("this is a recording", LIMIT);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "by the run");
    }
}

#[test]
fn nothing_in_a_found_state_directory_leads_a_run_elsewhere() {
    let plain = althing().env("ALTHING_STATE_DIR", "");
    let state = plain.work_dir().join(".althing");
    let victim = plain.work_dir().join("victim");
    for dir in [&state, &victim] {
        std::fs::create_dir(dir).unwrap();
    }
    for name in ["agents", "plans", "memory", "anything"] {
        symlink("../victim", state.join(name)).unwrap();
        for args in [
            &["--offline", "--automation", "task"][..],
            &["--offline", "--plan", "--automation", "task"],
            &["sessions"],
        ] {
            let refused = run(&plain, args).expect_code(1);
            assert!(
                refused.stderr.contains(&format!("{name} is a symbolic link")),
                "{args:?}: {}",
                refused.stderr
            );
        }
        std::fs::remove_file(state.join(name)).unwrap();
    }
    // The directory of a CLI agent's first call, with a link where Althing makes a directory that the agent can write.
    let with_claude = scripted_claude::install(&plain, ANSWERS);
    for agent in ["claude", "claude_code"] {
        let attempt = state.join("agents").join(agent).join("r1.a1/1");
        std::fs::create_dir_all(&attempt).unwrap();
        symlink(&victim, attempt.join("scratch")).unwrap();
    }
    let planted = paths_below(&state.join("agents"));
    with_claude.file(
        "team.yaml",
        json!({"agents": [{"id": "claude", "backend": {"type": "claude_code"}}]}).to_string(),
    );
    run(&with_claude, &["--config", "team.yaml", "--automation", "--quick", "task"]).expect_code(0);
    let answered = files_below(&state)
        .into_iter()
        .any(|(_, file)| String::from_utf8_lossy(&file).contains("Text of claude"));
    assert!(answered, "the CLI agent was not started");
    assert_eq!(
        paths_below(&state.join("agents")),
        planted,
        "a CLI agent's files are not in a directory that was found"
    );
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
}

pub fn makes_a_plan() -> Script {
    let plan = json!({"tasks": [{"id": "look", "description": "Look around", "verification": "seen"}]});
    Script::from_fn(move |request: &RecordedRequest| {
        if request.system_text().contains("plan") && request.tool_names().contains(&"new_answer") {
            Reply::new_answer(&plan.to_string())
        } else {
            Reply::text(plan.to_string())
        }
    })
}

#[test]
fn a_plan_behind_a_link_in_a_found_state_directory_is_neither_executed_nor_changed() {
    let fixture = Fixture::new(1, makes_a_plan());
    let here = || {
        let args = ["--config", "team.yaml", "--automation", "--quick"];
        fixture.althing.new_command().env("ALTHING_STATE_DIR", "").args(args)
    };
    // The user's own plan, in a state directory that the user names.
    let made = here().args(["--state-dir", "elsewhere", "--plan", "Look around"]);
    made.spawn().wait(LIMIT).expect_code(0);
    let plans = fixture.althing.work_dir().join("elsewhere/plans");
    let before = files_below(&plans);
    assert!(!before.is_empty());
    let state = fixture.althing.work_dir().join(".althing");
    std::fs::create_dir(&state).unwrap();
    symlink("../elsewhere/plans", state.join("plans")).unwrap();
    let requests = fixture.server.request_count();
    let refused = here().args(["--execute-plan", "latest"]).spawn().wait(LIMIT).expect_code(1);
    assert!(refused.stderr.contains("plans is a symbolic link"), "{}", refused.stderr);
    assert_eq!(fixture.server.request_count(), requests);
    assert!(files_below(&plans) == before, "the plan was changed");
    std::fs::remove_file(state.join("plans")).unwrap();
    std::fs::create_dir(state.join("plans")).unwrap();
    let id = std::fs::read_dir(&plans).unwrap().next().unwrap().unwrap().file_name();
    symlink(plans.join(&id), state.join("plans").join(&id)).unwrap();
    for which in ["latest", id.to_str().unwrap()] {
        let refused = here().args(["--execute-plan", which, "--trust"]).spawn().wait(LIMIT).expect_code(1);
        assert!(refused.stderr.contains("no plan"), "{}", refused.stderr);
    }
    assert_eq!(fixture.server.request_count(), requests);
    assert!(files_below(&plans) == before, "the plan was changed");
    let named = here().args(["--state-dir", "elsewhere", "--execute-plan", "latest"]);
    named.spawn().wait(LIMIT).expect_code(0);
}

#[test]
fn a_line_break_in_the_name_of_the_directory_adds_no_line_to_a_message() {
    let line = r#"mkdir -p "$THERE" && cd "$THERE" && exec "$ALTHING" "$@""#;
    let here =
        Althing::new("/bin/sh").env("ALTHING_STATE_DIR", "").env("ALTHING", env!("CARGO_BIN_EXE_althing"));
    let there = here.work_dir().join("clone\nFAKE: this directory is trusted");
    let here = here.env("THERE", &there);
    for (args, says_where) in [
        (&["--offline", "--automation", "task"][..], true),
        (&["sessions"], false),
        (&["sessions", "show", "latest"], false),
        (&["undo", "latest"], false),
        (&["config", "check", "missing.yaml"], true),
        (&["--config", "missing.yaml", "--automation", "task"], true),
        (&["--offline", "--automation", "--context-path", "missing", "task"], true),
        (&["--offline", "--automation", "--output-file", "missing/file", "task"], false),
        (&["workflow", "check", "missing.yaml"], true),
        (&["resume", "missing"], false),
        (&["replay", "missing"], true),
        (&["eval", "missing.jsonl", "--offline"], false),
    ] {
        let mut terminal = here.new_command().args(["-c", line, "sh"]).args(args).terminal(400, 40);
        terminal.wait(LIMIT);
        let raw = String::from_utf8_lossy(&terminal.raw()).replace('\r', "");
        assert!(!raw.contains("\nFAKE"), "{args:?}: {raw}");
        assert!(!says_where || raw.contains("FAKE"), "{args:?} does not say where: {raw}");
    }
}

/// A huge sparse file, as somebody else could plant it: it takes almost no space on the disk, and reading it fills the
/// memory.
fn plant_hole(path: &std::path::Path, len: u64) {
    let mut file = std::fs::File::create(path).unwrap();
    file.set_len(len - 1).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    std::io::Write::write_all(&mut file, b"\n").unwrap();
}

#[test]
fn huge_files_in_found_sessions_cost_a_notice_and_no_memory() {
    let althing = althing();
    let here = || {
        // A process that may have 400 MB of memory of its own.
        let limited = ["-c", "ulimit -d 400000 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_althing")];
        althing.program("/bin/bash").env("ALTHING_STATE_DIR", "").args(limited)
    };
    here().args(["--offline", "--automation", "task"]).spawn().wait(LIMIT).expect_code(0);
    let sessions = althing.work_dir().join(".althing/sessions");
    let own = althing_testkit::process::newest_session(&althing.work_dir().join(".althing")).unwrap();
    let plant = |id: &str, log: u64, checkpoint: u64| {
        let dir = sessions.join(id);
        std::fs::create_dir(&dir).unwrap();
        plant_hole(&dir.join("events.jsonl"), log);
        plant_hole(&dir.join("session.json"), checkpoint);
    };
    plant("20990101-000000-0001", 4 << 40, 100);
    plant("20990101-000000-0002", 900_000_000, 100);
    plant("20990101-000000-0003", 100, 900_000_000);
    let listed = here().args(["sessions", "--json"]).spawn().wait(LIMIT).expect_code(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let sessions = listed.as_array().unwrap();
    assert_eq!(sessions.len(), 4, "{listed}");
    let damage = |end: &str| {
        let session = sessions.iter().find(|at| at["id"].as_str().unwrap().ends_with(end)).unwrap();
        session["damage"].as_str().unwrap_or_default().to_owned()
    };
    assert!(damage("0001").contains("larger than 256 MB"), "{listed}");
    assert!(damage("0002").contains("larger than 256 MB"), "{listed}");
    assert!(!damage("0003").is_empty(), "{listed}");
    let own = own.file_name().unwrap().to_str().unwrap();
    assert_eq!(damage(own), "", "{listed}");
    let cost = here().args(["sessions", "cost"]).spawn().wait(LIMIT).expect_code(0);
    assert!(cost.stderr.contains("20990101-000000-0002"), "{cost:?}");
    // A command that names such a session reads it only if this user started it.
    let id = "20990101-000000-0002";
    let continued = ["--offline", "--automation", "--session", id, "go on"];
    for args in [&["resume", id] as &[&str], &["resume", id, "--trust"], &["undo", id], &continued] {
        let refused = here().args(args.iter().copied()).spawn().wait(LIMIT).expect_code(1);
        assert!(refused.stderr.contains("larger than 256 MB"), "{refused:?}");
    }
    // To estimate the cost of a run, Althing looks for past runs of this user, also among these sessions.
    here().args(["--offline", "--automation", "--continue", "go on"]).spawn().wait(LIMIT).expect_code(0);
}

/// Commits a file below the ignored `.althing` in another clone, and pulls that commit into the user's directory.
const PULL_PLANTED: &str = "set -e; umask 022\n\
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null\n\
    git() { command git -c user.name=a -c user.email=a@example.com \"$@\"; }\n\
    [ -d .git ] || { git init -q; git commit -q --allow-empty -m base; }\n\
    git clone -q . \"$CLONE\"; mkdir -p \"$(dirname \"$CLONE/$FILE\")\"; cp \"$PLANTED\" \"$CLONE/$FILE\"\n\
    (cd \"$CLONE\"; git add -f \"$FILE\"; git commit -q -m planted); git pull -q \"$CLONE\"";

#[test]
fn a_log_or_plan_that_git_put_in_the_place_of_the_users_own_is_a_strangers() {
    let fixture = Fixture::new(1, makes_a_plan());
    let work = fixture.althing.work_dir();
    let here = |more: &[&str]| {
        let here = fixture.althing.new_command().env("ALTHING_STATE_DIR", "");
        let here = here.args(["--config", "team.yaml", "--automation", "--quick"]);
        here.args(more.iter().copied()).spawn().wait(LIMIT)
    };
    here(&["--plan", "Look around"]).expect_code(0);
    let state = work.join(".althing");
    let session = althing_testkit::process::newest_session(&state).unwrap();
    let id = session.file_name().unwrap().to_str().unwrap().to_owned();
    let plan = std::fs::read_dir(state.join("plans")).unwrap().next().unwrap().unwrap().path();
    // The user's own edit of the plan leaves it the user's own.
    let text = std::fs::read_to_string(plan.join("plan.json")).unwrap();
    std::fs::write(plan.join("plan.json"), text.replace("Look around", "Look here")).unwrap();
    here(&["--execute-plan", "latest"]).expect_code(0);
    let own = here(&["undo", &id, "--diff"]).expect_code(1);
    assert!(own.stderr.contains("changed a file") && !own.stderr.contains("replaced"), "{}", own.stderr);
    let planted = tempfile::tempdir().unwrap();
    let pull = |file: &std::path::Path| {
        let from = planted.path().join("file");
        std::fs::copy(file, &from).unwrap();
        let clone = planted.path().join(file.file_name().unwrap()).join("clone");
        let pulled = std::process::Command::new("sh")
            .args(["-c", PULL_PLANTED])
            .current_dir(&work)
            .env("CLONE", clone)
            .env("FILE", file.strip_prefix(&work).unwrap())
            .env("PLANTED", from)
            .status();
        assert!(pulled.unwrap().success());
    };
    let requests = fixture.server.request_count();
    pull(&plan.join("plan.json"));
    let refused = here(&["--execute-plan", "latest"]).expect_code(1);
    assert!(refused.stderr.contains("a file of it was replaced"), "{}", refused.stderr);
    pull(&session.join("events.jsonl"));
    let refused = here(&["undo", &id, "--diff"]).expect_code(1);
    assert!(refused.stderr.contains("its log was replaced"), "{}", refused.stderr);
    assert_eq!(fixture.server.request_count(), requests);
}
