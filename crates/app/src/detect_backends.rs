//! Detects backends for agents if there is no config, and for `althing config init`: API keys in the environment, CLI
//! agents on the `PATH`, model servers on this machine.

use crate::context::AppContext;
use crate::environment::Environment;
use crate::session;
use crate::team::Team;
use althing_config::{DetectedBackends, DetectedModel, DetectedServer};
use althing_llm::{HttpClient, HttpOptions, LocalServer};
use althing_protocol::AGENT_KINDS;
use std::os::unix::fs::MetadataExt;

const OLLAMA: &str = "http://localhost:11434";

/// Detects API keys, CLI agents and local model servers, and the free memory.
pub fn detect_backends(environment: &Environment) -> DetectedBackends {
    DetectedBackends {
        providers: althing_config::detect_providers(&|name| environment.secret(name)),
        programs: althing_config::detect_cli_agents(&|name| environment.has_program(name)),
        servers: servers(environment),
        memory: std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(free_memory),
    }
}

/// The usual addresses of LM Studio, llama-server and vLLM.
const USUAL_SERVERS: &str = "http://localhost:1234/v1,http://localhost:8080/v1,http://localhost:8000/v1";

/// The variable with the addresses of model servers other than Ollama, separated by commas; `none` means no
/// addresses.
const SERVERS_VARIABLE: &str = "ALTHING_LOCAL_SERVERS";

const LOCAL_KINDS: &[(&str, &str)] = &[
    ("ollama", "Ollama"),
    ("lmstudio", "LM Studio"),
    ("chatcompletion", "llama-server"),
    ("vllm", "vLLM"),
    ("sglang", "SGLang"),
];

/// The names of what was detected and of what is missing; None if a config or an option decides which agents are used.
pub fn overview(team: &Team, app: &AppContext) -> Option<(Vec<String>, Vec<String>)> {
    if app.settings.offline || !app.settings.model.is_empty() || team.is_from_file() {
        return None;
    }
    let found = althing_config::detect_providers(&|name| app.environment.secret(name));
    let mut known: Vec<String> = found.iter().map(|provider| provider.variable.to_owned()).collect();
    let mut missing = Vec::new();
    for key in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"] {
        if !known.iter().any(|found| found == key) {
            missing.push(key.to_owned());
        }
    }
    for program in AGENT_KINDS.iter().map(|row| row.program) {
        if app.environment.has_program(program) {
            known.push(program.to_owned());
        } else {
            missing.push(program.to_owned());
        }
    }
    let mut models: Vec<&str> = Vec::new();
    for (kind, title) in LOCAL_KINDS {
        models.clear();
        let backends = team.config.agents.iter().map(|agent| &agent.backend);
        models.extend(
            backends.filter(|backend| backend.kind == *kind).filter_map(|backend| backend.model.as_deref()),
        );
        models.dedup();
        if !models.is_empty() {
            known.push(format!("{title} ({})", models.join(", ")));
        } else if *kind == "ollama" {
            missing.push("Ollama".to_owned());
        }
    }
    Some((known, missing))
}

fn servers(environment: &Environment) -> Vec<DetectedServer> {
    let Ok(http) = HttpClient::new(&HttpOptions::default()) else { return Vec::new() };
    let ollama = ollama_url(environment);
    let others = environment.variable(SERVERS_VARIABLE).unwrap_or_else(|| USUAL_SERVERS.to_owned());
    let listeners = Listeners::read();
    let is_named = ["OLLAMA_HOST", SERVERS_VARIABLE].map(|name| environment.variable(name).is_some());
    let found = session::block_on_thread(async move {
        let http = &http;
        let urls =
            others.split(',').map(|url| url.trim().trim_end_matches('/')).filter(|url| !url.is_empty());
        let others = urls.map(|url| async move {
            althing_llm::local_server(http, url).await.map(|server| (url.to_owned(), server))
        });
        let first = althing_llm::ollama_server(http, &ollama);
        let (first, others) = futures_util::future::join(first, futures_util::future::join_all(others)).await;
        let first = first.map(|server| (ollama.clone(), server));
        std::iter::once(first).chain(others).flatten().collect::<Vec<_>>()
    });
    let mut servers: Vec<DetectedServer> = Vec::new();
    for (base_url, LocalServer { kind, title, models }) in found.unwrap_or_default() {
        let is_named = if kind == "ollama" { is_named[0] } else { is_named[1] };
        if !is_named && listeners.as_ref().is_some_and(|listeners| listeners.are_of_another_user(&base_url)) {
            tracing::warn!(base_url, "a server of another user is not used");
            continue;
        }
        let models = models.into_iter().map(|model| DetectedModel {
            name: model.name,
            bytes: model.bytes,
            parameters: model.parameters,
            is_loaded: model.is_loaded,
        });
        let server = DetectedServer { kind, title, base_url, models: models.collect() };
        if !server.models.is_empty() && !servers.iter().any(|known| known.base_url == server.base_url) {
            servers.push(server);
        }
    }
    servers
}

/// The TCP ports on which programs of this machine listen, with the users of the programs.
struct Listeners {
    user: u32,
    ports: Vec<(u16, u32)>,
}

impl Listeners {
    /// Accounts of the system have smaller numbers; Ollama's own service runs in one.
    const FIRST_PERSON: u32 = 1000;

    /// `None` if the kernel does not tell, as on macOS.
    fn read() -> Option<Self> {
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
        let ports = tables.iter().flatten().flat_map(|table| table.lines().filter_map(listener)).collect();
        Some(Self { user, ports })
    }

    /// Whether another person's program listens on the port of this address. It would get the tasks.
    fn are_of_another_user(&self, base_url: &str) -> bool {
        let authority = base_url.split('/').nth(2).unwrap_or_default();
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let is_another = |user: u32| user != self.user && user >= Self::FIRST_PERSON;
        self.ports.iter().any(|(listening, user)| Some(*listening) == port && is_another(*user))
    }
}

/// The port and the user of a line of `/proc/net/tcp` in the state LISTEN (`0A`).
fn listener(line: &str) -> Option<(u16, u32)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let is_listening = *fields.get(3)? == "0A";
    let found = (u16::from_str_radix(port, 16).ok()?, fields.get(7)?.parse().ok()?);
    is_listening.then_some(found)
}

fn free_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
}

/// The base URL of the Ollama server, from `OLLAMA_HOST` or else the default.
pub fn ollama_url(environment: &Environment) -> String {
    let address =
        environment.variable("OLLAMA_HOST").map_or_else(|| OLLAMA.to_owned(), |host| address(&host));
    format!("{}/v1", address.trim_end_matches('/'))
}

/// `OLLAMA_HOST` may lack the scheme and the port, and may be a listen address (`0.0.0.0`).
fn address(host: &str) -> String {
    let host = host.trim();
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let rest = rest.trim_end_matches('/').replace("0.0.0.0", "127.0.0.1");
    let has_port = rest.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if has_port || scheme == "https" { "" } else { ":11434" };
    format!("{scheme}://{rest}{port}")
}

#[cfg(test)]
mod tests {
    use super::{Listeners, address, free_memory, listener};

    #[test]
    fn a_server_of_another_person_on_this_machine_is_recognized() {
        let line = "   1: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 4711 1";
        assert_eq!(listener(line), Some((11434, 1001)));
        assert_eq!(listener(&line.replace(" 0A ", " 01 ")), None, "a connection");
        assert_eq!(listener("  sl  local_address rem_address   st"), None);
        let is_refused = |user: u32, of: u32| {
            Listeners { user, ports: vec![(11434, of)] }.are_of_another_user("http://localhost:11434/v1")
        };
        assert!(is_refused(1000, 1001) && is_refused(0, 1001));
        assert!(!is_refused(1001, 1001) && !is_refused(1000, 0) && !is_refused(1000, 998));
        let elsewhere = Listeners { user: 1000, ports: vec![(1234, 1001)] };
        assert!(!elsewhere.are_of_another_user("http://localhost:11434/v1"));
    }

    #[test]
    fn the_free_memory_is_read_from_the_kernels_text() {
        let text = "MemTotal:       16307492 kB\nMemFree:  1000 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(free_memory(text), Some(2_097_152));
        assert_eq!(free_memory("MemTotal: 1 kB"), None);
    }

    #[test]
    fn ollama_host_is_read_as_ollama_reads_it() {
        assert_eq!(address("127.0.0.1:9"), "http://127.0.0.1:9");
        assert_eq!(address(" 0.0.0.0 "), "http://127.0.0.1:11434");
        assert_eq!(address("http://box:80/"), "http://box:80");
        assert_eq!(address("https://box"), "https://box");
    }
}
