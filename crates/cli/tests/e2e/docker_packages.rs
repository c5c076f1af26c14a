//! `command_line_docker_packages`: packages are installed in a container of a real Docker daemon, from a package source
//! on this machine, before the agents' commands run.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use althing_testkit::docker::{TestDockerDaemon, is_excluded};
use althing_testkit::{Action, Parliament, RecordedRequest, Reply, Script, wait};
use serde_json::{Value, json};

use super::support::{Fixture, LIMIT, Team};

const IMAGE: &str = "althing-test-packages:1";

/// Package managers that fetch a program for each package from the package source on this machine. Like the real ones,
/// they need root and a network, and fail for an unknown package. They also fail if they get a credential.
fn managers(source: u16) -> [(&'static str, String); 3] {
    let fetch = format!(
        "fetch() {{ mkdir -p /usr/local/bin && wget -q -O /usr/local/bin/$2 http://127.0.0.1:{source}/$1/$2 && \
         chmod 755 /usr/local/bin/$2 || {{ echo no such $1 package: $2; exit 1; }}; }}\n"
    );
    let head = format!(
        "#!/bin/sh\n[ $(id -u) = 0 ] || {{ echo not root; exit 1; }}\n\
         [ -z \"$GH_TOKEN\" ] || {{ echo a credential; exit 1; }}\n{fetch}"
    );
    let apk = format!("{head}[ \"$1\" = add ] || exit 2\nshift 2\nfor name; do fetch system $name; done\n");
    let python = format!(
        "{head}[ \"$1 $2\" = '-m pip' ] || exit 2\n[ \"$3\" = --version ] && exit 0\nshift 3\n\
         for name; do fetch python $name; done\n"
    );
    let npm = format!(
        "{head}[ \"$1 $2\" = 'install -g' ] || exit 2\nshift 2\nfor name; do fetch npm $name; done\n"
    );
    [("bin/apk", apk), ("bin/python3", python), ("bin/npm", npm)]
}

/// An HTTP server from which the package managers of the image fetch packages. Each package is a program that prints
/// its own name. Packages whose name begins with `no-` do not exist.
struct Source {
    port: u16,
    fetched: Arc<Mutex<Vec<String>>>,
}

impl Source {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fetched: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&fetched);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let path = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
                let name = path.rsplit('/').next().unwrap_or_default();
                let program = format!("#!/bin/sh\necho installed {name}\n");
                let reply = if name.starts_with("no-") {
                    "HTTP/1.0 404 Not Found\r\n\r\n".to_owned()
                } else {
                    format!("HTTP/1.0 200 OK\r\ncontent-length: {}\r\n\r\n{program}", program.len())
                };
                seen.lock().unwrap().push(path);
                let _ = stream.write_all(reply.as_bytes());
            }
        });
        Self { port, fetched }
    }

    fn fetched(&self) -> Vec<String> {
        std::mem::take(&mut self.fetched.lock().unwrap())
    }
}

fn daemon_with_image(source: &Source) -> TestDockerDaemon {
    let daemon = TestDockerDaemon::start();
    let managers = managers(source.port);
    daemon.image_with(IMAGE, &managers.each_ref().map(|(path, text)| (*path, text.as_str())));
    daemon
}

/// Runs the installed programs, tries to reach the package source, and prints the length of a credential, with one
/// shell command; then behaves like any member.
fn uses_packages(source: u16) -> Script {
    Script::from_fn(move |request: &RecordedRequest| -> Action {
        if request.messages().iter().any(|message| message["role"] == "tool") {
            return Parliament::default().reply(request).into();
        }
        let command = format!(
            "tool-s; tool-p; tool-n; wget -q -T 2 -O - http://127.0.0.1:{source}/x/y || echo no network; \
             echo length ${{#GH_TOKEN}}"
        );
        Reply::call("run_command", &json!({ "command": command })).into()
    })
}

fn team(team: Team, packages: &Value) -> Team {
    team.every_backend("enable_mcp_command_line", true)
        .every_backend("command_line_execution_mode", "docker")
        .every_backend("command_line_docker_image", IMAGE)
        .every_backend("command_line_docker_packages", packages.clone())
        .every_backend("cwd", "here")
}

fn all_packages() -> Value {
    json!({
        "preinstall": {"npm": ["tool-n"], "python": ["tool-p"], "system": ["tool-s"]},
        "network": "host",
    })
}

fn command_outputs(fixture: &Fixture) -> Vec<String> {
    let requests = fixture.server.requests();
    let messages = requests.iter().flat_map(RecordedRequest::messages);
    let results = messages.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn packages_are_installed_once_with_a_network_that_commands_do_not_have() {
    if is_excluded("docker") {
        return;
    }
    let source = Source::start();
    let daemon = daemon_with_image(&source);
    let host = format!("unix://{}", daemon.socket().display());
    let fixture = Fixture::with(2, uses_packages(source.port), |it| {
        team(it, &all_packages())
            .every_backend("command_line_docker_credentials", json!({"env_vars": ["GH_TOKEN"]}))
    });
    let run = || {
        let command = fixture.command(&["--quick", "task"]).env("DOCKER_HOST", &host);
        command.env("GH_TOKEN", "canary-token-of-gh").spawn().wait(LIMIT)
    };
    let first = run().expect_code(0);
    let installs = ["/system/tool-s", "/python/tool-p", "/npm/tool-n"];
    assert_eq!(source.fetched(), installs, "in this order, once for both agents: {}", first.stderr);
    assert!(
        first.stderr.contains("packages are installed in") && first.stderr.contains("Python: tool-p"),
        "{}",
        first.stderr
    );
    let outputs = command_outputs(&fixture);
    assert!(outputs.len() >= 2, "{outputs:?}");
    for output in &outputs {
        for name in ["installed tool-s", "installed tool-p", "installed tool-n", "no network", "length 18"] {
            assert!(output.contains(name), "{name}: {output}");
        }
    }
    let second = run().expect_code(0);
    assert_eq!(source.fetched(), Vec::<String>::new(), "the image is used again: {}", second.stderr);
    assert!(!second.stderr.contains("packages are installed"), "{}", second.stderr);
    wait::until(LIMIT, || daemon.containers().is_empty());
    // A container of the user's own that is made from the image is not taken for one of Althing's.
    let images = daemon.docker_stdout(&["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"]);
    let made = images.lines().find(|image| image.starts_with("althing-packages:")).unwrap().to_owned();
    daemon.docker(&["create", "--network", "none", &made, "sh"]);
    let third = run().expect_code(0);
    assert_eq!(daemon.containers().len(), 1, "{}", third.stderr);
}

#[test]
fn other_packages_and_another_image_are_installed_anew() {
    if is_excluded("docker") {
        return;
    }
    let source = Source::start();
    let daemon = daemon_with_image(&source);
    let host = format!("unix://{}", daemon.socket().display());
    let run = |packages: &Value| {
        let fixture = Fixture::with(1, uses_packages(source.port), |it| team(it, packages));
        fixture.command(&["--quick", "task"]).env("DOCKER_HOST", &host).spawn().wait(LIMIT).expect_code(0);
    };
    let of = |name: &str| json!({"preinstall": {"python": [name]}, "network": "host"});
    run(&of("one"));
    run(&of("two"));
    run(&of("one"));
    assert_eq!(source.fetched(), ["/python/one", "/python/two"]);
    let managers = managers(source.port);
    let mut files: Vec<(&str, &str)> = managers.iter().map(|(path, text)| (*path, text.as_str())).collect();
    files.push(("etc/newer", ""));
    daemon.image_with(IMAGE, &files);
    run(&of("one"));
    assert_eq!(source.fetched(), ["/python/one"], "the image was replaced by a newer one");
}

#[test]
fn packages_that_cannot_be_installed_are_reported_before_any_model_call() {
    if is_excluded("docker") {
        return;
    }
    let source = Source::start();
    let daemon = daemon_with_image(&source);
    let host = format!("unix://{}", daemon.socket().display());
    let unknown = json!({"preinstall": {"python": ["tool-p", "no-such-tool"]}, "network": "host"});
    // The daemon of this test has no bridge, so a container without `network: host` reaches nothing.
    let no_network = json!({"preinstall": {"python": ["tool-p"]}});
    let cases =
        [(unknown, "no such python package: no-such-tool"), (no_network, "can't connect to remote host")];
    for (packages, reason) in cases {
        let fixture = Fixture::with(1, uses_packages(source.port), |it| team(it, &packages));
        let command = fixture.command(&["--quick", "task"]).env("DOCKER_HOST", &host);
        let output = command.spawn().wait(LIMIT).expect_code(2);
        let failed = "the Python packages could not be installed in the Docker image";
        assert!(output.stderr.contains(failed) && output.stderr.contains(reason), "{}", output.stderr);
        assert_eq!(fixture.server.request_count(), 0, "{}", output.stderr);
        wait::until(LIMIT, || daemon.containers().is_empty());
    }
    let images = daemon.docker_stdout(&["image", "ls", "--format", "{{.Repository}}"]);
    assert!(!images.contains("althing-packages"), "{images}");
}
