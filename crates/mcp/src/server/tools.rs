//! The list of tools that the MCP server returns for `tools/list`: names, descriptions and parameters of its six tools.

use super::runs::RunService;
use crate::endpoint::offer;
use althing_protocol::ToolSpec;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

pub(super) const LAUNCH: &str = "launch_run";
pub(super) const STATUS: &str = "run_status";
pub(super) const RESULT: &str = "run_result";
pub(super) const LIST: &str = "list_runs";
pub(super) const CANCEL: &str = "cancel_run";
pub(super) const ANSWER: &str = "answer_interaction";

pub(super) struct ToolDefinition {
    pub(super) spec: ToolSpec,
    reads_only: bool,
}

pub(super) fn all(runs: &dyn RunService) -> Vec<ToolDefinition> {
    let launch = ToolSpec { name: LAUNCH.to_owned(), ..runs.launch_tool() };
    vec![
        ToolDefinition { spec: launch, reads_only: false },
        reading(STATUS, "Returns a run's status, its newest progress and its open questions.", &run_only()),
        reading(
            RESULT,
            "Returns a run's result. Waits for the run to end, up to a limit: while the status is `running`, call it \
             again.",
            &with_run(
                &json!({"wait_seconds": {
                "type": "number", "minimum": 0,
                "description": "Maximum time to wait; 0 returns the current state."}}),
                &[],
            ),
        ),
        reading(
            LIST,
            "Lists the newest runs with their status.",
            &json!({"type": "object", "additionalProperties": false, "properties": {
                "limit": {"type": "integer", "minimum": 1, "description": "How many at most; 20 by default."}}}),
        ),
        ToolDefinition {
            spec: spec(CANCEL, "Cancels a run. What it has so far becomes its result.", run_only()),
            reads_only: false,
        },
        ToolDefinition {
            spec: spec(
                ANSWER,
                "Answers an open question of a run, which is one of the `interactions` that `run_status` returns.",
                decision(),
            ),
            reads_only: false,
        },
    ]
}

fn spec(name: &str, description: &str, parameters: Value) -> ToolSpec {
    ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters }
}

fn reading(name: &str, description: &str, parameters: &Value) -> ToolDefinition {
    ToolDefinition { spec: spec(name, description, parameters.clone()), reads_only: true }
}

fn run_only() -> Value {
    with_run(&json!({}), &[])
}

fn with_run(others: &Value, required: &[&str]) -> Value {
    let id =
        json!({"type": "string", "description": "The run's id, as `launch_run` and `list_runs` give it."});
    let mut properties = serde_json::Map::from_iter([("run_id".to_owned(), id)]);
    properties.extend(others.as_object().cloned().unwrap_or_default());
    let required: Vec<&str> = std::iter::once("run_id").chain(required.iter().copied()).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required})
}

/// The schema mirrors `Decision`.
fn decision() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    let others = json!({
        "interaction_id": text("The question's id."),
        "decision": {
            "type": "string",
            "enum": ["continue", "presenter", "approve", "reject", "change", "choose"],
            "description": "What to answer: go on with the default, name another presenter, approve, reject, ask for a \
                change, or choose one of the options that were offered.",
        },
        "agent": text("With `presenter`: the agent that presents."),
        "digest": text("With `approve`: the digest of the proposal that is approved."),
        "instructions": text("With `approve`: additional instructions."),
        "reason": text("With `reject`: why."),
        "text": text("With `change`: what to change."),
        "option": text("With `choose`: the option's id."),
    });
    with_run(&others, &["interaction_id", "decision"])
}

impl ToolDefinition {
    pub(super) fn tool(&self) -> Tool {
        let hints = ToolAnnotations::new().read_only(self.reads_only);
        offer(self.spec.clone()).with_annotations(hints)
    }
}
