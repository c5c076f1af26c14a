//! Checks a call's arguments against the part of JSON Schema that the tools use, so that the client learns which
//! parameter is wrong and what may have been meant. Deserialization has the last word.

use althing_text::did_you_mean;
use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) fn parse<T: DeserializeOwned>(schema: &Value, arguments: Option<JsonObject>) -> Result<T, String> {
    let mut arguments = arguments.unwrap_or_default();
    // Many clients send null for omitted parameters.
    arguments.retain(|_, value| !value.is_null());
    let arguments = Value::Object(arguments);
    let mut problems = Vec::new();
    check(schema, &arguments, "", &mut problems);
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    serde_json::from_value(arguments).map_err(|error| error.to_string())
}

pub(super) fn suggestion(name: &str, known: &[&str]) -> String {
    let question = did_you_mean(name, known.iter().copied());
    question.unwrap_or_else(|| format!("use one of: {}", known.join(", ")))
}

fn check(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    if let Some(wanted) = schema.get("type").filter(|wanted| !has_type(wanted, value)) {
        let wanted = wanted.as_str().map_or_else(|| wanted.to_string(), with_article);
        let fraction = wanted == "an integer" && value.is_number();
        let given = if fraction { value.to_string() } else { with_article(kind(value)) };
        problems.push(format!("parameter `{path}` must be {wanted}, not {given}"));
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        let given = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let advice = suggestion(&given, &names);
        problems.push(format!("parameter `{path}` cannot be `{given}`: {advice}"));
    }
    match value {
        Value::Object(fields) => check_object(schema, fields, path, problems),
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, item) in items.iter().enumerate() {
                check(schema, item, &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

fn check_object(schema: &Value, fields: &JsonObject, path: &str, problems: &mut Vec<String>) {
    let within = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let known = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    for (name, value) in fields {
        match (known.and_then(|known| known.get(name)), others) {
            (Some(schema), _) => check(schema, value, &within(name), problems),
            (None, Some(schema @ Value::Object(_))) => check(schema, value, &within(name), problems),
            (None, Some(Value::Bool(true))) => {}
            (None, _) if known.is_none() => {}
            (None, _) => {
                let names: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                let advice = suggestion(name, &names);
                problems.push(format!("there is no parameter `{}`: {advice}", within(name)));
            }
        }
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
        problems.push(format!("parameter `{}` is missing", within(name)));
    }
}

fn has_type(wanted: &Value, value: &Value) -> bool {
    let is = |wanted: &str| match wanted {
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => kind(value) == other,
    };
    match wanted {
        Value::String(wanted) => is(wanted),
        Value::Array(several) => several.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn with_article(kind: &str) -> String {
    match kind {
        "null" => kind.to_owned(),
        "array" | "object" | "integer" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(arguments: Value) -> String {
        let schema = json!({
            "type": "object",
            "properties": {
                "task": {"type": "string"},
                "agent_mode": {"type": "string", "enum": ["single", "multi"]},
                "agents": {"type": "array", "items": {"type": "string"}},
                "paths": {"type": "array", "items": {
                    "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
                "prompts": {"type": "object", "additionalProperties": {"type": "string"}},
                "rounds": {"type": "integer"},
            },
            "required": ["task"],
            "additionalProperties": false,
        });
        let Value::Object(arguments) = arguments else { unreachable!() };
        parse::<Value>(&schema, Some(arguments)).err().unwrap_or_default()
    }

    #[test]
    fn what_fits_the_schema_passes_with_null_for_what_is_left_out() {
        let fine = json!({"task": "t", "agent_mode": "multi", "agents": ["a"], "paths": [{"path": "p"}],
            "prompts": {"a": "b"}, "rounds": null});
        assert_eq!(problems(fine), "");
    }

    #[test]
    fn every_problem_names_its_parameter_and_what_would_be_right() {
        let cases = [
            (json!({}), "parameter `task` is missing"),
            (
                json!({"taks": "t"}),
                "there is no parameter `taks`: did you mean `task`?; parameter `task` is missing",
            ),
            (json!({"task": 7}), "parameter `task` must be a string, not a number"),
            (
                json!({"task": "t", "agent_mode": "singel"}),
                "parameter `agent_mode` cannot be `singel`: did you mean `single`?",
            ),
            (
                json!({"task": "t", "agents": ["a", 1]}),
                "parameter `agents[1]` must be a string, not a number",
            ),
            (
                json!({"task": "t", "paths": [{"paht": "p"}]}),
                "there is no parameter `paths[0].paht`: did you mean `path`?; parameter `paths[0].path` is missing",
            ),
            (
                json!({"task": "t", "prompts": {"a": []}}),
                "parameter `prompts.a` must be a string, not an array",
            ),
            (json!({"task": "t", "rounds": 1.5}), "parameter `rounds` must be an integer, not 1.5"),
            (
                json!({"task": "t", "zebra": 1}),
                "there is no parameter `zebra`: use one of: task, agent_mode, agents, paths, prompts, rounds",
            ),
        ];
        for (arguments, wanted) in cases {
            assert_eq!(problems(arguments), wanted);
        }
    }
}
