//! `althing agents`: which backends are usable here, and what is missing for the others.

use crate::args::Options;
use crate::exit::Exit;
use crate::show::{print, print_json};
use althing_app::availability::{self, Availability};
use althing_app::{AppContext, Failure, session};
use serde_json::{Value, json};

pub fn run(options: &Options, app: &AppContext) -> Result<Exit, Failure> {
    let (backends, sandboxes) = session::runtime()?.block_on(availability::probe(app))?;
    if options.json {
        let list = |rows: &[Availability]| -> Vec<Value> { rows.iter().map(row).collect() };
        print_json(&json!({"backends": list(&backends), "confinement": list(&sandboxes)}).to_string());
        return Ok(Exit::Answered);
    }
    for (heading, rows) in [("Backends", &backends), ("Confinement of commands", &sandboxes)] {
        print(heading);
        for row in rows {
            let word = if row.usable { "usable" } else { "-" };
            print(&format!("  {:16} {word:7} {}", row.name, row.note));
        }
    }
    Ok(Exit::Answered)
}

fn row(row: &Availability) -> Value {
    let all = [
        ("name", json!(row.name)),
        ("title", json!(row.title)),
        ("usable", json!(row.usable)),
        ("note", json!(row.note)),
        ("path", json!(row.path)),
        ("version", json!(row.version)),
        ("signed_in", json!(row.signed_in)),
        ("models", json!(row.models)),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_null());
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}
