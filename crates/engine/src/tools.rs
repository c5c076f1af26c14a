//! The tools that a run itself offers to its agents (for answers, votes, the evaluation of the final answer, subagents
//! and the progress of a plan), and how calls to these tools are parsed.

use althing_protocol::{
    Millis, PlanProgress, PlanStatus, PlanTask, Restart, SubagentsConfig, ToolCall, ToolSpec,
};
use serde_json::{Value, json};

/// The tool that submits an answer.
pub const NEW_ANSWER: &str = "new_answer";
/// The tool that votes for an answer.
pub const VOTE: &str = "vote";
/// The tool that accepts the final answer.
pub const SUBMIT: &str = "submit";
/// The tool that requests a restart of the run.
pub const RESTART: &str = "restart_orchestration";

/// The tool that starts subagents.
pub const SPAWN: &str = "spawn_subagents";
/// The tool that waits for the subagents that work in the background.
pub const WAIT: &str = "wait_for_subagents";
/// The tool that records the progress of a plan's task.
pub const PLAN_TASK: &str = "update_plan_task";

/// The task of one subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubTask {
    pub(crate) task: String,
    pub(crate) context: Option<String>,
    /// Whether all agents of the run work on the task, not only a copy of the calling agent.
    pub(crate) team: bool,
    pub(crate) timeout: Option<Millis>,
}

/// The tool `new_answer`, with the argument `content`.
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

/// The tool `vote`, with the arguments `agent_id` (one of the candidates) and `reason`.
pub(crate) fn vote_spec(candidates: &[usize]) -> ToolSpec {
    let ids: Vec<String> =
        candidates.iter().map(|member_index| format!("agent{}", member_index + 1)).collect();
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

/// The tool `submit`, with the argument `confirmed`.
pub(crate) fn submit_spec() -> ToolSpec {
    ToolSpec {
        name: SUBMIT.into(),
        description: "Accept the final answer: it goes to the user unchanged.".into(),
        parameters: json!({
            "type": "object",
            "properties": {"confirmed": {"type": "boolean", "description": "true"}},
            "required": ["confirmed"],
            "additionalProperties": false,
        }),
    }
}

/// The tool `restart_orchestration`, with the arguments `reason` and `instructions`.
pub(crate) fn restart_spec() -> ToolSpec {
    ToolSpec {
        name: RESTART.into(),
        description:
            "Reject the final answer because it does not do what the original message asks for: all agents \
             start over, with this answer and your instructions."
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

/// Parses a `restart_orchestration` call; the error is a message for the model.
pub(crate) fn restart(call: &ToolCall) -> Result<Restart, String> {
    let arguments = arguments(call)?;
    let reason = text_field(call, &arguments, "reason")?;
    let instructions = text_field(call, &arguments, "instructions")?;
    Ok(Restart { reason, instructions })
}

/// The tool `spawn_subagents`, with the argument `tasks`. If subagents may work in the background, it also has the
/// argument `background`, and there is the tool `wait_for_subagents`.
pub(crate) fn subagent_specs(settings: &SubagentsConfig) -> Vec<ToolSpec> {
    let seconds = |time: Millis| time.0 / 1000;
    let limits = format!(
        "The subagent's time limit, from {} to {}; the default is {}.",
        seconds(settings.min_timeout),
        seconds(settings.max_timeout),
        seconds(settings.default_timeout)
    );
    let team = "Whether all agents of this run work on the task, not just a copy of you.";
    let task = json!({
        "type": "object",
        "properties": {
            "task": {"type": "string", "description": "What to do, complete in itself: a subagent knows nothing else."},
            "context": {"type": "string", "description": "Background that the subagent needs."},
            "team": {"type": "boolean", "description": team},
            "timeout_seconds": {"type": "integer", "description": limits},
        },
        "required": ["task"],
        "additionalProperties": false,
    });
    let tasks = json!({"type": "array", "items": task, "minItems": 1, "maxItems": settings.max_concurrent});
    let mut properties = json!({ "tasks": tasks });
    if settings.background
        && let Some(properties) = properties.as_object_mut()
    {
        let about = "Whether the call returns at once; `wait_for_subagents` then returns the results.";
        properties.insert("background".into(), json!({"type": "boolean", "description": about}));
    }
    let mut specs = vec![ToolSpec {
        name: SPAWN.into(),
        description:
            "Hand independent parts of your work to subagents that work at the same time, each in its own \
             workspace. Returns their answers; their files are copied into your workspace."
                .into(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": ["tasks"],
            "additionalProperties": false,
        }),
    }];
    if settings.background {
        specs.push(ToolSpec {
            name: WAIT.into(),
            description: "Wait for the subagents that you started in the background and get their answers."
                .into(),
            parameters: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        });
    }
    specs
}

/// Parses a `spawn_subagents` call: the tasks, and whether they run in the background. The error is a message for the
/// model.
pub(crate) fn spawn(call: &ToolCall) -> Result<(Vec<SubTask>, bool), String> {
    let arguments = arguments(call)?;
    let background = arguments.get("background").and_then(Value::as_bool).unwrap_or_default();
    let tasks = arguments.get("tasks").and_then(Value::as_array).filter(|tasks| !tasks.is_empty());
    let tasks =
        tasks.ok_or_else(|| format!("`{}` needs `tasks`, a list with at least one task.", call.name))?;
    let read = |(n, task): (usize, &Value)| {
        let text = task.get("task").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let text =
            text.ok_or_else(|| format!("Task {n} of `{}` needs a `task` that is a text.", call.name))?;
        Ok(SubTask {
            task: text.to_owned(),
            context: task.get("context").and_then(Value::as_str).map(str::to_owned),
            team: task.get("team").and_then(Value::as_bool).unwrap_or_default(),
            timeout: task.get("timeout_seconds").and_then(Value::as_u64).map(Millis::from_secs),
        })
    };
    Ok(((1..).zip(tasks).map(read).collect::<Result<_, String>>()?, background))
}

/// The tool `update_plan_task`, with the arguments `id` (one of the plan's tasks), `status` and `note`.
pub(crate) fn plan_task_spec(tasks: &[PlanTask]) -> ToolSpec {
    let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    ToolSpec {
        name: PLAN_TASK.into(),
        description:
            "Record the status of a task of the plan when you begin it, and when it is completed and checked \
             or has failed."
                .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "id": {"type": "string", "enum": ids},
                "status": {"type": "string", "enum": PlanStatus::NAMES.map(|(word, _)| word)},
                "note": {"type": "string", "description": "The result of the task, in one sentence."},
            },
            "required": ["id", "status"],
            "additionalProperties": false,
        }),
    }
}

/// Parses an `update_plan_task` call; the error is a message for the model.
pub(crate) fn plan_progress(call: &ToolCall, tasks: &[PlanTask]) -> Result<PlanProgress, String> {
    let arguments = arguments(call)?;
    let task = text_field(call, &arguments, "id")?;
    if !tasks.iter().any(|known| known.id == task) {
        let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        return Err(format!("`{task}` is not a task of the plan. Its tasks are: {}.", ids.join(", ")));
    }
    let status = text_field(call, &arguments, "status")?;
    let status: PlanStatus = serde_json::from_value(Value::String(status)).map_err(|_| {
        format!("`status` of `{}` must be pending, in_progress, completed or failed.", call.name)
    })?;
    let note = arguments.get("note").and_then(Value::as_str).map(str::to_owned);
    Ok(PlanProgress { task, status, note })
}

/// The answer in a `new_answer` call; the error is a message for the model.
pub(crate) fn answer(call: &ToolCall) -> Result<String, String> {
    let content = text_field(call, &arguments(call)?, "content")?;
    if content.trim().is_empty() {
        return Err(format!("`{}` needs a `content` that is not empty.", call.name));
    }
    Ok(content)
}

/// The target and the reason in a `vote` call; the error is a message for the model.
pub(crate) fn vote(call: &ToolCall) -> Result<(String, String), String> {
    let arguments = arguments(call)?;
    let target = text_field(call, &arguments, "agent_id")?;
    // A missing reason, or a reason that is not a text, does not invalidate a vote.
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
