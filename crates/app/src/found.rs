//! What this machine offers to a start without a config: keys in the environment, agents' programs, a local Ollama.

use crate::environment::Environment;
use crate::session;
use althing_config::{Found, FoundOllama};
use althing_llm::{HttpClient, HttpOptions};

/// Where Ollama listens unless its own variable says so.
const OLLAMA: &str = "http://localhost:11434";

/// Looks for everything that agents can be made of.
pub fn look(environment: &Environment) -> Found {
    Found {
        providers: althing_config::found_providers(&|name| environment.setting(name)),
        programs: althing_config::found_programs(&|name| environment.has_program(name)),
        ollama: ollama(environment),
    }
}

/// The Ollama of this machine. Whatever goes wrong, there is none.
fn ollama(environment: &Environment) -> Option<FoundOllama> {
    let base_url = ollama_url(environment);
    let (http, asked) = (HttpClient::new(&HttpOptions::default()).ok()?, base_url.clone());
    let models = session::apart(async move { althing_llm::ollama_models(&http, &asked).await })?.ok()?;
    (!models.is_empty()).then_some(FoundOllama { base_url, models })
}

/// Where this machine's Ollama is called.
pub fn ollama_url(environment: &Environment) -> String {
    let address =
        environment.variable("OLLAMA_HOST").map_or_else(|| OLLAMA.to_owned(), |host| address(&host));
    format!("{}/v1", address.trim_end_matches('/'))
}

/// The address in `OLLAMA_HOST`, which may lack its scheme, its port, or be where a server listens rather than where
/// it is called.
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
    fn the_variable_of_ollama_is_read_as_ollama_reads_it() {
        assert_eq!(address("127.0.0.1:9"), "http://127.0.0.1:9");
        assert_eq!(address(" 0.0.0.0 "), "http://127.0.0.1:11434");
        assert_eq!(address("http://box:80/"), "http://box:80");
        assert_eq!(address("https://box"), "https://box");
    }
}
