//! The agents of the table of attacks: every kind of agent of the built binary, in every sandbox, as root and as an
//! ordinary user. An agent does one act after the other; the test looks at the effects of each act before the next.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_testkit::attacks::{Places, SHELL_SERVER, SYSTEM_CALLS};
use althing_testkit::docker::{IMAGE, TestDockerDaemon};
use althing_testkit::{
    Althing, FakeModel, Machine, Output, RecordedRequest, Reply, Script, User, is_root, wait,
};
use serde_json::{Value, json};

use super::support::{Team, althing, shared_claude_dir};

const CELL_LIMIT: Duration = Duration::from_secs(240);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    FileTools,
    Command,
    /// A CLI agent as a member of a run.
    CliAgent,
    McpServer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxName {
    Bubblewrap,
    Landlock,
    Docker,
}

#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub kind: Kind,
    pub sandbox: SandboxName,
    pub user: User,
}

#[derive(Clone, Debug)]
pub enum Act {
    Shell(String),
    Tool(&'static str, Value),
}

/// A stand-in for `claude` that does what the files `act-0`, `act-1`, … in its own directory say, until the file `end`
/// exists. After each act, it kills the processes that the act left in its process group. At the end, it prints what
/// all acts printed.
const CLAUDE: &str = r#"#!/bin/bash
[ "$1" = --version ] && { echo 1.0.0; exit; }
own="$HOME/.claude"
: > "$own/claude-was-started"
cat > /dev/null
n=0
while :; do
  until [ -e "$own/act-$n" ]; do [ -e "$own/end" ] && break 2; sleep 0.02; done
  setsid bash -c 'bash "$0"; true' "$own/act-$n" > "$own/output-$n" 2>&1 < /dev/null &
  acting=$!
  wait $acting
  kill -9 -- -$acting 2> /dev/null
  : > "$own/done-$n"
  n=$((n + 1))
done
cat "$own"/output-*
cat "$own"/output-* >&2
echo '{"type": "system", "subtype": "init", "session_id": "s"}'
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "done", "session_id": "s"}'
"#;

pub struct World {
    pub cell: Cell,
    pub althing: Althing,
    pub places: Places,
    pub rules: Vec<(&'static str, Value)>,
    docker_host: Option<String>,
}

impl World {
    pub fn new(cell: Cell, daemon: Option<&TestDockerDaemon>) -> Self {
        let machine = Machine { user: cell.user, bubblewrap: cell.sandbox != SandboxName::Landlock };
        let althing = althing().on(machine);
        let base = althing.work_dir().parent().expect("a directory").canonicalize().unwrap();
        let changing = [
            "work",
            "state",
            "home/.claude",
            "home/.claude.json",
            "home/.local",
            "home/bin",
            "project/src",
            "project/.althing",
            "fresh/src",
            "calls",
        ];
        let changing = changing.map(|path| base.join(path)).to_vec();
        let places = Places { base, workspace: "$PWD".to_owned(), changing, uid: machine.uid() };
        places.plant();
        std::fs::create_dir_all(places.base.join("calls/context")).unwrap();
        std::fs::write(places.base.join("calls/context/system_calls.py"), SYSTEM_CALLS).unwrap();
        std::os::unix::fs::symlink(places.base.join("home"), places.base.join("project/src/link")).unwrap();
        althing.file("server.py", format!("open(\"server-was-started\", \"w\").close()\n{SHELL_SERVER}"));
        let home = althing.home_dir();
        shared_claude_dir(&home, &places.base.join("project/.althing"));
        std::fs::create_dir_all(home.join("bin")).unwrap();
        std::fs::write(home.join("bin/claude"), CLAUDE).unwrap();
        std::fs::set_permissions(home.join("bin/claude"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let docker_host = daemon.map(|daemon| format!("unix://{}", daemon.socket().display()));
        let path = format!("{}:/usr/bin:/bin", home.join("bin").display());
        let althing = althing
            .env("PATH", path)
            .env("ALTHING_STATE_DIR", places.base.join("project/.althing"))
            .env("FOR_NOBODY", "CANARY-environment");
        Self { cell, althing, places, rules: Vec::new(), docker_host }
    }

    pub fn state_dir(&self) -> PathBuf {
        self.places.base.join("project/.althing")
    }

    pub fn config(&self, base_url: &str) -> Team {
        let path = |inside: &str| self.places.base.join(inside).display().to_string();
        let team = match self.cell.kind {
            Kind::CliAgent => Team::on(base_url, 0).agent("a", &json!({"type": "claude_code"})),
            Kind::FileTools => Team::on(base_url, 1),
            Kind::Command => Team::on(base_url, 1).backend(0, "enable_mcp_command_line", true).backend(
                0,
                "command_line_timeout_seconds",
                30,
            ),
            Kind::McpServer => {
                let server = json!([{"name": "shell", "type": "stdio", "command": "/usr/bin/python3", "args": ["server.py"]}]);
                Team::on(base_url, 1).backend(0, "mcp_servers", server)
            }
        };
        let team = match (self.cell.kind, self.cell.sandbox) {
            (Kind::CliAgent, _) => team,
            (Kind::Command, SandboxName::Docker) => team
                .backend(0, "command_line_execution_mode", "docker")
                .backend(0, "command_line_docker_image", IMAGE)
                .backend(0, "command_line_docker_network_mode", "none")
                .backend(0, "cwd", "here"),
            _ => team.backend(0, "cwd", "here"),
        };
        let team = self.rules.iter().fold(team, |team, (key, value)| team.rule(key, value.clone()));
        team.rule(
            "context_paths",
            json!([
                {"path": path("project"), "permission": "write", "protected_paths": ["vendor/locked"]},
                {"path": path("fresh"), "permission": "write"},
                {"path": path("reference"), "permission": "read"},
                {"path": path("calls/context"), "permission": "read"},
            ]),
        )
    }

    pub fn command(&self) -> Althing {
        match &self.docker_host {
            Some(host) => self.althing.new_command().env("DOCKER_HOST", host),
            None => self.althing.new_command(),
        }
    }

    /// Has the agent do these acts in one run. `judge` gets the number and the output of each act before the next act
    /// begins. Returns the output of the program and the requests that the model received.
    #[track_caller]
    pub fn act(
        &self,
        args: &[&str],
        acts: &[Act],
        judge: impl FnMut(usize, &str) + Send + 'static,
    ) -> (Output, Vec<RecordedRequest>) {
        let (output, requests, judged) = self.act_while_possible(args, acts, judge);
        let said = format!("{} {}", output.stdout, output.stderr);
        assert_eq!(judged, acts.len(), "{:?}: the agent stopped early: {said}", self.cell);
        (output, requests)
    }

    /// As [`Self::act`], for an agent that may be ended before it did all acts. Also returns how many it did.
    #[track_caller]
    pub fn act_while_possible(
        &self,
        args: &[&str],
        acts: &[Act],
        judge: impl FnMut(usize, &str) + Send + 'static,
    ) -> (Output, Vec<RecordedRequest>, usize) {
        let judge: Judge = Arc::new(Mutex::new((0, Box::new(judge))));
        let script = if self.cell.kind == Kind::CliAgent {
            Script::parliament()
        } else {
            acting_model(self.cell.kind, acts.to_owned(), Arc::clone(&judge))
        };
        let server = FakeModel::start_on_thread(script);
        self.althing.file("team.yaml", self.config(&server.base_url()).text());
        let command = self.command().args(["--config", "team.yaml", "--automation", "--quick"]).args(args);
        let running = command.arg("task").spawn();
        if self.cell.kind == Kind::CliAgent {
            let own = self.althing.home_dir().join(".claude");
            for (n, act) in acts.iter().enumerate() {
                let Act::Shell(line) = act else { panic!("a CLI agent has a shell, not {act:?}") };
                std::fs::write(own.join("next"), line).unwrap();
                std::fs::rename(own.join("next"), own.join(format!("act-{n}"))).unwrap();
                let done = own.join(format!("done-{n}"));
                wait::until(CELL_LIMIT, || done.exists() || !running.is_running());
                if !done.exists() {
                    break;
                }
                let said = std::fs::read(own.join(format!("output-{n}"))).unwrap_or_default();
                judge_act(&judge, n, &String::from_utf8_lossy(&said));
            }
            std::fs::write(own.join("end"), "").unwrap();
        }
        let output = running.wait(CELL_LIMIT);
        let judged = judge.lock().unwrap().0;
        (output, server.requests(), judged)
    }
}

/// The number of judged acts, and what judges the next one.
type Judge = Arc<Mutex<(usize, Box<dyn FnMut(usize, &str) + Send>)>>;

fn judge_act(judge: &Judge, n: usize, output: &str) {
    let mut judge = judge.lock().unwrap();
    // A repeated request reports an act a second time.
    if judge.0 == n {
        judge.0 += 1;
        judge.1(n, output);
    }
}

fn acting_model(kind: Kind, acts: Vec<Act>, judge: Judge) -> Script {
    Script::from_fn(move |request: &RecordedRequest| {
        let results: Vec<&Value> =
            request.messages().iter().filter(|message| message["role"] == "tool").collect();
        if let Some(last) = results.last() {
            judge_act(&judge, results.len() - 1, last["content"].as_str().unwrap_or_default());
        }
        match acts.get(results.len()) {
            Some(Act::Tool(tool, arguments)) => Reply::call(*tool, arguments),
            Some(Act::Shell(line)) if kind == Kind::McpServer => {
                Reply::call("mcp__shell__act", &json!({ "command": line }))
            }
            Some(Act::Shell(line)) => Reply::call("run_command", &json!({ "command": line })),
            None => Reply::text("done"),
        }
    })
}

/// The users that the tests can act as. Without root's rights, this is only the current user.
pub fn users() -> Vec<User> {
    if is_root() { vec![User::Current, User::Ordinary] } else { vec![User::Ordinary] }
}
