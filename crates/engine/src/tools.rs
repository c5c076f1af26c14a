//! The workflow tools: what agents are offered to take part in a run, and how their calls are read.

use althing_protocol::{Restart, ToolCall, ToolSpec};
use serde_json::{Value, json};

/// Gives an answer.
pub const NEW_ANSWER: &str = "new_answer";
/// Votes for an answer.
pub const VOTE: &str = "vote";
/// Lets the final answer stand.
pub const SUBMIT: &str = "submit";
/// Asks for the run to start over.
pub const RESTART: &str = "restart_orchestration";

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

/// `submit{confirmed}`.
pub(crate) fn submit_spec() -> ToolSpec {
    ToolSpec {
        name: SUBMIT.into(),
        description: "The final answer is good enough: it goes to the user as it is.".into(),
        parameters: json!({
            "type": "object",
            "properties": {"confirmed": {"type": "boolean", "description": "true"}},
            "required": ["confirmed"],
            "additionalProperties": false,
        }),
    }
}

/// `restart_orchestration{reason, instructions}`.
pub(crate) fn restart_spec() -> ToolSpec {
    ToolSpec {
        name: RESTART.into(),
        description: "The final answer fails the original message: all agents start over, with this answer and your instructions."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "reason": {"type": "string", "description": "What the answer lacks or gets wrong."},
                "instructions": {"type": "string", "description": "What the agents must do differently."},
            },
            "required": ["reason", "instructions"],
            "additionalProperties": false,
        }),
    }
}

/// Why and how a `restart_orchestration` call asks to start over, or what to tell the model.
pub(crate) fn restart(call: &ToolCall) -> Result<Restart, String> {
    let arguments = arguments(call)?;
    let reason = text_field(call, &arguments, "reason")?;
    let instructions = text_field(call, &arguments, "instructions")?;
    Ok(Restart { reason, instructions })
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
