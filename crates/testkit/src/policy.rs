//! The default behavior: an agent of a run that uses the offered tools.

use serde_json::{Value, json};

use crate::recorded::RecordedRequest;
use crate::reply::Reply;

/// Plays an agent: it follows a requested JSON schema; otherwise it votes if it can, answers if it can, or replies with
/// text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parliament {
    chatter: usize,
}

impl Parliament {
    /// Pads the text of replies without a requested schema to `n` chunks, as load for streaming tests and benchmarks.
    pub fn chatter(n: usize) -> Self {
        Self { chatter: n }
    }

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
            let content = std::mem::take(&mut reply.text);
            let extra = self.chatter.saturating_sub(content.len());
            reply.text = (0..extra).map(|i| format!("word {i} of the reply; ")).collect();
            reply.text.extend(content);
        }
        reply
    }
}

/// The agent with the lowest number that the vote tool accepts. `None` if voting is not offered or no agent has
/// answered.
fn first_votable(request: &RecordedRequest) -> Option<&str> {
    request.votable().into_iter().min_by_key(|name| (name.len(), *name))
}

fn instance(schema: &Value) -> Value {
    if let Some(first) = schema.pointer("/enum/0") {
        return first.clone();
    }
    // Google writes types in upper case.
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
