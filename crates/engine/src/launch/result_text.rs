//! A run's result as text for the agent that launched it. Long texts are replaced by excerpts that say how much is
//! omitted and where the full text is.

use althing_protocol::RunResult;
use serde_json::{Value, json};

/// The maximum size of each ballot's reason, and separately of the task, in bytes.
const MAX_DETAIL_BYTES: usize = 300;

/// The result of a run, and of the run that executed its plan, as JSON. `most` is the maximum size of the answer, in
/// bytes; with two runs, each answer gets half of it.
pub(crate) fn result_text(result: &RunResult, execution: Option<&RunResult>, most: usize) -> String {
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
    let log_dir = result.log_dir.clone();
    let in_file = |file: &str| format!("the whole text is in {log_dir}/{file}");
    result.task = excerpt(&result.task, MAX_DETAIL_BYTES, &in_file("result.json"));
    for ballot in &mut result.coordination_summary.ballots {
        ballot.reason = excerpt(&ballot.reason, MAX_DETAIL_BYTES, &in_file("result.json"));
    }
    for (text, file) in [(&mut result.final_answer, "final_answer.md"), (&mut result.error, "result.json")] {
        if let Some(text) = text {
            *text = excerpt(text, most, &in_file(file));
        }
    }
    // A run may change thousands of files; the full list is in its directory.
    let writes = result.context_path_writes.len();
    let listed = (most / 100).max(5);
    result.context_path_writes.truncate(listed);
    let mut value = serde_json::to_value(&result).unwrap_or_else(|error| {
        json!({ "run_id": result.run_id, "error": format!("the result cannot be shown: {error}"), "log_dir": log_dir })
    });
    if let (true, Value::Object(fields)) = (writes > listed, &mut value) {
        let more = format!("{writes} files in all; the whole list is in {log_dir}/context_path_writes.txt");
        fields.insert("context_path_writes_note".into(), json!(more));
    }
    value
}

/// Shortens a text of more than `most` bytes to its beginning and its end, with a note in between: how many bytes are
/// omitted, which headings they contain, and where the full text is (`whole`).
pub(crate) fn excerpt(text: &str, most: usize, whole: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = most / 4;
    let from = text.floor_char_boundary(most - end);
    let to = text.ceil_char_boundary(text.len() - end).max(from);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    let (before, left_out, after) = (part(0..from), part(from..to), part(to..text.len()));
    let mut marker = format!("[{} of {} bytes are left out here; {whole}", left_out.len(), text.len());
    headings(left_out, most / 8, &mut marker);
    format!("{before}\n{marker}]\n{after}")
}

/// Appends the headings of a text, as many as fit into `room` bytes.
fn headings(text: &str, room: usize, into: &mut String) {
    let is_heading = |line: &&str| line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
    let mut left = room;
    // The first line may be the rest of a heading.
    for (n, heading) in text.lines().skip(1).filter(is_heading).enumerate() {
        let Some(rest) = left.checked_sub(heading.len() + 1) else {
            if n > 0 {
                into.push_str("\n…");
            }
            return;
        };
        left = rest;
        into.push_str(if n == 0 { "; these headings are left out:\n" } else { "\n" });
        into.push_str(heading);
    }
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn a_text_that_fits_is_not_shortened() {
        assert_eq!(excerpt("äöü", 6, "x"), "äöü");
    }

    #[test]
    fn an_excerpt_has_both_ends_the_omitted_headings_and_the_omitted_size() {
        let middle = format!("{}\n## Costs\n{}\n", "ä".repeat(500), "b".repeat(500));
        let text = format!("# Start\n{middle}The end");
        let excerpt_text = excerpt(&text, 400, "the whole text is in FILE");
        assert!(
            excerpt_text.starts_with("# Start\nä") && excerpt_text.ends_with("bb\nThe end"),
            "{excerpt_text}"
        );
        assert!(
            excerpt_text.contains("## Costs") && excerpt_text.contains("the whole text is in FILE"),
            "{excerpt_text}"
        );
        let (before, rest) = excerpt_text.split_once("\n[").unwrap();
        let (marker, after) = rest.split_once("]\n").unwrap();
        let missing = text.len() - before.len() - after.len();
        assert!(marker.starts_with(&format!("{missing} of {} bytes", text.len())), "{marker}");
    }

    #[test]
    fn an_excerpt_never_splits_a_character_and_stays_near_its_limit() {
        let text = "# ä€😀\n".repeat(300);
        for most in 0..900 {
            let excerpt_text = excerpt(&text, most, "x");
            assert!(excerpt_text.len() <= most + most / 8 + 100, "{most}: {}", excerpt_text.len());
        }
    }
}
