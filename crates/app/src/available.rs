//! Which backends and sandboxes are usable here, and what is missing for the others.
//!
//! Looks instead of guessing: at the `PATH` and each program's version, at each server's usual address, at the keys in the
//! environment. Everything is asked at once and nothing is waited for longer than a little over a second.

use crate::agent_env;
use crate::context::AppContext;
use crate::failure::Failure;
use crate::found;
use althing_config::{BACKENDS, BackendType, Reach};
use althing_llm::{HttpClient, HttpOptions};
use althing_protocol::{BackendError, BackendErrorKind};
use althing_runner::Launcher;
use althing_runner::adapter::{Adapters, AgentInstallation, find_agents};
use futures_util::future::{join, join_all};
use std::time::Duration;

/// How long a program may take to tell its version.
const VERSION_LIMIT: Duration = Duration::from_millis(1200);
/// So many models are named to people; programs get all of them.
const NAMED_MODELS: usize = 6;

/// A backend or a sandbox, and whether it is usable here.
#[derive(Clone, Debug, Default)]
pub struct Available {
    /// Its name in a config.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Whether it is usable.
    pub usable: bool,
    /// What it is usable with, or what is missing.
    pub note: String,
    /// Of a program: where it is.
    pub path: Option<String>,
    /// Of a program: its version, as it says itself.
    pub version: Option<String>,
    /// Of a server that answers: its models.
    pub models: Option<Vec<String>>,
}

/// Looks for every backend and every sandbox.
pub async fn look(app: &AppContext) -> Result<(Vec<Available>, Vec<Available>), Failure> {
    let http = HttpClient::new(&HttpOptions::default()).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(join(backends(&http, app), sandboxes(app)).await)
}

async fn backends(http: &HttpClient, app: &AppContext) -> Vec<Available> {
    let (adapters, path) = (Adapters::default(), app.environment.path());
    let launcher = Launcher::default();
    let programs = find_agents(&adapters, &launcher, &path, VERSION_LIMIT);
    let servers = join_all(BACKENDS.iter().map(|backend| server(backend, http, app)));
    let (programs, servers) = join(programs, servers).await;
    let row = |(backend, server): (&BackendType, Option<Available>)| {
        let found = programs.iter().find(|found| Some(found.name.as_str()) == backend.adapter());
        let row = server.or_else(|| found.map(|found| program(backend, found)));
        let row = row.unwrap_or_else(|| by_key(backend, app));
        Available { name: backend.name.to_owned(), title: backend.title.to_owned(), ..row }
    };
    BACKENDS.iter().zip(servers).map(row).collect()
}

/// What needs a key, or nothing at all.
fn by_key(backend: &BackendType, app: &AppContext) -> Available {
    let title = backend.title;
    let key = backend.key_variables.iter().find(|name| app.environment.variable(name).is_some());
    let (usable, note) = match (backend.is_supported(), backend.key_variables.first(), key) {
        (false, ..) => (false, format!("{title}: not supported yet")),
        (true, None, _) if backend.reach == Reach::ChatCompletions => {
            (true, format!("{title}, at the address that `base_url` names"))
        }
        (true, None, _) => (true, title.to_owned()),
        (true, Some(_), Some(found)) => (true, format!("{title}, with {found}")),
        (true, Some(first), None) => (false, format!("{title}: set {first}")),
    };
    Available { usable, note, ..Available::default() }
}

fn program(backend: &BackendType, found: &AgentInstallation) -> Available {
    let title = backend.title;
    let Some(path) = found.path.as_ref().map(|path| path.display().to_string()) else {
        let install =
            backend.agent.map(|agent| format!("; install with `{}`", agent.install_hint)).unwrap_or_default();
        let note = format!("{title}: missing: `{}` is not on PATH{install}", found.program);
        return Available { note, ..Available::default() };
    };
    let note = match &found.version {
        Some(version) => format!("{title}: {version}, {path}"),
        None => format!("{title}: {path}, which did not tell its version in time"),
    };
    Available { usable: true, note, path: Some(path), version: found.version.clone(), ..Available::default() }
}

/// A server that needs no key, with its models; None for everything else.
async fn server(backend: &BackendType, http: &HttpClient, app: &AppContext) -> Option<Available> {
    let usual = backend.base_url.filter(|_| backend.is_local() && backend.is_supported())?;
    let title = backend.title;
    let (url, models) = if backend.name == "ollama" {
        let url = found::ollama_url(&app.environment);
        let models = althing_llm::ollama_models(http, &url).await;
        (url, models)
    } else {
        (usual.to_owned(), althing_llm::served_models(http, usual).await)
    };
    let missing = |note: String| Available { note, ..Available::default() };
    Some(match models {
        Ok(models) if models.is_empty() => {
            let pull = if backend.name == "ollama" { "; get one with `ollama pull`" } else { "" };
            missing(format!("{title}: answers at {url} and has no models{pull}"))
        }
        Ok(models) => {
            let note = format!("{title} at {url}, with {}", named(&models));
            Available { usable: true, note, models: Some(models), ..Available::default() }
        }
        Err(error) => missing(format!("{title}: missing: {}", why(&url, &error))),
    })
}

fn why(url: &str, error: &BackendError) -> String {
    let hint = error.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    match error.kind {
        BackendErrorKind::Connect => format!("nothing answers at {url}{hint}"),
        _ => format!("what listens at {url} is something else ({}){hint}", error.message),
    }
}

fn named(models: &[String]) -> String {
    let some: Vec<&str> = models.iter().map(String::as_str).take(NAMED_MODELS).collect();
    match models.len() - some.len() {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}

async fn sandboxes(app: &AppContext) -> Vec<Available> {
    let scratch = std::env::temp_dir();
    let socket = agent_env::docker_socket(app.environment.variable("DOCKER_HOST").as_deref());
    let found = althing_runner::availability(&Launcher::default(), &scratch, &socket).await;
    let row = |wall: althing_runner::SandboxAvailability| {
        let name = wall.name.to_owned();
        Available { title: name.clone(), name, usable: wall.usable, note: wall.note, ..Available::default() }
    };
    found.into_iter().map(row).collect()
}
