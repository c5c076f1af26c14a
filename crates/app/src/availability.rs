//! Which backends and sandboxes are usable on this machine, and what is missing for the others.
//!
//! This module probes the `PATH` and each CLI agent's version, each local server's usual address (for Ollama, the
//! address in `OLLAMA_HOST` if that is set), the API keys in the environment, and the sandboxes. All probes run
//! concurrently, and none takes much longer than a second.

use crate::agent_env;
use crate::context::AppContext;
use crate::detect_backends;
use crate::failure::Failure;
use althing_config::{BACKENDS, BackendApi, BackendType};
use althing_llm::{HttpClient, HttpOptions};
use althing_protocol::{BackendError, BackendErrorKind};
use althing_runner::GuardLauncher;
use althing_runner::adapter::{Adapters, AgentInstallation, find_agents};
use futures_util::future::{join, join_all};
use std::time::Duration;

/// How long a CLI agent may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_millis(1200);
/// How many models the text output names; the JSON output has all of them.
const SHOWN_MODELS: usize = 6;

/// A backend or a sandbox, and whether it is usable on this machine.
#[derive(Clone, Debug, Default)]
pub struct Availability {
    /// The backend's `type` in a config, or the sandbox's name.
    pub name: String,
    /// The name shown to people.
    pub title: String,
    /// Whether the backend or sandbox is usable.
    pub usable: bool,
    /// What makes the backend or sandbox usable, or what is missing.
    pub note: String,
    /// For a CLI agent: the path of its executable.
    pub path: Option<String>,
    /// For a CLI agent: the version that it printed.
    pub version: Option<String>,
    /// For a local server that answers and has models: the names of the models.
    pub models: Option<Vec<String>>,
}

/// Probes every backend and every sandbox; returns the backends, then the sandboxes.
pub async fn probe(app: &AppContext) -> Result<(Vec<Availability>, Vec<Availability>), Failure> {
    let http = HttpClient::new(&HttpOptions::default()).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(join(backends(&http, app), sandboxes(app)).await)
}

async fn backends(http: &HttpClient, app: &AppContext) -> Vec<Availability> {
    let (adapters, path) = (Adapters::default(), app.environment.path());
    let launcher = GuardLauncher::default();
    let programs = find_agents(&adapters, &launcher, &path, VERSION_LIMIT);
    let servers = join_all(BACKENDS.iter().map(|backend| server(backend, http, app)));
    let (programs, servers) = join(programs, servers).await;
    let row = |(backend, server): (&BackendType, Option<Availability>)| {
        let found = programs.iter().find(|found| Some(found.name.as_str()) == backend.adapter());
        let row = server.or_else(|| found.map(|found| program(backend, found)));
        let row = row.unwrap_or_else(|| by_key(backend, app));
        Availability { name: backend.name.to_owned(), title: backend.title.to_owned(), ..row }
    };
    BACKENDS.iter().zip(servers).map(row).collect()
}

/// The availability of a backend that is neither a local server nor a CLI agent: usable if Althing supports the
/// backend, and the backend needs no API key or one of its keys is set.
fn by_key(backend: &BackendType, app: &AppContext) -> Availability {
    let title = backend.title;
    let key = backend.key_variables.iter().find(|name| app.environment.variable(name).is_some());
    let (usable, note) = match (backend.is_supported(), backend.key_variables.first(), key) {
        (false, ..) => (false, format!("{title}: not supported yet")),
        (true, None, _) if backend.api == BackendApi::ChatCompletions => {
            (true, format!("{title}, at the address that `base_url` names"))
        }
        (true, None, _) => (true, title.to_owned()),
        (true, Some(_), Some(found)) => (true, format!("{title}, with {found}")),
        (true, Some(first), None) => (false, format!("{title}: set {first}")),
    };
    Availability { usable, note, ..Availability::default() }
}

fn program(backend: &BackendType, found: &AgentInstallation) -> Availability {
    let title = backend.title;
    let Some(path) = found.path.as_ref().map(|path| path.display().to_string()) else {
        let install =
            backend.agent.map(|agent| format!("; install with `{}`", agent.install_hint)).unwrap_or_default();
        let note = format!("{title}: missing: `{}` is not on PATH{install}", found.program);
        return Availability { note, ..Availability::default() };
    };
    let note = match &found.version {
        Some(version) => format!("{title}: {version}, {path}"),
        None => format!("{title}: {path}, which did not print its version in time"),
    };
    Availability {
        usable: true,
        note,
        path: Some(path),
        version: found.version.clone(),
        ..Availability::default()
    }
}

/// The availability of a local server, with its models if it answers; None if the backend is not a local server that
/// Althing supports.
async fn server(backend: &BackendType, http: &HttpClient, app: &AppContext) -> Option<Availability> {
    let usual = backend.base_url.filter(|_| backend.is_local() && backend.is_supported())?;
    let title = backend.title;
    let (url, models) = if backend.name == "ollama" {
        let url = detect_backends::ollama_url(&app.environment);
        let models = althing_llm::ollama_models(http, &url).await;
        (url, models)
    } else {
        (usual.to_owned(), althing_llm::served_models(http, usual).await)
    };
    let missing = |note: String| Availability { note, ..Availability::default() };
    Some(match models {
        Ok(models) if models.is_empty() => {
            let pull = if backend.name == "ollama" { "; get one with `ollama pull`" } else { "" };
            missing(format!("{title}: answers at {url} and has no models{pull}"))
        }
        Ok(models) => {
            let note = format!("{title} at {url}, with {}", named(&models));
            Availability { usable: true, note, models: Some(models), ..Availability::default() }
        }
        Err(error) => missing(format!("{title}: missing: {}", why(&url, &error))),
    })
}

fn why(url: &str, error: &BackendError) -> String {
    let hint = error.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    match error.kind {
        BackendErrorKind::Connect => format!("nothing answers at {url}{hint}"),
        _ => format!("the server at {url} did not list its models ({}){hint}", error.message),
    }
}

fn named(models: &[String]) -> String {
    let some: Vec<&str> = models.iter().map(String::as_str).take(SHOWN_MODELS).collect();
    match models.len() - some.len() {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

async fn sandboxes(app: &AppContext) -> Vec<Availability> {
    let scratch = std::env::temp_dir();
    let socket = agent_env::docker_socket(app.environment.variable("DOCKER_HOST").as_deref());
    let found = althing_runner::availability(&GuardLauncher::default(), &scratch, &socket).await;
    let row = |sandbox: althing_runner::SandboxAvailability| {
        let name = sandbox.name.to_owned();
        Availability {
            title: name.clone(),
            name,
            usable: sandbox.usable,
            note: sandbox.note,
            ..Availability::default()
        }
    };
    found.into_iter().map(row).collect()
}
