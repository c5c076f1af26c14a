//! MCP servers, which Althing starts with more rights than an agent has: no agent, and nothing in a directory that
//! somebody else made, can change the code of a server.

use std::path::Path;

use althing_testkit::{Reply, Script};
use serde_json::{Value, json};

use super::support::{Fixture, SKY, Team};
use super::tools::member_action;

const CHAT_MODEL: &str = "talker";
const CITY: &str = "Hof";

/// Code that leaves a file in the home directory, to which no agent may write.
fn evil(home: &Path) -> String {
    format!(
        "import pathlib\npathlib.Path({:?}).write_text('ran')\n",
        home.join("PWNED").display().to_string()
    )
}

struct Attack {
    what: &'static str,
    /// The server's command and arguments. `@home` and `@work` mean the home and the working directory.
    command: &'static str,
    args: Value,
    cwd: Option<&'static str>,
    /// The planted file, relative to the agent's workspace if `in_workspace` is set, otherwise to the working
    /// directory.
    planted: &'static str,
    in_workspace: bool,
    /// Whether the planted file replaces the server, so that it must contain a working server.
    is_server: bool,
}

const fn attack(what: &'static str, args: Value, planted: &'static str, is_server: bool) -> Attack {
    Attack { what, command: "python3", args, cwd: None, planted, in_workspace: false, is_server }
}

fn started(what: &'static str, command: &'static str, args: Value, planted: &'static str) -> Attack {
    Attack { command, ..attack(what, args, planted, false) }
}

fn attacks() -> Vec<Attack> {
    let module = || json!(["-m", "my_sky"]);
    vec![
        attack("its file", json!(["tools/sky.py"]), "tools/sky.py", true),
        attack("its file in the root", json!(["sky.py"]), "sky.py", true),
        attack("a module next to it", json!(["tools/sky.py"]), "tools/json.py", false),
        attack("a module next to it in the root", json!(["sky.py"]), "json.py", false),
        attack("its module", module(), "my_sky.py", true),
        attack("a module that it imports", module(), "json.py", false),
        Attack { cwd: Some("."), ..attack("its module in its cwd", module(), "my_sky.py", true) },
        started("a module next to what a link leads to", "@home/bin/sky", json!([]), "tools/json.py"),
        started(
            "a module next to a script that is started",
            "@work/tools/sky.py",
            json!([]),
            "tools/json.py",
        ),
        started(
            "a module next to a script that is started in the root",
            "@work/sky.py",
            json!([]),
            "json.py",
        ),
        started("a module behind a shell script", "@home/bin/wrapper", json!([]), "tools/json.py"),
        started(
            "a module behind env",
            "env",
            json!(["A=1", "python3", "@work/tools/sky.py"]),
            "tools/json.py",
        ),
        started(
            "a module behind nice",
            "nice",
            json!(["-n", "5", "python3", "@work/tools/sky.py"]),
            "tools/json.py",
        ),
        started(
            "a module behind sh",
            "sh",
            json!(["-c", "exec python3 @work/tools/sky.py"]),
            "tools/json.py",
        ),
        started(
            "a module behind cd",
            "sh",
            json!(["-c", "cd @work && exec python3 tools/sky.py"]),
            "tools/json.py",
        ),
        Attack {
            is_server: true,
            ..started(
                "its file behind cd",
                "sh",
                json!(["-c", "cd @work && exec python3 tools/sky.py"]),
                "tools/sky.py",
            )
        },
        attack("a module next to it with -E", json!(["-E", "tools/sky.py"]), "tools/json.py", false),
        Attack {
            cwd: Some("${cwd}"),
            in_workspace: true,
            ..attack("its module in the workspace", module(), "my_sky.py", true)
        },
    ]
}

impl Attack {
    fn calls(&self, fixture: &Fixture) -> Vec<(&'static str, Value)> {
        let evil = evil(&fixture.althing.home_dir());
        let content = if self.is_server { format!("{evil}{SKY}") } else { evil };
        let dir = fixture.althing.work_dir().canonicalize().unwrap();
        let path = if self.in_workspace { self.planted.into() } else { dir.join(self.planted) };
        vec![
            ("write_file", json!({"path": path, "content": content})),
            ("mcp__sky__weather", json!({"city": CITY})),
        ]
    }

    fn servers(&self, fixture: &Fixture) -> Value {
        let (home, work) = (fixture.althing.home_dir(), fixture.althing.work_dir());
        for file in ["tools/sky.py", "sky.py"] {
            fixture.althing.file(file, format!("#!{PYTHON}\n{SKY}"));
            make_executable(&work.join(file));
        }
        let (lib, bin) = (home.join("lib"), home.join("bin"));
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(work.join("tools/sky.py"), bin.join("sky")).unwrap();
        let wrapper = format!("#!/bin/sh\nexec {PYTHON} {}\n", work.join("tools/sky.py").display());
        std::fs::write(bin.join("wrapper"), wrapper).unwrap();
        make_executable(&bin.join("wrapper"));
        std::fs::write(lib.join("my_sky.py"), SKY).unwrap();
        let server = json!({"name": "sky", "type": "stdio", "command": self.command, "args": self.args,
            "env": {"PYTHONPATH": lib}});
        let server = server.to_string().replace("@home", &home.display().to_string());
        let mut server: Value =
            serde_json::from_str(&server.replace("@work", &work.display().to_string())).unwrap();
        if let Some(cwd) = self.cwd {
            server["cwd"] = cwd.into();
        }
        json!([server])
    }

    fn check(&self, fixture: &Fixture, who: &str) {
        let what = self.what;
        assert!(!fixture.althing.home_dir().join("PWNED").exists(), "{who} replaced {what}");
        let requests = fixture.server.requests();
        let sunny =
            requests.iter().any(|request| format!("{:?}", request.messages()).contains("Sunny in Hof"));
        assert!(sunny, "{who}, {what}: the server works");
    }
}

/// A script whose tool calls are set later, once the fixture exists.
pub(super) fn calling(
    calls: &std::sync::Arc<std::sync::OnceLock<Vec<(&'static str, Value)>>>,
    is_chat: bool,
) -> Script {
    let calls = calls.clone();
    Script::from_fn(move |request| {
        if is_chat != (request.model() == CHAT_MODEL) {
            return member_action(request);
        }
        let done = request.messages().iter().filter(|message| message["role"] == "tool").count();
        match calls.get().and_then(|calls| calls.get(done)) {
            Some((tool, arguments)) => Reply::call(*tool, arguments).into(),
            None if is_chat => Reply::text("Done.").into(),
            None => member_action(request),
        }
    })
}

#[test]
fn no_agent_changes_the_code_of_an_mcp_server() {
    for attack in attacks() {
        let calls = std::sync::Arc::default();
        let fixture = Fixture::new(1, calling(&calls, false));
        calls.set(attack.calls(&fixture)).unwrap();
        let team = Team::on(&fixture.server.base_url(), 1)
            .every_backend("mcp_servers", attack.servers(&fixture))
            .every_backend("cwd", "w")
            .rule("context_paths", json!([{"path": ".", "permission": "write"}]));
        fixture.althing.file("team.yaml", team.text());
        // A file that is planted while the server runs may take effect when the server starts the next time, so there
        // are two runs.
        for _ in 0..2 {
            fixture.run(&["--quick", "task"]).expect_code(0);
        }
        attack.check(&fixture, "an agent");
    }
}

#[test]
fn no_chat_agent_changes_the_code_of_an_mcp_server() {
    for attack in attacks().into_iter().filter(|attack| !attack.in_workspace) {
        let calls = std::sync::Arc::default();
        let fixture = Fixture::new(1, calling(&calls, true));
        calls.set(attack.calls(&fixture)).unwrap();
        let base = fixture.server.base_url();
        let backend = json!({"type": "chatcompletion", "model": CHAT_MODEL, "base_url": base,
            "mcp_servers": attack.servers(&fixture)});
        let team = Team::on(&base, 1).rule("interactive_mode", json!({"enabled": true, "backend": backend}));
        fixture.althing.file("team.yaml", team.text());
        for _ in 0..2 {
            let command = fixture.althing.new_command().args(["chat", "--config", "team.yaml"]);
            command.stdin("hello\n").spawn().wait(super::support::LIMIT).expect_code(0);
        }
        attack.check(&fixture, "the chat agent");
    }
}

#[test]
fn no_task_of_a_workflow_changes_a_program_that_is_found_through_path() {
    let althing = super::support::althing();
    let programs = ["tools/sky", "tools/own-agent", "free/other"];
    for name in programs {
        althing.file(name, "#!/bin/sh\nexit 0\n");
    }
    let work = althing.work_dir();
    for name in programs {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(work.join(name), mode).unwrap();
    }
    let team = json!({
        "agents": [{"id": "a", "backend": {"type": "offline", "mcp_servers": [{"name": "sky", "command": "sky"}]}}],
    });
    althing.file("team.yaml", team.to_string());
    let line = "for name in tools/sky tools/own-agent free/other; do echo EVIL > $name; done; true";
    let task =
        json!({"id": "t", "agent": "command", "command": ["sh", "-c", line], "prompt": "", "sandbox": true});
    let adapters = json!({"own": {"program": "own-agent", "args": []}});
    let flow = json!({"name": "n", "goal": "g", "adapters": adapters,
        "stages": [{"name": "s", "tasks": [task]}]});
    althing.file("flow.yaml", flow.to_string());
    let path = format!("{}:{}", work.join("tools").display(), std::env::var("PATH").unwrap());
    let command = althing.new_command().env("PATH", path);
    let args = ["workflow", "run", "flow.yaml", "--config", "team.yaml"];
    command.args(args).spawn().wait(super::support::LIMIT).expect_code(0);
    let is_evil = |name: &str| std::fs::read_to_string(work.join(name)).unwrap().contains("EVIL");
    assert_eq!(programs.map(is_evil), [false, false, true], "only what nothing starts was written");
}

#[test]
fn no_task_of_a_workflow_plants_code_next_to_a_program_that_althing_starts() {
    let calls =
        std::sync::Arc::new(std::sync::OnceLock::from(vec![("mcp__sky__weather", json!({"city": CITY}))]));
    let fixture = Fixture::new(1, calling(&calls, false));
    let althing = &fixture.althing;
    let planted = ["tools/json.py", "own/json.py", "other/json.py"];
    for file in ["tools/sky.py", "own/agent.py", "other/data.txt"] {
        althing.file(file, SKY);
    }
    let servers = json!([{"name": "sky", "type": "stdio", "command": "python3", "args": ["tools/sky.py"]}]);
    let team = Team::on(&fixture.server.base_url(), 1).every_backend("mcp_servers", servers);
    althing.file("team.yaml", team.text());
    althing.file("evil.py", evil(&althing.home_dir()));
    let line = format!("for file in {}; do cp evil.py $file; done; true", planted.join(" "));
    let task =
        json!({"id": "t", "agent": "command", "command": ["sh", "-c", line], "prompt": "", "sandbox": true});
    let adapters = json!({"own": {"program": "python3", "args": ["own/agent.py"]}});
    let run = json!({"id": "r", "run": {"task": "What is the weather?", "agent_mode": "single"}});
    let flow = json!({"name": "n", "goal": "g", "adapters": adapters,
        "stages": [{"name": "one", "tasks": [task]}, {"name": "two", "tasks": [run]}]});
    althing.file("flow.yaml", flow.to_string());
    fixture.command(&["workflow", "run", "flow.yaml"]).spawn().wait(super::support::LIMIT).expect_code(0);
    let exists = |file: &str| althing.work_dir().join(file).exists();
    assert_eq!(planted.map(exists), [false, false, true], "only next to what nothing starts");
    attack("", json!([]), "", false).check(&fixture, "the task");
}

fn shadow(home: &Path, program: &str) -> String {
    format!("#!/bin/sh\necho ran > {}\nexec {program} \"$@\"\n", home.join("PWNED").display())
}

fn make_executable(path: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).unwrap();
}

const PYTHON: &str = "/usr/bin/python3";

#[test]
fn no_server_is_started_from_a_directory_of_path_where_agents_may_write() {
    for (what, planted, others) in
        [("is shadowed", true, "/usr/bin:/bin"), ("is only there", false, "/nowhere")]
    {
        let calls = std::sync::Arc::new(std::sync::OnceLock::from(vec![(
            "mcp__sky__weather",
            json!({"city": CITY}),
        )]));
        let fixture = Fixture::new(1, calling(&calls, false));
        let (home, work) = (fixture.althing.home_dir(), fixture.althing.work_dir());
        let sky = home.join("sky.py");
        std::fs::write(&sky, SKY).unwrap();
        let servers = json!([{"name": "sky", "type": "stdio", "command": "python3", "args": [sky]}]);
        let team = Team::on(&fixture.server.base_url(), 1)
            .every_backend("mcp_servers", servers)
            .every_backend("cwd", "w")
            .rule("context_paths", json!([{"path": ".", "permission": "write"}]));
        fixture.althing.file("team.yaml", team.text());
        // What an agent of an earlier session left behind.
        fixture.althing.file("bin/python3", shadow(&home, PYTHON));
        make_executable(&work.join("bin/python3"));
        let path = format!("{}:{others}", work.join("bin").display());
        let command = fixture.command(&["--quick", "task"]).env("PATH", path);
        let output = command.spawn().wait(super::support::LIMIT).expect_code(0);
        assert!(!home.join("PWNED").exists(), "the planted program ran: it {what}");
        let bin = work.canonicalize().unwrap().join("bin");
        let (told, removed) = (output.stderr, format!("without {} in their PATH", bin.display()));
        let refused = format!("its program `python3` is only in {}", bin.display());
        assert_eq!(told.matches(&removed).count(), usize::from(planted), "{told}");
        assert_eq!(told.matches(&refused).count(), usize::from(!planted), "{told}");
        if planted {
            attack("", json!([]), "", false).check(&fixture, "the shadow");
        }
    }
}

#[test]
fn no_cli_agent_without_a_sandbox_is_started_from_a_directory_where_agents_may_write() {
    for has_own in [true, false] {
        let althing = super::support::althing();
        let (home, work) = (althing.home_dir(), althing.work_dir());
        althing.file("bin/claude", shadow(&home, "/bin/false"));
        make_executable(&work.join("bin/claude"));
        let own = home.join("bin");
        std::fs::create_dir_all(&own).unwrap();
        if has_own {
            std::fs::write(
                own.join("claude"),
                format!("#!/bin/sh\necho own > {}\n", home.join("OWN").display()),
            )
            .unwrap();
            make_executable(&own.join("claude"));
        }
        let task = json!({"id": "t", "agent": "claude", "prompt": "p", "approvals": true});
        let flow = json!({"name": "n", "goal": "g", "stages": [{"name": "s", "tasks": [task]}]});
        althing.file("flow.yaml", flow.to_string());
        let path = format!("{}:{}", work.join("bin").display(), own.display());
        let command = althing.new_command().env("PATH", path).env("ANTHROPIC_API_KEY", "sk-ant-test-key");
        let output = command.args(["workflow", "run", "flow.yaml"]).spawn().wait(super::support::LIMIT);
        assert!(!home.join("PWNED").exists(), "the planted program ran");
        assert_eq!(home.join("OWN").exists(), has_own, "{}{}", output.stdout, output.stderr);
        let (told, bin) = (output.stdout + &output.stderr, work.canonicalize().unwrap().join("bin"));
        assert!(told.contains(&format!("are not searched for in {}", bin.display())), "{told}");
        let refused = told.contains("`claude` is not started without a sandbox");
        assert_eq!(refused, !has_own, "{told}");
    }
}

#[test]
fn no_program_that_an_agent_may_have_planted_is_asked_for_its_version() {
    let althing = super::support::bare();
    let (home, work) = (althing.home_dir(), althing.work_dir());
    althing.file("bin/claude", shadow(&home, "/bin/true"));
    make_executable(&work.join("bin/claude"));
    let path = work.join("bin").display().to_string();
    let command = althing.new_command().env("PATH", path).args(["agents"]);
    let output = command.spawn().wait(super::support::LIMIT).expect_code(0);
    assert!(!home.join("PWNED").exists(), "the planted program ran");
    assert!(
        output.stdout.contains("its version was not asked for, because agents may write there"),
        "{}",
        output.stdout
    );
}

#[test]
fn a_server_that_may_load_what_agents_put_next_to_it_is_not_started() {
    let calls =
        std::sync::Arc::new(std::sync::OnceLock::from(vec![("mcp__sky__weather", json!({"city": CITY}))]));
    for (command, args, why) in [
        ("python3", json!(["-E", "sky.py"]), "with `-E`, Python loads files next to it"),
        ("./strange", json!([]), "`runs-it`, which runs it, may load files next to it"),
        ("@home/python3.10", json!(["sky.py"]), "Python 3.10 loads files next to it"),
    ] {
        let fixture = Fixture::new(1, calling(&calls, false));
        let home = fixture.althing.home_dir();
        std::fs::write(home.join("python3.10"), "").unwrap();
        make_executable(&home.join("python3.10"));
        fixture.althing.file("sky.py", SKY);
        fixture.althing.file("json.py", evil(&home));
        fixture.althing.file("strange", "#!/usr/bin/env runs-it\n");
        make_executable(&fixture.althing.work_dir().join("strange"));
        let command = command.replace("@home", &home.display().to_string());
        let servers = json!([{"name": "sky", "type": "stdio", "command": command, "args": args}]);
        let team = Team::on(&fixture.server.base_url(), 1).every_backend("mcp_servers", servers);
        fixture.althing.file("team.yaml", team.text());
        let output = fixture.run(&["--quick", "task"]).expect_code(0);
        assert!(!home.join("PWNED").exists(), "{command} {args} ran what was next to it");
        let told = output.stderr;
        assert!(told.contains("the MCP server sky is not started: agents may write next to"), "{told}");
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_server_of_the_users_own_config_runs_no_code_of_the_working_directory() {
    let calls =
        std::sync::Arc::new(std::sync::OnceLock::from(vec![("mcp__sky__weather", json!({"city": CITY}))]));
    let fixture = Fixture::new(1, calling(&calls, false));
    let home = fixture.althing.home_dir();
    let attack = attack("its module", json!(["-m", "my_sky"]), "", true);
    let team = Team::on(&fixture.server.base_url(), 1).every_backend("mcp_servers", attack.servers(&fixture));
    let own = home.join(".config/althing");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("config.yaml"), team.text()).unwrap();
    std::fs::remove_file(fixture.althing.work_dir().join("team.yaml")).unwrap();
    for file in ["my_sky.py", "json.py"] {
        fixture.althing.file(file, format!("{}{SKY}", evil(&home)));
    }
    let command = fixture.althing.new_command().args(["--automation", "--quick", "task"]);
    command.spawn().wait(super::support::LIMIT).expect_code(0);
    attack.check(&fixture, "the stranger");
}
