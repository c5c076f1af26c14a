//! Checks the arguments of a written call against the tool's JSON schema: types, required fields, enumerations,
//! items. The code that executes the call checks its arguments again.

use serde_json::{Map, Value};

const MAX_DEPTH: usize = 16;

pub(super) fn are_arguments(arguments: &Map<String, Value>, schema: &Value) -> bool {
    !is_schema_copy(arguments, schema) && object_fits(arguments, schema, 0)
}

/// Some models copy the schema instead of writing arguments.
fn is_schema_copy(arguments: &Map<String, Value>, schema: &Value) -> bool {
    let is_own = |name: &str| schema.pointer("/properties").is_some_and(|own| own.get(name).is_some());
    arguments.get("properties").is_some_and(Value::is_object) && !is_own("properties")
}

fn fits(value: &Value, schema: &Value, depth: usize) -> bool {
    let Some(rules) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return true };
    let any_fits = |key: &str| {
        let options = rules.get(key).and_then(Value::as_array);
        options.is_none_or(|options| options.iter().any(|option| fits(value, option, depth + 1)))
    };
    if rules.get("const").is_some_and(|wanted| wanted != value)
        || rules.get("enum").and_then(Value::as_array).is_some_and(|words| !words.contains(value))
        || !any_fits("anyOf")
        || !any_fits("oneOf")
    {
        return false;
    }
    let is_type = match rules.get("type") {
        Some(Value::String(name)) => is_of_type(value, name),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).any(|name| is_of_type(value, name))
        }
        _ => true,
    };
    is_type
        && match value {
            Value::Object(object) => object_fits(object, schema, depth),
            Value::Array(items) => {
                let least = rules.get("minItems").and_then(Value::as_u64).unwrap_or(0);
                let rule = rules.get("items");
                items.len() as u64 >= least
                    && items.iter().all(|item| rule.is_none_or(|rule| fits(item, rule, depth + 1)))
            }
            _ => true,
        }
}

fn object_fits(object: &Map<String, Value>, schema: &Value, depth: usize) -> bool {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut required = required.filter_map(Value::as_str);
    let properties = schema.get("properties").and_then(Value::as_object);
    required.all(|name| object.contains_key(name))
        && object.iter().all(|(name, value)| {
            properties.and_then(|known| known.get(name)).is_none_or(|rule| fits(value, rule, depth + 1))
        })
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_must_have_the_required_fields_and_types_and_must_not_be_the_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "agent_id": {"type": "string", "enum": ["agent1", "agent2"]},
                "score": {"type": ["integer", "null"]},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            },
            "required": ["agent_id"],
        });
        let table = [
            (json!({"agent_id": "agent1"}), true),
            (json!({"agent_id": "agent1", "score": 3, "tags": ["x"], "more": 1}), true),
            (json!({"agent_id": "agent1", "score": null}), true),
            (json!({"agent_id": "agent3"}), false),
            (json!({"agent_id": 1}), false),
            (json!({}), false),
            (json!({"agent_id": "agent1", "score": 1.5}), false),
            (json!({"agent_id": "agent1", "tags": []}), false),
            (json!({"agent_id": "agent1", "tags": [1]}), false),
        ];
        for (arguments, wanted) in table {
            assert_eq!(are_arguments(arguments.as_object().unwrap(), &schema), wanted, "{arguments}");
        }
        let open = json!({"type": "object", "properties": {"content": {"type": "string"}}});
        assert!(!are_arguments(open.as_object().unwrap(), &open), "a copy of the schema");
        assert!(are_arguments(&Map::new(), &open));
    }
}
