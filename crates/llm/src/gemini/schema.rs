//! Converts a tool's JSON Schema to the subset that Gemini accepts: one unsupported keyword makes Gemini reject the
//! whole request. Unsupported constraints are dropped; a part without a type that Gemini can express becomes a
//! string.

use crate::params::put;
use serde_json::{Map, Value, json};

/// The depth includes references, because a schema may refer to itself.
const DEEPEST: usize = 12;

const PLAIN: &[&str] = &[
    "title",
    "description",
    "default",
    "nullable",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
];

/// `None` if there are no parameters: Gemini rejects an object without properties.
pub(crate) fn parameters(schema: &Value) -> Option<Value> {
    let fitted = fit(schema, schema, 0);
    let has_some = fitted.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    has_some.then_some(fitted)
}

fn fit(schema: &Value, root: &Value, depth: usize) -> Value {
    let Some(object) = schema.as_object().filter(|_| depth < DEEPEST) else {
        // A string can express anything.
        return json!({"type": "string"});
    };
    if let Some(target) = object.get("$ref").and_then(Value::as_str) {
        let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let mut fitted = fit(found.unwrap_or(&Value::Null), root, depth + 1);
        if let Some(about) = object.get("description") {
            put(&mut fitted, "description", about.clone());
        }
        return fitted;
    }
    let mut out = Map::new();
    for key in PLAIN {
        out.extend(object.get(*key).map(|value| ((*key).to_owned(), value.clone())));
    }
    for part in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        if let Value::Object(part) = fit(part, root, depth + 1) {
            out.extend(part);
        }
    }
    let choices = object.get("anyOf").or_else(|| object.get("oneOf")).and_then(Value::as_array);
    if let Some(choices) = choices {
        any_of(&mut out, choices, root, depth);
    }
    set_type(&mut out, object);
    set_enum(&mut out, object);
    match out.get("type").and_then(Value::as_str) {
        Some("object") => set_properties(&mut out, object, root, depth),
        Some("array") => {
            let items = object
                .get("items")
                .map_or_else(|| json!({"type": "string"}), |items| fit(items, root, depth + 1));
            out.insert("items".to_owned(), items);
        }
        _ => {}
    }
    set_format(&mut out, object);
    if !out.contains_key("type") && !out.contains_key("anyOf") {
        out.insert("type".to_owned(), json!("string"));
    }
    Value::Object(out)
}

/// An alternative `null` only makes the value nullable.
fn any_of(out: &mut Map<String, Value>, choices: &[Value], root: &Value, depth: usize) {
    let is_null = |choice: &&Value| choice.get("type").is_some_and(|kind| kind == "null");
    let real: Vec<Value> =
        choices.iter().filter(|choice| !is_null(choice)).map(|choice| fit(choice, root, depth + 1)).collect();
    if real.len() < choices.len() {
        out.insert("nullable".to_owned(), json!(true));
    }
    match <[Value; 1]>::try_from(real) {
        Ok([Value::Object(only)]) => {
            for (key, value) in only {
                out.entry(key).or_insert(value);
            }
        }
        Ok(_) => {}
        Err(several) if several.is_empty() => {}
        Err(several) => {
            out.insert("anyOf".to_owned(), Value::Array(several));
        }
    }
}

fn set_type(out: &mut Map<String, Value>, object: &Map<String, Value>) {
    let kinds: Vec<&str> = match object.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ if object.contains_key("properties") => vec!["object"],
        _ if object.contains_key("items") => vec!["array"],
        _ => return,
    };
    if kinds.contains(&"null") {
        out.insert("nullable".to_owned(), json!(true));
    }
    let real: Vec<&str> = kinds.into_iter().filter(|kind| *kind != "null").collect();
    match real.as_slice() {
        [] => {}
        [one] => {
            out.insert("type".to_owned(), json!(one));
        }
        // Of several types, `array` and `object` are left out, because they would need `items` and `properties`.
        several => {
            let simple = several.iter().filter(|kind| !matches!(**kind, "array" | "object"));
            let choices: Vec<Value> = simple.map(|kind| json!({"type": kind})).collect();
            out.insert("anyOf".to_owned(), Value::Array(choices));
        }
    }
}

/// Gemini supports only strings as allowed values.
fn set_enum(out: &mut Map<String, Value>, object: &Map<String, Value>) {
    let one = object.get("const").map(std::slice::from_ref);
    let Some(values) = object.get("enum").and_then(Value::as_array).map(Vec::as_slice).or(one) else {
        return;
    };
    let is_text = out.get("type").is_none_or(|kind| kind == "string");
    let texts: Vec<&Value> = values.iter().filter(|value| value.is_string()).collect();
    if values.iter().any(Value::is_null) {
        out.insert("nullable".to_owned(), json!(true));
    }
    if is_text && !texts.is_empty() && !out.contains_key("anyOf") {
        out.insert("type".to_owned(), json!("string"));
        out.insert("enum".to_owned(), json!(texts));
    }
}

fn set_properties(out: &mut Map<String, Value>, object: &Map<String, Value>, root: &Value, depth: usize) {
    let Some(properties) = object.get("properties").and_then(Value::as_object).filter(|all| !all.is_empty())
    else {
        return;
    };
    let fitted: Map<String, Value> =
        properties.iter().map(|(name, schema)| (name.clone(), fit(schema, root, depth + 1))).collect();
    let required = object.get("required").and_then(Value::as_array).into_iter().flatten();
    let known: Vec<&Value> =
        required.filter(|name| name.as_str().is_some_and(|name| fitted.contains_key(name))).collect();
    if !known.is_empty() {
        out.insert("required".to_owned(), json!(known));
    }
    out.insert("properties".to_owned(), Value::Object(fitted));
}

fn set_format(out: &mut Map<String, Value>, object: &Map<String, Value>) {
    let Some(format) = object.get("format").and_then(Value::as_str) else { return };
    let taken = match out.get("type").and_then(Value::as_str) {
        Some("string") => format == "date-time",
        Some("number") => matches!(format, "float" | "double"),
        Some("integer") => matches!(format, "int32" | "int64"),
        _ => false,
    };
    if taken {
        out.insert("format".to_owned(), json!(format));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_keywords_are_dropped_or_expressed_differently() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "additionalProperties": false, "required": ["agent_id", "gone"],
            "properties": {
                "agent_id": {"type": "string", "enum": ["agent1", "agent2"], "examples": ["agent1"]},
                "count": {"type": ["integer", "null"], "exclusiveMinimum": 0, "format": "uint32"},
                "mode": {"const": "fast"},
                "size": {"type": "integer", "enum": [1, 2]},
                "path": {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
                "either": {"oneOf": [{"type": "string"}, {"type": "number"}]},
                "list": {"type": "array"},
                "point": {"$ref": "#/$defs/Point", "description": "where"},
                "any": true,
            },
            "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}, "title": "Point"}},
        });
        let expected = json!({
            "type": "object", "required": ["agent_id"],
            "properties": {
                "agent_id": {"type": "string", "enum": ["agent1", "agent2"]},
                "count": {"type": "integer", "nullable": true},
                "mode": {"type": "string", "enum": ["fast"]},
                "size": {"type": "integer"},
                "path": {"type": "string", "nullable": true},
                "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "list": {"type": "array", "items": {"type": "string"}},
                "point": {"type": "object", "properties": {"x": {"type": "number"}}, "title": "Point", "description": "where"},
                "any": {"type": "string"},
            },
        });
        assert_eq!(parameters(&schema), Some(expected));
    }

    #[test]
    fn a_tool_without_parameters_has_none() {
        assert_eq!(parameters(&json!({"type": "object", "properties": {}})), None);
        assert_eq!(parameters(&json!({"type": "object"})), None);
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema = json!({
            "type": "object", "properties": {"child": {"$ref": "#"}},
        });
        assert!(parameters(&schema).is_some());
    }
}
