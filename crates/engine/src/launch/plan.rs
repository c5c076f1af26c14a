//! A plan in what a planning run came to: its tasks in brief, so that people see what they approve.

use serde_json::Value;

/// The most of a task that is shown.
const BRIEF: usize = 200;

/// The tasks of the plan in an answer, in order; None where there is no plan.
pub(crate) fn tasks_in(answer: &str) -> Option<Vec<String>> {
    let fenced = answer.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let whole = || {
        let (from, to) = (answer.find('{')?, answer.rfind('}')?);
        answer.get(from..=to)
    };
    let blocks = fenced.map(|(_, text)| text).chain(whole());
    blocks.filter_map(|block| serde_json::from_str::<Value>(block.trim()).ok()).find_map(|plan| {
        let tasks = plan.get("tasks").or(Some(&plan))?.as_array()?;
        let brief: Vec<String> = tasks.iter().filter_map(brief).collect();
        Some(brief).filter(|brief| !brief.is_empty())
    })
}

fn brief(task: &Value) -> Option<String> {
    let text = |name: &str| task.get(name).and_then(Value::as_str).map(str::trim);
    let description: String = text("description")?.chars().take(BRIEF).collect();
    Some(match text("id") {
        Some(id) => format!("{id}: {description}"),
        None => description,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_found_in_a_block_or_alone_and_prose_is_none() {
        let plan = r#"{"tasks": [{"id": "a", "description": "Dig", "verification": "a hole"}, {"description": "Fill"}]}"#;
        let expected = Some(vec!["a: Dig".to_owned(), "Fill".to_owned()]);
        assert_eq!(tasks_in(plan), expected);
        assert_eq!(tasks_in(&format!("First this.\n```json\n{plan}\n```\nThen that.")), expected);
        assert_eq!(tasks_in(&format!("So: {plan} and no more.")), expected);
        for none in ["", "Just do it.", "{\"tasks\": []}", "{\"tasks\": \"many\"}", "```\nx\n```", "} {"] {
            assert_eq!(tasks_in(none), None, "{none}");
        }
    }
}
