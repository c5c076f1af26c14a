//! `althing agents`: which backends are usable here, and what is missing for the others.
//!
//! Looks instead of guessing: at the `PATH` and each program's version, at each server's usual address, at the keys in the
//! environment. Everything is asked at once and nothing is waited for longer than a little over a second.

use crate::args::Options;
use crate::exit::Exit;
use althing_app::AppContext;
use althing_app::Failure;
use althing_app::found;
use althing_app::place;
use althing_app::session;
use althing_config::{BACKENDS, BackendType, Reach};
use althing_llm::{HttpClient, HttpOptions};
use althing_protocol::{BackendError, BackendErrorKind};
use althing_runner::Launcher;
use althing_runner::adapter::{Adapters, AgentFound, find_agents};
use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use std::io::Write;
use std::time::Duration;

/// How long a program may take to tell its version.
const VERSION_LIMIT: Duration = Duration::from_millis(1200);
/// So many models are named to people; programs get all of them.
const NAMED_MODELS: usize = 6;

/// One thing that agents can be built on.
#[derive(Default)]
struct Row {
    name: String,
    title: String,
    usable: bool,
    note: String,
    /// Of a program: where it is, and its version as it says itself.
    path: Option<String>,
    version: Option<String>,
    /// Of a server that answers.
    models: Option<Vec<String>>,
}

impl Row {
    fn json(&self) -> Value {
        let all = [
            ("name", json!(self.name)),
            ("title", json!(self.title)),
            ("usable", json!(self.usable)),
            ("note", json!(self.note)),
            ("path", json!(self.path)),
            ("version", json!(self.version)),
            ("models", json!(self.models)),
        ];
        all.into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

pub fn run(options: &Options, app: &AppContext) -> Result<Exit, Failure> {
    let http = HttpClient::new(&HttpOptions::default()).map_err(|error| Failure::usage(error.to_string()))?;
    let (backends, walls) = session::runtime()?.block_on(join(backends(&http, app), walls(app)));
    let mut out = std::io::stdout().lock();
    if options.json {
        let list = |rows: &[Row]| -> Vec<Value> { rows.iter().map(Row::json).collect() };
        let all = json!({"backends": list(&backends), "confinement": list(&walls)});
        let _ = writeln!(out, "{all}");
        return Ok(Exit::Answered);
    }
    for (heading, rows) in [("Backends", &backends), ("Confinement of commands", &walls)] {
        let _ = writeln!(out, "{heading}");
        for row in rows {
            let word = if row.usable { "usable" } else { "-" };
            let _ = writeln!(out, "  {:16} {word:7} {}", row.name, row.note);
        }
    }
    Ok(Exit::Answered)
}

async fn backends(http: &HttpClient, app: &AppContext) -> Vec<Row> {
    let (adapters, path) = (Adapters::default(), app.environment.path());
    let launcher = Launcher::default();
    let programs = find_agents(&adapters, &launcher, &path, VERSION_LIMIT);
    let servers = join_all(BACKENDS.iter().map(|backend| server(backend, http, app)));
    let (programs, servers) = join(programs, servers).await;
    let row = |(backend, server): (&BackendType, Option<Row>)| {
        let found = programs.iter().find(|found| Some(found.name.as_str()) == backend.adapter());
        let row = server.or_else(|| found.map(|found| program(backend, found)));
        let row = row.unwrap_or_else(|| by_key(backend, app));
        Row { name: backend.name.to_owned(), title: backend.title.to_owned(), ..row }
    };
    BACKENDS.iter().zip(servers).map(row).collect()
}

/// What needs a key, or nothing at all.
fn by_key(backend: &BackendType, app: &AppContext) -> Row {
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
    Row { usable, note, ..Row::default() }
}

fn program(backend: &BackendType, found: &AgentFound) -> Row {
    let title = backend.title;
    let Some(path) = found.path.as_ref().map(|path| path.display().to_string()) else {
        let install =
            backend.agent.map(|agent| format!("; install with `{}`", agent.install_hint)).unwrap_or_default();
        let note = format!("{title}: missing: `{}` is not on PATH{install}", found.program);
        return Row { note, ..Row::default() };
    };
    let note = match &found.version {
        Some(version) => format!("{title}: {version}, {path}"),
        None => format!("{title}: {path}, which did not tell its version in time"),
    };
    Row { usable: true, note, path: Some(path), version: found.version.clone(), ..Row::default() }
}

/// A server that needs no key, with its models; None for everything else.
async fn server(backend: &BackendType, http: &HttpClient, app: &AppContext) -> Option<Row> {
    let usual = backend.base_url.filter(|_| backend.is_local() && backend.is_supported())?;
    let title = backend.title;
    let (url, models) = if backend.name == "ollama" {
        let url = found::ollama_url(&app.environment);
        let models = althing_llm::ollama_models(http, &url).await;
        (url, models)
    } else {
        (usual.to_owned(), althing_llm::served_models(http, usual).await)
    };
    let missing = |note: String| Row { note, ..Row::default() };
    Some(match models {
        Ok(models) if models.is_empty() => {
            let pull = if backend.name == "ollama" { "; get one with `ollama pull`" } else { "" };
            missing(format!("{title}: answers at {url} and has no models{pull}"))
        }
        Ok(models) => {
            let note = format!("{title} at {url}, with {}", named(&models));
            Row { usable: true, note, models: Some(models), ..Row::default() }
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

async fn walls(app: &AppContext) -> Vec<Row> {
    let scratch = std::env::temp_dir();
    let socket = place::docker_socket(app.environment.variable("DOCKER_HOST").as_deref());
    let found = althing_runner::availability(&Launcher::default(), &scratch, &socket).await;
    let row = |wall: althing_runner::Availability| {
        let name = wall.name.to_owned();
        Row { title: name.clone(), name, usable: wall.usable, note: wall.note, ..Row::default() }
    };
    found.into_iter().map(row).collect()
}
