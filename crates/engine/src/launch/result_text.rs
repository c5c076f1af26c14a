//! A run's result for the chat agent or the MCP client that launched it. Long answers and errors are shortened, with a
//! note on where the full text is; for the chat agent, the task, the reasons of ballots and the list of changed files are
//! shortened as well.

use crate::summary::{excerpt, structural_summary};
use althing_protocol::{RunResult, WRITES_FILE};
use serde_json::{Value, json};

/// The maximum size of the task, and of each ballot's reason.
const MAX_DETAIL_BYTES: usize = 300;
/// The maximum size of the answer, and of the error, for an MCP client.
const MAX_CLIENT_ANSWER_BYTES: usize = 16_000;

/// `execution` is the result of the run that executed the plan. `most` is the maximum size of the answer in bytes; with
/// two runs, each answer gets half of it.
pub(crate) fn result_text(result: &RunResult, execution: Option<&RunResult>, most: usize) -> String {
    let share = if execution.is_some() { most / 2 } else { most };
    let mut value = shortened(result, share);
    if let (Some(execution), Value::Object(fields)) = (execution, &mut value) {
        fields.insert("follow_up".into(), json!(execution.run_id));
        fields.insert("execution".into(), shortened(execution, share));
    }
    value.to_string()
}

/// The result of a run for an MCP client. The answer and the error are shortened; everything else is complete, because
/// the client may be a program that needs it.
pub fn result_for_client(result: &RunResult) -> RunResult {
    let mut result = result.clone();
    shorten_answer(&mut result, MAX_CLIENT_ANSWER_BYTES);
    result
}

fn shorten_answer(result: &mut RunResult, most: usize) {
    let in_file = |file: &str| format!("the whole text is in {}/{file}", result.log_dir);
    let (answer, error) = (in_file("final_answer.md"), in_file("result.json"));
    result.final_answer = result.final_answer.take().map(|text| structural_summary(&text, most, &answer));
    result.error = result.error.take().map(|text| excerpt(&text, most, &error));
}

fn shortened(result: &RunResult, most: usize) -> Value {
    let mut result = result.clone();
    shorten_answer(&mut result, most);
    let log_dir = result.log_dir.clone();
    let whole = format!("the whole text is in {log_dir}/result.json");
    result.task = excerpt(&result.task, MAX_DETAIL_BYTES, &whole);
    for ballot in &mut result.coordination_summary.ballots {
        ballot.reason = excerpt(&ballot.reason, MAX_DETAIL_BYTES, &whole);
    }
    // A run may change thousands of files; the full list is in `WRITES_FILE` in the run's log directory.
    let writes = result.context_path_writes.len();
    let listed = (most / 100).max(5);
    result.context_path_writes.truncate(listed);
    let mut value = serde_json::to_value(&result).unwrap_or_else(|error| {
        json!({ "run_id": result.run_id, "error": format!("the result cannot be shown: {error}"), "log_dir": log_dir })
    });
    if let (true, Value::Object(fields)) = (writes > listed, &mut value) {
        let more = format!("{writes} files in all; the whole list is in {log_dir}/{WRITES_FILE}");
        fields.insert("context_path_writes_note".into(), json!(more));
    }
    value
}
