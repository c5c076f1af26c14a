//! The workflow tools: what agents are offered to take part in a run, and how their calls are read.

use althing_protocol::{ToolCall, ToolSpec};
use serde_json::{Value, json};

/// Gives an answer.
pub const NEW_ANSWER: &str = "new_answer";
/// Votes for an answer.
pub const VOTE: &str = "vote";

/// `new_answer{content}`.
pub(crate) fn new_answer_spec() -> ToolSpec {
    ToolSpec {
        name: NEW_ANSWER.into(),
        description: "Submit your complete answer to the original message. It must stand on its own.".into(),
        parameters: json!({
            "type": "object",
            "properties": {"content": {"type": "string", "description": "The whole answer."}},
            "required": ["content"],
            "additionalProperties": false,
        }),
    }
}

/// `vote{agent_id, reason}`, with exactly the ids that can be voted for.
pub(crate) fn vote_spec(candidates: &[usize]) -> ToolSpec {
    let ids: Vec<String> = candidates.iter().map(|seat| format!("agent{}", seat + 1)).collect();
    ToolSpec {
        name: VOTE.into(),
        description: "Vote for the agent whose current answer is best. Voting ends your part unless newer answers arrive.".into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "agent_id": {"type": "string", "enum": ids, "description": "The agent you vote for."},
                "reason": {"type": "string", "description": "Why, in one or two sentences."},
            },
            "required": ["agent_id", "reason"],
            "additionalProperties": false,
        }),
    }
}

/// The answer that a `new_answer` call carries, or what to tell the model.
pub(crate) fn answer(call: &ToolCall) -> Result<String, String> {
    let content = text_field(call, &arguments(call)?, "content")?;
    if content.trim().is_empty() {
        return Err(format!("`{}` needs a `content` that is not empty.", call.name));
    }
    Ok(content)
}

/// Whom a `vote` call names and why, or what to tell the model.
pub(crate) fn vote(call: &ToolCall) -> Result<(String, String), String> {
    let arguments = arguments(call)?;
    let target = text_field(call, &arguments, "agent_id")?;
    // A vote without a reason is still a vote.
    let reason = arguments.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok((target.trim().to_owned(), reason))
}

fn arguments(call: &ToolCall) -> Result<Value, String> {
    match serde_json::from_str::<Value>(&call.arguments) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(format!("The arguments of `{}` must be a JSON object.", call.name)),
        Err(problem) => Err(format!("The arguments of `{}` are not valid JSON ({problem}).", call.name)),
    }
}

fn text_field(call: &ToolCall, arguments: &Value, field: &str) -> Result<String, String> {
    match arguments.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("`{field}` of `{}` must be a text.", call.name)),
        None => Err(format!("`{}` needs the argument `{field}`.", call.name)),
    }
}
