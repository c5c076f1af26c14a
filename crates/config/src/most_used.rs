//! A test that the keys that MassGen's own configs use most are supported. `ALTHING_MASSGEN_CONFIGS` names the
//! directory of those configs, which are not in this repository.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::keys::{Key, Kind, ROOT, Section, Status};
use crate::parse;
use crate::tree::{Node, Value};
use crate::values::has_shape;

const MUST_BE_SUPPORTED: usize = 40;
const ALTERNATIVES: &[&str] = &[
    "agents[].backend.custom_tools",
    "orchestrator.agent_temporary_workspace",
    "orchestrator.snapshot_storage",
    "ui.logging_enabled",
];

fn keys(section: &'static Section, node: &Node, path: &str, found: &mut BTreeMap<String, &'static Key>) {
    for entry in node.entries() {
        let Some(key) = section.key(&entry.key) else { continue };
        // `agent` means the same as a list of one agent.
        let name = if path.is_empty() && entry.key == "agent" { "agents[]" } else { &entry.key };
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        found.insert(path.clone(), key);
        values(key.kind, &entry.value, &path, found);
    }
}

fn values(kind: Kind, node: &Node, path: &str, found: &mut BTreeMap<String, &'static Key>) {
    match kind {
        Kind::Section(section) => keys(section, node, path, found),
        Kind::List(item) => {
            for node in node.items() {
                values(*item, node, &format!("{}[]", path.trim_end_matches("[]")), found);
            }
        }
        Kind::Map(item) => {
            for entry in node.entries() {
                values(*item, &entry.value, &format!("{path}.*"), found);
            }
        }
        Kind::Either(kinds) => {
            if let Some(kind) = kinds.iter().find(|kind| has_shape(**kind, node)) {
                values(*kind, node, path, found);
            }
        }
        _ => {}
    }
}

#[expect(clippy::disallowed_methods, reason = "a test may read its own input")]
fn documents(directory: &Path) -> Vec<Node> {
    let mut found = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(directory) = todo.pop() {
        for entry in directory.read_dir().expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml") {
                let text = std::fs::read_to_string(&path).expect("readable");
                found.extend(parse::parse(&text).ok().map(|parsed| parsed.root));
            }
        }
    }
    found.retain(|root| {
        matches!(root.value, Value::Map(_)) && (root.get("agents").or(root.get("agent"))).is_some()
    });
    found
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may read an environment variable")]
fn the_forty_most_used_keys_of_massgens_configs_are_supported() {
    let Some(directory) = std::env::var_os("ALTHING_MASSGEN_CONFIGS") else {
        println!("nothing to do: ALTHING_MASSGEN_CONFIGS is not set");
        return;
    };
    let mut uses: BTreeMap<String, (usize, &'static Key)> = BTreeMap::new();
    let documents = documents(Path::new(&directory));
    for root in &documents {
        let mut found = BTreeMap::new();
        keys(&ROOT, root, "", &mut found);
        for (path, key) in found {
            uses.entry(path).or_insert((0, key)).0 += 1;
        }
    }
    assert!(documents.len() >= 275, "only {} configs", documents.len());
    let mut ranked: Vec<(usize, &str, &Key)> =
        uses.iter().map(|(path, (count, key))| (*count, path.as_str(), *key)).collect();
    ranked.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    let least = ranked.get(MUST_BE_SUPPORTED - 1).map_or(0, |(count, ..)| *count);
    let used = ranked.iter().take_while(|(count, ..)| *count >= least);
    let unsupported: BTreeSet<&str> =
        used.filter(|(_, _, key)| key.status != Status::Supported).map(|(_, path, _)| *path).collect();
    assert_eq!(
        unsupported,
        ALTERNATIVES.iter().copied().collect(),
        "keys among the first {MUST_BE_SUPPORTED} that do nothing"
    );
}
