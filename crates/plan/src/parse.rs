//! Finds the plan in an agent's answer: prose with one JSON block, or only the JSON. Other spellings (`dependencies`,
//! `success_criteria`, verification as a list or under `metadata`) are accepted; missing fields are not invented.

use crate::{Plan, PlanError};
use althing_protocol::PlanTask;
use serde_json::Value;

/// The maximum length of an answer that is searched for a plan, in bytes.
const LONGEST: usize = 4 << 20;

/// Finds and validates the plan in an answer.
pub fn find_plan(answer: &str) -> Result<Plan, PlanError> {
    if answer.len() > LONGEST {
        return Err(PlanError::NotReadable { why: format!("the answer is longer than {LONGEST} bytes") });
    }
    let mut plans: Vec<Value> = Vec::new();
    let mut broken = None;
    for block in blocks(answer) {
        match serde_json::from_str::<Value>(block) {
            Ok(value) if tasks_of(&value).is_some() => {
                if !plans.contains(&value) {
                    plans.push(value);
                }
            }
            Ok(_) => {}
            // Broken JSON counts as a broken plan only if it contains `"tasks"`; it is reported only if no other block
            // is a plan.
            Err(error) if block.contains("\"tasks\"") => broken = Some(error.to_string()),
            Err(_) => {}
        }
    }
    match (plans.as_slice(), broken) {
        ([plan], _) => plan_from_json(plan)?.checked(),
        ([], Some(why)) => Err(PlanError::NotReadable { why: format!("it is not JSON: {why}") }),
        ([], None) => Err(PlanError::Missing),
        (several, _) => Err(PlanError::Several { count: several.len() }),
    }
}

/// Candidates for JSON: the fenced blocks that begin like JSON and are marked as `json` or not at all. If there are
/// none: the whole answer if it begins with `[`, otherwise the text from the first brace to the last.
fn blocks(answer: &str) -> Vec<&str> {
    let fenced: Vec<&str> = answer
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.split_once('\n'))
        .filter(|(word, _)| matches!(word.trim().to_ascii_lowercase().as_str(), "" | "json"))
        .map(|(_, text)| text.trim())
        .filter(|text| text.starts_with(['{', '[']))
        .collect();
    if !fenced.is_empty() {
        return fenced;
    }
    let whole = answer.trim();
    if whole.starts_with('[') {
        return vec![whole];
    }
    let (from, to) = (whole.find('{'), whole.rfind('}'));
    from.zip(to).and_then(|(from, to)| whole.get(from..=to)).into_iter().collect()
}

fn tasks_of(value: &Value) -> Option<&Vec<Value>> {
    match value {
        Value::Array(tasks) if tasks.iter().any(|task| task.get("description").is_some()) => Some(tasks),
        Value::Object(fields) => fields.get("tasks").and_then(Value::as_array),
        _ => None,
    }
}

/// Reads a plan from an object with `tasks`, or from an array of tasks.
pub fn plan_from_json(value: &Value) -> Result<Plan, PlanError> {
    let why = || "`tasks` must be a list".to_owned();
    let tasks = tasks_of(value).ok_or_else(|| PlanError::NotReadable { why: why() })?;
    let tasks =
        (1..).zip(tasks).map(|(number, task)| task_from_json(number, task)).collect::<Result<_, _>>()?;
    Ok(Plan { tasks })
}

/// Reads a task as models write it; `number` is its position in the plan, for error messages.
pub fn task_from_json(number: usize, value: &Value) -> Result<PlanTask, PlanError> {
    let wrong = |what: &str| PlanError::NotReadable { why: format!("task {number}: {what}") };
    let Value::Object(fields) = value else { return Err(wrong("must be an object")) };
    let text = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) if name == "id" => Ok(Some(number.to_string())),
        Some(_) => Err(wrong(&format!("`{name}` must be a string"))),
    };
    let depends_on = match fields.get("depends_on").or_else(|| fields.get("dependencies")) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(ids)) => ids
            .iter()
            .map(|id| match id {
                Value::String(id) => Ok(id.clone()),
                Value::Number(id) => Ok(id.to_string()),
                _ => Err(wrong("`depends_on` must be a list of ids")),
            })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(wrong("`depends_on` must be a list of ids")),
    };
    let nested = fields.get("metadata").and_then(|data| data.get("verification"));
    let verification = fields.get("verification").or(nested).or_else(|| fields.get("success_criteria"));
    let verification = match verification {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(lines)) => {
            Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "))
        }
        Some(_) => return Err(wrong("`verification` must be a string")),
    };
    Ok(PlanTask {
        id: text("id")?.unwrap_or_default(),
        description: text("description")?.unwrap_or_default(),
        depends_on,
        verification: verification.filter(|text| !text.trim().is_empty()),
    })
}
