//! Detects backends for agents if there is no config, and for `althing config init`: API keys in the environment, CLI
//! agents on the `PATH`, model servers on this machine.

use crate::context::AppContext;
use crate::environment::Environment;
use crate::found_keys;
use crate::session;
use crate::team::Team;
use althing_config::{DetectedBackends, DetectedModel, DetectedProvider, DetectedServer};
use althing_llm::{HttpClient, HttpOptions, LocalServer, NoServer};
use althing_protocol::AGENT_KINDS;
use althing_text::sanitize;
use std::os::unix::fs::MetadataExt;

const OLLAMA: &str = "http://localhost:11434";

/// Detects API keys, CLI agents and local model servers, and the free memory.
pub fn detect_backends(environment: &Environment) -> DetectedBackends {
    let (servers, unusable_servers) = servers(environment);
    DetectedBackends {
        providers: providers(environment),
        programs: althing_config::detect_cli_agents(&|name| environment.has_program(name)),
        servers,
        memory: std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(free_memory),
        unusable_servers,
    }
}

/// Providers whose API keys are set. A key of the user is preferred to one that only the found `.env` sets.
fn providers(environment: &Environment) -> Vec<DetectedProvider> {
    let own = althing_config::detect_providers(&|name| environment.variable(name));
    let all = althing_config::detect_providers(&|name| environment.secret(name));
    let preferred = |any: DetectedProvider| {
        let same = own.iter().find(|own| std::ptr::eq(own.backend, any.backend));
        DetectedProvider { variable: same.map_or(any.variable, |own| own.variable), ..any }
    };
    all.into_iter().map(preferred).collect()
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
    let used = found_keys::of_config(&team.config, &app.environment);
    let is_used =
        |name: &str| app.environment.variable(name).is_some() || used.iter().any(|used| used == name);
    let names = providers(&app.environment).into_iter().map(|provider| provider.variable.to_owned());
    let mut known: Vec<String> = names.filter(|name| is_used(name)).collect();
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

/// The usable model servers, and for the user: which other servers could not be used, and why.
fn servers(environment: &Environment) -> (Vec<DetectedServer>, Vec<String>) {
    let Ok(http) = HttpClient::new(&HttpOptions::default()) else { return (Vec::new(), Vec::new()) };
    let ollama = ollama_url(environment);
    let others = environment.variable(SERVERS_VARIABLE).unwrap_or_else(|| USUAL_SERVERS.to_owned());
    let is_named = ["OLLAMA_HOST", SERVERS_VARIABLE].map(|name| environment.variable(name).is_some());
    let answers = session::block_on_thread(async move {
        let http = &http;
        let urls = others.split(',').map(|url| url.trim().trim_end_matches('/'));
        let urls = urls.filter(|url| !url.is_empty() && *url != "none");
        let others =
            urls.map(|url| async move { (url.to_owned(), althing_llm::local_server(http, url).await) });
        let first = althing_llm::ollama_server(http, &ollama);
        let (first, others) = futures_util::future::join(first, futures_util::future::join_all(others)).await;
        let first = first.map(|server| (ollama.clone(), Ok(server), is_named[0]));
        let others = others.into_iter().map(|(url, answer)| (url, answer, is_named[1]));
        // Only now, while the connections exist: before, a server could have hidden from the table.
        (first.into_iter().chain(others).collect::<Vec<_>>(), ServerSockets::read())
    });
    let Some((answers, sockets)) = answers else { return (Vec::new(), Vec::new()) };
    let (mut servers, mut unusable): (Vec<DetectedServer>, _) = (Vec::new(), Vec::new());
    for (base_url, answer, is_named) in answers {
        let owner = match &sockets {
            Some(sockets) if !is_named => sockets.owner_at(&base_url),
            _ => Owner::Trusted,
        };
        match answer {
            Ok(_) | Err(NoServer::Loading) if owner != Owner::Trusted => {
                unusable.push(describe_owner(&base_url, owner));
            }
            Ok(server) => {
                let server = detected_server(base_url, server);
                if !server.models.is_empty() && servers.iter().all(|known| known.base_url != server.base_url)
                {
                    servers.push(server);
                }
            }
            Err(problem) => unusable.extend(describe_problem(&base_url, problem, is_named)),
        }
    }
    (servers, unusable)
}

fn detected_server(base_url: String, LocalServer { kind, title, models }: LocalServer) -> DetectedServer {
    let models = models.into_iter().map(|model| DetectedModel {
        name: model.name,
        bytes: model.bytes,
        parameters: model.parameters,
        is_loaded: model.is_loaded,
    });
    DetectedServer { kind, title, base_url, models: models.collect() }
}

/// For the user; `None` for a usual address at which there is no model server.
fn describe_problem(base_url: &str, problem: NoServer, is_named: bool) -> Option<String> {
    let address = sanitize::line(base_url);
    match problem {
        NoServer::Loading => {
            Some(format!("the model server at {address} is loading its model: try again when it is ready"))
        }
        NoServer::Silent if is_named => {
            Some(format!("no model server answers at {address}, which {SERVERS_VARIABLE} names"))
        }
        NoServer::Unknown if is_named => Some(format!(
            "the server at {address}, which {SERVERS_VARIABLE} names, is none that Althing recognizes: name its models in a config"
        )),
        NoServer::Silent | NoServer::Unknown => None,
    }
}

fn describe_owner(base_url: &str, owner: Owner) -> String {
    let who = match owner {
        Owner::AnotherPerson => "another user of this machine runs it",
        Owner::Unknown | Owner::Trusted => "it cannot be seen who runs it",
    };
    let variable = if base_url.ends_with(":11434/v1") { "OLLAMA_HOST" } else { SERVERS_VARIABLE };
    let address = sanitize::line(base_url);
    format!("the model server at {address} is not used, because {who}; to use it, name it in {variable}")
}

/// Whose program serves a port of this machine. The program would be sent the user's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// This user or a system account.
    Trusted,
    AnotherPerson,
    Unknown,
}

/// The TCP sockets of this machine: local port, whether the socket listens or is connected, user.
struct ServerSockets {
    user: u32,
    sockets: Vec<(u16, bool, u32)>,
}

impl ServerSockets {
    /// The smallest user id of a person. System accounts have smaller ids; Ollama's own service runs as one of them.
    const FIRST_PERSON: u32 = 1000;

    /// `None` if the kernel does not tell, as on macOS.
    fn read() -> Option<Self> {
        let user = std::fs::metadata("/proc/self").ok()?.uid();
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
        let sockets = tables.iter().flatten().flat_map(|table| table.lines().filter_map(socket)).collect();
        Some(Self { user, sockets })
    }

    fn owner_at(&self, base_url: &str) -> Owner {
        let authority = base_url.split('/').nth(2).unwrap_or_default();
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        self.owner_of(port.unwrap_or(80))
    }

    /// Trusted only if a socket of a trusted user is there, and none of another person: a server whose listening socket
    /// is gone for a moment must not pass.
    fn owner_of(&self, port: u16) -> Owner {
        let is_another = |user: u32| user != self.user && user >= Self::FIRST_PERSON;
        let mut owner = Owner::Unknown;
        for (_, is_open, user) in self.sockets.iter().filter(|(local, ..)| *local == port) {
            if is_another(*user) {
                return Owner::AnotherPerson;
            }
            if *is_open {
                owner = Owner::Trusted;
            }
        }
        owner
    }
}

/// A line of `/proc/net/tcp`. Of the states, `0A` means listening, `01` connected and `08` closed by the other side; in
/// the other states, the kernel may no longer know the user and say 0.
fn socket(line: &str) -> Option<(u16, bool, u32)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let is_open = matches!(*fields.get(3)?, "0A" | "01" | "08");
    Some((u16::from_str_radix(port, 16).ok()?, is_open, fields.get(7)?.parse().ok()?))
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
    use super::{Owner, ServerSockets, address, free_memory, socket};

    #[test]
    fn a_server_of_another_person_on_this_machine_is_recognized() {
        let line = "   1: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 4711 1";
        assert_eq!(socket(line), Some((11434, true, 1001)));
        assert_eq!(socket(&line.replace(" 0A ", " 06 ")), Some((11434, false, 1001)), "no longer connected");
        assert_eq!(socket("  sl  local_address rem_address   st"), None);
        let owner = |user: u32, sockets: &[(u16, bool, u32)]| {
            ServerSockets { user, sockets: sockets.to_vec() }.owner_at("http://localhost:11434/v1")
        };
        for (user, of) in [(1000, 1001), (0, 1001)] {
            assert_eq!(owner(user, &[(11434, true, of)]), Owner::AnotherPerson);
        }
        for (user, of) in [(1001, 1001), (1000, 0), (1000, 998)] {
            assert_eq!(owner(user, &[(11434, true, of)]), Owner::Trusted);
        }
        // Of the other person, only an old connection is left, or nothing at all.
        assert_eq!(owner(1000, &[(11434, true, 0), (11434, false, 1001)]), Owner::AnotherPerson);
        assert_eq!(owner(1000, &[(11434, false, 0), (1234, true, 1000)]), Owner::Unknown);
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
