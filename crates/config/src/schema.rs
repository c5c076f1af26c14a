//! Generates the JSON Schemas of configs and workflows for editors from the table of keys. They are lenient where the
//! checker only warns.

use serde_json::{Map, Value as Json, json};

use crate::backends::BACKENDS;
use crate::keys::{Key, Kind, ROOT, Range, Section, Status, WORKFLOW};
use crate::scalar;
use crate::tree::{Node, Span};

/// The schema of configs (draft 2020-12).
pub fn schema() -> Json {
    let mut schema = document("Althing config", &ROOT);
    schema.insert("oneOf".to_owned(), json!([{"required": ["agents"]}, {"required": ["agent"]}]));
    schema.into()
}

/// The schema of workflow files.
pub fn workflow_schema() -> Json {
    document("Althing workflow", &WORKFLOW).into()
}

fn document(title: &str, table: &'static Section) -> Map<String, Json> {
    let mut definitions = Map::new();
    let root = section(table, &mut definitions);
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".to_owned(), title.into());
    schema.extend(root.as_object().cloned().unwrap_or_default());
    schema.insert("$defs".to_owned(), definitions.into());
    schema
}

type Definitions = Map<String, Json>;

fn section(section: &'static Section, definitions: &mut Definitions) -> Json {
    let known = section.keys.iter().filter(|key| !matches!(key.status, Status::Replaced(_)));
    let properties: Map<String, Json> =
        known.map(|one| (one.name.to_owned(), key(one, definitions))).collect();
    let required: Vec<&str> = section.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut object =
        json!({"description": section.about, "type": ["object", "null"], "properties": properties});
    if let (Some(object), false) = (object.as_object_mut(), required.is_empty()) {
        object.insert("required".to_owned(), required.into());
    }
    object
}

fn key(key: &Key, definitions: &mut Definitions) -> Json {
    let mut schema = Map::new();
    let about = match key.status {
        Status::Supported => format!("{}{}", key.about, unsupported_values(key.kind)),
        Status::NotYet => format!("{} (Not supported yet: no effect.)", key.about),
        Status::Alternative(instead) | Status::Replaced(instead) => {
            format!("{} (No effect in Althing: {instead}.)", key.about)
        }
    };
    schema.insert("description".to_owned(), about.into());
    if key.status != Status::Supported {
        schema.insert("deprecated".to_owned(), true.into());
    }
    if let Some(default) = key.default {
        let node = Node { value: scalar::plain(default), span: Span::default() };
        schema.insert("default".to_owned(), node.to_json());
    }
    // Null means the same as leaving the key out.
    let kinds =
        if key.required { kind(key.kind, definitions) } else { nullable(kind(key.kind, definitions)) };
    schema.extend(kinds);
    schema.into()
}

/// A note about the values that are accepted but not supported yet; empty if there are none.
pub(crate) fn unsupported_values(kind: Kind) -> String {
    let values: Vec<String> = match kind {
        Kind::BackendType => {
            let unsupported = BACKENDS.iter().filter(|backend| !backend.is_supported());
            unsupported.map(|backend| format!("`{}`", backend.name)).collect()
        }
        Kind::Choice(choices) => {
            let instead = choices.iter().filter_map(|choice| Some((choice.value, choice.used_instead?)));
            instead.map(|(value, instead)| format!("`{value}` (`{instead}` is used instead)")).collect()
        }
        _ => Vec::new(),
    };
    if values.is_empty() { String::new() } else { format!(" (Not supported yet: {}.)", values.join(", ")) }
}

fn nullable(mut schema: Map<String, Json>) -> Map<String, Json> {
    if let Some(Json::String(name)) = schema.get("type").cloned() {
        schema.insert("type".to_owned(), json!([name, "null"]));
        if let Some(Json::Array(values)) = schema.get_mut("enum") {
            values.push(Json::Null);
        }
        return schema;
    }
    // An empty schema and the schema of a section allow null already. Without `anyOf` around the reference, editors
    // show better messages.
    if schema.is_empty() || schema.contains_key("$ref") {
        return schema;
    }
    let choices = match schema.remove("anyOf") {
        Some(Json::Array(choices)) => choices,
        _ => vec![schema.into()],
    };
    let with_null = choices.into_iter().chain([json!({"type": "null"})]).collect();
    Map::from_iter([("anyOf".to_owned(), with_null)])
}

fn kind(kind_of_value: Kind, definitions: &mut Definitions) -> Map<String, Json> {
    let schema = match kind_of_value {
        Kind::Any => json!({}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Text | Kind::Secret => json!({"type": "string"}),
        Kind::Url => json!({"type": "string", "pattern": r"^(https?://|.*\$\{)"}),
        Kind::Pattern => json!({"type": "string", "format": "regex"}),
        Kind::Memory => json!({"type": ["string", "integer"]}),
        Kind::Integer(range) => number("integer", range),
        Kind::Number(range) => number("number", range),
        Kind::Choice(choices) => {
            let words: Vec<&str> = choices.iter().map(|choice| choice.value).collect();
            json!({"type": "string", "enum": words})
        }
        Kind::BackendType => {
            let words: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
            json!({"type": "string", "enum": words})
        }
        Kind::Section(inner) => {
            if !definitions.contains_key(inner.name) {
                // The name is reserved first, because a section may contain itself.
                definitions.insert(inner.name.to_owned(), Json::Null);
                let schema = section(inner, definitions);
                definitions.insert(inner.name.to_owned(), schema);
            }
            json!({"$ref": format!("#/$defs/{}", inner.name)})
        }
        Kind::List(item) => json!({"type": "array", "items": kind(*item, definitions)}),
        Kind::Map(item) => json!({"type": "object", "additionalProperties": kind(*item, definitions)}),
        Kind::Either(kinds) => {
            let choices: Vec<Json> = kinds.iter().map(|one| kind(*one, definitions).into()).collect();
            json!({"anyOf": choices})
        }
    };
    schema.as_object().cloned().unwrap_or_default()
}

fn number(name: &str, range: Range) -> Json {
    let mut schema = Map::from_iter([("type".to_owned(), Json::from(name))]);
    let bound = |value: f64| if value.fract() == 0.0 { Json::from(value as i64) } else { Json::from(value) };
    if range.min.is_finite() {
        let word = if range.above_min { "exclusiveMinimum" } else { "minimum" };
        schema.insert(word.to_owned(), bound(range.min));
    }
    if range.max.is_finite() {
        schema.insert("maximum".to_owned(), bound(range.max));
    }
    schema.into()
}
