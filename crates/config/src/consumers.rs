//! A test that every supported key has a consumer: in some document, changing the key's value changes the resulting
//! settings. Only the functions that make settings are called, so a key that is only checked has no consumer.

use althing_protocol::Config;
use serde_json::{Map, Value as Json, json};

use crate::backends::BACKENDS;
use crate::keys::{Key, Kind, ROOT, Range, Section, Status, WORKFLOW};
use crate::tree::{MapEntry, Node, Span, Substitution, Text, Value};
use crate::variables::Variables;
use crate::{resolve, workflow};

/// Keys that accept any value but act only on some: section, key, and values that make a difference.
const WORDS: &[(&str, &str, &[&str])] = &[
    ("ui", "type", &["simple", "other"]),
    ("task", "agent", &["command", "claude"]),
    ("coordination", "checklist_criteria_inline", &[r#"["first"]"#, r#"[{"text": "second"}]"#]),
    ("coordination", "persona_generator", &[r#"{"enabled": true}"#, r#"{"enabled": false}"#]),
];

struct KeyPosition {
    path: Vec<String>,
    section: &'static Section,
    key: &'static Key,
}

/// The path of a key, and its new value; `None` leaves the key out.
type Change = (Vec<String>, Option<Json>);

/// The full document uses the first value.
fn samples(section: &Section, key: &Key) -> Vec<Json> {
    match WORDS.iter().find(|(of, name, _)| (*of, *name) == (section.name, key.name)) {
        Some((_, _, words)) => {
            words.iter().map(|word| serde_json::from_str(word).unwrap_or_else(|_| json!(word))).collect()
        }
        None => samples_of(key.kind),
    }
}

fn samples_of(kind: Kind) -> Vec<Json> {
    match kind {
        Kind::Bool => vec![json!(true), json!(false)],
        Kind::Text | Kind::Secret | Kind::Pattern => vec![json!("first"), json!("second")],
        Kind::Url => vec![json!("https://first.example"), json!("https://second.example")],
        Kind::Memory => vec![json!("1g"), json!("2g")],
        Kind::Any => vec![json!({"first": 1}), json!("second")],
        Kind::Integer(range) => [lowest(range), lowest(range) + 1.0].map(|n| json!(n as i64)).to_vec(),
        Kind::Number(range) => [lowest(range), lowest(range) + 1.0].map(|n| json!(n)).to_vec(),
        Kind::Choice(choices) => choices.iter().map(|choice| json!(choice.value)).collect(),
        Kind::BackendType => BACKENDS.iter().map(|backend| json!(backend.name)).collect(),
        Kind::Section(section) => vec![full_section(section)],
        Kind::List(item) => samples_of(*item).into_iter().map(|item| json!([item])).collect(),
        Kind::Map(item) => samples_of(*item).into_iter().map(|item| json!({"name": item})).collect(),
        Kind::Either(kinds) => kinds.iter().flat_map(|kind| samples_of(*kind)).collect(),
    }
}

fn lowest(range: Range) -> f64 {
    match (range.min.is_finite(), range.above_min) {
        (false, _) => 0.0,
        (true, false) => range.min,
        (true, true) => range.min + 1.0,
    }
}

fn supported(section: &'static Section) -> impl Iterator<Item = &'static Key> {
    section.keys.iter().filter(|key| key.status == Status::Supported)
}

fn full_section(section: &'static Section) -> Json {
    let sample = |key: &Key| Some((key.name.to_owned(), samples(section, key).into_iter().next()?));
    supported(section).filter_map(sample).collect::<Map<_, _>>().into()
}

fn positions(section: &'static Section, path: &[String], found: &mut Vec<KeyPosition>) {
    if found.iter().any(|position| position.section.name == section.name) {
        return;
    }
    for key in supported(section) {
        found.push(KeyPosition { path: [path, &[key.name.to_owned()]].concat(), section, key });
    }
    for key in supported(section) {
        inner_positions(key.kind, &[path, &[key.name.to_owned()]].concat(), found);
    }
}

fn inner_positions(kind: Kind, path: &[String], found: &mut Vec<KeyPosition>) {
    match kind {
        Kind::Section(section) => positions(section, path, found),
        Kind::List(item) => inner_positions(*item, &[path, &["0".to_owned()]].concat(), found),
        Kind::Map(item) => inner_positions(*item, &[path, &["name".to_owned()]].concat(), found),
        Kind::Either(kinds) => kinds.iter().take(1).for_each(|kind| inner_positions(*kind, path, found)),
        _ => {}
    }
}

/// Does nothing if the document no longer has the section around the key.
fn apply(document: &mut Json, (path, value): &Change) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(document, |node, part| match node {
        Json::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        node => node.get_mut(part),
    });
    let Some(Json::Object(entries)) = parent else { return };
    match value {
        Some(value) => entries.insert(last.clone(), value.clone()),
        None => entries.remove(last),
    };
}

fn with(document: &Json, changes: &[&Change]) -> Json {
    let mut changed = document.clone();
    for change in changes {
        apply(&mut changed, change);
    }
    changed
}

fn changes(position: &KeyPosition) -> Vec<Change> {
    let values = samples(position.section, position.key).into_iter().map(Some);
    [None].into_iter().chain(values).map(|value| (position.path.clone(), value)).collect()
}

fn as_node(json: &Json) -> Node {
    let value = match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| Value::Number(number.as_f64().unwrap_or_default()), Value::Integer)
        }
        Json::String(text) => {
            Value::Text(Text { content: text.clone(), quoted: false, substitution: Substitution::None })
        }
        Json::Array(items) => Value::List(items.iter().map(as_node).collect()),
        Json::Object(entries) => {
            let entry = |(key, value): (&String, &Json)| MapEntry {
                key: key.clone(),
                key_span: Span::default(),
                value: as_node(value),
            };
            Value::Map(entries.iter().map(entry).collect())
        }
    };
    Node { value, span: Span::default() }
}

/// Each section on the key's path keeps only its required keys and the key on the path.
fn bare_document(document: &Json, position: &KeyPosition, all: &[KeyPosition]) -> Json {
    let is_beside = |other: &&KeyPosition| {
        let around = other.path.split_last().map(|(_, around)| around).unwrap_or_default();
        position.path.starts_with(around) && !position.path.starts_with(&other.path)
    };
    let beside = all.iter().filter(is_beside).filter(|other| !other.key.required);
    let gone: Vec<Change> = beside.map(|other| (other.path.clone(), None)).collect();
    with(document, &gone.iter().collect::<Vec<_>>())
}

/// Other keys may have to change for the key to matter, so the test also tries other changes: any one in the full
/// document, and one or two of the same section in the bare document.
fn is_consumed<T: PartialEq>(
    position: &KeyPosition,
    document: &Json,
    all: &[KeyPosition],
    settings: &dyn Fn(&Node) -> T,
) -> bool {
    let own = changes(position);
    let matters = |document: &Json, others: &[&Change]| {
        let base = with(document, others);
        let mut outcomes = own.iter().map(|change| settings(&as_node(&with(&base, &[change]))));
        let Some(first) = outcomes.next() else { return false };
        outcomes.any(|other| other != first)
    };
    let bare_document = bare_document(document, position, all);
    if matters(&bare_document, &[]) || matters(document, &[]) {
        return true;
    }
    let others: Vec<Change> =
        all.iter().filter(|other| other.path != position.path).flat_map(changes).collect();
    let around = |path: &[String]| path.split_last().map(|(_, around)| around.to_vec());
    let beside: Vec<&Change> =
        others.iter().filter(|(path, _)| around(path) == around(&position.path)).collect();
    let after = |n: usize| beside.iter().skip(n + 1).copied();
    beside.iter().any(|other| matters(&bare_document, &[other]))
        || beside.iter().any(|other| matters(document, &[other]))
        || others.iter().any(|other| matters(document, &[other]))
        || beside.iter().enumerate().any(|(n, one)| after(n).any(|two| matters(&bare_document, &[one, two])))
}

fn without_consumer<T: PartialEq>(root: &'static Section, settings: &dyn Fn(&Node) -> T) -> Vec<String> {
    let mut all = Vec::new();
    positions(root, &[], &mut all);
    let document = full_section(root);
    let mut consumed: Vec<&KeyPosition> = Vec::new();
    let mut idle = Vec::new();
    // Backwards, because inner keys come after the key of their section: a section with a consumed key is consumed.
    for position in all.iter().rev() {
        let is_around = consumed.iter().any(|inner| inner.path.starts_with(&position.path));
        if is_around || is_consumed(position, &document, &all, settings) {
            consumed.push(position);
        } else {
            idle.push(format!("{}.{}", position.section.name, position.key.name));
        }
    }
    assert!(consumed.len() > 40, "only {} keys of a {} are consumed", consumed.len(), root.name);
    idle
}

fn settings_of_config(root: &Node) -> (Config, bool) {
    let mut config = resolve::config(root, Variables::all_own(&|_| None), &BACKENDS);
    config.adapters = workflow::adapters::resolve(root);
    (config, resolve::plain_progress(root))
}

#[test]
fn every_supported_key_of_a_config_changes_the_settings() {
    assert_eq!(without_consumer(&ROOT, &settings_of_config), Vec::<String>::new());
}

#[test]
fn every_supported_key_of_a_workflow_changes_what_runs() {
    assert_eq!(without_consumer(&WORKFLOW, &workflow::resolved), Vec::<String>::new());
}
