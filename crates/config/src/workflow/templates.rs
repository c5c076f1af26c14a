//! `{{goal}}` and `{{id.output}}` in prompts: which there are, and whether each can be filled in.
//!
//! The engine fills them in; here a person learns of a wrong one before anything is started.

use std::collections::HashMap;

use crate::diagnostic::{Problem, Sink};
use crate::nearest;
use crate::tree::{Node, Span};

/// Most templates that are looked at in one text.
const MOST: usize = 1000;

/// What templates may name.
pub(super) struct Known<'a> {
    /// Each task's stage, by its id.
    pub(super) stages: HashMap<&'a str, usize>,
    /// Whether the workflow says what it is for.
    pub(super) has_goal: bool,
    /// The whole text, to point at a template within a value.
    pub(super) text: &'a str,
}

impl Known<'_> {
    /// Reports what is wrong with the templates of a text that belongs to a task of this stage.
    pub(super) fn check(&self, node: &Node, path: &str, stage: usize, sink: &mut Sink<'_>) {
        let Some(text) = node.as_text() else { return };
        for template in templates(text).into_iter().take(MOST) {
            let span = self.place(node, template.written);
            if let Some(problem) = self.refusal(template.name, stage) {
                sink.error(span, path, problem);
            }
        }
    }

    fn refusal(&self, name: &str, stage: usize) -> Option<Problem> {
        if name == "goal" {
            let problem = Problem::new("`{{goal}}` stands for nothing: the workflow has no `goal`");
            return (!self.has_goal).then(|| problem.hint("add `goal: …` at the top of the file"));
        }
        let Some((id, field)) = name.split_once('.') else {
            let problem = Problem::new(format!("`{{{{{name}}}}}` stands for nothing"));
            return Some(match self.stages.get(name) {
                Some(_) => problem.hint(format!("what a task gave is `{{{{{name}.output}}}}`")),
                None => problem.hint("there are `{{goal}}` and `{{id.output}}`, with a task's id"),
            });
        };
        let Some(of) = self.stages.get(id) else {
            let problem = Problem::new(format!("no task is called `{id}`"));
            let earlier = self.stages.iter().filter(|(_, at)| **at < stage).map(|(id, _)| *id);
            let mut earlier: Vec<&str> = earlier.collect();
            earlier.sort_unstable();
            return Some(match nearest::nearest(id, earlier.iter().copied()) {
                Some(near) => problem.hint(format!("did you mean `{{{{{near}.output}}}}`?")),
                None if earlier.is_empty() => problem.hint("the first stage has no earlier tasks"),
                None => {
                    earlier.truncate(20);
                    problem.hint(format!("tasks of earlier stages: {}", earlier.join(", ")))
                }
            });
        };
        if field != "output" {
            let problem = Problem::new(format!("a task has no `{field}`"));
            return Some(problem.hint(format!("what it gave is `{{{{{id}.output}}}}`")));
        }
        let when = match of.cmp(&stage) {
            std::cmp::Ordering::Less => return None,
            std::cmp::Ordering::Equal => "runs in the same stage",
            std::cmp::Ordering::Greater => "runs in a later stage",
        };
        let problem = Problem::new(format!("`{id}` {when}: there is no output of it yet"));
        Some(problem.hint("move this task to a stage behind it"))
    }

    /// Where a template stands in the file; the whole value where that cannot be told.
    fn place(&self, node: &Node, written: &str) -> Span {
        let source = self.text.get(node.span.start..node.span.end).unwrap_or_default();
        let Some(at) = source.find(written) else { return node.span };
        let before = source.get(..at).unwrap_or_default();
        let (line, column) = match before.rsplit_once('\n') {
            Some((_, last)) => (node.span.line + before.matches('\n').count(), last.chars().count() + 1),
            None => (node.span.line, node.span.column + before.chars().count()),
        };
        let start = node.span.start + at;
        Span { start, end: start + written.len(), line, column }
    }
}

/// A template in a text.
#[derive(Debug, PartialEq)]
pub(super) struct Template<'a> {
    /// With its braces.
    pub(super) written: &'a str,
    /// What it names.
    pub(super) name: &'a str,
}

/// The templates of a text. Braces around anything but a name, such as `{{ .Values.x }}`, are the text's own.
pub(super) fn templates(text: &str) -> Vec<Template<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text.get(from..).and_then(|rest| rest.find("{{")).map(|at| from + at) {
        let inside = open + 2;
        from = inside;
        let Some(close) = text.get(inside..).and_then(|rest| rest.find("}}")) else { break };
        let name = text.get(inside..inside + close).unwrap_or_default().trim();
        if name.split('.').all(super::adapters::is_name) {
            from = inside + close + 2;
            found.push(Template { written: text.get(open..from).unwrap_or_default(), name });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::templates;

    #[test]
    fn names_in_double_braces_are_templates_and_other_braces_are_text() {
        let names = |text| templates(text).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(names("{{goal}} and {{ a-1.output }}, {{b_2.x.y}}"), ["goal", "a-1.output", "b_2.x.y"]);
        assert_eq!(names("{{ .Values.x }} {{#if a}} {{}} {{ {{goal}} {{open"), ["goal"]);
        assert_eq!(templates("x {{ goal }}")[0].written, "{{ goal }}");
    }
}
