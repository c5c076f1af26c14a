//! Renders a plan as Markdown.

use super::progress::ProgressByTask;
use althing_protocol::{PlanStatus, PlanTask};
use std::fmt::Write;

pub(crate) fn render_plan(
    goal: &str,
    additions: Option<&str>,
    tasks: &[PlanTask],
    progress_by_task: &ProgressByTask,
) -> String {
    let mut text = format!("# {}\n", one_line(goal));
    if let Some(additions) = additions {
        let _ = write!(text, "\nAlso: {}\n", one_line(additions));
    }
    text.push('\n');
    text.push_str(&render_tasks(tasks, progress_by_task));
    text
}

pub(crate) fn render_tasks(tasks: &[PlanTask], progress_by_task: &ProgressByTask) -> String {
    let mut text = String::new();
    for task in tasks {
        let progress = progress_by_task.get(&task.id).cloned().unwrap_or_default();
        let mark = match progress.status {
            PlanStatus::Pending => ' ',
            PlanStatus::InProgress => '~',
            PlanStatus::Completed => 'x',
            PlanStatus::Failed => '!',
        };
        let _ = write!(text, "- [{mark}] **{}**: {}", task.id, one_line(&task.description));
        if !task.depends_on.is_empty() {
            let _ = write!(text, " (after {})", task.depends_on.join(", "));
        }
        text.push('\n');
        if let Some(verification) = &task.verification {
            let _ = writeln!(text, "  - done when: {}", one_line(verification));
        }
        if let Some(note) = &progress.note {
            let _ = writeln!(text, "  - note: {}", one_line(note));
        }
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
