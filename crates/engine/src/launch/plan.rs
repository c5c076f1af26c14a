//! A plan in what a planning run came to: its tasks in brief, so that people see what they approve.

use althing_protocol::PlanTask;
use serde_json::Value;

/// The most of a task that is shown.
const BRIEF: usize = 200;

/// The tasks of the plan in an answer, in brief; None where there is no plan.
pub(crate) fn tasks_in(answer: &str) -> Option<Vec<String>> {
    let brief: Vec<String> = find(answer)?.iter().filter_map(brief).collect();
    Some(brief).filter(|brief| !brief.is_empty())
}

/// The plan in an answer, task by task; None where there is none.
pub(super) fn plan_in(answer: &str) -> Option<Vec<PlanTask>> {
    let tasks: Vec<PlanTask> = (1..).zip(&find(answer)?).filter_map(|(n, task)| whole(n, task)).collect();
    Some(tasks).filter(|tasks| !tasks.is_empty())
}

fn find(answer: &str) -> Option<Vec<Value>> {
    let fenced = answer.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let whole = || {
        let (from, to) = (answer.find('{')?, answer.rfind('}')?);
        answer.get(from..=to)
    };
    let blocks = fenced.map(|(_, text)| text).chain(whole());
    blocks.filter_map(|block| serde_json::from_str::<Value>(block.trim()).ok()).find_map(|plan| {
        let tasks = plan.get("tasks").or(Some(&plan))?.as_array()?;
        let described = |task: &Value| task.get("description").is_some_and(Value::is_string);
        tasks.iter().any(described).then(|| tasks.clone())
    })
}

fn whole(number: usize, task: &Value) -> Option<PlanTask> {
    let text = |name: &str| task.get(name).and_then(Value::as_str).map(str::to_owned);
    let before = task.get("depends_on").or_else(|| task.get("dependencies")).and_then(Value::as_array);
    let before = before.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Some(PlanTask {
        id: text("id").unwrap_or_else(|| format!("task-{number}")),
        description: text("description")?,
        depends_on: before.collect(),
        verification: text("verification"),
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
        let whole = plan_in(plan).unwrap();
        assert_eq!((whole[0].id.as_str(), whole[0].verification.as_deref()), ("a", Some("a hole")));
        assert_eq!((whole[1].id.as_str(), whole.len()), ("task-2", 2));
        for none in ["", "Just do it.", "{\"tasks\": []}", "{\"tasks\": \"many\"}", "```\nx\n```", "} {"] {
            assert_eq!(tasks_in(none), None, "{none}");
        }
    }
}
