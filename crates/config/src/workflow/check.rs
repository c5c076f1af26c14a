//! Checks rules of a workflow that the table of keys cannot express: relations between keys, and the content of ids,
//! commands, directories and `env`.

use std::collections::HashMap;

use super::templates::{TemplateScope, templates};
use super::{COMMAND, Document, TaskAgent, TaskNode, adapters, built_in, runs, tasks};
use crate::diagnostic::{Problem, Severity, Sink};
use crate::limits;
use crate::secrets;
use crate::tools::{self, texts};
use crate::tree::{Node, Value};

/// The maximum length of an id, in bytes.
const MAX_ID_LENGTH: usize = 64;
const PROGRAM_KEYS: &[&str] = &[
    "command",
    "model",
    "cwd",
    "env",
    "idle_timeout_seconds",
    "on_interrupt",
    "sandbox",
    "approvals",
    "executionMode",
    "execution_mode",
];

pub(super) fn check(document: &Document<'_>, sink: &mut Sink<'_>) {
    if !matches!(document.root.value, Value::Map(_)) {
        return;
    }
    empty_lists(document.root, sink);
    adapters::check(document.root, built_in(document.surroundings.kinds), sink);
    let known = template_scope(document, sink);
    for task in document.tasks() {
        Checker { document, task: &task, known: &known, sink }.check();
    }
    for task in tasks(document.written) {
        check_plain_text_secrets(task.node, &task.path, sink);
    }
    for entry in document.written.get("adapters").map(Node::entries).unwrap_or_default() {
        check_plain_text_secrets(&entry.value, &format!("adapters.{}", entry.key), sink);
    }
}

fn empty_lists(root: &Node, sink: &mut Sink<'_>) {
    let mut check_not_empty = |list: &Node, path: &str, what: &str| {
        if matches!(&list.value, Value::List(items) if items.is_empty()) {
            let problem = Problem::new(format!("`{what}` is empty")).hint("add at least one");
            sink.error(list.span, path, problem);
        }
    };
    let Some(stages) = root.get("stages") else { return };
    check_not_empty(stages, "stages", "stages");
    for (index, stage) in stages.items().iter().enumerate() {
        if let Some(tasks) = stage.get("tasks") {
            check_not_empty(tasks, &format!("stages[{index}].tasks"), "tasks");
        }
    }
}

fn template_scope<'a>(document: &Document<'a>, sink: &mut Sink<'_>) -> TemplateScope<'a> {
    let mut stages = HashMap::new();
    let mut lines: HashMap<&str, usize> = HashMap::new();
    for task in document.tasks() {
        let (Some(node), Some(id)) = (task.node.get("id"), task.id()) else { continue };
        let path = format!("{}.id", task.path);
        if !adapters::is_name(id) || id.len() > MAX_ID_LENGTH {
            let problem = Problem::new(format!(
                "a task's id may contain only letters, digits, `-` and `_`, at most {MAX_ID_LENGTH} characters"
            ));
            sink.error(node.span, &path, problem.hint("choose a name such as `review-1`"));
        } else if let Some(first) = lines.get(id) {
            let problem = Problem::new(format!("two tasks are called `{id}`; the first is on line {first}"));
            sink.error(node.span, &path, problem.hint("give each task a different id"));
        } else {
            lines.insert(id, node.span.line);
            stages.insert(id, task.stage);
        }
    }
    let goal = document.root.get("goal").and_then(Node::as_text);
    let has_goal = goal.is_some_and(|goal| !goal.trim().is_empty());
    TemplateScope { stages, has_goal, text: document.source.text }
}

/// Warns about secrets in plain text: the log contains the workflow with its secrets masked, so a resumed session
/// cannot use them.
fn check_plain_text_secrets(node: &Node, path: &str, sink: &mut Sink<'_>) {
    for entry in node.get("env").map(Node::entries).unwrap_or_default() {
        let is_secret = tools::scalar(&entry.value)
            .is_some_and(|value| secrets::is_plain_text_secret(&entry.key, &value));
        if is_secret {
            let problem = Problem::new(
                "a secret is written here in plain text; it is lost when the workflow is resumed",
            );
            let hint = "put it into the environment and write `${VARIABLE}`";
            sink.warning(entry.key_span, &format!("{path}.env"), problem.hint(hint));
        }
    }
}

struct Checker<'a, 'text> {
    document: &'a Document<'a>,
    task: &'a TaskNode<'a>,
    known: &'a TemplateScope<'a>,
    sink: &'a mut Sink<'text>,
}

impl Checker<'_, '_> {
    fn check(&mut self) {
        let node = self.task.node;
        match (node.get("agent"), node.get("run")) {
            (Some(_), Some(_)) => {
                let at = node.entry("run").map_or(node.span, |entry| entry.key_span);
                let problem = Problem::new("a task has `agent` or `run`, not both");
                self.sink.error(at, &self.path("run"), problem.hint("split it into two tasks"));
            }
            (None, None) => {
                let problem = Problem::new(format!("{} needs `agent` or `run`", self.task.path));
                let hint = "add `agent: …` for one agent, or `run: {task: …}` for a run of agents";
                self.sink.error(node.span, &self.path("agent"), problem.hint(hint));
            }
            (None, Some(run)) => {
                let (path, stage) = (self.path("run"), self.task.stage);
                runs::check(self.document, run, &path, stage, self.known, self.sink);
                self.without_effect(PROGRAM_KEYS, "a run");
                self.without_effect(&["prompt"], "a run: use `run.task`");
            }
            (Some(agent), None) => self.of_agent(agent),
        }
        if let Some(prompt) = node.get("prompt") {
            self.known.check(prompt, &self.path("prompt"), self.task.stage, self.sink);
        }
        self.one_mode();
        self.directory();
        tools::check::environment(node, &self.task.path, self.sink);
    }

    fn of_agent(&mut self, agent: &Node) {
        let Some(name) = agent.as_text() else { return };
        let document = self.document;
        let Some(who) = document.find_agent(name) else {
            let path = self.path("agent");
            return self.sink.push_with(Severity::Error, agent.span, &path, || unknown(document, name));
        };
        let is_command = matches!(who, TaskAgent::BuiltIn(COMMAND));
        if is_command {
            self.command();
            self.without_effect(&["model", "approvals"], "a command");
        } else {
            self.without_effect(&["command"], "an agent: it is for `agent: command`");
        }
        match who {
            TaskAgent::Model(_) => {
                let others: Vec<&'static str> = PROGRAM_KEYS
                    .iter()
                    .copied()
                    .filter(|key| !key.starts_with("exec") && *key != "command")
                    .collect();
                self.without_effect(&others, "an agent that is a model");
                if let Some(mode) = self.task.mode().filter(|_| self.task.is_interactive()) {
                    let problem =
                        Problem::new(format!("`{name}` is a model: there is no terminal to attach to"));
                    let hint = "use `executionMode: headless`, or a CLI agent such as `claude`";
                    self.sink.error(mode.span, &self.path("executionMode"), problem.hint(hint));
                }
            }
            TaskAgent::Custom(adapter) if adapter.headless_args.is_none() && !self.task.is_interactive() => {
                let problem = Problem::new(format!("the adapter `{name}` cannot run headless"));
                let hint =
                    format!("add `headless_args` to `adapters.{name}`, or use `executionMode: interactive`");
                self.sink.error(agent.span, &self.path("agent"), problem.hint(hint));
            }
            TaskAgent::BuiltIn(_) | TaskAgent::Custom(_) | TaskAgent::Program { .. } => {}
        }
        if self.task.is_interactive() {
            self.without_effect(&["approvals"], "an interactive task: you answer in its terminal");
        } else {
            self.headless_prompt(is_command);
        }
    }

    /// Nobody can be asked while a headless task runs.
    fn headless_prompt(&mut self, may_be_blank: bool) {
        let path = self.path("prompt");
        let Some(prompt) = self.task.node.get("prompt") else {
            let at = self.task.node.entry("prompt").map_or(self.task.node.span, |entry| entry.key_span);
            let problem = Problem::new(format!("{} is headless and needs `prompt`", self.task.path));
            let hint = if may_be_blank {
                "add `prompt: …`, the command's input, or `prompt: \"\"` for none"
            } else {
                "add `prompt: …`: nobody can be asked while the agent runs"
            };
            return self.sink.error(at, &path, problem.hint(hint));
        };
        if !may_be_blank && prompt.as_text().is_some_and(|text| text.trim().is_empty()) {
            let problem = Problem::new("the prompt of a headless agent may not be blank");
            self.sink.error(prompt.span, &path, problem.hint("say what the agent should do"));
        }
    }

    fn command(&mut self) {
        let path = self.path("command");
        let Some(command) = self.task.node.get("command") else {
            let at = self.task.node.get("agent").map_or(self.task.node.span, |agent| agent.span);
            let problem = Problem::new("`agent: command` needs `command`");
            let hint = "add the program and its arguments: `command: [cargo, test]`";
            return self.sink.error(at, &path, problem.hint(hint));
        };
        let words = texts(command);
        if matches!(command.value, Value::List(_)) && words.first().is_none_or(|word| word.trim().is_empty())
        {
            let problem = Problem::new("`command` names no program");
            self.sink.error(command.span, &path, problem.hint("write `command: [program, argument, …]`"));
        }
        if let Some(node) =
            command.items().iter().find(|node| node.as_text().is_some_and(|text| text.contains('\0')))
        {
            let problem = Problem::new("an argument cannot contain a NUL character");
            self.sink.error(node.span, &path, problem.hint("remove it"));
        }
        let holds = |node: &&Node| node.as_text().is_some_and(|text| !templates(text).is_empty());
        if let Some(node) = command.items().iter().find(holds) {
            let problem = Problem::new("templates in `command` are not filled in");
            let hint = "pass the output to the command as its input: `prompt: \"{{id.output}}\"`";
            self.sink.warning(node.span, &path, problem.hint(hint));
        }
    }

    fn one_mode(&mut self) {
        let node = self.task.node;
        if let (Some(_), Some(other)) = (node.get("executionMode"), node.get("execution_mode")) {
            let problem = Problem::new("`executionMode` and `execution_mode` are the same key");
            self.sink.error(other.span, &self.path("execution_mode"), problem.hint("keep one of the two"));
        }
    }

    fn directory(&mut self) {
        let Some(cwd) = self.task.node.get("cwd").filter(|cwd| cwd.unset().is_empty()) else { return };
        let problem = match cwd.as_text() {
            Some(text) if text.trim().is_empty() => Problem::new("`cwd` is blank").hint("name a directory"),
            Some(text) if text.starts_with('~') => {
                Problem::new("`~` is not expanded here").hint("write `${HOME}` instead")
            }
            _ => return,
        };
        self.sink.error(cwd.span, &self.path("cwd"), problem);
    }

    fn without_effect(&mut self, keys: &[&'static str], on: &str) {
        for key in keys {
            if let Some(entry) = self.task.node.entry(key).filter(|entry| !entry.value.is_null()) {
                let problem = Problem::new(format!("`{key}` has no effect for {on}"));
                self.sink.warning(entry.key_span, &self.path(key), problem.hint("remove the key"));
            }
        }
    }

    fn path(&self, key: &str) -> String {
        format!("{}.{key}", self.task.path)
    }
}

fn unknown(document: &Document<'_>, name: &str) -> Problem {
    let shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    let problem = Problem::new(format!("there is no agent or adapter `{shown}`"));
    let names = document.names();
    if let Some(near) = althing_text::nearest(name, names.iter().copied().take(limits::MAX_COMPARED)) {
        return problem.hint(format!("did you mean `{near}`?"));
    }
    let some: Vec<&str> = names.into_iter().take(30).collect();
    problem.hint(format!("use one of: {}", some.join(", ")))
}
