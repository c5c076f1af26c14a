//! Symbolic links in the place of granted paths: an earlier task, an agent or the author of a foreign directory puts a
//! link where a path was, or will be, granted (row S21 of docs/reliability.md). Judged by the files behind the link,
//! and by what reaches a model.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use althing_testkit::docker::is_excluded;
use althing_testkit::process::newest_session;
use althing_testkit::{
    Action, Althing, FakeModel, Machine, Output, RecordedRequest, Reply, Script, User, is_root,
    skip_unless_ci,
};
use serde_json::{Value, json};

use super::attack_agents::{Act, Cell, Kind, SandboxName, World, users};
use super::support::{LIMIT, Team, althing, ensure, in_parallel, texts};

const GRANTED: &str = "GRANTED-WORD";
const SECRET: &str = "SECRET-KEY";

/// How the run is granted the path that an earlier task of the same workflow replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Config,
    /// A context path of the run itself.
    Run,
    Skills,
    Deliverables,
}

impl Way {
    fn dir(self) -> &'static str {
        match self {
            Self::Config | Self::Run => "a/docs",
            Self::Skills => ".agent/skills",
            Self::Deliverables => "deliverables",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct LinkAttempt {
    way: Way,
    is_cli_agent: bool,
    machine: Machine,
    /// Whether the earlier task replaces the path. If not, the attempt shows that the agent can act.
    replaces: bool,
}

fn attempts() -> Vec<LinkAttempt> {
    if !is_root() {
        skip_unless_ci("only root can act as another user, and hide bubblewrap");
    }
    let mut all = Vec::new();
    for way in [Way::Config, Way::Run, Way::Skills, Way::Deliverables] {
        for is_cli_agent in [false, true] {
            for bubblewrap in [true, false] {
                let name = if bubblewrap { "bubblewrap" } else { "landlock" };
                if is_excluded(name) || (!bubblewrap && !is_root()) {
                    continue;
                }
                for user in users() {
                    let machine = Machine { user, bubblewrap };
                    let replaces =
                        [true, false].map(|it| LinkAttempt { way, is_cli_agent, machine, replaces: it });
                    all.extend(replaces);
                }
            }
        }
    }
    all
}

/// A stand-in for Claude Code that does what the file `acts` beside it says.
const CLAUDE: &str = r#"#!/bin/bash
[ "$1" = --version ] && { echo 1.0.0; exit; }
cat > /dev/null
said=$(bash "$(dirname "$0")/acts" 2>&1 | tr -c 'A-Za-z-' ' ')
echo '{"type": "system", "subtype": "init", "session_id": "s"}'
echo "{\"type\": \"result\", \"subtype\": \"success\", \"is_error\": false, \"result\": \"Seen: $said\", \"session_id\": \"s\"}"
"#;

fn with_claude(althing: Althing, acts: &str) -> Althing {
    let home = althing.home_dir();
    std::fs::create_dir_all(home.join("bin")).unwrap();
    std::fs::write(home.join("bin/claude"), CLAUDE).unwrap();
    std::fs::set_permissions(home.join("bin/claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(home.join("bin/acts"), acts).unwrap();
    althing.env("PATH", format!("{}:/usr/bin:/bin", home.join("bin").display()))
}

/// The directory that a link leads to, with a secret and a file that must not change.
fn victim_of(althing: &Althing) -> PathBuf {
    let victim = althing.work_dir().parent().unwrap().canonicalize().unwrap().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("word"), SECRET).unwrap();
    std::fs::write(victim.join("thesis"), "thesis").unwrap();
    victim
}

/// A model that reads `word` and overwrites `thesis` in these directories, by file tools and by a command.
fn reader(dirs: &[&Path]) -> Script {
    let reply = dirs.iter().fold(Reply::empty(), |reply, dir| {
        let (word, thesis) = (dir.join("word"), dir.join("thesis"));
        let command = format!("cat '{}'; echo EVIL > '{}'", word.display(), thesis.display());
        reply
            .and_call("read_file", &json!({ "path": word }))
            .and_call("write_file", &json!({"path": thesis, "content": "EVIL"}))
            .and_call("run_command", &json!({ "command": command }))
    });
    Script::from_fn(move |request: &RecordedRequest| {
        let acted = request.messages().iter().any(|message| message["role"] == "tool");
        if acted { Reply::text("done") } else { reply.clone() }
    })
}

fn is_known(text: &str, server: &FakeModel, output: &Output) -> bool {
    let printed = [&output.stdout, &output.stderr].into_iter().any(|printed| printed.contains(text));
    printed || server.requests().iter().any(|request| texts(request).contains(text))
}

fn untouched(victim: &Path) -> bool {
    std::fs::read_to_string(victim.join("thesis")).unwrap() == "thesis"
        && std::fs::read_dir(victim).unwrap().count() == 2
}

#[test]
fn no_run_follows_a_link_that_an_earlier_task_put_in_the_place_of_its_path() {
    in_parallel(2, attempts(), |attempt| {
        let althing = althing().on(attempt.machine);
        let work = althing.work_dir().canonicalize().unwrap();
        let dir = work.join(attempt.way.dir());
        let victim = victim_of(&althing);
        let (word, thesis) = (dir.join("word"), dir.join("thesis"));
        let acts = format!("cat '{}'; echo EVIL > '{}'", word.display(), thesis.display());
        let althing = with_claude(althing, &acts);
        althing.file(&format!("{}/word", attempt.way.dir()), GRANTED);
        let skill = "---\nname: s\ndescription: d\n---\ntext\n";
        althing.file(&format!("{}/s/SKILL.md", attempt.way.dir()), skill);
        let server = FakeModel::start_on_thread(reader(&[&dir]));
        let mut team = Team::on(&server.base_url(), 1).backend(0, "enable_mcp_command_line", true);
        team = team.backend(0, "cwd", "here").agent("cli", &json!({"type": "claude_code"}));
        let agent = if attempt.is_cli_agent { "cli" } else { "a" };
        let mut launch =
            json!({"task": "task", "agent_mode": "single", "agents": [agent], "refinement": false});
        let grant = json!([{"path": dir, "permission": "write"}]);
        let mut args = vec!["workflow", "run", "flow.yaml", "--config", "team.yaml"];
        match attempt.way {
            Way::Config => team = team.rule("context_paths", grant),
            Way::Run => launch["context_paths"] = grant,
            Way::Skills => team = team.rule("coordination", json!({"use_skills": true})),
            Way::Deliverables => args.extend(["--project", "."]),
        }
        althing.file("team.yaml", team.text());
        let replace = format!("rm -rf '{0}' && ln -s '{1}' '{0}'", dir.display(), victim.display());
        let before = if attempt.replaces { &replace } else { "true" };
        let before = json!({"id": "before", "agent": "command", "command": ["sh", "-c", before],
            "executionMode": "headless", "prompt": ""});
        let stages = [before, json!({"id": "later", "run": launch})];
        let stages: Vec<Value> =
            stages.iter().map(|task| json!({"name": task["id"], "tasks": [task]})).collect();
        althing.file("flow.yaml", json!({"name": "n", "goal": "g", "stages": stages}).to_string());
        let output = althing.new_command().args(&args).spawn().wait(LIMIT);
        let complain = |what: &str| format!("{attempt:?}: {what}: {output:?}");
        ensure(untouched(&victim), || complain("the files behind the link were changed"))?;
        ensure(!is_known(SECRET, &server, &output), || complain("the secret was read"))?;
        ensure(is_known(GRANTED, &server, &output) != attempt.replaces, || complain("wrong word"))?;
        let refused = is_known("was replaced by a symbolic link", &server, &output);
        ensure(refused == attempt.replaces, || complain("the reason"))?;
        ensure((output.code == Some(0)) != attempt.replaces, || complain("the exit code"))
    });
}

#[test]
fn no_command_follows_a_link_that_appears_in_the_place_of_a_context_path_during_a_run() {
    let cell = |(kind, sandbox)| users().into_iter().map(move |user| Cell { kind, sandbox, user });
    let cells = [
        (Kind::FileTools, SandboxName::Bubblewrap),
        (Kind::Command, SandboxName::Bubblewrap),
        (Kind::Command, SandboxName::Landlock),
    ];
    if !is_root() {
        skip_unless_ci("only root can act as another user, and hide bubblewrap");
    }
    let possible = |cell: &Cell| {
        let name = format!("{:?}", cell.sandbox).to_lowercase();
        !is_excluded(&name) && (cell.sandbox == SandboxName::Bubblewrap || is_root())
    };
    in_parallel(2, cells.into_iter().flat_map(cell).filter(possible), |cell| {
        let world = World::new(cell, None);
        let base = world.places.base.clone();
        let victim = victim_of(&world.althing);
        let (granted, word) = (base.join("reference"), base.join("reference/word"));
        std::fs::write(&word, GRANTED).unwrap();
        let read = || match cell.kind {
            Kind::FileTools => Act::Tool("read_file", json!({ "path": word })),
            _ => Act::Shell(format!("cat '{}'", word.display())),
        };
        let replace = move |n: usize, _: &str| {
            if n == 0 {
                std::fs::rename(&granted, base.join("moved")).unwrap();
                symlink(&victim, &granted).unwrap();
            }
        };
        let (output, requests) = world.act(&[], &[read(), read()], replace);
        let told = requests.iter().map(texts).collect::<String>();
        ensure(told.contains(GRANTED), || format!("{cell:?}: it cannot act: {output:?}"))?;
        ensure(!told.contains(SECRET), || format!("{cell:?}: it followed the link"))
    });
}

#[test]
fn an_undo_does_not_follow_a_link_in_the_place_of_a_context_path() {
    let althing = althing();
    let docs = althing.work_dir().canonicalize().unwrap().join("docs");
    let victim = victim_of(&althing);
    althing.file("docs/thesis", "before");
    althing.file("docs/word", GRANTED);
    let server = FakeModel::start_on_thread(reader(&[&docs]));
    let team = Team::on(&server.base_url(), 1)
        .backend(0, "cwd", "here")
        .rule("context_paths", json!([{"path": "docs", "permission": "write"}]));
    althing.file("team.yaml", team.text());
    let args = ["--config", "team.yaml", "--automation", "--quick", "task"];
    althing.new_command().args(args).spawn().wait(LIMIT).expect_code(0);
    assert_eq!(std::fs::read_to_string(docs.join("thesis")).unwrap(), "EVIL");
    let session = newest_session(&althing.state_dir()).unwrap();
    std::fs::remove_dir_all(&docs).unwrap();
    // The file behind the link has the content that the run wrote, so only the link is a reason to refuse the undo.
    std::fs::write(victim.join("thesis"), "EVIL").unwrap();
    symlink(&victim, &docs).unwrap();
    let undone = althing.new_command().arg("undo").arg(session.file_name().unwrap()).spawn().wait(LIMIT);
    assert_ne!(undone.code, Some(0), "{undone:?}");
    assert_eq!(std::fs::read_to_string(victim.join("thesis")).unwrap(), "EVIL", "{undone:?}");
}

#[test]
fn a_relative_context_path_of_the_config_does_not_leave_a_directory_through_a_link() {
    let althing = althing();
    let victim = victim_of(&althing);
    symlink("../victim", althing.work_dir().join("docs")).unwrap();
    let server = FakeModel::start_on_thread(reader(&[&victim]));
    let inside = althing.file("real/word", GRANTED).canonicalize().unwrap();
    symlink("real", althing.work_dir().join("inside")).unwrap();
    let run = |path: &str, args: &[&str]| {
        let team = Team::on(&server.base_url(), 1).backend(0, "cwd", "here");
        let paths = json!([{"path": path, "permission": "write"}]);
        let team = if path.is_empty() { team } else { team.rule("context_paths", paths) };
        // The user's own config, which is used in every directory.
        let own = althing.home_dir().join(".config/althing");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("config.yaml"), team.text()).unwrap();
        althing.new_command().args(["--automation", "--quick"]).args(args).arg("task").spawn().wait(LIMIT)
    };
    for path in ["docs", "./docs", "docs/word", "docs/../victim"] {
        let refused = run(path, &[]).expect_code(1);
        let said = format!("is a link to {}", victim.display());
        assert!(refused.stderr.contains(&said), "{path}: {}", refused.stderr);
        assert_eq!(server.request_count(), 0, "{path}");
        assert!(untouched(&victim), "{path}");
    }
    // A link that stays in the directory is followed, and so is a path that the user typed, with a notice.
    run("inside", &[]).expect_code(0);
    let typed = run("", &["--context-path", "docs"]).expect_code(0);
    let notice = format!("the context path docs is a link; agents get access to {}", victim.display());
    assert!(typed.stderr.contains(&notice), "{typed:?}");
    assert!(inside.exists());
}

#[test]
fn no_link_in_a_found_state_directory_opens_the_sandbox_of_a_cli_agent() {
    // Without a state directory of the user, the files of CLI agents are in the state directory that was found.
    let homeless = [("HOME", ""), ("XDG_STATE_HOME", ""), ("ALTHING_STATE_DIR", "")];
    // A relative path leads to whatever the working directory contains.
    let relative = [("ALTHING_STATE_DIR", ".althing")];
    let places =
        [None, Some("claude/r1.a1/1/scratch"), Some("claude/r1.a1/1"), Some("claude/r1.a1"), Some("claude")];
    for user in users() {
        for (variables, planted) in
            [&homeless[..], &relative].into_iter().flat_map(|set| places.map(|place| (set, place)))
        {
            let althing = althing().on(Machine { user, bubblewrap: true });
            let victim = victim_of(&althing);
            let althing = with_claude(althing, "");
            let claude = format!(
                "#!/bin/bash\n[ \"$1\" = --version ] && {{ echo 1.0.0; exit; }}\ncat > /dev/null\n\
                 word=$(cat '{0}/word'); echo EVIL > '{0}/thesis'\n\
                 echo \"{{\\\"type\\\": \\\"result\\\", \\\"subtype\\\": \\\"success\\\", \\\"is_error\\\": false, \
                 \\\"result\\\": \\\"Seen: $word\\\", \\\"session_id\\\": \\\"s\\\"}}\"\n",
                victim.display()
            );
            std::fs::write(althing.home_dir().join("bin/claude"), claude).unwrap();
            let agents = althing.work_dir().join(".althing/agents");
            if let Some(place) = planted {
                std::fs::create_dir_all(agents.join(place).parent().unwrap()).unwrap();
                symlink(&victim, agents.join(place)).unwrap();
            }
            let team = json!({"agents": [{"id": "claude", "backend": {"type": "claude_code"}}]});
            althing.file("team.yaml", team.to_string());
            let args = ["--config", "team.yaml", "--automation", "--quick", "task"];
            let set = variables.iter().fold(althing.new_command(), |set, (name, value)| set.env(name, value));
            let output = set.args(args).spawn().wait(LIMIT);
            let cell = format!("{user:?} {variables:?} {planted:?}: {output:?}");
            assert!(untouched(&victim), "{cell}");
            assert!(!format!("{output:?}").contains(SECRET), "{cell}");
            // With a state directory of the user, nothing of what was found is used.
            let works = planted.is_none() || variables.len() == 1;
            assert_eq!(output.stdout.contains("Seen: "), works, "{cell}");
            assert_eq!(format!("{output:?}").contains("symbolic link"), !works, "{cell}");
        }
    }
}

#[test]
fn a_state_directory_that_the_user_names_by_a_link_serves_every_kind_of_agent() {
    if !is_root() {
        skip_unless_ci("only root can hide bubblewrap");
    }
    for (is_cli_agent, bubblewrap) in [(false, true), (true, true), (false, false), (true, false)] {
        if !bubblewrap && !is_root() {
            continue;
        }
        let althing = althing().on(Machine { user: User::Current, bubblewrap });
        let docs = althing.work_dir().canonicalize().unwrap().join("docs");
        let acts = format!("cat '{0}/word'; echo EVIL > '{0}/thesis'; echo own > own", docs.display());
        let althing = with_claude(althing, &acts);
        althing.file("docs/word", GRANTED);
        althing.file("docs/thesis", "before");
        let state = althing.work_dir().join("real/state");
        std::fs::create_dir_all(&state).unwrap();
        symlink("real", althing.work_dir().join("link")).unwrap();
        let server = FakeModel::start_on_thread(reader(&[&docs]));
        let team = Team::on(&server.base_url(), 1).backend(0, "cwd", "here");
        let team =
            team.backend(0, "enable_mcp_command_line", true).agent("cli", &json!({"type": "claude_code"}));
        let team = team.rule("context_paths", json!([{"path": "docs", "permission": "write"}]));
        althing.file("team.yaml", team.text());
        let agent = if is_cli_agent { "cli" } else { "a" };
        let args =
            ["--config", "team.yaml", "--automation", "--quick", "--single-agent", agent, "--state-dir"];
        let output = althing.new_command().args(args).args(["link/state", "task"]).spawn().wait(LIMIT);
        let output = output.expect_code(0);
        assert!(is_known(GRANTED, &server, &output), "{is_cli_agent} {bubblewrap}: {output:?}");
        let written = std::fs::read_to_string(docs.join("thesis")).unwrap();
        assert_eq!(written.trim(), "EVIL", "{is_cli_agent} {bubblewrap}: {output:?}");
    }
}

/// A chat agent that launches the run that the message contains as JSON, and agents that read `word` and overwrite
/// `thesis` in these directories.
fn chat_of(althing: &Althing, dirs: &[&Path]) -> FakeModel {
    let talker = |request: &RecordedRequest| -> Action {
        let last = request.messages().last().cloned().unwrap_or_default();
        if last["role"] == "tool" {
            return Reply::text("It is over.").into();
        }
        let text = request.last_user_text();
        let launch = text.find('{').and_then(|at| serde_json::from_str::<Value>(&text[at..]).ok());
        Reply::call("launch_run", &launch.unwrap_or_default()).into()
    };
    let server = FakeModel::start_on_thread(reader(dirs).on("talker").always(Action::with(talker)));
    let base = server.base_url();
    let backend = json!({"type": "chatcompletion", "model": "talker", "base_url": base});
    let mode = json!({"require_approval": true, "backend": backend});
    let team = Team::on(&base, 1).backend(0, "cwd", "here").rule("interactive_mode", mode);
    althing.file("team.yaml", team.text());
    server
}

#[test]
fn an_approval_names_the_path_behind_a_link_and_holds_for_that_path_only() {
    for (args, ready, yes) in [(&["chat"][..], "", "y\r"), (&[][..], "Type a message...", "\r")] {
        for is_changed in [false, true] {
            let althing = althing();
            let victim = victim_of(&althing);
            let work = althing.work_dir().canonicalize().unwrap();
            let (docs, shown) = (work.join("docs"), work.join("real"));
            std::fs::create_dir(&shown).unwrap();
            std::fs::write(shown.join("word"), GRANTED).unwrap();
            symlink("real", &docs).unwrap();
            let server = chat_of(&althing, &[&docs, &shown]);
            let command = althing.new_command().args(args).args(["--config", "team.yaml"]);
            let mut terminal = command.terminal(200, 50);
            terminal.wait_for(ready, LIMIT);
            let launch = json!({"task": "Read", "agent_mode": "single", "refinement": false,
                "context_paths": [{"path": docs, "permission": "write"}]});
            terminal.keys(&format!("{launch}\r"));
            terminal.wait_for("Launch this run?", LIMIT);
            let screen = terminal.wait_for(&shown.display().to_string(), LIMIT);
            let named = screen.lines().filter(|line| line.contains("write") && line.contains("docs"));
            let named = named.filter(|line| !line.contains("context_paths")).count();
            assert_eq!(named, 0, "{screen}");
            if is_changed {
                std::fs::remove_file(&docs).unwrap();
                symlink(&victim, &docs).unwrap();
            }
            terminal.keys(yes);
            terminal.wait_for("It is over.", LIMIT);
            let known = |text: &str| server.requests().iter().any(|request| texts(request).contains(text));
            assert!(known(GRANTED) && shown.join("thesis").exists(), "{}", terminal.screen());
            assert!(!known(SECRET) && untouched(&victim), "{}", terminal.screen());
        }
    }
}
