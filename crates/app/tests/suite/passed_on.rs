//! Every backend key that a config passes to the model client (in `BackendConfig::params`) is read there: setting it
//! changes the request of some backend type, or some backend type rejects a wrong value of it by name.

use althing_config::{LoadPurpose, Source};
use althing_llm::{BuildError, HttpClient, HttpOptions, PriceTable};
use althing_protocol::{BackendConfig, Message, ModelRequest, ToolSpec};
use althing_testkit::{FakeModel, Reply, Script};
use serde_json::{Map, Value, json};

/// These cover every wire format and every dialect.
const KINDS: [&str; 8] =
    ["chatcompletion", "openrouter", "azure_openai", "openai", "grok", "claude", "gemini", "offline"];

/// A value that is wrong for every parameter that Althing itself interprets.
const WRONG: &str = "no such value";

type Sent = (String, Vec<(String, String)>, Value);

fn samples(schema: &Value) -> Vec<Value> {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter(|word| !word.is_null()).cloned().collect();
    }
    if let Some(shapes) = schema["anyOf"].as_array() {
        return shapes.iter().flat_map(samples).collect();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("null") => Vec::new(),
        Some("boolean") => vec![json!(true), json!(false)],
        Some("string") => vec![json!("auto"), json!("first")],
        Some("integer" | "number") => {
            let lowest = schema["minimum"].as_i64().or(schema["exclusiveMinimum"].as_i64().map(|n| n + 1));
            let lowest = lowest.unwrap_or(1);
            vec![json!(lowest), json!(lowest + 1)]
        }
        Some("array") => samples(&schema["items"]).into_iter().map(|item| json!([item])).collect(),
        Some("object") => {
            let values = samples(&schema["additionalProperties"]);
            values.into_iter().map(|value| json!({"first": value})).collect()
        }
        _ => {
            let schema = json!({"name": "reply", "schema": {"type": "object"}});
            vec![
                json!({"type": "json_schema", "json_schema": schema}),
                json!("auto"),
                json!({"type": "auto"}),
            ]
        }
    }
}

fn keys(section: &Value, definitions: &Value) -> Vec<(Vec<String>, Vec<Value>)> {
    let properties = section["properties"].as_object().expect("properties");
    let mut found = Vec::new();
    for (name, schema) in properties.iter().filter(|(_, schema)| schema["deprecated"] != true) {
        if let Some(inner) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
            for (path, values) in keys(&definitions[inner], definitions) {
                let path = [vec![name.clone()], path].concat();
                found.push((path, values.into_iter().map(|value| json!({ name: value })).collect()));
            }
        } else {
            let values = samples(schema).into_iter();
            found.push((vec![name.clone()], values.map(|value| json!({ name: value })).collect()));
        }
    }
    found
}

fn settings(kind: &str, address: &str, keys: &[&Value]) -> Option<BackendConfig> {
    let mut section = Map::from_iter([
        ("type".to_owned(), json!(kind)),
        ("model".to_owned(), json!("some-model")),
        ("base_url".to_owned(), json!(address)),
        ("api_key".to_owned(), json!("sk-test")),
    ]);
    section.extend(keys.iter().filter_map(|keys| keys.as_object().cloned()).flatten());
    let text = json!({"agents": [{"id": "a", "backend": section}]}).to_string();
    let report =
        althing_config::load_config(Source { name: "team.yaml", text: &text }, &|_| None, LoadPurpose::Check);
    Some(report.config?.config.agents.into_iter().next()?.backend)
}

fn built(config: &BackendConfig) -> Result<std::sync::Arc<dyn althing_protocol::Backend>, BuildError> {
    // Some keys set limits that all backends of a client share.
    let http = HttpClient::new(&HttpOptions::default()).expect("a client");
    althing_llm::backend(config, &http, &PriceTable::default())
}

async fn sent(config: &BackendConfig, server: &FakeModel) -> Option<Sent> {
    let request = ModelRequest {
        system: "Be brief.".into(),
        messages: vec![Message::User("hi".into())],
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads.".into(),
            parameters: json!({"type": "object"}),
        }],
        call_context: None,
    };
    let backend = built(config).ok()?;
    let before = server.requests().len();
    let _ = backend.call(&request, &mut |_| {}).await;
    let seen = server.requests();
    let first = seen.get(before)?;
    Some((first.path().to_owned(), first.headers().to_vec(), first.body().clone()))
}

fn is_refused(name: &str, address: &str) -> bool {
    KINDS.iter().filter_map(|kind| settings(kind, address, &[])).any(|mut config| {
        config.params.insert(name.to_owned(), json!(WRONG));
        matches!(built(&config).err(), Some(BuildError::BadParam { name: refused, .. }) if refused == name)
    })
}

#[tokio::test]
async fn every_passthrough_key_of_a_config_is_read_by_the_model_client() {
    let server = FakeModel::start(Script::always(Reply::text("ok"))).await;
    let address = server.base_url();
    let schema = althing_config::schema();
    let definitions = &schema["$defs"];
    // Some keys only matter if the provider's web search is on.
    let contexts = [json!({}), json!({"enable_web_search": true})];
    let (mut read, mut idle) = (0, Vec::new());
    for (path, values) in keys(&definitions["backend"], definitions) {
        let name = &path[0];
        let is_passed_on = values.iter().any(|value| {
            settings("chatcompletion", &address, &[value])
                .is_some_and(|config| config.params.contains_key(name))
        });
        if !is_passed_on {
            continue;
        }
        let mut is_read = is_refused(name, &address);
        'search: for kind in KINDS.iter().filter(|_| !is_read) {
            for context in &contexts {
                let Some(plain) = settings(kind, &address, &[context]) else { continue };
                let plain = sent(&plain, &server).await;
                for value in &values {
                    let Some(config) = settings(kind, &address, &[context, value]) else { continue };
                    let with_key = sent(&config, &server).await;
                    if with_key.is_some() && with_key != plain {
                        is_read = true;
                        break 'search;
                    }
                }
            }
        }
        if is_read {
            read += 1;
        } else {
            idle.push(path.join("."));
        }
    }
    assert_eq!(idle, Vec::<String>::new(), "passed on, but read by no wire");
    assert!(read > 50, "only {read} keys are passed on");
}
