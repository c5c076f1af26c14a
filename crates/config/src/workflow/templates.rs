//! `{{goal}}` and `{{id.output}}` in prompts of a workflow: checks, before anything is started, that each can be
//! filled in. The engine fills them in.

use std::collections::HashMap;

use crate::diagnostic::{Problem, Severity, Sink};
use crate::limits;
use crate::tree::{Node, Span};

pub(super) struct TemplateScope<'a> {
    pub(super) stages: HashMap<&'a str, usize>,
    pub(super) has_goal: bool,
    pub(super) text: &'a str,
}

impl TemplateScope<'_> {
    pub(super) fn check(&self, node: &Node, path: &str, stage: usize, sink: &mut Sink<'_>) {
        let Some(text) = node.as_text() else { return };
        let mut cursor = Cursor::new(node, self.text);
        for template in templates(text) {
            let span = cursor.next(template.written);
            if !self.is_right(template.name, stage) {
                sink.push_with(Severity::Error, span, path, || self.problem(template.name, stage));
            }
        }
    }

    fn is_right(&self, name: &str, stage: usize) -> bool {
        let earlier = |id: &str| self.stages.get(id).is_some_and(|of| *of < stage);
        name == "goal" && self.has_goal || name.strip_suffix(".output").is_some_and(earlier)
    }

    fn problem(&self, name: &str, stage: usize) -> Problem {
        if name == "goal" {
            let problem = Problem::new("`{{goal}}` is empty: the workflow has no `goal`");
            return problem.hint("add `goal: …` at the top of the file");
        }
        let Some((id, field)) = name.split_once('.') else {
            let problem = Problem::new(format!("`{{{{{name}}}}}` is not a template"));
            return match self.stages.get(name) {
                Some(_) => problem.hint(format!("a task's output is `{{{{{name}.output}}}}`")),
                None => problem.hint("use `{{goal}}`, or `{{id.output}}` with a task's id"),
            };
        };
        let Some(of) = self.stages.get(id) else {
            let problem = Problem::new(format!("no task is called `{id}`"));
            let earlier = self.stages.iter().filter(|(_, at)| **at < stage).map(|(id, _)| *id);
            let mut earlier: Vec<&str> = earlier.take(limits::MAX_COMPARED).collect();
            earlier.sort_unstable();
            return match althing_text::nearest(id, earlier.iter().copied()) {
                Some(near) => problem.hint(format!("did you mean `{{{{{near}.output}}}}`?")),
                None if earlier.is_empty() => problem.hint("the first stage has no earlier tasks"),
                None => {
                    earlier.truncate(20);
                    problem.hint(format!("tasks of earlier stages: {}", earlier.join(", ")))
                }
            };
        };
        if field != "output" {
            let problem = Problem::new(format!("a task has no `{field}`"));
            return problem.hint(format!("its output is `{{{{{id}.output}}}}`"));
        }
        let when = if *of == stage { "runs in the same stage" } else { "runs in a later stage" };
        let problem = Problem::new(format!("`{id}` {when}: it has no output yet"));
        problem.hint("move this task to a later stage")
    }
}

/// Finds the templates of a value one after the other, without starting over: a text may be long and have thousands
/// of them.
struct Cursor<'a> {
    rest: &'a str,
    at: Span,
    whole: Span,
}

impl<'a> Cursor<'a> {
    fn new(node: &Node, text: &'a str) -> Self {
        let rest = text.get(node.span.start..node.span.end).unwrap_or_default();
        Self { rest, at: node.span, whole: node.span }
    }

    /// The whole value if the template cannot be found, for example because it is written with escapes.
    fn next(&mut self, written: &str) -> Span {
        let Some((before, behind)) = self.rest.split_once(written) else {
            self.rest = "";
            return self.whole;
        };
        self.pass(before);
        let found = Span { end: self.at.start + written.len(), ..self.at };
        self.pass(written);
        self.rest = behind;
        found
    }

    fn pass(&mut self, part: &str) {
        self.at.start += part.len();
        match part.rsplit_once('\n') {
            Some((before, last)) => {
                self.at.line += before.matches('\n').count() + 1;
                self.at.column = last.chars().count() + 1;
            }
            None => self.at.column += part.chars().count(),
        }
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct Template<'a> {
    pub(super) written: &'a str,
    pub(super) name: &'a str,
}

/// Braces around anything but a name, such as `{{ .Values.x }}`, are plain text.
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
