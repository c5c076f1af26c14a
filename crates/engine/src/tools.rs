//! The tools that a run itself offers to its agents: for answers, votes, the evaluation of the final answer, subagents,
//! and the progress of a plan. Which of them an agent is offered in an attempt is decided by `tools` in `prompt/mod.rs`.

use althing_protocol::{
    Millis, PlanProgress, PlanStatus, PlanTask, Restart, SubagentsConfig, ToolCall, ToolSpec,
};
use serde_json::{Value, json};

/// The tool that submits an answer.
pub const NEW_ANSWER: &str = "new_answer";
/// The tool that votes for an answer.
pub const VOTE: &str = "vote";
pub const SUBMIT: &str = "submit";
pub const RESTART: &str = "restart_orchestration";

pub const SPAWN: &str = "spawn_subagents";
pub const WAIT: &str = "wait_for_subagents";
pub const PLAN_TASK: &str = "update_plan_task";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubTask {
    pub(crate) task: String,
    pub(crate) context: Option<String>,
    /// Whether all agents of the run work on the task, not only a copy of the calling agent.
    pub(crate) team: bool,
    pub(crate) timeout: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Submission {
    pub(crate) content: String,
    pub(crate) conclusion: Option<String>,
}

impl Submission {
    pub(crate) fn of_text(text: &str) -> Self {
        Self { content: text.to_owned(), conclusion: None }
    }
}

pub(crate) fn new_answer_spec(compares_conclusions: bool) -> ToolSpec {
    let mut properties = json!({"content": {"type": "string", "description": "The whole answer."}});
    if let Some(properties) = properties.as_object_mut().filter(|_| compares_conclusions) {
        let description = "The result alone, in the form that the message asks for, if it is short and definite: a number, a name, a \
             choice, yes or no. Leave it out if the message has no such result.";
        properties.insert("conclusion".into(), json!({"type": "string", "description": description}));
    }
    ToolSpec {
        name: NEW_ANSWER.into(),
        description: "Submit your complete answer to the original message. It must stand on its own.".into(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": ["content"],
            "additionalProperties": false,
        }),
    }
}

/// `candidates` are in the order in which the judge is shown them.
pub(crate) fn vote_spec(candidates: &[usize]) -> ToolSpec {
    ToolSpec {
        name: VOTE.into(),
        description:
            "Rank the agents by their current answers. Voting ends your part unless newer answers arrive."
                .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "ranking": {
                    "type": "array",
                    "items": {"type": "string", "enum": anonymous(candidates)},
                    "minItems": 1,
                    "description": "All agents, the one with the best answer first.",
                },
                "reason": {
                    "type": "string",
                    "description": "The difference that decided, and what the final answer should still correct or \
                                    take from another answer.",
                },
            },
            "required": ["ranking", "reason"],
            "additionalProperties": false,
        }),
    }
}

/// The tool `vote` of runs with the first version of the prompts.
pub(crate) fn first_vote_spec(candidates: &[usize]) -> ToolSpec {
    ToolSpec {
        name: VOTE.into(),
        description: "Vote for the agent whose current answer is best. Voting ends your part unless newer answers arrive.".into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "agent_id": {
                    "type": "string",
                    "enum": anonymous(candidates),
                    "description": "The agent you vote for.",
                },
                "reason": {"type": "string", "description": "Why, in one or two sentences."},
            },
            "required": ["agent_id", "reason"],
            "additionalProperties": false,
        }),
    }
}

fn anonymous(candidates: &[usize]) -> Vec<String> {
    candidates.iter().map(|member_index| format!("agent{}", member_index + 1)).collect()
}

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

/// The error is a message for the model.
pub(crate) fn restart(call: &ToolCall) -> Result<Restart, String> {
    let arguments = arguments(call)?;
    let reason = text_field(call, &arguments, "reason")?;
    let instructions = text_field(call, &arguments, "instructions")?;
    Ok(Restart { reason, instructions })
}

/// `wait_for_subagents` is included only if subagents may work in the background.
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

/// The tasks; the flag is true for background subagents. The error is a message for the model.
pub(crate) fn spawn(call: &ToolCall) -> Result<(Vec<SubTask>, bool), String> {
    let arguments = arguments(call)?;
    let background = arguments.get("background").and_then(Value::as_bool).unwrap_or_default();
    let tasks = arguments.get("tasks").and_then(Value::as_array).filter(|tasks| !tasks.is_empty());
    let tasks =
        tasks.ok_or_else(|| format!("`{}` needs `tasks`, a list with at least one task.", call.name))?;
    let read = |(n, task): (usize, &Value)| {
        let text = task.get("task").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| {
            format!("Task {n} of `{}` needs a `task`: a text that is not empty.", call.name)
        })?;
        Ok(SubTask {
            task: text.to_owned(),
            context: task.get("context").and_then(Value::as_str).map(str::to_owned),
            team: task.get("team").and_then(Value::as_bool).unwrap_or_default(),
            timeout: task.get("timeout_seconds").and_then(Value::as_u64).map(Millis::from_secs),
        })
    };
    Ok(((1..).zip(tasks).map(read).collect::<Result<_, String>>()?, background))
}

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

/// The error is a message for the model.
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

/// The error is a message for the model.
pub(crate) fn answer(call: &ToolCall) -> Result<Submission, String> {
    let arguments = arguments(call)?;
    let content = text_field(call, &arguments, "content")?;
    if content.trim().is_empty() {
        return Err(format!("`{}` needs a `content` that is not empty.", call.name));
    }
    // A conclusion that is missing or not a text or number does not invalidate an answer.
    let conclusion = arguments.get("conclusion").and_then(|value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    Ok(Submission { content, conclusion: conclusion.filter(|text| !text.trim().is_empty()) })
}

/// Returns the named agents, best first, and the reason; the error is a message for the model.
pub(crate) fn vote(call: &ToolCall) -> Result<(Vec<String>, String), String> {
    let arguments = arguments(call)?;
    // A missing reason does not invalidate a vote.
    let reason = arguments.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    let choices: Vec<String> = match (arguments.get("ranking"), arguments.get("agent_id")) {
        (Some(Value::Array(choices)), _) => {
            let texts = choices.iter().map(|choice| choice.as_str().map(|text| text.trim().to_owned()));
            texts
                .collect::<Option<_>>()
                .ok_or_else(|| format!("`ranking` of `{}` must be a list of texts.", call.name))?
        }
        // Some models write a list as one text.
        (Some(Value::String(text)), _) => {
            let names = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '>' | '[' | ']' | '"'));
            names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }
        (None | Some(_), Some(_)) => vec![text_field(call, &arguments, "agent_id")?.trim().to_owned()],
        (None, None) => return Err(format!("`{}` needs the argument `ranking`.", call.name)),
        (Some(_), None) => return Err(format!("`ranking` of `{}` must be a list of texts.", call.name)),
    };
    if choices.is_empty() {
        return Err(format!("`ranking` of `{}` must name at least one agent.", call.name));
    }
    Ok((choices, reason))
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
