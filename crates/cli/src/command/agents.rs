//! `althing agents`: which backends are usable here, and what is missing for the others.

use crate::args::Options;
use crate::exit::{Exit, Failure};
use crate::place;
use crate::session;
use crate::surroundings::Surroundings;
use althing_config::{BACKENDS, BackendType};
use althing_runner::Launcher;
use serde_json::json;
use std::io::Write;

/// One thing that agents can be built on.
struct Row {
    name: String,
    title: String,
    usable: bool,
    note: String,
}

pub fn run(options: &Options, surroundings: &Surroundings) -> Result<Exit, Failure> {
    let backends: Vec<Row> = BACKENDS.iter().map(|backend| row(backend, surroundings)).collect();
    let walls = walls(surroundings)?;
    let mut out = std::io::stdout().lock();
    if options.json {
        let list = |rows: &[Row]| -> Vec<serde_json::Value> {
            let object = |row: &Row| json!({"name": row.name, "title": row.title, "usable": row.usable, "note": row.note});
            rows.iter().map(object).collect()
        };
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

fn row(backend: &BackendType, surroundings: &Surroundings) -> Row {
    let key = backend.key_variables.iter().find(|name| surroundings.variable(name).is_some());
    let (usable, note) = match (backend.is_supported(), backend.key_variables.first(), key) {
        (false, ..) => (false, format!("{}: not supported yet", backend.title)),
        (true, None, _) => (true, backend.title.to_owned()),
        (true, Some(_), Some(found)) => (true, format!("{}, with {found}", backend.title)),
        (true, Some(first), None) => (false, format!("{}: set {first}", backend.title)),
    };
    Row { name: backend.name.to_owned(), title: backend.title.to_owned(), usable, note }
}

fn walls(surroundings: &Surroundings) -> Result<Vec<Row>, Failure> {
    let scratch = std::env::temp_dir();
    let socket = place::docker_socket(surroundings.variable("DOCKER_HOST").as_deref());
    let found =
        session::runtime()?.block_on(althing_runner::availability(&Launcher::default(), &scratch, &socket));
    let row = |wall: althing_runner::Availability| {
        let name = wall.name.to_owned();
        Row { title: name.clone(), name, usable: wall.usable, note: wall.note }
    };
    Ok(found.into_iter().map(row).collect())
}
