//! API keys in a `.env` that was found in the working directory (row S26 of docs/reliability.md): the owner of such a key
//! may read what is sent with it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use althing_testkit::{Althing, FakeModel, Output, Script};

use super::support::{LIMIT, Team, bare, run};

/// The hosts to which something would be sent. Nothing leaves this machine, because the proxy refuses every connection.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    fn through_proxy(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut line = String::new();
                BufReader::new(stream.unwrap()).read_line(&mut line).unwrap();
                asked.0.lock().unwrap().push(line);
            }
        });
        format!("http://{address}")
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn with_strangers_key(asked: &Asked) -> Althing {
    let althing =
        bare().env("HTTPS_PROXY", asked.through_proxy()).env("ANTHROPIC_API_KEY", "sk-ant-of-the-user-0123");
    althing.file(".env", "OPENROUTER_API_KEY=sk-or-v1-of-the-stranger-0123456789\n");
    althing
}

fn start(althing: &Althing, more: &[&str]) -> Output {
    let args = ["--automation", "--orchestrator-timeout", "20"];
    althing.new_command().args(args).args(more).arg("task").spawn().wait(LIMIT)
}

#[test]
fn a_found_key_makes_no_agent_before_its_file_is_trusted() {
    let asked = Asked::default();
    let althing = with_strangers_key(&asked);
    let output = start(&althing, &[]);
    let hosts = asked.take();
    assert!(hosts.iter().all(|host| host.contains("api.anthropic.com")) && !hosts.is_empty(), "{hosts:?}");
    for part in ["OPENROUTER_API_KEY", ".env", "not used", "--trust"] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
    assert!(!output.stderr.contains("of-the-stranger"), "{}", output.stderr);

    for trust in [&["--trust"][..], &[]] {
        start(&althing, trust);
        let hosts = asked.take();
        assert!(hosts.iter().any(|host| host.contains("openrouter.ai")), "{trust:?}: {hosts:?}");
    }
    althing.file(".env", "OPENROUTER_API_KEY=sk-or-v1-of-another-stranger-0123456789\n");
    start(&althing, &[]);
    let hosts = asked.take();
    assert!(!hosts.iter().any(|host| host.contains("openrouter.ai")), "changed since: {hosts:?}");
}

#[test]
fn nothing_is_started_if_the_only_agents_would_have_keys_of_an_untrusted_file() {
    for config in [None, Some("agents: [{id: a, backend: {type: openrouter, model: x/y}}]")] {
        let asked = Asked::default();
        let althing = with_strangers_key(&asked).env("ANTHROPIC_API_KEY", "");
        if let Some(config) = config {
            althing.file("althing.yaml", config);
        }
        for args in [&["--automation", "task"] as &[&str], &["chat"], &["mcp"]] {
            let output = althing.new_command().args(args).stdin("hello\n").spawn().wait(LIMIT);
            assert_eq!(output.code, Some(1), "{config:?}: {args:?}: {}", output.stderr);
            let says =
                ["OPENROUTER_API_KEY", ".env", "--trust"].iter().all(|part| output.stderr.contains(part));
            assert!(says, "{config:?}: {args:?}: {}", output.stderr);
        }
        assert_eq!(asked.take(), Vec::<String>::new(), "{config:?}");
    }
}

#[test]
fn an_agent_that_the_user_names_uses_a_found_key_and_its_origin_is_told() {
    let server = FakeModel::start_on_thread(Script::parliament());
    let althing = bare();
    althing.file(".env", "OPENAI_API_KEY=sk-proj-of-somebody-0123456789\n");
    let team = Team::on(&server.base_url(), 1).backend(0, "type", "openai");
    althing.file("team.yaml", team.text());
    let args = ["--config", "team.yaml", "--automation", "task"];
    let told = |output: &Output| output.stderr.contains("OPENAI_API_KEY of your agents comes from");
    let output = run(&althing, &args).expect_code(0);
    assert!(told(&output), "{}", output.stderr);
    let trusted = [&["--trust"], &args[..]].concat();
    assert!(!told(&run(&althing, &trusted).expect_code(0)));
    assert!(!told(&run(&althing, &args).expect_code(0)), "the file is trusted from then on");
}
