//! Every key in the JSON Schema has a description, and the reference has all its parts.

use althing_config::{BACKENDS, reference, schema};
use serde_json::{Value, json};

#[test]
fn the_schema_describes_every_key_and_has_no_dangling_reference() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let mut references = 0;
    let mut todo = vec![(&schema, false)];
    while let Some((value, is_key)) = todo.pop() {
        let Value::Object(object) = value else { continue };
        if is_key {
            assert!(
                object
                    .get("description")
                    .is_some_and(|about| about.as_str().is_some_and(|about| about.len() > 5)),
                "{object:?}"
            );
        }
        if let Some(Value::String(reference)) = object.get("$ref") {
            references += 1;
            assert!(
                schema.pointer(reference.trim_start_matches('#')).is_some_and(Value::is_object),
                "{reference}"
            );
        }
        for (name, inner) in object {
            match (name.as_str(), inner) {
                ("properties" | "$defs", Value::Object(keys)) => {
                    todo.extend(keys.values().map(|key| (key, true)));
                }
                ("anyOf", Value::Array(choices)) => todo.extend(choices.iter().map(|choice| (choice, false))),
                ("items" | "additionalProperties", inner) => todo.push((inner, false)),
                _ => {}
            }
        }
    }
    assert!(references > 8, "{references}");
}

#[test]
fn the_schema_has_types_ranges_choices_and_defaults() {
    let schema = schema();
    let threshold = &schema["$defs"]["context_compaction"]["properties"]["threshold_tokens"];
    assert_eq!(threshold["type"], json!(["integer", "null"]));
    assert_eq!((&threshold["minimum"], &threshold["default"]), (&json!(1), &json!(100_000)));
    let budget = &schema["$defs"]["interactive_mode"]["properties"]["budget_usd"];
    assert_eq!(budget["exclusiveMinimum"], 0);
    let types = schema["$defs"]["backend"]["properties"]["type"]["enum"].as_array().expect("a list");
    assert_eq!(types.len(), BACKENDS.len());
    assert_eq!(schema["$defs"]["backend"]["required"], json!(["type"]));
    assert_eq!(schema["$defs"]["backend"]["properties"]["output_schema"]["deprecated"], true);
}

#[test]
fn the_schema_says_which_backend_types_and_choices_have_no_effect_yet() {
    let schema = schema();
    let about = schema["$defs"]["backend"]["properties"]["type"]["description"].as_str().expect("a text");
    let (_, note) = about.split_once("(Not supported yet: ").expect("a note");
    for backend in BACKENDS.iter() {
        let is_named = note.contains(&format!("`{}`", backend.name));
        assert_eq!(is_named, !backend.is_supported(), "{}: {about}", backend.name);
    }
    let about = &schema["$defs"]["backend"]["properties"]["command_line_execution_mode"]["description"];
    assert!(about.as_str().is_some_and(|about| about.contains("`srt` (`local` is used instead)")), "{about}");
}

#[test]
fn the_reference_has_every_key_and_every_backend_type() {
    let reference = reference();
    for part in [
        "`override_window_seconds`",
        "## `orchestrator.interactive_mode`",
        "## `agents[].backend`",
        "## `adapters.*`",
        "# Workflow reference",
        "## `stages[].tasks[].run`",
        "`continue_on_failure`",
        "| `offline` |",
        "`prices`",
        "Python tools are not supported",
    ] {
        assert!(reference.contains(part), "{part}");
    }
    let rows = reference.lines().filter(|line| line.starts_with("| `"));
    for row in rows {
        assert_eq!(row.matches(" | ").count(), 3, "{row}");
    }
}

#[test]
fn no_section_names_a_key_twice() {
    let reference = reference();
    for section in reference.split("\n## ") {
        let mut keys: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all, "{section}");
    }
}
