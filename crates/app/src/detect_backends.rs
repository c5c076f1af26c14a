//! Detects what agents can be made of: API keys in the environment, CLI agents on the `PATH`, a local Ollama. Used if
//! there is no config, and by `althing config init`.

use crate::context::AppContext;
use crate::environment::Environment;
use crate::session;
use crate::team::Team;
use althing_config::{DetectedBackends, DetectedOllama};
use althing_llm::{HttpClient, HttpOptions};
use althing_protocol::AGENT_KINDS;

/// Ollama's address unless `OLLAMA_HOST` is set.
const OLLAMA: &str = "http://localhost:11434";

/// Detects everything that agents can be made of.
pub fn detect_backends(environment: &Environment) -> DetectedBackends {
    DetectedBackends {
        providers: althing_config::detect_providers(&|name| environment.secret(name)),
        programs: althing_config::detect_cli_agents(&|name| environment.has_program(name)),
        ollama: ollama(environment),
    }
}

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
    // Ollama was probed when the team was assembled.
    let backends = team.config.agents.iter().map(|agent| &agent.backend);
    let models: Vec<&str> = backends
        .filter(|backend| backend.kind == "ollama")
        .filter_map(|backend| backend.model.as_deref())
        .collect();
    if models.is_empty() {
        missing.push("Ollama".to_owned());
    } else {
        known.push(format!("Ollama ({})", models.join(", ")));
    }
    Some((known, missing))
}

/// The Ollama server at [`ollama_url`]; None if it does not answer or has no models.
fn ollama(environment: &Environment) -> Option<DetectedOllama> {
    let base_url = ollama_url(environment);
    let (http, asked) = (HttpClient::new(&HttpOptions::default()).ok()?, base_url.clone());
    let models =
        session::block_on_thread(async move { althing_llm::ollama_models(&http, &asked).await })?.ok()?;
    (!models.is_empty()).then_some(DetectedOllama { base_url, models })
}

/// The base URL of the Ollama server: the one in `OLLAMA_HOST`, or else the default port on this machine.
pub fn ollama_url(environment: &Environment) -> String {
    let address =
        environment.variable("OLLAMA_HOST").map_or_else(|| OLLAMA.to_owned(), |host| address(&host));
    format!("{}/v1", address.trim_end_matches('/'))
}

/// The address in `OLLAMA_HOST`. The scheme and the port may be missing, and the host may be a listen address
/// (`0.0.0.0`).
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
    use super::address;

    #[test]
    fn ollama_host_is_read_as_ollama_reads_it() {
        assert_eq!(address("127.0.0.1:9"), "http://127.0.0.1:9");
        assert_eq!(address(" 0.0.0.0 "), "http://127.0.0.1:11434");
        assert_eq!(address("http://box:80/"), "http://box:80");
        assert_eq!(address("https://box"), "https://box");
    }
}
