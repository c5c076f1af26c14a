//! The config reference as Markdown: made from the table of keys, so it cannot say anything else.

use std::fmt::Write as _;

use crate::backends::BACKENDS;
use crate::keys::{Key, Kind, ROOT, Section, Status};
use crate::landed::Landed;
use crate::values::shape_name;

/// The reference: a table of keys for each section, then the backend types.
pub fn reference() -> String {
    let mut out = String::from("# Config reference\n");
    let mut done = Vec::new();
    section(&ROOT, "", &mut done, &mut out);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n## Backend types\n\n| type | what | address | key |\n| --- | --- | --- | --- |");
    for backend in BACKENDS {
        let note = if backend.is_supported() { "" } else { " (not supported yet)" };
        let variable = backend.url_variable.map(|name| format!("`{name}`"));
        let address = backend.base_url.map(str::to_owned).or(variable).unwrap_or_else(|| "–".to_owned());
        let key = if backend.key_variables.is_empty() {
            "–".to_owned()
        } else {
            backend.key_variables.join(" or ")
        };
        let _ = writeln!(out, "| `{}` | {}{note} | {address} | {key} |", backend.name, backend.title);
    }
    out
}

fn section(section_of_keys: &'static Section, path: &str, done: &mut Vec<&'static str>, out: &mut String) {
    if done.contains(&section_of_keys.name) {
        return;
    }
    done.push(section_of_keys.name);
    let title = if path.is_empty() { "The file" } else { path };
    let _ = writeln!(out, "\n## {title}\n\n{}\n", section_of_keys.about);
    let _ = writeln!(out, "| key | holds | default | meaning |\n| --- | --- | --- | --- |");
    for key in section_of_keys.keys {
        let default = key.default.map(|default| format!("`{default}`")).unwrap_or_default();
        let _ = writeln!(out, "| `{}` | {} | {default} | {} |", key.name, holds(key), meaning(key));
    }
    for key in section_of_keys.keys {
        let dot = if path.is_empty() { "" } else { "." };
        let inner_path = format!("{path}{dot}{}", key.name);
        each_section(key.kind, &inner_path, &mut |inner, path| section(inner, path, done, out));
    }
}

/// Calls `visit` for the sections inside a kind.
fn each_section(kind: Kind, path: &str, visit: &mut dyn FnMut(&'static Section, &str)) {
    match kind {
        Kind::Section(section) => visit(section, path),
        Kind::List(item) => each_section(*item, &format!("{path}[]"), visit),
        Kind::Map(item) => each_section(*item, &format!("{path}.*"), visit),
        Kind::Either(kinds) => {
            if let Some(first) = kinds.first() {
                each_section(*first, path, visit);
            }
        }
        _ => {}
    }
}

fn holds(key: &Key) -> String {
    match key.kind {
        Kind::Integer(range) | Kind::Number(range) => {
            format!("{} {}", shape_name(key.kind), range.describe()).trim_end().to_owned()
        }
        Kind::Either(kinds) => kinds.iter().map(|kind| shape_name(*kind)).collect::<Vec<_>>().join(" or "),
        kind => shape_name(kind),
    }
}

fn meaning(key: &Key) -> String {
    let required = if key.required { " Required." } else { "" };
    match key.status(Landed::NOW) {
        Status::Supported => format!("{}{required}", key.about),
        Status::NotYet => format!("{} *Not supported yet.*", key.about),
        Status::Alternative(instead) => format!("{} *Does nothing: {instead}.*", key.about),
        Status::Replaced(instead) => format!("*Not read any more: {instead}.*"),
    }
}
