//! The plan in the answer of a planning run, for the approval question and for the run that executes it.

use althing_plan::find_plan;
use althing_protocol::PlanTask;

/// The tasks of the plan in an answer as text. Nothing is left out, because a person who approves the plan approves all
/// of it.
pub(crate) fn plan_preview(answer: &str) -> Option<Vec<String>> {
    let described = |task: &PlanTask| {
        let after = match task.depends_on.as_slice() {
            [] => String::new(),
            earlier => format!(" · after {}", earlier.join(", ")),
        };
        let verify = task.verification.as_ref().map(|verify| format!(" · verify: {}", verify.trim()));
        format!("{}: {}{after}{}", task.id, task.description.trim(), verify.unwrap_or_default())
    };
    Some(tasks(answer)?.iter().map(described).collect())
}

pub(super) fn tasks(answer: &str) -> Option<Vec<PlanTask>> {
    find_plan(answer).ok().map(|plan| plan.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_shown_only_if_it_can_be_stored() {
        let plan = r#"{"tasks": [{"id": "a", "description": "Dig", "verification": "a hole"}, {"id": "b", "description": "Fill", "depends_on": ["a"]}]}"#;
        let expected = Some(vec!["a: Dig · verify: a hole".to_owned(), "b: Fill · after a".to_owned()]);
        assert_eq!(plan_preview(plan), expected);
        assert_eq!(plan_preview(&format!("First this.\n```json\n{plan}\n```\nThen that.")), expected);
        assert_eq!(plan_preview(&format!("So: {plan} and no more.")), expected);
        assert_eq!(tasks(plan).unwrap()[0].verification.as_deref(), Some("a hole"));
        let long = format!("{}END", "dig ".repeat(500));
        let preview =
            plan_preview(&format!(r#"{{"tasks": [{{"id": "a", "description": "{long}"}}]}}"#)).unwrap();
        assert_eq!(preview, [format!("a: {long}")], "nothing is cut");
        let without_id = r#"{"tasks": [{"description": "Dig"}]}"#;
        let waiting = r#"{"tasks": [{"id": "a", "description": "Dig", "depends_on": ["z"]}]}"#;
        for none in ["", "Just do it.", "{\"tasks\": []}", "{\"tasks\": \"many\"}", without_id, waiting] {
            assert_eq!(plan_preview(none), None, "{none}");
        }
    }
}
