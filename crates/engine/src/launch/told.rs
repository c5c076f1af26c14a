//! A run's result as the one who launched it is told it: whole where that is short, else its beginning and where the
//! rest is.

use althing_protocol::RunResult;
use serde_json::{Value, json};
use std::fmt::Write;

/// The longest reason of a ballot, and the longest task, that is repeated to the agent.
const ASIDE: usize = 300;

/// The result of a run, and of the run that carried out its plan, in at most about so many bytes.
pub(crate) fn told(result: &RunResult, execution: Option<&RunResult>, most: usize) -> String {
    let share = if execution.is_some() { most / 2 } else { most };
    let mut value = shortened(result, share);
    if let (Some(execution), Value::Object(fields)) = (execution, &mut value) {
        fields.insert("follow_up".into(), json!(execution.run_id));
        fields.insert("execution".into(), shortened(execution, share));
    }
    value.to_string()
}

fn shortened(result: &RunResult, most: usize) -> Value {
    let mut result = result.clone();
    (result.task, _) = beginning(&result.task, ASIDE);
    for ballot in &mut result.coordination_summary.ballots {
        (ballot.reason, _) = beginning(&ballot.reason, ASIDE);
    }
    let log_dir = result.log_dir.clone();
    for (text, file) in [(&mut result.final_answer, "final_answer.md"), (&mut result.error, "result.json")] {
        let Some(whole) = text else { continue };
        let (mut start, cut) = beginning(whole, most);
        if cut {
            let shown = start.len();
            let _ = write!(
                start,
                "\n[cut here: {shown} of {} bytes; the whole text is in {log_dir}/{file}]",
                whole.len()
            );
            *whole = start;
        }
    }
    // A run may touch thousands of files; their list is beside the log.
    let writes = result.context_path_writes.len();
    let listed = (most / 100).max(5);
    result.context_path_writes.truncate(listed);
    let mut value = serde_json::to_value(&result).unwrap_or_default();
    if let (true, Value::Object(fields)) = (writes > listed, &mut value) {
        let more = format!("{writes} in all; the whole list is in {log_dir}/context_path_writes.txt");
        fields.insert("context_path_writes_note".into(), json!(more));
    }
    value
}

/// The beginning of a text, cut at a character, and whether anything was cut.
pub(crate) fn beginning(text: &str, most: usize) -> (String, bool) {
    if text.len() <= most {
        return (text.to_owned(), false);
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    (text.get(..end).unwrap_or_default().to_owned(), true)
}
