//! A test that the question about a found config hides nothing: for every key that needs trust, each value below it
//! changes what the person is shown.

use super::{MAX_LISTED, find};
use crate::backends::BACKENDS;
use crate::keys::{Key, Kind, ROOT, Section};
use crate::parse;
use serde_json::{Map, Value as Json, json};

/// A value of a kind: all keys of a section, one item of a list. Texts are paths, because they are shown even if the
/// key's name means a secret.
fn samples(kind: Kind) -> Vec<Json> {
    match kind {
        Kind::Bool => vec![json!(true)],
        Kind::Text | Kind::Secret | Kind::Pattern | Kind::Memory => vec![json!("./first")],
        Kind::Url => vec![json!("https://first.example/v1")],
        Kind::Integer(_) | Kind::Number(_) => vec![json!(7)],
        Kind::Choice(choices) => choices.iter().take(1).map(|choice| json!(choice.value)).collect(),
        Kind::BackendType => vec![json!("openai")],
        Kind::Any => vec![json!({"first": ["./first", {"second": 7}]})],
        Kind::Section(section) => vec![whole(section)],
        Kind::List(item) => samples(*item).into_iter().map(|item| json!([item])).collect(),
        Kind::Map(item) => samples(*item).into_iter().map(|item| json!({"./name": item})).collect(),
        Kind::Either(kinds) => kinds.iter().flat_map(|kind| samples(*kind)).collect(),
    }
}

fn whole(section: &Section) -> Json {
    let sample = |key: &Key| Some((key.name.to_owned(), samples(key.kind).into_iter().next()?));
    section.keys.iter().filter_map(sample).collect::<Map<_, _>>().into()
}

/// Every key that needs trust, with a document that contains only this key.
fn documents(section: &'static Section, around: &dyn Fn(Json) -> Json, found: &mut Vec<(String, Json)>) {
    for key in section.keys {
        let document = |value: Json| around(json!({ key.name: value }));
        if !key.before_trust {
            let name = format!("{}.{}", section.name, key.name);
            found.extend(samples(key.kind).into_iter().map(|value| (name.clone(), document(value))));
        } else if let Kind::Section(inner) = key.kind {
            documents(inner, &document, found);
        } else if let Kind::List(Kind::Section(inner)) = key.kind {
            documents(inner, &|value| document(json!([value])), found);
        }
    }
}

/// Copies of the document, in each of which one other value or one key of a map is changed, with the path of the change.
fn changed(value: &Json, at: &str) -> Vec<(String, Json)> {
    match value {
        Json::Null => Vec::new(),
        Json::Bool(value) => vec![(at.to_owned(), json!(!value))],
        Json::Number(number) => vec![(at.to_owned(), json!(number.as_i64().unwrap_or_default() + 1))],
        Json::String(text) if text == "read" => vec![(at.to_owned(), json!("write"))],
        Json::String(text) => vec![(at.to_owned(), json!(format!("{text}/changed")))],
        Json::Array(items) => {
            let with = |n: usize, (at, item): (String, Json)| {
                let mut items = items.clone();
                items[n] = item;
                (at, Json::Array(items))
            };
            let each = |(n, item)| changed(item, at).into_iter().map(move |item| with(n, item));
            items.iter().enumerate().flat_map(each).collect()
        }
        Json::Object(entries) => {
            let with = |name: &str, (at, item): (String, Json)| {
                let mut entries = entries.clone();
                entries.insert(name.to_owned(), item);
                (at, Json::Object(entries))
            };
            let renamed = |(name, value): (&String, &Json)| {
                let mut entries = entries.clone();
                entries.remove(name);
                entries.insert(format!("{name}/changed"), value.clone());
                (format!("{at}.{name}"), Json::Object(entries))
            };
            let each = |(name, value): (&String, &Json)| {
                let inner = changed(value, &format!("{at}.{name}")).into_iter();
                inner.map(|item| with(name, item)).collect::<Vec<_>>()
            };
            let named = entries.iter().filter(|(name, _)| name.starts_with("./")).map(renamed);
            entries.iter().flat_map(each).chain(named).collect()
        }
    }
}

fn lines(document: &Json) -> Vec<String> {
    let parsed = parse::parse(&document.to_string()).unwrap_or_else(|_| panic!("{document}"));
    find(&parsed.root, &BACKENDS).iter().map(|need| format!("{}: {}", need.location, need.what)).collect()
}

#[test]
fn every_value_of_a_key_that_needs_trust_changes_what_the_person_is_shown() {
    let mut found = Vec::new();
    documents(&ROOT, &|value| value, &mut found);
    assert!(found.len() > 150, "{}", found.len());
    let mut hidden = Vec::new();
    for (key, document) in &found {
        let shown = lines(document);
        let same = changed(document, "").into_iter().filter(|(_, other)| lines(other) == shown);
        hidden.extend(same.map(|(at, _)| format!("{key}: {at}")));
    }
    assert_eq!(hidden, Vec::<String>::new());
}

#[test]
fn a_host_that_only_looks_like_another_one_is_shown_as_it_is_asked_for() {
    let shown = |url: &str| {
        let server = json!({"name": "n", "url": url});
        let backend = json!({"type": "openai", "base_url": url, "mcp_servers": [server]});
        lines(&json!({"agents": [{"id": "a", "backend": backend}]}))
    };
    let cyrillic = "https://api.\u{43e}penai.com/v1";
    for line in shown(cyrillic) {
        assert!(line.contains("api.xn--penai-iye.com (not ASCII as written: "), "{line}");
    }
    assert!(shown("https://api.openai.com/v1").iter().all(|line| line.contains("api.openai.com (`")));
    for line in shown("https://api.openai.com\u{ff0f}.evil.example/v1") {
        assert!(line.contains("api.openai.com\\u{ff0f}.evil.example (not ASCII as written: "), "{line}");
    }
}

#[test]
fn no_number_of_other_parts_hides_a_program() {
    let agent = |n: usize| {
        let server = |m: usize| json!({"name": format!("s{m}"), "url": format!("https://h{n}.example/{m}")});
        let servers: Vec<Json> = (0..50).map(server).collect();
        json!({"id": format!("a{n}"), "backend": {"type": "openai", "user": n.to_string(), "mcp_servers": servers}})
    };
    let mut agents: Vec<Json> = (0..30).map(agent).collect();
    agents.push(json!({"id": "last", "backend": {"type": "openai", "mcp_servers": [{"command": "curl"}]}}));
    let shown = lines(&json!({ "agents": agents }));
    let unlisted = 30 * 50 - MAX_LISTED;
    let first = format!(
        "not all: parts that need trust but are not in this list: {unlisted}; shortened lines: 0; read the file"
    );
    assert_eq!(shown[0], first);
    assert!(shown[1].ends_with("would start the MCP server `curl`"), "{}", shown[1]);
}

#[test]
fn no_value_cuts_off_another_one() {
    let long = "x".repeat(30_000);
    let env = json!({"FIRST": long, "NODE_OPTIONS": "--require ./x.js", "ZZZ": long});
    let server = json!({"name": "n", "command": "npx", "env": env, "cwd": "."});
    let shown =
        lines(&json!({"agents": [{"id": "a", "backend": {"type": "openai", "mcp_servers": [server]}}]}));
    let first =
        "not all: parts that need trust but are not in this list: 0; shortened lines: 1; read the file";
    assert_eq!(shown[0], first);
    assert!(shown[1].contains("'NODE_OPTIONS=--require ./x.js'"), "{}", shown[1]);
    assert!(shown[1].contains("… (29500 more characters)"), "{}", shown[1]);
    assert!(shown[1].chars().count() < 1500, "{}", shown[1]);
}
