//! Generates the reference of configs and workflows as Markdown from the table of keys. `docs/config.md` is a copy of
//! it.

use std::fmt::Write as _;

use crate::backends::BACKENDS;
use crate::keys::{Key, Kind, ROOT, Section, Status, WORKFLOW};
use crate::schema::unsupported_values;
use crate::values::shape_name;

const ABOUT_CONFIGS: &str = "\
# Config reference

<!-- Generated from the table of keys. Update it with: ALTHING_UPDATE_DOCS=1 cargo test -p althing-config docs -->

A config is YAML, and MassGen's configs are accepted as they are. Check a config with `althing config check FILE`;
every problem is reported with its line. `${VARIABLE}` is replaced by the environment variable, `${VARIABLE:-default}`
by the variable or, if it is unset or empty, by the default; `$${` is a literal `${`. An unknown key causes a warning,
or an error if it differs from a known key of the same section in at most two letters (in one letter if one of the two
keys has at most four letters). For editors: `althing config schema`.
";

const ABOUT_WORKFLOWS: &str = "
# Workflow reference

A workflow is YAML as well. Check it with `althing workflow check FILE`, run it with `althing workflow run FILE`. In
prompts, `{{goal}}` is the goal and `{{id.output}}` the output of a task of an earlier stage: the final answer of a run, the final message of a CLI agent, or the stdout of a command. Of a program's output at most 64 KiB are inserted; if a headless program printed more, a note between the beginning and the end names the file with the whole output. `${VARIABLE}` is substituted only
in `env` and `cwd`. The keys of `adapters` are described above, under `adapters.*`. For editors:
`althing config schema --workflow`.
";

/// The reference as Markdown: the sections of a config, the backend types, and the sections of a workflow.
pub fn reference() -> String {
    let mut out = String::from(ABOUT_CONFIGS);
    let mut done = Vec::new();
    section(&ROOT, "", "The config", &mut done, &mut out);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n## Backend types\n\n| type | what | address | key |\n| --- | --- | --- | --- |");
    for backend in BACKENDS.iter() {
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
    out.push_str(ABOUT_WORKFLOWS);
    section(&WORKFLOW, "", "The workflow", &mut done, &mut out);
    out
}

fn section(
    section_of_keys: &'static Section,
    path: &str,
    title: &str,
    done: &mut Vec<&'static str>,
    out: &mut String,
) {
    if done.contains(&section_of_keys.name) {
        return;
    }
    done.push(section_of_keys.name);
    let _ = writeln!(out, "\n## {title}\n\n{}\n", section_of_keys.about);
    let _ = writeln!(out, "| key | holds | default | meaning |\n| --- | --- | --- | --- |");
    for key in section_of_keys.keys {
        let default = key.default.map(|default| format!("`{default}`")).unwrap_or_default();
        let _ = writeln!(out, "| `{}` | {} | {default} | {} |", key.name, holds(key), meaning(key));
    }
    for key in section_of_keys.keys {
        let dot = if path.is_empty() { "" } else { "." };
        let inner_path = format!("{path}{dot}{}", key.name);
        each_section(key.kind, &inner_path, &mut |inner, path| {
            section(inner, path, &format!("`{path}`"), done, out);
        });
    }
}

/// Of several alternatives only the first is visited.
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
    match key.status {
        Status::Supported => format!("{}{required}{}", key.about, unsupported_values(key.kind)),
        Status::NotYet => format!("{} *Not supported yet.*", key.about),
        Status::Alternative(instead) => format!("{} *Has no effect: {instead}.*", key.about),
        Status::Replaced(instead) => format!("*No longer read: {instead}.*"),
    }
}
