//! The plan in the answer of a planning run, for the approval question and for the run that executes it.

use althing_plan::find_plan;
use althing_protocol::PlanTask;
use althing_text::truncate_chars;

/// The maximum length of a task's description in the preview.
const MAX_PREVIEW_CHARS: usize = 200;

/// Short descriptions of the tasks of the plan in an answer; None if the answer contains no valid plan.
pub(crate) fn plan_preview(answer: &str) -> Option<Vec<String>> {
    let brief = |task: &PlanTask| {
        format!("{}: {}", task.id, truncate_chars(task.description.trim(), MAX_PREVIEW_CHARS))
    };
    Some(tasks(answer)?.iter().map(brief).collect())
}

/// The tasks of the plan in an answer; None if the answer contains no valid plan. A plan is stored with the same
/// parser.
pub(super) fn tasks(answer: &str) -> Option<Vec<PlanTask>> {
    find_plan(answer).ok().map(|plan| plan.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_shown_only_if_it_can_be_stored() {
        let plan = r#"{"tasks": [{"id": "a", "description": "Dig", "verification": "a hole"}, {"id": "b", "description": "Fill"}]}"#;
        let expected = Some(vec!["a: Dig".to_owned(), "b: Fill".to_owned()]);
        assert_eq!(plan_preview(plan), expected);
        assert_eq!(plan_preview(&format!("First this.\n```json\n{plan}\n```\nThen that.")), expected);
        assert_eq!(plan_preview(&format!("So: {plan} and no more.")), expected);
        assert_eq!(tasks(plan).unwrap()[0].verification.as_deref(), Some("a hole"));
        let without_id = r#"{"tasks": [{"description": "Dig"}]}"#;
        let waiting = r#"{"tasks": [{"id": "a", "description": "Dig", "depends_on": ["z"]}]}"#;
        for none in ["", "Just do it.", "{\"tasks\": []}", "{\"tasks\": \"many\"}", without_id, waiting] {
            assert_eq!(plan_preview(none), None, "{none}");
        }
    }
}
