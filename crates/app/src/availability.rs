//! Probes which backends and sandboxes are usable on this machine, and what is missing for the others. With
//! `--offline`, no CLI agent is started, and no local server and no Docker daemon is asked.

use crate::agent_env;
use crate::context::AppContext;
use crate::detect_backends;
use crate::failure::Failure;
use crate::programs;
use crate::work_dirs::agents_write;
use althing_config::{BACKENDS, BackendApi, BackendType};
use althing_llm::{HttpClient, HttpOptions};
use althing_protocol::{BackendError, BackendErrorKind};
use althing_runner::GuardLauncher;
use althing_runner::adapter::{
    Adapters, AgentAdapter, AgentInstallation, SearchPath, find_agents, find_program,
};
use futures_util::future::{join, join_all};
use std::path::Path;
use std::time::Duration;

/// The time for a CLI agent to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
const OFFLINE: &str = " (--offline)";
/// How many models the text output names; the JSON output has all models.
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
    /// The path of the executable, for a CLI agent.
    pub path: Option<String>,
    /// The version, for a CLI agent.
    pub version: Option<String>,
    /// For an installed CLI agent: false if the known signs of a sign-in are missing; true if there is one, or if Althing
    /// knows no signs for it.
    pub signed_in: Option<bool>,
    /// The names of the models, for a local server that answers and has models.
    pub models: Option<Vec<String>>,
}

/// Probes every backend and every sandbox; returns the backends, then the sandboxes.
pub async fn probe(app: &AppContext) -> Result<(Vec<Availability>, Vec<Availability>), Failure> {
    let http = HttpClient::new(&HttpOptions::default()).map_err(|error| Failure::usage(error.to_string()))?;
    let (mut backends, sandboxes) = join(backends(&http, app), sandboxes(app)).await;
    let works = |name: &str| sandboxes.iter().any(|sandbox| sandbox.name == name && sandbox.usable);
    if works("landlock") && !works("bubblewrap") {
        backends.iter_mut().for_each(mark_landlock_problem);
    }
    Ok((backends, sandboxes))
}

async fn backends(http: &HttpClient, app: &AppContext) -> Vec<Availability> {
    let (adapters, path) = (Adapters::default(), app.environment.path());
    let launcher = GuardLauncher::default();
    let agents_write = agents_write(&app.environment.cwd, None, &app.environment);
    let programs = async {
        if app.settings.offline {
            return adapters.all().filter_map(|adapter| unasked(&**adapter, &path)).collect();
        }
        let cache = app.environment.user_state_dir();
        find_agents(&adapters, &launcher, (&path, &agents_write), VERSION_LIMIT, cache.as_deref()).await
    };
    let servers = join_all(BACKENDS.iter().map(|backend| server(backend, http, app)));
    let (programs, servers) = join(programs, servers).await;
    let row = |(backend, server): (&BackendType, Option<Availability>)| {
        let found = programs.iter().find(|found| Some(found.name.as_str()) == backend.adapter());
        let row = server.or_else(|| found.map(|found| program(backend, found, app)));
        let row = row.unwrap_or_else(|| by_key(backend, app));
        Availability { name: backend.name.to_owned(), title: backend.title.to_owned(), ..row }
    };
    BACKENDS.iter().zip(servers).map(row).collect()
}

fn by_key(backend: &BackendType, app: &AppContext) -> Availability {
    let title = backend.title;
    let key = backend.key_variables.iter().find(|name| app.environment.secret(name).is_some());
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

fn unasked(adapter: &dyn AgentAdapter, search: &str) -> Option<AgentInstallation> {
    let program = adapter.executable()?.to_owned();
    let path = find_program(&program, search);
    Some(AgentInstallation { name: adapter.name().to_owned(), program, path, version: None })
}

/// A program in a directory that agents may write to is not run to get its version.
fn is_unasked(program: &Path, app: &AppContext) -> bool {
    let writable = agents_write(&app.environment.cwd, None, &app.environment);
    let dir = program.parent().unwrap_or(program).display().to_string();
    !SearchPath::without(&dir, &writable).removed.is_empty()
}

fn program(backend: &BackendType, found: &AgentInstallation, app: &AppContext) -> Availability {
    let title = backend.title;
    let Some(path) = found.path.as_ref().map(|path| path.display().to_string()) else {
        let install =
            backend.agent.map(|agent| format!("; install with `{}`", agent.install_hint)).unwrap_or_default();
        let note = format!("{title}: missing: `{}` is not on PATH{install}", found.program);
        return Availability { note, ..Availability::default() };
    };
    let mut note = match &found.version {
        Some(version) => format!("{title}: {version}, {path}"),
        None if app.settings.offline => format!("{title}: {path}; its version was not asked for{OFFLINE}"),
        None if is_unasked(Path::new(&path), app) => {
            format!("{title}: {path}; its version was not asked for, because agents may write there")
        }
        None => format!("{title}: {path}, which did not print its version"),
    };
    let sign_in = backend.adapter().and_then(|adapter| programs::sign_in_hint(adapter, app));
    if let Some(hint) = sign_in {
        note = format!("{note}; not signed in: {hint}");
    }
    Availability {
        usable: true,
        note,
        path: Some(path),
        version: found.version.clone(),
        signed_in: Some(sign_in.is_none()),
        ..Availability::default()
    }
}

fn mark_landlock_problem(row: &mut Availability) {
    let adapter = BACKENDS.iter().find(|backend| backend.name == row.name).and_then(BackendType::adapter);
    let problem = adapter.and_then(|adapter| Adapters::default().get(adapter)?.landlock_problem());
    if let Some(problem) = problem.filter(|_| row.usable) {
        row.usable = false;
        row.note = format!("{problem} (install `bubblewrap`); {}", row.note);
    }
}

/// `None` if the backend is not a local server that Althing supports.
async fn server(backend: &BackendType, http: &HttpClient, app: &AppContext) -> Option<Availability> {
    let usual = backend.base_url.filter(|_| backend.is_local() && backend.is_supported())?;
    let title = backend.title;
    if app.settings.offline {
        return Some(Availability {
            note: format!("{title}: not asked{OFFLINE}"),
            ..Availability::default()
        });
    }
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
    if app.settings.offline {
        let found = althing_runner::detect_sandboxes(&GuardLauncher::default(), &scratch).await;
        let row = |name: &str, usable: bool, note: String| {
            let (name, title) = (name.to_owned(), name.to_owned());
            Availability { name, title, usable, note, ..Availability::default() }
        };
        let (bubblewrap, landlock) = (found.bubblewrap, found.landlock);
        return vec![
            row("bubblewrap", bubblewrap.works.is_some(), bubblewrap.note),
            row("landlock", landlock.works.is_some(), landlock.note),
            row("docker", false, format!("not asked{OFFLINE}")),
        ];
    }
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
