//! The default behaviour: an agent of the parliament that does what the offered tools ask of it.

use serde_json::{Value, json};

use crate::recorded::RecordedRequest;
use crate::reply::Reply;

/// Plays an agent: votes when it may vote, answers when it may answer, talks when it has no such tool, and fills in what
/// it is asked to fill in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parliament {
    chatter: usize,
}

impl Parliament {
    /// Says `n` chunks of text before the point of each reply: load for streaming tests and benchmarks.
    pub fn chatter(n: usize) -> Self {
        Self { chatter: n }
    }

    /// The sensible reply to a request.
    pub fn reply(self, request: &RecordedRequest) -> Reply {
        let model = request.model();
        if let Some(schema) = request.wanted_schema() {
            return Reply::text(instance(schema).to_string());
        }
        let reply = if let Some(target) = first_votable(request) {
            Reply::vote(target, &format!("{model} finds {target} the most complete"))
        } else if request.tool_names().contains(&"new_answer") {
            Reply::new_answer(&format!("Answer of {model}"))
        } else {
            Reply::text(format!("Final answer of {model}"))
        };
        self.with_chatter(reply)
    }

    fn with_chatter(self, mut reply: Reply) -> Reply {
        if self.chatter > 0 {
            let point = std::mem::take(&mut reply.text);
            let spoken = self.chatter.saturating_sub(point.len());
            reply.text = (0..spoken).map(|i| format!("word {i} of the reply; ")).collect();
            reply.text.extend(point);
        }
        reply
    }
}

/// The first id the vote tool accepts; none when voting is not offered or nobody has answered yet.
fn first_votable(request: &RecordedRequest) -> Option<&str> {
    request.tool_parameters("vote")?.pointer("/properties/agent_id/enum/0").and_then(Value::as_str)
}

/// The plainest value that fits a schema.
fn instance(schema: &Value) -> Value {
    if let Some(first) = schema.pointer("/enum/0") {
        return first.clone();
    }
    // Google writes types in capitals.
    match schema["type"].as_str().unwrap_or_default().to_ascii_lowercase().as_str() {
        "object" => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties.map(|(name, schema)| (name.clone(), instance(schema))).collect()
        }
        "array" => json!([]),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(false),
        _ => json!("plain"),
    }
}
